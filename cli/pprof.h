/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A profile in the format of pprof: a gzipped protocol buffer, which `go tool pprof`, speedscope
 * and many services for continuous profiling read. A sample has the labels vm, vcpu, tenant, side
 * and pid as far as they are known. vpmu profile and vpmu lbr call this, from one thread.
 */
#ifndef CLI_PPROF_H
#define CLI_PPROF_H

#include <stdint.h>
#include <stdio.h>

#include "cli/chain.h"
#include "cli/field.h"
#include "cli/images.h"

struct pprof;

/* What the samples are. Strings are copied. */
struct pprof_about {
	const char *samples; /* what is counted once for each: "samples" or "readings" */
	const char *event; /* each stands for @period of them; NULL: they stand for nothing else */
	uint64_t period;
	int64_t start_ns;    /* since 1970, UTC */
	int64_t duration_ns; /* 0: not known */
};

/* pprof_new - a profile without samples. Free with pprof_free. */
struct pprof *pprof_new(const struct pprof_about *about);
void pprof_free(struct pprof *p);

/* pprof_comment - add a line that readers show with the profile. */
void pprof_comment(struct pprof *p, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* pprof_add_answer - add the "chains" of @answer, and its "other-chains" as samples of one place,
 * "[other chains]". An empty chain is one place, "[no calls]". Wrong fields are in @f. */
void pprof_add_answer(struct pprof *p, struct fields *f, struct images *im, const json_t *answer);

/* pprof_write - write the profile to @f. 0 or -ENOMEM; errors of writing are in @f. */
int pprof_write(const struct pprof *p, FILE *f);

#endif
