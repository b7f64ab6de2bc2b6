// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * What the manuals say of every PMU register, bit by bit, against the register models. The tables
 * are written from the SDM and the APM alone and share nothing with vpmu/guest.
 */
#include <criterion/criterion.h>
#include <errno.h>

#include "guest_bed.h"

#define PV VPMU_PV_MSR_BASE

/* How many registers a row has. */
enum count { ONE, GP, FIXED, K7, PVREGS };

/* What a read gives after a write of v that was accepted. */
enum back {
	SAME,  /* the bits of @keep */
	SEXT,  /* v's low 32 bits sign-extended, 48 bits of it (SDM 20.2.8) */
	ZERO,  /* nothing: the register is a command, or the write is ignored */
	CONST, /* @reset */
};

struct row {
	int line;
	const char *name;
	uint32_t msr;
	unsigned int stride;
	enum count count;
	bool wr;	 /* false: any write is #GP */
	uint64_t keep;	 /* bits that may be set and are kept */
	uint64_t ignore; /* bits that may be set and are not kept; all others are #GP */
	enum back back;
	uint64_t reset;
};

#define L    __LINE__
#define ALL  (~0ULL)
#define W48  0xffffffffffffULL
#define F(n) (0xbULL << (4 * (n)))

/* SDM vol. 3 20.2.1-20.2.2, 20.2.8; vol. 4 table 2-2. 8 GP, 3 fixed. */
static const struct row intel_v2[] = {
	{L, "PMC", 0xc1, 1, GP, true, W48, ALL, SEXT, 0},
	{L, "A_PMC", 0x4c1, 1, GP, true, W48, 0, SAME, 0},
	{L, "PERFEVTSEL", 0x186, 1, GP, true, 0xffdfffff, 0, SAME, 0},
	{L, "FIXED_CTR", 0x309, 1, FIXED, true, W48, 0, SAME, 0},
	{L, "PERF_CAPABILITIES", 0x345, 1, ONE, false, 0, 0, CONST, 0x2000},
	{L, "FIXED_CTR_CTRL", 0x38d, 1, ONE, true, F(0) | F(1) | F(2), 0, SAME, 0},
	{L, "GLOBAL_STATUS", 0x38e, 1, ONE, false, 0, 0, CONST, 0},
	{L, "GLOBAL_CTRL", 0x38f, 1, ONE, true, 0x7000000ff, 0, SAME, 0xff},
	{L, "GLOBAL_OVF_CTRL", 0x390, 1, ONE, true, 0, 0xc0000007000000ff, ZERO, 0},
	{L, "DEBUGCTL", 0x1d9, 1, ONE, true, 0x1000, 0, SAME, 0},
	{L, "pv", PV, 1, PVREGS, false, 0, 0, CONST, 0},
	{0},
};

/* The same with version 4's and 5's changes (20.2.4, 20.2.5), 8 GP, 3 fixed. */
static const struct row intel_v5[] = {
	{L, "PMC", 0xc1, 1, GP, true, W48, ALL, SEXT, 0},
	{L, "A_PMC", 0x4c1, 1, GP, true, W48, 0, SAME, 0},
	{L, "PERFEVTSEL", 0x186, 1, GP, true, 0xffd7ffff, 0, SAME, 0},
	{L, "FIXED_CTR", 0x309, 1, FIXED, true, W48, 0, SAME, 0},
	{L, "PERF_CAPABILITIES", 0x345, 1, ONE, false, 0, 0, CONST, 0x2000},
	{L, "FIXED_CTR_CTRL", 0x38d, 1, ONE, true, F(0) | F(1) | F(2), 0, SAME, 0},
	{L, "GLOBAL_STATUS", 0x38e, 1, ONE, false, 0, 0, CONST, 0},
	{L, "GLOBAL_CTRL", 0x38f, 1, ONE, true, 0x7000000ff, 0, SAME, 0xff},
	{L, "STATUS_RESET", 0x390, 1, ONE, true, 0, 0xec000007000000ff, ZERO, 0},
	{L, "STATUS_SET", 0x391, 1, ONE, true, 0, 0x6c000007000000ff, ZERO, 0},
	{L, "INUSE", 0x392, 1, ONE, false, 0, 0, CONST, 0},
	{L, "DEBUGCTL", 0x1d9, 1, ONE, true, 0x1000, 0, SAME, 0},
	{L, "pv", PV, 1, PVREGS, false, 0, 0, CONST, 0},
	{0},
};

