// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The time in which CPUs were idle, a part of the clocks of `other`, to which the idle task is
 * charged. schedstat.c calls this. To tell the idle task from others of its cgroup would cost each
 * switch instructions; the kernel keeps its time anyway, of all CPUs together, and shows it in
 * steps of a clock tick. With NO_HZ it is measured, without it is the number of ticks that found
 * the CPU idle: so the figure is an estimate, never behind the clocks by more than a tick.
 *
 * The kernel has two sums for each CPU, and shows the other one while the CPU is offline; older
 * kernels begin the first one anew when it comes back. Such a step, of up to the time since the
 * boot, is no idle time: counting goes on from there, and what was idle since the last reading is
 * lost.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

#include "cgroup/priv.h"
#include "vpmu/util/proctext.h"

#define IDLE_TICK_NS 10000000u		 /* USER_HZ is 100 */
#define IDLE_OFF_NS  (10 * IDLE_TICK_NS) /* of a CPU: what is less than that is no step */

int idle_read(const struct bpf_backend *k, uint64_t *ns)
{
	uint64_t idle, iowait;
	char text[256];
	ssize_t ret = proctext_read(text, sizeof(text), "%s/proc/stat", k->sys->files);

	if (ret < 0)
		return (int)ret;
	if (sscanf(text, "cpu %*u %*u %*u %" SCNu64 " %" SCNu64, &idle, &iowait) != 2)
		return -EOPNOTSUPP;
	*ns = (idle + iowait) * IDLE_TICK_NS;
	return 0;
}

void idle_take(struct bpf_backend *k)
{
	struct kp_account *a = account_at(k, KP_OTHER);
	const int64_t off = (int64_t)k->nr_cpus * IDLE_OFF_NS;
	uint64_t ns, now = clock_ns(CLOCK_MONOTONIC);
	__int128 most;
	int64_t more;

	if (!a || idle_read(k, &ns))
		return;
	more = (int64_t)(ns + k->sched.idle_step - a->sched[VPMU_SCHED_IDLE]);
	most = (__int128)(now - a->sched[KP_SCHED_IDLE]) * k->nr_cpus + off;
	if (more > most || more < -off) {
		k->sched.idle_step -= (uint64_t)more;
		a->sched[KP_SCHED_IDLE_LOST]++;
	} else if (more > 0) {
		a->sched[VPMU_SCHED_IDLE] += (uint64_t)more;
	}
	a->sched[KP_SCHED_IDLE] = now;
}
