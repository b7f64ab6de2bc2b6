// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * A report of the past; see report.h. Intervals that vpmud kept are merged, so that the page
 * stays small; one without any count is never merged with others, so that it remains a gap.
 */
#include <stdlib.h>
#include <string.h>

#include "cli/error.h"
#include "cli/history_answer.h"
#include "cli/history_range.h"
#include "cli/report.h"
#include "cli/when.h"
#include "service/program/memory.h"

#define INTERVALS_MIN 60     /* of a page, as of the present; */
#define INTERVALS_MAX 360    /* more of a host with few rows, */
#define VALUES_MAX    600000 /* about so many values */

#define BASELINE_EVENTS "cycles,instructions,task-clock"
#define BASELINE_POINTS 60

struct report_kept {
	const json_t *first; /* in the first answer */
	json_t *json, *delta;
	const json_t *now;	     /* in the answer in work; NULL: it lacks it */
	struct history_sum sum, all; /* of the interval in work; of all that ended */
	size_t inexact;		     /* intervals with a count that is not exact */
};

struct report_pastwork {
	struct report_kept *kept;
	size_t nr;
	json_t *times;
	uint64_t start_ns, end_ns;
	size_t each, ticks; /* intervals to merge; in the one in work */
	bool gap;	    /* the one in work is one */
};

static json_t *report_kept_number(uint64_t n)
{
	return json_integer(n > INT64_MAX ? INT64_MAX : (json_int_t)n);
}

static json_t *report_kept_json(const json_t *s)
{
	const char *unit = history_answer_field(s, "unit");

	return json_pack("{s:s, s:s?, s:s, s:s, s:s}", "tenant", history_answer_field(s, "tenant"),
			 "vm", history_answer_field(s, "vm"), "event",
			 history_answer_field(s, "event"), "backend",
			 history_answer_field(s, "backend"), "unit", unit ? unit : "");
}

/* Series without any count in the range are left out: a node is kept as long as vpmud runs. */
static void report_pastwork_init(struct report_pastwork *w, const json_t *first)
{
	const json_t *list = json_object_get(first, "series"), *s;
	size_t i;

	w->kept = xcalloc(json_array_size(list) + 1, sizeof(*w->kept));
	json_array_foreach (list, i, s) {
		struct report_kept *k = &w->kept[w->nr];

		if (!json_is_integer(json_array_get(json_object_get(s, "delta"), 0)))
			continue;
		k->first = s;
		k->json = report_kept_json(s);
		if (!k->json) /* the strings of an answer are UTF-8 */
			memory_out();
		k->delta = json_array();
		json_object_set_new(k->json, "delta", k->delta);
		w->nr++;
	}
	w->times = json_array();
}

/* ---- intervals ------------------------------------------------------------------------------ */

static void report_past_close(struct report_pastwork *w)
{
	if (!w->ticks)
		return;
	for (size_t n = 0; n < w->nr; n++) {
		struct report_kept *k = &w->kept[n];

		history_sum_partial(&k->sum, w->ticks);
		json_array_append_new(k->delta, k->sum.ticks ? report_kept_number(k->sum.scaled)
							     : json_null());
		k->inexact += k->sum.marked;
		history_sum_merge(&k->all, &k->sum);
		k->sum = (struct history_sum){0};
	}
	json_array_append_new(w->times, report_kept_number(w->end_ns));
	w->ticks = 0;
}

/* Both answers have the same order; this one may lack some series. */
static void report_past_answer(void *arg, const json_t *answer)
{
	const json_t *list = json_object_get(answer, "series"), *s;
	struct report_pastwork *w = arg;
	size_t at = 0, i;

	for (i = 0; i < w->nr; i++)
		w->kept[i].now = NULL;
	json_array_foreach (list, i, s) {
		size_t k = at;

		while (k < w->nr && !history_answer_same(w->kept[k].first, s))
			k++;
		if (k == w->nr)
			continue;
		w->kept[k].now = s;
		at = k + 1;
	}
}

static void report_past_tick(void *arg, uint64_t begin_ns, uint64_t end_ns, size_t i)
{
	struct report_pastwork *w = arg;
	bool gap = true;

	for (size_t k = 0; k < w->nr && i != SIZE_MAX && gap; k++)
		gap = !history_answer_counted(w->kept[k].now, i);
	if (!w->start_ns)
		w->start_ns = begin_ns;
	if (gap != w->gap || (!gap && w->ticks == w->each))
		report_past_close(w);
	w->gap = gap;
	w->end_ns = end_ns;
	w->ticks++;
	for (size_t k = 0; k < w->nr && i != SIZE_MAX; k++)
		history_sum_add(&w->kept[k].sum, w->kept[k].now, i);
}

