// SPDX-License-Identifier: LGPL-2.1-or-later
/*
 * Contexts: creation and removal of vCPU tasks, and their placement on pCPUs. The VMM calls this
 * when it makes, moves and removes vCPUs; the switch path never does.
 */
#include <errno.h>

#include "vpmu/core/internal.h"

/* Under ctl_lock, which guards the host's list of contexts. */
static int init_locked(struct vpmu_context *ctx, struct vpmu_account *own,
		       struct vpmu_account *group)
{
	struct vpmu_host *host = own->host;
	int ret;

	if (own->ctx)
		return -EBUSY;
	*ctx = (struct vpmu_context){.own = own, .group = group};
	ret = lbr_context_init(ctx);
	if (ret) {
		*ctx = (struct vpmu_context){0};
		return ret;
	}
	ctx->host_prev = &host->contexts;
	ctx->host_next = host->contexts;
	if (ctx->host_next)
		ctx->host_next->host_prev = &ctx->host_next;
	host->contexts = ctx;
	/* The release pairs with the acquire in vpmu_lbr_read. */
	if (own != host->other)
		store_release(&own->ctx, ctx);
	__atomic_add_fetch(&own->nr_contexts, 1, __ATOMIC_RELAXED);
	if (group)
		__atomic_add_fetch(&group->nr_contexts, 1, __ATOMIC_RELAXED);
	return 0;
}

int vpmu_context_init(struct vpmu_context *ctx, struct vpmu_account *own,
		      struct vpmu_account *group)
{
	int ret;

	if (group && own->parent != group)
		return -EINVAL; /* the keys of @group must be among those of own's ancestors */
	pthread_mutex_lock(&own->host->ctl_lock);
	ret = init_locked(ctx, own, group);
	pthread_mutex_unlock(&own->host->ctl_lock);
	return ret;
}

void context_fini_locked(struct vpmu_context *ctx)
{
	if (ctx->own->ctx == ctx)
		store_release(&ctx->own->ctx, NULL);
	lbr_context_fini(ctx);
	*ctx->host_prev = ctx->host_next;
	if (ctx->host_next)
		ctx->host_next->host_prev = ctx->host_prev;
	__atomic_sub_fetch(&ctx->own->nr_contexts, 1, __ATOMIC_RELEASE);
	if (ctx->group)
		__atomic_sub_fetch(&ctx->group->nr_contexts, 1, __ATOMIC_RELEASE);
	*ctx = (struct vpmu_context){0};
}

void vpmu_context_fini(struct vpmu_context *ctx)
{
	struct vpmu_account *own = ctx->own;

	if (!own)
		return;
	/* The account, and with it its host, stays until this drops nr_contexts. */
	pthread_mutex_lock(&own->host->ctl_lock);
	context_fini_locked(ctx);
	pthread_mutex_unlock(&own->host->ctl_lock);
}

int vpmu_context_place(struct vpmu_context *ctx, struct vpmu_pcpu *pcpu)
{
	/* Comparing ctx->pcpu is not enough: a new pCPU can have the address of a freed one. */
	if (ctx->pcpu == pcpu && ctx->serial == pcpu->serial)
		return 0;
	ctx->tree_gen = 0; /* never equal to the host's: the next switch recomputes the keys */
	return cells_place(ctx, pcpu);
}
