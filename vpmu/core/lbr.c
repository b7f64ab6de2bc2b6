// SPDX-License-Identifier: LGPL-2.1-or-later
/*
 * The branch record facility of a CPU: loading, saving and reading records. The switch path and
 * safe points call lbr_switch and lbr_flush; register models call the vpmu_lbr_guest_ functions;
 * operators read. The switch path takes no lock and allocates nothing.
 *
 * pcpu->lbr_data is the data that the CPU records for now, always data of pcpu->ctx.
 * pcpu->lbr_owner is the id of the data that the records in the CPU belong to. A change has two
 * steps:
 *
 *   leave  stop recording, and save the records into the data if the context still publishes them
 *          (an operator on another thread may have detached)
 *   enter  record for other data: resume if the CPU still holds their records, otherwise restore
 *          them; if there are no data, reset
 *
 * Published data may be dereferenced inside an RCU read side. Pointers can be compared without one,
 * because the address in pcpu->lbr_data cannot be reused: operators' data are freed only after
 * every pCPU on which the account has been placed has passed lbr_flush (vpmu_lbr_detach), a guest's
 * by the owner itself, and a context's while it runs nowhere.
 */
#include <errno.h>
#include <sched.h>

#include "vpmu/core/internal.h"

/* lbr_owner while the records in the CPU are obsolete. */
#define OWNER_NONE (~0ULL)

/* The data that the CPU must record for while @ctx runs; NULL: none. Dereference only inside an RCU
 * read side. */
static inline struct vpmu_taskdata *chosen(const struct vpmu_context *ctx)
{
	return rcu_dereference(ctx->lbr.data[ctx->lbr.guest_on ? VPMU_LBR_GUEST : VPMU_LBR_HOST]);
}

/* Inside an RCU read side. The CPU may go on recording until lbr_enter. */
static void leave(struct vpmu_pcpu *p)
{
	struct vpmu_lbr_task *t = &p->ctx->lbr;
	struct vpmu_taskdata *d = p->lbr_data;
	struct vpmu_lbr_regs r;
	bool guest;

	if (!d)
		return;
	p->lbr_data = NULL;
	guest = d == rcu_dereference(t->data[VPMU_LBR_GUEST]);
	if ((!guest && d != rcu_dereference(t->data[VPMU_LBR_HOST])) || d->id != p->lbr_owner)
		return; /* no other data will have the id of these */
	p->pmu->ops->lbr_save(p->pmu, &r);
	taskdata_write(d, &r);
	/* The hardware may have stopped recording: freeze on PMI. */
	if (guest)
		t->guest_on = r.ctl & VPMU_LBR_EN;
}

/* Inside an RCU read side, after leave(). */
static void lbr_enter(struct vpmu_pcpu *p, const struct vpmu_context *ctx)
{
	const struct vpmu_hostpmu_ops *ops = p->pmu->ops;
	struct vpmu_taskdata *to = chosen(ctx);

	if (!to) {
		if (p->lbr_owner) {
			ops->lbr_reset(p->pmu);
			p->lbr_owner = 0;
		}
		return;
	}
	if (to->id == p->lbr_owner)
		ops->lbr_resume(p->pmu, to->regs.ctl);
	else
		ops->lbr_restore(p->pmu, &to->regs);
	p->lbr_owner = to->id;
	p->lbr_data = to;
}

void lbr_switch(struct vpmu_pcpu *p, struct vpmu_context *next)
{
	/* Data belong to one context: equality means that @next runs already, or that neither of
	 * the two contexts uses branch records. */
	if (likely(chosen(next) == p->lbr_data) || !p->pmu->lbr_depth)
		return;
	urcu_memb_read_lock();
	leave(p);
	lbr_enter(p, next);
	urcu_memb_read_unlock();
}

/* Save the running context's records, and apply changes of its data. */
void lbr_flush(struct vpmu_pcpu *p)
{
	if (!p->pmu->lbr_depth)
		return;
	urcu_memb_read_lock();
	leave(p);
	lbr_enter(p, p->ctx);
	urcu_memb_read_unlock();
}

/* ---- the guest's own ---- */

static bool depth_ok(unsigned int depth)
{
	return depth && depth <= VPMU_LBR_DEPTH_MAX && depth % 8 == 0;
}

static bool regs_ok(const struct vpmu_lbr_regs *r)
{
	return vpmu_lbr_ctl_ok(r->ctl) && depth_ok(r->depth) && r->head < VPMU_LBR_DEPTH_MAX &&
	       r->count <= r->depth;
}

/* True if @pcpu is recording for @g, the guest's data. */
static bool in_cpu(const struct vpmu_context *ctx, const struct vpmu_pcpu *pcpu,
		   const struct vpmu_taskdata *g)
{
	return pcpu && pcpu->ctx == ctx && pcpu->lbr_data == g;
}

/* The guest's data @g were replaced: drop the CPU's records for them, and reload if @ctx now
 * records for other data. */
static void lbr_replaced(struct vpmu_context *ctx, struct vpmu_pcpu *pcpu,
			 const struct vpmu_taskdata *g)
{
	if (!pcpu || pcpu->ctx != ctx)
		return;
	if (pcpu->lbr_data == g)
		pcpu->lbr_owner = OWNER_NONE;
	else if (pcpu->lbr_data == chosen(ctx))
		return;
	lbr_flush(pcpu);
}

