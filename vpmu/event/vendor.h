/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * What differs between vendors: one table per key space of raw events.
 *
 * The other files of this folder ask these tables and know no vendor's encodings themselves. Each
 * architecture has one file with its tables (x86.c, arm64.c); a new one is a file and a line in
 * vendor.c. Nobody outside of this folder includes this.
 *
 * A "config" is a vendor's event select without the bits that say how to count (privilege levels,
 * enable, interrupt), as it stands in perf_event_attr.config of a raw event.
 */
#ifndef VPMU_EVENT_VENDOR_H
#define VPMU_EVENT_VENDOR_H

#include "vpmu/event/key.h"

#define VPMU_NO_CONFIG (-1)

struct event_vendor {
	enum vpmu_space space;
	const char *name;     /* in event names: "intel" in "intel::r1a8" */
	uint64_t config_mask; /* config bits that a key can hold */
	const char *fields;   /* these bits in words, for messages */

	/* The config of each generic event, or VPMU_NO_CONFIG where no config has that meaning. */
	int64_t generic[VPMU_EV_GENERIC_NR];

	/*
	 * Raw keys. encode: the bits of a key for @config, without space and flags. Two configs
	 * that count the same must give the same bits. decode: the inverse; other bits of @key are
	 * ignored. Pure.
	 */
	uint64_t (*encode)(uint64_t config);
	uint64_t (*decode)(vpmu_key_t key);

	/* Whether the CPU this process runs on is this vendor's. Asked once per process. */
	bool (*is_host)(void);

	/*
	 * perf on a host of this vendor. wrong_hw_ids: generic events (bit per enum vpmu_generic)
	 * for which perf's PERF_COUNT_HW_* counts something else. host_has: whether generic[ev]
	 * means @ev on this very CPU; asked for events that perf has no right id of. pseudo: the
	 * generic event that perf's or libpfm's made-up @config stands for, or -1.
	 */
	uint32_t wrong_hw_ids;
	bool (*host_has)(enum vpmu_generic ev);
	int (*pseudo)(uint64_t config);

	/*
	 * libpfm4. pfm_has: whether its core PMU table @pmu has configs of this vendor. pfm_priv:
	 * the privilege levels (VPMU_KEY_USR, VPMU_KEY_OS) that @code counts. pfm_refuse: what
	 * @code has that a key cannot hold, as the end of the sentence "event 'x' ..."; NULL:
	 * nothing.
	 */
	bool (*pfm_has)(const char *pmu);
	uint64_t (*pfm_priv)(uint64_t code);
	const char *(*pfm_refuse)(uint64_t code);
};

/* x86.c */
extern const struct event_vendor vpmu_event_intel, vpmu_event_amd;

/* arm64.c */
extern const struct event_vendor vpmu_event_arm;

/* All vendors, in a list that ends with NULL. */
extern const struct event_vendor *const vpmu_event_vendors[];

/* vpmu_event_vendor - the vendor of key space @space; NULL when it has no raw events. Pure. */
const struct event_vendor *vpmu_event_vendor(enum vpmu_space space);

/* vpmu_event_host - the vendor of the CPU this process runs on; NULL: no vendor in the list. Any
 * thread. */
const struct event_vendor *vpmu_event_host(void);

/*
 * vpmu_pfm_host_has - whether libpfm's table of the running CPU has @event, and its code, cut to
 * the bits of @mask, is @config. False when libpfm does not know the CPU. Takes libpfm's lock.
 */
bool vpmu_pfm_host_has(const char *event, uint64_t mask, uint64_t config);

#endif
