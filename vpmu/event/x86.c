// SPDX-License-Identifier: LGPL-2.1-or-later
/*
 * x86: Intel's and AMD's encodings of events, and how to recognize these CPUs. Called through the
 * tables of vendor.h by the rest of this folder; pure, except for queries of the running CPU.
 *
 * IA32_PERFEVTSELx (SDM vol. 3, figure 20-1) and AMD's PerfEvtSeln (APM vol. 2, 13.2.1) agree on
 * bits 0..31; AMD has event select [11:8] in bits 35:32. A raw key has the same fields at other
 * positions.
 */
#include <stddef.h>
#include <string.h>

#ifdef __x86_64__
#include <cpuid.h>
#endif

#include "vpmu/event/vendor.h"

#define EVTSEL_EVENT	    0xffULL
#define EVTSEL_UMASK_SHIFT  8
#define EVTSEL_USR	    (1ULL << 16)
#define EVTSEL_OS	    (1ULL << 17)
#define EVTSEL_EDGE	    (1ULL << 18)
#define EVTSEL_INT	    (1ULL << 20)
#define EVTSEL_ANY	    (1ULL << 21) /* Intel */
#define EVTSEL_EN	    (1ULL << 22)
#define EVTSEL_INV	    (1ULL << 23)
#define EVTSEL_CMASK_SHIFT  24
#define EVTSEL_IN_TX	    (3ULL << 32) /* Intel */
#define EVTSEL_AMD_EVENT_HI (0xfULL << 32)
#define EVTSEL_HOST_GUEST   (3ULL << 40) /* AMD HostOnly, GuestOnly */

/* The bits that select the event, and those that libpfm sets in addition. */
#define EVTSEL_COUNTED	0xff84ffffULL
#define EVTSEL_PLUMBING (EVTSEL_USR | EVTSEL_OS | EVTSEL_INT | EVTSEL_EN)

#define INTEL_MASK EVTSEL_COUNTED
#define AMD_MASK   (EVTSEL_COUNTED | EVTSEL_AMD_EVENT_HI)

/* Configs that perf and libpfm invented for Intel's fixed counters without an event select: event
 * 0, umask n + 1 (kernel: arch/x86/events/intel/core.c, the FIXED_EVENT_CONSTRAINT lists). */
#define PSEUDO_REF_CYCLES 0x0300
#define PSEUDO_SLOTS	  0x0400

/* ---- the running CPU ---------------------------------------------------------------------- */

/* CPUID @leaf into @r (eax, ebx, ecx, edx). Returns false if there is no such leaf, or not on x86.
 */
static bool x86_cpuid(unsigned int leaf, unsigned int r[4])
{
#ifdef __x86_64__
	return __get_cpuid(leaf, &r[0], &r[1], &r[2], &r[3]);
#else
	return false;
#endif
}

static bool cpu_vendor_is(const char *vendor)
{
	unsigned int r[4];

	return x86_cpuid(0, r) && !memcmp(vendor, &r[1], 4) && !memcmp(vendor + 4, &r[3], 4) &&
	       !memcmp(vendor + 8, &r[2], 4);
}

static bool intel_is_host(void)
{
	return cpu_vendor_is("GenuineIntel");
}

static bool amd_is_host(void)
{
	return cpu_vendor_is("AuthenticAMD") || cpu_vendor_is("HygonGenuine");
}

/* SDM vol. 3, 20.2.1.2: the CPU has event n of table 20-1 when CPUID 0AH EAX[31:24] > n and EBX[n]
 * is 0. Slots is number 7. */
static bool intel_has_slots(void)
{
	unsigned int r[4];

	return x86_cpuid(0xa, r) && r[0] >> 24 > 7 && !(r[1] & 1u << 7);
}

/* PPR: LsDispatch has been PMCx029 since family 17h. */
static bool amd_has_ls_dispatch(void)
{
	unsigned int r[4], family;

	if (!x86_cpuid(1, r))
		return false;
	family = r[0] >> 8 & 0xf;
	if (family == 0xf)
		family += r[0] >> 20 & 0xff;
	return family >= 0x17;
}

