// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Notes for how long cgroups and vCPU threads were before they were found: until then they are
 * charged to a node above, and their rows lack that. tree.c and tree_vm.c call this after each
 * binding. A time must never be noted that is too short.
 */
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "cgroup/fs/cgroupfs.h"
#include "vpmud/tree_priv.h"
#include "vpmu/util/clock.h"
#include "vpmu/util/proctext.h"

static uint64_t late_ns(const struct timespec *t)
{
	return (uint64_t)t->tv_sec * 1000000000 + (uint64_t)t->tv_nsec;
}

/* The node that is charged for @path's tasks while nothing is bound to them. @self: cgroup @path
 * may be bound itself. */
static struct node *late_charged_at(const struct tree *t, const char *path, bool self)
{
	char dir[2 * PATH_MAX];
	size_t root = strlen(t->root);
	struct node *n;
	uint64_t id;

	snprintf(dir, sizeof(dir), "%s%s", t->root, path ? path : "");
	for (char *end; (end = strrchr(dir, '/')) && end >= dir + root; *end = '\0', self = true) {
		n = self && !cgroupfs_id(dir, &id, NULL, 0) ? tree_owner(t, id) : NULL;
		if (n)
			return n;
	}
	return tenant_find(t->ts, "/host");
}

struct node *tree_late_charged(const struct tree *t, const struct tree_vm *v)
{
	return late_charged_at(t, v->vm->cgroup, true);
}

/* How long the thread or process with @start_time, in ticks, was there before @now. */
static uint64_t late_since(const struct tree *t, uint64_t start_time, uint64_t now)
{
	uint64_t hz = (uint64_t)sysconf(_SC_CLK_TCK);
	uint64_t start = start_time / hz * 1000000000 + start_time % hz * 1000000000 / hz;
	uint64_t ns = now - t->since_ns; /* there was no session before */

	return now > start && now - start < ns ? now - start : ns;
}

/* The earlier of *@born and the time of file @name in cgroup @path. */
static void late_stamp(const struct tree *t, const char *path, const char *name, uint64_t *born)
{
	char file[2 * PATH_MAX];
	struct stat st;

	snprintf(file, sizeof(file), "%s%s/%s", t->root, path, name);
	if (stat(file, &st) == 0 && late_ns(&st.st_ctim) < *born)
		*born = late_ns(&st.st_ctim);
}

/*
 * kernfs stamps a directory when it is first looked up, which comes before any task can be in it,
 * and once more when a cgroup is made in it, if its owner was changed. A change of the owner
 * stamps, too: systemd gives the directory and cgroup.procs away when a task is in it already, but
 * looks up cgroup.events before. Stamps are those of the last tick, so the time is not too short.
 */
void tree_late_cgroup(struct tree *t, struct in_tenant *c)
{
	char stat[2000], events[200], *used, *populated;

	proctext_read(events, sizeof(events), "%s%s/cgroup.events", t->root, c->path);
	proctext_read(stat, sizeof(stat), "%s%s/cpu.stat", t->root, c->path);
	populated = proctext_field(events, "populated ");
	used = proctext_field(stat, "usage_usec ");
	if (populated && used && !strcmp(populated, "0") && !strcmp(used, "0"))
		return; /* nothing has run in it: what comes is charged to its tenant */
	tree_late_real(t);
	c->born_ns = clock_ns(CLOCK_REALTIME);
	late_stamp(t, c->path, "", &c->born_ns);
	late_stamp(t, c->path, "cgroup.procs", &c->born_ns);
	late_stamp(t, c->path, "cgroup.events", &c->born_ns);
	c->late = true;
	c->next_late = t->first_late;
	t->first_late = c;
}

void tree_late_real(struct tree *t)
{
	uint64_t boot = clock_ns(CLOCK_BOOTTIME);
	int64_t real = (int64_t)(clock_ns(CLOCK_REALTIME) - boot);

	if (t->real_next_ns < real)
		t->real_next_ns = real;
	if (t->real_ns < real)
		t->real_ns = real;
}

/*
 * How long @c may have run before @boot. If CLOCK_REALTIME was set, its stamps may be of any time
 * up to the most that was seen of it; a later stamp tells nothing. But the last whole scan has not
 * found it.
 */
static uint64_t late_age(const struct tree *t, const struct in_tenant *c, uint64_t boot)
{
	uint64_t most = boot + (uint64_t)t->real_ns;
	uint64_t whole = t->whole_ns < boot ? boot - t->whole_ns : boot; /* a file has it */
	uint64_t age = most > c->born_ns ? most - c->born_ns : UINT64_MAX;

	return age < whole ? age : whole;
}

/* One flush for all: a tenant can make thousands of cgroups at once. It interrupts each CPU that
 * has not taken up the last binding, so all are in force then, but on isolated CPUs. */
void tree_cgroups_settle(void *arg, uint64_t whole_ns)
{
	struct tree *t = arg;
	struct in_tenant *c;
	uint64_t boot;

	if (t->first_late)
		vpmu_backend_flush_node(node_in(t->first_late->tenant->node, t->backend.source));
	tree_late_real(t);
	boot = clock_ns(CLOCK_BOOTTIME);
	while ((c = t->first_late)) {
		t->first_late = c->next_late;
		c->late = false;
		tenant_late(c->tenant->node, late_charged_at(t, c->path, false),
			    late_age(t, c, boot));
	}
	if (!whole_ns)
		return;
	t->starts = false;
	if (whole_ns == t->whole_ns)
		return; /* what this scan has left out may be as old as before */
	t->whole_ns = whole_ns;
	t->real_ns = t->real_next_ns;
	t->real_next_ns = INT64_MIN;
	tree_late_real(t);
}

void tree_late_vm(const struct tree *t, struct tree_vm *v, struct node *charged)
{
	vpmu_backend_flush_node(node_in(v->node, t->backend.source));
	tenant_late(v->node, charged, late_since(t, v->vm->start_time, clock_ns(CLOCK_BOOTTIME)));
}

void tree_late_vcpus(const struct tree *t, struct tree_vm *v)
{
	uint64_t now = 0;
	struct node *charged = NULL;

	for (size_t i = 0; i < v->nr_vcpus; i++) {
		struct tree_vcpu *c = &v->vcpus[i];

		if (!c->late)
			continue;
		if (!now) {
			vpmu_backend_flush_node(node_in(v->node, t->backend.source));
			now = clock_ns(CLOCK_BOOTTIME);
			charged = tree_late_charged(t, v);
		}
		tenant_late(c->node, charged, late_since(t, c->thread.start_time, now));
		c->late = false;
	}
}
