// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Effort (vmm_run.effort): the charge of guests that make each of their instructions expensive,
 * that the charge follows the host's CPU time, and that run() returns soon whatever the guest does.
 */
#include "emu_effort_bed.h"
#include "tests/measured.h"

/* Each expensive instruction is charged. The numbers are exact: they depend on no clock. */
Test(emu_effort, is_charged)
{
	emu_jit_set(EMU_JIT_OFF);
	for (size_t i = 0; i < nr_attacks; i++) {
		const struct attack *a = &attacks[i];
		uint64_t insns = 0, effort, again = 0, insns2 = 0;
		struct guest g;

		open_guest(&g, a);
		slice(&g, 100000, &insns);
		insns = 0;
		effort = slice(&g, 400000, &insns);
		close_guest(&g);
		cr_expect_geq(effort - insns, insns * a->effort / 100, "%s: %lu units, %lu insns",
			      a->name, effort, insns);
		if (i == 0) /* the plain guest is charged for its instructions */
			cr_expect_leq(effort, insns + insns / 20, "%lu units, %lu insns", effort,
				      insns);
		open_guest(&g, a);
		slice(&g, 100000, &insns2);
		insns2 = 0;
		again = slice(&g, 400000, &insns2);
		close_guest(&g);
		cr_expect_eq(again, effort, "%s: it repeats", a->name);
		cr_expect_eq(insns2, insns, "%s: it repeats", a->name);
	}
}

/* While branches are recorded, each taken one goes its slow way. */
Test(emu_effort, branch_records_are_charged)
{
	const struct attack *a = attacks;
	uint64_t insns = 0, effort;
	struct guest g;

	while (strcmp(a->name, "tiny loop"))
		cr_assert_lt(++a, attacks + nr_attacks);
	emu_jit_set(EMU_JIT_OFF);
	open_guest(&g, a);
	g.t.lbr.ctl = VPMU_LBR_EN | VPMU_LBR_OS | VPMU_LBR_RET; /* it makes none of these */
	effort = slice(&g, 400000, &insns);
	close_guest(&g);
	cr_expect_geq(effort, insns + insns / 2 * EMU_EFFORT_RECORD);
}

/* Interrupts sent to many vCPUs, or taken, are charged one by one. vCPU 0 runs alone. */
Test(emu_effort, interrupts_are_charged)
{
	static const struct {
		const char *name;
		unsigned int effort; /* as in struct attack */
	} dear[] = {{"IPI to nobody", 47000},	 {"16 vCPUs, IPIs to all, IF = 0", 74000},
		    {"IPI to 15 others", 68000}, {"self IPI", 6200},
		    {"self IPI, IF = 0", 7800},	 {"timer of 1 ns", 11700},
		    {"asserted line", 9100},	 {"asserted line, 16 vCPUs", 20800},
		    {"APIC off and on", 2800},	 {"wrmsr tsc", 1900},
		    {"KVM's clock", 1900}};
	unsigned int found = 0;

	emu_jit_set(EMU_JIT_OFF);
	for (size_t i = 0; i < nr_chip_attacks; i++)
		for (size_t k = 0; k < sizeof(dear) / sizeof(dear[0]); k++) {
			const struct chip_attack *c = &chip_attacks[i];
			uint64_t insns = 0, effort;
			struct guest g;

			if (strcmp(c->attack.name, dear[k].name))
				continue;
			found++;
			open_chip_guest(&g, c);
			slice(&g, 100000, &insns);
			insns = 0;
			effort = slice(&g, 400000, &insns);
			cr_expect_geq(effort - insns, insns * dear[k].effort / 100,
				      "%s: %lu units, %lu insns", dear[k].name, effort, insns);
			close_chip_guest(&g, c->vcpus);
		}
	cr_assert_eq(found, sizeof(dear) / sizeof(dear[0]));
}

/* vCPU 0 writes to a device, and @edges edges of the device's line go to all 16 vCPUs. Returns the
 * effort of the run() that follows. */
static uint64_t effort_of_edges(unsigned int edges)
{
	const struct chip_attack *c = chip_attacks;
	struct guest g;
	uint64_t effort;

	while (strcmp(c->attack.name, "edges to 16 vCPUs"))
		cr_assert_lt(++c, chip_attacks + nr_chip_attacks);
	open_chip_guest(&g, c);
	do
		run(&g, 100000);
	while (g.run.exit != VMM_EXIT_IO || g.run.u.io.port != 0x3f9);
	for (unsigned int i = 0; i < edges; i++) {
		cr_assert_eq(o->irq_line(g.vm, 4, false), 0);
		cr_assert_eq(o->irq_line(g.vm, 4, true), 0);
	}
	effort = run(&g, 100000);
	close_chip_guest(&g, c->vcpus);
	return effort;
}

