// SPDX-License-Identifier: GPL-2.0-or-later
/* nested-spin N: N instructions in user mode, but for a few thousand at the start and the end. */
#include <stdlib.h>

int main(int argc, char **argv)
{
	unsigned long n = argc > 1 ? strtoul(argv[1], NULL, 0) / 2 : 0;

	if (n)
		__asm__ volatile("1: dec %0\n jnz 1b" : "+r"(n) : : "cc");
	return 0;
}
