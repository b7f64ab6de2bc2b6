/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The processes of it_cgroup_pins: one counts with pins and is killed, the next one takes over. */
#ifndef TESTS_INTEGRATION_CGROUP_PINS_BED_H
#define TESTS_INTEGRATION_CGROUP_PINS_BED_H

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <bpf/bpf.h>
#include <criterion/criterion.h>
#include <linux/bpf.h>
#include <linux/perf_event.h>

#include "cgroup/slot.h"
#include "tests/integration/cgroup_bed.h"

#define FAULTS 1000
#define SLACK  20
#define KILLS  5

static const vpmu_key_t keys[2] = {SW(PERF_COUNT_SW_PAGE_FAULTS),
				   SW(PERF_COUNT_SW_CONTEXT_SWITCHES)};

static char dir[BED_PIN_DIR];

/* Shared by the processes. */
struct shared {
	uint64_t cgroup, epoch;
	struct bpf_backend_base root[2], tenant[2], many[4];
	int ready, die_at;
};

struct tree {
	struct bpf_backend *k;
	struct vpmu_backend_node *tenant, *vm;
	struct vpmu_counting *root, *tenants;
};

static void tree_open(struct tree *t, const struct shared *sh, int found)
{
	struct vpmu_backend *s;

	t->k = bed_reopen(&(struct bpf_backend_opts){.pin_dir = dir});
	s = bpf_as_backend(t->k);
	t->tenant = bed_node(s->root);
	cr_assert_eq(bpf_backend_name(t->tenant, 77), found);
	t->vm = bed_node(t->tenant);
	cr_assert_eq(bpf_backend_name(t->vm, 78), found);
	if (!found)
		cr_assert_eq(bpf_backend_bind_cgroup(t->tenant, sh->cgroup), 0);
	t->root = bed_counting(s->root, keys, 2, NULL);
	/* Two at once: then the backend looks at the keys of all nodes, also of those that no
	 * session of this process counts yet. */
	t->tenants = bed_counting(t->tenant, keys, 2, bed_counting(t->vm, keys, 1, NULL));
}

/* The first process. It is killed when the test has seen ready. */
static void first(struct shared *sh)
{
	struct vpmu_backend_node *gone;
	struct tree t;

	tree_open(&t, sh, 0);
	bed_attach(t.root);
	bed_attach(t.tenants);
	gone = bed_node(t.tenant); /* the next process does not know this one */
	cr_assert_eq(bpf_backend_name(gone, 79), 0);
	for (size_t i = 0; i < 2; i++) {
		bpf_backend_base_get(t.root, i, &sh->root[i]);
		bpf_backend_base_get(t.tenants, i, &sh->tenant[i]);
	}
	sh->epoch = bpf_backend_epoch(t.k);
	sh->ready = 1;
	for (;;)
		pause();
}

static void next(struct shared *sh, struct tree *t)
{
	tree_open(t, sh, 1);
	cr_assert_eq(bpf_backend_epoch(t->k), sh->epoch);
	/* The root's keys are still counted, although they were not requested again yet. */
	bed_attach(t->tenants);
	usleep(20000);
	bed_attach(t->root);
	for (size_t i = 0; i < 2; i++) {
		cr_assert_eq(bpf_backend_base_set(t->root, i, &sh->root[i]), 0);
		cr_assert_eq(bpf_backend_base_set(t->tenants, i, &sh->tenant[i]), 0);
	}
	bpf_backend_named(t->k);
}

/* Skips the test, or it has a BPF file system and a cgroup t. */
static struct shared *share(void)
{
	struct shared *sh = bed_share(sizeof(*sh));

	bed_begin();
	bed_pin_dir(dir);
	sh->cgroup = bed_cgroup("t");
	return sh;
}

static pid_t start(struct shared *sh, void (*fn)(struct shared *))
{
	pid_t pid;

	sh->ready = 0;
	pid = bed_fork();
	if (!pid) {
		fn(sh);
		_exit(1);
	}
	bed_wait(pid, &sh->ready);
	return pid;
}

/* A process in the middle: it takes over and is killed, at any moment. */
static void middle(struct shared *sh)
{
	struct tree t;

	next(sh, &t);
	sh->ready = 1;
	for (;;) {
		bed_read(t.root);
		bpf_backend_tend(t.k);
	}
}

static const char *pin_path(const char *name)
{
	static char path[128];

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	return path;
}

static bool pinned(const char *name)
{
	return !access(pin_path(name), F_OK);
}

#endif
