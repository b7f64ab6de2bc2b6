// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Alarms of the pCPU's PMU: limits on execution, so that it does not pass the instruction that
 * makes an alarm due. run.c calls emu_alarm_limit() for each chunk, cache.c calls
 * emu_alarm_decoded() for each new block. This file must never change the tally.
 *
 * A chunk is limited so that it cannot pass an armed alarm. The limit follows from the most events
 * that its instructions can make. Close to an alarm this limit is less than a block. The block is
 * then examined instruction by instruction, because the events of most instructions are known when
 * they are decoded. Three facts are unknown then:
 *   - if the branch at the end of the block is taken;
 *   - the cycles that a repeated string instruction adds (it ends its block);
 *   - the mode in which the events after a system instruction count.
 * While an alarm is armed, the dispatch loop stops immediately after system and repeated string
 * instructions, and run.c examines the alarms again.
 */
#include "vmm/emu/internal.h"

/* Most cycles of a system instruction, which may end a chunk; v->density does not include it. */
#define SYS_CYCLES (EMU_COST_MAX + EMU_TAKEN_CYCLES)

static unsigned int ev_count(uint8_t ev, enum vpmu_emu_event event)
{
	switch (event) {
	case VPMU_EMU_INSTRUCTIONS:
		return 1;
	case VPMU_EMU_CYCLES:
	case VPMU_EMU_REF_CYCLES:
		return emu_ev_cost(ev);
	case VPMU_EMU_LOADS:
		return !!(ev & EMU_EV_LOAD);
	case VPMU_EMU_STORES:
		return !!(ev & EMU_EV_STORE);
	case VPMU_EMU_BRANCHES:
		return !!(ev & EMU_EV_BRANCH);
	case VPMU_EMU_BRANCHES_CONDITIONAL:
		return emu_ev_conditional(ev);
	default:
		return 0; /* taken branches are known only at the end of the block */
	}
}

/* Number of instructions of @b up to and including the one that makes the @left-th event, or all of
 * @b if none does. */
static int64_t alarm_walk(const struct emu_block *b, enum vpmu_emu_event event, uint64_t left)
{
	uint64_t sum = 0;
	int64_t n = 0;

	for (const struct emu_op *op = b->ops; op < b->ops + b->nr_ops && sum < left; op++)
		if (op->len) {
			sum += ev_count(op->ev, event);
			n++;
		}
	return sum < left ? b->n : n;
}

int64_t emu_alarm_limit(const struct emu_vcpu *v, const struct emu_block *b, int64_t n)
{
	const struct vpmu_emu_tally *t = v->tally;
	unsigned int mode = v->cpl ? 1u << VPMU_EMU_USR : 1u << VPMU_EMU_OS;
	unsigned int svm = emu_svm_mode(v);

	for (uint32_t armed = t->armed; armed; armed &= armed - 1) {
		const struct vpmu_emu_alarm *a = &t->alarm[__builtin_ctz(armed)];
		uint64_t left, most;

		if (!(a->modes & mode) || (a->modes >> VPMU_EMU_SVM_SHIFT && !(a->modes & svm)))
			continue;
		left = vpmu_emu_alarm_left(t, a);
		most = left;
		if (a->event == VPMU_EMU_CYCLES || a->event == VPMU_EMU_REF_CYCLES)
			most = left > SYS_CYCLES ? (left - SYS_CYCLES) / v->density : 0;
		if (most < (uint64_t)b->n)
			most = (uint64_t)alarm_walk(b, a->event, left);
		if (most < (uint64_t)n)
			n = (int64_t)most;
	}
	return n;
}

int64_t emu_deadline_limit(const struct emu_vcpu *v, const struct emu_block *b, int64_t n,
			   uint64_t left, bool *armed)
{
	uint64_t most;

	/* Further away than any chunk reaches. (Repeated string instructions check by themselves.)
	 */
	if (left > (uint64_t)n * SYS_CYCLES)
		return n;
	*armed = true;
	most = left > SYS_CYCLES ? (left - SYS_CYCLES) / v->density : 0;
	if (most < (uint64_t)b->n)
		most = (uint64_t)alarm_walk(b, VPMU_EMU_CYCLES, left);
	return most < (uint64_t)n ? (int64_t)most : n;
}

void emu_alarm_decoded(struct emu_vcpu *v, const struct emu_block *b, bool alone)
{
	uint32_t cycles = (b->sum >> EMU_LANE_CYCLES & 0xffff) + EMU_TAKEN_CYCLES, most;

	most = (cycles + (uint32_t)b->n - 1) / (uint32_t)b->n;
	if (alone || most <= v->density)
		return;
	v->density = most;
	v->attn |= EMU_ATTN_DENSE;
}
