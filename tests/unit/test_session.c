// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * service/session.c: what operators see. Invariants I1 (conservation), I2 (nothing from
 * before the attach), I7 (quality and support reach the row), and that no count is lost or counted
 * twice when VMs and tenants come and go.
 */
#include <errno.h>
#include <stdlib.h>

#include "service/session.h"
#include "cgroup_host.h"
#include "vpmu/charge.h"
#include "vpmu/consumer.h"

static struct test_host h;
static struct sessions *ss;

static void setup(void)
{
	test_host_init(&h, NULL);
	ss = sessions_create(h.ts);
}

static const char *const insns_name[] = {"instructions", "cycles", "cache-misses"};
static vpmu_key_t insns_key[3];

/* A session of the first @nr_events of instructions, cycles and cache-misses. */
static struct session *open_session(const char *target, enum session_scope scope, size_t nr_events)
{
	static const enum vpmu_generic ev[] = {VPMU_EV_INSTRUCTIONS, VPMU_EV_CYCLES,
					       VPMU_EV_CACHE_MISSES};
	struct session_spec spec = {
		.nr_events = nr_events, .events = insns_name, .keys = insns_key, .scope = scope};
	struct session *s = NULL;

	for (int i = 0; i < 3; i++)
		insns_key[i] = vpmu_key_generic(ev[i], VPMU_KEY_USR | VPMU_KEY_OS);
	spec.open.target =
		*target == '/' ? tenant_find(h.ts, target) : tenant_vm_find(h.ts, target);
	cr_assert(spec.open.target, "%s", target);
	cr_assert_eq(session_open(ss, &spec, &s, h.err, sizeof(h.err)), 0, "%s", h.err);
	return s;
}

/* The rows of one read as text: "path[:vm[:vcpu]]=count[!]" in order, "!" for gone. */
struct shot {
	char text[4096];
};

static void shoot(const struct session_row *r, void *arg)
{
	struct shot *s = arg;
	size_t n = strlen(s->text);

	cr_assert_lt(n, sizeof(s->text) - 400, "a test with fewer rows");
	n += (size_t)snprintf(s->text + n, sizeof(s->text) - n, "%s%s", n ? " " : "", r->path);
	if (r->vm)
		n += (size_t)snprintf(s->text + n, sizeof(s->text) - n, ":%s", r->vm);
	if (r->kind == NODE_VCPU)
		n += (size_t)snprintf(s->text + n, sizeof(s->text) - n, ":%u", r->vcpu);
	snprintf(s->text + n, sizeof(s->text) - n, "=%llu%s",
		 (unsigned long long)r->values[0].count, r->gone ? "!" : "");
}

static const char *read_all(struct session *s)
{
	static struct shot shot;

	shot.text[0] = '\0';
	session_read(s, shoot, &shot);
	session_forget_before(s, UINT64_MAX);
	return shot.text;
}

/* /a/web with VM w (2 vCPUs), /a/db with VM d (1), /b with VM x (1), VM free without a tenant. */
static struct node *vm_w, *vm_d, *vm_x, *vm_free;
static struct test_vcpu w0, w1, d0, x0, f0;

/* VM w in a tenant. */
static void add_w(const char *tenant)
{
	vm_w = test_vm(&h, test_tenant(&h, tenant), "w", 2);
	test_vcpu_init(&w0, vm_w, 0);
	test_vcpu_init(&w1, vm_w, 1);
}

static void remove_w(void)
{
	test_vcpu_fini(&w0);
	test_vcpu_fini(&w1);
	tenant_vm_remove(h.ts, vm_w);
	vm_w = NULL;
}

static void populate(void)
{
	add_w("/a/web");
	vm_d = test_vm(&h, test_tenant(&h, "/a/db"), "d", 1);
	vm_x = test_vm(&h, test_tenant(&h, "/b"), "x", 1);
	vm_free = test_vm(&h, tenant_find(h.ts, "/host"), "free", 1);
	test_vcpu_init(&d0, vm_d, 0);
	test_vcpu_init(&x0, vm_x, 0);
	test_vcpu_init(&f0, vm_free, 0);
}

static void depopulate(void)
{
	if (vm_w) {
		test_vcpu_fini(&w0);
		test_vcpu_fini(&w1);
	}
	test_vcpu_fini(&d0);
	test_vcpu_fini(&x0);
	test_vcpu_fini(&f0);
	vm_d = NULL;
}

