/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The kernel structs that account.bpf.c reads, reduced to the members it uses. libbpf finds the
 * offsets in the running kernel's BTF when it loads the program, so the build needs no vmlinux.h.
 */
#pragma once

#include <linux/types.h>

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct kernfs_node {
	__u64 id;
};

struct cgroup;

struct cgroup_subsys_state {
	struct cgroup *cgroup;
	struct cgroup_subsys_state *parent;
	__u64 serial_nr; /* unique, never reused */
};

struct cgroup {
	struct cgroup_subsys_state self;
	int level; /* of the root: 0 */
	struct kernfs_node *kn;
	struct cgroup *ancestors[0]; /* by level, with itself */
};

/* libbpf replaces the value by the kernel's. */
enum cgroup_subsys_id { perf_event_cgrp_id = 1 };

struct css_set {
	struct cgroup *dfl_cgrp; /* in the cgroup2 hierarchy */
	struct cgroup_subsys_state *subsys[2];
};

/* The run queue of a CPU, with its clock. */
struct rq {
	__u64 clock;
	__u64 nr_switches; /* including the switch in progress when the program runs */
};

struct cfs_rq {
	int throttle_count; /* with CONFIG_CFS_BANDWIDTH: of it and its ancestors */
	struct rq *rq;	    /* cfs_rq.rq and sched_entity.cfs_rq: with CONFIG_FAIR_GROUP_SCHED */
};

struct sched_entity {
	struct cfs_rq *cfs_rq;
};

struct thread_info {
	__u32 cpu;
};

struct signal_struct {
	unsigned int nr_threads; /* unsigned: libbpf then adapts to any size */
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

/* From an array of perf events to an event and its count. */
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
