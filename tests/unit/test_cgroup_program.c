// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The BPF program of the BPF backend, compiled for user space, on random histories of a host: what
 * it charges is compared with a plain model, which remembers no cgroup, no cell and no short way.
 * The test is the kernel (tasks, cgroups, events, clocks, maps) and the daemon.
 *
 *   VPMU_SEED=N        the first history (a failure prints its own)
 *   VPMU_HISTORIES=N   how many; 2,000
 */
#include <criterion/criterion.h>

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static _Bool has_cast;
#define HAS_CAST() has_cast
static _Bool can_hold;
#define CAN_HOLD() can_hold
static void is_in_order(const void *p);
#define STORE_IN_ORDER(p, v) (is_in_order(p), __sync_lock_test_and_set(p, v))
#include "cgroup/bpf/account.bpf.c"

#define CPUS	 2u
#define CGROUPS	 24u
#define CSETS	 32u
#define TASKS	 20u
#define ACCOUNTS 700u /* more than there are near cells */
#define SLOTS	 12u  /* three chunks */
#define NR_PAGES 3u   /* of far cells, per CPU */
#define STEPS	 400u
#define TOTALS	 8u /* accounts from KP_OTHER + 1 on that can have a page of totals */

/* ---- the kernel --------------------------------------------------------------------------- */

static struct {
	struct kernfs_node kn;
	struct cgroup cg;
	int parent;
	__u32 bound; /* account; 0: none */
} cgroup[CGROUPS];
static struct css_set cset[CSETS];
static int cset_cgroup[CSETS];
static struct rq rq[CPUS];
static struct cfs_rq cfs[CPUS];
static struct signal_struct process[2] = {{1}, {2}};
static struct {
	struct task_struct t;
	__u32 bound;
	__u64 start; /* the one the binding is for */
} task[TASKS], idle[CPUS];
static int current[CPUS]; /* task; -1: idle */
static struct {
	struct perf_event e;
	struct bpf_event_entry entry;
	__u64 count, enabled, running;
	int there;
} event[CPUS][VPMU_MAX_SLOTS];
static __u64 mono, ahead[CPUS], serials, ids;
static int sw;			/* the slot of the CPU's number of switches; -1: none */
static int pre;			/* the slot of preemptions by other tenants; -1: none */
static unsigned int here;	/* the CPU that runs */
static unsigned int hides = 40; /* the kernel does not show one of so many switches */

/* ---- the maps ----------------------------------------------------------------------------- */

static _Alignas(64) unsigned char cpu_map[CPUS + 1][KP_CPU_BYTES];
static struct kp_account account_map[KP_PAGE_ACCOUNTS];
static __u32 index_map[KP_CHUNKS][CPUS][KP_PAGE_ACCOUNTS];
static struct kp_cell cell_map[CPUS][NR_PAGES][KP_PAGE_CELLS];
static struct vpmu_totals totals_map[TOTALS];
static struct kp_task task_found;
static const void *inner_of; /* result of the last lookup in an array of maps */
static size_t inner_size;

static struct kp_cpu *state(unsigned int cpu)
{
	return (struct kp_cpu *)cpu_map[cpu];
}

static void *page(const void *base, size_t size)
{
	inner_of = base;
	inner_size = size;
	return (void *)base;
}

static void *find_index(__u32 i)
{
	for (unsigned int chunk = 0; chunk < SLOTS / KP_CHUNK; chunk++)
		for (unsigned int cpu = 0; cpu < CPUS; cpu++)
			if (kp_index_page(CPUS, chunk, cpu, 0) == i)
				return page(index_map[chunk][cpu], sizeof(__u64));
	return NULL;
}

void *bpf_map_lookup_elem(const void *map, const void *key)
{
	__u32 i = *(const __u32 *)key;
	__u64 id;

	if (map == &cpus)
		return i < CPUS ? cpu_map[i] : NULL;
	if (map == &accounts)
		return i ? NULL : page(account_map, sizeof(account_map[0]));
	if (map == &cell_index)
		return find_index(i);
	if (map == &totals)
		return i < TOTALS ? page(&totals_map[i], sizeof(totals_map[0])) : NULL;
	if (map == &cells) {
		unsigned int cpu = i / KP_CELL_PAGES, nr = i % KP_CELL_PAGES;

		return cpu < CPUS && nr < NR_PAGES ? page(cell_map[cpu][nr], sizeof(struct kp_cell))
						   : NULL;
	}
	if (map == &cgroups) {
		id = *(const __u64 *)key;
		for (unsigned int c = 0; c < CGROUPS; c++)
			if (cgroup[c].kn.id == id)
				return cgroup[c].bound ? &cgroup[c].bound : NULL;
		return NULL;
	}
	if (map == &tasks) {
		for (unsigned int t = 0; t < TASKS; t++) {
			if ((__u32)task[t].t.pid != i || !task[t].bound)
				continue;
			task_found = (struct kp_task){task[t].start, task[t].bound, 0};
			return &task_found;
		}
		return NULL;
	}
	cr_assert_eq(map, inner_of, "a lookup in a map that was not looked up");
	return (char *)inner_of + i * inner_size;
}

/* A charge writes cells between an ordered store of last_ns and one of the account, after which it
 * ends: what a reader on a CPU that reorders stores relies on. Looked at in some histories. */
static bool ordered;
static struct {
	__u64 sum;
	bool begun;
} order[CPUS];

static __u64 sum_of(const struct kp_cell *c)
{
	__u64 sum = c->time_ns;

	for (unsigned int i = 0; i < KP_CHUNK; i++)
		sum = sum * 5 + c->row[i].total * 3 + c->row[i].lost;
	return sum;
}

