// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * VMs of the KVM engine with interrupt controllers: PMIs through LVTPC and the shadow of its mask,
 * what ends the wait in HLT, alarms of the vCPU's thread, and INs that stand for RDPMC. Skipped
 * where /dev/kvm cannot be used; the nested bed runs it on a real KVM.
 */
#include "kvm_bed.h"

#include <errno.h>
#include <pthread.h>
#include <time.h>

TestSuite(kvm_irqchip, .fini = guest_end);

/* x2APIC mode, the APIC on, and LVTPC as the test has put it into EBX. */
#define APIC_ON                                                                                    \
	"mov $0x1b, %ecx\n rdmsr\n or $0xc00, %eax\n wrmsr\n"                                      \
	"mov $0x80f, %ecx\n mov $0x1ff, %eax\n xor %edx, %edx\n wrmsr\n"                           \
	"mov $0x834, %ecx\n mov %ebx, %eax\n wrmsr\n"
/* Say 1, and again; in between the test raises PMIs. Then write GLOBAL_CTRL, and once more. */
GUEST(pmi,
      APIC_ON "sti\n mov $1, %eax\n out %eax, $0xf4\n out %eax, $0xf4\n"
	      "mov $2, %eax\n out %eax, $0xf4\n"
	      "mov $0x38f, %ecx\n xor %eax, %eax\n xor %edx, %edx\n wrmsr\n"
	      "mov $3, %eax\n out %eax, $0xf4\n mov $4, %eax\n out %eax, $0xf4\n hlt\n"
	      ".globl guest_pmi_nmi, guest_pmi_fixed\n"
	      "guest_pmi_nmi: push %rax\n mov $0x77, %eax\n out %eax, $0xf5\n pop %rax\n iretq\n"
	      "guest_pmi_fixed: push %rax\n push %rcx\n push %rdx\n mov $0x66, %eax\n"
	      "out %eax, $0xf5\n mov $0x80b, %ecx\n xor %eax, %eax\n xor %edx, %edx\n wrmsr\n"
	      "pop %rdx\n pop %rcx\n pop %rax\n iretq");
extern const char guest_pmi_nmi[], guest_pmi_fixed[];

#define VECTOR 0x41

static void start_pmi(struct guest *g, uint32_t lvtpc, const char *vendor)
{
	struct kvm_regs regs;

	START_HOW(g, pmi, .irqchip = true, .vendor = vendor);
	set_gate(g, 2, CODE + (uint64_t)(guest_pmi_nmi - guest_pmi));
	set_gate(g, VECTOR, CODE + (uint64_t)(guest_pmi_fixed - guest_pmi));
	cr_assert(!ops->get_regs(g->vcpu, &regs));
	regs.rbx = lvtpc;
	cr_assert(!ops->set_regs(g->vcpu, &regs));
	EXPECT_OUT(g, 0xf4, 4, 1);
}

/* Let the guest write GLOBAL_CTRL. */
static void expect_rearm(struct guest *g)
{
	cr_assert(run(g) == VMM_EXIT_WRMSR && g->run.u.msr.index == 0x38f);
	g->run.u.msr.fault = false;
}

static const char *const amd = "AuthenticAMD", *const intel = "GenuineIntel";

Test(kvm_irqchip, pmi_is_an_nmi)
{
	start_pmi(&g, 0x400, amd);
	cr_assert(!ops->pmi(g.vcpu));
	EXPECT_OUT(&g, 0xf5, 4, 0x77);
	EXPECT_OUT(&g, 0xf4, 4, 1);
	/* AMD: nothing is masked by the first one. */
	cr_assert(!ops->pmi(g.vcpu));
	EXPECT_OUT(&g, 0xf5, 4, 0x77);
	EXPECT_OUT(&g, 0xf4, 4, 2);
}

Test(kvm_irqchip, pmi_is_a_vector)
{
	start_pmi(&g, VECTOR, amd);
	cr_assert(!ops->pmi(g.vcpu));
	EXPECT_OUT(&g, 0xf5, 4, 0x66);
	EXPECT_OUT(&g, 0xf4, 4, 1);
}

Test(kvm_irqchip, intel_masks_until_it_is_armed_again)
{
	start_pmi(&g, 0x400, intel);
	cr_assert(!ops->pmi(g.vcpu));
	EXPECT_OUT(&g, 0xf5, 4, 0x77);
	EXPECT_OUT(&g, 0xf4, 4, 1);
	cr_assert(!ops->pmi(g.vcpu)); /* lost */
	EXPECT_OUT(&g, 0xf4, 4, 2);
	expect_rearm(&g);
	EXPECT_OUT(&g, 0xf4, 4, 3);
	cr_assert(!ops->pmi(g.vcpu));
	EXPECT_OUT(&g, 0xf5, 4, 0x77);
	EXPECT_OUT(&g, 0xf4, 4, 4);
}