static void teardown(void)
{
	if (vm_d)
		depopulate();
	sessions_destroy(ss);
	test_host_fini(&h);
}

TestSuite(session, .init = setup, .fini = teardown);

/* Everybody runs once: w 1000 + 200, d 30, x 4, free 5, the host 60000. */
static void everybody_runs(void)
{
	test_run(&h, 0, &w0, 1000);
	test_run(&h, 1, &w1, 200);
	test_run(&h, 0, &d0, 30);
	test_run(&h, 1, &x0, 4);
	test_run(&h, 1, &f0, 5);
	test_run(&h, 0, NULL, 60000);
}

Test(session, tenant_rows_form_a_tree)
{
	struct session *s;

	populate();
	s = open_session("/", SESSION_TENANT, 1);
	everybody_runs();
	cr_expect_str_eq(read_all(s), "/=61239 /host=60005 /a=1230 /a/web=1200 /a/db=30 /b=4");
	everybody_runs();
	cr_expect_str_eq(read_all(s), "/=122478 /host=120010 /a=2460 /a/web=2400 /a/db=60 /b=8");
}

Test(session, scopes_and_targets)
{
	static const struct {
		int line;
		const char *target;
		enum session_scope scope;
		const char *want;
	} rows[] = {
		{__LINE__, "/", SESSION_ONE, "/=61239"},
		{__LINE__, "/host", SESSION_ONE, "/host=60005"},
		{__LINE__, "/a", SESSION_ONE, "/a=1230"},
		{__LINE__, "w", SESSION_ONE, "/a/web:w=1200"},
		{__LINE__, "/a", SESSION_TENANT, "/a=1230 /a/web=1200 /a/db=30"},
		{__LINE__, "/a/web", SESSION_TENANT, "/a/web=1200"},
		{__LINE__, "/host", SESSION_TENANT, "/host=60005"},
		{__LINE__, "/", SESSION_VM, "/host:free=5 /a/web:w=1200 /a/db:d=30 /b:x=4"},
		{__LINE__, "/a", SESSION_VM, "/a/web:w=1200 /a/db:d=30"},
		{__LINE__, "w", SESSION_VM, "/a/web:w=1200"},
		{__LINE__, "/host", SESSION_VM, "/host:free=5"},
		{__LINE__, "w", SESSION_VCPU, "/a/web:w:0=1000 /a/web:w:1=200"},
		{__LINE__, "/b", SESSION_VCPU, "/b:x:0=4"},
		{__LINE__, "/", SESSION_VCPU,
		 "/host:free:0=5 /a/web:w:0=1000 /a/web:w:1=200 /a/db:d:0=30 /b:x:0=4"},
	};
	struct session *s[sizeof(rows) / sizeof(rows[0])];

	populate();
	/* All at once: none disturbs another. */
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		s[i] = open_session(rows[i].target, rows[i].scope, 1);
	everybody_runs();
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		const char *got = read_all(s[i]);

		cr_expect(strcmp(got, rows[i].want) == 0, "line %d: got %s, want %s", rows[i].line,
			  got, rows[i].want);
	}
}

/* I2 */
Test(session, nothing_from_before_the_attach)
{
	struct session *first, *second;

	populate();
	everybody_runs();
	first = open_session("/", SESSION_VM, 1);
	cr_expect_str_eq(read_all(first), "/host:free=0 /a/web:w=0 /a/db:d=0 /b:x=0");
	everybody_runs();
	/* In the middle of a time slice, with counts the pCPU has not charged yet. */
	vpmu_pcpu_switch(h.pcpu[0], &w0.ctx);
	test_retire(&h.pmu[0], 777);
	second = open_session("/", SESSION_VM, 1);
	test_retire(&h.pmu[0], 23);
	vpmu_pcpu_switch(h.pcpu[0], NULL);
	cr_expect_str_eq(read_all(first), "/host:free=5 /a/web:w=2000 /a/db:d=30 /b:x=4");
	cr_expect_str_eq(read_all(second), "/host:free=0 /a/web:w=23 /a/db:d=0 /b:x=0");
}

Test(session, read_includes_a_running_slice)
{
	struct session *s;

	populate();
	s = open_session("w", SESSION_ONE, 1);
	test_run(&h, 0, &w0, 0); /* places it */
	vpmu_pcpu_switch(h.pcpu[0], &w0.ctx);
	test_retire(&h.pmu[0], 41);
	cr_expect_str_eq(read_all(s), "/a/web:w=41");
	test_retire(&h.pmu[0], 1);
	cr_expect_str_eq(read_all(s), "/a/web:w=42");
	vpmu_pcpu_switch(h.pcpu[0], NULL);
}

