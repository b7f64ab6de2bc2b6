/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Vendor-specific parts of events: one table per key space of raw events.
 *
 * The other files of this folder use these tables and contain no vendor's encodings. Each
 * architecture has one file with its tables (x86.c, arm64.c); a new one needs a file and a line in
 * vendor.c. Private to this folder.
 *
 * A "config" is a vendor's event select without the bits for privilege levels, enable and
 * interrupt, as in perf_event_attr.config of a raw event.
 */
#pragma once

#include "vpmu/event/key.h"

#define VPMU_NO_CONFIG (-1)

/*
 * perf's cache events. An event of a vendor: its generic event, or -1 and its config. @pfm: the
 * name under which libpfm's table of the running CPU must have this config; NULL: no need.
 */
enum event_cache_nr {
	EVENT_L1D_LOADS,
	EVENT_L1D_LOAD_MISSES,
	EVENT_L1D_STORES,
	EVENT_L1D_PREFETCHES,
	EVENT_L1I_LOADS,
	EVENT_L1I_LOAD_MISSES,
	EVENT_LLC_LOADS,
	EVENT_LLC_LOAD_MISSES,
	EVENT_LLC_STORES,
	EVENT_LLC_STORE_MISSES,
	EVENT_DTLB_LOADS,
	EVENT_DTLB_LOAD_MISSES,
	EVENT_DTLB_STORES,
	EVENT_DTLB_STORE_MISSES,
	EVENT_ITLB_LOADS,
	EVENT_ITLB_LOAD_MISSES,
	EVENT_BRANCH_LOADS,
	EVENT_BRANCH_LOAD_MISSES,
	EVENT_NODE_LOADS,
	EVENT_NODE_LOAD_MISSES,
	EVENT_NODE_STORES,
	EVENT_NODE_STORE_MISSES,
	EVENT_CACHE_NR
};

struct event_cache {
	enum event_cache_nr nr; /* EVENT_CACHE_NR ends a table */
	int generic;
	uint64_t config;
	const char *pfm;
};

struct event_vendor {
	enum vpmu_space space;
	const char *name;     /* in event names: "intel" in "intel::r1a8" */
	uint64_t config_mask; /* config bits that a key can hold */
	const char *fields;   /* description of these bits for messages */

	/* The config of each generic event, or VPMU_NO_CONFIG if there is none with exactly that
	 * meaning. */
	int64_t generic[VPMU_EV_GENERIC_NR];

	/*
	 * Raw keys. encode: returns the key bits for @config, without space and flags; equivalent
	 * configs must give the same bits. decode: the inverse; ignores other bits of @key. Pure.
	 */
	uint64_t (*encode)(uint64_t config);
	uint64_t (*decode)(vpmu_key_t key);

	/* Returns true if the running CPU is this vendor's. Called once per process. */
	bool (*is_host)(void);

	/*
	 * perf on a host of this vendor. wrong_hw_ids: generic events (bit per enum vpmu_generic)
	 * for which perf's PERF_COUNT_HW_* counts something else. host_has: true if generic[ev]
	 * counts @ev on the running CPU; called for events without a correct perf id. pseudo: the
	 * generic event of a @config that perf or libpfm invented, or -1.
	 */
	uint32_t wrong_hw_ids;
	bool (*host_has)(enum vpmu_generic ev);
	int (*pseudo)(uint64_t config);

	/* Cache events, in order of preference. cache_host: true if the running CPU has those
	 * without @pfm; NULL: every CPU has them. */
	const struct event_cache *cache;
	bool (*cache_host)(void);

	/*
	 * libpfm4. pfm_has: true if its core PMU table @pmu has configs of this vendor. pfm_priv:
	 * the privilege levels (VPMU_KEY_USR, VPMU_KEY_OS) that @code counts. pfm_refuse: NULL if a
	 * key can hold all of @code, else the reason, as the end of the sentence "event 'x' ...".
	 */
	bool (*pfm_has)(const char *pmu);
	uint64_t (*pfm_priv)(uint64_t code);
	const char *(*pfm_refuse)(uint64_t code);
};

/* x86.c */
extern const struct event_vendor vpmu_event_intel, vpmu_event_amd;

/* arm64.c */
extern const struct event_vendor vpmu_event_arm;

/* All vendors, NULL-terminated. */
extern const struct event_vendor *const vpmu_event_vendors[];

/* vpmu_event_vendor - returns the vendor of key space @space; NULL if it has no raw events. Pure.
 */
const struct event_vendor *vpmu_event_vendor(enum vpmu_space space);

/* vpmu_event_host - returns the vendor of the running CPU; NULL: unknown. Any thread. */
const struct event_vendor *vpmu_event_host(void);

/*
 * vpmu_pfm_host_has - returns true if libpfm's table of the running CPU has @event with (code &
 * @mask) == @config; false if libpfm has no table of the CPU. Takes libpfm's lock.
 */
bool vpmu_pfm_host_has(const char *event, uint64_t mask, uint64_t config);
