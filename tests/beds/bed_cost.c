// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Two tasks in two cgroups switch, ROUNDS times there and back, while their cgroups are counted by
 * one of several means. tests/beds/cost counts from outside of the machine what that takes: perf
 * does a part of its work while the PMU is off, which no counter in the machine shows.
 */
#include <stdio.h>
#include <stdlib.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include "tests/beds/bed.h"
#include "tests/beds/tenants.h"
#include "tests/beds/workload.h"

static const char *const keys[] = {"instructions:GH", "cycles:GH", "instructions:uGH", "cycles:kGH",
				   NULL};
#define KEYS 4

/* ROUNDS is a parameter of the kernel, which passes it on. */
static void play(void)
{
	const char *rounds = getenv("ROUNDS");
	struct pair p;

	usleep(500000);
	pair_make(&p, "t0", "t1");
	pair_rounds(&p, rounds ? (unsigned int)atoi(rounds) : 1000);
	pair_end(&p);
}

static int dir_of(const char *name)
{
	char path[64];
	int dir;

	snprintf(path, sizeof(path), "/sys/fs/cgroup/%s", name);
	dir = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	cr_assert(dir >= 0, "%s: %s", path, strerror(errno));
	return dir;
}

Test(bed_cost, nothing)
{
	cgroups_apart();
	bed_one_cpu();
	cgroup_make("t0");
	cgroup_make("t1");
	play();
}

Test(bed_cost, vpmu)
{
	struct tenants t;

	cgroups_apart();
	bed_one_cpu();
	tenants_open(&t, 2, keys);
	tenants_attach(&t, KEYS, false);
	play();
	tenants_detach(&t);
	for (unsigned int i = 0; i < 2; i++)
		cr_expect_gt(tenants_value(&t, i, 0)->count, 100000u);
	tenants_close(&t);
}

/* perf's own events of cgroups, in no groups, as those of `perf stat --for-each-cgroup`. */
Test(bed_cost, perf)
{
	static const char *const names[] = {"t0", "t1"};
	int first[2];

	cgroups_apart();
	bed_one_cpu();
	for (int i = 0; i < 2; i++) {
		int dir;

		cgroup_make(names[i]);
		dir = dir_of(names[i]);
		for (int k = 0; k < KEYS; k++) {
			int fd = bed_open_as(keys[k], dir, 0, -1, PERF_FLAG_PID_CGROUP);

			bed_enable(fd, true);
			first[i] = k ? first[i] : fd;
		}
	}
	play();
	for (int i = 0; i < 2; i++)
		cr_expect_gt(bed_count(first[i]), 100000u);
}

Test(bed_cost, bperf)
{
	struct perf_event_attr attr = {.type = PERF_TYPE_SOFTWARE,
				       .size = sizeof(attr),
				       .config = PERF_COUNT_SW_CGROUP_SWITCHES,
				       .sample_period = 1};
	struct bpf_object *o = bpf_object__open_file("/bed/bperf.bpf.o", NULL);
	struct bpf_program *program;
	int fd;

	cr_assert(o && !bpf_object__load(o), "bperf.bpf.o: %s", strerror(errno));
	cgroups_apart();
	bed_one_cpu();
	for (__u32 i = 0; i < 2; i++) {
		uint64_t id = cgroup_make(i ? "t1" : "t0");

		cr_assert(!bpf_map_update_elem(bpf_object__find_map_fd_by_name(o, "cgroups"), &id,
					       &i, BPF_ANY));
	}
	for (__u32 k = 0; k < KEYS; k++) {
		fd = bed_open(keys[k], -1, 0, -1);
		bed_enable(fd, true);
		cr_assert(!bpf_map_update_elem(bpf_object__find_map_fd_by_name(o, "events"), &k,
					       &fd, BPF_ANY));
	}
	program = bpf_object__find_program_by_name(o, "on_cgroup_switch");
	fd = (int)syscall(SYS_perf_event_open, &attr, -1, 0, -1, PERF_FLAG_FD_CLOEXEC);
	cr_assert(fd >= 0, "cgroup-switches: %s", strerror(errno));
	cr_assert(program && bpf_program__attach_perf_event(program, fd));
	play();
	for (__u32 i = 0; i < 2; i++) {
		struct bpf_perf_event_value v[64];
		__u32 key = i * KEYS;

		cr_assert(!bpf_map_lookup_elem(bpf_object__find_map_fd_by_name(o, "counts"), &key,
					       v));
		cr_expect_gt(v[0].counter, 100000u);
	}
	bpf_object__close(o);
}
