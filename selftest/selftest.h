/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Self-test of a host: counts known work by the BPF backend, in cgroups of its own, and compares
 * with the work, with the hardware's totals and with perf events of its own. cli/selftest.c and the
 * beds' bed_selftest call this. It needs the rights of vpmud, not vpmud itself.
 */
#pragma once

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "cgroup/cgroup.h"

struct perf_event_attr;

enum selftest_result { SELFTEST_PASS, SELFTEST_FAIL, SELFTEST_SKIP };

/* A line of the report. Valid only during the call. */
struct selftest_row {
	const char *check;   /* the check's name */
	const char *subject; /* what was compared: "instructions:u"; "" for SELFTEST_SKIP */
	enum selftest_result result;
	uint64_t low, high; /* expected; high UINT64_MAX: no limit */
	uint64_t seen;
	unsigned int times; /* comparisons, of which this is the last or the failed one */
	const char *why;    /* FAIL: what a failure means, and where; SKIP: the reason */
};

/* A property of the host: "CPU", "counters", "erratum", ... */
struct selftest_fact {
	const char *what, *text;
};

/* System calls of the checks; tests plant faults here. As struct bpf_backend_sys, negative errno
 * on failure. */
struct selftest_sys {
	const struct bpf_backend_sys *backend; /* NULL: the real kernel */
	void (*opened)(struct bpf_backend *k); /* after the backend was opened; may be NULL */
	int (*event_open)(const struct perf_event_attr *attr, pid_t pid, int cpu);
	int (*event_read)(int fd, uint64_t *count, uint64_t *enabled_ns, uint64_t *running_ns);
};
extern const struct selftest_sys selftest_sys_real;

struct selftest_opts {
	bool hotplug;	  /* take a CPU offline for a moment */
	bool exact;	  /* counts have no interrupts in them: emulated machines */
	const char *only; /* one check; NULL: all */
	const struct selftest_sys *sys;
	const volatile sig_atomic_t *stop; /* ends the run at the next wait; NULL: never */
	void (*fact)(void *arg, const struct selftest_fact *f);
	void (*row)(void *arg, const struct selftest_row *r);
	void *arg;
};

/*
 * selftest_run - run the checks one after another. Scratch cgroups and processes are removed before
 * it returns. Returns the number of failed rows; -errno and one line in @err if it cannot begin;
 * -EINTR: stopped; -ENOENT: no check is called @only. One thread, which must be the process's only
 * one.
 */
int selftest_run(const struct selftest_opts *o, char *err, size_t errlen);

/* selftest_name - the name of check @i, and in *@brief what it checks; NULL: there is none. */
const char *selftest_name(unsigned int i, const char **brief);