Test(emu_effort, edges_are_charged)
{
	uint64_t one = effort_of_edges(1);

	/* The first interrupt is taken, too. */
	cr_expect_geq(one - effort_of_edges(0), 16 * (EMU_EFFORT_LOOK + EMU_EFFORT_POST));
	cr_expect_eq(effort_of_edges(4) - one, 3 * 16 * (EMU_EFFORT_LOOK + EMU_EFFORT_POST));
}

/* The same in translated code. 100 instructions of the guests that are named take so many units at
 * least; those of others no less than the plain guest's. A plain guest with all its code translated
 * takes a quarter of a unit for each. */
Test(emu_effort, is_charged_translated)
{
	static const struct {
		const char *name;
		unsigned int effort;
	} dear[] = {{"mul", 170},	{"translating", 820},
		    {"div only", 440},	{"idiv", 440},
		    {"lock x100", 195}, {"cmpxchg x100", 195},
		    {"xchg", 195},	{"loop", 49},
		    {"split lock", 99}, {"adc", 49},
		    {"bsf", 70},	{"seto", 24},
		    {"paddb", 60},	{"mulpd", 125},
		    {"divpd", 580},	{"denormal", 480},
		    {"sqrtpd", 350},	{"tiny loop", 36},
		    {"load x100", 36},	{"rmw x100", 145},
		    {"push, pop", 60},	{"unaligned load x100", 130},
		    {"call, ret", 165}, {"load by r15 x100", 85}};
	unsigned int found = 0;

	if (vmm_emu_translate(true))
		cr_skip_test("%s", emu_jit_off());
	for (size_t i = 0; i < nr_attacks; i++) {
		uint64_t insns[2] = {0, 0}, effort[2], least = 24;
		struct guest g;

		for (size_t k = 0; k < sizeof(dear) / sizeof(dear[0]); k++)
			if (!strcmp(attacks[i].name, dear[k].name)) {
				least = dear[k].effort;
				found++;
			}
		for (int again = 0; again < 2; again++) {
			open_guest(&g, &attacks[i]);
			slice(&g, 100000, &insns[again]);
			insns[again] = 0;
			effort[again] = slice(&g, 400000, &insns[again]);
			close_guest(&g);
		}
		cr_expect_geq(effort[0], insns[0] * least / 100, "%s: %lu units, %lu insns",
			      attacks[i].name, effort[0], insns[0]);
		if (i == 0)
			cr_expect_leq(effort[0], insns[0] * 30 / 100, "%lu units, %lu insns",
				      effort[0], insns[0]);
		cr_expect_eq(effort[0], effort[1], "%s: it repeats", attacks[i].name);
		cr_expect_eq(insns[0], insns[1], "%s: it repeats", attacks[i].name);
	}
	cr_assert_eq(found, sizeof(dear) / sizeof(dear[0]));
}

/* What run() does beyond effort_max is bounded for every guest and length of run: the
 * rest of a chunk of 2,000 instructions. So is the time until its caller reaches a safe point. */
Test(emu_effort, run_returns_soon)
{
	for (size_t i = 0; i < nr_attacks; i++) {
		struct guest g;

		open_guest(&g, &attacks[i]);
		for (int k = 0; k < 50; k++) {
			g.run.effort_max = 10000;
			g.run.budget = 10000000;
			cr_assert_eq(o->run(g.v, &g.run), 0);
			g.run.u.msr.fault = false;
			cr_expect_leq(g.run.effort, 10000 + 2000 * 300, "%s: %lu units",
				      attacks[i].name, g.run.effort);
		}
		close_guest(&g);
	}
}

/* Locked instructions in a VM of several vCPUs are host atomics and charged so. Code that a vCPU
 * has decoded as the only one of its VM is decoded again when there is a second. */
