// SPDX-License-Identifier: GPL-2.0-or-later OR BSD-2-Clause
/*
 * The programs of the BPF backend. At each context switch of a CPU they look up the account of the
 * next task, and charge the counts of the CPU's events since the last charge to the account that
 * ran. load.c loads them; docs/internals/cgroup-counting.md explains them.
 *
 * All programs run with interrupts off, except a flush that a CPU runs on itself (see
 * account_flush()). So a CPU never runs two of them at a time, and each CPU writes its own state
 * and cells only: there are no locks. A page of totals has one writer at a time, too: the CPU that
 * runs the vCPU's thread. A program must never guess: counts that it cannot attribute
 * are unclaimed, and are still in the sum.
 */
#include "cgroup/bpf/interval.bpf.h"

/* @c's account runs from now on. @charged: the time up to which all is charged. */
static __always_inline void enters(struct kp_cpu *st, __u64 cset, const struct kp_cached *c,
				   __u64 charged)
{
	VPMU_STORE(&st->mask, c->mask);
	st->other_cset = cset;
	st->tenant = c->tenant;
	VPMU_STORE(&st->cset, c->usual ? cset : 0);
	STORE_IN_ORDER(&st->place, c->place);
	VPMU_STORE(&st->done_ns, charged);
}

/*
 * Slow path: task @prev has run on this CPU and @next runs from now on (addresses of their
 * task_structs). If @cause is FLUSHES or MOVES they are the same task, and all counts up to now are
 * charged.
 *
 * Counts that cannot be divided: after missed switches they are unclaimed, except those that the
 * root counts, which are charged to `other`. After a move that was not seen the old account is
 * charged. The accounts that ran are marked as inexact if anything was counted; if others may have
 * run, too, all are (kp_cpu.blind).
 *
 * A change of bindings, masks or events moves the generation. The first charge after that uses the
 * old masks, because the interval was counted for them; a new event has counted since the change,
 * for the new masks.
 */
