/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Branch records of a sample against what is known of the workload they were taken from. */
#ifndef GUEST_TOOLS_TRUTH_H
#define GUEST_TOOLS_TRUTH_H

#include "guest-tools/sample.h"

/*
 * How many of the newest records of @g agree with the truth; *want: how many there should be, 0
 * when the truth does not exist (registers that contradict each other). truth_chain - chain_walk
 * sampled in call-stack mode with its stack: the return addresses. truth_branches -
 * workload_branches, every branch recorded, and @g taken inside of its blocks.
 */
unsigned int truth_chain(const struct sampler *s, const struct guest_sample *g, unsigned int *want);
unsigned int truth_branches(const struct sampler *s, const struct guest_sample *g,
			    unsigned int *want);

/* truth_edge - whether @g was taken where the truth is not known: in the kernel, or outside of the
 * blocks of workload_branches when @branches. */
bool truth_edge(const struct guest_sample *g, bool branches);

#endif