Test(emu_effort, locks_beside_another_vcpu)
{
	static const struct {
		const char *name;
		unsigned int effort; /* as in struct attack */
	} dear[] = {{"split lock x100", 7040},
		    {"split page lock x100", 13635},
		    {"lock x100", 1338},
		    {"cmpxchg x100", 1338},
		    {"xchg", 1338}};
	unsigned int found = 0;

	for (size_t i = 0; i < nr_attacks; i++)
		for (size_t k = 0; k < sizeof(dear) / sizeof(dear[0]); k++) {
			struct vmm_engine_vcpu *other;
			uint64_t insns = 0, effort;
			struct guest g;

			if (strcmp(attacks[i].name, dear[k].name))
				continue;
			found++;
			open_guest(&g, &attacks[i]);
			slice(&g, 100000, &insns);
			cr_assert_eq(o->vcpu_create(g.vm, 1, &other), 0);
			insns = 0;
			slice(&g, 100000, &insns); /* decodes */
			insns = 0;
			effort = slice(&g, 400000, &insns);
			cr_expect_geq(effort - insns, insns * dear[k].effort / 100,
				      "%s: %lu units, %lu insns", dear[k].name, effort, insns);
			o->vcpu_destroy(other);
			close_guest(&g);
		}
	cr_assert_eq(found, sizeof(dear) / sizeof(dear[0]));
}

/*
 * A vCPU with a thread that the host does not run (it is marked running, and passes no safe point)
 * does not keep others of its VM from decoding code. Code that they have decoded since they look at
 * again: the thread may be about to store there by its fast path.
 */
Test(emu_effort, nobody_waits_for_a_vcpu_that_stands_still)
{
	/* 1: call 2f; cpuid; jmp 1b; 2: mov $1, %esi; ret */
	static const uint8_t code[] = {0xe8, 4,	   0, 0, 0, 0x0f, 0xa2, 0xeb,
				       0xf7, 0xbe, 1, 0, 0, 0,	  0xc3};
	struct attack a = {.name = "decodes", .code = code, .end = code + sizeof(code)};
	struct vmm_engine_vcpu *other;
	struct emu_vcpu *v, *still;
	struct kvm_regs r;
	struct guest g;

	open_guest(&g, &a);
	cr_assert_eq(o->vcpu_create(g.vm, 1, &other), 0);
	v = (struct emu_vcpu *)g.v;
	still = (struct emu_vcpu *)other;
	atomic_store(&still->running, true);
	for (uint8_t n = 1; n < 100; n++) {
		uint8_t *imm = g.ram + ATTACK_CODE + 10;

		*imm = n; /* as a store by the fast path of the other vCPU */
		run(&g, 20000);
		o->get_regs(g.v, &r);
		cr_assert_eq(r.rsi, n, "the code was not decoded again");
		cr_assert_gt(v->nr_unsettled, 0);
	}
	/* It passes a safe point. From now on its stores would look at the marks. */
	atomic_store(&still->epoch_seen, atomic_load(&still->vm->code_epoch));
	run(&g, 20000);
	cr_assert_eq(v->nr_unsettled, 0);
	atomic_store(&still->running, false);
	o->vcpu_destroy(other);
	close_guest(&g);
}

/* ---- against the CPU's time ---- */

#define ROUNDS 15

/* CPU time per unit of @b's guest over that of @a's, the median of alternating slices. */
static __attribute__((unused)) double ratio(struct guest *a, struct guest *b)
{
	double ratios[ROUNDS], t0, t1, t2;
	uint64_t insns = 0, ea, eb;

	slice(a, 100000, &insns);
	slice(b, 100000, &insns);
	for (int i = 0; i < ROUNDS; i++) {
		t0 = clock_s(CLOCK_THREAD_CPUTIME_ID);
		ea = slice(a, 100000, &insns);
		t1 = clock_s(CLOCK_THREAD_CPUTIME_ID);
		eb = slice(b, 100000, &insns);
		t2 = clock_s(CLOCK_THREAD_CPUTIME_ID);
		ratios[i] = (t2 - t1) / (double)eb / ((t1 - t0) / (double)ea);
	}
	return median(ratios, ROUNDS);
}

/*
 * A unit of effort takes about as long for every guest. vpmu-bench fair_worst shows how close the
 * table is; the limit of this test is wide, because machines differ. Without the table the ratios
 * are between 20 and 200.
 */
Test(emu_effort, follows_the_cpus_time)
{
#if defined(__SANITIZE_ADDRESS__)
	cr_skip_test("the sanitizer makes other instructions dear");
#else
	for (size_t i = 1; i < nr_attacks; i++) {
		struct guest a, b;
		double r;

		/* Exits: their answers are charged by vcpu_run_slice(). */
		open_guest(&b, &attacks[i]);
		run(&b, 100000);
		run(&b, 100000);
		if (attacks[i].memory || b.run.exit != VMM_EXIT_INTR) {
			close_guest(&b);
			continue;
		}
		open_guest(&a, &attacks[0]);
		r = ratio(&a, &b);
		/* Others may have taken the caches of this CPU. */
		for (int again = 0; again < 4 && r >= 4; again++)
			r = ratio(&a, &b);
		cr_expect_lt(r, 4, "%s: %.2f times the CPU time of a plain guest", attacks[i].name,
			     r);
		close_guest(&a);
		close_guest(&b);
	}
#endif
}

