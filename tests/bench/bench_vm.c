// SPDX-License-Identifier: GPL-2.0-or-later
/* Benchmarks of whole emulator VMs: how fast they execute with everything counted, their cost,
 * how they scale. */
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tests/bench/bench_bed.h"
#include "vpmu/host.h"
#include "vpmu/lbr.h"
#include "vpmu/emupmu.h"

/* ---- emu_mips ---- */

/* Arguments so large that none ends before it is measured. */
static const struct workload {
	const char *name, *args;
	bool goal;
} workloads[] = {
	{"loop", "run loop 4000000000", true},
	{"sieve", "run sieve 8000000", true},
	{"fib", "run fib 60", true},
	{"memcpy", "run memcpy 4000000000", true},
	{"repmovs", "run repmovs 400000000000", false},
	{"chase", "run chase 4000000000", false},
};
#define NR_WORKLOADS (sizeof(workloads) / sizeof(workloads[0]))

static void workload_open(struct bed *b, struct bvm *v, const struct workload *w)
{
	bed_open(b, 1, 100000);
	bvm_open(b, v, 1, w->args);
	start(v);
	runner_step(b->runner, 20); /* past the boot */
}

/* Measure and report one workload. @goal: blocks per instruction. */
static void report_rate(const char *name, struct bed *b, double goal, json_t *params)
{
	struct bench_set set = {
		.nr = 1, .rounds = 150, .slow = true, .c = {{.fn = run_slices, .arg = b, .n = 5}}};
	double per;

	bench_measure(&set);
	per = insns_per_slice(b);
	bench_report_as(name, 1e3 * per / set.c[0].ns, "Minsn/s", &set, 0, per, BENCH_BLOCK, goal,
			params);
	bench_free(&set);
}

int bench_emu_mips(void)
{
	for (size_t i = 0; i < NR_WORKLOADS; i++) {
		const struct workload *w = &workloads[i];
		struct bvm v;
		struct bed b;

		workload_open(&b, &v, w);
		report_rate("emu_mips", &b, w->goal ? 3.5 : 0,
			    json_pack("{s:s, s:i, s:i}", "workload", w->name, "events", BENCH_KEYS,
				      "slice", 100000));
		bvm_close(&v);
		bed_close(&b);
	}
	return 0;
}

/* ---- emu_mips_lbr: the same while branches are recorded ---- */

int bench_emu_mips_lbr(void)
{
	static const struct {
		const char *name;
		uint32_t ctl;
		double goal;
	} modes[] = {
		{"any", VPMU_LBR_OS | VPMU_LBR_USR | VPMU_LBR_TYPES, 4.5},
		{"call_stack", VPMU_LBR_USR | VPMU_LBR_CALLS | VPMU_LBR_CALL_STACK, 0},
	};

	for (size_t m = 0; m < sizeof(modes) / sizeof(modes[0]); m++)
		for (size_t i = 0; i < NR_WORKLOADS; i++) {
			const struct workload *w = &workloads[i];
			enum vpmu_lbr_user user;
			struct vpmu_lbr_regs r;
			struct bvm v;
			struct bed b;

			workload_open(&b, &v, w);
			must(!vpmu_lbr_attach(v.account, modes[m].ctl), "lbr", "attach");
			report_rate("emu_mips_lbr", &b, w->goal ? modes[m].goal : 0,
				    json_pack("{s:s, s:s, s:i, s:i}", "workload", w->name,
					      "branches", modes[m].name, "events", BENCH_KEYS,
					      "slice", 100000));
			vpmu_host_sync(b.host);
			must(!vpmu_lbr_read(v.vcpus[0], &r, &user) &&
				     (r.total || modes[m].ctl & VPMU_LBR_CALL_STACK),
			     "lbr", "nothing was recorded");
			vpmu_lbr_detach(v.account);
			bvm_close(&v);
			bed_close(&b);
		}
	return 0;
}

/* ---- emu_alarm: what stopping exactly every so many events costs the engine alone ---- */

#define ALARM_INSNS 500000ULL

/* An engine's vCPU with an alarm every @period of @event; 0: none. */
struct alarm_run {
	struct vmm_engine_vcpu *ev;
	struct vpmu_emu_tally *t;
	unsigned int event;
	uint64_t period;
};