/* Version 5 with 3 GP and 4 fixed counters. */
static const struct row intel_v5_34[] = {
	{L, "PMC", 0xc1, 1, GP, true, W48, ALL, SEXT, 0},
	{L, "A_PMC", 0x4c1, 1, GP, true, W48, 0, SAME, 0},
	{L, "PERFEVTSEL", 0x186, 1, GP, true, 0xffd7ffff, 0, SAME, 0},
	{L, "FIXED_CTR", 0x309, 1, FIXED, true, W48, 0, SAME, 0},
	{L, "PERF_CAPABILITIES", 0x345, 1, ONE, false, 0, 0, CONST, 0x2000},
	{L, "FIXED_CTR_CTRL", 0x38d, 1, ONE, true, F(0) | F(1) | F(2) | F(3), 0, SAME, 0},
	{L, "GLOBAL_STATUS", 0x38e, 1, ONE, false, 0, 0, CONST, 0},
	{L, "GLOBAL_CTRL", 0x38f, 1, ONE, true, 0xf00000007, 0, SAME, 0x7},
	{L, "STATUS_RESET", 0x390, 1, ONE, true, 0, 0xec00000f00000007, ZERO, 0},
	{L, "STATUS_SET", 0x391, 1, ONE, true, 0, 0x6c00000f00000007, ZERO, 0},
	{L, "INUSE", 0x392, 1, ONE, false, 0, 0, CONST, 0},
	{L, "DEBUGCTL", 0x1d9, 1, ONE, true, 0x1000, 0, SAME, 0},
	{L, "pv", PV, 1, PVREGS, false, 0, 0, CONST, 0},
	{0},
};

/* APM vol. 2 13.2; reserved bits are dropped, not refused (Linux 9b026073db2f). 6 counters. */
static const struct row amd_6[] = {
	{L, "PERF_CTL", 0xc0010200, 2, GP, true, 0xfffd7ffff & ~(1ULL << 19), ALL, SAME, 0},
	{L, "PERF_CTR", 0xc0010201, 2, GP, true, W48, ALL, SAME, 0},
	{L, "PerfEvtSel", 0xc0010000, 1, K7, true, 0xfffd7ffff & ~(1ULL << 19), ALL, SAME, 0},
	{L, "PerfCtr", 0xc0010004, 1, K7, true, W48, ALL, SAME, 0},
	{L, "GlobalStatus", 0xc0000300, 1, ONE, true, 0, ALL, ZERO, 0},
	{L, "GlobalCtl", 0xc0000301, 1, ONE, true, 0x3f, ALL, SAME, 0x3f},
	{L, "StatusClr", 0xc0000302, 1, ONE, true, 0, ALL, ZERO, 0},
	{L, "StatusSet", 0xc0000303, 1, ONE, true, 0, ALL, ZERO, 0},
	{L, "pv", PV, 1, PVREGS, false, 0, 0, CONST, 0},
	{0},
};

static const struct row amd_15[] = {
	{L, "PERF_CTL", 0xc0010200, 2, GP, true, 0xfffd7ffff & ~(1ULL << 19), ALL, SAME, 0},
	{L, "PERF_CTR", 0xc0010201, 2, GP, true, W48, ALL, SAME, 0},
	{L, "PerfEvtSel", 0xc0010000, 1, K7, true, 0xfffd7ffff & ~(1ULL << 19), ALL, SAME, 0},
	{L, "PerfCtr", 0xc0010004, 1, K7, true, W48, ALL, SAME, 0},
	{L, "GlobalStatus", 0xc0000300, 1, ONE, true, 0, ALL, ZERO, 0},
	{L, "GlobalCtl", 0xc0000301, 1, ONE, true, 0x7fff, ALL, SAME, 0x7fff},
	{L, "StatusClr", 0xc0000302, 1, ONE, true, 0, ALL, ZERO, 0},
	{L, "StatusSet", 0xc0000303, 1, ONE, true, 0, ALL, ZERO, 0},
	{L, "pv", PV, 1, PVREGS, false, 0, 0, CONST, 0},
	{0},
};

static const struct row none[] = {{0}};

