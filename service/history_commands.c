// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The command `history`: past counts as series (docs/protocol.md). The answer is text, because as
 * objects it would need millions. A client sees only its tenants.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <linux/perf_event.h>

#include "service/commands.h"
#include "service/history.h"
#include "service/program/memory.h"
#include "service/request.h"
#include "vpmu/util/fail.h"

#define POINTS_MAX     100000
#define GAP_POINTS_MAX 8640 /* intervals that a gap is shown as */
#define VALUES_MAX     262144
#define SERIES_ROOM    256

/* Values of an interval of the answer. */
struct point {
	uint64_t delta;
	uint32_t ticks; /* that have a value; 0: null */
	uint8_t flags, share;
};

/* The end of an interval. Twice: the clock was set back and has shown a part of it a second time;
 * only one of the two times is counted here. */
struct query_time {
	uint64_t ns;
	bool twice;
};

struct line {
	const char *path, *vm, *event; /* of a segment */
	vpmu_key_t key;
	struct point *point;
	bool inexact, multiplexed;
};

struct query {
	struct history *h;
	const struct access *who;
	uint64_t since_ns, until_ns;
	const char *target; /* a path or a VM; NULL: all */
	int scope;	    /* 0: both; else enum session_scope */
	vpmu_key_t keys[SESSION_EVENTS_MAX];
	size_t nr_keys; /* 0: all */
	uint64_t points;
	/* Ticks, and the intervals that they are in. */
	struct query_time *times;
	size_t nr_times, room_times, each;
	uint64_t tick_ns, twice_ns; /* of the tick before; the clock may have been here before */
	uint64_t width_ns;	    /* the longest */
	size_t nr_points;
	struct line *line;
	size_t nr, room;
	/* Of the segment that is walked: the lines of its ids. */
	struct line **id;
	size_t room_ids, next_tick; /* behind the time of the tick that is read */
	bool failed;		    /* more than POINTS_MAX times */
};

static bool query_wants(const struct query *q, const char *path, const char *vm, vpmu_key_t key)
{
	bool event = !q->nr_keys;

	if (!access_sees(q->who, path) || (q->scope == SESSION_TENANT && *vm) ||
	    (q->scope == SESSION_VM && !*vm))
		return false;
	if (q->target &&
	    !(*q->target == '/' ? tenant_path_within(q->target, path) : !strcmp(q->target, vm)))
		return false;
	for (size_t i = 0; i < q->nr_keys && !event; i++)
		event = q->keys[i] == key;
	return event;
}

/* ---- times ---------------------------------------------------------------------------------- */

static void query_time_add(struct query *q, uint64_t time_ns, bool twice)
{
	if (q->nr_times == POINTS_MAX) {
		q->failed = true;
		return;
	}
	if (q->nr_times == q->room_times) {
		q->room_times += 1024;
		q->times = xreallocarray(q->times, q->room_times, sizeof(*q->times));
	}
	q->times[q->nr_times++] = (struct query_time){time_ns, twice};
}

/* Call it for each tick, in the range or not. If the clock was set back since the tick before, it
 * may have shown the times of intervals of the answer again: they are marked, unless @t, which has
 * what was counted then, is in the answer. When exactly it was set back is not known. Returns the
 * time up to which the clock may have been before: an interval that begins earlier came twice. */
static uint64_t query_set_back(struct query *q, const struct history_tick *t)
{
	const uint64_t step = history_interval_ns(q->h), before_ns = q->tick_ns;
	const uint64_t last_ns = before_ns + step, twice_ns = q->twice_ns;

	q->tick_ns = t->time_ns;
	if (!before_ns || t->follows || t->time_ns >= last_ns)
		return twice_ns;
	q->twice_ns = last_ns > twice_ns ? last_ns : twice_ns;
	if (q->nr_times && (t->time_ns <= q->times[q->nr_times - 1].ns || t->time_ns > q->until_ns))
		for (size_t i = q->nr_times; i && q->times[i - 1].ns + step > t->time_ns; i--)
			q->times[i - 1].twice = true;
	/* This tick has what was counted since the one before. */
	return before_ns > twice_ns ? before_ns : twice_ns;
}

