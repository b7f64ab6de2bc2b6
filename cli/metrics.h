/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The metrics that a command line asks for by -M, and their values. `vpmu stat`, `top`, `attach`,
 * `detach` and `metrics` use this. The definitions are in files (cli/metric/metric.h). A value
 * is never better than the worst count that it is computed from.
 */
#ifndef CLI_METRICS_H
#define CLI_METRICS_H

#include <stdbool.h>
#include <stddef.h>

#include "cli/reading.h"
#include "cli/metric/metric.h"

#define METRICS_FILES_MAX 16 /* that one command line may name by their paths */

/* A metric as it was asked for: "ipc", or "ipc:u" with modifiers for all of its events. */
struct chosen_metric {
	char *label;
	const struct metric *metric;
	char *event[FORMULA_EVENTS_MAX]; /* of its formula, with the modifiers */
};

struct metrics {
	struct chosen_metric *m;
	size_t nr;
	/* private: what pointers in m point to */
	struct metric_set known, file[METRICS_FILES_MAX];
	size_t nr_files;
};

/*
 * metrics_known - all metrics of the user's folder ($XDG_CONFIG_HOME/vpmu/metrics, else
 * ~/.config/vpmu/metrics) and of those that come with vpmu. Of two with one name the user's counts.
 * *set begins as all 0. @bad: see metric_set_folder. Returns what that returns.
 */
int metrics_known(struct metric_set *set, void (*bad)(const char *line, void *arg), void *arg);

/*
 * metrics_choose - set *@ms to the metrics that @list names: names of metrics, names of files that
 * metrics_known has looked at, without ".metrics", for all metrics of that file, and paths of
 * files, which contain "/". Names may have modifiers (ipc:u,branch:G). The caller must call
 * metrics_free. -EINVAL, -ENOENT and so on: *@ms is all 0, and @err has one line that says
 * why.
 */
int metrics_choose(struct metrics *ms, const char *list, char *err, size_t errlen);
void metrics_free(struct metrics *ms);

/* metrics_events - the list of events @events (NULL: none), and behind these those that the metrics
 * need and that are not in it. The caller frees it. */
char *metrics_events(const struct metrics *ms, const char *events);

/* metrics_ask - for the -M @list of the command @cmd: metrics_choose, then metrics_events. Ends the
 * program with one line if @list is wrong. */
char *metrics_ask(struct metrics *ms, const char *cmd, const char *list, const char *events);

enum metric_state {
	METRIC_NUMBER,	      /* there is a number */
	METRIC_NOT_SUPPORTED, /* a count that it needs is not supported */
	METRIC_NOT_COUNTED,   /* a count that it needs was not counted */
	METRIC_NO_EVENT,      /* the session has no such event */
	METRIC_NO_RESULT      /* the formula divides by 0, or the result is too large */
};

/* The value of a metric. */
struct metric_value {
	enum metric_state state;
	double number; /* METRIC_NUMBER */
	char why[160]; /* others: why there is no number */
	/*
	 * How good it is: the words of the quality of all counts that it is computed from, and the
	 * times of the count that was counted in the least part of the time, 0 if there is no
	 * number. The count means nothing.
	 */
	struct val v;
};

/* metric_value - the value of @m of the row @row of @r. Counts that were scaled up enter the
 * formula as such. Never a number if a count is missing or the formula divides by 0. */
void metric_value(const struct chosen_metric *m, const struct reading *r, const struct rrow *row,
		  struct metric_value *out);

/* metric_spell - the value in text: "1.28", "<not supported>" or "<not counted>". Small numbers
 * have more digits. metric_exactly - the same with 6 digits, for programs. Both return @buf or a
 * constant.
 */
#define METRIC_TEXT 40
const char *metric_spell(const struct metric_value *mv, char buf[METRIC_TEXT]);
const char *metric_exactly(const struct metric_value *mv, char buf[METRIC_TEXT]);

#endif
