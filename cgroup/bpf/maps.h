/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Layout of the maps that the BPF programs (account.bpf.c) and the daemon share, and the writer of
 * each member. Both compile this file. Change KP_SCHEMA with any change of a layout: pinned maps of
 * another schema are refused.
 *
 * An account is a number; each node has one. Account 0 belongs to no node. A cell holds the charges
 * of an account on one CPU for four slots. Cells, the index that finds them, and the accounts are
 * in pages: inner maps of an array of maps. So they grow while the program runs, nothing is ever
 * copied, and the daemon reads them as memory.
 */
#pragma once

#include <linux/types.h>

#include "vpmu/charge.h"
#include "vpmu/totals.h"

#ifndef KP_SCHEMA /* a test builds vpmud with another one */
#define KP_SCHEMA 12u
#endif

#define KP_CHUNK  4u /* slots of a cell */
#define KP_CHUNKS (VPMU_MAX_SLOTS / KP_CHUNK)

#define KP_NEAR		 448u  /* cells of a CPU that are in its struct kp_cpu */
#define KP_PAGE_CELLS	 1024u /* cells of a page */
#define KP_CELL_PAGES	 4096u /* maximum pages of cells of a CPU */
#define KP_PAGE_ACCOUNTS 4096u /* accounts of a page, and of a page of the index */
#define KP_ACCOUNT_PAGES 64u
#define KP_MAX_ACCOUNTS	 (KP_PAGE_ACCOUNTS * KP_ACCOUNT_PAGES)

/* Figures of /proc (schedstat.c), the time that the threads ran, when idle time was last read, and
 * how often some of it was lost. */
#define KP_SCHED	   6u
#define KP_SCHED_RAN	   2u
#define KP_SCHED_IDLE	   4u
#define KP_SCHED_IDLE_LOST 5u

#define KP_MAX_BINDINGS (1u << 18) /* cgroups, and as many tasks */
#define KP_MAX_TOTALS	4096u	   /* accounts with a page of totals (vpmu/totals.h) */
#define KP_MAX_DEPTH	64	   /* cgroups visited from a task's own upwards; */
#define KP_TOP_LEVELS	40	   /* so many of them are those nearest to the root */
#define KP_CACHE_BITS	9u
#define KP_CACHE	(1u << KP_CACHE_BITS) /* cgroups and bound tasks cached */
#define KP_TASK_BITS	(1u << 16)

/* The first accounts. */
#define KP_ROOT	 1u
#define KP_OTHER 2u

/* Charges of an account for four slots on one CPU. The program writes those of its CPU; the daemon
 * writes those of CPU number nr_cpus, which collect removed nodes' counts. */
struct kp_cell {
	__u64 time_ns; /* time charged to the account here */
	struct vpmu_row row[KP_CHUNK];
};

/* An index entry is the number of a cell, from 1; 0: none. */

/* No value. In final: the slot's former event, if any, was of another key. */
#define KP_NONE (~0ULL)

struct kp_account {
	__u64 mask;   /* daemon: slots counted for the account or an ancestor of it */
	__u64 name;   /* daemon: persistent name of its node; 0: none */
	__u32 lacks;  /* program: charges lost because no cell was left */
	__u32 missed; /* program: intervals not charged, or charged in part to the wrong account,
		       * because of a missed switch or move */
	__u32 parent; /* daemon: its parent's account; 0: the account is free */
	__u32 totals; /* daemon: 1 + index of its page in the map of totals; 0: it has none */
	__u64 shown;  /* daemon: slots that the page shows */
	/* daemon: figures of the scheduler (schedstat.c), by enum vpmu_sched, and how often some of
	 * a bound thread's were lost. */
	__u32 sched_lost;
	__u32 tenant; /* daemon: account of the node below the root that it belongs to */
	__u64 sched[KP_SCHED];
};

/* A bound task. The start time distinguishes it from a later task with its number. */
struct kp_task {
	__u64 start; /* clock ticks, as in /proc/TID/stat */
	__u32 account;
	__u32 pad;
};

