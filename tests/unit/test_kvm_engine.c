// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The KVM engine against small 64-bit guests, all at CPL 0 and within what an interpreting KVM can
 * do (no INT3, no CMPXCHG16B). Skipped where /dev/kvm cannot be used.
 */
#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/time.h>

#include "kvm_bed.h"
#include "vpmu/guest/abi.h"

TestSuite(kvm_engine, .fini = guest_end);

/* ---- ports, HLT ---------------------------------------------------------------------------- */

GUEST(io, "mov $0x3f8, %edx\n mov $0x41, %eax\n out %al, %dx\n"
	  "mov $0x1234, %eax\n out %ax, %dx\n"
	  "mov $0x89abcdef, %eax\n out %eax, %dx\n"
	  "mov $0xffffffff, %eax\n in $0x60, %al\n out %eax, $0xf4\n"
	  "xor %eax, %eax\n in $0x60, %eax\n out %eax, $0xf4\n"
	  "hlt\n mov $7, %al\n out %al, $0xf4\n hlt");

Test(kvm_engine, ports_and_hlt)
{
	START(&g, io);
	EXPECT_OUT(&g, 0x3f8, 1, 0x41);
	EXPECT_OUT(&g, 0x3f8, 2, 0x1234);
	EXPECT_OUT(&g, 0x3f8, 4, 0x89abcdef);

	cr_assert(run(&g) == VMM_EXIT_IO && g.run.u.io.in);
	cr_expect(g.run.u.io.port == 0x60 && g.run.u.io.size == 1);
	g.run.u.io.data = 0xabcd5a; /* only the element's bytes go in */
	EXPECT_OUT(&g, 0xf4, 4, 0xffffff5a);

	cr_assert(run(&g) == VMM_EXIT_IO && g.run.u.io.in && g.run.u.io.size == 4);
	g.run.u.io.data = 0xcafebabe;
	EXPECT_OUT(&g, 0xf4, 4, 0xcafebabe);

	cr_expect(run(&g) == VMM_EXIT_HLT);
	cr_expect(g.run.retired == 0);
	/* Nothing wakes it, but a kick is noticed. */
	cr_expect(run(&g) == VMM_EXIT_HLT);
	ops->kick(g.vcpu);
	cr_expect(run(&g) == VMM_EXIT_INTR);
	cr_expect(run(&g) == VMM_EXIT_HLT);
	/* HLT has retired: RIP is behind it */
	wake(&g);
	EXPECT_OUT(&g, 0xf4, 1, 7);
	cr_expect(run(&g) == VMM_EXIT_HLT);
}

GUEST(outs, "mov $0x80000, %esi\n mov $0x3f8, %edx\n mov $5, %ecx\n cld\n rep outsb\n"
	    "mov $0x80000, %edi\n mov $0x60, %edx\n mov $3, %ecx\n rep insw\n"
	    "mov %ecx, %eax\n out %eax, $0xf4\n hlt");

Test(kvm_engine, string_io_comes_one_element_at_a_time)
{
	uint16_t in[3];

	START(&g, outs);
	memcpy(g.ram + BUFFER, "hello", 5);
	for (size_t i = 0; i < 5; i++) {
		EXPECT_OUT(&g, 0x3f8, 1, "hello"[i]);
		/* a kick between two elements loses neither */
		if (i == 2) {
			ops->kick(g.vcpu);
			cr_expect(run(&g) == VMM_EXIT_INTR);
		}
	}
	for (uint32_t i = 0; i < 3; i++) {
		cr_assert(run(&g) == VMM_EXIT_IO && g.run.u.io.in);
		cr_expect(g.run.u.io.port == 0x60 && g.run.u.io.size == 2);
		g.run.u.io.data = 0x1100 * (i + 1);
	}
	EXPECT_OUT(&g, 0xf4, 4, 0);
	memcpy(in, g.ram + BUFFER, sizeof(in));
	cr_expect(in[0] == 0x1100 && in[1] == 0x2200 && in[2] == 0x3300);
	cr_expect(run(&g) == VMM_EXIT_HLT);
}

/* ---- MSRs ------------------------------------------------------------------------------------ */

#define OUT_MSR "out %eax, $0xf4\n mov %edx, %eax\n out %eax, $0xf4\n"

GUEST(msr, "mov $0x186, %ecx\n rdmsr\n" OUT_MSR
	   "mov $0xc2, %ecx\n mov $0x89abcdef, %eax\n mov $0x1234, %edx\n wrmsr\n"
	   "mov $0x56504d00, %ecx\n rdmsr\n" OUT_MSR "mov $0x56504d01, %ecx\n wrmsr\n"
	   "hlt");

