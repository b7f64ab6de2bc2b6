// SPDX-License-Identifier: GPL-2.0-or-later
/* vmm/vm/vcpu: PMIs of scripted vCPUs come behind the right instruction and wake from HLT. */
#include <criterion/criterion.h>
#include <urcu/urcu-memb.h>

#include "fake_engine.h"
#include "vmm/sched/runner.h"
#include "vpmu/account.h"
#include "vpmu/host.h"

#define VCPUS 2

struct bed {
	struct vpmu_host *host;
	struct runner *runner;
	struct vpmu_account *account, *vcpus[VCPUS];
	struct vm *vm;
	unsigned int ended;
};

static void on_console(struct vm *vm, unsigned int vcpu, const char *line, size_t len, void *arg)
{
}

static void on_ended(struct vm *vm, void *arg)
{
	((struct bed *)arg)->ended++;
}

static const struct fake_step *scripts[VCPUS];

static const struct fake_step *script_of(unsigned int vcpu)
{
	return scripts[vcpu];
}

struct setup {
	const struct host_config *host; /* NULL: one_pcpu */
	const struct vmm_engine_ops *ops;
	enum vpmu_guest_model model;
	const struct vpmu_policy *policy;
	unsigned int vcpus;
};

static void bed_init(struct bed *b, const struct setup *s)
{
	struct image img = fake_image();
	struct vm_opts o = {
		.name = "vm",
		.vcpus = s->vcpus ? s->vcpus : 1,
		.memory_bytes = 4 << 20,
		.image = &img,
		.pmu.model = s->model,
		.pmu.policy = s->policy,
		.ops = s->ops ? s->ops : &fake_ops,
		.vcpu_accounts = b->vcpus,
		.console = on_console,
		.ended = on_ended,
		.arg = b,
	};
	char err[256] = "";

	*b = (struct bed){0};
	urcu_memb_register_thread();
	fake_wrong = 0;
	fake_script = script_of;
	b->host = vpmu_host_create();
	cr_assert(b->host);
	cr_assert_eq(runner_create(b->host, s->host ? s->host : &one_pcpu, &b->runner), 0);
	o.sched = runner_sched(b->runner);
	cr_assert_eq(vpmu_account_create(vpmu_host_root(b->host), NULL, &b->account), 0);
	o.account = b->account;
	for (unsigned int i = 0; i < o.vcpus; i++)
		cr_assert_eq(vpmu_account_create(b->account, NULL, &b->vcpus[i]), 0);
	cr_assert_eq(vm_create(&o, &b->vm, err, sizeof(err)), 0, "%s", err);
	cr_assert_eq(vm_start(b->vm, err, sizeof(err)), 0, "%s", err);
}

static void run(struct bed *b)
{
	for (int i = 0; !b->ended; i++) {
		cr_assert_lt(i, 100000);
		cr_assert_gt(runner_step(b->runner, 1), 0);
	}
}

static void bed_fini(struct bed *b)
{
	vm_destroy(b->vm);
	for (unsigned int i = 0; i < VCPUS && b->vcpus[i]; i++)
		cr_assert_eq(vpmu_account_del(b->vcpus[i]), 0);
	cr_assert_eq(vpmu_account_del(b->account), 0);
	runner_destroy(b->runner);
	vpmu_host_destroy(b->host);
	urcu_memb_unregister_thread();
	b->host = NULL;
	cr_assert_eq(fake_wrong, 0);
	fake_no_alarms = false;
}

/* The bed of the test that runs. */
static struct bed b;

static void bed_end(void)
{
	if (b.host)
		bed_fini(&b);
}

TestSuite(vcpu, .fini = bed_end);

/* A VM with one vCPU, until it has ended. */
static void play(const struct fake_step *script, enum vpmu_guest_model model)
{
	scripts[0] = script;
	bed_init(&b, &(struct setup){.model = model});
	run(&b);
}

static void expect_taken(const struct bed *b, unsigned int vcpu, unsigned int n, uint64_t insns,
			 int vector)
{
	const struct vmm_engine_vcpu *v = b->vm->vcpus[vcpu].ev;

	cr_assert_gt(v->nr_taken, n, "event %u never came", n);
	cr_assert_eq(v->taken[n].vector, vector, "event %u: vector %d", n, v->taken[n].vector);
	cr_assert_eq(v->taken[n].insns, insns, "event %u: behind %lu instructions", n,
		     (unsigned long)v->taken[n].insns);
}

#define RUN(n)                                                                                     \
	{                                                                                          \
		FAKE_RUN, n, 0, 0                                                                  \
	}
#define RD(msr, val)                                                                               \
	{                                                                                          \
		FAKE_RDMSR, msr, val, 0                                                            \
	}