__noinline int switch_all(struct kp_cpu *st, __u32 cpu, __u64 prev, __u64 next, __u32 cause)
{
	const int account_flush = cause >= FLUSHES;
	__u32 gen, moves = VPMU_LOAD(&cfg.moves), former, p, missed;
	__u64 nr, last, owed, fresh = 0, read, now, since, cset, prev_cset, held;
	enum known known = ALL_KNOWN;
	struct kp_account *a;
	struct kp_cached *c;

	if (!st)
		return 0;
	nr = slow_switches_of(next, st, account_flush) + 1;
	last = st->nr & ~KP_BOUND;
	missed = last && nr - last != !account_flush ? (__u32)(nr - last - !account_flush) : 0;
	owed = kp_mask(st);
	cset = css_set_of(st);
	former = st->at.account;
	held = st->held;
	if (!account_flush && nr == last) /* a former process's program has handled it */
		return 0;
	now = clock_now(st, next, account_flush);
	VPMU_STORE(&st->missed, st->missed + missed);
	/* Write out mask and css_set, so that nothing below depends on the account being usual. */
	VPMU_STORE(&st->mask, owed);
	VPMU_STORE(&st->cset, 0);
	st->other_cset = cset;
	gen = cfg.gen;
	if (st->gen != gen) { /* full barrier, pairs with backend_changed(): masks are at least as
			       * new as the generation */
		gen = __sync_fetch_and_add(&cfg.gen, 0);
		VPMU_STORE(&st->usual, VPMU_LOAD(&cfg.usual));
		st->held &= VPMU_LOAD(&st->opening);
		forget_all(st);
	}
	p = former;
	prev_cset = WORD(prev, struct task_struct, cgroups);
	if (missed || cset != prev_cset) {
		c = &st->cache[look_up(st, cpu, prev) % KP_CACHE];
		p = c->at.account;
		if (cset || missed) {
			known = what_ran(st, prev_cset, p, missed, cause);
		} else { /* nothing is owed, or a flush has charged the time before the move */
			VPMU_STORE(&st->place, c->place);
			st->tenant = c->tenant;
			owed &= c->mask;
		}
		if (known != ALL_KNOWN)
			VPMU_STORE(&st->mask, st->mask | c->mask);
	}
	st->moves = moves;
	st->nr = nr | (cfg.tasks ? KP_BOUND : 0);
	if (known == NOT_KNOWN) {
		owed &= st->whole;
		VPMU_STORE(&st->at.account, KP_OTHER);
	}
	c = &st->cache[look_up(st, cpu, next) % KP_CACHE];
	if (!account_flush && known == ALL_KNOWN && c->at.account == st->at.account &&
	    gen == st->gen)
		goto enter;
	/* Before charges, and before a new slot takes up the number. */
	if (cause == PREEMPTIONS && known == ALL_KNOWN && owed & cfg.preempts &&
	    c->tenant != st->tenant)
		st->preempted++;
	since = st->last_ns;
	if (gen != st->gen) {
		fresh = take_up_events(st, cpu, account_flush, held, now);
		if (fresh) {
			a = account_of(st->at.account);
			owed &= ~fresh;
			/* Events of a CPU that came back are new, too, without an attach. */
			if (!owed && since < cfg.since_ns - st->skew_ns)
				since = cfg.since_ns - st->skew_ns;
			if (a && known != NOT_KNOWN)
				owed |= fresh & a->mask;
		}
	}
	read = c->mask | owed | (st->mask & ~fresh);
	if (read) {
		st->counted = 0;
		if (!fresh) /* else take_up_events() has */
			STORE_IN_ORDER(&st->last_ns, now);
		charge(st, cpu, read, owed, now > since ? now - since : 0);
		/* A preemption that was not seen leaves no trace. */
		if (known != ALL_KNOWN && (st->counted || st->mask & ~fresh & cfg.preempts)) {
			misses(former);
			misses(p);
			if (known == A_MOVE)
				VPMU_STORE(&st->moved, st->moved + 1);
			else if (owed)
				misses(KP_OTHER);
			/* After a move @prev's former account is unknown. */
			if (missed > 1 || (missed && cause == MOVES))
				VPMU_STORE(&st->blind, st->blind + 1);
		}
	}
	st->event[0] = kp_event(cpu, 0);
	st->event[1] = kp_event(cpu, 1);
	st->event[2] = kp_event(cpu, 2);
	st->event[3] = kp_event(cpu, 3);
	/* The time up to now was counted by the old events, for the old masks. */
	if (st->gen != gen) {
		st->held = VPMU_LOAD(&st->opening);
		a = account_of(KP_ROOT);
		st->whole = a ? a->mask : 0;
	}
	st->gen = gen;
enter:
	enters(st, WORD(next, struct task_struct, cgroups), c, st->last_ns);
	return 0;
}

/* As charge(), for one slot with an event that never waits for a counter: charges its row of @cell,
 * or unclaimed. */
static __always_inline void account_charge_some(struct kp_cpu *st, __u32 slot, __u64 read,
						__u64 owed, struct kp_cell *cell)
{
	__u64 now, *total = &st->unclaimed[slot];

	if (!(read >> slot & 1))
		return;
	if (st->where[slot]) {
		now = count_word(st, slot);
	} else if (!account_read(st, slot, &now)) {
		if (owed >> slot & 1)
			no_event(st, &cell->row[slot % KP_CHUNK]);
		return;
	}
	if (owed >> slot & 1)
		total = &cell->row[slot % KP_CHUNK].total;
	vpmu_charge(total, &st->snap[slot], now, ~0ULL);
}

/* Slow path of a switch. */
static __noinline int switch_slow(unsigned long long *ctx, struct kp_cpu *st)
{
	struct task_struct *prev = (void *)ctx[1], *next = (void *)ctx[2];
	__u32 cause = cfg.preempts && is_preempted(ctx) ? PREEMPTIONS : SWITCHES;

	return switch_all(st, next_cpu(next), address_of(st, prev), address_of(st, next), cause);
}

