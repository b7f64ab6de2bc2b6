// SPDX-License-Identifier: GPL-2.0-or-later OR BSD-2-Clause
/*
 * The program of the kernel plane. At each context switch of a CPU it finds the account of the next
 * task, and charges what the CPU's events have counted since the last charge to the account that
 * ran. plane.c loads it; docs/kernel-plane.md explains it.
 *
 * Both programs run with interrupts off, so a CPU never runs two of them at a time, and each CPU
 * writes its own state and cells only. There are no locks. The program must never guess: what it
 * cannot charge to an account is unclaimed, and is still in the sum.
 */
#include <linux/bpf.h>

#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

#include "cgroup/kernel/btf.h"
#include "cgroup/kernel/maps.h"

#define NS_PER_TICK 10000000ULL /* of a start time in /proc: USER_HZ is 100 */

/* Linux 6.2. Without it events are read by a helper. */
extern void *bpf_rdonly_cast(const void *obj, __u32 btf_id) __ksym __weak;

struct kp_cfg cfg = {.schema = KP_SCHEMA};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1); /* the daemon sets it: CPUs + 1 */
	__type(key, __u32);
	__type(value, struct kp_cpu);
} cpus SEC(".maps");

/* By slot * CPUs + CPU. The events stay when the process that opened them ends. */
struct {
	__uint(type, BPF_MAP_TYPE_PERF_EVENT_ARRAY);
	__uint(map_flags, BPF_F_PRESERVE_ELEMS);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u32);
} events SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, KP_MAX_BINDINGS);
	__type(key, __u64);
	__type(value, __u32);
} cgroups SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, KP_MAX_BINDINGS);
	__type(key, __u32);
	__type(value, struct kp_task);
} tasks SEC(".maps");

/* A bit for each task number modulo KP_TASK_BITS that is in tasks. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, KP_TASK_BITS / 64);
	__type(key, __u32);
	__type(value, __u64);
} task_bits SEC(".maps");

struct account_page {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, KP_PAGE_ACCOUNTS);
	__uint(key_size, sizeof(__u32));
	__uint(value_size, sizeof(struct kp_account));
};

struct index_page {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, KP_PAGE_ACCOUNTS / 2);
	__uint(key_size, sizeof(__u32));
	__uint(value_size, sizeof(__u64)); /* two accounts: an element is a multiple of 8 bytes */
};

struct cell_page {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, KP_PAGE_CELLS);
	__uint(key_size, sizeof(__u32));
	__uint(value_size, sizeof(struct kp_cell));
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);
	__uint(max_entries, KP_ACCOUNT_PAGES);
	__type(key, __u32);
	__array(values, struct account_page);
} accounts SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);
	__uint(max_entries, 1);
	__type(key, __u32);
	__array(values, struct index_page);
} cell_index SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);
	__uint(max_entries, 1);
	__type(key, __u32);
	__array(values, struct cell_page);
} cells SEC(".maps");

/* ---- accounts ----------------------------------------------------------------------------- */

static __always_inline struct kp_account *account_of(__u32 account)
{
	__u32 page = account / KP_PAGE_ACCOUNTS, at = account % KP_PAGE_ACCOUNTS;
	void *inner = bpf_map_lookup_elem(&accounts, &page);

	return inner ? bpf_map_lookup_elem(inner, &at) : NULL;
}

/* Cheap: whether the task can be a bound one. */
static __always_inline int maybe_bound(struct task_struct *t)
{
	__u32 bit, word;
	__u64 *bits;

	if (!cfg.tasks)
		return 0;
	bit = kp_task_bit((__u32)t->pid);
	word = bit / 64;
	bits = bpf_map_lookup_elem(&task_bits, &word);
	return bits && (*bits >> (bit % 64)) & 1;
}

static __always_inline __u32 task_account(struct task_struct *t)
{
	__u32 tid = (__u32)t->pid;
	struct kp_task *bound = bpf_map_lookup_elem(&tasks, &tid);

	return bound && t->start_boottime / NS_PER_TICK == bound->start ? bound->account : 0;
}

