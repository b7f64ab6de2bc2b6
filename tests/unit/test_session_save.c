// SPDX-License-Identifier: GPL-2.0-or-later
/* Sessions that outlive their server: saved, opened again on the same counts, and the result of
 * text that differs from the saved one. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "service/session_save.h"
#include "fake_backend.h"
#include "vpmu/event/event.h"

static struct fake_source fake;
static struct tenants *ts;
static struct sessions *ss;
static struct node *acme, *vm;
static char err[300], notes[2000];

static void get(const struct vpmu_counting *c, size_t i, uint64_t base[SESSION_BASE_WORDS])
{
	base[0] = ((const struct fake_counting *)c)->base[i];
	base[1] = 1ULL << 63;
	base[2] = i;
	for (size_t w = 3; w < SESSION_BASE_WORDS; w++)
		base[w] = 100 * w + i;
}

static int set(struct vpmu_counting *c, size_t i, const uint64_t base[SESSION_BASE_WORDS])
{
	if (base[0] > fake_total(c->node, vpmu_key_event(c->keys[i])))
		return -EINVAL;
	cr_expect_eq(base[1], 1ULL << 63);
	cr_expect_eq(base[2], i);
	for (size_t w = 3; w < SESSION_BASE_WORDS; w++)
		cr_expect_eq(base[w], 100 * w + i);
	((struct fake_counting *)c)->base[i] = base[0];
	return 0;
}

static uint64_t lacks(const struct vpmu_counting *c, const struct node *n)
{
	return n->owed ? 1000000 : 0;
}

static struct session_bases bases = {"bpf", get, set, VPMU_SPACE_INTEL, false, lacks};

static void note(void *arg, const char *line)
{
	snprintf(notes + strlen(notes), sizeof(notes) - strlen(notes), "%s\n", line);
}

static void add_vm(void)
{
	cr_assert_eq(tenant_vm_add(ts, acme, &fake.s, "web", 1, NULL, &vm, err, sizeof(err)), 0);
}

static void setup(void)
{
	fake_init(&fake, "bpf", 0);
	cr_assert_eq(tenants_create(NULL, &ts, err, sizeof(err)), 0);
	cr_assert_eq(tenants_add_source(ts, &fake.s), 0);
	cr_assert_eq(tenant_add(ts, "/acme", &acme, err, sizeof(err)), 0);
	cr_assert_eq(tenant_count(acme, &fake.s), 0);
	add_vm();
	ss = sessions_create(ts);
}

static json_t *saved; /* the state of the server before, which must live */

static void teardown(void)
{
	sessions_destroy(ss);
	tenants_destroy(ts);
	json_decref(saved);
}

TestSuite(session_save, .init = setup, .fini = teardown);

static struct session *attach(const char *name, struct node *target, enum session_scope scope,
			      const void *owner, const struct access *who)
{
	static const char *const events[] = {"instructions", "cycles:u"};
	vpmu_key_t keys[2];
	struct session_spec spec = {
		.open = {.name = name, .target = target, .owner = owner, .who = who},
		.nr_events = 2,
		.events = events,
		.keys = keys,
		.scope = scope,
	};
	struct session *s;

	for (size_t i = 0; i < 2; i++)
		cr_assert_eq(vpmu_event_parse(events[i], VPMU_SPACE_INTEL, &keys[i], NULL, 0), 0);
	cr_assert_eq(session_open(ss, &spec, &s, err, sizeof(err)), 0, "%s", err);
	return s;
}

static int is_not_late(struct node *n, unsigned int depth, void *arg)
{
	n->late_ns = 0;
	return 0;
}

/* The end of this server and the start of another one. */
static void next_server(void)
{
	tenants_walk(ts, is_not_late, NULL); /* its nodes are new */
	sessions_destroy(ss);
	ss = sessions_create(ts);
}

/* This server's state, as text that was read again. */
static json_t *saved_text(void)
{
	json_t *state = sessions_save(ss, &bases), *text;
	char *dump = json_dumps(state, 0);

	cr_assert(state && dump);
	text = json_loads(dump, 0, NULL);
	json_decref(state);
	free(dump);
	return text;
}

static void restore(json_t *text)
{
	sessions_restore(ss, text, &bases, note, NULL);
}

/* The next server goes on with the sessions of this one. */
static void again(void)
{
	json_t *before = saved;

	saved = saved_text();
	next_server();
	restore(saved);
	json_decref(before);
}

