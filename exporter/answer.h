/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Queries the server and parses its answers: a field that is absent or has a wrong type is an
 * error, never a number. Strings belong to the answer. metrics.c and metric_rows.c call it. No
 * state; one thread.
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct answer_value {
	uint64_t count, enabled_ns, running_ns, age_ns;
	const char *quality; /* quality words: docs/protocol.md */
	bool supported;
};

/* A row of `read`. */
struct answer_row {
	uint64_t id, since_us, late_ns;
	const char *backend, *path;
	const char *vm;	   /* NULL: the row of a path */
	const char *error; /* NULL: none */
	bool gone, root;
	struct answer_value *values;
};

/* answer_rows - parse the rows of @read, each with @nr_events values, to *@out, a single allocation
 * that the caller frees; *@nr: their number. -EPROTO: @read violates the protocol. */
int answer_rows(const json_t *read, size_t nr_events, struct answer_row **out, size_t *nr);

/* answer_ask - send @req (taken) over the open @connection and wait for the answer; see struct
 * metrics_opts.ask. */
int answer_ask(void *connection, json_t *req, json_t **resp, char *err, size_t errlen);

/* answer_u64 - read a number of @o, an integer or a string of digits. Returns false if there is
 * none. */
bool answer_u64(const json_t *o, const char *key, uint64_t *v);
