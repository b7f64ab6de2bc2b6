// SPDX-License-Identifier: LGPL-2.1-or-later
/*
 * arm64: the events of the Arm architecture (PMUv3), and how to recognize a host that has them.
 * Called through the table of vendor.h by the rest of this folder; pure, except for queries of the
 * running host. It must not match CPUs with other event numbers than Arm's, for example Apple's.
 *
 * An event is a 16-bit number, PMEVTYPER<n>_EL0.evtCount (Arm ARM, DDI 0487; perf's config
 * bits 0..15). A key of this space has no umask and no cmask.
 */
#include <dirent.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "vpmu/event/vendor.h"

#define EVENT_MASK 0xffffULL

/* Bits of libpfm's codes: excluded levels. */
#define PFM_NO_HV   (1ULL << 27)
#define PFM_NO_OS   (1ULL << 30)
#define PFM_NO_USR  (1ULL << 31)
#define PFM_LEVELS  (PFM_NO_HV | PFM_NO_OS | PFM_NO_USR)
#define PMU_DEVICES "/sys/bus/event_source/devices"

/* ---- the running host --------------------------------------------------------------------- */

/* perf's names for PMUv3: armv8_pmuv3_0, armv8_cortex_a72, armv9_cortex_a510. */
static bool is_pmuv3(const char *pmu)
{
	return !strncmp(pmu, "armv8_", 6) || !strncmp(pmu, "armv9_", 6);
}

/*
 * True if the host has PMUv3 PMUs and all of them have @event, which perf lists if the CPU
 * implements it (PMCEID). @event NULL: any event.
 */
static bool pmus_have(const char *event)
{
	bool all = true, any = false;
	DIR *dir = opendir(PMU_DEVICES);
	struct dirent *d;
	char path[400];

	if (!dir)
		return false;
	while (all && (d = readdir(dir))) {
		if (!is_pmuv3(d->d_name))
			continue;
		any = true;
		snprintf(path, sizeof(path), PMU_DEVICES "/%s/events/%s", d->d_name,
			 event ? event : "");
		all = !event || !access(path, F_OK);
	}
	closedir(dir);
	return any && all;
}

static bool is_host(void)
{
#ifdef __aarch64__
	return pmus_have(NULL);
#else
	return false;
#endif
}

static bool host_has(enum vpmu_generic ev)
{
	static const char *const names[VPMU_EV_GENERIC_NR] = {
		[VPMU_EV_REF_CYCLES] = "cnt_cycles",
		[VPMU_EV_BRANCHES] = "br_retired",
		[VPMU_EV_LOADS] = "ld_retired",
		[VPMU_EV_STORES] = "st_retired",
		[VPMU_EV_BRANCH_MISSES] = "br_mis_pred_retired",
		[VPMU_EV_CACHE_REFERENCES] = "ll_cache",
		[VPMU_EV_CACHE_MISSES] = "ll_cache_miss",
	};

	return names[ev] && pmus_have(names[ev]);
}

/* ---- raw keys ----------------------------------------------------------------------------- */

static uint64_t arm64_encode(uint64_t config)
{
	return config;
}

static uint64_t arm64_decode(vpmu_key_t key)
{
	return key & VPMU_KEY_EVENT_MASK;
}

static int pseudo(uint64_t config)
{
	return -1;
}

/* ---- libpfm4 ------------------------------------------------------------------------------ */

/* A libpfm built for arm64 has core PMUs arm_n1, arm_v1 and so on; other builds have none of these.
 */
static bool pfm_has(const char *pmu)
{
	return !strncmp(pmu, "arm_", 4);
}

static uint64_t arm64_pfm_priv(uint64_t code)
{
	return (code & PFM_NO_USR ? 0 : VPMU_KEY_USR) | (code & PFM_NO_OS ? 0 : VPMU_KEY_OS);
}

static const char *pfm_refuse(uint64_t code)
{
	if (code & ~(EVENT_MASK | PFM_LEVELS))
		return " needs event select bits that a key does not have, which cannot be shared";
	return code & PFM_NO_HV ? NULL : ": there is no hypervisor level; expected :u and :k";
}

