/* SPDX-License-Identifier: GPL-2.0-or-later OR BSD-2-Clause */
/*
 * Lookups: the account of a task, each CPU's cache of accounts, support for moves, and the CPU's
 * clock.
 */
#pragma once

#include "cgroup/bpf/charge.bpf.h"

/*
 * Slow paths are global functions: the verifier checks each of them once, by itself, instead of on
 * every path to it. Their arguments can be numbers but not kernel structs, so they take addresses
 * and read members by WORD().
 */
static __always_inline __u64 address_of(struct kp_cpu *st, const void *p)
{
	*(const void *volatile *)&st->key = p; /* through memory, an address becomes a number */
	return VPMU_LOAD(&st->key);
}

/* Read 8 bytes of kernel memory; 0 if the address is invalid. */
static __always_inline __u64 word_at(__u64 at)
{
	__u64 word = 0;

	if (HAS_CAST())
		return count_at(at - bpf_core_field_offset(struct perf_event, count));
	if (bpf_probe_read_kernel(&word, sizeof(word), (void *)at))
		return 0;
	return word;
}

/* Read a member of the kernel's struct @type at address @at. A 4-byte member is the low half. */
#define WORD(at, type, member) word_at((at) + bpf_core_field_offset(type, member))

/* The account that the task is bound to; 0: not bound. */
static __always_inline __u32 task_account(__u32 tid, __u64 start)
{
	struct kp_task *bound = bpf_map_lookup_elem(&tasks, &tid);

	return bound && start / NS_PER_TICK == bound->start ? bound->account : 0;
}

/* Cheap filter: nonzero if the task may be bound. */
static __always_inline int maybe_bound(__u32 tid)
{
	__u32 bit = kp_task_bit(tid);

	return VPMU_LOAD(&task_bits[bit / 64]) >> (bit % 64) & 1;
}

/* The lowest of @cg and its ancestors that is among the top levels. */
static __always_inline __u64 cgroup_high(__u64 cg)
{
	if (!bpf_core_field_exists(struct cgroup, ancestors) ||
	    (__u32)WORD(cg, struct cgroup, level) < KP_TOP_LEVELS)
		return cg;
	return word_at(cg + bpf_core_field_offset(struct cgroup, ancestors) +
		       (KP_TOP_LEVELS - 1) * sizeof(void *));
}

/* The account of cgroup @cg or of its nearest ancestor that has one. Cgroups can be nested without
 * limit: after some levels the walk goes on near the root, where tenants' cgroups are. */
__noinline __u32 cgroup_account(__u64 cg)
{
	__u64 id, parent;
	__u32 *found;
	int i;

	for (i = 0; i < KP_MAX_DEPTH; i++) {
		if (i == KP_MAX_DEPTH - KP_TOP_LEVELS)
			cg = cgroup_high(cg);
		id = WORD(WORD(cg, struct cgroup, kn), struct kernfs_node, id);
		found = bpf_map_lookup_elem(&cgroups, &id);
		if (found)
			return *found;
		parent = WORD(cg, struct cgroup, self.parent);
		if (!parent)
			break;
		cg = parent - bpf_core_field_offset(struct cgroup, self);
	}
	return KP_OTHER;
}

/* Nonzero if the kernel calls KP_MOVE_HOOK for a running task that is moved to @to. It does not if
 * the perf_event controller is in a version 1 hierarchy, or if the css is shared with the parent
 * because no controller is enabled for the root's children. */
static __always_inline int is_shown(__u64 to)
{
	__u64 css;

	if (!bpf_core_enum_value_exists(enum cgroup_subsys_id, perf_event_cgrp_id))
		return 0;
	css = word_at(to + bpf_core_field_offset(struct css_set, subsys) +
		      bpf_core_enum_value(enum cgroup_subsys_id, perf_event_cgrp_id) *
			      sizeof(void *));
	return css &&
	       WORD(css, struct cgroup_subsys_state, cgroup) == WORD(to, struct css_set, dfl_cgrp);
}

/* Serial numbers of cgroups and task numbers grow by different steps. Multiplied by an odd number,
 * the golden section of all bits that cache_at() looks at, they spread over the cache and stay
 * unique. */
static __always_inline __u64 cache_key(__u64 nr)
{
	return nr * 10125;
}

static __always_inline __u32 cache_at(__u64 key)
{
	return (key >> 5) % KP_CACHE;
}

/* Clear the cache: all its entries are of one generation. */
__noinline int forget_all(struct kp_cpu *st)
{
	__u32 i;

	if (!st)
		return 0;
	for (i = 0; i < KP_CACHE; i++)
		VPMU_STORE(&st->cache[i].key, KP_EMPTY);
	return 0;
}

/* Cache key of a task, and its place in the cache. */
struct entry {
	__u64 key, start;
	__u32 at;
	__u32 account; /* if the task is bound; 0: by its cgroup */
};

static __always_inline struct entry entry_of(__u64 task, __u32 tid, __u64 start, __u64 serial)
{
	__u32 account = cfg.tasks && maybe_bound(tid) ? task_account(tid, start) : 0;

	return (struct entry){
		.key = account ? task : cache_key(serial),
		.start = account ? start : 0,
		.at = cache_at(cache_key(account ? tid : serial)),
		.account = account,
	};
}

static __always_inline int is_entry(const struct kp_cpu *st, const struct entry *e)
{
	const struct kp_cached *c = &st->cache[e->at];

	return (c->key == e->key || c->key == ~e->key) && st->start[e->at] == e->start;
}