/* A time at which vpmud did not run has intervals without values, or one if it was long. */
static bool query_tick(void *arg, const struct history_tick *t)
{
	struct query *q = arg;
	uint64_t step = history_interval_ns(q->h), last, time_ns = t->time_ns;
	uint64_t twice_ns = query_set_back(q, t);

	if (time_ns < q->since_ns || time_ns > q->until_ns || q->failed)
		return false;
	last = q->nr_times ? q->times[q->nr_times - 1].ns : time_ns - step;
	if (time_ns <= last) /* this time has an interval already */
		return false;
	if (time_ns - last > GAP_POINTS_MAX * step)
		last = time_ns - 2 * step;
	while (!t->follows && time_ns - last > step + step / 2 && !q->failed) {
		last += step;
		query_time_add(q, last, false);
	}
	query_time_add(q, time_ns, last < twice_ns);
	q->width_ns = t->width_ns > q->width_ns ? t->width_ns : q->width_ns;
	return false;
}

/* ---- series --------------------------------------------------------------------------------- */

static int line_by_name(const void *a, const void *b)
{
	const struct line *x = a, *y = b;
	int c = strcmp(x->path, y->path);

	if (!c)
		c = strcmp(x->vm, y->vm);
	return c ? c : x->key < y->key ? -1 : x->key > y->key;
}

/* Collects: lines are sorted, and doubles dropped, when all are there. */
static void query_collect(void *arg, uint32_t id, const char *path, const char *vm, vpmu_key_t key,
			  const char *event)
{
	struct query *q = arg;

	if (!query_wants(q, path, vm, key))
		return;
	if (q->nr == q->room) {
		q->room = q->room * 2 + SERIES_ROOM;
		q->line = xreallocarray(q->line, q->room, sizeof(*q->line));
	}
	q->line[q->nr++] = (struct line){.path = path, .vm = vm, .event = event, .key = key};
}

static void query_unique(struct query *q)
{
	size_t to = 0;

	if (q->nr > 1)
		qsort(q->line, q->nr, sizeof(*q->line), line_by_name);
	for (size_t i = 0; i < q->nr; i++)
		if (!to || line_by_name(&q->line[to - 1], &q->line[i]))
			q->line[to++] = q->line[i];
	q->nr = to;
}

/* ---- values --------------------------------------------------------------------------------- */

static void query_id(void *arg, uint32_t id, const char *path, const char *vm, vpmu_key_t key,
		     const char *event)
{
	const struct line like = {.path = path, .vm = vm, .key = key};
	struct query *q = arg;

	if (id >= q->room_ids) {
		q->room_ids = id + SERIES_ROOM;
		q->id = xreallocarray(q->id, q->room_ids, sizeof(struct line *));
	}
	q->id[id] = query_wants(q, path, vm, key)
			    ? bsearch(&like, q->line, q->nr, sizeof(*q->line), line_by_name)
			    : NULL;
}

static bool query_tick_value(void *arg, const struct history_tick *t)
{
	struct query *q = arg;
	size_t at = q->next_tick;

	while (at < q->nr_times && q->times[at].ns < t->time_ns)
		at++;
	if (at == q->nr_times || q->times[at].ns != t->time_ns)
		return false;
	q->next_tick = at + 1; /* when it comes again, it is not counted */
	return true;
}

static void query_delta(void *arg, const struct history_delta *d)
{
	struct query *q = arg;
	struct line *l = q->id[d->id];
	struct point *p;

	if (!l)
		return;
	p = &l->point[(q->next_tick - 1) / q->each];
	p->share = !(d->flags & HISTORY_MULTIPLEXED)   ? p->share
		   : !(p->flags & HISTORY_MULTIPLEXED) ? d->share
		   : d->share < p->share	       ? d->share
						       : p->share;
	if ((d->flags & HISTORY_QUALITY) > (p->flags & HISTORY_QUALITY))
		p->flags = (uint8_t)((p->flags & ~HISTORY_QUALITY) | (d->flags & HISTORY_QUALITY));
	p->flags |= d->flags & (HISTORY_PARTIAL | HISTORY_AGED | HISTORY_MULTIPLEXED);
	p->delta += d->delta;
	p->ticks++;
}

/* Segments with times of the range, or of the two intervals before it, since the clock may have
 * been set back up to an interval after the last tick; and those that begin with a clock that was
 * set back. */
static void query_walk(struct query *q, const struct history_walk *w)
{
	const uint64_t step = history_interval_ns(q->h);
	const struct history_segment *s;
	uint64_t newest_ns = 0;

	for (size_t i = 0; (s = history_segment(q->h, i)); i++) {
		if (s->ticks && (s->first_ns < newest_ns || (s->last_ns + 2 * step >= q->since_ns &&
							     s->first_ns <= q->until_ns)))
			history_log_walk(s, w);
		newest_ns = s->last_ns > newest_ns ? s->last_ns : newest_ns;
	}
}

