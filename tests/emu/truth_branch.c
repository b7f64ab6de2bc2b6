// SPDX-License-Identifier: GPL-2.0-or-later
/* Branch records of the emulator against those of a native, single-stepped run. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "tests/emu/dt.h"
#include "tests/emu/truth_run.h"

/* A CPU's records after @insns instructions: the last 32 branches, or the open calls. */
struct expected {
	const struct truth_branch *b[VPMU_LBR_DEPTH_MAX];
	unsigned int nr;
};

static void expect(const struct run *r, uint64_t insns, bool stack, struct expected *e)
{
	e->nr = 0;
	for (size_t i = 0; i < r->log.nr && r->log.b[i].insn <= insns; i++) {
		const struct truth_branch *b = &r->log.b[i];
		bool call = b->type == 3 || b->type == 4;

		if (stack && b->type == 5) {
			e->nr -= !!e->nr;
			continue;
		}
		if (stack && (!call || b->to == b->next))
			continue;
		if (e->nr == VPMU_LBR_DEPTH_MAX)
			memmove(e->b, e->b + 1, --e->nr * sizeof(e->b[0]));
		e->b[e->nr++] = b;
	}
}

static bool records_right(const struct run *r, uint64_t insns, bool stack,
			  const struct vpmu_lbr_regs *l)
{
	struct expected e;
	bool ok;

	expect(r, insns, stack, &e);
	ok = l->count == e.nr;
	for (unsigned int i = 0; i < e.nr && ok; i++) {
		const struct vpmu_lbr_entry *x = vpmu_lbr_nth(l, i);
		const struct truth_branch *b = e.b[e.nr - 1 - i];
		/* The last RET goes elsewhere here. */
		uint64_t to = b == &r->log.b[r->log.nr - 1] ? EXIT_VA : b->to;

		ok = x && x->from == b->from && x->to == to &&
		     (x->info & VPMU_LBR_INFO_TYPE) >> VPMU_LBR_INFO_TYPE_SHIFT == b->type;
		if (!ok && x)
			printf("# %s, after %" PRIu64 ": record %u is %#" PRIx64 " -> %#" PRIx64
			       " (%#" PRIx64 "), natively %#" PRIx64 " -> %#" PRIx64 " (%u)\n",
			       r->name, insns, i, x->from, x->to, x->info, b->from, to, b->type);
	}
	if (l->count != e.nr)
		printf("# %s, after %" PRIu64 ": %u records, natively %u\n", r->name, insns,
		       l->count, e.nr);
	return ok;
}

/* In random slices on two pCPUs, the records moving along; looked at after each slice. */
static int follow(const struct run *r, struct bare *s, bool stack, uint64_t *rng)
{
	struct vpmu_emu_tally tally[NR_PCPUS] = {0};
	struct vpmu_lbr_regs regs = {
		.ctl = VPMU_LBR_EN | VPMU_LBR_USR |
		       (stack ? VPMU_LBR_CALL_STACK | VPMU_LBR_CALLS : VPMU_LBR_TYPES),
		.depth = VPMU_LBR_DEPTH_MAX};
	struct account a = {.r = r};
	uint64_t most = 1 + dt_below(rng, 4096);

	while (!a.done) {
		int p = (int)dt_below(rng, NR_PCPUS);
		int rc;

		tally[p].lbr = regs;
		tally[p].lbr.cycles = vpmu_emu_clock(&tally[p]) - regs.cycles;
		rc = slice(s, 0, &a, &tally[p], p, 1 + dt_below(rng, most));
		if (rc)
			return rc;
		regs = tally[p].lbr;
		regs.cycles = vpmu_emu_clock(&tally[p]) - regs.cycles;
		if (!records_right(r, a.ev[VPMU_EMU_INSTRUCTIONS], stack, &regs))
			return -ERANGE;
	}
	return 0;
}

void truth_branches(const struct run *runs, unsigned int nr, bool stack, uint64_t seed)
{
	uint64_t rng = seed;

	for (unsigned int k = 0; k < nr; k++) {
		int rc = 0;

		for (unsigned int round = 0; round < 10 && !rc; round++) {
			struct bare s = {0};

			rc = start_machine(&s, 1);
			if (!rc)
				rc = start_vcpu(&s, 0, &runs[k], false);
			if (!rc)
				rc = follow(&runs[k], &s, stack, &rng);
			bare_destroy(&s);
		}
		if (rc)
			printf("# %s: %s\n", runs[k].name, strerror(-rc));
		result(!rc,
		       stack ? "%s: the open calls are the single-stepped ones"
			     : "%s: the last branches are the single-stepped ones",
		       runs[k].name);
	}
}
