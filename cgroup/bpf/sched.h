/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What sched.bpf.c writes of each bound task, and schedtask.c reads. */
#pragma once

#include <linux/types.h>

struct sched_record {
	__u64 tid;
	__u64 start; /* clock ticks, as in kp_task */
	__u64 ran_ns, run_delay_ns, involuntary;
};
