// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Policies: the text of a list, the events of tiers and lists (KVM_SET_PMU_EVENT_FILTER's
 * masked events), and a guest's view of a denial: a counter that stands still.
 */
#include <errno.h>

#include "guest_use.h"
#include "vpmu/guest/policy.h"

TestSuite(guest_policy, .fini = finish);

#define FLAGS (VPMU_KEY_GUEST | VPMU_KEY_USR)

static bool raw(const struct vpmu_policy *p, enum vpmu_space space, uint64_t sel)
{
	return vpmu_policy_allows(p, space, sel, vpmu_key_from_raw(space, sel, FLAGS));
}

static bool intel(const struct vpmu_policy *p, uint64_t sel)
{
	return raw(p, VPMU_SPACE_INTEL, sel);
}

/* Fixed counter @n of table 20-2 */
static bool fixed(const struct vpmu_policy *p, unsigned int n)
{
	static const enum vpmu_generic ev[] = {VPMU_EV_INSTRUCTIONS, VPMU_EV_CYCLES,
					       VPMU_EV_REF_CYCLES, VPMU_EV_SLOTS};

	return vpmu_policy_allows_fixed(p, vpmu_key_generic(ev[n], VPMU_KEY_USR));
}

/* ---- tiers ---- */

enum { F = 1, S = 2, A = 4 }; /* full, standard, architectural */

static const struct {
	int line;
	enum vpmu_space space;
	uint64_t sel;
	unsigned int tiers;
} tier_rows[] = {
	/* SDM vol. 3 table 20-1 */
	{__LINE__, VPMU_SPACE_INTEL, 0x003c, F | S | A},
	{__LINE__, VPMU_SPACE_INTEL, 0x00c0, F | S | A},
	{__LINE__, VPMU_SPACE_INTEL, 0x013c, F | S | A},
	{__LINE__, VPMU_SPACE_INTEL, 0x4f2e, F | S | A},
	{__LINE__, VPMU_SPACE_INTEL, 0x412e, F | S | A},
	{__LINE__, VPMU_SPACE_INTEL, 0x00c4, F | S | A},
	{__LINE__, VPMU_SPACE_INTEL, 0x00c5, F | S | A},
	{__LINE__, VPMU_SPACE_INTEL, 0x01a4, F | S | A},
	{__LINE__, VPMU_SPACE_INTEL, 0x20c4, F | S},
	{__LINE__, VPMU_SPACE_INTEL, 0x81d0, F | S},
	{__LINE__, VPMU_SPACE_INTEL, 0x82d0, F | S},
	{__LINE__, VPMU_SPACE_INTEL, 0x01d1, F},
	{__LINE__, VPMU_SPACE_INTEL, 0x00c0 | EDGE, F}, /* no more the old one */
	{__LINE__, VPMU_SPACE_INTEL, 0x003c | 2 << 24, F},
	{__LINE__, VPMU_SPACE_AMD, 0x0076, F | S | A},
	{__LINE__, VPMU_SPACE_AMD, 0x00c0, F | S | A},
	{__LINE__, VPMU_SPACE_AMD, 0x00c2, F | S | A},
	{__LINE__, VPMU_SPACE_AMD, 0x00c3, F | S | A},
	{__LINE__, VPMU_SPACE_AMD, 0x100000120, F | S | A},
	{__LINE__, VPMU_SPACE_AMD, 0x00c4, F | S},
	{__LINE__, VPMU_SPACE_AMD, 0x0129, F | S},
	{__LINE__, VPMU_SPACE_AMD, 0x1000000c0, F},
};

