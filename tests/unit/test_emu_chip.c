// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * vmm/emu: VMs with interrupt controllers, through the engine's operations. Guests of several
 * vCPUs program local APICs in both modes and the I/O APIC, send IPIs, start each other, halt, and
 * read clocks. Everything that is compared repeats exactly, whatever the budgets of run() are.
 */
#include <errno.h>
#include <pthread.h>
#include <time.h>

#include "emu_bed.h"
#include "vmm/emu/irqchip/chip.h"

#define HANDLERS (BED_DATA + 0x40000) /* 32 bytes per vector: log the vector, EOI, IRETQ */
#define LOG(n)	 (BED_DATA + (n)*0x1000)
#define VCPUS	 4

/* Of the APIC's page, which is mapped at BED_WIN; the I/O APIC's is behind it. */
#define STR_(x) #x
#define STR(x)	STR_(x)
#define WIN	0x40000000
/* RBX is BED_WIN. Write @val to the register at @off; append the register to the log. */
#define XW(off, val) "movl $" #val "," #off "(%rbx)\n"
#define XR(off)	     "mov " #off "(%rbx),%eax\nmov %eax,(%rdi)\nadd $4,%rdi\n"
#define W(msr, val)  "mov $" #msr ",%ecx\nmov $" #val ",%eax\nxor %edx,%edx\nwrmsr\n"
#define R(msr)	     "mov $" #msr ",%ecx\nrdmsr\nmov %eax,(%rdi)\nadd $4,%rdi\n"
#define L(x)	     "movl $" #x ",(%rdi)\nadd $4,%rdi\n"
#define IO(reg, val) "movl $" #reg ",0x1000(%rbx)\nmovl $" #val ",0x1010(%rbx)\n"
#define IOR(reg)                                                                                   \
	"movl $" #reg ",0x1000(%rbx)\nmov 0x1010(%rbx),%eax\nmov %eax,(%rdi)\nadd $4,%rdi\n"
#define XENABLE XW(0xf0, 0x1ff)
#define ENABLE	W(0x80f, 0x1ff)

struct chip_bed {
	struct bed b;
	struct vmm_engine_vcpu *v[VCPUS];
	struct vpmu_emu_tally t[VCPUS];
	struct vmm_run run[VCPUS];
	unsigned int nr;
	unsigned int woken[VCPUS]; /* calls of wake() */
	uint64_t time;		   /* of the waker */
};

static void on_wake(void *arg, unsigned int id)
{
	struct chip_bed *c = arg;

	cr_assert_lt(id, c->nr);
	c->woken[id]++;
}

static uint64_t on_time(void *arg)
{
	return ((struct chip_bed *)arg)->time;
}

static void cpuid(struct vmm_engine_vcpu *v, bool intel)
{
	struct kvm_cpuid_entry2 e[2] = {{.function = 0}, {.function = 1, .eax = 0x50654}};

	memcpy(&e[0].ebx, intel ? "Genu" : "Auth", 4);
	memcpy(&e[0].edx, intel ? "ineI" : "enti", 4);
	memcpy(&e[0].ecx, intel ? "ntel" : "cAMD", 4);
	e[1].ecx = 1u << 24; /* TSC deadline */
	cr_assert_eq(vmm_emu_ops.set_cpuid(v, e, 2), 0);
}

/* Let vCPU @i execute @code from the beginning, in 64-bit mode. */
static void put(struct chip_bed *c, unsigned int i, const uint8_t *code, const uint8_t *end)
{
	uint64_t at = BED_CODE + i * 0x1000;
	struct kvm_regs r = {.rip = at,
			     .rsp = BED_STACK - i * 0x4000,
			     .rdi = LOG(i),
			     .rbx = BED_WIN,
			     .rflags = 2};

	memcpy(c->b.ram + at, code, (size_t)(end - code));
	bed_set_mode(&c->b, c->v[i], false);
	vmm_emu_ops.set_regs(c->v[i], &r);
}

#define PUT(c, i, name) put(c, i, name, name##_end)

/* @open_pin: a device could wake the vCPUs. */
static void start_with(struct chip_bed *c, unsigned int nr, bool open_pin)
{
	struct vmm_waker w = {.wake = on_wake, .time = on_time, .arg = c};

	memset(c, 0, sizeof(*c));
	bed_init(&c->b);
	*bed_u64(&c->b, BED_PT) = EMU_LAPIC_PAGE | 3;
	*bed_u64(&c->b, BED_PT + 8) = EMU_IOAPIC_PAGE | 3;
	*bed_u64(&c->b, BED_PT + 16) = 0xfed00000 | 3;
	c->nr = nr;
	c->time = 1000;
	cr_assert_eq(vmm_emu_ops.irqchip_create(c->b.vm), 0);
	cr_assert_eq(vmm_emu_ops.irqchip_create(c->b.vm), -EEXIST);
	cr_assert_eq(vmm_emu_ops.set_waker(c->b.vm, &w), 0);
	if (open_pin)
		((struct emu_vm *)c->b.vm)->chip->ioapic.entry[0] = 0x7f;
	for (unsigned int i = 0; i < nr; i++) {
		cr_assert_eq(vmm_emu_ops.vcpu_create(c->b.vm, i, &c->v[i]), 0);
		vmm_emu_ops.set_tally(c->v[i], &c->t[i]);
		cpuid(c->v[i], true);
	}
	for (unsigned int v = 0; v < 256; v++) {
		/* movl $v,(%rdi); add $4,%rdi; movl $0,0xb0(%rbx); iretq */
		uint8_t h[] = {0xc7, 0x07, (uint8_t)v, 0, 0, 0, 0x48, 0x83, 0xc7, 4,	0xc7,
			       0x83, 0xb0, 0,	       0, 0, 0, 0,    0,    0,	  0x48, 0xcf};

		memcpy(c->b.ram + HANDLERS + v * 32, h, sizeof(h));
		if (v >= 32 || v == 2)
			bed_gate(&c->b, v, HANDLERS + v * 32, 0, 0xe);
	}
	/* An NMI has no EOI. */
	c->b.ram[HANDLERS + 2 * 32 + 10] = 0x48;
	c->b.ram[HANDLERS + 2 * 32 + 11] = 0xcf;
}

