/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * What a host PMU implements: the counters of one pCPU (emulator, emupmu.h) or of one vCPU
 * thread (perf events, hostpmu_perf.h).
 *
 * libvpmu calls the operations from the thread that owns the pCPU, or from a control thread while
 * the pCPU is offline; never two at a time. Operations that say "switch path" run at every switch:
 * they must not take a lock, allocate memory or make a system call beyond what reading a counter
 * needs.
 */
#ifndef VPMU_HOSTPMU_H
#define VPMU_HOSTPMU_H

#include <stdint.h>

#include "vpmu/event/key.h"
#include "vpmu/value.h"

#define VPMU_MAX_CTRS 32

struct vpmu_hostpmu;
struct vpmu_lbr_regs;

struct vpmu_hostpmu_ops {
	const char *name; /* "emulator", "perf" */

	/* The counters that could count @key: bit n is counter n. 0: this PMU cannot count it. The
	 * answer can change; libvpmu asks again at ticks for keys that have no counter. Any thread.
	 */
	uint32_t (*eligible)(const struct vpmu_hostpmu *pmu, vpmu_key_t key);

	/* How good counts of @key are on this PMU. Any thread. */
	enum vpmu_quality (*quality)(const struct vpmu_hostpmu *pmu, vpmu_key_t key);

	/*
	 * Program counter @ctr, which is free, for @key and start it. Its value after that can be
	 * any number: libvpmu reads it and counts from there. -errno when the host refuses; then
	 * nothing has changed.
	 */
	int (*bind)(struct vpmu_hostpmu *pmu, unsigned int ctr, vpmu_key_t key);

	/* Stop bound counter @ctr and free it. Drops its alarm. */
	void (*unbind)(struct vpmu_hostpmu *pmu, unsigned int ctr);

	/* The value of bound counter @ctr, modulo width_mask + 1. Switch path. */
	uint64_t (*read)(struct vpmu_hostpmu *pmu, unsigned int ctr);

	/* The time of this pCPU's clock in ns: monotonic, with any starting point. It stands still
	 * while nothing can run on the pCPU. Switch path. */
	uint64_t (*now)(const struct vpmu_hostpmu *pmu);

	/*
	 * How long bound counter @ctr has not counted since its bind, in ns of now(), as of its
	 * last read(): the host gave the hardware to somebody else. It never goes down during a
	 * bind. libvpmu takes it off the running time of whoever ran. NULL, and always for a PMU
	 * with words: bound counters count all the time. Switch path.
	 */
	uint64_t (*gap_ns)(const struct vpmu_hostpmu *pmu, unsigned int ctr);

	/*
	 * The bound counters that have stopped for good: bit n is counter n. libvpmu unbinds them.
	 * Their keys are bound again as soon as the host accepts that. Owner, at ticks. NULL: no
	 * counter is ever lost.
	 */
	uint32_t (*lost)(struct vpmu_hostpmu *pmu);

	/*
	 * For the check that nothing is lost (conservation.h): all that bound counter @ctr has
	 * counted since its bind, as 64 bits, found by another way than read(). NULL: the host has
	 * no other way.
	 */
	uint64_t (*audit)(const struct vpmu_hostpmu *pmu, unsigned int ctr);

	/* Make the owner call vpmu_pcpu_poll soon. Any thread. NULL: the owner polls often enough.
	 */
	void (*kick)(struct vpmu_hostpmu *pmu);

	/*
	 * Set the alarm of bound counter @ctr: the owner shall call vpmu_pcpu_overflow as soon as
	 * the hardware can tell that the counter has counted @events more. It replaces the
	 * counter's last alarm. @events is at most half of width_mask, which leaves room for what
	 * is counted until the owner calls. 0 removes the alarm. Switch path.
	 *
	 *   an alarm that goes off early   is answered by arming again
	 *   an alarm that goes off late    makes the sample late
	 *   arm is NULL: no alarms         samples are taken when the slot is next charged
	 *
	 * None of these makes a count wrong.
	 */
	void (*arm)(struct vpmu_hostpmu *pmu, unsigned int ctr, uint64_t events);

	/*
	 * Branch records; not NULL if lbr_depth > 0. All are on the switch path.
	 *   lbr_save     stop recording and copy the state to *@r. The state also stays in place
	 *   lbr_resume   record by @ctl again, from the state that lbr_save left in place
	 *   lbr_restore  replace the state by *@r; record if r->ctl has VPMU_LBR_EN
	 *   lbr_reset    stop recording and set the whole state to zero
	 */
	void (*lbr_save)(struct vpmu_hostpmu *pmu, struct vpmu_lbr_regs *r);
	void (*lbr_resume)(struct vpmu_hostpmu *pmu, uint32_t ctl);
	void (*lbr_restore)(struct vpmu_hostpmu *pmu, const struct vpmu_lbr_regs *r);
	void (*lbr_reset)(struct vpmu_hostpmu *pmu);
};

/* The first member of an implementation's own struct. Constant once it is given to
 * vpmu_pcpu_create. */
struct vpmu_hostpmu {
	const struct vpmu_hostpmu_ops *ops;
	unsigned int nr_ctrs;	  /* 1 .. VPMU_MAX_CTRS */
	uint32_t fixed_mask;	  /* counters that count one event only; libvpmu uses them first */
	uint64_t width_mask;	  /* (1 << counter width) - 1 */
	const uint64_t *clock_ns; /* the word that now() returns; NULL: call now() */
	/*
	 * word[ctr] is where bound counter @ctr can be read as memory, from its bind to its unbind:
	 * the same value as read(), though not cut to the width. It saves the switch path a call
	 * per counter. NULL: call read().
	 */
	const uint64_t *const *word;
	unsigned int lbr_depth; /* 0: no branch records */
};

#endif
