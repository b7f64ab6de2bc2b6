// SPDX-License-Identifier: GPL-2.0-or-later
/* Batch mode of vpmu top: see top.h. */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "cli/error.h"
#include "cli/metrics.h"
#include "cli/output.h"
#include "cli/terminal.h"
#include "cli/top.h"
#include "cli/top_view.h"
#include "cli/wait.h"

static void top_batch_print_table(const struct top_source *src, struct top_view *v)
{
	const char *backend = reading_backend(v->diff);
	char line[VIEW_LINE], stamp[32], marks[MARKS_LEGEND];
	time_t now = time(NULL);
	struct tm tm;

	strftime(stamp, sizeof(stamp), "%H:%M:%S", localtime_r(&now, &tm));
	printf("vpmu top - %s - events per second over %.2f s%s%s\n", stamp, src->seconds,
	       backend ? " - backend: " : "", backend ? backend : "");
	view_fit(v, 0);
	view_line(v, -1, line, NULL);
	puts(line);
	for (size_t i = 0; i < v->nr_rows; i++) {
		view_line(v, (long)v->order[i], line, NULL);
		puts(line);
	}
	marks_legend(v->marks, marks);
	if (*marks)
		puts(marks + 2);
	putchar('\n');
}

/* Format the rate like a count, with two decimals. */
static const char *rate_text(const struct top_view *v, size_t row, size_t e, char buf[GROUP_LEN])
{
	const struct rrow *r = &v->diff->rows[row];
	double rate = view_rate(v, row, e);

	if (rate < 0)
		return out_spell(r, &r->v[e], buf, false);
	snprintf(buf, GROUP_LEN, "%.2f", rate);
	return buf;
}

/* Return the least running share of a row's events; 0 if none was counted. */
static double top_batch_running(const struct top_view *v, size_t row)
{
	double percent = view_running(v, row);

	return percent < 0 ? 0 : percent;
}

/* Print a line with a rate or a metric. @words: the quality, "" without a number. */
static void top_batch_csv_line(const struct top_source *src, const struct top_view *v, size_t row,
			       const char *number, const char *unit, const char *name,
			       const char *words, const char *sep)
{
	const struct rrow *r = &v->diff->rows[row];
	const struct top_fact *fact = &src->facts[row];
	char text[GROUP_LEN];

	printf("%.9f%s", src->age_s, sep);
	out_field(stdout, number, sep);
	out_field(stdout, unit, sep);
	out_field(stdout, name, sep);
	out_field(stdout, r->path, sep);
	out_field(stdout, r->vm, sep);
	snprintf(text, sizeof(text), "%u", r->vcpu);
	out_field(stdout, r->kind == ROW_VCPU ? text : "", sep);
	out_field(stdout, words, sep);
	out_field(stdout, r->backend, sep);
	snprintf(text, sizeof(text), "%u/%u", fact->running, fact->vms);
	out_field(stdout, r->kind <= ROW_TENANT ? text : fact->state, sep);
	snprintf(text, sizeof(text), "%.2f", fact->share);
	out_field(stdout, fact->share < 0 ? "" : text, sep);
	printf("%.2f\n", top_batch_running(v, row));
}

/* Print one object: @o (taken) has the fields of the rate or the metric. */
static void top_batch_json_line(const struct top_source *src, const struct top_view *v, size_t row,
				json_t *o)
{
	const struct rrow *r = &v->diff->rows[row];
	const struct top_fact *fact = &src->facts[row];
	json_t *line = json_pack("{s:f, s:s, s:s, s:s*}", "interval", round(src->age_s * 1e9) / 1e9,
				 "kind", row_kind_name(r->kind), "tenant", r->path, "vm", r->vm);

	if (r->kind == ROW_VCPU)
		json_object_set_new(line, "vcpu", json_integer(r->vcpu));
	if (r->backend)
		json_object_set_new(line, "backend", json_string(r->backend));
	json_object_update(line, o);
	if (r->kind <= ROW_TENANT) {
		json_object_set_new(line, "running-vms", json_integer(fact->running));
		json_object_set_new(line, "vms", json_integer(fact->vms));
	} else if (*fact->state) {
		json_object_set_new(line, "state", json_string(fact->state));
	}
	if (fact->share >= 0)
		json_object_set_new(line, "cpu-percent", json_real(round(fact->share * 100) / 100));
	json_object_set_new(line, "pcnt-running",
			    json_real(round(top_batch_running(v, row) * 100) / 100));
	if (r->gone)
		json_object_set_new(line, "gone", json_true());
	out_json_as_of(line, v->diff);
	json_dumpf(line, stdout, JSON_COMPACT | JSON_REAL_PRECISION(12));
	putchar('\n');
	json_decref(line);
	json_decref(o);
}

