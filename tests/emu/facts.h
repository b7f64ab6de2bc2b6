/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The manuals' facts about one decoded instruction that a comparison or a count needs. Written
 * from the SDM's instruction pages and Zydis's operand tables; shares nothing with the emulator
 * machine.
 */
#ifndef TESTS_EMU_FACTS_H
#define TESTS_EMU_FACTS_H

#include <Zydis/Zydis.h>
#include <stdbool.h>
#include <stdint.h>

struct insn {
	ZydisDecodedInstruction i;
	ZydisDecodedOperand op[ZYDIS_MAX_OPERAND_COUNT];
};

/* insn_decode - the 64-bit instruction at @code; false when there is none in @len bytes. */
bool insn_decode(const void *code, size_t len, struct insn *in);

/* insn_is_one_of - @mnemonics ends with ZYDIS_MNEMONIC_INVALID. */
bool insn_is_one_of(const struct insn *in, const ZydisMnemonic *mnemonics);
#define INSN_IS(in, ...)                                                                           \
	insn_is_one_of(in, (const ZydisMnemonic[]){__VA_ARGS__, ZYDIS_MNEMONIC_INVALID})
#define M(name) ZYDIS_MNEMONIC_##name

/*
 * insn_undefined_flags - which of DT_STATUS are undefined after @in, given which were before.
 * @count: the value of CL when it is known, else -1; only shifts and rotates by CL look at it.
 */
uint32_t insn_undefined_flags(const struct insn *in, uint32_t before, int count);

/* insn_reads_flags - the DT_STATUS bits that @in depends on. */
uint32_t insn_reads_flags(const struct insn *in);

/* insn_undefined_result - its destination is undefined (SHLD by more than 16, BSWAP r16). */
bool insn_undefined_result(const struct insn *in, int count);

/* insn_count - a shift's immediate count, @cl when it counts by CL, 1 for the short form. */
int insn_count(const struct insn *in, int cl);

/* Counting: SDM vol. 3 ch. 20 "instruction retired" events. */
bool insn_is_branch(const struct insn *in);
bool insn_is_rep_string(const struct insn *in);
/* insn_is_cmps - the string instruction; Zydis has one mnemonic for it and for SSE's CMPSD. */
bool insn_is_cmps(const struct insn *in);
bool insn_loads(const struct insn *in);
bool insn_stores(const struct insn *in);

/* insn_branch_type - of a branch, as in IA32_LBR_x_INFO (SDM vol. 4, 1200H). */
unsigned int insn_branch_type(const struct insn *in);

/* insn_is_rip_relative - it has a memory operand relative to RIP. */
bool insn_is_rip_relative(const struct insn *in);

/* insn_text - disassembly into @buf. */
void insn_text(const struct insn *in, uint64_t rip, char *buf, size_t len);

#endif
