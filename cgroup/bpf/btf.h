/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The few kernel structs that account.bpf.c looks into. libbpf finds the offsets in the BTF of the
 * running kernel when it loads the program, so the build needs no vmlinux.h. Only members that the
 * program reads are here.
 */
#ifndef CGROUP_BPF_BTF_H
#define CGROUP_BPF_BTF_H

#include <linux/types.h>

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct kernfs_node {
	__u64 id;
};

struct cgroup;

struct cgroup_subsys_state {
	struct cgroup *cgroup;
	struct cgroup_subsys_state *parent;
	__u64 serial_nr; /* no two have the same */
};

struct cgroup {
	struct cgroup_subsys_state self;
	struct kernfs_node *kn;
};

/* The kernel's own numbers differ. */
enum cgroup_subsys_id { perf_event_cgrp_id = 1 };

struct css_set {
	struct cgroup *dfl_cgrp; /* in the cgroup2 hierarchy */
	struct cgroup_subsys_state *subsys[2];
};

/* The scheduler's queue of a CPU, by which its clock is found. */
struct rq {
	__u64 clock;
	__u64 nr_switches; /* with the one that goes on when the program runs */
};

struct cfs_rq {
	struct rq *rq; /* with CONFIG_FAIR_GROUP_SCHED, as the next one */
};

struct sched_entity {
	struct cfs_rq *cfs_rq;
};

struct thread_info {
	__u32 cpu;
};

struct signal_struct {
	unsigned int nr_threads; /* unsigned: libbpf then takes it in whatever size it has */
};

struct task_struct {
	struct thread_info thread_info;
	unsigned int on_cpu; /* with CONFIG_SMP; a byte on the newest kernels */
	struct signal_struct *signal;
	struct sched_entity se;
	int pid;
	__u64 start_boottime; /* ns */
	struct css_set *cgroups;
};

/* How an array of perf events finds its events, and what one has counted. */
struct perf_event {
	struct {
		struct {
			struct {
				__s64 counter;
			} a;
		} a;
	} count;
};

struct bpf_event_entry {
	struct perf_event *event;
};

struct bpf_array {
	void *ptrs[0];
};

#pragma clang attribute pop

#endif
