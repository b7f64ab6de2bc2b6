// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * What each kind of vPMU costs its host, and what an operator sees beside it: the same guest on
 * KVM's emulated vPMU, on KVM's mediated one, and on libvpmu's, in an emulated machine whose
 * counters are exact (docs/lab.md). Instructions are IRPERF's, which counts whatever the PMU does;
 * cycles are the TSC's, which are the emulator's modelled ones. Nothing depends on the host's
 * clock.
 *
 *   contest [--counting]    the table; without the rows that sample
 */
#include <errno.h>
#include <inttypes.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <x86intrin.h>

#include <linux/perf_event.h>

#include "tests/nested/contest_vm.h"

enum { UNITS = 400, OPERATOR = 4 };
#define LOOP 50000ULL /* a unit has 100,000 instructions */

/* AMD's events, user and kernel: instructions, cycles, branches, taken ones, loads; and in the
 * kernel alone. */
#define OS  (1ULL << 17)
#define USR (1ULL << 16)
#define INT (1ULL << 20)
static const uint64_t selects[L2_EVENTS] = {
	OS | USR | 0xc0, OS | USR | 0x76, OS | USR | 0xc2, OS | USR | 0xc4, OS | USR | 0x129,
	OS | 0xc0,	 OS | 0x76,	  OS | 0xc2,	   OS | 0xc4,	    OS | 0x129,
};

static const struct row {
	const char *name;
	enum l2_row row;
	uint32_t events;
	uint64_t period;
} rows[] = {
	{"idle PMU", L2_PLAIN, 1, 0},
	{"4 events, started and read each unit", L2_COUNT, 4, 0},
	{"10 events, multiplexed each unit", L2_ROTATE, 10, 0},
	{"sampling, 1,000,000", L2_SAMPLE, 1, 1000000},
	{"sampling, 100,000", L2_SAMPLE, 1, 100000},
};
enum { ROWS = sizeof(rows) / sizeof(rows[0]) };

static const char *const kinds[VPMU_KINDS] = {
	[VPMU_NONE] = "none",
	[VPMU_EMULATED] = "KVM, emulated",
	[VPMU_MEDIATED] = "KVM, mediated",
	[VPMU_OURS] = "vpmu",
};

/* What one run of a job has shown. */
struct result {
	uint64_t instructions, cycles; /* of everything on the CPU, the guest included */
	uint64_t exits, user;
	struct l2_job job;
	/* The operator's events of the thread; opened: how many the kernel has allowed. */
	int opened;
	uint64_t count[OPERATOR], enabled[OPERATOR], running[OPERATOR];
};

/* ---- perf ---- */

static int event_open(struct perf_event_attr *attr, pid_t tid, int cpu)
{
	attr->size = sizeof(*attr);
	attr->read_format = PERF_FORMAT_TOTAL_TIME_ENABLED | PERF_FORMAT_TOTAL_TIME_RUNNING;
	return (int)syscall(SYS_perf_event_open, attr, tid, cpu, -1, PERF_FLAG_FD_CLOEXEC);
}

/* All instructions of this CPU, by a counter that no PMU of the kernel stops. */
static int irperf_open(void)
{
	struct perf_event_attr attr = {0};
	unsigned int type, config;
	FILE *f = fopen("/sys/bus/event_source/devices/msr/type", "re");
	int fd;

	if (!f || fscanf(f, "%u", &type) != 1)
		vm_die("this Linux has no PMU \"msr\"");
	fclose(f);
	f = fopen("/sys/bus/event_source/devices/msr/events/irperf", "re");
	if (!f || fscanf(f, "event=%x", &config) != 1)
		vm_die("this machine has no IRPERF");
	fclose(f);
	attr.type = type;
	attr.config = config;
	fd = event_open(&attr, -1, 0);
	if (fd < 0)
		vm_die("msr/irperf/");
	return fd;
}

static uint64_t value(int fd)
{
	uint64_t v[3];

	if (read(fd, v, sizeof(v)) != sizeof(v))
		vm_die("read of an event");
	return v[0];
}

