// SPDX-License-Identifier: GPL-2.0-or-later
/* CPUID leaves, RDPMC's encodings, and the limits of a model's configuration, by the manuals. */
#include "guest_manual.h"
#include "guest_use.h"

TestSuite(guest_regs, .fini = finish);

static void start_with(const struct machine *m, const struct vpmu_emupmu_opts *emulator)
{
	int ret;

	finish();
	ret = bed_init(&b, &m->cfg, emulator);
	cr_assert_eq(ret, 0, "line %d: init %d", m->line, ret);
	bed_enter(&b, 0);
}

/* ---- RDPMC ---- */

static const struct pmc_row {
	int line;
	unsigned int machine;
	uint32_t ecx;
	int ret;
	uint64_t val; /* counters hold 0x1000 + n, fixed ones 0x2000 + n */
} pmc_rows[] = {
	/* SDM vol. 2, RDPMC: type in 31:16, index in 15:0 */
	{L, M_V2, 0, 0, 0x1000},
	{L, M_V2, 7, 0, 0x1007},
	{L, M_V2, 8, -EFAULT, 0},
	{L, M_V2, 0x40000000, 0, 0x2000},
	{L, M_V2, 0x40000002, 0, 0x2002},
	{L, M_V2, 0x40000003, -EFAULT, 0},
	{L, M_V2, 0x20000000, -EFAULT, 0}, /* metrics: not announced */
	{L, M_V2, 0x80000000, -EFAULT, 0}, /* fast reads: not with architectural perfmon */
	{L, M_V2, 0xc0000000, -EFAULT, 0},
	{L, M_V2, 0x00010000, -EFAULT, 0},
	{L, M_V2, 0x00000100, -EFAULT, 0},
	{L, M_V2, 0x40010000, -EFAULT, 0},
	{L, M_V2, 0xffffffff, -EFAULT, 0},
	{L, M_V5, 7, 0, 0x1007},
	{L, M_V5, 0x40000002, 0, 0x2002},
	{L, M_V5, 0x40000003, -EFAULT, 0},
	{L, M_V5, 0x80000000, -EFAULT, 0},
	{L, M_V5_34, 2, 0, 0x1002},
	{L, M_V5_34, 3, -EFAULT, 0},
	{L, M_V5_34, 0x40000003, 0, 0x2003},
	{L, M_V5_34, 0x40000004, -EFAULT, 0},
	/* APM vol. 3, RDPMC: the number of the counter */
	{L, M_AMD, 0, 0, 0x1000},
	{L, M_AMD, 5, 0, 0x1005},
	{L, M_AMD, 6, -EFAULT, 0}, /* northbridge counters: not announced */
	{L, M_AMD, 10, -EFAULT, 0},
	{L, M_AMD, 0x40000000, -EFAULT, 0},
	{L, M_AMD, 0x80000000, -EFAULT, 0},
	{L, M_AMD, 0xffffffff, -EFAULT, 0},
	{L, M_AMD15, 14, 0, 0x100e},
	{L, M_AMD15, 15, -EFAULT, 0},
	{L, M_V3, 7, 0, 0x1007},
	{L, M_V3, 0x40000002, 0, 0x2002},
	{L, M_V4, 0x40000003, -EFAULT, 0},
	{L, M_K7, 3, 0, 0x1003},
	{L, M_K7, 4, -EFAULT, 0},
	{L, M_CORE, 5, 0, 0x1005},
	{L, M_CORE, 6, -EFAULT, 0},
	{L, M_CORE, 0x40000000, -EFAULT, 0},
	{L, M_NONE, 0, -EFAULT, 0},
	{L, M_OFF, 0, -EFAULT, 0},
	{L, M_NONE, 0x40000000, -EFAULT, 0},
};

