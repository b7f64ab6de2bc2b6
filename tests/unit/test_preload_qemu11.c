// SPDX-License-Identifier: GPL-2.0-or-later
/* QEMU 11.1 and AMD's models, over the preloaded library: kvm_get_msrs() and kvm_put_msrs() of its
 * target/i386/kvm, and what CPUID shows for them. */
#include "tests/unit/preload_bed.h"

TestSuite(preload_msrs, .fini = bed_fini);
TestSuite(preload_refused, .fini = bed_fini);
TestSuite(preload_cpuid, .fini = bed_fini);

struct qemu {
	bool v11, halves; /* halves: QEMU as it should be: the index of a register is its counter */
	unsigned int n;	  /* counters, of CPUID leaf 80000022H; 6 without PerfMonV2; 4 without
			     PERFCTR_CORE */
	uint64_t counter[WORDS_GP], select[WORDS_GP], fixed[WORDS_FIXED], fixed_ctrl;
	uint64_t ctrl, status, clear, tsc;
};

static void qemu_list(const struct qemu *q, struct msr_list *l, bool v2)
{
	memset(l, 0, sizeof(*l));
	list_add(l, 0x10, q->tsc);
	for (uint32_t i = 0; !q->v11 && i < WORDS_FIXED; i++)
		list_add(l, 0x309 + i, q->fixed[i]);
	if (!q->v11)
		list_add(l, 0x38d, q->fixed_ctrl);
	for (uint32_t i = 0; i < q->n; i++) {
		uint32_t k7 = q->v11 && q->n == 4 ? 0xc0010000 + i : 0;

		list_add(l, k7 ? k7 + 4 : q->v11 ? 0xc0010201 + 2 * i : 0xc1 + i, q->counter[i]);
		list_add(l, k7 ? k7 : q->v11 ? 0xc0010200 + 2 * i : 0x186 + i, q->select[i]);
	}
	if (v2) {
		list_add(l, q->v11 ? 0xc0000300 : 0x38e, q->status);
		list_add(l, q->v11 ? 0xc0000302 : 0x390, q->clear);
		list_add(l, q->v11 ? 0xc0000301 : 0x38f, q->ctrl);
	}
}

static void qemu_keep(struct qemu *q, uint32_t msr, uint64_t val)
{
	uint32_t i = msr - 0xc0010200;

	if (i < 12 && q->v11)
		(i & 1 ? q->counter : q->select)[q->halves ? i / 2 : i] = val;
	else if (msr - 0xc0010000 < 8)
		(msr & 4 ? q->counter : q->select)[msr & 3] = val;
	else if (msr - 0xc1 < WORDS_GP)
		q->counter[msr - 0xc1] = val;
	else if (msr - 0x186 < WORDS_GP)
		q->select[msr - 0x186] = val;
	else if (msr - 0x309 < WORDS_FIXED)
		q->fixed[msr - 0x309] = val;
	else if (msr == 0x38d)
		q->fixed_ctrl = val;
	else if (msr == 0x38e || msr == 0xc0000300)
		q->status = val;
	else if (msr == 0x38f || msr == 0xc0000301)
		q->ctrl = val;
	else if (msr == 0x390 || msr == 0xc0000302)
		q->clear = val;
	else if (msr == 0x10)
		q->tsc = val + 12345;
}

static void qemu_save(struct qemu *q, bool v2)
{
	struct msr_list l;

	qemu_list(q, &l, v2);
	cr_assert_eq(call_ioctl(b.vcpu, KVM_GET_MSRS, &l), (int)l.head.nmsrs);
	for (uint32_t i = 0; i < l.head.nmsrs; i++)
		qemu_keep(q, l.e[i].index, l.e[i].data);
}

/* Returns true if all is taken. The reset of a new machine comes first. */
static bool qemu_load(const struct qemu *q, bool v2)
{
	struct qemu zero = {.v11 = q->v11, .n = q->n};
	struct kvm_regs regs = {.rip = 0x100000, .rflags = 2};
	struct msr_list l;

	qemu_list(&zero, &l, v2);
	cr_assert_eq(call_ioctl(b.vcpu, KVM_SET_MSRS, &l), (int)l.head.nmsrs);
	cr_assert(!call_ioctl(b.vcpu, KVM_SET_REGS, &regs));
	qemu_list(q, &l, v2);
	/* In whatever order. */
	for (uint32_t i = 0, n = l.head.nmsrs; q->halves && i < n / 2; i++) {
		struct kvm_msr_entry e = l.e[i];

		l.e[i] = l.e[n - 1 - i];
		l.e[n - 1 - i] = e;
	}
	return call_ioctl(b.vcpu, KVM_SET_MSRS, &l) == (int)l.head.nmsrs;
}

static void amd_guest_writes(bool v2)
{
	RUN(WRMSR(0x1d9, 1u << 12), WRMSR(0xc0000301, 0x3e));
	cr_assert_eq(fake.entered.msr.error, !v2);
	for (uint32_t i = 0; i < 6; i++) {
		RUN(WRMSR(0xc0010201 + 2 * i, 0x700000000000 + i),
		    WRMSR(0xc0010200 + 2 * i, 0x300c0 + i));
		cr_assert_eq(fake.entered.msr.error, 0);
	}
}

