/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The BPF backend: counts everything that runs on this host (service/backend/backend.h, backend
 * "bpf"). There is one perf event per CPU and distinct key. A BPF program at the kernel's context
 * switch charges its count to the node of the task that ran. docs/internals/cgroup-counting.md
 * explains how, and which values are exact.
 *
 * The daemon creates one backend and binds cgroups and tasks to nodes. All functions: control
 * thread. Errors are negative errno. Nothing is attached to the kernel while no session counts.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "service/backend/backend.h"

struct bpf_backend;
struct bpf_backend_sys;
struct sample_sys;

struct bpf_backend_opts {
	const char *pin_dir; /* bpffs directory for maps and links; NULL: nothing is pinned */
	/* Called each time the pins are found in use by another process; @times: earlier attempts.
	 * May sleep; returns true to retry. NULL: no retry. */
	bool (*busy)(unsigned int times);
	bool isolated;		     /* also interrupt isolated and nohz_full CPUs */
	unsigned int leave_counters; /* general counters of each CPU that are left to others */
	unsigned int counters;	     /* general counters of a CPU; 0: detect */
	const struct bpf_backend_sys *sys;   /* NULL: the real kernel; tests give a fake */
	const struct sample_sys *sample_sys; /* the same for sampling (cgroup/sample/sys.h) */
};

/* System calls (sys.c). Each function returns a negative errno on failure. */
struct bpf_object_skeleton;
struct bpf_link;
struct bpf_program;
struct perf_event_attr;
struct bpf_backend_sys {
	/* Open an event for all tasks on @cpu, in the group of @group (-1: none). Returns a file
	 * descriptor. */
	int (*event_open)(const struct perf_event_attr *attr, int cpu, int group);
	/* Enable or disable an event of this process, with its whole group. */
	int (*event_switch)(int fd, bool on);
	/* Reset the count to 0; the times go on. */
	int (*event_reset)(int fd);
	int (*event_read)(int fd, uint64_t *count, uint64_t *enabled_ns, uint64_t *running_ns);
	int (*load)(struct bpf_object_skeleton *s);
	struct bpf_link *(*attach)(const struct bpf_program *p); /* NULL and errno */
	/* Returns true if a program can be attached to KP_MOVE_HOOK by @means (enum move_means):
	 * attaches an empty one. @hook: BTF id of the function. */
	bool (*may_hook)(unsigned int means, int hook);
	int (*map_set)(int fd, const void *key, const void *value);
	int (*map_del)(int fd, const void *key);
	/* Put maps @page[0..n) at @index[0..n) of an array of maps, in one grace period. */
	int (*pages)(int fd, const uint32_t *index, const int *page, uint32_t n);
	/* Run program @prog on @cpu. Fails if the CPU is not online. */
	int (*run)(int prog, unsigned int cpu);
	/* The same with argument @arg; *answer: the program's return value. */
	int (*ask)(int prog, unsigned int cpu, uint64_t arg, uint32_t *answer);
	/* CPUID: EAX, EBX, ECX, EDX. Returns false if this CPU has no CPUID. */
	bool (*cpuid)(uint32_t leaf, uint32_t r[4]);
	const char *files; /* prefix of file names below /proc and /sys; "" */
};

/*
 * bpf_backend_open - load the BPF program and create its maps. On an error *@out is NULL, and @why
 * gets one line with the cause and the requirement: -EPERM, -EOPNOTSUPP (no BTF, or the kernel
 * lacks a feature that the program needs), -EINVAL (refused by the verifier), -ENOMEM, -EBUSY (the
 * pins are another version's or another process's).
 * bpf_backend_close - detach and free. With pin_dir, counting that is in progress goes on without
 * this process.
 */
int bpf_backend_open(const struct bpf_backend_opts *o, struct bpf_backend **out, char *why,
		     size_t whylen);
void bpf_backend_close(struct bpf_backend *k);
struct vpmu_backend *bpf_as_backend(struct bpf_backend *k);

/*
 * Binding cgroups and tasks to nodes. A bound task is charged to its node wherever it runs; every
 * other task is charged to the node of its cgroup or of the nearest ancestor cgroup that has one,
 * else to the backend's `other`. A cgroup or task has one node: binding it again moves it. -ENOMEM,
 * -ENOSPC.
 *
 * @cgroup_id: the inode number of the cgroup's directory in the cgroup2 hierarchy.
 * @tid, @start_time: a thread's id in the initial pid namespace, and field 22 of its
 * /proc/TID/stat. -ESRCH: the thread has ended, or the id is another task's.
 */
int bpf_backend_bind_cgroup(struct vpmu_backend_node *n, uint64_t cgroup_id);
void bpf_backend_unbind_cgroup(struct vpmu_backend_node *n, uint64_t cgroup_id);
int bpf_backend_bind_task(struct vpmu_backend_node *n, pid_t tid, uint64_t start_time);
void bpf_backend_unbind_task(struct vpmu_backend_node *n, pid_t tid);
/* bpf_backend_has_cgroup - returns true if the cgroup is bound, also if a former process did it. */
bool bpf_backend_has_cgroup(const struct vpmu_backend *s, uint64_t cgroup_id);