/* The account that is charged, and its cell. Loaded and stored as one word. */
struct kp_place {
	__u32 near; /* its cell for the first slots if that is a near one: byte offset in
		     * kp_cpu.near_cell, which saves a multiplication. 0 (cell 0) if nothing in the
		     * first slots is counted for the account; else KP_FAR. KP_TOTALS: the account
		     * has a page of totals, and something is counted for it. From KP_USUAL_SHIFT
		     * on kp_cpu.usual, if the account is usual */
	__u32 account;
};

/*
 * Cache entry of a CPU for a cgroup or bound task, as of the CPU's generation: all entries are
 * cleared when the generation moves. Keys are unique: a cgroup's serial number is never reused and
 * is small; a task's address is a kernel address, and kp_cpu.start distinguishes the task from a
 * later one there.
 *
 * An account is usual if nothing is counted for it, or exactly the first n keys, n = kp_cpu.usual,
 * and its cell is a near one. Switches between usual accounts take the fast path. Entries of other
 * accounts have the inverse of their key, so that the fast path does not find them.
 */
struct kp_cached {
	__u64 key;  /* cache_key() of the cgroup's serial number (the root's is 0), or the task's
		     * address; KP_EMPTY */
	__u64 mask; /* slots that are counted for the account */
	union {
		struct kp_place at;
		__u64 place; /* at, as one word */
	};
	__u32 usual;
	__u32 tenant; /* kp_account.tenant */
};

/* In kp_cpu.nr: tasks of one css_set may be in different accounts. */
#define KP_BOUND (1ULL << 63)

#define KP_EMPTY     (1ULL << 62) /* no key, and no inverse of one */
#define KP_FAR	     0xffffu	  /* not a near cell, or not made yet */
#define KP_TOTALS    0xfffeu
#define KP_NEAR_MASK 0x7ff8u /* multiples of 8: atomic operations must be aligned */

#define KP_USUAL_SHIFT 16

/*
 * State of a CPU. Written by the program, except members marked "daemon".
 *
 * Times in ns are of the scheduler's clock of the CPU, which the kernel reads anyway at the start
 * of each switch. In an interrupt between two switches there is no such reading, so the program
 * records at some switches how far CLOCK_MONOTONIC is ahead of it.
 */
