// SPDX-License-Identifier: GPL-2.0-or-later
/* The emulator's system side: faults and interrupts, privilege changes, MSRs, ports, CPUID, and the
 * exits its caller answers. test_emu_paging.c has its page tables. */
#include <errno.h>

#include "tests/unit/emu_bed.h"

TestSuite(emu_system, .fini = bed_end);

#define INSNS(b, mode) ((b)->t.ev[VPMU_EMU_##mode][VPMU_EMU_INSTRUCTIONS])

/* ---- faults ---- */

BED_GUEST(guest_access, "mov (%rsi), %eax\nhlt\n");

/* F(name, CPL 3, vector, error code or -1, offset of the instruction that faults, code) */
#define FAULTS(F)                                                                                  \
	F(div0, true, 0, -1, 7, "mov $5, %eax\nxor %edx, %edx\ndiv %edx\n")                        \
	F(div_over, true, 0, -1, 10, "mov $1, %edx\nmov $1, %ecx\ndiv %ecx\n")                     \
	F(idiv_min, true, 0, -1, 11, "mov $0x80000000, %eax\ncltd\nmov $-1, %ecx\nidiv %ecx\n")    \
	F(ud, true, 6, -1, 0, "ud2\n")                                                             \
	F(bad, true, 6, -1, 0, ".byte 0x0f, 0xff, 0xff, 0x06\n") /* UD0 */                         \
	F(bad64, true, 6, -1, 0, ".byte 0x06\n")		 /* PUSH ES does not exist */      \
	F(lock, true, 6, -1, 0, ".byte 0xf0\nmov %eax, (%rdi)\n")                                  \
	F(long, true, 13, 0, 0,                                                                    \
	  ".byte 0x66,0x66,0x66,0x66,0x66,0x66,0x66,0x66,0x66,0x66,0x66,0x66,0x66\n"               \
	  "add $1, %ax\n")                                                                         \
	F(noncanon, true, 13, 0, 10, "mov $0x800000000000, %rax\nmov (%rax), %eax\n")              \
	F(noncanon_ss, true, 12, 0, 10, "mov $0x800000000000, %rbp\nmov 8(%rbp), %eax\n")          \
	F(noncanon_push, true, 12, 0, 10, "mov $0x800000000010, %rsp\npush %rax\n")                \
	F(noncanon_jmp, true, 13, 0, 10, "mov $0x800000000000, %rax\njmp *%rax\n")                 \
	F(cli3, true, 13, 0, 0, "cli\n")                                                           \
	F(hlt3, true, 13, 0, 0, "hlt\n")                                                           \
	F(cr3, true, 13, 0, 0, "mov %cr3, %rax\n")                                                 \
	F(rdmsr3, true, 13, 0, 0, "rdmsr\n")                                                       \
	F(in3, true, 13, 0, 0, "in $0x60, %al\n")                                                  \
	F(int_dpl, true, 13, 0x42 * 8 + 2, 0, "int $0x42\n")                                       \
	F(cr4, false, 13, 0, 5, "mov $0x1020, %eax\nmov %rax, %cr4\n")                             \
	F(cr0, false, 13, 0, 5, "mov $0x10, %eax\nmov %rax, %cr0\n")                               \
	F(rdpmc3, true, 13, 0, 0, "rdpmc\n")                                                       \
	F(cx16, true, 13, 0, 0, "cmpxchg16b 8(%rdi)\n")

#define FAULT_CODE(name, user, vec, err, at, ...) BED_GUEST(guest_##name, __VA_ARGS__);
FAULTS(FAULT_CODE)

