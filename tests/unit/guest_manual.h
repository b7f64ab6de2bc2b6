/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Every PMU register of every model by the manuals: which exist, which bits may be set,
 * which are kept. Written from the SDM and the APM alone; shares nothing with vpmu/guest. For the
 * unit tests and the fuzzers.
 */
#ifndef TESTS_UNIT_GUEST_MANUAL_H
#define TESTS_UNIT_GUEST_MANUAL_H

#include <errno.h>

#include "guest_bed.h"
#include "vpmu/guest/policy.h"

#define PV VPMU_PV_MSR_BASE

/* How many registers a row has. */
enum count { ONE, GP, FIXED, K7, PVREGS, LBRS, LBR16 };

/* The value read after a valid write of v. */
enum back {
	SAME,  /* the bits of @keep */
	SEXT,  /* v's low 32 bits sign-extended, 48 bits of it (SDM 20.2.8) */
	ZERO,  /* nothing: the register is a command, or the write is ignored */
	CONST, /* @reset */
	CANON, /* all of it; an address that is not canonical (48 bits) is #GP (SDM ch. 19) */
	DEPTH, /* all of it; 8, 16, 24, 32, else #GP (CPUID 1CH:EAX) */
	AFROM, /* address 57:0, its sign up to 62, flag 63 (PPR, MSRC001_0300) */
	ATO,   /* address 57:0, its sign up to 60, flags 63:62 (MSRC001_0301) */
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
#define M48  0xffffffffffffULL
#define F(n) (0xbULL << (4 * (n)))
#define F3   (F(0) | F(1) | F(2))
#define F4   (F3 | F(3))

#define ROW(...)                                                                                   \
	(struct row)                                                                               \
	{                                                                                          \
		__LINE__, __VA_ARGS__                                                              \
	}

/* Vol. 4 table 2-2: fast strings (0), EMON (7), BTS unavailable (11), PEBS unavailable (12). */
#define MISC_ENABLE(val) ROW("MISC_ENABLE", 0x1a0, 1, ONE, true, 0, ALL, CONST, val)

/* LBR and BTF (and AMD's bits 5:2) can be written and are dropped, as in KVM. */
#define DBGCTL(keep, ignore) ROW("DEBUGCTL", 0x1d9, 1, ONE, true, keep, ignore, SAME, 0)

/*
 * SDM vol. 3 20.2.1-20.2.2, 20.2.8; vol. 4 table 2-2. @sel: bits of an event select; @ctl: of
 * FIXED_CTR_CTRL; @ovf: of OVF_CTRL or STATUS_RESET; @caps: PERF_CAPABILITIES.
 */
#define INTEL(sel, ctl, global, ovf, caps)                                                         \
	ROW("PMC", 0xc1, 1, GP, true, M48, ALL, SEXT, 0),                                          \
		ROW("A_PMC", 0x4c1, 1, GP, true, M48, 0, SAME, 0),                                 \
		ROW("PERFEVTSEL", 0x186, 1, GP, true, sel, 0, SAME, 0),                            \
		ROW("FIXED_CTR", 0x309, 1, FIXED, true, M48, 0, SAME, 0),                          \
		ROW("PERF_CAPABILITIES", 0x345, 1, ONE, false, 0, 0, CONST, caps),                 \
		ROW("FIXED_CTR_CTRL", 0x38d, 1, ONE, true, ctl, 0, SAME, 0),                       \
		ROW("GLOBAL_STATUS", 0x38e, 1, ONE, false, 0, 0, CONST, 0),                        \
		ROW("GLOBAL_CTRL", 0x38f, 1, ONE, true, global, 0, SAME, (global)&0xffff),         \
		ROW("OVF_CTRL", 0x390, 1, ONE, true, 0, ovf, ZERO, 0), MISC_ENABLE(0x1881),        \
		ROW("pv", PV, 1, PVREGS, false, 0, 0, CONST, 0)

/* Version 4 (20.2.4). CondChgd cannot be set. */
#define INTEL_V4(ovf)                                                                              \
	ROW("STATUS_SET", 0x391, 1, ONE, true, 0, (ovf) & ~(1ULL << 63), ZERO, 0),                 \
		ROW("INUSE", 0x392, 1, ONE, false, 0, 0, CONST, 0)

/* Architectural LBR: vol. 3 ch. 19; vol. 4: INFO's undefined bits take anything. */
#define INTEL_LBR                                                                                  \
	ROW("LBR_FROM", 0x1500, 1, LBRS, true, 0, 0, CANON, 0),                                    \
		ROW("LBR_TO", 0x1600, 1, LBRS, true, 0, 0, CANON, 0),                              \
		ROW("LBR_INFO", 0x1200, 1, LBRS, true, 0x1f0000000000ffffULL, ALL, SAME, 0),       \
		ROW("LBR_CTL", 0x14ce, 1, ONE, true, 0x7f000f, 0, SAME, 0),                        \
		ROW("LBR_DEPTH", 0x14cf, 1, ONE, true, 0, 0, DEPTH, 32)

static const struct row intel_v2[] = {
	INTEL(0xffdfffff, F3, 0x7000000ff, 0xc0000007000000ff, 0x2000),
	DBGCTL(0x1000, 3),
	{0},
};

/* 20.2.3: Ovf_Uncore; AnyThread is not there, as in CPUID. */
static const struct row intel_v3[] = {
	INTEL(0xffdfffff, F3, 0x7000000ff, 0xe0000007000000ff, 0x2000),
	DBGCTL(0x1000, 3),
	{0},
};

static const struct row intel_v4[] = {
	INTEL(0xffd7ffff, F3, 0x7000000ff, 0xec000007000000ff, 0x2000),
	INTEL_V4(0xec000007000000ff),
	DBGCTL(0x1000, 3),
	{0},
};

static const struct row intel_v5[] = {
	INTEL(0xffd7ffff, F3, 0x7000000ff, 0xec000007000000ff, 0x203f),
	INTEL_V4(0xec000007000000ff),
	DBGCTL(0x1800, 3),
	INTEL_LBR,
	{0},
};

static const struct row intel_v5_34[] = {
	INTEL(0xffd7ffff, F4, 0xf00000007, 0xec00000f00000007, 0x203f),
	INTEL_V4(0xec00000f00000007),
	DBGCTL(0x1800, 3),
	INTEL_LBR,
	{0},
};

static const struct row intel_v5_nolbr[] = {
	INTEL(0xffd7ffff, F3, 0x7000000ff, 0xec000007000000ff, 0x2000),
	INTEL_V4(0xec000007000000ff),
	DBGCTL(0x1000, 3),
	{0},
};

/* APM vol. 2 13.2; reserved bits are dropped, not refused (Linux 9b026073db2f). */
#define ASEL (0xfffd7ffff & ~(1ULL << 19))

#define AMD_K7                                                                                     \
	ROW("PerfEvtSel", 0xc0010000, 1, K7, true, ASEL, ALL, SAME, 0),                            \
		ROW("PerfCtr", 0xc0010004, 1, K7, true, M48, ALL, SAME, 0),                        \
		ROW("pv", PV, 1, PVREGS, false, 0, 0, CONST, 0)

#define AMD_CORE                                                                                   \
	AMD_K7, ROW("PERF_CTL", 0xc0010200, 2, GP, true, ASEL, ALL, SAME, 0),                      \
		ROW("PERF_CTR", 0xc0010201, 2, GP, true, M48, ALL, SAME, 0)

/* PerfMonV2: DebugCtl as KVM has it, bits 5:0 dropped */
#define AMD_V2(global, dbg)                                                                        \
	AMD_CORE, ROW("GlobalStatus", 0xc0000300, 1, ONE, true, 0, ALL, ZERO, 0),                  \
		ROW("GlobalCtl", 0xc0000301, 1, ONE, true, global, ALL, SAME, global),             \
		ROW("StatusClr", 0xc0000302, 1, ONE, true, 0, ALL, ZERO, 0),                       \
		ROW("StatusSet", 0xc0000303, 1, ONE, true, 0, ALL, ZERO, 0), DBGCTL(dbg, 0x3f)

#define AMD_LBR                                                                                    \
	ROW("LBR_SELECT", 0xc000010e, 1, ONE, true, 0x1ff, ALL, SAME, 0),                          \
		ROW("DBG_EXTN_CFG", 0xc000010f, 1, ONE, true, 0x40, ALL, SAME, 0),                 \
		ROW("LBR_FROM", 0xc0010300, 2, LBR16, true, 0, ALL, AFROM, 0),                     \
		ROW("LBR_TO", 0xc0010301, 2, LBR16, true, 0, ALL, ATO, 0)

static const struct row amd_k7[] = {AMD_K7, DBGCTL(0, 0x3f), {0}};
static const struct row amd_core[] = {AMD_CORE, DBGCTL(0, 0x3f), {0}};
static const struct row amd_v2[] = {AMD_V2(0x3f, 0x1800), AMD_LBR, {0}};
static const struct row amd_v2_15[] = {AMD_V2(0x7fff, 0x1800), AMD_LBR, {0}};
static const struct row amd_v2_nolbr[] = {AMD_V2(0x3f, 0x1000), {0}};
/* without a PMU: an AMD CPU, and an Intel CPU */
static const struct row none[] = {DBGCTL(0, 0x3f), {0}};
static const struct row off[] = {DBGCTL(0, 3), MISC_ENABLE(0x1801), {0}};

enum {
	M_NONE,
	M_OFF,
	M_V2,
	M_V2_ARCH,
	M_V3,
	M_V4,
	M_V5,
	M_V5_34,
	M_V5_NOLBR,
	M_K7,
	M_CORE,
	M_AMD,
	M_AMD15,
	M_AMD_NOLBR,
	NR_MACHINES
};

static const struct vpmu_policy policy_off = {.tier = VPMU_POLICY_OFF};
static const struct vpmu_policy policy_arch = {.tier = VPMU_POLICY_ARCHITECTURAL};
static const struct vpmu_policy policy_standard = {.tier = VPMU_POLICY_STANDARD};

static const struct machine {
	int line;
	struct vpmu_guest_cfg cfg;
	unsigned int gp, fixed; /* that the guest sees */
	unsigned int lbr;	/* branch records, 0: none */
	const struct row *rows;
} machines[NR_MACHINES] = {
	[M_NONE] = {L, {.model = VPMU_GUEST_NONE}, 0, 0, 0, none},
	[M_OFF] = {L, {.model = VPMU_GUEST_INTEL_V5, .policy = &policy_off}, 0, 0, 0, off},
	[M_V2] = {L, {.model = VPMU_GUEST_INTEL_V2}, 8, 3, 0, intel_v2},
	[M_V2_ARCH] =
		{L, {.model = VPMU_GUEST_INTEL_V2, .policy = &policy_arch}, 8, 3, 0, intel_v2},
	[M_V3] = {L, {.model = VPMU_GUEST_INTEL_V3}, 8, 3, 0, intel_v3},
	[M_V4] = {L, {.model = VPMU_GUEST_INTEL_V4}, 8, 3, 0, intel_v4},
	[M_V5] = {L, {.model = VPMU_GUEST_INTEL_V5}, 8, 3, 32, intel_v5},
	[M_V5_34] = {L, {.model = VPMU_GUEST_INTEL_V5, .gp = 3, .fixed = 4}, 3, 4, 32, intel_v5_34},
	[M_V5_NOLBR] = {L, {.model = VPMU_GUEST_INTEL_V5, .no_lbr = true}, 8, 3, 0, intel_v5_nolbr},
	[M_K7] = {L, {.model = VPMU_GUEST_AMD_K7}, 4, 0, 0, amd_k7},
	[M_CORE] = {L, {.model = VPMU_GUEST_AMD_CORE}, 6, 0, 0, amd_core},
	[M_AMD] = {L, {.model = VPMU_GUEST_AMD_V2}, 6, 0, 16, amd_v2},
	[M_AMD15] = {L, {.model = VPMU_GUEST_AMD_V2, .gp = 15}, 15, 0, 16, amd_v2_15},
	[M_AMD_NOLBR] = {L,
			 {.model = VPMU_GUEST_AMD_V2, .policy = &policy_standard},
			 6,
			 0,
			 0,
			 amd_v2_nolbr},
};

/* @depth: what IA32_LBR_DEPTH was last set to */
static inline unsigned int row_count(const struct machine *m, const struct row *r,
				     unsigned int depth)
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
	case LBRS:
		return depth;
	case LBR16:
		return 16;
	default:
		return 1;
	}
}

