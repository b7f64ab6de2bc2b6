/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Work for the beds' tests of the BPF backend: tasks in cgroups that switch, or loop for a known
 * number of instructions. All of it runs on CPU 0, alone (bed_one_cpu). Every call ends the test on
 * a failure.
 */
#ifndef TESTS_BEDS_WORKLOAD_H
#define TESTS_BEDS_WORKLOAD_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* cgroup_make - the cgroup of @name ("t0") below /sys/fs/cgroup; returns its id, the inode number.
 * cgroup_remove - it must be empty. cgroup_enter - move the calling process into it; NULL: the
 * root. */
uint64_t cgroup_make(const char *name);
void cgroup_remove(const char *name);
void cgroup_enter(const char *name);

/* cgroups_apart - the kernel separates the root's children in its perf_event controller only once
 * any controller was switched on for them, as systemd does on every host. */
void cgroups_apart(void);

/*
 * Two processes of the same real-time priority, the caller and a child, that give the CPU to each
 * other: each round is two context switches, always the same instructions, and nothing else.
 */
struct pair {
	pid_t child;
	volatile bool *end; /* shared */
};
/* pair_make - the caller is in cgroup @a from now on, the child in @b; NULL: the root.
 * pair_rounds - play @n rounds. pair_end - end the child; the caller goes back to the root. */
void pair_make(struct pair *p, const char *a, const char *b);
void pair_rounds(const struct pair *p, unsigned int n);
void pair_end(struct pair *p);

/*
 * pair_cost - instructions that CPU 0 executes for each context switch of a pair in cgroups @a and
 * @b, the pair's own included: the median of some repeats, most of which have no timer tick.
 */
double pair_cost(const char *a, const char *b);

/*
 * A process in a cgroup that waits for a start command, executes loops of a known length, and
 * ends. In user mode it executes the same instructions each time, except for the loops.
 */
struct looper {
	pid_t pid;
	int start; /* a pipe: a byte to start. Processes made later have it open, too */
};
/* looper_make - @times loops of 2 * @n instructions in cgroup @name, with a system call that gives
 * the CPU up after each. looper_end - wait for the end; returns how often another task ran although
 * it could have gone on, which is after most loops if others run at the same time. */
void looper_make(struct looper *l, const char *name, uint64_t n, unsigned int times);
void looper_start(struct looper *l);
uint64_t looper_end(struct looper *l);

#endif