static const struct machine {
	int line;
	struct vpmu_guest_cfg cfg;
	unsigned int gp, fixed; /* that the guest sees */
	const struct row *rows;
} machines[] = {
	{L, {.model = VPMU_GUEST_NONE}, 0, 0, none},
	{L, {.model = VPMU_GUEST_INTEL_V2}, 8, 3, intel_v2},
	{L, {.model = VPMU_GUEST_INTEL_V5}, 8, 3, intel_v5},
	{L, {.model = VPMU_GUEST_INTEL_V5, .gp = 3, .fixed = 4}, 3, 4, intel_v5_34},
	{L, {.model = VPMU_GUEST_AMD_V2}, 6, 0, amd_6},
	{L, {.model = VPMU_GUEST_AMD_V2, .gp = 15}, 15, 0, amd_15},
};

#define NR_MACHINES (sizeof(machines) / sizeof(machines[0]))

static unsigned int row_count(const struct machine *m, const struct row *r)
{
	switch (r->count) {
	case GP:
		return m->gp;
	case FIXED:
		return m->fixed;
	case K7:
		return 4;
	case PVREGS:
		return VPMU_PV_MSR_COUNT;
	default:
		return 1;
	}
}

/* Of the paravirtual block: 3 registers each for counters that exist. */
static bool pv_exists(const struct machine *m, unsigned int i)
{
	unsigned int ctr = i / 4;

	return i % 4 < 3 && (ctr < 16 ? ctr < m->gp : ctr - 16 < m->fixed);
}

static bool row_has(const struct machine *m, const struct row *r, uint32_t msr)
{
	uint32_t i = msr - r->msr;

	if (i % r->stride || i / r->stride >= row_count(m, r))
		return false;
	return r->count != PVREGS || pv_exists(m, i);
}

static const struct row *row_of(const struct machine *m, uint32_t msr)
{
	for (const struct row *r = m->rows; r->line; r++) {
		if (row_has(m, r, msr))
			return r;
	}
	return NULL;
}

static uint64_t expect_back(const struct row *r, uint64_t val)
{
	switch (r->back) {
	case SEXT:
		return (uint64_t)(int64_t)(int32_t)(uint32_t)val & 0xffffffffffffULL;
	case SAME:
		return val & r->keep;
	case CONST:
		return r->reset;
	default:
		return 0;
	}
}

static uint64_t rd(struct bed *b, uint32_t msr)
{
	uint64_t val = 0xdeadbeefdeadbeef;
	int ret = vpmu_guest_rdmsr(b->g, msr, &val);

	cr_assert_eq(ret, 0, "RDMSR %x: %d", msr, ret);
	return val;
}

static void start(struct bed *b, const struct machine *m)
{
	int ret = bed_init(b, &m->cfg, NULL);

	cr_assert_eq(ret, 0, "line %d: init %d", m->line, ret);
	bed_enter(b, 0);
}

/* All registers of the model as one array, to see that a refused write changed nothing. */
#define MAX_REGS 256
static unsigned int dump(struct bed *b, const struct machine *m, uint64_t out[MAX_REGS])
{
	unsigned int n = 0;

	for (const struct row *r = m->rows; r->line; r++) {
		for (unsigned int i = 0; i < row_count(m, r); i++) {
			if (row_has(m, r, r->msr + i * r->stride))
				out[n++] = rd(b, r->msr + i * r->stride);
		}
	}
	return n;
}

static void check_value(struct bed *b, const struct machine *m, const struct row *r, uint32_t msr,
			uint64_t val)
{
	uint64_t before[MAX_REGS], after[MAX_REGS];
	bool legal = r->wr && !(val & ~(r->keep | r->ignore));
	unsigned int n = dump(b, m, before);
	int ret = vpmu_guest_wrmsr(b->g, msr, val);

	cr_assert_eq(ret, legal ? 0 : -EFAULT, "machine %d row %d %s: WRMSR(%x, %llx) = %d",
		     m->line, r->line, r->name, msr, (unsigned long long)val, ret);
	if (legal) {
		uint64_t back = rd(b, msr), want = expect_back(r, val);

		cr_assert_eq(back, want, "machine %d row %d %s: %x holds %llx after %llx, not %llx",
			     m->line, r->line, r->name, msr, (unsigned long long)back,
			     (unsigned long long)val, (unsigned long long)want);
	} else {
		cr_assert_eq(dump(b, m, after), n);
		cr_assert(!memcmp(before, after, n * sizeof(before[0])),
			  "machine %d row %d: a refused write changed something", m->line, r->line);
	}
}

