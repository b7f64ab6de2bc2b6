// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The sums of counts for the live page, of the same sessions as the metrics: what is counted for
 * Prometheus is not counted twice. The page makes differences of them. main.c calls it through
 * http.c, once a second at most.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "exporter/answer.h"
#include "exporter/exposition.h"
#include "exporter/metrics.h"
#include "service/clock.h"
#include "vpmu/util/fail.h"

/* JSON's integers are signed. */
static json_t *page_number(uint64_t n)
{
	return json_integer(n > INT64_MAX ? INT64_MAX : (json_int_t)n);
}

/* Return why a backend does not count @event, of the answer @read; NULL: not reported. */
static const char *page_why(const json_t *read, const char *backend, const char *event)
{
	const json_t *no;
	size_t i;

	json_array_foreach (json_object_get(read, "unsupported"), i, no) {
		const char *b = json_string_value(json_object_get(no, "backend"));
		const char *e = json_string_value(json_object_get(no, "event"));

		if (b && e && !strcmp(b, backend) && !strcmp(e, event))
			return json_string_value(json_object_get(no, "why"));
	}
	return NULL;
}

/* @v: NULL: nothing was counted. */
static void page_add(json_t *series, const struct answer_row *r, const char *event,
		     const struct answer_value *v, const char *why)
{
	json_t *s =
		json_pack("{s:s, s:s, s:s?, s:s, s:o, s:o, s:o, s:o}", "backend", r->backend,
			  "tenant", r->path, "vm", r->vm, "event", event, "count",
			  why || !v ? json_null() : page_number(v->count), "enabled_ns",
			  page_number(v ? v->enabled_ns : 0), "running_ns",
			  page_number(v ? v->running_ns : 0), "since_us", page_number(r->since_us));

	if (why)
		json_object_set_new(s, "why", json_string(why));
	else if (v && strcmp(v->quality, "exact") != 0)
		json_object_set_new(s, "quality", json_string(v->quality));
	json_array_append_new(series, s);
}

/* The time that a row ran, where task-clock is not counted; as in vpmu report. */
static void page_add_time(const struct metrics *m, json_t *series, const struct answer_row *r,
			  bool uncounted)
{
	struct answer_value time = {.quality =
					    strcmp(r->backend, "emulator") ? "exact" : "modelled"};
	bool known = false;

	for (size_t e = 0; e < m->nr; e++) {
		const struct answer_value *v = &r->values[e];

		if (!v->supported)
			continue;
		if (!strcmp(m->names[e], "task-clock"))
			return;
		known = true;
		time.count = v->enabled_ns > time.count ? v->enabled_ns : time.count;
	}
	time.enabled_ns = time.running_ns = time.count;
	if (known && !r->error && (time.count || !uncounted))
		page_add(series, r, "cpu-time", &time, NULL);
}

static int page_rows(const struct metrics *m, const json_t *read, const json_t *vms, json_t *series)
{
	struct answer_row *rows;
	size_t nr;
	int ret = answer_rows(read, m->nr, &rows, &nr);

	if (ret)
		return ret;
	for (size_t i = 0; i < nr; i++) {
		const struct answer_row *r = &rows[i];
		bool uncounted = r->vm && metrics_uncounted(json_object_get(vms, r->vm));

		if (r->gone)
			continue;
		page_add_time(m, series, r, uncounted);
		for (size_t e = 0; e < m->nr; e++) {
			const struct answer_value *v = &r->values[e];
			const char *why = r->error	 ? r->error
					  : v->supported ? NULL
							 : page_why(read, r->backend, m->names[e]);

			page_add(series, r, m->names[e], uncounted && !v->enabled_ns ? NULL : v,
				 why		? why
				 : v->supported ? NULL
						: "the host cannot count it");
		}
	}
	free(rows);
	return 0;
}

static json_t *page_host(const json_t *hello)
{
	struct utsname name = {0};

	uname(&name);
	return json_pack("{s:s*, s:s*, s:i, s:O*, s:O*}", "name", name.nodename, "kernel",
			 name.release, "cpus", (int)sysconf(_SC_NPROCESSORS_ONLN), "server",
			 json_object_get(hello, "server"), "version",
			 json_object_get(hello, "version"));
}

int metrics_sums(struct metrics *m, struct expo *e, char *err, size_t errlen)
{
	struct metrics_answers a = {{NULL, NULL}, NULL, NULL, NULL};
	json_t *series = json_array(), *all = NULL, *vms;
	int ret = metrics_ask_all(m, &a, err, errlen);
	uint64_t as_of_us;

	/* The tenants are read last. An older server does not report it. */
	if (!answer_u64(a.read[0], "as-of-us", &as_of_us))
		as_of_us = realtime_us();
	vms = metrics_vms(a.list);
	for (int i = 0; i < 2 && !ret; i++) {
		ret = page_rows(m, a.read[i], vms, series);
		if (ret)
			fail(ret, err, errlen,
			     "the server's answer does not follow vpmu's protocol");
	}
	if (!ret) {
		all = json_pack("{s:i, s:s, s:I, s:o*, s:O, s:[]}", "format", 1, "made_by",
				"Made by vpmu-exporter " VPMU_VERSION ".", "time_ns",
				(json_int_t)(as_of_us * 1000), "host", page_host(a.hello), "series",
				series, "notes");
		e->text = all ? json_dumps(all, JSON_COMPACT | JSON_ENSURE_ASCII) : NULL;
		e->len = e->room = e->text ? strlen(e->text) : 0;
		if (!e->text || e->len > EXPO_MAX)
			ret = fail(-ENOMEM, err, errlen, "out of memory");
	}
	json_decref(all);
	json_decref(vms);
	json_decref(series);
	metrics_answers_free(&a);
	return ret;
}
