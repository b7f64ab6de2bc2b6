// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The switch of all tests of the emulator: VPMU_TEST_TRANSLATE is "off" (the interpreter
 * alone), "hot" (as in production, the default) or "all" (a block is translated before it first
 * executes). It is read before main().
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "vmm/emu/jit/jit.h"

static __attribute__((constructor)) void choose(void)
{
	const char *s = getenv("VPMU_TEST_TRANSLATE");

	if (!s)
		return;
	if (!strcmp(s, "off"))
		emu_jit_set(EMU_JIT_OFF);
	else if (!strcmp(s, "all"))
		emu_jit_set(EMU_JIT_ALL);
	else if (strcmp(s, "hot")) {
		fprintf(stderr, "VPMU_TEST_TRANSLATE: \"%s\"; expected off, hot, all\n", s);
		exit(2);
	}
}
