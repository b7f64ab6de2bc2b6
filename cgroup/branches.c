// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Branch records of vCPU threads on the BPF backend: the branches part of
 * service/backend/backend.h. Each captured thread has a perf event (cgroup/sample/branches.h), and
 * its newest records are kept in the core's task data. Capturing a node captures all threads bound
 * at or below it, including later ones.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cgroup/priv.h"
#include "cgroup/sample/branches.h"
#include "vpmu/lbr.h"

static const struct sample_sys *sys_of(const struct bpf_backend *k)
{
	return k->opts.sample_sys ? k->opts.sample_sys : &sample_sys_real;
}

/* The control bits for threads of @n, common to all captures there; 0: no capture. */
static uint32_t wanted(const struct knode *n)
{
	while (n && !n->captures)
		n = n->parent;
	return n ? n->capture_ctl : 0;
}

void branches_end(struct bpf_backend *k, struct binding *b)
{
	if (!b->lbr)
		return;
	branches_close(b->lbr);
	taskdata_retire(&k->lbr_pool, b->lbr_data);
	b->lbr = NULL;
	b->lbr_data = NULL;
}

/* Begin with empty records: the thread may not have run yet. */
static int branches_begin(struct bpf_backend *k, struct binding *b, uint32_t ctl)
{
	const struct vpmu_lbr_regs empty = {.ctl = branches_recorded(ctl),
					    .depth = VPMU_LBR_DEPTH_MAX};
	int ret;

	b->lbr_data = taskdata_alloc(&k->lbr_pool);
	if (!b->lbr_data)
		return -ENOMEM;
	ret = branches_open(sys_of(k), (pid_t)b->id, ctl, &b->lbr);
	/* If the thread has ended, its number may be that of another process. */
	if (!ret && !bind_is_thread(k, b)) {
		branches_close(b->lbr);
		b->lbr = NULL;
		ret = -ESRCH;
	}
	if (ret) {
		taskdata_retire(&k->lbr_pool, b->lbr_data);
		b->lbr_data = NULL;
		return ret;
	}
	taskdata_write(b->lbr_data, &empty);
	return 0;
}

/* On -ENOMEM or -EMFILE the thread is not captured: readers see that it has no records. */
void branches_follow(struct bpf_backend *k, struct binding *b)
{
	uint32_t ctl = wanted(b->node);

	if (!ctl)
		branches_end(k, b);
	else if (!b->lbr)
		branches_begin(k, b, ctl);
}

/* ---- nodes ---------------------------------------------------------------------------------- */

/* Call @fn for all tasks bound at or below @n, until it returns non-zero. */
static int each_task(struct knode *n, int (*fn)(struct binding *b, void *arg), void *arg)
{
	int ret = 0;

	for (struct binding *b = n->bound; b && !ret; b = b->next)
		if (b->task)
			ret = fn(b, arg);
	for (struct knode *c = n->child; c && !ret; c = c->next)
		ret = each_task(c, fn, arg);
	return ret;
}

static bool other_below(const struct knode *n, uint32_t ctl)
{
	if (n->captures && n->capture_ctl != ctl)
		return true;
	for (const struct knode *c = n->child; c; c = c->next)
		if (other_below(c, ctl))
			return true;
	return false;
}

static int begin_task(struct binding *b, void *arg)
{
	const uint32_t *ctl = arg;
	int ret = b->lbr ? 0 : branches_begin(backend_of(b->node->n.source), b, *ctl);

	return ret == -ESRCH ? 0 : ret; /* the thread has just ended */
}

static int follow_task(struct binding *b, void *arg)
{
	branches_follow(backend_of(b->node->n.source), b);
	return 0;
}

static int branches_refuse(struct bpf_backend *k, uint32_t ctl, int ret)
{
	const uint32_t all = VPMU_LBR_EN | VPMU_LBR_OS | VPMU_LBR_USR | VPMU_LBR_TYPES;

	if (ret == -EOPNOTSUPP && !branches_probe(sys_of(k), all))
		snprintf(
			k->lbr_why, sizeof(k->lbr_why),
			ctl & VPMU_LBR_CALL_STACK
				? "this CPU does not record call stacks; use mode branches or calls"
				: "this CPU does not select such branches; use mode branches");
	else if (ret == -EOPNOTSUPP)
		snprintf(k->lbr_why, sizeof(k->lbr_why),
			 "the kernel has no perf event with branch records on this CPU");
	else if (ret == -EACCES)
		snprintf(k->lbr_why, sizeof(k->lbr_why),
			 "the kernel does not permit branch records: needs CAP_PERFMON");
	return ret == -EMFILE ? -ENOMEM : ret == -EACCES ? -EOPNOTSUPP : ret;
}

int branches_attach(struct vpmu_backend_node *node, uint32_t ctl)
{
	struct knode *n = knode_of(node);
	struct bpf_backend *k = backend_of(node->source);
	uint32_t now = wanted(n);
	int ret;

	k->lbr_why[0] = '\0';
	if ((now && now != ctl) || other_below(n, ctl))
		return -EBUSY;
	/* Report an unsupported request even if no thread is bound yet. */
	ret = branches_probe(sys_of(k), ctl);
	if (!ret)
		ret = each_task(n, begin_task, &ctl);
	if (!ret) {
		n->captures++;
		n->capture_ctl = ctl;
		return 0;
	}
	each_task(n, follow_task, NULL);
	return branches_refuse(k, ctl, ret);
}

void branches_detach(struct vpmu_backend_node *node)
{
	struct knode *n = knode_of(node);

	if (!n->captures || --n->captures)
		return;
	each_task(n, follow_task, NULL);
}

/* ---- reading -------------------------------------------------------------------------------- */

static int flush_task(struct binding *b, void *arg)
{
	struct vpmu_lbr_regs r;

	if (b->lbr && !branches_read(b->lbr, &r))
		taskdata_write(b->lbr_data, &r);
	return 0;
}

void branches_flush(struct knode *n)
{
	if (backend_of(n->n.source)->lbr_pool.nr_tasks)
		each_task(n, flush_task, NULL);
}

int branches_get(const struct vpmu_backend_node *n, struct vpmu_lbr_regs *r,
		 enum vpmu_lbr_user *user)
{
	const struct binding *b = knode_of(n)->bound;

	while (b && !b->lbr)
		b = b->next;
	if (!b)
		return -ENOENT;
	*user = VPMU_LBR_HOST;
	return taskdata_read(b->lbr_data, r) ? 0 : -EAGAIN;
}

void branches_usage(struct vpmu_backend *s, struct vpmu_lbr_usage *out)
{
	taskdata_usage(&backend_of(s)->lbr_pool, out);
}

const char *branches_why(const struct vpmu_backend *s)
{
	const struct bpf_backend *k = backend_of(s);

	return k->lbr_why[0] ? k->lbr_why : NULL;
}

/* ---- life ----------------------------------------------------------------------------------- */

void branches_init(struct bpf_backend *k)
{
	taskdata_pool_init(&k->lbr_pool);
}

/* The threads' events are closed. The barrier waits for the call_rcu frees of retired task data. */
void branches_exit(struct bpf_backend *k)
{
	if (k->lbr_pool.nr_chunks)
		urcu_memb_barrier();
	taskdata_pool_fini(&k->lbr_pool);
}
