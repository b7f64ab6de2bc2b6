/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The maps that the BPF program (account.bpf.c) and the daemon share: their layout and who writes
 * what. Both compile this file. Change KP_SCHEMA with any change of a layout: pinned maps of
 * another schema are refused.
 *
 * An account is a number; each node has one. Account 0 is nobody's. What an account was charged on
 * one CPU for four slots is a cell. Cells, the index that finds them, and the accounts are in
 * pages: inner maps of an array of maps. So they grow while the program runs, nothing is ever
 * copied, and the daemon reads them as memory.
 */
#ifndef CGROUP_BPF_MAPS_H
#define CGROUP_BPF_MAPS_H

#include <linux/types.h>

#include "vpmu/charge.h"

#ifndef KP_SCHEMA /* a test builds a vpmud with another one */
#define KP_SCHEMA 6u
#endif

#define KP_CHUNK  4u /* slots of a cell */
#define KP_CHUNKS (VPMU_MAX_SLOTS / KP_CHUNK)

#define KP_NEAR		 448u  /* cells of a CPU that are in its struct kp_cpu */
#define KP_PAGE_CELLS	 1024u /* cells of a page */
#define KP_CELL_PAGES	 4096u /* pages of cells of a CPU, at most */
#define KP_PAGE_ACCOUNTS 4096u /* accounts of a page, and of a page of the index */
#define KP_ACCOUNT_PAGES 64u
#define KP_MAX_ACCOUNTS	 (KP_PAGE_ACCOUNTS * KP_ACCOUNT_PAGES)

#define KP_MAX_BINDINGS (1u << 18) /* cgroups, and as many tasks */
#define KP_MAX_DEPTH	64	   /* cgroups looked at from a task's own upwards */
#define KP_CACHE_BITS	9u
#define KP_CACHE	(1u << KP_CACHE_BITS) /* cgroups and bound tasks remembered on each CPU */
#define KP_TASK_BITS	(1u << 16)

/* The first accounts. */
#define KP_ROOT	 1u
#define KP_OTHER 2u

/* What an account was charged for four slots on one CPU. The program writes those of its CPU; the
 * daemon writes those of the CPU number that no CPU has, where removed nodes' counts go. */
struct kp_cell {
	__u64 time_ns; /* time the account was charged here */
	struct vpmu_row row[KP_CHUNK];
};

/* In the index: the number of a cell, from 1 on, or 0: there is none. */

/* No such: of final, the slot's former event, if any, was another key's. */
#define KP_NONE (~0ULL)

struct kp_account {
	__u64 mask;   /* daemon: slots counted for the account or an ancestor of it */
	__u64 name;   /* daemon: lasting name of its node; 0: none */
	__u32 lacks;  /* program: how often it was not charged, since there was no cell left */
	__u32 missed; /* program: how often it was not charged, or was charged for others, since
		       * a switch or a move was not seen */
	__u32 parent; /* daemon: its parent's account; 0: the account is free */
	__u32 pad;
};

/* A task that is bound. The start time tells it from another one with its number. */
struct kp_task {
	__u64 start; /* clock ticks, as in /proc/TID/stat */
	__u32 account;
	__u32 pad;
};

/* Who is charged, and where. One load or store takes or changes both. */
struct kp_place {
	__u32 near; /* where its cell for the first slots is, if it is a near one: bytes from the
		     * begin of kp_cpu.near_cell, so that the program need not multiply. Nobody's
		     * (0) if nothing in the first slots is counted for the account; KP_FAR */
	__u32 account;
};

/*
 * What a CPU remembers of a cgroup or of a bound task, as of the generation that the CPU knows: it
 * forgets all of them when the generation moves. Neither key is ever another one's: a cgroup's
 * serial number is given once and is small; a task's address is a kernel address, and kp_cpu.start
 * tells the task from another one that is there later.
 *
 * The usual account is one for which nothing is counted, or the first n keys and no others, n =
 * kp_cpu.usual, if its cell is a near one. Switches between usual accounts take the short way. The
 * entry of another account has the inverse of its key, so that the short way does not find it.
 */
struct kp_cached {
	__u64 key;  /* the cgroup's serial number (the root's is 0), or the task's address; KP_EMPTY
		     */
	__u64 mask; /* slots that are counted for the account */
	union {
		struct kp_place at;
		__u64 place; /* at, as one word */
	};
	__u32 usual;
	__u32 pad;
};

/* In kp_cpu.nr: tasks of one css_set may be in two accounts. */
#define KP_BOUND (1ULL << 63)

#define KP_EMPTY     (1ULL << 62) /* no key, and no inverse of one */
#define KP_FAR	     0xffffu	  /* it is no near cell, or is not made yet */
#define KP_NEAR_MASK 0x7fffu

