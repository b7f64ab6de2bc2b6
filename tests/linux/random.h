/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Shared by the parts of the random user of perf_event_open (random.c): random_work.c has random
 * numbers and the work that is counted, random_attr.c attributes, random_event.c operations on
 * events, random_known.c the counts that are known.
 */
#ifndef TESTS_LINUX_RANDOM_H
#define TESTS_LINUX_RANDOM_H

#include <linux/perf_event.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define EVENTS	 96
#define CHILDREN 4
#define PAGE	 4096u

struct event {
	int fd;
	struct perf_event_attr attr;
	struct perf_event_mmap_page *map;
	size_t map_bytes;
	bool own_ring; /* the kernel waits for our reads; no other event's ring */
	int leader;    /* index, -1: none */
	/* it has led no other one since its leader was closed, whose group had so many; or 0 */
	unsigned int was_of;
	uint64_t id; /* as the kernel calls it */
	pid_t pid;   /* as it was opened */
	int cpu;
	/* the last values that were read; only while nothing has reset them */
	bool counted;
	uint64_t value, enabled, running;
};

/* ---- random.c ---- */
extern pid_t children[CHILDREN];
extern unsigned int cpus, failures;
extern bool breakpoints; /* hardware breakpoints may be set */
/* failed - print a line "random: FAILED" and count it. */
void failed(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* ---- random_work.c ---- */
extern uint64_t state; /* of the random numbers */
extern volatile unsigned int sink[1024];
uint64_t rnd(void);
unsigned int below(unsigned int n);
bool one_in(unsigned int n);
/* work - something that CPUs count, a few 10,000 instructions at most. */
void work(void);
/* loop - two instructions and one branch per round, in user mode. */
static inline void loop(unsigned long rounds)
{
	__asm__ volatile("1: dec %0\n jnz 1b\n" : "+r"(rounds) : : "cc");
}

/* ---- random_attr.c ---- */
void random_attr(struct perf_event_attr *a);

/* ---- random_event.c ---- */
extern struct event events[EVENTS];
extern uint64_t done_opens, done_refused, done_reads, done_records, done_samples;
long sys_open(struct perf_event_attr *a, pid_t pid, int cpu, int group, unsigned long flags);
/* some_event - the index of an open event, or -1. */
int some_event(void);
void close_event(struct event *e);
void op_open(void);
void op_close(void);
void op_read(void);
void op_ring(void);
void op_page(void);
void op_ioctl(void);

/* ---- random_known.c ---- */
/* check_known - count a loop of known instructions and branches on @cpu. */
void check_known(unsigned int cpu);
/* events_left - how many perf events any process of the guest has open. It prints each. */
unsigned int events_left(void);

#endif
