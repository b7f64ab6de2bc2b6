/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Prints readings as one value per line: as text (intervals), separated values or JSON lines.
 * vpmu(1), OUTPUT, documents the fields. Also formats numbers and names for all other output.
 */
#pragma once

#include "cli/options.h"
#include "cli/reading.h"

/* out_group - write @v with thousands separators to @buf; returns @buf. */
#define GROUP_LEN 32
char *out_group(uint64_t v, char buf[GROUP_LEN]);

/* out_short - write @v in up to 6 columns to @buf: 999, 12.3k, 4.56M. Returns @buf. */
#define SHORT_LEN 16
char *out_short(double v, char buf[SHORT_LEN]);

/* out_name - write the name of a row: "/acme", "web-1" or "web-1/0" (a vCPU). */
#define NAME_LEN 400
void out_name(const struct rrow *row, char buf[NAME_LEN]);

/* out_quality - return a one-line explanation of a quality word ("modelled"). */
const char *out_quality(const char *word);

/* out_not_exact - return the quality if it is not "exact", else NULL. */
const char *out_not_exact(const char *quality);

/* out_labels - write " (word)" to @buf for each word of @quality and @more (may be NULL) but
 * "exact", each once. Returns @buf. */
#define LABELS_LEN 80
char *out_labels(const char *quality, const char *more, char buf[LABELS_LEN]);

/* out_unit - return the unit in which perf prints the event @name: "msec" for task-clock
 * and cpu-clock, whose counts are nanoseconds, and for idle-time, a part of them; else "". */
const char *out_unit(const char *name);

/* out_spell - format the count like perf: digits, "<not supported>" or "<not counted>". @group:
 * with thousands separators. */
const char *out_spell(const struct rrow *row, const struct val *v, char buf[GROUP_LEN], bool group);

/* out_spell_in - as out_spell(), but in @unit, from out_unit(). With @group a time has 2 decimals,
 * as in perf; else all 6, so that no nanosecond is lost. */
const char *out_spell_in(const char *unit, const struct rrow *row, const struct val *v,
			 char buf[GROUP_LEN], bool group);

/* out_stream - the stream for the output of @f. */
FILE *out_stream(const struct format_opts *f);

/* out_variance - write "  ( +-  1.23% )" to @buf if @v is the mean of several runs, else "".
 * Returns @buf. */
#define VARIANCE_LEN 32
char *out_variance(const struct val *v, char buf[VARIANCE_LEN]);

/*
 * out_lines_heading - print the heading of out_lines(). If all rows are of one backend, it names
 * the backend. Otherwise there is a column for it. Print it again when the backends change.
 */
void out_lines_heading(const struct format_opts *f, const struct reading *r);
/* out_lines, out_csv, out_json - print one value per line. @time_s: seconds since the attach, for
 * intervals; below 0: no such field. out_csv() needs @f->sep. */
void out_lines(const struct format_opts *f, const struct reading *r, double time_s);
void out_csv(const struct format_opts *f, const struct reading *r, double time_s);
void out_json(const struct format_opts *f, const struct reading *r, double time_s);

/* out_json_as_of - add the times of @r to @o, if the server reports them. */
void out_json_as_of(json_t *o, const struct reading *r);

/* out_auto_ipc - return the instructions per cycle to print beside instructions; below 0: none, or
 * -M was given. */
double out_auto_ipc(const struct format_opts *f, const struct reading *r, const struct rrow *row,
		    size_t e);

/* out_words - return the quality words for programs, in @buf, a string of @v or a constant. A
 * multiplexed value is "scaled" and never "exact", because it is an estimate. */
const char *out_words(const struct val *v, char buf[LABELS_LEN]);

/* out_field - print @text (NULL: empty) and @sep. A text that contains the separator is quoted. */
void out_field(FILE *to, const char *text, const char *sep);