Test(session, detach_leaves_others_alone)
{
	struct session *a, *b, *c;

	populate();
	a = open_session("/", SESSION_TENANT, 1);
	b = open_session("/a", SESSION_ONE, 1);
	everybody_runs();
	session_close(a);
	everybody_runs();
	c = open_session("/a", SESSION_ONE, 1);
	everybody_runs();
	cr_expect_str_eq(read_all(b), "/a=3690");
	cr_expect_str_eq(read_all(c), "/a=1230");
	session_close(c);
	everybody_runs();
	cr_expect_str_eq(read_all(b), "/a=4920");
}

Test(session, a_removed_vm_is_shown_once_more_and_stays_in_its_tenant)
{
	struct session *vms, *vcpus, *tenants, *one;

	populate();
	vms = open_session("/a", SESSION_VM, 1);
	vcpus = open_session("/a", SESSION_VCPU, 1);
	tenants = open_session("/a", SESSION_TENANT, 1);
	one = open_session("w", SESSION_ONE, 1);
	everybody_runs();
	remove_w();
	test_run(&h, 0, &d0, 5);
	cr_expect_str_eq(read_all(vms), "/a/web:w=1200! /a/db:d=35");
	cr_expect_str_eq(read_all(vms), "/a/db:d=35");
	cr_expect_str_eq(read_all(vcpus), "/a/web:w:0=1000! /a/web:w:1=200! /a/db:d:0=35");
	cr_expect_str_eq(read_all(vcpus), "/a/db:d:0=35");
	cr_expect_str_eq(read_all(tenants), "/a=1235 /a/web=1200 /a/db=35");
	cr_expect_str_eq(read_all(tenants), "/a=1235 /a/web=1200 /a/db=35");
	/* A session of this one VM keeps its row. */
	cr_expect_str_eq(read_all(one), "/a/web:w=1200!");
	cr_expect_str_eq(read_all(one), "/a/web:w=1200!");
	/* The name comes back: counted from then on, and by sessions bound to the name besides. */
	add_w("/b");
	everybody_runs();
	cr_expect_str_eq(read_all(one), "/b:w=2400");
	cr_expect_str_eq(read_all(vms), "/a/db:d=65", "it is in /b now");
	cr_expect_str_eq(read_all(tenants), "/a=1265 /a/web=1200 /a/db=65");
}

static void keep_row(const struct session_row *row, void *arg)
{
	*(struct session_row *)arg = *row;
}

/* Started again and again, in a session of that VM only: its row goes on, and never back. */
Test(session, a_vm_that_is_started_again_goes_on)
{
	struct session *one, *two;
	struct session_row first, now;
	struct vpmu_value v;

	populate();
	one = open_session("w", SESSION_ONE, 2);
	two = open_session("w", SESSION_VM, 2);
	session_read(one, keep_row, &first);
	for (uint64_t n = 1; n <= 3; n++) {
		everybody_runs();
		session_read(one, keep_row, &now);
		cr_expect_eq(now.id, first.id);
		cr_expect_eq(now.since_us, first.since_us);
		v = now.values[0];
		cr_expect_eq(v.count, n * 1200);
		cr_expect(v.enabled_ns && v.running_ns == v.enabled_ns && !v.partial);
		remove_w();
		session_read(one, keep_row, &now);
		cr_expect(now.gone && now.values[0].count == n * 1200);
		add_w("/a/web");
		session_read(one, keep_row, &now);
		cr_expect(!now.gone && now.values[0].count == n * 1200);
		cr_expect_geq(now.values[0].enabled_ns, v.enabled_ns);
	}
	cr_expect_eq(one->nr_rows, 1);
	cr_expect_str_eq(read_all(two), "/a/web:w=1200! /a/web:w=1200! /a/web:w=1200! /a/web:w=0");
}

Test(session, keep_gone_shows_again)
{
	struct session *vms;
	struct shot shot = {0};

	populate();
	vms = open_session("/a/web", SESSION_VM, 1);
	everybody_runs();
	remove_w();
	session_read(vms, shoot, &shot);
	cr_expect_str_eq(shot.text, "/a/web:w=1200!");
	cr_expect_str_eq(read_all(vms), "/a/web:w=1200!");
	cr_expect_str_eq(read_all(vms), "");
}

