// SPDX-License-Identifier: GPL-2.0-or-later
/* QEMU 11.1 and AMD's models, over the preloaded library: kvm_get_msrs() and kvm_put_msrs() of its
 * target/i386/kvm, and what CPUID shows for them. */
#include "tests/unit/preload_bed.h"

TestSuite(preload_msrs, .fini = bed_fini);
TestSuite(preload_refused, .fini = bed_fini);
TestSuite(preload_cpuid, .fini = bed_fini);

struct qemu {
	bool v11, halves; /* halves: QEMU as it should be: the index of a register is its counter */
	unsigned int n;	  /* counters, of CPUID leaf 80000022H; 6 without PerfMonV2 */
	uint64_t counter[WORDS_GP], select[WORDS_GP], fixed[WORDS_FIXED], fixed_ctrl;
	uint64_t ctrl, status, clear;
};

static void qemu_list(const struct qemu *q, struct msr_list *l, bool v2)
{
	memset(l, 0, sizeof(*l));
	for (uint32_t i = 0; !q->v11 && i < WORDS_FIXED; i++)
		list_add(l, 0x309 + i, q->fixed[i]);
	if (!q->v11)
		list_add(l, 0x38d, q->fixed_ctrl);
	for (uint32_t i = 0; i < q->n; i++) {
		list_add(l, q->v11 ? 0xc0010201 + 2 * i : 0xc1 + i, q->counter[i]);
		list_add(l, q->v11 ? 0xc0010200 + 2 * i : 0x186 + i, q->select[i]);
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
	struct msr_list l;

	qemu_list(&zero, &l, v2);
	cr_assert_eq(call_ioctl(b.vcpu, KVM_SET_MSRS, &l), (int)l.head.nmsrs);
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

/* A named CPU model without PerfMonV2: what QEMU 11.1 then saves is not the PMU's state. */
Test(preload_msrs, part_of_an_amd_state_is_refused)
{
	struct qemu q = {.v11 = true, .n = 6};
	void *vcpu;

	bed_on("pmu=amd-core");
	amd_guest_writes(false);
	qemu_save(&q, false);
	bed_end();
	bed_on("pmu=amd-core");
	cr_assert(!qemu_load(&q, false));
	cr_assert_eq(get_msr(0xc1), 0);
	cr_assert_eq(fds_get(b.vcpu, &vcpu), FDS_VCPU);
	cr_expect(!((struct vcpu *)vcpu)->carried, "no warning that it is not saved");
	fds_put(b.vcpu);
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
	cr_assert_eq(fake.fd[b.vcpu]->s.msrs, 0);
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
