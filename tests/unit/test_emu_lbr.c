// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Branch records. The oracle knows nothing of the engine's: it runs the same program instruction
 * by instruction with records off, looks at each instruction's bytes and where RIP went, and
 * keeps a list by the manual's rules (SDM vol. 3, 19.1).
 */
#include "emu_prog.h"

TestSuite(emu_lbr, .fini = bed_end);

struct rec {
	uint64_t from, to, info;
};

/* The records of a CPU with unlimited memory. */
struct oracle {
	uint32_t ctl;
	unsigned int depth;
	struct rec *rec; /* of which the last nr are valid: a stack of its own */
	size_t nr, pushed;
	uint64_t last; /* cycles at the newest record */
};

static unsigned int cpl_of(uint64_t rip)
{
	return rip >= PROG_KERNEL || rip < BED_CODE ? 0 : 3;
}

static void push(struct oracle *o, uint64_t from, uint64_t to, unsigned int type, uint64_t now)
{
	uint64_t d = now - o->last;

	if (o->nr == o->depth) { /* the oldest goes */
		memmove(o->rec, o->rec + 1, (o->nr - 1) * sizeof(*o->rec));
		o->nr--;
	}
	o->rec[o->nr++] = (struct rec){
		from, to, (d < 0xffff ? d : 0xffff) | 1ULL << 60 | (uint64_t)type << 56};
	o->last = now;
	o->pushed++;
}

static void transfer(struct oracle *o, uint64_t from, uint64_t to, uint64_t next, uint32_t bit,
		     unsigned int type, uint64_t now)
{
	bool end_on = o->ctl & (cpl_of(to) ? VPMU_LBR_USR : VPMU_LBR_OS);
	bool begin_on = o->ctl & (cpl_of(from) ? VPMU_LBR_USR : VPMU_LBR_OS);

	if (!(o->ctl & VPMU_LBR_EN) || !end_on || !(o->ctl & bit))
		return;
	if (o->ctl & VPMU_LBR_CALL_STACK) {
		if (bit == VPMU_LBR_RET)
			o->nr -= !!o->nr;
		else if (to != next)
			push(o, from, to, type, now);
		return;
	}
	push(o, begin_on ? from : ~0ULL, to, type, now);
}

/* One step from @rip to @to, with @now cycles behind it. */
static void observe(struct oracle *o, const uint8_t *p, uint64_t rip, uint64_t to, uint64_t before,
		    uint64_t now)
{
	unsigned int pre = p[0] == 0x67;
	const uint8_t *q = p + pre;

	if (q[0] == 0x0f && q[1] == 0x0b) { /* UD2: the fault, then the handler's ADD */
		uint64_t handler = PROG_KERNEL + 0x100;

		transfer(o, rip, handler, 0, VPMU_LBR_OTHER, 8, before);
		return;
	}
	if ((q[0] & 0xf0) == 0x70 || (q[0] >= 0xe0 && q[0] <= 0xe3)) {
		if (to != rip + 2 + pre)
			transfer(o, rip, to, 0, VPMU_LBR_JCC, 0, now);
	} else if (q[0] == 0x0f && (q[1] & 0xf0) == 0x80) {
		if (to != rip + 6)
			transfer(o, rip, to, 0, VPMU_LBR_JCC, 0, now);
	} else if (q[0] == 0xeb || q[0] == 0xe9) {
		transfer(o, rip, to, 0, VPMU_LBR_REL_JMP, 2, now);
	} else if (q[0] == 0xe8) {
		transfer(o, rip, to, rip + 5, VPMU_LBR_REL_CALL, 4, now);
	} else if (q[0] == 0xff && (q[1] & 0xf8) == 0xd0) {
		transfer(o, rip, to, rip + 2, VPMU_LBR_IND_CALL, 3, now);
	} else if (q[0] == 0xff && (q[1] & 0xf8) == 0xe0) {
		transfer(o, rip, to, 0, VPMU_LBR_IND_JMP, 1, now);
	} else if (q[0] == 0xc3 || q[0] == 0xc2) {
		transfer(o, rip, to, 0, VPMU_LBR_RET, 5, now);
	} else if (q[0] == 0xcd || (q[0] == 0x0f && q[1] == 0x05) ||
		   (q[0] == 0x48 && q[1] == 0xcf) ||
		   (q[0] == 0x48 && q[1] == 0x0f && q[2] == 0x07)) {
		transfer(o, rip, to, 0, VPMU_LBR_OTHER, 8, now);
	}
}

