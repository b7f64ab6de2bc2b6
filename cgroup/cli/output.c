// SPDX-License-Identifier: GPL-2.0-or-later
/* Readings as one value per line: see output.h. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "cgroup/cli/output.h"

char *out_group(uint64_t v, char buf[GROUP_LEN])
{
	char digits[24];
	int n = snprintf(digits, sizeof(digits), "%llu", (unsigned long long)v);
	char *p = buf;

	for (int i = 0; i < n; i++) {
		if (i && (n - i) % 3 == 0)
			*p++ = ',';
		*p++ = digits[i];
	}
	*p = '\0';
	return buf;
}

char *out_short(double v, char buf[SHORT_LEN])
{
	static const char units[] = {'\0', 'k', 'M', 'G', 'T', 'P', 'E', 'Z'};
	size_t u = 0;
	int digits;

	if (v < 999.5) {
		snprintf(buf, SHORT_LEN, v > 0 && v < 9.95 ? "%.1f" : "%.0f", v);
		return buf;
	}
	while (v >= 999.5 && u + 1 < sizeof(units)) {
		v /= 1000;
		u++;
	}
	digits = v < 9.995 ? 2 : v < 99.95 ? 1 : 0;
	snprintf(buf, SHORT_LEN, "%.*f%c", digits, v, units[u]);
	return buf;
}

void out_name(const struct rrow *row, char buf[NAME_LEN])
{
	if (row->kind == ROW_VCPU)
		snprintf(buf, NAME_LEN, "%s/%u", row->vm, row->vcpu);
	else
		snprintf(buf, NAME_LEN, "%s", row->kind == ROW_VM ? row->vm : row->path);
}

const char *out_quality(const char *quality)
{
	static const struct {
		const char *quality, *text;
	} texts[] = {
		{"modelled",
		 "modelled: computed from the soft machine's cost table, not measured by hardware"},
		{"estimated", "estimated: derived from the nominal clock rate, not counted"},
		{"partial", "partial: part of the time the event could not be counted, and what "
			    "happened then is missing"},
		{"tsc", "tsc: ticks of the time stamp counter between entering and leaving the "
			"guest"},
	};

	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
		if (strcmp(quality, texts[i].quality) == 0)
			return texts[i].text;
	return quality;
}

const char *out_not_exact(const char *quality)
{
	return strcmp(quality, "exact") ? quality : NULL;
}

const char *out_spell(const struct rrow *row, const struct val *v, char buf[GROUP_LEN], bool group)
{
	if (!v->supported)
		return "<not supported>";
	if (!val_counted(row, v))
		return "<not counted>";
	if (group)
		return out_group(val_scaled(v), buf);
	snprintf(buf, GROUP_LEN, "%llu", (unsigned long long)val_scaled(v));
	return buf;
}

/* ---- lines for people --------------------------------------------------------------------- */

void out_lines_heading(const struct reading *r)
{
	bool several = reading_planes(r) > 1;
	const char *plane = reading_plane(r);

	printf("#%15s %20s  %-28s %s%s%s%s\n", "time", "counts", "events",
	       several ? "plane    " : "", strcmp(r->scope, "none") ? r->scope : "",
	       plane ? "  plane: " : "", plane ? plane : "");
}

void out_lines(const struct reading *r, double time_s)
{
	char buf[GROUP_LEN], name[NAME_LEN], tail[80];
	bool several = reading_planes(r) > 1;

	for (size_t i = 0; i < r->nr_rows; i++) {
		const struct rrow *row = &r->rows[i];

		out_name(row, name);
		for (size_t e = 0; e < r->nr_events; e++) {
			const struct val *v = &row->v[e];
			size_t n = 0;

			tail[0] = '\0';
			if (val_counted(row, v) && out_not_exact(v->quality))
				n += (size_t)snprintf(tail, sizeof(tail), " (%s)", v->quality);
			if (val_counted(row, v) && val_is_scaled(v))
				snprintf(tail + n, sizeof(tail) - n, " (%.2f%%)", val_percent(v));
			printf("%16.9f %20s  %-28s ", time_s, out_spell(row, v, buf, true),
			       r->events[e]);
			if (several)
				printf("%-8s ", row->plane ? row->plane : "");
			printf("%s%s%s\n", name, row->gone ? " (gone)" : "", tail);
		}
	}
}