static void is_in_order(const void *p)
{
	const struct kp_cpu *st = state(here);
	__u64 sum = 0;

	if (!ordered)
		return;
	for (__u32 nr = 0; nr <= st->cells; nr++)
		sum += (nr + 1) *
		       sum_of(nr <= KP_NEAR ? &st->near_cell[nr]
					    : &cell_map[here][kp_cell_page(0, nr)][kp_cell_at(nr)]);
	for (__u32 i = 0; i < SLOTS; i++)
		sum += (2 * i + 3) * (st->snap[i] + 7 * st->unclaimed[i]);
	if (p == &st->last_ns) {
		cr_assert_eq(sum, order[here].sum, "cells were written after a charge");
		order[here].begun = true;
	} else if (sum != order[here].sum) {
		cr_assert(order[here].begun, "cells were written before the charge");
		cr_assert_neq(st->done_ns, st->last_ns, "the charge has ended before it is seen");
		order[here].sum = sum;
		order[here].begun = false;
	}
}

static struct css_set *move_in_flush, *move_from; /* where a flush is interrupted: to, from */
static unsigned long long moved_in_flush;
static void call_on_move(void);
static bool ask_in_exit; /* the daemon asks for a flush while an exit's runs */
static unsigned long long asked_in_exit;
static int ask_flush(unsigned long long arg);

static unsigned int flushes, holds; /* flush programs that run; that hold their CPU */

static int slot_of(__u64 index)
{
	cr_assert_eq(holds, can_hold ? flushes : 0, "a switch can come into this flush");
	if (move_in_flush) {
		bpf_get_current_task_btf()->cgroups = move_in_flush;
		move_in_flush = NULL;
		call_on_move();
	}
	if (ask_in_exit) {
		ask_in_exit = false;
		asked_in_exit++;
		cr_assert_eq(ask_flush(KP_FLUSH_ASKED), KP_FLUSH_BUSY);
	}
	cr_assert_eq(index / VPMU_MAX_SLOTS, here, "the event of another CPU");
	return (int)(index % VPMU_MAX_SLOTS);
}

__u64 bpf_perf_event_read(const void *map, __u64 index)
{
	int slot = slot_of(index);

	cr_assert_eq(map, &events);
	return event[here][slot].there && slot != sw && slot != pre ? event[here][slot].count
								    : (__u64)-2;
}

long bpf_perf_event_read_value(const void *map, __u64 index, struct bpf_perf_event_value *v,
			       __u32 size)
{
	int slot = slot_of(index);

	cr_assert(map == &events && size == sizeof(*v));
	if (!event[here][slot].there)
		return -2;
	v->counter = event[here][slot].count;
	v->enabled = event[here][slot].enabled;
	v->running = event[here][slot].running;
	return 0;
}

__u64 bpf_ktime_get_ns(void)
{
	return mono;
}

__u32 bpf_get_smp_processor_id(void)
{
	return here;
}

struct task_struct *bpf_get_current_task_btf(void)
{
	return current[here] < 0 ? &idle[here].t : &task[current[here]].t;
}

__u64 bpf_get_current_task(void)
{
	return (__u64)bpf_get_current_task_btf();
}

/* The array of the map of events is behind the map's address; nothing is there. */
long bpf_probe_read_kernel(void *to, __u32 bytes, const void *from)
{
	__u64 at = (__u64)from - (__u64)&events - offsetof(struct bpf_array, ptrs);

	cr_assert_eq(bytes, sizeof(__u64));
	if (at < CPUS * VPMU_MAX_SLOTS * sizeof(void *)) {
		__u64 i = at / sizeof(void *);
		struct bpf_event_entry *e = &event[i / VPMU_MAX_SLOTS][i % VPMU_MAX_SLOTS].entry;

		*(__u64 *)to = event[i / VPMU_MAX_SLOTS][i % VPMU_MAX_SLOTS].there ? (__u64)e : 0;
		return 0;
	}
	memcpy(to, from, bytes);
	return 0;
}

void *bpf_rdonly_cast(const void *obj, __u32 btf_id)
{
	cr_assert(has_cast);
	cr_assert_eq(btf_id, sizeof(struct perf_event));
	return (void *)obj;
}

void bpf_preempt_disable(void)
{
	cr_assert(can_hold);
	holds++;
}

void bpf_preempt_enable(void)
{
	cr_assert_gt(holds--, 0u);
}

/* ---- the model ---------------------------------------------------------------------------- */

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

/* ---- a history ---------------------------------------------------------------------------- */

static __u64 rnd_state;

static __u64 rnd(__u64 n)
{
	rnd_state ^= rnd_state << 13;
	rnd_state ^= rnd_state >> 7;
	rnd_state ^= rnd_state << 17;
	return rnd_state % n;
}

static void is_true(unsigned int cpu, unsigned int slot, __u64 more)
{
	__u32 a = model_account(current[cpu] < 0 ? &idle[cpu].t : &task[current[cpu]].t);

	if (event[cpu][slot].there && account_map[a].mask >> slot & 1)
		truth[a][slot] += more;
}

static void pass_time(void)
{
	__u64 ns = 2 + rnd(rnd(20) ? 100000 : 300000000), more;

	mono += ns;
	for (unsigned int cpu = 0; cpu < CPUS; cpu++)
		for (unsigned int i = 0; i < SLOTS; i++) {
			if (!event[cpu][i].there)
				continue;
			if ((int)i == pre)
				continue;
			more = (int)i == sw || !rnd(4) ? 0 : rnd(1000);
			is_true(cpu, i, more);
			event[cpu][i].count += more;
			event[cpu][i].e.count.a.a.counter = (__s64)event[cpu][i].count;
			event[cpu][i].enabled += ns;
			event[cpu][i].running += rnd(2) ? ns : ns / 2;
		}
}

