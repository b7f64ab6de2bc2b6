// SPDX-License-Identifier: GPL-2.0-or-later
/* Event names, keys and perf attributes (vpmu/event/event.h). Encodings are spelt out from the
 * manuals here and not taken from key.c, so that a wrong row there is seen. */
#include <criterion/criterion.h>

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include <linux/perf_event.h>

#include "vpmu/event/event.h"
#include "vpmu/value.h"
#include "event_names.h"

static uint64_t next_random(uint64_t *state)
{
	/* xorshift64*: any seed but 0 */
	*state ^= *state >> 12;
	*state ^= *state << 25;
	*state ^= *state >> 27;
	return *state * 0x2545f4914f6cdd1dULL;
}

/* ---- names that parse ---------------------------------------------------------------------- */

Test(event, names_that_parse)
{
	char err[512], name[VPMU_EVENT_NAME_MAX];
	vpmu_key_t key;

	for (size_t i = 0; i < sizeof(parses) / sizeof(parses[0]); i++) {
		int rc = vpmu_event_parse(parses[i].name, parses[i].raw_space, &key, err,
					  sizeof(err));

		cr_expect(rc == 0, "line %d: '%s': %d %s", parses[i].line, parses[i].name, rc, err);
		if (rc)
			continue;
		cr_expect(key == parses[i].key, "line %d: '%s': key 0x%lx, expected 0x%lx",
			  parses[i].line, parses[i].name, key, parses[i].key);
		vpmu_event_name(key, name);
		cr_expect(!strcmp(name, parses[i].canonical), "line %d: '%s': named '%s', not '%s'",
			  parses[i].line, parses[i].name, name, parses[i].canonical);
		cr_expect(vpmu_key_valid(key), "line %d: not valid", parses[i].line);
	}
}

/* A cache event that the vendor does not have is one of another vendor, so no CPU counts it by
 * mistake: perf would count any number as a raw event. */
Test(event, cache_events_without_an_encoding)
{
	static const char *const names[] = {"LLC-loads", "LLC-store-misses", "node-loads",
					    "L1-dcache-prefetches"};
	static const enum vpmu_space spaces[] = {VPMU_SPACE_INTEL, VPMU_SPACE_ARM};
	vpmu_key_t key, other = 0;

	for (size_t s = 0; s < 2; s++) {
		for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
			if (spaces[s] == VPMU_SPACE_ARM && !i)
				continue; /* it is LL_CACHE_RD */
			cr_assert(!vpmu_event_parse(names[i], spaces[s], &key, NULL, 0));
			cr_expect(vpmu_key_space(key) != spaces[s], "%s", names[i]);
			cr_expect(vpmu_key_space(key) != VPMU_SPACE_GENERIC, "%s", names[i]);
			cr_expect(key != other, "%s", names[i]);
			other = key;
		}
	}
}

/* ---- names that are refused ------------------------------------------------------------------ */

Test(event, names_that_are_refused)
{
	char err[512];
	vpmu_key_t key;

	for (size_t i = 0; i < sizeof(refusals) / sizeof(refusals[0]); i++) {
		int rc = vpmu_event_parse(refusals[i].name, refusals[i].raw_space, &key, err,
					  sizeof(err));

		cr_expect(rc == refusals[i].rc, "line %d: '%s': %d (%s), expected %d",
			  refusals[i].line, refusals[i].name, rc, rc ? err : "", refusals[i].rc);
		if (rc)
			cr_expect(strstr(err, refusals[i].says), "line %d: '%s' lacks '%s'",
				  refusals[i].line, err, refusals[i].says);
		/* the error text is optional */
		cr_expect(vpmu_event_parse(refusals[i].name, refusals[i].raw_space, &key, NULL,
					   0) == rc);
	}
}

Test(event, long_names_are_refused_not_cut)
{
	char name[1024], err[128];
	vpmu_key_t key;

	memset(name, 'a', sizeof(name));
	for (size_t len = 250; len < sizeof(name); len++) {
		name[len] = '\0';
		cr_expect(vpmu_event_parse(name, VPMU_SPACE_INTEL, &key, err, sizeof(err)) < 0);
		name[len] = 'a';
	}
}

/* ---- lists ----------------------------------------------------------------------------------- */

