// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * vpmu selftest on this machine: nothing fails; and with a fault planted below it, the check that
 * is for that names it. In a bed the CPU's counters are exact, so no bound allows for anything; as
 * a program of the build, software events remain.
 */
#include <criterion/criterion.h>

#include <errno.h>
#include <linux/perf_event.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cgroup/priv.h"
#include "selftest/selftest.h"

/* ---- the planted faults ---- */

static struct bpf_backend_sys backend_sys;
static struct selftest_sys sys;
static struct vpmu_backend_ops ops;
static const struct vpmu_backend_ops *real_ops;
static void (*change)(const struct vpmu_counting *c); /* the last values */

static void changed_detach(struct vpmu_backend *s, struct vpmu_counting *list)
{
	real_ops->detach(s, list);
	for (const struct vpmu_counting *c = list; c; c = c->next)
		change(c);
}

static void value_loses(const struct vpmu_counting *c)
{
	for (size_t i = 0; i < c->nr_keys; i++)
		c->values[i].count -= c->values[i].count / 1000;
}

static void value_loses_many(const struct vpmu_counting *c)
{
	for (size_t i = 0; i < c->nr_keys; i++)
		c->values[i].count -= c->values[i].count / 100;
}

static void value_partial(const struct vpmu_counting *c)
{
	for (size_t i = 0; i < c->nr_keys; i++)
		c->values[i].partial = true;
}

static void value_gains(const struct vpmu_counting *c)
{
	for (size_t i = 0; i < c->nr_keys; i++)
		c->values[i].count += c->values[i].count / 100;
}

static void value_root(const struct vpmu_counting *c)
{
	if (c->node == c->source->root)
		c->values[0].count -= c->values[0].count / 1000;
}

static void value_running(const struct vpmu_counting *c)
{
	for (size_t i = 0; i < c->nr_keys; i++)
		c->values[i].running_ns = c->values[i].enabled_ns;
}

/* The list is root, other, b, a: what b has counted is shown as a's. */
static void value_neighbour(const struct vpmu_counting *c)
{
	const struct vpmu_counting *a = c->next;

	if (a && !a->next)
		for (size_t i = 0; i < c->nr_keys; i++) {
			a->values[i].count += c->values[i].count;
			c->values[i].count = 0;
		}
}

static int all_cpus(struct vpmu_backend *s, struct vpmu_counting *list, size_t *failed)
{
	for (struct vpmu_counting *c = list; c; c = c->next)
		c->cpus = NULL;
	return real_ops->attach(s, list, failed);
}

static int half_the_samples(struct vpmu_backend_node *n, const struct vpmu_sampling_opts *o,
			    struct vpmu_sampling **out)
{
	struct vpmu_sampling_opts twice = *o;

	twice.period *= 2;
	return real_ops->sample_start(n, &twice, out);
}

static int record_off_by_one(const struct vpmu_backend_node *n, struct vpmu_lbr_regs *r,
			     enum vpmu_lbr_user *user)
{
	int ret = real_ops->branches_read(n, r, user);

	for (int i = 0; i < VPMU_LBR_DEPTH_MAX && !ret; i++)
		r->e[i].from++;
	return ret;
}

static int open_other(const struct perf_event_attr *attr, int cpu, int group)
{
	struct perf_event_attr a = *attr;

	if (a.type == PERF_TYPE_SOFTWARE && a.config == PERF_COUNT_SW_PAGE_FAULTS)
		a.config = PERF_COUNT_SW_PAGE_FAULTS_MAJ;
	else if (a.type == PERF_TYPE_HARDWARE && a.config == PERF_COUNT_HW_INSTRUCTIONS)
		a.config = PERF_COUNT_HW_CPU_CYCLES;
	return bpf_backend_sys_real.event_open(&a, cpu, group);
}

static int open_dead(const struct perf_event_attr *attr, int cpu, int group)
{
	struct perf_event_attr a = *attr;

	if (cpu == sysconf(_SC_NPROCESSORS_ONLN) - 1) /* a bed has one or two */
		a.exclude_user = a.exclude_kernel = 1;
	return bpf_backend_sys_real.event_open(&a, cpu, group);
}

static int open_leaky(const struct perf_event_attr *attr, int cpu, int group)
{
	struct perf_event_attr a = *attr;

	if (a.exclude_host)
		a.exclude_host = 0;
	return bpf_backend_sys_real.event_open(&a, cpu, group);
}

static int open_guest_too(const struct perf_event_attr *attr, int cpu, int group)
{
	struct perf_event_attr a = *attr;

	a.exclude_guest = 0;
	return bpf_backend_sys_real.event_open(&a, cpu, group);
}

static int open_kernel_too(const struct perf_event_attr *attr, int cpu, int group)
{
	struct perf_event_attr a = *attr;

	a.exclude_kernel = 0;
	return bpf_backend_sys_real.event_open(&a, cpu, group);
}