static bool intel_table_has(const char *event, enum vpmu_generic ev)
{
	return vpmu_pfm_host_has(event, INTEL_MASK, (uint64_t)vpmu_event_intel.generic[ev]);
}

static bool intel_host_has(enum vpmu_generic ev)
{
	switch (ev) {
	case VPMU_EV_BRANCHES_TAKEN:
		return intel_table_has("BR_INST_RETIRED:NEAR_TAKEN", ev);
	case VPMU_EV_BRANCHES_CONDITIONAL:
		return intel_table_has("BR_INST_RETIRED:COND", ev);
	case VPMU_EV_LOADS:
		return intel_table_has("MEM_INST_RETIRED:ALL_LOADS", ev) ||
		       intel_table_has("MEM_UOPS_RETIRED:ALL_LOADS", ev);
	case VPMU_EV_STORES:
		return intel_table_has("MEM_INST_RETIRED:ALL_STORES", ev) ||
		       intel_table_has("MEM_UOPS_RETIRED:ALL_STORES", ev);
	case VPMU_EV_SLOTS:
		return intel_has_slots();
	default:
		return false;
	}
}

static bool amd_host_has(enum vpmu_generic ev)
{
	return ev == VPMU_EV_BRANCHES_TAKEN || amd_has_ls_dispatch();
}

/* ---- raw keys ----------------------------------------------------------------------------- */

static uint64_t x86_encode(uint64_t config)
{
	uint64_t key = (config & EVTSEL_EVENT) | (config & EVTSEL_AMD_EVENT_HI) >> 24;

	key |= (config >> EVTSEL_UMASK_SHIFT & 0xff) << VPMU_KEY_UMASK_SHIFT;
	key |= (config >> EVTSEL_CMASK_SHIFT & 0xff) << VPMU_KEY_CMASK_SHIFT;
	if (config & EVTSEL_INV)
		key |= VPMU_KEY_INV;
	if (config & EVTSEL_EDGE)
		key |= VPMU_KEY_EDGE;
	return key;
}

/* SDM vol. 3, 20.2.1.1: with a zero counter mask the INV flag is ignored. */
static uint64_t intel_encode(uint64_t config)
{
	if (!(config >> EVTSEL_CMASK_SHIFT & 0xff))
		config &= ~EVTSEL_INV;
	return x86_encode(config);
}

static uint64_t x86_decode(vpmu_key_t key)
{
	uint64_t config = key & EVTSEL_EVENT;

	config |= (key >> VPMU_KEY_UMASK_SHIFT & 0xff) << EVTSEL_UMASK_SHIFT;
	config |= (key >> VPMU_KEY_CMASK_SHIFT & 0xff) << EVTSEL_CMASK_SHIFT;
	config |= (key & 0xf00) << 24;
	if (key & VPMU_KEY_INV)
		config |= EVTSEL_INV;
	if (key & VPMU_KEY_EDGE)
		config |= EVTSEL_EDGE;
	return config;
}

static int intel_pseudo(uint64_t config)
{
	if (config == PSEUDO_REF_CYCLES)
		return VPMU_EV_REF_CYCLES;
	return config == PSEUDO_SLOTS ? VPMU_EV_SLOTS : -1;
}

static int amd_pseudo(uint64_t config)
{
	return -1;
}

/* ---- libpfm4 ------------------------------------------------------------------------------ */

static bool amd_pfm_has(const char *pmu)
{
	return !strncmp(pmu, "amd64_", 6);
}

/*
 * A libpfm built for x86 has only Intel's and AMD's tables, and Intel's have no common prefix;
 * other builds have neither. Two of Intel's differ from the manuals: Pentium 4 in the layout of
 * event selects, Knights Corner in the event codes.
 */
