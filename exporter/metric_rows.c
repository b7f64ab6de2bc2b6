// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Counts of the host, the tenants and the VMs as families: metrics.c calls it. One sample is one
 * row's and, mostly, one event's. Two samples of a family must never have the same labels, and a
 * sample must never leave a number in the place of one that is not there.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "exporter/metric_rows.h"
#include "service/clock.h"
#include "vpmu/util/fail.h"

#define LABELS_MAX 1024 /* of a row; its names have at most 256 bytes */

/* What the families of a kind of rows are called. */
static const struct group {
	const char *label; /* NULL: the host, which has no name */
	const char *run, *events, *running, *missing, *quality, *age;
} host =
	{
		NULL,
		"vpmu_host_run_seconds",
		"vpmu_host_events",
		"vpmu_host_events_running_seconds",
		"vpmu_host_events_missing",
		"vpmu_host_events_quality",
		"vpmu_host_events_age_seconds",
},
  tenant =
	  {
		  "tenant",
		  "vpmu_tenant_run_seconds",
		  "vpmu_tenant_events",
		  "vpmu_tenant_events_running_seconds",
		  "vpmu_tenant_events_missing",
		  "vpmu_tenant_events_quality",
		  "vpmu_tenant_events_age_seconds",
},
  domain = {
	  "domain",
	  "vpmu_domain_run_seconds",
	  "vpmu_domain_events",
	  "vpmu_domain_events_running_seconds",
	  "vpmu_domain_events_missing",
	  "vpmu_domain_events_quality",
	  "vpmu_domain_events_age_seconds",
};

/* A row that is shown. */
struct item {
	const struct session_row *r;
	uint64_t owner;
	size_t rank; /* how many of the same owner are older */
	char *labels;
	size_t len;
};

struct rows {
	const struct group *g;
	struct item *item;
	size_t nr, room;
	size_t left_out; /* beyond the limit */
	bool failed;
};

int metrics_prepare(struct metrics *m, char *err, size_t errlen)
{
	char buf[METRICS_EVENT_LABEL];

	for (size_t i = 0; i < m->nr; i++) {
		size_t used = 0;

		for (size_t k = 0; k < i; k++)
			if (!strcmp(m->names[k], m->names[i]))
				return fail(-EINVAL, err, errlen,
					    "metrics: events: %s is given twice, accepted: once",
					    m->names[i]);
		if (!expo_label(buf, sizeof(buf), &used, "event", m->names[i]) ||
		    asprintf(&m->label[i], ",%s", buf) < 0) {
			m->label[i] = NULL;
			return fail(-ENOMEM, err, errlen, "metrics: out of memory");
		}
	}
	return 0;
}

/* ---- which rows ----------------------------------------------------------------------------- */

static const char *metric_rows_name_of(const struct session_row *r)
{
	return r->kind == NODE_VM ? r->vm : r->path;
}

static void metric_rows_add(struct rows *rows, const struct session_row *r)
{
	size_t room = rows->room ? rows->room * 2 : 64;
	struct item *more;

	if (rows->nr == rows->room) {
		more = reallocarray(rows->item, room, sizeof(*more));
		if (!more) {
			rows->failed = true;
			return;
		}
		rows->item = more;
		rows->room = room;
	}
	rows->item[rows->nr++] = (struct item){.r = r};
}

struct split {
	struct rows *host, *rest;
};

static int metric_rows_take(const struct session_row *r, void *arg)
{
	struct split *to = arg;

	metric_rows_add(r->kind == NODE_ROOT ? to->host : to->rest, r);
	return 0;
}

/* Of rows with the same labels the one that counts first, else the one that went last. */
static int metric_rows_by_name(const void *a, const void *b)
{
	const struct session_row *x = ((const struct item *)a)->r, *y = ((const struct item *)b)->r;
	int c = strcmp(metric_rows_name_of(x), metric_rows_name_of(y));

	if (!c)
		c = strcmp(x->backend, y->backend);
	if (!c)
		c = x->gone - y->gone;
	return c ? c : x->id > y->id ? -1 : x->id < y->id;
}