static __always_inline __u32 cache_at(__u64 cgroup)
{
	return (cgroup ^ cgroup >> 8) % KP_CACHE;
}

/* The entry of the cgroup of @cset, with the account of the nearest cgroup that has one. */
static __always_inline struct kp_cached *cgroup_entry(struct kp_cpu *st, struct css_set *cset,
						      __u32 gen)
{
	struct cgroup *cg = cset->dfl_cgrp;
	__u64 id = cg->kn->id, up;
	struct cgroup_subsys_state *parent;
	struct kp_cached *c = &st->cache[cache_at(id)];
	struct kp_account *a;
	__u32 *found;
	int i;

	if (c->cgroup == id && c->gen == gen)
		return c;
	c->cgroup = id;
	c->gen = gen;
	c->account = KP_OTHER;
	c->cell = 0;
	for (i = 0; i < KP_MAX_DEPTH; i++) {
		up = cg->kn->id;
		found = bpf_map_lookup_elem(&cgroups, &up);
		if (found) {
			c->account = *found;
			break;
		}
		parent = cg->self.parent;
		if (!parent)
			break;
		cg = parent->cgroup;
	}
	a = account_of(c->account);
	c->mask = a ? a->mask : 0;
	return c;
}

/* ---- charging ----------------------------------------------------------------------------- */

/* The cell with number @nr - 1. */
static __always_inline struct kp_cell *cell_nr(__u32 cpu, __u32 nr)
{
	__u32 page = kp_cell_page(cpu, nr - 1), at = (nr - 1) % KP_PAGE_CELLS;
	void *inner = bpf_map_lookup_elem(&cells, &page);

	return inner ? bpf_map_lookup_elem(inner, &at) : NULL;
}

/* The cell of the current account for @chunk; it is made at the first charge. */
static __always_inline struct kp_cell *cell_of(struct kp_cpu *st, __u32 cpu, __u32 chunk)
{
	__u32 account = st->account, nr, page, at;
	__u32 *slot;
	void *inner;

	page = kp_index_page(cfg.nr_cpus, chunk, cpu, account);
	at = account % KP_PAGE_ACCOUNTS / 2;
	inner = bpf_map_lookup_elem(&cell_index, &page);
	if (!inner)
		return NULL;
	slot = bpf_map_lookup_elem(inner, &at);
	if (!slot)
		return NULL;
	if (account & 1)
		slot++;
	nr = *slot;
	if (!nr) {
		if (st->cells >= st->cells_max)
			return NULL;
		nr = ++st->cells;
		VPMU_STORE(slot, nr);
	}
	if (!chunk && st->cached < KP_CACHE && st->cache[st->cached].account == account)
		st->cache[st->cached].cell = nr;
	return cell_nr(cpu, nr);
}

/* What a helper would find for a software event, without the interrupts off and on again. */
static __always_inline __u64 count_at(__u64 event)
{
	const char *e = bpf_rdonly_cast((void *)event, bpf_core_type_id_kernel(struct perf_event));

	return *(const volatile __u64 *)(e + bpf_core_field_offset(struct perf_event, count));
}

/* The event of @slot on this CPU: the map's array has its entry, the entry has the event. The map's
 * address has to go through memory to be a number. 0: not found. */
static __always_inline __u64 event_at(struct kp_cpu *st, __u32 cpu, __u32 slot)
{
	__u64 at, entry = 0, event = 0;

	*(void *volatile *)&st->events = &events;
	at = VPMU_LOAD(&st->events) + bpf_core_field_offset(struct bpf_array, ptrs) +
	     (slot * cfg.nr_cpus + cpu) * sizeof(void *);
	if (bpf_probe_read_kernel(&entry, sizeof(entry), (void *)at) || !entry ||
	    bpf_probe_read_kernel(
		    &event, sizeof(event),
		    (void *)(entry + bpf_core_field_offset(struct bpf_event_entry, event))))
		return 0;
	return event;
}