/* ---- the whole ------------------------------------------------------------------------------ */

static json_t *report_past_series(struct report_pastwork *w)
{
	json_t *list = json_array();

	for (size_t n = 0; n < w->nr; n++) {
		struct report_kept *k = &w->kept[n];

		if (*k->all.quality)
			json_object_set_new(k->json, "quality", json_string(k->all.quality));
		if (k->inexact)
			json_object_set_new(k->json, "inexact",
					    json_integer((json_int_t)k->inexact));
		if (k->all.multiplexed)
			json_object_set_new(k->json, "running",
					    json_real(history_sum_running(&k->all)));
		json_array_append(list, k->json);
	}
	return list;
}

static size_t report_past_merge(const struct history_range *r, size_t nr)
{
	uint64_t ticks = (r->to_ns - r->from_ns + r->step_ns - 1) / r->step_ns;
	uint64_t want = VALUES_MAX / (nr ? nr : 1);

	want = want < INTERVALS_MIN ? INTERVALS_MIN : want > INTERVALS_MAX ? INTERVALS_MAX : want;
	return (size_t)((ticks + want - 1) / want);
}

bool report_past_read(struct client *c, const struct past_opts *past, const char *events,
		      struct report_past *out)
{
	struct history_range r = {.c = c, .cmd = "report", .target = "/", .events = events};
	struct report_pastwork w = {0};
	const struct history_visit v = {
		.answer = report_past_answer, .tick = report_past_tick, .arg = &w};
	char from[WHEN_LEN], to[WHEN_LEN];
	uint64_t since_ns, until_ns;
	json_t *first = NULL;
	bool ok = false;

	history_range_times("report", past, &since_ns, &until_ns);
	if (history_range_clip(&r, since_ns, until_ns))
		first = history_range_first(&r, until_ns);
	if (!first)
		return false;
	report_pastwork_init(&w, first);
	if (!w.nr) {
		cli_error("report: nothing was kept%s%s from %s to %s: no session counted it; see "
			  "history in vpmud.conf(5)",
			  events ? " of " : "", events ? events : "", when_text(r.from_ns, from),
			  when_text(until_ns, to));
		goto out;
	}
	w.each = report_past_merge(&r, w.nr);
	ok = history_range_walk(&r, json_array_size(json_object_get(first, "series")), &v);
	if (!ok)
		goto out;
	report_past_close(&w);
	*out = (struct report_past){.start_ns = w.start_ns,
				    .interval_ns = r.step_ns,
				    .times = json_incref(w.times),
				    .series = report_past_series(&w)};
out:
	for (size_t i = 0; i < w.nr; i++)
		json_decref(w.kept[i].json);
	free(w.kept);
	json_decref(w.times);
	json_decref(first);
	return ok;
}

void report_past_fini(struct report_past *p)
{
	json_decref(p->times);
	json_decref(p->series);
	*p = (struct report_past){0};
}

/* A multiplexed count of a merged interval cannot be scaled: the server has its lowest share only.
 */
static json_t *report_baseline_series(const json_t *s)
{
	const json_t *running = json_object_get(s, "running"), *v;
	json_t *row = report_kept_json(s), *delta = json_array();
	size_t i;

	json_array_foreach (json_object_get(s, "delta"), i, v)
		json_array_append_new(
			delta, running && json_integer_value(json_array_get(running, i)) < 100
				       ? json_null()
				       : json_incref((json_t *)v));
	json_object_set_new(row, "delta", delta);
	return row;
}

json_t *report_past_baseline(struct client *c)
{
	char *err = NULL;
	json_t *answer = client_try(c,
				    json_pack("{s:s, s:s, s:i}", "cmd", "history", "events",
					      BASELINE_EVENTS, "points", BASELINE_POINTS),
				    &err);
	json_t *series = json_array(), *out = NULL, *s;
	size_t i;

	if (answer && history_answer_ok(answer))
		json_array_foreach (json_object_get(answer, "series"), i, s)
			json_array_append_new(series, report_baseline_series(s));
	if (json_array_size(series))
		out = json_pack("{s:O, s:O, s:O}", "interval_ns",
				json_object_get(answer, "interval_ns"), "times",
				json_object_get(answer, "times"), "series", series);
	json_decref(series);
	json_decref(answer);
	free(err);
	return out;
}
