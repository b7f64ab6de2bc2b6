// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * cgroup/ on several sources of counts: backend "emulator" is libvpmu's core, backend "fake" is a
 * source of plain arrays. Rows, profiles and errors of the backends stay apart.
 */
#include "capture_bed.h"
#include "fake_backend.h"
#include "service/session.h"

static struct fake_source fake;
static struct sessions *ss;
static struct node *vm_s, *vm_f; /* of /a/web, on backend emulator and fake */
static struct test_vcpu emulator;
static vpmu_key_t keys[] = {0, 0};
static const char *const names[] = {"instructions", "cache-misses"};

static struct node *fake_vm(struct node *t, const char *name)
{
	struct node *vm = NULL;

	cr_assert_eq(tenant_vm_add(h.ts, t, &fake.s, name, 2, NULL, &vm, h.err, sizeof(h.err)), 0,
		     "%s", h.err);
	return vm;
}

static void fake_insns(struct node *vm, unsigned int vcpu, uint64_t n)
{
	fake_charge(node_in(node_vcpu(vm, vcpu), &fake.s), VPMU_EV_INSTRUCTIONS, n);
}

static void setup_with(unsigned int can)
{
	const enum vpmu_generic ev[] = {VPMU_EV_INSTRUCTIONS, VPMU_EV_CACHE_MISSES};

	for (int i = 0; i < 2; i++)
		keys[i] = vpmu_key_generic(ev[i], VPMU_KEY_USR | VPMU_KEY_OS);
	bed_server(NULL, "/nowhere");
	fake_init(&fake, "fake", can);
	cr_assert_eq(tenants_add_source(h.ts, &fake.s), 0);
	ss = sessions_create(h.ts);
}

static void setup(void)
{
	setup_with(0);
}

static void setup_sampling(void)
{
	setup_with(VPMU_BACKEND_SAMPLES);
}

static void teardown(void)
{
	test_vcpu_fini(&emulator);
	sessions_destroy(ss);
	bed_fini();
}

TestSuite(backends, .init = setup, .fini = teardown);
TestSuite(backends_sampled, .init = setup_sampling, .fini = teardown);

/* A VM on each backend in /a/web; /b has one on the fake backend only. */
static void populate(void)
{
	vm_s = test_vm(&h, test_tenant(&h, "/a/web"), "s", 1);
	vm_f = fake_vm(tenant_find(h.ts, "/a/web"), "f");
	fake_vm(test_tenant(&h, "/b"), "g");
	test_vcpu_init(&emulator, vm_s, 0);
}

/* The session is NULL if @ret is not 0. */
static struct session *try_open(const char *target, enum session_scope scope, size_t events,
				int ret)
{
	struct session_spec spec = {
		.nr_events = events, .events = names, .keys = keys, .scope = scope};
	struct session *s = NULL;

	spec.open.target =
		*target == '/' ? tenant_find(h.ts, target) : tenant_vm_find(h.ts, target);
	cr_assert_eq(session_open(ss, &spec, &s, h.err, sizeof(h.err)), ret, "%s", h.err);
	cr_assert_eq(!s, ret != 0);
	return s;
}

static struct session *open_session(const char *target, enum session_scope scope)
{
	return try_open(target, scope, 1, 0);
}

/* Rows of one read: "backend:path[:vm[:vcpu]]=count[!]"; an error is shown instead of the count. */
static void shoot(const struct session_row *r, void *arg)
{
	char *text = arg;
	size_t n = strlen(text);

	n += (size_t)snprintf(text + n, 1000 - n, "%s%s:%s", n ? " " : "", r->backend, r->path);
	if (r->vm)
		n += (size_t)snprintf(text + n, 1000 - n, ":%s", r->vm);
	if (r->kind == NODE_VCPU)
		n += (size_t)snprintf(text + n, 1000 - n, ":%u", r->vcpu);
	if (r->error)
		snprintf(text + n, 1000 - n, "=%s", r->error);
	else
		snprintf(text + n, 1000 - n, "=%llu%s", (unsigned long long)r->values[0].count,
			 r->gone ? "!" : "");
}

static const char *read_all(struct session *s)
{
	static char text[1024];

	text[0] = '\0';
	session_read(s, shoot, text);
	session_forget_before(s, UINT64_MAX);
	return text;
}

/* ---- sessions ----------------------------------------------------------------------------- */

