/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Shared by the files of this folder only: the event tables and the pieces of the parser. Nothing
 * outside includes this.
 */
#ifndef VPMU_EVENT_PRIV_H
#define VPMU_EVENT_PRIV_H

#include "vpmu/event/event.h"

#define VPMU_KEY_PRIV  (VPMU_KEY_USR | VPMU_KEY_OS)
#define VPMU_KEY_WHERE (VPMU_KEY_GUEST | VPMU_KEY_HOST)
#define VPMU_KEY_FLAGS (VPMU_KEY_PRIV | VPMU_KEY_WHERE)

/*
 * IA32_PERFEVTSELx (SDM vol. 3, figure 20-1) and AMD PerfEvtSeln (APM vol. 2, 13.2.1) agree on
 * bits 0..31; AMD keeps event select [11:8] in bits 35:32.
 */
#define EVTSEL_EVENT	    0xffULL
#define EVTSEL_UMASK_SHIFT  8
#define EVTSEL_EDGE	    (1ULL << 18)
#define EVTSEL_INV	    (1ULL << 23)
#define EVTSEL_CMASK_SHIFT  24
#define EVTSEL_COUNTED	    0xff84ffffULL /* the bits that say what is counted */
#define EVTSEL_AMD_EVENT_HI (0xfULL << 32)

/* Pseudo encodings of perf's, and libpfm's, for Intel fixed counters without an event select: event
 * 0, umask n + 1 (kernel arch/x86/events/intel/core.c, the FIXED_EVENT_CONSTRAINT lists). */
#define PSEUDO_REF_CYCLES 0x0300
#define PSEUDO_SLOTS	  0x0400

/* Bits of a raw config of @space that a key can hold. */
uint64_t vpmu_raw_config_mask(enum vpmu_space space);

struct generic_row {
	const char *name;
	const char *alias; /* perf's other spelling, or NULL */
	const char *desc;
	int32_t intel; /* event | umask << 8, or -1 */
	int32_t amd;   /* event [11:0] | umask << 16, or -1: the key's own layout */
	int32_t hw_id; /* PERF_COUNT_HW_*, or -1 */
};
extern const struct generic_row vpmu_generic_rows[VPMU_EV_GENERIC_NR];

/* Which privilege levels the kernel tells apart for a software event. */
enum sw_priv {
	SW_PRIV_NONE = 0, /* none: only USR | OS together is true */
	SW_PRIV_REGS	  /* by the registers at the event: faults */
};

struct software_row {
	const char *name; /* NULL: not an event a key may name */
	const char *alias;
	const char *desc;
	enum sw_priv priv;
};
#define VPMU_SW_NR 12 /* PERF_COUNT_SW_CGROUP_SWITCHES + 1 */
extern const struct software_row vpmu_software_rows[VPMU_SW_NR];

/* The running CPU's vendor space, or 0 when it is neither Intel nor AMD (Hygon counts as AMD). */
enum vpmu_space vpmu_host_space(void);

/* Whether libpfm's table of the running CPU has @event with encoding @code (event | umask << 8).
 * False when libpfm does not know the CPU. */
bool vpmu_pfm_host_has(const char *event, uint64_t code);

/* A libpfm4 name without perf modifiers to a config and the privilege bits its own attributes
 * gave; or, for libpfm's perf:: events, to a whole @key (then *space = 0). Errors as
 * vpmu_event_parse. */
int vpmu_pfm_encode(const char *name, enum vpmu_space *space, uint64_t *config, uint64_t *priv,
		    vpmu_key_t *key, char *err, size_t errlen);

/* Edit distance of @a and @b without regard to case, at most @cap + 1. */
unsigned int vpmu_name_distance(const char *a, const char *b, unsigned int cap);

/* The candidate nearest to @word so far; feed names, then look at best (NULL: none is near). */
struct vpmu_nearest {
	const char *word;
	const char *best;
	unsigned int distance;
};
void vpmu_nearest_init(struct vpmu_nearest *n, const char *word);
void vpmu_nearest_try(struct vpmu_nearest *n, const char *candidate);

/* Longest name looked at; libpfm's longest fully spelt out stay well below. */
#define NAME_MAX_BYTES 255

/* perf's modifier letters; those of the second line are refused, but by a line that says why.
 * libpfm has attributes of its own that look like them (":e" is edge), hence the two sets. */
#define MODS_ANYWHERE	   "ukhGHpP"
#define MODS_ON_PERF_NAMES MODS_ANYWHERE "SDWeIbR"

/* The colon before what may be modifiers out of @letters at the end of @name, or NULL. */
char *vpmu_find_modifiers(char *name, const char *letters);

#endif