static void start(struct chip_bed *c, unsigned int nr)
{
	start_with(c, nr, false);
}

static void stop(struct chip_bed *c)
{
	for (unsigned int i = 0; i < c->nr; i++)
		vmm_emu_ops.vcpu_destroy(c->v[i]);
	vmm_emu_ops.vm_destroy(c->b.vm);
	vmm_emu_ops.close(c->b.e);
	munmap(c->b.ram, BED_RAM);
	c->b.e = NULL;
}

/* The VM of the test that runs. */
static struct chip_bed c;

static void stop_last(void)
{
	if (c.b.e)
		stop(&c);
}

TestSuite(emu_chip, .fini = stop_last);

static enum vmm_exit run(struct chip_bed *c, unsigned int i, uint64_t budget)
{
	c->run[i].budget = budget;
	cr_assert_eq(vmm_emu_ops.run(c->v[i], &c->run[i]), 0);
	if (c->run[i].exit == VMM_EXIT_ERROR)
		cr_assert(false, "%s", c->run[i].u.error.msg);
	return c->run[i].exit;
}

/* Run vCPU @i until it halts, @budget instructions at a time. */
static void to_hlt(struct chip_bed *c, unsigned int i, uint64_t budget)
{
	enum vmm_exit x;

	do
		x = run(c, i, budget);
	while (x == VMM_EXIT_BUDGET || x == VMM_EXIT_INTR);
	cr_assert_eq(x, VMM_EXIT_HLT, "vCPU %u: exit %d", i, x);
}

static void expect(struct chip_bed *c, unsigned int i, const uint32_t *log, size_t n, int line)
{
	struct kvm_regs r;
	uint32_t got;

	vmm_emu_ops.get_regs(c->v[i], &r);
	for (size_t k = 0; k < n; k++) {
		memcpy(&got, c->b.ram + LOG(i) + k * 4, 4);
		cr_assert_eq(got, log[k], "line %d: entry %zu is %#x, expected %#x", line, k, got,
			     log[k]);
	}
	cr_assert_eq(r.rdi, LOG(i) + n * 4, "line %d: %llu entries", line, (r.rdi - LOG(i)) / 4);
}

#define EXPECT(c, i, ...)                                                                          \
	do {                                                                                       \
		static const uint32_t log_[] = {__VA_ARGS__};                                      \
		expect(c, i, log_, sizeof(log_) / sizeof(log_[0]), __LINE__);                      \
	} while (0)

/* ---- registers in memory ---- */

BED_GUEST(
	g_xapic,
	XR(0x20) XR(0x30) XR(0xf0) XR(0xe0) XR(0xd0) XENABLE XW(0xd0, 0x02345678) XR(0xd0)
		XW(0xe0, 0x0fffffff) XR(0xe0)
			XW(0x80, 0x35) "mov %cr8,%rax\nmov %eax,(%rdi)\nadd $4,%rdi\n" XR(0xa0)
				XW(0x80, 0) XW(0x300, 0x40041) XR(0x220)
					XR(0x300) "sti\nnop\n" L(0xa) XR(0x220) XR(0x120)
	/* no such register */ XR(0x40) XW(0x280, 0) XR(0x280)
	/* other sizes: bytes are read, nothing is written */
	"movzbl 0x32(%rbx),%eax\nmov %eax,(%rdi)\nadd $4,%rdi\n"
	"movb $0x77,0x80(%rbx)\nmovl $0x77,0x84(%rbx)\n" XR(0x80)
	/* read-modify-write */
	"orl $0x30,0x80(%rbx)\n" XR(
		0x80) "xchg %eax,0x80(%rbx)\nmovl $0,0x80(%rbx)\n"
		      /* nothing there */
		      "mov 0x2000(%rbx),%eax\nmov %eax,(%rdi)\nadd $4,%rdi\nmovl $1,0x2000(%rbx)\n"
		      "hlt\n");

Test(emu_chip, xapic)
{
	for (uint64_t budget = 1; budget < 100; budget = budget * 3 + 1) {
		struct chip_bed c;

		start(&c, 1);
		PUT(&c, 0, g_xapic);
		to_hlt(&c, 0, budget);
		EXPECT(&c, 0, 0, 0x60014, 0xff, 0xffffffff, 0, 0x02000000, 0x0fffffff, 3, 0x35, 2,
		       0x40041, 0x41, 0xa, 0, 0, 0, 0x80, 6, 0, 0x30, 0xffffffff);
		stop(&c);
	}
}

/* String instructions on device memory; errors that name the address. */
BED_GUEST(g_strings,
	  XENABLE "lea 0x30(%rbx),%rsi\nmov $1,%ecx\nrep movsl\n"
		  "mov $0x55,%eax\npush %rdi\nlea 0x80(%rbx),%rdi\nmov $1,%ecx\nrep stosl\n"
		  "pop %rdi\n" XR(0x80) "hlt\n");
BED_GUEST(g_stack, "lea 0x100(%rbx),%rsp\nint $0x50\n");
BED_GUEST(g_fetch, "jmp *%rbx\n");
BED_GUEST(g_cmpxchg16, "lea 0x100(%rbx),%rsi\nlock cmpxchg16b (%rsi)\n");