static void run_alarm(void *arg, uint64_t n)
{
	const struct alarm_run *a = arg;
	struct vpmu_emu_tally *t = a->t;
	uint64_t insns = n * ALARM_INSNS;
	struct vmm_run run = {0};

	for (uint64_t done = 0; done < insns; done += run.retired) {
		if (a->period) {
			t->alarm[0] = (struct vpmu_emu_alarm){
				.event = (uint8_t)a->event,
				.modes = 1 << VPMU_EMU_OS | 1 << VPMU_EMU_USR,
				.at = t->ev[0][a->event] + t->ev[1][a->event] + a->period};
			t->armed = 1;
		}
		run.budget = insns - done;
		must(!vmm_emu_ops.run(a->ev, &run) &&
			     (run.exit == VMM_EXIT_ALARM || run.exit == VMM_EXIT_BUDGET),
		     "engine", "the guest ended");
	}
	t->armed = 0;
}

static void alarm_row(struct vmm_engine_vcpu *ev, struct vpmu_emu_tally *t, const char *workload,
		      const char *name, unsigned int event, uint64_t period)
{
	struct alarm_run without = {ev, t, event, 0}, with = {ev, t, event, period};
	struct bench_set set = {.nr = 2,
				.rounds = 60,
				.slow = true,
				.c = {{.fn = run_alarm, .arg = &with, .n = 1, .no_warm = true},
				      {.fn = run_alarm, .arg = &without, .n = 1, .no_warm = true}}};

	bench_measure(&set);
	bench_report("emu_alarm", 100 * (bench_ratio(&set, 0, 1) - 1), "% slower", 0, false,
		     json_pack("{s:s, s:s, s:I, s:f}", "workload", workload, "event", name,
			       "period", (json_int_t)period, "minsn_s",
			       1e3 * (double)ALARM_INSNS / set.c[0].ns));
	bench_free(&set);
}

int bench_emu_alarm(void)
{
	static const struct {
		const char *name;
		unsigned int event;
	} kinds[] = {{"instructions", VPMU_EMU_INSTRUCTIONS},
		     {"cycles", VPMU_EMU_CYCLES},
		     {"branches-taken", VPMU_EMU_BRANCHES_TAKEN}};
	static const uint64_t periods[] = {100000, 10000, 1000};

	for (size_t i = 0; i < NR_WORKLOADS; i++) {
		const struct workload *w = &workloads[i];
		static struct vpmu_emu_tally t;
		struct vmm_engine_vcpu *ev;
		struct bvm v;
		struct bed b;

		if (!w->goal || !strcmp(w->name, "sieve")) /* sieve would end */
			continue;
		workload_open(&b, &v, w);
		ev = v.vm->vcpus[0].ev;
		vmm_emu_ops.set_tally(ev, &t);
		for (size_t k = 0; k < sizeof(kinds) / sizeof(kinds[0]); k++)
			for (size_t p = 0; p < sizeof(periods) / sizeof(periods[0]); p++)
				alarm_row(ev, &t, w->name, kinds[k].name, kinds[k].event,
					  periods[p]);
		vmm_emu_ops.set_tally(ev, NULL);
		bvm_close(&v);
		bed_close(&b);
	}
	return 0;
}

/* ---- vm_create ---- */

static size_t rss_bytes(void)
{
	FILE *f = fopen("/proc/self/statm", "re");
	unsigned long size, resident = 0;

	if (f) {
		if (fscanf(f, "%lu %lu", &size, &resident) != 2)
			resident = 0;
		fclose(f);
	}
	return resident * (size_t)sysconf(_SC_PAGESIZE);
}

static size_t ram_resident(const struct vm *vm)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE), n = vmm_ram_end(&vm->ram) / page, in = 0;
	unsigned char *vec = malloc(n);

	if (vec && !mincore(vm->ram.base, vmm_ram_end(&vm->ram), vec))
		for (size_t i = 0; i < n; i++)
			in += vec[i] & 1;
	free(vec);
	return in * page;
}

#define CREATE_VMS 200

/* VMs that are created one per round. */
struct creation {
	struct bed *b;
	struct bvm *vms;
	unsigned int nr;
};

static void run_create(void *arg, uint64_t n)
{
	struct creation *c = arg;

	for (uint64_t i = 0; i < n; i++)
		bvm_open(c->b, &c->vms[c->nr++], 1, "run fib 60");
}

