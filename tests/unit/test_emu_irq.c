// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * vmm/emu/irq: guests that program their local APIC. Interrupts come behind the right instruction,
 * in the right order, without an exit; PMIs go through LVTPC; HLT ends by unmasked events;
 * all of it is part of the vCPU's state.
 */
#include <errno.h>

#include "emu_bed.h"
#include "vmm/emu/emu.h"

TestSuite(emu_irq, .fini = bed_end);

#define HANDLERS (BED_DATA + 0x10000) /* 16 bytes per vector: log the vector, IRETQ */
#define APIC_ON	 0xfee00d00ULL
#define MASKED	 0x10000u
#define SVR_OFF	 0xffu

/* Write @val to @msr; append what @msr holds to the log; append @x to the log. */
#define W(msr, val) "mov $" #msr ",%ecx\nmov $" #val ",%eax\nxor %edx,%edx\nwrmsr\n"
#define R(msr)	    "mov $" #msr ",%ecx\nrdmsr\nmov %eax,(%rdi)\nadd $4,%rdi\n"
#define L(x)	    "movl $" #x ",(%rdi)\nadd $4,%rdi\n"
#define ENABLE	    W(0x80f, 0x1ff)
#define SELF(x)	    W(0x83f, x)
#define EOI	    W(0x80b, 0)

static void start(struct bed *b, const uint8_t *code, const uint8_t *end, const char *vendor)
{
	struct kvm_cpuid_entry2 cpuid = {.function = 0};

	bed_start(b, code, end, false);
	bed_vendor(&cpuid, vendor);
	cr_assert_eq(o->set_cpuid(b->v, &cpuid, 1), 0);
	BED_SREGS(b, s.apic_base = APIC_ON);
	o->set_regs(b->v, &b->r);
	for (unsigned int v = 0; v < 256; v++) {
		/* movl $v,(%rdi); add $4,%rdi; iretq */
		uint8_t h[] = {0xc7, 0x07, (uint8_t)v, 0, 0, 0, 0x48, 0x83, 0xc7, 4, 0x48, 0xcf};

		memcpy(b->ram + HANDLERS + v * 16, h, sizeof(h));
		if (v != 13)
			bed_gate(b, v, HANDLERS + v * 16, 0, 0xe);
	}
}

#define START(b, name) start(b, name, name##_end, "GenuineIntel")

/* Run to the guest's HLT, and check its log. */
static void expect(struct bed *b, const uint32_t *log, size_t n, int line)
{
	uint32_t got;

	cr_assert_eq(bed_run(b, 100000), VMM_EXIT_HLT, "line %d: exit %d", line, b->run.exit);
	for (size_t i = 0; i < n; i++) {
		memcpy(&got, b->ram + BED_DATA + i * 4, 4);
		cr_assert_eq(got, log[i], "line %d: entry %zu is %#x, expected %#x", line, i, got,
			     log[i]);
	}
	cr_assert_eq(b->r.rdi, BED_DATA + n * 4, "line %d: %llu entries", line,
		     (b->r.rdi - BED_DATA) / 4);
}

#define EXPECT(b, ...)                                                                             \
	do {                                                                                       \
		static const uint32_t log_[] = {__VA_ARGS__};                                      \
		expect(b, log_, sizeof(log_) / sizeof(log_[0]), __LINE__);                         \
	} while (0)

/* Held by IF, then by CR8; in IRR until taken, in ISR until EOI; TPR is CR8. */
BED_GUEST(g_fixed,
	  ENABLE SELF(0x61) R(0x823) R(0x813) "mov $6,%eax\nmov %rax,%cr8\nsti\n" L(0xa) R(0x808)
		  R(0x823) W(0x808, 0x5f) L(0xb) R(0x823) R(0x813) R(0x80a) EOI R(0x813)
			  R(0x80a) "mov %cr8,%rax\nmov %eax,(%rdi)\nadd $4,%rdi\nhlt\n");

Test(emu_irq, fixed)
{
	START(&b, g_fixed);
	EXPECT(&b, 2, 0, 0xa, 0x60, 2, 0x61, 0xb, 0, 2, 0x60, 0, 0x5f, 5);
}

/* A higher vector overtakes one that is queued; one of the same class waits for EOI. */
BED_GUEST(g_order, ENABLE SELF(0x41) SELF(0x92) SELF(0x48) "sti\nnop\n" L(0xa) R(0x814) EOI L(0xb)
			   EOI L(0xc) EOI L(0xd) "hlt\n");

Test(emu_irq, order)
{
	START(&b, g_order);
	EXPECT(&b, 0x92, 0xa, 1u << 18, 0x48, 0xb, 0x41, 0xc, 0xd);
}

