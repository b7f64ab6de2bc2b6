// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Writes the counts of the host, the tenants and the VMs as families; metrics.c calls it. A sample
 * is that of one row and, mostly, one event. Two samples of a family must never have the same
 * labels, and a missing value must never appear as a number.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "exporter/answer.h"
#include "exporter/metrics.h"
#include "service/program/memory.h"
#include "vpmu/util/fail.h"

#define FIRST_USER 1000 /* smaller uids are system users, by convention of distributions */
#define LABELS_MAX 1024 /* of a row; its names have up to 256 bytes */

/* Names of the families for a kind of rows. */
struct group {
	const char *label; /* NULL: the host, which is unnamed */
	const char *run, *events, *running, *missing, *quality, *age, *late;
};

#define GROUP(label, rows)                                                                         \
	{                                                                                          \
		label, rows "_run_seconds", rows "_events", rows "_events_running_seconds",        \
			rows "_events_missing", rows "_events_quality",                            \
			rows "_events_age_seconds", rows "_late_seconds"                           \
	}

static const struct group host = GROUP(NULL, "vpmu_host");
static const struct group tenant = GROUP("tenant", "vpmu_tenant");
static const struct group domain = GROUP("domain", "vpmu_domain");

/* A row to write. */
struct item {
	const struct answer_row *r;
	const json_t *vm; /* its object in `list`; NULL: removed, or a path */
	uint64_t owner;
	size_t rank; /* 0: the host's; n: the n-th oldest of its owner; SIZE_MAX: removed */
	char *labels;
	size_t len;
};

struct rows {
	const struct group *g;
	struct item *item;
	size_t nr, room;
	size_t left_out; /* beyond the limit */
};

int metrics_prepare(struct metrics *m, char *err, size_t errlen)
{
	char buf[METRICS_EVENT_LABEL];

	for (size_t i = 0; i < m->nr; i++) {
		size_t used = 0;

		for (size_t k = 0; k < i; k++)
			if (!strcmp(m->names[k], m->names[i]))
				return fail(-EINVAL, err, errlen,
					    "events: %s is given twice; expected once",
					    m->names[i]);
		expo_label(buf, sizeof(buf), &used, "event", m->names[i]);
		m->label[i] = xasprintf(",%s", buf);
	}
	return 0;
}

/* ---- row selection -------------------------------------------------------------------------- */

static const char *metric_rows_name_of(const struct answer_row *r)
{
	return r->vm ? r->vm : r->path;
}

static void metric_rows_add(struct rows *rows, const struct answer_row *r)
{
	if (rows->nr == rows->room) {
		rows->room = rows->room ? rows->room * 2 : 64;
		rows->item = xreallocarray(rows->item, rows->room, sizeof(*rows->item));
	}
	rows->item[rows->nr++] = (struct item){.r = r};
}

/* Sort rows with the same labels: one still counting first, else the newest. */
static int metric_rows_by_name(const void *a, const void *b)
{
	const struct answer_row *x = ((const struct item *)a)->r, *y = ((const struct item *)b)->r;
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
		const struct answer_row *r = rows->item[i].r;
		const struct answer_row *before = to ? rows->item[to - 1].r : NULL;

		if (!before || strcmp(metric_rows_name_of(r), metric_rows_name_of(before)) ||
		    strcmp(r->backend, before->backend))
			rows->item[to++] = rows->item[i];
	}
	rows->nr = to;
}

json_t *metrics_vms(const json_t *list)
{
	json_t *vms = json_object(), *node;
	size_t i;

	json_array_foreach (json_object_get(list, "nodes"), i, node) {
		const char *name = json_string_value(json_object_get(node, "vm"));

		if (name)
			json_object_set(vms, name, node);
	}
	return vms;
}

static void look_up(struct rows *rows, const json_t *list)
{
	json_t *vms = metrics_vms(list);

	for (size_t i = 0; i < rows->nr; i++)
		if (!rows->item[i].r->gone)
			rows->item[i].vm = json_object_get(vms, rows->item[i].r->vm);
	json_decref(vms);
}

