/* SPDX-License-Identifier: GPL-2.0-or-later OR BSD-2-Clause */
/*
 * What ran on a CPU since its last charge, as the programs of account.bpf.c find out when the usual
 * switch does not apply. It must never call an interval known that may have been divided.
 */
#pragma once

#include "cgroup/bpf/switch.bpf.h"

/* This interval cannot be divided among the accounts that ran: mark @account as inexact. */
__noinline int misses(__u32 account)
{
	struct kp_account *a = account_of(account);
	struct vpmu_totals *t = page_of(a);

	if (a)
		__sync_fetch_and_add(&a->missed, 1);
	if (t)
		__sync_fetch_and_add(&t->gaps, 1);
	return 0;
}

/* The reason for the slow path. */
enum cause {
	SWITCHES,
	PREEMPTIONS, /* the same; the task could go on: is_preempted() */
	FLUSHES,
	MOVES, /* the running task was just moved to another cgroup */
};

/* Knowledge of the interval since the last charge. */
enum known {
	ALL_KNOWN, /* only the current account ran */
	A_MOVE,	   /* the current account ran, then @prev's account, for unknown parts */
	NOT_KNOWN, /* switches were missed: both ran, and perhaps others */
};

static __always_inline __u64 css_set_of(const struct kp_cpu *st)
{
	return st->cset ? st->cset : st->other_cset;
}

/*
 * Classify the interval since the last charge. It ends now because a task, now of css_set @to, is
 * switched away or inspected. @p: the task's account now; @missed: switches that were not seen.
 *
 * A task that was moved while it ran has another css_set than when the CPU switched to it. If moves
 * are seen (kp_cfg.moves), on_move has charged the time before the move, or is about to: the
 * interval is the time before the move. This also holds if the task is switched away between its
 * move and on_move, which then finds that the task does not run.
 */
static __always_inline enum known what_ran(struct kp_cpu *st, __u64 to, __u32 p, __u32 missed,
					   __u32 cause)
{
	__u32 moves = VPMU_LOAD(&cfg.moves);

	/* A single missed switch within one account loses nothing. */
	if (missed > 1 || (missed && (p != st->at.account || !css_set_of(st))))
		return NOT_KNOWN;
	if (missed || p == st->at.account || css_set_of(st) == to)
		return ALL_KNOWN;
	if (cause == MOVES || (moves && moves == st->moves && is_shown(to)))
		return ALL_KNOWN;
	return A_MOVE;
}

/*
 * Nonzero if the task that is switched away from could go on, as the kernel counts involuntary
 * switches, and another one took its place. The tracepoint's arguments: whether the kernel was
 * preempted, and the task's state. A task of a group that has used up its quota could not go on.
 */
static __always_inline int is_preempted(const unsigned long long *ctx)
{
	const struct task_struct *prev = (void *)ctx[1], *next = (void *)ctx[2];

	if ((!(ctx[0] & 1) && (__u32)ctx[3]) || !prev->pid || !next->pid)
		return 0;
	return !bpf_core_field_exists(struct cfs_rq, throttle_count) ||
	       !prev->se.cfs_rq->throttle_count;
}
