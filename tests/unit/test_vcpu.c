// SPDX-License-Identifier: GPL-2.0-or-later
/* vmm/vm/vcpu: PMIs of scripted vCPUs come behind the right instruction and wake from HLT. */
#include "fake_engine.h"
#include "vm_bed.h"

struct setup {
	const struct host_config *host; /* NULL: one_pcpu */
	const struct vmm_engine_ops *ops;
	enum vpmu_guest_model model;
	const struct vpmu_policy *policy;
	unsigned int vcpus;
};

static void bed_init(const struct setup *s)
{
	struct image img = fake_image();
	char err[256] = "";

	fake_wrong = 0;
	bed_host(s->host ? s->host : &one_pcpu);
	cr_assert_eq(bed_create((struct vm_opts){.vcpus = s->vcpus ? s->vcpus : 1,
						 .memory_bytes = 4 << 20,
						 .image = &img,
						 .pmu.model = s->model,
						 .pmu.policy = s->policy,
						 .ops = s->ops ? s->ops : &fake_ops},
				err),
		     0, "%s", err);
	bed_start();
}

static void end(void)
{
	bed_fini();
	cr_assert_eq(fake_wrong, 0);
	fake_no_alarms = false;
}

TestSuite(vcpu, .fini = end);

/* A VM with one vCPU, until it has ended. */
static void play(const struct fake_step *script, enum vpmu_guest_model model)
{
	fake_play(script, NULL, NULL);
	bed_init(&(struct setup){.model = model});
	bed_run();
}

static void expect_taken(unsigned int vcpu, unsigned int n, uint64_t insns, int vector)
{
	const struct vmm_engine_vcpu *v = b.vm->vcpus[vcpu].ev;

	cr_assert_gt(v->nr_taken, n, "event %u never came", n);
	cr_assert_eq(v->taken[n].vector, vector, "event %u: vector %d", n, v->taken[n].vector);
	cr_assert_eq(v->taken[n].insns, insns, "event %u: behind %lu instructions", n,
		     (unsigned long)v->taken[n].insns);
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
	expect_taken(0, 0, 100, 2);
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
	expect_taken(0, 0, 70, 2);
	expect_taken(0, 1, 280, 2);
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

		host.slice_insns = slice;
		fake_play(script[0], script[1], NULL);
		bed_init(&(struct setup){.host = &host, .model = VPMU_GUEST_INTEL_V2, .vcpus = 2});
		bed_run();
		expect_taken(0, 0, 1000, 2);
		expect_taken(1, 0, 1777, 2);
		cr_assert_eq(b.vm->vcpus[0].ev->nr_taken, 1);
		cr_assert_eq(b.vm->vcpus[1].ev->nr_taken, 1);
		end();
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
		fake_play(script[0], script[1], NULL);
		bed_init(&(struct setup){.host = &host, .model = VPMU_GUEST_INTEL_V2, .vcpus = 2});
		fake_no_alarms = true;
		bed_run();
		cr_assert_eq(b.vm->vcpus[0].ev->nr_taken, 1);
		/* Behind the first slice that ends after it. */
		cr_assert_eq(b.vm->vcpus[0].ev->taken[0].vector, 2);
		cr_assert_geq(b.vm->vcpus[0].ev->taken[0].insns, 1500);
		cr_assert_leq(b.vm->vcpus[0].ev->taken[0].insns, 3000);
		cr_assert_eq(b.vm->vcpus[1].ev->nr_taken, 0);
		end();
	}
}

/* HLT is the instruction that overflows: its PMI ends it. */
Test(vcpu, hlt_with_pmi)
{
	static const struct fake_step script[] = {
		SAMPLE(100), RUN(99), {FAKE_HLT, 1, 0, 0}, RUN(10), EXIT(3),
	};

	play(script, VPMU_GUEST_INTEL_V2);
	expect_taken(0, 0, 100, 2);
	cr_assert_eq(b.vm->vcpus[0].state, VCPU_EXITED);
	cr_assert_eq(b.vm->vcpus[0].status, 3);
}

