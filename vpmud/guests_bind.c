// SPDX-License-Identifier: GPL-2.0-or-later
/* What VMMs have bound, and the pages of their vCPUs; see guests_priv.h. guests.c calls it for
 * requests. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <linux/perf_event.h>

#include "service/clock.h"
#include "service/program/memory.h"
#include "vpmu/event/event.h"
#include "vpmud/discover/procfile.h"
#include "vpmud/guests_priv.h"

#define BINDS_MAX 1024 /* of a connection */

static struct vpmu_backend_node *guests_node(const struct guests *g, const struct node *vcpu)
{
	return node_in(vcpu, bpf_as_backend(g->o.kernel));
}

struct bind **guests_find(struct vmm *v, pid_t tid, vpmu_key_t key)
{
	struct bind **b = &v->binds;

	while (*b && ((*b)->tid != tid || (key && (*b)->key != key)))
		b = &(*b)->next;
	return b;
}

/* The page of @vcpu, which is @v's, shows what is bound, and nothing else that is counted there. */
static void guests_show(const struct vmm *v, const struct node *vcpu)
{
	uint64_t slots = 0;

	for (const struct bind *b = v->binds; b; b = b->next)
		if (b->vcpu == vcpu)
			slots |= 1ull << b->slot;
	bpf_backend_totals_show(guests_node(v->g, vcpu), slots);
}

/* Take @link's bind out and free it; @v's vCPU keeps its page while other binds need it. */
void guests_unbind(struct vmm *v, struct bind **link, bool detach)
{
	struct bind *b = *link;

	*link = b->next;
	v->nr_binds--;
	v->g->nr_binds--;
	guest_quota_release(&v->g->quotas, &v->quota, b->key);
	if (detach) {
		vpmu_backend_detach(b->counting);
		vpmu_counting_free(b->counting);
		if (!*guests_find(v, b->tid, 0))
			bpf_backend_totals_close(guests_node(v->g, b->vcpu));
		else
			guests_show(v, b->vcpu);
	}
	free(b);
}

void guests_deny(struct vmm *v, const struct node *vm, vpmu_key_t key, int ret)
{
	struct guests *g = v->g;
	struct guest_denials *const of[2] = {&v->denials, &g->denials};

	for (int i = 0; i < 2; i++) {
		uint64_t *n = ret == -EACCES ? &of[i]->denied : &of[i]->full;
		vpmu_key_t *last = ret == -EACCES ? &of[i]->denied_last : &of[i]->full_last;

		++*n;
		*last = key;
	}
	snprintf(ret == -EACCES ? g->denied_by : g->full_by, sizeof(g->full_by), "%s", vm->name);
}

/* A vCPU has one owner: the one connection of its process. */
int guests_bind(struct vmm *v, struct node *vcpu, pid_t tid, vpmu_key_t key, unsigned int *slot,
		int *fd)
{
	struct vpmu_backend_node *n = guests_node(v->g, vcpu);
	bool first = !*guests_find(v, tid, 0);
	struct bind *b;
	size_t failed;
	int ret, at;

	if (*guests_find(v, tid, key))
		return -EEXIST;
	if (!v->nr_binds)
		guests_enter_tenant(v, vcpu->path);
	v->vm = vcpu->parent->serial;
	if (!guest_policy_allows(v->policy, &v->g->events, key))
		return -EACCES;
	if (v->nr_binds == BINDS_MAX || guest_quota_take(&v->g->quotas, &v->quota, key))
		return -ENOSPC;
	b = xcalloc(1, sizeof(*b));
	*b = (struct bind){.vcpu = vcpu, .tid = tid, .key = key};
	b->counting = vpmu_counting_new(n, &b->key, 1, &b->value);
	ret = vpmu_backend_attach(b->counting, &failed);
	if (ret)
		goto err;
	at = bpf_backend_slot(b->counting, 0);
	ret = at < 0 ? -EOPNOTSUPP : 0;
	if (!ret && first) {
		*fd = bpf_backend_totals_open(n);
		ret = *fd < 0 ? *fd : 0;
	}
	if (ret) {
		if (first)
			bpf_backend_totals_close(n);
		vpmu_backend_detach(b->counting);
		goto err;
	}
	*slot = b->slot = (unsigned int)at;
	b->next = v->binds;
	v->binds = b;
	v->nr_binds++;
	v->g->nr_binds++;
	guests_show(v, vcpu);
	return 0;
err:
	guest_quota_release(&v->g->quotas, &v->quota, key);
	vpmu_counting_free(b->counting);
	free(b);
	return ret;
}