/* ---- separated values --------------------------------------------------------------------- */

/* Print @text (NULL: empty) and @sep. A text that contains the separator is put in quotes. */
static void field(const char *text, const char *sep)
{
	if (text && strstr(text, sep))
		printf("\"%s\"", text);
	else
		fputs(text ? text : "", stdout);
	fputs(sep, stdout);
}

void out_csv(const struct reading *r, double time_s, const char *sep)
{
	char buf[GROUP_LEN], number[32];

	for (size_t i = 0; i < r->nr_rows; i++) {
		const struct rrow *row = &r->rows[i];

		for (size_t e = 0; e < r->nr_events; e++) {
			const struct val *v = &row->v[e];
			bool counted = val_counted(row, v);

			if (time_s >= 0)
				printf("%.9f%s", time_s, sep);
			field(out_spell(row, v, buf, false), sep);
			field("", sep); /* unit: a count has none */
			field(r->events[e], sep);
			field(row->path, sep);
			field(row->vm, sep);
			snprintf(number, sizeof(number), "%u", row->vcpu);
			field(row->kind == ROW_VCPU ? number : "", sep);
			printf("%llu%s%.2f%s", (unsigned long long)v->running_ns, sep,
			       counted ? val_percent(v) : 0, sep);
			field(counted ? v->quality : "", sep);
			printf("%s\n", row->plane ? row->plane : "");
		}
	}
}

/* ---- JSON --------------------------------------------------------------------------------- */

static json_t *json_of(const struct reading *r, const struct rrow *row, size_t e, double time_s)
{
	const struct val *v = &row->v[e];
	bool counted = val_counted(row, v);
	json_t *o = json_object();
	char buf[GROUP_LEN], count[24];

	snprintf(count, sizeof(count), "%llu", (unsigned long long)v->count);
	if (time_s >= 0)
		json_object_set_new(o, "interval", json_real(round(time_s * 1e9) / 1e9));
	json_object_set_new(o, "kind", json_string(row_kind_name(row->kind)));
	json_object_set_new(o, "tenant", json_string(row->path));
	if (row->vm)
		json_object_set_new(o, "vm", json_string(row->vm));
	if (row->kind == ROW_VCPU)
		json_object_set_new(o, "vcpu", json_integer(row->vcpu));
	if (row->plane)
		json_object_set_new(o, "plane", json_string(row->plane));
	json_object_set_new(o, "counter-value", json_string(out_spell(row, v, buf, false)));
	json_object_set_new(o, "count", json_string(count));
	json_object_set_new(o, "unit", json_string(""));
	json_object_set_new(o, "event", json_string(r->events[e]));
	json_object_set_new(o, "event-runtime", json_integer((json_int_t)v->running_ns));
	json_object_set_new(o, "pcnt-running",
			    json_real(counted ? round(val_percent(v) * 100) / 100 : 0));
	if (counted)
		json_object_set_new(o, "quality", json_string(v->quality));
	if (row->gone)
		json_object_set_new(o, "gone", json_true());
	if (row->error)
		json_object_set_new(o, "error", json_string(row->error));
	return o;
}

void out_json(const struct reading *r, double time_s)
{
	for (size_t i = 0; i < r->nr_rows; i++) {
		for (size_t e = 0; e < r->nr_events; e++) {
			json_t *o = json_of(r, &r->rows[i], e, time_s);

			json_dumpf(o, stdout, JSON_COMPACT | JSON_REAL_PRECISION(12));
			putchar('\n');
			json_decref(o);
		}
	}
}