static void compare(const struct oracle *o, const struct bed *b, uint64_t seed, size_t at)
{
	const struct vpmu_lbr_regs *l = &b->t.lbr;

	cr_assert_eq(l->count, o->nr, "seed %lu, instruction %zu: %u records instead of %zu", seed,
		     at, l->count, o->nr);
	cr_assert_eq(l->total, o->pushed, "seed %lu, instruction %zu: total", seed, at);
	cr_assert_eq(l->cycles, o->last, "seed %lu, instruction %zu: clock of the newest", seed,
		     at);
	for (unsigned int i = 0; i < o->nr; i++) {
		const struct vpmu_lbr_entry *e = vpmu_lbr_nth(l, i);
		const struct rec *r = &o->rec[o->nr - 1 - i];

		cr_assert(e && e->from == r->from && e->to == r->to && e->info == r->info,
			  "seed %lu, instruction %zu, record %u: 0x%lx -> 0x%lx 0x%lx instead of "
			  "0x%lx -> 0x%lx 0x%lx",
			  seed, at, i, e ? e->from : 0, e ? e->to : 0, e ? e->info : 0, r->from,
			  r->to, r->info);
	}
	cr_assert_null(vpmu_lbr_nth(l, (unsigned int)o->nr));
}

static uint64_t cycles_of(const struct prog_step *s)
{
	return s->ev[0][VPMU_EMU_CYCLES] + s->ev[1][VPMU_EMU_CYCLES];
}

static uint32_t some_ctl(uint64_t *rng)
{
	uint64_t r = random_split(rng);
	uint32_t ctl = VPMU_LBR_EN | (1 + (uint32_t)(r % 3)) << 1;

	switch (r >> 8 & 3) {
	case 0:
		return ctl | VPMU_LBR_CALL_STACK | VPMU_LBR_CALLS;
	case 1:
		return ctl | VPMU_LBR_TYPES;
	default:
		return ctl | (uint32_t)(r >> 16 & 0x7f) << 16;
	}
}

static void check_program(uint64_t seed)
{
	size_t n = prog_trace(seed), at = 0;
	uint64_t rng = seed * 77;
	struct rec rec[VPMU_LBR_DEPTH_MAX];
	struct oracle o = {.ctl = some_ctl(&rng), .rec = rec};
	struct vpmu_emu_tally quiet;
	enum vmm_exit x;
	struct bed b;

	o.depth = 8 * (unsigned int)(1 + random_split(&rng) % 4);
	prog_start(&b, seed);
	b.t.lbr.ctl = o.ctl;
	b.t.lbr.depth = (uint8_t)o.depth;
	do {
		size_t to;

		x = bed_run(&b, 1 + random_split(&rng) % (random_split(&rng) % 8 ? 60 : 5000));
		for (to = at + b.run.retired; at < to; at++) {
			/* User code that a piece overwrote would be none of the pieces: none does.
			 */
			observe(&o, b.ram + steps[at].rip, steps[at].rip, steps[at + 1].rip,
				cycles_of(&steps[at]), cycles_of(&steps[at + 1]));
		}
		compare(&o, &b, seed, at);
		if (x != VMM_EXIT_HLT && x != VMM_EXIT_BUDGET)
			prog_answer(&b);
		if (x != VMM_EXIT_HLT && random_split(&rng) % 64 == 0) { /* other rules from here */
			b.t.lbr.ctl = o.ctl =
				some_ctl(&rng) & ~(random_split(&rng) % 4 == 0 ? 1u : 0);
		}
	} while (x != VMM_EXIT_HLT);
	cr_assert_eq(at, n);
	/* Recording changes nothing else. */
	memcpy(&quiet, &b.t, sizeof(quiet));
	cr_assert(!memcmp(quiet.ev, steps[n].ev, sizeof(steps[n].ev)), "seed %lu: tallies", seed);
	bed_stop(&b);
}

Test(emu_lbr, as_the_instructions_went)
{
	for (uint64_t seed = 1; seed <= 600; seed++)
		check_program(seed);
}

static void on(struct bed *b, uint32_t ctl)
{
	memset(&b->t.lbr, 0, sizeof(b->t.lbr));
	b->t.lbr.ctl = VPMU_LBR_EN | ctl;
	b->t.lbr.depth = 32;
}

