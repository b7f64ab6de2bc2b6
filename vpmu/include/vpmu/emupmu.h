/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The emulator's PMU: the counters of one modelled pCPU.
 *
 * The engine (vmm/emu) adds the events it executes to a tally. A counter is the low bits of one
 * word of the tally, so counters cost the engine nothing. The scheduler (vmm/sched) makes a PMU per
 * pCPU. Only the pCPU's owner may touch it.
 */
#ifndef VPMU_EMUPMU_H
#define VPMU_EMUPMU_H

#include <stdbool.h>
#include <stdint.h>

#include "vpmu/hostpmu.h"
#include "vpmu/lbr_regs.h"

#ifdef __cplusplus
extern "C" {
#endif

enum vpmu_emu_mode { VPMU_EMU_OS = 0, VPMU_EMU_USR = 1, VPMU_EMU_HOST = 2, VPMU_EMU_MODES };

/* Events that the emulator can count; their meanings are those of enum vpmu_generic. Cycles and
 * ref-cycles are modelled by a fixed table of costs (docs/internals/emulator.md). */
enum vpmu_emu_event {
	VPMU_EMU_CYCLES = 0,
	VPMU_EMU_INSTRUCTIONS,
	VPMU_EMU_REF_CYCLES,
	VPMU_EMU_BRANCHES,
	VPMU_EMU_BRANCHES_TAKEN,
	VPMU_EMU_LOADS,
	VPMU_EMU_STORES,
	VPMU_EMU_BRANCHES_CONDITIONAL,
	VPMU_EMU_EVENTS
};

/*
 * A set of modes: bit per enum vpmu_emu_mode. With GUESTONLY, HOSTONLY or both only the events of
 * vCPUs that have EFER.SVME set (AMD's SVM), in their guests, outside of them, or wherever they
 * are; then HOST is not in the set.
 */
#define VPMU_EMU_SVM_SHIFT VPMU_EMU_MODES
#define VPMU_EMU_GUESTONLY (1u << VPMU_EMU_SVM_SHIFT)
#define VPMU_EMU_HOSTONLY  (2u << VPMU_EMU_SVM_SHIFT)
#define VPMU_EMU_SETS	   (4u << VPMU_EMU_SVM_SHIFT)

/*
 * Counts are kept per mode, and per set of two or three modes, so that a counter is one word for
 * any set of modes. vpmu_emu_row maps a set to its row.
 */
enum vpmu_emu_row {
	VPMU_EMU_ROW_OS_USR = VPMU_EMU_MODES, /* the rows before are the modes' own */
	VPMU_EMU_ROW_OS_HOST,
	VPMU_EMU_ROW_USR_HOST,
	VPMU_EMU_ROW_ALL,
	VPMU_EMU_ROW_SVM, /* GUESTONLY, HOSTONLY, both: each OS, USR, and both of these */
	VPMU_EMU_ROWS = VPMU_EMU_ROW_SVM + 9
};

/* An alarm is due when the sum of an event over a set of modes reaches a value. */
struct vpmu_emu_alarm {
	uint8_t event; /* enum vpmu_emu_event */
	uint8_t modes; /* a set of modes */
	uint64_t at;   /* the sum at which it is due */
};

/*
 * Shared by the engine and the PMU of its pCPU: counts, alarms for which the engine must stop, and
 * branch records.
 *
 * While lbr.ctl has VPMU_LBR_EN the engine pushes and pops records, and lbr.cycles is the
 * vpmu_emu_clock time of the newest record. In a saved state, cycles is the time from that record
 * to the save; lbr_save and lbr_restore convert.
 */
struct vpmu_emu_tally {
	/* Written by vpmu_emu_count, _count_svm and _add. */
	uint64_t ev[VPMU_EMU_ROWS][VPMU_EMU_EVENTS];
	uint32_t armed; /* bit per counter: its alarm[] is set */
	struct vpmu_emu_alarm alarm[VPMU_MAX_CTRS];
	struct vpmu_lbr_regs lbr;
};

/* vpmu_emu_row - returns the row of the set @modes, which is not empty. Pure. */
static inline unsigned int vpmu_emu_row(unsigned int modes)
{
	/* OS, USR and HOST are bits 0, 1 and 2. */
	static const uint8_t row[1 << VPMU_EMU_MODES] = {
		0,
		VPMU_EMU_OS,
		VPMU_EMU_USR,
		VPMU_EMU_ROW_OS_USR,
		VPMU_EMU_HOST,
		VPMU_EMU_ROW_OS_HOST,
		VPMU_EMU_ROW_USR_HOST,
		VPMU_EMU_ROW_ALL,
	};
	unsigned int svm = modes >> VPMU_EMU_SVM_SHIFT;

	if (svm)
		return VPMU_EMU_ROW_SVM + (svm - 1) * 3 + (modes & 3) - 1;
	return row[modes];
}

/* The rows, besides the mode's own, in which an event in a mode is counted: one per set that
 * contains the mode. */
static const uint8_t vpmu_emu_sums[VPMU_EMU_MODES][3] = {
	{VPMU_EMU_ROW_OS_USR, VPMU_EMU_ROW_OS_HOST, VPMU_EMU_ROW_ALL},	 /* OS */
	{VPMU_EMU_ROW_OS_USR, VPMU_EMU_ROW_USR_HOST, VPMU_EMU_ROW_ALL},	 /* USR */
	{VPMU_EMU_ROW_OS_HOST, VPMU_EMU_ROW_USR_HOST, VPMU_EMU_ROW_ALL}, /* HOST */
};

/* vpmu_emu_add - count @n more of @event in @mode. Owner. */
static inline void vpmu_emu_add(struct vpmu_emu_tally *t, enum vpmu_emu_mode mode,
				enum vpmu_emu_event event, uint64_t n)
{
	t->ev[mode][event] += n;
	for (int i = 0; i < 3; i++)
		t->ev[vpmu_emu_sums[mode][i]][event] += n;
}

/* vpmu_emu_count - count n[event] more of every event in @mode. Owner. */
static inline void vpmu_emu_count(struct vpmu_emu_tally *t, enum vpmu_emu_mode mode,
				  const uint64_t n[VPMU_EMU_EVENTS])
{
	for (int e = 0; e < VPMU_EMU_EVENTS; e++)
		t->ev[mode][e] += n[e];
	for (int i = 0; i < 3; i++) {
		uint64_t *sum = t->ev[vpmu_emu_sums[mode][i]];

		for (int e = 0; e < VPMU_EMU_EVENTS; e++)
			sum[e] += n[e];
	}
}

/* vpmu_emu_count_svm - count them for the sets with GUESTONLY or HOSTONLY, too: EFER.SVME is 1.
 * @svm: which of the two is the vCPU's mode. @mode: OS or USR. Owner. */
static inline void vpmu_emu_count_svm(struct vpmu_emu_tally *t, unsigned int svm,
				      enum vpmu_emu_mode mode, const uint64_t n[VPMU_EMU_EVENTS])
{
	const unsigned int both = VPMU_EMU_GUESTONLY | VPMU_EMU_HOSTONLY;
	const unsigned int sets[] = {svm | 1u << mode, svm | 3, both | 1u << mode, both | 3};

	for (int i = 0; i < 4; i++) {
		uint64_t *sum = t->ev[vpmu_emu_row(sets[i])];

		for (int e = 0; e < VPMU_EMU_EVENTS; e++)
			sum[e] += n[e];
	}
}

/* vpmu_emu_alarm_left - returns the number of events until @a is due; 0: it is due. Owner. */
static inline uint64_t vpmu_emu_alarm_left(const struct vpmu_emu_tally *t,
					   const struct vpmu_emu_alarm *a)
{
	uint64_t sum = t->ev[vpmu_emu_row(a->modes)][a->event];

	return (int64_t)(a->at - sum) > 0 ? a->at - sum : 0;
}

/* vpmu_emu_alarm_due - returns true if an armed alarm is due. Owner. */
static inline bool vpmu_emu_alarm_due(const struct vpmu_emu_tally *t)
{
	for (uint32_t armed = t->armed; armed; armed &= armed - 1)
		if (!vpmu_emu_alarm_left(t, &t->alarm[__builtin_ctz(armed)]))
			return true;
	return false;
}

/* vpmu_emu_clock - returns the modelled cycles of the pCPU's guests: the clock of branch records.
 * It excludes the host's cycles, which would reveal to a guest that an operator samples it. Owner.
 */
static inline uint64_t vpmu_emu_clock(const struct vpmu_emu_tally *t)
{
	return t->ev[VPMU_EMU_OS][VPMU_EMU_CYCLES] + t->ev[VPMU_EMU_USR][VPMU_EMU_CYCLES];
}

struct vpmu_emupmu {
	struct vpmu_hostpmu pmu;	     /* first */
	const uint64_t *word[VPMU_MAX_CTRS]; /* pmu.word */
	struct vpmu_emu_tally *tally;
	struct vpmu_emu_tally own_tally; /* default of tally; change tally before use only */
	uint64_t own_clock_ns;		 /* default of pmu.clock_ns, likewise */
	void (*kick)(void *arg);
	void *kick_arg;
	struct vpmu_emu_ctr {
		bool bound;
		vpmu_key_t key;
		uint8_t event;	     /* enum vpmu_emu_event */
		uint8_t modes;	     /* a set of modes */
		uint64_t audit_base; /* sum of the modes' own counts at the bind */
	} ctr[VPMU_MAX_CTRS];
};

struct vpmu_emupmu_opts {
	unsigned int gp;    /* general-purpose counters, 0..16; 0 is the default, 4 */
	unsigned int fixed; /* fixed counters: instructions, cycles, ref-cycles; 0..3; 0 is the
			     * default, 3 */
	unsigned int width; /* of the counters, in bits: 8..63; 0 is the default, 48 */
	bool no_default;    /* gp and fixed of 0 mean 0 */
	bool no_lbr;	    /* no branch records */
};

/*
 * vpmu_emupmu_init - initialize *@sp, the caller's memory, before its pCPU is created. @opts may be
 * NULL: the defaults. Counters 0 .. gp - 1 are general purpose, gp .. gp + fixed - 1 are fixed.
 * Returns 0; -EINVAL: @opts out of range.
 */
int vpmu_emupmu_init(struct vpmu_emupmu *sp, const struct vpmu_emupmu_opts *opts);

#ifdef __cplusplus
}
#endif

#endif
