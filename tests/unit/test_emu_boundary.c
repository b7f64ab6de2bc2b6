// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Events behind an instruction with a successor that cannot be fetched: first the alarm, the end of
 * the budget or the debug trap that the instruction makes due, then interrupts, then the fetch
 * fault (SDM vol. 3, table 6-2). Every kind of instruction that can be followed by a fetch fault is
 * tried: transfers of control, the last one of a page, and those that change the mapping.
 */
#include "emu_bed.h"

TestSuite(emu_boundary, .fini = bed_end);

#define TF	 0x100ULL
#define RF	 0x10000ULL
#define PAGE_END (BED_WIN + 0x1000)
#define NOWHERE	 (BED_WIN + 0x5000) /* not mapped */
#define IRETQ	 0x3800ULL	    /* a handler that is an IRETQ */
#define PML4	 0x15000ULL	    /* tables without the window */
#define PDPT	 0x16000ULL

/* X(name, code, and the row behind them); AGAIN() with the code of one before. Every program is
 * three instructions and ends where the window's first page ends. RAX, RCX and the frame at RSP
 * name NOWHERE. CR3 takes away the page it is in; a NOP that is not reached follows. */
#define ROWS(X, AGAIN)                                                                             \
	X(jmp, "nop\n nop\n jmp *%rax", true, NOWHERE, 0, 1 + 1, true, false)                      \
	AGAIN(jmp, , false, NOWHERE, 0, 1 + 1, true, false)                                        \
	X(jmpm, "nop\n nop\n jmp *(%rsp)", true, NOWHERE, 0, 1 + 1, true, false)                   \
	X(rel, "nop\n nop\n .byte 0xe9\n .long 0x4000", true, NOWHERE, 0, 1 + 2, true, false)      \
	X(jcc, "nop\n cmp %eax,%eax\n .byte 0x0f,0x84\n .long 0x4000", true, NOWHERE, 0, 1 + 0,    \
	  true, false)                                                                             \
	X(not, "nop\n cmp %eax,%eax\n .byte 0x0f,0x85\n .long 0x4000", true, 0, 0, 0, false,       \
	  false)                                                                                   \
	X(loop, "nop\n mov $1,%ecx\n .byte 0xe2,0x10", true, 0, 0, 0, false, false)                \
	X(call, "nop\n nop\n call *%rax", true, NOWHERE, 0, 1 + 3, true, false)                    \
	X(callr, "nop\n nop\n .byte 0xe8\n .long 0x4000", true, NOWHERE, 0, 1 + 4, true, false)    \
	X(ret, "nop\n nop\n ret", true, NOWHERE, 0, 1 + 5, true, false)                            \
	X(reti, "nop\n nop\n ret $16", true, NOWHERE, 0, 1 + 5, true, false)                       \
	X(lret, "nop\n nop\n lretq", true, NOWHERE, 0, 1 + 8, true, false)                         \
	X(iret, "nop\n nop\n iretq", false, NOWHERE, 0, 1 + 8, true, false)                        \
	AGAIN(iret, , true, NOWHERE, 0, 1 + 8, true, false)                                        \
	X(syscall, "nop\n nop\n syscall", true, NOWHERE, 0, 1 + 8, true, false)                    \
	X(sysret, "nop\n nop\n sysretq", false, NOWHERE, 0, 1 + 8, true, false)                    \
	X(int, "nop\n nop\n int $0x80", true, NOWHERE, 0, 1 + 8, true, true)                       \
	X(nop, "nop\n nop\n nop", true, 0, 0, 0, false, false)                                     \
	X(store, "nop\n nop\n mov %rax,(%rdi)", true, 0, 0, 0, false, false)                       \
	X(rep, "nop\n mov $3,%ecx\n rep stosb", true, 0, 0, 0, false, false)                       \
	X(cpuid, "nop\n nop\n cpuid", true, 0, 0, 0, false, false)                                 \
	X(sti, "nop\n nop\n sti", false, 0, 0, 0, false, false)                                    \
	X(wrmsr, "nop\n mov $0x4000,%ecx\n wrmsr", false, 0, 0, 0, false, false)                   \
	X(out, "nop\n nop\n out %al,$0x80", false, 0, 0, 0, false, false)                          \
	X(cr3, "nop\n nop\n mov %rsi,%cr3\n nop", false, 0, 1, 0, false, false)

