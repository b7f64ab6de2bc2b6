// SPDX-License-Identifier: LGPL-2.1-or-later
/*
 * Captures of branch records. A capture (service/capture.c) attaches to an account; attaches are
 * counted. A context has capture data while its own account or an ancestor is attached; all of
 * these must have the same ctl. Later contexts inherit.
 *
 * Control calls only, under ctl_lock. An attach allocates the memory for all contexts before it
 * publishes any, so it is atomic. A detach frees memory only after every pCPU that can have a
 * pointer to it, that is, on which the account has been placed, has dropped it.
 */
#include <errno.h>

#include "vpmu/core/internal.h"

/* ---- the contexts an account covers ---- */

static bool lbr_attach_is_below(const struct vpmu_account *a, const struct vpmu_account *top)
{
	while (a && a != top)
		a = a->parent;
	return a;
}

/* The first context from @ctx on that @top covers. Contexts of host->other are not vCPU tasks. */
static struct vpmu_context *covered_from(struct vpmu_context *ctx, const struct vpmu_account *top)
{
	while (ctx && (ctx->own == top->host->other || !lbr_attach_is_below(ctx->own, top)))
		ctx = ctx->host_next;
	return ctx;
}

static struct vpmu_context *covered_first(const struct vpmu_account *top)
{
	return top->nr_children ? covered_from(top->host->contexts, top) : top->ctx;
}

static struct vpmu_context *covered_next(struct vpmu_context *ctx, const struct vpmu_account *top)
{
	return top->nr_children ? covered_from(ctx->host_next, top) : NULL;
}

#define for_each_covered(ctx, top)                                                                 \
	for ((ctx) = covered_first(top); (ctx); (ctx) = covered_next(ctx, top))

/* ---- conflicts ---- */

static bool other_ctl(const struct vpmu_account *a, uint32_t ctl)
{
	return a->lbr_users && a->lbr_ctl != ctl;
}

static bool conflict_below(const struct vpmu_account *top, uint32_t ctl)
{
	const struct vpmu_account *a;

	cds_list_for_each_entry (a, &top->children, node) {
		if (other_ctl(a, ctl) || conflict_below(a, ctl))
			return true;
	}
	return false;
}

static bool conflict(const struct vpmu_account *account, uint32_t ctl)
{
	for (const struct vpmu_account *a = account; a; a = a->parent) {
		if (other_ctl(a, ctl))
			return true;
	}
	return conflict_below(account, ctl);
}

static bool has_facility(const struct vpmu_host *host)
{
	const struct vpmu_pcpu *p;

	cds_list_for_each_entry (p, &host->pcpus, node) {
		if (p->pmu->lbr_depth)
			return true;
	}
	return false;
}

/* ---- attach, detach ---- */

static struct vpmu_taskdata *make(struct vpmu_host *host, uint32_t ctl)
{
	struct vpmu_taskdata *d = taskdata_alloc(&host->lbr_pool);

	if (d) {
		d->regs.ctl = ctl;
		d->regs.depth = VPMU_LBR_DEPTH_MAX;
	}
	return d;
}

static void give_back_pending(struct vpmu_account *account)
{
	struct vpmu_context *ctx;

	for_each_covered(ctx, account)
	{
		if (ctx->lbr.pending)
			taskdata_retire(&account->host->lbr_pool, ctx->lbr.pending);
		ctx->lbr.pending = NULL;
	}
}

/* As give_back_pending, while a stalled pCPU may still have a pointer to some of them. */
static void leave_pending(struct vpmu_account *account)
{
	struct vpmu_host *host = account->host;
	struct vpmu_context *ctx;

	for_each_covered(ctx, account)
	{
		if (ctx->lbr.pending) {
			ctx->lbr.pending->next = host->lbr_left;
			host->lbr_left = ctx->lbr.pending;
		}
		ctx->lbr.pending = NULL;
	}
}

void lbr_reap(struct vpmu_host *host)
{
	struct vpmu_taskdata *d;

	while ((d = host->lbr_left)) {
		host->lbr_left = d->next;
		taskdata_retire(&host->lbr_pool, d);
	}
}