/* For a backend that counts tasks without guests, too. */
Test(event, guest_and_host_unless_the_name_says_where)
{
	static const struct {
		const char *name;
		uint64_t where;
	} rows[] = {
		{"cycles", VPMU_KEY_GUEST | VPMU_KEY_HOST},
		{"cycles:u", VPMU_KEY_GUEST | VPMU_KEY_HOST},
		{"intel::r1a8", VPMU_KEY_GUEST | VPMU_KEY_HOST},
		{"task-clock", VPMU_KEY_GUEST | VPMU_KEY_HOST},
		{"cycles:G", VPMU_KEY_GUEST},
		{"cycles:uG", VPMU_KEY_GUEST},
		{"r1a8:kH", VPMU_KEY_HOST},
		{"cycles:GH", VPMU_KEY_GUEST | VPMU_KEY_HOST},
		{"skl::INST_RETIRED:ANY_P:k", VPMU_KEY_GUEST | VPMU_KEY_HOST},
		{"skl::INST_RETIRED:ANY_P:G", VPMU_KEY_GUEST},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		vpmu_key_t key, both;

		cr_assert_eq(vpmu_event_parse(rows[i].name, VPMU_SPACE_INTEL, &key, NULL, 0), 0,
			     "%s", rows[i].name);
		both = vpmu_event_host_too(rows[i].name, key);
		cr_expect_eq(both & (VPMU_KEY_GUEST | VPMU_KEY_HOST), rows[i].where, "%s",
			     rows[i].name);
		cr_expect_eq(both & ~VPMU_KEY_HOST & ~VPMU_KEY_GUEST,
			     key & ~VPMU_KEY_HOST & ~VPMU_KEY_GUEST, "%s", rows[i].name);
		cr_expect(vpmu_key_valid(both), "%s", rows[i].name);
	}
}

static const struct {
	int line;
	const char *list;
	int rc;
	const char *expect; /* names as returned, ';' between; or part of the error */
} lists[] = {
	{__LINE__, "cycles", 0, "cycles"},
	{__LINE__, "cycles,instructions:u", 0, "cycles;instructions:u"},
	{__LINE__, "{cycles,instructions},cs", 0, "cycles;instructions;cs"},
	{__LINE__, "{cycles,instructions}:u", 0, "cycles:u;instructions:u"},
	{__LINE__, "{cycles:k,loads}:u,{stores}", 0, "cycles:ku;loads:u;stores"},
	{__LINE__, " cycles , {loads , stores} , cs ", 0, "cycles;loads;stores;cs"},
	{__LINE__, "cycles,cycles", 0, "cycles;cycles"},
	{__LINE__, "a,b", -ENOENT, "event list, character 1: unknown event 'a'"},
	{__LINE__, "cycles,b", -ENOENT, "character 8: unknown event 'b'"},
	{__LINE__, "nope", -ENOENT, "unknown event 'nope'"},
	{__LINE__, "cycles:z", -EINVAL, "event 'cycles:z': 'z' is no modifier; expected u k h G H"},
	{__LINE__, "cs:uz", -EINVAL, "event 'cs:uz': 'uz' is no modifier; expected u k h G H"},
	{__LINE__, "", -EINVAL, "empty event name"},
	{__LINE__, "cycles,", -EINVAL, "character 8: empty"},
	{__LINE__, ",cycles", -EINVAL, "character 1: empty"},
	{__LINE__, "{}", -EINVAL, "empty"},
	{__LINE__, "{cycles", -EINVAL, "'{' without '}'"},
	{__LINE__, "cycles}", -EINVAL, "brace inside"},
	{__LINE__, "{cycles,{loads}}", -EINVAL, "brace inside"},
	{__LINE__, "{cycles}loads", -EINVAL, "after '}'"},
	{__LINE__, "{cycles}:", -EINVAL, "after '}'"},
	{__LINE__, "{cycles}:p", -EINVAL, "precise"},
	{__LINE__, "{cycles}{loads}", -EINVAL, "',' is missing"},
	{__LINE__, "{cycles}:uuuuuuuuuuuuuuuuuuuuuuu", -EINVAL, "after '}'"},
	{__LINE__, "cycles,loads,stores,branches,slots,cs,faults,dummy,task-clock", -E2BIG,
	 "more than 8"},
};

