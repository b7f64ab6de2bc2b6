/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The delta rule: every count is a difference of a shared monotonic counter.
 *
 * The switch path (pcpu.c, alarm.c) and a BPF program compile these same lines, so this file is
 * plain inline C and must never need a library; tests/unit/account_bpf.c checks that. Each cell
 * has a single writer, the pCPU that it belongs to. Readers (other threads, signal handlers, BPF)
 * see each 64-bit total either before or after an update, never half of one.
 */
#ifndef VPMU_CHARGE_H
#define VPMU_CHARGE_H

#include <linux/types.h>

/* How many distinct keys can be in use on a host at one time. A set of slots is one u64. */
#define VPMU_MAX_SLOTS 64

#ifdef __bpf__
/* clang's BPF back end has no atomic load or store. A volatile u64 access is one instruction. */
#define VPMU_LOAD(p)	 (*(const volatile __typeof__(*(p)) *)(p))
#define VPMU_STORE(p, v) (*(volatile __typeof__(*(p)) *)(p) = (v))
#else
#define VPMU_LOAD(p)	 __atomic_load_n((p), __ATOMIC_RELAXED)
/* The release pairs with the acquire loads of totals in sum_counts (account.c): a reader that sees
 * this total also sees every binding that was published before it (consumer.c). */
#define VPMU_STORE(p, v) __atomic_store_n((p), (v), __ATOMIC_RELEASE)
#endif

/* What one account was charged on one pCPU. These numbers never go down. */
struct vpmu_counts {
	__u64 time_ns;		       /* time in which the account ran on the pCPU */
	__u64 total[VPMU_MAX_SLOTS];   /* events, by slot */
	__u64 idle_ns[VPMU_MAX_SLOTS]; /* part of time_ns: the slot was in use without a counter */
	__u64 unsup[VPMU_MAX_SLOTS];   /* says how much of time_ns is the slot's: vpmu_slot_time */
};

/*
 * The time of a slot is the time in which the account ran on this pCPU while the pCPU's PMU could
 * count the slot's key. One word, unsup[slot], says how much of time_ns that is, so that a reader
 * sees each change of it whole:
 *
 *   VPMU_UNSUP is set:  the key cannot be counted. The slot's time stands still; the other bits
 *                       are its value.
 *   VPMU_UNSUP is clear: the key is counted. The slot's time is time_ns minus the word.
 *
 * Example: a slot that was supported up to time_ns = 100 and is not since then has the word
 * VPMU_UNSUP | 100. When it is supported again at time_ns = 150, the word becomes 50, and at
 * time_ns = 160 the slot's time is 110.
 */
#define VPMU_UNSUP (1ULL << 63)

static inline __u64 vpmu_slot_time(__u64 unsup, __u64 time_ns)
{
	return unsup & VPMU_UNSUP ? unsup & ~VPMU_UNSUP : time_ns - unsup;
}

/* vpmu_unsup_set - the word to store when the key becomes @unsupported (or supported) at @time_ns.
 * The slot's time is the same before and after the store. */
static inline __u64 vpmu_unsup_set(__u64 unsup, __u64 time_ns, int unsupported)
{
	__u64 t = vpmu_slot_time(unsup, time_ns);

	return unsupported ? t | VPMU_UNSUP : time_ns - t;
}

/*
 * vpmu_charge - charge the events since the last snapshot of a counter to a total.
 * @total: the total of the account that ran since then
 * @snap: the pCPU's last reading of the counter; becomes @now
 * @now: this reading of the counter, modulo @width_mask + 1; it wrapped once at most since @snap
 *
 * Returns the number of events charged. Only the pCPU's owner calls this. A signal handler that
 * interrupts it reads totals only, never the snapshot, so it sees the total before or after.
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
