// SPDX-License-Identifier: GPL-2.0-or-later
/* What guests may count: policies of tenants' sections, the tenant that decides, and quotas of
 * distinct events. */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <unistd.h>

#include "vpmu/event/event.h"
#include "vpmud/config.h"
#include "vpmud/guest_kept.h"
#include "vpmud/guest_quota.h"

static struct vpmud_config c;
static struct guest_events host;
static char err[600];

static void setup(void)
{
	vpmud_config_init(&c);
}

static void teardown(void)
{
	vpmud_config_fini(&c);
}

TestSuite(vpmud_policy, .init = setup, .fini = teardown);

static int read_text(const char *text)
{
	vpmud_config_fini(&c);
	vpmud_config_init(&c);
	*err = '\0';
	return vpmud_config_text(&c, "f.conf", text, strlen(text), err, sizeof(err));
}

/* One tenant with @keys, and a host's list. */
static const struct guest_policy *policy(const char *events, const char *keys)
{
	char text[800];

	snprintf(text, sizeof(text), "[vpmud]\nguest_events = %s\n[tenant /t]\n%s", events, keys);
	cr_assert_eq(read_text(text), 0, "%s", err);
	host.nr = guests_parse(c.guest_events, host.key, err, sizeof(err));
	cr_assert_geq(host.nr, 0);
	return rules_guest(&c.rules, "/t");
}

static vpmu_key_t key(const char *name)
{
	vpmu_key_t k;

	cr_assert_eq(vpmu_event_parse(name, vpmu_event_host_space(), &k, err, sizeof(err)), 0,
		     "%s: %s", name, err);
	return k;
}

Test(vpmud_policy, decisions)
{
	static const struct {
		const char *events, *keys;
		/* allowed: instructions:u, branch-misses, r01ff, page-faults, context-switches */
		const char *allowed;
		const char *text;
	} rows[] = {
		{"none", "", "-----", "policy=off\n"},
		{"instructions page-faults", "", "i--p-", "allow=instructions\n"},
		{"page-faults", "", "---p-", "policy=off\n"},
		{"instructions branch-misses", "deny = branch-misses\n", "i----",
		 "allow=instructions\n"},
		{"instructions page-faults", "deny = page-faults\n", "i----",
		 "allow=instructions\n"},
		{"instructions", "policy = standard\n", "ib---", "policy=standard\n"},
		{"page-faults", "policy = full\ndeny = branch-misses\n", "i-r--",
		 "policy=full\ndeny=branch-misses\n"},
		{"none", "policy = architectural\n", "ib---", "policy=architectural\n"},
		{"instructions", "policy = off\n", "-----", "policy=off\n"},
		{"instructions", "pmu = none\n", "-----", "pmu=none\nallow=instructions\n"},
		{"none", "allow = r01ff\nallow = page-faults,instructions\n", "i-rp-",
		 "allow=r01ff,instructions\n"},
		{"instructions", "allow = page-faults\n", "---p-", "policy=off\n"},
		{"none", "policy=standard\nallow=ff/0/0,!r02ff\n", "--r--",
		 "policy=standard\nallow=ff/0/0,!r02ff\n"},
		{"instructions", "max_events = 3\npmu = amd-v2\ngp = 5\n", "i----",
		 "pmu=amd-v2\ngp=5\nallow=instructions\n"},
	};
	static const char *const names[] = {"instructions:u", "branch-misses", "r01ff",
					    "page-faults", "context-switches"};

	if (!vpmu_event_host_space())
		cr_skip_test("the CPU's vendor is not known");
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		const struct guest_policy *p = policy(rows[i].events, rows[i].keys);
		char *text = guest_policy_text(p, &host), allowed[6] = "-----";

		for (int n = 0; n < 5; n++)
			if (guest_policy_allows(p, &host, key(names[n])))
				allowed[n] = names[n][0];
		cr_expect_str_eq(allowed, rows[i].allowed, "%zu: %s, %s: %s", i, rows[i].events,
				 rows[i].keys, allowed);
		if (strcmp(rows[i].keys, "pmu = none\n"))
			cr_expect_str_eq(text, rows[i].text, "%zu: %s", i, text);
		free(text);
	}
}

