// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The BPF backend when the kernel refuses: each call of struct bpf_backend_sys fails once, and what
 * follows is one clear line or an error, nothing half-done, and no wrong count. The other calls are
 * the real kernel's. Skipped where BPF is not permitted.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <criterion/criterion.h>
#include <linux/perf_event.h>

#include "cgroup/priv.h"
#include "tests/integration/cgroup_bed.h"

static const vpmu_key_t key = SW(PERF_COUNT_SW_PAGE_FAULTS);
static struct bpf_backend_sys sys;
static int error, passes; /* the result of the next call, once passes is 0 */

static int fails(void)
{
	return error && !passes-- ? error : 0;
}

static int no_load(struct bpf_object_skeleton *s)
{
	return error;
}

static struct bpf_link *no_attach(const struct bpf_program *p)
{
	if (!error)
		return bpf_backend_sys_real.attach(p);
	errno = -error;
	return NULL;
}

static int no_event(const struct perf_event_attr *attr, int cpu, int group)
{
	return error ? error : bpf_backend_sys_real.event_open(attr, cpu, group);
}

static int no_pages(int fd, const uint32_t *index, const int *page, uint32_t n)
{
	int ret = fails();

	return ret ? ret : bpf_backend_sys_real.pages(fd, index, page, n);
}

static int no_map_set(int fd, const void *k, const void *v)
{
	return error ? error : bpf_backend_sys_real.map_set(fd, k, v);
}

static void refused(int err, int ret, const char *text)
{
	const struct bpf_backend_opts o = {.sys = &sys};
	struct bpf_backend *k;
	char why[512] = "";

	error = err;
	cr_expect_eq(bpf_backend_open(&o, &k, why, sizeof(why)), ret, "%s", why);
	cr_expect_null(k);
	cr_expect(strstr(why, text) && !strchr(why, '\n'), "%s", why);
}

Test(bpf_backend_errors, a_program_that_does_not_load_is_one_line)
{
	sys = bpf_backend_sys_real;
	sys.load = no_load;
	refused(-EPERM, -EPERM, "CAP_BPF");
	refused(-EACCES, -EOPNOTSUPP, "the kernel refuses the BPF program");
	refused(-EINVAL, -EINVAL, "the kernel refuses the BPF program");
	refused(-E2BIG, -EOPNOTSUPP, "the kernel refuses the BPF program");
	refused(-ENOMEM, -ENOMEM, "no memory");
	sys.files = "/nowhere";
	refused(-ESRCH, -EOPNOTSUPP, "/nowhere/sys/kernel/btf/vmlinux");
}

static struct bpf_backend *open_with_sys(void)
{
	static struct bpf_backend_opts o;

	o.sys = &sys;
	error = 0;
	passes = 0;
	return bed_open(&o);
}

static void nothing_is_left(struct bpf_backend *k, struct vpmu_counting *c)
{
	struct bpf_backend_usage u;
	struct vpmu_sharing s;
	size_t failed;

	bpf_backend_usage(k, &u);
	vpmu_backend_sharing(bpf_as_backend(k), &s);
	cr_expect_eq(u.programs + u.events + s.consumers + s.keys, 0);
	/* And it works as soon as the kernel lets us. */
	error = 0;
	cr_expect_eq(vpmu_backend_attach(c, &failed), 0);
	cr_expect_gt(bed_conserved(bpf_as_backend(k)), 0);
	bed_detach(c);
	cr_expect(c->values[0].supported);
}

static void attach_fails(struct vpmu_counting *c, int err, int pass, int ret)
{
	size_t failed = 99;

	error = err;
	passes = pass;
	cr_expect_eq(vpmu_backend_attach(c, &failed), ret);
	cr_expect_eq(failed, 0);
}