Test(event, lists)
{
	for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]); i++) {
		vpmu_key_t keys[8], again;
		char *names[8] = {NULL};
		char err[512] = "", joined[512] = "";
		size_t n = 8;
		int rc = vpmu_event_parse_list(lists[i].list, VPMU_SPACE_INTEL, keys, names, &n,
					       err, sizeof(err));

		cr_expect(rc == lists[i].rc, "line %d: %d (%s), expected %d", lists[i].line, rc,
			  err, lists[i].rc);
		if (rc) {
			cr_expect(strstr(err, lists[i].expect), "line %d: '%s' lacks '%s'",
				  lists[i].line, err, lists[i].expect);
			cr_expect(n == 0);
			for (size_t j = 0; j < 8; j++)
				cr_expect(!names[j], "line %d: name %zu left", lists[i].line, j);
			continue;
		}
		for (size_t j = 0; j < n; j++) {
			strcat(joined, j ? ";" : "");
			strcat(joined, names[j]);
			cr_expect(!vpmu_event_parse(names[j], VPMU_SPACE_INTEL, &again, NULL, 0));
			cr_expect(again == keys[j], "line %d: '%s' is another key alone",
				  lists[i].line, names[j]);
			free(names[j]);
		}
		cr_expect(!strcmp(joined, lists[i].expect), "line %d: '%s', expected '%s'",
			  lists[i].line, joined, lists[i].expect);
	}
}

/* ---- properties of keys ------------------------------------------------------------------------
 */

/* Any 64 bits: a valid key's name parses back to it under either raw space. If only a guest can ask
 * for the key, its name is refused, and so is a perf event. */
static void check_name(vpmu_key_t key)
{
	static const enum vpmu_space spaces[] = {VPMU_SPACE_INTEL, VPMU_SPACE_AMD};
	char name[VPMU_EVENT_NAME_MAX], err[512];
	vpmu_key_t back;

	vpmu_event_name(key, name);
	if (key & VPMU_KEY_SVM) {
		struct perf_event_attr attr;

		cr_assert(vpmu_event_parse(name, spaces[0], &back, err, sizeof(err)), "%s", name);
		cr_assert_eq(vpmu_key_to_attr(key, &attr), -EOPNOTSUPP, "%s", name);
		return;
	}
	for (size_t i = 0; i < 2; i++) {
		cr_assert(!vpmu_event_parse(name, spaces[i], &back, err, sizeof(err)),
			  "0x%lx '%s': %s", key, name, err);
		cr_assert(back == key, "0x%lx '%s' parses to 0x%lx", key, name, back);
	}
}

Test(event, random_names_parse_back)
{
	uint64_t seed = 0x76706d75;
	unsigned int valid = 0;

	for (unsigned int i = 0; i < 300000; i++) {
		uint64_t r = next_random(&seed);
		enum vpmu_space space = r >> 61 & 1   ? VPMU_SPACE_ARM
					: r >> 60 & 1 ? VPMU_SPACE_INTEL
						      : VPMU_SPACE_AMD;
		vpmu_key_t key = vpmu_key_from_raw(space, r, next_random(&seed));

		cr_assert(!(key & ~VPMU_KEY_VALID_MASK));
		if (!(key & UK) || !(key & (G | H))) {
			cr_assert(!vpmu_key_valid(key));
			continue;
		}
		cr_assert(vpmu_key_valid(key), "0x%lx from 0x%lx", key, r);
		check_name(key);
		valid++;
	}
	cr_expect(valid > 100000);

	/* and arbitrary keys: valid or not, nothing in between */
	for (unsigned int i = 0; i < 300000; i++) {
		vpmu_key_t key = next_random(&seed) & VPMU_KEY_VALID_MASK;

		if (i & 1)
			key &= ~0xffffff00ULL & ~VPMU_KEY_INV & ~VPMU_KEY_EDGE;
		if (vpmu_key_valid(key))
			check_name(key);
	}
	for (unsigned int space = 0; space < 16; space++) {
		for (unsigned int event = 0; event < 32; event++) {
			for (uint64_t flags = 0; flags < 16; flags++) {
				vpmu_key_t key = vpmu_key_make(space, event, flags << 34);

				if (vpmu_key_valid(key))
					check_name(key);
			}
		}
	}
}

