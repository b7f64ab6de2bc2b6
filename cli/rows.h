/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Prints answers that are lists of JSON objects as tables or as JSON lines: vpmu list, events,
 * check, sessions, conservation. Every field that a table shows is checked first.
 */
#pragma once

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
	COLUMN_MAY_MISS = 4 /* flag: the field is optional */
};

struct column {
	const char *title, *key;
	int type; /* enum column_type; title NULL ends a list of columns */
};

/*
 * The column of backends. If all objects have the same backend, it is replaced by the line "#
 * backend: NAME" above the table. If none has one, it is omitted.
 */
#define COLUMN_BACKEND                                                                             \
	{                                                                                          \
		"BACKEND", "backend", COLUMN_TEXT | COLUMN_MAY_MISS                                \
	}

/* rows_parse_json - parse a command line with the only option -j. Returns true if it was given. */
bool rows_parse_json(struct cli *cli, int argc, char **argv, const char *doc);

/* rows_ask - send the request @cmd without fields. Returns the array @key of the answer, or NULL
 * after an error was printed, or if @c is NULL. The caller must json_decref() *@answer, which may
 * be NULL. */
json_t *rows_ask(struct client *c, const char *cmd, const char *key, json_t **answer);

/* rows_check - returns true if @rows is an array of objects with the fields of @columns. Prints an
 * error if not. */
bool rows_check(const json_t *rows, const struct column *columns);

/* rows_one_backend - return the only backend in @rows. NULL: several (*@several) or none. */
const char *rows_one_backend(const json_t *rows, bool *several);

/* rows_note_left_out - a profile or capture covers one backend: print the backends that @answer, of
 * profile-start or lbr-attach, reports as left out. @cmd: "profile". */
void rows_note_left_out(const char *cmd, const json_t *answer);

/* rows_cell - format the field @key of @row: "" if it is missing. */
#define CELL_BYTES 400
void rows_cell(const json_t *row, const char *key, char buf[CELL_BYTES]);

/* rows_new_table - create an empty table. Free it with scols_unref_table(). */
struct libscols_table *rows_new_table(void);

/* rows_print - check @rows, then print them as JSON lines or as a table. Returns the exit status.
 */
int rows_print(const json_t *rows, const struct column *columns, bool json);
