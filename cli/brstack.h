/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Prints branch records like `perf script -F ip,brstack --show-mmap-events`, for llvm-profgen and
 * converters for AutoFDO and BOLT. vpmu lbr calls this, from one thread.
 */
#ifndef CLI_BRSTACK_H
#define CLI_BRSTACK_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "cli/capture.h"

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

#endif
