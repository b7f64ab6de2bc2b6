/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The soft machine's PMU: the counters of one modelled pCPU, as hardware would have them.
 *
 * The engine (vmm/emu) adds what it executed to a tally. A counter is the low bits of one word of
 * the tally, so that counting costs the engine nothing per counter. The scheduler (vmm/sched) makes
 * a PMU per pCPU. Only the pCPU's owner may touch it.
 */
#ifndef VPMU_SOFTPMU_H
#define VPMU_SOFTPMU_H

#include <stdbool.h>
#include <stdint.h>

#include "vpmu/hostpmu.h"
#include "vpmu/lbr_regs.h"

enum vpmu_soft_mode { VPMU_SOFT_OS = 0, VPMU_SOFT_USR = 1, VPMU_SOFT_HOST = 2, VPMU_SOFT_MODES };

/* What the soft machine can count; enum vpmu_generic has the meanings. Cycles and ref-cycles are
 * modelled by a fixed table of costs (docs/emulator.md). */
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

/*
 * Counts are kept by mode, and for each set of two or three modes as well, so that a counter is one
 * word whatever modes its key counts in. vpmu_soft_row says which row belongs to a set.
 */
enum vpmu_soft_row {
	VPMU_SOFT_ROW_OS_USR = VPMU_SOFT_MODES, /* the rows before are the modes' own */
	VPMU_SOFT_ROW_OS_HOST,
	VPMU_SOFT_ROW_USR_HOST,
	VPMU_SOFT_ROW_ALL,
	VPMU_SOFT_ROWS
};

/* An alarm: it is due when the sum of an event over some modes has reached a value. */
struct vpmu_soft_alarm {
	uint8_t event; /* enum vpmu_soft_event */
	uint8_t modes; /* bit per enum vpmu_soft_mode */
	uint64_t at;   /* the sum at which it is due */
};

/*
 * What the engine shares with the PMU of the pCPU it runs on: the counts, the alarms that it must
 * stop for, and the branch records that it makes.
 *
 * While lbr.ctl has VPMU_LBR_EN the engine pushes and pops records, and lbr.cycles is the time of
 * the newest record by vpmu_soft_clock. In a saved state, cycles is the distance from that time to
 * the save; lbr_save and lbr_restore convert between the two.
 */
struct vpmu_soft_tally {
	uint64_t ev[VPMU_SOFT_ROWS][VPMU_SOFT_EVENTS]; /* written by vpmu_soft_count and _add */
	uint32_t armed;				       /* bit per counter: its alarm[] is set */
	struct vpmu_soft_alarm alarm[VPMU_MAX_CTRS];
	struct vpmu_lbr_regs lbr;
};

/* vpmu_soft_row - the row of the set @modes (bit per enum vpmu_soft_mode, not 0). Pure. */
static inline unsigned int vpmu_soft_row(unsigned int modes)
{
	static const uint8_t row[1 << VPMU_SOFT_MODES] = {
		[1 << VPMU_SOFT_OS] = VPMU_SOFT_OS,
		[1 << VPMU_SOFT_USR] = VPMU_SOFT_USR,
		[1 << VPMU_SOFT_HOST] = VPMU_SOFT_HOST,
		[1 << VPMU_SOFT_OS | 1 << VPMU_SOFT_USR] = VPMU_SOFT_ROW_OS_USR,
		[1 << VPMU_SOFT_OS | 1 << VPMU_SOFT_HOST] = VPMU_SOFT_ROW_OS_HOST,
		[1 << VPMU_SOFT_USR | 1 << VPMU_SOFT_HOST] = VPMU_SOFT_ROW_USR_HOST,
		[(1 << VPMU_SOFT_MODES) - 1] = VPMU_SOFT_ROW_ALL,
	};

	return row[modes];
}

/* The rows in which an event in a mode is counted besides the mode's own: one per set that has the
 * mode in it. */
static const uint8_t vpmu_soft_sums[VPMU_SOFT_MODES][3] = {
	[VPMU_SOFT_OS] = {VPMU_SOFT_ROW_OS_USR, VPMU_SOFT_ROW_OS_HOST, VPMU_SOFT_ROW_ALL},
	[VPMU_SOFT_USR] = {VPMU_SOFT_ROW_OS_USR, VPMU_SOFT_ROW_USR_HOST, VPMU_SOFT_ROW_ALL},
	[VPMU_SOFT_HOST] = {VPMU_SOFT_ROW_OS_HOST, VPMU_SOFT_ROW_USR_HOST, VPMU_SOFT_ROW_ALL},
};

