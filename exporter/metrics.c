// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The sessions of the metrics and the figures of the server; see metrics.h. metric_rows.c writes
 * the counts. An unknown number must never be written.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "exporter/answer.h"
#include "exporter/metrics.h"
#include "service/clock.h"
#include "service/program/memory.h"
#include "vpmu/util/fail.h"

/* ---- sessions ------------------------------------------------------------------------------- */

static const char *const session_name[] = {METRICS_SESSION_TENANTS, METRICS_SESSION_VMS};
static const char *const session_scope[] = {"tenant", "vm"};

static int ask(const struct metrics *m, json_t *req, json_t **resp, char *err, size_t errlen)
{
	return m->o.ask(m->o.arg, req, resp, err, errlen);
}

static bool is(const json_t *o, const char *key, const char *value)
{
	const char *text = json_string_value(json_object_get(o, key));

	return text && !strcmp(text, value);
}

static bool counts_the_same(const struct metrics *m, const json_t *read, bool vms)
{
	const json_t *events = json_object_get(read, "events"), *name;
	size_t i;

	if (json_array_size(events) != m->nr || !is(read, "scope", session_scope[vms]) ||
	    !is(read, "target", "/"))
		return false;
	json_array_foreach (events, i, name)
		if (!json_is_string(name) || strcmp(json_string_value(name), m->names[i]))
			return false;
	return true;
}

/* Read a session. -ENOENT: it is missing, or counted something else and was detached. */
static int session_read(const struct metrics *m, bool vms, json_t **out, char *err, size_t errlen)
{
	const char *name = session_name[vms];
	int ret = ask(m,
		      json_pack("{s:s, s:s, s:i}", "cmd", "read", "session", name, "keep-gone",
				(int)m->o.keep_gone_sec),
		      out, err, errlen);

	if (ret || counts_the_same(m, *out, vms))
		return ret;
	json_decref(*out);
	*out = NULL;
	ret = ask(m, json_pack("{s:s, s:s}", "cmd", "detach", "session", name), out, err, errlen);
	json_decref(*out);
	*out = NULL;
	return ret ? ret : -ENOENT;
}

/* Open the missing sessions, the tenants' first, so that a tenant never has less than its VMs. */
static int sessions_open(const struct metrics *m, char *err, size_t errlen)
{
	int ret = 0;

	for (int vms = 0; vms < 2 && !ret; vms++) {
		json_t *events = json_array(), *resp = NULL;

		for (size_t i = 0; i < m->nr; i++)
			json_array_append_new(events, json_string(m->names[i]));
		ret = ask(m,
			  json_pack("{s:s, s:o, s:s, s:s, s:b}", "cmd", "attach", "events", events,
				    "scope", session_scope[vms], "name", session_name[vms], "keep",
				    1),
			  &resp, err, errlen);
		json_decref(resp);
		ret = ret == -EEXIST ? 0 : ret;
	}
	return ret;
}

/* VMs first, so that a tenant never shows less than its VMs. */
static int sessions_read(const struct metrics *m, json_t *read[2], char *err, size_t errlen)
{
	int ret = 0;

	for (int vms = 1; vms >= 0 && !ret; vms--) {
		json_decref(read[vms]);
		read[vms] = NULL;
		ret = session_read(m, vms, &read[vms], err, errlen);
	}
	return ret;
}

int metrics_create(const struct metrics_opts *o, struct metrics **out, char *err, size_t errlen)
{
	struct metrics *m = xcalloc(1, sizeof(*m));
	vpmu_key_t keys[METRICS_EVENTS_MAX];
	char why[300];
	int ret;

	m->o = *o;
	m->nr = METRICS_EVENTS_MAX;
	ret = vpmu_event_parse_list(o->events, vpmu_event_host_space(), keys, m->names, &m->nr, why,
				    sizeof(why));
	if (ret) {
		m->nr = 0;
		fail(ret, err, errlen, "events: %s", why);
		if (ret == -E2BIG)
			ret = fail(-EINVAL, err, errlen, "events: more than %d; expected 1 to %d",
				   METRICS_EVENTS_MAX, METRICS_EVENTS_MAX);
	} else {
		ret = metrics_prepare(m, err, errlen);
	}
	if (ret) {
		metrics_destroy(m);
		return ret;
	}
	*out = m;
	return 0;
}

void metrics_destroy(struct metrics *m)
{
	if (!m)
		return;
	for (size_t i = 0; i < m->nr; i++) {
		free(m->names[i]);
		free(m->label[i]);
	}
	free(m);
}

/* ---- the server ----------------------------------------------------------------------------- */

static const char *backend_label(char buf[64], const json_t *source)
{
	const char *backend = json_string_value(json_object_get(source, "backend"));
	size_t used = 0;

	*buf = '\0';
	expo_label(buf, 64, &used, "backend", backend ? backend : "");
	return buf;
}

/* Write a sample for each backend that has the number @key. */
static void source_numbers(const json_t *backends, const char *key, uint64_t since_us,
			   struct expo *e)
{
	const json_t *source;
	char label[64];
	uint64_t v;
	size_t i;