Test(guest_regs, rdpmc)
{
	for (unsigned int k = 0; k < sizeof(pmc_rows) / sizeof(pmc_rows[0]); k++) {
		const struct pmc_row *r = &pmc_rows[k];
		const struct machine *m = &machines[r->machine];
		uint64_t val = 77;
		int ret;

		start_with(m, NULL);
		for (uint32_t i = 0; i < m->gp; i++)
			vpmu_guest_wrmsr(b.g,
					 m->cfg.model == VPMU_GUEST_AMD_K7 ? 0xc0010004 + i
					 : vpmu_guest_is_intel(b.g)	   ? 0xc1 + i
									   : 0xc0010201 + 2 * i,
					 0x1000 + i);
		for (uint32_t i = 0; i < m->fixed; i++)
			vpmu_guest_wrmsr(b.g, 0x309 + i, 0x2000 + i);
		ret = vpmu_guest_rdpmc(b.g, r->ecx, &val);
		cr_assert_eq(ret, r->ret, "line %d: RDPMC %x = %d", r->line, r->ecx, ret);
		cr_assert_eq(val, ret ? 77 : r->val, "line %d", r->line);
	}
}

/* ---- CPUID ---- */

static const struct cpuid_row {
	int line;
	unsigned int machine;
	uint32_t leaf, subleaf;
	uint32_t in[4], out[4];
} cpuid_rows[] = {
	/* SDM vol. 2 CPUID 0AH. The emulator host has no bus cycles, cache events, branch misses
	 * and slots: EBX bits 2, 3, 4, 6 and 7. */
	{L, M_V2, 0xa, 0, {~0u, ~0u, ~0u, ~0u}, {0x07300802, 0x5c, 0, 0x603}},
	{L, M_V5, 0xa, 0, {0, 0, 0, 0}, {0x08300805, 0xdc, 0x7, 0x8603}},
	{L, M_V5_34, 0xa, 0, {0, 0, 0, 0}, {0x08300305, 0xdc, 0xf, 0x8604}},
	{L, M_V3, 0xa, 0, {~0u, ~0u, ~0u, ~0u}, {0x07300803, 0x5c, 0, 0x8603}},
	{L, M_V4, 0xa, 0, {~0u, ~0u, ~0u, ~0u}, {0x07300804, 0x5c, 0, 0x8603}},
	{L, M_AMD, 0xa, 0, {~0u, ~0u, ~0u, ~0u}, {0, 0, 0, 0}},
	{L, M_OFF, 0xa, 0, {~0u, ~0u, ~0u, ~0u}, {0, 0, 0, 0}},
	{L, M_OFF, 1, 0, {~0u, ~0u, ~0u, ~0u}, {~0u, ~0u, ~0x8014u, ~0x200000u}},
	{L, M_OFF, 7, 0, {~0u, ~0u, ~0u, ~0u}, {~0u, ~0u, ~0x1000000u, ~0x80000u}},
	{L, M_NONE, 0xa, 0, {~0u, ~0u, ~0u, ~0u}, {0, 0, 0, 0}},
	/* highest leaf */
	{L, M_V2, 0, 0, {5, 1, 2, 3}, {0xa, 1, 2, 3}},
	{L, M_V2, 0, 0, {0x20, 1, 2, 3}, {0x20, 1, 2, 3}},
	{L, M_AMD, 0, 0, {5, 1, 2, 3}, {5, 1, 2, 3}},
	{L, M_AMD, 0x80000000, 0, {0x80000008, 1, 2, 3}, {0x80000022, 1, 2, 3}},
	{L, M_AMD, 0x80000000, 0, {0x80000030, 1, 2, 3}, {0x80000030, 1, 2, 3}},
	{L, M_V2, 0x80000000, 0, {0x80000008, 1, 2, 3}, {0x80000008, 1, 2, 3}},
	/* PDCM on Intel; DS, DTES64 and DS-CPL on none */
	{L, M_V2, 1, 0, {9, 8, 0, 0}, {9, 8, 0x8000, 0}},
	{L, M_V5, 1, 0, {~0u, ~0u, ~0u, ~0u}, {~0u, ~0u, ~0x14u, ~0x200000u}},
	{L, M_AMD, 1, 0, {~0u, ~0u, ~0u, ~0u}, {~0u, ~0u, ~0x8014u, ~0x200000u}},
	{L, M_NONE, 1, 0, {~0u, ~0u, ~0u, ~0u}, {~0u, ~0u, ~0x8014u, ~0x200000u}},
	/* Arch LBR, ArchPerfmonExt */
	{L, M_V5, 0, 0, {5, 1, 2, 3}, {0x1c, 1, 2, 3}},
	{L, M_V5_NOLBR, 0, 0, {5, 1, 2, 3}, {0xa, 1, 2, 3}},
	{L, M_V4, 0, 0, {5, 1, 2, 3}, {0xa, 1, 2, 3}},
	{L, M_V5, 7, 0, {~0u, ~0u, ~0u, ~0u}, {~0u, ~0u, ~0x1000000u, ~0u}},
	{L, M_V5, 7, 0, {0, 0, 0, 0}, {0, 0, 0, 0x80000}},
	{L, M_V4, 7, 0, {~0u, ~0u, ~0u, ~0u}, {~0u, ~0u, ~0x1000000u, ~0x80000u}},
	{L, M_V5_NOLBR, 7, 0, {~0u, ~0u, ~0u, ~0u}, {~0u, ~0u, ~0x1000000u, ~0x80000u}},
	{L, M_AMD, 7, 0, {~0u, ~0u, ~0u, ~0u}, {~0u, ~0u, ~0x1000000u, ~0x80000u}},
	{L, M_V5, 7, 1, {~0u, ~0u, ~0u, ~0u}, {~0x100u, ~0u, ~0u, ~0u}},
	/* depths 8, 16, 24, 32; CPL and branch filters, call stack; timed, branch type */
	{L, M_V5, 0x1c, 0, {~0u, ~0u, ~0u, ~0u}, {0xf, 7, 6, 0}},
	{L, M_V5, 0x1c, 1, {~0u, ~0u, ~0u, ~0u}, {0, 0, 0, 0}},
	{L, M_V4, 0x1c, 0, {~0u, ~0u, ~0u, ~0u}, {0, 0, 0, 0}},
	{L, M_V5_NOLBR, 0x1c, 0, {~0u, ~0u, ~0u, ~0u}, {0, 0, 0, 0}},
	{L, M_AMD, 0x1c, 0, {~0u, ~0u, ~0u, ~0u}, {0, 0, 0, 0}},
	{L, M_V5, 0x23, 1, {~0u, ~0u, ~0u, ~0u}, {0, 0, 0, 0}},
	/* APM vol. 3 appendix E.4: PerfCtrExtCore; not NB (24), PTSC (27), LLC (28), IBS (10) */
	{L, M_AMD, 0x80000001, 0, {1, 2, 0, 4}, {1, 2, 0x800000, 4}},
	{L, M_AMD, 0x80000001, 0, {~0u, ~0u, ~0u, ~0u}, {~0u, ~0u, ~0x19000400u, ~0u}},
	{L, M_V2, 0x80000001, 0, {~0u, ~0u, ~0u, ~0u}, {~0u, ~0u, ~0x19800400u, ~0u}},
	{L, M_NONE, 0x80000001, 0, {~0u, ~0u, ~0u, ~0u}, {~0u, ~0u, ~0x19800400u, ~0u}},
	/* E.4.22: PerfMonV2, LbrStack, LbrAndPmcFreeze; counters, LbrStackSize */
	{L, M_AMD, 0x80000022, 0, {~0u, ~0u, ~0u, ~0u}, {7, 0x106, 0, 0}},
	{L, M_AMD15, 0x80000022, 0, {0, 0, 0, 0}, {7, 0x10f, 0, 0}},
	{L, M_AMD_NOLBR, 0x80000022, 0, {0, 0, 0, 0}, {5, 6, 0, 0}},
	{L, M_CORE, 0x80000022, 0, {~0u, ~0u, ~0u, ~0u}, {0, 0, 0, 0}},
	{L, M_CORE, 0x80000000, 0, {0x80000008, 1, 2, 3}, {0x80000008, 1, 2, 3}},
	{L, M_CORE, 0x80000001, 0, {~0u, ~0u, ~0u, ~0u}, {~0u, ~0u, ~0x19000400u, ~0u}},
	{L, M_CORE, 0xa, 0, {~0u, ~0u, ~0u, ~0u}, {0, 0, 0, 0}},
	{L, M_K7, 0x80000022, 0, {~0u, ~0u, ~0u, ~0u}, {0, 0, 0, 0}},
	{L, M_K7, 0x80000001, 0, {~0u, ~0u, ~0u, ~0u}, {~0u, ~0u, ~0x19800400u, ~0u}},
	{L, M_V5, 0x80000022, 0, {~0u, ~0u, ~0u, ~0u}, {0, 0, 0, 0}},
	{L, M_NONE, 0x80000022, 0, {~0u, ~0u, ~0u, ~0u}, {0, 0, 0, 0}},
	{L, M_AMD, 0x8000001b, 0, {~0u, ~0u, ~0u, ~0u}, {0, 0, 0, 0}},
	/* nothing to do with the PMU */
	{L, M_V5, 0xd, 0, {1, 2, 3, 4}, {1, 2, 3, 4}},
	{L, M_AMD, 0x80000008, 0, {1, 2, 3, 4}, {1, 2, 3, 4}},
	/* ours */
	{L, M_V5, 0x40000000, 0, {0, 0, 0, 0}, {0x40000001, 0x756d7076, 0x756d7076, 0x756d7076}},
	{L, M_V5, 0x40000001, 0, {~0u, ~0u, ~0u, ~0u}, {1, 1, 0, 0}},
	{L, M_AMD, 0x40000001, 0, {~0u, ~0u, ~0u, ~0u}, {1, 1, 0, 0}},
	{L, M_NONE, 0x40000001, 0, {~0u, ~0u, ~0u, ~0u}, {1, 0, 0, 0}},
};

