// SPDX-License-Identifier: GPL-2.0-or-later
/* Whole soft VMs: how fast they execute with everything counted, what they cost, how they scale. */
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tests/bench/bench.h"
#include "vmm/sched/runner.h"
#include "vmm/vm/vm.h"
#include "vpmu/rcu.h"
#include "vpmu/softpmu.h"

#define MIB	(1u << 20)
#define NR_KEYS 7

static const enum vpmu_generic events[NR_KEYS] = {
	VPMU_EV_INSTRUCTIONS,	VPMU_EV_CYCLES, VPMU_EV_REF_CYCLES, VPMU_EV_BRANCHES,
	VPMU_EV_BRANCHES_TAKEN, VPMU_EV_LOADS,	VPMU_EV_STORES};

struct bed {
	struct config cfg;
	struct vpmu_host *host;
	struct runner *runner;
	struct vmm_engine *engine;
	struct image image;
	struct vpmu_consumer total[NR_KEYS];
};

struct bvm {
	struct vpmu_account *account, **vcpus;
	unsigned int nr;
	struct vm *vm;
};

static void must(bool ok, const char *what, const char *why)
{
	if (ok)
		return;
	fprintf(stderr, "vpmu-bench: %s: %s\n", what, why);
	exit(1);
}

static void bed_open(struct bed *b, unsigned int pcpus, uint64_t slice)
{
	char err[512] = "out of memory";

	memset(b, 0, sizeof(*b));
	config_init(&b->cfg);
	b->cfg.host.pcpus = pcpus;
	b->cfg.host.slice_insns = slice;
	b->host = vpmu_host_create();
	must(b->host && !runner_create(b->host, &b->cfg.host, &b->runner), "runner", err);
	must(!vmm_soft_ops.open(&b->engine, err, sizeof(err)), "engine", err);
	must(!image_read(VPMU_GUEST, &b->image, err, sizeof(err)), "image", err);
	for (int k = 0; k < NR_KEYS; k++)
		must(!vpmu_consumer_add(&b->total[k], vpmu_host_root(b->host),
					vpmu_key_generic(events[k], VPMU_KEY_USR | VPMU_KEY_OS),
					NULL),
		     "consumer", err);
}

static void bed_close(struct bed *b)
{
	for (int k = 0; k < NR_KEYS; k++)
		vpmu_consumer_del(&b->total[k], NULL, NULL);
	runner_destroy(b->runner);
	image_free(&b->image);
	vmm_soft_ops.close(b->engine);
	vpmu_host_destroy(b->host);
	config_fini(&b->cfg);
}

static void quiet(struct vm *vm, unsigned int vcpu, const char *line, size_t len, void *arg)
{
}

static void ended(struct vm *vm, void *arg)
{
}

static void bvm_open(struct bed *b, struct bvm *v, unsigned int vcpus, const char *args)
{
	struct vm_opts o = {
		.name = "bench",
		.vcpus = vcpus,
		.memory_bytes = 16 * MIB,
		.image = &b->image,
		.args = args,
		.pmu = {.model = VPMU_GUEST_INTEL_V5},
		.ops = &vmm_soft_ops,
		.engine = b->engine,
		.sched = runner_sched(b->runner),
		.console = quiet,
		.ended = ended,
	};
	char err[512] = "out of memory";

	v->nr = vcpus;
	v->vcpus = calloc(vcpus, sizeof(struct vpmu_account *));
	must(v->vcpus && !vpmu_account_create(vpmu_host_root(b->host), NULL, &v->account), "VM",
	     err);
	for (unsigned int i = 0; i < vcpus; i++)
		must(!vpmu_account_create(v->account, NULL, &v->vcpus[i]), "vCPU", err);
	o.account = v->account;
	o.vcpu_accounts = v->vcpus;
	must(!vm_create(&o, &v->vm, err, sizeof(err)), "VM", err);
}

static void bvm_close(struct bvm *v)
{
	vm_destroy(v->vm);
	for (unsigned int i = 0; i < v->nr; i++)
		vpmu_account_del(v->vcpus[i]);
	vpmu_account_del(v->account);
	free(v->vcpus);
}

static void start(struct bvm *v)
{
	char err[512];

	must(!vm_start(v->vm, err, sizeof(err)), "VM", err);
}

static uint64_t insns(struct bed *b)
{
	struct runner_stats s;

	runner_stats(b->runner, &s);
	return s.insns;
}

