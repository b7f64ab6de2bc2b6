/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Sampling for the tools: one counter that interrupts, a second one that counts the same event
 * beside it, and the samples the kernel takes (struct guest_pmi). Nothing here waits for a PMI: a
 * machine that delivers none shows none.
 */
#ifndef GUEST_TOOLS_SAMPLE_H
#define GUEST_TOOLS_SAMPLE_H

#include "guest-tools/lbrdev.h"
#include "guest-tools/pmu.h"
#include "guest-tools/tools.h"

#define SAMPLE_PERIOD_MAX 0x7fffffffu /* what a 32-bit write to an Intel counter can arm */

struct sample_opts {
	struct event ev;
	uint64_t period;
	enum guest_pmi_delivery delivery;
	bool fixed;		/* sample by the event's fixed counter */
	unsigned int lbr_depth; /* 0: no branch records */
	enum lbr_mode lbr_mode;
	unsigned int stack_nr; /* words of stack with each sample */
	size_t keep;	       /* bytes of scratch memory that are the workload's */
};

struct sampler {
	const struct guest_info *info;
	struct sample_opts o;
	struct pmu pmu;
	struct lbr_dev lbr;
	struct guest_pmi pmi;
	int ctr, ref;		      /* counters; ref may be PMU_NO_COUNTER */
	struct guest_write writes[2]; /* what starts them where there is no global control */

	/* after a run */
	uint64_t result;  /* of the workload */
	uint64_t count;	  /* of the event, by the other counter or another run where there is one */
	uint64_t own;	  /* the same by the sampled counter: periods and rest */
	uint64_t handled; /* PMIs of the sampled counter */
	uint64_t expected; /* count / period */
	bool counted;	   /* the event is one this machine can count */
	bool partial;	   /* the counter was not on a host counter all the time */
};

/* sampler_open - false and one line in @err: this cannot be sampled here. Sets up the local APIC.
 */
bool sampler_open(struct sampler *s, const struct guest_info *info, const struct sample_opts *o,
		  char *err, size_t err_size);

/* sampler_run - @fn(@n, scratch, @bytes) sampled. false: a register was refused, one line. May be
 * called again; samples and counts are those of the last run. */
bool sampler_run(struct sampler *s, workload_fn *fn, uint64_t n, size_t bytes, char *err,
		 size_t err_size);

/* sampler_ok - PMIs came as often as they must: expected +- 1, each with a cause, none late. */
bool sampler_ok(const struct sampler *s);

static inline const struct guest_sample *sampler_get(const struct sampler *s, uint64_t i)
{
	return (const struct guest_sample *)(s->pmi.buf + i * s->pmi.sample_bytes);
}

static inline const uint64_t *sample_stack(const struct guest_sample *g)
{
	return (const uint64_t *)(g + 1);
}

/* FROM and TO by turns, as read from the registers. */
static inline const uint64_t *sample_lbr(const struct sampler *s, const struct guest_sample *g)
{
	return sample_stack(g) + s->pmi.stack_nr;
}

/* apic_enable - x2APIC mode and software enable; false: one line. */
bool apic_enable(char *err, size_t err_size);

#endif
