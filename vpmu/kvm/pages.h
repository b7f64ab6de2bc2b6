/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The host PMU of a vCPU's thread that reads vpmud's page where vpmud grants a key (share.h), and
 * is the thread's own perf events otherwise. A counter changes from one to the other at a tick: the
 * count goes on, and what was missed in between is time without a counter.
 *
 * A counter on a page is read without a system call. As the page is written when KVM_RUN returns,
 * the thread reads all that its guest has counted; of a key that counts the host, too, the events
 * since then belong to the next interval.
 *
 * An alarm of such a counter is a perf event of the thread that only interrupts. If the process may
 * not open it, vpmud does.
 */
#pragma once

#include <stdatomic.h>

#include "vpmu/hostpmu_perf.h"
#include "vpmu/kvm/share.h"

struct kvm_pages_ctr {
	enum { PAGES_FREE = 0, PAGES_PERF, PAGES_SHARED } kind;
	vpmu_key_t key;
	/* PAGES_SHARED */
	struct share_use use;	    /* page NULL: it waits for vpmud */
	bool ended;		    /* nothing comes from the page any more, or yet */
	uint64_t base, last;	    /* totals: at the bind, newest */
	uint64_t lost_ns, gaps;	    /* of the page, as of the last read */
	uint64_t page_ns;	    /* likewise */
	uint64_t gap_ns;	    /* time without a counter since the bind */
	uint64_t bound_ns, seen_ns; /* now() at the bind, and after the last good read */
	uint64_t due;		    /* an alarm at this total; 0: none */
	bool armed;		    /* in its event */
	int event_error;	    /* it cannot have one; 0: it may */
	struct vpmu_perf_event event;
};

struct kvm_pages {
	struct vpmu_hostpmu pmu; /* first */
	struct vpmu_hostpmu_perf *perf;
	struct share_client *client;
	struct share_thread *thread; /* NULL: no thread */
	int tid, alarm_signal;
	bool access;		      /* the guest accesses its PMU: it may wait for vpmud */
	unsigned int nr_perf;	      /* counters that need the perf PMU's clock */
	const struct vpmu_totals *by; /* its clock is now()'s; NULL: the thread's CPU time */
	uint64_t clock_ns;	      /* what now() returned last */
	uint64_t offset_ns;	      /* now() minus the page's */
	uint64_t synced_ns;	      /* the page's time when offset_ns was set */
	uint32_t fresh;		      /* read since the last now() */
	_Atomic unsigned int nr_shared;
	struct kvm_pages_ctr ctr[VPMU_MAX_CTRS];
};

/* Returns the number of keys that are counted on pages. Any thread. */
static inline unsigned int kvm_pages_shared(const struct kvm_pages *p)
{
	return atomic_load_explicit(&p->nr_shared, memory_order_relaxed);
}

/* kvm_pages_init - over @perf, both the caller's. kvm_pages_thread - the thread that is counted
 * from now on, as that of @perf; 0: none: no counter is bound. Owner. */
void kvm_pages_init(struct kvm_pages *p, struct vpmu_hostpmu_perf *perf,
		    struct share_client *client, int alarm_signal);
void kvm_pages_thread(struct kvm_pages *p, int tid);