Test(backends, a_node_has_a_row_per_backend_and_they_are_never_added)
{
	struct session *s;

	populate();
	s = open_session("/", SESSION_TENANT);
	test_run(&h, 0, &emulator, 100);
	fake_insns(vm_f, 0, 7000);
	fake_insns(vm_f, 1, 20000);
	cr_expect_str_eq(read_all(s), "emulator:/=100 fake:/=27000 emulator:/host=0 fake:/host=0 "
				      "emulator:/a=100 fake:/a=27000 emulator:/a/web=100 "
				      "fake:/a/web=27000 fake:/b=0");
	s = open_session("/a", SESSION_VCPU);
	fake_insns(vm_f, 1, 5);
	cr_expect_str_eq(read_all(s), "emulator:/a/web:s:0=0 fake:/a/web:f:0=0 fake:/a/web:f:1=5",
			 "and nothing from before the attach");
}

Test(backends, a_row_comes_with_the_first_vm_of_its_backend_and_stays)
{
	struct session *tenant, *all;

	test_tenant(&h, "/a/web");
	tenant = open_session("/a", SESSION_ONE);
	all = open_session("/a", SESSION_TENANT);
	cr_expect_str_eq(read_all(tenant), "", "no backend counts it yet");
	populate();
	fake_insns(vm_f, 0, 3);
	cr_expect_str_eq(read_all(tenant), "emulator:/a=0 fake:/a=3");
	cr_expect_str_eq(read_all(all), "emulator:/a=0 fake:/a=3 emulator:/a/web=0 fake:/a/web=3");
	tenant_vm_remove(h.ts, vm_f);
	cr_expect_str_eq(read_all(tenant), "emulator:/a=0 fake:/a=3", "what it counted stays");
}

Test(backends, a_removed_node_is_folded_on_its_backend)
{
	struct session *vms, *all;

	populate();
	vms = open_session("/a", SESSION_VM);
	all = open_session("/", SESSION_TENANT);
	test_run(&h, 0, &emulator, 100);
	fake_insns(vm_f, 0, 30);
	fake_insns(vm_f, 1, 4);
	tenant_vm_remove(h.ts, vm_f);
	cr_expect_eq(fake.nodes, 3 + 3, "/a, /a/web, /b; VM g and its vCPUs");
	cr_expect_str_eq(read_all(vms), "emulator:/a/web:s=100 fake:/a/web:f=34!");
	cr_expect_str_eq(read_all(vms), "emulator:/a/web:s=100");
	test_vcpu_fini(&emulator);
	tenant_vm_remove(h.ts, vm_s);
	cr_assert_eq(tenant_remove(h.ts, "/a/web", h.err, sizeof(h.err)), 0, "%s", h.err);
	cr_expect_str_eq(read_all(all), "emulator:/=100 fake:/=34 emulator:/host=0 fake:/host=0 "
					"emulator:/a=100 fake:/a=34 emulator:/a/web=100! "
					"fake:/a/web=34! fake:/b=0");
}

Test(backends, only_backends_with_rows_are_flushed)
{
	struct session *s;

	populate();
	s = open_session("s", SESSION_ONE);
	fake.flushes = 0;
	test_run(&h, 0, &emulator, 1);
	cr_expect_str_eq(read_all(s), "emulator:/a/web:s=1");
	cr_expect_eq(fake.flushes, 0, "a read of the emulator backend must not disturb the other");
	s = open_session("/a", SESSION_ONE);
	read_all(s);
	cr_expect_eq(fake.flushes, 1);
}

Test(backends, the_error_of_one_backend_is_an_error)
{
	struct vpmu_sharing sh;
	struct session *s;

	populate();
	fake.attach_error = -ENOSPC;
	try_open("/", SESSION_TENANT, 1, -ENOSPC);
	cr_expect(strstr(h.err, "instructions") && strstr(h.err, "backend fake") &&
			  strstr(h.err, "slots"),
		  "%s", h.err);
	vpmu_backend_sharing(h.source, &sh);
	cr_expect_eq(sh.consumers, 0, "the emulator backend counted for nobody");
	/* A row that comes too late has the reason; the others go on. */
	fake.attach_error = 0;
	s = open_session("/a", SESSION_VM);
	fake.attach_error = -ENOSPC;
	fake_vm(tenant_find(h.ts, "/a/web"), "late");
	test_run(&h, 0, &emulator, 9);
	cr_expect_str_eq(read_all(s), "emulator:/a/web:s=9 fake:/a/web:f=0 fake:/a/web:late="
				      "instructions: all counter slots of the host are in use");
}

static void expect_support(const struct session_row *r, void *arg)
{
	cr_expect(r->values[0].supported);
	cr_expect_not(r->values[1].supported);
	cr_expect_eq(r->values[0].quality,
		     strcmp(r->backend, "fake") ? VPMU_Q_EXACT : VPMU_Q_ESTIMATED);
	++*(int *)arg;
}