/*
 * A CPU. The program writes all of it but for the words that say "daemon".
 *
 * Times of the CPU, "ns", are of the scheduler's clock of that CPU, which the kernel reads at the
 * begin of each switch anyway. An interrupt between two switches has no such reading. So the
 * program notes at some switches how far CLOCK_MONOTONIC is ahead of the CPU's clock.
 */
struct kp_cpu {
	union {
		struct kp_place at; /* the current account */
		__u64 place;	    /* at, as one word */
	};
	__u64 cset; /* css_set of the running task when it was looked up, if the current account
		     * is usual; else 0 */
	__u64 nr;   /* the number that the CPU's next switch has by the scheduler's count, as of the
		     * last one that was seen; with KP_BOUND while tasks are bound; 0: not known */
	__u64 until_ns; /* daemon and program: after this time the next switch looks at everything
			 * again, also at the skew; 0: at once */
	__u64 last_ns;	/* when the current account was last charged, or began to run; it grows with
			 * each charge */
	__u64 done_ns;	/* the end of that charge: differs from last_ns while the CPU charges */
	__u32 usual;	/* how many keys are counted for usual accounts: 1 to KP_CHUNK */
	__u32 gen;	/* generation in which account, mask and cache were looked up */
	__u32 event[KP_CHUNK]; /* kp_event() of this CPU */
	__u32 want;	       /* daemon: the generation */
	__u32 skew;	       /* enum kp_skew */
	__u32 missed;	       /* switches that were not seen */
	__u32 moved;	  /* moves that were not seen, and for that reason tasks were charged to
			   * an account that they had left */
	__u32 blind;	  /* how often other accounts than the two that are known may have run
			   * between switches that were not seen */
	__u32 full;	  /* how often there was no cell */
	__u64 skew_ns;	  /* CLOCK_MONOTONIC minus the CPU's clock; see skew */
	__u32 cells;	  /* used */
	__u32 cells_max;  /* daemon */
	__u64 mask;	  /* of the current account if it is not usual; see kp_mask() */
	__u64 other_cset; /* css_set of the running task when it was looked up, if cset is 0 */
	__u64 events;	  /* address of the map of events */
	__u64 key;	  /* to make a number of an address */
	__u64 counted;	  /* not 0: what was charged or unclaimed last was more than nothing */
	__u32 moves;	  /* kp_cfg.moves when the CPU last looked at everything */
	__u32 pad;
	__u64 snap[VPMU_MAX_SLOTS];  /* last reading */
	__u64 first[VPMU_MAX_SLOTS]; /* the reading with which counting began */
	__u64 where[VPMU_MAX_SLOTS]; /* the event, if its count is a word in memory; the daemon sets
				      * it to 0 before the event goes */
	__u64 gap_ns[VPMU_MAX_SLOTS];	 /* time enabled minus running at the last reading */
	__u64 unclaimed[VPMU_MAX_SLOTS]; /* counted while nobody who ran had asked */
	__u64 folded[VPMU_MAX_SLOTS];	 /* daemon: moved from cells of this CPU to the daemon's */
	__u64 retired[VPMU_MAX_SLOTS];	 /* daemon: what former events of the key counted here */
	__u64 base[VPMU_MAX_SLOTS];	 /* daemon: sum of all charges when the slot got its key */
	__u64 final[VPMU_MAX_SLOTS];  /* daemon: the end of the event before this one, or KP_NONE */
	__u32 opened[VPMU_MAX_SLOTS]; /* daemon: grows with each new event of the slot */
	__u32 seen[VPMU_MAX_SLOTS];   /* the event that snap is about */
	struct kp_cached cache[KP_CACHE];
	/* Keys that take turns on the counters (budget.c). */
	__u64 has;     /* daemon: slots of whose key the CPU has an event */
	__u64 opening; /* daemon: slots whose events it replaces */
	__u64 held; /* opening, as of the generation that the CPU knows: these slots are not read,
		     * since a new event would be taken for the one that snap is about */
	__u64 flushing;		      /* enum kp_flushing */
	__u64 run_ns[VPMU_MAX_SLOTS]; /* time running at the last reading */
	__u32 turn[VPMU_MAX_SLOTS];   /* daemon: odd while the daemon may have switched the event
				       * off; grows with each change */
	__u32 turned[VPMU_MAX_SLOTS]; /* turn at the last reading */
	__u64 start[KP_CACHE]; /* by entry of cache: when the task started, ns; 0: a cgroup */
	__u64 ident; /* daemon: at which coming of the CPU its events were opened (hotplug.c); 0:
		      * the program sees none of them */
	/* The first cells, by number. Number 0 is nobody's: what was counted for no account on the
	 * short way is there, and not in unclaimed. */
	struct kp_cell near_cell[KP_NEAR + 1];
};

