/* SPDX-License-Identifier: GPL-2.0-or-later OR BSD-2-Clause */
/*
 * Charging, for any keys and any account: from the events of a CPU to the cells of an account.
 * account.bpf.c has a faster path for the most frequent switches. Counts that cannot be attributed
 * are unclaimed, and are still in the sum.
 */
#pragma once

#include <linux/types.h> /* which libbpf's headers use and do not include */

#include <bpf/bpf_core_read.h>

#include "cgroup/bpf/btf.h"
#include "cgroup/bpf/maps.bpf.h"

/* Linux 6.2. Without it events are read by a helper. */
extern void *bpf_rdonly_cast(const void *obj, __u32 btf_id) __ksym __weak;

/* Linux 6.10. Not needed before Linux 7.0, from which on tracepoints do not disable preemption; and
 * up to 6.14 the verifier permits no global function in between. bpf_strcmp is of Linux 6.17. */
extern void bpf_preempt_disable(void) __ksym __weak;
extern void bpf_preempt_enable(void) __ksym __weak;
extern int bpf_strcmp(const char *a, const char *b) __ksym __weak;
#ifndef HAS_CAST /* a test runs with and without */
#define HAS_CAST() (bpf_rdonly_cast != NULL)
#define CAN_HOLD() (bpf_preempt_disable && bpf_preempt_enable && bpf_strcmp)
#endif

static __always_inline struct kp_account *account_of(__u32 account)
{
	__u32 page = account / KP_PAGE_ACCOUNTS, at = account % KP_PAGE_ACCOUNTS;
	void *inner = bpf_map_lookup_elem(&accounts, &page);

	return inner ? bpf_map_lookup_elem(inner, &at) : NULL;
}

/* The cell with number @nr (from 1). */
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

/* The number of the cell of @account for @chunk; allocated if there is none. 0: no index page, or
 * no cell left. */
