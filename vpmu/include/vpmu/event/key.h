/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Event keys: the canonical identity of what is counted.
 *
 * Two requests are compatible, which means that they may share one host counter, if and only if
 * their keys are equal. A key is one u64, so that "equal" is one comparison everywhere, also for
 * BPF maps. Guest register models translate vendor encodings to the generic events below where the
 * manuals define both to be the same thing. All other encodings stay raw keys of their vendor.
 *
 * Everything here is pure. Names and perf attributes of keys are in event.h.
 */
#ifndef VPMU_EVENT_KEY_H
#define VPMU_EVENT_KEY_H

#include <stdbool.h>
#include <stdint.h>

/*
 * Layout of a key. A valid key is never 0.
 *   bits  0..15  event: generic id, software id, or raw event select
 *   bits 16..23  umask (raw only)
 *   bits 24..31  cmask (raw only)
 *   bit  32      inv   (raw only)
 *   bit  33      edge  (raw only)
 *   bit  34      USR   count at user privilege
 *   bit  35      OS    count at kernel privilege
 *   bit  36      guest count while in a guest (perf: exclude_guest = 0)
 *   bit  37      host  count while in the host (perf: exclude_host = 0)
 *   bits 40..43  space (enum vpmu_space), never 0
 */
typedef uint64_t vpmu_key_t;

enum vpmu_space {
	VPMU_SPACE_GENERIC = 1, /* enum vpmu_generic: the same meaning on every host PMU */
	VPMU_SPACE_INTEL = 2,	/* raw: fields of IA32_PERFEVTSELx, Intel SDM vol. 3 ch. 20 */
	VPMU_SPACE_AMD = 3,	/* raw: fields of PerfEvtSeln, AMD APM vol. 2 ch. 13 */
	/*
	 * enum perf_sw_ids of linux/perf_event.h. The kernel counts these for a thread in guest and
	 * host alike, so a key of one always has GUEST and HOST. It has USR and OS too, except for
	 * faults: for these the kernel tells the privilege levels apart.
	 */
	VPMU_SPACE_SOFTWARE = 4,
	VPMU_SPACE_ARM = 5 /* raw: evtCount of PMEVTYPER<n>_EL0, Arm ARM D13.12 */
};

#define VPMU_KEY_EVENT_MASK  0xffffULL
#define VPMU_KEY_UMASK_SHIFT 16
#define VPMU_KEY_CMASK_SHIFT 24
#define VPMU_KEY_INV	     (1ULL << 32)
#define VPMU_KEY_EDGE	     (1ULL << 33)
#define VPMU_KEY_USR	     (1ULL << 34)
#define VPMU_KEY_OS	     (1ULL << 35)
#define VPMU_KEY_GUEST	     (1ULL << 36)
#define VPMU_KEY_HOST	     (1ULL << 37)
#define VPMU_KEY_SPACE_SHIFT 40
#define VPMU_KEY_VALID_MASK  0x0f3fffffffffULL

/* Events that have the same meaning on every host PMU. The vendors' encodings of them are in the
 * vendors' tables (x86.c, arm64.c). */
enum vpmu_generic {
	VPMU_EV_CYCLES = 0,	  /* unhalted core cycles */
	VPMU_EV_INSTRUCTIONS,	  /* retired instructions */
	VPMU_EV_REF_CYCLES,	  /* unhalted cycles at the rate of the TSC */
	VPMU_EV_BRANCHES,	  /* retired branches */
	VPMU_EV_BRANCHES_TAKEN,	  /* retired taken branches */
	VPMU_EV_LOADS,		  /* retired instructions that load */
	VPMU_EV_STORES,		  /* retired instructions that store */
	VPMU_EV_BRANCH_MISSES,	  /* retired mispredicted branches */
	VPMU_EV_CACHE_REFERENCES, /* references to the last-level cache */
	VPMU_EV_CACHE_MISSES,	  /* misses of the last-level cache */
	VPMU_EV_BUS_CYCLES,	  /* unhalted cycles of the reference clock */
	VPMU_EV_SLOTS,		  /* top-down issue slots */
	VPMU_EV_STALLED_FRONTEND, /* cycles in which the front end delivers nothing, as perf has it
				   */
	VPMU_EV_STALLED_BACKEND,  /* cycles in which the back end takes nothing, as perf has it */
	VPMU_EV_GENERIC_NR
};

/* vpmu_key_make - key of @event in @space with privilege @flags (VPMU_KEY_USR | ...). Pure. */
static inline vpmu_key_t vpmu_key_make(enum vpmu_space space, uint16_t event, uint64_t flags)
{
	return ((uint64_t)space << VPMU_KEY_SPACE_SHIFT) | event | flags;
}

/* vpmu_key_generic - key of a generic event in guests, with @flags out of USR | OS. Pure. */
static inline vpmu_key_t vpmu_key_generic(enum vpmu_generic ev, uint64_t flags)
{
	return vpmu_key_make(VPMU_SPACE_GENERIC, (uint16_t)ev, flags | VPMU_KEY_GUEST);
}

static inline enum vpmu_space vpmu_key_space(vpmu_key_t key)
{
	return (enum vpmu_space)((key >> VPMU_KEY_SPACE_SHIFT) & 0xf);
}

static inline unsigned int vpmu_key_event(vpmu_key_t key)
{
	return (unsigned int)(key & VPMU_KEY_EVENT_MASK);
}

/*
 * vpmu_key_from_raw - the canonical key of a vendor's event select.
 * @space: a raw space: VPMU_SPACE_INTEL, VPMU_SPACE_AMD or VPMU_SPACE_ARM
 * @config: the event select. Bits that do not say what is counted (EN, INT, PC, USR, OS) are
 * ignored
 * @flags: VPMU_KEY_USR, OS, GUEST and HOST
 *
 * An encoding that means a generic event gives the generic key. Example: with VPMU_SPACE_INTEL, c0H
 * gives the key of VPMU_EV_INSTRUCTIONS, and 1a8H the raw key with event a8H and umask 1. Returns 0
 * when @space is not a raw space. Pure.
 */
vpmu_key_t vpmu_key_from_raw(enum vpmu_space space, uint64_t config, uint64_t flags);

/* vpmu_key_to_raw - the inverse: store the event select for @key in *@config, without EN, INT, USR
 * and OS. -EOPNOTSUPP: the vendor of @space has no encoding of that meaning. Pure. */
int vpmu_key_to_raw(vpmu_key_t key, enum vpmu_space space, uint64_t *config);

/*
 * vpmu_key_valid - whether @key is well formed and canonical. Well formed: a space, an event in
 * range, USR or OS or both, GUEST or HOST or both. Canonical: no other key has the same meaning, so
 * a raw key of an event that is generic is not valid, nor is a software key with flags that the
 * kernel ignores. Pure.
 */
bool vpmu_key_valid(vpmu_key_t key);

#endif
