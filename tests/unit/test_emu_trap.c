// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Single-step traps: around instructions that change TF, inside of repeated string instructions,
 * and pushed values; segments that a return drops.
 */
#include "emu_bed.h"

TestSuite(emu_trap, .fini = bed_end);

#define TF     0x100ULL
#define LSTAR  (BED_CODE + 0x1000)
#define R_STAR 0xc0000081u
#define R_MASK 0xc0000084u

BED_GUEST(g_wrmsr, "wrmsr\n hlt");

static void set_msr(struct bed *b, uint32_t msr, uint64_t x)
{
	cr_assert_eq(BED_RERUN(b, g_wrmsr, false, .rcx = msr, .rax = (uint32_t)x, .rdx = x >> 32),
		     -1);
}

BED_GUEST(g_int, "pushfq\n orq $0x100,(%rsp)\n popfq\n int $0x80\n nop\n nop");
BED_GUEST(g_int3, "pushfq\n orq $0x100,(%rsp)\n popfq\n int3\n nop\n nop");
BED_GUEST(g_iretq, "iretq");

/* INT clears TF: no trap at the handler's first instruction. IRETQ brings TF back: the trap comes
 * behind the instruction after it. */
Test(emu_trap, int_n)
{
	for (int three = 0; three < 2; three++) {
		unsigned int vec = three ? 3 : 0x80, len = three ? 1 : 2;

		BED_START(&b, g_int, false);
		if (three)
			bed_load(&b, g_int3, g_int3_end, false);
		BED_FAULTS(&b, (int)vec, -1, BED_CODE + 10 + len);
		cr_assert(bed_stack(&b, 2) & TF);
		memcpy(b.ram + BED_DATA, g_iretq, 2);
		bed_gate(&b, vec, BED_DATA, 0, 0xe);
		bed_load(&b, three ? g_int3 : g_int, three ? g_int3_end : g_int_end, false);
		BED_FAULTS(&b, 1, -1, BED_CODE + 10 + len + 1); /* behind the NOP */
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
	bed_put(b, LSTAR, kernel, end);
	BED_REGS(b, .rflags = 2 | TF);
}

/* SYSCALL and SYSRET trap if TF is set behind them. */
Test(emu_trap, syscall)
{
	/* FMASK clears TF: the kernel's entry is not stepped. */
	syscall_bed(&b, TF, g_hlt, g_hlt_end);
	cr_assert_eq(bed_run_to_hlt(&b), -1);
	cr_assert_eq(b.r.rip, LSTAR + 1);
	cr_assert(b.r.r11 & TF);
	cr_assert(!(b.r.rflags & TF));
	/* It does not: stepped. */
	syscall_bed(&b, 0, g_hlt, g_hlt_end);
	BED_FAULTS(&b, 1, -1, LSTAR);
	cr_assert_eq(bed_stack(&b, 1), BED_CS0);
	/* SYSRET with TF in R11: at once, as if SYSCALL had been stepped over. */
	syscall_bed(&b, TF, g_sysret, g_sysret_end);
	BED_FAULTS(&b, 1, -1, BED_CODE + 2);
	cr_assert_eq(bed_stack(&b, 1), BED_CS3);
	cr_assert(bed_stack(&b, 2) & TF);
	cr_assert_eq(bed_total(&b.t, VPMU_EMU_INSTRUCTIONS), 3 * 2 + 1 + 2);
}

BED_GUEST(g_to_user, "iretq");
BED_GUEST(g_lret, "lretq");
BED_GUEST(g_spin, "1: jmp 1b");

static struct kvm_segment seg(uint16_t sel, unsigned int type, unsigned int dpl, uint64_t base)
{
	struct kvm_segment s = flat_segment(sel, false);

	s.type = (uint8_t)type;
	s.dpl = (uint8_t)dpl;
	s.base = base;
	return s;
}

static void go(struct bed *b, const uint8_t *code, const uint8_t *end, bool user, bool far)
{
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
	BED_SREGS(b, {
		s.ds = seg(0x10, 3, 0, 0);	  /* data of the kernel's */
		s.es = seg(0x23, 3, 3, 0);	  /* data of the user's */
		s.fs = seg(0x08, 0xb, 0, 0x1234); /* readable code of the kernel's */
		s.gs = seg(0x08, 0xf, 0, 0x5678); /* conforming code of the kernel's */
	});
	BED_REGS(b, .rsp = BED_STACK - 0x100);
	cr_assert_eq(bed_run(b, 3), VMM_EXIT_BUDGET);
	cr_assert_eq(b->r.rip, BED_DATA);
}

/* To a lower privilege, IRETQ and far RET drop the segments it may not use; bases stay. */
Test(emu_trap, return_drops_segments)
{
	for (int far = 0; far < 2; far++)
		for (int user = 0; user < 2; user++) {
			struct kvm_sregs s;

			if (far)
				go(&b, (const uint8_t *)g_lret, g_lret_end, user, true);
			else
				go(&b, g_to_user, g_to_user_end, user, false);
			s = bed_sregs(&b);
			cr_assert_eq(s.cs.dpl, user ? 3 : 0);
			cr_assert_eq(s.ds.selector, user ? 0 : 0x10);
			cr_assert_eq(s.ds.unusable, user);
			cr_assert_eq(s.es.selector, 0x23);
			cr_assert_eq(s.fs.selector, user ? 0 : 0x08);
			cr_assert_eq(s.fs.base, 0x1234);
			cr_assert_eq(s.gs.selector, 0x08);
			cr_assert_eq(s.gs.base, 0x5678);
		}
}

BED_GUEST(g_apic, "mov $0x1b,%ecx\n xor %edx,%edx\n mov %esi,%eax\n wrmsr\n hlt");

/* The modes of the local APIC, and the ways between them. */
Test(emu_trap, apic_base)
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
		BED_START(&b, g_apic, false);
		BED_SREGS(&b, s.apic_base = 0xfee00000 | rows[i].from << 10);
		BED_REGS(&b, .rsi = 0xfee00000 | rows[i].to << 10);
		cr_assert_eq(bed_run_to_hlt(&b), rows[i].ok ? -1 : 13, "row %zu", i);
		cr_assert_eq(bed_sregs(&b).apic_base,
			     0xfee00000 | (rows[i].ok ? rows[i].to : rows[i].from) << 10);
	}
}

