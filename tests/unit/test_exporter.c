// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * exporter/: what is in the text that scrapers get: which numbers are there and which are
 * absent and why, limits, what becomes of VMs that go, and sessions that are taken over. Invariants
 * I2 (monotonic), I7 (honest), I8 (no count is lost).
 */
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "exporter/metrics.h"
#include "cgroup_host.h"
#include "exporter_server.h"
#include "fake_backend.h"

/* ---- exported metrics ---------------------------------------------------------------------- */

static struct test_host h;
static struct server *server;
static struct metrics_opts opts;
static struct metrics *m; /* begin() */

static void setup(void)
{
	test_host_init(&h, NULL);
	server = exporter_server(&h);
	opts = (struct metrics_opts){
		.events = "instructions,cycles,cache-misses",
		.max_vms = 100,
		.max_tenants = 100,
		.keep_gone_sec = 3600,
		.ask = exporter_server_ask,
		.arg = server,
	};
}

static void teardown(void)
{
	metrics_destroy(m);
	server_destroy(server);
	test_host_fini(&h);
}

TestSuite(metrics, .init = setup, .fini = teardown);

static char *page; /* the last one */

static void render(enum expo_form form)
{
	struct expo e = {.form = form};
	char err[300] = "";

	cr_assert_eq(metrics_render(m, &e, err, sizeof(err)), 0, "%s", err);
	cr_assert_eq(expo_end(&e), 0);
	free(page);
	page = strndup(e.text, e.len);
	expo_fini(&e);
}

/* The exporter starts, again. */
static void begin(void)
{
	char err[300] = "";

	metrics_destroy(m);
	m = NULL;
	cr_assert_eq(metrics_create(&opts, &m, err, sizeof(err)), 0, "%s", err);
	render(EXPO_TEXT); /* counting begins */
}

/* The value of @series in the last text, which has it once; -1: it has not. */
static double value(const char *series)
{
	char line[500];
	const char *at;

	snprintf(line, sizeof(line), "\n%s ", series);
	at = strstr(page, line);
	if (!at)
		return -1;
	cr_assert_null(strstr(at + 1, line), "%s twice", series);
	return strtod(at + strlen(line), NULL);
}

#define EVENTS(what, plus)                                                                         \
	"vpmu_" what "_events_total{" plus "backend=\"emulator\",event=\"instructions\"}"
#define VM(name)	  EVENTS("domain", "domain=\"" name "\",")
#define TENANT(path)	  EVENTS("tenant", "tenant=\"" path "\",")
#define RUN_SECONDS(name) "vpmu_domain_run_seconds_total{domain=\"" name "\",backend=\"emulator\"}"
#define OF_EVENT(what, name, event, label)                                                         \
	"vpmu_domain_events_" what "{domain=\"" name "\",backend=\"emulator\",event=\"" event      \
	"\"," label "\"}"
#define QUALITY(name, event, quality) OF_EVENT("quality", name, event, "quality=\"" quality)
#define MISSING(name, event, reason)  OF_EVENT("missing", name, event, "reason=\"" reason)

/* The server's answer, with what vpmud adds. */
static int ask_with_guests(void *arg, json_t *req, json_t **resp, char *err, size_t errlen)
{
	const char *cmd = json_string_value(json_object_get(req, "cmd"));
	bool sharing = cmd && !strcmp(cmd, "sharing");
	int ret = exporter_server_ask(arg, req, resp, err, errlen);

	if (!ret && sharing)
		json_object_set_new(*resp, "guests",
				    json_pack("{s:i, s:i, s:s, s:s, s:s, s:s, s:[]}", "vms", 2,
					      "counters", 7, "denied", "18446744073709551615",
					      "refused", "3", "dropped", "4", "ended", "5",
					      "events"));
	return ret;
}

/* The server's answer, with times that are known. */
static int ask_at_times(void *arg, json_t *req, json_t **resp, char *err, size_t errlen)
{
	int ret = exporter_server_ask(arg, req, resp, err, errlen);
	const char *scope = ret ? NULL : json_string_value(json_object_get(*resp, "scope"));
	bool vms = scope && !strcmp(scope, "vm");

	if (!ret && json_object_get(*resp, "rows")) {
		cr_expect(json_object_get(*resp, "as-of-us") && json_object_get(*resp, "width-ns"));
		json_object_set_new(*resp, "as-of-us",
				    json_string(vms ? "1790000000000002" : "1790000000000001"));
		json_object_set_new(*resp, "width-ns", json_string(vms ? "2000000" : "1500000"));
	}
	return ret;
}

