/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A scanner of JSON text, without objects in memory. answer.c reads rows with it: as objects of
 * jansson, those of 1,000 VMs cost five times as much CPU. *@p is a position in NUL-terminated
 * text, which is modified: strings are unescaped in place. After false the position is undefined.
 * The text is untrusted: nothing is read beyond its end. No state.
 */
#ifndef EXPORTER_SCAN_H
#define EXPORTER_SCAN_H

#include <stdbool.h>
#include <stdint.h>

/* scan_blanks - skip blanks. */
void scan_blanks(char **p);

/* scan_char - skip blanks and then @c. Returns false if something else is there. */
bool scan_char(char **p, char c);

/* scan_string - *@s: the string at *@p, NUL-terminated, in the text. */
bool scan_string(char **p, char **s);

/* scan_u64 - a number without sign, fraction and exponent, or a string of digits. */
bool scan_u64(char **p, uint64_t *v);

/* scan_bool - true or false. */
bool scan_bool(char **p, bool *v);

/* scan_skip - skip any value, and change nothing. Its inside is checked only as far as is necessary
 * to find its end. */
bool scan_skip(char **p);

/*
 * scan_next - after the start of an object or array: skip the comma before each but the @first
 * member. Returns 1 if there is one; 0: @end, which is skipped; -1: neither. @first becomes false.
 * scan_member - likewise in an object, and reads the member's name.
 */
int scan_next(char **p, char end, bool *first);
int scan_member(char **p, bool *first, char **name);

#endif