Test(guest_regs, cpuid)
{
	for (unsigned int k = 0; k < sizeof(cpuid_rows) / sizeof(cpuid_rows[0]); k++) {
		const struct cpuid_row *r = &cpuid_rows[k];
		uint32_t v[4];

		start_with(&machines[r->machine], NULL);
		memcpy(v, r->in, sizeof(v));
		vpmu_guest_cpuid(b.g, r->leaf, r->subleaf, v);
		for (int i = 0; i < 4; i++)
			cr_assert_eq(v[i], r->out[i], "line %d: e%cx = %x, not %x", r->line,
				     "abcd"[i], v[i], r -> out[i]);
	}
}

Test(guest_regs, cpuid_rdpmc)
{
	struct vpmu_guest_cfg cfg = {.model = VPMU_GUEST_AMD_V2, .rdpmc = true};
	uint32_t v[4] = {0};

	cr_assert_eq(bed_init(&b, &cfg, NULL), 0);
	vpmu_guest_cpuid(b.g, 0x40000001, 0, v);
	cr_assert_eq(v[1], VPMU_PV_FEAT_TIMES | VPMU_PV_FEAT_RDPMC);
}

/* Whose rules the local APIC follows. */
Test(guest_regs, vendor)
{
	for (unsigned int k = 0; k < NR_MACHINES; k++) {
		enum vpmu_guest_model model = machines[k].cfg.model;
		bool intel = !strncmp(vpmu_guest_model_name(model), "intel", 5);

		start_with(&machines[k], NULL);
		cr_assert_eq(vpmu_guest_is_intel(b.g), intel, "line %d", machines[k].line);
	}
}