__noinline __u32 find_cell(struct kp_cpu *st, __u32 cpu, __u32 account, __u32 chunk)
{
	__u32 page = kp_index_page(cfg.nr_cpus, chunk, cpu, account), nr;
	__u32 at = account % KP_PAGE_ACCOUNTS / 2;
	__u32 *slot;
	void *inner;

	inner = st ? bpf_map_lookup_elem(&cell_index, &page) : NULL;
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

/* The page of totals of @a; NULL: it has none. */
static __always_inline struct vpmu_totals *page_of(const struct kp_account *a)
{
	__u32 page, at = 0;
	void *inner;

	if (!a || !a->totals)
		return NULL;
	page = a->totals - 1;
	inner = bpf_map_lookup_elem(&totals, &page);
	return inner ? bpf_map_lookup_elem(inner, &at) : NULL;
}

/* The same for the current account. */
static __always_inline struct vpmu_totals *totals_of(const struct kp_cpu *st)
{
	return st->at.near == KP_TOTALS ? page_of(account_of(st->at.account)) : NULL;
}

/* The value of kp_place.near for @c. */
static __always_inline __u32 near_cell(struct kp_cpu *st, __u32 cpu, const struct kp_cached *c,
				       const struct kp_account *a)
{
	__u32 nr;

	if (a && a->totals && c->mask)
		return KP_TOTALS;
	if (!(c->mask & ((1 << KP_CHUNK) - 1)))
		return 0;
	nr = find_cell(st, cpu, c->at.account, 0);
	return nr && nr <= KP_NEAR ? nr * (__u32)sizeof(struct kp_cell) : KP_FAR;
}

/* Read a software event's count as the helper would, without disabling and enabling interrupts. */
static __always_inline __u64 count_at(__u64 event)
{
	const char *e = bpf_rdonly_cast((void *)event, bpf_core_type_id_kernel(struct perf_event));

	return *(const volatile __u64 *)(e + bpf_core_field_offset(struct perf_event, count));
}

/* The address of the event of @slot on this CPU: from the map's array to its entry to the event.
 * The map's address goes through memory to become a number. 0: not found. */
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
 * The count of @slot, which where has. Without a cast it is the number of switches that the caller
 * has just compared, so that no helper reads it again, or that of preemptions.
 */
static __always_inline __u64 count_word(struct kp_cpu *st, __u32 slot)
{
	if (HAS_CAST())
		return count_at(st->where[slot]);
	return st->where[slot] == 1 ? (st->nr & ~KP_BOUND) - 1 : st->preempted;
}

/*
 * For how long of the last @ran_ns the event of @slot had no counter. Normally enabled minus
 * running time. While the daemon has the event disabled neither time grows: then it is all time
 * that the event did not run. The daemon makes turn odd before it disables an event and even after
 * it has enabled it again, both in an interrupt of this CPU, which therefore cannot be now.
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

/* Read the event of @slot and charge its count to @row, or unclaimed if NULL. @ran_ns: time since
 * the last reading, all lost if this CPU has no event. */
__noinline int charge_slot(struct kp_cpu *st, __u32 cpu, __u32 slot, struct vpmu_row *row,
			   __u64 ran_ns)
{
	__u64 event = kp_event(cpu, slot), now, lost = 0;
	struct bpf_perf_event_value v;

	if (!st || slot >= VPMU_MAX_SLOTS)
		return 0;
	if (st->held >> slot & 1)
		goto missing;
	if (cfg.timed >> slot & 1) {
		if (bpf_perf_event_read_value(&events, event, &v, sizeof(v)))
			goto missing;
		now = v.counter;
		lost = waited(st, slot, &v, ran_ns);
	} else if (st->where[slot]) {
		now = count_word(st, slot);
	} else {
		now = bpf_perf_event_read(&events, event);
		if ((__s64)now < 0)
			goto missing;
	}
	if (row && lost)
		VPMU_STORE(&row->lost, row->lost + lost);
	st->counted |= now - st->snap[slot];
	vpmu_charge(row ? &row->total : &st->unclaimed[slot], &st->snap[slot], now, ~0ULL);
	return 0;
missing:
	if (row)
		VPMU_STORE(&row->lost, row->lost + ran_ns);
	return 0;
}

/* Add to a page of totals. A function: otherwise the compiler computes an address before it tests
 * @t, which the verifier rejects. */
__noinline int charge_totals(struct vpmu_totals *t, __u32 slot, __u64 more, __u64 lost)
{
	if (!t || slot >= VPMU_MAX_SLOTS)
		return 0;
	VPMU_STORE(&t->row[slot].total, t->row[slot].total + more);
	VPMU_STORE(&t->row[slot].lost, t->row[slot].lost + lost);
	return 0;
}

/* As charge(), for one chunk. @what: the slots to read, and from bit KP_CHUNK on those that are
 * owed. */
__noinline int charge_chunk(struct kp_cpu *st, __u32 cpu, __u32 chunk, __u32 what, __u64 ran_ns)
{
	struct kp_cell *cell = NULL;
	struct vpmu_totals *t;
	struct vpmu_row *row, was = {0};
	struct kp_account *a;
	__u32 i, nr, slot, shown = 0;

	if (!st)
		return 0;
	t = totals_of(st);
	if (t) {
		a = account_of(st->at.account);
		shown = a ? (__u32)(a->shown >> (chunk * KP_CHUNK & 63)) : 0;
	}
	if (what >> KP_CHUNK) {
		nr = find_cell(st, cpu, st->at.account, chunk);
		if (nr)
			cell = cell_nr(st, cpu, nr);
		if (cell) {
			vpmu_charge_time(&cell->time_ns, ran_ns);
		} else {
			st->full++;
			a = account_of(st->at.account);
			if (a)
				__sync_fetch_and_add(&a->lacks, 1);
			if (t)
				__sync_fetch_and_add(&t->gaps, 1);
		}
	}
	for (i = 0; i < KP_CHUNK; i++) {
		if (!(what >> i & 1))
			continue;
		row = NULL;
		if (cell && what >> (KP_CHUNK + i) & 1) {
			row = &cell->row[i];
			barrier_var(row); /* else the verifier rejects the pointer */
		}
		slot = chunk * KP_CHUNK + i;
		if (row)
			was = *row;
		charge_slot(st, cpu, slot, row, ran_ns);
		if (row && shown >> i & 1)
			charge_totals(t, slot, row->total - was.total, row->lost - was.lost);
	}
	return 0;
}

/* Read the slots of @read, and charge those of @owed to the current account. */
__noinline int charge(struct kp_cpu *st, __u32 cpu, __u64 read, __u64 owed, __u64 ran_ns)
{
	const __u32 all = (1 << KP_CHUNK) - 1;
	struct vpmu_totals *t;
	__u32 chunk;
	__u64 seq;

	if (!st)
		return 0;
	t = owed ? totals_of(st) : NULL;
	if (t) {
		/* A full barrier on either side of the changes, since the result is used: otherwise
		 * the compiler may choose an addition without a barrier. */
		seq = __sync_fetch_and_add(&t->seq, 1);
		barrier_var(seq);
		VPMU_STORE(&t->time_ns, t->time_ns + ran_ns);
	}
	for (chunk = 0; chunk < KP_CHUNKS && read; chunk++, read >>= KP_CHUNK, owed >>= KP_CHUNK)
		if (read & all)
			charge_chunk(st, cpu, chunk, (read & all) | (owed & all) << KP_CHUNK,
				     ran_ns);
	if (t) {
		seq = __sync_fetch_and_add(&t->seq, 1);
		barrier_var(seq);
	}
	return 0;
}

/*
 * A store that no other one passes, before or after it. x86 does not reorder stores; elsewhere the
 * exchange is a full barrier. A charge begins with such a store of last_ns and ends with one of
 * the account, then done_ns: so a reader that sees a part of it (fence_loads() in priv.h) finds
 * that they differ, and one that sees the next account sees all charges of the last one (the
 * acquire loads of kp_cpu.at.account in backend.c and node.c).
 */
#ifdef STORE_IN_ORDER /* a test looks at the order */
#elif defined(__TARGET_ARCH_x86)
#define STORE_IN_ORDER(p, v) VPMU_STORE(p, v)
#else
#define STORE_IN_ORDER(p, v) __sync_lock_test_and_set(p, v)
#endif

/* An address from which count_at() reads this CPU's number of switches. 0: this kernel has none. */
static __always_inline __u64 switches_at(struct kp_cpu *st)
{
	if (!bpf_core_field_exists(struct cfs_rq, rq) ||
	    !bpf_core_field_exists(struct rq, nr_switches))
		return 0;
	*(volatile __u64 *)&st->key = (__u64)bpf_get_current_task_btf()->se.cfs_rq->rq;
	return VPMU_LOAD(&st->key) + bpf_core_field_offset(struct rq, nr_switches) -
	       bpf_core_field_offset(struct perf_event, count);
}

/* The same for its number of preemptions. */
static __always_inline __u64 preempted_at(struct kp_cpu *st)
{
	*(void *volatile *)&st->key = &st->preempted;
	return VPMU_LOAD(&st->key) - bpf_core_field_offset(struct perf_event, count);
}

/* The event of @slot has counted while it was held: start from its current value. */
static __always_inline void begin_now(struct kp_cpu *st, __u32 cpu, __u32 slot)
{
	struct bpf_perf_event_value v;
	__u64 event = kp_event(cpu, slot), now;

	if (cfg.timed >> slot & 1) {
		if (bpf_perf_event_read_value(&events, event, &v, sizeof(v)))
			return;
		now = v.counter;
		st->gap_ns[slot] = v.enabled - v.running;
		st->run_ns[slot] = v.running;
	} else if (st->where[slot]) {
		now = count_word(st, slot);
	} else {
		now = bpf_perf_event_read(&events, event);
		if ((__s64)now < 0)
			return;
	}
	st->snap[slot] = now;
}

/* As take_up_events(), for one slot with a new event. Returns the slot's bit: with constants
 * instead, the verifier of Linux 6.1 does not tell all masks apart. */
__noinline __u64 take_up_event(struct kp_cpu *st, __u32 cpu, __u32 slot, int flush, __u64 held)
{
	if (!st || slot >= VPMU_MAX_SLOTS)
		return 0;
	st->seen[slot] = st->opened[slot];
	if (st->final[slot] != KP_NONE)
		VPMU_STORE(&st->unclaimed[slot],
			   st->unclaimed[slot] + (st->final[slot] - st->snap[slot]));
	st->snap[slot] = 0;
	st->gap_ns[slot] = cfg.timed >> slot & 1 ? 0 : KP_NONE;
	st->run_ns[slot] = 0;
	st->turned[slot] = st->turn[slot];
	st->where[slot] = cfg.memory >> slot & 1 && HAS_CAST() ? event_at(st, cpu, slot) : 0;
	if (cfg.switches >> slot & 1) {
		st->where[slot] = HAS_CAST() ? switches_at(st) : 1;
		st->snap[slot] = count_word(st, slot) - !flush;
	} else if (cfg.preempts >> slot & 1) {
		st->where[slot] = HAS_CAST() ? preempted_at(st) : 2;
		st->snap[slot] = st->preempted;
	} else if (held >> slot & 1) {
		begin_now(st, cpu, slot);
	}
	st->first[slot] = st->snap[slot];
	return 1ULL << slot;
}

/*
 * Take up new events; returns their slots. A new event began at 0. The one before it, if it was of
 * the same key, can have counted a little after the CPU's last charge, while the CPU went offline.
 * The number of switches never restarts: counting begins with the switch in progress, unless this
 * is a @flush. Slots in @held, which have lost their time so far, start from the current value. A
 * reader must not take a part of this for a whole: as a charge, it begins with last_ns.
 */
__noinline __u64 take_up_events(struct kp_cpu *st, __u32 cpu, int flush, __u64 held, __u64 now)
{
	__u64 fresh = 0;
	__u32 i;

	if (!st)
		return 0;
	for (i = 0; i < VPMU_MAX_SLOTS; i++) {
		if (st->opened[i] == st->seen[i])
			continue;
		if (!fresh)
			STORE_IN_ORDER(&st->last_ns, now);
		fresh |= take_up_event(st, cpu, i, flush, held);
	}
	return fresh;
}