static int read_more(int fd, uint64_t *count, uint64_t *enabled_ns, uint64_t *running_ns)
{
	int ret = bpf_backend_sys_real.event_read(fd, count, enabled_ns, running_ns);

	*count += *count / 1000 + 1;
	return ret;
}

static int read_less(int fd, uint64_t *count, uint64_t *enabled_ns, uint64_t *running_ns)
{
	int ret = selftest_sys_real.event_read(fd, count, enabled_ns, running_ns);

	*count -= *count / 1000;
	return ret;
}

/* What is in its place: nothing else is set. */
struct fault {
	const char *name, *check, *subject; /* subject: of the line that fails; NULL: any */
	bool pmu;
	void (*change)(const struct vpmu_counting *c);
	struct vpmu_backend_ops ops;
	struct bpf_backend_sys backend;
	int (*event_read)(int fd, uint64_t *count, uint64_t *enabled_ns, uint64_t *running_ns);
};

static const struct fault faults[] = {
	{"a counter loses 0.1 %", "alone", "page-faults", .change = value_loses},
	{"a counter loses 0.1 %", "alone", "instructions:uH", true, .change = value_loses},
	{"a counter counts 1 % too much", "alone", NULL, .change = value_gains},
	{"an event with a wrong code", "alone", "page-faults", .backend.event_open = open_other},
#ifndef __aarch64__ /* QEMU's cycles are its instructions there */
	{"an event with a wrong code", "alone", "instructions:uH", true,
	 .backend.event_open = open_other},
#endif
	{"kernel mode is counted as user mode", "alone", "instructions:uH", true,
	 .backend.event_open = open_kernel_too},
	{"a charge is lost", "alone", "hardware = charged", .backend.event_read = read_more},
	{"the sum lacks a part", "alone", "cgroups + others = host", .change = value_root},
	{"a neighbour's counts", "shared", "page-faults", .change = value_neighbour},
	{"a dead CPU", "cpus", "page-faults", .backend.event_open = open_dead},
	{"a dead CPU", "cpus", "instructions:uH", true, .backend.event_open = open_dead},
	{"a CPU that was not asked for", "cpus", "page-faults", .ops.attach = all_cpus},
	{"perf disagrees", "perf", NULL, .event_read = read_less},
	{"the host leaks into the guest", "sides", "instructions:G without a guest", true,
	 .backend.event_open = open_leaky},
	{"the host leaks into the guest", "kvm", "instructions:G of a guest", true,
	 .backend.event_open = open_leaky},
	{"the guest leaks into the host", "kvm", "guest + host", true,
	 .backend.event_open = open_guest_too},
	{"switches are lost", "switch", "context-switches", .change = value_loses_many},
	{"time without a counter is hidden", "many", "events that waited", true,
	 .change = value_running},
	{"half of the samples", "samples", "page-faults, samples",
	 .ops.sample_start = half_the_samples},
	{"records are off by one", "branches", NULL, true, .ops.branches_read = record_off_by_one},
};

static const struct fault *planted;

static void plant_ops(struct bpf_backend *k)
{
	struct vpmu_backend *s = bpf_as_backend(k);

	real_ops = s->ops;
	ops = *real_ops;
	change = planted->change;
	if (change)
		ops.detach = changed_detach;
	if (planted->ops.attach)
		ops.attach = planted->ops.attach;
	if (planted->ops.sample_start)
		ops.sample_start = planted->ops.sample_start;
	if (planted->ops.branches_read)
		ops.branches_read = planted->ops.branches_read;
	s->ops = &ops;
}

static void plant(const struct fault *f)
{
	backend_sys = bpf_backend_sys_real;
	sys = selftest_sys_real;
	planted = f;
	if (f->backend.event_open)
		backend_sys.event_open = f->backend.event_open;
	if (f->backend.event_read)
		backend_sys.event_read = f->backend.event_read;
	if (f->event_read)
		sys.event_read = f->event_read;
	sys.backend = &backend_sys;
	sys.opened = plant_ops;
}

/* ---- the report ---- */

struct seen {
	const struct fault *f; /* NULL: none is planted */
	unsigned int rows[3];
	bool named;
	char skipped[300];
};

static void print_fact(void *arg, const struct selftest_fact *f)
{
	const struct seen *s = arg;

	if (!s->f)
		printf("%s: %s\n", f->what, f->text);
}

/* The first process of a bed has its program in /bed. */
static bool in_bed(void)
{
	return !access("/bed", F_OK);
}

/* QEMU's arm64 PMU notices the end of a period when the CPU leaves its loop for something else. */
static bool known_of_qemu(const struct selftest_row *r)
{
#ifdef __aarch64__
	return in_bed() && !strcmp(r->subject, "instructions:uH, samples");
#else
	return false;
#endif
}

