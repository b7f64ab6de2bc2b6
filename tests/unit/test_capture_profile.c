// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * service/profile.c, profile_commands.c: every sample is in a row, among others, or lost and
 * said.
 */
#include <errno.h>

#include "capture_bed.h"
#include "service/profile.h"
#include "vpmu/event/event.h"
#include "vpmu/sampler.h"

#define PERIOD 97

#define START "{'cmd':'profile-start'"
#define INSNS START ",'event':'instructions'"
#define LOADS START ",'event':'loads'"

TestSuite(profile, .init = bed_acme, .fini = bed_fini);

/* Samples of the rows, or chains, and of the rest. */
static uint64_t sum(const json_t *o, const char *key)
{
	char other[32];
	const json_t *row;
	uint64_t n;
	size_t i;

	snprintf(other, sizeof(other), "other-%s", key);
	n = num(o, other);
	json_array_foreach (json_object_get(o, key), i, row)
		n += num(row, "samples");
	return n;
}

static const json_t *row_of(const json_t *o, const char *vm, int vcpu, const char *ip)
{
	const json_t *row, *found = NULL;
	size_t i;

	json_array_foreach (json_object_get(o, "rows"), i, row) {
		if (strcmp(str(row, "vm"), vm) == 0 && strcmp(str(row, "ip"), ip) == 0 &&
		    (vcpu < 0 || integer(row, "vcpu") == vcpu)) {
			cr_expect(!found, "one row for %s/%d %s", vm, vcpu, ip);
			found = row;
		}
	}
	return found;
}

Test(profile, samples_are_the_floors_of_the_counts)
{
	uint64_t counted[TEST_PCPUS] = {0}, floors = 0;
	struct bed_vcpu o;
	json_t *a;

	bed_vm(acme, "web-1", 3);
	bed_vcpu_init(&o, test_vm(&h, acme->parent->first_child, "out", 1), 0);
	must(INSNS ",'period':'97','target':'/acme','name':'p'}");
	srand(1);
	for (int i = 0; i < 5000; i++) {
		unsigned int p = (unsigned int)rand() % TEST_PCPUS, n = (unsigned int)rand() % 300;
		struct bed_vcpu *b = &vcpu[rand() % 3];

		b->at = (struct vpmu_where){.ip = 0x1000 + (unsigned int)rand() % 20,
					    .cpl = rand() % 2 ? 3 : 0};
		test_run(&h, p, &b->v, n);
		counted[p] += n;
		test_run(&h, p, i % 2 ? &o.v : NULL, 50); /* others' do not count */
		if (i % 1000 == 0)
			must("{'cmd':'profile-read','profile':'p'}");
	}
	a = must("{'cmd':'profile-stop','profile':'p'}");
	for (int p = 0; p < TEST_PCPUS; p++)
		floors += counted[p] / PERIOD;
	cr_expect_eq(num(a, "samples") + num(a, "lost"), floors);
	cr_expect_eq(num(a, "lost"), 0);
	cr_expect_eq(sum(a, "rows"), num(a, "samples"));
	cr_expect_eq(num(a, "count"), counted[0] + counted[1]);
	cr_expect_eq(num(a, "period"), PERIOD);
	cr_expect_str_eq(str(a, "quality"), "exact");
	cr_expect_eq(integer(a, "nr-rows"), 3 * 20 * 2);
	cr_expect(!row_of(a, "out", -1, "0x1000"));
	cr_expect(!json_object_get(a, "chains"));
	cr_expect_eq(size_of(must("{'cmd':'profiles'}"), "profiles"), 0);
	test_vcpu_fini(&o.v);
}

Test(profile, rows_say_who_where_and_how_privileged)
{
	const json_t *row;
	json_t *a;

	bed_vm(acme, "web-1", 2);
	vcpu[1].v.ctx.where = NULL; /* unknown */
	a = must("{'cmd':'profile-start','event':'cycles:u','target':'web-1'}");
	expect_has(a, "{'profile':'@1','event':'cycles:u','target':'web-1'}");
	cr_expect_eq(num(a, "period"), PROFILE_PERIOD, "the default");
	vcpu[0].at = (struct vpmu_where){.ip = 0xffffffff81000000, .cpl = 3};
	test_run(&h, 0, &vcpu[0].v, 3 * PROFILE_PERIOD / 2); /* two cycles each */
	test_run(&h, 1, &vcpu[1].v, PROFILE_PERIOD / 2);
	a = must("{'cmd':'profile-read','profile':'@1'}");
	expect_has(a, "{'samples':'4','quality':'modelled'}");
	row = row_of(a, "web-1", 0, "0xffffffff81000000");
	cr_assert(row);
	expect_has(row, "{'samples':'3','cpl':3}");
	row = row_of(a, "web-1", 1, "(none)");
	cr_assert(row, "not known where, but who");
	cr_expect_eq(num(row, "samples"), 1);
	cr_expect(!json_object_get(row, "cpl"));
	a = must("{'cmd':'profile-read','profile':'@1','max':1}");
	cr_expect_eq(size_of(a, "rows"), 1);
	expect_has(a, "{'other-rows':'1','nr-rows':2}");
}