Test(metrics, times_of_the_counts_if_asked_for)
{
	opts.ask = ask_at_times;
	begin();
	cr_expect_null(strstr(page, "vpmu_counts_"), "not by default");
	opts.as_of = true;
	begin();
	cr_expect(strstr(page, "\nvpmu_counts_as_of_seconds{kind=\"tenant\"} 1790000000.000001\n"
			       "vpmu_counts_as_of_seconds{kind=\"domain\"} 1790000000.000002\n"),
		  "%s", page);
	cr_expect(strstr(page, "\nvpmu_counts_width_seconds{kind=\"tenant\"} 0.001500\n"
			       "vpmu_counts_width_seconds{kind=\"domain\"} 0.002000\n"),
		  "%s", page);
}

Test(metrics, refusals_of_guests)
{
	begin();
	cr_assert_null(strstr(page, "vpmu_guest_"), "this server has no such guests");
	opts.ask = ask_with_guests;
	begin();
	cr_assert_eq(value("vpmu_guest_vms"), 2);
	cr_assert_eq(value("vpmu_guest_counters"), 7);
	cr_assert_not_null(strstr(page, "\nvpmu_guest_refusals_total{reason=\"denied\"} "
					"18446744073709551615\n"));
	cr_assert_eq(value("vpmu_guest_refusals_total{reason=\"quota\"}"), 3);
	cr_assert_eq(value("vpmu_guest_connections_dropped_total"), 4);
}

Test(metrics, counts_of_host_tenants_and_vms)
{
	struct node *acme = test_tenant(&h, "/acme"), *vm = test_vm(&h, acme, "web", 1);
	struct test_vcpu v;

	test_vcpu_init(&v, vm, 0);
	test_run(&h, 0, &v, 50000); /* before: not counted */
	begin();
	test_run(&h, 0, &v, 1000);
	test_run(&h, 0, NULL, 300);
	render(EXPO_TEXT);
	cr_assert_eq(value(VM("web")), 1000, "%s", page);
	cr_assert_eq(value(TENANT("/acme")), 1000);
	cr_assert_eq(value(TENANT("/host")), 300);
	cr_assert_eq(value(EVENTS("host", "")), 1300);
	cr_assert_float_eq(value(RUN_SECONDS("web")), 1e-6, 1e-12);
	cr_assert_eq(
		value("vpmu_domain_info{domain=\"web\",backend=\"emulator\",uuid=\"6f0c1b9e-0000-"
		      "4000-8000-000000000001\",tenant=\"/acme\",cgroup=\"/a\\\"b\"}"),
		1);
	cr_assert_eq(value("vpmu_rows{kind=\"domain\"}"), 1);
	cr_assert_eq(value("vpmu_backend_up{backend=\"emulator\"}"), 1);
	cr_assert_eq(value("vpmu_backend_keys{backend=\"emulator\"}"), 3);
	cr_assert_eq(value("vpmu_event_supported{backend=\"emulator\",event=\"cycles\"}"), 1);
	cr_assert_eq(value("vpmu_event_supported{backend=\"emulator\",event=\"cache-misses\"}"), 0);
	cr_assert_eq(value("vpmu_build_info{version=\"" VPMU_VERSION "\"}"), 1);
	cr_assert_gt(value("vpmu_start_time_seconds"), 1e9);
	cr_assert_eq(value("vpmu_session_refusals_total{kind=\"session\"}"), 0);
	cr_assert_null(strstr(page, "vpmu_cpu_counters"), "this server says nothing of them");
	/* The emulator PMU's cycles are modelled, and it has no cache. */
	cr_assert_eq(value(QUALITY("web", "cycles", "modelled")), 1);
	cr_assert_eq(value(QUALITY("web", "instructions", "modelled")), -1);
	cr_assert_eq(value(MISSING("web", "cache-misses", "unsupported")), 1);
	cr_assert_null(strstr(page, "\nvpmu_domain_events_total{domain=\"web\",backend="
				    "\"emulator\",event=\"cache-misses\"}"));
	cr_assert_null(strstr(page, "late_seconds{"));
	tenant_late(vm, acme, 1500000000);
	render(EXPO_TEXT);
	cr_assert_eq(value("vpmu_domain_late_seconds{domain=\"web\",backend=\"emulator\"}"), 1.5);
	cr_assert_eq(value("vpmu_tenant_late_seconds{tenant=\"/acme\",backend=\"emulator\"}"), -1);
	cr_assert_null(strstr(page, "quality=\"late\""));
	test_vcpu_fini(&v);
}

