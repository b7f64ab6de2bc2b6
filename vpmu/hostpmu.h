/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What a host PMU implements: the counters of one pCPU (soft machine) or of one vCPU thread (perf
 * events). libvpmu calls these from the thread that owns the pCPU only, or from a control thread
 * while the pCPU is offline; never two at once. read() and now() are on the switch path: no locks,
 * no allocation, no system call beyond what reading the counter needs.
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
	const char *name; /* "soft", "perf" */

	/*
	 * Counters that could count @key: bit n = counter n; 0 = this PMU cannot count it.
	 * Fixed counters of the PMU must be in @fixed_mask of struct vpmu_hostpmu.
	 */
	uint32_t (*eligible)(const struct vpmu_hostpmu *pmu, vpmu_key_t key);

	/* How good counts of @key are here (enum vpmu_quality). */
	enum vpmu_quality (*quality)(const struct vpmu_hostpmu *pmu, vpmu_key_t key);

	/* Program free counter @ctr for @key and start it; its first read is the base of what
	 * follows and need not be 0. -errno when the host refuses (then nothing changed). */
	int (*bind)(struct vpmu_hostpmu *pmu, unsigned int ctr, vpmu_key_t key);

	/* Stop counter @ctr and forget its key. */
	void (*unbind)(struct vpmu_hostpmu *pmu, unsigned int ctr);

	/* Current value of bound counter @ctr; counts modulo width_mask + 1. */
	uint64_t (*read)(struct vpmu_hostpmu *pmu, unsigned int ctr);

	/* Time in ns of this pCPU's clock: monotonic, any epoch. */
	uint64_t (*now)(const struct vpmu_hostpmu *pmu);

	/*
	 * Audit: all that @ctr has counted since its bind, 64 bits, by a way that does not go
	 * through read() and snapshots, so that conservation (I1) is checked against something
	 * independent. NULL where the host has no such way.
	 */
	uint64_t (*audit)(const struct vpmu_hostpmu *pmu, unsigned int ctr);

	/* Make the owner thread reach a safe point soon (vpmu_pcpu_poll). Any thread. May be NULL.
	 */
	void (*kick)(struct vpmu_hostpmu *pmu);

	/*
	 * Alarm: make the owner call vpmu_pcpu_overflow when bound counter @ctr has counted
	 * @events (> 0) more from now, as soon as the hardware can tell; 0: no alarm. Replaces the
	 * counter's last alarm; unbind drops it. @events is half of width_mask at most: there is
	 * room for what is counted until the answer. One that goes off early is answered by arming
	 * again, one that is late makes the sample late, and neither makes a count wrong. NULL:
	 * this PMU has none, and who samples is told at the next charge. Owner; on the switch path:
	 * no locks, no allocation.
	 */
	void (*arm)(struct vpmu_hostpmu *pmu, unsigned int ctr, uint64_t events);

	/*
	 * Branch records (lbr_depth > 0). save: stop recording and copy the state to @r. restore:
	 * the state is @r's from now on; records if r->ctl says so. reset: stop, and zero all
	 * records. Owner; on the switch path.
	 */
	void (*lbr_save)(struct vpmu_hostpmu *pmu, struct vpmu_lbr_regs *r);
	void (*lbr_restore)(struct vpmu_hostpmu *pmu, const struct vpmu_lbr_regs *r);
	void (*lbr_reset)(struct vpmu_hostpmu *pmu);
	/* lbr_resume: go on recording what save left in place, by @ctl. */
	void (*lbr_resume)(struct vpmu_hostpmu *pmu, uint32_t ctl);
};

/* Embedded first in an implementation's own struct. Constant once handed to vpmu_pcpu_create. */
struct vpmu_hostpmu {
	const struct vpmu_hostpmu_ops *ops;
	unsigned int nr_ctrs;	  /* 1 .. VPMU_MAX_CTRS */
	uint32_t fixed_mask;	  /* counters that count one event only: used first */
	uint64_t width_mask;	  /* (1 << counter width) - 1 */
	const uint64_t *clock_ns; /* where now() can be read as memory, or NULL: saves the call */
	const uint64_t *const *word; /* by bound counter: where its value can be read as memory
				      * instead of by read(); valid until unbind. NULL: nowhere */
	unsigned int lbr_depth;	     /* 0: no branch records */
};

#endif