/* Look up the account of @task and its mask, as of the CPU's generation. Returns its index in the
 * cache. */
__noinline __u32 look_up(struct kp_cpu *st, __u32 cpu, __u64 task)
{
	__u64 cg = WORD(WORD(task, struct task_struct, cgroups), struct css_set, dfl_cgrp), slow;
	struct entry e = entry_of(task, (__u32)WORD(task, struct task_struct, pid),
				  WORD(task, struct task_struct, start_boottime),
				  WORD(cg, struct cgroup, self.serial_nr));
	struct kp_account *a;
	struct kp_cached *c;

	if (!st || is_entry(st, &e))
		return e.at;
	c = &st->cache[e.at];
	if (!e.account)
		e.account = cgroup_account(cg);
	a = account_of(e.account);
	c->at.account = e.account;
	c->mask = a ? a->mask : 0;
	c->tenant = a ? a->tenant : 0;
	c->at.near = near_cell(st, cpu, c, a);
	st->start[e.at] = e.start;
	slow = cfg.timed | cfg.preempts | st->held | VPMU_LOAD(&st->opening);
	if (!HAS_CAST()) /* the fast path reads by the helper only */
		slow |= cfg.switches;
	c->usual = !c->mask || (c->mask == (1ULL << st->usual) - 1 && !(c->mask & slow) &&
				c->at.near < KP_TOTALS);
	c->at.near |= c->usual * st->usual << KP_USUAL_SHIFT; /* a branch doubles paths */
	c->key = c->usual ? e.key : ~e.key;
	return e.at;
}

/* The same, inlined for the common cache hit. */
static __always_inline struct kp_cached *find(struct task_struct *t, struct kp_cpu *st, __u32 cpu)
{
	__u64 task = address_of(st, t);
	struct entry e = entry_of(task, (__u32)t->pid, t->start_boottime,
				  t->cgroups->dfl_cgrp->self.serial_nr);

	if (!is_entry(st, &e))
		e.at = look_up(st, cpu, task) % KP_CACHE;
	return &st->cache[e.at];
}

static __always_inline __u32 next_cpu(struct task_struct *next)
{
	if (bpf_core_field_exists(struct thread_info, cpu))
		return next->thread_info.cpu;
	return bpf_get_smp_processor_id();
}

/* Nonzero if @t may be running now. */
static __always_inline int may_run(const struct task_struct *t)
{
	return !bpf_core_field_exists(struct task_struct, on_cpu) || t->on_cpu;
}

/* The run queue of the CPU that last ran @task. */
static __always_inline __u64 rq_of(__u64 task)
{
	return WORD(WORD(task, struct task_struct, se.cfs_rq), struct cfs_rq, rq);
}

/*
 * The scheduler's number of switches of the CPU, including the one to @t unless this is a @flush.
 * If it is unreadable, as if none had been missed.
 */
static __always_inline __u64 switches_of(struct task_struct *t, struct kp_cpu *st, int flush)
{
	if (bpf_core_field_exists(struct cfs_rq, rq) &&
	    bpf_core_field_exists(struct rq, nr_switches))
		return t->se.cfs_rq->rq->nr_switches;
	return (st->nr & ~KP_BOUND) - flush;
}

static __always_inline __u64 slow_switches_of(__u64 task, struct kp_cpu *st, int flush)
{
	if (bpf_core_field_exists(struct cfs_rq, rq) &&
	    bpf_core_field_exists(struct rq, nr_switches))
		return WORD(rq_of(task), struct rq, nr_switches);
	return (st->nr & ~KP_BOUND) - flush;
}

/* ---- time --------------------------------------------------------------------------------- */

/* The CPU's clock, read by the kernel at the start of the switch. */
static __always_inline __u64 switch_clock(struct task_struct *t)
{
	if (bpf_core_field_exists(struct cfs_rq, rq))
		return t->se.cfs_rq->rq->clock;
	return bpf_ktime_get_ns();
}

static __always_inline __u64 slow_switch_clock(__u64 task)
{
	if (bpf_core_field_exists(struct cfs_rq, rq))
		return WORD(rq_of(task), struct rq, clock);
	return bpf_ktime_get_ns();
}

/*
 * The CPU's clock now, always after last_ns. Each charge takes the time since the last one by the
 * same clock, so the sum is right however late a flush sees the skew: an error only moves time
 * between the tasks before and after the flush.
 */
static __always_inline __u64 clock_now(struct kp_cpu *st, __u64 task, int flush)
{
	__u64 mono = bpf_ktime_get_ns(), clock = slow_switch_clock(task), now = clock;
	__u64 last = st->last_ns;

	if (flush) {
		if (st->skew == KP_SKEW_NONE)
			st->skew_ns = mono - clock;
		now = mono - st->skew_ns;
		VPMU_STORE(&st->until_ns, 0);
	}
	if (st->skew == KP_SKEW_NONE) /* nothing charged since the attach */
		last = now - 1;
	else if (!flush && st->skew == KP_SKEW_GUESS) /* last_ns is not of this clock */
		last += st->skew_ns - (mono - clock);
	if (!flush) {
		st->skew_ns = mono - clock;
		/* Full barrier before the generation is read: pairs with backend_changed(). A flush
		 * may have been ahead of this clock: until the clock has caught up no switch takes
		 * the fast path, which does not check that time advances. */
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