Test(kvm_engine, msr_exits)
{
	START(&g, msr);
	/* filtered */
	cr_assert(run(&g) == VMM_EXIT_RDMSR);
	cr_expect(g.run.u.msr.index == 0x186 && !g.run.u.msr.fault);
	g.run.u.msr.data = 0xfedcba9876543210;
	EXPECT_OUT(&g, 0xf4, 4, 0x76543210);
	EXPECT_OUT(&g, 0xf4, 4, 0xfedcba98);
	cr_assert(run(&g) == VMM_EXIT_WRMSR);
	cr_expect(g.run.u.msr.index == 0xc2 && g.run.u.msr.data == 0x123489abcdef &&
		  !g.run.u.msr.fault);
	/* unknown to KVM */
	cr_assert(run(&g) == VMM_EXIT_RDMSR);
	cr_expect(g.run.u.msr.index == VPMU_PV_MSR_BASE);
	g.run.u.msr.data = 99;
	EXPECT_OUT(&g, 0xf4, 4, 99);
	EXPECT_OUT(&g, 0xf4, 4, 0);
	cr_assert(run(&g) == VMM_EXIT_WRMSR);
	cr_expect(g.run.u.msr.index == VPMU_PV_MSR_BASE + 1);
	cr_expect(run(&g) == VMM_EXIT_HLT);
}

/* #GP handler at +0x40: error code and faulting RIP to the exit port. */
GUEST(fault, "mov $0x186, %ecx\n rdmsr\n hlt\n"
	     "mov $0x187, %ecx\n wrmsr\n hlt\n"
	     ".org guest_fault + 0x40\n"
	     "pop %rax\n out %eax, $0xf4\n mov (%rsp), %rax\n out %eax, $0xf4\n addq $2, (%rsp)\n"
	     "iretq");

Test(kvm_engine, msr_faults)
{
	START(&g, fault);
	set_gate(&g, 13, CODE + 0x40);
	cr_assert(run(&g) == VMM_EXIT_RDMSR);
	g.run.u.msr.fault = true;
	EXPECT_OUT(&g, 0xf4, 4, 0);
	EXPECT_OUT(&g, 0xf4, 4, CODE + 5); /* the RDMSR itself */
	cr_expect(run(&g) == VMM_EXIT_HLT);
	wake(&g);
	cr_assert(run(&g) == VMM_EXIT_WRMSR);
	g.run.u.msr.fault = true;
	EXPECT_OUT(&g, 0xf4, 4, 0);
	EXPECT_OUT(&g, 0xf4, 4, CODE + 13);
	cr_expect(run(&g) == VMM_EXIT_HLT);
}

Test(kvm_engine, msr_ranges)
{
	struct vpmu_msr_range many[25] = {{0, 0}}, big[2] = {{0xc1, 0x10000}, {0, 0}};

	START(&g, msr);
	/* 24 ranges that touch or overlap are three */
	for (uint32_t i = 0; i < 24; i++)
		many[i] = (struct vpmu_msr_range){0x1000 * (i % 3 + 1) + 4 * (i / 3), 6};
	cr_expect(!ops->vm_trap_msrs(g.vm, many));
	/* 24 that do not are more than KVM takes */
	for (uint32_t i = 0; i < 24; i++)
		many[i] = (struct vpmu_msr_range){0x1000 * (i + 1), 4};
	cr_expect(ops->vm_trap_msrs(g.vm, many) == -E2BIG);
	cr_expect(ops->vm_trap_msrs(g.vm, big) == -E2BIG);
}

/* ---- what ends a guest -------------------------------------------------------------------------
 */

GUEST(ud2, "ud2");

Test(kvm_engine, triple_fault)
{
	struct kvm_sregs s;

	START(&g, ud2);
	cr_assert(!ops->get_sregs(g.vcpu, &s));
	s.idt.limit = 0;
	cr_assert(!ops->set_sregs(g.vcpu, &s));
	cr_expect(run(&g) == VMM_EXIT_SHUTDOWN);
}

GUEST(mmio, "mov $0x20000000, %ebx\n mov (%rbx), %eax\n hlt");

Test(kvm_engine, access_outside_of_memory_is_an_error)
{
	START(&g, mmio);
	cr_assert(run(&g) == VMM_EXIT_ERROR, "exit %d", g.run.exit);
	cr_expect(strstr(g.run.u.error.msg, "0x20000000") &&
			  strstr(g.run.u.error.msg, "RIP 0x10000"),
		  "%s", g.run.u.error.msg);
	cr_expect(g.run.u.error.rip == rip(&g));
}

/* ---- kicks -------------------------------------------------------------------------------------
 */

GUEST(spin, "1: inc %rax\n jmp 1b");

struct kicker {
	struct guest *g;
	sem_t go;
	atomic_bool over;
};

