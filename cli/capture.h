/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Parses the branch records of one vCPU from an answer of lbr-read, and prints them for vpmu
 * lbr. */
#pragma once

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
	const char *backend;   /* NULL: not reported */
	const char *error;     /* not NULL: reading failed, and why */
	const char *source;    /* "guest": the guest's own records; else "capture" */
	const char *mode;      /* "call-stack", "branches", "calls" or "custom" */
	uint64_t total;	       /* records made so far */
	struct branch *branch; /* newest first */
	size_t nr;
};

/* capture_parse - parse one row of the answer. Invalid fields are recorded in @f. Call
 * capture_fini() in any case. */
void capture_parse(struct fields *f, const json_t *row, struct capture *c);
void capture_fini(struct capture *c);

/* capture_want - name the host's user code in it at the next images_look(). */
void capture_want(struct images *im, const struct capture *c);

/* capture_print, capture_print_json - print to standard output, as text or as one JSON line. */
void capture_print(struct images *im, const struct capture *c);
void capture_print_json(struct images *im, const struct capture *c);
