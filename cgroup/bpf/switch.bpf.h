/* SPDX-License-Identifier: GPL-2.0-or-later OR BSD-2-Clause */
/*
 * The parts of a switch's fast path (switched() in account.bpf.c), whose instructions are counted:
 * what it reads of the kernel, where the CPU's state is, and the charge of a usual account.
 */
#pragma once

#include "cgroup/bpf/lookup.bpf.h"

/*
 * Kernel features, detected by features.c: each variant of the program needs no instruction to test
 * for them. In all but ANY the map of CPUs is one element, and features.c puts its address into the
 * instructions.
 */
enum kind {
	ANY,	/* tests for each feature at run time */
	HELPER, /* thread_info.cpu and cfs_rq.rq exist; events are read by a helper */
	SYMBOL, /* the same, and the kernel finds runqueues by its name */
	CAST,	/* as HELPER, and events in memory are read by bpf_rdonly_cast */
};

static __always_inline struct kp_cpu *find_cpu(__u32 cpu)
{
	return bpf_map_lookup_elem(&cpus, &cpu);
}

#ifdef __bpf__
static __always_inline struct kp_cpu *cpu_at(__u64 at)
{
	char *base = (char *)&cpus;

	asm volatile("%0 &= %1" : "+r"(at) : "i"(KP_FIT_CPUS));
	barrier_var(base); /* the map's address stands for its element's */
	return (struct kp_cpu *)(base + (at << KP_CPU_SHIFT));
}
#else
#define cpu_at(cpu) find_cpu(cpu)
#endif

/* @st advanced by @bytes, as a base: the member's own offset is then part of each load and store
 * instruction. */
#ifdef __bpf__
#define BEHIND(st, bytes)                                                                          \
	({                                                                                         \
		__u64 to_ = (bytes);                                                               \
		asm volatile("%0 += %1" : "+r"(to_) : "r"(st));                                    \
		(struct kp_cpu *)to_;                                                              \
	})
#else
#define BEHIND(st, bytes) ((struct kp_cpu *)((char *)(st) + (bytes)))
#endif

/* Ends the program here: a jump to a common exit would be an instruction more. The kernel ignores
 * the return value, but r0 must be a number. */
#ifdef __bpf__
#define LEAVE_WITH(set_r0)                                                                         \
	do {                                                                                       \
		asm volatile(set_r0 "exit");                                                       \
		__builtin_unreachable();                                                           \
	} while (0)
#else
#define LEAVE_WITH(set_r0) return 1
#endif
#define LEAVE()		   LEAVE_WITH("r0 = 0\n\t")
#define LEAVE_AFTER_READ() LEAVE_WITH("") /* r0 is the count of the last event */

/*
 * The run queue of this CPU, to which the next task belongs. Before Linux 6.2 each load from the
 * kernel takes some seven instructions on x86, because its address is checked; the helpers take no
 * more, and this one saves two loads. The arguments @ctx are read after them, since the helpers
 * keep no registers.
 */
#if defined(__bpf__) && defined(__TARGET_ARCH_x86)
#define BY_HELPERS(kind) ((kind) == SYMBOL)
extern const struct rq runqueues __ksym __weak;
/* bpf_get_smp_processor_id(), without an instruction that clears the upper half. */
static __u64 (*const this_cpu)(void) = (void *)BPF_FUNC_get_smp_processor_id;

static __always_inline const struct rq *this_rq(const unsigned long long *ctx, enum kind kind)
{
	const struct rq *rq;

	if (!BY_HELPERS(kind))
		return ((const struct task_struct *)ctx[2])->se.cfs_rq->rq;
	rq = bpf_this_cpu_ptr(&runqueues);
	barrier();
	return rq;
}
#else
#define BY_HELPERS(kind)   0
#define this_cpu()	   0
#define this_rq(ctx, kind) (((const struct task_struct *)(ctx)[2])->se.cfs_rq->rq)
#endif

/* The value @known of *@p. On x86 it takes less to load it again than to save a register. */
#ifdef __TARGET_ARCH_x86
#define AGAIN(p, known) VPMU_LOAD(p)
#else
#define AGAIN(p, known) (known)
#endif

/* Read the event of @slot on this CPU into @now, by the helper. Returns 0 if there is none. */
static __always_inline int account_read(const struct kp_cpu *st, __u32 slot, __u64 *now)
{
	*now = bpf_perf_event_read(&events, st->event[slot]);
	return (__s64)*now >= 0;
}