Test(emu_chip, odd_accesses)
{
	static const uint8_t *const bad[][2] = {
		{g_stack, g_stack_end}, {g_fetch, g_fetch_end}, {g_cmpxchg16, g_cmpxchg16_end}};

	start(&c, 1);
	PUT(&c, 0, g_strings);
	to_hlt(&c, 0, 0);
	EXPECT(&c, 0, 0x60014, 0x55);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		put(&c, 0, bad[i][0], bad[i][1]);
		cr_assert_eq(vmm_emu_ops.run(c.v[0], &c.run[0]), 0);
		cr_assert_eq(c.run[0].exit, VMM_EXIT_ERROR, "case %zu: exit %d", i, c.run[0].exit);
		cr_assert(strstr(c.run[0].u.error.msg, "no RAM"), "%s", c.run[0].u.error.msg);
	}
}

/* ---- the timer ---- */

/* Spin for up to RCX iterations; the interrupt ends nothing, so the log shows that it came. */
#define SPIN(n) "mov $" #n ",%ecx\n1: dec %ecx\njnz 1b\n"

/* One-shot: once. Periodic, 3000 cycles: 10 times in 30,000. */
BED_GUEST(g_oneshot, XENABLE XW(0x320, 0x40) XW(0x3e0, 0xb) "sti\n" XW(0x380, 3000) SPIN(2000)
			     XR(0x390) L(1) SPIN(9000) L(2) "cli\nhlt\n");
BED_GUEST(g_periodic, XENABLE XW(0x320, 0x20041) XW(0x3e0, 0xb) "sti\n" XW(0x380, 10000) SPIN(15100)
			      XW(0x380, 0) L(1) SPIN(10000) L(2) "cli\nhlt\n");
BED_GUEST(g_deadline,
	  XENABLE XW(0x320,
		     0x40042) "sti\n"
			      "rdtsc\nshl $32,%rdx\nor %rdx,%rax\nadd $5000,%rax\nmov %rax,%rdx\n"
			      "shr $32,%rdx\nmov $0x6e0,%ecx\nwrmsr\n" SPIN(1000) R(0x6e0) L(1)
				      SPIN(4000) R(0x6e0)
	  /* in the past: at once */
	  W(0x6e0, 1) "nop\n" L(2)
	  /* another mode disarms it */
	  "rdtsc\nadd $900,%eax\nmov $0x6e0,%ecx\nwrmsr\n" XW(0x320, 0x42) SPIN(4000) R(0x6e0)
		  L(3) "cli\nhlt\n");

/* As expect(), but the entry at @skip is not compared: an address or a clock. */
Test(emu_chip, timer_modes)
{
	uint32_t deadline[2], got;

	for (uint64_t budget = 7; budget < 40000; budget = budget * 5 + 1) {
		struct chip_bed c;

		start(&c, 1);
		PUT(&c, 0, g_oneshot);
		to_hlt(&c, 0, budget);
		/* 0x40 comes in the first loop of 4000 cycles or so: the count is 0 behind it. */
		EXPECT(&c, 0, 0x40, 0, 1, 2);
		stop(&c);

		start(&c, 1);
		PUT(&c, 0, g_periodic);
		to_hlt(&c, 0, budget);
		EXPECT(&c, 0, 0x41, 0x41, 0x41, 0x41, 1, 2);
		stop(&c);

		start(&c, 1);
		PUT(&c, 0, g_deadline);
		to_hlt(&c, 0, budget);
		memcpy(&got, c.b.ram + LOG(0), 4);
		deadline[0] = budget == 7 ? got : deadline[0];
		cr_assert_eq(got, deadline[0], "the same clock with every budget");
		cr_assert_neq(got, 0);
		memcpy(c.b.ram + LOG(0), "\0\0\0", 4);
		EXPECT(&c, 0, 0, 1, 0x42, 0, 0x42, 2, 0, 3);
		stop(&c);
	}
}

/* The timer comes behind the same instruction whatever the budgets are, also close to others. */
BED_GUEST(g_exact,
	  XENABLE XW(0x320, 0x45) XW(
		  0x3e0,
		  0xb) "sti\n"
		       "mov $40,%r8d\n2: imul $331,%r8d,%eax\nadd $100,%eax\nmov %eax,0x380(%rbx)\n"
		       "mov $9000,%ecx\n1: dec %ecx\nlea (%rcx,%rax,2),%rdx\njnz 1b\n"
		       "dec %r8d\njnz 2b\ncli\nhlt\n");

Test(emu_chip, timer_is_exact)
{
	/* mov %ecx,(%rdi); add $4,%rdi; movl $0,0xb0(%rbx); iretq */
	static const uint8_t h[] = {0x89, 0x0f, 0x48, 0x83, 0xc7, 4, 0xc7, 0x83, 0xb0,
				    0,	  0,	0,    0,    0,	  0, 0,	   0x48, 0xcf};
	uint32_t first[40], log[40];

	for (uint64_t budget = 0; budget < 4000; budget = budget * 7 + 1) {
		struct chip_bed c;
		struct kvm_regs r;

		start(&c, 1);
		memcpy(c.b.ram + HANDLERS + 0x45 * 32, h, sizeof(h));
		PUT(&c, 0, g_exact);
		to_hlt(&c, 0, budget);
		vmm_emu_ops.get_regs(c.v[0], &r);
		cr_assert_eq(r.rdi, LOG(0) + 40 * 4);
		memcpy(log, c.b.ram + LOG(0), sizeof(log));
		if (!budget)
			memcpy(first, log, sizeof(log));
		for (unsigned int i = 0; i < 40; i++)
			cr_assert_eq(log[i], first[i], "budget %llu, round %u: %u, not %u",
				     (unsigned long long)budget, i, log[i], first[i]);
		stop(&c);
	}
	/* 4 cycles an iteration, and the next round is 331 cycles shorter. */
	for (unsigned int i = 1; i < 40; i++)
		cr_assert(first[i] - first[i - 1] >= 82 && first[i] - first[i - 1] <= 83,
			  "round %u: %u iterations", i, first[i] - first[i - 1]);
}

/* ---- halted vCPUs and the clock ---- */

