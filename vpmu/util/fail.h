/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * One-line error messages, for all code that checks input of operators and clients. A message gives
 * the place, the fault and the expected form. It may quote the input, so control characters, on
 * which a terminal or a log would act, never get through.
 */
#pragma once

#include <stddef.h>

/* fail - write one line to @err (@errlen bytes; may be NULL) and return @ret, a negative errno.
 * Characters outside printable ASCII become '?'. Any thread. */
int fail(int ret, char *err, size_t errlen, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));
