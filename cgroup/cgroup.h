/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The BPF backend: a source of counts (service/backend/backend.h, backend "bpf") for everything
 * that runs on this host. One perf event for each CPU and distinct key counts; a BPF program at the
 * kernel's context switch charges what it counted to the node of the task that ran.
 * docs/internals/cgroup-counting.md says how, and what is exact.
 *
 * The daemon makes one backend, and says which cgroups and tasks run in which node. All functions:
 * control thread. Errors are negative errno. Nothing is attached to the kernel while nobody counts.
 */
#ifndef CGROUP_CGROUP_H
#define CGROUP_CGROUP_H

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
	/* Another process uses the pins, also after so many looks: waits, and says whether to look
	 * again; NULL: no. */
	bool (*busy)(unsigned int times);
	bool isolated;			     /* also interrupt isolated and nohz_full CPUs */
	unsigned int leave_counters;	     /* general counters of each CPU that are not used */
	unsigned int counters;		     /* how many a CPU has; 0: as the platform says */
	const struct bpf_backend_sys *sys;   /* NULL: the real kernel; tests give a fake */
	const struct sample_sys *sample_sys; /* the same, of sampling (cgroup/sample/sys.h) */
};

/* What is asked of the kernel (sys.c). Each function returns a negative errno on failure. */
struct bpf_object_skeleton;
struct bpf_link;
struct bpf_program;
struct perf_event_attr;
struct bpf_backend_sys {
	/* A file descriptor of an event of all tasks on @cpu, in the group of @group or of its own
	 * (-1). */
	int (*event_open)(const struct perf_event_attr *attr, int cpu, int group);
	/* Let an event of ours count, or stop it; with it the group that it is in. */
	int (*event_switch)(int fd, bool on);
	/* Its count is 0 again; its times go on. */
	int (*event_reset)(int fd);
	int (*event_read)(int fd, uint64_t *count, uint64_t *enabled_ns, uint64_t *running_ns);
	int (*load)(struct bpf_object_skeleton *s);
	struct bpf_link *(*attach)(struct bpf_program *p); /* NULL and errno */
	/* Whether a program may be attached to KP_MOVE_HOOK by @means (enum move_means): this
	 * attaches one that does nothing. @hook: BTF id of the function. */
	bool (*may_hook)(unsigned int means, int hook);
	int (*map_set)(int fd, const void *key, const void *value);
	int (*map_del)(int fd, const void *key);
	int (*pages)(int fd, const uint32_t *index, const int *page, uint32_t n);
	int (*run)(int prog, unsigned int cpu);
	/* The same with @arg; what the program returns. */
	int (*ask)(int prog, unsigned int cpu, uint64_t arg, uint32_t *answer);
	/* What CPUID says: EAX, EBX, ECX, EDX. False: this CPU has no CPUID. */
	bool (*cpuid)(uint32_t leaf, uint32_t r[4]);
	const char *files; /* put before the names of files below /proc and /sys; "" */
};

/*
 * bpf_backend_open - load the BPF program and make its maps. On an error *@out is NULL, and one
 * line to
 * @why says what failed and what is needed: -EPERM, -EOPNOTSUPP (no BTF, or a kernel without what
 * the program needs), -EINVAL (refused by the verifier), -ENOMEM, -EBUSY (the pins are another
 * version's or another process's).
 * bpf_backend_close - detach everything. With pin_dir counting goes on without us, if anybody
 * counted.
 */
int bpf_backend_open(const struct bpf_backend_opts *o, struct bpf_backend **out, char *why,
		     size_t whylen);
void bpf_backend_close(struct bpf_backend *k);
struct vpmu_backend *bpf_as_backend(struct bpf_backend *k);

/*
 * What runs in a node. A task bound to a node is charged to it wherever it runs; every other task
 * is charged to the node of its cgroup, or of the nearest ancestor cgroup that has one, else to the
 * source's `other`. A cgroup or task has one node: binding it again moves it. -ENOMEM, -ENOSPC.
 *
 * @cgroup_id: the inode number of the cgroup's directory in the cgroup2 hierarchy.
 * @tid, @start_time: a thread's id in the initial pid namespace, and field 22 of its /proc/TID/stat
 * -ESRCH: another task by now.
 */
