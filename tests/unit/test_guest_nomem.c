// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Guests' registers when memory runs out: each allocation that a guest's accesses cause fails in
 * turn, alone and with all that follow. The registers behave as if there were memory; a counter
 * never shows more than happened, and if it shows less, the guest is notified; nothing is lost on
 * the host.
 */
#include "guest_use.h"
#include "tests/nomem.h"
#include "vpmu/core/blob.h"
#include "vpmu/guest/save.h"

TestSuite(guest_nomem, .fini = finish);

/* The writes, in order; 0: the guest works a while. */
struct access {
	uint32_t msr;
	uint64_t value;
};

static const struct access intel[] = {
	{0x186, INSTR | BOTH | EN},
	{0x187, BRANCH | USR | INT | EN},
	{0x38d, 0x33},
	{0x38f, 7ULL << 32 | 0xff},
	{0, 0},
	{0xc1, 1000},
	{0x188, LOADS | USR | EN},
	{0, 0},
	{0x186, CYCLES | USR | EN},
	{0x14ce, 0x7f0001},
	{0, 0},
	{0x38f, 0},
};
static const struct access amd[] = {
	{0xc0010200, INSTR | BOTH | EN},
	{0xc0010202, 0xc2 | USR | INT | EN},
	{0xc0000301, 0x3f},
	{0, 0},
	{0xc0010201, 1000},
	{0xc0010204, 0x76 | USR | EN},
	{0xc000010f, 0x40},
	{0, 0},
	{0xc0000301, 0},
};

/* The accesses on a new vCPU. Returns true if an allocation failed. *counted: the value of the
 * first counter at the end, *lost: its quality. */
static bool play(enum vpmu_guest_model model, const struct access *a, size_t n, bool armed,
		 unsigned long fail, bool all, uint64_t *counted, uint64_t *quality)
{
	uint32_t first = model == VPMU_GUEST_INTEL_V5 ? 0x309 : 0xc0010201;
	unsigned long failed = 0;

	start(model);
	if (armed)
		nomem_arm(fail, all);
	for (size_t i = 0; i < n; i++) {
		uint64_t back = 0;

		if (!a[i].msr) {
			/* Who moves a vCPU needs memory before: that is not the guest's. */
			bool was = nomem.armed;

			work(5000, 500);
			nomem.armed = false;
			bed_enter(&b, !b.on);
			nomem.armed = was;
			work(5000, 500);
			continue;
		}
		cr_assert_eq(vpmu_guest_wrmsr(b.g, a[i].msr, a[i].value), 0,
			     "WRMSR(%x) when allocation %lu fails", a[i].msr, fail);
		cr_assert_eq(vpmu_guest_rdmsr(b.g, a[i].msr, &back), 0);
		/* LBR control and counters that run may read as something else. */
		if (a[i].msr != first && a[i].msr != 0xc1)
			cr_assert_eq(back, a[i].value, "%x reads as %llx", a[i].msr,
				     (unsigned long long)back);
	}
	if (armed)
		failed = nomem_disarm();
	*counted = rd(first);
	*quality = model == VPMU_GUEST_INTEL_V5 ? PV_Q(VPMU_PV_FIXED) : PV_Q(0);
	finish();
	return failed;
}

static void sweep(enum vpmu_guest_model model, const struct access *a, size_t n)
{
	uint64_t all_counted, good, counted, quality;
	unsigned long swept = 0;

	play(model, a, n, false, 0, false, &all_counted, &good);
	for (int all = 0; all < 2; all++)
		for (unsigned long i = 0; play(model, a, n, true, i, all, &counted, &quality);
		     i++) {
			swept++;
			cr_assert_lt(i, 1000);
			cr_assert_leq(counted, all_counted, "allocation %lu", i);
			cr_assert(counted == all_counted || quality != good,
				  "allocation %lu: %llu of %llu, and the guest is not told", i,
				  (unsigned long long)counted, (unsigned long long)all_counted);
		}
	cr_assert_gt(swept, 0, "nothing was allocated");
}

Test(guest_nomem, intel)
{
	sweep(VPMU_GUEST_INTEL_V5, intel, sizeof(intel) / sizeof(intel[0]));
}

Test(guest_nomem, amd)
{
	sweep(VPMU_GUEST_AMD_V2, amd, sizeof(amd) / sizeof(amd[0]));
}

/* A saved vCPU is whole, or it is -ENOMEM. */
Test(guest_nomem, save)
{
	struct vpmu_blob whole = {0}, blob;
	unsigned long failed = 1;

	start(VPMU_GUEST_INTEL_V5);
	wr(0x186, INSTR | BOTH | EN);
	wr(0x14ce, 0x7f0001);
	work(10, 10);
	bed_unplace(&b);
	cr_assert_eq(vpmu_guest_save(b.g, &whole), 0);
	for (int all = 0; all < 2; all++)
		for (unsigned long i = 0; failed || !i; i++) {
			int ret;

			blob = (struct vpmu_blob){0};
			nomem_arm(i, all);
			ret = vpmu_guest_save(b.g, &blob);
			failed = nomem_disarm();
			cr_assert_eq(ret, failed ? -ENOMEM : 0);
			cr_assert(failed || (blob.len == whole.len &&
					     !memcmp(blob.data, whole.data, whole.len)));
			vpmu_blob_fini(&blob);
		}
	vpmu_blob_fini(&whole);
}
