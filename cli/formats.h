/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Formats of other tools, written by vpmu profile and vpmu lbr from one thread.
 *
 * pprof.c writes a profile in pprof's format, a gzipped protocol buffer, for `go tool pprof`,
 * speedscope and many services for continuous profiling. A sample has the labels vm, vcpu, tenant,
 * side, pid and comm where known.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "cli/capture.h"
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

/*
 * perf_script.c prints samples like `perf script --ns -F comm,pid,time,period,event,ip,sym,dso`,
 * for FlameGraph's stackcollapse-perf.pl and speedscope.
 */
/* Each sample stands for @period events. */
struct perf_script_about {
	const char *event;
	uint64_t period;
};

/* Information missing from the output. */
struct perf_script_gaps {
	uint64_t left_out; /* samples left out: the server had no room for their call chains */
	bool no_times;	   /* the server had no room for all of the requested times */
};

/* perf_script_print - print each sample of @answer (of profile-stop, or lbr-detach with chains) to
 * @f: by time if each has one, else chain by chain. Invalid fields are recorded in @fields. */
void perf_script_print(const struct perf_script_about *about, struct fields *fields,
		       struct images *im, const json_t *answer, FILE *f,
		       struct perf_script_gaps *gaps);

/*
 * brstack.c prints branch records like `perf script -F ip,brstack --show-mmap-events`, for
 * llvm-profgen and converters for AutoFDO and BOLT.
 */
/* State of the output. Starts zeroed. */
struct brstack {
	struct brstack_vcpu *vcpu; /* progress of each vCPU */
	size_t nr;
	uint64_t lines;	 /* readings with new branches */
	uint64_t images; /* number of different images */
};

/*
 * brstack_print - print the branches of @c recorded since the last call for the same vCPU on one
 * line, newest first; before the first one, the mapping of the VM's image. Everything older than a
 * branch with an unknown address is left out, because readers infer the code between two adjacent
 * branches. Cycles are 0 (unknown) if they are modelled or not recorded. Write errors are left in
 * @f.
 */
void brstack_print(struct brstack *b, struct images *im, const struct capture *c, FILE *f);
void brstack_free(struct brstack *b);