/*
 * How long the account that ran for @ran_ns has waited for the counter of @slot. The event knows
 * for how long the kernel had no counter for it. While the daemon has switched it off it knows no
 * time at all: then the account waited whenever the event did not run. The daemon makes turn odd
 * before it switches an event off, and even after it has switched it on again; it does both by an
 * interrupt of this CPU, which is not now.
 */
static __always_inline __u64 waited(struct kp_cpu *st, __u32 slot,
				    const struct bpf_perf_event_value *v, __u64 ran_ns)
{
	__u64 gap = v->enabled - v->running, lost = gap - st->gap_ns[slot];
	__u64 counted = v->running - st->run_ns[slot];
	__u32 turn = VPMU_LOAD(&st->turn[slot]);

	if (turn & 1 || turn != st->turned[slot])
		lost = ran_ns > counted ? ran_ns - counted : 0;
	if (st->gap_ns[slot] == KP_NONE)
		lost = 0;
	st->gap_ns[slot] = gap;
	st->run_ns[slot] = v->running;
	st->turned[slot] = turn;
	return lost;
}

/* Read the event of @slot, and charge what it counted to @row, or to nobody. The account ran for
 * @ran_ns since the last reading. Without an event on this CPU it has waited all that time. */
static __always_inline void charge_slot(struct kp_cpu *st, __u32 cpu, __u32 slot,
					struct vpmu_row *row, __u64 ran_ns)
{
	__u64 event = slot * cfg.nr_cpus + cpu, now, lost = 0;
	struct bpf_perf_event_value v;
	int missing = 0;

	if (cfg.timed >> slot & 1) {
		missing = bpf_perf_event_read_value(&events, event, &v, sizeof(v)) != 0;
		now = v.counter;
		if (!missing)
			lost = waited(st, slot, &v, ran_ns);
	} else if (st->where[slot] && bpf_rdonly_cast) {
		now = count_at(st->where[slot]);
	} else {
		now = bpf_perf_event_read(&events, event);
		missing = (__s64)now < 0;
	}
	if (missing)
		lost = ran_ns;
	if (row && lost)
		VPMU_STORE(&row->lost, row->lost + lost);
	if (!missing)
		vpmu_charge(row ? &row->total : &st->unclaimed[slot], &st->snap[slot], now, ~0ULL);
}

/*
 * Read the slots of @read, and charge those of @owed to the current account. This and
 * take_up_events are global functions: the verifier looks at each once, by itself, and so their
 * loops do not multiply.
 */
__noinline int charge(struct kp_cpu *st, __u32 cpu, __u64 read, __u64 owed, __u64 ran_ns)
{
	struct kp_account *a;
	struct kp_cell *cell;
	__u32 chunk, i;

	if (!st)
		return 0;
	for (chunk = 0; chunk < KP_CHUNKS && read; chunk++, read >>= KP_CHUNK, owed >>= KP_CHUNK) {
		if (!(read & ((1 << KP_CHUNK) - 1)))
			continue;
		cell = NULL;
		if (owed & ((1 << KP_CHUNK) - 1)) {
			cell = cell_of(st, cpu, chunk);
			if (cell) {
				vpmu_charge_time(&cell->time_ns, ran_ns);
			} else {
				st->full++;
				a = account_of(st->account);
				if (a)
					a->lacks = 1;
			}
		}
		for (i = 0; i < KP_CHUNK; i++)
			if (read >> i & 1)
				charge_slot(st, cpu, chunk * KP_CHUNK + i,
					    cell && owed >> i & 1 ? &cell->row[i] : NULL, ran_ns);
	}
	return 0;
}

/* Slots whose events are new to this CPU. A new event began at 0. The one before it, if it was of
 * the same key, can have counted a little after the CPU's last charge, while the CPU went. */