BED_GUEST(g_wait, XENABLE XW(0x320, 0x43) XW(0x3e0, 0xb) "sti\n" XW(0x380, 1000000) "hlt\n" L(
			  1) "rdtsc\nmov %eax,(%rdi)\nadd $4,%rdi\ncli\nhlt\n");

Test(emu_chip, halt_and_timer)
{
	uint64_t next = 77, due;
	uint32_t log[3];

	start(&c, 1);
	PUT(&c, 0, g_wait);
	to_hlt(&c, 0, 0);
	cr_assert(c.run[0].u.hlt.waits);
	due = c.run[0].u.hlt.deadline;
	cr_assert(due > 1000 + 999000 && due <= 1000 + 1000000, "%llu", (unsigned long long)due);
	/* Too early: nothing, and the same deadline again. */
	c.time = due - 1;
	cr_assert_eq(vmm_emu_ops.expire(c.b.vm, &next), 0);
	cr_assert_eq(next, due);
	cr_assert_eq(c.woken[0], 0);
	c.time = due + 500;
	cr_assert_eq(vmm_emu_ops.expire(c.b.vm, &next), 0);
	cr_assert_eq(next, 0);
	cr_assert_eq(c.woken[0], 1);
	/* Nobody runs it yet: the VM goes on waiting. */
	c.time += 700000;
	run(&c, 0, 1);
	/* From now on its clock stands still when it could run and is not let run. */
	c.time += 1000000000;
	to_hlt(&c, 0, 0);
	memcpy(log, c.b.ram + LOG(0), sizeof(log));
	cr_assert_eq(log[0], 0x43);
	cr_assert_eq(log[1], 1);
	cr_assert(log[2] > 1700000 + 500 && log[2] < 1702000, "%u", log[2]);
	/* Interrupts are off, and there is no source of an NMI. */
	cr_assert_not(c.run[0].u.hlt.waits);
}

/* The clock keeps the time for which all vCPUs have slept when another one is created. */
Test(emu_chip, created_while_all_sleep)
{
	struct vmm_engine_vcpu *other;
	uint64_t slept;

	start(&c, 1);
	PUT(&c, 0, g_wait);
	to_hlt(&c, 0, 0);
	slept = emu_chip_base(((struct emu_vm *)c.b.vm)->chip);
	c.time += 5000;
	cr_assert_eq(vmm_emu_ops.vcpu_create(c.b.vm, 1, &other), 0);
	cr_assert_eq(emu_chip_base(((struct emu_vm *)c.b.vm)->chip), slept + 5000);
	vmm_emu_ops.vcpu_destroy(other);
}

/* PAUSE in a loop gives way after as many as the caller says, and only where there are others. */
BED_GUEST(g_spin, "1: pause\njmp 1b\n");

Test(emu_chip, pauses)
{
	for (unsigned int nr = 1; nr <= 2; nr++) {
		struct chip_bed c;

		start(&c, nr);
		PUT(&c, nr - 1, g_spin);
		c.run[nr - 1].pauses = 10;
		if (nr == 1) {
			cr_assert_eq(run(&c, 0, 10000), VMM_EXIT_BUDGET);
		} else {
			/* In two pieces, as at a safe point: four of them in the first. */
			cr_assert_eq(run(&c, 1, 8), VMM_EXIT_BUDGET);
			cr_assert_eq(c.run[1].pauses, 6);
			cr_assert_eq(run(&c, 1, 10000), VMM_EXIT_YIELD);
			cr_assert_eq(c.run[1].retired, 11);
			cr_assert_eq(c.run[1].pauses, 0);
			/* No limit. */
			cr_assert_eq(run(&c, 1, 10000), VMM_EXIT_BUDGET);
			cr_assert_eq(c.run[1].retired, 10000);
		}
		stop(&c);
	}
}

/* A vCPU that sleeps is woken by the one that runs, exactly at its time. */
BED_GUEST(g_nap,
	  XENABLE XW(0x320, 0x43)
		  XW(0x3e0, 0xb) "sti\n" XW(0x380,
					    5000) "hlt\n"
						  "rdtsc\nmov %eax,(%rdi)\nadd $4,%rdi\nhlt\n");
BED_GUEST(g_busy, "mov $100000,%ecx\n1: dec %ecx\njnz 1b\nhlt\n");

Test(emu_chip, clock_of_several)
{
	uint32_t log[2], first = 0;

	for (uint64_t budget = 100; budget < 3000; budget += 531) {
		uint64_t before;

		start(&c, 2);
		PUT(&c, 0, g_nap);
		PUT(&c, 1, g_busy);
		to_hlt(&c, 0, 0);
		cr_assert(c.run[0].u.hlt.waits);
		cr_assert_eq(c.run[0].u.hlt.deadline, 0, "vCPU 1 looks at it");
		before = c.t[0].ev[VPMU_EMU_OS][VPMU_EMU_CYCLES];
		while (!c.woken[0]) {
			cr_assert_lt(c.t[1].ev[VPMU_EMU_OS][VPMU_EMU_CYCLES], 5100);
			run(&c, 1, budget);
		}
		to_hlt(&c, 0, 0);
		memcpy(log, c.b.ram + LOG(0), sizeof(log));
		cr_assert_eq(log[0], 0x43);
		/* Not before its time, and no later than vCPU 1 was when it was let run. */
		cr_assert_geq(log[1], before + 4980);
		if (!first)
			first = log[1];
		cr_assert(log[1] < first + 6000);
		stop(&c);
	}
}

/* RDTSC never goes back over all vCPUs, in any order of slices. */
BED_GUEST(g_tsc, "mov $0x300800,%esi\n1: mov (%rsi),%rbx\nrdtsc\nshl $32,%rdx\nor %rdx,%rax\n"
		 "cmp %rax,%rbx\nja 2f\nmov %rax,(%rsi)\njmp 1b\n2: cli\nhlt\n");

