/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What the BPF program must charge, for test_cgroup_program: a plain model, which remembers no
 * cgroup, no cell and no short way. */
#ifndef TESTS_UNIT_CGROUP_PROGRAM_MODEL_H
#define TESTS_UNIT_CGROUP_PROGRAM_MODEL_H

#include "cgroup_program_kernel.h"

static struct {
	__u64 snap[SLOTS], gap[SLOTS], unclaimed[SLOTS], mask, whole, last_ns;
	__u64 nr, preempted;
	__u32 account, gen, seen[SLOTS], missed, moved, blind;
	__u32 moves;
	bool bound;
	bool paged;		    /* the account has a page of totals, as of its lookup */
	const struct css_set *cset; /* NULL: not known */
} model[CPUS];
static struct vpmu_totals want_page[TOTALS];
static unsigned long long paged, exits;
static __u64 want_total[ACCOUNTS][SLOTS], want_lost[ACCOUNTS][SLOTS],
	want_ns[ACCOUNTS][SLOTS / KP_CHUNK], ended[CPUS][SLOTS];
static __u32 want_missed[ACCOUNTS];
static __u64 truth[ACCOUNTS][SLOTS]; /* the running task when it was counted */
static unsigned long long seed, steps_done, exhausted, hidden, marked, preemptions;

/* Where a task runs. */
static __u32 model_account(const struct task_struct *t)
{
	for (unsigned int i = 0; i < TASKS; i++)
		if (&task[i].t == t && task[i].bound &&
		    task[i].start == t->start_boottime / NS_PER_TICK)
			return task[i].bound;
	for (int c = cset_cgroup[t->cgroups - cset]; c >= 0; c = cgroup[c].parent)
		if (cgroup[c].bound)
			return cgroup[c].bound;
	return KP_OTHER;
}

/* The page of totals of account @a; NULL: it has none. */
static struct vpmu_totals *model_page(__u32 a)
{
	return account_map[a].totals ? &want_page[account_map[a].totals - 1] : NULL;
}

static void model_misses(__u32 a)
{
	struct vpmu_totals *t = model_page(a);

	want_missed[a]++;
	if (t)
		t->gaps++;
}

static bool has_page(__u32 a)
{
	return account_map[a].totals && account_map[a].mask;
}

/* Returns whether anything was counted. */
static bool model_charge(unsigned int cpu, unsigned int slot, bool owed, __u64 ran_ns)
{
	__u64 now = event[cpu][slot].count,
	      gap = event[cpu][slot].enabled - event[cpu][slot].running;
	__u32 a = model[cpu].account;
	bool some = now != model[cpu].snap[slot];
	struct vpmu_totals none = {0}, *t = model[cpu].paged ? model_page(a) : NULL;

	t = t && account_map[a].shown >> slot & 1 ? t : &none;

	if (!event[cpu][slot].there || (((int)slot == sw || (int)slot == pre) &&
					model[cpu].seen[slot] != state(cpu)->opened[slot])) {
		want_lost[a][slot] += owed ? ran_ns : 0;
		t->row[slot].lost += owed ? ran_ns : 0;
		return false;
	}
	if (owed) {
		want_total[a][slot] += now - model[cpu].snap[slot];
		t->row[slot].total += now - model[cpu].snap[slot];
	} else {
		model[cpu].unclaimed[slot] += now - model[cpu].snap[slot];
	}
	model[cpu].snap[slot] = now;
	if (!(cfg.timed >> slot & 1))
		return some;
	if (owed && model[cpu].gap[slot] != KP_NONE) {
		want_lost[a][slot] += gap - model[cpu].gap[slot];
		t->row[slot].lost += gap - model[cpu].gap[slot];
	}
	model[cpu].gap[slot] = gap;
	return some;
}

/* True if a CPU is notified of a move there. */
static bool is_told(const struct css_set *to)
{
	return to->subsys[perf_event_cgrp_id] == &to->dfl_cgrp->self;
}

