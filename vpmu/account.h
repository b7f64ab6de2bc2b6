/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The delta rule: every count is a difference of a shared monotonic counter.
 *
 * Plain inline C without any library, so that libvpmu and the BPF program compile the same lines
 * (tests/unit/account_bpf.c keeps that true). Single writer per cell: the pCPU it belongs to.
 * Readers - other threads, signal handlers, BPF - see each 64-bit total whole, old or new.
 */
#ifndef VPMU_ACCOUNT_H
#define VPMU_ACCOUNT_H

#include <linux/types.h>

/* Distinct keys in use on a host at one time; slot masks are one u64. */
#define VPMU_MAX_SLOTS 64

#ifdef __bpf__
/* clang's BPF back end has no atomic load/store; volatile u64 accesses are single there. */
#define VPMU_LOAD(p)	 (*(const volatile __typeof__(*(p)) *)(p))
#define VPMU_STORE(p, v) (*(volatile __typeof__(*(p)) *)(p) = (v))
#else
#define VPMU_LOAD(p)	 __atomic_load_n((p), __ATOMIC_RELAXED)
/* Release: whoever reads a total sees every binding published before it (consumer.c pairs). */
#define VPMU_STORE(p, v) __atomic_store_n((p), (v), __ATOMIC_RELEASE)
#endif

/* What one account was charged on one pCPU. Only ever grows. */
struct vpmu_counts {
	__u64 time_ns;		       /* the account was current on the pCPU */
	__u64 total[VPMU_MAX_SLOTS];   /* counts, by slot */
	__u64 idle_ns[VPMU_MAX_SLOTS]; /* of time_ns: slot in use but without a counter */
	__u64 unsup[VPMU_MAX_SLOTS];   /* which of time_ns is the slot's, see vpmu_slot_time */
};

/*
 * The time that is a slot's: that in which the account ran here while this pCPU's PMU could count
 * the slot's key. One word per slot, so that readers see every change of it whole: with
 * VPMU_UNSUP the time stands still at the low bits; without, it is time_ns less the word.
 */
#define VPMU_UNSUP (1ULL << 63)

static inline __u64 vpmu_slot_time(__u64 unsup, __u64 time_ns)
{
	return unsup & VPMU_UNSUP ? unsup & ~VPMU_UNSUP : time_ns - unsup;
}

/* vpmu_unsup_set - the word from now on: the slot's time does not jump. */
static inline __u64 vpmu_unsup_set(__u64 unsup, __u64 time_ns, int unsupported)
{
	__u64 t = vpmu_slot_time(unsup, time_ns);

	return unsupported ? t | VPMU_UNSUP : time_ns - t;
}

/*
 * vpmu_charge - charge the events since the last snapshot of a counter to a total.
 * @total: of the account that ran since then
 * @snap: the pCPU's last reading of the counter, moved to @now
 * @now: reading of the counter, modulo @width_mask + 1; at most one wrap since @snap
 * Returns the delta. Only the pCPU's owner calls it. The total is stored before the snapshot so
 * that a signal handler in between, which reads totals only, sees a whole value either way.
 */
static inline __u64 vpmu_charge(__u64 *total, __u64 *snap, __u64 now, __u64 width_mask)
{
	__u64 delta = (now - *snap) & width_mask;

	VPMU_STORE(total, *total + delta);
	*snap = now;
	return delta;
}

/* vpmu_charge_time - add @ns to a time; same rules as vpmu_charge. */
static inline void vpmu_charge_time(__u64 *time_ns, __u64 ns)
{
	VPMU_STORE(time_ns, *time_ns + ns);
}

#endif
