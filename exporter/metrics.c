// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The sessions behind the metrics and the figures of the service; see metrics.h. The counts
 * themselves are metric_rows.c's. vpmud calls it. It must never name a number that is not known.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "exporter/metric_rows.h"
#include "service/clock.h"
#include "service/profile.h"
#include "vpmu/event/event.h"
#include "vpmu/util/fail.h"

/* ---- sessions ------------------------------------------------------------------------------- */

static const char *const session_name[] = {METRICS_SESSION_TENANTS, METRICS_SESSION_VMS};

static struct session *metrics_find(struct sessions *ss, bool vms)
{
	return (struct session *)registry_find(sessions_registry(ss), session_name[vms], NULL);
}

static bool counts_the_same(const struct metrics *m, const struct session *s, bool vms)
{
	if (s->nr_events != m->nr || s->scope != (vms ? SESSION_VM : SESSION_TENANT) ||
	    strcmp(s->reg.target, "/"))
		return false;
	for (size_t i = 0; i < m->nr; i++)
		if (s->keys[i] != m->keys[i] || strcmp(s->events[i], m->names[i]))
			return false;
	return true;
}

/* The session, opened if it is not there. */
static int metrics_take(struct metrics *m, bool vms, struct session **out, char *err, size_t errlen)
{
	struct session *s = metrics_find(m->o.sessions, vms);
	const struct session_spec spec = {
		.open = {.name = session_name[vms],
			 .target = tenants_root(sessions_tenants(m->o.sessions))},
		.nr_events = m->nr,
		.events = (const char *const *)m->names,
		.keys = m->keys,
		.scope = vms ? SESSION_VM : SESSION_TENANT,
	};

	if (s && counts_the_same(m, s, vms)) {
		*out = s;
		return 0;
	}
	if (s)
		session_close(s);
	return session_open(m->o.sessions, &spec, out, err, errlen);
}

void metrics_end(struct sessions *ss)
{
	for (int vms = 0; vms < 2; vms++) {
		struct session *s = metrics_find(ss, vms);

		if (s)
			session_close(s);
	}
}

