/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The delta rule: every count is a difference of a shared monotonic counter.
 *
 * The switch path (pcpu.c, alarm.c) and the BPF program cgroup/bpf/account.bpf.c both compile this
 * file, so it is plain inline C and must never need a library. Each cell has a single writer, its
 * pCPU. Readers (other threads, signal handlers, BPF) see each 64-bit total before or after an
 * update, never a torn value.
 */
#ifndef VPMU_CHARGE_H
#define VPMU_CHARGE_H

#include <linux/types.h>

/* Distinct keys that a host can have in use at a time. A set of slots is one u64. */
#define VPMU_MAX_SLOTS 64

#ifdef __bpf__
/* clang's BPF back end has no atomic load or store. A volatile u64 access is one instruction. */
#define VPMU_LOAD(p)	 (*(const volatile __typeof__(*(p)) *)(p))
#define VPMU_STORE(p, v) (*(volatile __typeof__(*(p)) *)(p) = (v))
#else
#define VPMU_LOAD(p)	 __atomic_load_n((p), __ATOMIC_RELAXED)
/* The release pairs with the acquire loads of totals in row_sum (account.c): a reader that sees
 * this total also sees every consumer state that was published before it (consumer.c). */
#define VPMU_STORE(p, v) __atomic_store_n((p), (v), __ATOMIC_RELEASE)
#endif

/*
 * The counts of one account for one slot on one pCPU. The time in which the account was charged
 * there, time_ns, is one word for all its slots. The numbers never decrease.
 *
 * The running time of a slot is the part of time_ns in which the slot had a counter. It is derived
 * from the word "lost", which is stored only when the slot gets or loses its counter or the PMU
 * reports a gap, and which a reader sees whole:
 *
 *   VPMU_STOPPED is set:   the slot has no counter. Its running time stands still; the time bits
 *                          are its value.
 *   VPMU_STOPPED is clear: the slot has a counter. Its running time is time_ns minus the time bits.
 *
 * Example: a slot that had a counter up to time_ns = 100 and has none since then has the word
 * VPMU_STOPPED | 100. When it gets one again at time_ns = 150, the word becomes 50, and at time_ns
 * = 160 the running time is 110.
 *
 * VPMU_UNSUP: this pCPU's PMU cannot count the slot's key at all. It changes only when the slot
 * gets another key, before that key is counted (cell.c).
 */
struct vpmu_row {
	__u64 total; /* events */
	__u64 lost;
};

#define VPMU_STOPPED   (1ULL << 63)
#define VPMU_UNSUP     (1ULL << 62)
#define VPMU_TIME_BITS (VPMU_UNSUP - 1)

static inline __u64 vpmu_running(__u64 lost, __u64 time_ns)
{
	__u64 t = lost & VPMU_TIME_BITS;

	return lost & VPMU_STOPPED ? t : time_ns - t;
}

/* vpmu_stop - the word to store when the slot loses (or gets) its counter at @time_ns. The running
 * time is the same before and after the store. */
static inline __u64 vpmu_stop(__u64 lost, __u64 time_ns, int stopped)
{
	__u64 t = vpmu_running(lost, time_ns), keep = lost & VPMU_UNSUP;

	return stopped ? t | keep | VPMU_STOPPED : (time_ns - t) | keep;
}

/*
 * vpmu_charge - charge the events since the last snapshot of a counter to a total.
 * @total: the total of the account that ran since then
 * @snap: the pCPU's last reading of the counter; becomes @now
 * @now: this reading of the counter, modulo @width_mask + 1; fewer than @width_mask + 1 events
 * since @snap
 *
 * Returns the number of events charged. Only the pCPU's owner calls this. A signal handler that
 * interrupts it reads totals only, never the snapshot.
 */
static inline __u64 vpmu_charge(__u64 *total, __u64 *snap, __u64 now, __u64 width_mask)
{
	__u64 delta = (now - *snap) & width_mask;

	VPMU_STORE(total, *total + delta);
	*snap = now;
	return delta;
}

/* vpmu_charge_time - add @ns to a time. Only the pCPU's owner calls this. */
static inline void vpmu_charge_time(__u64 *time_ns, __u64 ns)
{
	VPMU_STORE(time_ns, *time_ns + ns);
}

#endif
