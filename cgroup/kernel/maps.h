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
#ifndef CGROUP_KERNEL_MAPS_H
#define CGROUP_KERNEL_MAPS_H

#include <linux/types.h>

#include "vpmu/charge.h"

#define KP_SCHEMA 2u

#define KP_CHUNK  4u /* slots of a cell */
#define KP_CHUNKS (VPMU_MAX_SLOTS / KP_CHUNK)

#define KP_PAGE_CELLS	 1024u /* cells of a page */
#define KP_CELL_PAGES	 4096u /* pages of cells of a CPU, at most */
#define KP_PAGE_ACCOUNTS 4096u /* accounts of a page, and of a page of the index */
#define KP_ACCOUNT_PAGES 64u
#define KP_MAX_ACCOUNTS	 (KP_PAGE_ACCOUNTS * KP_ACCOUNT_PAGES)

#define KP_MAX_BINDINGS (1u << 18) /* cgroups, and as many tasks */
#define KP_MAX_DEPTH	64	   /* cgroups looked at from a task's own upwards */
#define KP_CACHE	256u	   /* cgroups remembered on each CPU */
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

/* In the index: the number of a cell plus 1, or 0. */

#define KP_NONE (~0ULL) /* the slot's former event, if any, was another key's */

struct kp_account {
	__u64 mask;   /* daemon: slots counted for the account or an ancestor of it */
	__u64 name;   /* daemon: lasting name of its node; 0: none */
	__u32 lacks;  /* program: something was not charged, since there was no cell left */
	__u32 parent; /* daemon: its parent's account; 0: the account is free */
};

/* A task that is bound. The start time tells it from another one with its number. */
struct kp_task {
	__u64 start; /* clock ticks, as in /proc/TID/stat */
	__u32 account;
	__u32 pad;
};

/* One cgroup's account, as of a generation. */
struct kp_cached {
	__u64 cgroup;
	__u64 mask;
	__u32 gen;
	__u32 account;
	__u32 cell; /* number of its cell for the first slots plus 1; 0: look it up */
	__u32 pad;
};

/* A CPU. The program writes all of it but for the words that say "daemon". */
struct kp_cpu {
	__u64 cset;    /* css_set of the running task when it was looked up; 0: it is a bound one */
	__u64 mask;    /* slots of the current account */
	__u32 account; /* the current account */
	__u32 gen;     /* generation in which account and mask were looked up */
	__u64 last_ns; /* when the current account was last charged, or began to run */
	__u32 seq;     /* odd while the CPU charges */
	__u32 cells;   /* used */
	__u32 cells_max; /* daemon */
	__u32 full;	 /* how often there was no cell */
	__u64 charges;
	__u64 events;	/* address of the map of events */
	__u32 tid;	/* of the running task, if it is a bound one */
	__u32 cached;	/* the current account's entry of cache */
	__u32 entering; /* the same of the account that is about to be the current one */
	__u32 pad;
	__u64 snap[VPMU_MAX_SLOTS];   /* last reading */
	__u64 gap_ns[VPMU_MAX_SLOTS]; /* time enabled minus running at the last reading */
	__u64 where[VPMU_MAX_SLOTS]; /* the event, if its count is a word in memory; the daemon sets
				      * it to 0 before the event goes */
	__u64 unclaimed[VPMU_MAX_SLOTS]; /* counted while nobody who ran had asked */
	__u64 folded[VPMU_MAX_SLOTS];	 /* daemon: moved from cells of this CPU to the daemon's */
	__u64 retired[VPMU_MAX_SLOTS];	 /* daemon: what former events of the key counted here */
	__u64 base[VPMU_MAX_SLOTS];	 /* daemon: sum of all charges when the slot got its key */
	__u64 final[VPMU_MAX_SLOTS];  /* daemon: the end of the event before this one, or KP_NONE */
	__u32 opened[VPMU_MAX_SLOTS]; /* daemon: grows with each new event of the slot */
	__u32 seen[VPMU_MAX_SLOTS];   /* the event that snap is about */
	struct kp_cached cache[KP_CACHE];
	/* Keys that take turns on the counters (budget.c). */
	__u64 has;		      /* daemon: slots of whose key the CPU has an event */
	__u64 run_ns[VPMU_MAX_SLOTS]; /* time running at the last reading */
	__u32 turn[VPMU_MAX_SLOTS];   /* daemon: odd while the daemon may have switched the event
				       * off; grows with each change */
	__u32 turned[VPMU_MAX_SLOTS]; /* turn at the last reading */
};

/* All that is read at every switch is in the first 64 bytes. */
struct kp_cfg {
	__u32 schema;	/* first, in every schema */
	__u32 gen;	/* grows with each change of bindings, masks or events */
	__u32 tasks;	/* bound tasks */
	__u32 nr_cpus;	/* possible CPUs */
	__u64 timed;	/* slots whose events may have to wait for a counter */
	__u64 memory;	/* slots whose events count in memory: those of the kernel's software */
	__u64 since_ns; /* when the last attach began */
	__u64 key[VPMU_MAX_SLOTS]; /* of the slot; 0: free */
	__u64 epoch;		   /* of the totals */
	__u32 nr_accounts;	   /* numbers given out so far */
	__u32 ready;		   /* all maps are pinned */
};

/* The index of a page in its outer map. @cpu may be nr_cpus: the daemon's cells. */
static inline __u32 kp_index_page(__u32 nr_cpus, __u32 chunk, __u32 cpu, __u32 account)
{
	return (chunk * (nr_cpus + 1) + cpu) * KP_ACCOUNT_PAGES + account / KP_PAGE_ACCOUNTS;
}

static inline __u32 kp_cell_page(__u32 cpu, __u32 cell)
{
	return cpu * KP_CELL_PAGES + cell / KP_PAGE_CELLS;
}

static inline __u32 kp_task_bit(__u32 tid)
{
	return tid % KP_TASK_BITS;
}

#endif
