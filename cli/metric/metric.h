/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Reads the text files that define derived metrics (vpmu-metrics(5)), for the command `vpmu`. A
 * metric computes a number from counts of events. The files are untrusted: each error is one line
 * with the file and the line. Nothing here may count.
 *
 *   [ipc]
 *   description = Instructions per cycle
 *   formula = instructions / cycles
 *   unit = insn per cycle
 */
#pragma once

#include <stddef.h>

#include "cli/metric/formula.h"

#define METRIC_FILE_MAX	 65536 /* bytes of a file */
#define METRIC_LINE_MAX	 1000  /* bytes of a line */
#define METRIC_NAME_MAX	 32
#define METRIC_COUNT_MAX 1000 /* of one set */
#define METRIC_SUFFIX	 ".metrics"

struct metric {
	char *name;	   /* letters, digits, "-" and "_" */
	char *description; /* one line */
	char *unit;	   /* "" if there is none */
	char *text;	   /* of the formula */
	char *file;	   /* where it is from */
	struct formula formula;
};

struct metric_set {
	struct metric *metric;
	size_t nr;
};

/*
 * metric_set_text - add the metrics defined in the @len bytes @text to *@set, which starts zeroed.
 * A metric with a name that is in the set already is skipped. @file: the name of the text for
 * messages and for metric.file. The events of all formulas must be valid for vpmu_event_parse();
 * raw codes (rHEX) need a vendor (intel::r1a8).
 *
 * -EINVAL, -E2BIG: nothing was added, and @err has one line: "file:line: error, expected value".
 * Any thread; takes libpfm's lock.
 */
int metric_set_text(struct metric_set *set, const char *file, const char *text, size_t len,
		    char *err, size_t errlen);
/* metric_set_file - the same for the contents of the regular file @path. Also -ENOENT and other
 * errors of reading. */
int metric_set_file(struct metric_set *set, const char *path, char *err, size_t errlen);

/*
 * metric_set_folder - add the metrics of all files NAME.metrics in the directory @path, in the
 * order of their names. An invalid file is skipped after a call of @bad with the error line. A
 * missing directory is empty. Returns 0, or -errno if the directory is unreadable, also after a
 * call of @bad.
 */
int metric_set_folder(struct metric_set *set, const char *path,
		      void (*bad)(const char *line, void *arg), void *arg);

/* metric_set_find - return the metric @name (@len bytes); NULL: none. */
const struct metric *metric_set_find(const struct metric_set *set, const char *name, size_t len);

/* metric_set_free - free and zero *@set. */
void metric_set_free(struct metric_set *set);