Test(emu_chip, tsc_is_one)
{
	start(&c, 3);
	for (unsigned int i = 0; i < 3; i++)
		PUT(&c, i, g_tsc);
	for (unsigned int n = 0; n < 2000; n++)
		cr_assert_eq(run(&c, n * 7 % 3, 1 + n % 97), VMM_EXIT_BUDGET, "a TSC went back");
	/* Another vCPU, which runs at the same time, is ahead. */
	for (unsigned int i = 0; i < 3; i++) {
		struct emu_vcpu *v = (struct emu_vcpu *)c.v[i];
		uint64_t ahead = emu_chip_now(v, 0) + 1000000;

		atomic_store(&v->chip->now, ahead);
		cr_assert_eq(emu_chip_now(v, 7), ahead);
		cr_assert_eq(emu_chip_now(v, 8), ahead + 1);
		cr_assert_eq(atomic_load(&v->chip->now), ahead + 1);
	}
}

/* ---- IPIs ---- */

/* vCPUs 1 to 3 wait in HLT; what comes to them is in their logs. */
BED_GUEST(g_idle, XENABLE "sti\n1: hlt\njmp 1b\n");
BED_GUEST(g_idle_x2, W(0x1b, 0xfee00c00) ENABLE "sti\n1: hlt\njmp 1b\n");

struct ipi_row {
	int line;
	uint32_t high, low; /* of the ICR */
	unsigned int fixed; /* bit per vCPU that gets vector 0x60 */
	unsigned int nmi;
};

/* vCPU 0 sends; its code is made for each row. */
static void send_row(struct chip_bed *c, const struct ipi_row *row)
{
	uint8_t code[] = {0xc7, 0x83, 0x10, 0x03, 0, 0, 0, 0, 0, 0, /* movl $,0x310(%rbx) */
			  0xc7, 0x83, 0x00, 0x03, 0, 0, 0, 0, 0, 0, /* movl $,0x300(%rbx) */
			  0x90, 0xf4};

	memcpy(code + 6, &row->high, 4);
	memcpy(code + 16, &row->low, 4);
	put(c, 0, code, code + sizeof(code));
	to_hlt(c, 0, 0);
}

/* The last entry in the log of vCPU @i, and begin a new log. 0: nothing came. */
static uint32_t logged(struct chip_bed *c, unsigned int i)
{
	struct kvm_regs r;
	uint32_t got = 0;

	vmm_emu_ops.get_regs(c->v[i], &r);
	if (r.rdi > LOG(i))
		memcpy(&got, c->b.ram + LOG(i), 4);
	cr_assert_leq(r.rdi, LOG(i) + 4);
	memset(c->b.ram + LOG(i), 0, 8);
	return got;
}

/* Let vCPU @i run with an empty log, as if it had been so all the time. */
static uint32_t comes(struct chip_bed *c, unsigned int i)
{
	struct kvm_regs r;
	uint32_t got;

	to_hlt(c, i, 0);
	got = logged(c, i);
	vmm_emu_ops.get_regs(c->v[i], &r);
	if (got) {
		put(c, i, g_idle, g_idle_end);
		to_hlt(c, i, 0);
	}
	return got;
}

Test(emu_chip, ipis)
{
	static const struct ipi_row rows[] = {
		{__LINE__, 2u << 24, 0x60, 1u << 2, 0},
		{__LINE__, 7u << 24, 0x60, 0, 0},
		{__LINE__, 0, 0xc0060, 0xe, 0}, /* all but self */
		{__LINE__, 0xffu << 24, 0xc0060, 0xe, 0},
		{__LINE__, 3u << 24, 0x460, 0, 1u << 3}, /* NMI */
		{__LINE__, 0, 0xc0460, 0, 0xe},
		{__LINE__, 0xau << 24, 0x860, 0xa, 0}, /* logical, flat: LDR is 1 << ID */
		{__LINE__, 0x6u << 24, 0x860, 0x6, 0},
		{__LINE__, 0xau << 24, 0xc60, 0, 0xa},
		{__LINE__, 0, 0x860, 0, 0},
		{__LINE__, 0xeu << 24, 0x960, 1u << 1, 0}, /* lowest priority: one, by the vector */
		{__LINE__, 0xcu << 24, 0x961, 1u << 3, 0},
		{__LINE__, 2u << 24, 0x260, 0, 0},  /* SMI */
		{__LINE__, 2u << 24, 0x760, 0, 0},  /* ExtINT */
		{__LINE__, 2u << 24, 0x8560, 0, 0}, /* INIT, de-assert */
		{__LINE__, 2u << 24, 0x640, 0, 0},  /* SIPI to one that does not wait for it */
	};

	start_with(&c, 4, true);
	for (unsigned int i = 1; i < 4; i++) {
		uint32_t ldr = 1u << (24 + i);

		PUT(&c, i, g_idle);
		to_hlt(&c, i, 0);
		((struct emu_vcpu *)c.v[i])->lapic.ldr = ldr;
		emu_chip_address((struct emu_vcpu *)c.v[i]);
	}
	for (size_t k = 0; k < sizeof(rows) / sizeof(rows[0]); k++) {
		memset(c.woken, 0, sizeof(c.woken));
		send_row(&c, &rows[k]);
		for (unsigned int i = 1; i < 4; i++) {
			uint32_t want = rows[k].fixed >> i & 1 ? rows[k].low & 0xff
					: rows[k].nmi >> i & 1 ? 2
							       : 0;

			/* One that does not wait for a start-up IPI looks at it and drops it. */
			if ((rows[k].low >> 8 & 7) == 6)
				c.woken[i] = 0;
			cr_assert_eq(c.woken[i], want != 0, "line %d: vCPU %u woken %u times",
				     rows[k].line, i, c.woken[i]);
			cr_assert_eq(comes(&c, i), want, "line %d: vCPU %u", rows[k].line, i);
		}
	}
}