static void *kicker(void *arg)
{
	struct kicker *k = arg;
	unsigned int delay = 1;

	for (;;) {
		sem_wait(&k->go);
		if (atomic_load(&k->over))
			return NULL;
		/* before, at and after the vCPU enters the guest */
		delay = delay * 1103515245 + 12345;
		for (volatile unsigned int i = delay >> 16 & 0x3fff; i; i--)
			;
		ops->kick(k->g->vcpu);
	}
}

Test(kvm_engine, every_kick_from_another_thread_arrives)
{
	struct kicker k = {.g = &g};
	pthread_t t;

	START(&g, spin);
	cr_assert(!sem_init(&k.go, 0, 0));
	cr_assert(!pthread_create(&t, NULL, kicker, &k));
	for (unsigned int i = 0; i < 3000; i++) {
		sem_post(&k.go);
		/* a lost kick would hang here */
		cr_assert(run(&g) == VMM_EXIT_INTR);
	}
	atomic_store(&k.over, true);
	sem_post(&k.go);
	pthread_join(t, NULL);
}

Test(kvm_engine, a_kick_before_run_counts_once)
{
	uint64_t before;

	START(&g, io);
	ops->kick(g.vcpu);
	ops->kick(g.vcpu);
	before = rip(&g);
	cr_expect(run(&g) == VMM_EXIT_INTR);
	cr_expect(rip(&g) == before);
	EXPECT_OUT(&g, 0x3f8, 1, 0x41);
}

Test(kvm_engine, a_kick_does_not_lose_an_answer)
{
	START(&g, io);
	EXPECT_OUT(&g, 0x3f8, 1, 0x41);
	EXPECT_OUT(&g, 0x3f8, 2, 0x1234);
	EXPECT_OUT(&g, 0x3f8, 4, 0x89abcdef);
	cr_assert(run(&g) == VMM_EXIT_IO && g.run.u.io.in);
	g.run.u.io.data = 0x77;
	ops->kick(g.vcpu);
	cr_assert(run(&g) == VMM_EXIT_INTR);
	EXPECT_OUT(&g, 0xf4, 4, 0xffffff77);
}

static struct guest *alarmed;
static volatile sig_atomic_t alarms;

static void on_alarm(int sig)
{
	/* kick() is async-signal-safe; the first alarms only interrupt */
	if (++alarms == 5)
		ops->kick(alarmed->vcpu);
}

Test(kvm_engine, other_signals_do_not_end_run)
{
	struct itimerval every_ms = {{0, 1000}, {0, 1000}}, off = {{0, 0}, {0, 0}};
	struct sigaction sa = {.sa_handler = on_alarm};
	sigset_t all;

	START(&g, spin);
	alarmed = &g;
	/* a thread that blocks everything can be kicked all the same */
	sigfillset(&all);
	sigdelset(&all, SIGALRM);
	pthread_sigmask(SIG_BLOCK, &all, NULL);
	cr_assert(!sigaction(SIGALRM, &sa, NULL));
	cr_assert(!setitimer(ITIMER_REAL, &every_ms, NULL));
	cr_expect(run(&g) == VMM_EXIT_INTR);
	cr_expect(alarms >= 5);
	setitimer(ITIMER_REAL, &off, NULL);
}

/* ---- interrupts --------------------------------------------------------------------------------
 */

/*
 * Handlers at +0x40 (vector 0x40) and +0x60 (NMI). IF stays set for a while, as an interpreting KVM
 * offers its interrupt window between blocks of instructions only.
 */
GUEST(irq, "mov $1, %al\n out %al, $0xf4\n sti\n mov $100000, %ecx\n1: dec %ecx\n jnz 1b\n cli\n "
	   "mov $2, %al\n out %al, $0xf4\n hlt\n"
	   ".org guest_irq + 0x40\n mov $0x40, %al\n out %al, $0xf4\n iretq\n"
	   ".org guest_irq + 0x60\n mov $0x60, %al\n out %al, $0xf4\n iretq");

Test(kvm_engine, interrupt_waits_for_if)
{
	START(&g, irq);
	set_gate(&g, 0x40, CODE + 0x40);
	cr_expect(!ops->interrupt(g.vcpu, 0x40));
	cr_expect(ops->interrupt(g.vcpu, 0x41) == -EBUSY);
	EXPECT_OUT(&g, 0xf4, 1, 1); /* IF is clear: not yet */
	EXPECT_OUT(&g, 0xf4, 1, 0x40);
	EXPECT_OUT(&g, 0xf4, 1, 2);
	/* that one is taken: another may be queued, and waits for IF, which never comes */
	cr_expect(!ops->interrupt(g.vcpu, 0x40));
	cr_expect(run(&g) == VMM_EXIT_HLT);
}