/* The count of @event of @vm in the JSON of the live page: -1: null; -2: it has no such series. */
static json_int_t sum_of(const json_t *sums, const char *vm, const char *event)
{
	const json_t *s, *count;
	size_t i;

	json_array_foreach (json_object_get(sums, "series"), i, s) {
		const char *name = json_string_value(json_object_get(s, "vm"));

		count = json_object_get(s, "count");
		if (name && !strcmp(name, vm) &&
		    !strcmp(json_string_value(json_object_get(s, "event")), event))
			return json_is_null(count) ? -1 : json_integer_value(count);
	}
	return -2;
}

/* Of a VM without a known vCPU nothing is known, unless its cgroup is counted. */
Test(metrics, a_vm_without_known_vcpus_has_no_zeros)
{
	struct node *acme = test_tenant(&h, "/acme");
	struct expo e = {.form = EXPO_JSON};
	char err[300] = "";
	json_t *sums;

	test_vm(&h, acme, "none", 0);
	test_vm(&h, acme, "new", 1);
	test_vm(&h, acme, "web", 0);
	begin();
	cr_expect_eq(value(VM("none")), -1, "%s", page);
	cr_expect_eq(value(MISSING("none", "instructions", "not_counted")), 1);
	cr_expect_eq(value(RUN_SECONDS("none")), -1);
	cr_expect_eq(value(VM("new")), 0);
	cr_expect_eq(value(VM("web")), 0);
	cr_expect_eq(value(RUN_SECONDS("new")), 0);
	cr_assert_eq(metrics_sums(m, &e, err, sizeof(err)), 0, "%s", err);
	sums = json_loadb(e.text, e.len, 0, NULL);
	cr_expect_eq(sum_of(sums, "none", "instructions"), -1, "%s", e.text);
	cr_expect_eq(sum_of(sums, "none", "cpu-time"), -2);
	cr_expect_eq(sum_of(sums, "new", "instructions"), 0);
	cr_expect_eq(sum_of(sums, "new", "cpu-time"), 0);
	cr_expect_eq(sum_of(sums, "web", "cpu-time"), 0);
	json_decref(sums);
	expo_fini(&e);
}

/* 1,000 instructions. */
static void runs_and_goes(struct node *vm)
{
	struct test_vcpu v;

	test_vcpu_init(&v, vm, 0);
	test_run(&h, 0, &v, 1000);
	test_vcpu_fini(&v);
	tenant_vm_remove(h.ts, vm);
}

Test(metrics, a_vm_that_goes_is_shown_once_more_and_its_tenant_keeps_all)
{
	struct node *acme = test_tenant(&h, "/acme"), *vm = test_vm(&h, acme, "web", 1);

	opts.keep_gone_sec = 0;
	begin();
	runs_and_goes(vm);
	render(EXPO_TEXT);
	cr_assert_eq(value(VM("web")), 1000, "%s", page);
	cr_assert_eq(value(TENANT("/acme")), 1000);
	render(EXPO_TEXT);
	cr_assert_eq(value(VM("web")), -1);
	cr_assert_eq(value(TENANT("/acme")), 1000);
}

Test(metrics, a_new_vm_of_a_name_takes_the_place_of_the_one_that_went)
{
	struct node *acme = test_tenant(&h, "/acme"), *vm = test_vm(&h, acme, "web", 1);
	struct test_vcpu v;

	begin();
	runs_and_goes(vm);
	render(EXPO_TEXT);
	cr_assert_eq(value(VM("web")), 1000);
	vm = test_vm(&h, acme, "web", 1);
	test_vcpu_init(&v, vm, 0);
	test_run(&h, 0, &v, 70);
	render(EXPO_TEXT);
	cr_assert_eq(value(VM("web")), 70); /* and only once */
	cr_assert_eq(value(TENANT("/acme")), 1070);
	test_vcpu_fini(&v);
}