int bench_vm_create(void)
{
	static struct bvm v[CREATE_VMS];
	struct bed b;
	struct creation c = {.b = &b, .vms = v};
	struct bench_set set = {
		.nr = 1,
		.rounds = CREATE_VMS,
		.page = true,
		.c = {{.fn = run_create, .arg = &c, .n = 1, .no_warm = true}},
	};
	size_t before, after, ram = 0;

	bed_open(&b, 2, 10000);
	malloc_trim(0); /* what earlier benchmarks freed must not hide this one's memory */
	before = rss_bytes();
	bench_measure(&set);
	bench_report_as("vm_create", set.c[0].ns / 1e6, "ms", &set, 0, 1, BENCH_PAGE, 200,
			json_pack("{s:i}", "vcpus", 1));
	bench_free(&set);
	for (unsigned int i = 0; i < c.nr; i++)
		start(&v[i]);
	runner_step(b.runner, c.nr * 20); /* all have run: their caches are there */
	after = rss_bytes();
	for (unsigned int i = 0; i < c.nr; i++)
		ram += ram_resident(v[i].vm);
	bench_report("vm_memory", (double)(after - before - ram) / c.nr / 1024, "KiB", 1024, false,
		     json_pack("{s:i, s:f}", "vcpus", 1, "guest_ram_resident_kib",
			       (double)ram / c.nr / 1024));
	for (unsigned int i = 0; i < c.nr; i++)
		bvm_close(&v[i]);
	bed_close(&b);
	return 0;
}

/* ---- runner_scale ---- */

#define SCALE_VMS   125
#define SCALE_VCPUS 8

/* Minsn per second of CPU time, the mean over some 0.4 s: of the stepped runner @b. */
static double step_rate(struct bed *b)
{
	double begin = bench_thread_ns(), ns;
	uint64_t before = insns(b);

	do {
		run_slices(b, 1000);
		ns = bench_thread_ns() - begin;
	} while (ns < 0.4e9);
	return (double)(insns(b) - before) * 1e3 / ns;
}

/* The same with a thread per pCPU, over the CPU time of the process. */
static double thread_rate(struct bed *b)
{
	uint64_t before;
	double t;

	must(!runner_launch(b->runner), "runner", "threads");
	usleep(200000);
	before = insns(b);
	t = bench_process_ns();
	usleep(700000);
	return (double)(insns(b) - before) * 1e3 / (bench_process_ns() - t);
}

int bench_runner_scale(void)
{
	static struct bvm many[SCALE_VMS];
	struct bed a, b;
	struct bench_set set = {.nr = 2,
				.rounds = 400,
				.slow = true,
				.c = {{.fn = run_slices, .arg = &a, .n = 100},
				      {.fn = run_slices, .arg = &b, .n = 100}}};
	double one_insns, many_insns, one_rate, threads;
	struct bvm one;

	bed_open(&a, 1, 10000);
	bvm_open(&a, &one, 1, "run fib 60");
	start(&one);
	bed_open(&b, 2, 10000);
	for (int i = 0; i < SCALE_VMS; i++) {
		bvm_open(&b, &many[i], SCALE_VCPUS, "run fib 60");
		start(&many[i]);
	}
	runner_step(a.runner, 100);
	runner_step(b.runner, SCALE_VMS * SCALE_VCPUS * 10);
	bench_measure(&set);
	one_insns = insns_per_slice(&a);
	many_insns = insns_per_slice(&b);
	bench_report("runner_scale", 100 * bench_ratio(&set, 0, 1) * many_insns / one_insns,
		     "% of one", 80, true,
		     json_pack("{s:i, s:i, s:i, s:f, s:f}", "vcpus", SCALE_VMS * SCALE_VCPUS,
			       "pcpus", 2, "slice", 10000, "one_minsn_s",
			       1e3 * one_insns / set.c[0].ns, "many_minsn_s",
			       1e3 * many_insns / set.c[1].ns));
	bench_free(&set);
	/* Threads cannot alternate with anything: one vCPU before and after, and means of all. */
	bench_unpin();
	one_rate = step_rate(&a);
	threads = thread_rate(&b);
	for (int i = 0; i < SCALE_VMS; i++)
		bvm_close(&many[i]);
	bed_close(&b);
	one_rate = (one_rate + step_rate(&a)) / 2;
	bench_report("runner_scale_threads", 100 * threads / one_rate, "% of one", 80, true,
		     json_pack("{s:i, s:i, s:f}", "vcpus", SCALE_VMS * SCALE_VCPUS, "threads", 2,
			       "minsn_per_cpu_s", threads));
	bvm_close(&one);
	bed_close(&a);
	bench_pin();
	return 0;
}