/* An operator who counts the guest's part of the vCPU's thread, with @n events. */
static void operator_open(int fd[OPERATOR], int n, bool pinned, struct result *r)
{
	for (int i = 0; i < n; i++) {
		struct perf_event_attr attr = {.type = PERF_TYPE_RAW,
					       .config = selects[i] & ~(OS | USR),
					       .exclude_host = 1,
					       .pinned = pinned};

		fd[i] = event_open(&attr, 0, -1);
		r->opened += fd[i] >= 0;
	}
}

static void operator_close(int fd[OPERATOR], int n, struct result *r)
{
	for (int i = 0; i < n; i++) {
		uint64_t v[3] = {0};

		if (fd[i] < 0)
			continue;
		if (read(fd[i], v, sizeof(v)) < 0)
			vm_die("read of the operator's event");
		r->count[i] = v[0];
		r->enabled[i] = v[1];
		r->running[i] = v[2];
		close(fd[i]);
	}
}

/* ---- one run ---- */

static void job_set(struct contest_vm *m, const struct row *row, uint64_t units, bool plain)
{
	struct l2_job *j = vm_job(m);

	memset(j, 0, sizeof(*j));
	j->row = plain ? L2_PLAIN : row->row;
	j->v2 = m->v2;
	j->events = row->events;
	j->units = units;
	j->loop = LOOP;
	j->period = row->period;
	for (int i = 0; i < L2_EVENTS; i++)
		j->select[i] = selects[i] | (row->row == L2_SAMPLE || i < 10 ? INT : 0);
}

static struct result run(enum contest_vpmu kind, const struct row *row, int events, bool pinned)
{
	struct result r = {0};
	int irperf, fd[OPERATOR];
	struct contest_vm m;

	vm_open(&m, kind);
	/* What is done once: the kernel's first events, the search for RDPMC. */
	job_set(&m, row, 20, kind == VPMU_NONE);
	vm_run(&m);
	job_set(&m, row, UNITS, kind == VPMU_NONE);
	irperf = irperf_open();
	operator_open(fd, events, pinned, &r);
	r.exits = vm_exits(&m);
	r.user = m.user;
	r.cycles = __rdtsc();
	r.instructions = value(irperf);
	vm_run(&m);
	r.instructions = value(irperf) - r.instructions;
	r.cycles = __rdtsc() - r.cycles;
	r.exits = vm_exits(&m) - r.exits;
	r.user = m.user - r.user;
	operator_close(fd, events, &r);
	close(irperf);
	r.job = *vm_job(&m);
	vm_close(&m);
	return r;
}

int main(int argc, char **argv)
{
	bool counting = argc > 1 && !strcmp(argv[1], "--counting");
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(0, &set);
	sched_setaffinity(0, sizeof(set), &set);
	setvbuf(stdout, NULL, _IOLBF, 0);
	for (int kind = 0; kind < VPMU_KINDS; kind++) {
		if (kind == VPMU_MEDIATED)
			continue;
		for (int i = 0; i < ROWS; i++) {
			struct result a, o;

			if (counting && rows[i].row == L2_SAMPLE)
				continue;
			for (int k = 0; k < 3; k++) {
				a = run(kind, &rows[i], k == 2 ? 4 : k, k == 1);
				printf("%s | %s | op %d: insn/unit %" PRIu64 " cyc/unit %" PRIu64
				       " exits %" PRIu64 " user %" PRIu64 " pmis %" PRIu64
				       " none %" PRIu64 " v2 %u\n",
				       kinds[kind], rows[i].name, k, a.instructions / UNITS,
				       a.cycles / UNITS, a.exits, a.user, a.job.pmis, a.job.none,
				       a.job.v2);
				printf("   guest: ");
				for (int e = 0; e < 10; e++)
					printf(" %" PRIu64, a.job.count[e]);
				printf("\n");
				for (int e = 0; e < a.opened; e++)
					printf("   op: %" PRIu64 " %" PRIu64 "/%" PRIu64 "\n",
					       a.count[e], a.running[e], a.enabled[e]);
			}
			(void)o;
		}
	}
	return 0;
}
