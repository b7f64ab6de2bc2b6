// SPDX-License-Identifier: GPL-2.0-or-later
/* Readings as one value per line; see output.h. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "cli/metrics.h"
#include "cli/output.h"
#include "cli/when.h"

#define IPC_UNIT "insn per cycle"

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
		 "modelled: computed from the emulator's cost table, not measured by hardware"},
		{"estimated",
		 "estimated: derived from the nominal clock rate, or by clock ticks, not counted"},
		{"partial", "partial: part of the time the event could not be counted, and what "
			    "happened then is missing"},
		{"aged", "aged: an isolated CPU runs it, and its work there since its last context "
			 "switch is missing"},
		{"late", "late: cgroups or vCPUs were found after their start, and their first "
			 "time is counted in the row above or in /host"},
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

/* Append the words of @quality that @buf lacks. */
static void add_labels(const char *quality, char buf[LABELS_LEN])
{
	while (*quality) {
		size_t n = strcspn(quality, " "), len = strlen(buf);
		char label[40];

		snprintf(label, sizeof(label), " (%.*s)", (int)n, quality);
		if (strcmp(label, " (exact)") && n && !strstr(buf, label))
			snprintf(buf + len, LABELS_LEN - len, "%s", label);
		quality += n;
		quality += *quality == ' ';
	}
}

char *out_labels(const char *quality, const char *more, char buf[LABELS_LEN])
{
	buf[0] = '\0';
	add_labels(quality, buf);
	if (more)
		add_labels(more, buf);
	return buf;
}

const char *out_words(const struct val *v, char buf[LABELS_LEN])
{
	if (!val_is_scaled(v))
		return v->quality;
	if (!out_not_exact(v->quality))
		return "scaled";
	snprintf(buf, LABELS_LEN, "%s scaled", v->quality);
	return buf;
}

FILE *out_stream(const struct format_opts *f)
{
	return f->to ? f->to : stdout;
}

