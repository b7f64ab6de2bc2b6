/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The answer of `read` or `detach` as plain structures, and differences of two of them. The server
 * may be anything: every field is checked.
 */
#ifndef CLI_READING_H
#define CLI_READING_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum row_kind { ROW_ROOT, ROW_HOST, ROW_TENANT, ROW_VM, ROW_VCPU };

struct val {
	uint64_t count, enabled_ns, running_ns;
	char quality[16];
	bool supported;
};

struct rrow {
	uint64_t id;
	enum row_kind kind;
	unsigned int depth, vcpu;
	char *path, *vm, *error; /* vm, error: may be NULL */
	bool gone;
	struct val *v; /* nr_events */
};

struct reading {
	char *session, *target, *scope;
	uint64_t age_ns, dropped;
	size_t nr_events, nr_rows;
	char **events;
	struct rrow *rows;
};

/* reading_parse - NULL after an error was said on stderr. @answer is borrowed. */
struct reading *reading_parse(const json_t *answer);
void reading_free(struct reading *r);

/* reading_subtract - make @now the difference to @before (NULL: since the attach): rows of both
 * are matched by id. */
void reading_subtract(struct reading *now, const struct reading *before);

/* val_scaled - count * enabled / running, saturating; 0 when it never ran. val_percent - of the
 * time its account ran; 100 when that is none. */
uint64_t val_scaled(const struct val *v);
double val_percent(const struct val *v);
/* A count that stands for more than was counted, or that was never counted. */
bool val_is_scaled(const struct val *v);
bool val_not_counted(const struct rrow *row, const struct val *v);

/* reading_ipc_pair - the event with the cycles that event @e (instructions) is divided by, of the
 * same modifiers; -1: none. */
int reading_ipc_pair(const struct reading *r, size_t e);

const char *row_kind_name(enum row_kind kind);

#endif