Test(profile, the_host_itself_has_no_vm)
{
	json_t *a;

	must(INSNS ",'period':100}");
	test_run(&h, 0, NULL, 1000);
	a = must("{'cmd':'profile-stop','profile':'@1'}");
	cr_expect_eq(num(a, "samples"), 10);
	cr_expect_eq(sum(a, "rows"), 10);
	cr_assert(row_of(a, "(none)", -1, "(none)"));
}

Test(profile, vms_come_and_go)
{
	struct node *vm;
	json_t *a;

	must(INSNS ",'period':10,'target':'/acme','name':'all'}");
	for (int round = 0; round < 3; round++) {
		vm = bed_vm(acme, "web-1", 2);
		must(INSNS ",'period':10,'target':'web-1','name':'one','lbr':true}");
		vcpu[0].at.ip = 0x400;
		test_run(&h, 0, &vcpu[0].v, 50);
		test_run(&h, 1, &vcpu[1].v, 20);
		/* Nobody reads before they go. */
		bed_vm_remove(vm);
		a = must("{'cmd':'profile-read','profile':'one'}");
		expect_has(a, "{'gone':true,'samples':'7','count':'70'}");
		cr_expect_eq(sum(a, "chains"), 7);
		cr_expect_eq(num(row_of(a, "web-1", 0, "0x400"), "samples"), 5);
		must("{'cmd':'profile-stop','profile':'one'}");
	}
	a = must("{'cmd':'profile-read','profile':'all'}");
	/* Late: the first of five that were noticed together. */
	expect_has(a, "{'gone':false,'samples':'21','late-max':'40'}");
	cr_expect_eq(num(row_of(a, "web-1", 0, "0x400"), "samples"), 15, "the same name, one row");
	cr_assert_eq(tenant_remove(h.ts, "/acme", h.err, sizeof(h.err)), 0, "%s", h.err);
	expect_has(must("{'cmd':'profile-stop','profile':'all'}"), "{'gone':true,'samples':'21'}");
}

Test(profile, chains_are_calls_newest_first)
{
	struct vpmu_lbr_regs *lbr = &h.pmu[0].tally->lbr;
	json_t *a;

	bed_vm(acme, "web-1", 1);
	must(INSNS ",'period':100,'target':'/acme','lbr':true}");
	vcpu->at = (struct vpmu_where){.ip = 0x333, .cpl = 3};
	bed_enter(0, vcpu);
	cr_assert(lbr->ctl & VPMU_LBR_EN, "captured as well");
	cr_assert(lbr->ctl & VPMU_LBR_CALL_STACK);
	for (unsigned int i = 1; i <= 2; i++) {
		lbr->head = (uint8_t)((lbr->head + 1) % VPMU_LBR_DEPTH_MAX);
		lbr->e[lbr->head] = (struct vpmu_lbr_entry){.from = 0x110 * i, .to = 0x300};
		lbr->count++;
		lbr->total++;
	}
	test_retire(&h.pmu[0], 100);
	vpmu_pcpu_overflow(h.pcpu[0]);
	lbr->e[lbr->head].from = VPMU_LBR_FROM_FILTERED;
	test_retire(&h.pmu[0], 300);
	vpmu_pcpu_overflow(h.pcpu[0]);
	vpmu_pcpu_switch(h.pcpu[0], NULL);
	a = must("{'cmd':'profile-stop','profile':'@1'}");
	expect_has(a, "{'samples':'4','unchained':'0'}");
	cr_expect_eq(sum(a, "chains"), 4);
	cr_assert_eq(size_of(a, "chains"), 2);
	expect_has(nth(a, "chains", 0), "{'samples':'3','chain':['0x333',null,'0x110']}");
	expect_has(nth(a, "chains", 1), "{'chain':['0x333','0x220','0x110']}");
	vpmu_pcpu_switch(h.pcpu[0], &vcpu->v.ctx);
	cr_expect_not(lbr->ctl & VPMU_LBR_EN, "and not any more");
}

