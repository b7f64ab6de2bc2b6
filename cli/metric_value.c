// SPDX-License-Identifier: GPL-2.0-or-later
/* Values of metrics; see metrics.h. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "cli/metrics.h"

/* Add the words of @from that @to lacks. "exact" stands for no other word. */
static void add_words(struct val *to, const char *from)
{
	while (*from) {
		size_t n = strcspn(from, " "), len = strlen(to->quality);
		char word[sizeof(to->quality)];

		snprintf(word, sizeof(word), "%.*s", (int)n, from);
		if (n && strcmp(word, "exact") && !val_has(to, word))
			snprintf(to->quality + len, sizeof(to->quality) - len, "%s%s",
				 len ? " " : "", word);
		from += n;
		from += *from == ' ';
	}
}

static const struct val *metric_value_find(const struct reading *r, const struct rrow *row,
					   const char *event)
{
	for (size_t e = 0; e < r->nr_events; e++)
		if (strcmp(r->events[e], event) == 0)
			return &row->v[e];
	return NULL;
}

/* Record that there is no number because of @event. METRIC_NOT_SUPPORTED overrides other
 * reasons. */
static void no_number(struct metric_value *out, enum metric_state state, const char *event,
		      const char *why)
{
	if (out->state == METRIC_NUMBER ||
	    (out->state != METRIC_NOT_SUPPORTED && state == METRIC_NOT_SUPPORTED)) {
		out->state = state;
		snprintf(out->why, sizeof(out->why), "%.100s %s", event, why);
	}
}

static void metric_value_compute(const struct formula *f, const double *value,
				 struct metric_value *out)
{
	int ret = formula_compute(f, value, &out->number);

	if (!ret)
		return;
	out->state = METRIC_NO_RESULT;
	snprintf(out->why, sizeof(out->why), "%s",
		 ret == -EDOM ? "the formula divides by 0" : "the result is too large");
}

void metric_value(const struct chosen_metric *m, const struct reading *r, const struct rrow *row,
		  struct metric_value *out)
{
	const struct formula *f = &m->metric->formula;
	double value[FORMULA_EVENTS_MAX];

	*out = (struct metric_value){.v = {.supported = true, .variance = -1}};
	for (size_t i = 0; i < f->nr_events; i++) {
		const struct val *v = metric_value_find(r, row, m->event[i]);

		if (!v) {
			no_number(out, METRIC_NO_EVENT, m->event[i],
				  "is not an event of the session");
			continue;
		}
		if (!v->supported)
			no_number(out, METRIC_NOT_SUPPORTED, m->event[i], "is not supported");
		else if (!val_counted(row, v))
			no_number(out, METRIC_NOT_COUNTED, m->event[i], "was not counted");
		value[i] = (double)val_scaled(v);
		add_words(&out->v, v->quality);
		if (!i || val_percent(v) < val_percent(&out->v)) {
			out->v.enabled_ns = v->enabled_ns;
			out->v.running_ns = v->running_ns;
		}
	}
	if (!out->v.quality[0])
		strcpy(out->v.quality, "exact");
	if (out->state == METRIC_NUMBER)
		metric_value_compute(f, value, out);
	if (out->state != METRIC_NUMBER)
		out->v.enabled_ns = out->v.running_ns = 0;
}

static const char *spell(const struct metric_value *mv, int digits, char buf[METRIC_TEXT])
{
	if (mv->state == METRIC_NOT_SUPPORTED)
		return "<not supported>";
	if (mv->state != METRIC_NUMBER)
		return "<not counted>";
	if (fabs(mv->number) < 1e15)
		snprintf(buf, METRIC_TEXT, "%.*f", digits, mv->number);
	else
		snprintf(buf, METRIC_TEXT, "%.6e", mv->number);
	return buf;
}

const char *metric_spell(const struct metric_value *mv, char buf[METRIC_TEXT])
{
	return spell(mv, mv->number != 0 && fabs(mv->number) < 0.1 ? 4 : 2, buf);
}

const char *metric_exactly(const struct metric_value *mv, char buf[METRIC_TEXT])
{
	return spell(mv, 6, buf);
}
