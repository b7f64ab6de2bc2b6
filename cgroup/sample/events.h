/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Sampling events of whole CPUs. Who samples the same key with the same period shares one event and
 * one ring on each CPU; each user sees every sample and keeps what is its own. The events take
 * counters beside those that count, and are not pinned. The BPF backend calls this. One thread.
 *
 * Nothing is taken out of the rings but by samples_take and by what is said to do so, so a user
 * knows when its function can be called.
 */
#ifndef CGROUP_SAMPLE_EVENTS_H
#define CGROUP_SAMPLE_EVENTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cgroup/sample/ring.h"
#include "cgroup/sample/sys.h"
#include "vpmu/event/key.h"

struct samples;
struct sample_set;

#define SAMPLE_SETS_MAX 32 /* different keys, periods and kinds of chains at a time */

/* samples_create - @use[0..nr_cpus): the CPUs that may be sampled; it stays the caller's, who calls
 * samples_cpus when it has changed. @sys NULL: the real kernel. NULL: no memory.
 * samples_destroy - no user may be left; NULL is fine. */
struct samples *samples_create(unsigned int nr_cpus, const bool *use, const struct sample_sys *sys);
void samples_destroy(struct samples *ss);

struct sample_spec {
	vpmu_key_t key;
	uint64_t period;
	bool chains; /* with callers */
};

/* Part of a user's own struct. */
struct sample_user {
	void (*take)(struct sample_user *u, const struct ring_sample *s); /* set by the user */
	/* private */
	struct sample_set *set;
	struct sample_user *next;
	struct ring_counts before; /* what the set's rings had said at the user's start */
};

/*
 * samples_open - make ready for @u, which takes time. -EOPNOTSUPP: no CPU can sample the key;
 * -EACCES: not permitted; -E2BIG: SAMPLE_SETS_MAX; -ENOMEM: also no memory for the rings
 * (perf_event_mlock_kb); -EMFILE. samples_start - right after that; sample from now on; takes what
 * is in the rings already. samples_stop - takes the last samples first; also after samples_open
 * alone.
 */
int samples_open(struct samples *ss, const struct sample_spec *spec, struct sample_user *u);
int samples_start(struct samples *ss, struct sample_user *u);
void samples_stop(struct samples *ss, struct sample_user *u);

/* samples_take - call take() of each user for each sample taken so far. Returns how full the
 * fullest ring was, in percent. */
unsigned int samples_take(struct samples *ss);

/* samples_cpus - CPUs have come or gone. */
void samples_cpus(struct samples *ss);

/* samples_counts - what was lost and so on since @u's start: of all that runs on the CPUs, as it is
 * not known whose lost samples were. */
void samples_counts(const struct samples *ss, const struct sample_user *u, struct ring_counts *out);

/* samples_cgroups - whether samples say in which cgroup the task was. As of the first start. */
bool samples_cgroups(const struct samples *ss);

/* samples_events - events that are open, for usage figures. */
unsigned int samples_events(const struct samples *ss);

#endif