/* A PMI that the guest does not accept does not end HLT. */
Test(vcpu, hlt_with_refused_pmi)
{
	static const struct fake_step script[] = {SAMPLE(5), RUN(4), {FAKE_HLT, 1, 0, 0}, EXIT(0)};

	fake_play(script, NULL, NULL);
	bed_init(&(struct setup){.model = VPMU_GUEST_INTEL_V2});
	b.vm->vcpus[0].ev->nmi_masked = true;
	bed_run();
	cr_assert_eq(b.vm->vcpus[0].ev->pmis, 1);
	cr_assert_eq(b.vm->vcpus[0].state, VCPU_HALTED);
	cr_assert_eq(vm_state(b.vm), VM_FAILED);
}

/* With local APICs, each vCPU starts in x2APIC mode, and the first is the boot processor. */
Test(vcpu, apic_base)
{
	static const struct fake_step script[] = {EXIT(0)};

	fake_play(script, script, NULL);
	bed_init(&(struct setup){.model = VPMU_GUEST_NONE, .vcpus = 2});
	cr_assert_eq(b.vm->vcpus[0].ev->sregs.apic_base, 0xfee00d00);
	cr_assert_eq(b.vm->vcpus[1].ev->sregs.apic_base, 0xfee00c00);
	bed_run();
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
	fake_play(script, NULL, NULL);
	bed_init(&(struct setup){.model = VPMU_GUEST_INTEL_V2, .ops = &ops});
	cr_assert_eq(b.vm->vcpus[0].ev->sregs.apic_base, 0);
	bed_run();
	cr_assert_eq(b.vm->vcpus[0].ev->pmis, 0);
	cr_assert_eq(b.vm->vcpus[0].state, VCPU_HALTED);
}

Test(vcpu, where)
{
	static const struct fake_step script[] = {RUN(10), EXIT(0)};
	struct vpmu_where where = {0};
	struct vmm_engine_vcpu *ev;

	fake_play(script, NULL, NULL);
	bed_init(&(struct setup){.model = VPMU_GUEST_INTEL_V2});
	ev = b.vm->vcpus[0].ev;
	ev->regs.rip = 0x1234567890;
	for (unsigned int cpl = 0; cpl < 4; cpl += 3) {
		ev->sregs.cs.selector = (uint16_t)(0x30 | cpl);
		cr_assert_eq(b.vm->vcpus[0].ctx.where(&b.vm->vcpus[0].ctx, &where), 0);
		cr_assert_eq(where.ip, 0x1234567890);
		cr_assert_eq(where.cpl, cpl);
	}
	bed_run();
}

/* A line of the console costs the host more than the byte that ends it: its guest is charged. */
Test(vcpu, lines_are_charged)
{
	static const struct fake_step bytes[] = {OUT(VPMU_PORT_COM1, 'a'), OUT(VPMU_PORT_COM1, 'a'),
						 EXIT(0)},
				      lines[] = {OUT(VPMU_PORT_COM1, 'a'),
						 OUT(VPMU_PORT_COM1, '\n'), EXIT(0)};
	struct runner_stats s[2];

	play(bytes, VPMU_GUEST_INTEL_V2);
	runner_stats(b.runner, &s[0]);
	bed_fini();
	play(lines, VPMU_GUEST_INTEL_V2);
	runner_stats(b.runner, &s[1]);
	cr_assert_geq(s[1].effort, s[0].effort + 80, "%lu, %lu", s[0].effort, s[1].effort);
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

	fake_play(script, NULL, NULL);
	bed_init(&(struct setup){.model = VPMU_GUEST_INTEL_V2, .policy = &policy});
	cr_assert_eq(b.vm->denied.n, 0);
	bed_run();
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
