/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The users allowed to scrape: names and password hashes from a file with lines NAME:HASH. Hashes
 * are those of crypt(5). http.c calls it. One thread.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define USERS_MAX	64
#define USERS_LINE_MAX	512 /* bytes of a line, and of a password */
#define USERS_HASHES_PS 4   /* limit of passwords hashed per second: a hash is expensive */

struct users;

/*
 * users_read - read the users from the file at @path. -EINVAL: an invalid line, or a hash of a
 * method that is too weak or that this host lacks; -EPERM: not a regular file, or others can read
 * or write it; or an error of open(). One line to @err. users_text - parse @len bytes at @text;
 * messages use @name as the file name. users_free - NULL is allowed.
 */
int users_read(const char *path, struct users **out, char *err, size_t errlen);
int users_text(const char *name, const char *text, size_t len, struct users **out, char *err,
	       size_t errlen);
void users_free(struct users *u);

/*
 * users_check - returns 1 if @password is that of @name; 0 if not; -EAGAIN: not checked, after too
 * many wrong ones within this second. A right one is remembered, so that it is hashed only once.
 * @now_ns: CLOCK_MONOTONIC.
 */
int users_check(struct users *u, const char *name, const char *password, uint64_t now_ns);
