/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * How long a thread was on a CPU between two moments, in TSC ticks. vcpu.c measures the time in
 * KVM_RUN with it: a thread that was preempted or slept inside of it was not in its guest.
 *
 * The TSC goes on while the thread does not run, and asking the kernel for the thread's CPU time is
 * a system call. So a perf event of the thread that counts nothing tells when to ask: the kernel
 * changes the page of that event each time the thread gets a CPU. While the page has not changed,
 * the TSC alone is right. Where perf events are not permitted, each measurement asks at both of its
 * ends.
 *
 * Measured, on a machine where an exit of KVM takes 7 us: enter and leave take 120 ns with the
 * event, of which two RDTSCP are 105 ns. On a later CPU: 28 ns with the event and 450 ns without
 * it.
 */
#ifndef VMM_KVM_ONCPU_H
#define VMM_KVM_ONCPU_H

#include <stdbool.h>
#include <stdint.h>

struct perf_event_mmap_page;

struct kvm_oncpu {
	int tid;			   /* whose; 0: closed */
	int fd;				   /* of the event; -1: none. It has the time, too */
	struct perf_event_mmap_page *page; /* or NULL */
	uint32_t seq;	   /* the page's lock when the thread last was seen to have lost no CPU */
	uint64_t ref_tsc;  /* at this TSC ... */
	uint64_t ref_ns;   /* ... the thread had had this CPU time, and kept its CPU since */
	uint64_t from_tsc; /* kvm_oncpu_enter */
};

/* kvm_oncpu_open - begin to measure the calling thread, whose id is @tid. @events false: without a
 * perf event. Cannot fail. */
void kvm_oncpu_open(struct kvm_oncpu *o, int tid, bool events);
/* kvm_oncpu_close - the end of *@o, which may be closed. Any thread. */
void kvm_oncpu_close(struct kvm_oncpu *o);

/* kvm_oncpu_enter, kvm_oncpu_leave - the two moments. leave returns the ticks in between, at least
 * 1. The thread of kvm_oncpu_open. */
void kvm_oncpu_enter(struct kvm_oncpu *o);
uint64_t kvm_oncpu_leave(struct kvm_oncpu *o);

#endif