static void is(const struct bed *b, unsigned int n, uint64_t from, uint64_t to, unsigned int type)
{
	const struct vpmu_lbr_entry *e = vpmu_lbr_nth(&b->t.lbr, n);

	cr_assert_not_null(e, "record %u", n);
	cr_assert_eq(e->from, from, "record %u: from 0x%lx", n, e->from);
	cr_assert_eq(e->to, to, "record %u: to 0x%lx", n, e->to);
	cr_assert_eq((e->info & VPMU_LBR_INFO_TYPE) >> 56, type, "record %u: info 0x%lx", n,
		     e->info);
}

#define ALL (VPMU_LBR_OS | VPMU_LBR_USR | VPMU_LBR_TYPES)

BED_GUEST(g_wait, "sti\n nop\n 1: nop\n jmp 1b");

/* Interrupts and NMIs: from the address in the frame. */
Test(emu_lbr, interrupts)
{
	for (int user = 0; user < 2; user++)
		for (int nmi = 0; nmi < 2; nmi++)
			for (uint32_t modes = 1; modes <= 3; modes++) {
				uint32_t ctl = modes << 1 | VPMU_LBR_OTHER;

				BED_START(&b, g_wait, user);
				BED_REGS(&b, .rip = BED_CODE + 2, .rflags = 0x202);
				on(&b, ctl);
				cr_assert_eq(bed_run(&b, 10), VMM_EXIT_BUDGET);
				cr_assert_eq(b.t.lbr.count, 0);
				bed_arrives(&b, nmi ? 2 : 0x55);
				cr_assert_eq(bed_run_to_hlt(&b), nmi ? 2 : 0x55);
				if (!(modes & 1)) {
					cr_assert_eq(b.t.lbr.count, 0, "kernel is not recorded");
				} else {
					cr_assert_eq(b.t.lbr.count, 1);
					is(&b, 0,
					   user && !(modes & 2) ? VPMU_LBR_FROM_FILTERED
								: bed_stack(&b, 0),
					   BED_HANDLERS + (nmi ? 2 : 0x55), 8);
				}
			}
}

BED_GUEST(g_pf, "nop\n mov 0x7fff0000,%rax");
BED_GUEST(g_df, "nop\n mov $0,%rsp\n ud2");

/* A fault inside a delivery: only the final delivery is recorded. */
Test(emu_lbr, faults)
{
	BED_START(&b, g_pf, true);
	on(&b, ALL);
	cr_assert_eq(bed_run_to_hlt(&b), 14);
	cr_assert_eq(b.t.lbr.count, 1);
	is(&b, 0, BED_CODE + 1, BED_HANDLERS + 14, 8);
	/* No stack: #UD cannot be delivered, #PF neither, #DF can (IST). */
	BED_START(&b, g_df, false);
	bed_gate(&b, 8, BED_HANDLERS + 8, 1, 0xe);
	*bed_u64(&b, BED_PML4 + 511 * 8) = 0;
	on(&b, ALL);
	cr_assert_eq(bed_run_to_hlt(&b), 8);
	cr_assert_eq(b.t.lbr.count, 1);
	is(&b, 0, BED_CODE + 8, BED_HANDLERS + 8, 8);
}

BED_GUEST(g_tf, "pushfq\n orq $0x100,(%rsp)\n popfq\n nop\n nop");

/* Single steps are debug traps: from the address in the frame, that of the next instruction. */
Test(emu_lbr, debug_trap)
{
	BED_START(&b, g_tf, false);
	on(&b, ALL);
	cr_assert_eq(bed_run_to_hlt(&b), 1);
	cr_assert_eq(b.t.lbr.count, 1);
	is(&b, 0, bed_stack(&b, 0), BED_HANDLERS + 1, 8);
}

BED_GUEST(g_far, "lea 1f(%rip),%rax\n push $8\n push %rax\n lretq\n nop\n 1: hlt");

Test(emu_lbr, far_return)
{
	BED_START(&b, g_far, false);
	on(&b, ALL);
	cr_assert_eq(bed_run_to_hlt(&b), -1);
	cr_assert_eq(b.t.lbr.count, 1);
	is(&b, 0, BED_CODE + 10, b.r.rip - 1, 8);
	/* Near returns are another type. */
	bed_load(&b, g_far, g_far_end, false);
	on(&b, ALL & ~VPMU_LBR_OTHER);
	cr_assert_eq(bed_run_to_hlt(&b), -1);
	cr_assert_eq(b.t.lbr.count, 0);
}