static void print_event(const struct top_source *src, const struct top_view *v, size_t row,
			size_t e, const struct format_opts *f)
{
	const struct rrow *r = &v->diff->rows[row];
	char buf[LABELS_LEN], text[GROUP_LEN];
	const char *words = val_counted(r, &r->v[e]) ? out_words(&r->v[e], buf) : "";
	const char *rate = rate_text(v, row, e, text), *name = v->diff->events[e];

	if (f->json)
		top_batch_json_line(src, v, row,
				    json_pack("{s:s, s:s, s:s, s:s*}", "event", name, "rate", rate,
					      "unit", "/s", "quality", *words ? words : NULL));
	else
		top_batch_csv_line(src, v, row, rate, "/s", name, words, f->sep);
}

static void top_batch_print_metric(const struct top_source *src, const struct top_view *v,
				   size_t row, const struct chosen_metric *m,
				   const struct format_opts *f)
{
	char buf[LABELS_LEN], text[METRIC_TEXT];
	const char *unit = m->metric->unit, *words = "", *number;
	struct metric_value mv;

	metric_value(m, v->diff, &v->diff->rows[row], &mv);
	number = metric_exactly(&mv, text);
	if (mv.state == METRIC_NUMBER)
		words = out_words(&mv.v, buf);
	if (f->json)
		top_batch_json_line(src, v, row,
				    json_pack("{s:s, s:s, s:s, s:s*, s:s*}", "metric", m->label,
					      "metric-value", number, "metric-unit", unit,
					      "quality", *words ? words : NULL, "why",
					      mv.state == METRIC_NUMBER ? NULL : mv.why));
	else
		top_batch_csv_line(src, v, row, number, unit, m->label, words, f->sep);
}

/* Print a row for programs; without the default metrics, which are for people. */
static void top_batch_print_row(const struct top_source *src, const struct top_view *v, size_t row,
				const struct top_opts *o)
{
	for (size_t e = 0; e < v->diff->nr_events; e++)
		if (view_has(v, TOP_EVENT, e))
			print_event(src, v, row, e, &o->format);
	for (size_t k = 0; !o->metrics_optional && k < o->format.metrics->nr; k++)
		top_batch_print_metric(src, v, row, &o->format.metrics->m[k], &o->format);
}

static void top_batch_print(const struct top_source *src, const struct top_opts *o)
{
	const struct top_look look = {.filter = o->filter};
	struct top_view v;

	view_init(&v, src, &look);
	if (!o->format.json && !o->format.sep) {
		top_batch_print_table(src, &v);
	} else {
		for (size_t i = 0; i < v.nr_rows; i++)
			top_batch_print_row(src, &v, v.order[i], o);
	}
	view_fini(&v);
	terminal_flush();
}

int top_batch(struct top_source *src, const struct top_opts *o)
{
	double next = cli_now();

	if (cli_wait_init())
		return 1;
	for (long i = 0; (!o->iterations || i < o->iterations) && !ferror(stdout); i++) {
		enum cli_wait why;

		next += o->delay_s;
		why = cli_wait(next, client_fd(src->c));
		if (why == CLI_WAIT_STOP)
			return 0;
		if (why == CLI_WAIT_SERVER_GONE) {
			cli_error("top: the server went away");
			return 1;
		}
		if (!top_take(src))
			return 1;
		top_batch_print(src, o);
	}
	return 0;
}
