/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A range of the past, asked of vpmud by the request `history` (docs/protocol.md): for `vpmu stat
 * --since` and `vpmu report --since`. Errors are printed, and begin with the command's name. A time
 * of which nothing is kept is an interval without an answer: nothing is made up.
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cli/client.h"
#include "cli/options.h"

#define HISTORY_VALUES_MAX 262144 /* of an answer, docs/protocol.md */

struct history_range {
	struct client *c;
	const char *cmd;		     /* the command, for messages */
	const char *target, *scope, *events; /* of the request; NULL: all */
	uint64_t from_ns, to_ns, step_ns;    /* set by history_range_clip(), _first() */
	uint64_t oldest_ns, newest_ns;	     /* of all that is kept */
};

/* history_range_check - exit with a usage error if the times are wrong; they may be not given.
 * history_range_times - parse them, with since given. */
void history_range_check(const char *cmd, const struct past_opts *o);
void history_range_times(const char *cmd, const struct past_opts *o, uint64_t *since_ns,
			 uint64_t *until_ns);

/* history_range_clip - set the range to what is kept of @since_ns to @until_ns. Returns false after
 * an error was printed: nothing is. */
bool history_range_clip(struct history_range *r, uint64_t since_ns, uint64_t until_ns);

/* history_range_first - return the answer with one value for all of the range, which names the
 * series, and end the range where they end. NULL after an error was printed. */
json_t *history_range_first(struct history_range *r, uint64_t until_ns);

/* Callbacks of history_range_walk(). answer: ticks of @answer follow. tick: an interval ended at
 * @end_ns, value @i of the answer's lists; SIZE_MAX: nothing is kept of it. */
struct history_visit {
	void (*answer)(void *arg, const json_t *answer);
	void (*tick)(void *arg, uint64_t begin_ns, uint64_t end_ns, size_t i);
	void *arg;
};

/* history_range_walk - visit all intervals of the range in turn, in answers of @nr series. Returns
 * false after an error was printed. */
bool history_range_walk(const struct history_range *r, size_t nr, const struct history_visit *v);