/* The kinds of the program must do the same. */
#define KINDS 3
static int (*const program[KINDS])(unsigned long long *ctx) = {on_switch, on_switch_cast,
							       on_switch_any};

/* The CPU is notified that its task was moved. */
static void call_on_move(void)
{
	static int (*const on[KINDS])(void *ctx) = {on_move, on_move_probe, on_move_any};

	on[seed % KINDS](NULL);
}

static void run_move(unsigned int cpu)
{
	struct task_struct *t;

	here = cpu;
	t = bpf_get_current_task_btf();
	call_on_move();
	model_switch(cpu, t, t, MOVES);
}

/* The task that runs on @cpu has moved @t. */
static void run_attach(unsigned int cpu, int t, bool group)
{
	static int (*const on[KINDS])(unsigned long long *ctx) = {on_attach, on_attach,
								  on_attach_any};
	const int to = cset_cgroup[task[t].t.cgroups - cset];
	unsigned long long ctx[4] = {(unsigned long long)&cgroup[to].cg, 0,
				     (unsigned long long)&task[t].t, group};
	struct task_struct *ours;
	__u32 a = KP_OTHER, its = task[t].t.thread_info.cpu;

	here = cpu;
	ours = bpf_get_current_task_btf();
	on[seed % KINDS](ctx);
	if (model[cpu].cset != ours->cgroups)
		model_switch(cpu, ours, ours, MOVES);
	for (int c = to; c >= 0; c = cgroup[c].parent)
		if (cgroup[c].bound) {
			a = cgroup[c].bound;
			break;
		}
	if (group && task[t].t.signal->nr_threads > 1) {
		model_misses(a);
	} else if (current[cpu] != t && task[t].t.on_cpu) {
		model_misses(a);
		model_misses(model[its].account);
		model[cpu].blind += model[its].nr != rq[its].nr_switches;
	}
}

static int ask_flush(unsigned long long arg)
{
	unsigned long long ctx[4] = {arg};
	int ret;

	flushes++;
	ret = seed % KINDS < 2 ? flush_cpu(ctx) : flush_cpu_any(ctx);
	flushes--;
	cr_assert_eq(holds, can_hold ? flushes : 0);
	return ret;
}

static void call_flush(unsigned long long arg)
{
	cr_assert_eq(ask_flush(arg), 0);
}

/* KVM_RUN returns to user space on @cpu. */
static void run_exit(unsigned int cpu)
{
	struct task_struct *t;
	bool due = model[cpu].paged || model[cpu].nr != rq[cpu].nr_switches;

	here = cpu;
	t = bpf_get_current_task_btf();
	ask_in_exit = rnd(4) == 0;
	call_flush(rnd(40));
	ask_in_exit = false;
	exits += due;
	if (due)
		model_switch(cpu, t, t, FLUSHES);
}

/* A CPU that requests a flush of itself can be notified before it. */
static void run_flush(unsigned int cpu)
{
	struct task_struct *t;
	struct css_set *to;

	here = cpu;
	t = bpf_get_current_task_btf();
	move_in_flush = current[cpu] >= 0 && rnd(4) == 0 ? &cset[rnd(CSETS)] : NULL;
	to = move_in_flush;
	move_from = t->cgroups;
	call_flush(KP_FLUSH_ASKED);
	if (!to || move_in_flush) {
		move_in_flush = NULL;
		model_switch(cpu, t, t, FLUSHES);
		return;
	}
	moved_in_flush++;
	t->cgroups = move_from;
	model_switch(cpu, t, t, FLUSHES);
	t->cgroups = to;
	model[cpu].cset = NULL;
}

static bool runs(int t)
{
	for (unsigned int cpu = 0; cpu < CPUS; cpu++)
		if (current[cpu] == t)
			return true;
	return false;
}

static void run_switch(unsigned int cpu, int t)
{
	struct task_struct *prev, *next;
	unsigned long long ctx[4];
	__u32 from, to;
	bool preempted;

	here = cpu;
	if (t == current[cpu] || (t >= 0 && runs(t)))
		return;
	prev = bpf_get_current_task_btf();
	if (sw >= 0)
		is_true(cpu, (unsigned int)sw, 1);
	current[cpu] = t;
	next = bpf_get_current_task_btf();
	next->thread_info.cpu = cpu;
	next->se.cfs_rq = &cfs[cpu];
	prev->on_cpu = 0;
	next->on_cpu = 1;
	ctx[0] = !rnd(3);
	ctx[3] = rnd(3) ? 0 : rnd(256);
	cfs[cpu].throttle_count = !rnd(6);
	preempted = (ctx[0] || !ctx[3]) && !cfs[cpu].throttle_count && prev->pid && next->pid;
	from = model_account(prev);
	to = model_account(next);
	if (pre >= 0 && preempted && event[cpu][pre].there && account_map[from].mask >> pre & 1 &&
	    account_map[from].tenant != account_map[to].tenant)
		truth[from][pre]++;
	rq[cpu].nr_switches++;
	if (sw >= 0 && event[cpu][sw].there)
		event[cpu][sw].count = rq[cpu].nr_switches;
	if (!rnd(hides)) { /* the kernel does not show this one */
		hidden++;
		return;
	}
	rq[cpu].clock = mono - ahead[cpu];
	ctx[1] = (unsigned long long)prev;
	ctx[2] = (unsigned long long)next;
	program[seed % KINDS](ctx);
	if (!rnd(10)) /* a former process's program is attached, too */
		program[seed % KINDS](ctx);
	model_switch(cpu, prev, next, preempted ? PREEMPTIONS : SWITCHES);
}

