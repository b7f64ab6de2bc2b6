// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Parses metric files; see metric.h. libinih is not used, because it truncates lines after 200
 * bytes, and formulas of libpfm4 names are longer. A file with one error adds nothing: half of a
 * file would be mistaken for all of it.
 */
#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/metric/metric.h"
#include "service/program/memory.h"
#include "vpmu/event/event.h"
#include "vpmu/util/fail.h"
#include "vpmu/util/utf8.h"

#define NAME_CHARS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_"
#define BLANKS	   " \t\r"

static const char accepted[] = "expected [name], \"description = TEXT\", \"formula = FORMULA\", "
			       "\"unit = TEXT\", # comment";

struct reader {
	const struct metric_set *known;
	struct metric_set found;
	const char *file;
	unsigned int line, begun; /* the current line, and that of the metric's name */
	bool skip;		  /* the name is in the set already: only check the metric */
	char *err;
	size_t errlen;
};

static int metric_wrong(const struct reader *r, int ret, unsigned int line, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));

static int metric_wrong(const struct reader *r, int ret, unsigned int line, const char *fmt, ...)
{
	char text[400];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	return fail(ret, r->err, r->errlen, "%s:%u: %s", r->file, line, text);
}

static void free_metric(struct metric *m)
{
	free(m->name);
	free(m->description);
	free(m->unit);
	free(m->text);
	free(m->file);
	formula_free(&m->formula);
	*m = (struct metric){0};
}

/* ---- one metric --------------------------------------------------------------------------- */

/* Look up the events of a formula. */
static int check_events(const struct reader *r, const struct metric *m)
{
	char why[300];
	vpmu_key_t key;

	for (size_t i = 0; i < m->formula.nr_events; i++) {
		const char *name = m->formula.event[i];
		int ret = vpmu_event_parse(name, 0, &key, why, sizeof(why));

		if (ret)
			return metric_wrong(r, -EINVAL, r->line, "formula: %s%s", why,
					    strchr(name, '-') ? "; a minus needs blanks around it"
							      : "");
	}
	return 0;
}

static int end_metric(struct reader *r)
{
	struct metric *m = r->found.nr ? &r->found.metric[r->found.nr - 1] : NULL;

	if (!m)
		return 0;
	if (!m->text || !m->description)
		return metric_wrong(
			r, -EINVAL, r->begun,
			"[%s] has no %s; needed: description and formula, and unit if it has one",
			m->name, m->text ? "description" : "formula");
	if (!m->unit)
		m->unit = xstrdup("");
	if (r->skip) {
		free_metric(m);
		r->found.nr--;
	}
	return 0;
}

static int begin_metric(struct reader *r, char *line)
{
	char *name = line + 1, *end = strchr(line, ']');
	int ret = end_metric(r);

	if (ret)
		return ret;
	if (!end || end[1 + strspn(end + 1, BLANKS)])
		return metric_wrong(r, -EINVAL, r->line, "not a name in brackets; %s", accepted);
	*end = '\0';
	if (!*name || name[strspn(name, NAME_CHARS)] || strlen(name) > METRIC_NAME_MAX)
		return metric_wrong(r, -EINVAL, r->line,
				    "[%.40s] is not the name of a metric; expected 1 to %d "
				    "letters, digits, - and _",
				    name, METRIC_NAME_MAX);
	if (metric_set_find(&r->found, name, strlen(name)))
		return metric_wrong(r, -EINVAL, r->line, "[%s] is given twice; give it once", name);
	if (r->found.nr + r->known->nr >= METRIC_COUNT_MAX)
		return metric_wrong(r, -E2BIG, r->line, "more than %d metrics", METRIC_COUNT_MAX);
	r->found.metric = xreallocarray(r->found.metric, r->found.nr + 1, sizeof(*r->found.metric));
	r->found.metric[r->found.nr++] =
		(struct metric){.name = xstrdup(name), .file = xstrdup(r->file)};
	r->begun = r->line;
	r->skip = metric_set_find(r->known, name, strlen(name));
	return 0;
}

