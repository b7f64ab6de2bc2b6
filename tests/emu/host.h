/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What CPUs of one vendor do differently, and the emulator in one way only. The tests ask the
 * CPU that they run on, because its family and model do not show it.
 */
#ifndef TESTS_EMU_HOST_H
#define TESTS_EMU_HOST_H

#include "tests/emu/gen.h"

struct host_facts {
	bool mmx_stays;	  /* CVTPI2PS with a memory operand leaves the x87 state alone */
	bool upper_first; /* MASKMOVDQU looks at its upper 8 bytes before the lower ones */
	bool x87_parts;	  /* FSTP and FBSTP store 10 bytes as 8 and then 2 */
};

/* host_case - a case of @code in the place of @seed, with an x87 stack that is empty and all
 * exceptions masked. */
void host_case(struct dt_case *c, uint64_t seed, const uint8_t *code, size_t len);

/* host_probe - measure them with the native helper, and print them in one line. 0, or -1. */
int host_probe(struct host_facts *h);

/* host_upper_fault - whether the addresses of the page faults @nat and @emulator, of one
 * instruction, are those of .upper_first and its opposite. Error codes are not looked at. */
bool host_upper_fault(const struct dt_seq *q, const struct dt_result *nat,
		      const struct dt_result *emulator);

/* host_x87_part - if @nat is a page fault of an FSTP or FBSTP that has stored the first 8 bytes of
 * its operand, all of them in the @n bytes at @base: store them in @mem, which has what @emulator
 * has there. @nat_mem: what @nat has there. */
void host_x87_part(const struct dt_seq *q, const struct dt_result *nat,
		   const struct dt_result *emulator, uint64_t base, const uint8_t *nat_mem,
		   uint8_t *mem, size_t n);

/* host_lacks - what the CPU lacks of the features of the ISA list; NULL: nothing. TZCNT on an old
 * CPU silently is BSF. */
const char *host_lacks(void);

#endif
