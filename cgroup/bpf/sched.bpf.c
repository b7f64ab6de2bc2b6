// SPDX-License-Identifier: GPL-2.0-or-later OR BSD-2-Clause
/*
 * An iterator of tasks that writes the scheduler's figures of all bound ones: schedstat.c reads it
 * where it would have to read files of many threads in /proc. The figures are those of
 * /proc/TID/schedstat and of nonvoluntary_ctxt_switches in status. It runs in the daemon's read(2),
 * and writes nothing but its output.
 */
#include <linux/bpf.h>
#include <linux/types.h>

#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>

#include "cgroup/bpf/sched.h"
#include "cgroup/bpf/tasks.bpf.h"

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct sched_info {
	unsigned long long run_delay;
};

struct sched_entity {
	__u64 sum_exec_runtime;
};

struct task_struct {
	int pid;
	__u64 start_boottime;
	unsigned long nivcsw;
	struct sched_entity se;
	struct sched_info sched_info;
};

struct seq_file;

struct bpf_iter_meta {
	struct seq_file *seq;
};

struct bpf_iter__task {
	struct bpf_iter_meta *meta;
	struct task_struct *task;
};

#pragma clang attribute pop

SEC("iter/task") int on_task(struct bpf_iter__task *ctx)
{
	struct task_struct *t = ctx->task;
	struct sched_record r = {0};
	struct kp_task *bound;
	__u32 tid;

	if (!t)
		return 0;
	tid = (__u32)t->pid;
	bound = bpf_map_lookup_elem(&tasks, &tid);
	if (!bound || t->start_boottime / NS_PER_TICK != bound->start)
		return 0;
	r.tid = tid;
	r.start = bound->start;
	r.ran_ns = t->se.sum_exec_runtime;
	r.run_delay_ns = t->sched_info.run_delay;
	r.involuntary = t->nivcsw;
	bpf_seq_write(ctx->meta->seq, &r, sizeof(r));
	return 0;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