Test(session, removed_tenants_fold_and_new_ones_count)
{
	struct session *s, *host;

	populate();
	s = open_session("/", SESSION_TENANT, 1);
	host = open_session("/", SESSION_ONE, 1);
	everybody_runs();
	remove_w();
	cr_assert_eq(tenant_remove(h.ts, "/a/web", h.err, sizeof(h.err)), 0);
	cr_expect_str_eq(read_all(s), "/=61239 /host=60005 /a=1230 /a/web=1200! /a/db=30 /b=4");
	cr_expect_str_eq(read_all(s), "/=61239 /host=60005 /a=1230 /a/db=30 /b=4");
	add_w("/c/new");
	everybody_runs();
	cr_expect_str_eq(read_all(s), "/=122478 /host=120010 /a=1260 /a/db=60 /b=8 /c=1200 "
				      "/c/new=1200");
	cr_expect_str_eq(read_all(host), "/=122478");
}

Test(session, what_still_runs_in_a_removed_vm_counts_for_its_tenant)
{
	struct session *vms, *tenant;

	populate();
	vms = open_session("/b", SESSION_VM, 1);
	tenant = open_session("/b", SESSION_ONE, 1);
	everybody_runs();
	/* A bug of the VMM's: the context of the VM's vCPU is still there. */
	tenant_vm_remove(h.ts, vm_x);
	everybody_runs();
	cr_expect_str_eq(read_all(vms), "/b:x=4!");
	cr_expect_str_eq(read_all(tenant), "/b=8");
	/* The tenant goes as well, and then the context: "/" has it all. */
	cr_assert_eq(tenant_remove(h.ts, "/b", h.err, sizeof(h.err)), 0);
	tenant = open_session("/", SESSION_ONE, 1);
	everybody_runs();
	cr_expect_str_eq(read_all(tenant), "/=61239");
	depopulate();
	test_tenant(&h, "/b"); /* the rest is folded by now */
	cr_expect_str_eq(read_all(tenant), "/=61239");
}

/* I1: over churn, the rows' sum and the hardware agree on every key. */
static int conserved(const struct vpmu_conservation *c, void *arg)
{
	cr_expect_eq(c->hardware, c->charged, "pCPU %u", c->pcpu);
	if (c->key == insns_key[0])
		*(uint64_t *)arg += c->hardware;
	return 0;
}

static void add_level_one(const struct session_row *r, void *arg)
{
	if (r->depth == 1 && !r->gone)
		*(uint64_t *)arg += r->values[0].count;
}

Test(session, top_level_rows_sum_to_the_hardware_through_churn)
{
	uint64_t hw = 0, sum = 0;
	struct session *s;
	char path[64];

	populate();
	s = open_session("/", SESSION_TENANT, 2);
	for (unsigned int i = 0; i < 50; i++) {
		struct session *extra = i % 3 ? open_session("/", SESSION_VCPU, 1 + i % 2) : NULL;
		struct test_vcpu v;
		struct node *vm;

		snprintf(path, sizeof(path), "/%s/t%u", i % 2 ? "a" : "b", i % 7);
		vm = test_vm(&h, test_tenant(&h, path), "tmp", 1);
		test_vcpu_init(&v, vm, 0);
		everybody_runs();
		test_run(&h, i % 2, &v, 100 + i);
		test_run(&h, (i + 1) % 2, &v, i);
		if (extra && i % 5)
			session_close(extra);
		test_vcpu_fini(&v);
		tenant_vm_remove(h.ts, vm);
		if (i % 4 == 0)
			cr_assert_eq(tenant_remove(h.ts, path, h.err, sizeof(h.err)), 0);
	}
	session_read(s, add_level_one, &sum);
	cr_assert_eq(vpmu_host_conservation(h.host, conserved, &hw), 0);
	cr_expect_eq(sum, 50 * 61239 + 50 * 100 + 2 * (49 * 50 / 2));
	cr_expect_eq(hw, sum, "hardware %llu, rows %llu", (unsigned long long)hw,
		     (unsigned long long)sum);
}