static void model_switch(unsigned int cpu, const struct task_struct *prev,
			 const struct task_struct *next, enum cause cause)
{
	bool fresh_gen = model[cpu].gen != cfg.gen, flush = cause >= FLUSHES;
	bool shown = cause == MOVES ||
		     (cfg.moves && model[cpu].moves == cfg.moves && is_told(prev->cgroups));
	bool same = prev->cgroups == model[cpu].cset, unseen, moved, some = false;
	__u64 owed = model[cpu].mask, fresh = 0, read, since, now = mono, ran;
	__u32 missed = (__u32)(rq[cpu].nr_switches - model[cpu].nr - !flush);
	__u32 to = model_account(next), p = model_account(prev), former = model[cpu].account;

	model[cpu].nr = rq[cpu].nr_switches;
	if (!flush && !missed && same && prev->cgroups == next->cgroups && !model[cpu].bound)
		return; /* not looked at */
	model[cpu].missed += missed;
	unseen = missed > 1 || (missed && (p != former || !model[cpu].cset));
	moved = !missed && model[cpu].cset && !same && p != former && !shown;
	if (unseen) {
		owed &= model[cpu].whole;
		model[cpu].account = KP_OTHER;
		model[cpu].paged = false;
	} else if (!missed && !model[cpu].cset) {
		model[cpu].account = p;
		model[cpu].paged = has_page(p);
		owed &= account_map[p].mask;
	}
	if (unseen || moved)
		model[cpu].mask |= account_map[p].mask;
	if (cause == PREEMPTIONS && !unseen && !moved && owed & cfg.preempts &&
	    account_map[model[cpu].account].tenant != account_map[to].tenant) {
		event[cpu][pre].count = ++model[cpu].preempted;
		event[cpu][pre].e.count.a.a.counter = (__s64)event[cpu][pre].count;
		preemptions++;
	}
	since = model[cpu].last_ns;
	if (now <= since) /* two in one ns: readers see by the time that the CPU has charged */
		now = since + 1;
	if (fresh_gen) {
		for (unsigned int i = 0; i < SLOTS; i++) {
			if (state(cpu)->opened[i] == model[cpu].seen[i])
				continue;
			model[cpu].seen[i] = state(cpu)->opened[i];
			if (state(cpu)->final[i] != KP_NONE)
				model[cpu].unclaimed[i] +=
					state(cpu)->final[i] - model[cpu].snap[i];
			model[cpu].snap[i] = (int)i == sw    ? event[cpu][i].count - !flush
					     : (int)i == pre ? event[cpu][i].count
							     : 0;
			ended[cpu][i] -= model[cpu].snap[i];
			model[cpu].gap[i] = cfg.timed >> i & 1 ? 0 : KP_NONE;
			fresh |= 1ULL << i;
		}
		owed &= ~fresh;
		if (fresh && !owed && since < cfg.since_ns)
			since = cfg.since_ns;
		owed |= unseen ? 0 : fresh & account_map[model[cpu].account].mask;
	}
	read = account_map[to].mask | owed | (model[cpu].mask & ~fresh);
	if ((to != model[cpu].account || flush || moved || unseen || fresh_gen) && read) {
		ran = now > since ? now - since : 0;
		if (owed && model[cpu].paged && model_page(model[cpu].account)) {
			model_page(model[cpu].account)->time_ns += ran;
			paged++;
		}
		for (unsigned int i = 0; i < SLOTS / KP_CHUNK; i++)
			if (owed >> (i * KP_CHUNK) & 15)
				want_ns[model[cpu].account][i] += ran;
		for (unsigned int i = 0; i < SLOTS; i++)
			if (read >> i & 1)
				some |= model_charge(cpu, i, owed >> i & 1, ran);
		model[cpu].last_ns = now;
	}
	if ((some || model[cpu].mask & ~fresh & cfg.preempts) && (unseen || moved)) {
		model_misses(former);
		model_misses(p);
		if (unseen && owed)
			model_misses(KP_OTHER);
		model[cpu].moved += moved;
		model[cpu].blind += missed > 1 || (missed && cause == MOVES);
		marked++;
	}
	model[cpu].account = to;
	model[cpu].paged = has_page(to);
	model[cpu].mask = account_map[to].mask;
	model[cpu].cset = next->cgroups;
	if (fresh_gen) {
		model[cpu].moves = cfg.moves;
		model[cpu].whole = account_map[KP_ROOT].mask;
	}
	model[cpu].gen = cfg.gen;
	model[cpu].bound = cfg.tasks != 0;
}

#endif
