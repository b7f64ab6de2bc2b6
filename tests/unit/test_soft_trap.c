// SPDX-License-Identifier: GPL-2.0-or-later
/* Single-step traps around instructions that change TF, and segments that a return drops. */
#include "soft_bed.h"

#define TF     0x100ULL
#define LSTAR  (BED_CODE + 0x1000)
#define R_STAR 0xc0000081u
#define R_MASK 0xc0000084u

BED_GUEST(g_wrmsr, "wrmsr\n hlt");

static void set_msr(struct bed *b, uint32_t msr, uint64_t x)
{
	bed_load(b, g_wrmsr, g_wrmsr_end, false);
	b->r.rcx = msr;
	b->r.rax = (uint32_t)x;
	b->r.rdx = x >> 32;
	vmm_soft_ops.set_regs(b->v, &b->r);
	cr_assert_eq(bed_run_to_hlt(b), -1);
}

BED_GUEST(g_int, "pushfq\n orq $0x100,(%rsp)\n popfq\n int $0x80\n nop\n nop");
BED_GUEST(g_int3, "pushfq\n orq $0x100,(%rsp)\n popfq\n int3\n nop\n nop");
BED_GUEST(g_iretq, "iretq");

/* INT clears TF: no trap at the handler's first instruction. IRETQ brings TF back: the trap comes
 * behind the instruction after it. */
Test(soft_trap, int_n)
{
	struct bed b;

	for (int three = 0; three < 2; three++) {
		unsigned int vec = three ? 3 : 0x80, len = three ? 1 : 2;

		BED_START(&b, g_int, false);
		if (three)
			bed_load(&b, g_int3, g_int3_end, false);
		cr_assert_eq(bed_run_to_hlt(&b), (int)vec);
		cr_assert_eq(bed_stack(&b, 0), BED_CODE + 10 + len);
		cr_assert(bed_stack(&b, 2) & TF);
		memcpy(b.ram + BED_DATA, g_iretq, 2);
		bed_gate(&b, vec, BED_DATA, 0, 0xe);
		bed_load(&b, three ? g_int3 : g_int, three ? g_int3_end : g_int_end, false);
		cr_assert_eq(bed_run_to_hlt(&b), 1);
		cr_assert_eq(bed_stack(&b, 0), BED_CODE + 10 + len + 1, "behind the NOP: 0x%lx",
			     bed_stack(&b, 0));
		bed_stop(&b);
	}
}

BED_GUEST(g_syscall, "syscall\n nop\n nop");
BED_GUEST(g_hlt, "hlt");
BED_GUEST(g_sysret, "sysretq");

static void syscall_bed(struct bed *b, uint64_t mask, const uint8_t *kernel, const uint8_t *end)
{
	BED_START(b, g_hlt, false);
	set_msr(b, R_STAR, 0x0018000800000000);
	set_msr(b, R_STAR + 1, LSTAR);
	set_msr(b, R_MASK, mask);
	bed_load(b, g_syscall, g_syscall_end, true);
	memcpy(b->ram + LSTAR, kernel, (size_t)(end - kernel));
	b->r.rflags = 2 | TF;
	vmm_soft_ops.set_regs(b->v, &b->r);
}

/* SYSCALL and SYSRET trap if TF is set behind them. */
Test(soft_trap, syscall)
{
	struct bed b;

	/* FMASK clears TF: the kernel's entry is not stepped. */
	syscall_bed(&b, TF, g_hlt, g_hlt_end);
	cr_assert_eq(bed_run_to_hlt(&b), -1);
	cr_assert_eq(b.r.rip, LSTAR + 1);
	cr_assert(b.r.r11 & TF);
	cr_assert(!(b.r.rflags & TF));
	bed_stop(&b);
	/* It does not: stepped. */
	syscall_bed(&b, 0, g_hlt, g_hlt_end);
	cr_assert_eq(bed_run_to_hlt(&b), 1);
	cr_assert_eq(bed_stack(&b, 0), LSTAR);
	cr_assert_eq(bed_stack(&b, 1), BED_CS0);
	bed_stop(&b);
	/* SYSRET with TF in R11: at once, as if SYSCALL had been stepped over. */
	syscall_bed(&b, TF, g_sysret, g_sysret_end);
	cr_assert_eq(bed_run_to_hlt(&b), 1);
	cr_assert_eq(bed_stack(&b, 0), BED_CODE + 2);
	cr_assert_eq(bed_stack(&b, 1), BED_CS3);
	cr_assert(bed_stack(&b, 2) & TF);
	cr_assert_eq(bed_total(&b.t, VPMU_SOFT_INSTRUCTIONS), 3 * 2 + 1 + 2);
	bed_stop(&b);
}

