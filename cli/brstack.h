/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Branch records as `perf script -F ip,brstack --show-mmap-events` prints them, which llvm-profgen
 * and converters for AutoFDO and BOLT read. vpmu lbr calls this, from one thread.
 */
#ifndef CLI_BRSTACK_H
#define CLI_BRSTACK_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "cli/capture.h"

/* What was printed so far. A zeroed struct: nothing. */
struct brstack {
	struct brstack_vcpu *vcpu; /* who was read, and how far */
	size_t nr;
	uint64_t lines;	 /* readings with branches that were not printed before */
	uint64_t images; /* different images that the code is of */
};

/*
 * brstack_print - print the branches of @c that were made since the last call for the same vCPU, in
 * one line, newest first, and before it where the code of a VM's image is, once. What lies before a
 * branch whose addresses are not known is left out, because readers conclude from two neighbours
 * what ran between them. Cycles are 0, which means unknown, where they are modelled or not
 * recorded. Errors of writing are in @f.
 */
void brstack_print(struct brstack *b, struct images *im, const struct capture *c, FILE *f);
void brstack_free(struct brstack *b);

#endif
