/* SPDX-License-Identifier: GPL-2.0-or-later */
/* For fuzzers that use a bed of the unit tests: its assertions, those of tests/aarch64, abort. */
#ifndef TESTS_FUZZ_FUZZ_ASSERT_H
#define TESTS_FUZZ_FUZZ_ASSERT_H

#include <criterion/criterion.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

void cr_failed(bool fatal, const char *file, int line, const char *what, const char *fmt, ...)
{
	va_list ap;

	fprintf(stderr, "%s:%d: %s: ", file, line, what);
	va_start(ap, fmt);
	vfprintf(stderr, fmt, ap);
	va_end(ap);
	fprintf(stderr, "\n");
	abort();
}

#endif
