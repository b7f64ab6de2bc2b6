/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The soft machine's PMU: one modelled pCPU's counters, as hardware would have them.
 *
 * The engine adds what it executed to the tallies, per privilege mode; a counter is a key and a
 * base, its value the masked difference, so counting costs the engine nothing per counter. One
 * thread - the pCPU's owner - touches it.
 */
#ifndef VPMU_SOFTPMU_H
#define VPMU_SOFTPMU_H

#include <stdbool.h>
#include <stdint.h>

#include "vpmu/hostpmu.h"
#include "vpmu/lbr_regs.h"

enum vpmu_soft_mode { VPMU_SOFT_OS = 0, VPMU_SOFT_USR = 1, VPMU_SOFT_HOST = 2, VPMU_SOFT_MODES };

/* What the soft machine can count, indexed by these; see enum vpmu_generic for the meanings.
 * cycles and ref_cycles are modelled: a fixed cost table (docs/soft-machine.md). */
enum vpmu_soft_event {
	VPMU_SOFT_CYCLES = 0,
	VPMU_SOFT_INSTRUCTIONS,
	VPMU_SOFT_REF_CYCLES,
	VPMU_SOFT_BRANCHES,
	VPMU_SOFT_BRANCHES_TAKEN,
	VPMU_SOFT_LOADS,
	VPMU_SOFT_STORES,
	VPMU_SOFT_EVENTS
};

/* Fires when the sum of an event over some modes has reached a value. */
struct vpmu_soft_alarm {
	uint8_t event; /* enum vpmu_soft_event */
	uint8_t modes; /* bit per enum vpmu_soft_mode */
	uint64_t at;   /* sum at which it fires */
};

/*
 * What the engine shares with the PMU of the pCPU it runs on: tallies, the alarms it must stop for,
 * the branch records it makes. @lbr is live while lbr.ctl has VPMU_LBR_EN: the engine then pushes
 * (and pops) records; lbr.cycles holds the modelled clock (vpmu_soft_clock) of the newest
 * record meanwhile: save and restore turn it into a distance and back.
 */
struct vpmu_soft_tally {
	uint64_t ev[VPMU_SOFT_MODES][VPMU_SOFT_EVENTS];
	uint32_t armed; /* bit per counter: alarm[] is in use */
	struct vpmu_soft_alarm alarm[VPMU_MAX_CTRS];
	struct vpmu_lbr_regs lbr;
};

/* vpmu_soft_alarm_left - events until @a fires; 0: it is due. Owner. */
static inline uint64_t vpmu_soft_alarm_left(const struct vpmu_soft_tally *t,
					    const struct vpmu_soft_alarm *a)
{
	uint64_t sum = 0;

	for (int m = 0; m < VPMU_SOFT_MODES; m++)
		sum += a->modes & (1 << m) ? t->ev[m][a->event] : 0;
	return (int64_t)(a->at - sum) > 0 ? a->at - sum : 0;
}

/* vpmu_soft_alarm_due - whether an armed alarm is due: it was not answered yet. Owner. */
static inline bool vpmu_soft_alarm_due(const struct vpmu_soft_tally *t)
{
	for (uint32_t armed = t->armed; armed; armed &= armed - 1)
		if (!vpmu_soft_alarm_left(t, &t->alarm[__builtin_ctz(armed)]))
			return true;
	return false;
}

/* vpmu_soft_clock - modelled cycles of the pCPU's guests: the clock of branch records. The host's
 * own would tell a guest when it exits for reasons that are not its business, a sample of an
 * operator's. Owner. */
static inline uint64_t vpmu_soft_clock(const struct vpmu_soft_tally *t)
{
	return t->ev[VPMU_SOFT_OS][VPMU_SOFT_CYCLES] + t->ev[VPMU_SOFT_USR][VPMU_SOFT_CYCLES];
}

struct vpmu_softpmu {
	struct vpmu_hostpmu pmu; /* first */
	struct vpmu_ctr_mem mem[VPMU_MAX_CTRS];
	struct vpmu_soft_tally *tally;
	struct vpmu_soft_tally own_tally; /* tally points here unless set to another before use */
	uint64_t own_clock_ns; /* pmu.clock_ns points here unless set to another before use */
	void (*kick)(void *arg);
	void *kick_arg;
	struct vpmu_soft_ctr {
		bool bound;
		vpmu_key_t key;
		uint8_t event; /* enum vpmu_soft_event */
		uint8_t modes; /* bit per enum vpmu_soft_mode */
		uint64_t base; /* tally sum at bind */
		uint64_t audit_base[VPMU_SOFT_MODES];
	} ctr[VPMU_MAX_CTRS];
};

struct vpmu_softpmu_opts {
	unsigned int gp;    /* general-purpose counters, 0..16; default (all zero opts) 4 */
	unsigned int fixed; /* fixed: instructions, cycles, ref-cycles; 0..3; default 3 */
	unsigned int width; /* bits, 8..63; default 48 */
	bool no_default;    /* take gp and fixed literally, zeros included */
	bool no_lbr;	    /* no branch records */
};

/* vpmu_softpmu_init - @sp is the caller's memory. Counters n < gp are general purpose, gp..gp+2
 * fixed. -EINVAL on opts out of range. Before the pCPU exists. */
int vpmu_softpmu_init(struct vpmu_softpmu *sp, const struct vpmu_softpmu_opts *opts);

#endif