/* A masked entry, a mode that LVTPC does not have, and an illegal vector. */
Test(kvm_irqchip, pmi_is_lost)
{
	static const uint32_t lvtpc[] = {0x10400, 0x10000 | VECTOR, 0x200, 0x5};

	for (size_t i = 0; i < sizeof(lvtpc) / sizeof(lvtpc[0]); i++) {
		start_pmi(&g, lvtpc[i], intel);
		cr_assert(!ops->pmi(g.vcpu));
		EXPECT_OUT(&g, 0xf4, 4, 1);
		EXPECT_OUT(&g, 0xf4, 4, 2);
		stop(&g);
	}
}

GUEST(idle, "1: hlt\n jmp 1b");

Test(kvm_irqchip, refusals)
{
	START_HOW(&g, idle, .irqchip = true);
	cr_expect(ops->irqchip_create(g.vm) == -EEXIST);
	cr_expect(ops->irq_line(g.vm, VMM_IRQCHIP_PINS, true) == -ENXIO);
	cr_expect(ops->irq_line(g.vm, UINT32_MAX, true) == -ENXIO);
	cr_expect(ops->irq_line(g.vm, VMM_IRQCHIP_PINS - 1, true) == 0);
	cr_expect(ops->irq_line(g.vm, VMM_IRQCHIP_PINS - 1, false) == 0);
	cr_expect(ops->interrupt(g.vcpu, 0x30) == -EOPNOTSUPP);
	stop(&g);
	START(&g, idle);
	cr_expect(ops->irqchip_create(g.vm) == -EBUSY);
	cr_expect(ops->irq_line(g.vm, 4, true) == -ENXIO);
	cr_expect(ops->pmi(g.vcpu) == -EOPNOTSUPP);
}

/* ---- waiting ---- */

static void *kick_late(void *arg)
{
	struct timespec ms = {.tv_nsec = 20000000};

	nanosleep(&ms, NULL);
	ops->kick(arg);
	return NULL;
}

/* FED803C0H, where AMD's chipsets have the reason of a reset, and 512 MiB */
GUEST(hole, "mov $0x3ff803c0, %ebx\n"
	    "movl $5, (%rbx)\n mov (%rbx), %eax\n out %eax, $0xf5\n"
	    "mov (%rbx), %rax\n shr $32, %rax\n out %eax, $0xf5\n"
	    "xor %eax, %eax\n mov (%rbx), %al\n out %eax, $0xf5\n"
	    "mov 0x20000000, %eax\n hlt");

/* As on a PC, and on the emulator: no device answers loads below 4 GiB by ones, and stores are
 * lost. */
Test(kvm_irqchip, nothing_is_at_an_address_of_devices)
{
	for (int irqchip = 1; irqchip >= 0; irqchip--) {
		START_HOW(&g, hole, .irqchip = irqchip);
		put64(&g, PAGES + 0x2000 + 8 * 511, 0xfec00000 | 0x83);
		if (irqchip) {
			EXPECT_OUT(&g, 0xf5, 4, 0xffffffff);
			EXPECT_OUT(&g, 0xf5, 4, 0xffffffff);
			EXPECT_OUT(&g, 0xf5, 4, 0xff);
		}
		cr_assert_eq(run(&g), VMM_EXIT_ERROR);
		cr_expect(strstr(g.run.u.error.msg,
				 irqchip ? "read of guest-physical 0x20000000, where there is no"
					 : "write to guest-physical 0xfed803c0"),
			  "%s", g.run.u.error.msg);
		stop(&g);
	}
}

/* KVM itself waits in HLT, and for a start-up IPI: a kick takes the vCPU out of both. */
Test(kvm_irqchip, a_kick_ends_the_wait)
{
	struct vmm_engine_vcpu *other, *first;
	pthread_t t;

	START_HOW(&g, idle, .irqchip = true);
	cr_assert(!ops->vcpu_create(g.vm, 1, &other));
	first = g.vcpu;
	for (int i = 0; i < 2; i++) {
		g.vcpu = i ? other : first;
		cr_assert(!pthread_create(&t, NULL, kick_late, g.vcpu));
		cr_expect(run(&g) == VMM_EXIT_INTR, "vCPU %d", i);
		pthread_join(t, NULL);
	}
	g.vcpu = first;
	ops->vcpu_destroy(other);
}

/* ---- alarms ---- */

GUEST(spin, "1: jmp 1b");

static void alarm_self(void)
{
	syscall(SYS_tgkill, getpid(), (int)syscall(SYS_gettid), VMM_ALARM_SIGNAL);
}

Test(kvm_irqchip, an_alarm_before_run)
{
	START(&g, spin);
	ops->kick(g.vcpu);
	cr_expect(run(&g) == VMM_EXIT_INTR); /* the thread takes signals from its first run on */
	alarm_self();
	alarm_self();
	cr_expect(run(&g) == VMM_EXIT_ALARM);
	/* A kick beside an alarm is not lost. */
	ops->kick(g.vcpu);
	alarm_self();
	cr_expect(run(&g) == VMM_EXIT_ALARM);
	cr_expect(run(&g) == VMM_EXIT_INTR);
	/* The kernel's substitute when its queue is full. */
	syscall(SYS_tgkill, getpid(), (int)syscall(SYS_gettid), SIGIO);
	cr_expect(run(&g) == VMM_EXIT_ALARM);
}