int bpf_backend_bind_cgroup(struct vpmu_backend_node *n, uint64_t cgroup_id);
void bpf_backend_unbind_cgroup(struct vpmu_backend_node *n, uint64_t cgroup_id);
int bpf_backend_bind_task(struct vpmu_backend_node *n, pid_t tid, uint64_t start_time);
void bpf_backend_unbind_task(struct vpmu_backend_node *n, pid_t tid);

/*
 * Taking over what a former process with the same pin_dir left. Counting has gone on without it.
 *
 *   bpf_backend_name   right after node_add: @n's lasting name, not 0. If the former process had a
 *node of that name below the same parent, @n has its account now, with all that was charged, and
 *what was bound to it: returns 1, else 0. -EINVAL: @n is in use. bpf_backend_named  all nodes are
 *named and all sessions attached again. What is left of the former process is removed as by
 *node_remove, and keys that nobody counts any more are no longer counted. Until then they all are.
 *   bpf_backend_epoch  a number that is the same as long as totals are: a base of another epoch is
 *void.
 *
 *   bpf_backend_base_get, bpf_backend_base_set - the base of key @i of an attached counting. A
 *session that is attached again with its old bases goes on where it was. -EINVAL: the base is
 *greater than the total.
 */
struct bpf_backend_base {
	uint64_t total, time_ns, lost_ns;
	/* How often something was missed, which makes values partial: only what was missed since
	 * then does. */
	uint64_t gaps, lacks, missed, blind;
};
int bpf_backend_name(struct vpmu_backend_node *n, uint64_t name);
void bpf_backend_named(struct bpf_backend *k);
uint64_t bpf_backend_epoch(const struct bpf_backend *k);
void bpf_backend_base_get(const struct vpmu_counting *c, size_t i, struct bpf_backend_base *out);
int bpf_backend_base_set(struct vpmu_counting *c, size_t i, const struct bpf_backend_base *base);

/*
 * bpf_backend_tend - what must be done now and then, once a second: maps grow ahead of new nodes,
 * CPUs that have come or gone are noticed, counts of removed nodes are folded. Every other call
 * does it too, so this is for idle times.
 */
void bpf_backend_tend(struct bpf_backend *k);

/*
 * bpf_backend_turn_fd - a file that is readable when bpf_backend_tend is to be called before its
 * time, because the turn of some keys has ended (bpf_backend_opts.leave_counters). It stays the
 * backend's.
 */
int bpf_backend_turn_fd(const struct bpf_backend *k);

/* bpf_backend_budget - the hardware counters of each CPU, and what becomes of them. */
struct bpf_backend_budget {
	bool known;	      /* how many there are; else the kernel alone gives them out */
	unsigned int general; /* for any event */
	unsigned int left;    /* of these: left to others */
	unsigned int fixed;   /* for one event each */
	unsigned int keys;    /* in use that need one */
	bool turns;	      /* the keys take turns */
	bool mediated;	      /* guests have the counters to themselves: only :H is counted */
	const char *from;     /* how that is known, or why it is not; the backend's */
};
void bpf_backend_budget(const struct bpf_backend *k, struct bpf_backend_budget *out);

/* bpf_backend_usage - what the backend holds now. */
struct bpf_backend_usage {
	uint64_t map_bytes;    /* memory of all maps, as the kernel allocates it */
	uint64_t cells;	       /* of this: rows of four keys for an account on a CPU, in use */
	uint64_t accounts;     /* nodes, removed ones that are not folded yet included */
	unsigned int events;   /* perf events, also those that a former process opened */
	unsigned int programs; /* attached: 0 while nobody counts */
	uint64_t missed; /* switches that the kernel did not show: what was counted around one is
			  * unclaimed, and values of nodes that may have run say that they are
			  * partial */
	uint64_t moved;	 /* moves of running tasks that the kernel did not show: what was counted is
			  * the old node's up to the next switch, and both are partial */
	bool sees_hidden; /* missed is known */
	bool moves;	  /* a task that is moved to another cgroup while it runs is charged to the
			   * old one up to the move; else up to its next switch */
	char moves_why[200]; /* by which means, or why not */
};
void bpf_backend_usage(struct bpf_backend *k, struct bpf_backend_usage *out);

#endif
