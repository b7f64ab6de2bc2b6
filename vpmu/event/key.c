// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Event keys: the tables of what is the same event on which vendor, and the pure functions on
 * keys. Called from register models and the switch path's slow edges; no locks, no allocation.
 *
 * A key is canonical: two spellings of one meaning must give one u64, or they would not share a
 * counter. vpmu_key_valid() therefore refuses a raw key that has a generic twin.
 */
#include "vpmu/event/event.h"

#include <errno.h>
#include <stdio.h>

#include <linux/perf_event.h>

#include "vpmu/event/priv.h"

#define AMD(event, umask)   ((event) | (umask) << 16)
#define INTEL(event, umask) ((event) | (umask) << 8)

/*
 * Intel: architectural events of SDM vol. 3, 20.2.1.2, table 20-1 (cycles, instructions, bus-cycles
 * = "unhalted reference cycles", cache-*, branches, branch-misses, slots). C4/20, D0/81 and D0/82
 * are not architectural but have been BR_INST_RETIRED.NEAR_TAKEN and MEM_{UOPS,INST}_RETIRED.ALL_
 * {LOADS,STORES} on every core since Sandy Bridge (SDM vol. 3 ch. 20 event tables); to_attr asks
 * the running CPU's table before it relies on them.
 * AMD: PPR for family 19h, 2.1.17 core performance monitor counters: PMCx076, 0C0, 0C2, 0C3, 0C4,
 * 120 (unhalted cycles at P0 frequency, the TSC's rate; family 19h model 10h and later) and 029
 * (LsDispatch: on hardware loads and stores are counted as dispatched). cache-* and bus-cycles have
 * no AMD event of that meaning: perf's own AMD mapping counts requests to L2, not to the last
 * level.
 */
const struct generic_row vpmu_generic_rows[VPMU_EV_GENERIC_NR] = {
	[VPMU_EV_CYCLES] = {"cycles", "cpu-cycles", "unhalted core cycles", INTEL(0x3c, 0),
			    AMD(0x76, 0), PERF_COUNT_HW_CPU_CYCLES},
	[VPMU_EV_INSTRUCTIONS] = {"instructions", NULL, "retired instructions", INTEL(0xc0, 0),
				  AMD(0xc0, 0), PERF_COUNT_HW_INSTRUCTIONS},
	[VPMU_EV_REF_CYCLES] = {"ref-cycles", NULL, "unhalted cycles at the TSC's rate", -1,
				AMD(0x120, 1), PERF_COUNT_HW_REF_CPU_CYCLES},
	[VPMU_EV_BRANCHES] = {"branches", "branch-instructions", "retired branches", INTEL(0xc4, 0),
			      AMD(0xc2, 0), PERF_COUNT_HW_BRANCH_INSTRUCTIONS},
	[VPMU_EV_BRANCHES_TAKEN] = {"branches-taken", NULL, "retired taken branches",
				    INTEL(0xc4, 0x20), AMD(0xc4, 0), -1},
	[VPMU_EV_LOADS] = {"loads", NULL, "retired instructions that load", INTEL(0xd0, 0x81),
			   AMD(0x29, 1), -1},
	[VPMU_EV_STORES] = {"stores", NULL, "retired instructions that store", INTEL(0xd0, 0x82),
			    AMD(0x29, 2), -1},
	[VPMU_EV_BRANCH_MISSES] = {"branch-misses", NULL, "retired mispredicted branches",
				   INTEL(0xc5, 0), AMD(0xc3, 0), PERF_COUNT_HW_BRANCH_MISSES},
	[VPMU_EV_CACHE_REFERENCES] = {"cache-references", NULL,
				      "references to the last-level cache", INTEL(0x2e, 0x4f), -1,
				      PERF_COUNT_HW_CACHE_REFERENCES},
	[VPMU_EV_CACHE_MISSES] = {"cache-misses", NULL, "misses of the last-level cache",
				  INTEL(0x2e, 0x41), -1, PERF_COUNT_HW_CACHE_MISSES},
	[VPMU_EV_BUS_CYCLES] = {"bus-cycles", NULL, "unhalted cycles of the reference clock",
				INTEL(0x3c, 1), -1, PERF_COUNT_HW_BUS_CYCLES},
	[VPMU_EV_SLOTS] = {"slots", NULL, "top-down issue slots", INTEL(0xa4, 1), -1, -1},
};

/*
 * enum perf_sw_ids of linux/perf_event.h. The kernel counts them for a thread in guest and host
 * alike, whatever exclude_host and exclude_guest say (kernel/events/core.c: perf_exclude_event()
 * looks at user and kernel only, and the clocks at nothing). bpf-output (10) counts nothing.
 */
