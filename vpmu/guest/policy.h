/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What a guest may count: a tier, and lists that widen or narrow it. An event that is not allowed
 * can be programmed - hardware does not refuse either - but counts nothing, and the denial is
 * counted for the operator (struct vpmu_guest.denied).
 */
#ifndef VPMU_GUEST_POLICY_H
#define VPMU_GUEST_POLICY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "vpmu/event/key.h"

enum vpmu_policy_tier {
	VPMU_POLICY_FULL = 0,	   /* everything the model has, branch records included */
	VPMU_POLICY_STANDARD,	   /* every event of the generic list; no branch records */
	VPMU_POLICY_ARCHITECTURAL, /* those of CPUID 0AH:EBX (AMD: the events of the same meaning);
				    * no branch records */
	VPMU_POLICY_OFF		   /* no PMU at all, as model none */
};

/* vpmu_policy_tier_parse - "full", "standard", "architectural", "off"; -EINVAL otherwise. */
int vpmu_policy_tier_parse(const char *name, enum vpmu_policy_tier *tier);
const char *vpmu_policy_tier_name(enum vpmu_policy_tier tier);

/*
 * One entry of a list, in the shape of KVM_SET_PMU_EVENT_FILTER's masked events: matches raw
 * selects whose event is @event and whose unit mask, ANDed with @mask, is @match; @exclude takes
 * what it matches out again.
 */
struct vpmu_policy_event {
	uint16_t event; /* Intel 7:0, AMD 35:32 and 7:0 */
	uint8_t mask, match;
	bool exclude;
};

#define VPMU_POLICY_EVENTS_MAX 300 /* KVM_PMU_EVENT_FILTER_MAX_EVENTS */

struct vpmu_policy {
	enum vpmu_policy_tier tier;
	/* 0: the tier decides. Else, before the tier: allow - only what the list has, tier or not;
	 * deny - not what the list has. */
	enum { VPMU_POLICY_NO_LIST = 0, VPMU_POLICY_ALLOW, VPMU_POLICY_DENY } action;
	uint32_t fixed_bitmap; /* fixed counters that the list names, bit n = counter n */
	bool fixed_listed;     /* fixed_bitmap is in use: else fixed counters go by their event */
	size_t nr_events;
	struct vpmu_policy_event events[VPMU_POLICY_EVENTS_MAX];
};

/* vpmu_policy_add - append the events @text names to the list: names of vpmu_event_parse or rHEX
 * (raw select as perf spells it), or "EVENT/MASK/MATCH" in hex with an optional "!" for exclude,
 * comma separated; raw ones are of vendor @space. 0, or -EINVAL / -E2BIG with one line in @err. */
int vpmu_policy_add(struct vpmu_policy *p, enum vpmu_space space, const char *text, char *err,
		    size_t errlen);

/* vpmu_policy_allows - may a guest of vendor @space count raw select @evtsel (key @key, for the
 * tiers)? vpmu_policy_allows_fixed: fixed counter @n, which counts @key? @p NULL: yes. Pure. */
bool vpmu_policy_allows(const struct vpmu_policy *p, enum vpmu_space space, uint64_t evtsel,
			vpmu_key_t key);
bool vpmu_policy_allows_fixed(const struct vpmu_policy *p, unsigned int n, vpmu_key_t key);
/* vpmu_policy_lbr - may it have branch records? */
bool vpmu_policy_lbr(const struct vpmu_policy *p);

#endif