Test(guest_regs, reset_values)
{
	struct bed b;

	for (unsigned int k = 0; k < NR_MACHINES; k++) {
		const struct machine *m = &machines[k];

		start(&b, m);
		for (const struct row *r = m->rows; r->line; r++) {
			for (unsigned int i = 0; i < row_count(m, r); i++) {
				uint32_t msr = r->msr + i * r->stride;
				uint64_t want = r->reset;

				if (!row_has(m, r, msr))
					continue;
				if (r->count == PVREGS && i % 4 == 2)
					want = VPMU_PV_UNSUPPORTED;
				cr_assert_eq(rd(&b, msr), want, "machine %d row %d %s %x", m->line,
					     r->line, r->name, msr);
			}
		}
		bed_fini(&b);
	}
}

/* Each bit of each register alone, then legal and illegal mixtures. */
Test(guest_regs, every_bit)
{
	struct bed b;

	for (unsigned int k = 0; k < NR_MACHINES; k++) {
		const struct machine *m = &machines[k];

		start(&b, m);
		for (const struct row *r = m->rows; r->line; r++) {
			for (unsigned int i = 0; i < row_count(m, r); i++) {
				uint32_t msr = r->msr + i * r->stride;

				if (!row_has(m, r, msr))
					continue;
				for (unsigned int bit = 0; bit < 64; bit++) {
					check_value(&b, m, r, msr, 1ULL << bit);
					/* a reserved bit is refused in company, too */
					check_value(&b, m, r, msr, r->keep | 1ULL << bit);
				}
				check_value(&b, m, r, msr, r->keep);
				check_value(&b, m, r, msr, r->keep | r->ignore);
				check_value(&b, m, r, msr, ALL);
				check_value(&b, m, r, msr, 0);
			}
		}
		bed_fini(&b);
	}
}

/*
 * PMU registers of either vendor, from the tables of MSRs of the SDM and the PPR: #GP unless the
 * model has them. And some that are not the PMU's.
 */
static const struct span {
	int line;
	uint32_t first, last;
} pmu_spans[] = {
	{L, 0xc1, 0xca},
	{L, 0x186, 0x18f},
	{L, 0x1a6, 0x1a7},
	{L, 0x1c8, 0x1c9},
	{L, 0x309, 0x318},
	{L, 0x329, 0x329},
	{L, 0x345, 0x345},
	{L, 0x38d, 0x396},
	{L, 0x3f1, 0x3f2},
	{L, 0x3f6, 0x3f7},
	{L, 0x4c1, 0x4ca},
	{L, 0x600, 0x600},
	{L, 0x680, 0x69f},
	{L, 0x6c0, 0x6df},
	{L, 0xdc0, 0xddf},
	{L, 0x1200, 0x121f},
	{L, 0x14ce, 0x14cf},
	{L, 0x1500, 0x151f},
	{L, 0x1600, 0x161f},
	{L, 0xc000010e, 0xc000010f},
	{L, 0xc0000300, 0xc0000303},
	{L, 0xc0010000, 0xc0010007},
	{L, 0xc0010200, 0xc001021f},
	{L, 0xc0010230, 0xc001023b},
	{L, 0xc0010240, 0xc001024f},
	{L, 0xc0010280, 0xc0010280},
	{L, 0xc0010300, 0xc001031f},
	{L, 0xc0010800, 0xc001087f},
	{L, 0xc0011030, 0xc001103d},
	{L, PV, PV + 79},
};

static bool is_pmu(uint32_t msr)
{
	for (unsigned int i = 0; i < sizeof(pmu_spans) / sizeof(pmu_spans[0]); i++) {
		if (msr >= pmu_spans[i].first && msr <= pmu_spans[i].last)
			return true;
	}
	return false;
}

