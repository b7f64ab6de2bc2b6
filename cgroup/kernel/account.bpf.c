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
	__uint(key_size, sizeof(__u32));
	__uint(value_size, KP_CPU_BYTES); /* a struct kp_cpu */
} cpus SEC(".maps");

/* By kp_event(). The events stay when the process that opened them ends. */
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
	__u32 bit = kp_task_bit((__u32)t->pid), word = bit / 64;
	__u64 *bits = bpf_map_lookup_elem(&task_bits, &word);

	return bits && (*bits >> (bit % 64)) & 1;
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

/* ---- charging ----------------------------------------------------------------------------- */

/* The cell with number @nr, from 1 on. */
static __always_inline struct kp_cell *cell_nr(struct kp_cpu *st, __u32 cpu, __u32 nr)
{
	__u32 page, at;
	void *inner;

	if (nr <= KP_NEAR)
		return &st->near_cell[nr];
	page = kp_cell_page(cpu, nr);
	at = kp_cell_at(nr);
	inner = bpf_map_lookup_elem(&cells, &page);
	return inner ? bpf_map_lookup_elem(inner, &at) : NULL;
}

/* The number of the cell of @account for @chunk, which is made if there is none; 0: it cannot. */
static __noinline __u32 find_cell(struct kp_cpu *st, __u32 cpu, __u32 account, __u32 chunk)
{
	__u32 page = kp_index_page(cfg.nr_cpus, chunk, cpu, account), nr;
	__u32 at = account % KP_PAGE_ACCOUNTS / 2;
	__u32 *slot;
	void *inner;

	inner = bpf_map_lookup_elem(&cell_index, &page);
	if (!inner)
		return 0;
	slot = bpf_map_lookup_elem(inner, &at);
	if (!slot)
		return 0;
	if (account & 1)
		slot++;
	nr = *slot;
	if (!nr && st->cells < st->cells_max) {
		nr = ++st->cells;
		VPMU_STORE(slot, nr);
	}
	return nr;
}

