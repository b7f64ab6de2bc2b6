// SPDX-License-Identifier: GPL-2.0-or-later
/* vmm/sched/runner, vmm/vm: scripted vCPUs on modelled pCPUs. Shares: test_runner_shares.c. */
#include <time.h>

#include "runner_bed.h"

TestSuite(runner, .fini = bed_end);

static void wait_ended(struct bed *b, unsigned int n)
{
	struct timespec ms = {.tv_nsec = 1000000};

	while (b->ended < n)
		nanosleep(&ms, NULL);
}

/* ---- scripts ---- */

/* SDM vol. 4: IA32_PERFEVTSEL0, IA32_PMC0, IA32_FIXED_CTR0, IA32_FIXED_CTR_CTRL, GLOBAL_CTRL. */
#define EVTSEL0	   0x186
#define PMC0	   0xc1
#define FIXED0	   0x309
#define FIXED_CTRL 0x38d
#define GLOBAL	   0x38f
#define USR_EN	   (1ULL << 16 | 1ULL << 22)
#define EXIT(status)                                                                               \
	{                                                                                          \
		FAKE_OUT, VPMU_PORT_EXIT, status, 4                                                \
	}

/* Counts three events over three phases; each read must be exact. */
static const struct fake_step counting[] = {
	{FAKE_RUN, 777, 0, 0},
	{FAKE_WRMSR, EVTSEL0, 0xc4 | USR_EN, 0},     /* branches */
	{FAKE_WRMSR, EVTSEL0 + 1, 0x3c | USR_EN, 0}, /* cycles */
	{FAKE_WRMSR, FIXED_CTRL, 0x2, 0},	     /* instructions, user */
	{FAKE_WRMSR, GLOBAL, 0x100000003, 0},
	{FAKE_RUN, 80000, 0, 0},
	{FAKE_RDMSR, FIXED0, 80000, 0},
	{FAKE_RDMSR, PMC0, 10000, 0},
	{FAKE_RDMSR, PMC0 + 1, 160000, 0},
	{FAKE_WRMSR, GLOBAL, 0, 0},
	{FAKE_RUN, 5000, 0, 0}, /* not counted */
	{FAKE_RDMSR, FIXED0, 80000, 0},
	{FAKE_WRMSR, GLOBAL, 0x100000003, 0},
	{FAKE_RUN, 16, 0, 0},
	{FAKE_RDMSR, FIXED0, 80016, 0},
	{FAKE_RDMSR, PMC0, 10002, 0},
	EXIT(0),
};

static const struct fake_step endless[] = {
	{FAKE_WRMSR, FIXED_CTRL, 0x2, 0},
	{FAKE_WRMSR, GLOBAL, 0x100000000, 0},
	{FAKE_RUN, 12345, 0, 0},
	{FAKE_RDMSR_GP, 0x12345, 0, 0},
	{FAKE_AGAIN, 2, 0, 0},
};

/* ---- exactness and determinism, stepped ---- */

static void step_all(const struct host_config *h, unsigned int vms)
{
	struct runner_stats stats;

	bed_init(&b, h);
	fake_play(counting, counting, NULL);
	for (unsigned int i = 0; i < vms; i++)
		start(add_vm(&b, i));
	while (runner_step(b.runner, 1000) == 1000)
		;
	cr_assert_eq(b.ended, vms);
	runner_stats(b.runner, &stats);
	cr_assert_eq(stats.insns, vms * VCPUS * (777 + 80000 + 5000 + 16));
	for (unsigned int i = 0; i < vms; i++) {
		cr_assert_eq(vm_state(b.vms[i].vm), VM_DONE);
		cr_assert_eq(vm_status(b.vms[i].vm), 0);
	}
	cr_assert_gt(conserved(b.host), 0);
	bed_fini(&b);
}

Test(runner, exact_one_pcpu)
{
	struct host_config h = small_host;

	h.pcpus = 1;
	step_all(&h, 1);
	step_all(&h, 20);
}

Test(runner, exact_random_slices_and_migration)
{
	struct host_config h = small_host;

	h.migrate = RUNNER_MIGRATE_RANDOM;
	h.random_slices = true;
	for (h.pcpus = 2; h.pcpus <= 5; h.pcpus++)
		for (h.seed = 0; h.seed < 5; h.seed++)
			step_all(&h, 10);
	h.slice_insns = 1;
	h.pcpus = 3;
	step_all(&h, 1);
}