/* @t was moved. The CPU is notified a little later, if moves are shown and if @t still runs there.
 */
static void tell_of_move(int t)
{
	for (unsigned int cpu = 0; cpu < CPUS; cpu++) {
		if (current[cpu] != t || !cfg.moves || !is_told(task[t].t.cgroups))
			continue;
		pass_time();
		if (rnd(8) == 0)
			run_flush(cpu);
		pass_time();
		if (rnd(8) == 0)
			run_switch(cpu, -1);
		else
			run_move(cpu);
	}
}

/* The daemon: what has changed takes effect with the generation. */
static void changed(void)
{
	cfg.gen++;
	for (unsigned int cpu = 0; cpu < CPUS; cpu++) {
		state(cpu)->want = cfg.gen;
		state(cpu)->until_ns = 0;
	}
}

static __u32 some_account(void)
{
	return KP_OTHER + (__u32)rnd(rnd(4) ? 8 : ACCOUNTS - KP_OTHER);
}

static __u64 some_mask(void)
{
	static const __u64 usual[] = {0, 1, 3, 7, 15, 15, 15, 0xff, 0xfff};

	return rnd(3) ? usual[rnd(9)] : rnd(1 << SLOTS);
}

/* The keys of a mask have events; a mask has a key only after all CPUs know its events. */
static void set_masks(void)
{
	__u64 same = some_mask(), root = rnd(3) ? 0 : some_mask();

	same |= root; /* counts of the root are counts of all */
	account_map[KP_ROOT].mask = root;
	for (__u32 a = KP_OTHER; a < ACCOUNTS; a++)
		account_map[a].mask = rnd(8) ? same : root | (rnd(2) ? 0 : some_mask());
	cfg.usual = 1 + (__u32)rnd(4);
	if (rnd(4) && same && !(same & (same + 1)) && same < 16)
		cfg.usual = (__u32)__builtin_popcountll(same);
}

/* As bpf_backend_totals_open and bpf_backend_totals_close. A CPU that is not interrupted notices at
 * its next switch. */
static void turn_totals(void)
{
	__u32 i = (__u32)rnd(TOTALS), a = KP_OTHER + 1 + i;

	account_map[a].totals = account_map[a].totals ? 0 : i + 1;
	account_map[a].shown = rnd(4) ? ~0ull : rnd(~0ull);
	totals_map[i] = want_page[i] = (struct vpmu_totals){0};
	changed();
	for (unsigned int cpu = 0; cpu < CPUS; cpu++)
		if (rnd(2))
			run_flush(cpu);
}

static void new_event(unsigned int cpu, unsigned int i)
{
	bool same_key = event[cpu][i].there && rnd(2) && (int)i != sw && (int)i != pre;

	state(cpu)->final[i] = same_key ? event[cpu][i].count : KP_NONE;
	if (same_key) /* the end of the former event is part of the key's count */
		ended[cpu][i] += event[cpu][i].count;
	else
		ended[cpu][i] += model[cpu].snap[i];
	state(cpu)->where[i] = 0;
	memset(&event[cpu][i], 0, sizeof(event[cpu][i]));
	event[cpu][i].entry.event = &event[cpu][i].e;
	event[cpu][i].there = 1;
	if ((int)i == sw)
		event[cpu][i].count = rq[cpu].nr_switches;
	if ((int)i == pre)
		event[cpu][i].count = model[cpu].preempted;
	state(cpu)->opened[i]++;
}

static int new_events(void)
{
	unsigned int i = (unsigned int)rnd(SLOTS);

	if (rnd(3))
		cfg.timed &= ~(1ULL << i);
	else
		cfg.timed |= 1ULL << i;
	if (rnd(2) && !(cfg.timed >> i & 1))
		cfg.memory |= 1ULL << i;
	else
		cfg.memory &= ~(1ULL << i);
	if ((int)i == sw || (int)i == pre) {
		cfg.timed &= ~(1ULL << i);
		cfg.memory &= ~(1ULL << i);
	}
	cfg.since_ns = mono;
	for (unsigned int cpu = 0; cpu < CPUS; cpu++)
		if (rnd(10) || event[cpu][i].there) {
			/* As hotplug_renew. */
			if (state(cpu)->seen[i] != state(cpu)->opened[i])
				run_flush(cpu);
			new_event(cpu, i);
		}
	return (int)i;
}

static void end_cgroup(unsigned int c)
{
	serials += 1 + rnd(400); /* so that some share a place in the cache */
	cgroup[c].cg.self.serial_nr = serials;
	cgroup[c].kn.id = ++ids << 8;
	cgroup[c].bound = 0;
}

static void bind_task(unsigned int t)
{
	__u32 bit = kp_task_bit((__u32)task[t].t.pid);

	cfg.tasks -= task[t].bound != 0;
	task_bits[bit / 64] &= ~(1ULL << (bit % 64));
	task[t].bound = rnd(2) ? some_account() : 0;
	/* Sometimes for another task of that number. */
	task[t].start = task[t].t.start_boottime / NS_PER_TICK + !rnd(4);
	cfg.tasks += task[t].bound != 0;
	for (unsigned int i = 0; i < TASKS; i++)
		if (task[i].bound) {
			bit = kp_task_bit((__u32)task[i].t.pid);
			task_bits[bit / 64] |= 1ULL << (bit % 64);
		}
}