Test(backends, quality_and_support_are_each_backends_own)
{
	int rows = 0;

	populate();
	session_read(try_open("/", SESSION_ONE, 2, 0), expect_support, &rows);
	cr_expect_eq(rows, 2);
}

/* ---- profiles and captures ------------------------------------------------------------------ */

#define PROFILE "{'cmd':'profile-start','event':'instructions'"
#define CAPTURE "{'cmd':'lbr-attach'"

Test(backends, a_backend_that_cannot_sample_says_so_in_one_line)
{
	static const struct bad bad[] = {
		{PROFILE ",'target':'f'}",
		 "target: f is counted on backend fake, which has no sampling", EOPNOTSUPP},
		{PROFILE ",'target':'/b'}",
		 "target: /b is counted on backend fake, which has no sampling", EOPNOTSUPP},
		{PROFILE ",'target':'/a','backend':'fake'}", "backend: fake has no sampling",
		 EOPNOTSUPP},
		{PROFILE ",'backend':'nope'}",
		 "backend: no \"nope\"; this host has: emulator, fake", ENOENT},
		{PROFILE ",'target':'f','backend':'emulator'}", "backend: VM f is on backend fake",
		 EINVAL},
		{CAPTURE ",'target':'f'}",
		 "target: f is counted on backend fake, which has no branch records", EOPNOTSUPP},
		{CAPTURE ",'target':'/','backend':'fake'}", "backend: fake has no branch records",
		 EOPNOTSUPP},
	};

	populate();
	all_bad(bad, sizeof(bad) / sizeof(bad[0]));
}

Test(backends, a_profile_or_capture_of_two_backends_says_what_it_leaves_out)
{
	static const char *const requests[] = {PROFILE ",'target':'/a'}",
					       CAPTURE ",'target':'/a'}"};

	populate();
	for (int i = 0; i < 2; i++)
		expect_has(must(requests[i]), "{'backend':'emulator','left-out':['fake']}");
	must("{'cmd':'lbr-detach','capture':'@1'}");
	must(PROFILE ",'target':'s','lbr':true}");
	test_run(&h, 0, &emulator, 1);
}

Test(backends_sampled, a_profile_runs_on_any_source)
{
	json_t *a, *row;

	populate();
	a = ask(PROFILE ",'target':'/a'}");
	cr_expect_str_eq(str(a, "error"), "backend: /a is on several: emulator, fake; name one");
	a = must(PROFILE ",'target':'/a','backend':'fake','name':'p','period':1000}");
	cr_expect_str_eq(str(a, "backend"), "fake");
	for (int i = 0; i < 3; i++) {
		fake_insns(vm_f, 1, 1000);
		fake_sample(node_in(node_vcpu(vm_f, 1), &fake.s), 0x1234);
	}
	test_run(&h, 0, &emulator, 100000); /* the other backend's events are not in it */
	tenant_vm_remove(h.ts, vm_f);	    /* before anybody read its samples */
	a = must("{'cmd':'profile-stop','profile':'p'}");
	expect_has(a, "{'count':'3000','samples':'3'}");
	row = nth(a, "rows", 0);
	expect_has(row, "{'vm':'f','vcpu':1,'ip':'0x1234'}");
}

/* A backend that counts more than guests marks the code of each sample, and has chains itself.
 */