/* Medium path: the CPU's state is valid, but the fast path does not apply. */
static __noinline int switch_other(unsigned long long *ctx, struct kp_cpu *st)
{
	struct task_struct *prev = (void *)ctx[1], *next = (void *)ctx[2];
	__u64 owed = kp_mask(st), read, now, ran_ns;
	__u32 near = st->at.near;
	struct kp_cached *c;
	struct kp_cell *cell;

	if (css_set_of(st) != (__u64)prev->cgroups ||
	    switches_of(next, st, 0) != (st->nr & ~KP_BOUND))
		return switch_slow(ctx, st);
	/* Within a cgroup with an account that is not usual. */
	if (prev->cgroups == next->cgroups && !(st->nr & KP_BOUND)) {
		st->nr++;
		return 0;
	}
	if (st->gen != st->want)
		return switch_slow(ctx, st);
	c = find(next, st, next_cpu(next));
	read = owed | c->mask;
	if (read && c->at.account != st->at.account) {
		now = switch_clock(next);
		if (now >= st->until_ns)
			return switch_slow(ctx, st);
		ran_ns = now - st->last_ns;
		STORE_IN_ORDER(&st->last_ns, now);
		st->nr++; /* before charges: see count_word() */
		if (owed & cfg.preempts && c->tenant != st->tenant && is_preempted(ctx))
			st->preempted++;
		if (read & (cfg.timed | st->held) || read >> KP_CHUNK ||
		    (__u16)near > KP_NEAR * sizeof(*cell)) {
			charge(st, next_cpu(next), read, owed, ran_ns);
		} else {
			barrier_var(near); /* a spilled register has lost its bound */
			cell = (void *)st->near_cell + (near & KP_NEAR_MASK);
			vpmu_charge_time(&cell->time_ns, ran_ns);
			account_charge_some(st, 0, read, owed, cell);
			account_charge_some(st, 1, read, owed, cell);
			account_charge_some(st, 2, read, owed, cell);
			account_charge_some(st, 3, read, owed, cell);
		}
	} else {
		st->nr++;
	}
	enters(st, (__u64)next->cgroups, c, st->last_ns);
	return 0;
}

/*
 * The fast path of a switch: nothing has changed, no switch was missed, and both accounts are
 * cached and usual. Equivalent to switch_all, in few instructions.
 *
 * While no task is bound, two tasks of one css_set are in one account. A change of masks or
 * bindings that goes unnoticed there is noticed at the next switch between two cgroups or at the
 * next flush.
 */
static __always_inline int switched(unsigned long long *ctx, enum kind kind)
{
	const struct css_set *from, *to;
	const struct rq *rq = NULL;
	struct task_struct *next;
	struct kp_cpu *st, *my;
	__u64 key, nr;
	__u32 at;

	if (kind == ANY) {
		next = (void *)ctx[2];
		st = find_cpu(next_cpu(next));
		if (!st)
			return 0;
		nr = switches_of(next, st, 0);
	} else {
		if (BY_HELPERS(kind))
			st = cpu_at(this_cpu());
		rq = this_rq(ctx, kind);
		next = (void *)ctx[2];
		if (!BY_HELPERS(kind))
			st = cpu_at(next->thread_info.cpu);
		nr = rq->nr_switches;
	}
	from = ((struct task_struct *)ctx[1])->cgroups;
	to = next->cgroups;
	if (st->nr == nr) {
		nr++;
		if (st->cset != (__u64)from)
			goto other;
		if (from == to) {
			VPMU_STORE(&st->nr, nr);
			LEAVE();
		}
	} else {
		nr += KP_BOUND;
		barrier_var(nr); /* else it takes two more registers */
		if (st->nr != nr)
			goto slow;
		nr++;
		if (st->cset != (__u64)from)
			goto other;
		if (maybe_bound((__u32)next->pid)) {
			at = cache_at(cache_key((__u32)next->pid));
			my = BEHIND(st, at * sizeof(struct kp_cached));
			if (my->cache[0].key != (__u64)next ||
			    st->start[at] != next->start_boottime)
				goto other;
			goto found;
		}
	}
	key = cache_key(to->dfl_cgrp->self.serial_nr);
	my = BEHIND(st, cache_at(key) * sizeof(struct kp_cached));
	if (my->cache[0].key != key)
		goto other;
found:
	if (charge_both(st, my, next, to, rq, nr, kind))
		return 0;
slow:
	switch_slow(ctx, st);
	LEAVE();
other:
	switch_other(ctx, st);
	LEAVE();
}