struct kp_cpu {
	union {
		struct kp_place at; /* the current account */
		__u64 place;	    /* at, as one word */
	};
	__u64 cset; /* css_set of the running task at its lookup, if the current account is usual;
		     * else 0 */
	__u64 nr;   /* the scheduler's number of the CPU's next switch, as of the last one that was
		     * seen; with KP_BOUND while tasks are bound; 0: unknown */
	__u64 until_ns; /* daemon and program: after this time the next switch takes the slow path
			 * and updates the skew; 0: at once */
	__u64 last_ns;	/* when the current account was last charged, or began to run; grows with
			 * each charge */
	__u64 done_ns;	/* set to last_ns at the end of a charge: differs while the CPU charges */
	__u32 usual;	/* number of keys of usual accounts: 1 to KP_CHUNK */
	__u32 gen;	/* generation of account, mask and cache */
	__u32 event[KP_CHUNK]; /* kp_event() of this CPU */
	__u32 want;	       /* daemon: the current generation */
	__u32 skew;	       /* enum kp_skew */
	__u32 missed;	       /* switches that were not seen */
	__u32 moved;   /* missed moves: the tasks were charged to the account that they had left */
	__u32 blind;   /* intervals with missed switches in which any account may have run */
	__u32 full;    /* charges lost because no cell was left */
	__u64 skew_ns; /* CLOCK_MONOTONIC minus the CPU's clock; see skew */
	__u32 cells;   /* cells in use */
	__u32 cells_max;	      /* daemon */
	__u64 mask;		      /* of the current account if it is not usual; see kp_mask() */
	__u64 other_cset;	      /* css_set of the running task at its lookup, if cset is 0 */
	__u64 events;		      /* address of the map of events */
	__u64 key;		      /* scratch: makes a number of an address */
	__u64 counted;		      /* not 0: the last charge counted something */
	__u32 moves;		      /* kp_cfg.moves at the last slow path */
	__u32 tenant;		      /* of the current account, if it is not usual */
	__u64 snap[VPMU_MAX_SLOTS];   /* last reading */
	__u64 first[VPMU_MAX_SLOTS];  /* the reading with which counting began */
	__u64 where[VPMU_MAX_SLOTS];  /* address of the event, if its count is a word in memory; 1:
				       * it is in nr, 2: in preempted; the daemon clears it before
				       * the event is closed */
	__u64 gap_ns[VPMU_MAX_SLOTS]; /* time enabled minus running at the last reading */
	__u64 unclaimed[VPMU_MAX_SLOTS]; /* counted for no account */
	__u64 folded[VPMU_MAX_SLOTS];	 /* daemon: moved from this CPU's cells to the daemon's */
	__u64 retired[VPMU_MAX_SLOTS];	 /* daemon: counts of the key's former events here */
	__u64 base[VPMU_MAX_SLOTS];	 /* daemon: sum of all charges when the slot got its key */
	__u64 final[VPMU_MAX_SLOTS];	 /* daemon: final count of the previous event, or KP_NONE */
	__u32 opened[VPMU_MAX_SLOTS];	 /* daemon: number of the slot's current event */
	__u32 seen[VPMU_MAX_SLOTS];	 /* the event (see opened) that snap is a reading of */
	struct kp_cached cache[KP_CACHE];
	/* Multiplexing of keys (budget.c). */
	__u64 has;     /* daemon: slots with an event on this CPU */
	__u64 opening; /* daemon: slots with events being replaced */
	__u64 held;    /* opening, as of the CPU's generation: these slots are not read, since a new
			* event would be mistaken for the one of snap */
	__u64 flushing;		      /* enum kp_flushing */
	__u64 run_ns[VPMU_MAX_SLOTS]; /* time running at the last reading */
	__u32 turn[VPMU_MAX_SLOTS]; /* daemon: odd while the event may be disabled; grows with each
				     * change */
	__u32 turned[VPMU_MAX_SLOTS]; /* turn at the last reading */
	__u64 start[KP_CACHE]; /* by index in cache: the task's start time, ns; 0: a cgroup */
	__u64 preempted; /* switches from a task that could go on, and for which this is counted,
			  * to a task of another tenant */
	__u64 ident; /* daemon: identifies the CPU's hotplug cycle in which its events were opened
		      * (hotplug.c); 0: all events are hidden from the program */
	__u64 whole; /* slots that the root counts, as of the CPU's generation */
	/* The first cells, by number. Cell 0 collects fast-path counts of no account, which are not
	 * in unclaimed. */
	struct kp_cell near_cell[KP_NEAR + 1];
};

enum kp_skew {
	KP_SKEW_NONE,  /* unknown */
	KP_SKEW_GUESS, /* measured between two switches, from a stale reading of the CPU's clock */
	KP_SKEW_KNOWN, /* measured at a switch */
};

/* A CPU's flush of itself, and one at the exit of KVM_RUN, are the only programs that run with
 * interrupts on, but without preemption. So the program for moves can interrupt them; the moved
 * task is then the one that flushes. A flush that the daemon asks for can interrupt an exit's: it
 * does nothing, returns KP_FLUSH_BUSY, and the daemon asks again. */
enum kp_flushing {
	KP_FLUSH_NONE,
	KP_FLUSH_RUNS,
	KP_FLUSH_MOVED, /* running, and its task was moved during it */
};

#define KP_FLUSH_BUSY 1

/* First argument of the flush program if the daemon asks for it; else it is KVM's exit reason. With
 * KP_END or KP_GAP, in place of a flush: end the page of totals with the index in the low half, or
 * count a gap there. Only a program can write to these pages. */
#define KP_FLUSH_ASKED (1ULL << 63)
#define KP_END	       (1ULL << 62)
#define KP_GAP	       (1ULL << 61)

/* The tracepoint at which KVM_RUN returns to user space. */
#define KP_EXIT_HOOK "kvm_userspace_exit"

/* Size of an element of the map of CPUs: a power of two, so that finding it takes a shift. */
#define KP_CPU_SHIFT 16
#define KP_CPU_BYTES (1u << KP_CPU_SHIFT)
_Static_assert(sizeof(struct kp_cpu) <= KP_CPU_BYTES, "a CPU's element is too small");
_Static_assert(KP_NEAR * sizeof(struct kp_cell) <= KP_NEAR_MASK, "near cells are out of reach");

