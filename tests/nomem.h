/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Memory that runs out at the test's command. The program is linked with --wrap for each function
 * below (NOMEM_WRAPS in tests/integration/CMakeLists.txt), so every allocation of the project and
 * of jansson on the calling thread can be the one that fails. Include it in one file of the
 * program.
 */
#ifndef TESTS_NOMEM_H
#define TESTS_NOMEM_H

#include <errno.h>
#include <search.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

/* Of the calling thread only: other threads always get memory. */
static _Thread_local struct {
	bool armed, all; /* all: every allocation from the failing one on fails */
	unsigned long left, failed;
} nomem;

/* nomem_arm - from now on the @n-th allocation (0: the next) fails, or with @all each one from it
 * on. nomem_disarm - back to normal; returns how many failed. */
static inline void nomem_arm(unsigned long n, bool all)
{
	nomem.left = n;
	nomem.all = all;
	nomem.failed = 0;
	nomem.armed = true;
}

static inline unsigned long nomem_disarm(void)
{
	nomem.armed = false;
	return nomem.failed;
}

static bool nomem_now(void)
{
	if (!nomem.armed)
		return false;
	if (nomem.left) {
		nomem.left--;
		return false;
	}
	if (nomem.failed && !nomem.all)
		return false;
	nomem.failed++;
	errno = ENOMEM;
	return true;
}

#define NOMEM_WRAP(type, name, params, args, none)                                                 \
	type __real_##name params;                                                                 \
	type __wrap_##name params;                                                                 \
	type __wrap_##name params                                                                  \
	{                                                                                          \
		return nomem_now() ? (none) : __real_##name args;                                  \
	}

NOMEM_WRAP(void *, malloc, (size_t size), (size), NULL)
NOMEM_WRAP(void *, calloc, (size_t n, size_t size), (n, size), NULL)
NOMEM_WRAP(void *, realloc, (void *p, size_t size), (p, size), NULL)
NOMEM_WRAP(void *, reallocarray, (void *p, size_t n, size_t size), (p, n, size), NULL)
NOMEM_WRAP(void *, aligned_alloc, (size_t align, size_t size), (align, size), NULL)
NOMEM_WRAP(int, posix_memalign, (void **p, size_t align, size_t size), (p, align, size), ENOMEM)
NOMEM_WRAP(char *, strdup, (const char *s), (s), NULL)
NOMEM_WRAP(char *, strndup, (const char *s, size_t n), (s, n), NULL)
NOMEM_WRAP(int, vasprintf, (char **out, const char *fmt, va_list ap), (out, fmt, ap), -1)
NOMEM_WRAP(void *, tsearch, (const void *key, void **root, int (*cmp)(const void *, const void *)),
	   (key, root, cmp), NULL)
NOMEM_WRAP(void *, mmap, (void *addr, size_t len, int prot, int flags, int fd, off_t off),
	   (addr, len, prot, flags, fd, off), MAP_FAILED)

int __wrap_asprintf(char **out, const char *fmt, ...);
int __wrap_asprintf(char **out, const char *fmt, ...)
{
	va_list ap;
	int ret;

	if (nomem_now())
		return -1;
	va_start(ap, fmt);
	ret = __real_vasprintf(out, fmt, ap);
	va_end(ap);
	return ret;
}

#endif