static void look_at(void *arg, const struct selftest_row *r)
{
	static const char *const results[] = {"pass", "fail", "skip"};
	struct seen *s = arg;

	if (r->result == SELFTEST_FAIL && !s->f && known_of_qemu(r))
		return;
	s->rows[r->result]++;
	if (r->result == SELFTEST_SKIP)
		snprintf(s->skipped, sizeof(s->skipped), "%s", r->why);
	if (r->result == SELFTEST_FAIL && s->f)
		s->named |= !s->f->subject || !strcmp(s->f->subject, r->subject);
	if (!s->f)
		printf("%s %s %s: %lu..%lu, %lu; %s\n", results[r->result], r->check, r->subject,
		       r->low, r->high, r->seen, r->why);
}

/* A controller, as systemd does on every host. */
static void switch_on(void)
{
	FILE *f = fopen("/sys/fs/cgroup/cgroup.subtree_control", "we");

	cr_assert(f && fputs("+pids", f) >= 0 && !fclose(f));
}

static void run(const struct fault *f, struct seen *s)
{
	struct selftest_opts o = {.exact = in_bed(),
				  .hotplug = in_bed() && !f,
				  .only = f ? f->check : NULL,
				  .sys = f ? &sys : NULL,
				  .fact = print_fact,
				  .row = look_at,
				  .arg = s};
	char err[512] = "";
	int ret;

	*s = (struct seen){.f = f};
	if (in_bed())
		switch_on();
	if (f)
		plant(f);
	ret = selftest_run(&o, err, sizeof(err));
	if (ret == -EPERM || ret == -EACCES || ret == -EROFS || ret == -ENOENT)
		cr_skip_test("%s", err);
	cr_assert(ret >= 0, "%s", err);
}

/* What the check needs cannot be there: a KVM, or on arm64 branch records. */
static bool fault_impossible(const struct fault *f, const struct seen *s)
{
#ifdef __aarch64__
	if (!strcmp(f->check, "branches"))
		return true;
#endif
	return access("/dev/kvm", F_OK) && strstr(s->skipped, "/dev/kvm");
}

/* ---- the tests ---- */

/* The first test: a controller that was on once changes what the kernel does for good. */
Test(bed_selftest, samples_before_any_controller_is_on)
{
	struct seen s = {0};
	const struct selftest_opts o = {
		.exact = true, .only = "samples", .fact = print_fact, .row = look_at, .arg = &s};
	char err[512] = "", on[64] = "";
	FILE *f;

	if (!in_bed())
		cr_skip_test("only in a bed");
	f = fopen("/sys/fs/cgroup/cgroup.subtree_control", "re");
	cr_assert(f);
	cr_expect(!fgets(on, sizeof(on), f) || on[0] == '\n', "on: %s", on);
	fclose(f);
	cr_assert(selftest_run(&o, err, sizeof(err)) >= 0, "%s", err);
	cr_expect_eq(s.rows[SELFTEST_FAIL], 0u);
	cr_expect_gt(s.rows[SELFTEST_PASS], 0u);
}

Test(bed_selftest, nothing_fails)
{
	struct seen s;

	run(NULL, &s);
	cr_expect_eq(s.rows[SELFTEST_FAIL], 0u);
	cr_expect_gt(s.rows[SELFTEST_PASS], 10u);
}

Test(bed_selftest, each_planted_fault_is_named)
{
	unsigned int named = 0;
	struct seen s;

	if (!in_bed() && sysconf(_SC_NPROCESSORS_ONLN) < 2)
		cr_skip_test("one CPU");
	for (size_t i = 0; i < sizeof(faults) / sizeof(faults[0]); i++) {
		const struct fault *f = &faults[i];

		/* Those of software events are for the program outside of the beds, which is cheap.
		 */
		if (f->pmu != in_bed())
			continue;
		run(f, &s);
		if (!s.rows[SELFTEST_FAIL] && s.rows[SELFTEST_SKIP] &&
		    (!in_bed() || fault_impossible(f, &s))) {
			printf("%s: not here: %s\n", f->name, s.skipped);
			continue;
		}
		printf("%s: %s, %u failures\n", f->name, s.named ? f->check : "NOT SEEN",
		       s.rows[SELFTEST_FAIL]);
		cr_expect(s.named, "%s: not named by %s", f->name, f->check);
		named += s.named;
	}
	cr_expect(in_bed() || named >= 8, "%u", named); /* not all may be skipped */
}

/* Counts that are never whole show nothing, and the check says so. */
Test(bed_selftest, partial_is_not_right)
{
	static const char *const checks[] = {"alone", "switch"};
	struct seen s;

	if (in_bed())
		cr_skip_test("the same outside, where it is cheap");
	for (size_t i = 0; i < sizeof(checks) / sizeof(checks[0]); i++) {
		const struct fault f = {"all is partial", checks[i], .change = value_partial};

		run(&f, &s);
		cr_expect_eq(s.rows[SELFTEST_FAIL], 0u, "%s", checks[i]);
		cr_expect(!strncmp(s.skipped, "partial", 7), "%s: %s", checks[i], s.skipped);
	}
}