enum kp_skew {
	KP_SKEW_NONE,  /* not known */
	KP_SKEW_GUESS, /* found between two switches, when the CPU's clock had not been read lately
			*/
	KP_SKEW_KNOWN, /* found at a switch */
};

/* A flush of the CPU that asks for it is the one program that runs with interrupts on. So the one
 * for moves can interrupt it: then the task that was moved is the one that flushes. */
enum kp_flushing {
	KP_FLUSH_NONE,
	KP_FLUSH_RUNS,
	KP_FLUSH_MOVED, /* it runs, and its task was moved meanwhile */
};

/* What the map of CPUs has for one: a power of two, so that finding it takes a shift. */
#define KP_CPU_SHIFT 16
#define KP_CPU_BYTES (1u << KP_CPU_SHIFT)
_Static_assert(sizeof(struct kp_cpu) <= KP_CPU_BYTES, "a CPU's element is too small");
_Static_assert(KP_NEAR * sizeof(struct kp_cell) <= KP_NEAR_MASK, "near cells are out of reach");

/* For features.c: the sections of the programs, and a constant in their instructions that it
 * replaces by a mask of CPU numbers. */
#define KP_SEC_SWITCH "vpmu_switch"
#define KP_SEC_FLUSH  "vpmu_flush"
#define KP_SEC_MOVE   "vpmu_move"	/* by fentry */
#define KP_SEC_PROBE  "vpmu_move_probe" /* by a kprobe */
#define KP_SEC_ATTACH "vpmu_attach"
#define KP_FIT_CPUS   0x76706d75

/* The kernel calls it on the CPU of each running task that is moved to another cgroup, as the task,
 * with interrupts off. */
#define KP_MOVE_HOOK "__perf_cgroup_move"

/* After so many ns the skew is found again: the two clocks drift apart by less than 0.1 ms. */
#define KP_LOOK_NS 100000000ULL

/* All that is read at every switch is in the first 64 bytes. */
struct kp_cfg {
	__u32 schema;	/* first, in every schema */
	__u32 gen;	/* grows with each change of bindings, masks or events */
	__u32 tasks;	/* bound tasks */
	__u32 nr_cpus;	/* possible CPUs */
	__u64 timed;	/* slots whose events may have to wait for a counter */
	__u64 memory;	/* slots whose events count in memory: those of the kernel's software */
	__u64 switches; /* slots without an event: the run queue has the number of switches */
	__u64 since_ns; /* when the last attach began */
	__u64 key[VPMU_MAX_SLOTS]; /* of the slot; 0: free */
	__u64 epoch;		   /* of the totals */
	__u32 usual;		   /* how many keys most accounts count: see kp_cached */
	__u32 nr_accounts;	   /* numbers given out so far */
	__u32 ready;		   /* all maps are pinned */
	__u32 moves; /* every move of a running task to another cgroup calls on_move: another
		      * number each time this begins; 0: they are not all seen */
	/* daemon: how often events of the slot's key did not count, and no time says so. */
	__u32 gaps[VPMU_MAX_SLOTS];
};

/* The slots that are counted for the current account of a CPU. */
static inline __u64 kp_mask(const struct kp_cpu *st)
{
	if (!VPMU_LOAD(&st->cset))
		return VPMU_LOAD(&st->mask);
	return VPMU_LOAD(&st->at.near) ? (1ULL << VPMU_LOAD(&st->usual)) - 1 : 0;
}

/* What a CPU has counted for @slot and charged to nobody. */
static inline __u64 kp_unclaimed(const struct kp_cpu *st, __u32 slot)
{
	return VPMU_LOAD(&st->unclaimed[slot]) +
	       (slot < KP_CHUNK ? VPMU_LOAD(&st->near_cell[0].row[slot].total) : 0);
}

/* The index of a page in its outer map. @cpu may be nr_cpus: the daemon's cells. */
static inline __u32 kp_index_page(__u32 nr_cpus, __u32 chunk, __u32 cpu, __u32 account)
{
	return (chunk * (nr_cpus + 1) + cpu) * KP_ACCOUNT_PAGES + account / KP_PAGE_ACCOUNTS;
}

/* The index of an event in the map of events. */
static inline __u32 kp_event(__u32 cpu, __u32 slot)
{
	return cpu * VPMU_MAX_SLOTS + slot;
}

/* The page of cell number @nr, which is not a near one, and its place there. */
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

#endif