/* The guest reads what it wrote. */
static void amd_guest_reads(bool v2)
{
	for (uint32_t i = 0; i < 6; i++) {
		RUN(RDMSR(0xc0010201 + 2 * i));
		cr_expect_eq(fake.entered.msr.data, 0x700000000000 + i, "CTR%u: 0x%llx", i,
			     fake.entered.msr.data);
		RUN(RDMSR(0xc0010200 + 2 * i));
		cr_expect_eq(fake.entered.msr.data, 0x300c0 + i, "CTL%u: 0x%llx", i,
			     fake.entered.msr.data);
	}
	RUN(RDMSR(0x1d9));
	cr_expect_eq(fake.entered.msr.data, v2 ? 1u << 12 : 0, "DEBUGCTL");
	RUN(RDMSR(0xc0000301));
	if (v2)
		cr_expect_eq(fake.entered.msr.data, 0x3e, "PerfCntrGlobalCtl");
}

/* From QEMU 11.1, from one that keeps each register in its place, and from QEMU 10, to each. */
Test(preload_msrs, amd_state_of_qemu_11)
{
	static const char *const text[] = {"pmu=amd-core", "pmu=amd-v2"};

	for (int k = 0; k < 2 * 3 * 3; k++) {
		struct qemu q = {.v11 = k / 2 % 3, .halves = k / 2 % 3 == 2};
		bool v2 = k % 2;

		bed_on(text[v2]);
		cr_assert_eq(bed_leaf(0x80000000)->eax, 0x80000022);
		cr_assert(bed_leaf(0x80000022)->eax & 1);
		q.n = q.v11 ? bed_leaf(0x80000022)->ebx & 0xf : WORDS_GP;
		for (unsigned int i = 0; i < fake.fd[b.vcpu]->s.leaves; i++)
			if (fake.fd[b.vcpu]->s.leaf[i].function == 0x80000022)
				cr_expect_eq(fake.fd[b.vcpu]->s.leaf[i].ebx, v2 ? 6 : 0);
		amd_guest_writes(v2);
		qemu_save(&q, true);
		bed_end();

		bed_on(text[v2]);
		q.v11 = k / 6;
		q.halves = k / 6 == 2;
		q.n = q.v11 ? bed_leaf(0x80000022)->ebx & 0xf : WORDS_GP;
		cr_assert(qemu_load(&q, true), "from %d to %d", k / 2 % 3, k / 6);
		amd_guest_reads(v2);
		bed_end();
	}
}

/* A named CPU model without PerfMonV2, or without PERFCTR_CORE: what QEMU 11.1 then saves is not
 * the PMU's state, also of a guest that has not used its PMU yet, or only what is not saved. */
Test(preload_msrs, part_of_an_amd_state_is_refused)
{
	static const char *const text[] = {"pmu=amd-core", "pmu=amd-v2", "pmu=amd-v2\ngp=4"};

	for (int k = 0; k < 2 * 2 * 3; k++) {
		struct qemu q = {.v11 = true, .n = k & 1 ? 4 : 6};
		void *vcpu;

		bed_on(text[k / 4]);
		if (k & 2)
			RUN(WRMSR(0xc0010200 + 2 * (k / 4 == 2 ? 3 : 5), 0x300c0));
		qemu_save(&q, false);
		bed_end();
		bed_on(text[k / 4]);
		cr_assert(!qemu_load(&q, false), "%d", k);
		cr_assert_eq(get_msr(0xc1), 0);
		cr_assert_eq(fds_get(b.vcpu, &vcpu), FDS_VCPU);
		cr_expect(!((struct vcpu *)vcpu)->carried, "no warning that it is not saved");
		fds_put(b.vcpu);
		bed_end();
	}
}

Test(preload_refused, amd_words_of_a_pmu_that_is_not_there)
{
	struct qemu q = {.v11 = true, .n = WORDS_AMD_GP};

	bed_process("pmu=amd-v2");
	bed_vm_and_vcpu(false); /* no interrupt controllers */
	cr_assert(!call_ioctl(b.vcpu, KVM_SET_CPUID2, &b.cpuid));
	for (unsigned int i = 0; i < fake.fd[b.vcpu]->s.leaves; i++) {
		const struct kvm_cpuid_entry2 *e = &fake.fd[b.vcpu]->s.leaf[i];

		if (e->function == 0x80000000)
			cr_expect_eq(e->eax, 0x8000001f);
		if (e->function == 0x80000022)
			cr_expect(!e->eax && !e->ebx);
	}
	cr_assert(qemu_load(&q, true), "QEMU would end");
	cr_assert_eq(fake.fd[b.vcpu]->s.msrs, 1, "not the TSC alone");
}

/* Refused when KVM's own vPMU had been switched off. */
Test(preload_refused, amd_words_of_a_vpmu_that_is_off)
{
	struct qemu q = {.v11 = true, .n = WORDS_AMD_GP};

	bed_process("pmu=amd-v2");
	fake.amd_core = true;
	bed_vm_and_vcpu(true);
	cr_assert(!call_ioctl(b.vm, KVM_MEMORY_ENCRYPT_OP, ram));
	cr_assert(bed_vm_state()->vpmu_off);
	cr_assert(qemu_load(&q, true), "QEMU would end");
}