/* vpmu_soft_add - @n more of @event in @mode. Owner. */
static inline void vpmu_soft_add(struct vpmu_soft_tally *t, enum vpmu_soft_mode mode,
				 enum vpmu_soft_event event, uint64_t n)
{
	t->ev[mode][event] += n;
	for (int i = 0; i < 3; i++)
		t->ev[vpmu_soft_sums[mode][i]][event] += n;
}

/* vpmu_soft_count - n[event] more of every event in @mode. Owner. */
static inline void vpmu_soft_count(struct vpmu_soft_tally *t, enum vpmu_soft_mode mode,
				   const uint64_t n[VPMU_SOFT_EVENTS])
{
	for (int e = 0; e < VPMU_SOFT_EVENTS; e++)
		t->ev[mode][e] += n[e];
	for (int i = 0; i < 3; i++) {
		uint64_t *sum = t->ev[vpmu_soft_sums[mode][i]];

		for (int e = 0; e < VPMU_SOFT_EVENTS; e++)
			sum[e] += n[e];
	}
}

/* vpmu_soft_alarm_left - how many events are left until @a is due; 0: it is due. Owner. */
static inline uint64_t vpmu_soft_alarm_left(const struct vpmu_soft_tally *t,
					    const struct vpmu_soft_alarm *a)
{
	uint64_t sum = t->ev[vpmu_soft_row(a->modes)][a->event];

	return (int64_t)(a->at - sum) > 0 ? a->at - sum : 0;
}

/* vpmu_soft_alarm_due - whether an alarm is due that was not answered yet. Owner. */
static inline bool vpmu_soft_alarm_due(const struct vpmu_soft_tally *t)
{
	for (uint32_t armed = t->armed; armed; armed &= armed - 1)
		if (!vpmu_soft_alarm_left(t, &t->alarm[__builtin_ctz(armed)]))
			return true;
	return false;
}

/* vpmu_soft_clock - the modelled cycles of the pCPU's guests, which is the clock of branch records.
 * The host's cycles are not in it: a guest could tell from them when an operator samples it. Owner.
 */
static inline uint64_t vpmu_soft_clock(const struct vpmu_soft_tally *t)
{
	return t->ev[VPMU_SOFT_OS][VPMU_SOFT_CYCLES] + t->ev[VPMU_SOFT_USR][VPMU_SOFT_CYCLES];
}

struct vpmu_softpmu {
	struct vpmu_hostpmu pmu;	     /* first */
	const uint64_t *word[VPMU_MAX_CTRS]; /* pmu.word: of bound counters */
	struct vpmu_soft_tally *tally;
	struct vpmu_soft_tally own_tally; /* where tally points, unless it is changed before use */
	uint64_t own_clock_ns; /* where pmu.clock_ns points, unless it is changed before use */
	void (*kick)(void *arg);
	void *kick_arg;
	struct vpmu_soft_ctr {
		bool bound;
		vpmu_key_t key;
		uint8_t event;			      /* enum vpmu_soft_event */
		uint8_t modes;			      /* bit per enum vpmu_soft_mode */
		uint64_t audit_base[VPMU_SOFT_MODES]; /* counts by mode at the bind */
	} ctr[VPMU_MAX_CTRS];
};

struct vpmu_softpmu_opts {
	unsigned int gp;    /* general-purpose counters, 0..16; 0 is the default, 4 */
	unsigned int fixed; /* fixed counters: instructions, cycles, ref-cycles; 0..3; 0 is the
			     * default, 3 */
	unsigned int width; /* of the counters, in bits: 8..63; 0 is the default, 48 */
	bool no_default;    /* gp and fixed of 0 mean 0 */
	bool no_lbr;	    /* no branch records */
};

/*
 * vpmu_softpmu_init - make *@sp, the caller's memory, a PMU; before its pCPU exists. @opts may be
 * NULL: the defaults. Counters 0 .. gp - 1 are general purpose, gp .. gp + fixed - 1 are fixed.
 * -EINVAL: @opts are out of range.
 */
int vpmu_softpmu_init(struct vpmu_softpmu *sp, const struct vpmu_softpmu_opts *opts);

#endif