static void drop_doubles(struct rows *rows)
{
	size_t to = 0;

	if (rows->nr > 1)
		qsort(rows->item, rows->nr, sizeof(*rows->item), metric_rows_by_name);
	for (size_t i = 0; i < rows->nr; i++) {
		const struct session_row *r = rows->item[i].r;
		const struct session_row *before = to ? rows->item[to - 1].r : NULL;

		if (!before || strcmp(metric_rows_name_of(r), metric_rows_name_of(before)) ||
		    strcmp(r->backend, before->backend))
			rows->item[to++] = rows->item[i];
	}
	rows->nr = to;
}

/* Whether VM @r is there, and what is known of it. */
static bool metric_rows_about(const struct metrics *m, const struct session_row *r,
			      struct metrics_about *a)
{
	const struct node *vm =
		r->gone ? NULL : tenant_vm_find(sessions_tenants(m->o.sessions), r->vm);

	*a = (struct metrics_about){NULL, NULL, 0};
	if (vm && m->o.about)
		*a = m->o.about(m->o.arg, vm);
	return vm != NULL;
}

static int by_age(const void *a, const void *b)
{
	const struct session_row *x = ((const struct item *)a)->r, *y = ((const struct item *)b)->r;

	return x->id < y->id ? -1 : x->id > y->id;
}

static int by_owner(const void *a, const void *b)
{
	const struct item *x = a, *y = b;

	return x->owner != y->owner ? (x->owner < y->owner ? -1 : 1) : by_age(a, b);
}

static int by_rank(const void *a, const void *b)
{
	const struct item *x = a, *y = b;

	return x->rank != y->rank ? (x->rank < y->rank ? -1 : 1) : by_age(a, b);
}

/* The host's own come first. Then each owner has one, then two and so on: whoever has many cannot
 * keep the others out. Whose those were that have gone is not known: they come last. */
static void metric_rows_rank(const struct metrics *m, struct rows *rows)
{
	struct metrics_about a;

	for (size_t i = 0; i < rows->nr; i++) {
		struct item *t = &rows->item[i];

		t->owner = !metric_rows_about(m, t->r, &a) ? UINT64_MAX : a.owner;
	}
	qsort(rows->item, rows->nr, sizeof(*rows->item), by_owner);
	for (size_t i = 0; i < rows->nr; i++) {
		struct item *t = &rows->item[i];

		if (!t->owner)
			t->rank = 0;
		else if (t->owner == UINT64_MAX)
			t->rank = SIZE_MAX;
		else
			t->rank = i && t[-1].owner == t->owner ? t[-1].rank + 1 : 1;
	}
}

/* Of one rank the oldest are shown: so a VM that is shown stays. */
static void metric_rows_limit(const struct metrics *m, struct rows *rows, size_t max)
{
	if (rows->nr <= max)
		return;
	if (rows->g == &domain)
		metric_rows_rank(m, rows);
	qsort(rows->item, rows->nr, sizeof(*rows->item), by_rank);
	rows->left_out = rows->nr - max;
	rows->nr = max;
}

static void metric_rows_label(struct rows *rows)
{
	char buf[LABELS_MAX];

	for (size_t i = 0; i < rows->nr; i++) {
		struct item *t = &rows->item[i];

		t->len = 0;
		if (rows->g->label)
			expo_label(buf, sizeof(buf), &t->len, rows->g->label,
				   metric_rows_name_of(t->r));
		expo_label(buf, sizeof(buf), &t->len, "backend", t->r->backend);
		t->labels = strdup(buf);
		if (!t->labels) {
			rows->failed = true;
			return;
		}
	}
}

static void rows_fini(struct rows *rows)
{
	for (size_t i = 0; i < rows->nr; i++)
		free(rows->item[i].labels);
	free(rows->item);
}

/* ---- families ------------------------------------------------------------------------------- */

/* Why there is no number; NULL: there is one. A row that has not run has counted 0 events. */
static const char *why_missing(const struct session_row *r, const struct vpmu_value *v)
{
	if (r->error)
		return "not_counted";
	if (!v->supported)
		return "unsupported";
	return v->enabled_ns && !v->running_ns ? "no_counter" : NULL;
}

static const char *event_labels(const struct metrics *m, const struct item *t, size_t event,
				char buf[LABELS_MAX + METRICS_EVENT_LABEL])
{
	memcpy(buf, t->labels, t->len);
	strcpy(buf + t->len, m->label[event]);
	return buf;
}