BED_GUEST(g_loop, "mov $70000,%ecx\n 1: dec %ecx\n jnz 1b\n 2: jmp 3f\n 3: hlt");

/* 16 bits of cycles, no more: "or longer". Branches that are not recorded do not count as the
 * record before. */
Test(emu_lbr, cycles_saturate)
{
	BED_START(&b, g_loop, false);
	on(&b, VPMU_LBR_OS | VPMU_LBR_REL_JMP);
	cr_assert_eq(bed_run_to_hlt(&b), -1);
	cr_assert_eq(b.t.lbr.count, 1);
	cr_assert_eq(vpmu_lbr_nth(&b.t.lbr, 0)->info,
		     0xffff | VPMU_LBR_INFO_CYC_VALID | 2ULL << 56);
}

BED_GUEST(g_deep, "mov $50,%ecx\n call 1f\n hlt\n 1: dec %ecx\n jz 2f\n call 1b\n 2: ret");

/* Deeper than the stack is: the oldest callers are gone; returning from them finds none. */
Test(emu_lbr, call_stack_overflow)
{
	for (unsigned int depth = 8; depth <= 32; depth += 8) {
		unsigned int most = 0;

		BED_START(&b, g_deep, false);
		on(&b, VPMU_LBR_OS | VPMU_LBR_CALLS | VPMU_LBR_CALL_STACK);
		b.t.lbr.depth = (uint8_t)depth;
		while (bed_run(&b, 1) == VMM_EXIT_BUDGET)
			most = b.t.lbr.count > most ? b.t.lbr.count : most;
		cr_assert_eq(b.run.exit, VMM_EXIT_HLT);
		cr_assert_eq(most, depth);
		cr_assert_eq(b.t.lbr.count, 0);
		cr_assert_eq(b.t.lbr.total, 50);
	}
}

/* Save, restore and reset through the host PMU, while an engine records. */
Test(emu_lbr, host_pmu)
{
	struct vpmu_emupmu sp;
	struct vpmu_lbr_regs r, other = {.ctl = VPMU_LBR_EN | ALL, .depth = 16};
	const struct vpmu_hostpmu_ops *ops;
	uint64_t cycles;

	cr_assert_eq(vpmu_emupmu_init(&sp, NULL), 0);
	ops = sp.pmu.ops;
	BED_START(&b, g_loop, false);
	vmm_emu_ops.set_tally(b.v, sp.tally);
	ops->lbr_restore(&sp.pmu, &other);
	cr_assert_eq(bed_run(&b, 100), VMM_EXIT_BUDGET);
	cycles = vpmu_emu_clock(sp.tally);
	ops->lbr_save(&sp.pmu, &r);
	cr_assert_eq(r.count, 16);
	cr_assert_eq(r.total, 49);
	cr_assert(r.ctl & VPMU_LBR_EN);
	cr_assert_eq(r.cycles, 1, "one instruction behind the last branch");
	/* Saved: nothing is recorded. */
	cr_assert_eq(bed_run(&b, 100), VMM_EXIT_BUDGET);
	cr_assert_eq(sp.tally->lbr.total, 49);
	/* Restored: as if the time between had not been. */
	ops->lbr_restore(&sp.pmu, &r);
	cr_assert_eq(bed_run(&b, 1), VMM_EXIT_BUDGET);
	cr_assert_eq(sp.tally->lbr.total, 50);
	cr_assert_eq(vpmu_lbr_nth(&sp.tally->lbr, 0)->info & VPMU_LBR_INFO_CYC, 3);
	/* Resumed in place. */
	ops->lbr_save(&sp.pmu, &r);
	ops->lbr_resume(&sp.pmu, r.ctl);
	cr_assert_eq(bed_run(&b, 2), VMM_EXIT_BUDGET);
	cr_assert_eq(sp.tally->lbr.total, 51);
	ops->lbr_reset(&sp.pmu);
	cr_assert_eq(bed_run(&b, 100), VMM_EXIT_BUDGET);
	for (size_t i = 0; i < sizeof(sp.tally->lbr); i++)
		cr_assert_eq(((uint8_t *)&sp.tally->lbr)[i], 0);
	cr_assert_gt(vpmu_emu_clock(sp.tally), cycles);
	vmm_emu_ops.set_tally(b.v, NULL);
}
