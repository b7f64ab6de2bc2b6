/* SPDX-License-Identifier: GPL-2.0-or-later */
/* For lbr: compares a sample's branch records with the true history of its workload (flow.h). */
#pragma once

#include "guest-tools/sample.h"

/*
 * Both return the number of newest records of @g that are right. *want is the number expected; 0 if
 * the sample's registers contradict each other.
 * truth_chain - for chain_walk in call-stack mode: compares with the return addresses on its stack.
 * truth_branches - for workload_branches with all branches recorded and @g taken in its blocks.
 */
unsigned int truth_chain(const struct sampler *s, const struct guest_sample *g, unsigned int *want);
unsigned int truth_branches(const struct sampler *s, const struct guest_sample *g,
			    unsigned int *want);

/* truth_edge - returns true if the truth is unknown where @g was taken: in the kernel, or, if
 * @branches, outside the blocks of workload_branches. */
bool truth_edge(const struct guest_sample *g, bool branches);
