/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A VM with interrupt controllers, through the engine's operations: several vCPUs, each with a
 * guest of its own and a log, and handlers that log their vector. */
#ifndef TESTS_UNIT_CHIP_BED_H
#define TESTS_UNIT_CHIP_BED_H

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

static inline void on_wake(void *arg, unsigned int id)
{
	struct chip_bed *c = arg;

	cr_assert_lt(id, c->nr);
	c->woken[id]++;
}

static inline uint64_t on_time(void *arg)
{
	return ((struct chip_bed *)arg)->time;
}

/* With the TSC deadline. */
static inline void cpuid(struct vmm_engine_vcpu *v)
{
	struct kvm_cpuid_entry2 e[2] = {{.function = 0},
					{.function = 1, .eax = 0x50654, .ecx = 1u << 24}};

	bed_vendor(&e[0], "GenuineIntel");
	cr_assert_eq(o->set_cpuid(v, e, 2), 0);
}

/* Let vCPU @i execute @code from the beginning, in 64-bit mode. */
static inline void put(struct chip_bed *c, unsigned int i, const uint8_t *code, const uint8_t *end)
{
	uint64_t at = BED_CODE + i * 0x1000;
	struct kvm_regs r = {.rip = at,
			     .rsp = BED_STACK - i * 0x4000,
			     .rdi = LOG(i),
			     .rbx = BED_WIN,
			     .rflags = 2};

	bed_put(&c->b, at, code, end);
	bed_set_mode(&c->b, c->v[i], false);
	o->set_regs(c->v[i], &r);
}

#define PUT(c, i, name) put(c, i, name, name##_end)

static inline void set_waker(struct chip_bed *c)
{
	struct vmm_waker w = {.wake = on_wake, .time = on_time, .arg = c};

	cr_assert_eq(o->set_waker(c->b.vm, &w), 0);
}

/* The VM of the test that runs: it ends when it is started again, and in the suite's .fini. */
static struct chip_bed c;

static inline void stop(struct chip_bed *c)
{
	for (unsigned int i = 0; i < c->nr; i++)
		o->vcpu_destroy(c->v[i]);
	bed_stop_vm(&c->b);
}

static inline void stop_last(void)
{
	if (c.b.e)
		stop(&c);
}

static inline void end_last(const struct chip_bed *of)
{
	if (of == &c)
		stop_last();
}

/* @open_pin: a device could wake the vCPUs. */
static inline void start_with(struct chip_bed *c, unsigned int nr, bool open_pin)
{
	end_last(c);
	memset(c, 0, sizeof(*c));
	bed_init(&c->b);
	*bed_u64(&c->b, BED_PT) = EMU_LAPIC_PAGE | 3;
	*bed_u64(&c->b, BED_PT + 8) = EMU_IOAPIC_PAGE | 3;
	*bed_u64(&c->b, BED_PT + 16) = 0xfed00000 | 3;
	c->nr = nr;
	c->time = 1000;
	cr_assert_eq(o->irqchip_create(c->b.vm), 0);
	cr_assert_eq(o->irqchip_create(c->b.vm), -EEXIST);
	set_waker(c);
	if (open_pin)
		((struct emu_vm *)c->b.vm)->chip->ioapic.entry[0] = 0x7f;
	for (unsigned int i = 0; i < nr; i++) {
		cr_assert_eq(o->vcpu_create(c->b.vm, i, &c->v[i]), 0);
		o->set_tally(c->v[i], &c->t[i]);
		cpuid(c->v[i]);
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

static inline void start(struct chip_bed *c, unsigned int nr)
{
	start_with(c, nr, false);
}

/* vCPU @i as a bed of its own. */
static inline struct bed vcpu_bed(const struct chip_bed *c, unsigned int i)
{
	struct bed b = c->b;

	b.v = c->v[i];
	return b;
}

static inline enum vmm_exit run(struct chip_bed *c, unsigned int i, uint64_t budget)
{
	c->run[i].budget = budget;
	cr_assert_eq(o->run(c->v[i], &c->run[i]), 0);
	if (c->run[i].exit == VMM_EXIT_ERROR)
		cr_assert(false, "%s", c->run[i].u.error.msg);
	return c->run[i].exit;
}

/* Run vCPU @i until it halts, @budget instructions at a time. */
static inline void to_hlt(struct chip_bed *c, unsigned int i, uint64_t budget)
{
	enum vmm_exit x;

	do
		x = run(c, i, budget);
	while (x == VMM_EXIT_BUDGET || x == VMM_EXIT_INTR);
	cr_assert_eq(x, VMM_EXIT_HLT, "vCPU %u: exit %d", i, x);
}

/* A VM of one vCPU, which runs @code until it halts. */
#define RUN(c, code, budget) (start(c, 1), PUT(c, 0, code), to_hlt(c, 0, budget))

static inline void expect(struct chip_bed *c, unsigned int i, const uint32_t *log, size_t n,
			  int line)
{
	struct kvm_regs r;
	uint32_t got;

	o->get_regs(c->v[i], &r);
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
/* One shot while the guest is halted. */
BED_GUEST(g_wait, XENABLE XW(0x320, 0x43) XW(0x3e0, 0xb) "sti\n" XW(0x380, 1000000) "hlt\n" L(
			  1) "rdtsc\nmov %eax,(%rdi)\nadd $4,%rdi\ncli\nhlt\n");

#endif