	json_array_foreach (backends, i, source)
		if (answer_u64(source, key, &v))
			expo_u64(e, backend_label(label, source), v, since_us);
}

/* Return 1 if @event can be counted on @backend, 0 if not; -1: the tenants' session, which has a
 * row for each counting backend, has none of it. */
static int supported(const json_t *read, const char *backend, const char *event)
{
	const json_t *row, *no;
	int can = -1;
	size_t i;

	json_array_foreach (json_object_get(read, "rows"), i, row)
		if (is(row, "backend", backend)) {
			can = 1;
			break;
		}
	json_array_foreach (json_object_get(read, "unsupported"), i, no)
		if (is(no, "backend", backend) && is(no, "event", event))
			can = 0;
	return can;
}

static void sources(const struct metrics *m, const struct metrics_answers *a, uint64_t started_us,
		    struct expo *e)
{
	const json_t *backends = json_object_get(a->sharing, "backends"), *source;
	char label[64 + METRICS_EVENT_LABEL];
	size_t i;

	expo_family(e, "vpmu_backend_up", EXPO_GAUGE, NULL, "1 if all CPUs of the backend answer.");
	json_array_foreach (backends, i, source)
		expo_u64(e, backend_label(label, source),
			 json_is_false(json_object_get(source, "stalled")), 0);
	expo_family(e, "vpmu_backend_keys", EXPO_GAUGE, NULL, "Distinct events that are counted.");
	source_numbers(backends, "keys", 0, e);
	expo_family(e, "vpmu_backend_consumers", EXPO_GAUGE, NULL,
		    "Counts that share these events.");
	source_numbers(backends, "consumers", 0, e);
	expo_family(e, "vpmu_backend_counters", EXPO_GAUGE, NULL,
		    "Counters of all CPUs that are in use.");
	source_numbers(backends, "host-counters", 0, e);
	expo_family(e, "vpmu_backend_refusals", EXPO_COUNTER, NULL,
		    "Counts that were refused, because no counter slot was free or a quota was "
		    "used up.");
	source_numbers(backends, "refused", started_us, e);
	expo_family(e, "vpmu_event_supported", EXPO_GAUGE, NULL,
		    "1 if a backend can count an event.");
	json_array_foreach (backends, i, source) {
		const char *backend = json_string_value(json_object_get(source, "backend"));
		size_t used = strlen(backend_label(label, source));

		for (size_t v = 0; v < m->nr && backend; v++) {
			int can = supported(a->read[0], backend, m->names[v]);

			strcpy(label + used, m->label[v]);
			if (can >= 0)
				expo_u64(e, label, (uint64_t)can, 0);
		}
	}
}

static void figure_samples(struct expo *e, const json_t *from, uint64_t started_us,
			   const char *const keys[], const char *const labels[])
{
	uint64_t v;

	for (int i = 0; keys[i]; i++)
		if (answer_u64(from, keys[i], &v))
			expo_u64(e, labels ? labels[i] : "", v, started_us);
}

/* Write a family with one sample, or one per label; omitted if the server does not report it. */
static void figure(struct expo *e, const json_t *from, const char *name, const char *unit,
		   const char *help, const char *const keys[], const char *const labels[])
{
	expo_family(e, name, EXPO_GAUGE, unit, help);
	figure_samples(e, from, 0, keys, labels);
}

/* As figure(), of what is counted since the start of vpmud. */
static void figure_counter(struct expo *e, const json_t *from, uint64_t started_us,
			   const char *name, const char *help, const char *const keys[],
			   const char *const labels[])
{
	expo_family(e, name, EXPO_COUNTER, NULL, help);
	figure_samples(e, from, started_us, keys, labels);
}

#define KEYS(...) ((const char *const[]){__VA_ARGS__, NULL})

/* Write vpmud's figures of hardware counters and of its BPF backend; other servers have none. */
static void kernel(const json_t *k, struct expo *e)
{
	figure(e, k, "vpmu_cpu_counters", NULL,
	       "Hardware counters of each CPU: for any event, or for one event each.",
	       KEYS("general", "fixed"), KEYS("kind=\"general\"", "kind=\"fixed\""));
	figure(e, k, "vpmu_cpu_counters_left", NULL,
	       "General hardware counters of each CPU that are left to others.", KEYS("left"),
	       NULL);
	figure(e, k, "vpmu_cpu_counters_missing", NULL,
	       "1 if it is not known how many hardware counters a CPU has.", KEYS("unknown"),
	       KEYS("reason=\"unknown\""));
	figure(e, k, "vpmu_cpu_keys", NULL, "Distinct events in use that need a hardware counter.",
	       KEYS("keys"), NULL);
	figure(e, k, "vpmu_cpu_keys_take_turns", NULL,
	       "1 if there are more events than counters, so that each is counted a part of "
	       "the time.",
	       KEYS("turns"), NULL);
	figure(e, k, "vpmu_guests_have_counters", NULL,
	       "1 if KVM gives guests the counters for themselves, so that their events are "
	       "not counted.",
	       KEYS("mediated"), NULL);
	figure(e, k, "vpmu_kernel_map_bytes", "bytes", "Memory of the BPF backend's maps.",
	       KEYS("map-bytes"), NULL);
	figure(e, k, "vpmu_kernel_perf_events", NULL, "perf events of the BPF backend.",
	       KEYS("perf-events"), NULL);
}