static void step(void)
{
	unsigned int cpu = (unsigned int)rnd(CPUS), t = (unsigned int)rnd(TASKS), c;
	bool bound;
	int slot;

	pass_time();
	steps_done++;
	switch (rnd(40)) {
	case 0:
		set_masks();
		changed();
		break;
	case 1:
		c = 1 + (unsigned int)rnd(CGROUPS - 1);
		cgroup[c].bound = rnd(4) ? some_account() : 0;
		changed();
		break;
	case 2: /* an empty cgroup ends, and another one is in its memory */
		c = 1 + (unsigned int)rnd(CGROUPS - 1);
		for (t = 0; t < TASKS; t++)
			if (cset_cgroup[task[t].t.cgroups - cset] == (int)c)
				return;
		for (t = c + 1; t < CGROUPS; t++)
			if (cgroup[t].parent == (int)c)
				return;
		for (t = 0; t < CPUS; t++)
			if (model[t].cset && cset_cgroup[model[t].cset - cset] == (int)c)
				return;
		if (cgroup[c].bound) {
			cgroup[c].bound = 0;
			changed();
		}
		end_cgroup(c);
		break;
	case 3:
	case 4: /* moves, maybe while it runs */
		task[t].t.cgroups = &cset[rnd(CSETS)];
		tell_of_move((int)t);
		if (!cfg.moves && rnd(2))
			run_attach(rnd(2) && task[t].t.on_cpu ? task[t].t.thread_info.cpu : cpu,
				   (int)t, rnd(2));
		break;
	case 5:
		slot = new_events();
		if (rnd(2))
			pass_time();
		changed();
		/* A CPU that is not interrupted takes it up at its next switch. */
		for (unsigned int i = 0; i < CPUS; i++)
			if ((slot != sw && slot != pre) || rnd(2))
				run_flush(i);
		break;
	case 6:
		bound = cfg.tasks != 0;
		bind_task(t);
		changed();
		for (unsigned int i = 0; !bound && i < CPUS; i++) /* as bind() */
			run_flush(i);
		break;
	case 7: /* a task ends, and another one is in its memory and maybe has its number */
		if (runs((int)t))
			break;
		run_switch(cpu, (int)t);
		pass_time(); /* no CPU switches twice in one ns */
		run_switch(cpu, -1);
		task[t].t.start_boottime = mono;
		pass_time();
		run_switch(cpu, (int)t);
		break;
	case 8:
		state(cpu)->cells_max = state(cpu)->cells + (__u32)rnd(4);
		break;
	case 9:
		state(cpu)->cells_max = KP_NEAR + NR_PAGES * KP_PAGE_CELLS;
		break;
	case 10:
		run_flush(cpu);
		if (rnd(4) == 0) /* in the same ns */
			run_flush(cpu);
		break;
	case 12: /* as moves_look */
		if (rnd(4))
			break;
		if (!cfg.moves)
			changed();
		cfg.moves = cfg.moves ? 0 : cfg.gen;
		break;
	case 13:
		if (seed % 4)
			turn_totals();
		break;
	case 14:
	case 15:
		run_exit(cpu);
		break;
	case 11: /* a timer tick */
		rq[cpu].clock = mono - ahead[cpu];
		break;
	default:
		run_switch(cpu, rnd(5) ? (int)t : -1);
	}
}

/* ---- comparing ---------------------------------------------------------------------------- */

static const struct kp_cell *charged_cell(unsigned int cpu, __u32 a, unsigned int chunk)
{
	__u32 nr = index_map[chunk][cpu][a];

	if (!nr)
		return NULL;
	return nr <= KP_NEAR ? &state(cpu)->near_cell[nr]
			     : &cell_map[cpu][kp_cell_page(0, nr)][kp_cell_at(nr)];
}

static void compare(void)
{
	__u64 got[SLOTS], lost[SLOTS], ns[SLOTS / KP_CHUNK], sum[CPUS][SLOTS] = {{0}};
	const struct kp_cell *cell;

	for (__u32 a = 0; a < ACCOUNTS; a++) {
		memset(got, 0, sizeof(got));
		memset(lost, 0, sizeof(lost));
		memset(ns, 0, sizeof(ns));
		for (unsigned int cpu = 0; cpu < CPUS; cpu++)
			for (unsigned int i = 0; i < SLOTS; i++) {
				cell = charged_cell(cpu, a, i / KP_CHUNK);
				if (!cell)
					continue;
				got[i] += cell->row[i % KP_CHUNK].total;
				lost[i] += cell->row[i % KP_CHUNK].lost;
				sum[cpu][i] += cell->row[i % KP_CHUNK].total;
				if (i % KP_CHUNK == 0)
					ns[i / KP_CHUNK] += cell->time_ns;
			}
		exhausted += account_map[a].lacks;
		if (account_map[a].missed != want_missed[a])
			cr_assert_fail("seed %llu: account %u: %u switches missed, not %u", seed, a,
				       account_map[a].missed, want_missed[a]);
		for (unsigned int i = 0; i < SLOTS; i++) {
			if (account_map[a].lacks ? got[i] > want_total[a][i]
						 : got[i] != want_total[a][i])
				cr_assert_fail("seed %llu: account %u, slot %u: %llu, not %llu",
					       seed, a, i, got[i], want_total[a][i]);
			if (!account_map[a].lacks && lost[i] != want_lost[a][i])
				cr_assert_fail("seed %llu: account %u, slot %u: %llu ns lost, not "
					       "%llu",
					       seed, a, i, lost[i], want_lost[a][i]);
		}
		for (unsigned int i = 0; i < SLOTS / KP_CHUNK; i++)
			if (!account_map[a].lacks && ns[i] != want_ns[a][i])
				cr_assert_fail("seed %llu: account %u, chunk %u: %llu ns, not %llu",
					       seed, a, i, ns[i], want_ns[a][i]);
	}
	for (unsigned int i = 0; i < TOTALS; i++) {
		const struct vpmu_totals *t = &totals_map[i], *want = &want_page[i];

		cr_assert(t->seq % 2 == 0, "seed %llu: page %u: sequence %llu", seed, i, t->seq);
		if (account_map[KP_OTHER + 1 + i].lacks)
			continue;
		if (t->time_ns != want->time_ns || t->gaps != want->gaps)
			cr_assert_fail("seed %llu: page %u: %llu ns and %llu gaps, not %llu and "
				       "%llu",
				       seed, i, t->time_ns, t->gaps, want->time_ns, want->gaps);
		for (unsigned int n = 0; n < SLOTS; n++)
			if (t->row[n].total != want->row[n].total ||
			    t->row[n].lost != want->row[n].lost)
				cr_assert_fail("seed %llu: page %u, slot %u: %llu, %llu ns lost; "
					       "not %llu, %llu",
					       seed, i, n, t->row[n].total, t->row[n].lost,
					       want->row[n].total, want->row[n].lost);
	}
	for (unsigned int cpu = 0; cpu < CPUS; cpu++)
		for (unsigned int i = 0; i < SLOTS; i++) {
			__u64 counted = state(cpu)->snap[i] + ended[cpu][i];

			sum[cpu][i] += kp_unclaimed(state(cpu), i);
			if (model[cpu].seen[i] != state(cpu)->opened[i]) /* not taken up */
				counted -= model[cpu].snap[i];
			if (sum[cpu][i] != counted || state(cpu)->snap[i] != model[cpu].snap[i])
				cr_assert_fail("seed %llu: CPU %u, slot %u: charged %llu of %llu",
					       seed, cpu, i, sum[cpu][i], counted);
		}
	for (unsigned int cpu = 0; cpu < CPUS; cpu++)
		cr_assert(kp_mask(state(cpu)) == model[cpu].mask &&
				  state(cpu)->at.account == model[cpu].account &&
				  state(cpu)->missed == model[cpu].missed &&
				  state(cpu)->moved == model[cpu].moved &&
				  state(cpu)->blind == model[cpu].blind &&
				  state(cpu)->done_ns == state(cpu)->last_ns,
			  "seed %llu: CPU %u is in account %u, not %u", seed, cpu,
			  state(cpu)->at.account, model[cpu].account);
}

