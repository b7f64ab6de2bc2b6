/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The interface of a host PMU: the counters of one pCPU (emulator, emupmu.h), or of one vCPU thread
 * or one CPU (perf events, hostpmu_perf.h).
 *
 * libvpmu calls the operations from the thread that owns the pCPU, or from a control thread while
 * the pCPU is offline; never two at a time, except those marked "Any thread". Operations marked
 * "Switch path" run at every switch: they must not take a lock, allocate memory or make system
 * calls other than those needed to read a counter.
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

	/* Returns the counters that can count @key: bit n is counter n; 0: none can. The answer may
	 * change: at ticks libvpmu calls this again for keys without a counter. Any thread. */
	uint32_t (*eligible)(const struct vpmu_hostpmu *pmu, vpmu_key_t key);

	/* Returns the quality of counts of @key on this PMU. Any thread. */
	enum vpmu_quality (*quality)(const struct vpmu_hostpmu *pmu, vpmu_key_t key);

	/*
	 * Program free counter @ctr for @key and start it. Its initial value is arbitrary: libvpmu
	 * reads it as the base. Returns 0, or -errno if the host refuses; then nothing has changed.
	 */
	int (*bind)(struct vpmu_hostpmu *pmu, unsigned int ctr, vpmu_key_t key);

	/* Stop and free bound counter @ctr, and drop its alarm. */
	void (*unbind)(struct vpmu_hostpmu *pmu, unsigned int ctr);

	/* Returns the value of bound counter @ctr, modulo width_mask + 1. Switch path. */
	uint64_t (*read)(struct vpmu_hostpmu *pmu, unsigned int ctr);

	/* Returns the time of this pCPU's clock in ns: monotonic, with an arbitrary start. It
	 * stands still while nothing can run on the pCPU. Switch path. */
	uint64_t (*now)(const struct vpmu_hostpmu *pmu);

	/*
	 * Returns the time for which bound counter @ctr has not counted since its bind, in ns of
	 * now(), as of its last read(), because the host used the hardware otherwise. It never
	 * decreases during a bind. libvpmu subtracts it from the running time of the accounts.
	 * NULL: bound counters count all the time; required of a PMU with words. Switch path.
	 */
	uint64_t (*gap_ns)(const struct vpmu_hostpmu *pmu, unsigned int ctr);

	/*
	 * Returns the bound counters that have stopped for good: bit n is counter n. libvpmu
	 * unbinds them and binds their keys again when the host permits. NULL: counters are never
	 * lost. Owner, at ticks.
	 */
	uint32_t (*lost)(struct vpmu_hostpmu *pmu);

	/*
	 * Returns the 64-bit count of bound counter @ctr since its bind, obtained independently of
	 * read(), for the conservation check (conservation.h). NULL: there is no independent way.
	 */
	uint64_t (*audit)(const struct vpmu_hostpmu *pmu, unsigned int ctr);

	/* Make the owner call vpmu_pcpu_poll soon. NULL: the owner polls often enough. Any thread.
	 */
	void (*kick)(struct vpmu_hostpmu *pmu);

	/*
	 * Set the alarm of bound counter @ctr: after @events more events the owner must call
	 * vpmu_pcpu_overflow as soon as the hardware permits. Replaces the counter's previous
	 * alarm; 0 removes it. @events <= width_mask / 2, which leaves room for events until that
	 * call. Switch path.
	 *
	 *   an early alarm       libvpmu arms again
	 *   a late alarm         the sample is late
	 *   arm is NULL          no alarms: samples are taken when the slot is next charged
	 *
	 * None of these makes a count wrong.
	 */
	void (*arm)(struct vpmu_hostpmu *pmu, unsigned int ctr, uint64_t events);

	/*
	 * Branch records; not NULL if lbr_depth > 0. All are on the switch path.
	 *   lbr_save     stop recording and copy the state to *@r; the hardware keeps the state,
	 *                too
	 *   lbr_resume   resume recording with @ctl, from the state that the hardware kept
	 *   lbr_restore  load the state from *@r; record if r->ctl has VPMU_LBR_EN
	 *   lbr_reset    stop recording and set the whole state to zero
	 */
	void (*lbr_save)(struct vpmu_hostpmu *pmu, struct vpmu_lbr_regs *r);
	void (*lbr_resume)(struct vpmu_hostpmu *pmu, uint32_t ctl);
	void (*lbr_restore)(struct vpmu_hostpmu *pmu, const struct vpmu_lbr_regs *r);
	void (*lbr_reset)(struct vpmu_hostpmu *pmu);
};

/* The first member of an implementation's own struct. Must not change after vpmu_pcpu_create. */
struct vpmu_hostpmu {
	const struct vpmu_hostpmu_ops *ops;
	unsigned int nr_ctrs;	  /* 1 .. VPMU_MAX_CTRS */
	uint32_t fixed_mask;	  /* counters limited to one event each; libvpmu uses them first */
	uint64_t width_mask;	  /* (1 << counter width) - 1 */
	const uint64_t *clock_ns; /* address of the value that now() returns; NULL: call now() */
	/*
	 * word[ctr] is the address of bound counter @ctr's value, from bind to unbind: as read(),
	 * but not truncated to the width. It saves the switch path a call per counter. NULL: call
	 * read().
	 */
	const uint64_t *const *word;
	unsigned int lbr_depth; /* 0: no branch records */
};

#endif
