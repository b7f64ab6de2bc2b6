/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Who may scrape: names and hashes of passwords, from a file with lines NAME:HASH. Hashes are those
 * of crypt(5). One thread.
 */
#ifndef EXPORTER_USERS_H
#define EXPORTER_USERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define USERS_MAX	64
#define USERS_LINE_MAX	512 /* bytes of a line, and of a password */
#define USERS_HASHES_PS 4   /* passwords that are hashed in a second at most: a hash is costly */

struct users;

/*
 * users_read - the users of the file at @path. -EINVAL: a line is none, or the hash is of a method
 * that this host does not have or that is too weak; -EPERM: others may write to the file; others:
 * what open says. One line to @err. users_text - the same of the @len bytes at @text, called @name.
 * users_free
 * - NULL is fine.
 */
int users_read(const char *path, struct users **out, char *err, size_t errlen);
int users_text(const char *name, const char *text, size_t len, struct users **out, char *err,
	       size_t errlen);
void users_free(struct users *u);

/*
 * users_check - 1: @password is @name's; 0: it is not; -EAGAIN: there have been too many wrong ones
 * within this second, and nobody has looked. A right one is remembered, so that it is hashed
 * once. @now_ns: CLOCK_MONOTONIC.
 */
int users_check(struct users *u, const char *name, const char *password, uint64_t now_ns);

#endif
