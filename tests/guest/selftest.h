/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Interface between the two files of selftest. Each check prints one PASS or FAIL line. */
#ifndef TESTS_GUEST_SELFTEST_H
#define TESTS_GUEST_SELFTEST_H

#include "guest-tools/layout.h"

#include <stdbool.h>

/* selftest.c: print the line of check @what, and count it. check_equal passes if @saw == @expected.
 */
void check(const char *what, bool ok, uint64_t saw, uint64_t expected);
void check_equal(const char *what, uint64_t saw, uint64_t expected);

/* selftest_pmi.c. Without a local APIC or branch records, these print a remark instead. */
void check_pmis(const struct guest_info *info);
void check_branch_records(const struct guest_info *info);

struct user_fault {
	uint64_t vector, error, address;
};

/* user.S: user_try - call fn(arg). Returns 0 if it returned, or 1 with *fault set if it faulted. */
int user_try(void (*fn)(void *), void *arg, struct user_fault *fault);

#endif
