/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Checks of text from guests, files and clients before it is displayed or put into JSON. Pure
 * functions, any thread.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/*
 * utf8_shown - returns the length of the UTF-8 character (RFC 3629) at @p, of @left > 0 bytes, or 0
 * if it must not be displayed: invalid UTF-8, control characters (C0 except tab, DEL, C1), line and
 * paragraph separators, and characters that change the direction of writing and so can make a text
 * look like another.
 */
size_t utf8_shown(const char *p, size_t left);

/* utf8_text - returns true if all of @text may be displayed. */
bool utf8_text(const char *text);
