// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Bindings: the cgroups and tasks of each node. The daemon sets them, the BPF program looks them up
 * at switches. A change takes effect on each CPU at its next switch or flush.
 */
#include <errno.h>
#include <search.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <bpf/libbpf.h>

#include "cgroup/priv.h"
#include "service/program/memory.h"
#include "vpmu/util/proctext.h"

#include <account.skel.h> /* it needs maps.h */

static int bind_by_id(const void *a, const void *b)
{
	const struct binding *x = a, *y = b;

	return x->id < y->id ? -1 : x->id > y->id;
}

static void link_to(struct binding *b, struct knode *n)
{
	n->blank = false;
	b->node = n;
	b->next = n->bound;
	if (n->bound)
		n->bound->link = &b->next;
	b->link = &n->bound;
	n->bound = b;
}

static void unlink_from(struct binding *b)
{
	*b->link = b->next;
	if (b->next)
		b->next->link = b->link;
}

static struct binding *bind_find(void *const *tree, uint64_t id)
{
	const struct binding key = {.id = id};
	struct binding **b = tfind(&key, tree, bind_by_id);

	return b ? *b : NULL;
}

struct binding *bind_task(const struct bpf_backend *k, uint64_t tid)
{
	return bind_find(&k->task_bindings, tid);
}

/* -ENOSPC: the map is full. Updating a binding that exists cannot fail so. */
static int bind_set(struct bpf_backend *k, const struct binding *b)
{
	struct kp_task t = {.start = b->start, .account = b->node->account};
	uint32_t tid = (uint32_t)b->id;
	int ret;

	if (b->task)
		ret = k->sys->map_set(bpf_map__fd(k->skel->maps.tasks), &tid, &t);
	else
		ret = k->sys->map_set(bpf_map__fd(k->skel->maps.cgroups), &b->id,
				      &b->node->account);
	return ret == -E2BIG ? -ENOSPC : ret;
}

/* A bit is set while any bound task maps to it. */
static void count_bit(struct bpf_backend *k, uint32_t tid, bool more)
{
	uint32_t bit = kp_task_bit(tid);
	uint64_t *word = &k->task_bits[bit / 64], mask = 1ULL << (bit % 64);

	if (more && !k->bit_users[bit]++)
		__atomic_fetch_or(word, mask, __ATOMIC_RELAXED);
	if (!more && !--k->bit_users[bit])
		__atomic_fetch_and(word, ~mask, __ATOMIC_RELAXED);
	__atomic_store_n(&k->cfg->tasks, k->cfg->tasks + (more ? 1 : -1u), __ATOMIC_RELAXED);
}

static void bind_unbind(struct knode *n, bool task, uint64_t id)
{
	struct bpf_backend *k = backend_of(n->n.source);
	void **tree = task ? &k->task_bindings : &k->cgroup_bindings;
	struct binding *b = bind_find(tree, id);
	uint32_t tid = (uint32_t)id;

	if (!b || b->node != n)
		return;
	sampling_settle(k);
	whose_forget(k);
	if (task) {
		whose_task_gone(k, b);
		branches_end(k, b);
		sched_end(k, b);
		totals_drop(k, n);
		k->sys->map_del(bpf_map__fd(k->skel->maps.tasks), &tid);
		count_bit(k, tid, false);
	} else {
		k->sys->map_del(bpf_map__fd(k->skel->maps.cgroups), &id);
	}
	unlink_from(b);
	tdelete(b, tree, bind_by_id);
	free(b);
	backend_changed(k);
}

/* A new binding, of no node yet. */
static struct binding *bind_new(struct bpf_backend *k, bool task, uint64_t id, uint64_t start)
{
	struct binding *b = xcalloc(1, sizeof(*b));

	*b = (struct binding){.id = id, .start = start, .task = task};
	xtsearch(b, task ? &k->task_bindings : &k->cgroup_bindings, bind_by_id);
	return b;
}

static int bind(struct knode *n, bool task, uint64_t id, uint64_t start)
{
	struct bpf_backend *k = backend_of(n->n.source);
	void **tree = task ? &k->task_bindings : &k->cgroup_bindings;
	struct binding *b = bind_find(tree, id), old;
	int ret;

	sampling_settle(k);
	if (b) {
		old = *b;
		b->start = start;
		b->node = n;
		ret = bind_set(k, b);
		b->node = old.node;
		if (ret) {
			b->start = old.start;
			return ret;
		}
		if (task)
			sched_read(k, b); /* for its node so far */
		if (task && start != old.start)
			sched_end(k, b);
		unlink_from(b);
		link_to(b, n);
		sched_begin(k, b);
		totals_bound(k, n);
		whose_forget(k);
		if (task && start != old.start) { /* a new task reuses the number */
			whose_task_gone(k, b);
			branches_end(k, b);
		}
		if (task) {
			whose_task(k, b);
			branches_follow(k, b);
		}
		backend_changed(k);
		return 0;
	}
	b = bind_new(k, task, id, start);
	b->node = n;
	ret = bind_set(k, b);
	if (ret) {
		tdelete(b, tree, bind_by_id);
		free(b);
		return ret;
	}
	link_to(b, n);
	totals_bound(k, n);
	whose_forget(k);
	if (task) {
		count_bit(k, (uint32_t)id, true);
		whose_task(k, b);
		branches_follow(k, b);
		sched_begin(k, b);
	}
	backend_changed(k);
	/* The first bound task: until now CPUs skipped switches within a cgroup. */
	if (k->link && task && k->cfg->tasks == 1)
		backend_flush_all(k);
	return 0;
}