#define ON_SWITCH(name, kind)                                                                      \
	SEC(KP_SEC_SWITCH) int name(unsigned long long *ctx)                                       \
	{                                                                                          \
		return switched(ctx, kind);                                                        \
	}

ON_SWITCH(on_switch, HELPER)
ON_SWITCH(on_switch_symbol, SYMBOL)
ON_SWITCH(on_switch_cast, CAST)
ON_SWITCH(on_switch_any, ANY)

static __always_inline void charge_running(struct kp_cpu *st, __u32 cpu, enum cause cause)
{
	__u64 t = bpf_get_current_task();

	switch_all(st, cpu, t, t, cause);
}

/*
 * If the task was moved during the flush, its account may have been looked up before or after the
 * move. All its time so far is charged, so the css_set is forgotten: from now on it is charged to
 * the cgroup in which the next switch finds it.
 */
static __always_inline int account_flush(struct kp_cpu *st, __u32 cpu)
{
	if (VPMU_LOAD(&st->flushing) != KP_FLUSH_NONE)
		return KP_FLUSH_BUSY;
	VPMU_STORE(&st->flushing, KP_FLUSH_RUNS);
	charge_running(st, cpu, FLUSHES);
	if (__sync_lock_test_and_set(&st->flushing, KP_FLUSH_NONE) == KP_FLUSH_MOVED) {
		VPMU_STORE(&st->cset, 0);
		st->other_cset = 0;
	}
	return 0;
}

/* A program that calls @fn for the CPU it runs on, and its variant of kind ANY. */
#define ON_THIS_CPU(name, section, fn)                                                             \
	SEC(section) int name(void *ctx)                                                           \
	{                                                                                          \
		__u32 cpu = bpf_get_smp_processor_id();                                            \
                                                                                                   \
		return fn(cpu_at(cpu), cpu);                                                       \
	}                                                                                          \
	SEC(section) int name##_any(void *ctx)                                                     \
	{                                                                                          \
		__u32 cpu = bpf_get_smp_processor_id();                                            \
		struct kp_cpu *st = find_cpu(cpu);                                                 \
                                                                                                   \
		return st ? fn(st, cpu) : 0;                                                       \
	}

/* The daemon's note in page @page: KP_END or KP_GAP in @what. */
__noinline int note_totals(__u32 page, __u64 what)
{
	void *inner = bpf_map_lookup_elem(&totals, &page);
	struct vpmu_totals *t;
	__u32 at = 0;

	t = inner ? bpf_map_lookup_elem(inner, &at) : NULL;
	if (!t)
		return 0;
	if (what & KP_END)
		VPMU_STORE(&t->ended, 1);
	if (what & KP_GAP)
		__sync_fetch_and_add(&t->gaps, 1);
	return 0;
}

/* Nonzero if the current account has a page of totals, or if a switch to the running task was
 * missed, so that the account may not be its own. */
static __always_inline int has_totals(struct kp_cpu *st)
{
	return st->at.near == KP_TOTALS ||
	       switches_of(bpf_get_current_task_btf(), st, 1) + 1 != (st->nr & ~KP_BOUND);
}

/*
 * Run on a CPU by BPF_PROG_TEST_RUN: in an inter-processor interrupt, or on the calling CPU by the
 * system call itself, which no other task preempts. Also attached to KP_EXIT_HOOK while there is a
 * page of totals, so that a vCPU's thread finds all its counts there when KVM_RUN has returned.
 */