#define WR(msr, val)                                                                               \
	{                                                                                          \
		FAKE_WRMSR, msr, val, 0                                                            \
	}
#define EXIT(status)                                                                               \
	{                                                                                          \
		FAKE_OUT, VPMU_PORT_EXIT, status, 4                                                \
	}

/* Intel v2: PMC0 counts instructions, from -n, with interrupt. */
#define SAMPLE(n) WR(0xc1, (uint32_t) - (n)), WR(0x186, 0x5300c0), WR(0x38f, 1)

Test(vcpu, pmi_behind_the_instruction)
{
	static const struct fake_step script[] = {
		SAMPLE(100), RUN(250), RD(0x38e, 1), RD(0xc1, 150), EXIT(0),
	};

	play(script, VPMU_GUEST_INTEL_V2);
	cr_assert_eq(b.vm->vcpus[0].ev->nr_taken, 1);
	expect_taken(&b, 0, 0, 100, 2);
}

/* K7 counters have no status. */
Test(vcpu, pmi_amd)
{
	static const struct fake_step script[] = {
		WR(0xc0010004, (1ull << 48) - 70),
		WR(0xc0010000, 0x5300c0),
		RUN(250),
		WR(0xc0010004, (1ull << 48) - 30), /* the handler's new period, late */
		RUN(100),
		EXIT(0),
	};

	play(script, VPMU_GUEST_AMD_K7);
	cr_assert_eq(b.vm->vcpus[0].ev->nr_taken, 2);
	expect_taken(&b, 0, 0, 70, 2);
	expect_taken(&b, 0, 1, 280, 2);
}

/* Two vCPUs on one pCPU, slices of any length: each has its PMIs where they belong. */
Test(vcpu, pmi_across_slices)
{
	static const struct fake_step script[2][10] = {
		{SAMPLE(1000), RUN(5000), EXIT(0)},
		{SAMPLE(1777), RUN(5000), EXIT(0)},
	};

	for (unsigned int slice = 1; slice < 2500; slice = slice * 3 + 1) {
		struct host_config host = one_pcpu;
		struct bed b;

		host.slice_insns = slice;
		scripts[0] = script[0];
		scripts[1] = script[1];
		bed_init(&b,
			 &(struct setup){.host = &host, .model = VPMU_GUEST_INTEL_V2, .vcpus = 2});
		run(&b);
		expect_taken(&b, 0, 0, 1000, 2);
		expect_taken(&b, 1, 0, 1777, 2);
		cr_assert_eq(b.vm->vcpus[0].ev->nr_taken, 1);
		cr_assert_eq(b.vm->vcpus[1].ev->nr_taken, 1);
		bed_fini(&b);
	}
}

/* An overflow that only the switch finds: the PMI comes when the vCPU runs next, wherever. */
Test(vcpu, pmi_noted_at_switch_out)
{
	static const struct fake_step script[2][10] = {
		{SAMPLE(1500), RUN(5000), EXIT(0)},
		{RUN(5000), EXIT(0)},
	};
	struct host_config host = one_pcpu;

	for (host.pcpus = 1; host.pcpus <= 2; host.pcpus++) {
		host.migrate = host.pcpus == 1 ? RUNNER_MIGRATE_NONE : RUNNER_MIGRATE_RANDOM;
		scripts[0] = script[0];
		scripts[1] = script[1];
		bed_init(&b,
			 &(struct setup){.host = &host, .model = VPMU_GUEST_INTEL_V2, .vcpus = 2});
		fake_no_alarms = true;
		run(&b);
		cr_assert_eq(b.vm->vcpus[0].ev->nr_taken, 1);
		/* Behind the first slice that ends after it. */
		cr_assert_eq(b.vm->vcpus[0].ev->taken[0].vector, 2);
		cr_assert_geq(b.vm->vcpus[0].ev->taken[0].insns, 1500);
		cr_assert_leq(b.vm->vcpus[0].ev->taken[0].insns, 3000);
		cr_assert_eq(b.vm->vcpus[1].ev->nr_taken, 0);
		bed_fini(&b);
	}
}

/* HLT is the instruction that overflows: its PMI ends it. */
Test(vcpu, hlt_with_pmi)
{
	static const struct fake_step script[] = {
		SAMPLE(100), RUN(99), {FAKE_HLT, 1, 0, 0}, RUN(10), EXIT(3),
	};

	play(script, VPMU_GUEST_INTEL_V2);
	expect_taken(&b, 0, 0, 100, 2);
	cr_assert_eq(b.vm->vcpus[0].state, VCPU_EXITED);
	cr_assert_eq(b.vm->vcpus[0].status, 3);
}

