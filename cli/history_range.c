// SPDX-License-Identifier: GPL-2.0-or-later
/* A range of the past; see history_range.h. */
#include <stdio.h>
#include <time.h>

#include "cli/error.h"
#include "cli/history_answer.h"
#include "cli/history_range.h"
#include "cli/when.h"
#include "service/clock.h"

#define NS_PER_S    1000000000ULL
#define STEP_MAX_NS (3600 * NS_PER_S) /* history_interval, vpmud.conf(5) */
#define TICKS_MAX   100000	      /* that a server keeps, docs/protocol.md */
#define TICKS_ASK   4096	      /* of an answer */
#define TICKS_LATE  8		      /* before the range: how late its first interval may be */

void history_range_times(const char *cmd, const struct past_opts *o, uint64_t *since_ns,
			 uint64_t *until_ns)
{
	const char *since = o->since, *until = o->until;
	const uint64_t now = clock_ns(CLOCK_REALTIME);

	*until_ns = now;
	if (!when_parse(since, now, since_ns))
		cli_usage("%s: --since: \"%s\" is invalid; expected " WHEN_EXPECTED, cmd, since);
	if (until && !when_parse(until, now, until_ns))
		cli_usage("%s: --until: \"%s\" is invalid; expected " WHEN_EXPECTED, cmd, until);
	if (*until_ns > now)
		cli_usage("%s: --until: \"%s\" is invalid; expected a time up to now", cmd, until);
	if (*since_ns >= *until_ns)
		cli_usage("%s: --since: \"%s\" is invalid; expected a time before %s", cmd, since,
			  until ? until : "now");
}

void history_range_check(const char *cmd, const struct past_opts *o)
{
	uint64_t since_ns, until_ns;

	if (o->until && !o->since)
		cli_usage("%s: --until needs a begin: give --since TIME as well", cmd);
	if (o->since)
		history_range_times(cmd, o, &since_ns, &until_ns);
}

/* ---- the server's answers ------------------------------------------------------------------- */

static bool history_range_wrong(const char *field)
{
	cli_error("the server's answer is invalid: field \"%s\"", field);
	return false;
}

/* Times outside of those that were requested could be without end. */
static bool history_range_ok(const json_t *answer, uint64_t since_ns, uint64_t until_ns)
{
	size_t n;

	if (!history_answer_ok(answer))
		return false;
	n = json_array_size(json_object_get(answer, "times"));
	if (n && (history_answer_time(answer, 0) < since_ns ||
		  history_answer_time(answer, n - 1) > until_ns)) /* they ascend */
		return history_range_wrong("times");
	return true;
}

/* Return the checked answer for the intervals that end from @since_ns to @until_ns, NULL after an
 * error was printed. @points: 0: all. */
static json_t *history_range_ask(const struct history_range *r, uint64_t since_ns,
				 uint64_t until_ns, int points)
{
	char since[24], until[24];
	json_t *req, *answer;

	snprintf(since, sizeof(since), "%llu", (unsigned long long)since_ns);
	snprintf(until, sizeof(until), "%llu", (unsigned long long)until_ns);
	req = json_pack("{s:s, s:s, s:s, s:s*, s:s*, s:s*}", "cmd", "history", "since", since,
			"until", until, "target", r->target, "scope", r->scope, "events",
			r->events);
	if (req && points)
		json_object_set_new(req, "points", json_integer(points));
	answer = client_ask(r->c, req);
	if (answer && !history_range_ok(answer, since_ns, until_ns)) {
		json_decref(answer);
		return NULL;
	}
	return answer;
}

bool history_range_clip(struct history_range *r, uint64_t since_ns, uint64_t until_ns)
{
	char text[WHEN_LEN], other[WHEN_LEN];
	json_t *none = history_range_ask(r, 0, 0, 0), *all = NULL;
	bool ok = false;
	json_int_t start;
	uint64_t ns;

	if (!none)
		goto out;
	/* Without times, it has the interval alone; with one point, the time of all. What was kept
	 * before the clock was set back may have a time to come. */
	r->step_ns = history_answer_interval(none);
	if (r->step_ns > STEP_MAX_NS) {
		history_range_wrong("interval_ns");
		goto out;
	}
	all = history_range_ask(r, 0, clock_ns(CLOCK_REALTIME) + r->step_ns, 1);
	if (!all)
		goto out;
	r->newest_ns = history_answer_time(all, 0);
	if (!r->newest_ns) {
		cli_error("%s: vpmud has kept no counts yet; it keeps what sessions count, every "
			  "%llu s",
			  r->cmd, (unsigned long long)(r->step_ns / NS_PER_S));
		goto out;
	}
	ns = history_answer_interval(all);
	if (ns / r->step_ns > TICKS_MAX) {
		history_range_wrong("interval_ns");
		goto out;
	}
	/* Those that were read late, and gaps, are longer than an interval. */
	start = json_integer_value(json_object_get(all, "start_ns"));
	if (start > (json_int_t)r->step_ns && (uint64_t)start <= r->newest_ns)
		ns = r->newest_ns - (uint64_t)start + r->step_ns;
	if (ns > TICKS_MAX * r->step_ns)
		ns = TICKS_MAX * r->step_ns;
	r->oldest_ns = r->newest_ns - (ns < r->newest_ns ? ns : r->newest_ns);
	if (until_ns <= r->oldest_ns || since_ns >= r->newest_ns) {
		cli_error("%s: nothing was kept of that time; vpmud has counts from %s to %s",
			  r->cmd, when_text(r->oldest_ns, text), when_text(r->newest_ns, other));
		goto out;
	}
	if (since_ns < r->oldest_ns)
		cli_error("%s: nothing is kept from before %s", r->cmd,
			  when_text(r->oldest_ns, text));
	r->from_ns = since_ns < r->oldest_ns ? r->oldest_ns : since_ns;
	/* The interval in which the range ends is a part of it. */
	r->to_ns = until_ns + r->step_ns - 1;
	ok = true;
out:
	json_decref(none);
	json_decref(all);
	return ok;
}