Test(guest_policy, tiers)
{
	static const struct vpmu_policy full = {0}, standard = {.tier = VPMU_POLICY_STANDARD},
					arch = {.tier = VPMU_POLICY_ARCHITECTURAL},
					off = {.tier = VPMU_POLICY_OFF};

	for (unsigned int k = 0; k < sizeof(tier_rows) / sizeof(tier_rows[0]); k++) {
		enum vpmu_space space = tier_rows[k].space;
		uint64_t sel = tier_rows[k].sel;
		unsigned int got = (raw(&full, space, sel) ? F : 0) |
				   (raw(&standard, space, sel) ? S : 0) |
				   (raw(&arch, space, sel) ? A : 0);

		cr_assert_eq(got, tier_rows[k].tiers, "line %d: %x", tier_rows[k].line, got);
		cr_assert(!raw(&off, space, sel));
		cr_assert(raw(NULL, space, sel));
	}
	for (unsigned int n = 0; n < 4; n++) {
		cr_assert(fixed(&full, n) && fixed(&standard, n) && fixed(&arch, n));
		cr_assert(fixed(NULL, n) && !fixed(&off, n));
	}
	cr_assert(vpmu_policy_lbr(NULL) && vpmu_policy_lbr(&full));
	cr_assert(!vpmu_policy_lbr(&standard) && !vpmu_policy_lbr(&arch) && !vpmu_policy_lbr(&off));
}

Test(guest_policy, tier_names)
{
	enum vpmu_policy_tier t;

	for (int i = VPMU_POLICY_FULL; i <= VPMU_POLICY_OFF; i++) {
		cr_assert_eq(
			vpmu_policy_tier_parse(vpmu_policy_tier_name((enum vpmu_policy_tier)i), &t),
			0);
		cr_assert_eq(t, (enum vpmu_policy_tier)i);
	}
	cr_assert_eq(vpmu_policy_tier_parse("Full", &t), -EINVAL);
	cr_assert_eq(vpmu_policy_tier_parse("", &t), -EINVAL);
	cr_assert_str_eq(vpmu_policy_tier_name((enum vpmu_policy_tier)9), "?");
}

/* ---- lists as text ---- */

static const struct {
	int line;
	enum vpmu_space space;
	const char *text;
	int ret;
	size_t nr;
	struct vpmu_policy_event last;
} parse_rows[] = {
	{__LINE__, VPMU_SPACE_INTEL, "instructions", 0, 1, {0xc0, 0xff, 0x00, false}},
	{__LINE__, VPMU_SPACE_INTEL, "cycles,branches", 0, 2, {0xc4, 0xff, 0x00, false}},
	{__LINE__, VPMU_SPACE_INTEL, " cycles , loads ", 0, 2, {0xd0, 0xff, 0x81, false}},
	{__LINE__, VPMU_SPACE_INTEL, "ref-cycles", 0, 1, {0x00, 0xff, 0x03, false}},
	{__LINE__, VPMU_SPACE_AMD, "ref-cycles", 0, 1, {0x120, 0xff, 0x01, false}},
	{__LINE__, VPMU_SPACE_AMD, "cycles", 0, 1, {0x76, 0xff, 0x00, false}},
	{__LINE__, VPMU_SPACE_INTEL, "r412e", 0, 1, {0x2e, 0xff, 0x41, false}},
	{__LINE__, VPMU_SPACE_AMD, "r10000ffc0", 0, 1, {0x1c0, 0xff, 0xff, false}},
	{__LINE__, VPMU_SPACE_INTEL, "d1/f0/20", 0, 1, {0xd1, 0xf0, 0x20, false}},
	{__LINE__, VPMU_SPACE_INTEL, "!0xD1/0xff/0x1", 0, 1, {0xd1, 0xff, 0x01, true}},
	{__LINE__, VPMU_SPACE_INTEL, "d1/0/0,!d1/1/1", 0, 2, {0xd1, 0x01, 0x01, true}},
	{__LINE__, VPMU_SPACE_AMD, "fff/0/0", 0, 1, {0xfff, 0, 0, false}},
	{__LINE__, VPMU_SPACE_INTEL, "!cycles", 0, 1, {0x3c, 0xff, 0, true}},
	{__LINE__, VPMU_SPACE_INTEL, "", -EINVAL, 0, {0}},
	{__LINE__, VPMU_SPACE_INTEL, "cycles,", -EINVAL, 0, {0}},
	{__LINE__, VPMU_SPACE_INTEL, ",cycles", -EINVAL, 0, {0}},
	{__LINE__, VPMU_SPACE_INTEL, "cycles,nonsense", -EINVAL, 0, {0}},
	{__LINE__, VPMU_SPACE_INTEL, "cycles:u", -EINVAL, 0, {0}},
	{__LINE__, VPMU_SPACE_INTEL, "amd::r1d1", -EINVAL, 0, {0}},
	{__LINE__, VPMU_SPACE_AMD, "cache-misses", -EINVAL, 0, {0}},
	{__LINE__, VPMU_SPACE_INTEL, "task-clock", -EINVAL, 0, {0}},
	{__LINE__, VPMU_SPACE_INTEL, "r10001a8", -EINVAL, 0, {0}}, /* cmask */
	{__LINE__, VPMU_SPACE_INTEL, "100/0/0", -EINVAL, 0, {0}},
	{__LINE__, VPMU_SPACE_AMD, "1000/0/0", -EINVAL, 0, {0}},
	{__LINE__, VPMU_SPACE_INTEL, "d1/100/0", -EINVAL, 0, {0}},
	{__LINE__, VPMU_SPACE_INTEL, "d1/1/2", -EINVAL, 0, {0}}, /* can match nothing */
	{__LINE__, VPMU_SPACE_INTEL, "d1/1", -EINVAL, 0, {0}},
	{__LINE__, VPMU_SPACE_INTEL, "d1/1/1/1", -EINVAL, 0, {0}},
	{__LINE__, VPMU_SPACE_INTEL, "d1//0", -EINVAL, 0, {0}},
	{__LINE__, VPMU_SPACE_INTEL, "/0/0", -EINVAL, 0, {0}},
	{__LINE__, VPMU_SPACE_INTEL, "0x/0/0", -EINVAL, 0, {0}},
	{__LINE__, VPMU_SPACE_INTEL, "-1/0/0", -EINVAL, 0, {0}},
	{__LINE__, VPMU_SPACE_INTEL, "ffffffffffffffffd1/0/0", -EINVAL, 0, {0}},
	{__LINE__, VPMU_SPACE_INTEL, "!!cycles", -EINVAL, 0, {0}},
};