static bool intel_pfm_has(const char *pmu)
{
#ifdef __x86_64__
	return !amd_pfm_has(pmu) && strncmp(pmu, "netburst", 8) && strcmp(pmu, "knc") != 0;
#else
	return false;
#endif
}

static uint64_t x86_pfm_priv(uint64_t code)
{
	return (code & EVTSEL_USR ? VPMU_KEY_USR : 0) | (code & EVTSEL_OS ? VPMU_KEY_OS : 0);
}

static const char *x86_refuse(uint64_t extra)
{
	if (extra & EVTSEL_HOST_GUEST)
		return ": write guest only and host only as :G and :H at the end";
	if (extra & EVTSEL_ANY)
		return " needs AnyThread (it counts the other hyper-thread too), which cannot be "
		       "shared";
	return extra ? " needs event select bits that a key does not have, which cannot be shared"
		     : NULL;
}

static const char *intel_pfm_refuse(uint64_t code)
{
	uint64_t extra = code & ~(INTEL_MASK | EVTSEL_PLUMBING);

	if (!(extra & (EVTSEL_HOST_GUEST | EVTSEL_ANY)) && extra & EVTSEL_IN_TX)
		return " needs transaction filtering, which cannot be shared";
	return x86_refuse(extra);
}

static const char *amd_pfm_refuse(uint64_t code)
{
	return x86_refuse(code & ~(AMD_MASK | EVTSEL_PLUMBING));
}

/* ---- the tables --------------------------------------------------------------------------- */

#define SEL(event, umask) ((event) | (umask) << EVTSEL_UMASK_SHIFT)
#define AMD_SEL(event, umask)                                                                      \
	(((event)&0xff) | (umask) << EVTSEL_UMASK_SHIFT | ((event)&0xf00LL) << 24)

/*
 * perf's cache events as in its tables (kernel: arch/x86/events/intel/core.c, skl_, hsw_ and
 * glc_hw_cache_event_ids), as far as one event select expresses them: those of the last level and
 * of nodes need a second MSR.
 */
static const struct event_cache intel_cache[] = {
	{EVENT_L1D_LOADS, VPMU_EV_LOADS, 0, NULL},
	{EVENT_L1D_LOAD_MISSES, -1, SEL(0x51, 1), "L1D:REPLACEMENT"},
	{EVENT_L1D_STORES, VPMU_EV_STORES, 0, NULL},
	{EVENT_L1I_LOAD_MISSES, -1, SEL(0x83, 2), "ICACHE_64B:IFTAG_MISS"},
	{EVENT_L1I_LOAD_MISSES, -1, SEL(0x80, 2), "ICACHE:MISSES"},
	{EVENT_DTLB_LOADS, VPMU_EV_LOADS, 0, NULL},
	{EVENT_DTLB_LOAD_MISSES, -1, SEL(0x12, 0xe), "DTLB_LOAD_MISSES:WALK_COMPLETED"},
	{EVENT_DTLB_LOAD_MISSES, -1, SEL(0x08, 0xe), "DTLB_LOAD_MISSES:WALK_COMPLETED"},
	{EVENT_DTLB_LOAD_MISSES, -1, SEL(0x08, 1), "DTLB_LOAD_MISSES:MISS_CAUSES_A_WALK"},
	{EVENT_DTLB_STORES, VPMU_EV_STORES, 0, NULL},
	{EVENT_DTLB_STORE_MISSES, -1, SEL(0x13, 0xe), "DTLB_STORE_MISSES:WALK_COMPLETED"},
	{EVENT_DTLB_STORE_MISSES, -1, SEL(0x49, 0xe), "DTLB_STORE_MISSES:WALK_COMPLETED"},
	{EVENT_DTLB_STORE_MISSES, -1, SEL(0x49, 1), "DTLB_STORE_MISSES:MISS_CAUSES_A_WALK"},
	{EVENT_ITLB_LOADS, -1, SEL(0x85, 0x20), "ITLB_MISSES:STLB_HIT"},
	{EVENT_ITLB_LOADS, -1, SEL(0x85, 0x60), "ITLB_MISSES:STLB_HIT"},
	{EVENT_ITLB_LOAD_MISSES, -1, SEL(0x11, 0xe), "ITLB_MISSES:WALK_COMPLETED"},
	{EVENT_ITLB_LOAD_MISSES, -1, SEL(0x85, 0xe), "ITLB_MISSES:WALK_COMPLETED"},
	{EVENT_ITLB_LOAD_MISSES, -1, SEL(0x85, 1), "ITLB_MISSES:MISS_CAUSES_A_WALK"},
	{EVENT_BRANCH_LOADS, VPMU_EV_BRANCHES, 0, NULL},
	{EVENT_BRANCH_LOAD_MISSES, VPMU_EV_BRANCH_MISSES, 0, NULL},
	{.nr = EVENT_CACHE_NR},
};

