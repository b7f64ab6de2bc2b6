/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The parts of vpmu-kernel-bench; see main.c. None returns when it cannot run: the
 * program prints the reason and ends with status 77. */
#ifndef TESTS_BENCH_KERNEL_KBENCH_H
#define TESTS_BENCH_KERNEL_KBENCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "cgroup/cgroup.h"
#include "tests/measured.h"

#define EVENTS4 "cpu-clock,context-switches,page-faults,cpu-migrations"
#define EVENTS8 EVENTS4 ",task-clock,minor-faults,major-faults,alignment-faults"
/* None of them counts at a switch, so a switch costs the kernel nothing for them. */
#define FAULTS	    "page-faults,minor-faults,major-faults,alignment-faults"
#define MAX_ROUNDS  101
#define MAX_TENANTS 10000

/* Print one "# SKIP" line, and end with status 77. */
_Noreturn void skip(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* ---- ground.c: cgroups; they are removed when the program ends ---- */

void ground_begin(void);
/* Make cgroups 0 to @n - 1. */
void ground_need(unsigned int n);
/* The id of cgroup @i, and its path below the mount, which is short: perf takes a list of 10,000.
 */
uint64_t ground_id(unsigned int i);
int ground_name(char *buf, size_t size, unsigned int i);
/* Move the calling process. Ends the process if it cannot be moved. */
void ground_enter(unsigned int i);

/* ---- play.c: the workload ---- */

enum work {
	WORK_PIPE,  /* two processes pass a byte, as `perf bench sched pipe` */
	WORK_YIELD, /* two real-time processes give the CPU to each other: little but the switch */
};

/* Two processes on @cpu in cgroups @a and @b, until both have switched @switches / 2 times. Returns
 * CPU ns of both for each switch. */
double play(enum work work, int a, int b, int cpu, unsigned int switches);

/* ---- who.c: the counting party ---- */

enum who { NOBODY, EMPTY_BTF, EMPTY_TP, EMPTY_CG, EVENTS, EMPTY_EVENTS, BACKEND, PERF, BPERF };

struct backend {
	struct bpf_backend *k;
	struct vpmu_backend_node *node[MAX_TENANTS];
	struct vpmu_counting *list;
	unsigned int nr;
};

/* Count @events for cgroups 0 to @tenants - 1, each a tenant. */
void backend_open(struct backend *p, unsigned int tenants, const char *events);
void backend_read(const struct backend *p);
void backend_close(struct backend *p);

/* Path of perf; "perf" is looked up in $PATH. */
extern const char *perf_path;

/* Begin to count as @who does: EVENTS4, EVENTS8, or (@events 0) FAULTS. Returns false where it
 * cannot, with the reason in @why. */
bool who_start(enum who who, unsigned int tenants, int events, int cpu, char *why, size_t size);
void who_stop(void);

/* ---- measurements ---- */

void bench_switch(enum work work, unsigned int rounds, const unsigned int *tenants, unsigned int nr,
		  int cpu);
/* A play of two cgroups on @cpu while this process calls @read_all (NULL: nothing) ten times a
 * second on another one. */
double beside(void (*read_all)(void *arg), void *arg, int cpu);
void bench_scrape(unsigned int rounds, unsigned int vms, int cpu);
void bench_read(unsigned int rounds, unsigned int vms, int cpu);
void bench_scale(unsigned int tenants);

#endif
