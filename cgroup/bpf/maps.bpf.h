/* SPDX-License-Identifier: GPL-2.0-or-later OR BSD-2-Clause */
/*
 * The maps of the BPF backend's programs (account.bpf.c), as libbpf creates them. maps.h defines
 * their contents. features.c and load.c set the sizes that depend on the host before loading.
 */
#pragma once

#include <linux/bpf.h>

#include <bpf/bpf_helpers.h>

#include "cgroup/bpf/maps.h"
#include "cgroup/bpf/tasks.bpf.h"

struct kp_cfg cfg = {.schema = KP_SCHEMA};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1); /* set before loading: CPUs + 1, or one element for all */
	__uint(key_size, sizeof(__u32));
	__uint(value_size, KP_CPU_BYTES); /* a struct kp_cpu */
} cpus SEC(".maps");

/* Indexed by kp_event(). Events survive the process that opened them. */
struct {
	__uint(type, BPF_MAP_TYPE_PERF_EVENT_ARRAY);
	__uint(map_flags, BPF_F_PRESERVE_ELEMS);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u32);
} events SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, KP_MAX_BINDINGS);
	__type(key, __u64);
	__type(value, __u32);
} cgroups SEC(".maps");

/* Bit N is set if tasks has a task number that is N modulo KP_TASK_BITS. */
__u64 task_bits[KP_TASK_BITS / 64] SEC(".data.bits");

struct account_page {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, KP_PAGE_ACCOUNTS);
	__uint(key_size, sizeof(__u32));
	__uint(value_size, sizeof(struct kp_account));
};

struct index_page {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, KP_PAGE_ACCOUNTS / 2);
	__uint(key_size, sizeof(__u32));
	__uint(value_size, sizeof(__u64)); /* two accounts: elements are multiples of 8 bytes */
};

struct cell_page {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, KP_PAGE_CELLS);
	__uint(key_size, sizeof(__u32));
	__uint(value_size, sizeof(struct kp_cell));
};

struct totals_page {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__uint(key_size, sizeof(__u32));
	__uint(value_size, sizeof(struct vpmu_totals));
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);
	__uint(max_entries, KP_ACCOUNT_PAGES);
	__type(key, __u32);
	__array(values, struct account_page);
} accounts SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);
	__uint(max_entries, 1);
	__type(key, __u32);
	__array(values, struct index_page);
} cell_index SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);
	__uint(max_entries, 1);
	__type(key, __u32);
	__array(values, struct cell_page);
} cells SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);
	__uint(max_entries, KP_MAX_TOTALS);
	__type(key, __u32);
	__array(values, struct totals_page);
} totals SEC(".maps");