/* Allocate data for every covered context that has none. */
static int make_pending(struct vpmu_account *account, uint32_t ctl)
{
	struct vpmu_context *ctx;

	for_each_covered(ctx, account)
	{
		if (ctx->lbr.host_users)
			continue;
		ctx->lbr.pending = make(account->host, ctl);
		if (!ctx->lbr.pending) {
			give_back_pending(account);
			return -ENOMEM;
		}
	}
	return 0;
}

/* Make the pCPUs on which @account has been placed reload their contexts' data. Contexts placed on
 * other pCPUs later see the data published before this call. */
static int sync_account(struct vpmu_account *account)
{
	sync_spare_all(account->host);
	sync_concerns(account);
	return host_sync_locked(account->host, NULL, NULL);
}

static void detach_locked(struct vpmu_account *account)
{
	struct vpmu_context *ctx;
	bool any = false;

	if (!account->lbr_users || --account->lbr_users)
		return;
	for_each_covered(ctx, account)
	{
		if (--ctx->lbr.host_users)
			continue;
		ctx->lbr.pending = ctx->lbr.data[VPMU_LBR_HOST];
		rcu_assign_pointer(ctx->lbr.data[VPMU_LBR_HOST], NULL);
		any = true;
	}
	if (!any)
		return;
	/* After the sync no pCPU has a pointer to them (lbr.c). */
	if (sync_account(account))
		leave_pending(account);
	else
		give_back_pending(account);
}

int vpmu_lbr_attach(struct vpmu_account *account, uint32_t ctl)
{
	struct vpmu_host *host = account->host;
	struct vpmu_context *ctx;
	bool any = false;
	int ret = 0;

	ctl |= VPMU_LBR_EN;
	if (!vpmu_lbr_ctl_ok(ctl))
		return -EINVAL;
	pthread_mutex_lock(&host->ctl_lock);
	if (account == host->other || !has_facility(host))
		ret = -EOPNOTSUPP;
	else if (conflict(account, ctl))
		ret = -EBUSY;
	else if (!account->lbr_users)
		ret = make_pending(account, ctl);
	if (ret || account->lbr_users++)
		goto out;
	account->lbr_ctl = ctl;
	for_each_covered(ctx, account)
	{
		if (ctx->lbr.host_users++)
			continue;
		rcu_assign_pointer(ctx->lbr.data[VPMU_LBR_HOST], ctx->lbr.pending);
		ctx->lbr.pending = NULL;
		any = true;
	}
	if (any)
		ret = sync_account(account);
	if (ret)
		detach_locked(account);
out:
	pthread_mutex_unlock(&host->ctl_lock);
	return ret;
}

void vpmu_lbr_detach(struct vpmu_account *account)
{
	struct vpmu_host *host = account->host;

	pthread_mutex_lock(&host->ctl_lock);
	detach_locked(account);
	pthread_mutex_unlock(&host->ctl_lock);
}

/* ---- creation and removal of a context ---- */

int lbr_context_init(struct vpmu_context *ctx)
{
	struct vpmu_host *host = ctx->own->host;
	struct vpmu_taskdata *d;
	uint32_t ctl = 0;

	if (ctx->own == host->other)
		return 0;
	for (const struct vpmu_account *a = ctx->own; a; a = a->parent) {
		if (a->lbr_users) {
			ctx->lbr.host_users++;
			ctl = a->lbr_ctl;
		}
	}
	if (!ctx->lbr.host_users)
		return 0;
	d = make(host, ctl);
	if (!d)
		return -ENOMEM;
	rcu_assign_pointer(ctx->lbr.data[VPMU_LBR_HOST], d);
	return 0;
}

void lbr_context_fini(struct vpmu_context *ctx)
{
	struct vpmu_lbr_pool *pool = &ctx->own->host->lbr_pool;

	for (int user = 0; user < VPMU_LBR_USERS; user++) {
		struct vpmu_taskdata *d = ctx->lbr.data[user];

		rcu_assign_pointer(ctx->lbr.data[user], NULL);
		if (d)
			taskdata_retire(pool, d);
	}
	taskdata_retire_parked(pool, &ctx->lbr.parked);
}