json_t *history_range_first(struct history_range *r, uint64_t until_ns)
{
	json_t *first = history_range_ask(r, r->from_ns + 1, r->to_ns, 1);
	uint64_t end_ns = first ? history_answer_time(first, 0) : 0;

	/* Nothing that ends later is in the rows. The interval in work is no gap. */
	r->to_ns = end_ns > until_ns || until_ns - end_ns <= 2 * r->step_ns ? end_ns : until_ns;
	return first;
}

/* ---- intervals ------------------------------------------------------------------------------ */

struct history_walker {
	const struct history_range *r;
	const struct history_visit *v;
	uint64_t last_ns; /* end of the last interval; 0: none yet */
};

static void history_walk_tick(struct history_walker *w, uint64_t end_ns, size_t i)
{
	if (end_ns > w->r->from_ns)
		w->v->tick(w->v->arg, w->last_ns, end_ns, i);
	w->last_ns = end_ns;
}

/* Intervals that are not there, up to that which ends at @end_ns. */
static void history_walk_missing(struct history_walker *w, uint64_t end_ns)
{
	uint64_t step = w->r->step_ns;

	while (end_ns > w->last_ns && end_ns - w->last_ns > step + step / 2)
		history_walk_tick(w, w->last_ns + step, SIZE_MAX);
}

/* The first interval that is kept ends at @end_ns. Those that are missing before it begin with the
 * range. */
static void history_walk_begin(struct history_walker *w, uint64_t end_ns)
{
	uint64_t step = w->r->step_ns, from_ns = w->r->from_ns;
	uint64_t n = end_ns > from_ns ? (end_ns - from_ns + step / 2) / step : 0;

	w->last_ns = end_ns - (n ? n : 1) * step;
}

/* Returns true if interval @i has a value. The server has made it begin where the one before ended:
 * it is longer than others if it was read late. */
static bool history_walk_has(const json_t *answer, size_t i)
{
	const json_t *list = json_object_get(answer, "series"), *s;
	size_t k;

	json_array_foreach (list, k, s)
		if (json_is_integer(json_array_get(json_object_get(s, "delta"), i)))
			return true;
	return false;
}

static void history_walk_answer(struct history_walker *w, const json_t *answer)
{
	size_t n = json_array_size(json_object_get(answer, "times"));

	w->v->answer(w->v->arg, answer);
	for (size_t i = 0; i < n; i++) {
		uint64_t end_ns = history_answer_time(answer, i);

		if (!w->last_ns) /* the first interval may begin before the range */
			history_walk_begin(w, end_ns);
		if (end_ns <= w->last_ns)
			continue;
		if (!i || !history_walk_has(answer, i))
			history_walk_missing(w, end_ns);
		history_walk_tick(w, end_ns, i);
	}
}

/* Each answer but the first begins with the last interval of the one before, the first with those
 * before the range: only from the interval before it the server knows that one is late. */
bool history_range_walk(const struct history_range *r, size_t nr, const struct history_visit *v)
{
	uint64_t ticks = HISTORY_VALUES_MAX / (nr ? nr : 1), slice, late, at, end;
	struct history_walker w = {.r = r, .v = v};

	ticks = ticks > TICKS_ASK ? TICKS_ASK : ticks > 2 ? ticks - 1 : 1;
	slice = ticks * r->step_ns;
	late = (ticks / 2 < TICKS_LATE ? ticks / 2 : TICKS_LATE) * r->step_ns;
	at = r->from_ns > late ? r->from_ns - late : 0;
	do {
		json_t *answer;

		end = r->to_ns - at > slice ? at + slice : r->to_ns;
		answer = history_range_ask(r, at + 1, end, 0);
		if (!answer)
			return false;
		history_walk_answer(&w, answer);
		json_decref(answer);
		at = w.last_ns > at + 1 ? w.last_ns - 1 : end;
	} while (end < r->to_ns);
	history_walk_missing(&w, r->to_ns);
	return true;
}