/* ---- the tables ---------------------------------------------------------------------------- */

/* perf's cache events (kernel: drivers/perf/arm_pmuv3.c, armv8_pmuv3_perf_cache_map). */
static const struct event_cache arm64_cache[] = {
	{EVENT_L1D_LOADS, -1, 0x04, NULL},
	{EVENT_L1D_LOAD_MISSES, -1, 0x03, NULL},
	{EVENT_L1I_LOADS, -1, 0x14, NULL},
	{EVENT_L1I_LOAD_MISSES, -1, 0x01, NULL},
	{EVENT_LLC_LOADS, -1, 0x36, NULL},
	{EVENT_LLC_LOAD_MISSES, -1, 0x37, NULL},
	{EVENT_DTLB_LOADS, -1, 0x25, NULL},
	{EVENT_DTLB_LOAD_MISSES, -1, 0x05, NULL},
	{EVENT_ITLB_LOADS, -1, 0x26, NULL},
	{EVENT_ITLB_LOAD_MISSES, -1, 0x02, NULL},
	{EVENT_BRANCH_LOADS, -1, 0x12, NULL},
	{EVENT_BRANCH_LOAD_MISSES, -1, 0x10, NULL},
	{.nr = EVENT_CACHE_NR},
};

/*
 * Arm ARM, "PMU events and event numbers": CPU_CYCLES, INST_RETIRED, CNT_CYCLES (cycles of the
 * system counter, Arm's equivalent of the TSC), BR_RETIRED, LD_RETIRED, ST_RETIRED,
 * BR_MIS_PRED_RETIRED, LL_CACHE, LL_CACHE_MISS, STALL_FRONTEND and STALL_BACKEND. perf's own ids of
 * some kinds are other events: its branches are PC_WRITE_RETIRED (taken ones), its branch-misses
 * BR_MIS_PRED (speculative ones, too), its cache-* those of L1, and its bus-cycles are of the bus.
 * All of these can be counted as raw events.
 */
const struct event_vendor vpmu_event_arm = {
	.space = VPMU_SPACE_ARM,
	.name = "arm",
	.config_mask = EVENT_MASK,
	.fields = "the 16-bit event number",
	.generic =
		{
			[VPMU_EV_CYCLES] = 0x11,
			[VPMU_EV_INSTRUCTIONS] = 0x08,
			[VPMU_EV_REF_CYCLES] = 0x4004,
			[VPMU_EV_BRANCHES] = 0x21,
			[VPMU_EV_BRANCHES_TAKEN] = VPMU_NO_CONFIG,
			[VPMU_EV_BRANCHES_CONDITIONAL] = VPMU_NO_CONFIG,
			[VPMU_EV_LOADS] = 0x06,
			[VPMU_EV_STORES] = 0x07,
			[VPMU_EV_BRANCH_MISSES] = 0x22,
			[VPMU_EV_CACHE_REFERENCES] = 0x32,
			[VPMU_EV_CACHE_MISSES] = 0x33,
			[VPMU_EV_BUS_CYCLES] = VPMU_NO_CONFIG,
			[VPMU_EV_SLOTS] = VPMU_NO_CONFIG,
			[VPMU_EV_STALLED_FRONTEND] = 0x23,
			[VPMU_EV_STALLED_BACKEND] = 0x24,
		},
	.encode = arm64_encode,
	.decode = arm64_decode,
	.is_host = is_host,
	.wrong_hw_ids = 1u << VPMU_EV_REF_CYCLES | 1u << VPMU_EV_BRANCHES |
			1u << VPMU_EV_BRANCH_MISSES | 1u << VPMU_EV_CACHE_REFERENCES |
			1u << VPMU_EV_CACHE_MISSES | 1u << VPMU_EV_BUS_CYCLES,
	.host_has = host_has,
	.pseudo = pseudo,
	.cache = arm64_cache,
	.pfm_has = pfm_has,
	.pfm_priv = arm64_pfm_priv,
	.pfm_refuse = pfm_refuse,
};
