/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * vpmu-bench: what its parts share. A benchmark measures with CPU time of the measuring thread (or
 * process), in many short batches of which the fastest counts: on a shared machine everything else
 * only ever adds. What is compared is measured in alternating batches of one run.
 */
#ifndef TESTS_BENCH_BENCH_H
#define TESTS_BENCH_BENCH_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "vpmu/vpmu.h"

/* bench_report - one result. @goal: what it should be at most (or at least, if @at_least); 0: none.
 * @params: stolen reference, extra fields, or NULL. */
void bench_report(const char *name, double value, const char *unit, double goal, bool at_least,
		  json_t *params);

/* CPU time in ns of this thread / of the process. */
double bench_thread_ns(void);
double bench_process_ns(void);

/* bench_batch - the least ns per call of @fn(arg, n), over @batches batches of about 2 ms. */
double bench_batch(void (*fn)(void *arg, uint64_t n), void *arg, unsigned int batches);
/* bench_pair - the same for two, alternating. */
void bench_pair(void (*a)(void *arg, uint64_t n), void *arg_a, void (*b)(void *arg, uint64_t n),
		void *arg_b, unsigned int batches, double *ns_a, double *ns_b);

/* One benchmark; its results may have names that begin with its own. */
struct bench {
	const char *name, *what;
	int (*run)(void); /* 0, or 1 with a line on stderr */
};

int bench_switch_equal(void);
int bench_switch_4keys(void);
int bench_switch_scale(void);
int bench_consumer_add_del(void);
int bench_consumer_read(void);
int bench_sampling(void);
int bench_lbr_switch(void);
int bench_lbr_memory(void);
int bench_soft_mips(void);
int bench_soft_mips_lbr(void);
int bench_soft_alarm(void);
int bench_vm_create(void);
int bench_runner_scale(void);

#endif