Test(backends_sampled, samples_of_the_host_beside_those_of_guests)
{
	static const struct {
		enum vpmu_side side;
		uint32_t pid;
		const char *name;
		int cpl;
	} row[] = {
		{VPMU_SIDE_GUEST_KERNEL, 0, "guest.k", 0},
		{VPMU_SIDE_GUEST_USER, 0, "guest.u", 3},
		{VPMU_SIDE_VMM, 77, "qemu", 3},
		{VPMU_SIDE_HOST, 0, "host", 0},
		{VPMU_SIDE_USER, 78, "user", 3},
		{VPMU_SIDE_USER, 79, "user", 3},
		{VPMU_SIDE_USER, 80, "user", 3},
	};
	const uint64_t calls[] = {0x20, 0x30};
	uint64_t who[7], seen = 0;
	const json_t *r, *chain;
	json_t *a;
	size_t i;

	fake.s.can |= VPMU_BACKEND_CHAINS | VPMU_BACKEND_BRANCHES;
	populate();
	who[0] = who[1] = who[2] = who[3] = node_vcpu(vm_f, 1)->serial;
	who[4] = vm_f->serial;
	who[5] = who[6] = vm_f->parent->serial;
	must(PROFILE ",'target':'/a','backend':'fake','name':'p','lbr':true}");
	for (i = 0; i < 7; i++) {
		const struct vpmu_backend_sample s = {.serial = who[i],
						      .side = row[i].side,
						      .pid = row[i].pid,
						      .known = true,
						      .cpl = (uint8_t)row[i].cpl,
						      .ip = 0x10,
						      .periods = i + 1,
						      .chained = true,
						      .nr_calls = 2,
						      .calls = calls};

		fake.sampling->opts.sample(fake.sampling->opts.arg, &s);
	}
	a = must("{'cmd':'profile-stop','profile':'p'}");
	expect_has(a, "{'samples':'28','unchained':'0'}");
	cr_expect_null(json_object_get(a, "throttled"));
	cr_expect_null(json_object_get(a, "note"));
	cr_assert_eq(size_of(a, "rows"), 7, "none is added to another");
	json_array_foreach (json_object_get(a, "rows"), i, r) {
		uint64_t k = num(r, "samples") - 1;

		cr_assert_lt(k, 7u);
		seen |= 1ULL << k;
		cr_expect_str_eq(str(r, "side"), row[k].name);
		cr_expect_eq(integer(r, "cpl"), row[k].cpl);
		cr_expect_eq(integer(r, "pid"), row[k].pid);
		cr_expect_eq(json_object_get(r, "vcpu") != NULL, k < 4);
		if (k >= 5)
			cr_expect_str_eq(str(r, "tenant"), vm_f->parent->path);
		else
			cr_expect_str_eq(str(r, "vm"), "f");
	}
	cr_expect_eq(seen, 0x7fu);
	json_array_foreach (json_object_get(a, "chains"), i, r) {
		chain = json_object_get(r, "chain");
		cr_assert_eq(json_array_size(chain), 3);
		cr_expect_str_eq(json_string_value(json_array_get(chain, 2)), "0x30");
	}
}

/* ---- commands ----------------------------------------------------------------------------- */

Test(backends, every_answer_names_its_backend)
{
	json_t *a, *item;
	size_t i;
	int found = 0;

	populate();
	a = must("{'cmd':'list'}");
	json_array_foreach (json_object_get(a, "nodes"), i, item) {
		const char *vm = json_string_value(json_object_get(item, "vm"));

		cr_expect_str_eq(str(item, "backend"), !vm		 ? "(none)"
						       : strcmp(vm, "s") ? "fake"
									 : "emulator");
		found += vm != NULL;
	}
	cr_expect_eq(found, 3);
	a = must("{'cmd':'events'}");
	json_array_foreach (json_object_get(a, "events"), i, item) {
		const json_t *backends = json_object_get(item, "backends"), *on;

		cr_assert_eq(json_array_size(backends), 2);
		on = json_array_get(backends, 1);
		cr_expect_str_eq(str(on, "backend"), "fake");
		if (strcmp(str(item, "event"), "instructions") == 0)
			cr_expect_str_eq(str(on, "quality"), "estimated");
		if (strcmp(str(item, "event"), "loads") == 0)
			cr_expect_str_eq(str(on, "why"), "the fake has no such event");
	}
	must("{'cmd':'attach','events':'instructions','scope':'vm'}");
	a = must("{'cmd':'sharing'}");
	cr_assert_eq(size_of(a, "backends"), 2);
	cr_expect_eq(integer(nth(a, "backends", 0), "consumers"), 1);
	cr_expect_eq(integer(nth(a, "backends", 1), "consumers"), 2);
	test_run(&h, 0, &emulator, 10);
	a = must("{'cmd':'conservation'}");
	cr_assert_eq(size_of(a, "rows"), 1, "the fake has no conservation");
	cr_expect_str_eq(str(nth(a, "rows", 0), "backend"), "emulator");
}

static void refused(const char *line, const char *who)
{
	json_t *a = ask(line);

	cr_expect(json_is_false(json_object_get(a, "ok")), "%s", line);
	cr_expect_eq(integer(a, "errno"), ETIMEDOUT, "%s", line);
	cr_expect(strstr(str(a, "error"), who), "%s: %s", line, str(a, "error"));
}

