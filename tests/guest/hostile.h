/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The commands torture, leak and victim of the tests' guest image: arguments as in
 * guest-tools/args.h, and a system call that only they make. */
#ifndef TESTS_GUEST_HOSTILE_H
#define TESTS_GUEST_HOSTILE_H

#include "guest-tools/args.h"

#define ARGS_OPS_MAX 1000000000u

struct args_torture {
	uint64_t seed, ops; /* default 1, 10000 */
	bool json;
};

struct args_leak {
	uint64_t rounds;  /* default 10 */
	uint64_t spin;	  /* instructions to spin, so that a switch happens; default 100000 */
	uint64_t address; /* where the copy of the workload is mapped */
	bool json;
};

struct args_victim {
	uint64_t address;
	uint64_t rounds; /* 0: endless */
};

bool args_torture_parse(const char *s, struct args_torture *a, char *err);
bool args_leak_parse(const char *s, struct args_leak *a, char *err);
bool args_victim_parse(const char *s, struct args_victim *a, char *err);

int64_t sys_exec(const void *code, size_t bytes, uint64_t va); /* SYS_EXEC of layout.h */

#endif