/* To itself, in both modes and all ways; ESR. */
BED_GUEST(g_self, XENABLE "sti\n" XW(0x300, 0x40061) "nop\n" L(1) XW(0x300, 0x80062) "nop\n" L(2)
			  XW(0x310, 0) XW(0x300, 0x63) "nop\n" L(3) XW(0x310, 0xff000000)
				  XW(0x300, 0x64) "nop\n" L(4) XW(0x300, 0x80460) "nop\n" L(5)
					  XW(0x300, 0x40003) XW(0x280, 0) XR(0x280)
	  /* x2APIC mode: the page goes, the MSRs come */
	  W(0x1b, 0xfee00d00) R(0x80f)
		  R(0x80d) "mov 0x20(%rbx),%eax\nmov %eax,(%rdi)\nadd $4,%rdi\n" R(0x802)
			  W(0x83f, 0x65) "nop\n" L(6) W(0x80b, 0) "cli\nhlt\n");

Test(emu_chip, self)
{
	start(&c, 1);
	PUT(&c, 0, g_self);
	to_hlt(&c, 0, 0);
	EXPECT(&c, 0, 0x61, 1, 0x62, 2, 0x63, 3, 0x64, 4, 2, 5, 0x60, 0x1ff, 1, 0xffffffff, 0, 0x65,
	       6);
}

/* While an NMI is handled one more is kept and others are lost. One that ends in between is not. */
#define NMI XW(0x300, 0x400)
BED_GUEST(g_nmis, XENABLE XW(0x310, 0) "xor %esi,%esi\n" NMI L(1) NMI L(3) "hlt\n");
BED_GUEST(g_nmi, L(2) "inc %esi\ncmp $1,%esi\njne 1f\n" NMI NMI NMI NMI L(7) "1: iretq\n");

Test(emu_chip, nmis)
{
	for (uint64_t budget = 1; budget < 100; budget = budget * 3 + 1) {
		struct chip_bed c;

		start(&c, 1);
		PUT(&c, 0, g_nmis);
		memcpy(c.b.ram + HANDLERS + 0x8000, g_nmi, (size_t)(g_nmi_end - g_nmi));
		bed_gate(&c.b, 2, HANDLERS + 0x8000, 0, 0xe);
		to_hlt(&c, 0, budget);
		EXPECT(&c, 0, 2, 7, 2, 1, 2, 3);
		stop(&c);
	}
}

/* A snapshot of a version that kept two can be loaded. */
Test(emu_chip, nmis_of_a_former_version)
{
	uint8_t state[4096];
	struct emu_vcpu *v;
	size_t n = sizeof(state);

	start(&c, 1);
	PUT(&c, 0, g_nmis);
	v = (struct emu_vcpu *)c.v[0];
	v->nmi_masked = v->nmi_pending = v->lapic.nmi = true;
	cr_assert_eq(vmm_emu_ops.get_state(c.v[0], state, &n), 0);
	cr_assert_eq(vmm_emu_ops.set_state(c.v[0], state, n), 0);
	to_hlt(&c, 0, 0);
	EXPECT(&c, 0, 1, 3);
	cr_assert(v->nmi_masked && v->nmi_pending && !v->lapic.nmi);
}

/* x2APIC: 32-bit destinations, clusters, to vCPUs in either mode. */
BED_GUEST(g_x2_send, W(0x1b, 0xfee00d00) ENABLE
	  "mov $0x830,%ecx\nmov $0x60,%eax\nmov $1,%edx\nwrmsr\n" /* physical, 1 */
	  "mov $0x860,%eax\nmov $6,%edx\nwrmsr\n"		  /* cluster 0, members 1 and 2 */
	  "mov $0x861,%eax\nmov $0x10006,%edx\nwrmsr\n"		  /* cluster 1: no vCPU */
	  "mov $0x62,%eax\nmov $0xff,%edx\nwrmsr\n"		  /* ID 255: no vCPU */
	  "mov $0x463,%eax\nmov $-1,%edx\nwrmsr\n"		  /* NMI to everybody */
	  "hlt\n");

Test(emu_chip, x2apic)
{
	struct emu_vcpu *v;

	start(&c, 3);
	PUT(&c, 1, g_idle_x2);
	PUT(&c, 2, g_idle_x2);
	to_hlt(&c, 1, 0);
	to_hlt(&c, 2, 0);
	PUT(&c, 0, g_x2_send);
	to_hlt(&c, 0, 0);
	for (unsigned int i = 1; i < 3; i++) {
		v = (struct emu_vcpu *)c.v[i];
		cr_assert(c.woken[i]);
		cr_assert_eq(v->plat.posted[3], 1, "vCPU %u: %#x", i, v->plat.posted[3]);
		cr_assert_eq(v->plat.posted[2], 0);
		cr_assert_eq(v->plat.signals, EMU_POST_NMI);
	}
	EXPECT(&c, 0, 2);
}

/* A message that comes when the vCPU has decided to sleep and does not sleep yet. */
BED_GUEST(g_late, XENABLE IO(0x1a, 0x62) IO(0x1b, 0) "sti\nmovl $1,0x300800\n1: hlt\njmp 1b\n");

static void *late_thread(void *arg)
{
	to_hlt(arg, 0, 0);
	return NULL;
}

Test(emu_chip, message_while_falling_asleep)
{
	struct timespec nap = {.tv_nsec = 20000000};
	struct emu_chip *chip;
	_Atomic uint32_t *there;
	pthread_t thread;

	start(&c, 1);
	PUT(&c, 0, g_late);
	chip = ((struct emu_vm *)c.b.vm)->chip;
	there = (_Atomic uint32_t *)(c.b.ram + 0x300800);
	/* It must take the lock to fall asleep. */
	pthread_mutex_lock(&chip->lock);
	cr_assert_eq(pthread_create(&thread, NULL, late_thread, &c), 0);
	while (!atomic_load(there))
		;
	nanosleep(&nap, NULL);
	cr_assert_eq(vmm_emu_ops.irq_line(c.b.vm, 5, true), 0);
	pthread_mutex_unlock(&chip->lock);
	pthread_join(thread, NULL);
	cr_assert_eq(c.woken[0], 0, "it did not sleep");
	EXPECT(&c, 0, 0x62);
}