/* Keys are a VMM's, so any 64 bits: what is not an event that counts in guests is denied. */
Test(vpmud_policy, forged_keys)
{
	const struct guest_policy *p = policy("instructions", "policy = full\n");
	const vpmu_key_t i = key("instructions");

	cr_expect(guest_policy_allows(p, &host, i));
	cr_expect_not(guest_policy_allows(p, &host, 0));
	cr_expect_not(guest_policy_allows(p, &host, i & ~(VPMU_KEY_USR | VPMU_KEY_OS)));
	cr_expect_not(guest_policy_allows(p, &host, i | VPMU_KEY_HOST));
	cr_expect_not(guest_policy_allows(p, &host, (i | VPMU_KEY_HOST) & ~VPMU_KEY_GUEST));
	cr_expect_not(guest_policy_allows(p, &host, i | 1ull << 63));
	cr_expect_not(guest_policy_allows(p, &host, i | 1ull << 16));
	cr_expect_not(guest_policy_allows(p, &host, vpmu_key_sched(VPMU_SCHED_RUN_DELAY)));
	for (int bit = 0; bit < 64; bit++)
		cr_expect_not(guest_policy_allows(NULL, &host, 1ull << bit));
}

Test(vpmud_policy, which_section)
{
	static const char text[] = "[vpmud]\nguest_events = none\n"
				   "[tenant /a]\nmax_events = 1\ntenant_max_events = 9\n"
				   "[tenant /a/b]\ntenant_max_events = 3\n"
				   "[tenant /a/b/c]\nmax_events = 2\n"
				   "[tenant /s/*]\ncgroup = /s/*\nmax_events = 4\n"
				   "[tenant /s/own]\nmax_events = 5\n"
				   "[tenant /ab]\n";
	static const struct {
		const char *path;
		unsigned int vm, tenant; /* 0: no section */
	} rows[] = {
		{"/a", 1, 9},	  {"/a/b", 1, 3},     {"/a/b/c", 2, 0}, {"/a/b/c/d", 2, 0},
		{"/a/bc", 1, 0},  {"/ab", 0, 0},      {"/abc", 0, 0},	{"/host", 0, 0},
		{"/s/any", 4, 0}, {"/s/any/x", 4, 0}, {"/s/own", 5, 0}, {"/s", 0, 0},
		{"/", 0, 0},
	};

	cr_assert_eq(read_text(text), 0, "%s", err);
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		const struct guest_policy *p = rules_guest(&c.rules, rows[i].path);

		cr_expect_eq(p ? p->max_events : 0, rows[i].vm, "%s", rows[i].path);
		cr_expect_eq(rules_guest_max(&c.rules, rows[i].path), rows[i].tenant, "%s",
			     rows[i].path);
	}
}

Test(vpmud_policy, errors)
{
	static const struct {
		const char *text, *message;
	} rows[] = {
		{"[tenant /a]\n\npolicy = full\n", "f.conf:3: tenant /a: guests have no counters "
						   "without guest_events"},
		{"[vpmud]\nguest_events=none\n[tenant /a]\npolicy = most\n",
		 "f.conf:4: tenant /a/policy: \"most\" is invalid; expected full"},
		{"[vpmud]\nguest_events=none\n[tenant /a]\npolicy = full\npolicy = full\n",
		 "(given twice; expected once)"},
		{"[vpmud]\nguest_events=none\n[tenant /a]\nallow = cycles\ndeny = cycles\n",
		 "f.conf:5: tenant /a/deny: \"cycles\" is invalid"},
		{"[vpmud]\nguest_events=none\n[tenant /a]\nallow = cycles,nonesuch\n",
		 "f.conf:4: tenant /a/allow: "},
		{"[vpmud]\nguest_events=none\n[tenant /a]\nallow = cycles:u\n", "privilege level"},
		{"[vpmud]\nguest_events=none\n[tenant /a]\nallow = page-faults:u\n",
		 "privilege level"},
		{"[vpmud]\nguest_events=none\n[tenant /a]\nallow = run-delay\n", "f.conf:4: "},
		{"[vpmud]\nguest_events=none\n[tenant /a]\nallow = ,\n", "f.conf:4: "},
		{"[vpmud]\nguest_events=none\n[tenant /a]\npmu = amd-k7\n", "f.conf:4: "},
		{"[vpmud]\nguest_events=none\n[tenant /a]\ngp = 6\n",
		 "f.conf:4: tenant /a/gp: 6 is invalid; expected pmu = "},
		{"[vpmud]\nguest_events=none\n[tenant /a]\ngp = 9\npmu = intel-v5\n",
		 "gp: 9 is invalid; with pmu = intel-v5, expected 2 to 8"},
		{"[vpmud]\nguest_events=none\n[tenant /a]\nmax_events = 25\n", "1 to 24"},
		{"[vpmud]\nguest_events=none\n[tenant /a]\ntenant_max_events = 0\n", "1 to 24"},
		{"[vpmud]\nguest_events=none\n[tenant /a]\npolicy = off\nallow = cycles\n",
		 "f.conf:4: tenant /a/allow: invalid with policy = off"},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		cr_expect_eq(read_text(rows[i].text), -EINVAL, "%s", rows[i].text);
		cr_expect(strstr(err, rows[i].message), "%s: %s", rows[i].text, err);
		cr_expect_not(strchr(err, '\n'));
	}
}

