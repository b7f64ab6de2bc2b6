/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Small text files of /proc and /sys. Any thread.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* proctext_read - read up to @len - 1 bytes of the file that @fmt names, and add a NUL. Returns
 * their number, or -errno with an empty @buf. */
ssize_t proctext_read(char *buf, size_t len, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

/* proctext_field - the rest of the first line of @text that begins with @name; @text ends there.
 * NULL: there is no such line, or its newline is missing. */
char *proctext_field(char *text, const char *name);

/* proctext_start - field 22 of @text, a stat file: the clock tick after boot at which the process
 * or thread began. Returns 0 or -ESRCH. */
int proctext_start(const char *text, uint64_t *start);