/* Of the paravirtual block: 3 registers each for counters that exist. */
static inline bool pv_exists(const struct machine *m, unsigned int i)
{
	unsigned int ctr = i / 4;

	return i % 4 < 3 && (ctr < 16 ? ctr < m->gp : ctr - 16 < m->fixed);
}

static inline bool row_has(const struct machine *m, const struct row *r, uint32_t msr,
			   unsigned int depth)
{
	uint32_t i = msr - r->msr;

	if (i % r->stride || i / r->stride >= row_count(m, r, depth))
		return false;
	return r->count != PVREGS || pv_exists(m, i);
}

/* The row of @msr; NULL: the model has no such register. */
static inline const struct row *row_of(const struct machine *m, uint32_t msr, unsigned int depth)
{
	for (const struct row *r = m->rows; r->line; r++) {
		if (row_has(m, r, msr, depth))
			return r;
	}
	return NULL;
}

/* May @val be written? */
static inline bool row_takes(const struct row *r, uint64_t val)
{
	switch (r->back) {
	case CANON:
		return val >> 47 == 0 || val >> 47 == 0x1ffff;
	case DEPTH:
		return val == 8 || val == 16 || val == 24 || val == 32;
	default:
		return r->wr && !(val & ~(r->keep | r->ignore));
	}
}