static void runs(const struct metrics *m, const struct rows *rows, struct expo *e)
{
	expo_family(e, rows->g->run, EXPO_COUNTER, "seconds",
		    "CPU time in which events could be counted.");
	for (size_t i = 0; i < rows->nr; i++) {
		const struct session_row *r = rows->item[i].r;
		uint64_t ns = 0;
		bool known = false;

		for (size_t v = 0; v < m->nr; v++) {
			known |= !r->error && r->values[v].supported;
			if (r->values[v].enabled_ns > ns)
				ns = r->values[v].enabled_ns;
		}
		if (known)
			expo_ns(e, rows->item[i].labels, ns, r->since_us);
	}
}

static void metric_rows_counts(const struct metrics *m, const struct rows *rows, struct expo *e,
			       bool times)
{
	char buf[LABELS_MAX + METRICS_EVENT_LABEL];

	for (size_t i = 0; i < rows->nr; i++) {
		const struct session_row *r = rows->item[i].r;

		for (size_t v = 0; v < m->nr; v++) {
			const struct vpmu_value *val = &r->values[v];

			if (why_missing(r, val))
				continue;
			event_labels(m, &rows->item[i], v, buf);
			if (times)
				expo_ns(e, buf, val->running_ns, r->since_us);
			else
				expo_u64(e, buf, val->count, r->since_us);
		}
	}
}

/* A label more, and 1. */
static void metric_rows_one(struct expo *e, const char *labels, const char *name, const char *value)
{
	char buf[LABELS_MAX + METRICS_EVENT_LABEL + 64];
	size_t used = strlen(labels);

	memcpy(buf, labels, used + 1);
	expo_label(buf, sizeof(buf), &used, name, value);
	expo_u64(e, buf, 1, 0);
}

static void notes(const struct metrics *m, const struct rows *rows, struct expo *e)
{
	char buf[LABELS_MAX + METRICS_EVENT_LABEL];

	expo_family(e, rows->g->missing, EXPO_GAUGE, NULL,
		    "1 for each count that is not here, with the reason.");
	for (size_t i = 0; i < rows->nr; i++)
		for (size_t v = 0; v < m->nr; v++) {
			const struct session_row *r = rows->item[i].r;
			const char *why = why_missing(r, &r->values[v]);

			if (why)
				metric_rows_one(e, event_labels(m, &rows->item[i], v, buf),
						"reason", why);
		}
	expo_family(e, rows->g->quality, EXPO_GAUGE, NULL,
		    "1 for each count that is less than exact; exact ones have no sample.");
	for (size_t i = 0; i < rows->nr; i++)
		for (size_t v = 0; v < m->nr; v++) {
			const struct session_row *r = rows->item[i].r;
			const struct vpmu_value *val = &r->values[v];

			if (why_missing(r, val))
				continue;
			event_labels(m, &rows->item[i], v, buf);
			if (val->quality != VPMU_Q_EXACT)
				metric_rows_one(e, buf, "quality", vpmu_quality_name(val->quality));
			if (val->partial)
				metric_rows_one(e, buf, "quality", "partial");
		}
	expo_family(e, rows->g->age, EXPO_GAUGE, "seconds",
		    "How old a count is of which CPUs that are not interrupted may have more.");
	for (size_t i = 0; i < rows->nr; i++)
		for (size_t v = 0; v < m->nr; v++) {
			const struct session_row *r = rows->item[i].r;

			if (!why_missing(r, &r->values[v]) && r->values[v].age_ns)
				expo_ns(e, event_labels(m, &rows->item[i], v, buf),
					r->values[v].age_ns, 0);
		}
}

static void families(const struct metrics *m, const struct rows *rows, struct expo *e)
{
	runs(m, rows, e);
	expo_family(e, rows->g->events, EXPO_COUNTER, NULL,
		    "Events counted, as they were counted: not scaled.");
	metric_rows_counts(m, rows, e, false);
	expo_family(e, rows->g->running, EXPO_COUNTER, "seconds",
		    "Part of the CPU time in which a counter counted the event.");
	metric_rows_counts(m, rows, e, true);
	notes(m, rows, e);
}

