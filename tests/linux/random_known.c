// SPDX-License-Identifier: GPL-2.0-or-later
/* Counts that are known, when the random user has closed all of its events. */
#include <errno.h>
#include <glob.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "random.h"

unsigned int events_left(void)
{
	unsigned int n = 0;
	glob_t g;

	if (glob("/proc/[0-9]*/fd/*", 0, NULL, &g))
		return 0;
	for (size_t i = 0; i < g.gl_pathc; i++) {
		char to[64] = "";

		if (readlink(g.gl_pathv[i], to, sizeof(to) - 1) < 0 || !strstr(to, "[perf_event]"))
			continue;
		printf("random: %s is %s\n", g.gl_pathv[i], to);
		n++;
	}
	globfree(&g);
	return n;
}

/* Count @rounds of loop() on this CPU. */
static bool counted(uint64_t config, unsigned long rounds, uint64_t *count)
{
	struct perf_event_attr a = {
		.type = PERF_TYPE_HARDWARE,
		.size = sizeof(a),
		.config = config,
		.disabled = 1,
		.exclude_kernel = 1,
		.read_format = PERF_FORMAT_TOTAL_TIME_ENABLED | PERF_FORMAT_TOTAL_TIME_RUNNING,
	};
	uint64_t r[3] = {0};
	long fd = sys_open(&a, 0, -1, -1, 0);
	bool ok;

	if (fd < 0) {
		failed("a counter of its own: %s", strerror(errno));
		return false;
	}
	ioctl((int)fd, PERF_EVENT_IOC_ENABLE, 0);
	loop(rounds);
	ioctl((int)fd, PERF_EVENT_IOC_DISABLE, 0);
	ok = read((int)fd, r, sizeof(r)) == sizeof(r) && r[1] == r[2] && r[1];
	if (!ok)
		failed("a counter of its own was enabled %lu ns and ran %lu", r[1], r[2]);
	close((int)fd);
	*count = r[0];
	return ok;
}

/* The code around the loop is the same each time. */
void check_known(unsigned int cpu)
{
	static const struct {
		uint64_t config, each;
		const char *name;
	} rows[] = {
		{PERF_COUNT_HW_INSTRUCTIONS, 2, "instructions"},
		{PERF_COUNT_HW_BRANCH_INSTRUCTIONS, 1, "branches"},
	};
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	if (sched_setaffinity(0, sizeof(set), &set))
		failed("moving to CPU %u: %s", cpu, strerror(errno));
	for (unsigned int i = 0; i < 2; i++) {
		uint64_t a = 0, b = 0;

		if (!counted(rows[i].config, 1000, &a) || !counted(rows[i].config, 1001000, &b))
			continue;
		if (b - a != 1000000 * rows[i].each)
			failed("CPU %u: %s of a million rounds are %lu, not %lu", cpu, rows[i].name,
			       (b - a), (1000000 * rows[i].each));
		if (a < 1000 * rows[i].each || a > 1000 * rows[i].each + 100)
			failed("CPU %u: %s of a thousand rounds are %lu", cpu, rows[i].name, a);
	}
}