Test(bpf_backend_errors, an_attach_that_fails_leaves_nothing)
{
	struct vpmu_counting *c;
	struct bpf_backend *k;

	sys = bpf_backend_sys_real;
	sys.attach = no_attach;
	k = open_with_sys();
	c = bed_counting(bpf_as_backend(k)->root, &key, 1, NULL);
	attach_fails(c, -EPERM, 0, -EPERM);
	nothing_is_left(k, c);
	sys.attach = bpf_backend_sys_real.attach;
	sys.event_open = no_event;
	attach_fails(c, -EMFILE, 0, -ENOSPC);
	nothing_is_left(k, c);
	attach_fails(c, -ENOMEM, 0, -ENOMEM);
	nothing_is_left(k, c);
	bed_done(k);

	/* Pages for the index, then those for cells, which more accounts need than have near ones.
	 */
	sys = bpf_backend_sys_real;
	sys.pages = no_pages;
	for (int i = 0; i < 2; i++) {
		struct vpmu_backend_node *n;

		k = open_with_sys();
		for (unsigned int j = 0; j < KP_NEAR; j++)
			cr_assert_eq(vpmu_backend_node_add(bpf_as_backend(k)->root, j + 1, &n), 0);
		c = bed_counting(bpf_as_backend(k)->root, &key, 1, NULL);
		attach_fails(c, -ENOMEM, i, -ENOMEM);
		nothing_is_left(k, c);
		bed_done(k);
	}
}

Test(bpf_backend_errors, what_may_not_be_counted_says_so)
{
	struct vpmu_counting *c;
	enum vpmu_quality q;
	struct bpf_backend *k;
	char why[256] = "";

	sys = bpf_backend_sys_real;
	sys.event_open = no_event;
	k = open_with_sys();
	c = bed_counting(bpf_as_backend(k)->root, &key, 1, NULL);
	error = -EACCES;
	cr_expect_not(vpmu_backend_can_count(bpf_as_backend(k), key, &q, why, sizeof(why)));
	cr_expect(strstr(why, "CAP_PERFMON"), "%s", why);
	bed_attach(c);
	bed_detach(c);
	cr_expect(!c->values[0].supported && !c->values[0].count);
	error = 0;
	cr_expect(vpmu_backend_can_count(bpf_as_backend(k), key, &q, why, sizeof(why)));
	bed_done(k);
}

Test(bpf_backend_errors, full_maps_are_errors_or_partial_values)
{
	struct vpmu_counting *c, *all;
	struct vpmu_backend_node *n;
	struct bpf_backend *k;
	struct vpmu_backend *s;
	uint64_t id;

	sys = bpf_backend_sys_real;
	sys.map_set = no_map_set;
	k = open_with_sys();
	s = bpf_as_backend(k);
	n = bed_node(s->root);
	id = bed_cgroup("a");
	error = -E2BIG;
	cr_expect_eq(bpf_backend_bind_cgroup(n, id), -ENOSPC);
	cr_expect_eq(bpf_backend_bind_task(n, getpid(), bed_start_time(getpid())), -ENOSPC);
	error = 0;
	cr_expect_eq(bpf_backend_bind_cgroup(n, id), 0);

	/* No cell for an account that runs for the first time. */
	bed_job("a", 1000);
	c = bed_counting(n, &key, 1, NULL);
	all = bed_counting(s->root, &key, 1, NULL);
	bed_attach(all);
	bed_attach(c);
	for (unsigned int cpu = 0; cpu < k->nr_cpus; cpu++)
		cpu_state(k, cpu)->cells_max = cpu_state(k, cpu)->cells;
	bed_job_go();
	cr_expect_gt(bed_conserved(s), 0);
	bed_read(c);
	cr_expect(c->values[0].partial && c->values[0].count < 1000);
	/* There is room again: what follows is counted, and the value stays marked. */
	bed_job_go();
	bed_read(c);
	cr_expect(c->values[0].partial && c->values[0].count >= 1000);
	bed_detach(c);
	bed_detach(all);
	cr_expect(all->values[0].partial);
	bed_done(k);
}