/* The address of its registers has as many bits as in CPUID (SDM vol. 3, 11.4.4). */
BED_GUEST(g_apic_far,
	  "mov $0x1b,%ecx\n mov $0xfee00900,%eax\n mov %rsi,%rdx\n shr $32,%rdx\n wrmsr\n hlt");

Test(emu_trap, apic_base_address)
{
	struct kvm_cpuid_entry2 wide = {.function = 0x80000008, .eax = 39 | 48 << 8};

	for (unsigned int table = 0; table < 2; table++)
		for (unsigned int bit = 32; bit < 64; bit++) {
			bool ok = bit < (table ? 39 : 36); /* 36: where CPUID has no number */

			BED_START(&b, g_apic_far, false);
			cr_assert_eq(o->set_cpuid(b.v, &wide, table), 0);
			BED_REGS(&b, .rsi = 1ULL << bit);
			cr_assert_eq(bed_run_to_hlt(&b), ok ? -1 : 13, "bit %u", bit);
			cr_assert_eq(bed_sregs(&b).apic_base, 0xfee00900 | (ok ? 1ULL << bit : 0));
		}
}

/* CPUID shows an APIC as long as it is enabled. */
BED_GUEST(g_apic_shown, "mov %esi,%eax\n cpuid\n mov %edx,%edi\n mov $0x1b,%ecx\n"
			"mov $0xfee00100,%eax\n xor %edx,%edx\n wrmsr\n mov %esi,%eax\n cpuid\n"
			"mov %edx,%ebp\n mov $0x1b,%ecx\n mov $0xfee00900,%eax\n xor %edx,%edx\n"
			"wrmsr\n mov %esi,%eax\n cpuid\n hlt");

Test(emu_trap, apic_in_cpuid)
{
	static const struct {
		const char *vendor;
		uint32_t leaf, off;
	} rows[] = {
		{"GenuineIntel", 1, 0xfffffdff},
		{"AuthenticAMD", 1, 0xfffffdff},
		{"AuthenticAMD", 0x80000001, 0xfffffdff},
		{"GenuineIntel", 0x80000001, 0xffffffff}, /* there it is another bit */
		{"GenuineIntel", 2, 0xffffffff},
		{"AuthenticAMD", 2, 0xffffffff},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct kvm_cpuid_entry2 e[] = {{.function = 0, .eax = 2},
					       {.function = rows[i].leaf, .edx = 0xffffffff}};

		BED_START(&b, g_apic_shown, false);
		bed_vendor(&e[0], rows[i].vendor);
		cr_assert_eq(o->set_cpuid(b.v, e, 2), 0);
		BED_REGS(&b, .rsi = rows[i].leaf);
		cr_assert_eq(bed_run_to_hlt(&b), -1);
		o->get_regs(b.v, &b.r);
		cr_expect_eq(b.r.rdi, 0xffffffff, "row %zu", i);
		cr_expect_eq(b.r.rbp, rows[i].off, "row %zu: %#llx", i, b.r.rbp);
		cr_expect_eq(b.r.rdx, 0xffffffff, "row %zu", i);
	}
}

