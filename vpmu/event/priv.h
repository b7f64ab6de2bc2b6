/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Private to this folder: the tables of generic and software events, and the parts of the parser.
 */
#pragma once

#include <stdbool.h>

#include "vpmu/event/event.h"

#define VPMU_KEY_PRIV  (VPMU_KEY_USR | VPMU_KEY_OS)
#define VPMU_KEY_WHERE (VPMU_KEY_GUEST | VPMU_KEY_HOST)
#define VPMU_KEY_FLAGS (VPMU_KEY_PRIV | VPMU_KEY_WHERE)

struct generic_row {
	const char *name;
	const char *alias; /* perf's other spelling; NULL: none */
	const char *desc;
	int hw_id; /* PERF_COUNT_HW_*, or -1 */
};
extern const struct generic_row vpmu_generic_rows[VPMU_EV_GENERIC_NR];

/* Privilege levels of a software event. */
enum sw_priv {
	SW_PRIV_NONE = 0, /* not distinguished by the kernel: a key must have both USR and OS */
	SW_PRIV_REGS	  /* distinguished by the registers at the event: faults */
};

struct software_row {
	const char *name; /* NULL: not supported in a key */
	const char *alias;
	const char *desc;
	enum sw_priv priv;
};
#define VPMU_SW_NR 12 /* PERF_COUNT_SW_CGROUP_SWITCHES + 1 */
extern const struct software_row vpmu_software_rows[VPMU_SW_NR];
extern const struct software_row vpmu_sched_rows[VPMU_SCHED_NR];

/*
 * vpmu_pfm_encode - look up libpfm4 name @name, without perf modifiers. Stores its vendor's *space,
 * its *config, and the privilege levels of its attributes in *priv. For events without a vendor
 * (libpfm's "perf::" events) *space is 0 and *key is the complete key. Errors as vpmu_event_parse.
 */
int vpmu_pfm_encode(const char *name, enum vpmu_space *space, uint64_t *config, uint64_t *priv,
		    vpmu_key_t *key, char *err, size_t errlen);

/*
 * vpmu_cache_event - look up perf's name of a cache event, such as L1-dcache-load-misses, for the
 * vendor of @space (0: the running CPU's). True: *space is VPMU_SPACE_GENERIC and *event is set, or
 * *config of *space is. An event that this vendor's counters do not have becomes one of a vendor
 * whose events this CPU cannot count, so that it is reported as not supported. False: no such name.
 */
bool vpmu_cache_event(const char *name, enum vpmu_space raw_space, enum vpmu_space *space,
		      uint16_t *event, uint64_t *config);

/* vpmu_cache_name - the name of cache event number @nr; NULL: none. */
const char *vpmu_cache_name(unsigned int nr);

/* Limit of a name's length. libpfm's longest names are much shorter. */
#define NAME_MAX_BYTES 255

/*
 * perf's modifier letters, including those that are recognized only to give a better error.
 * libpfm's attributes can look like modifiers (":e" is edge), so libpfm names take fewer letters.
 */
#define MODS_ANYWHERE	   "ukhGHpP"
#define MODS_ON_PERF_NAMES MODS_ANYWHERE "SDWeIbR"

/* vpmu_find_modifiers - returns the last colon of @name if only @letters follow it; else NULL. */
char *vpmu_find_modifiers(char *name, const char *letters);