/* pCPU 1 of the core has an owner that never polls; then CPU 5 of the fake does not answer. */
Test(backends, a_cpu_that_does_not_answer_has_a_name)
{
	static const char *const begin[] = {
		/* The host's own work is on every pCPU. */
		"{'cmd':'attach','events':'instructions','scope':'tenant'}",
		PROFILE ",'period':'10','backend':'emulator'}",
		"{'cmd':'lbr-attach','mode':'calls','target':'s'}",
		"{'cmd':'conservation'}",
	};
	const char *const before =
		"{'cmd':'attach','events':'instructions','scope':'vm','name':'before','keep':true}";
	const char *const read = "{'cmd':'read','session':'before'}";
	json_t *a, *stalled;

	populate();
	must(before);
	test_run(&h, 0, &emulator, 10);
	test_run(&h, 1, &emulator, 1); /* the VM has been on that pCPU */
	vpmu_host_set_deadline(h.host, 1000000);
	vpmu_pcpu_online(h.pcpu[1]);
	for (size_t i = 0; i < sizeof(begin) / sizeof(begin[0]); i++)
		refused(begin[i], "pCPU 1 of backend emulator does not answer");
	must("{'cmd':'list'}");
	must("{'cmd':'sharing'}");
	fake.stalled = true;
	stalled = json_object_get(must(read), "stalled");
	cr_expect_eq(json_array_size(stalled), 2);
	cr_expect(strstr(json_string_value(json_array_get(stalled, 0)),
			 "pCPU 1 of backend emulator"));
	cr_expect(strstr(json_string_value(json_array_get(stalled, 1)), "CPU 5 of the fake"));
	vpmu_pcpu_offline(h.pcpu[1]); /* which answers */
	fake.stalled = false;
	a = must(read);
	cr_expect_null(json_object_get(a, "stalled"));
	for (size_t i = 0; i < sizeof(begin) / sizeof(begin[0]); i++)
		must(begin[i]);
	fake.attach_error = -ETIMEDOUT;
	fake.stalled = true;
	refused(begin[0], "CPU 5 of the fake");
	/* It has answered before anybody could name it. */
	fake.stalled = false;
	refused(begin[0], "try again");
}

/* ---- before there is a backend ----------------------------------------------------------------
 */

static void setup_empty(void)
{
	const struct server_opts opts = {.name = "test", .path = "/nowhere"};

	cr_assert_eq(tenants_create(NULL, &h.ts, h.err, sizeof(h.err)), 0);
	cr_assert_eq(server_create(h.ts, NULL, &opts, &srv, h.err, sizeof(h.err)), 0);
	fake_init(&fake, "fake", 0);
}

static void teardown_empty(void)
{
	bed_server_fini();
	tenants_destroy(h.ts);
}

TestSuite(no_backend, .init = setup_empty, .fini = teardown_empty);

Test(no_backend, commands_answer_sensibly)
{
	json_t *a, *item;
	size_t i;

	test_tenant(&h, "/a");
	a = must("{'cmd':'events'}");
	json_array_foreach (json_object_get(a, "events"), i, item)
		cr_expect_eq(size_of(item, "backends"), 0);
	cr_expect_gt(i, 10);
	a = must("{'cmd':'sharing'}");
	cr_expect(json_is_array(json_object_get(a, "backends")));
	cr_expect_eq(size_of(a, "backends"), 0);
	a = must("{'cmd':'conservation'}");
	cr_expect_eq(size_of(a, "rows"), 0);
	must("{'cmd':'check'}");
	a = must("{'cmd':'lbr-read','target':'/'}");
	cr_expect_eq(size_of(a, "rows"), 0);
	a = ask(PROFILE "}");
	cr_expect_str_eq(str(a, "error"), "target: no backend of this host has sampling (backends: "
					  "none); VMs of the emulator do");
	/* A session waits for what comes. */
	cr_expect_eq(
		integer(must("{'cmd':'attach','events':'instructions','target':'/a'}"), "nr-rows"),
		0);
	cr_assert_eq(tenants_add_source(h.ts, &fake.s), 0);
	cr_expect_eq(tenants_add_source(h.ts, &fake.s), -EEXIST);
	fake_insns(fake_vm(tenant_find(h.ts, "/a"), "f"), 0, 12);
	a = must("{'cmd':'read','session':'@1'}");
	item = nth(a, "rows", 0);
	cr_expect_str_eq(str(item, "backend"), "fake");
	cr_expect_str_eq(str(nth(item, "values", 0), "count"), "12");
}

/* Not in a teardown: Criterion counts no failure there. */
Test(backends_end, nothing_is_left_in_a_source)
{
	setup_with(VPMU_BACKEND_SAMPLES);
	populate();
	open_session("/", SESSION_TENANT);
	open_session("f", SESSION_VCPU);
	must(PROFILE ",'target':'/b'}");
	cr_expect_eq(fake.nodes, 3 + 3 + 3);
	cr_expect_eq(fake.countings, 5 + 2);
	cr_expect(fake.sampling);
	test_vcpu_fini(&emulator);
	teardown();
	cr_expect_eq(fake.nodes, 0);
	cr_expect_eq(fake.countings, 0);
	cr_expect_null(fake.sampling);
}
