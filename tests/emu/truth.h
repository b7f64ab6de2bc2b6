/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Counting truth: a function run on the real CPU under PTRACE_SINGLESTEP, every instruction
 * decoded as it goes by. The counts of an exact PMU; slow (tens of microseconds per
 * instruction), so for short runs.
 */
#ifndef TESTS_EMU_TRUTH_H
#define TESTS_EMU_TRUTH_H

#include <stddef.h>
#include <stdint.h>

/* Counts from the function's first instruction to its return, both included. */
struct truth {
	uint64_t insns;
	uint64_t branches;
	uint64_t taken;
	uint64_t conditional;
	uint64_t loads; /* instructions that loaded; a rep string instruction with RCX = 0 does not
			 */
	uint64_t stores;
	uint64_t ret; /* its result (RAX) */
};

/* A branch that was taken: type as in IA32_LBR_x_INFO. */
struct truth_branch {
	uint64_t from, to, next;
	uint64_t insn; /* it was the how manieth instruction */
	unsigned int type;
};

/* All of them, in order; zeroed = empty; the caller frees b. */
struct truth_log {
	struct truth_branch *b;
	size_t nr, room;
};

/* An instruction that was executed, and its further counts. */
enum { TRUTH_BRANCH = 1, TRUTH_TAKEN = 2, TRUTH_LOAD = 4, TRUTH_STORE = 8, TRUTH_CONDITIONAL = 16 };

struct truth_step {
	uint64_t rip;
	unsigned int what;
};

/* All of them, in order; zeroed = empty; the caller frees s. */
struct truth_steps {
	struct truth_step *s;
	size_t nr, room;
};

/*
 * truth_call - count @fn(args[0], ..., args[5]) in a forked child; its effects on memory stay in
 * the child. truth_count - the same for @fn(@arg).
 * 0, or -errno: -EINTR the function died (a line on stderr has the cause), -ENOEXEC an instruction
 * Zydis does not know, -EPERM no ptrace here. Call from a process with one thread.
 */
int truth_call(const void *fn, const uint64_t args[6], struct truth *out);
/* truth_record - like truth_call, and every taken branch goes to @log (-ENOMEM). */
int truth_record(const void *fn, const uint64_t args[6], struct truth *out, struct truth_log *log);
/* truth_steps - like truth_call, and every instruction goes to @steps (-ENOMEM). */
int truth_steps(const void *fn, const uint64_t args[6], struct truth *out,
		struct truth_steps *steps);
int truth_count(void (*fn)(void *), void *arg, struct truth *out);

#endif