/* INIT and start-up IPIs. */
Test(emu_chip, start_up)
{
	struct ipi_row init = {__LINE__, 1u << 24, 0x4500, 0, 0},
		       sipi = {__LINE__, 1u << 24, 0x4612, 0, 0};
	struct kvm_sregs s;
	struct kvm_regs r;

	start(&c, 2);
	/* It waits; an NMI and an interrupt do not start it. */
	cr_assert_eq(run(&c, 1, 0), VMM_EXIT_HLT);
	cr_assert(c.run[1].u.hlt.waits);
	send_row(&c, &(struct ipi_row){.high = 1u << 24, .low = 0x460});
	while (run(&c, 1, 0) == VMM_EXIT_INTR)
		;
	cr_assert_eq(c.run[1].exit, VMM_EXIT_HLT);
	memset(c.woken, 0, sizeof(c.woken));
	send_row(&c, &init);
	send_row(&c, &sipi);
	send_row(&c, &(struct ipi_row){.high = 1u << 24, .low = 0x4634}); /* the second is lost */
	cr_assert_geq(c.woken[1], 1);
	/* Table 9-1; vector 12H begins at 12000H, in real mode, which this engine does not run. */
	cr_assert_eq(vmm_emu_ops.run(c.v[1], &c.run[1]), 0);
	vmm_emu_ops.get_sregs(c.v[1], &s);
	vmm_emu_ops.get_regs(c.v[1], &r);
	cr_assert_eq(s.cs.base, 0x12000);
	cr_assert_eq(s.cs.selector, 0x1200);
	cr_assert_eq(s.cs.limit, 0xffff);
	cr_assert_eq(r.rdx, 0x50654);
	cr_assert_eq(r.rax | r.rsp | r.rdi, 0);
	cr_assert_eq(r.rflags, 2);
	cr_assert_eq(s.cr0, 0x60000010);
	cr_assert_eq(s.cr3 | s.cr4 | s.efer, 0);
	/* A running one: INIT stops it, registers go, MSRs and the APIC's mode stay. */
	PUT(&c, 1, g_idle_x2);
	to_hlt(&c, 1, 0);
	send_row(&c, &init);
	while (run(&c, 1, 0) == VMM_EXIT_INTR)
		;
	cr_assert_eq(c.run[1].exit, VMM_EXIT_HLT);
	vmm_emu_ops.get_sregs(c.v[1], &s);
	cr_assert_eq(s.apic_base, 0xfee00c00);
	cr_assert_eq(s.cr0 & 0x80000001, 0);
	cr_assert_eq(((struct emu_vcpu *)c.v[1])->lapic.svr, 0xff);
	cr_assert(((struct emu_vcpu *)c.v[1])->plat.wait_sipi);
}

/* ---- the I/O APIC ---- */

BED_GUEST(g_ioapic, XENABLE IOR(1) IO(0x18, 0x8061) IO(0x19, 0) /* pin 4: level, to APIC 0 */
	  IO(0x1a, 0x62) IO(0x1b, 0)				/* pin 5: edge */
	  IO(0x1c, 0x10063)					/* pin 6: edge, masked */
	  "sti\n1: hlt\n" IOR(0x18) XR(0x1b0) "jmp 1b\n");

Test(emu_chip, ioapic)
{
	start(&c, 1);
	PUT(&c, 0, g_ioapic);
	to_hlt(&c, 0, 0);
	cr_assert(c.run[0].u.hlt.waits, "a device can wake it");
	cr_assert_eq(vmm_emu_ops.irq_line(c.b.vm, 24, true), -ENXIO);
	/* Masked: nothing. Edge: once. */
	cr_assert_eq(vmm_emu_ops.irq_line(c.b.vm, 6, true), 0);
	cr_assert_eq(c.woken[0], 0);
	cr_assert_eq(vmm_emu_ops.irq_line(c.b.vm, 5, true), 0);
	cr_assert_eq(vmm_emu_ops.irq_line(c.b.vm, 5, true), 0);
	cr_assert_eq(c.woken[0], 1);
	to_hlt(&c, 0, 0);
	EXPECT(&c, 0, 0x170011, 0x62, 0x8061, 0);
	/* Level: again and again while it is asserted. */
	cr_assert_eq(vmm_emu_ops.irq_line(c.b.vm, 4, true), 0);
	cr_assert_eq(c.woken[0], 2);
	cr_assert_eq(run(&c, 0, 40), VMM_EXIT_BUDGET);
	cr_assert_eq(vmm_emu_ops.irq_line(c.b.vm, 4, false), 0);
	to_hlt(&c, 0, 0);
	{
		uint32_t log[64];
		struct kvm_regs r;
		size_t n;

		vmm_emu_ops.get_regs(c.v[0], &r);
		n = (r.rdi - LOG(0)) / 4;
		memcpy(log, c.b.ram + LOG(0), sizeof(log));
		for (size_t i = 4; i < n && log[i] != 0x8061 && log[i] != 0xc061; i++)
			cr_assert_eq(log[i], 0x61);
		cr_assert_gt(n, 8, "%zu entries", n);
		cr_assert_eq(log[n - 2], 0x8061, "remote IRR is clear at the end: %#x", log[n - 2]);
	}
}

/* ---- state ---- */