static uint64_t trace_hash;

static void hash_trace(struct vmm_engine_vcpu *v, uint64_t budget)
{
	trace_hash = (trace_hash ^ v->id ^ budget << 8 ^ v->at << 40) * 0x100000001b3ULL;
}

static uint64_t trace_of(const struct host_config *h)
{
	bed_init(&b, h);
	fake_play(counting, counting, NULL);
	fake_trace = hash_trace;
	trace_hash = 0xcbf29ce484222325ULL;
	for (unsigned int i = 0; i < 8; i++)
		start(add_vm(&b, i));
	while (runner_step(b.runner, 7) == 7)
		;
	bed_fini(&b);
	return trace_hash;
}

Test(runner, deterministic)
{
	struct host_config h = small_host;
	uint64_t first;

	h.random_slices = true;
	h.migrate = RUNNER_MIGRATE_RANDOM;
	first = trace_of(&h);
	cr_assert_eq(trace_of(&h), first);
	h.seed++;
	cr_assert_neq(trace_of(&h), first);
	h.pcpus = 1;
	first = trace_of(&h);
	cr_assert_eq(trace_of(&h), first);
}

/* ---- migration ---- */

static const struct fake_step exiting7[] = {{FAKE_RUN, 5, 0, 0}, EXIT(7)};

/* vCPUs 1 all sit on one pCPU and exit at once: it takes over half of what waits on the other. */
Test(runner, balance_moves_waiting_vcpus)
{
	struct runner_stats stats;

	bed_init(&b, &small_host);
	fake_play(endless, exiting7, NULL);
	for (unsigned int i = 0; i < 6; i++)
		start(add_vm(&b, i));
	cr_assert_eq(runner_step(b.runner, 400), 400);
	runner_stats(b.runner, &stats);
	cr_assert_eq(stats.migrated, 3);
	cr_assert_gt(stats.ticks, 0);
}

Test(runner, none_never_moves)
{
	struct host_config h = small_host;
	struct runner_stats stats;

	h.migrate = RUNNER_MIGRATE_NONE;
	bed_init(&b, &h);
	fake_play(endless, endless, NULL);
	for (unsigned int i = 0; i < 4; i++)
		start(add_vm(&b, i));
	runner_step(b.runner, 100);
	del_vm(&b, 0);
	vm_pause(b.vms[1].vm);
	runner_step(b.runner, 100);
	start(b.vms[1].vm);
	runner_step(b.runner, 100);
	runner_stats(b.runner, &stats);
	cr_assert_eq(stats.migrated, 0);
}

/* ---- ends ---- */

static void expect_failure(const struct fake_step *script, const char *reason)
{
	bed_init(&b, &small_host);
	fake_play(endless, script, NULL);
	start(add_vm(&b, 0));
	while (!b.ended)
		cr_assert_gt(runner_step(b.runner, 1), 0);
	cr_assert_eq(vm_state(b.vms[0].vm), VM_FAILED);
	cr_assert_str_eq(b.vms[0].vm->reason, reason);
	cr_assert_eq(b.vms[0].vm->vcpus[1].state, VCPU_FAILED);
	cr_assert_eq(b.vms[0].vm->vcpus[0].state, VCPU_STOPPED);
	bed_fini(&b);
}

Test(runner, failures_end_the_vm)
{
	static const struct fake_step shutdown[] = {{FAKE_RUN, 5, 0, 0}, {FAKE_SHUTDOWN, 0, 0, 0}};
	static const struct fake_step error[] = {{FAKE_RUN, 5, 0, 0}, {FAKE_ERROR, 0, 0, 0}};
	static const struct fake_step eio[] = {{FAKE_RUN, 5, 0, 0}, {FAKE_EIO, 0, 0, 0}};

	expect_failure(shutdown, "vCPU 1: triple fault at RIP 0x1001");
	expect_failure(error, "vCPU 1: no such instruction at RIP 0x1234");
	expect_failure(eio, "vCPU 1: engine fake: Input/output error");
}

static const struct fake_step halting[] = {{FAKE_RUN, 5, 0, 0}, {FAKE_HLT, 0, 0, 0}};

