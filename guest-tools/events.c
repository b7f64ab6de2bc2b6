// SPDX-License-Identifier: GPL-2.0-or-later
/* Table of events and the parser of event lists; see events.h. args.c calls it. */
#include "guest-tools/events.h"
#include "guest-tools/text.h"

/*
 * Intel: SDM vol. 3 table 20-1 (architectural events, CPUID 0AH EBX bits) and 20-2 (fixed
 * counters). Architectural event 2 (3C/01, core crystal clock) is not the event of fixed counter 2
 * (TSC rate), so its bit does not apply to ref-cycles. BR_INST_RETIRED.NEAR_TAKEN C4/20, COND C4/11
 * and MEM_INST_RETIRED D0/81, D0/82 are as in Skylake and later. AMD: PPR of family 19h, PMCx0C0,
 * 076, 120 (P0 frequency cycles), 0C2, 0C4, 0D1, 029, 0C3.
 */
const struct event_desc event_table[EV_RAW] = {
	[EV_INSTRUCTIONS] = {"instructions", NULL, 0x00c0, 0x00c0, 0, 1},
	[EV_CYCLES] = {"cycles", "cpu-cycles", 0x003c, 0x0076, 1, 0},
	[EV_REF_CYCLES] = {"ref-cycles", NULL, 0, 0x100000120, 2, -1},
	[EV_BRANCHES] = {"branches", "branch-instructions", 0x00c4, 0x00c2, -1, 5},
	[EV_BRANCHES_TAKEN] = {"branches-taken", NULL, 0x20c4, 0x00c4, -1, -1},
	[EV_BRANCHES_CONDITIONAL] = {"branches-conditional", NULL, 0x11c4, 0x00d1, -1, -1},
	[EV_LOADS] = {"loads", NULL, 0x81d0, 0x0129, -1, -1},
	[EV_STORES] = {"stores", NULL, 0x82d0, 0x0229, -1, -1},
	[EV_BRANCH_MISSES] = {"branch-misses", NULL, 0x00c5, 0x00c3, -1, 6},
	[EV_CACHE_REFERENCES] = {"cache-references", NULL, 0x4f2e, 0, -1, 3},
	[EV_CACHE_MISSES] = {"cache-misses", NULL, 0x412e, 0, -1, 4},
};

static bool events_find(const char *s, size_t len, struct event *e)
{
	for (int i = 0; i < EV_RAW; i++) {
		const struct event_desc *d = &event_table[i];

		if (text_equal(s, len, d->name) || (d->alias && text_equal(s, len, d->alias))) {
			e->id = (enum event_id)i;
			return true;
		}
	}
	if (len > 1 && len <= 5 && s[0] == 'r') {
		char hex[8] = "0x";
		uint64_t v;

		for (size_t i = 1; i < len; i++)
			hex[i + 1] = s[i];
		if (text_u64(hex, len + 1, &v)) {
			e->id = EV_RAW;
			e->config = (uint32_t)v;
			return true;
		}
	}
	return false;
}

static size_t events_list_names(char *buf, size_t size)
{
	size_t n = 0;

	for (int i = 0; i < EV_RAW; i++)
		n += text_format(buf + n, size - n, "%s%s", i ? ", " : "", event_table[i].name);
	return n;
}

/* Parse one event with its modifiers, without blanks or braces. */
static bool parse_one(const char *s, size_t len, struct event *e, char *err, size_t err_size)
{
	size_t name_len = 0;

	*e = (struct event){.id = EV_NR};
	while (name_len < len && s[name_len] != ':')
		name_len++;
	if (!name_len || !events_find(s, name_len, e)) {
		size_t n = text_format(err, err_size, "unknown event '%.*s' in -e: known are ",
				       (int)(len < 64 ? len : 64), s);

		n += events_list_names(err + n, err_size - n);
		text_format(err + n, err_size - n, " and rHEX (umask and event)");
		return false;
	}
	for (size_t i = name_len + 1; i < len; i++) {
		if (s[i] == 'u')
			e->usr = true;
		else if (s[i] == 'k')
			e->os = true;
	}
	for (size_t i = name_len; i < len; i++) {
		if ((i > name_len && s[i] != 'u' && s[i] != 'k') || name_len + 1 == len ||
		    len >= sizeof(e->name)) {
			text_format(err, err_size,
				    "bad modifier in event '%.*s': after ':' come u and k",
				    (int)(len < 64 ? len : 64), s);
			return false;
		}
	}
	if (name_len == len)
		e->usr = e->os = true;
	for (size_t i = 0; i < len; i++)
		e->name[i] = s[i];
	return true;
}

bool events_parse(const char *s, size_t len, struct event *ev, size_t *n, char *err,
		  size_t err_size)
{
	bool group = false;
	size_t i = 0;

	for (;;) {
		size_t start;

		while (i < len && s[i] == '{') {
			if (group) {
				text_format(err, err_size, "'{' inside a group in -e");
				return false;
			}
			group = true;
			i++;
		}
		start = i;
		while (i < len && s[i] != ',' && s[i] != '{' && s[i] != '}')
			i++;
		if (*n == EVENTS_MAX) {
			text_format(err, err_size, "more than %d events in -e", EVENTS_MAX);
			return false;
		}
		if (!parse_one(s + start, i - start, &ev[*n], err, err_size))
			return false;
		++*n;
		if (i < len && s[i] == '}') {
			if (!group) {
				text_format(err, err_size, "'}' without '{' in -e");
				return false;
			}
			group = false;
			i++;
		}
		if (i == len)
			break;
		if (s[i] != ',') {
			text_format(err, err_size, "',' expected at '%.*s' in -e",
				    (int)(len - i < 64 ? len - i : 64), s + i);
			return false;
		}
		i++;
	}
	if (group)
		text_format(err, err_size, "'{' without '}' in -e");
	return !group;
}

bool event_same(const struct event *a, const struct event *b)
{
	return a->id == b->id && a->usr == b->usr && a->os == b->os && a->config == b->config;
}
