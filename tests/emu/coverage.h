/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Differential test: which instructions of the emulator's list were tested. */
#ifndef TESTS_EMU_COVERAGE_H
#define TESTS_EMU_COVERAGE_H

#include "tests/emu/gen.h"

/* coverage_init - the instructions to generate, by mnemonic, for gen_init(): the machine's list
 * except those with a result of the host's own. NULL when the list has an unknown name. */
bool *coverage_init(void);
/* coverage_pointers - whether the host's x87 pointers are known to be as the emulator's: it is
 * a CPU of AMD's with XSaveErPtr. On others, instructions that store them are not generated. */
bool coverage_pointers(void);

/* coverage_count - @q was generated; its coverage is judged by where @nat stopped. */
void coverage_count(const struct dt_seq *q, const struct dt_result *nat);

/* coverage_print - a table, or (@quiet) only entries reached less than @least times; false when
 * there is such. */
bool coverage_print(uint64_t least, bool quiet);

#endif