/* What the destination has of @text gives an AMD CPU no PMU: not of Intel's models, in which QEMU
 * sees what KVM has of PERFCTR_CORE and PerfMonV2, nor without interrupt controllers. */
static void amd_cpu_without_pmu(const char *text, bool irqchip)
{
	bed_process(text);
	bed_vm_and_vcpu(irqchip);
	bed_leaf(0)->ebx = 0x68747541;
	cr_assert(!call_ioctl(b.vcpu, KVM_SET_CPUID2, &b.cpuid));
	cr_assert_eq(atomic_load(&process.watched), 0, "not refused");
}

/* The PMU's model there is another one than here, or the CPU's vendor another one than the PMU's.
 */
Test(preload_refused, no_amd_state_of_qemu_11)
{
	static const struct {
		const char *from, *to;
		bool irqchip, v2;
		unsigned int n;
	} rows[] = {
		{"pmu=amd-v2", "pmu=intel-v5", true, true, 6},
		{"pmu=amd-v2", "pmu=intel-v2", true, false, 6},
		{"pmu=amd-v2", "pmu=intel-v2", true, false, 4},
		{"pmu=amd-core", "pmu=intel-v5", true, false, 4},
		{"pmu=amd-core", "pmu=amd-v2", false, true, WORDS_AMD_GP},
		{"pmu=amd-core", "pmu=amd-v2", false, false, 6},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct qemu q = {.v11 = true, .n = WORDS_AMD_GP}, none = {.v11 = true};

		bed_on(rows[i].from);
		amd_guest_writes(!strcmp(rows[i].from, "pmu=amd-v2"));
		qemu_save(&q, true);
		bed_end();
		amd_cpu_without_pmu(rows[i].to, rows[i].irqchip);
		q.n = none.n = rows[i].n;
		cr_expect_not(qemu_load(&q, rows[i].v2), "row %zu", i);
		/* That of a VM without such a PMU. */
		none.select[0] = 0x5300c0;
		none.counter[1] = 0xffffffffffff;
		cr_expect(qemu_load(&none, rows[i].v2), "row %zu", i);
		bed_end();
	}
}

/* As QEMU sets a vCPU of another vendor's CPU than the host's: without a PMU. */
static int set_without_words(uint64_t rip, uint64_t tsc)
{
	struct kvm_regs regs = {.rip = rip, .rflags = 2};
	struct msr_list l = {0};

	list_add(&l, 0x174, 5);
	list_add(&l, 0x10, tsc);
	cr_assert(!call_ioctl(b.vcpu, KVM_SET_REGS, &regs));
	return call_ioctl(b.vcpu, KVM_SET_MSRS, &l);
}

static bool without_words_is_refused(void)
{
	struct msr_list l = {0};

	/* a reset, and what QEMU writes back of a vCPU that runs */
	cr_expect_eq(set_without_words(0xfff0, 0), 2);
	cr_expect_eq(set_without_words(0xfff0, 1), 2);
	cr_expect_eq(set_without_words(0xfff0, 12345), 2, "before its first instruction");
	cr_expect_eq(set_without_words(0x100000, 1), 2, "a reset that ends elsewhere");
	list_add(&l, 0x174, 6);
	cr_expect_eq(call_ioctl(b.vcpu, KVM_SET_MSRS, &l), 1);
	return set_without_words(0x100000, 12345) == 1;
}

Test(preload_refused, state_that_qemu_11_has_not_saved)
{
	bed_on("pmu=intel-v2");
	cr_expect(without_words_is_refused());
	bed_end();
	bed_on("pmu=amd-v2");
	cr_expect(without_words_is_refused());
	bed_end();
	/* A VM that got no PMU: only with the guard it is known that it has lost one. */
	for (int guard = 0; guard < 2; guard++) {
		bed_process("pmu=amd-v2");
		bed_vm_and_vcpu(true);
		bed_leaf(0)->ebx = 0x756e6547;
		if (!guard)
			bed_leaf(0x80000001)->ecx &= ~(1u << 24);
		cr_assert(!call_ioctl(b.vcpu, KVM_SET_CPUID2, &b.cpuid));
		cr_expect_eq(without_words_is_refused(), guard);
		bed_end();
	}
}

/* One more leaf is shown than KVM has: QEMU asks again with more room. */
Test(preload_cpuid, no_room_for_amds_leaf)
{
	unsigned int n;

	bed_on("pmu=amd-core");
	n = b.cpuid.head.nent;
	b.cpuid.head.nent = n - 1;
	CALL_FAILS(b.dev, KVM_GET_SUPPORTED_CPUID, &b.cpuid, E2BIG);
	b.cpuid.head.nent = n;
	cr_assert(!call_ioctl(b.dev, KVM_GET_SUPPORTED_CPUID, &b.cpuid));
	cr_assert_eq(b.cpuid.head.nent, n);
}
