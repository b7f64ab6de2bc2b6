/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Differential test: are two results the same, and the text of a difference. */
#ifndef TESTS_EMU_COMPARE_H
#define TESTS_EMU_COMPARE_H

#include <stdio.h>

#include "tests/emu/gen.h"
#include "tests/emu/host.h"
#include "vpmu/lbr.h"

/* Counts of one path through a sequence. */
struct path_counts {
	uint64_t insns, branches, taken, conditional, loads, stores;
	uint64_t recorded; /* of taken: those that stayed in CPL3 */
	struct vpmu_lbr_entry
		last[VPMU_LBR_DEPTH_MAX]; /* taken branch n is at n %; info: type only */
};

#define COMPARE_UNDEFINED 1u /* undefined flags too */
#define COMPARE_FP_FAULTS                                                                          \
	4u /* of an x87 or MMX instruction that faults, do not compare the x87 state, nor the      \
	      address of a page fault */
#define COMPARE_EITHER_FAULT                                                                       \
	2u /* of CMPS and CALL, which can fault for two reasons, accept both                       \
	    */

/* results_equal - everything observable but undefined flags; on a difference, what differs first
 * in @why. @how: COMPARE_*. @host: allow the variants of the CPU that made @nat; NULL: @nat is
 * the emulator's as well. */
bool results_equal(const struct dt_seq *q, const struct dt_result *nat,
		   const struct dt_result *emulator, unsigned int how,
		   const struct host_facts *host, char *why, size_t why_len);

/* path_count - count along the single-stepped path in @nat; false when it was not recorded. */
bool path_count(const struct dt_seq *q, const struct dt_result *nat, struct path_counts *out);

/* path_branches_equal - the records are the path's last taken branches. */
bool path_branches_equal(const struct path_counts *p, const struct vpmu_lbr_regs *l, char *why,
			 size_t why_len);

/* print_case - sequence, inputs and both results (either may be NULL). */
void print_case(FILE *f, const struct dt_seq *q, const struct dt_result *nat,
		const struct dt_result *emulator);

#endif