/* A slot that was a software event's is given to a clock, which has no count in memory. */
Test(bpf_backend_errors, a_slot_forgets_how_its_last_key_was_read)
{
	const vpmu_key_t clock = SW(PERF_COUNT_SW_CPU_CLOCK);
	struct vpmu_counting *c, *d;
	struct bpf_backend *k;

	sys = bpf_backend_sys_real;
	k = open_with_sys();
	c = bed_counting(bpf_as_backend(k)->root, &key, 1, NULL);
	d = bed_counting(bpf_as_backend(k)->root, &clock, 1, NULL);
	for (int i = 0; i < VPMU_MAX_SLOTS + 2; i++) {
		struct vpmu_counting *now = i % 2 ? d : c;

		bed_attach(now);
		usleep(1000);
		/* Before anybody reads the event itself: that brings the word up to date. */
		bed_read(now);
		if (i % 2)
			cr_expect_gt(now->values[0].count, 500000u);
		cr_expect_gt(bed_conserved(bpf_as_backend(k)), 0);
		bed_detach(now);
		if (i % 2)
			cr_expect(now->values[0].count > 500000 &&
				  now->values[0].count <= 2 * now->values[0].enabled_ns);
	}
	bed_done(k);
}

Test(bpf_backend_errors, hostile_lists_of_cpus)
{
	static const struct {
		int line;
		const char *text, *want;
	} rows[] = {
		{__LINE__, "0-1\n", "1100"},	 {__LINE__, "3\n", "0001"},
		{__LINE__, "\n", "0000"},	 {__LINE__, "0,2-3\n", "1011"},
		{__LINE__, "2-99999\n", "0011"}, {__LINE__, "1-0\n", "0000"},
		{__LINE__, "-1\n", "0000"},	 {__LINE__, "1,,3\n", "0100"},
		{__LINE__, "x\n", "0000"},
	};
	char name[] = "/tmp/vpmu-cpus-XXXXXX";
	int fd = mkstemp(name);
	bool set[4];

	cr_assert_geq(fd, 0);
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		size_t len = strlen(rows[i].text);

		cr_assert(!ftruncate(fd, 0) && pwrite(fd, rows[i].text, len, 0) == (ssize_t)len);
		cr_expect(bpf_backend_cpus(&bpf_backend_sys_real, name, set, 4));
		for (int cpu = 0; cpu < 4; cpu++)
			cr_expect_eq(set[cpu], rows[i].want[cpu] == '1', "line %d, CPU %d",
				     rows[i].line, cpu);
	}
	close(fd);
	unlink(name);
	cr_expect_not(bpf_backend_cpus(&bpf_backend_sys_real, name, set, 4));
}

/* Lost time is of the event's clock, the time of the scheduler's. Of an event without a counter
 * more time can seem lost than has passed; its running time stands, as a difference of two readings
 * must not be below 0. */
Test(bpf_backend_errors, running_time_never_decreases)
{
	struct bpf_backend *k = bed_open(NULL);
	struct vpmu_counting *c = bed_counting(bpf_as_backend(k)->root, &key, 1, NULL);
	struct kp_cell *cell = NULL;
	uint64_t enabled_ns, running_ns;

	bed_attach(c);
	usleep(20000);
	bed_read(c);
	enabled_ns = c->values[0].enabled_ns;
	running_ns = c->values[0].running_ns;
	cr_assert_eq(running_ns, enabled_ns);
	for (unsigned int cpu = 0; !cell && cpu < k->nr_cpus; cpu++)
		cell = node_cell(k, cpu, KP_OTHER, 0);
	cr_assert(cell);
	/* More than passes until the next reading. */
	VPMU_STORE(&cell->row[0].lost, cell->row[0].lost + running_ns + 600000000000ULL);
	bed_read(c);
	cr_expect_gt(c->values[0].enabled_ns, enabled_ns);
	cr_expect_eq(c->values[0].running_ns, running_ns, "%lu ns, after %lu",
		     c->values[0].running_ns, running_ns);
	bed_detach(c);
	bed_done(k);
}
