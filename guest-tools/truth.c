// SPDX-License-Identifier: GPL-2.0-or-later
/* Compares the branch records of a sample with the truth; see truth.h. */
#include "guest-tools/flow.h"
#include "guest-tools/truth.h"

unsigned int truth_chain(const struct sampler *s, const struct guest_sample *g, unsigned int *want)
{
	const uint64_t *stack = sample_stack(g), *lbr = sample_lbr(s, g);
	unsigned int n = 0;

	*want = g->nr_stack;
	while (n < *want && n < g->nr_lbr) {
		uint64_t from = lbr[2 * n], to = lbr[2 * n + 1];

		if (!lbr_record(&s->lbr, &from, &to) || !flow_call_ok(from, to, stack[n]))
			break;
		n++;
	}
	return n;
}

unsigned int truth_branches(const struct sampler *s, const struct guest_sample *g,
			    unsigned int *want)
{
	struct flow_branch b[LBR_DEPTH_MAX];
	const uint64_t *lbr = sample_lbr(s, g);
	int true_nr = flow_branches((uint64_t)branch_code, g->ip, g->r8, b, (int)s->pmi.lbr_nr);
	unsigned int n = 0;

	*want = true_nr < 0 ? 0 : (unsigned int)true_nr;
	while (n < *want && n < g->nr_lbr) {
		uint64_t from = lbr[2 * n], to = lbr[2 * n + 1];

		if (!lbr_record(&s->lbr, &from, &to) || from != b[n].from || to != b[n].to)
			break;
		n++;
	}
	return n;
}

bool truth_edge(const struct guest_sample *g, bool branches)
{
	return !(g->cs & 3) || (branches && (g->ip < (uint64_t)branch_blocks ||
					     g->ip >= (uint64_t)branch_blocks + 16 * 64));
}
