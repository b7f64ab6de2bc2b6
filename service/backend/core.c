// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * libvpmu's core as a backend (service/backend/backend.h): a node is an account, a counting is an
 * array of consumers, a sampling is a sampler. The VMM creates it; the service calls it through the
 * operations below. Control thread, except core_take_sample. It must never mix two hosts: a list, a
 * node and its parent belong to one backend.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "vpmu/account.h"
#include "vpmu/consumer.h"
#include "vpmu/sampler.h"
#include "service/backend/core.h"
#include "vpmu/util/clock.h"

struct core_node {
	struct vpmu_backend_node n; /* first */
	struct vpmu_account *account;
	struct core_node *next; /* in core.left */
};

struct core {
	struct vpmu_backend s; /* first */
	struct vpmu_backend_core_opts opts;
	struct vpmu_host *host;
	struct core_node root, other;
	/* Removed nodes with accounts that are still in the tree, in order of removal. */
	struct core_node *left, **left_last;
};

struct core_counting {
	struct vpmu_counting c; /* first */
	struct vpmu_consumer consumer[];
};

struct core_sampling {
	struct vpmu_sampling s; /* first */
	struct vpmu_sampling_opts opts;
	struct vpmu_sampler *sampler;
};

static struct core *core_of(const struct vpmu_backend *s)
{
	return (struct core *)s;
}

static struct core_node *core_node_of(const struct vpmu_backend_node *n)
{
	return (struct core_node *)n;
}

static struct core_counting *core_counting_of(const struct vpmu_counting *c)
{
	return (struct core_counting *)c;
}

static struct vpmu_account *core_account_of(const struct vpmu_backend_node *n)
{
	return core_node_of(n)->account;
}

/* ---- nodes -------------------------------------------------------------------------------- */

/*
 * Remove accounts that earlier removals left because they still had a context. Children were
 * removed before their parents, so one pass in that order is enough.
 */
static void remove_left(struct core *core)
{
	struct core_node **link = &core->left, *n;

	while ((n = *link)) {
		if (vpmu_account_del(n->account)) {
			link = &n->next;
			continue;
		}
		*link = n->next;
		free(n);
	}
	core->left_last = link;
}

static int core_node_add(struct vpmu_backend_node *parent, uint64_t serial,
			 struct vpmu_backend_node **out)
{
	struct core_node *n = calloc(1, sizeof(*n));
	int ret = n ? vpmu_account_create(core_account_of(parent), n, &n->account) : -ENOMEM;

	remove_left(core_of(parent->source));
	if (ret) {
		free(n);
		return ret;
	}
	n->n = (struct vpmu_backend_node){.source = parent->source, .serial = serial};
	*out = &n->n;
	return 0;
}

/* An account that stays has no name; no sum changes. */
static void core_node_remove(struct vpmu_backend_node *node)
{
	struct core *core = core_of(node->source);
	struct core_node *n = core_node_of(node);

	*core->left_last = n;
	core->left_last = &n->next;
	remove_left(core);
}

/* ---- counting ----------------------------------------------------------------------------- */

static struct vpmu_counting *core_counting_new(struct vpmu_backend_node *n, size_t nr_keys)
{
	struct core_counting *c = calloc(1, sizeof(*c) + nr_keys * sizeof(c->consumer[0]));

	return c ? &c->c : NULL;
}

/* Deferred: readers that began before the consumers were deleted may still access them. */
static void core_counting_free(struct vpmu_counting *c)
{
	vpmu_rcu_free(core_counting_of(c));
}

static size_t list_keys(const struct vpmu_counting *list)
{
	size_t n = 0;

	for (; list; list = list->next)
		n += list->nr_keys;
	return n;
}

static int core_attach(struct vpmu_backend *s, struct vpmu_counting *list, size_t *failed)
{
	size_t n = list_keys(list), k = 0;
	struct vpmu_consumer **c = calloc(n, sizeof(*c));
	struct vpmu_account **a = calloc(n, sizeof(*a));
	vpmu_key_t *keys = calloc(n, sizeof(*keys));
	int ret = -ENOMEM;

	*failed = 0;
	if (!c || !a || !keys)
		goto out;
	for (struct vpmu_counting *l = list; l; l = l->next) {
		for (size_t i = 0; i < l->nr_keys; i++, k++) {
			c[k] = &core_counting_of(l)->consumer[i];
			a[k] = core_account_of(l->node);
			keys[k] = l->keys[i];
		}
	}
	ret = vpmu_consumer_add_many(c, a, keys, n, failed);
	if (ret == -EOPNOTSUPP) /* they were added, with values "not supported" */
		ret = 0;
	for (; *failed >= list->nr_keys; list = list->next)
		*failed -= list->nr_keys;
out:
	free(c);
	free(a);
	free(keys);
	return ret;
}

