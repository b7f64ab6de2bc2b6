/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The library's allocations, counted or refused: in place of libc's functions (ALLOC_WRAPS in
 * CMakeLists.txt). */
#ifndef TESTS_UNIT_ALLOC_WRAP_H
#define TESTS_UNIT_ALLOC_WRAP_H

#include <malloc.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>

static atomic_long alloc_live; /* bytes, with malloc's own 8 for each block */
static atomic_ulong alloc_calls;
static bool alloc_refuse;		  /* malloc and calloc have no memory */
static const void *_Atomic alloc_watched; /* a block, or NULL */
static atomic_bool alloc_watched_is_freed;

static void *alloc_note(void *p)
{
	alloc_calls++;
	if (p)
		alloc_live += (long)malloc_usable_size(p) + 8;
	return p;
}

static void alloc_forget(void *p)
{
	if (p)
		alloc_live -= (long)malloc_usable_size(p) + 8;
	if (p && p == alloc_watched)
		alloc_watched_is_freed = true;
}

void *__real_malloc(size_t size);
void *__wrap_malloc(size_t size);
void *__wrap_malloc(size_t size)
{
	return alloc_refuse ? NULL : alloc_note(__real_malloc(size));
}

void *__real_calloc(size_t n, size_t size);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_calloc(size_t n, size_t size)
{
	return alloc_refuse ? NULL : alloc_note(__real_calloc(n, size));
}

void *__real_realloc(void *p, size_t size);
void *__wrap_realloc(void *p, size_t size);
void *__wrap_realloc(void *p, size_t size)
{
	alloc_forget(p);
	return alloc_note(__real_realloc(p, size));
}

int __real_posix_memalign(void **p, size_t align, size_t size);
int __wrap_posix_memalign(void **p, size_t align, size_t size);
int __wrap_posix_memalign(void **p, size_t align, size_t size)
{
	int ret = __real_posix_memalign(p, align, size);

	if (!ret)
		alloc_note(*p);
	return ret;
}

void __real_free(void *p);
void __wrap_free(void *p);
void __wrap_free(void *p)
{
	alloc_forget(p);
	__real_free(p);
}

#endif
