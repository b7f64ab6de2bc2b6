// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * States of the first version of the library, which knew one tag and no marks (preload/words.h), in
 * this one, and this one's there: what the first version wrote and demanded is written out here.
 * Words are QEMU's up to 10 but where QEMU 11.1 is named. And destinations without such a PMU: that
 * QEMU can refuse to start there, and that a VM that was refused does not take a state.
 */
#include "tests/unit/preload_bed.h"

TestSuite(preload_versions, .fini = bed_fini);

#define FIRST_TAG(model, gp) (0x5650ull << 48 | 1ull << 32 | (uint64_t)(model) << 8 | (gp))

static const struct version_row {
	const char *text;
	enum vpmu_guest_model model;
	uint32_t gp;
} rows[] = {
	{"pmu=amd-core", VPMU_GUEST_AMD_CORE, 6},	{"pmu=amd-v2", VPMU_GUEST_AMD_V2, 6},
	{"pmu=amd-v2\ngp=4", VPMU_GUEST_AMD_V2, 4},	{"pmu=intel-v2", VPMU_GUEST_INTEL_V2, 8},
	{"pmu=intel-v5\ngp=6", VPMU_GUEST_INTEL_V5, 6},
};
#define ROWS (sizeof(rows) / sizeof(rows[0]))

static bool version_intel(const struct version_row *r)
{
	return r->model == VPMU_GUEST_INTEL_V2 || r->model == VPMU_GUEST_INTEL_V5;
}

/* As the first version filled QEMU's words from what version_guest() wrote. */
static void version_words(const struct version_row *r, struct msr_list *l)
{
	list_words(l);
	for (uint32_t i = 0; i < r->gp; i++) {
		list_at(l, 0xc1 + i)->data = 0x700000000000 + i;
		list_at(l, 0x186 + i)->data = 0x100c0 + i;
	}
	if (r->model != VPMU_GUEST_AMD_CORE)
		list_at(l, 0x38f)->data = 3;
	if (version_intel(r)) {
		list_at(l, 0x309)->data = 0x123456;
		list_at(l, 0x38d)->data = 2;
	}
	list_at(l, 0x390)->data = FIRST_TAG(r->model, r->gp);
}

static void version_wrmsr(uint32_t msr, uint64_t data)
{
	RUN(WRMSR(msr, data));
	cr_assert_eq(fake.entered.msr.error, 0, "0x%x", msr);
}

/* What counts has no event here, and stands still. */
static void version_guest(const struct version_row *r)
{
	for (uint32_t i = 0; i < r->gp; i++) {
		version_wrmsr(version_intel(r) ? 0x4c1 + i : 0xc0010201 + 2 * i,
			      0x700000000000 + i);
		version_wrmsr(version_intel(r) ? 0x186 + i : 0xc0010200 + 2 * i, 0x100c0 + i);
	}
	if (version_intel(r)) {
		version_wrmsr(0x309, 0x123456);
		version_wrmsr(0x38d, 2);
	}
	if (r->model != VPMU_GUEST_AMD_CORE)
		version_wrmsr(version_intel(r) ? 0x38f : 0xc0000301, 3);
}

static void version_get(struct msr_list *l)
{
	list_words(l);
	cr_assert_eq(call_ioctl(b.vcpu, KVM_GET_MSRS, l), (int)l->head.nmsrs);
}

static void version_equal(const struct version_row *r, struct msr_list *got, const char *what)
{
	struct msr_list want;

	version_words(r, &want);
	for (uint32_t i = 1; i + 1 < want.head.nmsrs; i++)
		cr_expect_eq(got->e[i].data, want.e[i].data, "%s, %s, MSR 0x%x: 0x%llx", r->text,
			     what, want.e[i].index, got->e[i].data);
}

/* It demands the tag to be its own, and takes each word as the register of its place. */
Test(preload_versions, the_first_one_takes_a_state_of_this_one)
{
	for (const struct version_row *r = rows; r < rows + ROWS; r++) {
		struct msr_list l;

		bed_on(r->text);
		version_guest(r);
		version_get(&l);
		version_equal(r, &l, "to the first version");
		bed_end();
	}
}

Test(preload_versions, this_one_takes_a_state_of_the_first)
{
	for (const struct version_row *r = rows; r < rows + ROWS; r++) {
		struct msr_list l;

		bed_on(r->text);
		version_words(r, &l);
		cr_assert_eq(call_ioctl(b.vcpu, KVM_SET_MSRS, &l), (int)l.head.nmsrs, "%s",
			     r->text);
		version_get(&l);
		version_equal(r, &l, "from the first version");
		bed_end();
	}
}