void bind_found(struct bpf_backend *k, uint32_t account, bool task, uint64_t id, uint64_t start)
{
	struct knode *n = account < k->nr_accounts ? k->nodes[account] : NULL;

	link_to(bind_new(k, task, id, start), n ? n : &k->root);
	if (task)
		count_bit(k, (uint32_t)id, true);
}

void bind_found_all(struct bpf_backend *k)
{
	for (const struct binding *b = k->root.bound; b; b = b->next)
		bind_set(k, b);
}

/* Updating an existing element cannot fail for lack of room. */
void bind_move(struct bpf_backend *k, struct knode *from, struct knode *to)
{
	struct binding *b;

	if (!from->bound)
		return;
	while ((b = from->bound)) {
		if (b->task)
			sched_read(k, b);
		unlink_from(b);
		link_to(b, to);
		bind_set(k, b);
		if (b->task)
			branches_follow(k, b);
	}
	totals_bound(k, to);
	whose_forget(k);
	backend_changed(k);
}

struct knode *bind_task_node(const struct bpf_backend *k, uint32_t tid)
{
	const struct binding *b = bind_find(&k->task_bindings, tid);

	return b ? b->node : NULL;
}

struct knode *bind_cgroup_node(const struct bpf_backend *k, uint64_t id)
{
	const struct binding *b = bind_find(&k->cgroup_bindings, id);

	return b ? b->node : NULL;
}

int bpf_backend_bind_cgroup(struct vpmu_backend_node *n, uint64_t cgroup_id)
{
	return bind(knode_of(n), false, cgroup_id, 0);
}

void bpf_backend_unbind_cgroup(struct vpmu_backend_node *n, uint64_t cgroup_id)
{
	bind_unbind(knode_of(n), false, cgroup_id);
}

bool bpf_backend_has_cgroup(const struct vpmu_backend *s, uint64_t cgroup_id)
{
	return bind_cgroup_node(backend_of(s), cgroup_id);
}

/* Reads the file below task/, because in /proc/TID/stat the kernel adds up the whole process. */
static int start_time(const struct bpf_backend *k, pid_t tid, uint64_t *start)
{
	char text[1024];

	proctext_read(text, sizeof(text), "%s/proc/%d/task/%d/stat", k->sys->files, tid, tid);
	return proctext_start(text, start);
}

bool bind_is_thread(const struct bpf_backend *k, const struct binding *b)
{
	uint64_t now;

	return !start_time(k, (pid_t)b->id, &now) && now == b->start;
}

int bpf_backend_bind_task(struct vpmu_backend_node *n, pid_t tid, uint64_t start)
{
	uint64_t now;

	if (tid <= 0 || start_time(backend_of(n->source), tid, &now) || now != start)
		return -ESRCH;
	return bind(knode_of(n), true, (uint64_t)tid, start);
}

void bpf_backend_unbind_task(struct vpmu_backend_node *n, pid_t tid)
{
	bind_unbind(knode_of(n), true, (uint64_t)tid);
}

/* What bind_each_task() calls. */
struct bind_each {
	void (*fn)(struct binding *b, void *arg);
	void *arg;
};

static void bind_visit(const void *node, VISIT which, void *closure)
{
	const struct bind_each *each = closure;

	if (which == postorder || which == leaf)
		each->fn(*(struct binding *const *)node, each->arg);
}

void bind_each_task(const struct bpf_backend *k, void (*fn)(struct binding *b, void *arg),
		    void *arg)
{
	struct bind_each each = {fn, arg};

	twalk_r(k->task_bindings, bind_visit, &each);
}

static void free_task(void *p)
{
	struct binding *b = p;

	if (b->lbr)
		branches_end(backend_of(b->node->n.source), b);
	sched_close(b);
	free(b);
}

void bind_exit(struct bpf_backend *k)
{
	tdestroy(k->cgroup_bindings, free);
	tdestroy(k->task_bindings, free_task);
}
