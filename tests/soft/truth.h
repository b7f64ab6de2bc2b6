/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Counting truth: a function run on the real CPU under PTRACE_SINGLESTEP, every instruction
 * decoded as it goes by. What a PMU that counts exactly would say; slow (tens of microseconds per
 * instruction), so for short runs.
 */
#ifndef TESTS_SOFT_TRUTH_H
#define TESTS_SOFT_TRUTH_H

#include <stdint.h>

/* Counts from the function's first instruction to its return, both included. */
struct truth {
	uint64_t insns;
	uint64_t branches;
	uint64_t taken;
	uint64_t loads; /* instructions that loaded; a rep string instruction with RCX = 0 does not
			 */
	uint64_t stores;
	uint64_t ret; /* what it returned (RAX) */
};

/*
 * truth_call - count @fn(args[0], ..., args[5]) in a forked child; its effects on memory stay in
 * the child. truth_count - the same for @fn(@arg).
 * 0, or -errno: -EINTR the function died (a line on stderr says of what), -ENOEXEC an instruction
 * Zydis does not know, -EPERM no ptrace here. Call from a process with one thread.
 */
int truth_call(const void *fn, const uint64_t args[6], struct truth *out);
int truth_count(void (*fn)(void *), void *arg, struct truth *out);

#endif