/* Exactly behind the instruction that makes it deliverable, whatever the budgets. */
BED_GUEST(g_at_once, ENABLE "sti\nnop\n" SELF(0x55) L(1) EOI SELF(0x56) L(2) EOI "cli\n" SELF(0x57)
			     L(3) "sti\nnop\n" L(4) "hlt\n");

Test(emu_irq, at_once)
{
	for (uint64_t budget = 1; budget < 60; budget = budget * 2 + 1) {
		START(&b, g_at_once);
		while (bed_run(&b, budget) == VMM_EXIT_BUDGET)
			;
		EXPECT(&b, 0x55, 1, 0x56, 2, 3, 0x57, 4);
	}
}

/* Behind the HLT: the PMI's NMI, its handler's return, then the instruction behind. */
BED_GUEST(g_pmi, ENABLE W(0x834, 0x400) "hlt\n" R(0x834) "hlt\n" R(0x834)
			 W(0x834, 0x77) "sti\nhlt\n" R(0x834) R(0x813) "hlt\n");

static void check_pmi(const char *vendor, uint32_t mask)
{
	uint32_t log[] = {2, 0x400 | mask, 0x400 | mask, 0x77, 0x77 | mask, 1u << 23};

	start(&b, g_pmi, g_pmi_end, vendor);
	expect(&b, NULL, 0, __LINE__);
	cr_assert_eq(o->pmi(b.v), 0);
	expect(&b, log, 2, __LINE__);
	/* A second one: an Intel APIC has masked its entry. */
	cr_assert_eq(o->pmi(b.v), 0);
	if (mask) {
		expect(&b, log, 2, __LINE__);
		cr_assert_eq(b.run.retired, 0);
		o->set_regs(b.v, &b.r);
		expect(&b, log, 3, __LINE__);
	} else {
		log[2] = 2, log[3] = 0x400, log[4] = 0x77, log[5] = 0x77;
		expect(&b, log, 4, __LINE__);
		return;
	}
	cr_assert_eq(o->pmi(b.v), 0);
	expect(&b, log, 6, __LINE__);
}

Test(emu_irq, pmi)
{
	check_pmi("GenuineIntel", MASKED);
	check_pmi("AuthenticAMD", 0);
}

/* A PMI before anything runs comes before the first instruction; the APIC must be on. */
BED_GUEST(g_first, L(1) "hlt\n");

Test(emu_irq, pmi_before_run)
{
	START(&b, g_first);
	cr_assert_eq(o->pmi(b.v), 0); /* LVTPC is masked after a reset */
	vcpu()->lapic.svr = 0x1ff;
	vcpu()->lapic.lvt[3] = 0x400;
	cr_assert_eq(o->pmi(b.v), 0);
	EXPECT(&b, 2, 1);
}

/* PMIs that arrive before the vCPU runs: the first is handled and the second kept until then, as by
 * a CPU. There is no room for a third. */
Test(emu_irq, pmis_before_run)
{
	static const uint32_t log[] = {2, 2, 1};

	for (unsigned int n = 1; n < 5; n++) {
		START(&b, g_first);
		vcpu()->lapic.svr = 0x1ff;
		for (unsigned int i = 0; i < n; i++) {
			vcpu()->lapic.lvt[3] = 0x400;
			cr_assert_eq(o->pmi(b.v), 0);
		}
		expect(&b, n == 1 ? log + 1 : log, n == 1 ? 2 : 3, __LINE__);
	}
}

/* A masked event does not end HLT. */
BED_GUEST(g_cli, ENABLE SELF(0x41) "hlt\n" L(1) "hlt\n");
BED_GUEST(g_tpr, ENABLE W(0x808, 0x40) "sti\n" SELF(0x41) "hlt\n" L(1) "hlt\n");
BED_GUEST(g_class, ENABLE "sti\n" SELF(0x55) "nop\n" SELF(0x54) "hlt\n" L(1) "hlt\n");
BED_GUEST(g_sti_hlt, ENABLE SELF(0x41) "sti\nhlt\n" L(1) "hlt\n");

Test(emu_irq, hlt)
{
	START(&b, g_cli);
	expect(&b, NULL, 0, __LINE__);
	START(&b, g_tpr);
	expect(&b, NULL, 0, __LINE__);
	START(&b, g_class);
	EXPECT(&b, 0x55);
	EXPECT(&b, 0x55); /* and stays so */
	cr_assert_eq(b.run.retired, 0);
	/* The exit never happens: it is awake before. */
	START(&b, g_sti_hlt);
	EXPECT(&b, 0x41, 1);
}

