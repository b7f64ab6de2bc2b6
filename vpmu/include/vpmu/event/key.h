/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Event keys: the canonical identity of an event with its privilege and guest/host filter.
 *
 * Two requests can share one host counter if and only if their keys are equal. A key is one u64, so
 * that one comparison decides this everywhere, BPF maps included. Guest register models translate
 * vendor encodings to the generic events below where the manuals define both to be the same. All
 * other encodings remain raw keys of their vendor.
 *
 * All functions here are pure. Names and perf attributes of keys are in event.h.
 */
#ifndef VPMU_EVENT_KEY_H
#define VPMU_EVENT_KEY_H

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

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
 *   bits 38, 39  of a guest that runs guests itself by AMD's SVM: GuestOnly and HostOnly of its
 *                event select. With either, the key counts only while that guest's EFER.SVME is 1,
 *                and only in the modes named: in its guests, or outside of them.
 *   bits 40..43  space (enum vpmu_space), never 0
 */
typedef uint64_t vpmu_key_t;

enum vpmu_space {
	VPMU_SPACE_GENERIC = 1, /* enum vpmu_generic: the same meaning on every host PMU */
	VPMU_SPACE_INTEL = 2,	/* raw: fields of IA32_PERFEVTSELx, Intel SDM vol. 3 ch. 20 */
	VPMU_SPACE_AMD = 3,	/* raw: fields of PerfEvtSeln, AMD APM vol. 2 ch. 13 */
	/*
	 * enum perf_sw_ids of linux/perf_event.h. The kernel counts these for a thread in guest and
	 * host alike, so their keys always have GUEST and HOST. They also have USR and OS, except
	 * for faults, for which the kernel distinguishes privilege levels.
	 */
	VPMU_SPACE_SOFTWARE = 4,
	VPMU_SPACE_ARM = 5, /* raw: evtCount of PMEVTYPER<n>_EL0, Arm ARM (DDI 0487) */
	/* enum vpmu_sched: the scheduler's own figures of a thread. Their keys have all flags. */
	VPMU_SPACE_SCHED = 6
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
#define VPMU_KEY_GUESTONLY   (1ULL << 38)
#define VPMU_KEY_HOSTONLY    (1ULL << 39)
#define VPMU_KEY_SVM	     (VPMU_KEY_GUESTONLY | VPMU_KEY_HOSTONLY)
#define VPMU_KEY_SPACE_SHIFT 40
#define VPMU_KEY_VALID_MASK  0x0fffffffffffULL

/* Events with the same meaning on every host PMU. Their encodings are in the vendors' tables
 * (x86.c, arm64.c). */
enum vpmu_generic {
	VPMU_EV_CYCLES = 0,	      /* unhalted core cycles */
	VPMU_EV_INSTRUCTIONS,	      /* retired instructions */
	VPMU_EV_REF_CYCLES,	      /* unhalted cycles at the rate of the TSC */
	VPMU_EV_BRANCHES,	      /* retired branches */
	VPMU_EV_BRANCHES_TAKEN,	      /* retired taken branches */
	VPMU_EV_LOADS,		      /* retired instructions that load */
	VPMU_EV_STORES,		      /* retired instructions that store */
	VPMU_EV_BRANCH_MISSES,	      /* retired mispredicted branches */
	VPMU_EV_CACHE_REFERENCES,     /* references to the last-level cache */
	VPMU_EV_CACHE_MISSES,	      /* misses of the last-level cache */
	VPMU_EV_BUS_CYCLES,	      /* unhalted cycles of the reference clock */
	VPMU_EV_SLOTS,		      /* top-down issue slots */
	VPMU_EV_STALLED_FRONTEND,     /* cycles without front-end delivery, as perf defines it */
	VPMU_EV_STALLED_BACKEND,      /* cycles without back-end allocation, as perf defines it */
	VPMU_EV_BRANCHES_CONDITIONAL, /* retired conditional branches, taken or not */
	VPMU_EV_GENERIC_NR
};

/* What the scheduler does to tasks. No perf event counts it. */
enum vpmu_sched {
	VPMU_SCHED_RUN_DELAY = 0, /* ns a runnable thread waited for a CPU: /proc/PID/schedstat */
	VPMU_SCHED_INVOLUNTARY,	  /* context switches of a thread that could go on */
	VPMU_SCHED_PREEMPTED,	  /* those of any task to a task of another tenant: vpmud only */
	VPMU_SCHED_IDLE,	  /* ns in which CPUs were idle: /proc/stat */
	VPMU_SCHED_NR
};

/* vpmu_key_make - key of @event in @space with privilege @flags (VPMU_KEY_USR | ...). Pure. */
static inline vpmu_key_t vpmu_key_make(enum vpmu_space space, uint16_t event, uint64_t flags)
{
	return ((uint64_t)space << VPMU_KEY_SPACE_SHIFT) | event | flags;
}

/* vpmu_key_sched - key of a figure of the scheduler. Pure. */
static inline vpmu_key_t vpmu_key_sched(enum vpmu_sched ev)
{
	return vpmu_key_make(VPMU_SPACE_SCHED, (uint16_t)ev,
			     VPMU_KEY_USR | VPMU_KEY_OS | VPMU_KEY_GUEST | VPMU_KEY_HOST);
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
 * vpmu_key_from_raw - returns the canonical key of a vendor's event select.
 * @space: a raw space: VPMU_SPACE_INTEL, VPMU_SPACE_AMD or VPMU_SPACE_ARM
 * @config: the event select. Bits that do not select the event (EN, INT, PC, USR, OS) are ignored
 * @flags: VPMU_KEY_USR, OS, GUEST and HOST
 *
 * The encoding of a generic event gives the generic key. Example: with VPMU_SPACE_INTEL, c0H gives
 * the key of VPMU_EV_INSTRUCTIONS, and 1a8H the raw key with event a8H and umask 1. Returns 0 if
 * @space is not a raw space. Pure.
 */
vpmu_key_t vpmu_key_from_raw(enum vpmu_space space, uint64_t config, uint64_t flags);

/* vpmu_key_to_raw - the inverse: store the event select for @key in *@config, without EN, INT, USR
 * and OS. Returns 0; -EOPNOTSUPP: @key is invalid, or the vendor of @space has no encoding of it.
 * Pure. */
int vpmu_key_to_raw(vpmu_key_t key, enum vpmu_space space, uint64_t *config);

/*
 * vpmu_key_valid - returns true if @key is well formed and canonical. Well formed: a known space,
 * an event in range, at least one of USR and OS, at least one of GUEST and HOST; SVM's bits only
 * with GUEST alone, and with generic events and AMD's. Canonical: no
 * other key has the same meaning, so a raw key of a generic event is invalid, and so is a software
 * key without the flags that the kernel ignores. Pure.
 */
bool vpmu_key_valid(vpmu_key_t key);

#ifdef __cplusplus
}
#endif

#endif