/*
 * Takeover from a former process with the same pin_dir. Counting has gone on without it.
 *
 * bpf_backend_name - right after node_add: set @n's persistent name, not 0. If the former process
 * had a node of that name below the same parent, @n gets its account with all its charges, and its
 * bindings: returns 1, else 0. -EINVAL: @n is in use.
 * bpf_backend_taken - returns true if @n has charges of the former process.
 * bpf_backend_named - all nodes are named and all sessions attached again. Removes the former
 * process's remaining nodes as node_remove does, and stops the keys that no session uses. All keys
 * are counted until then.
 * bpf_backend_epoch - identifies the totals: a base of another epoch is void.
 *
 * bpf_backend_base_get, bpf_backend_base_set - the base of key @i of an attached counting. A
 * session that is attached again with its old bases goes on where it was. -EINVAL: the base is
 * greater than the total, or the key was not counted all the time since.
 */
struct bpf_backend_base {
	uint64_t total, time_ns, lost_ns;
	/* Loss counters at the base. Only losses since then make values partial. */
	uint32_t gaps;
	uint32_t early_ms; /* counts of this time before the base can be in the values: aged */
	uint64_t lacks, missed, blind;
	uint32_t slot, use; /* of the key, and the number of the slot's use */
};
int bpf_backend_name(struct vpmu_backend_node *n, uint64_t name);
bool bpf_backend_taken(const struct vpmu_backend_node *n);
void bpf_backend_named(struct bpf_backend *k);
uint64_t bpf_backend_epoch(const struct bpf_backend *k);
void bpf_backend_base_get(const struct vpmu_counting *c, size_t i, struct bpf_backend_base *out);
int bpf_backend_base_set(struct vpmu_counting *c, size_t i, const struct bpf_backend_base *base);

/*
 * Pages of totals (vpmu/totals.h): all charges of a vCPU from now on, for the process that runs it.
 *
 * bpf_backend_totals_open - give @n a page, unless it has one. One task must be bound to @n, and
 * nothing else. Returns a file descriptor, to be mapped by the process, which can only read it; the
 * caller closes it. -EINVAL: @n's bindings; -EOPNOTSUPP: no pin_dir, or PREEMPT_RT; -ENOENT: KVM is
 * not there (the tracepoint kvm_userspace_exit); -ENOSPC: 4,096 vCPUs have one; -ENOMEM.
 * bpf_backend_totals_close
 * - end the page. Removing the node or binding more to it does the same. bpf_backend_has_totals -
 * returns true if @n has a page, which may be a former process's. bpf_backend_slot - the slot of
 * key @i of an attached counting, which it keeps until it is detached; -1: it has none, or no
 * event. bpf_backend_totals_show - the page has the charges of @slots, a bit each, and of no
 * others, from now on; a new page has none.
 */
int bpf_backend_totals_open(struct vpmu_backend_node *n);
void bpf_backend_totals_close(struct vpmu_backend_node *n);
void bpf_backend_totals_show(struct vpmu_backend_node *n, uint64_t slots);
bool bpf_backend_has_totals(const struct vpmu_backend_node *n);
int bpf_backend_slot(const struct vpmu_counting *c, size_t i);

/* bpf_backend_users - how many values of countings share the counters of @key; 0: it is not
 * counted.
 */
unsigned int bpf_backend_users(const struct bpf_backend *k, vpmu_key_t key);

/*
 * bpf_backend_tend - periodic maintenance, once a second: grows maps ahead of new nodes, notices
 * CPUs that have come or gone, folds the counts of removed nodes. Every other call does it too, so
 * this is for idle times.
 */
void bpf_backend_tend(struct bpf_backend *k);

/*
 * bpf_backend_turn_fd - a file descriptor that is readable when bpf_backend_tend is due early,
 * because the turn of some multiplexed keys has ended (bpf_backend_opts.leave_counters). Owned by
 * the backend.
 */
int bpf_backend_turn_fd(const struct bpf_backend *k);

/* bpf_backend_budget - the hardware counters of each CPU and their use. */
struct bpf_backend_budget {
	bool known; /* the number of counters is known; else only the kernel schedules them */
	unsigned int general; /* for any event */
	unsigned int left;    /* of `general`: left to others */
	unsigned int fixed;   /* for one event each */
	unsigned int keys;    /* keys in use that need a counter */
	bool turns;	      /* the keys are multiplexed */
	bool mediated;	      /* guests own the PMU: only :H is counted */
	const char *from;     /* source of the numbers, or why they are unknown; the backend's */
};
void bpf_backend_budget(const struct bpf_backend *k, struct bpf_backend_budget *out);

/* bpf_backend_usage - resources and losses of the backend. */
struct bpf_backend_usage {
	uint64_t map_bytes;    /* memory of all maps, as the kernel allocates it */
	uint64_t cells;	       /* rows of four keys of an account on a CPU, in use */
	uint64_t accounts;     /* nodes, including removed ones that are not folded yet */
	unsigned int events;   /* perf events, including a former process's */
	unsigned int programs; /* attached: 0 while no session counts */
	uint64_t missed;  /* switches that the program did not see: counts around one are unclaimed,
			   * and values of nodes that may have run are partial */
	uint64_t moved;	  /* moves of running tasks that the program did not see: the old node is
			   * charged up to the next switch, and both values are partial */
	bool sees_hidden; /* missed is known */
	bool moves; /* a task that is moved to another cgroup while it runs is charged to the old
		     * one up to the move; else up to its next switch */
	char moves_why[200]; /* how moves are seen, or why not */
};
void bpf_backend_usage(struct bpf_backend *k, struct bpf_backend_usage *out);