int metrics_create(const struct metrics_opts *o, struct metrics **out, char *err, size_t errlen)
{
	struct metrics *m = calloc(1, sizeof(*m));
	struct session *s;
	char why[300];
	int ret;

	if (!m)
		return fail(-ENOMEM, err, errlen, "metrics: out of memory");
	m->o = *o;
	m->started_us = realtime_us();
	m->nr = SESSION_EVENTS_MAX;
	ret = vpmu_event_parse_list(o->events, o->raw_space, m->keys, m->names, &m->nr, why,
				    sizeof(why));
	if (ret) {
		m->nr = 0;
		metrics_destroy(m);
		return ret == -E2BIG ? fail(-EINVAL, err, errlen,
					    "metrics: events: more than %d, accepted: 1 to %d",
					    SESSION_EVENTS_MAX, SESSION_EVENTS_MAX)
				     : fail(ret, err, errlen, "metrics: events: %s", why);
	}
	for (size_t i = 0; o->host_too && i < m->nr; i++)
		m->keys[i] = vpmu_event_host_too(m->names[i], m->keys[i]);
	ret = metrics_prepare(m, err, errlen);
	if (ret) {
		metrics_destroy(m);
		return ret;
	}
	*err = '\0';
	for (int vms = 0; vms < 2 && !*err; vms++)
		metrics_take(m, vms, &s, err, errlen);
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

/* ---- the service ---------------------------------------------------------------------------- */

static const char *backend_label(char buf[64], const char *backend)
{
	size_t used = 0;

	*buf = '\0';
	expo_label(buf, 64, &used, "backend", backend);
	return buf;
}

static void sources(const struct metrics *m, struct expo *e)
{
	const struct tenants *ts = sessions_tenants(m->o.sessions);
	struct vpmu_sharing sharing[TENANTS_SOURCES_MAX];
	char label[TENANTS_SOURCES_MAX][64], text[160];
	struct vpmu_backend *s;
	unsigned int nr = 0;
	size_t used;

	expo_family(e, "vpmu_backend_up", EXPO_GAUGE, NULL,
		    "Whether all CPUs of a source of counts answer.");
	for (; (s = tenants_source(ts, nr)); nr++) {
		backend_label(label[nr], s->backend);
		vpmu_backend_sharing(s, &sharing[nr]);
		expo_u64(e, label[nr], !vpmu_backend_late(s, text, sizeof(text)), 0);
	}
	expo_family(e, "vpmu_backend_keys", EXPO_GAUGE, NULL, "Distinct events that are counted.");
	for (unsigned int i = 0; i < nr; i++)
		expo_u64(e, label[i], sharing[i].keys, 0);
	expo_family(e, "vpmu_backend_consumers", EXPO_GAUGE, NULL,
		    "Counts that share these events.");
	for (unsigned int i = 0; i < nr; i++)
		expo_u64(e, label[i], sharing[i].consumers, 0);
	expo_family(e, "vpmu_backend_counters", EXPO_GAUGE, NULL,
		    "Counters of all CPUs that are in use.");
	for (unsigned int i = 0; i < nr; i++)
		expo_u64(e, label[i], sharing[i].host_counters, 0);
	expo_family(e, "vpmu_backend_refusals", EXPO_COUNTER, NULL,
		    "Counts that were refused, because no counter slot was free or a quota was "
		    "used up.");
	for (unsigned int i = 0; i < nr; i++)
		expo_u64(e, label[i], sharing[i].refused, m->started_us);
	/* What a backend cannot count at all. */
	expo_family(e, "vpmu_event_supported", EXPO_GAUGE, NULL,
		    "Whether a backend can count an event.");
	for (unsigned int i = 0; i < nr; i++) {
		for (size_t v = 0; v < m->nr; v++) {
			enum vpmu_quality q;
			bool can = vpmu_backend_can_count(tenants_source(ts, i), m->keys[v], &q,
							  text, sizeof(text));
			char both[64 + METRICS_EVENT_LABEL];

			used = strlen(label[i]);
			memcpy(both, label[i], used + 1);
			strcpy(both + used, m->label[v]);
			expo_u64(e, both, can, 0);
		}
	}
}

static void service(const struct metrics *m, struct expo *e, uint64_t began_ns)
{
	static const char build[] = "version=\"" VPMU_VERSION "\"";

	expo_family(e, "vpmu_build", EXPO_INFO, NULL, "Which vpmud this is.");
	expo_u64(e, build, 1, 0);
	expo_family(e, "vpmu_start_time_seconds", EXPO_GAUGE, "seconds",
		    "When this vpmud began, in seconds since 1970.");
	expo_ns(e, "", m->started_us * 1000, 0);
	expo_family(e, "vpmu_session_refusals", EXPO_COUNTER, NULL,
		    "Sessions and profiles that were refused, because there were too many.");
	expo_u64(e, "kind=\"session\"", sessions_registry(m->o.sessions)->refused, m->started_us);
	if (m->o.profiles) {
		expo_u64(e, "kind=\"profile\"", profiles_registry(m->o.profiles)->refused,
			 m->started_us);
		expo_family(e, "vpmu_samples_lost", EXPO_COUNTER, NULL,
			    "Samples of profiles that came faster than they were taken in.");
		expo_u64(e, "", profiles_lost(m->o.profiles), m->started_us);
	}
	if (m->o.more)
		m->o.more(m->o.arg, e);
	expo_family(e, "vpmu_scrape_duration_seconds", EXPO_GAUGE, "seconds",
		    "What reading the counts and writing this text took, up to here.");
	expo_ns(e, "", now_ns() - began_ns, 0);
}

int metrics_render(struct metrics *m, struct expo *e, char *err, size_t errlen)
{
	uint64_t began_ns = now_ns();
	struct session *s[2];
	int ret = 0;

	for (int vms = 0; vms < 2 && !ret; vms++)
		ret = metrics_take(m, vms, &s[vms], err, errlen);
	if (ret)
		return ret;
	e->created = m->o.created != METRICS_CREATED_NO;
	ret = metrics_rows(m, s[0], s[1], e);
	if (ret)
		return fail(ret, err, errlen, "metrics: %s", strerror(-ret));
	sources(m, e);
	service(m, e, began_ns);
	return e->failed ? fail(-ENOMEM, err, errlen, "metrics: out of memory") : 0;
}