Test(runner, halted_and_status)
{
	bed_init(&b, &small_host);
	fake_play(halting, halting, NULL);
	start(add_vm(&b, 0));
	fake_play(halting, exiting7, NULL);
	start(add_vm(&b, 1));
	cr_assert_eq(vm_state(b.vms[1].vm), VM_RUNNING);
	runner_step(b.runner, 100);
	cr_assert_eq(b.ended, 2);
	cr_assert_eq(vm_state(b.vms[0].vm), VM_FAILED);
	cr_assert_str_eq(b.vms[0].vm->reason, "all vCPUs halted with nothing that could wake them");
	cr_assert_eq(vm_state(b.vms[1].vm), VM_DONE);
	cr_assert_eq(vm_status(b.vms[1].vm), 7);
}

/* ---- vCPUs that wait in HLT ---- */

static struct vmm_waker waker;
static unsigned int wakes; /* what comes between a HLT and its pCPU's letting go of the vCPU */

static int waking_irqchip_create(struct vmm_engine_vm *vm)
{
	return 0;
}

static int waking_set_waker(struct vmm_engine_vm *vm, const struct vmm_waker *w)
{
	waker = w ? *w : (struct vmm_waker){0};
	return 0;
}

static void nmi_to(struct vmm_engine_vcpu *v)
{
	v->nmi = true;
	waker.wake(waker.arg, v->id);
}

static int waking_run(struct vmm_engine_vcpu *v, struct vmm_run *run)
{
	int ret = fake_run(v, run);

	if (ret || run->exit != VMM_EXIT_HLT)
		return ret;
	run->u.hlt.waits = true;
	run->u.hlt.deadline = 0;
	if (wakes) {
		wakes--;
		nmi_to(v);
	}
	return 0;
}

Test(runner, a_wake_before_the_pcpu_lets_go_is_not_lost)
{
	static const struct fake_step napping[] = {
		{FAKE_RUN, 5, 0, 0}, {FAKE_HLT, 0, 0, 0}, {FAKE_HLT, 0, 0, 0}, EXIT(7)};
	static struct vmm_engine_ops waking_ops; /* .fini uses it */
	struct vm *vm;

	waking_ops = fake_ops;
	waking_ops.can |= VMM_CAN_IRQCHIP | VMM_CAN_WAKE;
	waking_ops.irqchip_create = waking_irqchip_create;
	waking_ops.set_waker = waking_set_waker;
	waking_ops.run = waking_run;
	bed_ops = &waking_ops;
	bed_init(&b, &small_host);
	fake_play(exiting7, napping, NULL);
	vm = add_vm(&b, 0);
	wakes = 1;
	start(vm);
	runner_step(b.runner, 100);
	cr_assert_eq(vm->vcpus[1].ev->at, 2u, "the first HLT is over, the second is not");
	cr_assert_eq(vm_state(vm), VM_RUNNING);
	nmi_to(vm->vcpus[1].ev);
	runner_step(b.runner, 100);
	cr_assert_eq(vm_state(vm), VM_DONE);
	cr_assert_eq(vm->vcpus[1].status, 7);
}

/* ---- devices ---- */

Test(runner, ports_and_msrs)
{
	static const struct fake_step script[] = {
		{FAKE_OUT, VPMU_PORT_COM1, 'a', 1},
		{FAKE_OUT, VPMU_PORT_COM1, '\r', 1},
		{FAKE_OUT, VPMU_PORT_COM1, '\n', 1},
		{FAKE_OUT, VPMU_PORT_COM1, '\n', 1},
		{FAKE_OUT, VPMU_PORT_COM1 + 3, 0x80, 1}, /* DLAB: divisor, not text */
		{FAKE_OUT, VPMU_PORT_COM1, 1, 1},
		{FAKE_IN, VPMU_PORT_COM1, 1, 1},
		{FAKE_OUT, VPMU_PORT_COM1 + 3, 3, 1},
		{FAKE_IN, VPMU_PORT_COM1_LSR, 0x60, 1},
		{FAKE_IN, 0x70, 0xff, 1}, /* no vCPU there */
		{FAKE_IN, 0x70, 0xffff, 2},
		{FAKE_IN, 0xfffe, 0xffffffff, 4},
		{FAKE_OUT, 0x80, 5, 1},
		{FAKE_OUT, VPMU_PORT_EXIT, 5, 1}, /* only a 32-bit write ends */
		{FAKE_RDMSR_GP, 0x4b564d00, 0, 0},
		{FAKE_WRMSR_GP, 0x10, 1, 0},
		{FAKE_OUT, VPMU_PORT_COM1, 'z', 1}, /* unfinished line */
		EXIT(3),
	};

	bed_init(&b, &small_host);
	fake_play(endless, script, NULL);
	start(add_vm(&b, 0));
	runner_step(b.runner, 200);
	cr_assert_eq(b.vms[0].vm->vcpus[1].state, VCPU_EXITED);
	cr_assert_eq(b.vms[0].vm->vcpus[1].status, 3);
	cr_assert_str_eq(b.console, "1:a\n1:\n1:z\n");
}