/* ---- pushed values: RF, and where (SDM vol. 3, 18.3.1.1; an Intel CPU of family 6 does the same
 * where CPL3 can see it) ---- */

#define IF 0x200ULL
#define RF 0x10000ULL

BED_GUEST(g_nops, "nop\n nop\n nop\n nop");
BED_GUEST(g_ud2, "ud2");

/* 0 for a debug trap, interrupts between instructions and #DF, which is an abort; faults and
 * software interrupts are in test_emu_system.c. */
Test(emu_trap, rf_between_instructions)
{
	BED_START(&b, g_nops, true);
	BED_REGS(&b, .rflags = 2 | TF);
	BED_FAULTS(&b, 1, -1, BED_CODE + 1);
	cr_assert_eq(bed_stack(&b, 2), 2 | TF);
	for (int nmi = 0; nmi < 2; nmi++)
		for (uint64_t n = 0; n < 2; n++) {
			BED_START(&b, g_nops, true);
			/* as a debugger sets it to pass a breakpoint */
			BED_REGS(&b, .rflags = 2 | IF | RF);
			if (n)
				cr_assert_eq(bed_run(&b, n), VMM_EXIT_BUDGET);
			cr_assert_eq(nmi ? o->nmi(b.v) : o->interrupt(b.v, 0x40), 0);
			BED_FAULTS(&b, nmi ? 2 : 0x40, -1, BED_CODE + n);
			/* The instruction that completes clears it. */
			cr_assert_eq(bed_stack(&b, 2), 2 | IF | (n ? 0 : RF));
		}
	BED_START(&b, g_ud2, true);
	bed_gate(&b, 6, BED_WIN, 0, 0xe);	/* nothing there: #PF in its handler */
	bed_gate(&b, 14, BED_HANDLERS, 0, 0x5); /* no gate: #GP, so #DF */
	BED_FAULTS(&b, 8, 0, BED_WIN);
	cr_assert_eq(bed_stack(&b, 3) & RF, 0);
}

BED_GUEST(g_stos, "std\n rep stosb\n hlt");
BED_GUEST(g_scas, "stc\n repe scasb\n hlt");

/* Between two iterations of a repeated string instruction Intel's CPUs have RF = 1 and the flags
 * from before it, AMD's the part left there so far. The engine gives the vCPU back there after
 * so many iterations. */
Test(emu_trap, rf_between_iterations)
{
	for (int k = 0; k < 4; k++) {
		bool scas = k & 1, intel = k & 2;
		/* CF of the STC, or ZF and PF of 0 - 0 */
		uint64_t want = 2 | (intel ? RF : 0) | (!scas ? 0x400 : intel ? 1 : 0x44);

		BED_START(&b, g_stos, true);
		bed_intel(&b, intel);
		if (scas)
			bed_load(&b, g_scas, g_scas_end, true);
		BED_REGS(&b, .rcx = 300000, .rdi = scas ? BED_DATA : BED_DATA + 0xf0000);
		memcpy(b.ram + 0x3800, g_iretq, 2);
		bed_gate(&b, 2, 0x3800, 0, 0xe);
		b.run.effort_max = 1000;
		BED_STOPS(&b, 0, VMM_EXIT_INTR, 1, BED_CODE + 1);
		b.run.effort_max = 0;
		cr_assert(b.r.rcx && b.r.rcx < 300000);
		cr_assert_eq(b.r.rflags, want, "%d: 0x%llx", k, b.r.rflags);
		o->nmi(b.v);
		/* The frame of the NMI is still there behind its IRETQ. */
		cr_assert_eq(bed_run(&b, 1), VMM_EXIT_BUDGET);
		cr_assert_eq(b.r.rip, BED_CODE + 1);
		cr_assert_eq(*bed_u64(&b, BED_STACK0 - 40), BED_CODE + 1);
		cr_assert_eq(*bed_u64(&b, BED_STACK0 - 24), want);
		while (bed_run(&b, 1) == VMM_EXIT_INTR)
			;
		cr_assert_eq(b.r.rcx, 0);
		cr_assert_eq(b.r.rflags & RF, 0, "the last iteration is done");
		cr_assert_eq(b.r.rip, BED_CODE + 3);
	}
}

BED_GUEST(g_cmps, "stc\n repe cmpsb\n nop");

