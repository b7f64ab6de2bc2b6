// SPDX-License-Identifier: LGPL-2.1-or-later
/*
 * Event filter for guests: parsing of lists, and the decisions for the register models.
 *
 * As in KVM's event filter, a list matches event and unit mask only, so a guest cannot evade a
 * denial with edge, invert or counter mask. A tier matches the key. The key of a select with edge,
 * invert or counter mask is in no tier except "full".
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "vpmu/event/event.h"
#include "vpmu/guest/policy.h"

static const char *const tiers[] = {"full", "standard", "architectural", "off"};

/*
 * No event select counts the event of fixed counter 2. perf encodes it as event 0, unit mask 3, and
 * so does a list here. A general-purpose counter with that select counts nothing.
 */
#define PSEUDO_REF_CYCLES 0x0300

int vpmu_policy_tier_parse(const char *name, enum vpmu_policy_tier *tier)
{
	for (unsigned int i = 0; i < sizeof(tiers) / sizeof(tiers[0]); i++) {
		if (!strcmp(name, tiers[i])) {
			*tier = (enum vpmu_policy_tier)i;
			return 0;
		}
	}
	return -EINVAL;
}

const char *vpmu_policy_tier_name(enum vpmu_policy_tier tier)
{
	return (unsigned int)tier < sizeof(tiers) / sizeof(tiers[0]) ? tiers[tier] : "?";
}

/* ---- lists as text ---- */

static int policy_bad(char *err, size_t errlen, const char *entry, const char *why)
{
	if (err && errlen)
		snprintf(err, errlen, "policy: \"%s\": %s", entry, why);
	return -EINVAL;
}

/* Parse a hexadecimal number <= @max that is followed by @ends ("": the end of @s). *end is set to
 * the text after that. */
static bool policy_hex(const char *s, const char *ends, unsigned int max, unsigned int *val,
		       const char **end)
{
	unsigned int x = 0, digits = 0;

	if (s[0] == '0' && (s[1] == 'x' || s[1] == 'X'))
		s += 2;
	for (;; s++, digits++) {
		static const char xdigits[] = "0123456789abcdef0123456789ABCDEF";
		const char *d = *s ? strchr(xdigits, *s) : NULL;

		if (!d)
			break;
		x = x << 4 | (unsigned int)((d - xdigits) & 15);
		if (x > max)
			return false;
	}
	if (!digits || (*ends ? *s != *ends : *s != '\0'))
		return false;
	*val = x;
	*end = *s ? s + 1 : s;
	return true;
}

static int parse_masked(struct vpmu_policy_event *e, enum vpmu_space space, const char *entry,
			const char *text, char *err, size_t errlen)
{
	unsigned int event, mask, match;
	const char *p = text;

	if (!policy_hex(p, "/", space == VPMU_SPACE_AMD ? 0xfff : 0xff, &event, &p) ||
	    !policy_hex(p, "/", 0xff, &mask, &p) || !policy_hex(p, "", 0xff, &match, &p))
		return policy_bad(err, errlen, entry, "not EVENT/MASK/MATCH in hexadecimal");
	if (match & ~mask)
		return policy_bad(err, errlen, entry,
				  "MATCH has bits that are not in MASK, so it matches nothing");
	e->event = (uint16_t)event;
	e->mask = (uint8_t)mask;
	e->match = (uint8_t)match;
	return 0;
}

static int policy_parse_name(struct vpmu_policy_event *e, enum vpmu_space space, const char *entry,
			     const char *name, char *err, size_t errlen)
{
	const uint64_t everywhere = VPMU_KEY_USR | VPMU_KEY_OS | VPMU_KEY_GUEST;
	uint64_t config;
	vpmu_key_t key;
	int ret;

	ret = vpmu_event_parse(name, space, &key, err, errlen);
	if (ret)
		return -EINVAL;
	if (vpmu_key_space(key) == VPMU_SPACE_SOFTWARE || vpmu_key_space(key) == VPMU_SPACE_SCHED)
		return policy_bad(err, errlen, entry, "guests have no software events");
	if (key & VPMU_KEY_HOST)
		return policy_bad(err, errlen, entry,
				  "a policy is about what guests count of themselves, not about "
				  "the host (:H)");
	if ((key & everywhere) != everywhere)
		return policy_bad(err, errlen, entry,
				  "a policy cannot depend on the privilege level (:u, :k)");
	if (vpmu_key_space(key) == VPMU_SPACE_GENERIC && space == VPMU_SPACE_INTEL &&
	    vpmu_key_event(key) == VPMU_EV_REF_CYCLES)
		config = PSEUDO_REF_CYCLES;
	else if (vpmu_key_to_raw(key, space, &config))
		return policy_bad(err, errlen, entry,
				  "guests of this vendor cannot select this event");
	if (config & ~0xf0000ffffULL)
		return policy_bad(err, errlen, entry,
				  "a policy looks at event and unit mask only, not at edge, invert "
				  "or counter mask");
	e->event = (uint16_t)((config & 0xff) | (config >> 24 & 0xf00));
	e->mask = 0xff;
	e->match = (uint8_t)(config >> 8);
	return 0;
}