static struct session *named(const char *name)
{
	return (struct session *)registry_find(sessions_registry(ss), name, NULL);
}

static uint64_t sum;

static void add(const struct session_row *row, void *arg)
{
	if (!arg || !strcmp(arg, row->vm ? row->vm : row->path))
		sum += row->values[0].count;
}

/* The instructions of the rows of @s that are @whose (NULL: all). */
static uint64_t value(struct session *s, const char *whose)
{
	sum = 0;
	session_read(s, add, (void *)whose);
	session_forget_before(s, UINT64_MAX);
	return sum;
}

static void run(uint64_t n)
{
	fake_charge(node_in(node_vcpu(vm, 0), &fake.s), VPMU_EV_INSTRUCTIONS, n);
}

Test(session_save, a_session_goes_on_where_it_was)
{
	struct session *s;
	uint64_t opened;

	run(100);
	s = attach("all", tenants_root(ts), SESSION_TENANT, NULL, NULL);
	opened = s->opened_ns;
	s->opened_width_ns = 12345;
	attach(NULL, tenants_root(ts), SESSION_ONE, "a connection", NULL);
	run(7);
	again();
	cr_expect_eq(sessions_registry(ss)->nr, 1, "one without a name ends");
	s = named("all");
	cr_assert(s);
	cr_expect_eq(value(s, "/acme"), 7);
	cr_expect_eq(value(s, "/"), 7);
	run(5);
	cr_expect_eq(value(s, "/acme"), 12);
	cr_expect_eq(s->opened_ns, opened);
	cr_expect_eq(s->opened_width_ns, 12345);
	cr_expect_eq(s->nr_events, 2);
	cr_expect_str_eq(s->events[1], "cycles:u");
	cr_expect_eq(s->reg.lost_ns, 0, "it was to be kept");
	cr_expect_str_eq(notes, "");
	again();
	cr_expect_eq(value(named("all"), "/acme"), 12, "and once more");
}

static uint64_t late;

static void look_late(const struct session_row *row, void *arg)
{
	if (!strcmp(arg, row->path))
		late = row->late_ns;
}

static uint64_t late_of(struct session *s, const char *path)
{
	session_read(s, look_late, (void *)path);
	return late;
}

Test(session_save, what_was_late_stays_so)
{
	struct session *s = attach("all", tenants_root(ts), SESSION_TENANT, NULL, NULL);
	struct node *acme = tenant_find(ts, "/acme");

	cr_expect_eq(late_of(s, "/acme"), 0);
	tenant_late(node_vcpu(vm, 0), tenant_find(ts, "/host"), 5);
	cr_expect_eq(late_of(s, "/acme"), 5);
	cr_expect_eq(late_of(s, "/"), 0, "the host has all");
	tenant_late(node_vcpu(vm, 0), acme, 2);
	cr_expect_eq(vm->late_ns, 7);
	cr_expect_eq(late_of(s, "/acme"), 5, "it has what its VM lacks");
	s = attach("new", tenants_root(ts), SESSION_TENANT, NULL, NULL);
	cr_expect_eq(late_of(s, "/acme"), 0, "that was before");
	again();
	cr_expect_eq(late_of(named("all"), "/acme"), 5);
	cr_expect_eq(late_of(named("new"), "/acme"), 0);
	tenant_late(acme, tenant_find(ts, "/host"), 3);
	cr_expect_eq(late_of(named("all"), "/acme"), 8);
	cr_expect_eq(late_of(named("all"), "/host"), 8, "it has what the others lack");
}

/* The sessions are restored after all that is there was found. */
Test(session_save, what_was_late_before_the_sessions_go_on)
{
	struct node *new, *rule;

	attach("all", tenants_root(ts), SESSION_TENANT, NULL, NULL);
	saved = saved_text();
	next_server();
	cr_assert_eq(tenant_add(ts, "/new", &new, err, sizeof(err)), 0);
	cr_assert_eq(tenant_count(new, &fake.s), 0);
	tenant_late(new, tenant_find(ts, "/host"), 1000000000);
	new->owed = acme->owed = true;
	cr_assert_eq(tenant_add(ts, "/rule", &rule, err, sizeof(err)), 0);
	cr_assert_eq(tenant_count(rule, &fake.s), 0);
	tenant_late(acme, tenant_find(ts, "/host"), 5);
	restore(saved);
	cr_expect_eq(late_of(named("all"), "/acme"), 5, "it was saved");
	cr_expect_eq(late_of(named("all"), "/new"), 1001000000, "its count begins now");
	cr_expect_eq(late_of(named("all"), "/rule"), 0, "it is new");
	cr_expect_eq(late_of(named("all"), "/host"), 1000000005);
}