/* Sections of the programs, and a constant in their instructions that features.c replaces by a mask
 * of CPU numbers. */
#define KP_SEC_SWITCH "vpmu_switch"
#define KP_SEC_FLUSH  "vpmu_flush"
#define KP_SEC_MOVE   "vpmu_move"	/* by fentry */
#define KP_SEC_PROBE  "vpmu_move_probe" /* by a kprobe */
#define KP_SEC_ATTACH "vpmu_attach"
#define KP_FIT_CPUS   0x76706d75

/* Kernel function called on the CPU of each running task that is moved to another cgroup, in that
 * task's context, with interrupts off. */
#define KP_MOVE_HOOK "__perf_cgroup_move"

/* Interval in ns after which the skew is measured again: until then the two clocks drift apart by
 * less than 0.1 ms. */
#define KP_LOOK_NS 100000000ULL

/* Everything that is read at every switch is in the first 64 bytes. */
struct kp_cfg {
	__u32 schema;  /* first, in every schema */
	__u32 gen;     /* grows with each change of bindings, masks or events */
	__u32 tasks;   /* bound tasks */
	__u32 nr_cpus; /* possible CPUs */
	__u64 timed;   /* slots with events that may have waited for a counter: their times are read
			*/
	__u64 memory;  /* slots with events that count in a word of memory: software events */
	__u64 switches; /* slots without an event: read the run queue's number of switches */
	__u64 since_ns; /* when the last attach began */
	__u64 key[VPMU_MAX_SLOTS]; /* of the slot; 0: free */
	__u64 epoch;		   /* identifies the totals; see bpf_backend_epoch */
	__u32 usual;		   /* number of keys of most accounts: see kp_cached */
	__u32 nr_accounts;	   /* account numbers allocated so far */
	__u32 ready;		   /* all maps are pinned */
	__u32 moves; /* nonzero: every move of a running task to another cgroup calls on_move; a new
		      * number each time this begins. 0: moves can be missed */
	/* daemon: losses of the slot's events that no time accounts for. */
	__u32 gaps[VPMU_MAX_SLOTS];
	__u32 use[VPMU_MAX_SLOTS]; /* daemon: how many keys the slot has had */
	__u32 told; /* daemon: losses that all pages of totals have been told of (totals.c) */
	__u32 pad;
	__u64 preempts; /* slots without an event: count kp_cpu.preempted */
};

/* The mask of the current account of a CPU. */
static inline __u64 kp_mask(const struct kp_cpu *st)
{
	if (!VPMU_LOAD(&st->cset))
		return VPMU_LOAD(&st->mask);
	return VPMU_LOAD(&st->at.near) & KP_NEAR_MASK ? (1ULL << VPMU_LOAD(&st->usual)) - 1 : 0;
}

/* Counts of a CPU for @slot that are charged to no account. */
static inline __u64 kp_unclaimed(const struct kp_cpu *st, __u32 slot)
{
	return VPMU_LOAD(&st->unclaimed[slot]) +
	       (slot < KP_CHUNK ? VPMU_LOAD(&st->near_cell[0].row[slot].total) : 0);
}

/* Index of an index page in its outer map. @cpu may be nr_cpus: the daemon's cells. */
static inline __u32 kp_index_page(__u32 nr_cpus, __u32 chunk, __u32 cpu, __u32 account)
{
	return (chunk * (nr_cpus + 1) + cpu) * KP_ACCOUNT_PAGES + account / KP_PAGE_ACCOUNTS;
}

/* Index of an event in the map of events. */
static inline __u32 kp_event(__u32 cpu, __u32 slot)
{
	return cpu * VPMU_MAX_SLOTS + slot;
}

/* Page of cell number @nr, which is not a near one, and its index there. */
static inline __u32 kp_cell_page(__u32 cpu, __u32 nr)
{
	return cpu * KP_CELL_PAGES + (nr - KP_NEAR - 1) / KP_PAGE_CELLS;
}

static inline __u32 kp_cell_at(__u32 nr)
{
	return (nr - KP_NEAR - 1) % KP_PAGE_CELLS;
}

static inline __u32 kp_task_bit(__u32 tid)
{
	return tid % KP_TASK_BITS;
}