static int set_formula(struct reader *r, struct metric *m)
{
	char why[200];
	int ret = formula_parse(&m->formula, m->text, why, sizeof(why));

	return ret ? metric_wrong(r, ret, r->line, "%s", why) : check_events(r, m);
}

static int set_key(struct reader *r, char *line)
{
	struct metric *m = r->found.nr ? &r->found.metric[r->found.nr - 1] : NULL;
	char *value = strchr(line, '='), **to = NULL, *end;

	if (!value)
		return metric_wrong(r, -EINVAL, r->line, "\"%.40s\"; %s", line, accepted);
	for (end = value; end > line && strchr(BLANKS, end[-1]); end--)
		;
	*end = '\0';
	value++;
	value += strspn(value, BLANKS);
	if (m && !strcmp(line, "description"))
		to = &m->description;
	else if (m && !strcmp(line, "formula"))
		to = &m->text;
	else if (m && !strcmp(line, "unit"))
		to = &m->unit;
	if (!m)
		return metric_wrong(r, -EINVAL, r->line, "\"%.40s\" before the first [name]; %s",
				    line, accepted);
	if (!to)
		return metric_wrong(r, -EINVAL, r->line, "\"%.40s\" is not a key; %s", line,
				    accepted);
	if (*to)
		return metric_wrong(r, -EINVAL, r->line, "%s is given twice; give it once", line);
	if (!*value)
		return metric_wrong(r, -EINVAL, r->line,
				    "%s is empty; leave it out or give a value", line);
	*to = xstrdup(value);
	return to == &m->text ? set_formula(r, m) : 0;
}

/* ---- lines -------------------------------------------------------------------------------- */

static int metric_read_line(struct reader *r, const char *text, size_t len)
{
	char line[METRIC_LINE_MAX + 1], *p = line;

	r->line++;
	while (len && strchr(BLANKS, text[len - 1]) && text[len - 1])
		len--;
	if (len > METRIC_LINE_MAX)
		return metric_wrong(r, -EINVAL, r->line, "line of %zu bytes; expected up to %d",
				    len, METRIC_LINE_MAX);
	memcpy(line, text, len);
	line[len] = '\0';
	if (strlen(line) != len || !utf8_text(line))
		return metric_wrong(
			r, -EINVAL, r->line,
			"bytes that are not text; expected UTF-8 without control characters");
	p += strspn(p, BLANKS);
	if (!*p || *p == '#')
		return 0;
	return *p == '[' ? begin_metric(r, p) : set_key(r, p);
}

int metric_set_text(struct metric_set *set, const char *file, const char *text, size_t len,
		    char *err, size_t errlen)
{
	struct reader r = {.known = set, .file = file, .err = err, .errlen = errlen};
	int ret = 0;

	if (len > METRIC_FILE_MAX)
		return fail(-E2BIG, err, errlen, "%s: longer than %d bytes", file, METRIC_FILE_MAX);
	while (len && !ret) {
		const char *nl = memchr(text, '\n', len);
		size_t n = nl ? (size_t)(nl - text) : len;

		ret = metric_read_line(&r, text, n);
		n += nl != NULL;
		text += n;
		len -= n;
	}
	if (!ret)
		ret = end_metric(&r);
	if (!ret && r.found.nr) {
		set->metric =
			xreallocarray(set->metric, set->nr + r.found.nr, sizeof(*set->metric));
		memcpy(set->metric + set->nr, r.found.metric, r.found.nr * sizeof(*set->metric));
		set->nr += r.found.nr;
		r.found.nr = 0;
	}
	metric_set_free(&r.found);
	return ret;
}

const struct metric *metric_set_find(const struct metric_set *set, const char *name, size_t len)
{
	for (size_t i = 0; i < set->nr; i++)
		if (strncmp(set->metric[i].name, name, len) == 0 && !set->metric[i].name[len])
			return &set->metric[i];
	return NULL;
}

void metric_set_free(struct metric_set *set)
{
	for (size_t i = 0; i < set->nr; i++)
		free_metric(&set->metric[i]);
	free(set->metric);
	*set = (struct metric_set){0};
}