Test(guest_policy, parse)
{
	for (unsigned int k = 0; k < sizeof(parse_rows) / sizeof(parse_rows[0]); k++) {
		const struct vpmu_policy_event *want = &parse_rows[k].last, *got;
		static struct vpmu_policy p;
		char err[160] = "";
		int ret;

		p = (struct vpmu_policy){0};
		ret = vpmu_policy_add(&p, parse_rows[k].space, parse_rows[k].text, err,
				      sizeof(err));
		cr_assert_eq(ret, parse_rows[k].ret, "line %d: %d %s", parse_rows[k].line, ret,
			     err);
		cr_assert_eq(p.nr_events, parse_rows[k].nr, "line %d", parse_rows[k].line);
		if (ret) {
			cr_assert(*err && !strchr(err, '\n'), "line %d: \"%s\"", parse_rows[k].line,
				  err);
			continue;
		}
		got = &p.events[p.nr_events - 1];
		cr_assert(got->event == want->event && got->mask == want->mask &&
				  got->match == want->match && got->exclude == want->exclude,
			  "line %d: %x/%x/%x %d", parse_rows[k].line, got->event, got->mask,
			  got->match, got->exclude);
	}
}

Test(guest_policy, parse_limits)
{
	static struct vpmu_policy p;
	char text[200], err[100] = "";

	memset(text, 'x', sizeof(text));
	text[sizeof(text) - 1] = '\0';
	cr_assert_eq(vpmu_policy_add(&p, VPMU_SPACE_INTEL, text, err, sizeof(err)), -EINVAL);
	for (unsigned int i = 0; i < VPMU_POLICY_EVENTS_MAX; i++)
		cr_assert_eq(vpmu_policy_add(&p, VPMU_SPACE_INTEL, "cycles", NULL, 0), 0);
	cr_assert_eq(vpmu_policy_add(&p, VPMU_SPACE_INTEL, "cycles", err, sizeof(err)), -E2BIG);
	cr_assert_eq(p.nr_events, (size_t)VPMU_POLICY_EVENTS_MAX);
	/* all or nothing */
	p.nr_events = VPMU_POLICY_EVENTS_MAX - 1;
	cr_assert_eq(vpmu_policy_add(&p, VPMU_SPACE_INTEL, "cycles,cycles", NULL, 0), -E2BIG);
	cr_assert_eq(p.nr_events, (size_t)VPMU_POLICY_EVENTS_MAX - 1);
	cr_assert_eq(vpmu_policy_add(&p, VPMU_SPACE_INTEL, "nonsense", NULL, 0), -EINVAL);
}