/* An interrupt ends HLT if IF is set, an NMI always. */
GUEST(sleep, "mov $1, %al\n out %al, $0xf4\n sti\n hlt\n cli\n mov $2, %al\n out %al, $0xf4\n hlt\n"
	     "mov $3, %al\n out %al, $0xf4\n hlt\n"
	     ".org guest_sleep + 0x40\n mov $0x40, %al\n out %al, $0xf4\n iretq\n"
	     ".org guest_sleep + 0x60\n mov $0x60, %al\n out %al, $0xf4\n iretq");

Test(kvm_engine, what_ends_hlt)
{
	START(&g, sleep);
	set_gate(&g, 0x40, CODE + 0x40);
	set_gate(&g, 2, CODE + 0x60);
	EXPECT_OUT(&g, 0xf4, 1, 1);
	cr_assert(run(&g) == VMM_EXIT_HLT);
	cr_assert(run(&g) == VMM_EXIT_HLT);
	cr_expect(!ops->interrupt(g.vcpu, 0x40));
	EXPECT_OUT(&g, 0xf4, 1, 0x40);
	EXPECT_OUT(&g, 0xf4, 1, 2);
	cr_assert(run(&g) == VMM_EXIT_HLT);
	cr_expect(!ops->interrupt(g.vcpu, 0x40));
	cr_assert(run(&g) == VMM_EXIT_HLT);
	cr_expect(!ops->nmi(g.vcpu));
	EXPECT_OUT(&g, 0xf4, 1, 0x60);
	EXPECT_OUT(&g, 0xf4, 1, 3);
	cr_assert(run(&g) == VMM_EXIT_HLT);
}

Test(kvm_engine, nmi_does_not_wait)
{
	START(&g, irq);
	set_gate(&g, 2, CODE + 0x60);
	EXPECT_OUT(&g, 0xf4, 1, 1);
	cr_expect(!ops->nmi(g.vcpu));
	cr_expect(ops->nmi(g.vcpu) == -EBUSY);
	EXPECT_OUT(&g, 0xf4, 1, 0x60);
	EXPECT_OUT(&g, 0xf4, 1, 2);
	cr_expect(run(&g) == VMM_EXIT_HLT);
}

/* ---- the rest
 * ------------------------------------------------------------------------------------ */

static uint64_t ticks(struct guest *g)
{
	uint64_t t = ~0ull;

	cr_assert(!ops->guest_tsc(g->vcpu, &t));
	return t;
}

Test(kvm_engine, guest_tsc_grows_only_inside_of_run)
{
	uint64_t last = 0;

	START(&g, msr);
	cr_expect(ticks(&g) == 0);
	while (run(&g) != VMM_EXIT_HLT) {
		uint64_t now = ticks(&g);

		cr_expect(now > last);
		cr_expect(ticks(&g) == now);
		last = now;
		g.run.u.msr.data = 0;
	}
}

Test(kvm_engine, bad_memory_is_refused)
{
	static const struct {
		int line;
		uint64_t off, low, at, high;
	} rows[] = {
		{__LINE__, 0, 0, 4ull << 30, 2 << 20},
		{__LINE__, 0, 4096, 4ull << 30, 2 << 20},
		{__LINE__, 1, 2 << 20, 4ull << 30, 2 << 20},
		{__LINE__, 0, 2 << 20, 1 << 20, 2 << 20},
		{__LINE__, 0, VMM_KVM_RESERVED + (2 << 20), 4ull << 30, 2 << 20},
		{__LINE__, 0, 2 << 20, VMM_KVM_RESERVED, 2 << 20},
	};
	struct vmm_engine_vm *vm;

	START(&g, io);
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct vmm_ram ram = {.base = g.ram + rows[i].off,
				      .nr = 2,
				      .slot = {{0, rows[i].low}, {rows[i].at, rows[i].high}}};

		cr_expect(ops->vm_create(g.engine, &ram, &vm) == -EINVAL, "line %d", rows[i].line);
	}
}

Test(kvm_engine, a_device_that_cannot_be_used_is_named)
{
	struct vmm_engine *e = NULL;
	char why[200] = "";

	cr_expect(vmm_kvm_open_path("/nonexistent/kvm", &e, why, sizeof(why)) == -ENOENT);
	cr_expect(!strncmp(why, "/nonexistent/kvm: No such file", 30), "%s", why);
	cr_expect(strstr(why, "emulator engine") && !strchr(why, '\n'), "%s", why);
	cr_expect(vmm_kvm_open_path("/dev/null", &e, why, sizeof(why)) == -ENODEV);
	cr_expect(strstr(why, "/dev/null: not a KVM device"), "%s", why);
	cr_expect(vmm_kvm_open_path("/", &e, why, sizeof(why)) == -EISDIR);
	cr_expect(!e);
	/* the text is optional */
	cr_expect(vmm_kvm_open_path("/nonexistent/kvm", &e, NULL, 0) == -ENOENT);
}