BED_GUEST(g_to_user, "iretq");
BED_GUEST(g_lret, "lretq");
BED_GUEST(g_spin, "1: jmp 1b");

static struct kvm_segment seg(uint16_t sel, unsigned int type, unsigned int dpl, uint64_t base)
{
	struct kvm_segment s = bed_seg(sel, false);

	s.type = (uint8_t)type;
	s.dpl = (uint8_t)dpl;
	s.base = base;
	return s;
}

static void go(struct bed *b, const uint8_t *code, const uint8_t *end, bool user, bool far)
{
	struct kvm_sregs s;
	uint64_t frame[5] = {BED_DATA, user ? BED_CS3 : BED_CS0, 2, BED_STACK,
			     user ? BED_SS3 : BED_SS0};

	BED_START(b, g_hlt, false);
	bed_load(b, code, end, false);
	memcpy(b->ram + BED_DATA, g_spin, 2);
	if (far) {
		frame[2] = frame[3];
		frame[3] = frame[4];
	}
	memcpy(b->ram + BED_STACK - 0x100, frame, sizeof(frame));
	b->r.rsp = BED_STACK - 0x100;
	vmm_soft_ops.set_regs(b->v, &b->r);
	vmm_soft_ops.get_sregs(b->v, &s);
	s.ds = seg(0x10, 3, 0, 0);	  /* data of the kernel's */
	s.es = seg(0x23, 3, 3, 0);	  /* data of the user's */
	s.fs = seg(0x08, 0xb, 0, 0x1234); /* readable code of the kernel's */
	s.gs = seg(0x08, 0xf, 0, 0x5678); /* conforming code of the kernel's */
	cr_assert_eq(vmm_soft_ops.set_sregs(b->v, &s), 0);
	vmm_soft_ops.set_regs(b->v, &b->r);
	cr_assert_eq(bed_run(b, 3), VMM_EXIT_BUDGET);
	cr_assert_eq(b->r.rip, BED_DATA);
}

/* To a lower privilege, IRETQ and far RET drop the segments it may not use; bases stay. */
Test(soft_trap, return_drops_segments)
{
	for (int far = 0; far < 2; far++)
		for (int user = 0; user < 2; user++) {
			struct kvm_sregs s;
			struct bed b;

			if (far)
				go(&b, (const uint8_t *)g_lret, g_lret_end, user, true);
			else
				go(&b, g_to_user, g_to_user_end, user, false);
			vmm_soft_ops.get_sregs(b.v, &s);
			cr_assert_eq(s.cs.dpl, user ? 3 : 0);
			cr_assert_eq(s.ds.selector, user ? 0 : 0x10);
			cr_assert_eq(s.ds.unusable, user);
			cr_assert_eq(s.es.selector, 0x23);
			cr_assert_eq(s.fs.selector, user ? 0 : 0x08);
			cr_assert_eq(s.fs.base, 0x1234);
			cr_assert_eq(s.gs.selector, 0x08);
			cr_assert_eq(s.gs.base, 0x5678);
			bed_stop(&b);
		}
}

BED_GUEST(g_apic, "mov $0x1b,%ecx\n xor %edx,%edx\n mov %esi,%eax\n wrmsr\n hlt");

/* The modes of the local APIC, and the ways between them. */
Test(soft_trap, apic_base)
{
	enum { OFF = 0, X1 = 2, X2 = 3 }; /* bit 1: EN, bit 0: EXTD */
	static const struct {
		unsigned int from, to;
		bool ok;
	} rows[] = {
		{OFF, OFF, true}, {OFF, X1, true}, {OFF, X2, false}, {OFF, 1, false},
		{X1, OFF, true},  {X1, X1, true},  {X1, X2, true},   {X1, 1, false},
		{X2, OFF, true},  {X2, X1, false}, {X2, X2, true},   {X2, 1, false},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct kvm_sregs s;
		struct bed b;

		BED_START(&b, g_apic, false);
		vmm_soft_ops.get_sregs(b.v, &s);
		s.apic_base = 0xfee00000 | rows[i].from << 10;
		vmm_soft_ops.set_sregs(b.v, &s);
		b.r.rsi = 0xfee00000 | rows[i].to << 10;
		vmm_soft_ops.set_regs(b.v, &b.r);
		cr_assert_eq(bed_run_to_hlt(&b), rows[i].ok ? -1 : 13, "row %zu", i);
		vmm_soft_ops.get_sregs(b.v, &s);
		cr_assert_eq(s.apic_base, 0xfee00000 | (rows[i].ok ? rows[i].to : rows[i].from)
							       << 10);
		bed_stop(&b);
	}
}