/* The CPU has no event for the slot: all the time since the last charge is lost for @row. */
static __always_inline void no_event(struct kp_cpu *st, struct vpmu_row *row)
{
	VPMU_STORE(&row->lost, row->lost + (VPMU_LOAD(&st->last_ns) - st->done_ns));
}

static __always_inline void charge_row(struct kp_cpu *st, __u32 slot, struct vpmu_row *row,
				       int memory)
{
	__u64 now, total;

	if (memory && st->where[slot]) {
		now = count_at(st->where[slot]);
	} else if (!account_read(st, slot, &now)) {
		no_event(st, row);
		return;
	}
	/* As vpmu_charge(), in an order that saves an instruction. */
	total = row->total + now;
	barrier_var(total);
	VPMU_STORE(&row->total, total - st->snap[slot]);
	st->snap[slot] = now;
}

/* Charge the first slots to the near cell, or to cell 0. @near: kp_place.near of either account.
 * Accounts with a single key are tested first, because the tests are a larger share of their cost.
 */
static __always_inline void charge_usual(struct kp_cpu *st, struct kp_cell *cell, __u32 near,
					 int memory)
{
	charge_row(st, 0, &cell->row[0], memory);
	if (near < 2 << KP_USUAL_SHIFT)
		return;
	charge_row(st, 1, &cell->row[1], memory);
	if (near < 3 << KP_USUAL_SHIFT)
		return;
	charge_row(st, 2, &cell->row[2], memory);
	if (near < 4 << KP_USUAL_SHIFT)
		return;
	charge_row(st, 3, &cell->row[3], memory);
}

/* Charge the time up to @now to @time; begins a charge (STORE_IN_ORDER()). */
static __always_inline void charge_time(struct kp_cpu *st, __u64 *time, __u64 now)
{
#if !defined(__bpf__) || defined(__TARGET_ARCH_x86)
	/* As vpmu_charge_time(), in an order that saves an instruction. */
	__u64 sum = *time - st->last_ns;

	barrier_var(sum);
	STORE_IN_ORDER(&st->last_ns, now);
	VPMU_STORE(time, sum + now);
#else
	/* One full barrier for both: the charges come after it. */
	__u64 ran_ns = now - st->last_ns;

	VPMU_STORE(&st->last_ns, now);
	ran_ns = __sync_fetch_and_add(time, ran_ns);
	barrier_var(ran_ns);
#endif
}

/*
 * Fast path: a switch between usual accounts, no switch missed. @my: @st advanced to the cache
 * entry of @next's account; @rq: not for ANY; @nr: the next kp_cpu.nr. Returns 0 if something has
 * changed and the slow path must run; otherwise ends the program.
 */
static __always_inline int charge_both(struct kp_cpu *st, struct kp_cpu *my,
				       struct task_struct *next, const struct css_set *to,
				       const struct rq *rq, __u64 nr, enum kind kind)
{
	struct kp_cpu *cell;
	__u64 now, was, place;

	place = VPMU_LOAD(&my->cache[0].place);
	was = VPMU_LOAD(&st->place);
	/* The same cell: one account, or two for which nothing is counted. */
	if ((__u32)place == (__u32)was) {
		if (st->gen != st->want)
			return 0;
		VPMU_STORE(&st->cset, (__u64)to);
		VPMU_STORE(&st->nr, nr);
		VPMU_STORE(&st->place, place); /* no charges: nothing to be ordered */
		LEAVE();
	}
	now = kind == ANY ? switch_clock(next) : rq->clock;
	if (now >= st->until_ns)
		return 0;
	VPMU_STORE(&st->cset, (__u64)to);
	VPMU_STORE(&st->nr, nr);
	cell = BEHIND(st, AGAIN(&st->place, was) & KP_NEAR_MASK);
	charge_time(st, &cell->near_cell[0].time_ns, now);
	if (kind == CAST || (kind == ANY && HAS_CAST()))
		charge_usual(st, cell->near_cell, (__u32)place, 1);
	else
		charge_usual(st, cell->near_cell, (__u32)place, 0);
	STORE_IN_ORDER(&st->place, place);
	VPMU_STORE(&st->done_ns, AGAIN(&st->last_ns, now));
	LEAVE_AFTER_READ();
}
