/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The totals of one vCPU as a page of memory. vpmud's BPF program (cgroup/bpf/account.bpf.c) writes
 * it; the VMM that runs the vCPU maps it read-only (docs/protocol.md, "Counters of guests").
 *
 * The program adds to the page whenever it charges the vCPU's thread: when the thread leaves a CPU,
 * and when KVM_RUN returns to user space. So the thread itself, after KVM_RUN, reads all that its
 * guest has counted. Another thread reads the totals as of the last charge.
 *
 * Both compile this file, so it is plain inline C and must never need a library.
 */
#ifndef VPMU_TOTALS_H
#define VPMU_TOTALS_H

#include "vpmu/charge.h"

struct vpmu_totals {
	__u64 seq;     /* odd while the program writes */
	__u64 ended;   /* vpmud: not 0: nothing will be added any more */
	__u64 time_ns; /* time for which the vCPU was charged anything */
	/* Intervals that are missing in part or whole, or were another thread's: a switch that the
	 * program did not see, or no memory for the account. Each makes the totals inexact. */
	__u64 gaps;
	/* By slot. total: events; lost: the part of time_ns without a counter, in ns. They grow
	 * while the slot's key is bound; what others count for the vCPU is not here. */
	struct vpmu_row row[VPMU_MAX_SLOTS];
};

/*
 * Requests at vpmud's socket for VMMs, vcpus.sock beside its control socket (SOCK_STREAM). Each one
 * is answered in order. A VM process has one connection; it may name its own vCPUs' threads only.
 *
 *   BIND    count @key for the vCPU that thread @tid runs: row[slot] of its page grows from now on.
 *           A vCPU's first bind on a connection comes with a file descriptor of its page
 *           (SCM_RIGHTS): map it with PROT_READ and MAP_SHARED, and close it.
 *   CONFIG  what the tenant of this process may have, as lines KEY=VALUE after the reply: pmu,
 *           gp, policy, allow and deny, as in vpmu-vmm(1). The reply's slot is the number of their
 *           bytes, at most VPMU_TOTALS_CONFIG_MAX. key and tid are 0. A process that is no VM yet
 *           may ask as well, once per connection. For new versions: ignore other keys.
 *   UNBIND  stop; the slot may get another key. The last unbind of a vCPU ends its page, as do the
 *           end of the connection and of the thread.
 *   EVENT   for a VMM that samples @key, which is bound, and may not open perf events itself: comes
 *           with a file descriptor of a disabled perf event of the key and thread @tid, which
 *           overflows never: set its period (PERF_EVENT_IOC_PERIOD), signal and owner, enable it.
 *
 * A request that vpmud does not know fails with EINVAL; EVENT is newer than the others.
 *
 * A bind ends as well when the administrator's rules no longer permit it: the VM's connection is
 * closed then, and all its pages end. It connects again and binds what it may.
 *
 * When vpmud ends, pages go on. After a reconnect within VPMU_TOTALS_AGAIN_NS, binding the same
 * keys again gives the same page and slots, and nothing is missed; otherwise the page ends.
 */
struct vpmu_totals_request {
	__u32 version; /* VPMU_TOTALS_VERSION */
	__u32 what;
	__u64 key; /* vpmu_key_t */
	__s32 tid;
	__u32 zero;
};
#define VPMU_TOTALS_VERSION    1
#define VPMU_TOTALS_BIND       1
#define VPMU_TOTALS_UNBIND     2
#define VPMU_TOTALS_EVENT      3
#define VPMU_TOTALS_CONFIG     4
#define VPMU_TOTALS_CONFIG_MAX 8192
#define VPMU_TOTALS_AGAIN_NS   5000000000ULL

struct vpmu_totals_reply {
	/* An errno; 0: done. ESRCH: no thread of a vCPU of this VM, or not found yet; EACCES: the
	 * host's policy denies the event; EOPNOTSUPP: this host cannot count it; ENOSPC: the quota
	 * of the VM or its tenant is used up, no counter is left, or as many EVENTs are open as may
	 * be; EEXIST: bound already; ENOENT: not bound, or KVM has no tracepoint; EINVAL: no such
	 * request. EVENT: perf_event_open(2)'s, too. */
	__u32 error;
	__u32 slot; /* BIND; CONFIG: bytes that follow */
};

/* Attempts of vpmu_totals_read. The program holds the page for less than a microsecond. */
#define VPMU_TOTALS_TRIES 1000

#ifndef __bpf__
/*
 * vpmu_totals_read - read total, lost time and time of @slot, all as of the same charge. Returns 0;
 * -1: @slot is invalid, or the program was writing at every attempt, and *@row and *@time_ns are
 * unchanged. Any thread, also in a signal handler.
 */
static inline int vpmu_totals_read(const struct vpmu_totals *t, unsigned int slot,
				   struct vpmu_row *row, __u64 *time_ns)
{
	struct vpmu_row r;
	__u64 seq, time;
	int tries;

	if (slot >= VPMU_MAX_SLOTS)
		return -1;
	for (tries = 0; tries < VPMU_TOTALS_TRIES; tries++) {
		seq = __atomic_load_n(&t->seq, __ATOMIC_ACQUIRE);
		if (seq & 1)
			continue;
		/* Acquire: the second load of seq stays behind them. */
		r.total = __atomic_load_n(&t->row[slot].total, __ATOMIC_ACQUIRE);
		r.lost = __atomic_load_n(&t->row[slot].lost, __ATOMIC_ACQUIRE);
		time = __atomic_load_n(&t->time_ns, __ATOMIC_ACQUIRE);
		if (__atomic_load_n(&t->seq, __ATOMIC_RELAXED) != seq)
			continue;
		*row = r;
		*time_ns = time;
		return 0;
	}
	return -1;
}
#endif

#endif
