/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * One-line error messages: what failed, where, and what would be accepted. Everything that checks
 * input of an operator or a client calls this. The text may quote that input, so control characters
 * never get through: a terminal or a log would act on them.
 */
#ifndef VPMU_UTIL_FAIL_H
#define VPMU_UTIL_FAIL_H

#include <stddef.h>

/* fail - write one line to @err (@errlen bytes; may be NULL) and return @ret, a negative errno. Any
 * thread. */
int fail(int ret, char *err, size_t errlen, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));

#endif