Test(metrics, beyond_the_limit_vms_are_in_their_tenant_only)
{
	struct node *acme = test_tenant(&h, "/acme");
	struct test_vcpu v[4];
	char name[8] = "vm0";

	opts.max_vms = 2;
	begin();
	for (int i = 0; i < 4; i++) {
		name[2] = (char)('0' + i);
		test_vcpu_init(&v[i], test_vm(&h, acme, name, 1), 0);
		test_run(&h, 0, &v[i], 100);
	}
	for (int again = 0; again < 2; again++) {
		render(EXPO_TEXT);
		cr_assert_eq(value(VM("vm0")), 100);
		cr_assert_eq(value(VM("vm1")), 100);
		cr_assert_eq(value(VM("vm2")), -1);
		cr_assert_eq(value(TENANT("/acme")), 400);
		cr_assert_eq(value("vpmu_rows{kind=\"domain\"}"), 2);
		cr_assert_eq(value("vpmu_rows_left_out{kind=\"domain\"}"), 2);
	}
	for (int i = 0; i < 4; i++)
		test_vcpu_fini(&v[i]);
}

static double created(void)
{
	return value("vpmu_tenant_events_created{tenant=\"/acme\",backend=\"emulator\",event="
		     "\"instructions\"}");
}

/* The sessions after a restart of vpmud, with their counts. */
/* Whoever starts many VMs, or programs that look like VMs, keeps no others out. */
Test(metrics, one_owner_cannot_take_all_rows)
{
	struct node *acme = test_tenant(&h, "/acme");
	char name[16];

	opts.max_vms = 3;
	begin();
	for (int i = 0; i < 12; i++) {
		snprintf(name, sizeof(name), "u7-%d", i);
		test_vm(&h, acme, name, 1);
	}
	render(EXPO_TEXT);
	cr_expect_eq(value("vpmu_rows{kind=\"domain\"}"), 3);
	cr_expect_eq(value(VM("u7-2")), 0, "there is room: %s", page);
	test_vm(&h, acme, "u8-0", 1);
	test_vm(&h, acme, "real", 1);
	for (int again = 0; again < 2; again++) {
		render(EXPO_TEXT);
		cr_expect_eq(value("vpmu_rows_left_out{kind=\"domain\"}"), 11);
		cr_expect_eq(value(VM("real")), 0, "%s", page);
		cr_expect_eq(value(VM("u8-0")), 0, "%s", page);
		cr_expect_eq(value(VM("u7-0")), 0, "%s", page);
	}
	/* Nor do those that have ended. */
	for (int i = 0; i < 12; i++) {
		snprintf(name, sizeof(name), "u7-%d", i);
		tenant_vm_remove(h.ts, tenant_vm_find(h.ts, name));
	}
	test_vm(&h, acme, "second", 1);
	render(EXPO_TEXT);
	cr_expect_eq(value("vpmu_rows{kind=\"domain\"}"), 3);
	cr_expect_eq(value(VM("real")), 0, "%s", page);
	cr_expect_eq(value(VM("u8-0")), 0, "%s", page);
	cr_expect_eq(value(VM("second")), 0, "%s", page);
}

Test(metrics, sessions_are_taken_over_or_begin_anew)
{
	struct node *acme = test_tenant(&h, "/acme"), *vm = test_vm(&h, acme, "web", 1);
	struct test_vcpu v;
	double since;

	opts.created = METRICS_CREATED_TENANTS;
	begin();
	test_vcpu_init(&v, vm, 0);
	test_run(&h, 0, &v, 1000);
	render(EXPO_OPENMETRICS);
	since = created();
	cr_assert_gt(since, 1e9);
	test_run(&h, 0, &v, 10);
	begin();
	render(EXPO_OPENMETRICS);
	cr_assert_eq(value(TENANT("/acme")), 1010);
	cr_assert_eq(created(), since);
	/* An operator has ended one of them: its counts begin again, and show it. */
	session_close((struct session *)registry_find(sessions_registry(server_sessions(server)),
						      METRICS_SESSION_TENANTS, NULL));
	test_run(&h, 0, &v, 7);
	render(EXPO_OPENMETRICS);
	test_run(&h, 0, &v, 5);
	render(EXPO_OPENMETRICS);
	cr_assert_eq(value(TENANT("/acme")), 5);
	cr_assert_gt(created(), since);
	cr_assert_eq(value(VM("web")), 1022);
	/* Other events: other sessions. */
	opts.events = "cycles";
	begin();
	render(EXPO_OPENMETRICS);
	cr_assert_eq(value(VM("web")), -1);
	cr_assert_not_null(
		strstr(page, "{domain=\"web\",backend=\"emulator\",event=\"cycles\"} 0\n"));
	cr_assert_eq(sessions_registry(server_sessions(server))->nr, 2);
	test_vcpu_fini(&v);
}