/* Step for @batches batches of @slices; the best rate of a batch, in Minsn per CPU second. */
static double step_rate(struct bed *b, uint64_t slices, unsigned int batches)
{
	double best = 0;

	for (unsigned int i = 0; i < batches; i++) {
		uint64_t before = insns(b);
		double t = bench_thread_ns(), rate;

		must(runner_step(b->runner, slices) == slices, "runner", "the guests ended");
		rate = (double)(insns(b) - before) * 1e3 / (bench_thread_ns() - t);
		best = rate > best ? rate : best;
	}
	return best;
}

/* ---- soft_mips ---- */

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

int bench_soft_mips(void)
{
	for (size_t i = 0; i < NR_WORKLOADS; i++) {
		const struct workload *w = &workloads[i];
		struct bvm v;
		struct bed b;

		workload_open(&b, &v, w);
		bench_report("soft_mips", step_rate(&b, 20, 25), "Minsn/s", w->goal ? 300 : 0, true,
			     json_pack("{s:s, s:i, s:i}", "workload", w->name, "events", NR_KEYS,
				       "slice", 100000));
		bvm_close(&v);
		bed_close(&b);
	}
	return 0;
}

/* ---- soft_mips_lbr: the same while branches are recorded ---- */

int bench_soft_mips_lbr(void)
{
	static const struct {
		const char *name;
		uint32_t ctl;
		double goal;
	} modes[] = {
		{"any", VPMU_LBR_OS | VPMU_LBR_USR | VPMU_LBR_TYPES, 250},
		{"call_stack", VPMU_LBR_USR | VPMU_LBR_CALLS | VPMU_LBR_CALL_STACK, 0},
	};

	for (size_t m = 0; m < sizeof(modes) / sizeof(modes[0]); m++)
		for (size_t i = 0; i < NR_WORKLOADS; i++) {
			const struct workload *w = &workloads[i];
			enum vpmu_lbr_user user;
			struct vpmu_lbr_regs r;
			double rate;
			struct bvm v;
			struct bed b;

			workload_open(&b, &v, w);
			must(!vpmu_lbr_attach(v.account, modes[m].ctl), "lbr", "attach");
			rate = step_rate(&b, 20, 25);
			vpmu_host_sync(b.host);
			must(!vpmu_lbr_read(v.vcpus[0], &r, &user) &&
				     (r.total || modes[m].ctl & VPMU_LBR_CALL_STACK),
			     "lbr", "nothing was recorded");
			bench_report("soft_mips_lbr", rate, "Minsn/s", w->goal ? modes[m].goal : 0,
				     true,
				     json_pack("{s:s, s:s, s:i, s:i, s:I}", "workload", w->name,
					       "branches", modes[m].name, "events", NR_KEYS,
					       "slice", 100000, "recorded", (json_int_t)r.total));
			vpmu_lbr_detach(v.account);
			bvm_close(&v);
			bed_close(&b);
		}
	return 0;
}

/* ---- soft_alarm: what stopping exactly every so many events costs the engine alone ---- */

#define ALARM_INSNS 2000000ULL

/* One batch: Minsn per CPU second, with an alarm every @period of @event; 0: none. */
static double alarm_rate(struct vmm_engine_vcpu *ev, struct vpmu_soft_tally *t, unsigned int event,
			 uint64_t period)
{
	double begin = bench_thread_ns();
	struct vmm_run run = {0};
	uint64_t done = 0;

	while (done < ALARM_INSNS) {
		if (period) {
			t->alarm[0] = (struct vpmu_soft_alarm){
				.event = (uint8_t)event,
				.modes = 1 << VPMU_SOFT_OS | 1 << VPMU_SOFT_USR,
				.at = t->ev[0][event] + t->ev[1][event] + period};
			t->armed = 1;
		}
		run.budget = ALARM_INSNS - done;
		must(!vmm_soft_ops.run(ev, &run) &&
			     (run.exit == VMM_EXIT_ALARM || run.exit == VMM_EXIT_BUDGET),
		     "engine", "the guest ended");
		done += run.retired;
	}
	t->armed = 0;
	return (double)done * 1e3 / (bench_thread_ns() - begin);
}

static void alarm_row(struct vmm_engine_vcpu *ev, struct vpmu_soft_tally *t, const char *workload,
		      const char *name, unsigned int event, uint64_t period)
{
	double without = 0, with = 0;

	/* Alternating, so that both meet the same machine. */
	for (int i = 0; i < 15; i++) {
		double rate = alarm_rate(ev, t, event, 0);

		without = rate > without ? rate : without;
		rate = alarm_rate(ev, t, event, period);
		with = rate > with ? rate : with;
	}
	bench_report("soft_alarm", 100 * (without / with - 1), "% slower", 0, false,
		     json_pack("{s:s, s:s, s:I, s:f}", "workload", workload, "event", name,
			       "period", (json_int_t)period, "minsn_s", with));
}