/* The value read after that. */
static inline uint64_t row_back(const struct row *r, uint64_t val)
{
	uint64_t sign = val >> 57 & 1, ip = val & ((1ULL << 58) - 1);

	switch (r->back) {
	case SEXT:
		return (val & 0xffffffff) | (val >> 31 & 1 ? 0xffff00000000ULL : 0);
	case SAME:
		return val & r->keep;
	case CONST:
		return r->reset;
	case CANON:
	case DEPTH:
		return val;
	case AFROM:
		return ip | (sign ? 0x1fULL << 58 : 0) | (val & 1ULL << 63);
	case ATO:
		return ip | (sign ? 7ULL << 58 : 0) | (val & 3ULL << 62);
	default:
		return 0;
	}
}

/* ---- registers of PMUs: #GP unless the model has them ---- */

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

static inline bool is_pmu(uint32_t msr)
{
	for (unsigned int i = 0; i < sizeof(pmu_spans) / sizeof(pmu_spans[0]); i++) {
		if (msr >= pmu_spans[i].first && msr <= pmu_spans[i].last)
			return true;
	}
	return false;
}

/* What RDMSR and WRMSR of a number that is no register of the model give. */
static inline int no_register(uint32_t msr)
{
	return is_pmu(msr) ? -EFAULT : -ENOENT;
}

#endif
