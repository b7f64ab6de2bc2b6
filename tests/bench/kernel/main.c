// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * vpmu-kernel-bench: the BPF backend's cost of a context switch, beside perf's two ways to
 * count cgroups, in one run. Two processes on one CPU switch to each other. It prints CPU
 * time of both for each switch, less that without any counting: the best of the rounds, in each of
 * which all candidates take their turns, and the median of the rounds' differences. Needs root,
 * BPF, cgroup2; peers need perf.
 *
 *   vpmu-kernel-bench [--rounds N] [--tenants N,N...] [--yield] [--quick] [PERF=path]
 *                     switch|scale|read|scrape
 *
 * switch compares; read measures a reading of 1,000 VMs with 8 keys, and a switch
 * during it; scrape the same of the metrics' text, and its sizes; scale opens and reads 10,000
 * tenants. --yield: tasks yield instead of passing a byte. docs/performance.md has results. It
 * never judges: the exit status is 0, or 77 where it cannot run.
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/bench/kernel/kbench.h"

_Noreturn void skip(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	printf("# SKIP ");
	vprintf(fmt, ap);
	printf("\n");
	va_end(ap);
	exit(77);
}

int main(int argc, char **argv)
{
	unsigned int rounds = 9, tenants[8] = {1, 100, 500}, nr = 3;
	int cpu = (int)sysconf(_SC_NPROCESSORS_ONLN) - 1;
	const char *what = "switch";
	enum work work = WORK_PIPE;
	bool given = false;

	for (int i = 1; i < argc; i++) {
		if (!strcmp(argv[i], "--rounds") && i + 1 < argc) {
			rounds = (unsigned int)atoi(argv[++i]);
		} else if (!strcmp(argv[i], "--tenants") && i + 1 < argc) {
			nr = 0;
			given = true;
			for (char *t = strtok(argv[++i], ","); t && nr < 8; t = strtok(NULL, ","))
				tenants[nr++] = (unsigned int)atoi(t);
		} else if (!strcmp(argv[i], "--yield")) {
			work = WORK_YIELD;
		} else if (!strcmp(argv[i], "--quick")) {
			rounds = 1;
			tenants[0] = 2;
			nr = 1;
		} else if (!strncmp(argv[i], "PERF=", 5)) {
			perf_path = argv[i] + 5;
		} else if (argv[i][0] != '-') {
			what = argv[i];
		} else {
			fprintf(stderr, "vpmu-kernel-bench: unknown option '%s'\n", argv[i]);
			return 2;
		}
	}
	if (rounds < 1 || rounds > MAX_ROUNDS)
		rounds = MAX_ROUNDS;
	for (unsigned int i = 0; i < nr; i++)
		if (tenants[i] < 1 || tenants[i] > MAX_TENANTS)
			tenants[i] = MAX_TENANTS;
	setvbuf(stdout, NULL, _IOLBF, 0);
	ground_begin();
	if (!strcmp(what, "read"))
		bench_read(rounds, given ? tenants[0] : 1000, cpu);
	else if (!strcmp(what, "scrape"))
		bench_scrape(rounds, given ? tenants[0] : 1000, cpu);
	else if (!strcmp(what, "scale"))
		bench_scale(given ? tenants[0] : MAX_TENANTS);
	else
		bench_switch(work, rounds, tenants, nr, cpu);
	return 0;
}