/* ---- lists ---- */

static void list(struct vpmu_policy *p, const char *text)
{
	char err[160];

	cr_assert_eq(vpmu_policy_add(p, VPMU_SPACE_INTEL, text, err, sizeof(err)), 0, "%s", err);
}

Test(guest_policy, allow)
{
	static struct vpmu_policy p = {.tier = VPMU_POLICY_ARCHITECTURAL,
				       .action = VPMU_POLICY_ALLOW};

	list(&p, "instructions,d1/f0/20,!d1/ff/21");
	cr_assert(intel(&p, 0x00c0));
	cr_assert(intel(&p, 0x00c0 | EDGE | 1 << 24), "event and unit mask only");
	cr_assert(!intel(&p, 0x003c), "only what the list has");
	cr_assert(intel(&p, 0x20d1), "tier or not");
	cr_assert(intel(&p, 0x2fd1));
	cr_assert(!intel(&p, 0x21d1), "excluded again");
	cr_assert(!intel(&p, 0x10d1));
	cr_assert(fixed(&p, 0) && !fixed(&p, 1) && !fixed(&p, 2) && !fixed(&p, 3),
		  "by their events");
	list(&p, "ref-cycles,slots");
	cr_assert(fixed(&p, 2) && fixed(&p, 3));
}

Test(guest_policy, deny)
{
	static struct vpmu_policy p = {.tier = VPMU_POLICY_STANDARD, .action = VPMU_POLICY_DENY};

	list(&p, "branches,3c/0/0,!3c/ff/1");
	cr_assert(!intel(&p, 0x00c4));
	cr_assert(!intel(&p, 0x00c4 | EDGE), "a trick");
	cr_assert(intel(&p, 0x20c4), "another unit mask");
	cr_assert(!intel(&p, 0x003c));
	cr_assert(intel(&p, 0x013c), "taken out of the list");
	cr_assert(intel(&p, 0x00c0));
	cr_assert(!intel(&p, 0x01d1), "the tier, still");
	cr_assert(fixed(&p, 0) && !fixed(&p, 1) && fixed(&p, 2));
}

/* ---- the guest's view ---- */

static void start_policy(enum vpmu_guest_model model, const struct vpmu_policy *p)
{
	struct vpmu_guest_cfg cfg = {.model = model, .policy = p};

	finish();
	cr_assert_eq(bed_init(&b, &cfg, NULL), 0);
	bed_enter(&b, 0);
}

Test(guest_policy, denied_counter_stands)
{
	static const struct vpmu_policy p = {.tier = VPMU_POLICY_ARCHITECTURAL};
	struct vpmu_sharing s;

	start_policy(VPMU_GUEST_INTEL_V5, &p);
	wr(0xc1, 55);
	wr(0x186, LOADS | USR | EN | INT);
	wr(0x187, INSTR | USR | EN);
	bed_exec(&b, VPMU_EMU_USR, VPMU_EMU_LOADS, 1000);
	work(1000, 0);
	bed_time(&b, 10);
	cr_assert_eq(rd(0x186), LOADS | USR | EN | INT, "programmed as on hardware");
	cr_assert_eq(rd(0xc1), 55u);
	cr_assert_eq(PV_Q(0), VPMU_PV_UNSUPPORTED);
	cr_assert_eq(PV_EN(0), 0u);
	cr_assert_eq(rd(0xc2), 1000u);
	cr_assert_eq(PV_Q(1), VPMU_Q_EXACT);
	cr_assert_eq(b.g->denied, 1u);
	cr_assert_eq(b.g->denied_last, LOADS | USR | EN | INT);
	vpmu_host_sharing(b.host, &s);
	cr_assert_eq(s.keys, 1u, "the host counts nothing for it");
	/* it is a counter like any other */
	wr(0xc1, 7);
	cr_assert_eq(rd(0xc1), 7u);
	cr_assert_eq(PV_Q(0), VPMU_PV_UNSUPPORTED);
	wr(0x186, INSTR | USR | EN);
	work(3, 0);
	cr_assert_eq(rd(0xc1), 10u);
	cr_assert_eq(PV_Q(0), VPMU_PV_UNSUPPORTED, "some of it was not counted");
	wr(0xc1, 0);
	cr_assert_eq(PV_Q(0), VPMU_Q_EXACT);
	/* selected, but not on: nothing was denied */
	wr(0x186, LOADS | USR);
	wr(0x186, LOADS | EN);
	wr(0x186, 0);
	cr_assert_eq(b.g->denied, 1u);
}