#define ROW_CODE(name, text, ...) BED_GUEST(b_##name, text);
#define ROW_NONE(...)
ROWS(ROW_CODE, ROW_NONE)

static const struct row {
	const char *name;
	const uint8_t *code, *end;
	bool user;
	uint64_t to;	   /* 0: the address behind the third instruction */
	unsigned int rest; /* bytes behind the third instruction */
	unsigned int type; /* 1 + type of its branch record; 0: none */
	bool taken;	   /* a taken branch */
	bool no_step;	   /* clears TF: no debug trap */
} rows[] = {
#define ROW(n, text, ...) {#n, b_##n, b_##n##_end, __VA_ARGS__},
	ROWS(ROW, ROW)};

#define NR_ROWS (sizeof(rows) / sizeof(rows[0]))

static uint64_t target(const struct row *r)
{
	return r->to ? r->to : PAGE_END - r->rest;
}

BED_GUEST(b_setup, "mov $0xc0000081,%ecx\n xor %eax,%eax\n mov $0x00180008,%edx\n wrmsr\n"
		   "inc %ecx\n mov %esi,%eax\n xor %edx,%edx\n wrmsr\n hlt");
BED_GUEST(b_iretq, "iretq");

static void start(struct bed *b, const struct row *r)
{
	uint64_t at = PAGE_END - (uint64_t)(r->end - r->code);
	uint64_t frame[5] = {NOWHERE, BED_CS3, 2, BED_STACK, BED_SS3};

	cr_assert_eq(BED_VECTOR(b, b_setup, false, .rsi = NOWHERE), -1);
	*bed_u64(b, BED_PT) = BED_CODE | 7;
	*bed_u64(b, PML4) = PDPT | 7;
	*bed_u64(b, PDPT) = BED_PD | 7;
	bed_gate(b, 0x80, NOWHERE, 0, 0x6e);
	memcpy(b->ram + IRETQ, b_iretq, 2);
	bed_load(b, b_setup, b_setup_end, r->user);
	bed_put(b, BED_CODE + (at & 0xfff), r->code, r->end);
	memcpy(b->ram + BED_STACK - 0x100, frame, sizeof(frame));
	memset(&b->t, 0, sizeof(b->t));
	BED_REGS(b, .rip = at, .rax = NOWHERE, .rcx = NOWHERE, .rsi = PML4, .r11 = 2,
		 .rsp = BED_STACK - 0x100);
}

/* Run, and answer the exits. */
static enum vmm_exit go(struct bed *b, uint64_t budget)
{
	uint64_t retired = 0;
	enum vmm_exit x;

	for (;;) {
		x = bed_run(b, budget ? budget - retired : 0);
		retired += b->run.retired;
		if (x != VMM_EXIT_WRMSR && x != VMM_EXIT_IO)
			break;
	}
	b->run.retired = retired;
	return x;
}

static void arm(struct bed *b, unsigned int event, uint64_t left)
{
	b->t.alarm[0] = (struct vpmu_emu_alarm){.event = (uint8_t)event, .modes = 3, .at = left};
	b->t.armed = 1;
}

/* Behind the third instruction, and nothing has come since. */
static void check_at(struct bed *b, const struct row *r, const char *what)
{
	cr_assert_eq(b->r.rip, target(r), "%s, %s: rip 0x%llx", r->name, what, b->r.rip);
	cr_assert_eq(bed_sregs(b).cr2, 0, "%s, %s: CR2 0x%llx", r->name, what, bed_sregs(b).cr2);
	cr_assert_eq(bed_total(&b->t, VPMU_EMU_INSTRUCTIONS), 3, "%s, %s", r->name, what);
}

/* The fetch fault comes now, once. */
static void check_fault(struct bed *b, const struct row *r)
{
	cr_assert_eq(bed_run_to_hlt(b), 14, "%s", r->name);
	cr_assert_eq(bed_stack(b, 1), target(r), "%s: 0x%lx", r->name, bed_stack(b, 1));
	cr_assert_eq(bed_stack(b, 3) & RF, RF, "%s", r->name);
	cr_assert_eq(bed_sregs(b).cr2, target(r), "%s: CR2 0x%llx", r->name, bed_sregs(b).cr2);
	cr_assert_eq(bed_total(&b->t, VPMU_EMU_INSTRUCTIONS), 4, "%s: and the HLT", r->name);
}