/* A VM that was started again before the server ends, and once more after that. */
Test(session_save, the_former_runs_of_a_vm_are_not_lost)
{
	struct session *s = attach("web", vm, SESSION_ONE, NULL, NULL);

	run(100);
	tenant_vm_remove(ts, vm);
	add_vm();
	run(7);
	cr_expect_eq(value(s, NULL), 107);
	again();
	s = named("web");
	cr_assert(s);
	cr_expect_eq(value(s, NULL), 107);
	run(5);
	tenant_vm_remove(ts, vm);
	add_vm();
	run(1);
	cr_expect_eq(value(s, NULL), 113);
	again();
	cr_expect_eq(value(named("web"), NULL), 113);
	/* A field other than a list of such numbers is ignored. */
	json_object_set_new(json_array_get(json_object_get(json_array_get(saved, 0), "rows"), 0),
			    "before", json_string("100 1 1 0 2"));
	next_server();
	restore(saved);
	cr_expect_eq(value(named("web"), NULL), 1);
}

static void keep_id(const struct session_row *row, void *arg)
{
	((uint64_t *)arg)[row->kind] = row->id;
}

Test(session_save, numbers_of_rows_stay_and_are_not_used_again)
{
	uint64_t before[5] = {0}, after[5] = {0};
	struct session *s = attach("all", tenants_root(ts), SESSION_TENANT, NULL, NULL);
	struct node *late;
	uint64_t used;

	session_read(s, keep_id, before);
	/* Some rows come and go: their numbers are used, too. */
	for (int i = 0; i < 9; i++) {
		cr_assert_eq(tenant_add(ts, "/short", &late, err, sizeof(err)), 0);
		cr_assert_eq(tenant_count(late, &fake.s), 0);
		cr_assert_eq(tenant_remove(ts, "/short", err, sizeof(err)), 0);
	}
	used = s->next_id;
	session_forget_before(s, UINT64_MAX);
	again();
	s = named("all");
	session_read(s, keep_id, after);
	cr_expect_eq(after[NODE_TENANT], before[NODE_TENANT]);
	cr_expect_eq(after[NODE_ROOT], before[NODE_ROOT]);
	cr_assert_eq(tenant_add(ts, "/late", &late, err, sizeof(err)), 0);
	cr_assert_eq(tenant_count(late, &fake.s), 0);
	session_read(s, keep_id, after);
	cr_expect_geq(after[NODE_TENANT], used);
}

/* A client that has read such a row must not take another one for it. */
Test(session_save, numbers_of_rows_that_were_not_saved_are_not_used_again)
{
	struct session *s = attach("all", tenants_root(ts), SESSION_TENANT, NULL, NULL);
	uint64_t used, after[5] = {0};
	struct node *late;

	saved = saved_text();
	for (int i = 0; i < 99; i++) {
		cr_assert_eq(tenant_add(ts, "/short", &late, err, sizeof(err)), 0);
		cr_assert_eq(tenant_count(late, &fake.s), 0);
		cr_assert_eq(tenant_remove(ts, "/short", err, sizeof(err)), 0);
	}
	used = s->next_id;
	next_server();
	restore(saved);
	cr_assert_eq(tenant_add(ts, "/late", &late, err, sizeof(err)), 0);
	cr_assert_eq(tenant_count(late, &fake.s), 0);
	session_read(named("all"), keep_id, after);
	cr_expect_geq(after[NODE_TENANT], used);
}

/* Make @total the first number of the first row's first event. */
static void set_base(json_t *text, const char *total)
{
	json_t *row = json_array_get(json_object_get(json_array_get(text, 0), "rows"), 0);
	const char *old = json_string_value(json_object_get(row, "bases"));

	cr_assert(old && strchr(old, ' '));
	json_object_set_new(row, "bases", json_sprintf("%s%s", total, strchr(old, ' ')));
}

static void keep_since(const struct session_row *row, void *arg)
{
	((uint64_t *)arg)[row->kind] = row->since_us;
}