static __always_inline int account_exit(unsigned long long what, struct kp_cpu *st, __u32 cpu)
{
	if (what & (KP_END | KP_GAP))
		return note_totals((__u32)what, what);
	return what & KP_FLUSH_ASKED || has_totals(st) ? account_flush(st, cpu) : 0;
}

/* Since Linux 7.0 a tracepoint can be preempted: a switch in the middle of a flush would charge the
 * same counts again. */
static __always_inline void hold_cpu(void)
{
	if (CAN_HOLD())
		bpf_preempt_disable();
}

static __always_inline void release_cpu(void)
{
	if (CAN_HOLD())
		bpf_preempt_enable();
}

SEC(KP_SEC_FLUSH) int flush_cpu(unsigned long long *ctx)
{
	__u32 cpu;
	int ret;

	hold_cpu();
	cpu = bpf_get_smp_processor_id();
	ret = account_exit(ctx[0], cpu_at(cpu), cpu);
	release_cpu();
	return ret;
}

SEC(KP_SEC_FLUSH) int flush_cpu_any(unsigned long long *ctx)
{
	struct kp_cpu *st;
	int ret = 0;
	__u32 cpu;

	hold_cpu();
	cpu = bpf_get_smp_processor_id();
	st = find_cpu(cpu);
	if (st)
		ret = account_exit(ctx[0], st, cpu);
	release_cpu();
	return ret;
}

/* The running task was moved to another cgroup: charge its time so far to the old one. */
static __always_inline int account_move(struct kp_cpu *st, __u32 cpu)
{
	if (VPMU_LOAD(&st->flushing) != KP_FLUSH_NONE)
		VPMU_STORE(&st->flushing, KP_FLUSH_MOVED);
	else
		charge_running(st, cpu, MOVES);
	return 0;
}

/* Both attach to KP_MOVE_HOOK: cgroup_migrate.c. */
ON_THIS_CPU(on_move, KP_SEC_MOVE, account_move)
ON_THIS_CPU(on_move_probe, KP_SEC_PROBE, account_move)

/*
 * Fallback if neither hook is available (tracepoint cgroup_attach_task): @t, with its whole process
 * if @group, was moved to @to. A task that moves itself is charged as by on_move. For one that runs
 * on another CPU (@its), the times in each cgroup are unknown: that CPU marks the first and last
 * account when it notices, and this marks those between.
 */
static __always_inline void account_attached(struct kp_cpu *st, __u32 cpu, struct kp_cpu *its,
					     struct task_struct *t, struct cgroup *to, int group)
{
	struct task_struct *ours = bpf_get_current_task_btf();

	if (css_set_of(st) != (__u64)ours->cgroups)
		account_move(st, cpu);
	if (group && t->signal->nr_threads > 1) {
		misses(cgroup_account(address_of(st, to)));
	} else if (t != ours && its && may_run(t)) {
		misses(cgroup_account(address_of(st, to)));
		misses(VPMU_LOAD(&its->at.account));
		if (switches_of(t, its, 1) + 1 != (VPMU_LOAD(&its->nr) & ~KP_BOUND))
			VPMU_STORE(&st->blind, st->blind + 1);
	}
}

SEC(KP_SEC_ATTACH) int on_attach(unsigned long long *ctx)
{
	struct cgroup *to = (void *)ctx[0];
	struct task_struct *t = (void *)ctx[2];
	__u32 cpu = bpf_get_smp_processor_id();

	account_attached(cpu_at(cpu), cpu, cpu_at(t->thread_info.cpu), t, to, ctx[3] & 1);
	return 0;
}

SEC(KP_SEC_ATTACH) int on_attach_any(unsigned long long *ctx)
{
	struct cgroup *to = (void *)ctx[0];
	struct task_struct *t = (void *)ctx[2];
	__u32 cpu = bpf_get_smp_processor_id();
	struct kp_cpu *st = find_cpu(cpu);

	if (st)
		account_attached(st, cpu, find_cpu(next_cpu(t)), t, to, ctx[3] & 1);
	return 0;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