Test(emu_boundary, an_alarm)
{
	for (size_t i = 0; i < NR_ROWS; i++) {
		const struct row *r = &rows[i];

		for (unsigned int taken = 0; taken <= r->taken; taken++) {
			start(&b, r);
			arm(&b, taken ? VPMU_EMU_BRANCHES_TAKEN : VPMU_EMU_INSTRUCTIONS,
			    taken ? 1 : 3);
			cr_assert_eq(go(&b, 0), VMM_EXIT_ALARM, "%s", r->name);
			cr_assert_eq(b.run.retired, 3, "%s", r->name);
			check_at(&b, r, "alarm");
			cr_assert_eq(go(&b, 0), VMM_EXIT_ALARM, "%s: until it is answered",
				     r->name);
			check_at(&b, r, "alarm again");
			b.t.armed = 0;
			check_fault(&b, r);
		}
	}
}

/* The PMI of such an alarm interrupts at the target, and the fault comes when it returns. */
Test(emu_boundary, an_nmi)
{
	for (size_t i = 0; i < NR_ROWS; i++) {
		const struct row *r = &rows[i];

		if (r->code == b_sti) /* it holds interrupts off, but not faults */
			continue;
		start(&b, r);
		arm(&b, VPMU_EMU_INSTRUCTIONS, 3);
		cr_assert_eq(go(&b, 0), VMM_EXIT_ALARM, "%s", r->name);
		b.t.armed = 0;
		bed_gate(&b, 2, IRETQ, 0, 0xe);
		cr_assert_eq(o->nmi(b.v), 0);
		cr_assert_eq(bed_run(&b, 1), VMM_EXIT_BUDGET, "%s", r->name);
		cr_assert_eq(b.r.rip, target(r), "%s: 0x%llx behind the IRETQ", r->name, b.r.rip);
		cr_assert_eq(bed_sregs(&b).cr2, 0, "%s", r->name);
		cr_assert_eq(bed_run_to_hlt(&b), 14, "%s", r->name);
		cr_assert_eq(bed_stack(&b, 1), target(r), "%s", r->name);
	}
}

Test(emu_boundary, the_end_of_the_budget)
{
	for (size_t i = 0; i < NR_ROWS; i++)
		for (uint64_t first = 0; first < 3; first++) {
			const struct row *r = &rows[i];

			start(&b, r);
			if (first)
				cr_assert_eq(go(&b, first), VMM_EXIT_BUDGET, "%s", r->name);
			cr_assert_eq(go(&b, 3 - first), VMM_EXIT_BUDGET, "%s", r->name);
			cr_assert_eq(b.run.retired, 3 - first, "%s", r->name);
			check_at(&b, r, "budget");
			check_fault(&b, r);
		}
}

/* The debug trap, then the fault: as this is what ptrace sees on a CPU. */
Test(emu_boundary, a_debug_trap)
{
	for (size_t i = 0; i < NR_ROWS; i++) {
		const struct row *r = &rows[i];

		for (int returns = 0; returns < 2; returns++) {
			start(&b, r);
			cr_assert_eq(go(&b, 2), VMM_EXIT_BUDGET, "%s", r->name);
			b.r.rflags |= TF;
			b.r.r11 = 2 | TF; /* SYSRET traps when TF is set behind it */
			if (r->code == b_rep)
				b.r.rcx = 1; /* else a trap behind each iteration */
			o->set_regs(b.v, &b.r);
			if (returns)
				bed_gate(&b, 1, IRETQ, 0, 0xe);
			cr_assert_eq(go(&b, 1), VMM_EXIT_BUDGET, "%s", r->name);
			cr_assert_eq(bed_sregs(&b).cr2, 0, "%s: the trap comes first", r->name);
			if (!returns && !r->no_step) {
				cr_assert_eq(b.r.rip, BED_HANDLERS + 1, "%s: rip 0x%llx", r->name,
					     b.r.rip);
				cr_assert_eq(bed_stack(&b, 0), target(r), "%s: 0x%lx", r->name,
					     bed_stack(&b, 0));
				cr_assert_eq(bed_stack(&b, 2) & RF, 0, "%s: RF", r->name);
			} else {
				cr_assert_eq(bed_run_to_hlt(&b), 14, "%s", r->name);
				cr_assert_eq(bed_stack(&b, 1), target(r), "%s", r->name);
				cr_assert_eq(bed_total(&b.t, VPMU_EMU_INSTRUCTIONS),
					     r->no_step ? 4 : 5, "%s: one trap", r->name);
			}
		}
	}
}

