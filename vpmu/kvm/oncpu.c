// SPDX-License-Identifier: LGPL-2.1-or-later
/* How long a thread was on a CPU, see oncpu.h. port.c calls this around each KVM_RUN: nothing here
 * may make a system call while the thread keeps its CPU, if there is an event. */
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
#include <x86intrin.h>

#include <linux/perf_event.h>

#include "vpmu/kvm/oncpu.h"
#include "vpmu/util/clock.h"

/* Maximum age of the last reading of the event's clock: its ns and the TSC drift apart by the error
 * of rate(). */
#define KEPT_TICKS 20000000

static uint64_t oncpu_tsc(void)
{
	unsigned int aux;

	return __rdtscp(&aux);
}

/* ---- the rate of the TSC ------------------------------------------------------------------- */

static uint64_t begin_tsc, begin_ns;
static pthread_once_t begin_once = PTHREAD_ONCE_INIT;

static void oncpu_begin(void)
{
	begin_tsc = oncpu_tsc();
	begin_ns = clock_ns(CLOCK_MONOTONIC_RAW);
}

/* TSC ticks per ns. More exact with the time since oncpu_begin(): 1e-4 after a millisecond. */
static double rate(void)
{
	uint64_t ns = clock_ns(CLOCK_MONOTONIC_RAW) - begin_ns;

	return ns ? (double)(oncpu_tsc() - begin_tsc) / (double)ns : 1.0;
}

/* ---- an event of the thread ---------------------------------------------------------------- */

void kvm_oncpu_open(struct kvm_oncpu *o, int tid, bool events)
{
	struct perf_event_attr attr = {
		.type = PERF_TYPE_SOFTWARE,
		.size = sizeof(attr),
		.config = PERF_COUNT_SW_DUMMY,
		.exclude_kernel = 1,
		.exclude_hv = 1,
		.read_format = PERF_FORMAT_TOTAL_TIME_ENABLED,
	};
	void *page;

	pthread_once(&begin_once, oncpu_begin);
	memset(o, 0, sizeof(*o));
	o->tid = tid;
	o->fd = events ? (int)syscall(SYS_perf_event_open, &attr, 0, -1, -1, PERF_FLAG_FD_CLOEXEC)
		       : -1;
	if (o->fd < 0)
		return;
	page = mmap(NULL, (size_t)sysconf(_SC_PAGESIZE), PROT_READ, MAP_SHARED, o->fd, 0);
	if (page != MAP_FAILED)
		o->page = page;
}

void kvm_oncpu_close(struct kvm_oncpu *o)
{
	if (!o->tid)
		return;
	if (o->page)
		munmap(o->page, (size_t)sysconf(_SC_PAGESIZE));
	if (o->fd >= 0)
		close(o->fd);
	memset(o, 0, sizeof(*o));
}

/* ---- measuring ---------------------------------------------------------------------------- */

static uint32_t page_seq(const struct kvm_oncpu *o)
{
	/* The kernel writes it on this CPU, before the thread continues. */
	return o->page ? *(const volatile uint32_t *)&o->page->lock : 0;
}

/* The thread's time on a CPU. The event's time is by perf's clock, which also advances in
 * interrupts, like the TSC. Reading it cannot fail: only a pinned event can be in a state without a
 * time. If it fails all the same, the thread counts as not having run. */
static uint64_t cpu_ns(const struct kvm_oncpu *o)
{
	uint64_t value_enabled[2];

	if (!o->page)
		return clock_ns(CLOCK_THREAD_CPUTIME_ID);
	return read(o->fd, value_enabled, sizeof(value_enabled)) == sizeof(value_enabled)
		       ? value_enabled[1]
		       : o->ref_ns;
}

/* Read the current CPU time; retry if the thread lost its CPU between the two clocks. */
static void oncpu_ask(struct kvm_oncpu *o)
{
	do {
		o->seq = page_seq(o);
		o->ref_ns = cpu_ns(o);
		o->ref_tsc = oncpu_tsc();
	} while (o->seq != page_seq(o));
}

void kvm_oncpu_enter(struct kvm_oncpu *o)
{
	o->from_tsc = oncpu_tsc();
	if (o->page && o->ref_tsc && o->seq == page_seq(o) && o->from_tsc - o->ref_tsc < KEPT_TICKS)
		return;
	oncpu_ask(o);
	o->from_tsc = o->ref_tsc;
}

uint64_t kvm_oncpu_leave(struct kvm_oncpu *o)
{
	uint64_t to = oncpu_tsc();
	uint64_t most = to > o->from_tsc ? to - o->from_tsc : 1;
	uint64_t before_ns, ran;
	double per_ns;

	if (o->page && o->seq == page_seq(o))
		return most;
	per_ns = rate();
	before_ns = o->ref_ns + (uint64_t)((double)(o->from_tsc - o->ref_tsc) / per_ns);
	oncpu_ask(o);
	if (o->ref_ns <= before_ns)
		return 1;
	ran = (uint64_t)((double)(o->ref_ns - before_ns) * per_ns);
	return ran < most ? ran + !ran : most;
}