/* perf's table of family 17h and later (kernel: arch/x86/events/amd/core.c). */
static const struct event_cache amd_cache[] = {
	{EVENT_L1D_LOADS, -1, SEL(0x40, 0), NULL},
	{EVENT_L1D_LOAD_MISSES, -1, SEL(0x60, 0xc8), NULL},
	{EVENT_L1D_PREFETCHES, -1, SEL(0x5a, 0xff), NULL},
	{EVENT_L1I_LOADS, -1, SEL(0x80, 0), NULL},
	{EVENT_L1I_LOAD_MISSES, -1, SEL(0x81, 0), NULL},
	{EVENT_DTLB_LOADS, -1, SEL(0x45, 0xff), NULL},
	{EVENT_DTLB_LOAD_MISSES, -1, SEL(0x45, 0xf0), NULL},
	{EVENT_ITLB_LOADS, -1, SEL(0x84, 0), NULL},
	{EVENT_ITLB_LOAD_MISSES, -1, SEL(0x85, 0xff), NULL},
	{EVENT_BRANCH_LOADS, VPMU_EV_BRANCHES, 0, NULL},
	{EVENT_BRANCH_LOAD_MISSES, VPMU_EV_BRANCH_MISSES, 0, NULL},
	{.nr = EVENT_CACHE_NR},
};

/*
 * Intel: the architectural events of SDM vol. 3, 20.2.1.2, table 20-1 (cycles, instructions,
 * bus-cycles = "unhalted reference cycles", cache-*, branches, branch-misses, slots). C4/20, D0/81
 * and D0/82 are not architectural, but they have been BR_INST_RETIRED.NEAR_TAKEN and
 * MEM_{UOPS,INST}_RETIRED.ALL_{LOADS,STORES} on every core since Sandy Bridge, and C4/11
 * BR_INST_RETIRED.COND since Ice Lake (before, C4/01 was) (SDM vol. 3 ch. 20, event tables);
 * intel_host_has checks them against the running CPU's table before use. ref-cycles has a fixed
 * counter (2) and no event select; fixed counters 0, 1 and 3 count instructions, cycles and slots.
 * perf's stalled-cycles-* is a different event on each model, and on AMD's, so only perf's own ids
 * are used.
 */