Test(profile, a_guest_that_records_branches_has_no_chain)
{
	json_t *a;

	bed_vm(acme, "web-1", 1);
	bed_guest_records();
	must(INSNS ",'period':100,'target':'/acme','lbr':true}");
	test_run(&h, 0, &vcpu->v, 500);
	a = must("{'cmd':'profile-stop','profile':'@1'}");
	expect_has(a, "{'samples':'5','unchained':'5'}");
	cr_expect_eq(sum(a, "chains"), 5);
}

/* ---- bounds ------------------------------------------------------------------------------- */

static struct profile *direct_timed(struct profiles *ps, bool lbr, bool times)
{
	const struct profile_spec spec = {.event = "instructions",
					  .key = 0,
					  .period = 1000,
					  .lbr = lbr,
					  .times = times,
					  .open.target = tenants_root(h.ts)};
	struct profile_spec s = spec;
	struct profile *p = NULL;

	cr_assert_eq(vpmu_event_parse("instructions", VPMU_SPACE_INTEL, &s.key, NULL, 0), 0);
	cr_assert_eq(profile_start(ps, &s, &p, h.err, sizeof(h.err)), 0, "%s", h.err);
	return p;
}

static struct profile *direct(struct profiles *ps, bool lbr)
{
	return direct_timed(ps, lbr, false);
}

static uint64_t traced(const struct traces *t)
{
	const struct trace **all = traces_sorted(t);
	uint64_t n = t->other;

	for (size_t i = 0; i < t->nr; i++)
		n += all[i]->samples;
	free(all);
	return n;
}

Test(profile, full_rings_lose_and_say_so)
{
	const struct vpmu_lbr_regs none = {.ctl = 0};
	struct vpmu_backend_sample s = {.known = true, .periods = 3, .cpu = 1};
	struct profiles *ps;
	struct profile *p;

	cr_assert_eq(profiles_create(h.ts, NULL, &ps), 0);
	for (int lbr = 0; lbr < 2; lbr++) {
		uint64_t slots = lbr ? SAMPLE_CHAIN_SLOTS : SAMPLE_RING_SLOTS, sent = 0;

		p = direct(ps, lbr);
		s.branches = lbr ? &none : NULL;
		for (int round = 0; round < 5; round++) {
			for (uint64_t i = 0; i < 2 * slots + (uint64_t)round; i++, sent += 3)
				profile_sample(p, &s);
			profile_read(p);
			cr_expect_eq(p->samples, 3 * slots * (uint64_t)(round + 1));
			cr_expect_eq(p->samples + p->lost, sent);
			cr_expect_eq(traced(&p->rows), p->samples);
			cr_expect_eq(traced(&p->chains), lbr ? p->samples : 0);
		}
		profile_stop(p);
	}
	profiles_destroy(ps);
}

/* Sample i is at address i modulo 3, 10 * i ns after the start, and stands for 3. */
Test(profile, each_sample_has_its_time_while_there_is_room)
{
	const struct vpmu_lbr_regs none = {.ctl = 0};
	const uint64_t n = PROFILE_TIMES_MAX / 3 + 100;

	for (int times = 0; times < 2; times++) {
		struct vpmu_backend_sample s = {.known = true, .periods = 3, .branches = &none};
		const struct trace **all;
		struct profiles *ps;
		uint64_t kept = 0;
		struct profile *p;

		cr_assert_eq(profiles_create(h.ts, NULL, &ps), 0);
		p = direct_timed(ps, true, times);
		for (uint64_t i = 1; i <= n; i++) {
			s.ip = i % 3;
			s.time_ns = times ? p->opened_ns + 10 * i : 0;
			profile_sample(p, &s);
			if (i % 1000 == 0)
				profile_read(p);
		}
		profile_read(p);
		cr_expect_eq(p->samples, 3 * n);
		cr_expect_eq(traced(&p->chains), 3 * n);
		cr_expect_eq(p->rows.nr_times, 0u);
		all = traces_sorted(&p->chains);
		cr_assert_eq(p->chains.nr, 3u);
		for (size_t c = 0; c < 3; c++) {
			kept += all[c]->nr_times;
			for (size_t k = 0; k < all[c]->nr_times; k++) {
				uint64_t at = all[c]->time_ns[k];

				cr_assert(at % 10 == 0 && at / 10 % 3 == all[c]->ip[0]);
				cr_assert(!k || all[c]->time_ns[k - 1] <= at);
			}
		}
		cr_expect_eq(kept, times ? PROFILE_TIMES_MAX : 0);
		free(all);
		profiles_destroy(ps);
	}
}

