// SPDX-License-Identifier: GPL-2.0-or-later
/* See cgroup_bed.h: nodes, countings of them, and events to compare with. */
#include "tests/integration/cgroup_bed.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <criterion/criterion.h>
#include <linux/perf_event.h>
#include <urcu/list.h>

#include "vpmu/event/event.h"

static void open_counters(struct bed_counters *c, vpmu_key_t key, int pid, unsigned long flags)
{
	struct perf_event_attr attr;

	cr_assert_eq(vpmu_key_to_attr(key, &attr), 0);
	c->nr = 0;
	for (int cpu = 0; cpu < (int)sysconf(_SC_NPROCESSORS_CONF) && c->nr < 64; cpu++) {
		int fd = (int)syscall(SYS_perf_event_open, &attr, pid, cpu, -1,
				      PERF_FLAG_FD_CLOEXEC | flags);

		if (fd >= 0)
			c->fd[c->nr++] = fd;
	}
}

void bed_counters(struct bed_counters *c, vpmu_key_t key)
{
	open_counters(c, key, -1, 0);
	cr_assert_gt(c->nr, 0);
}

bool bed_counters_in(struct bed_counters *c, const char *cgroup, vpmu_key_t key)
{
	int dir = bed_open_cgroup(cgroup);

	open_counters(c, key, dir, PERF_FLAG_PID_CGROUP);
	close(dir);
	return c->nr > 0;
}

uint64_t bed_counters_read(const struct bed_counters *c)
{
	uint64_t sum = 0, v;

	for (unsigned int i = 0; i < c->nr; i++) {
		cr_assert_eq(read(c->fd[i], &v, sizeof(v)), sizeof(v));
		sum += v;
	}
	return sum;
}

void bed_counters_close(struct bed_counters *c)
{
	while (c->nr)
		close(c->fd[--c->nr]);
}

/* What bed_counting has made and bed_counting_free has not freed. */
struct made {
	struct cds_list_head all;
	struct vpmu_counting *c;
	vpmu_key_t *keys;
	bool on;
	struct vpmu_value values[];
};
static CDS_LIST_HEAD(all_made);

static struct made *made_of(const struct vpmu_counting *c)
{
	return (struct made *)((char *)c->values - offsetof(struct made, values));
}

struct vpmu_counting *bed_counting(struct vpmu_backend_node *n, const vpmu_key_t *keys, size_t nr,
				   struct vpmu_counting *next)
{
	struct made *m = calloc(1, sizeof(*m) + nr * sizeof(m->values[0]));

	cr_assert(m && (m->keys = calloc(nr, sizeof(*keys))));
	memcpy(m->keys, keys, nr * sizeof(*keys));
	m->c = vpmu_counting_new(n, m->keys, nr, m->values);
	cr_assert_not_null(m->c);
	m->c->next = next;
	cds_list_add(&m->all, &all_made);
	return m->c;
}

void bed_counting_free(struct vpmu_counting *list)
{
	while (list) {
		struct vpmu_counting *next = list->next;
		struct made *m = made_of(list);

		vpmu_counting_free(list);
		cds_list_del(&m->all);
		free(m->keys);
		free(m);
		list = next;
	}
}

void bed_attach(struct vpmu_counting *list)
{
	size_t failed;
	int ret = vpmu_backend_attach(list, &failed);

	cr_assert_eq(ret, 0, "attach: %s (key %zu)", strerror(-ret), failed);
	for (; list; list = list->next)
		made_of(list)->on = true;
}

void bed_detach(struct vpmu_counting *list)
{
	vpmu_backend_detach(list);
	for (; list; list = list->next)
		made_of(list)->on = false;
}

static struct vpmu_counting *made_by(struct bpf_backend *k, bool on)
{
	struct vpmu_counting *list = NULL;
	struct made *m;

	cds_list_for_each_entry (m, &all_made, all) {
		if (m->c->source != bpf_as_backend(k) || m->on != on)
			continue;
		m->c->next = list;
		list = m->c;
	}
	return list;
}

void bed_leave(struct bpf_backend *k)
{
	bed_counting_free(made_by(k, true));
	bed_counting_free(made_by(k, false));
	bpf_backend_close(k);
}

void bed_close(struct bpf_backend *k)
{
	bed_detach(made_by(k, true));
	bed_leave(k);
}

void bed_done(struct bpf_backend *k)
{
	bed_close(k);
	bed_end();
}

void bed_read(struct vpmu_counting *list)
{
	vpmu_backend_flush(list);
	list->source->ops->read_list(list);
}

uint64_t bed_value(struct vpmu_counting *c)
{
	vpmu_backend_flush(c);
	vpmu_backend_read(c);
	return c->values[0].count;
}

static int conserved(const struct vpmu_conservation *c, void *arg)
{
	unsigned int *n = arg;
	char name[VPMU_EVENT_NAME_MAX];

	cr_assert_eq(c->hardware, c->charged, "CPU %u, %s: the event counted %lu, charged %lu",
		     c->pcpu, vpmu_event_name(c->key, name), c->hardware, c->charged);
	++*n;
	return 0;
}

unsigned int bed_conserved(struct vpmu_backend *s)
{
	unsigned int n = 0;

	cr_assert_eq(vpmu_backend_conservation(s, conserved, &n), 0);
	return n;
}

struct vpmu_backend_node *bed_node(struct vpmu_backend_node *parent)
{
	static uint64_t serial;
	struct vpmu_backend_node *n;

	cr_assert_eq(vpmu_backend_node_add(parent, ++serial, &n), 0);
	return n;
}

struct vpmu_backend_node *bed_tenant(struct vpmu_backend_node *parent, const char *name)
{
	struct vpmu_backend_node *n = bed_node(parent);

	cr_assert_eq(bpf_backend_bind_cgroup(n, bed_cgroup(name)), 0);
	return n;
}

void bed_bind_task(struct vpmu_backend_node *n, pid_t tid)
{
	cr_assert_eq(bpf_backend_bind_task(n, tid, bed_start_time(tid)), 0);
}

uint64_t bed_unseen(struct bpf_backend *k)
{
	struct bpf_backend_usage u;

	bpf_backend_usage(k, &u);
	return u.missed + u.moved;
}