const struct software_row vpmu_software_rows[VPMU_SW_NR] = {
	[PERF_COUNT_SW_CPU_CLOCK] = {"cpu-clock", NULL, "CPU clock, ns", SW_PRIV_NONE},
	[PERF_COUNT_SW_TASK_CLOCK] = {"task-clock", NULL, "time the thread ran, ns", SW_PRIV_NONE},
	[PERF_COUNT_SW_PAGE_FAULTS] = {"page-faults", "faults", "page faults", SW_PRIV_REGS},
	[PERF_COUNT_SW_CONTEXT_SWITCHES] = {"context-switches", "cs", "context switches",
					    SW_PRIV_NONE},
	[PERF_COUNT_SW_CPU_MIGRATIONS] = {"cpu-migrations", "migrations",
					  "moves of the thread to another CPU", SW_PRIV_NONE},
	[PERF_COUNT_SW_PAGE_FAULTS_MIN] = {"minor-faults", NULL, "page faults without I/O",
					   SW_PRIV_REGS},
	[PERF_COUNT_SW_PAGE_FAULTS_MAJ] = {"major-faults", NULL, "page faults with I/O",
					   SW_PRIV_REGS},
	[PERF_COUNT_SW_ALIGNMENT_FAULTS] = {"alignment-faults", NULL,
					    "unaligned accesses the kernel fixed up", SW_PRIV_REGS},
	[PERF_COUNT_SW_EMULATION_FAULTS] = {"emulation-faults", NULL,
					    "instructions the kernel emulated", SW_PRIV_REGS},
	[PERF_COUNT_SW_DUMMY] = {"dummy", NULL, "counts nothing", SW_PRIV_NONE},
	[PERF_COUNT_SW_CGROUP_SWITCHES] = {"cgroup-switches", NULL,
					   "context switches to another cgroup", SW_PRIV_NONE},
};

uint64_t vpmu_raw_config_mask(enum vpmu_space space)
{
	if (space == VPMU_SPACE_INTEL)
		return EVTSEL_COUNTED;
	if (space == VPMU_SPACE_AMD)
		return EVTSEL_COUNTED | EVTSEL_AMD_EVENT_HI;
	return 0;
}

/* The table's encoding of generic event @ev for @space as PERFEVTSEL bits, or -1. */
static int64_t generic_config(unsigned int ev, enum vpmu_space space)
{
	const struct generic_row *row = &vpmu_generic_rows[ev];

	if (space == VPMU_SPACE_INTEL)
		return row->intel;
	if (space != VPMU_SPACE_AMD || row->amd < 0)
		return -1;
	return (row->amd & 0xff) | (row->amd >> 16 & 0xff) << EVTSEL_UMASK_SHIFT |
	       (int64_t)(row->amd >> 8 & 0xf) << 32;
}

vpmu_key_t vpmu_key_from_raw(enum vpmu_space space, uint64_t config, uint64_t flags)
{
	uint64_t mask = vpmu_raw_config_mask(space);
	uint64_t event;
	unsigned int ev;
	vpmu_key_t key;

	if (!mask)
		return 0;
	config &= mask;
	flags &= VPMU_KEY_FLAGS;

	/* SDM vol. 3, 20.2.1.1: with a zero counter mask the INV flag is ignored. */
	if (space == VPMU_SPACE_INTEL && !(config >> EVTSEL_CMASK_SHIFT & 0xff))
		config &= ~EVTSEL_INV;

	for (ev = 0; ev < VPMU_EV_GENERIC_NR; ev++) {
		if (generic_config(ev, space) == (int64_t)config)
			return vpmu_key_make(VPMU_SPACE_GENERIC, (uint16_t)ev, flags);
	}

	/* The mask has cleared bits 35:32 for Intel. */
	event = (config & EVTSEL_EVENT) | (config >> 24 & 0xf00);
	key = vpmu_key_make(space, (uint16_t)event, flags);
	key |= (config >> EVTSEL_UMASK_SHIFT & 0xff) << VPMU_KEY_UMASK_SHIFT;
	key |= (config >> EVTSEL_CMASK_SHIFT & 0xff) << VPMU_KEY_CMASK_SHIFT;
	if (config & EVTSEL_INV)
		key |= VPMU_KEY_INV;
	if (config & EVTSEL_EDGE)
		key |= VPMU_KEY_EDGE;
	return key;
}

/* PERFEVTSEL bits of a key of a raw space, as they are. */
static uint64_t raw_config(vpmu_key_t key)
{
	uint64_t config = key & EVTSEL_EVENT;

	config |= (key >> VPMU_KEY_UMASK_SHIFT & 0xff) << EVTSEL_UMASK_SHIFT;
	config |= (key >> VPMU_KEY_CMASK_SHIFT & 0xff) << EVTSEL_CMASK_SHIFT;
	config |= (uint64_t)(vpmu_key_event(key) & 0xf00) << 24;
	if (key & VPMU_KEY_INV)
		config |= EVTSEL_INV;
	if (key & VPMU_KEY_EDGE)
		config |= EVTSEL_EDGE;
	return config;
}

