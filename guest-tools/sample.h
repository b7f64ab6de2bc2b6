/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Sampling for record and lbr: one counter that interrupts, a second one that counts the
 * same event, and the kernel's samples (struct guest_pmi). Nothing here may wait for a PMI, because
 * some hosts deliver none.
 */
#pragma once

#include "guest-tools/lbrdev.h"
#include "guest-tools/pmu.h"
#include "guest-tools/tools.h"

struct sample_opts {
	struct event ev;
	uint64_t period;
	enum guest_pmi_delivery delivery;
	bool fixed;		/* sample by the event's fixed counter */
	unsigned int lbr_depth; /* 0: no branch records */
	enum lbr_mode lbr_mode;
	unsigned int stack_nr; /* largest number of stack words in a sample */
	size_t keep;	       /* bytes of scratch memory that the workload uses */
};

struct sampler {
	const struct guest_info *info;
	struct sample_opts o;
	struct pmu pmu;
	struct lbr_dev lbr;
	struct guest_pmi pmi;
	int ctr, ref;		      /* counters; ref may be PMU_NO_COUNTER */
	struct guest_write writes[2]; /* start the counters if there is no global control */

	/* after a run */
	uint64_t result;   /* of the workload */
	uint64_t count;	   /* of the event, by the second counter, or else by another run */
	uint64_t own;	   /* of the event, by the sampled counter: its periods and the remainder */
	uint64_t handled;  /* PMIs of the sampled counter */
	uint64_t expected; /* count / period */
	bool counted;	   /* the host can count the event */
	bool partial;	   /* multiplexed: the counter had no host counter at times */
};

/* sampler_open - prepare sampling as *o says, and enable the local APIC. Returns false if this host
 * cannot sample that; @err has one line. */
bool sampler_open(struct sampler *s, const struct guest_info *info, const struct sample_opts *o,
		  char *err, size_t err_size);

/* sampler_run - call @fn(@n, scratch memory, @bytes) and sample it. May be called again; samples
 * and counts are those of the last run. False: a register access was #GP; @err has one line. */
bool sampler_run(struct sampler *s, workload_fn *fn, uint64_t n, size_t bytes, char *err,
		 size_t err_size);

/* sampler_ok - returns true if the PMIs of the last run are right: as many as expected, plus or
 * minus 1, each with a cause, none late; and both counters agree if they are comparable. */
bool sampler_ok(const struct sampler *s);

static inline const struct guest_sample *sampler_get(const struct sampler *s, uint64_t i)
{
	return (const struct guest_sample *)(s->pmi.buf + i * s->pmi.sample_bytes);
}

static inline const uint64_t *sample_stack(const struct guest_sample *g)
{
	return (const uint64_t *)(g + 1);
}

/* The branch records: FROM, TO, FROM, TO ... as read from the registers. */
static inline const uint64_t *sample_lbr(const struct sampler *s, const struct guest_sample *g)
{
	return sample_stack(g) + s->pmi.stack_nr;
}

/* apic_enable - switch the local APIC to x2APIC mode and enable it. False: this is not possible;
 * @err has one line. */
bool apic_enable(char *err, size_t err_size);