/* A thread that is there after its event was opened was there before: else the event is of another
 * process that has got the number, and not for this VMM. */
static bool guests_is_thread(const struct vmm *v, pid_t tid, uint64_t start)
{
	struct proc_stat st;
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/task/%d/stat", (int)v->peer.pid, (int)tid);
	return !procfile_stat(AT_FDCWD, path, &st) && st.start_time == start;
}

/* A sampling event of thread @tid for its bound @key: the VMM sets its period. */
int guests_event(struct vmm *v, pid_t tid, uint64_t start, vpmu_key_t key, int *fd)
{
	struct perf_event_attr attr;
	uint64_t owner;
	int ret;

	if (!key || !*guests_find(v, tid, key))
		return -ENOENT;
	owner = guest_kept_owner(v->quota.parent->path, v->peer.pid, v->peer.start_time);
	if (!guest_kept_room(&v->g->kept, owner, now_ns()))
		return -ENOSPC;
	ret = vpmu_key_to_attr(key, &attr);
	if (ret)
		return ret;
	attr.disabled = 1;
	attr.sample_period = 1ULL << 62; /* never */
	attr.read_format = PERF_FORMAT_TOTAL_TIME_ENABLED | PERF_FORMAT_TOTAL_TIME_RUNNING;
	*fd = (int)syscall(SYS_perf_event_open, &attr, tid, -1, -1, PERF_FLAG_FD_CLOEXEC);
	if (*fd < 0)
		return -errno;
	ret = guests_is_thread(v, tid, start) ? guest_kept_add(&v->g->kept, owner, *fd) : -ESRCH;
	if (ret) {
		close(*fd);
		*fd = -1;
		return ret;
	}
	return 0;
}

void guests_removing(struct node *n, void *arg)
{
	struct guests *g = arg;

	for (struct vmm *v = g->vmms; v; v = v->next)
		for (struct bind **b = &v->binds; *b;)
			if ((*b)->vcpu == n)
				guests_unbind(v, b, true);
			else
				b = &(*b)->next;
}

/* The connection that has bound events of @vcpu. */
static const struct vmm *guests_owner(const struct guests *g, const struct node *vcpu)
{
	for (const struct vmm *v = g ? g->vmms : NULL; v; v = v->next)
		for (const struct bind *b = v->binds; b; b = b->next)
			if (b->vcpu == vcpu)
				return v;
	return NULL;
}

struct restored {
	const struct guests *g;
	struct bpf_backend *kernel;
};

static int guests_drop_page(struct node *n, unsigned int depth, void *arg)
{
	const struct restored *r = arg;
	struct vpmu_backend_node *in =
		n->kind == NODE_VCPU ? node_in(n, bpf_as_backend(r->kernel)) : NULL;

	const struct vmm *owner;

	if (!in || !bpf_backend_has_totals(in))
		return 0;
	owner = guests_owner(r->g, n);
	if (owner)
		guests_show(owner, n);
	else
		bpf_backend_totals_close(in);
	return 0;
}

void guests_restored(const struct guests *g, struct tenants *ts, struct bpf_backend *kernel)
{
	struct restored r = {g, kernel};

	tenants_walk(ts, guests_drop_page, &r);
}