/* As kp_cached.near. */
static __always_inline __u32 near_cell(struct kp_cpu *st, __u32 cpu, const struct kp_cached *c)
{
	__u32 nr;

	if (!(c->mask & ((1 << KP_CHUNK) - 1)))
		return 0;
	nr = find_cell(st, cpu, c->account, 0);
	return nr && nr <= KP_NEAR ? nr * (__u32)sizeof(struct kp_cell) : KP_FAR;
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
	     kp_event(cpu, slot) * sizeof(void *);
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
__noinline int charge_slot(struct kp_cpu *st, __u32 cpu, __u32 slot, struct vpmu_row *row,
			   __u64 ran_ns)
{
	__u64 event = kp_event(cpu, slot), now, lost = 0;
	struct bpf_perf_event_value v;
	int missing = 0;

	if (!st || slot >= VPMU_MAX_SLOTS)
		return 0;
	if (cfg.timed >> slot & 1) {
		missing = bpf_perf_event_read_value(&events, event, &v, sizeof(v)) != 0;
		now = v.counter;
		if (!missing)
			lost = waited(st, slot, &v, ran_ns);
	} else if (bpf_rdonly_cast && st->where[slot]) {
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
	return 0;
}

/*
 * Read the slots of @read, and charge those of @owed to the current account. This, charge_slot and
 * take_up_events are global functions: the verifier looks at each once, by itself, and so their
 * branches and loops do not multiply.
 */
__noinline int charge(struct kp_cpu *st, __u32 cpu, __u64 read, __u64 owed, __u64 ran_ns)
{
	struct kp_account *a;
	struct kp_cell *cell;
	struct vpmu_row *row;
	__u32 chunk, i, nr;

	if (!st)
		return 0;
	for (chunk = 0; chunk < KP_CHUNKS && read; chunk++, read >>= KP_CHUNK, owed >>= KP_CHUNK) {
		if (!(read & ((1 << KP_CHUNK) - 1)))
			continue;
		cell = NULL;
		if (owed & ((1 << KP_CHUNK) - 1)) {
			nr = find_cell(st, cpu, st->account, chunk);
			if (nr)
				cell = cell_nr(st, cpu, nr);
			if (cell) {
				vpmu_charge_time(&cell->time_ns, ran_ns);
			} else {
				st->full++;
				a = account_of(st->account);
				if (a)
					a->lacks = 1;
			}
		}
		for (i = 0; i < KP_CHUNK; i++) {
			if (!(read >> i & 1))
				continue;
			row = NULL;
			if (cell && owed >> i & 1) {
				row = &cell->row[i];
				barrier_var(row); /* the verifier knows no masks of pointers */
			}
			charge_slot(st, cpu, chunk * KP_CHUNK + i, row, ran_ns);
		}
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

/* ---- looking up --------------------------------------------------------------------------- */

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

	/* Through memory: an address is a number then. */
	*(volatile __u64 *)&st->key = key;
	key = VPMU_LOAD(&st->key);
	if ((c->key == key || c->key == ~key) && st->start[at] == start)
		return c;
	if (!account)
		account = cgroup_account(cg);
	a = account_of(account);
	c->account = account;
	c->mask = a ? a->mask : 0;
	c->near = near_cell(st, cpu, c);
	st->start[at] = start;
	c->usual = !c->mask || (c->mask == (1ULL << st->usual) - 1 && !(c->mask & cfg.timed) &&
				c->near != KP_FAR);
	c->key = c->usual ? key : ~key;
	return c;
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
		/* A full barrier, before the generation is read: see plane_changed(). */
		__sync_lock_test_and_set(&st->until_ns, now + KP_LOOK_NS);
	}
	if (!flush || st->skew == KP_SKEW_NONE)
		st->skew = flush ? KP_SKEW_GUESS : KP_SKEW_KNOWN;
	if (last != st->last_ns) {
		VPMU_STORE(&st->last_ns, last);
		VPMU_STORE(&st->done_ns, last);
	}
	return (__s64)(now - last) <= 0 ? last + 1 : now;
}

/* ---- switching ---------------------------------------------------------------------------- */

/* A reader that sees the next account sees what the last one was charged. */
static __always_inline void now_runs(struct kp_cpu *st, __u32 account)
{
#ifdef __TARGET_ARCH_x86
	VPMU_STORE(&st->account, account);
#else
	__sync_lock_test_and_set(&st->account, account);
#endif
}

static __always_inline void enters(struct kp_cpu *st, const struct css_set *cset,
				   const struct kp_cached *c)
{
	VPMU_STORE(&st->mask, c->mask);
	VPMU_STORE(&st->near, c->near);
	st->other_cset = (__u64)cset;
	VPMU_STORE(&st->cset, c->usual ? (__u64)cset : 0);
	now_runs(st, c->account);
}

static __always_inline __u32 next_cpu(struct task_struct *next)
{
	if (bpf_core_field_exists(struct thread_info, cpu))
		return next->thread_info.cpu;
	return bpf_get_smp_processor_id();
}

/*
 * @prev has run on this CPU, and @next runs from now on. They are the same if @flush: then all that
 * was counted so far is to be charged.
 *
 * What was counted is charged to the account in which @prev is now. That differs from the one that
 * was looked up when the CPU switched to it if the task was moved meanwhile.
 *
 * If a switch was not seen, nobody knows which task ran for how long. Then what was counted is
 * nobody's, but for what the root counts: that is charged to `other`.
 *
 * A change of bindings, masks or events moves the generation. Charging at the first switch after
 * that is by the old masks, because what ran since the last charge was counted for them; a new
 * event has counted since the change, for the new masks.
 */
static __always_inline int switch_all(struct kp_cpu *st, __u32 cpu, struct task_struct *prev,
				      struct task_struct *next, int flush)
{
	__u64 owed = kp_mask(st), fresh = 0, read, now = clock_now(st, next, flush), since;
	__u64 cset = st->cset ? st->cset : st->other_cset;
	__u32 gen = cfg.gen;
	struct kp_account *a;
	struct kp_cached *c;
	int moved, unseen = st->unseen;

	/* So that nothing depends on what is usual. */
	VPMU_STORE(&st->mask, owed);
	VPMU_STORE(&st->cset, 0);
	st->unseen = 0;
	if (unseen) {
		VPMU_STORE(&st->missed, st->missed + 1);
		a = account_of(KP_ROOT);
		owed &= a ? a->mask : 0;
		VPMU_STORE(&st->account, KP_OTHER);
	}
	if (st->gen != gen) { /* a full barrier: masks are at least as new as the generation */
		gen = __sync_fetch_and_add(&cfg.gen, 0);
		VPMU_STORE(&st->usual, VPMU_LOAD(&cfg.usual));
		forget_all(st);
	}
	moved = cset != (__u64)prev->cgroups;
	if (moved && !unseen) {
		c = look_up(prev, st, cpu);
		owed &= c->mask;
		VPMU_STORE(&st->account, c->account);
	}
	c = look_up(next, st, cpu);
	if (!flush && !moved && !unseen && c->account == st->account && gen == st->gen)
		goto enter;
	since = st->last_ns;
	if (gen != st->gen) {
		fresh = take_up_events(st, cpu);
		if (fresh) {
			a = account_of(st->account);
			owed &= ~fresh;
			/* Events of a CPU that is back are new, too, and no attach began with them.
			 */
			if (!owed && since < cfg.since_ns - st->skew_ns)
				since = cfg.since_ns - st->skew_ns;
			if (a && !unseen)
				owed |= fresh & a->mask;
		}
	}
	read = c->mask | owed | (st->mask & ~fresh);
	if (read) {
		VPMU_STORE(&st->last_ns, now);
		charge(st, cpu, read, owed, now > since ? now - since : 0);
		VPMU_STORE(&st->done_ns, now);
	}
	st->event[0] = kp_event(cpu, 0);
	st->event[1] = kp_event(cpu, 1);
	st->event[2] = kp_event(cpu, 2);
	st->event[3] = kp_event(cpu, 3);
	st->gen = gen;
enter:
	enters(st, next->cgroups, c);
	return 0;
}

/* The count of the event of @slot on this CPU, to @now. False: there is none. */
static __always_inline int count_of(struct kp_cpu *st, __u32 slot, int memory, __u64 *now)
{
	if (memory && st->where[slot]) {
		*now = count_at(st->where[slot]);
		return 1;
	}
	*now = bpf_perf_event_read(&events, st->event[slot]);
	return (__s64)*now >= 0;
}

/* The CPU has no event for a slot: all the time since the last charge is lost for @row. */
static __always_inline void no_event(struct kp_cpu *st, struct vpmu_row *row)
{
	VPMU_STORE(&row->lost, row->lost + (VPMU_LOAD(&st->last_ns) - st->done_ns));
}

/* What charge() does for one slot whose event does not wait for a counter: to @row, or to nobody.
 */
static __always_inline void charge_some(struct kp_cpu *st, __u32 slot, __u64 read, __u64 owed,
					struct kp_cell *cell)
{
	__u64 now, *total = &st->unclaimed[slot];

	if (!(read >> slot & 1))
		return;
	if (!count_of(st, slot, bpf_rdonly_cast != NULL, &now)) {
		if (owed >> slot & 1)
			no_event(st, &cell->row[slot % KP_CHUNK]);
		return;
	}
	if (owed >> slot & 1)
		total = &cell->row[slot % KP_CHUNK].total;
	vpmu_charge(total, &st->snap[slot], now, ~0ULL);
}

static __always_inline void charge_row(struct kp_cpu *st, __u32 slot, struct vpmu_row *row,
				       int memory)
{
	__u64 now, total;

	if (!count_of(st, slot, memory, &now)) {
		no_event(st, row);
		return;
	}
	/* As vpmu_charge(). In this order it takes an instruction less. */
	total = row->total + now;
	barrier_var(total);
	VPMU_STORE(&row->total, total - st->snap[slot]);
	st->snap[slot] = now;
}

/* Charge the first @n slots to the near cell, or nobody's. */
static __always_inline void charge_usual(struct kp_cpu *st, struct kp_cell *cell, __u32 n,
					 int memory)
{
	if (n == 4) {
		charge_row(st, 0, &cell->row[0], memory);
		charge_row(st, 1, &cell->row[1], memory);
		charge_row(st, 2, &cell->row[2], memory);
		charge_row(st, 3, &cell->row[3], memory);
	} else if (n == 2) {
		charge_row(st, 0, &cell->row[0], memory);
		charge_row(st, 1, &cell->row[1], memory);
	} else {
		charge_row(st, 0, &cell->row[0], memory);
		if (n == 1)
			return;
		charge_row(st, 1, &cell->row[1], memory);
		charge_row(st, 2, &cell->row[2], memory);
	}
}

/* Look at everything again. */
static __noinline int switch_slow(unsigned long long *ctx, struct kp_cpu *st)
{
	struct task_struct *prev = (void *)ctx[1], *next = (void *)ctx[2];

	return switch_all(st, next_cpu(next), prev, next, 0);
}

/* A switch between two accounts that are known, by all means that the usual switch has not. */
static __noinline int switch_other(unsigned long long *ctx, struct kp_cpu *st)
{
	struct task_struct *prev = (void *)ctx[1], *next = (void *)ctx[2];
	__u64 owed = kp_mask(st), read, now, ran_ns;
	__u64 cset = st->cset ? st->cset : st->other_cset;
	__u32 near = st->near;
	struct kp_cached *c;
	struct kp_cell *cell;

	if (st->gen != st->want || cset != (__u64)prev->cgroups)
		return switch_slow(ctx, st);
	c = look_up(next, st, next_cpu(next));
	read = owed | c->mask;
	if (read && c->account != st->account) {
		now = switch_clock(next);
		if (now >= st->until_ns)
			return switch_slow(ctx, st);
		ran_ns = now - st->last_ns;
		VPMU_STORE(&st->last_ns, now);
		if (read & cfg.timed || read >> KP_CHUNK || near > KP_NEAR * sizeof(*cell)) {
			charge(st, next_cpu(next), read, owed, ran_ns);
		} else {
			cell = (void *)st->near_cell + near;
			vpmu_charge_time(&cell->time_ns, ran_ns);
			charge_some(st, 0, read, owed, cell);
			charge_some(st, 1, read, owed, cell);
			charge_some(st, 2, read, owed, cell);
			charge_some(st, 3, read, owed, cell);
		}
		VPMU_STORE(&st->done_ns, now);
	}
	enters(st, next->cgroups, c);
	return 0;
}

/*
 * Two tasks of one css_set can be in two accounts if one of them is bound. So while tasks are
 * bound, the task itself is compared, too. Whether the task that ran, @prev, is another one than
 * this program has seen begin to run.
 *
 * A switch is not seen if the CPU is going or coming. Some kernels hide the switches of some tasks:
 * docs/kernel-plane.md, "Switches that are not seen".
 */
static __always_inline int follow(struct kp_cpu *st, __u64 prev, __u64 next)
{
	__u64 task = st->task;

	st->task = next;
	if (task == prev)
		return 0;
	st->unseen = task && VPMU_LOAD(&cfg.follows);
	return st->unseen;
}

/* A place in the element of a CPU, @bytes behind a member. The rest of the way is in the
 * instructions that load and store there. */
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

/*
 * The usual switch: nothing has changed, and both accounts are known and usual. It does the same as
 * switch_all, and is written so that it takes few instructions. @bound: tasks may be bound.
 */
static __always_inline int switched(unsigned long long *ctx, int bound)
{
	struct task_struct *prev = (void *)ctx[1], *next = (void *)ctx[2];
	struct css_set *from = prev->cgroups, *to = next->cgroups;
	struct kp_cpu *st, *my, *cell; /* my: by the way to an entry of the cache */
	__u32 cpu, at, n;
	__u64 key, now, last;

	if (!bound && from == to)
		return 0;
	cpu = next_cpu(next);
	st = bpf_map_lookup_elem(&cpus, &cpu);
	if (!st)
		return 0;
	if (bound && follow(st, (__u64)prev, (__u64)next))
		goto slow;
	if (st->cset != (__u64)from)
		goto other;
	if (bound && maybe_bound(next)) {
		at = cache_at((__u32)next->pid);
		my = BEHIND(st, at * sizeof(struct kp_cached));
		if (my->cache[0].key != (__u64)next || st->start[at] != next->start_boottime)
			goto other;
	} else {
		key = to->dfl_cgrp->self.serial_nr;
		my = BEHIND(st, cache_at(key) * sizeof(struct kp_cached));
		if (my->cache[0].key != key)
			goto other;
	}
	/* One account, or nothing is counted for both. */
	if (my->cache[0].near == VPMU_LOAD(&st->near)) {
		if (st->gen != st->want)
			goto slow;
		VPMU_STORE(&st->cset, (__u64)to);
		now_runs(st, my->cache[0].account);
		return 0;
	}
	barrier_var(ctx); /* a register less meanwhile */
	now = switch_clock((void *)ctx[2]);
	if (now >= st->until_ns)
		goto slow;
	VPMU_STORE(&st->cset, (__u64)to);
	n = st->usual;
	last = st->last_ns;
	VPMU_STORE(&st->last_ns, now);
	cell = BEHIND(st, VPMU_LOAD(&st->near) & KP_NEAR_MASK);
	vpmu_charge_time(&cell->near_cell[0].time_ns, now - last);
	if (!bpf_rdonly_cast)
		charge_usual(st, cell->near_cell, n, 0);
	else
		charge_usual(st, cell->near_cell, n, 1);
	VPMU_STORE(&st->done_ns, VPMU_LOAD(&st->last_ns));
	VPMU_STORE(&st->near, my->cache[0].near);
	now_runs(st, my->cache[0].account);
	return 0;
other:
	return switch_other(ctx, st);
slow:
	return switch_slow(ctx, st);
}

/*
 * While no task is bound, two tasks of one cgroup are in one account. If a change of masks or
 * bindings, or a move of the running task to another cgroup, is not noticed here, it is at the next
 * switch between two cgroups or at the next flush.
 */
SEC("tp_btf/sched_switch")
int on_switch(unsigned long long *ctx)
{
	return switched(ctx, 0);
}

/* The same while tasks are bound. It does no harm if both are attached. */
SEC("tp_btf/sched_switch")
int on_switch_bound(unsigned long long *ctx)
{
	return switched(ctx, 1);
}

/* Run on a CPU by BPF_PROG_TEST_RUN, that is in an interrupt of it. */
SEC("raw_tp/sched_switch")
int flush_cpu(void *ctx)
{
	struct task_struct *t = bpf_get_current_task_btf();
	__u32 cpu = bpf_get_smp_processor_id();
	struct kp_cpu *st = bpf_map_lookup_elem(&cpus, &cpu);

	if (!st)
		return 0;
	/* The program that is attached may be the one that does not keep it. */
	if (VPMU_LOAD(&cfg.follows))
		follow(st, (__u64)t, (__u64)t);
	switch_all(st, cpu, t, t, 1);
	return 0;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
