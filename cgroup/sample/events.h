/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Sampling events of whole CPUs. Users with the same key and period share one event and one ring
 * per CPU; each user sees every sample and filters its own. The events need counters in addition to
 * those that count, and are not pinned. The BPF backend calls this. One thread at a time.
 *
 * take() is called only from samples_take and from the functions documented to do so.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "cgroup/sample/ring.h"
#include "cgroup/sample/sys.h"
#include "vpmu/event/key.h"

struct samples;
struct sample_set;

#define SAMPLE_SETS_MAX 32 /* maximum number of different specs at a time */

/* samples_create - @use[0..nr_cpus): the CPUs that may be sampled; owned by the caller, which calls
 * samples_cpus after a change. @sys: NULL for the real kernel. Returns NULL if out of memory.
 * samples_destroy - no user may be left; NULL is fine. */
struct samples *samples_create(unsigned int nr_cpus, const bool *use, const struct sample_sys *sys);
void samples_destroy(struct samples *ss);

struct sample_spec {
	vpmu_key_t key;
	uint64_t period;
	bool chains; /* with call chains */
};

/* Part of a user's own struct. */
struct sample_user {
	/* Set by the user. */
	void (*take)(struct sample_user *u, const struct ring_sample *s);
	const bool *cpus; /* of samples_counts: those whose losses count; NULL: all */
	/* private */
	struct sample_set *set;
	struct sample_user *next;
	struct ring_counts before; /* the set's counts at the user's start */
};

/*
 * samples_open - prepare @u; opens events if needed, which is slow. -EOPNOTSUPP: no CPU can sample
 * the key; -EACCES: not permitted; -E2BIG: SAMPLE_SETS_MAX; -ENOMEM: also no memory for the rings
 * (perf_event_mlock_kb); -EMFILE.
 * samples_start - right after that: sample from now on; calls take() of the set's other users for
 * pending samples.
 * samples_stop - calls take() for the last samples first; valid after samples_open alone.
 */
int samples_open(struct samples *ss, const struct sample_spec *spec, struct sample_user *u);
int samples_start(struct samples *ss, struct sample_user *u);
void samples_stop(struct samples *ss, struct sample_user *u);

/* samples_take - call take() of each user for each sample so far. Returns the fill level of the
 * fullest ring, in percent. */
unsigned int samples_take(struct samples *ss);

/* samples_cpus - @use has changed: CPUs have come or gone. Calls take() for the last samples of the
 * latter. */
void samples_cpus(struct samples *ss);

/* samples_counts - losses since @u's start, of everything that ran on @u's CPUs: lost samples
 * cannot be attributed. */
void samples_counts(const struct samples *ss, const struct sample_user *u, struct ring_counts *out);