/* Closed world: every MSR number of the ranges PMUs live in is one of ours, #GP, or not ours. */
Test(guest_regs, every_msr)
{
	static const uint32_t range[][2] = {{0, 0x2000},
					    {0xc0000000, 0xc0002000},
					    {0xc0010000, 0xc0012000},
					    {PV - 16, PV + 96}};
	struct bed b;

	for (unsigned int k = 0; k < NR_MACHINES; k++) {
		const struct machine *m = &machines[k];

		start(&b, m);
		for (unsigned int s = 0; s < 4; s++) {
			for (uint32_t msr = range[s][0]; msr < range[s][1]; msr++) {
				const struct row *r = row_of(m, msr);
				int other = is_pmu(msr) ? -EFAULT : -ENOENT;
				uint64_t val = 0x5a5a;
				int ret = vpmu_guest_rdmsr(b.g, msr, &val);

				cr_assert_eq(ret, r ? 0 : other, "machine %d: RDMSR %x = %d",
					     m->line, msr, ret);
				cr_assert(!ret || val == 0x5a5a, "a refused read wrote a value");
				ret = vpmu_guest_wrmsr(b.g, msr, 0);
				cr_assert_eq(ret, r ? (r->wr ? 0 : -EFAULT) : other,
					     "machine %d: WRMSR %x = %d", m->line, msr, ret);
			}
		}
		bed_fini(&b);
	}
}

/* The VMM traps what the model has. */
Test(guest_regs, ranges_cover)
{
	for (unsigned int k = 0; k < NR_MACHINES; k++) {
		const struct machine *m = &machines[k];
		const struct vpmu_msr_range *t = vpmu_guest_msr_ranges(m->cfg.model);
		unsigned int n = 0;

		while (t[n].count)
			n++;
		cr_assert_leq(n, 8u);
		for (const struct row *r = m->rows; r->line; r++) {
			for (unsigned int i = 0; i < row_count(m, r); i++) {
				uint32_t msr = r->msr + i * r->stride;
				bool in = false;

				for (unsigned int j = 0; j < n; j++)
					in |= msr - t[j].base < t[j].count;
				cr_assert(in, "machine %d: %x is not trapped", m->line, msr);
			}
		}
		/* what KVM would answer by itself */
		for (uint32_t msr = 0xc0010000; msr < 0xc0010008; msr++) {
			bool in = false;

			for (unsigned int j = 0; j < n; j++)
				in |= msr - t[j].base < t[j].count;
			cr_assert(in);
		}
	}
}

/* ---- the K7 aliases are the same registers ---- */

Test(guest_regs, k7_alias)
{
	struct bed b;

	start(&b, &machines[4]);
	for (uint32_t i = 0; i < 4; i++) {
		cr_assert_eq(vpmu_guest_wrmsr(b.g, 0xc0010000 + i, 0x5300c0 + i), 0);
		cr_assert_eq(rd(&b, 0xc0010200 + 2 * i), 0x5300c0 + i);
		cr_assert_eq(vpmu_guest_wrmsr(b.g, 0xc0010200 + 2 * i, 0x1000000c0ULL + i), 0);
		cr_assert_eq(rd(&b, 0xc0010000 + i), 0x1000000c0ULL + i);
		cr_assert_eq(vpmu_guest_wrmsr(b.g, 0xc0010004 + i, 1000 + i), 0);
		cr_assert_eq(rd(&b, 0xc0010201 + 2 * i), 1000 + i);
		cr_assert_eq(vpmu_guest_wrmsr(b.g, 0xc0010201 + 2 * i, 2000 + i), 0);
		cr_assert_eq(rd(&b, 0xc0010004 + i), 2000 + i);
	}
	bed_fini(&b);
}

Test(guest_regs, full_width_alias)
{
	struct bed b;

	start(&b, &machines[1]);
	for (uint32_t i = 0; i < 8; i++) {
		cr_assert_eq(vpmu_guest_wrmsr(b.g, 0x4c1 + i, 0x800000000000ULL + i), 0);
		cr_assert_eq(rd(&b, 0xc1 + i), 0x800000000000ULL + i);
		cr_assert_eq(vpmu_guest_wrmsr(b.g, 0xc1 + i, 0x123480000000ULL + i), 0);
		cr_assert_eq(rd(&b, 0x4c1 + i), 0xffff80000000ULL + i);
	}
	bed_fini(&b);
}

/* ---- IA32_PERF_GLOBAL_STATUS, STATUS_SET, STATUS_RESET, INUSE ---- */

