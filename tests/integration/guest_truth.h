/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Where a guest's samples must be. The workloads are one object file for guests and host tests, so
 * single-stepping one natively and moving the addresses to where the image has it gives every
 * instruction of a guest's measured run (SYS_RUN) in CPL3, and what each counts.
 */
#ifndef TESTS_INTEGRATION_GUEST_TRUTH_H
#define TESTS_INTEGRATION_GUEST_TRUTH_H

#include <stddef.h>
#include <stdint.h>

#include "tests/emu/truth.h"

/*
 * The run in CPL3, from the first instruction behind the enabling write: step 0 is user_call's
 * CALL, then the workload to its RET, last user_call's SYSCALL. Kernel instructions between are
 * left out.
 */
struct guest_step {
	uint64_t next;	   /* the guest's RIP once it has retired: where its sample is */
	unsigned int what; /* TRUTH_* */
	unsigned int cpl;  /* there: 0 behind a SYSCALL */
};

struct guest_truth {
	const char *workload;
	uint64_t n;
	struct guest_step *step;
	size_t nr;
};

/* guest_truth_open - single-step @workload with argument @n; symbols from the image @elf. Fails
 * the test (bed_must) when it cannot. guest_truth_close frees. */
void guest_truth_open(struct guest_truth *t, const char *elf, const char *workload, uint64_t n);
void guest_truth_close(struct guest_truth *t);

/* guest_truth_mask - the TRUTH_* of "branches-taken:u" and so on; 0: "instructions:u". */
unsigned int guest_truth_mask(const char *event);

/* guest_truth_count - events of the whole run: every instruction (@mask 0) or those with @mask. */
uint64_t guest_truth_count(const struct guest_truth *t, unsigned int mask);

/* guest_truth_at - the step with which the count reaches @count (from 1), or NULL. */
const struct guest_step *guest_truth_at(const struct guest_truth *t, unsigned int mask,
					uint64_t count);

/* guest_symbol - address of the image's symbol @name; bed_must. */
uint64_t guest_symbol(const char *elf, const char *name);

#endif
