/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The parts of selftest: each check prints one PASS or FAIL line. */
#ifndef GUEST_TOOLS_SELFTEST_H
#define GUEST_TOOLS_SELFTEST_H

#include "guest-tools/layout.h"

#include <stdbool.h>

/* selftest.c */
void check(const char *what, bool ok, uint64_t saw, uint64_t expected);
void check_equal(const char *what, uint64_t saw, uint64_t expected);

/* selftest_pmi.c: where there is no local APIC, or no branch records, a remark says so. */
void check_pmis(const struct guest_info *info);
void check_branch_records(const struct guest_info *info);

#endif
