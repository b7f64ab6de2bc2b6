// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The table of checks, the lines of the report, and what all checks share: the backend with two
 * cgroups as its nodes. See selftest.h.
 */
#include <errno.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <linux/perf_event.h>

#include "selftest/priv.h"

#define MOST_FAILURES 5 /* lines of one check; a broken host would fill the screen */

static const struct selftest_check checks[] = {
	{"alone", "known work of one cgroup at a time", 0, check_alone},
	{"shared", "two cgroups on one CPU at the same time", 0, check_shared},
	{"cpus", "each CPU counts, and only itself", 0, check_cpus},
	{"perf", "perf events of our own, opened beside, have the same counts", 0, check_perf},
	{"sides", "user and kernel mode, guest and host", NEED_PMU, check_sides},
	{"many", "more events than counters", 0, check_many},
	{"moves", "a task that moves between cgroups while it runs", 0, check_moves},
	{"switch", "context switches between two cgroups, and their cost", 0, check_switch},
	{"hotplug", "a CPU goes offline and returns", NEED_HOTPLUG | NEED_CPUS, check_hotplug},
	{"samples", "as many samples as periods, at the right place", 0, check_samples},
	{"branches", "records of a program with known branches", NEED_PMU, check_branches},
	{"kvm", "a guest: its count, the host's, its PMU", 0, check_kvm},
};

const char *selftest_name(unsigned int i, const char **brief)
{
	if (i >= sizeof(checks) / sizeof(checks[0]))
		return NULL;
	*brief = checks[i].brief;
	return checks[i].name;
}

/* ---- system calls ---- */

static int run_event_open(const struct perf_event_attr *attr, pid_t pid, int cpu)
{
	long fd = syscall(SYS_perf_event_open, attr, pid, cpu, -1, PERF_FLAG_FD_CLOEXEC);

	return fd < 0 ? -errno : (int)fd;
}

static int run_event_read(int fd, uint64_t *count, uint64_t *enabled_ns, uint64_t *running_ns)
{
	uint64_t v[3];

	if (read(fd, v, sizeof(v)) != (ssize_t)sizeof(v))
		return -EIO;
	*count = v[0];
	*enabled_ns = v[1];
	*running_ns = v[2];
	return 0;
}

const struct selftest_sys selftest_sys_real = {
	.event_open = run_event_open,
	.event_read = run_event_read,
};

/* ---- the report ---- */

static void run_line_end(struct selftest *t)
{
	if (t->line.times && t->line.result == SELFTEST_PASS)
		t->o->row(t->o->arg, &t->line);
	t->line.times = 0;
}

bool selftest_expect(struct selftest *t, const char *subject, uint64_t low, uint64_t high,
		     uint64_t seen, const char *fmt, ...)
{
	const bool right = seen >= low && seen <= high;
	struct selftest_row failed;
	va_list ap;

	if (t->line.times && strcmp(t->subject, subject) != 0)
		run_line_end(t);
	if (!t->line.times) {
		snprintf(t->subject, sizeof(t->subject), "%s", subject);
		t->line =
			(struct selftest_row){.check = t->check, .subject = t->subject, .why = ""};
	}
	t->line.times++;
	if (right) {
		t->line.low = low;
		t->line.high = high;
		t->line.seen = seen;
		return true;
	}
	t->line.result = SELFTEST_FAIL; /* the line of the failure is its line */
	t->failed++;
	if (t->reported++ >= MOST_FAILURES)
		return false;
	va_start(ap, fmt);
	vsnprintf(t->why, sizeof(t->why), fmt, ap);
	va_end(ap);
	failed = t->line;
	failed.low = low;
	failed.high = high;
	failed.seen = seen;
	failed.why = t->why;
	t->o->row(t->o->arg, &failed);
	return false;
}

void selftest_skip(struct selftest *t, const char *fmt, ...)
{
	struct selftest_row r = {.check = t->check, .subject = "", .result = SELFTEST_SKIP};
	va_list ap;

	run_line_end(t);
	va_start(ap, fmt);
	vsnprintf(t->why, sizeof(t->why), fmt, ap);
	va_end(ap);
	r.why = t->why;
	t->o->row(t->o->arg, &r);
}

void selftest_fact(struct selftest *t, const char *what, const char *fmt, ...)
{
	char text[400];
	struct selftest_fact f = {.what = what, .text = text};
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	t->o->fact(t->o->arg, &f);
}

void selftest_give_up(struct selftest *t, const char *what, int error)
{
	char why[300];

	if (error == -EINTR && t->error)
		return; /* stopped: it says nothing about the host */
	selftest_expect(t, what, 0, 0, (uint64_t)-error, "%s",
			vpmu_backend_error(t->s, error, why, sizeof(why)));
}

/* ---- the run ---- */

