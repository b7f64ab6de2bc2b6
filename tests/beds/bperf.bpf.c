// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * A program like the one of `perf stat --bpf-counters --for-each-cgroup`, for bed_cost.c to compare
 * with: at each switch to another cgroup it reads all events of the CPU and adds the differences to
 * the cgroup that ran, and to those above it that are counted.
 */
#include <linux/types.h>

#include <linux/bpf.h>

#include <bpf/bpf_helpers.h>

#define EVENTS	4
#define LEVELS	10
#define CGROUPS 16

char LICENSE[] SEC("license") = "GPL";

struct {
	__uint(type, BPF_MAP_TYPE_PERF_EVENT_ARRAY);
	__uint(key_size, 4);
	__uint(value_size, 4);
	__uint(max_entries, EVENTS);
} events SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, CGROUPS);
	__type(key, __u64);
	__type(value, __u32);
} cgroups SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, EVENTS);
	__type(key, __u32);
	__type(value, struct bpf_perf_event_value);
} before SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, CGROUPS *EVENTS);
	__type(key, __u32);
	__type(value, struct bpf_perf_event_value);
} counts SEC(".maps");

SEC("perf_event")
int on_cgroup_switch(void *ctx)
{
	__u32 of[LEVELS], nr = 0;

	for (int i = 0; i < LEVELS; i++) {
		__u64 id = bpf_get_current_ancestor_cgroup_id(i);
		__u32 *cgroup;

		if (!id)
			break;
		cgroup = bpf_map_lookup_elem(&cgroups, &id);
		if (cgroup && nr < LEVELS)
			of[nr++] = *cgroup;
	}
	for (__u32 event = 0; event < EVENTS; event++) {
		struct bpf_perf_event_value now, *old;
		__u32 key = event;

		old = bpf_map_lookup_elem(&before, &key);
		if (!old || bpf_perf_event_read_value(&events, key, &now, sizeof(now)))
			continue;
		for (__u32 i = 0; i < LEVELS && i < nr; i++) {
			struct bpf_perf_event_value *sum;

			key = of[i] * EVENTS + event;
			sum = bpf_map_lookup_elem(&counts, &key);
			if (!sum)
				continue;
			sum->counter += now.counter - old->counter;
			sum->enabled += now.enabled - old->enabled;
			sum->running += now.running - old->running;
		}
		*old = now;
	}
	return 0;
}