__noinline __u64 take_up_events(struct kp_cpu *st, __u32 cpu)
{
	__u64 fresh = 0;
	__u32 i;

	if (!st)
		return 0;
	for (i = 0; i < VPMU_MAX_SLOTS; i++) {
		if (st->opened[i] == st->seen[i])
			continue;
		st->seen[i] = st->opened[i];
		if (st->final[i] != KP_NONE)
			VPMU_STORE(&st->unclaimed[i],
				   st->unclaimed[i] + (st->final[i] - st->snap[i]));
		st->snap[i] = 0;
		st->gap_ns[i] = cfg.timed >> i & 1 ? 0 : KP_NONE;
		st->run_ns[i] = 0;
		st->turned[i] = st->turn[i];
		st->where[i] = cfg.memory >> i & 1 && bpf_rdonly_cast ? event_at(st, cpu, i) : 0;
		fresh |= 1ULL << i;
	}
	return fresh;
}

/* The account of @t, which is the current one of this CPU from now on if @enters. */
static __noinline __u32 look_up(struct task_struct *t, struct kp_cpu *st, __u32 gen, int enters)
{
	struct css_set *cset = t->cgroups;
	__u32 account = maybe_bound(t) ? task_account(t) : 0;
	struct kp_cached *c;

	if (enters) {
		st->entering = KP_CACHE;
		st->cset = account ? 0 : (__u64)cset;
		st->tid = (__u32)t->pid;
	}
	if (account)
		return account;
	c = cgroup_entry(st, cset, gen);
	if (enters)
		st->entering = cache_at(c->cgroup);
	return c->account;
}

/* Whether @t is in the account that was looked up when the CPU switched to it. */
static __always_inline int same_account(const struct kp_cpu *st, struct task_struct *t)
{
	return st->cset ? st->cset == (__u64)t->cgroups : st->tid == (__u32)t->pid;
}

/* A reader that sees the next account sees what the last one was charged. */
static __always_inline void now_runs(struct kp_cpu *st, __u32 account)
{
#ifdef __TARGET_ARCH_x86
	VPMU_STORE(&st->account, account);
#else
	__sync_lock_test_and_set(&st->account, account);
#endif
}

/*
 * @prev has run on this CPU, and @next runs from now on. They are the same if @flush: then all that
 * was counted so far is to be charged.
 *
 * What was counted is charged to the account in which @prev is now. That differs from the one that
 * was looked up when the CPU switched to it if the task was moved meanwhile.
 *
 * A change of bindings, masks or events moves the generation. Charging at the first switch after
 * that is by the old masks, because what ran since the last charge was counted for them; a new
 * event has counted since the change, for the new masks.
 */
static __always_inline int switch_all(struct kp_cpu *st, __u32 cpu, struct task_struct *prev,
				      struct task_struct *next, int flush)
{
	__u32 account, gen;
	__u64 mask = 0, owed, fresh = 0, now, since;
	struct kp_account *a;
	int moved;

	gen = cfg.gen;
	if (st->gen != gen) /* a full barrier: masks are at least as new as the generation */
		gen = __sync_fetch_and_add(&cfg.gen, 0);

	owed = st->mask;
	since = st->last_ns;
	moved = !same_account(st, prev);
	if (moved) {
		account = look_up(prev, st, gen, 0);
		a = account_of(account);
		owed &= a ? a->mask : 0;
		VPMU_STORE(&st->account, account);
	}
	account = look_up(next, st, gen, 1);
	if (!flush && !moved && account == st->account && gen == st->gen)
		return 0;
	a = account_of(account);
	if (a)
		mask = a->mask;
	if (gen != st->gen) {
		fresh = take_up_events(st, cpu);
		if (fresh) {
			a = account_of(st->account);
			owed &= ~fresh;
			/* Events of a CPU that is back are new, too, and no attach began with them.
			 */
			if (!owed && since < cfg.since_ns)
				since = cfg.since_ns;
			if (a)
				owed |= fresh & a->mask;
		}
	}
	if (mask | owed | (st->mask & ~fresh)) {
		now = bpf_ktime_get_ns();
		VPMU_STORE(&st->seq, st->seq + 1);
		charge(st, cpu, mask | owed | (st->mask & ~fresh), owed,
		       now > since ? now - since : 0);
		VPMU_STORE(&st->charges, st->charges + 1);
		VPMU_STORE(&st->last_ns, now);
		VPMU_STORE(&st->seq, st->seq + 1);
	}
	st->mask = mask;
	st->gen = gen;
	st->cached = st->entering;
	now_runs(st, account);
	return 0;
}