static void detach_one(struct vpmu_counting *c)
{
	for (size_t i = 0; i < c->nr_keys; i++)
		vpmu_consumer_del(&core_counting_of(c)->consumer[i], NULL, &c->values[i]);
}

static void core_detach(struct vpmu_backend *s, struct vpmu_counting *list)
{
	size_t n = list_keys(list), k = 0;
	struct vpmu_consumer **c = calloc(n, sizeof(*c));
	struct vpmu_value *last = calloc(n, sizeof(*last));

	if (!c || !last) {
		/* Without memory for a batch, each one waits for the pCPUs by itself. */
		for (; list; list = list->next)
			detach_one(list);
		goto out;
	}
	for (struct vpmu_counting *l = list; l; l = l->next)
		for (size_t i = 0; i < l->nr_keys; i++)
			c[k++] = &core_counting_of(l)->consumer[i];
	vpmu_consumer_del_many(c, n, last);
	k = 0;
	for (struct vpmu_counting *l = list; l; l = l->next)
		for (size_t i = 0; i < l->nr_keys; i++)
			l->values[i] = last[k++];
out:
	free(c);
	free(last);
}

static struct vpmu_account *next_counted(void *arg)
{
	const struct vpmu_counting **list = arg, *c = *list;

	if (!c)
		return NULL;
	*list = c->next;
	return core_account_of(c->node);
}

static void core_flush(struct vpmu_backend *s, const struct vpmu_counting *list)
{
	vpmu_host_sync_some(core_of(s)->host, next_counted, &list);
}

static struct vpmu_account *next_node(void *arg)
{
	struct vpmu_backend_node **n = arg, *node = *n;

	*n = NULL;
	return node ? core_account_of(node) : NULL;
}

static void core_flush_node(struct vpmu_backend_node *n)
{
	vpmu_host_sync_some(core_of(n->source)->host, next_node, &n);
}

static bool core_stalled(struct vpmu_backend *s, char *why, size_t whylen)
{
	unsigned int id, n = vpmu_host_stalled(core_of(s)->host, &id);
	char more[40] = "";

	if (n > 1)
		snprintf(more, sizeof(more), " and %u more", n - 1);
	if (n)
		snprintf(why, whylen,
			 "pCPU %u%s of backend %s does not answer: its thread has not come to a "
			 "safe point in time",
			 id, more, s->backend);
	return n;
}

static void core_read_values(const struct vpmu_counting *c)
{
	for (size_t i = 0; i < c->nr_keys; i++)
		vpmu_consumer_read(&core_counting_of(c)->consumer[i], &c->values[i]);
}

/* ---- the host's figures ------------------------------------------------------------------- */

static bool core_can_count(const struct vpmu_backend *s, vpmu_key_t key, enum vpmu_quality *q,
			   char *why, size_t whylen)
{
	const struct core *core = core_of(s);

	return core->opts.can_count(key, q, why, whylen, core->opts.arg);
}

static void core_sharing(struct vpmu_backend *s, struct vpmu_sharing *out)
{
	vpmu_host_sharing(core_of(s)->host, out);
}

static int conservation(struct vpmu_backend *s,
			int (*fn)(const struct vpmu_conservation *c, void *arg), void *arg)
{
	return vpmu_host_conservation(core_of(s)->host, fn, arg);
}

/* ---- sampling ----------------------------------------------------------------------------- */

/* The context runs, so its account and node exist. The host's own account has no node. */
static void core_take_sample(void *arg, const struct vpmu_sample *v)
{
	const struct core_sampling *cs = arg;
	const struct core_node *n = vpmu_account_owner(v->ctx->own);
	const struct vpmu_backend_sample s = {
		.serial = n ? n->n.serial : 0,
		.cpu = v->pcpu,
		.known = v->where_known,
		.ip = v->where_known ? v->where.ip : 0,
		.cpl = v->where_known ? v->where.cpl : 0,
		.periods = v->periods,
		.over = v->over,
		.branches = v->has_lbr ? v->lbr : NULL,
		.time_ns = cs->opts.times ? clock_ns(CLOCK_MONOTONIC) : 0,
	};

	cs->opts.sample(cs->opts.arg, &s);
}

