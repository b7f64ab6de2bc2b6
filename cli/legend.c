// SPDX-License-Identifier: GPL-2.0-or-later
/* The lines below a table of counts; see legend.h. */
#include <string.h>

#include "cli/legend.h"
#include "cli/output.h"
#include "cli/when.h"

/* Explain each word of a quality that occurs, once. Returns true if there was one. */
static bool print_qualities(FILE *to, const struct reading *r)
{
	static const char *const words[] = {"modelled", "estimated", "tsc",
					    "partial",	"aged",	     "late"};
	bool any = false;

	for (size_t k = 0; k < sizeof(words) / sizeof(words[0]); k++) {
		uint64_t max_ns = 0, ns;
		bool found = false;

		for (size_t i = 0; i < r->nr_rows; i++)
			for (size_t e = 0; e < r->nr_events; e++) {
				const struct val *v = &r->rows[i].v[e];

				if (!val_counted(&r->rows[i], v) || !val_has(v, words[k]))
					continue;
				found = true;
				ns = !strcmp(words[k], "late")	 ? r->rows[i].late_ns
				     : !strcmp(words[k], "aged") ? v->age_ns
								 : 0;
				max_ns = ns > max_ns ? ns : max_ns;
			}
		if (max_ns && !r->end_ns)
			fprintf(to, " %s (up to %.3f s)\n", out_quality(words[k]),
				(double)max_ns / 1e9);
		else if (found)
			fprintf(to, " %s\n", out_quality(words[k]));
		any |= found;
	}
	return any;
}

/* Print why metrics have no number, each reason once, unless the count itself shows it. */
static bool print_reasons(FILE *to, const struct metrics *ms, const struct reading *r)
{
	bool any = false;

	for (size_t k = 0; ms && k < ms->nr; k++) {
		struct metric_value mv;
		char said[sizeof(mv.why)] = "";

		for (size_t i = 0; i < r->nr_rows; i++) {
			metric_value(&ms->m[k], r, &r->rows[i], &mv);
			if (mv.state == METRIC_NUMBER || mv.state == METRIC_NOT_COUNTED ||
			    strcmp(mv.why, said) == 0)
				continue;
			strcpy(said, mv.why);
			fprintf(to, " %s: %s: %s\n", ms->m[k].label,
				mv.state == METRIC_NOT_SUPPORTED ? "not supported" : "not counted",
				mv.why);
			any = true;
		}
	}
	return any;
}

/* Print why events are not supported. Returns true if there was one. */
static bool print_unsupported(FILE *to, const struct reading *r)
{
	bool backends = reading_backends(r) > 1;

	for (size_t i = 0; i < r->nr_unsupported; i++)
		fprintf(to, " %s: not supported%s%s: %s\n", r->unsupported[i].event,
			backends ? " by backend " : "", backends ? r->unsupported[i].backend : "",
			r->unsupported[i].why);
	return r->nr_unsupported > 0;
}

bool legend_print(FILE *to, const struct reading *r, const struct metrics *ms)
{
	bool any = print_unsupported(to, r), scaled = false;

	any |= print_reasons(to, ms, r);

	for (size_t i = 0; i < r->nr_rows; i++) {
		const struct rrow *row = &r->rows[i];

		if (row->error) {
			fprintf(to, " %s%s%s: not counted: %s\n", row->path, row->vm ? " " : "",
				row->vm ? row->vm : "", row->error);
			any = true;
		}
		for (size_t e = 0; e < r->nr_events; e++)
			scaled |= val_counted(row, &row->v[e]) && val_is_scaled(&row->v[e]);
	}
	any |= print_qualities(to, r);
	if (scaled)
		fputs(" (n%): the event was counted in n% of the time and the count scaled up to "
		      "all of it\n",
		      to);
	if (r->dropped)
		fprintf(to,
			" %llu rows of removed VMs or tenants were dropped; their counts are in "
			"the tenants above them\n",
			(unsigned long long)r->dropped);
	return any || scaled || r->dropped;
}

static char *legend_width(const struct moment *m, char buf[40])
{
	if (m->width_ns == UINT64_MAX)
		snprintf(buf, 40, "an unknown time");
	else
		snprintf(buf, 40, "%.3f ms", (double)m->width_ns / 1e6);
	return buf;
}

void legend_as_of(FILE *to, const char *mark, const struct reading *r)
{
	char when[WHEN_LEN], end[40], start[40];

	if (r->to_us)
		fprintf(to,
			"%s as of %s.%06u, read within %s; the counts are of %.9f s, which began "
			"within %s\n",
			mark, when_text(r->to_us * 1000, when), (unsigned int)(r->to_us % 1000000),
			legend_width(&r->to, end), reading_seconds(r),
			legend_width(&r->from, start));
}

void legend_meanings(FILE *to, const struct metrics *ms)
{
	fputc('\n', to);
	for (size_t k = 0; k < ms->nr; k++)
		fprintf(to, " %s: %s%s%s\n", ms->m[k].label, ms->m[k].metric->description,
			*ms->m[k].metric->unit ? ", in " : "", ms->m[k].metric->unit);
}
