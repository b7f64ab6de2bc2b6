/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Names of the image's functions, from a table made by the build (symbols.cmake). record and lbr
 * print them. */
#pragma once

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

/* symbol_start - the address where the function that contains @ip begins, or @ip itself if it is in
 * no function. @code_end is where the code of the image ends. */
uint64_t symbol_start(uint64_t ip, uint64_t code_end);

/* symbol_text - the name of the function that begins at @start, or if there is none the address in
 * hexadecimal, in @buf. */
const char *symbol_text(uint64_t start, char buf[SYMBOL_TEXT_MAX]);