int vpmu_key_to_raw(vpmu_key_t key, enum vpmu_space space, uint64_t *config)
{
	int64_t generic;

	if (!vpmu_key_valid(key))
		return -EOPNOTSUPP;
	if (space != VPMU_SPACE_INTEL && space != VPMU_SPACE_AMD)
		return -EOPNOTSUPP;
	if (vpmu_key_space(key) == space) {
		*config = raw_config(key);
		return 0;
	}
	if (vpmu_key_space(key) != VPMU_SPACE_GENERIC)
		return -EOPNOTSUPP;
	generic = generic_config(vpmu_key_event(key), space);
	if (generic < 0)
		return -EOPNOTSUPP;
	*config = (uint64_t)generic;
	return 0;
}

bool vpmu_key_valid(vpmu_key_t key)
{
	const uint64_t plain =
		VPMU_KEY_EVENT_MASK | VPMU_KEY_FLAGS | 0xfULL << VPMU_KEY_SPACE_SHIFT;
	enum vpmu_space space = vpmu_key_space(key);
	unsigned int event = vpmu_key_event(key);

	if (key & ~VPMU_KEY_VALID_MASK || !(key & VPMU_KEY_PRIV) || !(key & VPMU_KEY_WHERE))
		return false;

	switch (space) {
	case VPMU_SPACE_GENERIC:
		return !(key & ~plain) && event < VPMU_EV_GENERIC_NR;
	case VPMU_SPACE_SOFTWARE:
		if (key & ~plain || event >= VPMU_SW_NR || !vpmu_software_rows[event].name)
			return false;
		/* Only what the kernel can tell apart is a meaning of its own. */
		if ((key & VPMU_KEY_WHERE) != VPMU_KEY_WHERE)
			return false;
		return vpmu_software_rows[event].priv == SW_PRIV_REGS ||
		       (key & VPMU_KEY_PRIV) == VPMU_KEY_PRIV;
	case VPMU_SPACE_INTEL:
	case VPMU_SPACE_AMD:
		return vpmu_key_from_raw(space, raw_config(key), key) == key;
	}
	return false;
}

const char *vpmu_event_name(vpmu_key_t key, char buf[VPMU_EVENT_NAME_MAX])
{
	enum vpmu_space space = vpmu_key_space(key);
	char mods[6] = "";
	char *m = mods;

	if (!vpmu_key_valid(key)) {
		snprintf(buf, VPMU_EVENT_NAME_MAX, "invalid-0x%llx", (unsigned long long)key);
		return buf;
	}

	if (!(key & VPMU_KEY_OS))
		*m++ = 'u';
	if (!(key & VPMU_KEY_USR))
		*m++ = 'k';
	/* The default of a name: guests, or both for software events, which know no other. */
	if (space != VPMU_SPACE_SOFTWARE && key & VPMU_KEY_HOST) {
		if (key & VPMU_KEY_GUEST)
			*m++ = 'G';
		*m++ = 'H';
	}
	*m = '\0';

	switch (space) {
	case VPMU_SPACE_GENERIC:
		snprintf(buf, VPMU_EVENT_NAME_MAX, "%s%s%s",
			 vpmu_generic_rows[vpmu_key_event(key)].name, *mods ? ":" : "", mods);
		break;
	case VPMU_SPACE_SOFTWARE:
		snprintf(buf, VPMU_EVENT_NAME_MAX, "%s%s%s",
			 vpmu_software_rows[vpmu_key_event(key)].name, *mods ? ":" : "", mods);
		break;
	default:
		/* The vendor is part of the name: r1a8 of the two are different events. */
		snprintf(buf, VPMU_EVENT_NAME_MAX, "%s::r%llx%s%s",
			 space == VPMU_SPACE_INTEL ? "intel" : "amd",
			 (unsigned long long)raw_config(key), *mods ? ":" : "", mods);
		break;
	}
	return buf;
}

int vpmu_event_list(int (*fn)(const struct vpmu_event_info *info, void *arg), void *arg)
{
	struct vpmu_event_info info;
	unsigned int i;
	int rc;

	for (i = 0; i < VPMU_EV_GENERIC_NR; i++) {
		info.name = vpmu_generic_rows[i].name;
		info.alias = vpmu_generic_rows[i].alias;
		info.desc = vpmu_generic_rows[i].desc;
		info.key = vpmu_key_generic((enum vpmu_generic)i, VPMU_KEY_PRIV);
		rc = fn(&info, arg);
		if (rc)
			return rc;
	}
	for (i = 0; i < VPMU_SW_NR; i++) {
		if (!vpmu_software_rows[i].name)
			continue;
		info.name = vpmu_software_rows[i].name;
		info.alias = vpmu_software_rows[i].alias;
		info.desc = vpmu_software_rows[i].desc;
		info.key = vpmu_key_make(VPMU_SPACE_SOFTWARE, (uint16_t)i, VPMU_KEY_FLAGS);
		rc = fn(&info, arg);
		if (rc)
			return rc;
	}
	return 0;
}