static int run_find_cpus(struct selftest *t, char *err, size_t errlen)
{
	const size_t bytes = CPU_ALLOC_SIZE(SELFTEST_CPUS);
	cpu_set_t *set = CPU_ALLOC(SELFTEST_CPUS);

	int ret = !set ? -ENOMEM : sched_getaffinity(0, bytes, set) ? -errno : 0;

	if (ret)
		snprintf(err, errlen, "cannot get this process's CPUs: %s", strerror(-ret));
	else
		for (unsigned int i = 0; i < SELFTEST_CPUS && i < t->s->nr_cpus; i++)
			if (CPU_ISSET_S(i, bytes, set))
				t->cpus[t->nr_cpus++] = i;
	if (set)
		CPU_FREE(set);
	return ret;
}

/* Which known events does this host count? */
static void run_find_known(struct selftest *t)
{
	static const struct known known[SELFTEST_KNOWN] = {
		{.event = "page-faults", .work = WORK_FAULTS, .unit = 1},
		{.event = "instructions:uH", .work = WORK_LOOP, .unit = 2, .hardware = true},
		{.event = "branches:uH", .work = WORK_LOOP, .unit = 1, .hardware = true},
	};
	enum vpmu_quality q;

	memcpy(t->known, known, sizeof(known));
	for (struct known *k = t->known; k < t->known + SELFTEST_KNOWN; k++) {
		q = VPMU_Q_EXACT;
		k->usable = !vpmu_event_parse(k->event, vpmu_event_host_space(), &k->key, k->why,
					      sizeof(k->why)) &&
			    vpmu_backend_can_count(t->s, k->key, &q, k->why, sizeof(k->why)) &&
			    q == VPMU_Q_EXACT;
		if (!k->usable && !k->why[0])
			snprintf(k->why, sizeof(k->why), "its count is not exact");
		t->pmu |= k->usable && k->hardware;
	}
}

static int run_open_nodes(struct selftest *t, char *err, size_t errlen)
{
	int ret = 0;

	t->node[NODE_OTHER] = t->s->other;
	t->node[NODE_ROOT] = t->s->root;
	for (unsigned int i = NODE_A; i <= NODE_B && !ret; i++) {
		ret = vpmu_backend_node_add(t->s->root, i + 1, &t->node[i]);
		if (!ret)
			ret = bpf_backend_bind_cgroup(t->node[i], t->cgroup_id[i]);
	}
	if (ret)
		snprintf(err, errlen, "cannot count a cgroup: %s", strerror(-ret));
	return ret;
}

static void run_check(struct selftest *t, const struct selftest_check *c)
{
	t->check = c->name;
	t->reported = 0;
	t->mask = NULL;
	if (c->needs & NEED_PMU && !t->pmu)
		selftest_skip(t, "no hardware counters: %s", t->known[1].why);
	else if (c->needs & NEED_HOTPLUG && !t->o->hotplug)
		selftest_skip(t, "only with --hotplug");
	else if (c->needs & NEED_CPUS && t->nr_cpus < 2)
		selftest_skip(t, "one CPU");
	else
		c->run(t);
	run_line_end(t);
	measure_end(t); /* after a failure in between */
	if (t->reported > MOST_FAILURES)
		selftest_skip(t, "%u more failures of this check", t->reported - MOST_FAILURES);
}

static bool run_has_check(const char *name)
{
	for (size_t i = 0; i < sizeof(checks) / sizeof(checks[0]); i++)
		if (!strcmp(checks[i].name, name))
			return true;
	return false;
}

int selftest_run(const struct selftest_opts *o, char *err, size_t errlen)
{
	struct selftest t = {.o = o, .sys = o->sys ? o->sys : &selftest_sys_real};
	struct bpf_backend_opts opts = {.isolated = true, .sys = t.sys->backend};
	int ret;

	if (o->only && !run_has_check(o->only)) {
		snprintf(err, errlen, "%s: no such check", o->only);
		return -ENOENT;
	}
	ret = scratch_open(t.cgroup_id, err, errlen);
	if (ret)
		return ret;
	ret = bpf_backend_open(&opts, &t.k, err, errlen);
	if (ret)
		goto scratch;
	if (t.sys->opened)
		t.sys->opened(t.k);
	t.s = bpf_as_backend(t.k);
	ret = run_open_nodes(&t, err, errlen);
	if (ret)
		goto backend;
	ret = run_find_cpus(&t, err, errlen);
	if (ret)
		goto backend;
	run_find_known(&t);
	facts(&t);
	for (size_t i = 0; i < sizeof(checks) / sizeof(checks[0]) && !t.error; i++)
		if (!o->only || !strcmp(checks[i].name, o->only))
			run_check(&t, &checks[i]);
	ret = t.error ? t.error : (int)t.failed;
	if (t.error)
		snprintf(err, errlen, "stopped");
backend:
	for (unsigned int i = NODE_A; i <= NODE_B; i++) {
		if (!t.node[i])
			continue;
		bpf_backend_unbind_cgroup(t.node[i], t.cgroup_id[i]);
		vpmu_backend_node_remove(t.node[i]);
	}
	bpf_backend_close(t.k);
scratch:
	scratch_close();
	return ret;
}