const struct event_vendor vpmu_event_intel = {
	.space = VPMU_SPACE_INTEL,
	.name = "intel",
	.config_mask = INTEL_MASK,
	.fields = "event, umask, edge, inv, cmask",
	.generic =
		{
			[VPMU_EV_CYCLES] = SEL(0x3c, 0),
			[VPMU_EV_INSTRUCTIONS] = SEL(0xc0, 0),
			[VPMU_EV_REF_CYCLES] = VPMU_NO_CONFIG,
			[VPMU_EV_BRANCHES] = SEL(0xc4, 0),
			[VPMU_EV_BRANCHES_TAKEN] = SEL(0xc4, 0x20),
			[VPMU_EV_BRANCHES_CONDITIONAL] = SEL(0xc4, 0x11),
			[VPMU_EV_LOADS] = SEL(0xd0, 0x81),
			[VPMU_EV_STORES] = SEL(0xd0, 0x82),
			[VPMU_EV_BRANCH_MISSES] = SEL(0xc5, 0),
			[VPMU_EV_CACHE_REFERENCES] = SEL(0x2e, 0x4f),
			[VPMU_EV_CACHE_MISSES] = SEL(0x2e, 0x41),
			[VPMU_EV_BUS_CYCLES] = SEL(0x3c, 1),
			[VPMU_EV_SLOTS] = SEL(0xa4, 1),
			[VPMU_EV_STALLED_FRONTEND] = VPMU_NO_CONFIG,
			[VPMU_EV_STALLED_BACKEND] = VPMU_NO_CONFIG,
		},
	.encode = intel_encode,
	.decode = x86_decode,
	.is_host = intel_is_host,
	.host_has = intel_host_has,
	.pseudo = intel_pseudo,
	.cache = intel_cache,
	.pfm_has = intel_pfm_has,
	.pfm_priv = x86_pfm_priv,
	.pfm_refuse = intel_pfm_refuse,
};

/*
 * AMD: PPR for family 19h, 2.1.17, core performance monitor counters: PMCx076, 0C0, 0C2, 0C3, 0C4,
 * 0D1, 120 (unhalted cycles at P0 frequency, which is the TSC's rate; family 19h model 10h and
 * later) and 029 (LsDispatch: on hardware, loads and stores are counted as dispatched). No AMD
 * event has the meaning of cache-* and bus-cycles: perf's own mapping of cache-* counts requests to
 * L2, not to the last level.
 */
const struct event_vendor vpmu_event_amd = {
	.space = VPMU_SPACE_AMD,
	.name = "amd",
	.config_mask = AMD_MASK,
	.fields = "event, umask, edge, inv, cmask",
	.generic =
		{
			[VPMU_EV_CYCLES] = AMD_SEL(0x76, 0),
			[VPMU_EV_INSTRUCTIONS] = AMD_SEL(0xc0, 0),
			[VPMU_EV_REF_CYCLES] = AMD_SEL(0x120, 1),
			[VPMU_EV_BRANCHES] = AMD_SEL(0xc2, 0),
			[VPMU_EV_BRANCHES_TAKEN] = AMD_SEL(0xc4, 0),
			[VPMU_EV_BRANCHES_CONDITIONAL] = AMD_SEL(0xd1, 0),
			[VPMU_EV_LOADS] = AMD_SEL(0x29, 1),
			[VPMU_EV_STORES] = AMD_SEL(0x29, 2),
			[VPMU_EV_BRANCH_MISSES] = AMD_SEL(0xc3, 0),
			[VPMU_EV_CACHE_REFERENCES] = VPMU_NO_CONFIG,
			[VPMU_EV_CACHE_MISSES] = VPMU_NO_CONFIG,
			[VPMU_EV_BUS_CYCLES] = VPMU_NO_CONFIG,
			[VPMU_EV_SLOTS] = VPMU_NO_CONFIG,
			[VPMU_EV_STALLED_FRONTEND] = VPMU_NO_CONFIG,
			[VPMU_EV_STALLED_BACKEND] = VPMU_NO_CONFIG,
		},
	.encode = x86_encode,
	.decode = x86_decode,
	.is_host = amd_is_host,
	.wrong_hw_ids = 1u << VPMU_EV_CACHE_REFERENCES | 1u << VPMU_EV_CACHE_MISSES |
			1u << VPMU_EV_BUS_CYCLES,
	.host_has = amd_host_has,
	.pseudo = amd_pseudo,
	.cache = amd_cache,
	.cache_host = amd_has_ls_dispatch,
	.pfm_has = amd_pfm_has,
	.pfm_priv = x86_pfm_priv,
	.pfm_refuse = amd_pfm_refuse,
};
