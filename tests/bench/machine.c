// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The machine that a result is from, and the CPU that vpmu-bench keeps to. Reads /proc and /sys; a
 * file that is missing leaves its field out.
 */
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "tests/bench/bench.h"

static cpu_set_t all_cpus;
static int pinned = -1;

static void pin_to(int cpu)
{
	cpu_set_t one;

	CPU_ZERO(&one);
	CPU_SET(cpu, &one);
	sched_setaffinity(0, sizeof(one), &one);
}

void bench_pin(void)
{
	double best = 0;

	if (pinned < 0 && sched_getaffinity(0, sizeof(all_cpus), &all_cpus))
		return;
	for (int cpu = 0, tried = 0; cpu < CPU_SETSIZE && tried < 8; cpu++) {
		double ns;

		if (!CPU_ISSET(cpu, &all_cpus))
			continue;
		tried++;
		pin_to(cpu);
		ns = bench_block_ns(1000);
		if (tried == 1 || ns < best) {
			best = ns;
			pinned = cpu;
		}
	}
	if (pinned >= 0)
		pin_to(pinned);
}

void bench_unpin(void)
{
	if (pinned >= 0)
		sched_setaffinity(0, sizeof(all_cpus), &all_cpus);
}

/* The first line of @path, without its end; false when there is none. */
static bool first_line(const char *path, char *buf, int len)
{
	FILE *f = fopen(path, "re");
	bool ok = f && fgets(buf, len, f);

	if (f)
		fclose(f);
	if (ok)
		buf[strcspn(buf, "\n")] = '\0';
	return ok;
}

/* Fields of the first CPU in /proc/cpuinfo, under short names. */
static void describe_cpu(json_t *o)
{
	static const struct {
		const char *field, *name;
		bool number;
	} fields[] = {
		{"vendor_id", "vendor", false},
		{"cpu family", "family", true},
		{"model", "model", true},
		{"stepping", "stepping", true},
		{"model name", "cpu", false},
		{"microcode", "microcode", false},
		{"CPU implementer", "vendor", false},
		{"CPU part", "cpu", false},
	};
	FILE *f = fopen("/proc/cpuinfo", "re");
	char line[4096];

	while (f && fgets(line, sizeof(line), f) && line[0] != '\n') {
		char *value = strchr(line, ':'), *end;

		if (!value)
			continue;
		for (end = value; end > line && strchr("\t ", end[-1]); end--)
			;
		*end = '\0';
		value += strspn(value, ": ");
		value[strcspn(value, "\n")] = '\0';
		for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]); i++)
			if (!strcmp(line, fields[i].field))
				json_object_set_new(o, fields[i].name,
						    fields[i].number ? json_integer(atoll(value))
								     : json_string(value));
		if (!strcmp(line, "flags") || !strcmp(line, "Features"))
			json_object_set_new(o, "virtual",
					    json_boolean(strstr(value, "hypervisor")));
	}
	if (f)
		fclose(f);
}

json_t *bench_describe_machine(void)
{
	json_t *o = json_object();
	struct utsname u;
	char line[256];

	describe_cpu(o);
	json_object_set_new(o, "cpus", json_integer(sysconf(_SC_NPROCESSORS_ONLN)));
	if (first_line("/sys/devices/system/cpu/cpu0/topology/thread_siblings_list", line,
		       sizeof(line)))
		json_object_set_new(o, "siblings_of_cpu0", json_string(line));
	if (!uname(&u)) {
		json_object_set_new(o, "arch", json_string(u.machine));
		json_object_set_new(o, "kernel", json_string(u.release));
	}
	if (first_line("/sys/devices/system/clocksource/clocksource0/current_clocksource", line,
		       sizeof(line)))
		json_object_set_new(o, "clocksource", json_string(line));
	json_object_set_new(o, "compiler", json_string(__VERSION__));
	if (first_line("/proc/loadavg", line, sizeof(line)))
		json_object_set_new(o, "load", json_string(line));
	if (pinned >= 0)
		json_object_set_new(o, "on_cpu", json_integer(pinned));
	return o;
}
