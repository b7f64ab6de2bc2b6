/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What test_churn needs to sample while everything happens at once: churn_sampling.c. */
#ifndef TESTS_MODEL_CHURN_SAMPLING_H
#define TESTS_MODEL_CHURN_SAMPLING_H

#include "vpmu/alarm.h"
#include "vpmu/emupmu.h"

void churn_fail(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

#define CHURN_PCPUS 4

/* A sampler of anything. Counts are checked elsewhere; here, that each sample is of an account
 * below the account, at a multiple of the period, with its own branch records only. */
struct vpmu_account;
struct vpmu_host;

struct churn_sampler {
	struct vpmu_sampler *s;
	struct vpmu_account *account;
	uint64_t period;
	bool live;		     /* atomic: may be called */
	uint64_t taken[CHURN_PCPUS]; /* periods; atomic */
};

/* 0 or vpmu_sampler_create's error. */
int churn_sample(struct churn_sampler *x, struct vpmu_host *host, struct vpmu_account *account,
		 vpmu_key_t key, uint64_t period, bool lbr);
void churn_sample_end(struct churn_sampler *x);
extern unsigned long churn_samples; /* atomic: of samplers that have ended */

/* An alarm of a vCPU's consumer, while *executed grows with the vCPU's instructions. Owner. */
struct churn_alarm {
	struct vpmu_alarm a;
	bool set, exact; /* exact: all that is executed is counted */
	const uint64_t *executed;
	uint64_t from, due, period;
	unsigned long fires;
};

void churn_alarm_set(struct churn_alarm *x, struct vpmu_context *ctx, const struct vpmu_consumer *c,
		     struct vpmu_pcpu *p, const uint64_t *executed, uint64_t period, bool exact);
void churn_alarm_clear(struct churn_alarm *x, struct vpmu_pcpu *p);

/* Branches carry the address of the account that executed them. */
void churn_branch(struct vpmu_emupmu *pmu, const struct vpmu_account *who);
extern unsigned long churn_records; /* atomic: looked at in samples */

#endif
