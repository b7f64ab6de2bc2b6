// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * What each kind of vPMU costs its host, and what an operator sees beside it: the same guest on
 * KVM's emulated vPMU, on KVM's mediated one, and on libvpmu's, in an emulated machine whose
 * counters are exact (docs/lab.md). Instructions are IRPERF's, which counts whatever the PMU does;
 * cycles are the TSC's, which are the emulator's modelled ones. Nothing depends on the host's
 * clock.
 *
 *   contest [--counting]    the table; without the rows that sample, and with checks
 */
#include <errno.h>
#include <inttypes.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <x86intrin.h>

#include <linux/perf_event.h>

#include "tests/nested/contest_vm.h"

enum { UNITS = 400, WARM_UP = 20 };
/* The operator's events. libvpmu leaves so many counters to others. */
enum { OPERATOR = 2 };
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
	int64_t limit; /* instructions of a unit that libvpmu may take */
} rows[] = {
	{"idle PMU", L2_PLAIN, 1, 0, 1000},
	{"4 events", L2_COUNT, 4, 0, 200000},
	{"10 events", L2_ROTATE, 10, 0, 400000},
	{"a PMI in 1,000,000", L2_SAMPLE, 1, 1000000, 0},
	{"a PMI in 100,000", L2_SAMPLE, 1, 100000, 0},
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
	uint64_t vmm; /* instructions of the VMM's process in user space, beside a pinned event */
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

/* The VMM's own instructions in user space. */
static int vmm_open(void)
{
	struct perf_event_attr attr = {.type = PERF_TYPE_RAW,
				       .config = selects[0] & ~(OS | USR),
				       .exclude_kernel = 1,
				       .exclude_guest = 1};
	int fd = event_open(&attr, 0, -1);

	if (fd < 0)
		vm_die("an event of instructions in user space");
	return fd;
}

static uint64_t value(int fd)
{
	uint64_t v[3];

	if (read(fd, v, sizeof(v)) != sizeof(v))
		vm_die("read of an event");
	if (v[2] < v[1])
		vm_die("an event that did not count all the time");
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
		j->select[i] = selects[i] | INT;
}

static struct result run(enum contest_vpmu kind, const struct row *row, int events, bool pinned)
{
	struct result r = {0};
	int irperf, vmm = -1, fd[OPERATOR];
	struct contest_vm m;

	vm_open(&m, kind);
	/* What is done once: the kernel's first events, the search for RDPMC. */
	job_set(&m, row, WARM_UP, kind == VPMU_NONE);
	vm_run(&m);
	job_set(&m, row, UNITS, kind == VPMU_NONE);
	irperf = irperf_open();
	operator_open(fd, events, pinned, &r);
	if (pinned && (kind == VPMU_NONE || kind == VPMU_OURS))
		vmm = vmm_open();
	r.vmm = vmm < 0 ? 0 : value(vmm);
	r.exits = vm_exits(&m);
	r.user = m.user;
	r.cycles = __rdtsc();
	r.instructions = value(irperf);
	vm_run(&m);
	r.instructions = value(irperf) - r.instructions;
	r.cycles = __rdtsc() - r.cycles;
	r.vmm = vmm < 0 ? 0 : value(vmm) - r.vmm;
	if (vmm >= 0)
		close(vmm);
	r.exits = vm_exits(&m) - r.exits;
	r.user = m.user - r.user;
	operator_close(fd, events, &r);
	close(irperf);
	r.job = *vm_job(&m);
	vm_close(&m);
	return r;
}

/* ---- the table ---- */

/* A kind of vPMU at a row: alone; with one event of the operator's that never shares its counter,
 * which is the truth for his counts; and with all of his events. */
enum { ALONE, TRUTH, BESIDE, RUNS };
static struct result results[ROWS][VPMU_KINDS][RUNS];
static bool there[VPMU_KINDS];
static unsigned int failures;

static void run_all(enum contest_vpmu kind, bool counting)
{
	there[kind] = true;
	for (int i = 0; i < ROWS; i++) {
		struct result *r = results[i][kind];

		if (counting && rows[i].row == L2_SAMPLE)
			continue;
		r[ALONE] = run(kind, &rows[i], 0, false);
		r[TRUTH] = run(kind, &rows[i], 1, true);
		r[BESIDE] = run(kind, &rows[i], OPERATOR, false);
	}
}

/* What a run took more than that of the guest without a PMU, for each unit. */
static int64_t more(int row, enum contest_vpmu kind, int which, bool cycles)
{
	const struct result *r = &results[row][kind][which],
			    *none = &results[row][VPMU_NONE][which];

	return cycles ? (int64_t)(r->cycles - none->cycles) / UNITS
		      : (int64_t)(r->instructions - none->instructions) / UNITS;
}

/* How far the operator's instructions are from the truth. Each VMRUN is one of the guest's. */
static int64_t operator_error(const struct result *r)
{
	return (int64_t)(r[BESIDE].count[0] - r[BESIDE].exits) -
	       (int64_t)(r[TRUTH].count[0] - r[TRUTH].exits);
}

static double running(const struct result *r)
{
	return r->enabled[0] ? 100.0 * (double)r->running[0] / (double)r->enabled[0] : 0;
}

/* The guest's own count of instructions, of all that it had the event on. */
static double guest_share(const struct row *row, const struct result *r)
{
	uint64_t on = UNITS;

	if (row->row == L2_ROTATE)
		on = UNITS * L2_COUNTERS / row->events;
	return 100.0 * (double)r->job.count[0] / (double)(on * 2 * LOOP);
}

/* Where his pinned event had no counter either, the truth is what he counts beside libvpmu: the
 * guest is the same. */
static void print_operator(int i, enum contest_vpmu kind)
{
	const struct result *r = results[i][kind], *truth = &results[i][VPMU_OURS][TRUTH];

	if (r[BESIDE].opened < OPERATOR)
		printf(" refused |\n");
	else if (running(&r[BESIDE]) > 99.99)
		printf(" %+" PRId64 " |\n", operator_error(r));
	else
		printf(" %.1f%% of the time, scaled %+.1f%% |\n", running(&r[BESIDE]),
		       100.0 * ((double)r[BESIDE].count[0] * 100 / running(&r[BESIDE]) /
					(double)truth->count[0] -
				1));
}

static void print_row(int i, enum contest_vpmu kind)
{
	const struct row *row = &rows[i];
	const struct result *r = results[i][kind], *none = results[i][VPMU_NONE];
	uint64_t due = row->period ? r->job.count[0] / row->period : 0;

	printf("| %s | %s | %" PRId64, row->name, kinds[kind], more(i, kind, ALONE, false));
	if (kind == VPMU_OURS)
		printf(" (%" PRId64 ")", (int64_t)(r[TRUTH].vmm - none[TRUTH].vmm) / UNITS);
	printf(" | %" PRId64 " | %" PRId64 " | %.1f | %.1f |", more(i, kind, ALONE, true),
	       more(i, kind, BESIDE, false), (double)r->exits / UNITS, (double)r->user / UNITS);
	if (row->row == L2_PLAIN)
		printf(" |");
	else
		printf(" %.2f%% |", guest_share(row, r));
	if (row->period)
		printf(" %" PRIu64 ", %" PRId64 " |", r->job.pmis - r->job.none,
		       (int64_t)(due - (r->job.pmis - r->job.none)));
	else
		printf(" |");
	print_operator(i, kind);
}

static void print_table(bool counting)
{
	printf("| row | vPMU | instructions (in user space) | modelled cycles | with an operator | "
	       "exits | to the VMM | guest's count | PMIs, lost | operator's count "
	       "|\n|---|---|---|---|---|---|---|---|---|---|\n");
	for (int i = 0; i < ROWS; i++)
		for (int kind = VPMU_EMULATED; kind < VPMU_KINDS; kind++)
			if (there[kind] && !(counting && rows[i].row == L2_SAMPLE))
				print_row(i, kind);
}

static void expect(bool ok, const char *what, int row, enum contest_vpmu kind)
{
	if (ok)
		return;
	printf("contest: %s, %s: %s\n", rows[row].name, kinds[kind], what);
	failures++;
}

/* Counts are exact; costs have wide margins. */
static void check(void)
{
	for (int i = 0; i < ROWS; i++) {
		const struct result *ours = results[i][VPMU_OURS], *kvm = results[i][VPMU_EMULATED];

		if (rows[i].row == L2_SAMPLE)
			continue;
		expect(ours[BESIDE].opened == OPERATOR && running(&ours[BESIDE]) == 100 &&
			       !operator_error(ours),
		       "the operator's count is not exact", i, VPMU_OURS);
		if (rows[i].row == L2_COUNT) {
			double a = guest_share(&rows[i], kvm), b = guest_share(&rows[i], ours);

			expect(a >= 100 && a < 100.2, "the guest's count", i, VPMU_EMULATED);
			expect(b >= 100 && b < 100.2, "the guest's count", i, VPMU_OURS);
		}
		/* Its pinned events take all counters. */
		if (rows[i].row == L2_ROTATE)
			expect(running(&kvm[BESIDE]) < 90, "the operator had a counter", i,
			       VPMU_EMULATED);
		expect(more(i, VPMU_OURS, ALONE, false) <= rows[i].limit, "its cost", i, VPMU_OURS);
	}
}

int main(int argc, char **argv)
{
	bool counting = argc > 1 && !strcmp(argv[1], "--counting");
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(0, &set);
	sched_setaffinity(0, sizeof(set), &set);
	setvbuf(stdout, NULL, _IOLBF, 0);
	sleep(3); /* what the kernel does behind its boot */
	run_all(VPMU_NONE, counting);
	run_all(VPMU_EMULATED, counting);
	run_all(VPMU_OURS, counting);
	if (vm_modules(true))
		run_all(VPMU_MEDIATED, counting);
	printf("Of a unit, which is %llu instructions of the guest and an OUT; the guest has "
	       "%s.\n\n",
	       2 * LOOP, results[0][VPMU_NONE][ALONE].job.v2 ? "PerfMonV2" : "core counters");
	print_table(counting);
	if (counting)
		check();
	return failures ? 1 : 0;
}
