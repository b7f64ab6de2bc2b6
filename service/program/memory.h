/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Allocation for programs that may exit if a small allocation fails: one line on standard error,
 * and exit status 1 (atexit() handlers run). Not for libvpmu, nor where a VM or a count would be
 * lost, nor for sizes that others control: these need an error of their own.
 */
#pragma once

#include <stddef.h>

/* memory_out - exit, as the functions below do. */
void memory_out(void) __attribute__((noreturn));

void *xmalloc(size_t size) __attribute__((malloc, returns_nonnull));
void *xcalloc(size_t n, size_t size) __attribute__((malloc, returns_nonnull));
void *xreallocarray(void *p, size_t n, size_t size) __attribute__((returns_nonnull));
/* xstrdup - NULL gives NULL. */
char *xstrdup(const char *text);
char *xstrndup(const char *text, size_t len) __attribute__((returns_nonnull));
/* xtsearch - tsearch(3). */
void *xtsearch(const void *key, void **root, int (*cmp)(const void *, const void *));
char *xasprintf(const char *fmt, ...) __attribute__((format(printf, 1, 2), returns_nonnull));
