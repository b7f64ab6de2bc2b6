/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * How long a thread was on a CPU between two moments, in TSC ticks. vcpu.c measures the time in
 * KVM_RUN with it: a thread that was preempted or slept in it was not in its guest.
 *
 * The TSC also advances while the thread does not run, and reading the thread's CPU time is a
 * system call. So the thread has a perf event that counts nothing: the kernel changes its mmap page
 * each time the thread gets a CPU. While the page is unchanged, the TSC alone is right. Where perf
 * events are not permitted, each measurement makes a system call at both of its ends.
 *
 * Measured, on a machine where an exit of KVM takes 7 us: enter and leave take 120 ns with the
 * event, including 105 ns for two RDTSCP. On a later CPU: 28 ns with the event and 450 ns without
 * it.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct perf_event_mmap_page;

struct kvm_oncpu {
	int tid;			   /* measured thread; 0: closed */
	int fd;				   /* of the event, also the source of its time; -1: none */
	struct perf_event_mmap_page *page; /* or NULL */
	uint32_t seq;	   /* the page's lock when the thread was last known to have kept its CPU */
	uint64_t ref_tsc;  /* at this TSC ... */
	uint64_t ref_ns;   /* ... the thread had had this CPU time, and kept its CPU since */
	uint64_t from_tsc; /* kvm_oncpu_enter */
};

/* kvm_oncpu_open - begin to measure the calling thread, with id @tid. @events false: without a perf
 * event. Cannot fail. */
void kvm_oncpu_open(struct kvm_oncpu *o, int tid, bool events);
/* kvm_oncpu_close - the end of *@o, which may be closed. Any thread. */
void kvm_oncpu_close(struct kvm_oncpu *o);

/* kvm_oncpu_enter, kvm_oncpu_leave - the two moments. leave returns the ticks in between, at least
 * 1. The thread of kvm_oncpu_open. */
void kvm_oncpu_enter(struct kvm_oncpu *o);
uint64_t kvm_oncpu_leave(struct kvm_oncpu *o);
