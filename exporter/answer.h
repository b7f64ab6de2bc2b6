/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Asking the server, and what its answers say, checked: a field that is not there or of another
 * type is an error, and never a number. Strings belong to the answer. Pure but for memory.
 */
#ifndef EXPORTER_ANSWER_H
#define EXPORTER_ANSWER_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct answer_value {
	uint64_t count, enabled_ns, running_ns, age_ns;
	const char *quality; /* its words: docs/protocol.md */
	bool supported;
};

/* A row of `read`. */
struct answer_row {
	uint64_t id, since_us;
	const char *backend, *path;
	const char *vm;	   /* NULL: a path's */
	const char *error; /* NULL: none */
	bool gone, root;
	struct answer_value *values;
};

/* answer_rows - the rows of @read, each with @nr_events values, to *@out, which the caller frees in
 * one piece; *@nr: how many. -EPROTO: @read does not follow the protocol; -ENOMEM. */
int answer_rows(const json_t *read, size_t nr_events, struct answer_row **out, size_t *nr);

/* answer_ask - send @req, which is taken (NULL: out of memory), over @connection, which is open,
 * and wait for its answer: struct metrics_opts.ask. */
int answer_ask(void *connection, json_t *req, json_t **resp, char *err, size_t errlen);

/* answer_u64 - a number of @o, an integer or a string of digits. False: there is none. */
bool answer_u64(const json_t *o, const char *key, uint64_t *v);

#endif