/* The first version has no place for DEBUGCTL in AMD's tag: it refuses the state. */
Test(preload_versions, the_first_one_refuses_debugctl)
{
	const struct version_row *r = &rows[1];
	struct msr_list l;

	bed_on(r->text);
	version_guest(r);
	version_wrmsr(0x1d9, 1u << 12);
	version_get(&l);
	cr_expect_neq(list_at(&l, 0x390)->data, FIRST_TAG(r->model, r->gp));
	cr_assert_eq(call_ioctl(b.vcpu, KVM_SET_MSRS, &l), (int)l.head.nmsrs);
}

/* QEMU 11.1 with the first version: CTR0 arrives as CTR1, CTL1 as CTL2, without a tag, or with zero
 * for it where this library shows PerfMonV2. */
Test(preload_versions, what_qemu_11_kept_for_the_first_one_is_refused)
{
	static const char *const text[] = {"pmu=amd-core", "pmu=amd-v2"};

	for (int k = 0; k < 4; k++) {
		struct msr_list l = {0};

		bed_on(text[k % 2]);
		for (uint32_t i = 0; i < 6; i++) {
			list_add(&l, 0xc0010201 + 2 * i, i % 2 ? 0x700000000000 + i / 2 : 0);
			list_add(&l, 0xc0010200 + 2 * i, i % 2 ? 0 : 0x100c0 + i / 2);
		}
		if (k / 2)
			list_add(&l, 0xc0000302, 0);
		cr_expect_lt(call_ioctl(b.vcpu, KVM_SET_MSRS, &l), (int)l.head.nmsrs, "%d", k);
		cr_expect_eq(get_msr(0xc1), 0, "%d", k);
		bed_end();
	}
}

/* ---- destinations without the PMU ---- */

enum { EXTENDED_FEATURES = 0x80000001, PERFCTR_NB = 1 << 24 };

/* perfctr-nb=on,enforce: QEMU compares with what KVM supports, and keeps what it has compared. */
Test(preload_versions, only_with_the_library_kvm_has_the_guards_bit)
{
	for (const struct version_row *r = rows; r < rows + ROWS; r++) {
		const struct fake_state *s;

		bed_process(r->text);
		bed_vm(call_ioctl);
		cr_assert(!call_ioctl(b.vm, KVM_CREATE_IRQCHIP, NULL));
		cr_assert(!bed_cpuid(call_plain));
		cr_expect_not(bed_leaf(EXTENDED_FEATURES)->ecx & PERFCTR_NB, "%s", r->text);
		cr_assert(!bed_cpuid(call_ioctl));
		cr_expect(bed_leaf(EXTENDED_FEATURES)->ecx & PERFCTR_NB, "%s", r->text);
		bed_vcpu(call_ioctl);
		cr_assert(!call_ioctl(b.vcpu, KVM_SET_CPUID2, &b.cpuid));
		s = &fake.fd[b.vcpu]->s;
		for (unsigned int i = 0; i < s->leaves; i++)
			cr_expect(s->leaf[i].function != EXTENDED_FEATURES ||
					  !(s->leaf[i].ecx & PERFCTR_NB),
				  "%s: the guest has it", r->text);
		bed_end();
	}
}

Test(preload_versions, a_vm_that_was_refused_takes_no_state)
{
	for (const struct version_row *r = rows; r < rows + ROWS; r++) {
		struct msr_list l;

		bed_process(r->text);
		bed_vm_and_vcpu(false); /* no interrupt controllers */
		version_words(r, &l);
		l.e[0].data = 77;
		cr_expect_eq(call_ioctl(b.vcpu, KVM_SET_MSRS, &l),
			     (int)(list_at(&l, WORDS_TAG) - l.e), "%s", r->text);
		cr_expect_eq(get_msr(0x10), 77, "KVM's own before it");
		/* its own, and what a VM without the library brings */
		cr_assert_eq(call_ioctl(b.vcpu, KVM_GET_MSRS, &l), (int)l.head.nmsrs);
		cr_expect_eq(call_ioctl(b.vcpu, KVM_SET_MSRS, &l), (int)l.head.nmsrs);
		bed_end();
	}
}