/* I7 */
static void check_quality(const struct session_row *r, void *arg)
{
	const struct vpmu_value *v = r->values;

	cr_expect_eq(v[0].quality, VPMU_Q_EXACT);
	cr_expect_eq(v[1].quality, VPMU_Q_MODELLED);
	cr_expect_eq(v[1].count, 2 * v[0].count);
	cr_expect(v[0].supported && v[1].supported);
	cr_expect(!v[2].supported, "the emulator PMU has no cache");
	cr_expect_eq(v[2].count, 0);
	++*(int *)arg;
}

Test(session, quality_and_support_reach_the_row)
{
	struct session *s;
	int rows = 0;

	populate();
	s = open_session("/", SESSION_VCPU, 3);
	everybody_runs();
	session_read(s, check_quality, &rows);
	cr_expect_eq(rows, 5);
	remove_w();
	session_read(s, check_quality, &rows);
	cr_expect_eq(rows, 10, "removed rows say the same");
}

static void row_error(const struct session_row *r, void *arg)
{
	if (r->error) {
		cr_expect(strstr(r->error, "slots"), "%s", r->error);
		cr_expect_eq(r->values[0].running_ns, 0);
		cr_expect(r->values[0].supported, "not counted is not \"not supported\"");
		++*(int *)arg;
	}
}

Test(session, no_slot_left_is_said_so)
{
	struct vpmu_consumer *c = calloc(VPMU_MAX_SLOTS, sizeof(*c));
	struct node *a = test_tenant(&h, "/a");
	struct session_spec spec = {.nr_events = 1, .events = insns_name, .keys = insns_key};
	struct session *early = open_session("/a", SESSION_VM, 1), *s;
	int errors = 0, ret;

	cr_assert_eq(tenant_count(a, h.source), 0);
	for (unsigned int i = 0; i < VPMU_MAX_SLOTS; i++) {
		ret = vpmu_consumer_add(&c[i], test_account(&h, a),
					vpmu_key_make(VPMU_SPACE_INTEL, (uint16_t)(0x80 + i),
						      VPMU_KEY_USR | VPMU_KEY_GUEST),
					NULL);
		cr_assert(ret == 0 || ret == -EOPNOTSUPP, "%d", ret);
	}
	spec.open.target = a;
	cr_expect_eq(session_open(ss, &spec, &s, h.err, sizeof(h.err)), -ENOSPC);
	cr_expect(strstr(h.err, "instructions") && strstr(h.err, "slots"), "%s", h.err);
	/* A session with a row that comes too late keeps going and shows why it does not count. */
	test_vm(&h, a, "late", 1);
	session_read(early, row_error, &errors);
	cr_expect_eq(errors, 1);
	for (unsigned int i = 0; i < VPMU_MAX_SLOTS; i++)
		vpmu_consumer_del(&c[i], NULL, NULL);
	vpmu_rcu_free(c);
	tenant_vm_remove(h.ts, tenant_vm_find(h.ts, "late"));
}

Test(session, names_and_owners)
{
	struct session_spec spec = {.nr_events = 1,
				    .events = insns_name,
				    .keys = insns_key,
				    .open.target = tenants_root(h.ts)};
	struct session *s, *auto1, *auto2;
	int me, you;

	open_session("/", SESSION_ONE, 1);
	spec.open.name = "bill";
	spec.open.owner = &me;
	cr_assert_eq(session_open(ss, &spec, &s, h.err, sizeof(h.err)), 0);
	cr_expect_eq(session_open(ss, &spec, &s, h.err, sizeof(h.err)), -EEXIST);
	cr_expect(strstr(h.err, "bill"), "%s", h.err);
	spec.open.name = "a/b";
	cr_expect_eq(session_open(ss, &spec, &s, h.err, sizeof(h.err)), -EINVAL);
	spec.open.name = "@7";
	cr_expect_eq(session_open(ss, &spec, &s, h.err, sizeof(h.err)), -EINVAL);
	spec.open.name = NULL;
	spec.open.owner = &you;
	cr_assert_eq(session_open(ss, &spec, &auto1, h.err, sizeof(h.err)), 0);
	spec.open.owner = NULL;
	cr_assert_eq(session_open(ss, &spec, &auto2, h.err, sizeof(h.err)), 0);
	cr_expect_str_neq(auto1->reg.name, auto2->reg.name);
	sessions_registry(ss)->keep_lost_ns = 1000000000000;
	registry_owner_lost(sessions_registry(ss), &me);
	cr_expect_gt(registry_expire(sessions_registry(ss)), 0);
	cr_expect(registry_find(sessions_registry(ss), "bill", NULL), "lost, but still there");
	sessions_registry(ss)->keep_lost_ns = 0;
	cr_expect_eq(registry_expire(sessions_registry(ss)), 0);
	cr_expect_null(registry_find(sessions_registry(ss), "bill", NULL));
	cr_expect_eq(registry_find(sessions_registry(ss), auto1->reg.name, NULL), &auto1->reg);
	registry_owner_lost(sessions_registry(ss), &you);
	cr_expect_eq(registry_find(sessions_registry(ss), auto2->reg.name, NULL), &auto2->reg,
		     "a kept one stays");
	spec.nr_events = 0;
	cr_expect_eq(session_open(ss, &spec, &s, h.err, sizeof(h.err)), -EINVAL);
	spec.nr_events = SESSION_EVENTS_MAX + 1;
	cr_expect_eq(session_open(ss, &spec, &s, h.err, sizeof(h.err)), -EINVAL);
	spec.nr_events = 1;
	test_vm(&h, test_tenant(&h, "/a"), "vm", 1);
	spec.open.target = tenant_vm_find(h.ts, "vm");
	spec.scope = SESSION_TENANT;
	cr_expect_eq(session_open(ss, &spec, &s, h.err, sizeof(h.err)), -EINVAL);
	cr_expect(strstr(h.err, "vm or vcpu"), "%s", h.err);
}

