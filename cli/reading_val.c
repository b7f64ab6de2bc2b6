// SPDX-License-Identifier: GPL-2.0-or-later
/* Interprets the values of a reading; see reading.h. */
#include <stdio.h>
#include <string.h>

#include "cli/reading.h"

double reading_seconds(const struct reading *r)
{
	return (double)(r->to.ns - r->from.ns) / 1e9;
}

uint64_t val_scaled(const struct val *v)
{
	unsigned __int128 n = (unsigned __int128)v->count * v->enabled_ns;

	if (v->estimate)
		return v->estimate;
	if (!v->running_ns || v->running_ns >= v->enabled_ns)
		return v->count;
	n /= v->running_ns;
	return n > UINT64_MAX ? UINT64_MAX : (uint64_t)n;
}

double val_percent(const struct val *v)
{
	return v->enabled_ns ? 100.0 * (double)v->running_ns / (double)v->enabled_ns : 100.0;
}

bool val_is_scaled(const struct val *v)
{
	return v->running_ns < v->enabled_ns;
}

bool val_counted(const struct rrow *row, const struct val *v)
{
	if (!v->supported || row->error)
		return false;
	/* As in perf: an event that never ran was not counted, even if the row itself never ran. A
	 * count without time is a short interval: counts of a running vCPU are charged an instant
	 * before its time. */
	return v->running_ns || v->count;
}

static bool quality_has(const char *all, const char *word)
{
	size_t n = strlen(word);

	for (const char *p = all; (p = strstr(p, word)); p += n)
		if ((p == all || p[-1] == ' ') && (p[n] == ' ' || !p[n]))
			return true;
	return false;
}

bool val_has(const struct val *v, const char *word)
{
	return quality_has(v->quality, word);
}

bool quality_add(char all[QUALITY_LEN], const char *more)
{
	char word[QUALITY_LEN];
	bool any = false;

	for (size_t n; *(more += strspn(more, " ")); more += n) {
		size_t len = strlen(all);

		n = strcspn(more, " ");
		snprintf(word, sizeof(word), "%.*s", (int)n, more);
		if (!strcmp(word, "ok") || !strcmp(word, "exact"))
			continue;
		any = true;
		if (len + n + 2 <= QUALITY_LEN && !quality_has(all, word))
			snprintf(all + len, QUALITY_LEN - len, "%s%s", len ? " " : "", word);
	}
	return any;
}

static size_t base_len(const char *event)
{
	return strcspn(event, ":");
}

int reading_ipc_pair(const struct reading *r, size_t e)
{
	const char *ins = r->events[e];
	size_t n = base_len(ins);

	if (n != strlen("instructions") || strncmp(ins, "instructions", n) != 0)
		return -1;
	for (size_t i = 0; i < r->nr_events; i++) {
		const char *c = r->events[i];
		size_t m = base_len(c);

		if (((m == 6 && strncmp(c, "cycles", m) == 0) ||
		     (m == 10 && strncmp(c, "cpu-cycles", m) == 0)) &&
		    strcmp(c + m, ins + n) == 0)
			return (int)i;
	}
	return -1;
}

double reading_ipc(const struct reading *r, const struct rrow *row, size_t e)
{
	int c = reading_ipc_pair(r, e);
	const struct val *cycles = c < 0 ? NULL : &row->v[c];

	if (!cycles || !val_counted(row, &row->v[e]) || !val_counted(row, cycles) ||
	    !val_scaled(cycles))
		return -1;
	return (double)val_scaled(&row->v[e]) / (double)val_scaled(cycles);
}

bool reading_none_supported(const struct reading *r)
{
	for (size_t i = 0; i < r->nr_rows; i++)
		for (size_t e = 0; e < r->nr_events; e++)
			if (r->rows[i].v[e].supported)
				return false;
	return r->nr_rows > 0;
}