Test(session_save, counts_that_go_on_began_when_they_did)
{
	uint64_t before[5] = {0}, after[5] = {0};
	struct session *s = attach("all", tenants_root(ts), SESSION_TENANT, NULL, NULL);
	struct node *late;

	session_read(s, keep_since, before);
	cr_assert_gt(before[NODE_TENANT], 0);
	usleep(2000);
	again();
	s = named("all");
	session_read(s, keep_since, after);
	cr_expect_eq(after[NODE_TENANT], before[NODE_TENANT]);
	cr_expect_eq(after[NODE_ROOT], before[NODE_ROOT]);
	cr_assert_eq(tenant_add(ts, "/late", &late, err, sizeof(err)), 0);
	cr_assert_eq(tenant_count(late, &fake.s), 0);
	session_read(s, keep_since, after);
	cr_expect_gt(after[NODE_TENANT], before[NODE_TENANT], "a new one begins now");
}

Test(session_save, rows_of_nodes_that_come_later)
{
	struct session *s = attach("vms", acme, SESSION_VM, "a connection", NULL);

	run(3);
	saved = saved_text();
	next_server();
	tenant_vm_remove(ts, vm);
	restore(saved);
	s = named("vms");
	cr_assert(s);
	cr_expect_neq(s->reg.lost_ns, 0, "its connection has ended");
	cr_expect_eq(value(s, NULL), 0);
	/* A base that is greater than the total is of other counts: the row begins at 0. */
	set_base(saved, "1000");
	add_vm();
	run(4);
	cr_expect_eq(value(s, "web"), 4);
	tenant_vm_remove(ts, vm);
	session_forget_before(s, UINT64_MAX);
	set_base(saved, "0");
	add_vm();
	run(6);
	cr_expect_eq(value(s, "web"), 6);
	sessions_restored(ss);
}

/* A base that does not fit is refused with those before it. */
Test(session_save, counts_of_a_row_begin_together)
{
	const char *end;
	json_t *row;
	char *text;

	attach("one", acme, SESSION_ONE, NULL, NULL);
	run(5);
	saved = saved_text();
	row = json_array_get(json_object_get(json_array_get(saved, 0), "rows"), 0);
	text = strdup(json_string_value(json_object_get(row, "bases")));
	end = strrchr(text, ' '); /* the last word of the second event is missing */
	cr_assert(text && end);
	json_object_set_new(row, "bases", json_stringn(text, (size_t)(end - text)));
	free(text);
	next_server();
	restore(saved);
	cr_expect_eq(value(named("one"), NULL), 0);
	run(2);
	cr_expect_eq(value(named("one"), NULL), 2);
}

Test(session_save, who_may_see_it)
{
	struct access reader = {.uid = 77, .nr = 1, .tenants = {"/acme"}};

	attach("mine", acme, SESSION_ONE, "a connection", &reader);
	again();
	cr_expect(registry_find(sessions_registry(ss), "mine", &reader));
	reader.uid = 78;
	cr_expect_null(registry_find(sessions_registry(ss), "mine", &reader));
	cr_expect_eq(named("mine")->reg.who.nr, 1);
	cr_expect_str_eq(named("mine")->reg.who.tenants[0], "/acme");
	cr_expect_not(named("mine")->reg.who.admin);
}

/* Each value of each saved field is replaced by others. */
Test(session_save, what_is_not_whole_is_left_out)
{
	static const char *const others[] = {"null", "true",	 "-1",
					     "\"\"", "\"x/..\"", "[]",
					     "[[]]", "{}",	 "\"99999999999999999999999\"",
					     "[7]"};
	json_t *o, *copy, *all;
	const char *key;
	json_t *v;

	attach("all", tenants_root(ts), SESSION_TENANT, NULL, NULL);
	saved = sessions_save(ss, &bases);
	o = json_array_get(saved, 0);
	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
		json_object_foreach (o, key, v) {
			next_server();
			copy = json_deep_copy(o);
			json_object_set_new(copy, key,
					    json_loads(others[i], JSON_DECODE_ANY, NULL));
			all = json_pack("[o]", copy);
			*notes = '\0';
			restore(all);
			cr_expect(!named("all") == (*notes != '\0') || strcmp(key, "name") == 0,
				  "%s = %s: %s", key, others[i], notes);
			sessions_restored(ss);
			next_server();
			json_decref(all);
		}
	}
	*notes = '\0';
	restore(json_object_get(o, "name"));
	cr_expect_eq(sessions_registry(ss)->nr, 0, "no array at all");
	json_object_set_new(o, "target", json_string("/gone"));
	restore(saved);
	cr_expect_str_eq(notes, "session all has ended with the former server: /gone is not there "
				"any more\n");
}
