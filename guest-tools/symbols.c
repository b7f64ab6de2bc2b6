// SPDX-License-Identifier: GPL-2.0-or-later
/* Lookup in the table of functions; see symbols.h. */
#include "guest-tools/symbols.h"
#include "guest-tools/text.h"

uint64_t symbol_start(uint64_t ip, uint64_t code_end)
{
	size_t lo = 0, hi = symbol_count;

	if (!hi || ip < symbol_table[0].address || ip >= code_end)
		return ip;
	while (hi - lo > 1) {
		size_t mid = (lo + hi) / 2;

		if (symbol_table[mid].address <= ip)
			lo = mid;
		else
			hi = mid;
	}
	return symbol_table[lo].address;
}

const char *symbol_text(uint64_t start, char buf[SYMBOL_TEXT_MAX])
{
	for (size_t i = 0; i < symbol_count; i++) {
		if (symbol_table[i].address == start)
			return symbol_names + symbol_table[i].name;
	}
	text_format(buf, SYMBOL_TEXT_MAX, "0x%lx", start);
	return buf;
}