/* An interval is partial if a part of it has no value, or if its time came twice. */
static void query_finish(struct query *q)
{
	for (size_t i = 0; i < q->nr_times; i++) /* those that are merged: once for all lines */
		q->times[i - i % q->each].twice |= q->times[i].twice;
	for (size_t i = 0; i < q->nr; i++) {
		struct line *l = &q->line[i];

		for (size_t t = 0; t < q->nr_points; t++) {
			struct point *p = &l->point[t];
			size_t all = t + 1 < q->nr_points ? q->each : q->nr_times - t * q->each;

			if (p->ticks && (p->ticks < all || q->times[t * q->each].twice))
				p->flags |= HISTORY_PARTIAL;
			l->inexact |= p->ticks && p->flags;
			l->multiplexed |= p->ticks && p->flags & HISTORY_MULTIPLEXED;
		}
	}
}

static int query_run(struct query *q, char *err, size_t errlen)
{
	const struct history_walk times = {.tick = query_tick, .series = query_collect, .arg = q};
	const struct history_walk values = {
		.series = query_id, .tick = query_tick_value, .delta = query_delta, .arg = q};

	query_walk(q, &times);
	query_unique(q);
	q->each = q->points && q->nr_times > q->points ? (q->nr_times + q->points - 1) / q->points
						       : 1;
	q->nr_points = (q->nr_times + q->each - 1) / q->each;
	if (q->failed)
		return fail(-E2BIG, err, errlen,
			    "history: more than %d intervals; give a shorter time", POINTS_MAX);
	if (q->nr * q->nr_points > VALUES_MAX)
		return fail(-E2BIG, err, errlen,
			    "history: %zu series of %zu intervals; expected up to %d values: give "
			    "points, events, scope, target or a shorter time",
			    q->nr, q->nr_points, VALUES_MAX);
	for (size_t i = 0; i < q->nr; i++)
		q->line[i].point = xcalloc(q->nr_points + 1, sizeof(*q->line[i].point));
	query_walk(q, &values);
	query_finish(q);
	return 0;
}

static void query_free(struct query *q)
{
	for (size_t i = 0; i < q->nr; i++)
		free(q->line[i].point);
	free(q->line);
	free(q->times);
	free(q->id);
}

/* ---- the answer ----------------------------------------------------------------------------- */

static const char *unit_of(vpmu_key_t key)
{
	unsigned int event = vpmu_key_event(key);
	bool ns = (vpmu_key_space(key) == VPMU_SPACE_SOFTWARE &&
		   (event == PERF_COUNT_SW_CPU_CLOCK || event == PERF_COUNT_SW_TASK_CLOCK)) ||
		  (vpmu_key_space(key) == VPMU_SPACE_SCHED &&
		   (event == VPMU_SCHED_RUN_DELAY || event == VPMU_SCHED_IDLE));

	return ns ? "ns" : "";
}

static void add_quality(struct json_text *t, const struct point *p)
{
	unsigned int quality = p->flags & HISTORY_QUALITY;

	json_text_add(t, "\"");
	if (!p->ticks || !(p->flags & (HISTORY_QUALITY | HISTORY_PARTIAL | HISTORY_AGED)))
		json_text_add(t, "ok");
	else
		json_text_add(t, vpmu_quality_name((enum vpmu_quality)quality));
	json_text_add(t, p->ticks && p->flags & HISTORY_PARTIAL ? " partial" : "");
	json_text_add(t, p->ticks && p->flags & HISTORY_AGED ? " aged" : "");
	json_text_add(t, "\"");
}

static void add_field(struct json_text *t, const char *name, const char *value)
{
	json_text_add(t, "\"");
	json_text_add(t, name);
	json_text_add(t, "\":");
	if (value)
		json_text_string(t, value);
	else
		json_text_add(t, "null");
	json_text_add(t, ",");
}

