// SPDX-License-Identifier: GPL-2.0-or-later
/* Lists of JSON objects as tables or JSON lines: see rows.h. */
#include <stdio.h>
#include <string.h>

#include "cli/client.h"
#include "cli/error.h"
#include "cli/field.h"
#include "cli/rows.h"
#include "service/program/memory.h"

bool rows_parse_json(struct cli *cli, int argc, char **argv, const char *doc)
{
	const struct argp argp = {
		.options = cli_json_argp.options, .parser = cli_json_argp.parser, .doc = doc};
	bool json = false;

	cli_parse(cli, &argp, argc, argv, NULL, &json);
	return json;
}

json_t *rows_ask(struct client *c, const char *cmd, const char *key, json_t **answer)
{
	struct fields f = {0};

	*answer = c ? client_simple(c, cmd) : NULL;
	if (!*answer)
		return NULL;
	field_array(&f, *answer, key);
	return fields_ok(&f) ? json_object_get(*answer, key) : NULL;
}

static void check_field(struct fields *f, const json_t *row, const struct column *c)
{
	bool missing = !json_object_get(row, c->key);

	if (missing && (c->type & COLUMN_MAY_MISS))
		return;
	switch (c->type & ~COLUMN_MAY_MISS) {
	case COLUMN_NUMBER:
		if (!json_is_integer(json_object_get(row, c->key)))
			field_u64(f, row, c->key);
		break;
	case COLUMN_BOOL:
		field_bool(f, row, c->key);
		break;
	default:
		field_string(f, row, c->key);
	}
}

bool rows_check(const json_t *rows, const struct column *columns)
{
	struct fields f = {0};
	const json_t *row;
	size_t i;

	json_array_foreach (rows, i, row)
		for (const struct column *c = columns; c->title; c++)
			check_field(&f, row, c);
	return fields_ok(&f);
}

const char *rows_one_backend(const json_t *rows, bool *several)
{
	const char *one = NULL;
	const json_t *row;
	size_t i;

	*several = false;
	json_array_foreach (rows, i, row) {
		const char *backend = json_string_value(json_object_get(row, "backend"));

		*several |= one && backend && strcmp(one, backend) != 0;
		if (backend)
			one = backend;
	}
	return *several ? NULL : one;
}

void rows_note_left_out(const char *cmd, const json_t *answer)
{
	const json_t *backend;
	size_t i;

	json_array_foreach (json_object_get(answer, "left-out"), i, backend)
		if (json_is_string(backend))
			cli_error("%s: VMs that backend %s counts are left out", cmd,
				  json_string_value(backend));
}

void rows_cell(const json_t *row, const char *key, char buf[CELL_BYTES])
{
	const json_t *v = json_object_get(row, key);

	buf[0] = '\0';
	if (json_is_string(v))
		snprintf(buf, CELL_BYTES, "%s", json_string_value(v));
	else if (json_is_integer(v))
		snprintf(buf, CELL_BYTES, "%lld", (long long)json_integer_value(v));
	else if (json_is_boolean(v))
		snprintf(buf, CELL_BYTES, "%s", json_is_true(v) ? "yes" : "no");
}

struct libscols_table *rows_new_table(void)
{
	struct libscols_table *t = scols_new_table();

	if (!t)
		memory_out();
	scols_table_set_termforce(t, SCOLS_TERMFORCE_NEVER);
	return t;
}

/* Return true if some of the objects have a backend and others have none. */
static bool some_without_backend(const json_t *rows)
{
	size_t i, with = 0;
	const json_t *row;

	json_array_foreach (rows, i, row)
		with += json_object_get(row, "backend") != NULL;
	return with && with < json_array_size(rows);
}

/* Return true if @c is the column of backends and must be omitted. */
static bool left_out(const struct column *c, bool several_backends)
{
	return strcmp(c->key, "backend") == 0 && !several_backends;
}

static void rows_print_table(const json_t *rows, const struct column *columns)
{
	struct libscols_table *t = rows_new_table();
	const char *backend = NULL;
	char buf[CELL_BYTES];
	bool several;
	const json_t *row;
	size_t i;

	backend = rows_one_backend(rows, &several);
	several |= some_without_backend(rows);
	for (const struct column *c = columns; c->title; c++)
		if (!left_out(c, several))
			scols_table_new_column(
				t, c->title, 0,
				(c->type & ~COLUMN_MAY_MISS) == COLUMN_NUMBER ? SCOLS_FL_RIGHT : 0);
	json_array_foreach (rows, i, row) {
		struct libscols_line *line = scols_table_new_line(t, NULL);
		size_t cell = 0;

		if (!line)
			memory_out();
		for (const struct column *c = columns; c->title; c++) {
			if (left_out(c, several))
				continue;
			rows_cell(row, c->key, buf);
			scols_line_set_data(line, cell++, buf);
		}
	}
	if (backend && !several)
		printf("# backend: %s\n", backend);
	scols_print_table(t);
	scols_unref_table(t);
}

int rows_print(const json_t *rows, const struct column *columns, bool json)
{
	const json_t *row;
	size_t i;

	if (!rows_check(rows, columns))
		return 1;
	if (!json) {
		rows_print_table(rows, columns);
		return 0;
	}
	json_array_foreach (rows, i, row) {
		json_dumpf(row, stdout, JSON_COMPACT);
		putchar('\n');
	}
	return 0;
}