/* A PMI that the guest does not accept does not end HLT. */
Test(vcpu, hlt_with_refused_pmi)
{
	static const struct fake_step script[] = {SAMPLE(5), RUN(4), {FAKE_HLT, 1, 0, 0}, EXIT(0)};

	scripts[0] = script;
	bed_init(&b, &(struct setup){.model = VPMU_GUEST_INTEL_V2});
	b.vm->vcpus[0].ev->nmi_masked = true;
	run(&b);
	cr_assert_eq(b.vm->vcpus[0].ev->pmis, 1);
	cr_assert_eq(b.vm->vcpus[0].state, VCPU_HALTED);
	cr_assert_eq(vm_state(b.vm), VM_FAILED);
}

/* With local APICs, each vCPU starts in x2APIC mode, and the first is the boot processor. */
Test(vcpu, apic_base)
{
	static const struct fake_step script[] = {EXIT(0)};

	scripts[0] = scripts[1] = script;
	bed_init(&b, &(struct setup){.model = VPMU_GUEST_NONE, .vcpus = 2});
	cr_assert_eq(b.vm->vcpus[0].ev->sregs.apic_base, 0xfee00d00);
	cr_assert_eq(b.vm->vcpus[1].ev->sregs.apic_base, 0xfee00c00);
	run(&b);
}

/* An engine without local APICs and PMIs: none is requested of it, and an overflow shows in the
 * status register. */
Test(vcpu, engine_without_pmi)
{
	static const struct fake_step script[] = {
		{FAKE_RDMSR_GP, 0x802, 0, 0},
		{FAKE_WRMSR_GP, 0x834, 0x400, 0},
		SAMPLE(100),
		RUN(200),
		RD(0x38e, 1),
		{FAKE_HLT, 0, 0, 0},
	};
	static struct vmm_engine_ops ops; /* until the VM ends */

	ops = fake_ops;
	ops.can &= ~(VMM_CAN_LAPIC | VMM_CAN_PMI);
	scripts[0] = script;
	bed_init(&b, &(struct setup){.model = VPMU_GUEST_INTEL_V2, .ops = &ops});
	cr_assert_eq(b.vm->vcpus[0].ev->sregs.apic_base, 0);
	run(&b);
	cr_assert_eq(b.vm->vcpus[0].ev->pmis, 0);
	cr_assert_eq(b.vm->vcpus[0].state, VCPU_HALTED);
}

Test(vcpu, where)
{
	static const struct fake_step script[] = {RUN(10), EXIT(0)};
	struct vpmu_where where = {0};
	struct vmm_engine_vcpu *ev;

	scripts[0] = script;
	bed_init(&b, &(struct setup){.model = VPMU_GUEST_INTEL_V2});
	ev = b.vm->vcpus[0].ev;
	ev->regs.rip = 0x1234567890;
	for (unsigned int cpl = 0; cpl < 4; cpl += 3) {
		ev->sregs.cs.selector = (uint16_t)(0x30 | cpl);
		cr_assert_eq(b.vm->vcpus[0].ctx.where(&b.vm->vcpus[0].ctx, &where), 0);
		cr_assert_eq(where.ip, 0x1234567890);
		cr_assert_eq(where.cpl, cpl);
	}
	run(&b);
}

Test(vcpu, denials)
{
	static const struct vpmu_policy policy = {.tier = VPMU_POLICY_ARCHITECTURAL};
	static const struct fake_step script[] = {
		WR(0x38f, 3), WR(0x186, 0x4300c0),
		RUN(10),      WR(0x187, 0x4381d0), /* loads: not architectural */
		RUN(10),      RD(0xc1, 20),
		RD(0xc2, 0),  EXIT(0),
	};

	scripts[0] = script;
	bed_init(&b, &(struct setup){.model = VPMU_GUEST_INTEL_V2, .policy = &policy});
	cr_assert_eq(b.vm->denied.n, 0);
	run(&b);
	cr_assert_eq(b.vm->denied.n, 1);
	cr_assert_eq(b.vm->denied.last, 0x4381d0);
	cr_assert_eq(b.vm->unsupported.n, 0);
}

/* Events that the host cannot count: started by a select or by the global controls. */
Test(vcpu, unsupported_events)
{
	static const struct fake_step script[] = {
		WR(0x38f, 3), WR(0x186, 0x4308c4), /* near returns */
		RUN(10),      WR(0x38f, 0),
		WR(0x38f, 3),			   /* the same again */
		RD(0xc1, 0),  WR(0x187, 0x4300c5), /* mispredicted branches */
		RD(0xc2, 0),  EXIT(0),
	};

	play(script, VPMU_GUEST_INTEL_V2);
	cr_assert_eq(b.vm->unsupported.n, 2);
	cr_assert_eq(b.vm->unsupported.last, 0x4300c5);
	cr_assert_eq(b.vm->denied.n, 0);
}
