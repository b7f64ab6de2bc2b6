/* SPDX-License-Identifier: GPL-2.0-or-later OR BSD-2-Clause */
/* The map of bound tasks, which the programs of account.bpf.c and sched.bpf.c share. */
#pragma once

#include <linux/bpf.h>

#include <bpf/bpf_helpers.h>

#include "cgroup/bpf/maps.h"

#define NS_PER_TICK 10000000ULL /* tick of a start time in /proc: USER_HZ is 100 */

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, KP_MAX_BINDINGS);
	__type(key, __u32);
	__type(value, struct kp_task);
} tasks SEC(".maps");