/* What joins with other exporters. A VM that is gone has nothing to say any more. */
static void domain_info(const struct metrics *m, const struct rows *rows, struct expo *e)
{
	char buf[LABELS_MAX + 4096];

	expo_family(e, "vpmu_domain", EXPO_INFO, NULL, "A VM, and whose it is.");
	for (size_t i = 0; i < rows->nr; i++) {
		const struct session_row *r = rows->item[i].r;
		struct metrics_about a;
		size_t used = rows->item[i].len;

		if (!metric_rows_about(m, r, &a))
			continue;
		memcpy(buf, rows->item[i].labels, used + 1);
		expo_label(buf, sizeof(buf), &used, "uuid", a.uuid ? a.uuid : "");
		expo_label(buf, sizeof(buf), &used, "tenant", r->path);
		expo_label(buf, sizeof(buf), &used, "cgroup", a.cgroup ? a.cgroup : "");
		expo_u64(e, buf, 1, 0);
	}
}

static size_t failures(const struct rows *rows)
{
	size_t n = 0;

	for (size_t i = 0; i < rows->nr; i++)
		n += rows->item[i].r->error != NULL;
	return n;
}

static void sizes(const struct session *ts, const struct session *vs, const struct rows *tenants,
		  const struct rows *vms, struct expo *e)
{
	expo_family(e, "vpmu_rows", EXPO_GAUGE, NULL, "VMs and tenants with counts of their own.");
	expo_u64(e, "kind=\"domain\"", vms->nr, 0);
	expo_u64(e, "kind=\"tenant\"", tenants->nr, 0);
	expo_family(e, "vpmu_rows_left_out", EXPO_GAUGE, NULL,
		    "VMs and tenants beyond the limits; their counts are in those of the tenants "
		    "above.");
	expo_u64(e, "kind=\"domain\"", vms->left_out, 0);
	expo_u64(e, "kind=\"tenant\"", tenants->left_out, 0);
	expo_family(e, "vpmu_rows_not_counted", EXPO_GAUGE, NULL,
		    "VMs and tenants whose source of counts cannot count them, or is lost.");
	expo_u64(e, "kind=\"domain\"", failures(vms), 0);
	expo_u64(e, "kind=\"tenant\"", failures(tenants), 0);
	expo_family(e, "vpmu_rows_never_shown", EXPO_GAUGE, NULL,
		    "VMs and tenants of which there is no trace here: too many, or no memory.");
	expo_u64(e, "kind=\"domain\"", vs->dropped, 0);
	expo_u64(e, "kind=\"tenant\"", ts->dropped, 0);
}

int metrics_rows(struct metrics *m, struct session *ts, struct session *vs, struct expo *e)
{
	uint64_t keep_ns = m->o.keep_gone_sec * 1000000000ULL, before = now_ns();
	struct rows hosts = {.g = &host}, tenants = {.g = &tenant}, vms = {.g = &domain};
	struct split of_tenants = {&hosts, &tenants}, of_vms = {&hosts, &vms};
	int ret;

	/* VMs first: so a tenant never shows less than its VMs. */
	ret = session_read(vs, metric_rows_take, &of_vms);
	if (!ret)
		ret = session_read(ts, metric_rows_take, &of_tenants);
	drop_doubles(&vms);
	drop_doubles(&tenants);
	metric_rows_limit(m, &vms, m->o.max_vms);
	metric_rows_limit(m, &tenants, m->o.max_tenants);
	metric_rows_label(&hosts);
	metric_rows_label(&tenants);
	metric_rows_label(&vms);
	if (!ret && (hosts.failed || tenants.failed || vms.failed))
		ret = -ENOMEM;
	if (!ret) {
		families(m, &hosts, e);
		families(m, &tenants, e);
		domain_info(m, &vms, e);
		e->created = m->o.created == METRICS_CREATED_ALL;
		families(m, &vms, e);
		e->created = m->o.created != METRICS_CREATED_NO;
		sizes(ts, vs, &tenants, &vms, e);
	}
	rows_fini(&hosts);
	rows_fini(&tenants);
	rows_fini(&vms);
	/* Those that went long enough ago have been shown, now at the latest. */
	if (!ret && before > keep_ns) {
		session_forget_before(vs, before - keep_ns);
		session_forget_before(ts, before - keep_ns);
	}
	return ret;
}