/* Switched off: no registers, no PMI; switched on again it is as after a reset. */
BED_GUEST(g_off,
	  ENABLE W(0x834, 0x400) SELF(0x41) W(0x1b, 0xfee00100) L(1) "sti\nhlt\n" L(2)
		  W(0x1b, 0xfee00900) W(0x1b, 0xfee00d00) R(0x80f) R(0x834) R(0x822) "hlt\n");
BED_GUEST(g_off_gp, W(0x1b, 0xfee00100) R(0x802));

Test(emu_irq, apic_off)
{
	START(&b, g_off);
	EXPECT(&b, 1);
	o->pmi(b.v);
	EXPECT(&b, 1);
	o->set_regs(b.v, &b.r);
	EXPECT(&b, 1, 2, SVR_OFF, MASKED, 0);
	START(&b, g_off_gp);
	BED_FAULTS(&b, 13, 0, BED_CODE + (uint64_t)(g_off_gp_end - g_off_gp) - 8);
}

/* #GP by the APIC changes nothing and causes no exit. */
BED_GUEST(g_gp, ENABLE W(0x808, 0x100));

Test(emu_irq, reserved_bits)
{
	START(&b, g_gp);
	cr_assert_eq(bed_run_to_hlt(&b), 13);
}

/* Each vCPU's APIC has the vCPU's number. */
BED_GUEST(g_id, R(0x802) R(0x80d) "hlt\n");

Test(emu_irq, ids)
{
	struct vmm_engine_vcpu *v, *first;

	START(&b, g_id);
	EXPECT(&b, 0, 1);
	cr_assert_eq(o->vcpu_create(b.vm, 17, &v), 0);
	first = b.v;
	b.v = v;
	bed_load(&b, g_id, g_id_end, false);
	((struct emu_vcpu *)v)->apic_base = APIC_ON;
	EXPECT(&b, 17, 0x10002);
	o->vcpu_destroy(v);
	b.v = first;
}

/* The caller's own vector goes first; the APIC's waits and is not lost. */
BED_GUEST(g_both, ENABLE "cli\nhlt\n" SELF(0x90) "sti\nnop\n" L(1) EOI "hlt\n");

Test(emu_irq, beside_the_callers)
{
	START(&b, g_both);
	expect(&b, NULL, 0, __LINE__);
	cr_assert_eq(o->interrupt(b.v, 0x30), 0);
	o->set_regs(b.v, &b.r); /* out of HLT */
	EXPECT(&b, 0x30, 0x90, 1);
}

/* ---- state ---- */

/* Moved to another vCPU after every number of instructions, the guest's log is the same. */
Test(emu_irq, moves)
{
	for (uint64_t at = 1; at < 75; at++) {
		uint8_t state[BED_STATE];
		struct kvm_sregs s;
		size_t n;

		START(&b, g_order);
		if (bed_run(&b, at) == VMM_EXIT_HLT)
			break;
		n = bed_state(&b, state);
		s = bed_sregs(&b);
		o->vcpu_destroy(b.v);
		cr_assert_eq(o->vcpu_create(b.vm, 0, &b.v), 0);
		cr_assert_eq(o->set_sregs(b.v, &s), 0);
		cr_assert_eq(o->set_regs(b.v, &b.r), 0);
		cr_assert_eq(o->set_state(b.v, state, n), 0, "after %lu", (unsigned long)at);
		EXPECT(&b, 0x92, 0xa, 1u << 18, 0x48, 0xb, 0x41, 0xc, 0xd);
		cr_assert_lt(at, 74, "the guest never came to its end");
	}
}

/* Every bit flipped, with the APIC on and something queued: taken exactly, or refused. */
Test(emu_irq, state_from_strangers)
{
	uint8_t now[BED_STATE], bytes[BED_STATE], after[BED_STATE];
	unsigned int taken = 0, refused = 0;
	size_t n;

	START(&b, g_order);
	cr_assert_eq(bed_run(&b, 12), VMM_EXIT_BUDGET); /* 41H and 92H wait */
	n = bed_state(&b, now);
	for (size_t i = 0; i < n * 8; i++) {
		int ret;

		memcpy(bytes, now, n);
		bytes[i / 8] ^= (uint8_t)(1u << i % 8);
		ret = o->set_state(b.v, bytes, n);
		cr_assert(ret == 0 || ret == -EINVAL);
		cr_assert_eq(bed_state(&b, after), n);
		cr_assert(!memcmp(after, ret ? now : bytes, n), "bit %zu", i);
		ret ? refused++ : taken++;
		cr_assert_eq(o->set_state(b.v, now, n), 0);
	}
	cr_assert(taken > 300 && refused > 300, "%u, %u", taken, refused);
}