static void move_vm(struct chip_bed *from, struct chip_bed *to)
{
	static uint8_t buf[4096];
	size_t n = sizeof(buf);

	start(to, from->nr);
	memcpy(to->b.ram, from->b.ram, BED_RAM);
	cr_assert_eq(vmm_emu_ops.get_vm_state(from->b.vm, buf, &n), 0);
	cr_assert_eq(vmm_emu_ops.set_vm_state(to->b.vm, buf, n), 0);
	for (unsigned int i = 0; i < from->nr; i++) {
		struct kvm_sregs s;
		struct kvm_regs r;

		vmm_emu_ops.get_sregs(from->v[i], &s);
		vmm_emu_ops.get_regs(from->v[i], &r);
		n = sizeof(buf);
		cr_assert_eq(vmm_emu_ops.get_state(from->v[i], buf, &n), 0);
		cr_assert_eq(vmm_emu_ops.set_sregs(to->v[i], &s), 0);
		cr_assert_eq(vmm_emu_ops.set_regs(to->v[i], &r), 0);
		cr_assert_eq(vmm_emu_ops.set_state(to->v[i], buf, n), 0);
		to->t[i] = from->t[i];
	}
	memcpy(to->run, from->run, sizeof(to->run));
}

/* Moved to another VM at every few instructions: the same log. */
static void moved(const uint8_t *code, const uint8_t *end, uint64_t step)
{
	struct chip_bed a, b;

	start(&a, 1);
	put(&a, 0, code, end);
	to_hlt(&a, 0, 0);
	start(&b, 1);
	put(&b, 0, code, end);
	while (run(&b, 0, step) == VMM_EXIT_BUDGET) {
		struct chip_bed next;

		move_vm(&b, &next);
		stop(&b);
		b = next;
		vmm_emu_ops.set_tally(b.v[0], &b.t[0]);
		b.time = 1000;
		vmm_emu_ops.set_waker(
			b.b.vm, &(struct vmm_waker){.wake = on_wake, .time = on_time, .arg = &b});
	}
	cr_assert_eq(memcmp(a.b.ram + LOG(0), b.b.ram + LOG(0), 256), 0);
	cr_assert_eq(memcmp(a.t[0].ev, b.t[0].ev, sizeof(a.t[0].ev)), 0);
	stop(&a);
	stop(&b);
}

Test(emu_chip, moved)
{
	moved(g_xapic, g_xapic_end, 1);
	moved(g_self, g_self_end, 1);
	moved(g_oneshot, g_oneshot_end, 701);
	moved(g_periodic, g_periodic_end, 977);
	moved(g_deadline, g_deadline_end, 499);
}

/* Saved while it waits in HLT for its timer: the other VM waits for the rest. */
Test(emu_chip, moved_in_hlt)
{
	struct chip_bed a, b;
	uint64_t next = 0, left;
	uint32_t log[3];

	start(&a, 1);
	PUT(&a, 0, g_wait);
	to_hlt(&a, 0, 0);
	a.time += 400000;
	left = a.run[0].u.hlt.deadline - a.time;
	vmm_emu_ops.set_waker(a.b.vm, NULL);
	a.time += 1000000000; /* no time passes for a VM that is being saved */
	move_vm(&a, &b);
	stop(&a);
	b.time = 77;
	vmm_emu_ops.set_waker(b.b.vm,
			      &(struct vmm_waker){.wake = on_wake, .time = on_time, .arg = &b});
	to_hlt(&b, 0, 0);
	cr_assert(b.run[0].u.hlt.waits);
	cr_assert_eq(b.run[0].u.hlt.deadline, 77 + left);
	b.time = b.run[0].u.hlt.deadline;
	cr_assert_eq(vmm_emu_ops.expire(b.b.vm, &next), 0);
	cr_assert_eq(b.woken[0], 1);
	to_hlt(&b, 0, 0);
	memcpy(log, b.b.ram + LOG(0), sizeof(log));
	cr_assert(log[0] == 0x43 && log[1] == 1, "%#x %u", log[0], log[1]);
	cr_assert(log[2] > 1000000 && log[2] < 1002000, "%u", log[2]);
	stop(&b);
}

/* Every byte of both states changed: refused, or saved again with the same bytes. */
Test(emu_chip, hostile_states)
{
	static uint8_t was[4096], buf[4096], again[4096];
	unsigned int refused = 0, loaded = 0;
	size_t n, k;

	start(&c, 2);
	PUT(&c, 0, g_periodic);
	cr_assert_eq(run(&c, 0, 20000), VMM_EXIT_BUDGET);
	send_row(&c, &(struct ipi_row){.high = 1u << 24, .low = 0x4612});
	for (int vm = 0; vm < 3; vm++) {
		n = sizeof(was);
		cr_assert_eq(vm ? vmm_emu_ops.get_state(c.v[vm - 1], was, &n)
				: vmm_emu_ops.get_vm_state(c.b.vm, was, &n),
			     0);
		for (size_t i = 0; i < n; i++)
			for (unsigned int x = 0; x < 256; x += 1 + i % 3) {
				int ret;

				memcpy(buf, was, n);
				buf[i] = (uint8_t)x;
				ret = vm ? vmm_emu_ops.set_state(c.v[vm - 1], buf, n)
					 : vmm_emu_ops.set_vm_state(c.b.vm, buf, n);
				cr_assert(ret == 0 || ret == -EINVAL);
				k = sizeof(again);
				cr_assert_eq(vm ? vmm_emu_ops.get_state(c.v[vm - 1], again, &k)
						: vmm_emu_ops.get_vm_state(c.b.vm, again, &k),
					     0);
				cr_assert(k == n && !memcmp(again, ret ? was : buf, n),
					  "state %d, byte %zu = %#x: %d", vm, i, x, ret);
				if (!ret)
					cr_assert_eq(vm ? vmm_emu_ops.set_state(c.v[vm - 1], was, n)
							: vmm_emu_ops.set_vm_state(c.b.vm, was, n),
						     0);
				refused += ret != 0;
				loaded += !ret;
			}
		for (size_t len = 0; len < n; len++)
			cr_assert_eq(vm ? vmm_emu_ops.set_state(c.v[vm - 1], was, len)
					: vmm_emu_ops.set_vm_state(c.b.vm, was, len),
				     -EINVAL);
	}
	cr_assert_gt(refused, 1000);
	cr_assert_gt(loaded, 1000);
}
