/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The functions of the image, from a table that the build makes (symbols.cmake). */
#ifndef GUEST_TOOLS_SYMBOLS_H
#define GUEST_TOOLS_SYMBOLS_H

#include <stddef.h>
#include <stdint.h>

/* Sorted by address. A function ends where the next one begins. */
struct symbol {
	uint32_t address;
	uint32_t name; /* offset in symbol_names */
};

extern const uint64_t symbol_count;
extern const struct symbol symbol_table[];
extern const char symbol_names[];

#define SYMBOL_TEXT_MAX 40

/* symbol_start - where the function that @ip is in begins; @ip itself when it is in none. Functions
 * are looked for between the first one and @code_end (the image's end of code). */
uint64_t symbol_start(uint64_t ip, uint64_t code_end);

/* symbol_text - the name of the function that begins at @start, or the address; into @buf when it
 * has to be made. */
const char *symbol_text(uint64_t start, char buf[SYMBOL_TEXT_MAX]);

#endif