/* ---- quotas --------------------------------------------------------------------------------- */

static unsigned int limit_of(const void *arg, const char *path)
{
	return !strcmp(path, "/t") ? *(const unsigned int *)arg : !strcmp(path, "/t/sub") ? 2 : 0;
}

/* Takes and releases at random, against sets of events that are counted anew. */
Test(vpmud_quota, random)
{
	enum { VMS = 5, EVENTS = 30, STEPS = 20000 };
	static const char *const of[VMS] = {"/t", "/t/sub", "/t/sub", "/u", "/host"};
	struct guest_quotas s = {0};
	struct guest_quota vm[VMS] = {0};
	unsigned int taken[VMS][EVENTS] = {0}, limit = 4, refused = 0;

	for (int v = 0; v < VMS; v++)
		vm[v].parent = guest_quota_enter(&s, of[v], limit_of, &limit);
	vm[0].max = 3;
	srand(1);
	for (int step = 0; step < STEPS; step++) {
		int v = rand() % VMS, e = rand() % EVENTS;
		unsigned int own = 0, sub = 0, t = 0, all = 0;
		bool new_own = !taken[v][e], new_sub = !taken[1][e] && !taken[2][e],
		     new_t = new_sub && !taken[0][e], new_all = true, fits;

		for (int x = 0; x < EVENTS; x++) {
			bool any = false;

			for (int w = 0; w < VMS; w++)
				any |= taken[w][x] > 0;
			own += taken[v][x] > 0;
			sub += taken[1][x] || taken[2][x];
			t += taken[0][x] || taken[1][x] || taken[2][x];
			all += any;
			if (x == e)
				new_all = !any;
		}
		cr_assert_eq(s.all.nr, all);
		cr_assert_eq(vm[v].nr, own);
		cr_assert_eq(vm[0].parent->nr, t);
		if (rand() % 3 == 0) {
			if (taken[v][e]) {
				guest_quota_release(&s, &vm[v], (vpmu_key_t)e + 1);
				taken[v][e]--;
			}
			continue;
		}
		fits = !(new_all && all >= GUEST_KEYS_MAX) && !(v == 0 && new_own && own >= 3) &&
		       !((v == 1 || v == 2) && new_sub && sub >= 2) &&
		       !(v <= 2 && new_t && t >= limit);
		cr_assert_eq(guest_quota_take(&s, &vm[v], (vpmu_key_t)e + 1), fits ? 0 : -ENOSPC,
			     "step %d", step);
		taken[v][e] += fits;
		refused += !fits;
		/* A lower limit takes nothing away. */
		if (step % 1000 == 0) {
			limit = 2 + (unsigned int)rand() % 4;
			guest_quota_limits(&s, limit_of, &limit);
		}
	}
	cr_expect_gt(refused, 100);
	for (int v = 0; v < VMS; v++) {
		for (int e = 0; e < EVENTS; e++)
			while (taken[v][e]--)
				guest_quota_release(&s, &vm[v], (vpmu_key_t)e + 1);
		cr_expect_eq(vm[v].nr, 0);
		guest_quota_leave(&s, vm[v].parent);
	}
	cr_expect_eq(s.all.nr, 0);
	cr_expect_null(s.tenants);
}

/* ---- events that are kept ------------------------------------------------------------------- */

