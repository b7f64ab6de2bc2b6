/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Writes a profile in pprof's format, a gzipped protocol buffer, for `go tool pprof`, speedscope
 * and many services for continuous profiling. A sample has the labels vm, vcpu, tenant, side, pid
 * and comm where known. Called by vpmu profile and vpmu lbr, from one thread.
 */
#ifndef CLI_PPROF_H
#define CLI_PPROF_H

#include <stdint.h>
#include <stdio.h>

#include "cli/chain.h"
#include "cli/field.h"
#include "cli/images.h"

struct pprof;

/* Description of the samples. Strings are copied. */
struct pprof_about {
	const char *samples; /* name of the first value, 1 per sample: "samples" or "readings" */
	const char *event;   /* each sample stands for @period of these events; NULL: for none */
	uint64_t period;
	int64_t start_ns;    /* since the epoch, UTC */
	int64_t duration_ns; /* 0: unknown */
};

/* pprof_new - create a profile without samples. Free it with pprof_free(). */
struct pprof *pprof_new(const struct pprof_about *about);
void pprof_free(struct pprof *p);

/* pprof_comment - add a line that readers show with the profile. */
void pprof_comment(struct pprof *p, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* pprof_add_answer - add "chains" of @answer, and "other-chains" as samples of one place, "[other
 * chains]". An empty chain is one place, "[no calls]". Invalid fields are recorded in @f. */
void pprof_add_answer(struct pprof *p, struct fields *f, struct images *im, const json_t *answer);

/* pprof_write - write the profile to @f. Returns 0 or -ENOMEM; write errors are left in @f. */
int pprof_write(const struct pprof *p, FILE *f);

#endif
