/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The host of it_cgroup_budget: a CPU with few counters, on each of which a clock counts its
 * running time. */
#ifndef TESTS_INTEGRATION_CGROUP_BUDGET_BED_H
#define TESTS_INTEGRATION_CGROUP_BUDGET_BED_H

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include <criterion/criterion.h>
#include <linux/perf_event.h>

#include "cgroup/slot.h"
#include "tests/integration/cgroup_bed.h"

#define ALL    (VPMU_KEY_USR | VPMU_KEY_OS | VPMU_KEY_GUEST | VPMU_KEY_HOST)
#define HOST   (VPMU_KEY_USR | VPMU_KEY_OS | VPMU_KEY_HOST)
#define FILES  4096
#define KEYS   12u
#define USABLE 4u /* of six, two of which are left to others */

static char root[64];
static struct bpf_backend_sys sys;
static struct bpf_backend *backend; /* NULL: events that are on are not read */
static struct {
	int leader;
	bool on;
} event[FILES];
static unsigned int switched;
static bool no_guests;	     /* no event may count in guests */
static int untouched;	     /* this CPU may not be interrupted; -1: none */
static unsigned int open_us; /* how long it takes to open an event, or to set it to 0 */

/* ---- the machine -------------------------------------------------------------------------- */

static bool amd_with_six(uint32_t leaf, uint32_t r[4])
{
	memset(r, 0, 4 * sizeof(*r));
	if (leaf == 0) {
		r[0] = 16;
		memcpy(&r[1], "Auth", 4);
		memcpy(&r[3], "enti", 4);
		memcpy(&r[2], "cAMD", 4);
	}
	if (leaf == 0x80000000)
		r[0] = 0x80000001;
	if (leaf == 0x80000001)
		r[2] = 1u << 23;
	return true;
}

static int clock_open(const struct perf_event_attr *attr, int cpu, int group)
{
	struct perf_event_attr a = *attr;
	int fd;

	cr_expect(!attr->pinned && !attr->exclusive && !attr->sample_period);
	usleep(open_us);
	if (attr->type == PERF_TYPE_SOFTWARE)
		return bpf_backend_sys_real.event_open(attr, cpu, group);
	cr_expect(!no_guests || attr->exclude_guest);
	a.type = PERF_TYPE_SOFTWARE;
	a.config = PERF_COUNT_SW_CPU_CLOCK;
	a.exclude_user = a.exclude_kernel = a.exclude_hv = a.exclude_guest = a.exclude_host = 0;
	fd = bpf_backend_sys_real.event_open(&a, cpu, group);
	if (fd < 0)
		return fd;
	cr_assert_lt(fd, FILES);
	event[fd].leader = group >= 0 ? event[group].leader : fd;
	event[fd].on = !attr->disabled;
	return fd;
}

static int slow_reset(int fd)
{
	int ret = bpf_backend_sys_real.event_reset(fd);

	usleep(open_us);
	return ret;
}

static unsigned int on_at(unsigned int cpu)
{
	unsigned int n = 0;

	for (unsigned int i = 0; i < VPMU_MAX_SLOTS; i++)
		if (backend->slot[i].key && slot_is_hardware(backend->slot[i].key) &&
		    backend->slot[i].fd[cpu] >= 0)
			n += event[backend->slot[i].fd[cpu]].on;
	return n;
}

static int clock_switch(int fd, bool on)
{
	switched++;
	for (unsigned int cpu = 0; backend && cpu < backend->nr_cpus; cpu++)
		for (unsigned int i = 0; i < VPMU_MAX_SLOTS; i++) {
			int of = backend->slot[i].fd[cpu];

			if (of < 0 || event[of].leader != event[fd].leader)
				continue;
			cr_expect_neq((int)cpu, untouched);
			event[of].on = on;
			cr_expect_leq(on_at(cpu), USABLE);
		}
	return bpf_backend_sys_real.event_switch(fd, on);
}

static int watched_run(int prog, unsigned int cpu)
{
	cr_expect_neq((int)cpu, untouched);
	return bpf_backend_sys_real.run(prog, cpu);
}

static void put(const char *path, const char *text)
{
	bed_system("mkdir -p $(dirname %s%s) && printf '%s' > %s%s", root, path, text, root, path);
}

static void begin(void)
{
	strcpy(root, "/tmp/vpmu-budget-XXXXXX");
	cr_assert(mkdtemp(root));
	put("/sys/bus/event_source/devices/cpu/type", "4");
	sys = bpf_backend_sys_real;
	sys.files = root;
	sys.cpuid = amd_with_six;
	sys.event_reset = slow_reset;
	sys.event_open = clock_open;
	sys.event_switch = clock_switch;
	sys.run = watched_run;
	untouched = -1;
	open_us = 0;
}

static void end(void)
{
	bed_end();
	bed_system("rm -rf %s", root);
}

TestSuite(bpf_backend_budget, .init = begin, .fini = end);

static struct bpf_backend *open_backend(void)
{
	static const struct bpf_backend_opts o = {.sys = &sys, .leave_counters = 2};

	return bed_open(&o);
}

/* Three events in four modes: four pairs of cycles and instructions, and four others. */
static void make_keys(vpmu_key_t keys[KEYS])
{
	static const enum vpmu_generic events[] = {VPMU_EV_CYCLES, VPMU_EV_BRANCHES,
						   VPMU_EV_INSTRUCTIONS};
	static const uint64_t modes[] = {ALL & ~VPMU_KEY_OS, ALL & ~VPMU_KEY_USR,
					 HOST & ~VPMU_KEY_OS, HOST & ~VPMU_KEY_USR};

	for (unsigned int i = 0; i < KEYS; i++)
		keys[i] = vpmu_key_make(VPMU_SPACE_GENERIC, events[i % 3], modes[i / 3]);
}

static void take_turns(struct bpf_backend *k, unsigned int turns)
{
	for (uint64_t last = k->turn_ns; turns; last = k->turn_ns) {
		usleep(20000);
		bpf_backend_tend(k);
		turns -= last != k->turn_ns;
	}
}

/* Two times of the same thing are read one after the other, and other tasks or a hypervisor can
 * take the CPU away in between. */
static bool about(uint64_t a, uint64_t b, uint64_t of)
{
	uint64_t slack = of / 8 + 30000000;

	return a < b + slack && b < a + slack;
}

/* A clock counts for as long as it runs. */
static void count_is_running_time(const struct vpmu_value *v, unsigned int key)
{
	cr_expect(about(v->count, v->running_ns, v->enabled_ns),
		  "key %u: %lu counted in %lu of %lu ns", key, v->count, v->running_ns,
		  v->enabled_ns);
}

#endif