int vpmu_lbr_guest_open(struct vpmu_context *ctx, struct vpmu_pcpu *pcpu, unsigned int depth)
{
	struct vpmu_host *host = ctx->own->host;
	struct vpmu_lbr_regs fresh = {0};
	struct vpmu_taskdata *g;

	if (!depth_ok(depth))
		return -EINVAL;
	if (ctx->lbr.data[VPMU_LBR_GUEST])
		return 0;
	g = taskdata_unpark(&host->lbr_pool, &ctx->lbr.parked);
	if (!g)
		g = taskdata_alloc(&host->lbr_pool);
	if (!g)
		return -ENOMEM;
	fresh.depth = (uint8_t)depth;
	taskdata_write(g, &fresh);
	rcu_assign_pointer(ctx->lbr.data[VPMU_LBR_GUEST], g);
	return 0;
}

void vpmu_lbr_guest_close(struct vpmu_context *ctx, struct vpmu_pcpu *pcpu)
{
	struct vpmu_taskdata *g = ctx->lbr.data[VPMU_LBR_GUEST];

	if (!g)
		return;
	rcu_assign_pointer(ctx->lbr.data[VPMU_LBR_GUEST], NULL);
	ctx->lbr.guest_on = false;
	lbr_replaced(ctx, pcpu, g);
	taskdata_park(&ctx->own->host->lbr_pool, g, &ctx->lbr.parked);
}

int vpmu_lbr_guest_get(struct vpmu_context *ctx, struct vpmu_pcpu *pcpu, struct vpmu_lbr_regs *r)
{
	struct vpmu_taskdata *g = ctx->lbr.data[VPMU_LBR_GUEST];

	if (!g)
		return -ENOENT;
	if (in_cpu(ctx, pcpu, g)) {
		pcpu->pmu->ops->lbr_save(pcpu->pmu, r);
		pcpu->pmu->ops->lbr_resume(pcpu->pmu, r->ctl);
	} else {
		*r = g->regs;
	}
	return 0;
}

int vpmu_lbr_guest_set(struct vpmu_context *ctx, struct vpmu_pcpu *pcpu,
		       const struct vpmu_lbr_regs *r)
{
	struct vpmu_taskdata *g = ctx->lbr.data[VPMU_LBR_GUEST];

	if (!g)
		return -ENOENT;
	if (!regs_ok(r))
		return -EINVAL;
	taskdata_write(g, r);
	ctx->lbr.guest_on = r->ctl & VPMU_LBR_EN;
	lbr_replaced(ctx, pcpu, g);
	return 0;
}

/* ---- reading ---- */

/* The state as of the last save. Inside an RCU read side. */
static int read_saved(const struct vpmu_context *ctx, struct vpmu_lbr_regs *r,
		      enum vpmu_lbr_user *user)
{
	const struct vpmu_taskdata *g = rcu_dereference(ctx->lbr.data[VPMU_LBR_GUEST]);
	const struct vpmu_taskdata *h = rcu_dereference(ctx->lbr.data[VPMU_LBR_HOST]);

	if (g) {
		if (!taskdata_read(g, r))
			return -EAGAIN;
		*user = VPMU_LBR_GUEST;
		if (!h || (r->ctl & VPMU_LBR_EN))
			return 0;
	}
	if (!h)
		return -ENOENT;
	*user = VPMU_LBR_HOST;
	return taskdata_read(h, r) ? 0 : -EAGAIN;
}

#define READ_YIELDS 10

int vpmu_lbr_read(const struct vpmu_account *vcpu, struct vpmu_lbr_regs *r,
		  enum vpmu_lbr_user *user)
{
	const struct vpmu_context *ctx = load_acquire(&vcpu->ctx);
	int ret;

	if (!ctx)
		return -ENOENT;
	for (int i = 0;; i++) {
		urcu_memb_read_lock();
		ret = read_saved(ctx, r, user);
		urcu_memb_read_unlock();
		if (ret != -EAGAIN || i == READ_YIELDS)
			return ret;
		/* The writer may be waiting for this CPU. */
		sched_yield();
	}
}

int vpmu_lbr_live(struct vpmu_context *ctx, struct vpmu_pcpu *pcpu, struct vpmu_lbr_regs *r,
		  enum vpmu_lbr_user *user)
{
	const struct vpmu_taskdata *d = pcpu->lbr_data;
	int ret = 0;

	urcu_memb_read_lock();
	if (pcpu->ctx == ctx && d &&
	    (d == rcu_dereference(ctx->lbr.data[VPMU_LBR_GUEST]) ||
	     d == rcu_dereference(ctx->lbr.data[VPMU_LBR_HOST]))) {
		pcpu->pmu->ops->lbr_save(pcpu->pmu, r);
		pcpu->pmu->ops->lbr_resume(pcpu->pmu, r->ctl);
		*user = d == ctx->lbr.data[VPMU_LBR_GUEST] ? VPMU_LBR_GUEST : VPMU_LBR_HOST;
	} else {
		ret = read_saved(ctx, r, user);
	}
	urcu_memb_read_unlock();
	return ret;
}
