/* SPDX-License-Identifier: GPL-2.0-or-later OR BSD-2-Clause */
/*
 * Whose account a task is in, whether the kernel tells when it moves, what a CPU remembers of that,
 * and which time it is there.
 */
#ifndef CGROUP_BPF_LOOKUP_BPF_H
#define CGROUP_BPF_LOOKUP_BPF_H

#include "cgroup/bpf/charge.bpf.h"

#define NS_PER_TICK 10000000ULL /* of a start time in /proc: USER_HZ is 100 */

/* The task that is bound, by the account of its node; 0: none. */
static __always_inline __u32 task_account(struct task_struct *t)
{
	__u32 tid = (__u32)t->pid;
	struct kp_task *bound = bpf_map_lookup_elem(&tasks, &tid);

	return bound && t->start_boottime / NS_PER_TICK == bound->start ? bound->account : 0;
}

/* Cheap: whether the task can be a bound one. */
static __always_inline int maybe_bound(struct task_struct *t)
{
	__u32 bit = kp_task_bit((__u32)t->pid);

	return VPMU_LOAD(&task_bits[bit / 64]) >> (bit % 64) & 1;
}

/* The account of the nearest cgroup that has one. */
static __always_inline __u32 cgroup_account(struct cgroup *cg)
{
	struct cgroup_subsys_state *parent;
	__u32 *found;
	__u64 id;
	int i;

	for (i = 0; i < KP_MAX_DEPTH; i++) {
		id = cg->kn->id;
		found = bpf_map_lookup_elem(&cgroups, &id);
		if (found)
			return *found;
		parent = cg->self.parent;
		if (!parent)
			break;
		cg = parent->cgroup;
	}
	return KP_OTHER;
}

/* Whether the kernel calls KP_MOVE_HOOK for a running task that is moved to @to. It does not if the
 * perf_event controller is in a hierarchy of version 1, or does not tell the cgroup from its
 * parent, as on a kernel on which nobody has switched any controller of the root's children on. */
static __always_inline int is_shown(const struct css_set *to)
{
	const struct cgroup_subsys_state *css;

	if (!bpf_core_enum_value_exists(enum cgroup_subsys_id, perf_event_cgrp_id))
		return 0;
	css = to->subsys[bpf_core_enum_value(enum cgroup_subsys_id, perf_event_cgrp_id)];
	return css && css->cgroup == to->dfl_cgrp;
}

static __always_inline __u32 cache_at(__u64 key)
{
	return (key ^ key >> 4) % KP_CACHE;
}

/* The entries are of one generation. */
__noinline int forget_all(struct kp_cpu *st)
{
	__u32 i;

	if (!st)
		return 0;
	for (i = 0; i < KP_CACHE; i++)
		VPMU_STORE(&st->cache[i].key, KP_EMPTY);
	return 0;
}

/* Where @t runs: the account and what is counted for it, as of the generation that the CPU knows.
 */
static __noinline struct kp_cached *look_up(struct task_struct *t, struct kp_cpu *st, __u32 cpu)
{
	struct cgroup *cg = t->cgroups->dfl_cgrp;
	__u32 account = cfg.tasks && maybe_bound(t) ? task_account(t) : 0;
	__u64 key = account ? (__u64)t : cg->self.serial_nr;
	__u64 start = account ? t->start_boottime : 0;
	__u32 at = cache_at(account ? (__u32)t->pid : cg->self.serial_nr);
	struct kp_cached *c = &st->cache[at];
	struct kp_account *a;
	__u64 slow;

	/* Through memory: an address is a number then. */
	*(volatile __u64 *)&st->key = key;
	key = VPMU_LOAD(&st->key);
	if ((c->key == key || c->key == ~key) && st->start[at] == start)
		return c;
	if (!account)
		account = cgroup_account(cg);
	a = account_of(account);
	c->at.account = account;
	c->mask = a ? a->mask : 0;
	c->at.near = near_cell(st, cpu, c);
	st->start[at] = start;
	slow = cfg.timed | st->held | VPMU_LOAD(&st->opening);
	c->usual = !c->mask || (c->mask == (1ULL << st->usual) - 1 && !(c->mask & slow) &&
				c->at.near != KP_FAR);
	c->key = c->usual ? key : ~key;
	return c;
}

static __always_inline __u32 next_cpu(struct task_struct *next)
{
	if (bpf_core_field_exists(struct thread_info, cpu))
		return next->thread_info.cpu;
	return bpf_get_smp_processor_id();
}

/* Whether @t may run on a CPU now. */
static __always_inline int may_run(const struct task_struct *t)
{
	return !bpf_core_field_exists(struct task_struct, on_cpu) || t->on_cpu;
}

/*
 * How many switches the CPU has made, @t's included if it is not a @flush, by the scheduler's own
 * number. Where the program cannot read it, as if each had been seen.
 */
static __always_inline __u64 switches_of(struct task_struct *t, struct kp_cpu *st, int flush)
{
	if (bpf_core_field_exists(struct cfs_rq, rq) &&
	    bpf_core_field_exists(struct rq, nr_switches))
		return t->se.cfs_rq->rq->nr_switches;
	return (st->nr & ~KP_BOUND) - flush;
}

/* ---- time --------------------------------------------------------------------------------- */

/* The CPU's clock, as the kernel read it when it began to switch. */
static __always_inline __u64 switch_clock(struct task_struct *t)
{
	if (bpf_core_field_exists(struct cfs_rq, rq))
		return t->se.cfs_rq->rq->clock;
	return bpf_ktime_get_ns();
}

/*
 * The time of the CPU's clock now, after last_ns. What is charged at each switch and flush is
 * the time since the last one by the same clock, so the sum of all is right, however late or early
 * a flush sees the skew: it moves time between what ran before the flush and what runs after it.
 */
static __always_inline __u64 clock_now(struct kp_cpu *st, struct task_struct *t, int flush)
{
	__u64 mono = bpf_ktime_get_ns(), clock = switch_clock(t), now = clock, last = st->last_ns;

	if (flush) {
		if (st->skew == KP_SKEW_NONE)
			st->skew_ns = mono - clock;
		now = mono - st->skew_ns;
		VPMU_STORE(&st->until_ns, 0);
	}
	if (st->skew == KP_SKEW_NONE) /* nothing was charged since the program is attached */
		last = now - 1;
	else if (!flush && st->skew == KP_SKEW_GUESS) /* last_ns is no time of this clock */
		last += st->skew_ns - (mono - clock);
	if (!flush) {
		st->skew_ns = mono - clock;
		/* A full barrier, before the generation is read: see backend_changed(). A flush may
		 * have been ahead of this clock. Until the clock is there no switch takes the short
		 * way, on which nothing looks whether time goes on. */
		__sync_lock_test_and_set(&st->until_ns,
					 (__s64)(now - last) > 0 ? now + KP_LOOK_NS : 0);
	}
	if (!flush || st->skew == KP_SKEW_NONE)
		st->skew = flush ? KP_SKEW_GUESS : KP_SKEW_KNOWN;
	if (last != st->last_ns) {
		VPMU_STORE(&st->last_ns, last);
		VPMU_STORE(&st->done_ns, last);
	}
	return (__s64)(now - last) <= 0 ? last + 1 : now;
}

#endif