Test(guest_regs, status_set_reset)
{
	const uint64_t settable = 0x6c000007000000ffULL;
	struct bed b;

	start(&b, &machines[2]);
	for (unsigned int bit = 0; bit < 64; bit++) {
		if (!(settable >> bit & 1))
			continue;
		cr_assert_eq(vpmu_guest_wrmsr(b.g, 0x391, 1ULL << bit), 0);
		cr_assert_eq(rd(&b, 0x38e), 1ULL << bit);
		cr_assert_eq(vpmu_guest_wrmsr(b.g, 0x390, ~(1ULL << bit) & settable), 0);
		cr_assert_eq(rd(&b, 0x38e), 1ULL << bit, "clearing others cleared bit %u", bit);
		cr_assert_eq(vpmu_guest_wrmsr(b.g, 0x390, 1ULL << bit), 0);
		cr_assert_eq(rd(&b, 0x38e), 0);
	}
	cr_assert_eq(vpmu_guest_wrmsr(b.g, 0x391, settable), 0);
	cr_assert_eq(rd(&b, 0x38e), settable);
	bed_fini(&b);

	start(&b, &machines[4]);
	cr_assert_eq(vpmu_guest_wrmsr(b.g, 0xc0000303, ALL), 0);
	cr_assert_eq(rd(&b, 0xc0000300), 0x3f);
	cr_assert_eq(vpmu_guest_wrmsr(b.g, 0xc0000300, 0), 0); /* read-only: ignored */
	cr_assert_eq(rd(&b, 0xc0000300), 0x3f);
	cr_assert_eq(vpmu_guest_wrmsr(b.g, 0xc0000302, 0x15), 0);
	cr_assert_eq(rd(&b, 0xc0000300), 0x2a);
	cr_assert_eq(vpmu_guest_wrmsr(b.g, 0xc0000302, ALL), 0);
	cr_assert_eq(rd(&b, 0xc0000300), 0);
	bed_fini(&b);
}

Test(guest_regs, inuse)
{
	struct bed b;

	start(&b, &machines[2]);
	cr_assert_eq(vpmu_guest_wrmsr(b.g, 0x188, 0x00c0),
		     0); /* not enabled: in use all the same */
	cr_assert_eq(rd(&b, 0x392), 0x4);
	cr_assert_eq(vpmu_guest_wrmsr(b.g, 0x188, 0xff00), 0); /* event select 0 */
	cr_assert_eq(rd(&b, 0x392), 0);
	cr_assert_eq(vpmu_guest_wrmsr(b.g, 0x18d, 1 << 20 | 0x3c), 0); /* INT */
	cr_assert_eq(rd(&b, 0x392), 1ULL << 63 | 0x80);
	cr_assert_eq(vpmu_guest_wrmsr(b.g, 0x18d, 0), 0);
	cr_assert_eq(vpmu_guest_wrmsr(b.g, 0x38d, 0x120), 0);
	cr_assert_eq(rd(&b, 0x392), 6ULL << 32);
	cr_assert_eq(vpmu_guest_wrmsr(b.g, 0x38d, 0x008), 0); /* PMI of a counter that is off */
	cr_assert_eq(rd(&b, 0x392), 1ULL << 63);
	bed_fini(&b);
}

/* RESET gives the power-up values, INIT changes nothing (SDM vol. 3 table 10-1; APM vol. 2 table
 * 14-1: MSRs "not modified"). */
Test(guest_regs, reset_and_init)
{
	for (unsigned int k = 1; k < NR_MACHINES; k++) {
		const struct machine *m = &machines[k];
		uint64_t fresh[MAX_REGS], set[MAX_REGS], after[MAX_REGS];
		unsigned int n;
		struct bed b;

		start(&b, m);
		n = dump(&b, m, fresh);
		for (const struct row *r = m->rows; r->line; r++) {
			for (unsigned int i = 0; r->wr && i < row_count(m, r); i++)
				cr_assert_eq(vpmu_guest_wrmsr(b.g, r->msr + i * r->stride, r->keep),
					     0);
		}
		dump(&b, m, set);
		cr_assert(memcmp(fresh, set, n * sizeof(fresh[0])));
		vpmu_guest_reset(b.g, true);
		dump(&b, m, after);
		cr_assert(!memcmp(set, after, n * sizeof(set[0])), "machine %d: INIT", m->line);
		vpmu_guest_reset(b.g, false);
		dump(&b, m, after);
		cr_assert(!memcmp(fresh, after, n * sizeof(fresh[0])), "machine %d: RESET",
			  m->line);
		bed_fini(&b);
	}
}