char *out_variance(const struct val *v, char buf[VARIANCE_LEN])
{
	buf[0] = '\0';
	if (v->variance >= 0)
		snprintf(buf, VARIANCE_LEN, "  ( +-%6.2f%% )", v->variance);
	return buf;
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

const char *out_unit(const char *name)
{
	size_t n = strcspn(name, ":");

	return n == 10 && !strncmp(name, "task-clock", n) ? "msec"
	       : n == 9 && (!strncmp(name, "cpu-clock", n) || !strncmp(name, "idle-time", n))
		       ? "msec"
		       : "";
}

const char *out_spell_in(const char *unit, const struct rrow *row, const struct val *v,
			 char buf[GROUP_LEN], bool group)
{
	uint64_t ns = val_scaled(v), cents;
	char whole[GROUP_LEN];

	if (!*unit || !v->supported || !val_counted(row, v))
		return out_spell(row, v, buf, group);
	if (!group) {
		snprintf(buf, GROUP_LEN, "%llu.%06llu", (unsigned long long)(ns / 1000000),
			 (unsigned long long)(ns % 1000000));
		return buf;
	}
	cents = ns / 10000 + (ns % 10000 >= 5000);
	snprintf(buf, GROUP_LEN, "%s.%02u", out_group(cents / 100, whole),
		 (unsigned int)(cents % 100));
	return buf;
}

double out_auto_ipc(const struct format_opts *f, const struct reading *r, const struct rrow *row,
		    size_t e)
{
	return f->metrics ? -1 : reading_ipc(r, row, e);
}

/* The quality words of the instructions per cycle of event @e: those of both counts. */
static const char *output_ipc_words(const struct reading *r, const struct rrow *row, size_t e,
				    char words[LABELS_LEN])
{
	const struct val *of[2] = {&row->v[e], &row->v[reading_ipc_pair(r, e)]};
	char all[QUALITY_LEN] = "";

	for (int i = 0; i < 2; i++)
		quality_add(all, of[i]->quality);
	if (val_is_scaled(of[0]) || val_is_scaled(of[1]))
		quality_add(all, "scaled");
	snprintf(words, LABELS_LEN, "%s", *all ? all : "exact");
	return words;
}

static size_t nr_metrics(const struct format_opts *f)
{
	return f->metrics ? f->metrics->nr : 0;
}

/* ---- text lines --------------------------------------------------------------------------- */

void out_lines_heading(const struct format_opts *f, const struct reading *r)
{
	bool several = reading_backends(r) > 1;
	const char *backend = reading_backend(r);

	fprintf(out_stream(f), "#%15s %20s %-4s %-28s %s%s%s%s\n", "time", "counts", "unit",
		"events", several ? "backend    " : "", strcmp(r->scope, "none") ? r->scope : "",
		backend ? "  backend: " : "", backend ? backend : "");
}

/* Print the rest of a line, after the number and the name. @v: the quality; NULL: there is no
 * number. */
static void end_line(FILE *to, const struct reading *r, const struct rrow *row, const struct val *v)
{
	char name[NAME_LEN], labels[LABELS_LEN];

	if (reading_backends(r) > 1)
		fprintf(to, "%-8s ", row->backend ? row->backend : "");
	out_name(row, name);
	fprintf(to, "%s%s", name, row->gone ? " (gone)" : "");
	if (v)
		fputs(out_labels(v->quality, NULL, labels), to);
	if (v && val_is_scaled(v))
		fprintf(to, " (%.2f%%)", val_percent(v));
	fputc('\n', to);
}

/* The first column: seconds, or of the past the end of the interval as a local time. */
static void out_time(FILE *to, const struct reading *r, double time_s)
{
	char text[WHEN_LEN];

	if (r->end_ns)
		fprintf(to, "%16s ", when_text(r->end_ns, text) + strlen("2026-"));
	else
		fprintf(to, "%16.9f ", time_s);
}

static void metric_line(FILE *to, const struct reading *r, const struct rrow *row,
			const struct chosen_metric *m, double time_s)
{
	char buf[METRIC_TEXT], what[METRIC_NAME_MAX + 60];
	struct metric_value mv;

	metric_value(m, r, row, &mv);
	snprintf(what, sizeof(what), "%s%s%.40s", m->label, *m->metric->unit ? ", " : "",
		 m->metric->unit);
	out_time(to, r, time_s);
	fprintf(to, "%20s      %-28s ", metric_spell(&mv, buf), what);
	end_line(to, r, row, mv.state == METRIC_NUMBER ? &mv.v : NULL);
}

void out_lines(const struct format_opts *f, const struct reading *r, double time_s)
{
	FILE *to = out_stream(f);
	char buf[GROUP_LEN];

	for (size_t i = 0; i < r->nr_rows; i++) {
		const struct rrow *row = &r->rows[i];

		for (size_t e = 0; e < r->nr_events; e++) {
			const struct val *v = &row->v[e];
			const char *unit = out_unit(r->events[e]);

			out_time(to, r, time_s);
			fprintf(to, "%20s %-4s %-28s ", out_spell_in(unit, row, v, buf, !f->plain),
				unit, r->events[e]);
			end_line(to, r, row, val_counted(row, v) ? v : NULL);
		}
		for (size_t k = 0; k < nr_metrics(f); k++)
			metric_line(to, r, row, &f->metrics->m[k], time_s);
	}
}

/* ---- separated values --------------------------------------------------------------------- */

void out_field(FILE *to, const char *text, const char *sep)
{
	if (text && strstr(text, sep))
		fprintf(to, "\"%s\"", text);
	else
		fputs(text ? text : "", to);
	fputs(sep, to);
}

/* A line of a count or of a metric. */
struct csv_line {
	const char *value, *value_unit; /* of a count; "" */
	const char *name;
	const struct val *v;
	bool counted;
	const char *metric, *unit; /* "" */
};

static void output_csv_line(FILE *to, const char *sep, const struct rrow *row,
			    const struct csv_line *l, double time_s)
{
	char buf[LABELS_LEN], number[32];

	if (time_s >= 0)
		fprintf(to, "%.9f%s", time_s, sep);
	out_field(to, l->value, sep);
	out_field(to, l->value_unit, sep);
	out_field(to, l->name, sep);
	out_field(to, row->path, sep);
	out_field(to, row->vm, sep);
	snprintf(number, sizeof(number), "%u", row->vcpu);
	out_field(to, row->kind == ROW_VCPU ? number : "", sep);
	fprintf(to, "%llu%s%.2f%s", (unsigned long long)l->v->running_ns, sep,
		l->counted ? val_percent(l->v) : 0, sep);
	out_field(to, l->counted ? out_words(l->v, buf) : "", sep);
	out_field(to, row->backend, sep);
	out_field(to, l->metric, sep);
	/* The next-to-last field of -r. */
	if (strstr(l->unit, sep))
		fprintf(to, "\"%s\"", l->unit);
	else
		fputs(l->unit, to);
}

static void csv_metric(FILE *to, const char *sep, const struct reading *r, const struct rrow *row,
		       const struct chosen_metric *m, double time_s)
{
	char buf[METRIC_TEXT];
	struct metric_value mv;
	struct csv_line l = {.value = "",
			     .value_unit = "",
			     .name = m->label,
			     .v = &mv.v,
			     .unit = m->metric->unit};

	metric_value(m, r, row, &mv);
	l.counted = mv.state == METRIC_NUMBER;
	l.metric = metric_exactly(&mv, buf);
	output_csv_line(to, sep, row, &l, time_s);
	/* With -r, counts have a variance; the metric is computed from the means. */
	fprintf(to, "%s\n", row->v[0].variance >= 0 ? sep : "");
}

void out_csv(const struct format_opts *f, const struct reading *r, double time_s)
{
	char buf[LABELS_LEN], number[32], words[LABELS_LEN], ipc_unit[LABELS_LEN + 32] = "";
	FILE *to = out_stream(f);

	for (size_t i = 0; i < r->nr_rows; i++) {
		const struct rrow *row = &r->rows[i];

		for (size_t e = 0; e < r->nr_events; e++) {
			const struct val *v = &row->v[e];
			double ipc = out_auto_ipc(f, r, row, e);
			const char *unit = out_unit(r->events[e]);
			struct csv_line l = {.value = out_spell_in(unit, row, v, buf, false),
					     .value_unit = unit,
					     .name = r->events[e],
					     .v = v,
					     .counted = val_counted(row, v),
					     .metric = ipc < 0 ? "" : number,
					     .unit = ipc < 0 ? "" : ipc_unit};

			snprintf(number, sizeof(number), "%.2f", ipc);
			if (ipc >= 0 && out_not_exact(output_ipc_words(r, row, e, words)))
				snprintf(ipc_unit, sizeof(ipc_unit), IPC_UNIT " (%s)", words);
			else
				strcpy(ipc_unit, IPC_UNIT);
			output_csv_line(to, f->sep, row, &l, time_s);
			if (v->variance >= 0)
				fprintf(to, "%s%.2f%%", f->sep, v->variance);
			fputc('\n', to);
		}
		for (size_t k = 0; k < nr_metrics(f); k++)
			csv_metric(to, f->sep, r, row, &f->metrics->m[k], time_s);
	}
}

/* ---- JSON --------------------------------------------------------------------------------- */

void out_json_as_of(json_t *o, const struct reading *r)
{
	if (!r->to_us)
		return;
	json_object_set_new(o, "as-of-ns", json_integer((json_int_t)r->to.ns));
	json_object_set_new(o, "as-of-us", json_integer((json_int_t)r->to_us));
	if (r->to.width_ns != UINT64_MAX)
		json_object_set_new(o, "width-ns", json_integer((json_int_t)r->to.width_ns));
	json_object_set_new(o, "span-ns", json_integer((json_int_t)(r->to.ns - r->from.ns)));
	if (r->from.width_ns != UINT64_MAX)
		json_object_set_new(o, "start-width-ns",
				    json_integer((json_int_t)r->from.width_ns));
}

/* Fields that counts and metrics share. */
static json_t *json_row(const struct reading *r, const struct rrow *row, double time_s)
{
	json_t *o = json_object();

	if (time_s >= 0)
		json_object_set_new(o, "interval", json_real(round(time_s * 1e9) / 1e9));
	if (r->end_ns) {
		json_object_set_new(o, "start-ns", json_integer((json_int_t)r->start_ns));
		json_object_set_new(o, "end-ns", json_integer((json_int_t)r->end_ns));
	}
	json_object_set_new(o, "kind", json_string(row_kind_name(row->kind)));
	json_object_set_new(o, "tenant", json_string(row->path));
	if (row->vm)
		json_object_set_new(o, "vm", json_string(row->vm));
	if (row->kind == ROW_VCPU)
		json_object_set_new(o, "vcpu", json_integer(row->vcpu));
	if (row->backend)
		json_object_set_new(o, "backend", json_string(row->backend));
	if (row->gone)
		json_object_set_new(o, "gone", json_true());
	if (row->error)
		json_object_set_new(o, "error", json_string(row->error));
	out_json_as_of(o, r);
	return o;
}

static json_t *json_metric(const struct reading *r, const struct rrow *row,
			   const struct chosen_metric *m, double time_s)
{
	json_t *o = json_row(r, row, time_s);
	char buf[LABELS_LEN], number[METRIC_TEXT];
	struct metric_value mv;

	metric_value(m, r, row, &mv);
	json_object_set_new(o, "metric", json_string(m->label));
	json_object_set_new(o, "metric-value", json_string(metric_exactly(&mv, number)));
	json_object_set_new(o, "metric-unit", json_string(m->metric->unit));
	json_object_set_new(
		o, "pcnt-running",
		json_real(mv.state == METRIC_NUMBER ? round(val_percent(&mv.v) * 100) / 100 : 0));
	if (mv.state == METRIC_NUMBER)
		json_object_set_new(o, "quality", json_string(out_words(&mv.v, buf)));
	else
		json_object_set_new(o, "why", json_string(mv.why));
	return o;
}

static json_t *json_of(const struct format_opts *f, const struct reading *r, const struct rrow *row,
		       size_t e, double time_s)
{
	const struct val *v = &row->v[e];
	bool counted = val_counted(row, v);
	double ipc = out_auto_ipc(f, r, row, e);
	json_t *o = json_row(r, row, time_s);
	char buf[LABELS_LEN], count[24];

	snprintf(count, sizeof(count), "%llu", (unsigned long long)v->count);
	json_object_set_new(o, "counter-value", json_string(out_spell(row, v, buf, false)));
	json_object_set_new(o, "count", json_string(count));
	json_object_set_new(o, "unit", json_string(*out_unit(r->events[e]) ? "ns" : ""));
	json_object_set_new(o, "event", json_string(r->events[e]));
	if (v->variance >= 0)
		json_object_set_new(o, "variance", json_real(round(v->variance * 100) / 100));
	if (!r->end_ns) /* what is kept has no times of counters */
		json_object_set_new(o, "event-runtime", json_integer((json_int_t)v->running_ns));
	json_object_set_new(o, "pcnt-running",
			    json_real(counted ? round(val_percent(v) * 100) / 100 : 0));
	if (counted)
		json_object_set_new(o, "quality", json_string(out_words(v, buf)));
	if (v->age_ns)
		json_object_set_new(o, "age-ns", json_integer((json_int_t)v->age_ns));
	if (row->late_ns)
		json_object_set_new(o, "late-ns", json_integer((json_int_t)row->late_ns));
	if (reading_why(r, row, e))
		json_object_set_new(o, "why", json_string(reading_why(r, row, e)));
	if (ipc >= 0) {
		json_object_set_new(o, "metric-value", json_sprintf("%.6f", ipc));
		json_object_set_new(o, "metric-unit", json_string(IPC_UNIT));
		json_object_set_new(o, "metric-quality",
				    json_string(output_ipc_words(r, row, e, buf)));
	}
	return o;
}

/* Print @o (taken) as one line. */
static void output_json_line(FILE *to, json_t *o)
{
	json_dumpf(o, to, JSON_COMPACT | JSON_REAL_PRECISION(12));
	fputc('\n', to);
	json_decref(o);
}

void out_json(const struct format_opts *f, const struct reading *r, double time_s)
{
	FILE *to = out_stream(f);

	for (size_t i = 0; i < r->nr_rows; i++) {
		for (size_t e = 0; e < r->nr_events; e++)
			output_json_line(to, json_of(f, r, &r->rows[i], e, time_s));
		for (size_t k = 0; k < nr_metrics(f); k++)
			output_json_line(to,
					 json_metric(r, &r->rows[i], &f->metrics->m[k], time_s));
	}
}
