/* SPDX-License-Identifier: GPL-2.0-or-later */
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
 *   bits  0..15  event: generic id, software id, or raw event select (Intel 8 bits, AMD 12 bits)
 *   bits 16..23  umask (raw only)
 *   bits 24..31  cmask (raw only)
 *   bit  32      inv   (raw only)
 *   bit  33      edge  (raw only)
 *   bit  34      USR   count at CPL > 0
 *   bit  35      OS    count at CPL 0
 *   bit  36      guest count while in a guest (perf: exclude_guest = 0)
 *   bit  37      host  count while in the host (perf: exclude_host = 0)
 *   bits 40..43  space (enum vpmu_space), never 0
 */
typedef uint64_t vpmu_key_t;

enum vpmu_space {
	VPMU_SPACE_GENERIC = 1, /* enum vpmu_generic: the same meaning on every host PMU */
	VPMU_SPACE_INTEL = 2,	/* raw, Intel SDM vol. 3 ch. 20 IA32_PERFEVTSELx layout */
	VPMU_SPACE_AMD = 3,	/* raw, AMD APM vol. 2 ch. 13 PerfEvtSeln layout */
	VPMU_SPACE_SOFTWARE = 4 /* enum perf_sw_ids of linux/perf_event.h. The kernel counts these
				 * for a thread in guest and host alike: always GUEST | HOST, and
				 * USR | OS together except for faults */
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

enum vpmu_generic {
	VPMU_EV_CYCLES = 0,	  /* unhalted core cycles; Intel 3C/00, fixed 1; AMD 76/00 */
	VPMU_EV_INSTRUCTIONS,	  /* retired instructions; Intel C0/00, fixed 0; AMD C0/00 */
	VPMU_EV_REF_CYCLES,	  /* unhalted cycles at TSC rate; Intel fixed 2; AMD 120/01 */
	VPMU_EV_BRANCHES,	  /* retired branches; Intel C4/00; AMD C2/00 */
	VPMU_EV_BRANCHES_TAKEN,	  /* retired taken branches; Intel C4/20; AMD C4/00 */
	VPMU_EV_LOADS,		  /* retired instructions that load; Intel D0/81; AMD 29/01 */
	VPMU_EV_STORES,		  /* retired instructions that store; Intel D0/82; AMD 29/02 */
	VPMU_EV_BRANCH_MISSES,	  /* Intel C5/00; AMD C3/00 */
	VPMU_EV_CACHE_REFERENCES, /* Intel 2E/4F */
	VPMU_EV_CACHE_MISSES,	  /* Intel 2E/41 */
	VPMU_EV_BUS_CYCLES,	  /* Intel 3C/01 */
	VPMU_EV_SLOTS,		  /* topdown slots; Intel A4/01, fixed 3 */
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
 * vpmu_key_from_raw - canonical key of a vendor encoding.
 * @space: VPMU_SPACE_INTEL or VPMU_SPACE_AMD
 * @config: event | umask << 8 | edge << 18 | inv << 23 | cmask << 24 (| AMD event[11:8] << 32),
 *          the PERFEVTSEL bits; EN, INT, PC, USR and OS bits are ignored
 * @flags: VPMU_KEY_USR / OS / GUEST / HOST
 * Encodings that mean a generic event (table in key.c) give the generic key. Pure, any thread.
 */
vpmu_key_t vpmu_key_from_raw(enum vpmu_space space, uint64_t config, uint64_t flags);

/* vpmu_key_to_raw - the inverse for a key that @space's vendor can encode.
 * Returns 0 and *config (no EN/INT/USR/OS bits), or -EOPNOTSUPP. Pure, any thread. */
int vpmu_key_to_raw(vpmu_key_t key, enum vpmu_space space, uint64_t *config);

/*
 * vpmu_key_valid - whether @key is well formed (a space, an event in range, USR or OS, GUEST or
 * HOST) and canonical: a raw key that has a generic twin, or a software key that the kernel
 * cannot tell from another, is not valid. Pure, any thread.
 */
bool vpmu_key_valid(vpmu_key_t key);

#endif