int bench_soft_alarm(void)
{
	static const struct {
		const char *name;
		unsigned int event;
	} kinds[] = {{"instructions", VPMU_SOFT_INSTRUCTIONS},
		     {"cycles", VPMU_SOFT_CYCLES},
		     {"branches-taken", VPMU_SOFT_BRANCHES_TAKEN}};
	static const uint64_t periods[] = {100000, 10000, 1000};

	for (size_t i = 0; i < NR_WORKLOADS; i++) {
		const struct workload *w = &workloads[i];
		static struct vpmu_soft_tally t;
		struct vmm_engine_vcpu *ev;
		struct bvm v;
		struct bed b;

		if (!w->goal || !strcmp(w->name, "sieve")) /* sieve would end */
			continue;
		workload_open(&b, &v, w);
		ev = v.vm->vcpus[0].ev;
		vmm_soft_ops.set_tally(ev, &t);
		for (size_t k = 0; k < sizeof(kinds) / sizeof(kinds[0]); k++)
			for (size_t p = 0; p < sizeof(periods) / sizeof(periods[0]); p++)
				alarm_row(ev, &t, w->name, kinds[k].name, kinds[k].event,
					  periods[p]);
		vmm_soft_ops.set_tally(ev, NULL);
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
	size_t page = (size_t)sysconf(_SC_PAGESIZE), n = vm->ram_bytes / page, in = 0;
	unsigned char *vec = malloc(n);

	if (vec && !mincore(vm->ram, vm->ram_bytes, vec))
		for (size_t i = 0; i < n; i++)
			in += vec[i] & 1;
	free(vec);
	return in * page;
}

#define CREATE_VMS 200

int bench_vm_create(void)
{
	static struct bvm v[CREATE_VMS];
	double best = 0, total = 0;
	size_t before, after, ram = 0;
	struct bed b;

	bed_open(&b, 2, 10000);
	malloc_trim(0); /* what earlier benchmarks freed must not hide what this one takes */
	before = rss_bytes();
	for (int i = 0; i < CREATE_VMS; i++) {
		double t = bench_thread_ns();

		bvm_open(&b, &v[i], 1, "run fib 60");
		t = bench_thread_ns() - t;
		total += t;
		best = i == 0 || t < best ? t : best;
	}
	bench_report("vm_create", best / 1e6, "ms", 1, false,
		     json_pack("{s:f, s:i}", "mean_ms", total / CREATE_VMS / 1e6, "vcpus", 1));
	for (int i = 0; i < CREATE_VMS; i++)
		start(&v[i]);
	runner_step(b.runner, CREATE_VMS * 20); /* all have run: their caches are there */
	after = rss_bytes();
	for (int i = 0; i < CREATE_VMS; i++)
		ram += ram_resident(v[i].vm);
	bench_report("vm_memory", (double)(after - before - ram) / CREATE_VMS / 1024, "KiB", 1024,
		     false,
		     json_pack("{s:i, s:i, s:f}", "vms", CREATE_VMS, "vcpus", 1,
			       "guest_ram_resident_kib", (double)ram / CREATE_VMS / 1024));
	for (int i = 0; i < CREATE_VMS; i++)
		bvm_close(&v[i]);
	bed_close(&b);
	return 0;
}

/* ---- runner_scale ---- */

#define SCALE_VMS   125
#define SCALE_VCPUS 8

/* Threads: instructions per second of CPU time of the process, over about half a second. */
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
	double one_rate = 0, many_rate = 0, threads;
	struct bed a, b;
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
	/* Alternating, so that both meet the same machine. */
	for (int i = 0; i < 12; i++) {
		double r = step_rate(&a, 2000, 1);

		one_rate = r > one_rate ? r : one_rate;
		r = step_rate(&b, 2000, 1);
		many_rate = r > many_rate ? r : many_rate;
	}
	bench_report("runner_scale", 100 * many_rate / one_rate, "% of one", 80, true,
		     json_pack("{s:i, s:i, s:i, s:f, s:f}", "vcpus", SCALE_VMS * SCALE_VCPUS,
			       "pcpus", 2, "slice", 10000, "one_minsn_s", one_rate, "many_minsn_s",
			       many_rate));
	threads = thread_rate(&b);
	bench_report("runner_scale_threads", 100 * threads / one_rate, "% of one", 80, true,
		     json_pack("{s:i, s:i, s:f}", "vcpus", SCALE_VMS * SCALE_VCPUS, "threads", 2,
			       "minsn_per_cpu_s", threads));
	for (int i = 0; i < SCALE_VMS; i++)
		bvm_close(&many[i]);
	bvm_close(&one);
	bed_close(&b);
	bed_close(&a);
	return 0;
}
