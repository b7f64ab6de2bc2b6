/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The branch records of one vCPU, as lbr-read answers them, and how vpmu lbr prints them. */
#ifndef CLI_CAPTURE_H
#define CLI_CAPTURE_H

#include <jansson.h>
#include <stdbool.h>

#include "cli/chain.h"
#include "cli/field.h"

struct branch {
	struct place from, to;
	const char *type;
	int cycles; /* since the record before; -1: not recorded */
};

/* Strings belong to the answer. */
struct capture {
	const char *vm;
	unsigned int vcpu;
	const char *backend;   /* NULL: the server does not say */
	const char *error;     /* not NULL: the records could not be read, and why */
	const char *source;    /* "guest": the guest's own records; else "capture" */
	const char *mode;      /* "call-stack", "branches", "calls" or "custom" */
	uint64_t total;	       /* records made so far */
	struct branch *branch; /* newest first */
	size_t nr;
};

/* capture_parse - read one row of the answer. Wrong fields are in @f. The
 * caller must call capture_fini. */
void capture_parse(struct fields *f, const json_t *row, struct capture *c);
void capture_fini(struct capture *c);

/* capture_is_call_stack - whether the records are calls that have not returned. */
bool capture_is_call_stack(const struct capture *c);
/* capture_chain - the call chain of such records: where the newest call led to, then where each
 * call came from. */
void capture_chain(const struct capture *c, struct chain *out);

/* capture_print, capture_print_json - print it on standard output, for people or as one JSON line.
 */
void capture_print(struct images *im, const struct capture *c);
void capture_print_json(struct images *im, const struct capture *c);

#endif
