/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * As much of Criterion as libvpmu's unit tests use, for builds in which Criterion does not run: it
 * executes itself, which qemu-user does not pass on to the foreign program. criterion.c has main().
 * Each test runs in a process of its own. A message must be a string literal.
 */
#ifndef TESTS_AARCH64_CRITERION_CRITERION_H
#define TESTS_AARCH64_CRITERION_CRITERION_H

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct cr_test {
	const char *suite, *name;
	void (*fn)(void);
	void (*init)(void), (*fini)(void);
	bool disabled;
	struct cr_test *next;
};

/* A test with a NULL name is a suite: its init and fini are those of its tests that have none. */
void cr_register(struct cr_test *t);
void cr_failed(bool fatal, const char *file, int line, const char *what, const char *fmt, ...);
void cr_skip(const char *fmt, ...) __attribute__((noreturn));

#define CR_REGISTER(id, ...)                                                                       \
	static __attribute__((constructor)) void id##_register(void)                               \
	{                                                                                          \
		static struct cr_test t = {__VA_ARGS__};                                           \
                                                                                                   \
		cr_register(&t);                                                                   \
	}

#define TestSuite(s, ...) CR_REGISTER(cr_suite_##s, .suite = #s, __VA_ARGS__)
#define Test(s, n, ...)                                                                            \
	static void cr_##s##_##n(void);                                                            \
	CR_REGISTER(cr_##s##_##n, .suite = #s, .name = #n, .fn = cr_##s##_##n, ##__VA_ARGS__)      \
	static void cr_##s##_##n(void)

#define CR_CHECK(fatal, ok, what, ...)                                                             \
	do {                                                                                       \
		if (!(ok))                                                                         \
			cr_failed(fatal, __FILE__, __LINE__, what, "" __VA_ARGS__);                \
	} while (0)

#define cr_skip_test(...)	 cr_skip("" __VA_ARGS__)
#define cr_log_info(...)	 printf(__VA_ARGS__)
#define cr_fail(...)		 CR_CHECK(false, false, "fail", __VA_ARGS__)
#define cr_assert_fail(...)	 CR_CHECK(true, false, "fail", __VA_ARGS__)
#define cr_assert(c, ...)	 CR_CHECK(true, c, #c, __VA_ARGS__)
#define cr_expect(c, ...)	 CR_CHECK(false, c, #c, __VA_ARGS__)
#define cr_assert_not(c, ...)	 CR_CHECK(true, !(c), "not " #c, __VA_ARGS__)
#define cr_expect_not(c, ...)	 CR_CHECK(false, !(c), "not " #c, __VA_ARGS__)
#define cr_assert_null(p, ...)	 CR_CHECK(true, !(p), #p " is NULL", __VA_ARGS__)
#define cr_expect_null(p, ...)	 CR_CHECK(false, !(p), #p " is NULL", __VA_ARGS__)
#define CR_OP(f, a, op, b, ...)	 CR_CHECK(f, (a)op(b), #a " " #op " " #b, __VA_ARGS__)
#define cr_assert_eq(a, b, ...)	 CR_OP(true, a, ==, b, __VA_ARGS__)
#define cr_expect_eq(a, b, ...)	 CR_OP(false, a, ==, b, __VA_ARGS__)
#define cr_assert_neq(a, b, ...) CR_OP(true, a, !=, b, __VA_ARGS__)
#define cr_expect_neq(a, b, ...) CR_OP(false, a, !=, b, __VA_ARGS__)
#define cr_assert_lt(a, b, ...)	 CR_OP(true, a, <, b, __VA_ARGS__)
#define cr_expect_lt(a, b, ...)	 CR_OP(false, a, <, b, __VA_ARGS__)
#define cr_assert_leq(a, b, ...) CR_OP(true, a, <=, b, __VA_ARGS__)
#define cr_expect_leq(a, b, ...) CR_OP(false, a, <=, b, __VA_ARGS__)
#define cr_assert_gt(a, b, ...)	 CR_OP(true, a, >, b, __VA_ARGS__)
#define cr_expect_gt(a, b, ...)	 CR_OP(false, a, >, b, __VA_ARGS__)
#define cr_assert_geq(a, b, ...) CR_OP(true, a, >=, b, __VA_ARGS__)
#define cr_expect_geq(a, b, ...) CR_OP(false, a, >=, b, __VA_ARGS__)
#define cr_assert_str_eq(a, b, ...)                                                                \
	CR_CHECK(true, !strcmp(a, b), #a " is the text " #b, __VA_ARGS__)
#define cr_expect_str_eq(a, b, ...)                                                                \
	CR_CHECK(false, !strcmp(a, b), #a " is the text " #b, __VA_ARGS__)

#endif