static void begin(void)
{
	memset(cpu_map, 0, sizeof(cpu_map));
	memset(task_bits, 0, sizeof(task_bits));
	memset(account_map, 0, sizeof(account_map));
	memset(index_map, 0, sizeof(index_map));
	memset(cell_map, 0, sizeof(cell_map));
	memset(event, 0, sizeof(event));
	memset(model, 0, sizeof(model));
	memset(want_total, 0, sizeof(want_total));
	memset(want_lost, 0, sizeof(want_lost));
	memset(want_missed, 0, sizeof(want_missed));
	memset(totals_map, 0, sizeof(totals_map));
	memset(want_page, 0, sizeof(want_page));
	memset(want_ns, 0, sizeof(want_ns));
	memset(ended, 0, sizeof(ended));
	memset(task, 0, sizeof(task));
	memset(order, 0, sizeof(order));
	ordered = seed % 16 < KINDS;
	rnd_state = seed * 0x9e3779b97f4a7c15ULL + 1;
	cfg = (struct kp_cfg){.schema = KP_SCHEMA, .nr_cpus = CPUS, .usual = 1};
	mono = 1000000000 + rnd(1000000000);
	serials = 0;
	for (unsigned int c = 0; c < CGROUPS; c++) {
		end_cgroup(c);
		if (!c)
			cgroup[c].cg.self.serial_nr = 0; /* the root's */
		cgroup[c].parent = c ? (int)rnd(c) : -1;
		cgroup[c].cg.kn = &cgroup[c].kn;
		cgroup[c].cg.self.cgroup = &cgroup[c].cg;
		cgroup[c].cg.self.parent = c ? &cgroup[cgroup[c].parent].cg.self : NULL;
		if (c && rnd(2))
			cgroup[c].bound = some_account();
	}
	for (unsigned int i = 0; i < CSETS; i++) {
		cset_cgroup[i] = i < CGROUPS ? (int)i : (int)rnd(CGROUPS);
		cset[i].dfl_cgrp = &cgroup[cset_cgroup[i]].cg;
		/* Some are not distinguished from the root. */
		cset[i].subsys[perf_event_cgrp_id] =
			&cgroup[cset_cgroup[i] % 5 ? cset_cgroup[i] : 0].cg.self;
	}
	for (unsigned int t = 0; t < TASKS; t++) {
		task[t].t.pid = 100 + (int)t * (rnd(4) ? 1 : 512);
		task[t].t.start_boottime = rnd(mono);
		task[t].t.cgroups = &cset[rnd(CSETS)];
		task[t].t.se.cfs_rq = &cfs[0];
		task[t].t.signal = &process[rnd(2)];
	}
	for (unsigned int cpu = 0; cpu < CPUS; cpu++) {
		current[cpu] = -1;
		ahead[cpu] = rnd(1000000);
		cfs[cpu].rq = &rq[cpu];
		rq[cpu].clock = mono - ahead[cpu] - rnd(1000000);
		rq[cpu].nr_switches = 1 + rnd(1000);
		idle[cpu].t.cgroups = &cset[0];
		idle[cpu].t.se.cfs_rq = &cfs[cpu];
		/* As backend_attach leaves it. */
		state(cpu)->gen = cfg.gen - 1;
		state(cpu)->usual = 1;
		state(cpu)->cells_max = KP_NEAR + NR_PAGES * KP_PAGE_CELLS;
		/* So that some cells are far ones. */
		state(cpu)->cells = rnd(2) ? 0 : KP_NEAR - (__u32)rnd(30);
		model[cpu].gen = cfg.gen - 1;
		model[cpu].nr = rq[cpu].nr_switches;
		model[cpu].last_ns = mono - 1; /* the program's times only grow */
	}
	can_hold = rnd(2);
	has_cast = seed % KINDS == 1 || (seed % KINDS == 2 && rnd(2));
	sw = rnd(3) ? (int)rnd(SLOTS) : -1;
	pre = rnd(2) ? (int)rnd(SLOTS) : -1;
	pre = pre == sw ? -1 : pre;
	for (__u32 a = 0; a < ACCOUNTS; a++)
		account_map[a].tenant = a % 5;
	for (unsigned int i = 0; i < SLOTS; i++)
		for (unsigned int cpu = 0; cpu < CPUS; cpu++)
			if (i < 4 || rnd(10))
				new_event(cpu, i);
	cfg.switches = sw >= 0 ? 1ULL << sw : 0;
	cfg.preempts = pre >= 0 ? 1ULL << pre : 0;
	cfg.timed = rnd(2) ? 0 : rnd(1 << SLOTS) & ~cfg.switches & ~cfg.preempts;
	cfg.memory = rnd(1 << SLOTS) & ~cfg.timed & ~cfg.switches & ~cfg.preempts;
	cfg.since_ns = mono;
	changed();
	cfg.moves = rnd(3) ? cfg.gen : 0;
	for (unsigned int cpu = 0; cpu < CPUS; cpu++)
		run_flush(cpu);
	set_masks();
	changed();
}

