/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Readings as text for people, as separated values and as JSON lines. */
#ifndef CLI_OUTPUT_H
#define CLI_OUTPUT_H

#include "cgroup/cli/reading.h"

/* out_group - @v with thousands separators into @buf; returns @buf. */
#define GROUP_LEN 32
char *out_group(uint64_t v, char buf[GROUP_LEN]);

/* out_short - @v in at most 6 columns: 999, 12.3k, 4.56M. */
#define SHORT_LEN 16
char *out_short(double v, char buf[SHORT_LEN]);

/* out_name - what a row is called in one word or path ("/acme", "web-1", "web-1/0"). */
void out_name(const struct rrow *row, char *buf, size_t len);

/* One value per line. @time_s: of the interval; below 0: none. out_csv: separator @sep. */
void out_lines(const struct reading *r, double time_s);
void out_csv(const struct reading *r, double time_s, const char *sep);
void out_json(const struct reading *r, double time_s);

/* out_quality - one line that says what a quality other than exact means. */
const char *out_quality(const char *quality);

/* Heading of out_lines, once per run. */
void out_lines_heading(const struct reading *r);

/* out_total - the final table: perf stat's lines for one row, else a table of rows by events (a
 * tree for tenants), cut into blocks of at most @width columns (0: no limit). */
void out_total(const struct reading *r, unsigned int width);

#endif