/* However many events tenants fill in turn, the next one gets some, and all together stay below
 * the limit. */
Test(vpmud_kept, each_tenant_finds_room)
{
	unsigned int all = 0;

	for (int tenant = 0; tenant < 12; tenant++) {
		unsigned int own = 0;

		for (unsigned int vm = 0; vm < 20; vm++)
			for (struct guest_kept_nr n = {0, own, all}; guest_kept_fits(&n); n.vm++)
				n.tenant = ++own, n.all = ++all;
		cr_expect_eq(own, (GUEST_KEPT_MAX >> (tenant + 1)), "tenant %d: %u", tenant, own);
	}
	cr_expect_leq(all, GUEST_KEPT_MAX);
	cr_expect_not(guest_kept_fits(&(struct guest_kept_nr){GUEST_KEPT_VM_MAX, 0, 0}));
	cr_expect_not(guest_kept_fits(&(struct guest_kept_nr){0, 0, GUEST_KEPT_MAX}));
	cr_expect_not(guest_kept_fits(&(struct guest_kept_nr){0, 0, GUEST_KEPT_MAX + 1}));
}

Test(vpmud_kept, whose_they_are)
{
	struct {
		const char *path;
		pid_t pid;
		uint64_t start_time;
	} vms[] = {{"/a", 7, 1}, {"/a/b", 8, 1}, {"/a", 8, 2}, {"/ab", 9, 1}, {"/", 10, 1}};
	static struct guest_kept k = {.set = -1};
	struct guest_kept_nr n;
	uint64_t owner[5];
	int fd[5];

	for (size_t i = 0; i < 5; i++) {
		fd[i] = eventfd(0, EFD_CLOEXEC);
		owner[i] = guest_kept_owner(vms[i].path, vms[i].pid, vms[i].start_time);
		cr_assert_eq(guest_kept_add(&k, owner[i], fd[i]), 0);
	}
	for (size_t i = 0; i < 5; i++) {
		guest_kept_count(&k, owner[i], &n);
		cr_expect_eq(n.vm, 1, "%s: %u", vms[i].path, n.vm);
		cr_expect_eq(n.tenant, i < 3 ? 3 : 1, "%s: %u", vms[i].path, n.tenant);
		cr_expect_eq(n.all, 5);
	}
	/* A VM that has moved to another tenant has what it had. */
	guest_kept_count(&k, guest_kept_owner("/c", 7, 1), &n);
	cr_expect_eq(n.vm, 1);
	cr_expect_eq(n.tenant, 0);
	guest_kept_close(&k);
	guest_kept_count(&k, owner[0], &n);
	cr_expect_eq(n.all, 0);
}

/* Reading all takes long, and a VM can ask for an event 200 times a second. */
Test(vpmud_kept, closed_ones_are_looked_for_once_a_second)
{
	const struct rlimit files = {2 * GUEST_KEPT_VM_MAX, 2 * GUEST_KEPT_VM_MAX};
	const uint64_t vm = guest_kept_owner("/a", 7, 1), second = 1000000000;
	static struct guest_kept k = {.set = -1};
	static int fd[GUEST_KEPT_VM_MAX];
	struct guest_kept_nr n;

	cr_assert_eq(setrlimit(RLIMIT_NOFILE, &files), 0);
	for (unsigned int i = 0; i < GUEST_KEPT_VM_MAX; i++) {
		fd[i] = eventfd(0, EFD_CLOEXEC);
		cr_assert(guest_kept_room(&k, vm, second));
		cr_assert_eq(guest_kept_add(&k, vm, fd[i]), 0);
	}
	cr_expect_not(guest_kept_room(&k, vm, 5 * second));
	cr_expect(guest_kept_room(&k, guest_kept_owner("/a", 8, 1), 5 * second));
	for (unsigned int i = 0; i < 24; i++)
		close(fd[i]);
	cr_expect_not(guest_kept_room(&k, vm, 6 * second - 1));
	cr_expect(guest_kept_room(&k, vm, 6 * second));
	guest_kept_count(&k, vm, &n);
	cr_expect_eq(n.vm, GUEST_KEPT_VM_MAX - 24);
	cr_expect_eq(n.all, GUEST_KEPT_VM_MAX - 24);
	guest_kept_close(&k);
}