/* Return the owner for the fair division of room. 0, which comes first, is the host: system users,
 * such as those of VM managers, libvirt, and other servers of the host. */
static uint64_t owner_of(const struct item *t)
{
	uint64_t uid = 0;

	if (!t->vm)
		return UINT64_MAX;
	if (!json_object_get(t->vm, "server"))
		answer_u64(t->vm, "owner", &uid);
	return uid < FIRST_USER ? 0 : uid;
}

static int by_age(const void *a, const void *b)
{
	const struct answer_row *x = ((const struct item *)a)->r, *y = ((const struct item *)b)->r;

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

/* Rank the rows: the host's first, then one of each owner, then a second and so on, so that an
 * owner of many cannot displace the others. Removed ones come last, because their owner is
 * unknown. */
static void metric_rows_rank(struct rows *rows)
{
	for (size_t i = 0; i < rows->nr; i++)
		rows->item[i].owner = owner_of(&rows->item[i]);
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

/* Within a rank the oldest win, so that a VM that is shown stays. */
static void metric_rows_limit(struct rows *rows, size_t max)
{
	if (rows->nr <= max)
		return;
	if (rows->g == &domain)
		metric_rows_rank(rows);
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
		t->labels = xstrdup(buf);
	}
}

static void rows_fini(struct rows *rows)
{
	for (size_t i = 0; i < rows->nr; i++)
		free(rows->item[i].labels);
	free(rows->item);
}

/* ---- families ------------------------------------------------------------------------------- */

bool metrics_uncounted(const json_t *vm)
{
	const char *counted = json_string_value(json_object_get(vm, "counted"));

	return counted && !strcmp(counted, "vcpus") &&
	       !json_integer_value(json_object_get(vm, "vcpus"));
}

/* Return why there is no number; NULL: there is one. A row that has not run has counted 0
 * events. */
static const char *metric_row_why(const struct item *t, const struct answer_value *v)
{
	if (t->r->error)
		return "not_counted";
	if (!v->supported)
		return "unsupported";
	if (!v->enabled_ns && metrics_uncounted(t->vm))
		return "not_counted";
	return v->enabled_ns && !v->running_ns ? "no_counter" : NULL;
}

static void event_labels(const struct metrics *m, const struct item *t, size_t event,
			 char buf[LABELS_MAX + METRICS_EVENT_LABEL])
{
	memcpy(buf, t->labels, t->len);
	strcpy(buf + t->len, m->label[event]);
}

static void runs(const struct metrics *m, const struct rows *rows, struct expo *e)
{
	expo_family(e, rows->g->run, EXPO_COUNTER, "seconds",
		    "CPU time in which events could be counted.");
	for (size_t i = 0; i < rows->nr; i++) {
		const struct answer_row *r = rows->item[i].r;
		uint64_t ns = 0;
		bool known = false;

		for (size_t v = 0; v < m->nr; v++) {
			known |= !r->error && r->values[v].supported;
			if (r->values[v].enabled_ns > ns)
				ns = r->values[v].enabled_ns;
		}
		if (known && (ns || !metrics_uncounted(rows->item[i].vm)))
			expo_ns(e, rows->item[i].labels, ns, r->since_us);
	}
}

/* Write a sample with one more label and the value 1. */
static void metric_rows_one(struct expo *e, const char *labels, const char *name, const char *value)
{
	char buf[LABELS_MAX + METRICS_EVENT_LABEL + 64];
	size_t used = strlen(labels);

	memcpy(buf, labels, used + 1);
	expo_label(buf, sizeof(buf), &used, name, value);
	expo_u64(e, buf, 1, 0);
}

/* Write a sample per quality word but those that have their own families. */
static void qualities(struct expo *e, const char *labels, const char *words)
{
	char word[32];

	for (; *words; words += strspn(words, " ")) {
		size_t n = strcspn(words, " ");

		snprintf(word, sizeof(word), "%.*s", (int)n, words);
		if (strcmp(word, "exact") && strcmp(word, "aged") && strcmp(word, "late"))
			metric_rows_one(e, labels, "quality", word);
		words += n;
	}
}

enum value_kind { VALUE_COUNT, VALUE_RUNNING, VALUE_MISSING, VALUE_QUALITY, VALUE_AGE };

/* Write the samples of a family: @kind of each row and event that has it. */
static void metric_rows_values(const struct metrics *m, const struct rows *rows, struct expo *e,
			       enum value_kind kind)
{
	char buf[LABELS_MAX + METRICS_EVENT_LABEL];

	for (size_t i = 0; i < rows->nr * m->nr; i++) {
		const struct item *t = &rows->item[i / m->nr];
		const struct answer_value *val = &t->r->values[i % m->nr];
		const char *why = metric_row_why(t, val);

		if (!why != (kind != VALUE_MISSING))
			continue;
		event_labels(m, t, i % m->nr, buf);
		if (kind == VALUE_COUNT)
			expo_u64(e, buf, val->count, t->r->since_us);
		else if (kind == VALUE_RUNNING)
			expo_ns(e, buf, val->running_ns, t->r->since_us);
		else if (kind == VALUE_MISSING)
			metric_rows_one(e, buf, "reason", why);
		else if (kind == VALUE_QUALITY)
			qualities(e, buf, val->quality);
		else if (val->age_ns)
			expo_ns(e, buf, val->age_ns, 0);
	}
}

static void families(const struct metrics *m, const struct rows *rows, struct expo *e)
{
	runs(m, rows, e);
	expo_family(e, rows->g->events, EXPO_COUNTER, NULL,
		    "Events counted, as they were counted: not scaled.");
	metric_rows_values(m, rows, e, VALUE_COUNT);
	expo_family(e, rows->g->running, EXPO_COUNTER, "seconds",
		    "Part of the CPU time in which a counter counted the event.");
	metric_rows_values(m, rows, e, VALUE_RUNNING);
	expo_family(e, rows->g->missing, EXPO_GAUGE, NULL,
		    "1 for each count that is not here, with the reason.");
	metric_rows_values(m, rows, e, VALUE_MISSING);
	expo_family(e, rows->g->quality, EXPO_GAUGE, NULL,
		    "1 for each count that is not exact: modelled, estimated, tsc, or partial "
		    "(events are missing). Exact counts have no sample.");
	metric_rows_values(m, rows, e, VALUE_QUALITY);
	expo_family(e, rows->g->age, EXPO_GAUGE, "seconds",
		    "Age of a count: events of the last so many seconds on isolated CPUs, which "
		    "are not interrupted, may be missing. Counts without a sample are current.");
	metric_rows_values(m, rows, e, VALUE_AGE);
	expo_family(
		e, rows->g->late, EXPO_GAUGE, "seconds",
		"Upper bound of the time that cgroups and vCPUs ran before they were found: counts "
		"of their rows lack it, and those of the row above have it. No other row is "
		"concerned.");
	for (size_t i = 0; i < rows->nr; i++)
		if (rows->item[i].r->late_ns)
			expo_ns(e, rows->item[i].labels, rows->item[i].r->late_ns, 0);
}

static const char *known(const struct item *t, const char *key)
{
	/* For a VM of another server, this is only that server's claim: omit it. */
	const char *text = json_object_get(t->vm, "server")
				   ? NULL
				   : json_string_value(json_object_get(t->vm, key));

	return text ? text : "";
}

/* Write the info metric, for joins with other exporters. A removed VM has none. */
static void domain_info(const struct rows *rows, struct expo *e)
{
	char buf[LABELS_MAX + 4096];

	expo_family(e, "vpmu_domain", EXPO_INFO, NULL, "A VM, and its tenant.");
	for (size_t i = 0; i < rows->nr; i++) {
		const struct item *t = &rows->item[i];
		size_t used = t->len;

		if (!t->vm)
			continue;
		memcpy(buf, t->labels, used + 1);
		expo_label(buf, sizeof(buf), &used, "uuid", known(t, "uuid"));
		expo_label(buf, sizeof(buf), &used, "tenant", t->r->path);
		expo_label(buf, sizeof(buf), &used, "cgroup", known(t, "cgroup"));
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

static void metric_rows_sizes(struct expo *e, const char *name, const char *help, size_t vms,
			      size_t tenants)
{
	expo_family(e, name, EXPO_GAUGE, NULL, help);
	expo_u64(e, "kind=\"domain\"", vms, 0);
	expo_u64(e, "kind=\"tenant\"", tenants, 0);
}

static void dropped(const json_t *read, const char *label, struct expo *e)
{
	uint64_t n;

	if (answer_u64(read, "dropped", &n))
		expo_u64(e, label, n, 0);
}

static void sizes(const struct metrics_answers *a, const struct rows *tenants,
		  const struct rows *vms, struct expo *e)
{
	metric_rows_sizes(e, "vpmu_rows", "VMs and tenants with counts of their own.", vms->nr,
			  tenants->nr);
	metric_rows_sizes(e, "vpmu_rows_left_out",
			  "VMs and tenants beyond the limits; their counts are in those of the "
			  "tenants above.",
			  vms->left_out, tenants->left_out);
	metric_rows_sizes(e, "vpmu_rows_not_counted",
			  "VMs and tenants with a backend that cannot count them, or is lost.",
			  failures(vms), failures(tenants));
	expo_family(e, "vpmu_rows_never_shown", EXPO_GAUGE, NULL,
		    "VMs and tenants of which there is no trace here: too many, or no memory.");
	dropped(a->read[1], "kind=\"domain\"", e);
	dropped(a->read[0], "kind=\"tenant\"", e);
}

/* One time holds for all counts of a session's reading. */
static void metric_rows_times(const struct metrics_answers *a, struct expo *e)
{
	static const char *const kind[] = {"kind=\"tenant\"", "kind=\"domain\""};
	uint64_t n;

	expo_family(e, "vpmu_counts_as_of_seconds", EXPO_GAUGE, "seconds",
		    "When the last part of the counts of tenants and the host, or of VMs, had been "
		    "read; since 1970.");
	for (int i = 0; i < 2; i++)
		if (answer_u64(a->read[i], "as-of-us", &n) && n < UINT64_MAX / 1000)
			expo_ns(e, kind[i], n * 1000, 0);
	expo_family(e, "vpmu_counts_width_seconds", EXPO_GAUGE, "seconds",
		    "How long it took to read them: of the events of this time before, some are "
		    "not in the counts.");
	for (int i = 0; i < 2; i++)
		if (answer_u64(a->read[i], "width-ns", &n))
			expo_ns(e, kind[i], n, 0);
}

int metrics_rows(struct metrics *m, const struct metrics_answers *a, struct expo *e)
{
	struct rows hosts = {.g = &host}, tenants = {.g = &tenant}, vms = {.g = &domain};
	struct answer_row *row[2];
	size_t nr[2], i;
	int ret = answer_rows(a->read[1], m->nr, &row[1], &nr[1]);

	for (i = 0; i < nr[1] && !ret; i++)
		ret = row[1][i].vm ? 0 : -EPROTO;
	row[0] = NULL;
	if (!ret)
		ret = answer_rows(a->read[0], m->nr, &row[0], &nr[0]);
	if (ret)
		goto out;
	for (i = 0; i < nr[1]; i++)
		metric_rows_add(&vms, &row[1][i]);
	for (i = 0; i < nr[0]; i++)
		metric_rows_add(row[0][i].root ? &hosts : &tenants, &row[0][i]);
	look_up(&vms, a->list);
	drop_doubles(&vms);
	drop_doubles(&tenants);
	metric_rows_limit(&vms, m->o.max_vms);
	metric_rows_limit(&tenants, m->o.max_tenants);
	metric_rows_label(&hosts);
	metric_rows_label(&tenants);
	metric_rows_label(&vms);
	families(m, &hosts, e);
	families(m, &tenants, e);
	domain_info(&vms, e);
	e->created = m->o.created == METRICS_CREATED_ALL;
	families(m, &vms, e);
	e->created = m->o.created != METRICS_CREATED_NO;
	sizes(a, &tenants, &vms, e);
	if (m->o.as_of)
		metric_rows_times(a, e);
	rows_fini(&hosts);
	rows_fini(&tenants);
	rows_fini(&vms);
out:
	free(row[0]);
	free(row[1]);
	return ret;
}