/*
 * The usual switch: nothing has changed, no task is bound, the next cgroup is known, and all keys
 * are in the first chunk. False: nothing was done.
 */
static __always_inline int switch_known(struct kp_cpu *st, __u32 cpu, struct task_struct *prev,
					struct task_struct *next)
{
	struct css_set *cset = next->cgroups;
	__u64 id = cset->dfl_cgrp->kn->id, read, now, ran_ns;
	struct kp_cached *c = &st->cache[cache_at(id)];
	struct kp_cell *cell = NULL;
	__u32 gen = cfg.gen;

	if (st->gen != gen || cfg.tasks || st->cset != (__u64)prev->cgroups || c->cgroup != id ||
	    c->gen != gen)
		return 0;
	read = st->mask | c->mask;
	if (c->account != st->account && read) {
		if (read >> KP_CHUNK)
			return 0;
		if (st->mask) {
			if (st->cached >= KP_CACHE || !st->cache[st->cached].cell ||
			    st->cache[st->cached].account != st->account)
				return 0;
			cell = cell_nr(cpu, st->cache[st->cached].cell);
			if (!cell)
				return 0;
		}
		now = bpf_ktime_get_ns();
		ran_ns = now - st->last_ns;
		VPMU_STORE(&st->seq, st->seq + 1);
		if (cell)
			vpmu_charge_time(&cell->time_ns, ran_ns);
		if (read & 1)
			charge_slot(st, cpu, 0, cell && st->mask & 1 ? &cell->row[0] : NULL,
				    ran_ns);
		if (read & 2)
			charge_slot(st, cpu, 1, cell && st->mask & 2 ? &cell->row[1] : NULL,
				    ran_ns);
		if (read & 4)
			charge_slot(st, cpu, 2, cell && st->mask & 4 ? &cell->row[2] : NULL,
				    ran_ns);
		if (read & 8)
			charge_slot(st, cpu, 3, cell && st->mask & 8 ? &cell->row[3] : NULL,
				    ran_ns);
		VPMU_STORE(&st->charges, st->charges + 1);
		VPMU_STORE(&st->last_ns, now);
		VPMU_STORE(&st->seq, st->seq + 1);
	}
	st->cset = (__u64)cset;
	st->mask = c->mask;
	st->cached = cache_at(id);
	now_runs(st, c->account);
	return 1;
}

/*
 * Two tasks of one cgroup are in one account unless some task is bound. If a change of masks or
 * bindings, or a move of the running task to another cgroup, is not noticed here, it is at the next
 * switch between two cgroups or at the next flush.
 */
SEC("tp_btf/sched_switch")
int BPF_PROG(on_switch, unsigned int preempt, struct task_struct *prev, struct task_struct *next)
{
	struct kp_cpu *st;
	__u32 cpu;

	if (prev->cgroups == next->cgroups && !cfg.tasks)
		return 0;
	cpu = bpf_get_smp_processor_id();
	st = bpf_map_lookup_elem(&cpus, &cpu);
	if (st && !switch_known(st, cpu, prev, next))
		switch_all(st, cpu, prev, next, 0);
	return 0;
}

/* Run on a CPU by BPF_PROG_TEST_RUN, that is in an interrupt of it. */
SEC("raw_tp/sched_switch")
int flush_cpu(void *ctx)
{
	struct task_struct *t = bpf_get_current_task_btf();
	__u32 cpu = bpf_get_smp_processor_id();
	struct kp_cpu *st = bpf_map_lookup_elem(&cpus, &cpu);

	if (st)
		switch_all(st, cpu, t, t, 1);
	return 0;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