static int core_sample_start(struct vpmu_backend_node *n, const struct vpmu_sampling_opts *o,
			     struct vpmu_sampling **out)
{
	struct core_sampling *cs = calloc(1, sizeof(*cs));
	const struct vpmu_sampler_opts opts = {
		.account = core_account_of(n),
		.key = o->key,
		.period = o->period,
		.lbr = o->branches,
		.sample = core_take_sample,
		.arg = cs,
	};
	int ret;

	if (!cs)
		return -ENOMEM;
	cs->s.node = n;
	cs->opts = *o;
	ret = vpmu_sampler_create(core_of(n->source)->host, &opts, &cs->sampler);
	if (ret)
		free(cs);
	else
		*out = &cs->s;
	return ret;
}

static void core_sample_stop(struct vpmu_sampling *s)
{
	struct core_sampling *cs = (struct core_sampling *)s;

	vpmu_sampler_destroy(cs->sampler);
	free(cs);
}

static void core_sample_read(const struct vpmu_sampling *s, struct vpmu_value *out)
{
	vpmu_sampler_read(((const struct core_sampling *)s)->sampler, out);
}

/* ---- branch records ----------------------------------------------------------------------- */

static int core_branches_attach(struct vpmu_backend_node *n, uint32_t ctl)
{
	return vpmu_lbr_attach(core_account_of(n), ctl);
}

static void core_branches_detach(struct vpmu_backend_node *n)
{
	vpmu_lbr_detach(core_account_of(n));
}

static int core_branches_read(const struct vpmu_backend_node *n, struct vpmu_lbr_regs *r,
			      enum vpmu_lbr_user *user)
{
	return vpmu_lbr_read(core_account_of(n), r, user);
}

static void core_branches_usage(struct vpmu_backend *s, struct vpmu_lbr_usage *out)
{
	vpmu_lbr_usage(core_of(s)->host, out);
}

/* ---- life --------------------------------------------------------------------------------- */

static const struct vpmu_backend_ops core_ops = {
	.node_add = core_node_add,
	.node_remove = core_node_remove,
	.counting_new = core_counting_new,
	.counting_free = core_counting_free,
	.attach = core_attach,
	.detach = core_detach,
	.flush = core_flush,
	.flush_node = core_flush_node,
	.stalled = core_stalled,
	.read = core_read_values,
	.can_count = core_can_count,
	.sharing = core_sharing,
	.conservation = conservation,
	.sample_start = core_sample_start,
	.sample_stop = core_sample_stop,
	.sample_read = core_sample_read,
	.branches_attach = core_branches_attach,
	.branches_detach = core_branches_detach,
	.branches_read = core_branches_read,
	.branches_usage = core_branches_usage,
};

int vpmu_backend_core_create(const struct vpmu_backend_core_opts *o, struct vpmu_backend **out)
{
	struct core *core = calloc(1, sizeof(*core));

	if (!core)
		return -ENOMEM;
	core->host = vpmu_host_create();
	if (!core->host) {
		free(core);
		return -ENOMEM;
	}
	core->opts = *o;
	core->left_last = &core->left;
	core->root.n.source = core->other.n.source = &core->s;
	core->root.account = vpmu_host_root(core->host);
	core->other.account = vpmu_host_other(core->host);
	core->s = (struct vpmu_backend){
		.ops = &core_ops,
		.backend = o->backend,
		.can = o->can | VPMU_BACKEND_CONSERVES,
		.root = &core->root.n,
		.other = &core->other.n,
	};
	*out = &core->s;
	return 0;
}

void vpmu_backend_core_destroy(struct vpmu_backend *s)
{
	struct core *core = core_of(s);
	struct core_node *n;

	if (!s)
		return;
	vpmu_host_destroy(core->host);
	while ((n = core->left)) {
		core->left = n->next;
		free(n);
	}
	free(core);
}

struct vpmu_host *vpmu_backend_core_host(const struct vpmu_backend *s)
{
	return core_of(s)->host;
}

struct vpmu_account *vpmu_backend_core_account(const struct vpmu_backend_node *n)
{
	return core_account_of(n);
}