/* A host without branch records: the models that would have them go without. */
Test(guest_regs, host_without_lbr)
{
	static const unsigned int which[] = {M_V5, M_AMD};
	struct vpmu_emupmu_opts emulator = {.no_lbr = true};

	for (unsigned int k = 0; k < 2; k++) {
		const struct machine *m = &machines[which[k]];
		uint32_t v[4] = {0};
		uint64_t val;

		start_with(m, &emulator);
		vpmu_guest_cpuid(b.g, k ? 0x80000022 : 0x1c, 0, v);
		cr_assert_eq(v[0], k ? 5 : 0);
		cr_assert_eq(v[1], k ? 6 : 0);
		cr_assert_eq(vpmu_guest_rdmsr(b.g, k ? 0xc0010300 : 0x1500, &val), -EFAULT);
		cr_assert_eq(vpmu_guest_wrmsr(b.g, k ? 0xc000010f : 0x14ce, 0), -EFAULT);
		cr_assert_eq(vpmu_guest_wrmsr(b.g, 0x1d9, 1 << 11), -EFAULT);
	}
}

/* ---- names and limits ---- */

Test(guest_regs, model_names)
{
	static const char *const bad[] = {"",	 "intel",  "intel-v1", "intel-v6", "INTEL-V2",
					  "amd", "amd-v3", "none ",    "?"};
	enum vpmu_guest_model m;

	for (int i = VPMU_GUEST_NONE; i < VPMU_GUEST_MODELS; i++) {
		cr_assert_eq(vpmu_guest_model_parse(vpmu_guest_model_name(i), &m), 0);
		cr_assert_eq(m, (enum vpmu_guest_model)i);
	}
	cr_assert_eq(vpmu_guest_model_parse("intel-v5", &m), 0);
	cr_assert_eq(m, VPMU_GUEST_INTEL_V5);
	for (unsigned int i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		cr_assert_eq(vpmu_guest_model_parse(bad[i], &m), -EINVAL);
}

static const struct {
	int line;
	struct vpmu_guest_cfg cfg;
	int ret;
} cfg_rows[] = {
	{L, {.model = VPMU_GUEST_INTEL_V2, .gp = 1, .fixed = 1}, -EINVAL},
	{L, {.model = VPMU_GUEST_INTEL_V5, .gp = 1}, -EINVAL},
	{L, {.model = VPMU_GUEST_INTEL_V2, .gp = 2, .fixed = 1}, 0},
	{L, {.model = VPMU_GUEST_INTEL_V2, .gp = 8, .fixed = 4}, 0},
	{L, {.model = VPMU_GUEST_INTEL_V2, .gp = 9}, -EINVAL},
	{L, {.model = VPMU_GUEST_INTEL_V5, .fixed = 5}, -EINVAL},
	{L, {.model = VPMU_GUEST_INTEL_V3, .gp = 8, .fixed = 4}, 0},
	{L, {.model = VPMU_GUEST_INTEL_V4, .gp = 9}, -EINVAL},
	{L, {.model = VPMU_GUEST_AMD_K7, .gp = 4}, 0},
	{L, {.model = VPMU_GUEST_AMD_K7, .gp = 6}, -EINVAL},
	{L, {.model = VPMU_GUEST_AMD_K7, .fixed = 1}, -EINVAL},
	{L, {.model = VPMU_GUEST_AMD_CORE, .gp = 6}, 0},
	{L, {.model = VPMU_GUEST_AMD_CORE, .gp = 4}, -EINVAL},
	{L, {.model = VPMU_GUEST_MODELS}, -EINVAL},
	{L, {.model = VPMU_GUEST_AMD_V2, .gp = 3}, -EINVAL},
	{L, {.model = VPMU_GUEST_AMD_V2, .gp = 4}, 0},
	{L, {.model = VPMU_GUEST_AMD_V2, .gp = 16}, -EINVAL}, /* NumPerfCtrCore has 4 bits */
	{L, {.model = VPMU_GUEST_AMD_V2, .fixed = 1}, -EINVAL},
	{L, {.model = VPMU_GUEST_AMD_V2, .gp = ~0u}, -EINVAL},
	{L, {.model = (enum vpmu_guest_model)99}, -EINVAL},
	{L, {.model = (enum vpmu_guest_model) - 1}, -EINVAL},
};

Test(guest_regs, cfg_limits)
{
	for (unsigned int k = 0; k < sizeof(cfg_rows) / sizeof(cfg_rows[0]); k++) {
		cr_assert_eq(bed_init(&b, &cfg_rows[k].cfg, NULL), cfg_rows[k].ret, "line %d",
			     cfg_rows[k].line);
		finish(); /* of what failed to init is harmless */
	}
}
