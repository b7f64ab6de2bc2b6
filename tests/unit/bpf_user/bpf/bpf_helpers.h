/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Stands in for libbpf's header of this name, so that a BPF program compiles for user space: its
 * maps are objects without contents, known to the helpers by their addresses.
 * test_cgroup_program.c has the helpers.
 */
#ifndef TESTS_UNIT_BPF_USER_BPF_BPF_HELPERS_H
#define TESTS_UNIT_BPF_USER_BPF_BPF_HELPERS_H

#include <linux/bpf.h>
#include <linux/types.h>

#define SEC(name)
#define __uint(name, val)  int(*name)[val]
#define __type(name, val)  __typeof__(val) *name
#define __array(name, val) __typeof__(val) *name[1]
#undef __always_inline
#define __always_inline inline __attribute__((always_inline, unused))
#define __noinline	__attribute__((noinline, unused))
#define __ksym
#define __weak		 __attribute__((weak))
#define barrier_var(var) __asm__ volatile("" : "+r"(var))

void *bpf_map_lookup_elem(const void *map, const void *key);
__u64 bpf_perf_event_read(const void *map, __u64 index);
long bpf_perf_event_read_value(const void *map, __u64 index, struct bpf_perf_event_value *v,
			       __u32 size);
__u64 bpf_ktime_get_ns(void);
__u32 bpf_get_smp_processor_id(void);
struct task_struct *bpf_get_current_task_btf(void);
__u64 bpf_get_current_task(void);
long bpf_probe_read_kernel(void *to, __u32 bytes, const void *from);

#endif