/* A counter that counted and is given a denied event keeps its value. */
Test(guest_policy, denied_after_allowed)
{
	static const struct vpmu_policy p = {.tier = VPMU_POLICY_ARCHITECTURAL};

	start_policy(VPMU_GUEST_AMD_V2, &p);
	wr(0xc0010200, 0xc0 | USR | EN);
	work(10, 0);
	wr(0xc0010200, 0x129 | USR | EN);
	work(10, 0);
	bed_exec(&b, VPMU_EMU_USR, VPMU_EMU_LOADS, 1000);
	cr_assert_eq(rd(0xc0010201), 10u);
	cr_assert_eq(b.g->denied, 1u);
}

Test(guest_policy, denied_fixed)
{
	static struct vpmu_policy p = {.action = VPMU_POLICY_DENY};

	list(&p, "cycles");
	start_policy(VPMU_GUEST_INTEL_V2, &p);
	wr(0x38d, 0x333);
	wr(0x38f, 7ULL << 32);
	work(10, 0);
	cr_assert_eq(rd(0x309), 10u);
	cr_assert_eq(rd(0x30a), 0u);
	cr_assert_eq(rd(0x30b), 20u);
	cr_assert_eq(b.g->denied, 1u);
	cr_assert_eq(b.g->denied_last, 1u);
	wr(0x38d, 0x332); /* counter 1 as before */
	cr_assert_eq(b.g->denied, 1u);
}

/* CPUID 0AH:EBX has denied architectural events as not available. */
Test(guest_policy, cpuid_events)
{
	static struct vpmu_policy p = {.action = VPMU_POLICY_DENY};
	uint32_t v[4] = {0};

	list(&p, "cycles,branches");
	start_policy(VPMU_GUEST_INTEL_V5, &p);
	vpmu_guest_cpuid(b.g, 0xa, 0, v);
	cr_assert_eq(v[1], 0xdcu | 1 | 1 << 5);
}

/* Tier off is model none, branch records included. */
Test(guest_policy, off)
{
	static const struct vpmu_policy p = {.tier = VPMU_POLICY_OFF};
	static const uint32_t msrs[] = {0xc1,	    0x186,  0x309,	0x345,	   0x38f,
					0xc0010000, 0x14ce, 0xc0010200, 0xc0000300};

	for (int m = VPMU_GUEST_NONE; m < VPMU_GUEST_MODELS; m++) {
		uint32_t v[4] = {~0u, ~0u, ~0u, ~0u};
		uint64_t val;

		start_policy((enum vpmu_guest_model)m, &p);
		for (unsigned int i = 0; i < sizeof(msrs) / sizeof(msrs[0]); i++) {
			cr_assert_eq(vpmu_guest_rdmsr(b.g, msrs[i], &val), -EFAULT);
			cr_assert_eq(vpmu_guest_wrmsr(b.g, msrs[i], 0), -EFAULT);
		}
		cr_assert_eq(vpmu_guest_rdpmc(b.g, 0, &val), -EFAULT);
		vpmu_guest_cpuid(b.g, 0xa, 0, v);
		cr_assert_eq(v[0], 0u);
		cr_assert(!vpmu_guest_service(b.g));
	}
}
