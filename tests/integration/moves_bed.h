/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * For tests of tasks that move between cgroups: a task with a known number of page faults before
 * and after a move, and tenants that have cgroups a and b. Each failure ends the test.
 */
#ifndef TESTS_INTEGRATION_MOVES_BED_H
#define TESTS_INTEGRATION_MOVES_BED_H

#include "cgroup/priv.h"
#include "tests/integration/cgroup_bed.h"

#define PAGE 4096

/* The counted events: page faults, in two ways that must agree. */
extern const vpmu_key_t moves_keys[2];

/* A task that takes page faults, and waits between them without a switch. */
struct job {
	int start[2], done[2]; /* pipes */
	pid_t pid;
	size_t first, second; /* page faults before and after the move */
	const char *self;     /* it moves itself there; NULL: somebody moves it */
	long switches;	      /* away from it, when it began a round */
	int step;
};
enum { WAITS = 1, MOVED, DID_ALL, MAY_SLEEP };

/* touch - take @pages page faults at @p, and no others. switch_seldom - this task waits without a
 * switch, as far as others permit it. */
void touch(char *p, size_t pages);
void switch_seldom(void);

/* make_job - a worker in @cgroup, on CPU 1; this task is on CPU 0 from then on. Skips the test on
 * one CPU. play - one round: it takes its faults in @from and in @to. Returns whether it ran all
 * the time; false if it moves by itself. */
struct job *make_job(const char *cgroup);
bool play(struct job *j, const char *from, const char *to, bool by_itself);

struct tenants {
	struct bpf_backend *k;
	struct vpmu_backend_node *node[3]; /* cgroups a and b, and tasks */
	struct vpmu_counting *c[3];
	uint64_t was[3][2];
};

/* make_tenants - and count. Skips the test if the kernel shows no moves and there is no @sys.
 * skip_tenants - skip the test because of @why. */
void make_tenants(struct tenants *t, const struct bpf_backend_sys *sys);
void end_tenants(struct tenants *t);
void skip_tenants(struct tenants *t, const char *why);

/* moves - whether moves are seen. look - note the counts. have - whether the tenants have so many
 * faults more than when look() was called last. */
bool moves(struct bpf_backend *k);
void look(struct tenants *t);
bool have(struct tenants *t, uint64_t a, uint64_t b, uint64_t task);
/* hidden - how many hidden switches were found so far. */
uint64_t hidden(struct bpf_backend *k);

#endif
