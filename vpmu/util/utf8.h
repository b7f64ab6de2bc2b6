/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Which bytes may be shown to people and put into JSON: for whoever takes text from guests, files
 * and clients. Pure functions, any thread.
 */
#ifndef VPMU_UTIL_UTF8_H
#define VPMU_UTIL_UTF8_H

#include <stdbool.h>
#include <stddef.h>

/*
 * utf8_shown - the length of the UTF-8 character (RFC 3629) at @p, of which there are @left bytes,
 * if it may be shown; 0 if not: bytes that are no UTF-8, control characters (C0 except the tab,
 * DEL, C1), line and paragraph separators, and the characters that change the direction of writing,
 * with which a text can look like another one.
 */
size_t utf8_shown(const char *p, size_t left);

/* utf8_text - whether all of @text may be shown. */
bool utf8_text(const char *text);

#endif