static int parse_entry(struct vpmu_policy *p, enum vpmu_space space, const char *entry, char *err,
		       size_t errlen)
{
	struct vpmu_policy_event e = {.exclude = *entry == '!'};
	const char *text = entry + e.exclude;
	int ret;

	if (strchr(text, '/'))
		ret = parse_masked(&e, space, entry, text, err, errlen);
	else
		ret = policy_parse_name(&e, space, entry, text, err, errlen);
	if (ret)
		return ret;
	if (p->nr_events == VPMU_POLICY_EVENTS_MAX) {
		if (err && errlen)
			snprintf(err, errlen, "policy: more than %d events",
				 VPMU_POLICY_EVENTS_MAX);
		return -E2BIG;
	}
	p->events[p->nr_events++] = e;
	return 0;
}

int vpmu_policy_add(struct vpmu_policy *p, enum vpmu_space space, const char *text, char *err,
		    size_t errlen)
{
	size_t before = p->nr_events;
	char entry[128];
	int ret = 0;

	for (;;) {
		size_t len;

		text += strspn(text, " \t");
		len = strcspn(text, ",");
		if (len >= sizeof(entry)) {
			ret = policy_bad(err, errlen, "...", "name too long");
			break;
		}
		memcpy(entry, text, len);
		while (len && (entry[len - 1] == ' ' || entry[len - 1] == '\t'))
			len--;
		entry[len] = '\0';
		ret = len ? parse_entry(p, space, entry, err, errlen)
			  : policy_bad(err, errlen, "", "an event is missing");
		if (ret)
			break;
		text += strcspn(text, ",");
		if (!*text++)
			break;
	}
	if (ret)
		p->nr_events = before;
	return ret;
}

/* ---- decisions ---- */

static bool tier_allows(enum vpmu_policy_tier tier, vpmu_key_t key)
{
	/* SDM vol. 3 table 20-1, and fixed counter 2 */
	const uint64_t architectural = 1u << VPMU_EV_CYCLES | 1u << VPMU_EV_INSTRUCTIONS |
				       1u << VPMU_EV_REF_CYCLES | 1u << VPMU_EV_BUS_CYCLES |
				       1u << VPMU_EV_CACHE_REFERENCES | 1u << VPMU_EV_CACHE_MISSES |
				       1u << VPMU_EV_BRANCHES | 1u << VPMU_EV_BRANCH_MISSES |
				       1u << VPMU_EV_SLOTS;

	switch (tier) {
	case VPMU_POLICY_FULL:
		return true;
	case VPMU_POLICY_STANDARD:
		return vpmu_key_space(key) == VPMU_SPACE_GENERIC;
	case VPMU_POLICY_ARCHITECTURAL:
		return vpmu_key_space(key) == VPMU_SPACE_GENERIC &&
		       (architectural >> vpmu_key_event(key) & 1);
	case VPMU_POLICY_OFF:
		break;
	}
	return false;
}

static bool policy_listed(const struct vpmu_policy *p, unsigned int event, unsigned int umask)
{
	bool in = false;

	for (size_t i = 0; i < p->nr_events; i++) {
		const struct vpmu_policy_event *e = &p->events[i];

		if (e->event != event || (umask & e->mask) != e->match)
			continue;
		if (e->exclude)
			return false;
		in = true;
	}
	return in;
}

static bool policy_decide(const struct vpmu_policy *p, bool in_list, vpmu_key_t key)
{
	switch (p->action) {
	case VPMU_POLICY_ALLOW:
		return in_list && p->tier != VPMU_POLICY_OFF;
	case VPMU_POLICY_DENY:
		return !in_list && tier_allows(p->tier, key);
	default:
		return tier_allows(p->tier, key);
	}
}

static bool listed_raw(const struct vpmu_policy *p, enum vpmu_space space, uint64_t evtsel)
{
	unsigned int event = (unsigned int)(evtsel & 0xff);

	if (space == VPMU_SPACE_AMD)
		event |= (unsigned int)(evtsel >> 24 & 0xf00);
	return policy_listed(p, event, (unsigned int)(evtsel >> 8 & 0xff));
}

bool vpmu_policy_allows(const struct vpmu_policy *p, enum vpmu_space space, uint64_t evtsel,
			vpmu_key_t key)
{
	for (; p; p = p->also)
		if (!policy_decide(p, listed_raw(p, space, evtsel), key))
			return false;
	return true;
}

bool vpmu_policy_allows_fixed(const struct vpmu_policy *p, vpmu_key_t key)
{
	uint64_t config = PSEUDO_REF_CYCLES;

	if (vpmu_key_event(key) != VPMU_EV_REF_CYCLES &&
	    vpmu_key_to_raw(key, VPMU_SPACE_INTEL, &config))
		config = 0;
	for (; p; p = p->also)
		if (!policy_decide(p, listed_raw(p, VPMU_SPACE_INTEL, config), key))
			return false;
	return true;
}

bool vpmu_policy_lbr(const struct vpmu_policy *p)
{
	while (p && p->tier == VPMU_POLICY_FULL)
		p = p->also;
	return !p;
}
