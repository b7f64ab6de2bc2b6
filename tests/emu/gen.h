/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Seeded generator of instruction sequences for the differential test.
 *
 * The generator knows the values it put into registers and follows them as far as that is simple,
 * so that most memory operands hit the scratch areas; it follows which flags are undefined, so
 * that no instruction decides on one and the comparison can leave them out.
 */
#ifndef TESTS_EMU_GEN_H
#define TESTS_EMU_GEN_H

#include "tests/emu/dt.h"
#include "tests/emu/facts.h"

#define SEQ_MAX_INSNS 64
#define SEQ_MAX_JOINS 24
#define SEQ_MNEMONICS (ZYDIS_MNEMONIC_MAX_VALUE + 1)

struct seq_insn {
	uint8_t off, len; /* in the slot */
	bool raw;	  /* not decodable on purpose: expected to fault */
	uint16_t mnemonic;
	uint32_t undef; /* status flags undefined before it */
	int16_t cl;	/* CL before it, -1: not known */
};

struct dt_seq {
	struct dt_case c;
	unsigned int n;
	struct seq_insn insn[SEQ_MAX_INSNS];
	/* Control reaches @to from the instruction at @from as well as from the one before. */
	unsigned int nr_joins;
	struct {
		uint8_t from, to;
	} join[SEQ_MAX_JOINS];
	uint32_t undef_end; /* undefined at the end, and in any place */
	uint32_t undef_any;
	bool no_step; /* sees TF, or leaves the slot */
};

/*
 * gen_init - @isa[m]: sequences may contain mnemonic m; false for an instruction the
 * machine under test does not claim, or whose result belongs to the machine (time stamps). @intel:
 * also the list's entries for Intel's CPUs only (near branches with prefix 66), and those not
 * measured on others. @misalign: MXCSR has the bit MM. @masked: MXCSR and FCW mask all exceptions.
 * @without_cvtpi2ps: no CVTPI2PS with a memory operand.
 * gen_sequence - the sequence of @seed; always the same for the same arguments of gen_init.
 * gen_recheck - recompute the undefined flags after bytes were replaced by NOPs; false when an
 * instruction would decide on an undefined flag.
 */
#define GEN_CPUID_FIRST	 0x80000002u /* the brand string: the leaves sequences ask for */
#define GEN_CPUID_LEAVES 3u
void gen_init(const bool isa[SEQ_MNEMONICS], bool intel, bool misalign, bool masked,
	      bool without_cvtpi2ps);
void gen_sequence(uint64_t seed, struct dt_seq *q);
bool gen_recheck(struct dt_seq *q);

#endif