/* Two encodings give one key iff they count the same by the manuals. */
Test(event, raw_keys_are_injective)
{
	static const enum vpmu_space spaces[] = {VPMU_SPACE_INTEL, VPMU_SPACE_AMD};
	static const uint64_t tops[] = {0,
					1ULL << 18,
					1ULL << 23,
					1ULL << 24,
					0x85ULL << 24,
					1ULL << 23 | 1ULL << 24,
					0xffULL << 24 | 1ULL << 18};

	for (size_t s = 0; s < 2; s++) {
		for (uint64_t low = 0; low < 1 << 16; low++) {
			for (size_t t = 0; t < sizeof(tops) / sizeof(tops[0]); t++) {
				uint64_t config = low | tops[t], want = config, back;
				vpmu_key_t key;

				/* upper AMD event bits; on Intel they are not event bits */
				if (spaces[s] == VPMU_SPACE_AMD && low & 0x100)
					want = config |= (low >> 9 & 0xf) << 32;
				if (spaces[s] == VPMU_SPACE_INTEL && !(config >> 24 & 0xff))
					want &= ~(1ULL << 23);
				/* EN, INT, PC, USR, OS do not select the event */
				key = vpmu_key_from_raw(spaces[s], config | 0x7b0000, UK | G);
				cr_assert(vpmu_key_valid(key));
				cr_assert(!vpmu_key_to_raw(key, spaces[s], &back), "0x%lx", config);
				cr_assert(back == want, "0x%lx -> 0x%lx -> 0x%lx", config, key,
					  back);
			}
		}
	}
}

Test(event, arm_events_are_numbers)
{
	for (uint64_t config = 0; config <= 0xffff; config++) {
		vpmu_key_t key = vpmu_key_from_raw(VPMU_SPACE_ARM, config, UK | G);
		uint64_t back;

		cr_assert(vpmu_key_valid(key), "0x%lx", config);
		cr_assert(!vpmu_key_to_raw(key, VPMU_SPACE_ARM, &back) && back == config,
			  "0x%lx -> 0x%lx", config, back);
		cr_assert(vpmu_key_space(key) == VPMU_SPACE_GENERIC ||
			  key == KEY(VPMU_SPACE_ARM, config, UK | G));
	}
}

Test(event, keys_without_a_twin_do_not_convert)
{
	uint64_t config;

	cr_expect(vpmu_key_to_raw(vpmu_key_generic(VPMU_EV_REF_CYCLES, UK), VPMU_SPACE_INTEL,
				  &config) == -EOPNOTSUPP);
	cr_expect(vpmu_key_to_raw(vpmu_key_generic(VPMU_EV_CACHE_MISSES, UK), VPMU_SPACE_AMD,
				  &config) == -EOPNOTSUPP);
	cr_expect(vpmu_key_to_raw(vpmu_key_from_raw(VPMU_SPACE_INTEL, 0x1a8, UK | G),
				  VPMU_SPACE_AMD, &config) == -EOPNOTSUPP);
	cr_expect(vpmu_key_to_raw(vpmu_key_from_raw(VPMU_SPACE_ARM, 0x24, UK | G), VPMU_SPACE_AMD,
				  &config) == -EOPNOTSUPP);
	/* perf's bus-cycles are other cycles, and PC_WRITE_RETIRED is more than taken branches. */
	cr_expect(vpmu_key_to_raw(vpmu_key_generic(VPMU_EV_BUS_CYCLES, UK), VPMU_SPACE_ARM,
				  &config) == -EOPNOTSUPP);
	cr_expect(vpmu_key_to_raw(vpmu_key_generic(VPMU_EV_BRANCHES_TAKEN, UK), VPMU_SPACE_ARM,
				  &config) == -EOPNOTSUPP);
	cr_expect(vpmu_key_to_raw(SOFTWARE(PERF_COUNT_SW_TASK_CLOCK, UK), VPMU_SPACE_INTEL,
				  &config) == -EOPNOTSUPP);
	cr_expect(vpmu_key_to_raw(0, VPMU_SPACE_INTEL, &config) == -EOPNOTSUPP);
	cr_expect(vpmu_key_from_raw(VPMU_SPACE_GENERIC, 0xc0, UK | G) == 0);
	cr_expect(vpmu_key_from_raw(0, 0xc0, UK | G) == 0);
}

