// SPDX-License-Identifier: GPL-2.0-or-later
/* Allocation or exit: see memory.h. */
#include <errno.h>
#include <search.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "service/program/memory.h"

void memory_out(void)
{
	/* Keep the order of outputs, even if both go to one file. */
	fflush(stdout);
	fprintf(stderr, "%s: out of memory\n", program_invocation_short_name);
	exit(EXIT_FAILURE);
}

static void *got(void *p)
{
	if (!p)
		memory_out();
	return p;
}

void *xmalloc(size_t size)
{
	return got(malloc(size ? size : 1));
}

void *xcalloc(size_t n, size_t size)
{
	return got(calloc(n ? n : 1, size ? size : 1));
}

void *xreallocarray(void *p, size_t n, size_t size)
{
	return got(reallocarray(p, n ? n : 1, size ? size : 1));
}

char *xstrdup(const char *text)
{
	return text ? got(strdup(text)) : NULL;
}

char *xstrndup(const char *text, size_t len)
{
	return got(strndup(text, len));
}

void *xtsearch(const void *key, void **root, int (*cmp)(const void *, const void *))
{
	return got(tsearch(key, root, cmp));
}

char *xasprintf(const char *fmt, ...)
{
	char *text;
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = vasprintf(&text, fmt, ap);
	va_end(ap);
	return got(n < 0 ? NULL : text);
}