/* Write vpmud's figures of guests that read its counts; omitted without guest_events. */
static void guests(const json_t *g, uint64_t started_us, struct expo *e)
{
	figure(e, g, "vpmu_guest_vms", NULL, "VMs whose VMM is connected to vcpus.sock.",
	       KEYS("vms"), NULL);
	figure(e, g, "vpmu_guest_counters", NULL, "Events that guests have bound, of all vCPUs.",
	       KEYS("counters"), NULL);
	figure_counter(e, g, started_us, "vpmu_guest_refusals",
		       "Events that guests did not get: denied by the policy, or beyond a quota.",
		       KEYS("denied", "refused"), KEYS("reason=\"denied\"", "reason=\"quota\""));
	figure_counter(e, g, started_us, "vpmu_guest_connections_dropped",
		       "Connections to vcpus.sock that vpmud did not take or closed for what they "
		       "sent.",
		       KEYS("dropped"), NULL);
}

static void server(const struct metrics_answers *a, uint64_t started_us, struct expo *e,
		   uint64_t began_ns)
{
	const char *version = json_string_value(json_object_get(a->hello, "version"));
	char label[100];
	size_t used = 0;

	expo_family(e, "vpmu_build", EXPO_INFO, NULL, "Which vpmud this is.");
	if (version && expo_label(label, sizeof(label), &used, "version", version))
		expo_u64(e, label, 1, 0);
	expo_family(e, "vpmu_start_time_seconds", EXPO_GAUGE, "seconds",
		    "When this vpmud began, in seconds since 1970.");
	if (started_us)
		expo_ns(e, "", started_us * 1000, 0);
	figure_counter(e, json_object_get(a->sharing, "refused"), started_us,
		       "vpmu_session_refusals",
		       "Sessions and profiles that were refused, because there were too many.",
		       KEYS("sessions", "profiles"), KEYS("kind=\"session\"", "kind=\"profile\""));
	figure_counter(e, a->sharing, started_us, "vpmu_samples_lost",
		       "Samples of profiles that came faster than they were taken in.",
		       KEYS("samples-lost"), NULL);
	if (json_object_get(a->sharing, "kernel"))
		kernel(json_object_get(a->sharing, "kernel"), e);
	if (json_object_get(a->sharing, "guests"))
		guests(json_object_get(a->sharing, "guests"), started_us, e);
	expo_family(e, "vpmu_scrape_duration_seconds", EXPO_GAUGE, "seconds",
		    "What reading the counts and writing this text took, up to here.");
	expo_ns(e, "", now_ns() - began_ns, 0);
}

int metrics_ask_all(const struct metrics *m, struct metrics_answers *a, char *err, size_t errlen)
{
	const struct {
		const char *cmd;
		json_t **answer;
	} rest[] = {{"list", &a->list}, {"sharing", &a->sharing}, {"hello", &a->hello}};
	int ret = sessions_read(m, a->read, err, errlen);

	/* Each of the two sessions may count other events. */
	for (int tries = 0; tries < 3 && ret == -ENOENT; tries++) {
		ret = sessions_open(m, err, errlen);
		if (ret)
			return ret;
		ret = sessions_read(m, a->read, err, errlen);
	}
	for (size_t i = 0; i < 3 && !ret; i++)
		ret = ask(m, json_pack("{s:s}", "cmd", rest[i].cmd), rest[i].answer, err, errlen);
	return ret;
}

void metrics_answers_free(struct metrics_answers *a)
{
	json_decref(a->read[0]);
	json_decref(a->read[1]);
	json_decref(a->list);
	json_decref(a->sharing);
	json_decref(a->hello);
}

int metrics_render(struct metrics *m, struct expo *e, char *err, size_t errlen)
{
	uint64_t began_ns = now_ns(), started_us = 0;
	struct metrics_answers a = {{NULL, NULL}, NULL, NULL, NULL};
	int ret = metrics_ask_all(m, &a, err, errlen);

	if (!ret) {
		answer_u64(a.hello, "started-us", &started_us);
		e->created = m->o.created != METRICS_CREATED_NO;
		ret = metrics_rows(m, &a, e);
		if (ret)
			fail(ret, err, errlen, "%s",
			     ret == -EPROTO ? "the server's answer does not follow vpmu's protocol"
					    : strerror(-ret));
	}
	if (!ret) {
		sources(m, &a, started_us, e);
		server(&a, started_us, e, began_ns);
		if (e->failed)
			ret = fail(-ENOMEM, err, errlen, "out of memory");
	}
	metrics_answers_free(&a);
	return ret;
}