Test(cgroup_program, charges_as_the_model)
{
	const char *first = getenv("VPMU_SEED"), *many = getenv("VPMU_HISTORIES");
	unsigned long long n = many ? strtoull(many, NULL, 0) : 2000;

	seed = first ? strtoull(first, NULL, 0) : 1;
	for (; n; n--, seed++) {
		begin();
		for (unsigned int i = 0; i < STEPS; i++) {
			step();
			if (i % 50 == 49)
				compare();
		}
		pass_time();
		for (unsigned int cpu = 0; cpu < CPUS; cpu++)
			run_flush(cpu);
		compare();
	}
	printf("# %llu steps; %llu times an account had lacked a cell; %llu switches hidden; "
	       "%llu times accounts were marked; %llu flushes interrupted; %llu "
	       "charges to pages, %llu exits, %llu of them interrupted; %llu preemptions\n",
	       steps_done, exhausted, hidden, marked, moved_in_flush, paged, exits, asked_in_exit,
	       preemptions);
	cr_assert(exhausted && hidden && marked && moved_in_flush);
	cr_assert_gt(preemptions, 1000);
	cr_assert(paged > 1000 && exits > 1000 && asked_in_exit);
}

/* ---- unmarked counts are right ------------------------------------------------------------ */

static void charged_rows(__u64 got[ACCOUNTS][SLOTS])
{
	const struct kp_cell *cell;

	for (__u32 a = 0; a < ACCOUNTS; a++)
		for (unsigned int i = 0; i < SLOTS; i++) {
			got[a][i] = 0;
			for (unsigned int cpu = 0; cpu < CPUS; cpu++) {
				cell = charged_cell(cpu, a, i / KP_CHUNK);
				got[a][i] += cell ? cell->row[i % KP_CHUNK].total : 0;
			}
		}
}

/* The kernel's view of moves. */
enum shows { ALL_MOVES, OWN_MOVES, NO_MOVES };

/* A move of a task, maybe while it runs. If no program sees moves, a second one before the next
 * look cannot be noticed, nor one of a task of which it is not known that it runs. */
static void move_truly(enum shows shows, bool by_others, bool *moved)
{
	unsigned int t = (unsigned int)rnd(TASKS), cpu = task[t].t.thread_info.cpu;
	bool runs = task[t].t.on_cpu;

	if (runs && shows == NO_MOVES &&
	    (moved[cpu] || (state(cpu)->nr & ~KP_BOUND) != rq[cpu].nr_switches + 1))
		return;
	task[t].t.cgroups = &cset[rnd(CSETS)];
	moved[cpu] |= runs;
	if (shows == ALL_MOVES && runs)
		run_move(cpu);
	if (shows != OWN_MOVES)
		return;
	if (runs && !by_others)
		run_attach(cpu, (int)t, false);
	else if (runs && rnd(4) == 0) /* it goes before the notification */
		run_switch(cpu, -1);
	if (by_others || !runs)
		run_attach(runs ? !cpu : cpu, (int)t, by_others && rnd(8) == 0);
}

static bool is_right(enum shows shows, bool by_others, unsigned int *exact, unsigned int *partial)
{
	static __u64 was[ACCOUNTS][SLOTS], got[ACCOUNTS][SLOTS];
	__u32 missed[ACCOUNTS], blind = 0;
	bool moved[CPUS] = {false};

	for (unsigned int cpu = 0; cpu < CPUS; cpu++) {
		run_flush(cpu);
		blind -= state(cpu)->blind;
	}
	charged_rows(was);
	memset(truth, 0, sizeof(truth));
	for (__u32 a = 0; a < ACCOUNTS; a++)
		missed[a] = account_map[a].missed;
	for (unsigned int i = 0; i < STEPS; i++) {
		unsigned int cpu = (unsigned int)rnd(CPUS), usually = hides;

		pass_time();
		switch (rnd(20)) {
		case 0:
			here = cpu;
			call_flush(KP_FLUSH_ASKED);
			model_switch(cpu, bpf_get_current_task_btf(), bpf_get_current_task_btf(),
				     FLUSHES);
			moved[cpu] = false;
			break;
		case 1:
		case 2:
			move_truly(shows, by_others, moved);
			break;
		default:
			if (shows == NO_MOVES && moved[cpu])
				hides = 1U << 31;
			run_switch(cpu, rnd(5) ? (int)rnd(TASKS) : -1);
			moved[cpu] = false;
			hides = usually;
		}
	}
	for (unsigned int cpu = 0; cpu < CPUS; cpu++) {
		run_flush(cpu);
		blind += state(cpu)->blind;
	}
	charged_rows(got);
	for (__u32 a = KP_OTHER; a < ACCOUNTS; a++)
		for (unsigned int i = 0; i < SLOTS; i++) {
			if (account_map[a].missed != missed[a] || blind || account_map[a].lacks) {
				++*partial;
				continue;
			}
			*exact += truth[a][i] != 0;
			if (got[a][i] - was[a][i] == truth[a][i])
				continue;
			printf("# seed %llu: account %u, slot %u: %llu, and %llu is true\n", seed,
			       a, i, got[a][i] - was[a][i], truth[a][i]);
			return false;
		}
	return true;
}