Test(metrics, which_counters_say_when_they_began)
{
	static const struct {
		enum metrics_created created;
		bool tenants, vms;
	} row[] = {{METRICS_CREATED_NO, false, false},
		   {METRICS_CREATED_TENANTS, true, false},
		   {METRICS_CREATED_ALL, true, true}};
	struct node *acme = test_tenant(&h, "/acme");
	struct test_vcpu v;

	test_vcpu_init(&v, test_vm(&h, acme, "web", 1), 0);
	for (size_t i = 0; i < 3; i++) {
		opts.created = row[i].created;
		begin();
		render(EXPO_OPENMETRICS);
		cr_assert_eq(created() > 0, row[i].tenants);
		cr_assert_eq(strstr(page, "\nvpmu_host_events_created{") != NULL, row[i].tenants);
		cr_assert_eq(strstr(page, "\nvpmu_backend_refusals_created{") != NULL,
			     row[i].tenants);
		cr_assert_eq(strstr(page, "\nvpmu_domain_events_created{") != NULL, row[i].vms);
		cr_assert_eq(strstr(page, "\nvpmu_domain_run_seconds_created{") != NULL,
			     row[i].vms);
		render(EXPO_TEXT);
		cr_assert_null(strstr(page, "_created{"));
	}
	test_vcpu_fini(&v);
}

/* ---- size ----------------------------------------------------------------------------------- */

static uint64_t shown; /* each count */

static bool can_all(const struct vpmu_backend *s, vpmu_key_t key, enum vpmu_quality *q, char *why,
		    size_t whylen)
{
	*q = VPMU_Q_EXACT;
	return true;
}

static void read_shown(const struct vpmu_counting *c)
{
	for (size_t i = 0; i < c->nr_keys; i++)
		c->values[i] = (struct vpmu_value){.supported = true,
						   .quality = VPMU_Q_EXACT,
						   .count = shown,
						   .enabled_ns = shown,
						   .running_ns = shown};
}

/* Bytes of 1,000 VMs in 10 tenants, with names and UUIDs as OpenStack gives them. */
static size_t size(enum expo_form form)
{
	render(form);
	return strlen(page);
}

Test(metrics, a_scrape_of_1000_vms_has_2_mb_at_most)
{
	static struct vpmu_backend_ops ops;
	static struct fake_source kernel;
	struct node *t = NULL, *vm;
	char name[64];

	fake_init(&kernel, "kernel", 0);
	ops = fake_ops;
	ops.can_count = can_all;
	ops.read = read_shown;
	kernel.s.ops = &ops;
	cr_assert_eq(tenants_add_source(h.ts, &kernel.s), 0);
	opts.events = "instructions,cycles,ref-cycles,cache-misses,branches,branch-misses,"
		      "context-switches,page-faults";
	opts.max_vms = 1000;
	opts.created = METRICS_CREATED_TENANTS;
	for (unsigned int i = 0; i < 1000; i++) {
		snprintf(name, sizeof(name), "/tenant-%u", i / 100);
		if (i % 100 == 0)
			t = test_tenant(&h, name);
		snprintf(name, sizeof(name), "instance-%08x", i);
		cr_assert_eq(
			tenant_vm_add(h.ts, t, &kernel.s, name, 0, NULL, &vm, h.err, sizeof(h.err)),
			0, "%s", h.err);
	}
	begin();
	/* 11 digits each. One more digit of each count and each time is 17 bytes of a VM. */
	shown = 10000000000;
	cr_assert_leq(size(EXPO_TEXT), 2100000, "%zu", strlen(page));
	cr_assert_leq(size(EXPO_OPENMETRICS), 2100000, "%zu", strlen(page));
	cr_assert_geq(size(EXPO_OPENMETRICS), 1900000, "all are there");
	shown *= 100000; /* the part of docs/metrics.md on hosts that run for long */
	printf("1,000 VMs with counts of 16 digits: %zu bytes", size(EXPO_TEXT));
	printf(", OpenMetrics %zu\n", size(EXPO_OPENMETRICS));
}

Test(metrics, events_that_are_refused)
{
	static const char *const bad[] = {"", "no-such-event", "cycles,cycles"};
	char err[300];

	for (size_t i = 0; i < 3; i++) {
		opts.events = bad[i];
		cr_assert_lt(metrics_create(&opts, &m, err, sizeof(err)), 0, "%s", bad[i]);
		cr_assert_eq(strncmp(err, "events: ", 8), 0, "%s", err);
	}
	cr_assert_eq(sessions_registry(server_sessions(server))->nr, 0);
}