Test(event, valid)
{
	static const struct {
		int line;
		vpmu_key_t key;
		bool valid;
	} rows[] = {
		{__LINE__, 0, false},
		{__LINE__, GENERIC(VPMU_EV_CYCLES, UK | G), true},
		{__LINE__, GENERIC(VPMU_EV_CYCLES, G), false},
		{__LINE__, GENERIC(VPMU_EV_CYCLES, UK), false},
		{__LINE__, GENERIC(VPMU_EV_GENERIC_NR, UK | G), false},
		{__LINE__, GENERIC(VPMU_EV_CYCLES, UK | G) | 1 << 16, false},
		/* of a guest's SVM */
		{__LINE__, GENERIC(VPMU_EV_CYCLES, UK | G | VPMU_KEY_GUESTONLY), true},
		{__LINE__, GENERIC(VPMU_EV_CYCLES, UK | G | VPMU_KEY_SVM), true},
		{__LINE__, GENERIC(VPMU_EV_CYCLES, UK | H | VPMU_KEY_HOSTONLY), false},
		{__LINE__, GENERIC(VPMU_EV_CYCLES, UK | G | H | VPMU_KEY_HOSTONLY), false},
		{__LINE__, KEY(VPMU_SPACE_AMD, 0xc1, UK | G | VPMU_KEY_HOSTONLY), true},
		{__LINE__, KEY(VPMU_SPACE_INTEL, 0xc1, UK | G | VPMU_KEY_HOSTONLY), false},
		{__LINE__, SOFTWARE(PERF_COUNT_SW_TASK_CLOCK, UK) | VPMU_KEY_HOSTONLY, false},
		{__LINE__, GENERIC(VPMU_EV_CYCLES, UK | G) | 1ULL << 44, false},
		{__LINE__, SOFTWARE(PERF_COUNT_SW_TASK_CLOCK, UK), true},
		{__LINE__, SOFTWARE(PERF_COUNT_SW_TASK_CLOCK, U), false},
		{__LINE__, SOFTWARE(PERF_COUNT_SW_TASK_CLOCK, UK) & ~H, false},
		{__LINE__, SOFTWARE(PERF_COUNT_SW_PAGE_FAULTS, U), true},
		{__LINE__, SOFTWARE(PERF_COUNT_SW_BPF_OUTPUT, UK), false},
		{__LINE__, SOFTWARE(99, UK), false},
		/* has a generic twin */
		{__LINE__, KEY(VPMU_SPACE_INTEL, 0xc0, UK | G), false},
		{__LINE__, KEY(VPMU_SPACE_AMD, 0xc0, UK | G), false},
		{__LINE__, KEY(VPMU_SPACE_INTEL, 0xc1, UK | G), true},
		{__LINE__, KEY(VPMU_SPACE_INTEL, 0x1c1, UK | G), false},
		{__LINE__, KEY(VPMU_SPACE_AMD, 0x1c1, UK | G), true},
		{__LINE__, KEY(VPMU_SPACE_AMD, 0x11c1, UK | G), false},
		/* INV without a counter mask */
		{__LINE__, KEY(VPMU_SPACE_INTEL, 0xc1, UK | G | VPMU_KEY_INV), false},
		{__LINE__, KEY(VPMU_SPACE_ARM, 0x08, UK | G), false},
		{__LINE__, KEY(VPMU_SPACE_ARM, 0x0c, UK | G), true},
		{__LINE__, KEY(VPMU_SPACE_ARM, 0x1000c, UK | G), false},
		{__LINE__, KEY(VPMU_SPACE_ARM, 0x0c, UK | G | VPMU_KEY_INV), false},
		{__LINE__, KEY(6, 0, UK | G), false},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		cr_expect(vpmu_key_valid(rows[i].key) == rows[i].valid, "line %d", rows[i].line);
}

/* ---- perf attributes ---------------------------------------------------------------------------
 */

Test(event, attr_fields)
{
	struct perf_event_attr attr;

	memset(&attr, 0xff, sizeof(attr));
	cr_assert(!vpmu_key_to_attr(GENERIC(VPMU_EV_INSTRUCTIONS, U | G), &attr));
	cr_expect(attr.type == PERF_TYPE_HARDWARE && attr.config == PERF_COUNT_HW_INSTRUCTIONS);
	cr_expect(attr.size == sizeof(attr) && !attr.disabled && !attr.inherit);
	cr_expect(!attr.exclude_user && attr.exclude_kernel && !attr.exclude_guest &&
		  attr.exclude_host);
	cr_expect(!attr.config1 && !attr.config2 && !attr.sample_period && !attr.sample_type);

	cr_assert(!vpmu_key_to_attr(GENERIC(VPMU_EV_CYCLES, K | H), &attr));
	cr_expect(attr.exclude_user && !attr.exclude_kernel && attr.exclude_guest &&
		  !attr.exclude_host);

	cr_assert(!vpmu_key_to_attr(SOFTWARE(PERF_COUNT_SW_CONTEXT_SWITCHES, UK), &attr));
	cr_expect(attr.type == PERF_TYPE_SOFTWARE && attr.config == PERF_COUNT_SW_CONTEXT_SWITCHES);
	cr_expect(!attr.exclude_user && !attr.exclude_kernel && !attr.exclude_guest &&
		  !attr.exclude_host);

	cr_expect(vpmu_key_to_attr(0, &attr) == -EINVAL);
}

Test(event, attr_refusals)
{
	struct perf_event_attr good = {.type = PERF_TYPE_HARDWARE,
				       .size = sizeof(good),
				       .config = PERF_COUNT_HW_INSTRUCTIONS};
	struct perf_event_attr a;
	vpmu_key_t key;

	cr_assert(!vpmu_key_from_attr(&good, &key));
	cr_expect(key == GENERIC(VPMU_EV_INSTRUCTIONS, UK | G | H));
#define REFUSED(change)                                                                            \
	do {                                                                                       \
		a = good;                                                                          \
		change;                                                                            \
		cr_expect(vpmu_key_from_attr(&a, &key) == -EINVAL, #change);                       \
	} while (0)
	REFUSED(a.sample_period = 1000);
	REFUSED((a.freq = 1, a.sample_freq = 99));
	REFUSED(a.precise_ip = 2);
	REFUSED(a.config1 = 1);
	REFUSED(a.config2 = 1);
	REFUSED(a.exclude_idle = 1);
	REFUSED(a.size = sizeof(a) + 8);
	REFUSED(a.config = PERF_COUNT_HW_MAX);
	REFUSED(a.config |= 4ULL << 32);
	REFUSED(a.type = PERF_TYPE_HW_CACHE);
	REFUSED(a.type = PERF_TYPE_TRACEPOINT);
	REFUSED((a.exclude_user = 1, a.exclude_kernel = 1));
	REFUSED((a.exclude_guest = 1, a.exclude_host = 1));
	REFUSED((a.type = PERF_TYPE_SOFTWARE, a.config = PERF_COUNT_SW_BPF_OUTPUT));
	REFUSED((a.type = PERF_TYPE_SOFTWARE, a.config = 99));
	/* counts nothing: they happen in the kernel */
	REFUSED((a.type = PERF_TYPE_SOFTWARE, a.config = PERF_COUNT_SW_CONTEXT_SWITCHES,
		 a.exclude_kernel = 1));

	/* the clocks do not look at privilege: one meaning, one key */
	a = good;
	a.type = PERF_TYPE_SOFTWARE;
	a.config = PERF_COUNT_SW_TASK_CLOCK;
	a.exclude_kernel = 1;
	cr_assert(!vpmu_key_from_attr(&a, &key));
	cr_expect(key == SOFTWARE(PERF_COUNT_SW_TASK_CLOCK, UK));
}

Test(event, attr_round_trip)
{
	uint64_t seed = 42;
	unsigned int tried = 0;

	for (unsigned int i = 0; i < 20000; i++) {
		uint64_t flags = (next_random(&seed) & 0xf) << 34;
		struct perf_event_attr attr;
		vpmu_key_t key, back;

		switch (i % 5) {
		case 0:
			key = GENERIC(next_random(&seed) % VPMU_EV_GENERIC_NR, flags);
			break;
		case 1:
			key = SOFTWARE(next_random(&seed) % 12, flags);
			break;
		case 2:
			key = vpmu_key_from_raw(VPMU_SPACE_AMD, next_random(&seed), flags);
			break;
		case 3:
			key = vpmu_key_from_raw(VPMU_SPACE_ARM, next_random(&seed), flags);
			break;
		default:
			key = vpmu_key_from_raw(VPMU_SPACE_INTEL, next_random(&seed), flags);
		}
		if (vpmu_key_to_attr(key, &attr))
			continue;
		tried++;
		cr_assert(!vpmu_key_from_attr(&attr, &back), "0x%lx", key);
		cr_assert(back == key, "0x%lx -> 0x%lx", key, back);
	}
	cr_expect(tried > 1000);
}

/* ---- listing, errors, threads
 * -------------------------------------------------------------------- */

static int check_info(const struct vpmu_event_info *info, void *arg)
{
	unsigned int *n = arg;
	char name[VPMU_EVENT_NAME_MAX];
	vpmu_key_t key;

	(*n)++;
	cr_expect(vpmu_key_valid(info->key), "%s", info->name);
	cr_expect(!vpmu_event_parse(info->name, 0, &key, NULL, 0) && key == info->key);
	cr_expect(!strcmp(vpmu_event_name(key, name), info->name));
	if (info->alias)
		cr_expect(!vpmu_event_parse(info->alias, 0, &key, NULL, 0) && key == info->key);
	cr_expect(info->desc && *info->desc);
	return 0;
}

static int stop_at_third(const struct vpmu_event_info *info, void *arg)
{
	return ++*(int *)arg == 3 ? 7 : 0;
}

Test(event, listing)
{
	unsigned int n = 0;
	int calls = 0;

	cr_expect(vpmu_event_list(check_info, &n) == 0);
	cr_expect(n == VPMU_EV_GENERIC_NR + 11 + VPMU_SCHED_NR, "%u events", n);
	cr_expect(vpmu_event_list(stop_at_third, &calls) == 7 && calls == 3);
}

Test(event, errors_are_one_clean_line)
{
	static const char alphabet[] = "cyclesinructo:ukGHp,{}- \n\t\x1b\xff=.0123skl";
	uint64_t seed = 7;

	for (unsigned int i = 0; i < 20000; i++) {
		char text[64], err[200];
		vpmu_key_t keys[4];
		size_t n = 4, len = next_random(&seed) % (sizeof(text) - 1);

		for (size_t j = 0; j < len; j++)
			text[j] = alphabet[next_random(&seed) % (sizeof(alphabet) - 1)];
		text[len] = '\0';
		memset(err, 0x7f, sizeof(err));
		if (!vpmu_event_parse_list(text, VPMU_SPACE_AMD, keys, NULL, &n, err, sizeof(err)))
			continue;
		cr_assert(memchr(err, 0, sizeof(err)) && err[0], "no error for '%s'", text);
		for (const char *p = err; *p; p++)
			cr_assert(*p >= ' ' && *p <= '~', "byte 0x%02x", (unsigned char)*p);
	}
}

static void *parse_many(void *arg)
{
	for (unsigned int i = 0; i < 2000; i++) {
		const size_t row = i % (sizeof(parses) / sizeof(parses[0]));
		vpmu_key_t key = 0;

		if (vpmu_event_parse(parses[row].name, parses[row].raw_space, &key, NULL, 0) ||
		    key != parses[row].key)
			return (void *)1;
	}
	return NULL;
}

Test(event, threads)
{
	pthread_t t[4];
	void *bad;

	for (size_t i = 0; i < 4; i++)
		cr_assert(!pthread_create(&t[i], NULL, parse_many, NULL));
	for (size_t i = 0; i < 4; i++) {
		cr_assert(!pthread_join(t[i], &bad));
		cr_expect(!bad);
	}
}

Test(event, quality_names)
{
	cr_expect(!strcmp(vpmu_quality_name(VPMU_Q_EXACT), "exact"));
	cr_expect(!strcmp(vpmu_quality_name(VPMU_Q_MODELLED), "modelled"));
	cr_expect(!strcmp(vpmu_quality_name(VPMU_Q_ESTIMATED), "estimated"));
	cr_expect(!strcmp(vpmu_quality_name(VPMU_Q_TSC), "tsc"));
}