/* A debug trap behind each iteration: counts and RIP show that it is not done, except for the last.
 */
static void step_iterations(bool intel)
{
	BED_START(&b, g_cmps, true);
	bed_intel(&b, intel);
	memcpy(b.ram + BED_DATA, "aabz", 4);
	memcpy(b.ram + BED_DATA + 16, "aacy", 4);
	BED_REGS(&b, .rsi = BED_DATA + 16, .rcx = 4);
	cr_assert_eq(bed_run(&b, 1), VMM_EXIT_BUDGET);
	for (uint64_t k = 1; k <= 3; k++) {
		BED_REGS(&b, .rflags = b.r.rflags | TF);
		cr_assert_eq(bed_run_to_hlt(&b), 1);
		cr_assert_eq(bed_stack(&b, 0), BED_CODE + (k < 3 ? 1 : 3), "iteration %lu", k);
		cr_assert_eq(b.r.rcx, 4 - k);
		cr_assert_eq(b.r.rdi, BED_DATA + k);
		cr_assert_eq(b.r.rsi, BED_DATA + 16 + k);
		/* CF of the STC, or ZF and PF of equal bytes; at the end 'c' - 'b': nothing set. */
		cr_assert_eq(bed_stack(&b, 2),
			     2 | TF |
				     (k == 3  ? 0
				      : intel ? RF | 1
					      : 0x44),
			     "0x%lx", bed_stack(&b, 2));
		cr_assert_eq(b.t.ev[VPMU_EMU_USR][VPMU_EMU_INSTRUCTIONS], k < 3 ? 1 : 2);
		cr_assert_eq(b.t.ev[VPMU_EMU_USR][VPMU_EMU_LOADS], k < 3 ? 0 : 1);
		bed_set_mode(&b, b.v, true);
		BED_REGS(&b, .rip = bed_stack(&b, 0), .rflags = bed_stack(&b, 2) & ~TF,
			 .rsp = BED_STACK);
	}
}

Test(emu_trap, iterations_are_stepped)
{
	step_iterations(false);
	step_iterations(true);
}

BED_GUEST(g_count, "pushfq\n orq $0x100,(%rsp)\n popfq\n rep stosb\n int $0x41");
BED_GUEST(g_handler, "inc %r15\n iretq");

/* One trap for each iteration, and memory that the instruction writes without a check. */
Test(emu_trap, a_long_string_is_stepped)
{
	BED_START(&b, g_count, false);
	BED_PUT(&b, 0x3800, g_handler);
	bed_gate(&b, 1, 0x3800, 0, 0xe);
	BED_REGS(&b, .rcx = 5000, .rax = 0x5a);
	cr_assert_eq(bed_run_to_hlt(&b), 0x41);
	cr_assert_eq(b.r.r15, 5000);
	cr_assert_eq(bed_total(&b.t, VPMU_EMU_INSTRUCTIONS), 3 + 1 + 5000 * 2 + 2);
	for (int i = 0; i <= 5000; i++)
		cr_assert_eq(b.ram[BED_DATA + i], i < 5000 ? 0x5a : 0);
}

BED_GUEST(g_ss, "mov %ss,%eax\n pushfq\n orq $0x100,(%rsp)\n popfq\n mov %eax,%ss\n nop\n nop");

/* No debug trap between MOV SS and the next instruction, so that both stack registers can be
 * loaded (SDM vol. 3, 6.8.3). */
Test(emu_trap, mov_ss)
{
	for (int user = 0; user < 2; user++) {
		BED_START(&b, g_ss, user);
		BED_FAULTS(&b, 1, -1, BED_CODE + 15);
	}
}

BED_GUEST(g_halt, "hlt\n nop");

/* A debug exception ends HLT (SDM vol. 2, HLT); an alarm is reported, too. */
Test(emu_trap, hlt)
{
	for (int alarm = 0; alarm < 2; alarm++) {
		BED_START(&b, g_halt, false);
		BED_REGS(&b, .rflags = 2 | TF);
		if (alarm) {
			b.t.alarm[0] = (struct vpmu_emu_alarm){
				.event = VPMU_EMU_INSTRUCTIONS, .modes = 1, .at = 1};
			b.t.armed = 1;
			cr_assert_eq(bed_run(&b, 0), VMM_EXIT_ALARM);
			cr_assert_eq(b.r.rip, BED_HANDLERS + 1);
			b.t.armed = 0;
		}
		BED_FAULTS(&b, 1, -1, BED_CODE + 1);
		cr_assert_eq(bed_total(&b.t, VPMU_EMU_INSTRUCTIONS), 2);
	}
}
