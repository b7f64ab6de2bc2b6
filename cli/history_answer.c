// SPDX-License-Identifier: GPL-2.0-or-later
/* Answers to `history`; see history_answer.h. */
#include "cli/error.h"
#include "cli/history_answer.h"

#define NS_PER_S 1000000000LL

static bool history_answer_wrong(const char *field)
{
	cli_error("the server's answer is invalid: field \"%s\"", field);
	return false;
}

/* @n: number of intervals. */
static bool history_answer_series_ok(const json_t *s, size_t n)
{
	const json_t *quality = json_object_get(s, "quality");
	const json_t *running = json_object_get(s, "running");
	const json_t *delta = json_object_get(s, "delta"), *vm = json_object_get(s, "vm");
	const char *path = json_string_value(json_object_get(s, "tenant"));
	const json_t *v;
	size_t k;

	if (!path || *path != '/')
		return history_answer_wrong("tenant");
	if (!json_is_string(vm) && !json_is_null(vm))
		return history_answer_wrong("vm");
	if (!json_is_string(json_object_get(s, "event")))
		return history_answer_wrong("event");
	if (!json_is_string(json_object_get(s, "backend")))
		return history_answer_wrong("backend");
	if (json_array_size(delta) != n)
		return history_answer_wrong("delta");
	json_array_foreach (delta, k, v)
		if (!json_is_null(v) && (!json_is_integer(v) || json_integer_value(v) < 0))
			return history_answer_wrong("delta");
	if (quality && json_array_size(quality) != n)
		return history_answer_wrong("quality");
	json_array_foreach (quality, k, v)
		if (!json_is_string(v))
			return history_answer_wrong("quality");
	if (running && json_array_size(running) != n)
		return history_answer_wrong("running");
	json_array_foreach (running, k, v)
		if (!json_is_integer(v) || json_integer_value(v) < 0 || json_integer_value(v) > 100)
			return history_answer_wrong("running");
	return true;
}

bool history_answer_ok(const json_t *answer)
{
	const json_t *series = json_object_get(answer, "series"), *s, *v;
	const json_t *times = json_object_get(answer, "times");
	size_t i, n = json_array_size(times);
	json_int_t last = 0;

	if (json_integer_value(json_object_get(answer, "interval_ns")) < NS_PER_S)
		return history_answer_wrong("interval_ns");
	if (!json_is_array(times))
		return history_answer_wrong("times");
	json_array_foreach (times, i, v) {
		if (json_integer_value(v) <= last)
			return history_answer_wrong("times");
		last = json_integer_value(v);
	}
	if (!json_is_array(series))
		return history_answer_wrong("series");
	json_array_foreach (series, i, s)
		if (!history_answer_series_ok(s, n))
			return false;
	return true;
}

uint64_t history_answer_time(const json_t *answer, size_t i)
{
	return (uint64_t)json_integer_value(json_array_get(json_object_get(answer, "times"), i));
}

uint64_t history_answer_interval(const json_t *answer)
{
	return (uint64_t)json_integer_value(json_object_get(answer, "interval_ns"));
}

const char *history_answer_field(const json_t *series, const char *key)
{
	return json_string_value(json_object_get(series, key));
}

bool history_answer_same(const json_t *a, const json_t *b)
{
	return json_equal(json_object_get(a, "tenant"), json_object_get(b, "tenant")) &&
	       json_equal(json_object_get(a, "vm"), json_object_get(b, "vm")) &&
	       json_equal(json_object_get(a, "event"), json_object_get(b, "event"));
}

/* ---- sums of intervals ---------------------------------------------------------------------- */

static unsigned int history_answer_share(const json_t *s, size_t i)
{
	const json_t *running = json_array_get(json_object_get(s, "running"), i);

	return running ? (unsigned int)json_integer_value(running) : 100;
}

bool history_answer_counted(const json_t *s, size_t i)
{
	const json_t *delta = json_array_get(json_object_get(s, "delta"), i);

	return json_is_integer(delta) && (json_integer_value(delta) || history_answer_share(s, i));
}

void history_sum_add(struct history_sum *sum, const json_t *s, size_t i)
{
	const json_t *delta = json_array_get(json_object_get(s, "delta"), i);
	const char *quality = json_string_value(json_array_get(json_object_get(s, "quality"), i));
	uint64_t count = (uint64_t)json_integer_value(delta);
	unsigned int share = history_answer_share(s, i);
	unsigned __int128 scaled;

	sum->multiplexed |= json_is_integer(delta) && share < 100;
	if (!history_answer_counted(s, i))
		return;
	share = share ? share : 1; /* shares are rounded down */
	scaled = (unsigned __int128)count * 100 / share + sum->scaled;
	sum->ticks++;
	sum->count += count;
	sum->scaled = scaled > UINT64_MAX ? UINT64_MAX : (uint64_t)scaled;
	sum->shares += share;
	sum->marked |= quality_add(sum->quality, quality ? quality : "");
}

void history_sum_partial(struct history_sum *sum, size_t ticks)
{
	if (sum->ticks && sum->ticks < ticks)
		sum->marked |= quality_add(sum->quality, "partial");
}

void history_sum_merge(struct history_sum *sum, const struct history_sum *more)
{
	sum->ticks += more->ticks;
	sum->count += more->count;
	sum->scaled =
		more->scaled > UINT64_MAX - sum->scaled ? UINT64_MAX : sum->scaled + more->scaled;
	sum->shares += more->shares;
	sum->multiplexed |= more->multiplexed;
	sum->marked |= more->marked;
	quality_add(sum->quality, more->quality);
}

double history_sum_running(const struct history_sum *sum)
{
	if (!sum->multiplexed)
		return 1;
	if (sum->count && sum->count < sum->scaled)
		return (double)sum->count / (double)sum->scaled;
	return sum->ticks ? (double)sum->shares / (double)sum->ticks / 100 : 0;
}
