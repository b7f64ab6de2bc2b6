// SPDX-License-Identifier: GPL-2.0-or-later
/* cli/metrics.c, metric_value.c: what -M chooses, and that the value of a metric is never
 * better than the worst of its counts. The metrics that come with vpmu are found from the test's
 * folder. */
#include <math.h>

#include "folder_bed.h"
#include "cli/metrics.h"

static void begin(void)
{
	folder_begin();
	unsetenv("XDG_CONFIG_HOME");
	setenv("HOME", folder, 1);
}

TestSuite(cli_metrics, .init = begin, .fini = folder_end);

/* The labels that @list chooses and, behind "|", the events. */
static const char *chosen(const char *list, const char *events)
{
	static char text[1000];
	struct metrics ms;
	char err[600] = "", *all;
	size_t n = 0;

	if (metrics_choose(&ms, list, err, sizeof(err))) {
		cr_expect(!ms.m && !ms.known.metric && !ms.nr_files, "%s", list);
		snprintf(text, sizeof(text), "%s", err);
		return text;
	}
	for (size_t i = 0; i < ms.nr; i++)
		n += (size_t)snprintf(text + n, sizeof(text) - n, "%s%s", i ? " " : "",
				      ms.m[i].label);
	all = metrics_events(&ms, events);
	snprintf(text + n, sizeof(text) - n, "|%s", all);
	free(all);
	metrics_free(&ms);
	return text;
}