static const struct fake_step storm[] = {{FAKE_OUT, 0x80, 0, 1}, {FAKE_AGAIN, 0, 0, 0}};

Test(runner, exit_storm_does_not_hold_the_pcpu)
{
	struct host_config h = small_host;

	h.pcpus = 1;
	h.slice_insns = RUNNER_SLICE_MAX;
	bed_init(&b, &h);
	fake_play(storm, storm, NULL);
	start(add_vm(&b, 0));
	cr_assert_eq(runner_step(b.runner, 10), 10);
}

Test(runner, long_and_hostile_lines)
{
	char text[SERIAL_TEXT_MAX], raw[SERIAL_LINE_MAX];
	static const struct {
		const char *in, *out;
	} rows[] = {
		{"plain\ttext", "plain\ttext"},
		{"\x1b[2J", "\\x1b[2J"},
		{"gr\xc3\xbc\xc3\x9f", "gr\xc3\xbc\xc3\x9f"},
		{"\xc2\x9b"
		 "31m",
		 "\\xc2\\x9b31m"},			      /* C1 CSI */
		{"\xc0\xaf", "\\xc0\\xaf"},		      /* overlong */
		{"\xed\xa0\x80", "\\xed\\xa0\\x80"},	      /* surrogate */
		{"\xf4\x90\x80\x80", "\\xf4\\x90\\x80\\x80"}, /* beyond U+10FFFF */
		{"\xe2\x82", "\\xe2\\x82"},		      /* cut off */
		{"\x7f", "\\x7f"},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		cr_assert_str_eq(serial_text(rows[i].in, strlen(rows[i].in), text), rows[i].out);
	memset(raw, 0xff, sizeof(raw));
	serial_text(raw, sizeof(raw), text);
	cr_assert_eq(strlen(text), SERIAL_TEXT_MAX - 1);
}

/* ---- threads ---- */

Test(runner, threads_exact_under_churn)
{
	struct host_config h = small_host;

	h.random_slices = true;
	h.migrate = RUNNER_MIGRATE_RANDOM;
	bed_init(&b, &h);
	cr_assert_eq(runner_launch(b.runner), 0);
	fake_play(counting, counting, NULL);
	for (unsigned int i = 0; i < 40; i++)
		start(add_vm(&b, i));
	/* Meanwhile others come, pause, go on and go. */
	fake_play(endless, endless, NULL);
	for (unsigned int n = 0; n < 50; n++) {
		unsigned int i = 40 + n % 8;

		del_vm(&b, i);
		start(add_vm(&b, i));
		if (n % 3 == 0)
			vm_pause(b.vms[i].vm);
		if (n % 6 == 0)
			start(b.vms[i].vm);
		if (n % 10 == 0)
			conserved(b.host);
	}
	wait_ended(&b, 40);
	for (unsigned int i = 0; i < 40; i++)
		cr_assert_eq(vm_state(b.vms[i].vm), VM_DONE, "vm %u: %s", i, b.vms[i].vm->reason);
}

Test(runner, threads_wake_up)
{
	bed_init(&b, &small_host);
	cr_assert_eq(runner_launch(b.runner), 0);
	fake_play(counting, counting, NULL);
	for (unsigned int n = 1; n <= 100; n++) {
		/* Both pCPUs are asleep, or about to be. */
		start(add_vm(&b, 0));
		wait_ended(&b, n);
		del_vm(&b, 0);
	}
}

Test(runner, never_started_and_paused_vms_can_be_destroyed)
{
	bed_init(&b, &small_host);
	fake_play(endless, endless, NULL);
	add_vm(&b, 0);
	del_vm(&b, 0);
	cr_assert_eq(runner_launch(b.runner), 0);
	add_vm(&b, 0);
	del_vm(&b, 0);
	start(add_vm(&b, 1));
	vm_pause(b.vms[1].vm);
	cr_assert_eq(vm_state(b.vms[1].vm), VM_PAUSED);
	del_vm(&b, 1);
}

Test(runner, vm_create_refuses_and_undoes)
{
	struct image img = fake_image();
	struct vpmu_account *vm_account, *vcpu_account;
	struct vm_opts o = {.name = "bad", .vcpus = 1, .memory_bytes = 4 << 20, .image = &img};
	struct vm *vm;
	char err[256];

	bed_init(&b, &small_host);
	fake_play(counting, counting, NULL);
	cr_assert_eq(vpmu_account_create(vpmu_host_root(b.host), NULL, &vm_account), 0);
	cr_assert_eq(vpmu_account_create(vm_account, NULL, &vcpu_account), 0);
	o.ops = &fake_ops;
	o.sched = runner_sched(b.runner);
	o.account = vm_account;
	o.vcpu_accounts = &vcpu_account;
	o.pmu = (struct vpmu_guest_cfg){.model = VPMU_GUEST_INTEL_V2, .gp = 99};
	cr_assert_eq(vm_create(&o, &vm, err, sizeof(err)), -EINVAL);
	cr_assert(strstr(err, "vm bad: PMU model intel-v2 with gp = 99"), "%s", err);
	o.pmu.gp = 0;
	img.bytes = 10;
	cr_assert_eq(vm_create(&o, &vm, err, sizeof(err)), -ENOEXEC);
	cr_assert(strstr(err, "fake.elf"), "%s", err);
	cr_assert_eq(vpmu_account_del(vcpu_account), 0);
	cr_assert_eq(vpmu_account_del(vm_account), 0);
}

/* A vCPU that is asked to go while a pCPU holds it goes to the front, before earlier requests. */
Test(runner, a_request_does_not_wait_behind_a_queue)
{
	struct host_config host = small_host;
	struct runner_pcpu *p;
	struct vcpu *v;

	host.pcpus = 1;
	bed_init(&b, &host);
	fake_play(halting, halting, NULL);
	for (unsigned int i = 0; i < 3; i++)
		start(add_vm(&b, i));
	p = b.runner->pcpus[0];
	v = runq_pop(p, NULL);
	runq_push(p, v, false);
	cr_assert_null(p->front);
	for (v = runq_pop(p, NULL); v->vm != b.vms[1].vm; v = runq_pop(p, NULL))
		runq_push(p, v, false);
	atomic_store(&v->request, VCPU_REQ_PARK);
	runq_push(p, v, false);
	cr_assert_eq(p->front, v);
	cr_assert_eq(runq_pop(p, v), v);
	runq_push(p, v, false);
	atomic_store(&v->request, VCPU_REQ_NONE);
}

static struct bed *asking;
static unsigned int runs;

/* fake_trace: at the fifth run() of a slice, the control thread wants the other VM's vCPUs. */
static void ask_for_others(struct vmm_engine_vcpu *v, uint64_t budget)
{
	if (++runs != 5)
		return;
	for (unsigned int i = 0; i < 2; i++) {
		struct vm *vm = asking->vms[i].vm;

		if (vm->vcpus[0].ev == v || vm->vcpus[1].ev == v)
			continue;
		atomic_store(&vm->vcpus[0].request, VCPU_REQ_PARK);
		atomic_store(&vm->vcpus[1].request, VCPU_REQ_PARK);
		runq_expedite(asking->runner->pcpus[0], vm);
	}
}

/* ... nor for the end of the slice of a vCPU that is not concerned. */
Test(runner, a_request_ends_the_slice_of_others)
{
	struct host_config h = small_host;
	unsigned int away = 0;

	h.pcpus = 1;
	h.slice_insns = RUNNER_SLICE_MAX;
	bed_init(&b, &h);
	fake_play(storm, storm, NULL);
	for (unsigned int i = 0; i < 2; i++)
		start(add_vm(&b, i));
	cr_assert_eq(runner_step(b.runner, 3), 3);
	asking = &b;
	runs = 0;
	fake_trace = ask_for_others;
	cr_assert_eq(runner_step(b.runner, 1), 1);
	cr_expect_eq(runs, 5);
	/* The next slice serves the request first, and then no request is left. */
	cr_assert_eq(runner_step(b.runner, 1), 1);
	fake_trace = NULL;
	cr_expect_gt(runs, 100, "%u", runs);
	for (unsigned int i = 0; i < 2; i++)
		away += b.vms[i].vm->vcpus[0].away + b.vms[i].vm->vcpus[1].away;
	cr_expect_eq(away, 2);
}
