// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The event idle-time on the running kernel: of / and of `other` it is what /proc/stat shows, of a
 * tenant it is 0; it is no more than the clock of `other`, which the idle task is charged to; and
 * a new daemon goes on with it.
 */
#include <criterion/criterion.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "cgroup/priv.h"
#include "tests/integration/cgroup_bed.h"

#define IDLE                                                                                       \
	((SW(VPMU_SCHED_IDLE) & ~(15ULL << VPMU_KEY_SPACE_SHIFT)) | 6ULL << VPMU_KEY_SPACE_SHIFT)
#define TICK_NS 10000000ULL

static const vpmu_key_t keys[2] = {IDLE, SW(PERF_COUNT_SW_TASK_CLOCK)};

static uint64_t idle_now(void)
{
	unsigned long long idle, iowait;
	FILE *f = fopen("/proc/stat", "re");

	cr_assert(f && fscanf(f, "cpu %*u %*u %*u %llu %llu", &idle, &iowait) == 2);
	fclose(f);
	return (idle + iowait) * TICK_NS;
}

/* Until CPUs were idle for some ticks; a busy host has none. */
static void idle_for(unsigned int ticks)
{
	uint64_t end = idle_now() + ticks * TICK_NS;

	for (int i = 0; i < 50 && idle_now() < end; i++)
		usleep(20000);
}

Test(cgroup_idle, is_the_kernels_and_a_part_of_the_clock)
{
	struct vpmu_counting *root, *other, *tenant;
	uint64_t was[2], now[2];
	struct bpf_backend *k = bed_open(NULL);

	tenant = bed_counting(bed_node(bpf_as_backend(k)->root), keys, 2, NULL);
	other = bed_counting(bpf_as_backend(k)->other, keys, 2, tenant);
	root = bed_counting(bpf_as_backend(k)->root, keys, 2, other);
	was[0] = idle_now();
	bed_attach(root);
	was[1] = idle_now();
	for (int round = 0; round < 3; round++) {
		idle_for(20);
		now[0] = idle_now();
		bed_read(root);
		now[1] = idle_now();
		for (struct vpmu_counting *c = root; c; c = c->next)
			cr_expect(c->values[0].supported && !c->values[0].partial &&
				  c->values[0].quality == VPMU_Q_ESTIMATED);
		cr_expect_geq(root->values[0].count, now[0] - was[1]);
		cr_expect_leq(root->values[0].count, now[1] - was[0]);
		cr_expect_eq(other->values[0].count, root->values[0].count);
		cr_expect_eq(tenant->values[0].count, 0);
		cr_expect_eq(root->values[0].enabled_ns, root->values[0].running_ns);
		/* It was read just before the clock, and is a tick off at both ends. */
		cr_expect_leq(other->values[0].count, other->values[1].count + 2 * TICK_NS);
		printf("# idle %.2f s of %.2f s of `other`\n", (double)other->values[0].count / 1e9,
		       (double)other->values[1].count / 1e9);
	}
	bed_done(k);
}

/* No program and no event is needed for it, and it is an estimate. */
Test(cgroup_idle, adds_nothing_to_a_switch)
{
	struct bpf_backend *k = bed_open(NULL);
	struct vpmu_backend *s = bpf_as_backend(k);
	struct vpmu_counting *c = bed_counting(s->root, keys, 1, NULL);
	struct bpf_backend_usage u;
	enum vpmu_quality q;
	char why[200];

	bed_attach(c);
	bpf_backend_usage(k, &u);
	cr_expect_eq(u.programs, 0);
	cr_expect_eq(u.events, 0);
	cr_expect(s->ops->can_count(s, IDLE, &q, why, sizeof(why)) && q == VPMU_Q_ESTIMATED);
	bed_done(k);
}

/* ---- a made-up /proc/stat ------------------------------------------------------------------ */

static char files[] = "/tmp/vpmu-idle-XXXXXX";

static void stat_is(const char *text)
{
	char path[64];
	FILE *f;

	snprintf(path, sizeof(path), "%s/proc/stat", files);
	f = fopen(path, "we");
	cr_assert(f && fputs(text, f) >= 0 && !fclose(f));
}

Test(cgroup_idle, only_grows_and_a_step_is_no_idle_time)
{
	/* Waits for disks are in it, and can become less. */
	static const struct {
		const char *text;
		unsigned int ticks, losses;
	} steps[] = {
		{"cpu  1 2 3 103 52 6\n", 5, 0},
		{"cpu  1 2 3 103 51 6\n", 5, 0},
		{"cpu  1 2 3 104 52 6\n", 6, 0},
		{"cpu  1 2 3 90000000 52 6\n", 6, 1}, /* a CPU went offline */
		{"cpu  1 2 3 90000003 52 6\n", 9, 1},
		{"cpu  1 2 3 40 20 6\n", 9, 2}, /* and came back */
		{"cpu  1 2 3 41 22 6\n", 12, 2},
	};
	struct bpf_backend_sys sys = bpf_backend_sys_real;
	const struct bpf_backend_opts o = {.sys = &sys};
	struct vpmu_counting *c;
	enum vpmu_quality q;
	struct vpmu_backend *s;
	char why[200];

	cr_assert(mkdtemp(files));
	bed_system("cd %s && ln -s /sys . && mkdir proc", files);
	sys.files = files;
	stat_is("cpu  1 2 3 100 50 6\ncpu0 1 2 3 100 50 6\n");
	s = bpf_as_backend(bed_open(&o));
	c = bed_counting(s->root, keys, 1, NULL);
	bed_attach(c);
	/* CPUs that are never idle: 0 is a number. */
	bed_read(c);
	cr_expect_eq(c->values[0].count, 0);
	cr_expect(c->values[0].running_ns && c->values[0].running_ns == c->values[0].enabled_ns);
	for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) {
		stat_is(steps[i].text);
		bed_read(c);
		cr_expect_eq(c->values[0].count, steps[i].ticks * TICK_NS, "step %zu: %" PRIu64, i,
			     c->values[0].count);
		cr_expect_eq(c->values[0].losses, steps[i].losses);
		cr_expect_eq(c->values[0].partial, steps[i].losses > 0);
	}
	cr_expect(s->ops->can_count(s, IDLE, &q, why, sizeof(why)));
	stat_is("intr 7\n");
	cr_expect_not(s->ops->can_count(s, IDLE, &q, why, sizeof(why)));
	printf("# %s\n", why);
	bed_done((struct bpf_backend *)s);
	bed_system("rm -r %s", files);
}