/* ---- two VMs on one pCPU ---- */

static int load(struct vm *vm, void *arg, char *err, size_t errlen)
{
	return attack_load(arg, vm->ops, vm->vcpus[0].ev, vm->ram.base);
}

static void quiet(struct vm *vm, unsigned int vcpu, const char *line, size_t len, void *arg)
{
}

static void ended(struct vm *vm, void *arg)
{
	cr_assert_fail("%s ended", (const char *)arg);
}

struct pair {
	struct vpmu_account *account, *vcpu;
	struct vm *vm;
};

static void open_vm_on(struct pair *p, struct vpmu_host *host, struct runner *r,
		       struct vmm_engine *e, const struct attack *a,
		       const struct vmm_engine_ops *ops)
{
	struct vm_opts vo = {
		.name = "vm",
		.vcpus = 1,
		.memory_bytes = ATTACK_RAM,
		.load = load,
		.load_arg = (void *)a,
		.pmu = {.model = VPMU_GUEST_INTEL_V5},
		.ops = ops,
		.engine = e,
		.sched = runner_sched(r),
		.vcpu_accounts = &p->vcpu,
		.console = quiet,
		.ended = ended,
		.arg = (void *)a->name,
	};
	char err[256] = "";

	cr_assert_eq(vpmu_account_create(vpmu_host_root(host), NULL, &p->account), 0);
	cr_assert_eq(vpmu_account_create(p->account, NULL, &p->vcpu), 0);
	vo.account = p->account;
	cr_assert_eq(vm_create(&vo, &p->vm, err, sizeof(err)), 0, "%s", err);
	cr_assert_eq(vm_start(p->vm, err, sizeof(err)), 0, "%s", err);
}

static void open_vm(struct pair *p, struct vpmu_host *host, struct runner *r, struct vmm_engine *e,
		    const struct attack *a)
{
	open_vm_on(p, host, r, e, a, o);
}

static void close_vm(struct pair *p)
{
	vm_destroy(p->vm);
	vpmu_account_del(p->vcpu);
	vpmu_account_del(p->account);
}

/* How many instructions @first executes, alone or beside @beside, while the pCPU makes @effort.
 * Work is counted in instructions and time in effort, so this depends on no clock. */
static uint64_t progress(const struct attack *first, const struct attack *beside,
			 uint64_t slice_insns, uint64_t effort)
{
	struct config cfg;
	struct vmm_engine *e;
	struct vpmu_host *host = vpmu_host_create();
	struct vpmu_consumer c = {0};
	struct runner_stats s;
	struct runner *r;
	struct pair one, other;
	struct vpmu_value last;
	char why[128];

	config_init(&cfg);
	cfg.host.pcpus = 1;
	cfg.host.slice_insns = slice_insns;
	cr_assert_eq(runner_create(host, &cfg.host, &r), 0);
	cr_assert_eq(o->open(&e, why, sizeof(why)), 0);
	open_vm(&one, host, r, e, first);
	if (beside)
		open_vm(&other, host, r, e, beside);
	cr_assert_eq(vpmu_consumer_add(
			     &c, one.account,
			     vpmu_key_generic(VPMU_EV_INSTRUCTIONS, VPMU_KEY_USR | VPMU_KEY_OS),
			     NULL),
		     0);
	do {
		cr_assert_eq(runner_step(r, 1), 1);
		runner_stats(r, &s);
	} while (s.effort < effort);
	vpmu_host_sync(host);
	vpmu_consumer_del(&c, NULL, &last);
	if (beside)
		close_vm(&other);
	close_vm(&one);
	runner_destroy(r);
	o->close(e);
	vpmu_host_destroy(host);
	config_fini(&cfg);
	return last.count;
}

/* Beside each of the guests a plain one gets on with its work at 40 % at least of its rate
 * alone. */
Test(emu_effort, is_shared)
{
#ifdef VPMU_FEWER
	const uint64_t effort = 8000000; /* 400 slices */
#else
	const uint64_t effort = 24000000;
#endif
	uint64_t alone, share;

	urcu_memb_register_thread();
	alone = progress(&attacks[0], NULL, 20000, effort);
	for (size_t i = 0; i < nr_attacks; i++) {
		share = 100 * progress(&attacks[0], &attacks[i], 20000, effort) / alone;
		cr_expect_geq(share, 40, "beside %s: %lu %%", attacks[i].name, share);
		cr_expect_leq(share, 60, "beside %s: %lu %%", attacks[i].name, share);
	}
	urcu_memb_unregister_thread();
}