static void count_gone(const struct session_row *r, void *arg)
{
	*(unsigned int *)arg += r->gone;
}

Test(session, gone_rows_are_bounded_and_the_loss_is_counted)
{
	struct session *s;
	unsigned int gone = 0;

	test_tenant(&h, "/a");
	s = open_session("/a", SESSION_VM, 1);
	for (unsigned int i = 0; i < SESSION_GONE_MAX + 10; i++)
		tenant_vm_remove(h.ts, test_vm(&h, tenant_find(h.ts, "/a"), "vm", 1));
	cr_expect_eq(s->nr_rows, SESSION_GONE_MAX);
	cr_expect_eq(s->dropped, 10);
	session_read(s, count_gone, &gone);
	session_forget_before(s, UINT64_MAX);
	cr_expect_eq(gone, SESSION_GONE_MAX);
	cr_expect_eq(s->nr_rows, 0);
}

/* Readers leave counter slots to administrators and to each other. */
Test(session, readers_share_the_slots)
{
	struct access reader[3] = {{.uid = 1, .nr = 1, .tenants = {"/a"}},
				   {.uid = 2, .nr = 1, .tenants = {"/b"}},
				   {.uid = 3, .nr = 1, .tenants = {"/c"}}};
	const char *names[17];
	vpmu_key_t keys[17];
	struct session_spec spec = {
		.nr_events = 16, .events = names, .keys = keys, .open.target = tenants_root(h.ts)};
	struct session *s;

	for (unsigned int u = 0; u < 3; u++) {
		for (unsigned int i = 0; i < 17; i++) {
			names[i] = "raw";
			keys[i] = vpmu_key_make(VPMU_SPACE_INTEL, 0xb7,
						VPMU_KEY_USR | VPMU_KEY_GUEST) |
				  (vpmu_key_t)(u * 17 + i) << VPMU_KEY_UMASK_SHIFT;
		}
		spec.open.who = &reader[u];
		spec.nr_events = 17;
		cr_expect_eq(session_open(ss, &spec, &s, h.err, sizeof(h.err)), -ENOSPC);
		spec.nr_events = 16;
		cr_expect_eq(session_open(ss, &spec, &s, h.err, sizeof(h.err)), u < 2 ? 0 : -ENOSPC,
			     "reader %u: %s", u, h.err);
		/* The same events again are no more events. */
		if (u < 2)
			cr_expect_eq(session_open(ss, &spec, &s, h.err, sizeof(h.err)), 0);
		spec.nr_events = 1;
		spec.keys = &keys[16];
		cr_expect_eq(session_open(ss, &spec, &s, h.err, sizeof(h.err)), -ENOSPC);
		spec.keys = keys;
	}
	spec.open.who = NULL;
	spec.nr_events = 17;
	cr_expect_eq(session_open(ss, &spec, &s, h.err, sizeof(h.err)), 0, "an administrator: %s",
		     h.err);
	cr_expect_eq(sessions_registry(ss)->refused, 3 + 1 + 3);
}