static const struct fault_row {
	const char *name;
	const uint8_t *code, *end;
	bool user;
	int vec;
	int64_t err;
	uint64_t at;
} faults[] = {
#define FAULT(name, user, vec, err, at, ...)                                                       \
	{#name, guest_##name, guest_##name##_end, user, vec, err, at},
	FAULTS(FAULT)};

Test(emu_system, faults)
{
	for (unsigned int i = 0; i < sizeof(faults) / sizeof(faults[0]); i++) {
		const struct fault_row *row = &faults[i];
		unsigned int e = row->err >= 0;

		bed_start(&b, row->code, row->end, row->user);
		bed_faults(&b, row->vec, row->err, BED_CODE + row->at, row->name);
		cr_assert_eq(bed_stack(&b, e + 1), row->user ? BED_CS3 : BED_CS0);
		cr_assert_eq(bed_stack(&b, e + 2) & 0x10000, 0x10000, "%s: RF of a fault",
			     row->name);
		if (row->user) {
			cr_assert_eq(b.r.rsp, BED_STACK0 - 8 * (5 + e), "%s", row->name);
			cr_assert_eq(bed_stack(&b, e + 4), BED_SS3);
		}
		cr_assert_eq(bed_sregs(&b).cs.dpl, 0);
	}
}

BED_GUEST(guest_int3, "nop\nint3\nnop\n");

Test(emu_system, int3_is_a_trap_that_retires)
{
	BED_START(&b, guest_int3, true);
	bed_gate(&b, 3, BED_HANDLERS + 3, 1, 0x6e); /* DPL 3, IST 1 */
	BED_FAULTS(&b, 3, -1, BED_CODE + 2);
	cr_assert_eq(bed_stack(&b, 2) & 0x10000, 0);
	cr_assert_eq(b.r.rsp, BED_IST1 - 40);
	cr_assert_eq(INSNS(&b, USR), 2);
	cr_assert_eq(b.t.ev[VPMU_EMU_USR][VPMU_EMU_BRANCHES_TAKEN], 1);
}

Test(emu_system, double_and_triple_faults)
{
	/* #PF with a bad gate: #GP on top of #PF is #DF. */
	BED_START(&b, guest_access, false);
	bed_gate(&b, 14, 0, 0, 0x5);
	BED_REGS(&b, .rsi = BED_WIN);
	cr_assert_eq(bed_run_to_hlt(&b), 8);
	cr_assert_eq(bed_stack(&b, 0), 0);

	/* #UD with a bad gate is #GP: no double fault. */
	BED_START(&b, guest_ud, false);
	bed_gate(&b, 6, 0, 0, 0x5);
	cr_assert_eq(bed_run_to_hlt(&b), 13);
	cr_assert_eq(bed_stack(&b, 0), 6 * 8 + 2 + 1);

	/* No stack to push to: #DF cannot be delivered either. */
	BED_START(&b, guest_ud, true);
	*bed_u64(&b, BED_TSS + 4) = BED_WIN;
	BED_STOPS(&b, 0, VMM_EXIT_SHUTDOWN, 0, BED_CODE);
}

Test(emu_system, a_guest_that_only_faults_gives_the_cpu_back)
{
	/* #PF on IST 1 with a handler that cannot be fetched: without end and without an
	 * instruction. */
	BED_START(&b, guest_access, false);
	bed_gate(&b, 14, BED_WIN, 1, 0xe);
	BED_REGS(&b, .rsi = BED_WIN);
	cr_assert_eq(bed_run(&b, 100), VMM_EXIT_INTR);
	cr_assert_eq(b.run.retired, 0);
}

/* ---- interrupts ---- */

BED_GUEST(guest_sti, "mov $1, %eax\n"
		     "sti\n"
		     "add $1, %eax\n"
		     "add $1, %eax\n"
		     "add $1, %eax\n"
		     "hlt\n");

Test(emu_system, external_interrupts_wait_for_if_and_the_shadow)
{
	for (uint64_t slice = 0; slice < 3; slice++) {
		BED_START(&b, guest_sti, false);
		cr_assert_eq(o->interrupt(b.v, 0x55), 0);
		cr_assert_eq(o->interrupt(b.v, 0x56), -EBUSY);
		while (bed_run(&b, slice) == VMM_EXIT_BUDGET)
			;
		cr_assert_eq(b.run.exit, VMM_EXIT_HLT);
		cr_assert_eq(b.r.rip, BED_HANDLERS + 0x56);
		cr_assert_eq(b.r.rax, 2);
		cr_assert_eq(bed_stack(&b, 0), BED_CODE + 9);
		cr_assert_eq(bed_stack(&b, 2) & 0x200, 0x200);
		cr_assert_eq(b.r.rflags & 0x200, 0);
		cr_assert_eq(INSNS(&b, OS), 4);
		cr_assert_eq(o->interrupt(b.v, 0x56), 0);
	}
}

/* A shadow lasts one instruction, wherever the budget ends. */
Test(emu_system, the_shadow_is_over_after_one_instruction)
{
	for (uint64_t n = 2; n <= 5; n++) {
		BED_START(&b, guest_sti, false);
		cr_assert_eq(bed_run(&b, n), VMM_EXIT_BUDGET);
		cr_assert_eq(o->interrupt(b.v, 0x77), 0);
		cr_assert_eq(bed_run_to_hlt(&b), 0x77);
		cr_assert_eq(b.r.rax, n == 2 ? 2 : n - 1, "%lu: %llu", n, b.r.rax);
	}
}

BED_GUEST(guest_nmi, "1: add $1, %eax\njmp 1b\n");
BED_GUEST(guest_iret, "iretq\n");

Test(emu_system, nmis_are_masked_until_iret)
{
	BED_START(&b, guest_nmi, true);
	memcpy(b.ram + BED_DATA, guest_iret, 2);
	bed_gate(&b, 2, BED_DATA, 0, 0xe);
	cr_assert_eq(bed_run(&b, 10), VMM_EXIT_BUDGET);
	cr_assert_eq(o->nmi(b.v), 0);
	cr_assert_eq(o->nmi(b.v), -EBUSY);
	cr_assert_eq(bed_run(&b, 1), VMM_EXIT_BUDGET); /* the IRETQ */
	cr_assert_eq(INSNS(&b, OS), 1);
	cr_assert_eq(b.t.ev[VPMU_EMU_OS][VPMU_EMU_BRANCHES_TAKEN], 1);
	cr_assert_eq(bed_sregs(&b).cs.dpl, 3);
	cr_assert_eq(o->nmi(b.v), 0);
	cr_assert_eq(bed_run(&b, 11), VMM_EXIT_BUDGET);
	cr_assert_eq(INSNS(&b, OS), 2);
	cr_assert_eq(INSNS(&b, USR), 20);
	cr_assert_eq(b.r.rax, 10);
}

BED_GUEST(guest_tf, "pushf\n"
		    "orl $0x100, (%rsp)\n"
		    "popf\n"
		    "add $1, %eax\n"
		    "add $1, %eax\n");

Test(emu_system, the_trap_flag_stops_after_one_instruction)
{
	BED_START(&b, guest_tf, true);
	BED_FAULTS(&b, 1, -1, BED_CODE + 12);
	cr_assert_eq(b.r.rax, 1);
	cr_assert_eq(INSNS(&b, USR), 4);
}

/* ---- privilege ---- */

BED_GUEST(guest_syscall, "mov $0xc0000081, %ecx\n" /* STAR */
			 "xor %eax, %eax\n"
			 "mov $0x00180008, %edx\n"
			 "wrmsr\n"
			 "inc %ecx\n" /* LSTAR */
			 "lea 3f(%rip), %rax\n"
			 "xor %edx, %edx\n"
			 "wrmsr\n"
			 "add $2, %ecx\n" /* FMASK */
			 "mov $0x241, %eax\n"
			 "wrmsr\n"
			 "rdmsr\n"
			 "mov %eax, %r15d\n"
			 "lea 1f(%rip), %rcx\n"
			 "mov $0x202, %r11d\n"
			 "sysretq\n" /* 16 instructions */
			 "1: mov $100, %ebx\n"
			 "2: stc\n"
			 "syscall\n"
			 "jnc 4f\n"
			 "dec %ebx\n"
			 "jne 2b\n"
			 "4: ud2\n"
			 "3: jc 5f\n"
			 "add $1, %r14\n"
			 "sysretq\n"
			 "5: hlt\n");

Test(emu_system, syscall_and_sysret_count_by_mode)
{
	for (uint64_t slice = 0; slice < 4; slice++) {
		BED_START(&b, guest_syscall, false);
		while (bed_run(&b, slice) == VMM_EXIT_BUDGET)
			;
		cr_assert_eq(b.run.exit, VMM_EXIT_HLT);
		cr_assert_eq(b.r.rip, BED_HANDLERS + 7); /* #UD from user mode */
		cr_assert_eq(b.r.r14, 100);
		cr_assert_eq(b.r.r15, 0x241);
		cr_assert_eq(INSNS(&b, USR), 1 + 100 * 5);
		cr_assert_eq(INSNS(&b, OS), 16 + 100 * 3 + 1);
		/* user: syscall, jnc, jne */
		cr_assert_eq(b.t.ev[VPMU_EMU_USR][VPMU_EMU_BRANCHES], 300);
		cr_assert_eq(b.t.ev[VPMU_EMU_USR][VPMU_EMU_BRANCHES_TAKEN], 199);
		/* kernel: jc, sysret */
		cr_assert_eq(b.t.ev[VPMU_EMU_OS][VPMU_EMU_BRANCHES], 1 + 200);
		cr_assert_eq(b.t.ev[VPMU_EMU_OS][VPMU_EMU_BRANCHES_TAKEN], 1 + 100);
	}
}

BED_GUEST(guest_segments, "sub $16, %rsp\n"
			  "movw $0x3f, (%rsp)\n"
			  "movq $0x6000, 2(%rsp)\n"
			  "lgdt (%rsp)\n"
			  "movw $0xfff, (%rsp)\n"
			  "movq $0x5000, 2(%rsp)\n"
			  "lidt (%rsp)\n"
			  "mov $0x30, %eax\n"
			  "ltr %ax\n"
			  "str %ebx\n"
			  "mov $0x10, %eax\n"
			  "mov %eax, %ss\n"
			  "mov %ax, %ds\n"
			  "mov %ss, %ecx\n"
			  "pushq $0x8\n"
			  "lea 1f(%rip), %rax\n"
			  "push %rax\n"
			  "lretq\n"
			  "1: mov $0xc0000102, %ecx\n"
			  "mov $0x300000, %eax\n"
			  "xor %edx, %edx\n"
			  "wrmsr\n"
			  "swapgs\n"
			  "mov %gs:0x18, %r8\n"
			  "mov $3, %edx\n"
			  "mov %gs:(,%rdx,8), %r9\n"
			  "mov %gs:8(%edx,%edx,4), %r10b\n"
			  "sgdt 0x300100\n"
			  "mov $0x23, %eax\n"
			  "pushq %rax\n" /* IRETQ to user */
			  "pushq $0x123450\n"
			  "pushq $0x202\n"
			  "pushq $0x2b\n"
			  "lea 2f(%rip), %rax\n"
			  "push %rax\n"
			  "iretq\n"
			  "2: mov %ss, %r11d\n"
			  "ud2\n");

Test(emu_system, segments_and_iret)
{
	struct kvm_sregs s;

	BED_START(&b, guest_segments, false);
	BED_SREGS(&b, (s.gdt.limit = s.idt.limit = 0x3f, s.idt.base = 0, s.tr.limit = 0));
	*bed_u64(&b, BED_DATA + 0x18) = 0x1122334455667788;
	b.ram[BED_DATA + 8 + 15] = 0x99;
	cr_assert_eq(bed_run_to_hlt(&b), 6);
	s = bed_sregs(&b);
	cr_assert_eq(s.gdt.limit, 0x3f);
	cr_assert_eq(s.idt.base, BED_IDT);
	cr_assert_eq(s.tr.base, BED_TSS);
	cr_assert_eq(s.tr.type, 0xb);
	cr_assert_eq(b.ram[BED_GDT + 0x35], 0x8b);
	cr_assert_eq(b.r.rbx, 0x30);
	cr_assert_eq(b.r.r8, 0x1122334455667788);
	cr_assert_eq(b.r.r9, b.r.r8);
	cr_assert_eq(b.r.r10, 0x99);
	cr_assert_eq(b.r.r11, BED_SS3);
	cr_assert_eq(*bed_u64(&b, BED_DATA + 0x102), BED_GDT);
	cr_assert_eq(bed_stack(&b, 3), 0x123450); /* user RSP */
	cr_assert_eq(s.gs.base, BED_DATA);
}

/* ---- exits ---- */

BED_GUEST(guest_exits, "mov $0x4000, %ecx\n"
		       "rdmsr\n"
		       "mov %eax, %r8d\n"
		       "mov %edx, %r9d\n"
		       "mov $0x11223344, %eax\n"
		       "mov $0x55667788, %edx\n"
		       "wrmsr\n"
		       "mov $3, %ecx\n"
		       "rdpmc\n"
		       "mov $0x1f0, %edx\n"
		       "in %dx, %ax\n"
		       "outb %al, $0x80\n"
		       "mov $0x9999, %ecx\n"
		       "rdmsr\n" /* answered with a fault */
		       "nop\n");

Test(emu_system, exits_retire_when_answered)
{
	static const struct vpmu_msr_range ranges[] = {{0x3ff0, 0x20}, {0, 0}};

	bed_init(&b);
	cr_assert_eq(o->vm_trap_msrs(b.vm, ranges), 0);
	cr_assert_eq(o->vcpu_create(b.vm, 0, &b.v), 0);
	cr_assert_eq(o->vm_trap_msrs(b.vm, ranges), -EBUSY);
	o->set_tally(b.v, &b.t);
	bed_load(&b, guest_exits, guest_exits_end, false);

	BED_STOPS(&b, 0, VMM_EXIT_RDMSR, 1, BED_CODE + 5);
	cr_assert_eq(b.run.u.msr.index, 0x4000);
	cr_assert_eq(INSNS(&b, OS), 1);
	b.run.u.msr.data = 0xaaaabbbbccccdddd;
	BED_STOPS(&b, 1, VMM_EXIT_BUDGET, 1, BED_CODE + 7);
	cr_assert_eq(b.r.rdx, 0xaaaabbbb);

	cr_assert_eq(bed_run(&b, 0), VMM_EXIT_WRMSR);
	cr_assert_eq(b.run.u.msr.index, 0x4000);
	cr_assert_eq(b.run.u.msr.data, 0x5566778811223344);
	cr_assert_eq(INSNS(&b, OS), 6);
	cr_assert_eq(b.r.r8, 0xccccdddd);
	cr_assert_eq(b.r.r9, 0xaaaabbbb);

	cr_assert_eq(bed_run(&b, 0), VMM_EXIT_RDPMC);
	cr_assert_eq(b.run.u.pmc.index, 3);
	cr_assert_eq(b.run.retired, 2); /* wrmsr, mov */
	cr_assert_eq(INSNS(&b, OS), 8);
	b.run.u.pmc.data = 0x123456789a;

	cr_assert_eq(bed_run(&b, 0), VMM_EXIT_IO);
	cr_assert_eq(b.r.rax, 0x3456789a);
	cr_assert(b.run.u.io.in);
	cr_assert_eq(b.run.u.io.port, 0x1f0);
	cr_assert_eq(b.run.u.io.size, 2);
	b.run.u.io.data = 0xbeef;

	cr_assert_eq(bed_run(&b, 0), VMM_EXIT_IO);
	cr_assert_not(b.run.u.io.in);
	cr_assert_eq(b.run.u.io.port, 0x80);
	cr_assert_eq(b.run.u.io.size, 1);
	cr_assert_eq(b.run.u.io.data, 0xef);
	cr_assert_eq(b.r.rax, 0x3456beef);

	cr_assert_eq(bed_run(&b, 0), VMM_EXIT_RDMSR);
	cr_assert_eq(b.run.u.msr.index, 0x9999); /* unknown: not in the ranges either */
	cr_assert_eq(INSNS(&b, OS), 13);
	b.run.u.msr.fault = true;
	cr_assert_eq(bed_run_to_hlt(&b), 13);
	cr_assert_eq(bed_stack(&b, 1), BED_CODE + (uint64_t)(guest_exits_end - guest_exits) - 3);
	cr_assert_eq(INSNS(&b, OS), 14); /* the handler's HLT only */
}

BED_GUEST(guest_pce, "mov $1, %ecx\nrdpmc\nud2\n");

Test(emu_system, rdpmc_in_user_mode_needs_pce)
{
	BED_START(&b, guest_pce, true);
	BED_SREGS(&b, s.cr4 |= 0x100);
	cr_assert_eq(bed_run(&b, 0), VMM_EXIT_RDPMC);
	cr_assert_eq(b.run.u.pmc.index, 1);
	cr_assert_eq(bed_run_to_hlt(&b), 6);
	cr_assert_eq(INSNS(&b, USR), 2);
}

BED_GUEST(guest_cpuid, "mov $0xb, %eax\nmov $1, %ecx\ncpuid\n"
		       "mov %eax, %r8d\nmov %edx, %r9d\n"
		       "mov $7, %eax\nmov $5, %ecx\ncpuid\n"
		       "mov %ebx, %r10d\n"
		       "mov $0x12345, %eax\ncpuid\nhlt\n");

Test(emu_system, cpuid_is_a_table)
{
	static const struct kvm_cpuid_entry2 table[] = {
		{.function = 0xb, .index = 0, .flags = KVM_CPUID_FLAG_SIGNIFCANT_INDEX, .eax = 1},
		{.function = 0xb,
		 .index = 1,
		 .flags = KVM_CPUID_FLAG_SIGNIFCANT_INDEX,
		 .eax = 2,
		 .edx = 9},
		{.function = 7, .ebx = 77},
	};

	BED_START(&b, guest_cpuid, false);
	cr_assert_eq(o->set_cpuid(b.v, table, 3), 0);
	cr_assert_eq(bed_run_to_hlt(&b), -1);
	cr_assert_eq(b.r.r8, 2);
	cr_assert_eq(b.r.r9, 9);
	cr_assert_eq(b.r.r10, 77);
	cr_assert_eq(b.r.rax | b.r.rbx | b.r.rcx | b.r.rdx, 0);
}

/* F3 49 90 exchanges RAX and R8 on AMD's CPUs and pauses on Intel's. */
BED_GUEST(guest_pause, "mov $1, %eax\nmov $2, %r8d\n.byte 0xf3, 0x49, 0x90\nhlt\n");

Test(emu_system, cpuid_names_the_vendor)
{
	static const struct {
		const char *vendor;
		uint64_t rax;
	} rows[] = {{NULL, 2},		 {"GenuineIntel", 1}, {"GenuineIntel", 1},
		    {"AuthenticAMD", 2}, {"GenuineIntel", 1}, {NULL, 2}};

	/* The code has been decoded, for the other vendor, when the next row runs it. */
	BED_START(&b, guest_pause, false);
	for (unsigned int i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct kvm_cpuid_entry2 leaf0 = {.function = 0};

		if (rows[i].vendor)
			bed_vendor(&leaf0, rows[i].vendor);
		cr_assert_eq(o->set_cpuid(b.v, &leaf0, rows[i].vendor ? 1 : 0), 0);
		BED_REGS(&b, .rip = BED_CODE);
		cr_assert_eq(bed_run_to_hlt(&b), -1);
		cr_assert_eq(b.r.rax, rows[i].rax, "row %u: rax %llu", i, b.r.rax);
	}
}

BED_GUEST(guest_tsc, "rdtsc\n"
		     "mov %eax, %ebx\n"
		     "rdtsc\n"
		     "sub %ebx, %eax\n"
		     "mov %eax, %r8d\n"
		     "mov $0x10, %ecx\n"
		     "mov $1000000, %eax\n"
		     "xor %edx, %edx\n"
		     "wrmsr\n"
		     "rdtsc\n"
		     "hlt\n");

Test(emu_system, the_tsc_is_modelled_time)
{
	struct bed b, c;

	cr_assert_eq(BED_VECTOR(&b, guest_tsc, false), -1);
	cr_assert_gt(b.r.r8, 0);
	cr_assert_lt(b.r.r8, 100);
	cr_assert_gt(b.r.rax, 1000000);
	cr_assert_lt(b.r.rax, 1000100);
	BED_START(&c, guest_tsc, false);
	while (bed_run(&c, 1) == VMM_EXIT_BUDGET)
		;
	cr_assert_eq(memcmp(&b.r, &c.r, sizeof(b.r)), 0);
	bed_stop(&b);
	bed_stop(&c);
}

BED_GUEST(guest_hlt, "hlt\nadd $1, %eax\nhlt\n");

Test(emu_system, hlt_retires_and_waits)
{
	BED_START(&b, guest_hlt, false);
	BED_STOPS(&b, 0, VMM_EXIT_HLT, 1, BED_CODE + 1);
	/* Nothing wakes it; new registers do. */
	BED_STOPS(&b, 0, VMM_EXIT_HLT, 0, BED_CODE + 1);
	o->set_regs(b.v, &b.r);
	cr_assert_eq(bed_run(&b, 0), VMM_EXIT_HLT);
	cr_assert_eq(b.run.retired, 2);
	cr_assert_eq(b.r.rax, 1);
}

Test(emu_system, only_64bit_mode)
{
	struct kvm_sregs s;

	BED_START(&b, guest_hlt, false);
	BED_SREGS(&b, s.cs.l = 0);
	cr_assert_eq(bed_run(&b, 0), VMM_EXIT_ERROR);
	cr_assert(strstr(b.run.u.error.msg, "not in 64-bit mode"), "%s", b.run.u.error.msg);
	s = bed_sregs(&b);
	s.cs.l = 1;
	s.cr8 = 16;
	cr_assert_eq(o->set_sregs(b.v, &s), -EINVAL);
}

Test(emu_system, vm_create_refuses_odd_memory)
{
	static uint8_t mem[4096] __attribute__((aligned(4096)));
	static const struct vmm_ram rows[] = {
		{.base = NULL, .nr = 1, .slot = {{0, 2 << 20}}},
		{.base = mem + 1, .nr = 1, .slot = {{0, 2 << 20}}},
		{.base = mem, .nr = 0, .slot = {{0, 2 << 20}}},
		{.base = mem, .nr = VMM_RAM_SLOTS + 1, .slot = {{0, 2 << 20}}},
		{.base = mem, .nr = 1, .slot = {{0, 0}}},
		{.base = mem, .nr = 1, .slot = {{0, 4096}}},
		{.base = mem, .nr = 1, .slot = {{2 << 20, 2 << 20}}}, /* not from 0 */
		{.base = mem, .nr = 2, .slot = {{0, 4 << 20}, {2 << 20, 4 << 20}}},
		{.base = mem, .nr = 2, .slot = {{0, 4 << 20}, {(4 << 20) + 4096, 4 << 20}}},
		{.base = mem, .nr = 2, .slot = {{0, 2 << 20}, {1ull << 40, 2 << 20}}},
		{.base = mem, .nr = 2, .slot = {{0, 2 << 20}, {4 << 20, ~0x1fffffull}}},
	};
	struct vmm_engine_vm *vm;
	struct vmm_engine *e;
	char why[64];

	cr_assert_eq(o->open(&e, why, sizeof(why)), 0);
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		cr_assert_eq(o->vm_create(e, &rows[i], &vm), -EINVAL, "row %zu", i);
	o->close(e);
}
