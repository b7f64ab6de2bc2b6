// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The time in which CPUs were idle, a part of the clocks of `other`, to which the idle task is
 * charged. schedstat.c calls this. To tell the idle task from others of its cgroup would cost each
 * switch instructions; the kernel keeps its time anyway, of all CPUs together, and shows it in
 * steps of a clock tick. With NO_HZ it is measured, without it is the number of ticks that found
 * the CPU idle: so the figure is an estimate, never behind the clocks by more than a tick.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <time.h>

#include "cgroup/priv.h"

#define IDLE_TICK_NS 10000000u /* USER_HZ is 100 */

int idle_read(const struct bpf_backend *k, uint64_t *ns)
{
	uint64_t idle, iowait;
	char path[256];
	FILE *f;
	int n;

	snprintf(path, sizeof(path), "%s/proc/stat", k->sys->files);
	f = fopen(path, "re");
	if (!f)
		return -errno;
	n = fscanf(f, "cpu %*u %*u %*u %" SCNu64 " %" SCNu64, &idle, &iowait);
	fclose(f);
	if (n != 2)
		return -EOPNOTSUPP;
	*ns = (idle + iowait) * IDLE_TICK_NS;
	return 0;
}

void idle_take(struct bpf_backend *k)
{
	struct kp_account *a = account_at(k, KP_OTHER);
	uint64_t ns;

	/* Where a CPU goes offline the sum can be less than before: it stands still then. */
	if (!a || idle_read(k, &ns))
		return;
	if (ns > a->sched[VPMU_SCHED_IDLE])
		a->sched[VPMU_SCHED_IDLE] = ns;
	a->sched[KP_SCHED_IDLE] = backend_now_ns(CLOCK_MONOTONIC);
}
