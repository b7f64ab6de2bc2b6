/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Event filter for guests: a tier, and a list that replaces or narrows it. vmm/config makes a
 * policy from a VM's configuration; the register models apply it. A guest can program a denied
 * event, as hardware refuses none, but the counter stands still, and the denial is counted for the
 * operator (struct vpmu_guest.denied).
 */
#ifndef VPMU_GUEST_POLICY_H
#define VPMU_GUEST_POLICY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "vpmu/event/key.h"

#ifdef __cplusplus
extern "C" {
#endif

enum vpmu_policy_tier {
	VPMU_POLICY_FULL = 0,	   /* everything the model has, branch records included */
	VPMU_POLICY_STANDARD,	   /* every event of the generic list; no branch records */
	VPMU_POLICY_ARCHITECTURAL, /* the events of CPUID 0AH:EBX (AMD: of the same meaning) and
				    * ref-cycles; no branch records */
	VPMU_POLICY_OFF		   /* no PMU at all, as with the model "none" */
};

/* vpmu_policy_tier_parse - "full", "standard", "architectural" or "off"; -EINVAL for any other
 * name. vpmu_policy_tier_name - the inverse; a static string. Any thread. */
int vpmu_policy_tier_parse(const char *name, enum vpmu_policy_tier *tier);
const char *vpmu_policy_tier_name(enum vpmu_policy_tier tier);

/*
 * One entry of a list, like a masked event of KVM_SET_PMU_EVENT_FILTER. It matches an event select
 * with event @event if (unit mask & @mask) == @match. A list contains a select if an entry without
 * @exclude matches it and no entry with @exclude does.
 */
struct vpmu_policy_event {
	uint16_t event; /* Intel 7:0, AMD 35:32 and 7:0 */
	uint8_t mask, match;
	bool exclude;
};

#define VPMU_POLICY_EVENTS_MAX 300 /* KVM_PMU_EVENT_FILTER_MAX_EVENTS */

struct vpmu_policy {
	enum vpmu_policy_tier tier;
	/*
	 * NO_LIST  the tier decides
	 * ALLOW    the list replaces the tier: only its events may be counted (none if the tier is
	 *          VPMU_POLICY_OFF)
	 * DENY     the list narrows the tier: everything the tier permits, except its events
	 */
	enum { VPMU_POLICY_NO_LIST = 0, VPMU_POLICY_ALLOW, VPMU_POLICY_DENY } action;
	size_t nr_events;
	struct vpmu_policy_event events[VPMU_POLICY_EVENTS_MAX];
	/* Another policy that must permit an event, too, such as the host's beside the VM's own;
	 * NULL: none. It must outlive this one. */
	const struct vpmu_policy *also;
};

/*
 * vpmu_policy_add - append one or more comma-separated entries in @text to the list. An entry is an
 * event name (vpmu_event_parse), a raw select of vendor @space in perf's form (rHEX), or
 * EVENT/MASK/MATCH in hexadecimal; a leading "!" makes it an exclude entry. Example for Intel:
 * "instructions,c4/0/0,!r04c4". Returns 0; -EINVAL or -E2BIG, with one line in @err and the list
 * unchanged.
 */
int vpmu_policy_add(struct vpmu_policy *p, enum vpmu_space space, const char *text, char *err,
		    size_t errlen);

/*
 * vpmu_policy_allows - returns true if a guest of vendor @space may count event select @evtsel,
 * equivalent to @key. The list applies to @evtsel, the tier to @key.
 * vpmu_policy_allows_fixed - returns true if it may use a fixed counter for @key.
 * A NULL @p allows everything. Any thread.
 */
bool vpmu_policy_allows(const struct vpmu_policy *p, enum vpmu_space space, uint64_t evtsel,
			vpmu_key_t key);
bool vpmu_policy_allows_fixed(const struct vpmu_policy *p, vpmu_key_t key);
/* vpmu_policy_lbr - returns true if the guest may have branch records. Any thread. */
bool vpmu_policy_lbr(const struct vpmu_policy *p);

#ifdef __cplusplus
}
#endif

#endif