Test(cli_metrics, names)
{
	static const struct {
		int line;
		const char *list, *events, *want;
	} cases[] = {
		{__LINE__, "ipc", NULL, "ipc|instructions,cycles"},
		{__LINE__, "ipc,cpi", NULL, "ipc cpi|instructions,cycles"},
		{__LINE__, "ipc,ipc", NULL, "ipc|instructions,cycles"},
		{__LINE__, "ipc:u", NULL, "ipc:u|instructions:u,cycles:u"},
		{__LINE__, "ipc,ipc:uG", NULL,
		 "ipc ipc:uG|instructions,cycles,instructions:uG,cycles:uG"},
		{__LINE__, "kernel-share:H", NULL, "kernel-share:H|instructions:kH,instructions:H"},
		{__LINE__, "ipc", "loads,cycles", "ipc|loads,cycles,instructions"},
		{__LINE__, "ipc:u", "{cycles,loads}:u", "ipc:u|{cycles,loads}:u,instructions:u"},
		{__LINE__, "ipc", "not-an-event,cycles",
		 "ipc|not-an-event,cycles,instructions,cycles"},
		{__LINE__, "stall", NULL,
		 "frontend-stalls backend-stalls|stalled-cycles-frontend,cycles,"
		 "stalled-cycles-backend"},
		{__LINE__, "backend-stalls,stall:k", NULL,
		 "backend-stalls frontend-stalls:k backend-stalls:k|stalled-cycles-backend,cycles,"
		 "stalled-cycles-frontend:k,cycles:k,stalled-cycles-backend:k"},
		{__LINE__, "", NULL, "\"\": a name is empty; expected name[,name...]"},
		{__LINE__, "ipc,", NULL, "\"ipc,\": a name is empty; expected name[,name...]"},
		{__LINE__, "ipc:", NULL,
		 "\"ipc:\" is invalid; expected the modifiers u k h G H after \":\""},
		{__LINE__, "ipc:x", NULL,
		 "\"ipc:x\" is invalid; expected the modifiers u k h G H after \":\""},
		{__LINE__, "ghz:u", NULL,
		 "\"ghz:u\": event 'task-clock:u': the kernel does not separate user from kernel "
		 "for this event; expected 'task-clock'"},
		{__LINE__, "ip", NULL,
		 "\"ip\" is no metric; `vpmu metrics` lists them, and a path with \"/\" names a "
		 "file"},
		{__LINE__, "/nonexistent", NULL, "/nonexistent: No such file or directory"},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		cr_expect_str_eq(chosen(cases[i].list, cases[i].events), cases[i].want,
				 "line %d: %s", cases[i].line,
				 chosen(cases[i].list, cases[i].events));
}

Test(cli_metrics, files)
{
	char path[100], want[300];

	/* The user's file comes first, and a path is used as given, whatever else there is. */
	folder_put("/.config/vpmu/metrics/mine.metrics", "[ipc]\ndescription=x\nformula=loads\n");
	cr_expect_str_eq(chosen("ipc", NULL), "ipc|loads");
	cr_expect_str_eq(chosen("mine,cpi", NULL), "ipc cpi|loads,cycles,instructions");
	folder_put("/p.metrics", "[ipc]\ndescription=x\nformula=stores\n"
				 "[other]\ndescription=x\nformula=intel::r1a8 / cycles:u\n");
	snprintf(path, sizeof(path), "%s/p.metrics", folder);
	cr_expect_str_eq(chosen(path, NULL), "ipc other|stores,intel::r1a8,cycles:u");
	snprintf(path, sizeof(path), "ipc,%s/p.metrics", folder);
	cr_expect_str_eq(chosen(path, "stores"), "ipc ipc other|stores,loads,intel::r1a8,cycles:u");
	cr_expect(strstr(chosen("other", NULL), "\"other\" is no metric"));

	folder_put("/p.metrics", "# nothing\n");
	snprintf(path, sizeof(path), "%s/p.metrics", folder);
	snprintf(want, sizeof(want), "%s: no metric is defined there", path);
	cr_expect_str_eq(chosen(path, NULL), want);

	/* A file with a fault is no obstacle, unless a requested metric is not found. */
	folder_put("/.config/vpmu/metrics/bad.metrics", "[wanted]\n");
	cr_expect_str_eq(chosen("cpi", NULL), "cpi|cycles,instructions");
	snprintf(want, sizeof(want), "file; %s/.config/vpmu/metrics/bad.metrics:1: [wanted] has no",
		 folder);
	cr_expect(strstr(chosen("wanted", NULL), want), "%s", chosen("wanted", NULL));

	snprintf(path, sizeof(path), "%s/.config", folder);
	setenv("XDG_CONFIG_HOME", path, 1);
	cr_expect_str_eq(chosen("ipc", NULL), "ipc|loads");
	setenv("XDG_CONFIG_HOME", "/nonexistent", 1);
	cr_expect_str_eq(chosen("ipc", NULL), "ipc|instructions,cycles");
}

/* ---- values ------------------------------------------------------------------------------- */

static struct val val(uint64_t count, uint64_t enabled_ns, uint64_t running_ns, const char *quality)
{
	struct val v = {.count = count,
			.enabled_ns = enabled_ns,
			.running_ns = running_ns,
			.supported = true,
			.variance = -1};

	snprintf(v.quality, sizeof(v.quality), "%s", quality);
	return v;
}

#define NOT_SUPPORTED                                                                              \
	(struct val)                                                                               \
	{                                                                                          \
		.supported = false                                                                 \
	}

#define EXACT(n) val(n, 9, 9, "exact")

Test(cli_metrics, values)
{
	const struct {
		struct val instructions, cycles;
		enum metric_state state;
		const char *text, *quality;
		double percent;
		const char *why;
	} cases[] = {
		{EXACT(300), EXACT(200), METRIC_NUMBER, "1.50", "exact", 100, ""},
		{EXACT(300), val(200, 9, 9, "modelled"), METRIC_NUMBER, "1.50", "modelled", 100,
		 ""},
		{val(300, 9, 9, "partial"), val(200, 9, 9, "tsc partial"), METRIC_NUMBER, "1.50",
		 "partial tsc", 100, ""},
		{val(300, 9, 9, "estimated modelled"), val(200, 9, 9, "tsc partial"), METRIC_NUMBER,
		 "1.50", "estimated modelled tsc partial", 100, ""},
		/* 300 in a third of the time, 200 in half of it */
		{val(300, 900, 300, "exact"), val(200, 900, 450, "exact"), METRIC_NUMBER, "2.25",
		 "exact", 100.0 / 3, ""},
		{val(200, 900, 900, "exact"), val(200, 900, 450, "exact"), METRIC_NUMBER, "0.50",
		 "exact", 50, ""},
		{EXACT(0), EXACT(200), METRIC_NUMBER, "0.00", "exact", 100, ""},
		{EXACT(1), EXACT(400), METRIC_NUMBER, "0.0025", "exact", 100, ""},
		{EXACT(UINT64_MAX), EXACT(1), METRIC_NUMBER, "1.844674e+19", "exact", 100, ""},
		{EXACT(5), EXACT(0), METRIC_NO_RESULT, "<not counted>", "exact", 100,
		 "the formula divides by 0"},
		{EXACT(5), val(0, 9, 0, "exact"), METRIC_NOT_COUNTED, "<not counted>", "exact", 100,
		 "cycles was not counted"},
		{EXACT(5), NOT_SUPPORTED, METRIC_NOT_SUPPORTED, "<not supported>", "exact", 100,
		 "cycles is not supported"},
		{NOT_SUPPORTED, val(0, 9, 0, "exact"), METRIC_NOT_SUPPORTED, "<not supported>",
		 "exact", 100, "instructions is not supported"},
		{val(0, 9, 0, "exact"), NOT_SUPPORTED, METRIC_NOT_SUPPORTED, "<not supported>",
		 "exact", 100, "cycles is not supported"},
	};
	char instructions[] = "instructions", cycles[] = "cycles",
	     *events[] = {cycles, instructions};
	struct reading r = {.nr_events = 2, .events = events};
	struct metrics ms;

	cr_assert_eq(metrics_choose(&ms, "ipc", NULL, 0), 0);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct val v[] = {cases[i].cycles, cases[i].instructions};
		struct rrow row = {.v = v};
		struct metric_value mv;
		char buf[METRIC_TEXT];

		metric_value(&ms.m[0], &r, &row, &mv);
		cr_expect_eq(mv.state, cases[i].state, "row %zu", i);
		cr_expect_str_eq(metric_spell(&mv, buf), cases[i].text, "row %zu: %s", i,
				 metric_spell(&mv, buf));
		cr_expect_str_eq(mv.v.quality, cases[i].quality, "row %zu: %s", i, mv.v.quality);
		cr_expect(fabs(val_percent(&mv.v) - cases[i].percent) < 1e-6, "row %zu: %g", i,
			  val_percent(&mv.v));
		cr_expect_str_eq(mv.why, cases[i].why, "row %zu: %s", i, mv.why);
	}
	metrics_free(&ms);
}

Test(cli_metrics, rows_and_sessions_without_counts)
{
	char instructions[] = "instructions", cycles[] = "cycles", error[] = "it went away";
	char *events[] = {instructions, cycles};
	struct val v[] = {val(300, 9, 9, "exact"), val(200, 9, 9, "exact")};
	struct reading r = {.nr_events = 2, .events = events};
	struct rrow row = {.v = v, .error = error};
	struct metric_value mv;
	struct metrics ms;

	cr_assert_eq(metrics_choose(&ms, "ipc", NULL, 0), 0);
	metric_value(&ms.m[0], &r, &row, &mv);
	cr_expect_eq(mv.state, METRIC_NOT_COUNTED);
	row.error = NULL;
	r.nr_events = 1;
	metric_value(&ms.m[0], &r, &row, &mv);
	cr_expect_eq(mv.state, METRIC_NO_EVENT);
	cr_expect_str_eq(mv.why, "cycles is not an event of the session");
	metrics_free(&ms);
}