/* Whatever switches and moves the kernel does not show: a row is what ran, or it is marked. If all
 * is shown no row is marked. */
Test(cgroup_program, a_row_that_is_not_marked_is_right)
{
	unsigned int exact = 0, partial = 0, few;

	for (seed = 1; seed < 1200; seed++) {
		const enum shows shows = seed / KINDS % 3;
		const bool hiding = seed / (3 * KINDS) % 2, by_others = seed / (6 * KINDS) % 2;

		begin();
		for (unsigned int t = 0; t < TASKS / 4 && rnd(2); t++)
			bind_task(t);
		for (unsigned int i = 0; i < CSETS; i++)
			cset[i].subsys[perf_event_cgrp_id] = &cset[i].dfl_cgrp->self;
		cfg.moves = shows == ALL_MOVES ? cfg.gen + 1 : 0;
		changed();
		for (unsigned int cpu = 0; cpu < CPUS; cpu++)
			run_flush(cpu);
		hides = hiding ? 10 + (unsigned int)rnd(200) : 1U << 31;
		few = partial;
		cr_assert(is_right(shows, by_others, &exact, &partial));
		if (!hiding && (shows == ALL_MOVES || (shows == OWN_MOVES && !by_others)))
			cr_assert_eq(partial, few, "seed %llu: all is shown, and rows are marked",
				     seed);
	}
	printf("# %u rows that were charged are right, %u are marked\n", exact, partial);
	cr_assert(exact > 1000 && partial > 1000);
}

/* Sums of all rows, and of all events, of the slots that the root counts. */
static void whole_counts(__u64 whole, __u64 charged[SLOTS], __u64 counted[SLOTS])
{
	static __u64 got[ACCOUNTS][SLOTS];

	charged_rows(got);
	for (unsigned int i = 0; i < SLOTS; i++) {
		charged[i] = counted[i] = 0;
		if (!(whole >> i & 1) || (int)i == sw || (int)i == pre)
			continue;
		for (__u32 a = 0; a < ACCOUNTS; a++)
			charged[i] += got[a][i];
		for (unsigned int cpu = 0; cpu < CPUS; cpu++)
			counted[i] += event[cpu][i].there ? event[cpu][i].count : 0;
	}
}

/* The root's values are never marked for switches that the kernel does not show: they are whole,
 * also at the end of a session. Its keys go from the masks first, then each CPU is interrupted. */
Test(cgroup_program, what_the_root_counts_is_whole)
{
	unsigned int some = 0;

	for (seed = 1; seed < 1200; seed++) {
		__u64 charged[2][SLOTS], counted[2][SLOTS], whole;

		begin();
		whole = account_map[KP_ROOT].mask;
		if (!whole)
			continue;
		for (unsigned int cpu = 0; cpu < CPUS; cpu++)
			run_flush(cpu);
		whole_counts(whole, charged[0], counted[0]);
		hides = 2 + (unsigned int)rnd(10);
		for (unsigned int i = 0; i < STEPS; i++) {
			pass_time();
			run_switch((unsigned int)rnd(CPUS), rnd(5) ? (int)rnd(TASKS) : -1);
		}
		for (__u32 a = KP_ROOT; a < ACCOUNTS; a++)
			account_map[a].mask = 0;
		changed();
		for (unsigned int cpu = 0; cpu < CPUS; cpu++)
			run_flush(cpu);
		whole_counts(whole, charged[1], counted[1]);
		for (unsigned int i = 0; i < SLOTS; i++) {
			cr_assert_eq(charged[1][i] - charged[0][i], counted[1][i] - counted[0][i],
				     "seed %llu, slot %u: %llu of %llu", seed, i,
				     charged[1][i] - charged[0][i], counted[1][i] - counted[0][i]);
			some += charged[1][i] != charged[0][i];
		}
	}
	cr_assert_gt(some, 100);
}

/* The two clocks drift apart after the program has compared them, so that a flush is ahead of the
 * CPU's clock. */
Test(cgroup_program, time_goes_on_after_a_flush_that_was_ahead)
{
	const int cpu = 0;
	__u64 last;

	for (seed = 1; seed < 200; seed++) {
		begin();
		for (unsigned int i = 0; i < TASKS; i++) {
			pass_time();
			run_switch(cpu, (int)i);
		}
		mono += 1000;
		ahead[cpu] += 50000;
		run_flush(cpu);
		last = state(cpu)->last_ns;
		for (unsigned int i = 0; i < 2 * TASKS; i++) {
			mono += 5000;
			run_switch(cpu, (int)(i % TASKS));
			cr_assert(state(cpu)->last_ns >= last, "seed %llu: %llu ns back", seed,
				  last - state(cpu)->last_ns);
			last = state(cpu)->last_ns;
		}
	}
}