/* The branch is recorded before the stop, the fault when it is delivered. */
Test(emu_boundary, branch_records)
{
	for (size_t i = 0; i < NR_ROWS; i++)
		for (int stop = 0; stop < 2; stop++) {
			const struct row *r = &rows[i];
			const struct vpmu_lbr_entry *e;
			uint64_t n = r->type ? 1 : 0;

			start(&b, r);
			b.t.lbr.ctl = VPMU_LBR_EN | VPMU_LBR_OS | VPMU_LBR_USR | VPMU_LBR_TYPES;
			b.t.lbr.depth = 32;
			if (stop) {
				arm(&b, VPMU_EMU_INSTRUCTIONS, 3);
				cr_assert_eq(go(&b, 0), VMM_EXIT_ALARM, "%s", r->name);
				cr_assert_eq(b.t.lbr.total, n, "%s: %lu", r->name, b.t.lbr.total);
				b.t.armed = 0;
			}
			cr_assert_eq(go(&b, 0), VMM_EXIT_HLT, "%s", r->name);
			cr_assert_eq(b.t.lbr.total, n + 1, "%s: %lu", r->name, b.t.lbr.total);
			e = vpmu_lbr_nth(&b.t.lbr, 0);
			cr_assert(e && e->from == target(r) && e->to == BED_HANDLERS + 14, "%s",
				  r->name);
			if (!n)
				cr_assert_null(vpmu_lbr_nth(&b.t.lbr, 1));
			else
				e = vpmu_lbr_nth(&b.t.lbr, 1);
			cr_assert(e && (!n || (e->to == target(r) && e->from < PAGE_END &&
					       (e->info >> 56 & 15) == r->type - 1)),
				  "%s", r->name);
		}
}

BED_GUEST(b_long, "mov $5,%eax\n .byte 0x48,0xb8\n .quad 1");

/* An instruction that reaches into a page that is not there. */
Test(emu_boundary, an_instruction_across_pages)
{
	static const struct row r = {"long", b_long, b_long + 9, true, 0, 0, 0, false, false};

	for (int alarm = 0; alarm < 2; alarm++) {
		start(&b, &r);
		if (alarm)
			arm(&b, VPMU_EMU_INSTRUCTIONS, 1);
		cr_assert_eq(bed_run(&b, alarm ? 0 : 1), alarm ? VMM_EXIT_ALARM : VMM_EXIT_BUDGET);
		cr_assert_eq(b.r.rip, PAGE_END - 4);
		cr_assert_eq(bed_sregs(&b).cr2, 0);
		b.t.armed = 0;
		BED_FAULTS(&b, 14, 0x14, PAGE_END - 4);
		cr_assert_eq(bed_sregs(&b).cr2, PAGE_END);
	}
}

BED_GUEST(b_forever, "1: inc %rax\n jmp 1b");

/* Where a branch goes is not remembered wrongly when it used up the budget and something else came
 * before its target. */
Test(emu_boundary, an_interrupted_branch_goes_where_it_went)
{
	BED_START(&b, b_forever, false);
	memcpy(b.ram + IRETQ, b_iretq, 2);
	bed_gate(&b, 2, IRETQ, 0, 0xe);
	cr_assert_eq(bed_run(&b, 2), VMM_EXIT_BUDGET);
	cr_assert_eq(b.r.rip, BED_CODE);
	cr_assert_eq(o->nmi(b.v), 0);
	cr_assert_eq(bed_run(&b, 1 + 1000), VMM_EXIT_BUDGET);
	cr_assert_eq(b.r.rax, 1 + 500);
	cr_assert_eq(b.r.rsp, BED_STACK);
}