static void add_line(struct json_text *t, const struct query *q, const struct line *l)
{
	json_text_add(t, "{");
	add_field(t, "tenant", l->path);
	add_field(t, "vm", *l->vm ? l->vm : NULL);
	add_field(t, "backend", "bpf");
	add_field(t, "event", l->event);
	add_field(t, "unit", unit_of(l->key));
	json_text_add(t, "\"delta\":[");
	for (size_t i = 0; i < q->nr_points; i++) {
		json_text_add(t, i ? "," : "");
		if (l->point[i].ticks)
			json_text_number(t, l->point[i].delta);
		else
			json_text_add(t, "null");
	}
	json_text_add(t, "]");
	if (l->inexact) {
		json_text_add(t, ",\"quality\":");
		for (size_t i = 0; i < q->nr_points; i++) {
			json_text_add(t, i ? "," : "[");
			add_quality(t, &l->point[i]);
		}
		json_text_add(t, "]");
	}
	if (l->multiplexed) {
		json_text_add(t, ",\"running\":");
		for (size_t i = 0; i < q->nr_points; i++) {
			json_text_count(t, i ? "," : "[",
					l->point[i].flags & HISTORY_MULTIPLEXED ? l->point[i].share
										: 100);
		}
		json_text_add(t, "]");
	}
	json_text_add(t, "}");
}

static void query_answer(struct json_text *t, const struct query *q)
{
	json_text_count(t, "{\"interval_ns\":", history_interval_ns(q->h) * q->each);
	if (access_all(q->who)) /* it depends on what all count */
		json_text_count(t, ",\"width_ns\":", q->width_ns);
	json_text_add(t, ",\"times\":[");
	for (size_t i = 0; i < q->nr_points; i++) {
		size_t end = (i + 1) * q->each < q->nr_times ? (i + 1) * q->each : q->nr_times;

		json_text_count(t, i ? "," : "", q->times[end - 1].ns);
	}
	json_text_count(t, "],\"start_ns\":", q->nr_times ? q->times[0].ns : 0);
	json_text_add(t, ",\"series\":[");
	for (size_t i = 0; i < q->nr; i++) {
		json_text_add(t, i ? "," : "");
		add_line(t, q, &q->line[i]);
	}
	json_text_count(t, "],\"dropped\":", access_all(q->who) ? history_dropped(q->h) : 0);
	json_text_add(t, ",");
}

/* ---- the request ---------------------------------------------------------------------------- */

static int time_field(const json_t *req, const char *key, uint64_t *out, char *err, size_t errlen)
{
	const char *text = NULL;
	char *end;
	int ret = request_string(req, key, false, 20, &text, err, errlen);

	if (ret || !text)
		return ret;
	errno = 0;
	*out = strtoull(text, &end, 10);
	if (errno || *end || *text < '0' || *text > '9')
		return fail(-EINVAL, err, errlen,
			    "%s: \"%s\" is invalid; expected ns since 1970 as digits", key, text);
	return 0;
}

static int query_parse(struct commands *c, const json_t *req, struct query *q, char *err,
		       size_t errlen)
{
	char *names[SESSION_EVENTS_MAX] = {0};
	const char *scope = NULL;
	int ret = time_field(req, "since", &q->since_ns, err, errlen);

	q->until_ns = UINT64_MAX;
	if (!ret)
		ret = time_field(req, "until", &q->until_ns, err, errlen);
	if (!ret)
		ret = request_string(req, "target", false, TENANT_PATH_MAX, &q->target, err,
				     errlen);
	if (!ret)
		ret = request_string(req, "scope", false, 16, &scope, err, errlen);
	if (!ret && scope && strcmp(scope, "tenant") && strcmp(scope, "vm"))
		return fail(-EINVAL, err, errlen, "scope: \"%s\" is invalid; expected tenant or vm",
			    scope);
	if (!ret && scope)
		q->scope = *scope == 't' ? SESSION_TENANT : SESSION_VM;
	if (!ret)
		ret = request_uint(req, "points", false, 1, POINTS_MAX, &q->points, err, errlen);
	if (!ret && json_object_get(req, "events"))
		ret = command_events(c, req, q->keys, names, &q->nr_keys, err, errlen);
	for (size_t i = 0; i < SESSION_EVENTS_MAX; i++)
		free(names[i]);
	return ret;
}

int cmd_history(struct commands *c, const json_t *req, json_t *resp, char *err, size_t errlen)
{
	struct query *q = xcalloc(1, sizeof(*q));
	int ret;

	q->h = c->history;
	q->who = c->who;
	ret = query_parse(c, req, q, err, errlen);
	if (!ret)
		ret = query_run(q, err, errlen);
	if (!ret)
		query_answer(&c->text, q);
	query_free(q);
	free(q);
	return ret;
}
