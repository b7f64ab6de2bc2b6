/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The kernel for test_cgroup_program: tasks, cgroups, events, clocks, maps, and the helpers that
 * the BPF program calls. */
#ifndef TESTS_UNIT_CGROUP_PROGRAM_KERNEL_H
#define TESTS_UNIT_CGROUP_PROGRAM_KERNEL_H

#include <criterion/criterion.h>

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* The program, compiled for user space. */
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

#endif