/* The engine's ioctl: see CMakeLists.txt. */
int __real_ioctl(int fd, unsigned long request, void *arg);
int __wrap_ioctl(int fd, unsigned long request, void *arg);
static bool alarm_at_entry, kick_at_entry;
static struct vmm_engine_vcpu *at_entry;

int __wrap_ioctl(int fd, unsigned long request, void *arg)
{
	if (request == KVM_RUN && alarm_at_entry) {
		alarm_at_entry = false;
		alarm_self();
	}
	if (request == KVM_RUN && kick_at_entry) {
		kick_at_entry = false;
		ops->kick(at_entry);
	}
	return __real_ioctl(fd, request, arg);
}

GUEST(outs, "1: out %eax, $0xf4\n jmp 1b");

/* The last moment before the guest: nothing of it may be executed. */
Test(kvm_irqchip, just_before_the_guest_is_entered)
{
	START(&g, outs);
	EXPECT_OUT(&g, 0xf4, 4, 0);
	at_entry = g.vcpu;
	alarm_at_entry = true;
	cr_expect(run(&g) == VMM_EXIT_ALARM);
	EXPECT_OUT(&g, 0xf4, 4, 0);
	alarm_at_entry = kick_at_entry = true;
	cr_expect(run(&g) == VMM_EXIT_ALARM);
	cr_expect(run(&g) == VMM_EXIT_INTR);
	EXPECT_OUT(&g, 0xf4, 4, 0);
	kick_at_entry = true;
	cr_expect(run(&g) == VMM_EXIT_INTR);
}

static void every_alarm(bool kicks)
{
	struct kicker a = {.tid = (int)syscall(SYS_gettid)};
	struct guest g;
	pthread_t t;

	START(&g, spin);
	ops->kick(g.vcpu);
	cr_assert(run(&g) == VMM_EXIT_INTR);
	a.v = kicks ? g.vcpu : NULL;
	cr_assert(!sem_init(&a.go, 0, 0));
	cr_assert(!pthread_create(&t, NULL, kicker, &a));
	for (unsigned int i = 0; i < 1000; i++) {
		bool alarm = false, kick = !kicks;

		sem_post(&a.go);
		/* A lost one would hang here. */
		while (!alarm || !kick) {
			cr_assert(run(&g) == VMM_EXIT_ALARM || g.run.exit == VMM_EXIT_INTR);
			alarm |= g.run.exit == VMM_EXIT_ALARM;
			kick |= g.run.exit == VMM_EXIT_INTR;
		}
	}
	atomic_store(&a.over, true);
	sem_post(&a.go);
	pthread_join(t, NULL);
	stop(&g);
}

Test(kvm_irqchip, every_alarm_arrives)
{
	every_alarm(false);
}

Test(kvm_irqchip, every_alarm_and_every_kick_arrives)
{
	every_alarm(true);
}

/* ---- RDPMC ---- */

GUEST(rdpmc, "mov $0x40000001, %ecx\n mov $0x11, %edx\n guest_rdpmc_site: in $0x33, %eax\n"
	     "out %eax, $0xf4\n mov %edx, %eax\n out %eax, $0xf4\n"
	     "in $0x33, %eax\n out %eax, $0xf4\n"
	     "guest_rdpmc_site2: in $0x33, %eax\n out %eax, $0xf4\n hlt");
extern const char guest_rdpmc_site[], guest_rdpmc_site2[];

Test(kvm_irqchip, an_in_that_stands_for_rdpmc)
{
	const uint64_t sites[] = {CODE + (uint64_t)(guest_rdpmc_site2 - guest_rdpmc),
				  CODE + (uint64_t)(guest_rdpmc_site - guest_rdpmc)};

	START(&g, rdpmc);
	cr_assert(!ops->rdpmc_sites(g.vm, sites, 2));
	cr_assert(run(&g) == VMM_EXIT_RDPMC);
	cr_expect(g.run.u.pmc.index == 0x40000001);
	g.run.u.pmc.data = 0x123489abcdefULL;
	g.run.u.pmc.fault = false;
	EXPECT_OUT(&g, 0xf4, 4, 0x89abcdef);
	EXPECT_OUT(&g, 0xf4, 4, 0x1234);
	/* Elsewhere it is as named. */
	cr_assert(run(&g) == VMM_EXIT_IO && g.run.u.io.in && g.run.u.io.port == 0x33);
	g.run.u.io.data = 5;
	EXPECT_OUT(&g, 0xf4, 4, 5);
	/* A counter that does not exist, and a kick before the answer is taken. */
	cr_assert(run(&g) == VMM_EXIT_RDPMC);
	g.run.u.pmc.data = 9;
	g.run.u.pmc.fault = true;
	ops->kick(g.vcpu);
	cr_assert(run(&g) == VMM_EXIT_INTR);
	EXPECT_OUT(&g, 0xf4, 4, 0);
}
