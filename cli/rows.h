/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Answers that are lists of JSON objects, as tables for people or as JSON lines: vpmu list, events,
 * check, sessions, conservation. Every field that a table shows is checked first.
 */
#ifndef CLI_ROWS_H
#define CLI_ROWS_H

#include <jansson.h>
#include <libsmartcols.h>
#include <stdbool.h>
#include <stddef.h>

#include "cli/client.h"
#include "cli/options.h"

enum column_type {
	COLUMN_TEXT = 0,   /* a string */
	COLUMN_NUMBER = 1, /* an integer, or a 64-bit number as a string of digits; right aligned */
	COLUMN_BOOL = 2,   /* true and false, shown as yes and no */
	COLUMN_MAY_MISS = 4 /* added to one of the others: an object may be without the field */
};

struct column {
	const char *title, *key;
	int type; /* enum column_type; title NULL ends a list of columns */
};

/*
 * The column of backends. If all objects are of one backend, it is left out, and the line "#
 * backend: NAME" above the table names the backend. If no object has a backend, it is left out
 * without a word.
 */
#define COLUMN_BACKEND                                                                             \
	{                                                                                          \
		"BACKEND", "backend", COLUMN_TEXT | COLUMN_MAY_MISS                                \
	}

/* rows_parse_json - parse a command line that has no options but -j. Returns whether it was given.
 */
bool rows_parse_json(struct cli *cli, int argc, char **argv, const char *doc);

/* rows_ask - send the request @cmd, which has no fields. Returns the array @key of the answer, or
 * NULL after an error was printed. @c NULL: NULL. The caller must json_decref *answer, which may be
 * NULL. */
json_t *rows_ask(struct client *c, const char *cmd, const char *key, json_t **answer);

/* rows_check - whether @rows is an array of objects that have the fields of @columns. Prints an
 * error if not. */
bool rows_check(const json_t *rows, const struct column *columns);

/* rows_one_backend - the backend that all objects of @rows are of that have one. NULL: there are
 * several or none; *several says which. */
const char *rows_one_backend(const json_t *rows, bool *several);

/* rows_note_left_out - a profile or capture is of one backend. If @answer, of profile-start or
 * lbr-attach, names backends that are left out, say so on standard error. @cmd: "profile". */
void rows_note_left_out(const char *cmd, const json_t *answer);

/* rows_cell - the field @key of @row as text: "" if it is missing. */
#define CELL_BYTES 400
void rows_cell(const json_t *row, const char *key, char buf[CELL_BYTES]);

/* rows_new_table - an empty table. Free with scols_unref_table. */
struct libscols_table *rows_new_table(void);

/* rows_print - check @rows, then print them as JSON lines or as a table. Returns the exit status.
 */
int rows_print(const json_t *rows, const struct column *columns, bool json);

#endif
