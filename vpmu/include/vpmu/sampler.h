/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Samplers: an operator's profile of any account. service/profile.c makes one per target.
 *
 * A sampler has an account (a vCPU's, a VM's, a tenant's or the root), a key and a period. On each
 * pCPU, each period-th event that is charged to the account or below it makes a sample. pCPUs count
 * their periods separately, as perf's per-CPU events do: N events on a pCPU make floor(N / period)
 * samples there. The sampler shares one hardware counter with all consumers and samplers of the
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

#ifdef __cplusplus
extern "C" {
#endif

struct vpmu_account;
struct vpmu_host;
struct vpmu_sampler;

struct vpmu_sample {
	/* The context that ran; ctx->own and ctx->group identify the vCPU. If no vCPU ran, this is
	 * the pCPU's own context, with ctx->own == vpmu_host_other. Never NULL. */
	const struct vpmu_context *ctx;
	struct vpmu_where where; /* ip 0 and cpl 0 if unknown */
	bool where_known;	 /* always false on a pCPU whose PMU has no alarms */
	unsigned int pcpu;	 /* the @id of vpmu_pcpu_create */
	uint64_t time_ns;	 /* of the pCPU's clock */
	uint64_t periods;	 /* 1, or more if one instruction counted several periods */
	/*
	 * Events counted after the end of the last of these periods. No more than one instruction
	 * counts, unless the PMU's alarm was delayed: then @where is that many events past the end
	 * of the period.
	 */
	uint64_t over;
	bool has_lbr;
	const struct vpmu_lbr_regs *lbr; /* the branch records at this point, if requested */
	enum vpmu_lbr_user lbr_user;	 /* owner of the records */
};

struct vpmu_sampler_opts {
	struct vpmu_account *account;
	vpmu_key_t key;
	uint64_t period; /* 1 .. 2^47 */
	bool lbr;	 /* with branch records, if there are any */
	/*
	 * Takes a sample; *s is valid only during the call. Called by the owner of the pCPU (a
	 * control thread while it is offline) inside any call that charges; concurrently for
	 * different pCPUs; possibly before vpmu_sampler_create returns. It must not take a lock,
	 * allocate memory or call libvpmu.
	 */
	void (*sample)(void *arg, const struct vpmu_sample *s);
	void *arg;
};

#define VPMU_SAMPLERS_MAX 32 /* of one host */

/*
 * vpmu_sampler_create - start sampling. On each pCPU the first period begins inside this call, at
 * or after the start of vpmu_sampler_read's count. pCPUs created later take part. Control. Errors,
 * all without effect:
 *
 *   -EINVAL      period out of range, no sample function, invalid key, account of another host
 *   -E2BIG       VPMU_SAMPLERS_MAX samplers exist
 *   -EOPNOTSUPP  no pCPU can count the key, or none of those that can has alarms
 *   -ENOSPC, -ENOMEM, -ETIMEDOUT  as vpmu_consumer_add
 */
int vpmu_sampler_create(struct vpmu_host *host, const struct vpmu_sampler_opts *opts,
			struct vpmu_sampler **out);

/* vpmu_sampler_destroy - stop sampling. On return, no sample() call is in progress or will follow.
 * NULL does nothing. Control. */
void vpmu_sampler_destroy(struct vpmu_sampler *s);

/* vpmu_sampler_read - read the sampler's own consumer, as vpmu_consumer_read does. */
void vpmu_sampler_read(const struct vpmu_sampler *s, struct vpmu_value *out);

#ifdef __cplusplus
}
#endif

#endif