Test(profile, more_addresses_than_rows_go_into_other)
{
	struct vpmu_backend_sample s = {.known = true, .periods = 1};
	struct profiles *ps;
	struct profile *p;
	uint64_t sent = 0;

	cr_assert_eq(profiles_create(h.ts, NULL, &ps), 0);
	p = direct(ps, false);
	for (int again = 0; again < 2; again++) {
		for (s.ip = 0; s.ip < PROFILE_ROWS_MAX + 5000; s.ip++, sent++) {
			profile_sample(p, &s);
			if (sent % SAMPLE_RING_SLOTS == 0)
				profile_read(p);
		}
	}
	profile_read(p);
	cr_expect_eq(p->lost, 0);
	cr_expect_eq(p->rows.nr, PROFILE_ROWS_MAX);
	cr_expect_eq(p->rows.other, 10000);
	cr_expect_eq(traced(&p->rows), sent);
	cr_expect_eq(p->samples, sent);
	profiles_destroy(ps);
}

/* ---- requests ----------------------------------------------------------------------------- */

Test(profile, bad_requests)
{
	static const struct bad bad[] = {
		{START "}", "event: missing", EINVAL},
		{START ",'event':5}", "event: an integer is invalid; expected a string", EINVAL},
		{START ",'event':''}", "event: 0 bytes", EINVAL},
		{START ",'event':'bogus'}", "event: unknown event 'bogus'", ENOENT},
		{START ",'event':'loads,stores'}", "event: ", EINVAL},
		{START ",'event':'cache-misses'}", "no CPU of backend emulator can sample it",
		 EOPNOTSUPP},
		{LOADS ",'period':0}", "period: 0 is invalid; expected 1 to ", EINVAL},
		{LOADS ",'period':'0'}", "period: \"0\" is invalid; expected 1 to ", EINVAL},
		{LOADS ",'period':140737488355329}", "1 to 140737488355328", EINVAL},
		{LOADS ",'period':'140737488355329'}", "1 to 140737488355328", EINVAL},
		{LOADS ",'period':' 7'}", "period: \" 7\"", EINVAL},
		{LOADS ",'period':'-7'}", "period: \"-7\"", EINVAL},
		{LOADS ",'period':'7x'}", "period: \"7x\"", EINVAL},
		{LOADS ",'period':'99999999999999999999'}", "period: \"9999", EINVAL},
		{LOADS ",'period':true}", "period: ", EINVAL},
		{LOADS ",'target':'/nope'}", "no tenant \"/nope\"", ENOENT},
		{LOADS ",'target':'nope'}", "no VM \"nope\"", ENOENT},
		{LOADS ",'lbr':1}", "lbr: an integer", EINVAL},
		{LOADS ",'times':1}", "times: an integer", EINVAL},
		{LOADS ",'times':true}", "times: true without lbr: true; expected both", EINVAL},
		{LOADS ",'lbr':true,'target':'/host'}", "target: no branch records", EOPNOTSUPP},
		{LOADS ",'name':'a b'}", "name: \"a b\"", EINVAL},
		{LOADS ",'name':'taken'}", "there is a profile", EEXIST},
		{LOADS ",'keep':0}", "keep: ", EINVAL},
		{LOADS ",'scope':'vm'}", "scope: unknown field", EINVAL},
		{"{'cmd':'profile-read'}", "profile: missing", EINVAL},
		{"{'cmd':'profile-read','profile':'nope'}",
		 "profile: no \"nope\"; `vpmu sessions` shows", ENOENT},
		{"{'cmd':'profile-read','profile':'taken','max':65537}",
		 "max: 65537 is invalid; expected 0 to 65536", EINVAL},
		{"{'cmd':'profile-stop','profile':7}", "profile: an integer", EINVAL},
		{"{'cmd':'profile-stop','session':'taken'}", "session: unknown field", EINVAL},
		{"{'cmd':'profiles','x':1}", "x: unknown field", EINVAL},
	};

	must(LOADS ",'name':'taken','keep':true}");
	all_bad(bad, sizeof(bad) / sizeof(bad[0]));
	cr_expect_eq(size_of(must("{'cmd':'profiles'}"), "profiles"), 1, "nothing was left behind");
}

Test(profile, as_many_as_the_host_has_samplers)
{
	json_t *a;

	for (int i = 0; i < VPMU_SAMPLERS_MAX; i++)
		must(LOADS "}");
	a = ask(LOADS "}");
	cr_expect(strstr(str(a, "error"), "backend emulator has no sampler left"), "%s",
		  str(a, "error"));
	must("{'cmd':'profile-stop','profile':'@7'}");
	must(LOADS "}");
}