/* Answers of exits are charged by their cost: for each counter that a guest switches or reads.
 * @effort: the least of 100 instructions. */
Test(emu_effort, counters_are_charged)
{
	static const struct {
		const char *name;
		unsigned int effort;
	} dear[] = {{"pmu on/off", 11000},     {"pmu all on/off", 27000}, {"pmu select", 15000},
		    {"pmu all status", 19000}, {"pmu all clear", 24000},  {"pmu all rdpmc", 10000},
		    {"pmu all write", 16000},  {"rdmsr", 5000},		  {"wrmsr #gp", 16000}};
	const uint64_t effort = 2000000;
	unsigned int found = 0;

	urcu_memb_register_thread();
	for (size_t i = 0; i < nr_attacks; i++)
		for (size_t k = 0; k < sizeof(dear) / sizeof(dear[0]); k++) {
			uint64_t insns;

			if (strcmp(attacks[i].name, dear[k].name))
				continue;
			found++;
			insns = progress(&attacks[i], NULL, 20000, effort);
			cr_expect_geq(100 * effort / insns, dear[k].effort, "%s: %lu", dear[k].name,
				      100 * effort / insns);
		}
	cr_assert_eq(found, sizeof(dear) / sizeof(dear[0]));
	urcu_memb_unregister_thread();
}

/* ---- control calls ---- */

static _Atomic uint64_t effort_so_far, longest_run;

static int counting_run(struct vmm_engine_vcpu *v, struct vmm_run *run)
{
	int ret = o->run(v, run);

	effort_so_far += run->effort;
	if (run->effort > longest_run)
		longest_run = run->effort;
	return ret;
}

/* The pCPU's work between the call of @fn and its end, in units of effort, at best: the thread
 * that calls may have to wait for a CPU of the host, so there are more tries while all took more
 * than @most. */
static uint64_t waits(void (*fn)(void *arg), void *arg, uint64_t most)
{
	uint64_t least = UINT64_MAX, begin, took;

	for (int i = 0; i < 50 || (i < 1000 && least > most); i++) {
		begin = effort_so_far;
		while (effort_so_far == begin)
			sched_yield(); /* it runs */
		begin = effort_so_far;
		fn(arg);
		took = effort_so_far - begin;
		least = took < least ? took : least;
	}
	return least;
}

static void sync_host(void *arg)
{
	vpmu_host_sync(arg);
}

static void pause_vm(void *arg)
{
	char err[256];

	vm_pause(arg);
	vm_start(arg, err, sizeof(err));
}

/* A control call waits for the next safe point of a pCPU, and not for the end of a slice. */
Test(emu_effort, control_waits_for_no_slice)
{
	static const char *const names[] = {"plain", "invlpg", "self-modifying", "rep movsb",
					    "#pf, no handler"};
	const uint64_t most = 3 * (VCPU_POLL_EFFORT + 2000 * 160);
	struct vmm_engine_ops ops = *o;
	struct vmm_engine *e;
	char why[128];

	ops.run = counting_run;
	urcu_memb_register_thread();
	cr_assert_eq(o->open(&e, why, sizeof(why)), 0);
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		const struct attack *a = &attacks[0];
		struct vpmu_host *host = vpmu_host_create();
		struct runner *r;
		struct config cfg;
		struct pair p;

		while (strcmp(a->name, names[i]))
			a++;
		config_init(&cfg);
		cfg.host.pcpus = 1;
		cfg.host.slice_insns = RUNNER_SLICE_MAX;
		cr_assert_eq(runner_create(host, &cfg.host, &r), 0);
		open_vm_on(&p, host, r, e, a, &ops);
		cr_assert_eq(runner_launch(r), 0);
		cr_expect_leq(waits(sync_host, host, most), most, "%s", a->name);
		cr_expect_leq(waits(pause_vm, p.vm, most), most, "%s", a->name);
		/* There is a safe point behind each. */
		cr_expect_leq(longest_run, VCPU_POLL_EFFORT + 2000 * 160, "%s", a->name);
		close_vm(&p);
		runner_destroy(r);
		vpmu_host_destroy(host);
		config_fini(&cfg);
	}
	o->close(e);
	urcu_memb_unregister_thread();
}
