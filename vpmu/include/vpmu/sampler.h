/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Samplers: an operator's profile of any account. service/profile.c makes one per target.
 *
 * A sampler has an account (a vCPU's, a VM's, a tenant's or the root), a key and a period. On each
 * pCPU, each period-th event that is charged to the account or below it makes a sample. pCPUs count
 * their periods separately, as perf's per-CPU events do: N events on a pCPU make floor(N / period)
 * samples there. The sampler shares the hardware counter with everybody who counts or samples the
 * same key.
 */
#ifndef VPMU_SAMPLER_H
#define VPMU_SAMPLER_H

#include <stdbool.h>
#include <stdint.h>

#include "vpmu/context.h"
#include "vpmu/event/key.h"
#include "vpmu/lbr_regs.h"
#include "vpmu/value.h"

struct vpmu_account;
struct vpmu_host;
struct vpmu_sampler;

struct vpmu_sample {
	/* Who ran: ctx->own and ctx->group say which vCPU. While no vCPU ran this is the pCPU's own
	 * context, whose own account is vpmu_host_other. Never NULL. */
	const struct vpmu_context *ctx;
	struct vpmu_where where; /* ip 0 and cpl 0 when it is not known */
	bool where_known;	 /* never on a pCPU whose PMU has no alarms */
	unsigned int pcpu;	 /* the @id of vpmu_pcpu_create */
	uint64_t time_ns;	 /* of the pCPU's clock */
	uint64_t periods;	 /* 1, or more when one instruction counted several periods */
	/*
	 * Events counted after the end of the last of these periods. At most what one instruction
	 * counts, unless the PMU was late: then @where is that many events behind the end of the
	 * period.
	 */
	uint64_t over;
	bool has_lbr;
	const struct vpmu_lbr_regs *lbr; /* the branch records at this point, if asked for */
	enum vpmu_lbr_user lbr_user;	 /* whose they are */
};

struct vpmu_sampler_opts {
	struct vpmu_account *account;
	vpmu_key_t key;
	uint64_t period; /* 1 .. 2^47 */
	bool lbr;	 /* with branch records, where there are some */
	/*
	 * Takes a sample; *s is gone on return. Called by the owner of the pCPU (a control thread
	 * while it is offline) inside any call that charges. It must not take a lock, allocate
	 * memory or call libvpmu. Calls for different pCPUs come at the same time. Calls may come
	 * before vpmu_sampler_create has returned.
	 */
	void (*sample)(void *arg, const struct vpmu_sample *s);
	void *arg;
};

#define VPMU_SAMPLERS_MAX 32 /* of one host */

/*
 * vpmu_sampler_create - sample from now on. On each pCPU the first period begins inside this call,
 * at the point from which vpmu_sampler_read counts or later. pCPUs that are created later take
 * part. Control. On an error nothing is left behind:
 *
 *   -EINVAL      a period out of range, no sample function, a key that is not valid
 *   -E2BIG       VPMU_SAMPLERS_MAX samplers exist
 *   -EOPNOTSUPP  no pCPU here can count the key, or none that can has alarms
 *   -ENOSPC, -ENOMEM, -ETIMEDOUT  as vpmu_consumer_add
 */
int vpmu_sampler_create(struct vpmu_host *host, const struct vpmu_sampler_opts *opts,
			struct vpmu_sampler **out);

/* vpmu_sampler_destroy - no sample() call is under way or comes after the return. NULL does
 * nothing. Control. */
void vpmu_sampler_destroy(struct vpmu_sampler *s);

/* vpmu_sampler_read - the count of the sampler's own consumer, read as by vpmu_consumer_read. */
void vpmu_sampler_read(const struct vpmu_sampler *s, struct vpmu_value *out);

#endif
