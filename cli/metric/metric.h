/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Derived metrics and the text files that define them (vpmu-metrics(5)). The command `vpmu` reads
 * these files. A metric says how a number is computed from the counts of events; nothing here
 * counts. The files are hostile: every refusal is one line that names the file and the line.
 *
 *   [ipc]
 *   description = Instructions per cycle
 *   formula = instructions / cycles
 *   unit = insn per cycle
 */
#ifndef CLI_METRIC_METRIC_H
#define CLI_METRIC_METRIC_H

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
 * metric_set_text - add the metrics that the @len bytes @text define to *@set, which begins as all
 * 0. A metric of a name that the set already had is not added: the first one counts. @file: the
 * name of the text for messages and for metric.file. The events of all formulas are events that
 * vpmu_event_parse accepts; raw codes (rHEX) need a vendor (intel::r1a8).
 *
 * -EINVAL, -E2BIG: nothing was added, and @err has one line: "file:line: what, what is
 * accepted". Any thread; takes libpfm's lock.
 */
int metric_set_text(struct metric_set *set, const char *file, const char *text, size_t len,
		    char *err, size_t errlen);
/* metric_set_file - the same with the contents of the regular file @path. Also -ENOENT and so on.
 */
int metric_set_file(struct metric_set *set, const char *path, char *err, size_t errlen);

/*
 * metric_set_folder - add the metrics of all files NAME.metrics in the folder @path, in the order
 * of their names. For each file that has a fault @bad is called with the line that says so, and its
 * metrics are left out. A folder that does not exist has no metrics. Or why the folder
 * cannot be read; then @bad was called for that, too.
 */
int metric_set_folder(struct metric_set *set, const char *path,
		      void (*bad)(const char *line, void *arg), void *arg);

/* metric_set_find - the metric @name (@len bytes); NULL: the set has none. */
const struct metric *metric_set_find(const struct metric_set *set, const char *name, size_t len);

/* metric_set_free - *@set becomes all 0. */
void metric_set_free(struct metric_set *set);

#endif
