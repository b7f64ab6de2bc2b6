/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The metrics selected by -M, and their values. Used by `vpmu stat`, `top`, `attach`, `detach` and
 * `metrics`. Definitions are in files (cli/metric/metric.h). A value must never look better than
 * the worst count that it is computed from.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "cli/reading.h"
#include "cli/metric/metric.h"

#define METRICS_FILES_MAX 16 /* files named by path on one command line */

/* A selected metric: "ipc", or "ipc:u" with modifiers for all of its events. */
struct chosen_metric {
	char *label;
	const struct metric *metric;
	char *event[FORMULA_EVENTS_MAX]; /* of its formula, with the modifiers */
};

struct metrics {
	struct chosen_metric *m;
	size_t nr;
	/* private: owners of the metrics in @m */
	struct metric_set known, file[METRICS_FILES_MAX];
	size_t nr_files;
};

/*
 * metrics_known - load all metrics of the user's folder ($XDG_CONFIG_HOME/vpmu/metrics, else
 * ~/.config/vpmu/metrics) and of vpmu's own, which must have some; for a duplicate name, the
 * user's.
 * *@set starts zeroed.
 * @bad and the return value: see metric_set_folder().
 */
int metrics_known(struct metric_set *set, void (*bad)(const char *line, void *arg), void *arg);

/*
 * metrics_choose - set *@ms to the metrics in @list: names of metrics; names of files found by
 * metrics_known(), without ".metrics", for all metrics of the file; and paths of files, which
 * contain "/". Names may have modifiers (ipc:u,branch:G). The caller must call metrics_free(). On
 * -errno (-EINVAL, -ENOENT and others) *@ms is zeroed and @err has one line.
 */
int metrics_choose(struct metrics *ms, const char *list, char *err, size_t errlen);
void metrics_free(struct metrics *ms);

/* metrics_events - append to the list @events (NULL: none) the missing events that the metrics
 * need. The caller frees the new list. */
char *metrics_events(const struct metrics *ms, const char *events);

/* metrics_ask - metrics_choose(), then metrics_events(), for the -M @list of the command @cmd.
 * Exits with one line on standard error if @list is invalid. */
char *metrics_ask(struct metrics *ms, const char *cmd, const char *list, const char *events);

/* metrics_names - return the items of the -M @list that are names, not paths: another user, or the
 * same one elsewhere, must not read a file because a session names it. The caller frees it; NULL:
 * none. */
char *metrics_names(const char *list);

enum metric_state {
	METRIC_NUMBER,	      /* there is a number */
	METRIC_NOT_SUPPORTED, /* a required event is not supported */
	METRIC_NOT_COUNTED,   /* a required event was not counted */
	METRIC_NO_EVENT,      /* the session lacks a required event */
	METRIC_NO_RESULT      /* the formula divides by 0, or the result is too large */
};

/* The value of a metric. */
struct metric_value {
	enum metric_state state;
	double number; /* METRIC_NUMBER */
	char why[160]; /* others: why there is no number */
	/*
	 * Its quality: the quality words of all its counts, and the times of its count with the
	 * least running share; 0 without a number. The count is unused.
	 */
	struct val v;
};

/* metric_value - compute @m for the row @row of @r. Multiplexed counts are scaled first. There is
 * no number if a count is missing or the formula divides by 0. */
void metric_value(const struct chosen_metric *m, const struct reading *r, const struct rrow *row,
		  struct metric_value *out);

/* metric_spell - format the value: "1.28", "<not supported>" or "<not counted>". Small numbers have
 * more digits. metric_exactly - the same with 6 digits, for programs. Both return @buf or a
 * constant. */
#define METRIC_TEXT 40
const char *metric_spell(const struct metric_value *mv, char buf[METRIC_TEXT]);
const char *metric_exactly(const struct metric_value *mv, char buf[METRIC_TEXT]);
