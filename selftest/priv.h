/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Shared by the checks of selftest.h. */
#pragma once

#include <stdint.h>

#include "selftest/selftest.h"
#include "vpmu/event/event.h"

#define SELFTEST_CPUS 8192 /* the largest CONFIG_NR_CPUS of x86 */
#define SELFTEST_KEYS 32

/* The nodes that are counted: cgroups a and b, everything else, and the sum. */
enum { NODE_A, NODE_B, NODE_OTHER, NODE_ROOT, NODE_NR };

/* What a worker does; each is counted by events of known_work[]. */
enum work {
	WORK_LOOP,
	WORK_FAULTS,
	WORK_PIN,
	WORK_MOVES,
	WORK_YIELD,
	WORK_FLOW,
	WORK_GUEST,
	WORK_GUEST_PMU
};

/* An event with a known count: loops are 2 instructions and 1 branch, n times. */
struct known {
	const char *event;
	enum work work;
	unsigned int unit; /* counts per n */
	bool hardware;
	bool usable; /* the host counts it, exactly */
	vpmu_key_t key;
	char why[200]; /* it does not */
};
#define SELFTEST_KNOWN 3

struct worker {
	pid_t pid;
	int to, from; /* pipes */
};

struct job {
	enum work work;
	uint64_t n;
};

struct selftest {
	const struct selftest_opts *o;
	const struct selftest_sys *sys;
	struct bpf_backend *k;
	struct vpmu_backend *s;
	struct vpmu_backend_node *node[NODE_NR];
	uint64_t cgroup_id[2];
	struct known known[SELFTEST_KNOWN];
	bool pmu; /* a hardware event is usable */
	bool amd; /* an AMD CPU */
	unsigned int cpus[SELFTEST_CPUS], nr_cpus;

	/* what is attached */
	struct vpmu_counting *counting[NODE_NR];
	const bool *mask; /* CPUs to count; NULL: all */
	vpmu_key_t keys[SELFTEST_KEYS];
	size_t nr_keys;
	struct vpmu_value value[NODE_NR][SELFTEST_KEYS];
	struct guest_seen *guest; /* of WORK_GUEST_PMU */
	uint64_t interrupts;	  /* of the host, before the attach; then meanwhile */

	/* the check's current line */
	const char *check;
	struct selftest_row line;
	char subject[VPMU_EVENT_NAME_MAX + 32], why[400];
	unsigned int failed;   /* rows */
	unsigned int reported; /* failed rows of this check */
	int error;	       /* ends the run */
};

typedef void selftest_check_fn(struct selftest *t);
struct selftest_check {
	const char *name, *brief;
	unsigned int needs; /* NEED_... */
	selftest_check_fn *run;
};
enum { NEED_PMU = 1, NEED_CPUS = 2, NEED_HOTPLUG = 4 };

/* ---- run.c: lines of the report ---- */

/* selftest_expect - @seen must be from @low to @high. Comparisons of one @subject in a row are one
 * line. Returns true if it is. @fmt: where it was, and what it means if it is not. */
bool selftest_expect(struct selftest *t, const char *subject, uint64_t low, uint64_t high,
		     uint64_t seen, const char *fmt, ...) __attribute__((format(printf, 6, 7)));
void selftest_skip(struct selftest *t, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void selftest_fact(struct selftest *t, const char *what, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
/* selftest_give_up - a call failed: the check has failed. */
void selftest_give_up(struct selftest *t, const char *what, int error);

/* ---- scratch.c: cgroups of its own ---- */

int scratch_open(uint64_t id[2], char *err, size_t errlen);
void scratch_close(void);
/* scratch_controllers - returns true if a controller is on for the root's children. */
bool scratch_controllers(void);
/* scratch_join - cgroup 0 or 1 for process @pid (0: the caller). */
int scratch_join(unsigned int which, pid_t pid);

/* ---- worker.c ---- */

int worker_start(struct selftest *t, unsigned int cgroup, struct worker *w);
void worker_end(struct worker *w);
/* worker_start_time - as bpf_backend_bind_task wants it. */
uint64_t worker_start_time(const struct worker *w);
/* branches_flow - the work of WORK_FLOW, without end. */
void branches_flow(void);
/* worker_begin - let it work; worker_wait - until it has. Errors end the run (t->error). */
int worker_begin(struct selftest *t, const struct worker *w, enum work work, uint64_t n);
int worker_wait(struct selftest *t, const struct worker *w);
int worker_do(struct selftest *t, const struct worker *w, enum work work, uint64_t n);
/* The faults of WORK_MOVES with @n moves that belong to cgroup @which. */
uint64_t worker_moved(uint64_t n, unsigned int which);

/* ---- measure.c: counting by the backend ---- */

int measure_begin(struct selftest *t, const vpmu_key_t *keys, size_t nr);
void measure_read(struct selftest *t);
void measure_end(struct selftest *t);
/* measure_partial - after measure_end: -EAGAIN if a value of a or b says that it is partial. */
int measure_partial(const struct selftest *t);
/* measure_whole - expect_conserved, measure_end, and measure_partial. */
int measure_whole(struct selftest *t);
/* expect_known - node @n's value of key @i is @count, with what interrupts add. */
bool expect_known(struct selftest *t, unsigned int n, size_t i, const struct known *k,
		  uint64_t count, const char *where);
/* expect_conserved - on each CPU, the hardware's count is the sum of all charges; after
 * measure_end, expect_sum - the root is the sum of all others. */
void expect_conserved(struct selftest *t);
void expect_sum(struct selftest *t);
uint64_t host_interrupts(void);
/* work_n - so much work that 0.1 % of it is more than what interrupts add meanwhile. */
uint64_t work_n(const struct selftest *t, enum work work);
/* known_most - the highest count that is right for @count of @k. */
uint64_t known_most(const struct selftest *t, const struct known *k, uint64_t count);

/* ---- facts.c ---- */

void facts(struct selftest *t);

/* ---- the checks ---- */

selftest_check_fn check_alone, check_shared, check_cpus, check_many, check_perf, check_sides,
	check_moves, check_switch, check_hotplug, check_samples, check_branches, check_kvm;

/* ---- guest_*.c: VMs that workers run, without an operating system, with known code ---- */

/* What a guest with libvpmu's PMU has seen; in memory that a worker shares. */
struct guest_seen {
	uint64_t pmis;	     /* taken by the guest */
	uint64_t raised;     /* by libvpmu */
	uint64_t msr, rdpmc; /* a stopped counter, by RDMSR and by RDPMC; low 32 bits */
	char why[200];
};

#define GUEST_PMIS 3

/* guest_loop - a guest with a loop of @n rounds, 2 instructions each, and at most 10 around it.
 * Returns 0 or -errno. */
int guest_loop(uint64_t n);
/* guest_pmu - a guest that counts for itself. -EOPNOTSUPP: not on this host, with a reason. */
int guest_pmu(struct guest_seen *seen);
