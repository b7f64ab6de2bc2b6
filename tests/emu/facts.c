// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Instruction facts, see facts.h. Flag effects: SDM vol. 1 appendix A and the instruction pages of
 * vol. 2; where they differ the instruction page is followed.
 */
#include <string.h>

#include "tests/emu/dt.h"
#include "tests/emu/facts.h"

bool insn_decode(const void *code, size_t len, struct insn *in)
{
	static ZydisDecoder decoder;
	static bool ready;

	if (!ready) {
		ZydisDecoderInit(&decoder, ZYDIS_MACHINE_MODE_LONG_64, ZYDIS_STACK_WIDTH_64);
		ready = true;
	}
	return ZYAN_SUCCESS(ZydisDecoderDecodeFull(&decoder, code, len, &in->i, in->op));
}

bool insn_is_one_of(const struct insn *in, const ZydisMnemonic *mnemonics)
{
	while (*mnemonics != ZYDIS_MNEMONIC_INVALID && *mnemonics != in->i.mnemonic)
		mnemonics++;
	return *mnemonics != ZYDIS_MNEMONIC_INVALID;
}

int insn_count(const struct insn *in, int cl)
{
	for (int k = in->i.operand_count_visible - 1; k > 0; k--) {
		if (in->op[k].type == ZYDIS_OPERAND_TYPE_IMMEDIATE)
			return (int)(in->op[k].imm.value.u & 0xff);
		if (in->op[k].type == ZYDIS_OPERAND_TYPE_REGISTER &&
		    in->op[k].reg.value == ZYDIS_REGISTER_CL)
			return cl;
	}
	return 1;
}

/*
 * Shifts and rotates: masked count 0 leaves all flags; OF is defined for count 1 only; CF of SHL
 * and SHR is undefined when the count reaches the operand size; AF is undefined after shifts and
 * not touched by rotates.
 */
static uint32_t after_shift(const struct insn *in, uint32_t before, int count)
{
	bool rotate = INSN_IS(in, M(ROL), M(ROR), M(RCL), M(RCR));
	bool logical = INSN_IS(in, M(SHL), M(SHR)), maybe_zero = count < 0;
	unsigned int bits = in->op[0].size;
	uint32_t undef = 0;

	if (count >= 0)
		count &= bits == 64 ? 63 : 31;
	if (count == 0)
		return before;
	if (count != 1)
		undef |= DT_OF;
	if (!rotate)
		undef |= DT_AF;
	if (logical && bits < 32 && (count < 0 || (unsigned int)count >= bits))
		undef |= DT_CF;
	/* RCL and RCR by 8 + 1 or 16 + 1 rotate the whole: CF keeps its value, but is defined. */
	if (rotate)
		before &= maybe_zero ? ~0u : ~(uint32_t)(DT_CF | DT_OF);
	else
		before &= maybe_zero ? ~0u : 0;
	return before | undef;
}

static uint32_t after_double_shift(const struct insn *in, uint32_t before, int count)
{
	unsigned int bits = in->op[0].size;

	if (count < 0)
		return before | DT_OF | DT_AF;
	count &= bits == 64 ? 63 : 31;
	if (count == 0)
		return before;
	if ((unsigned int)count > bits)
		return DT_STATUS;
	return DT_AF | (count == 1 ? 0 : DT_OF);
}

/* After these, flags that were undefined and are in @keeps are so, and those in @adds. */
static const struct {
	uint32_t keeps, adds;
	ZydisMnemonic of[13];
} flag_rows[] = {
	{0,
	 0,
	 {M(ADD), M(ADC), M(SUB), M(SBB), M(CMP), M(NEG), M(XADD), M(CMPXCHG), M(POPCNT), M(POPF),
	  M(POPFQ), M(IRETQ)}},
	{DT_CF, 0, {M(INC), M(DEC)}},
	{0, DT_AF, {M(AND), M(OR), M(XOR), M(TEST)}},
	{0, DT_AF | DT_PF, {M(ANDN), M(BLSI), M(BLSMSK), M(BLSR), M(BZHI)}},
	{0, DT_AF | DT_SF | DT_PF, {M(BEXTR)}},
	{0, DT_SF | DT_ZF | DT_AF | DT_PF, {M(MUL), M(IMUL)}},
	{0, DT_STATUS, {M(DIV), M(IDIV)}},
	{DT_ZF, DT_OF | DT_SF | DT_AF | DT_PF, {M(BT), M(BTS), M(BTR), M(BTC)}},
	{0, DT_STATUS & ~DT_ZF, {M(BSF), M(BSR)}},
	{0, DT_OF | DT_SF | DT_PF | DT_AF, {M(TZCNT), M(LZCNT)}},
	{~DT_CF, 0, {M(CLC), M(STC), M(CMC)}},
	{DT_OF, 0, {M(SAHF)}},
	{~DT_ZF, 0, {M(CMPXCHG8B), M(CMPXCHG16B)}},
};

uint32_t insn_undefined_flags(const struct insn *in, uint32_t before, int cl)
{
	if (insn_is_cmps(in) || INSN_IS(in, M(SCASB), M(SCASW), M(SCASD), M(SCASQ)))
		return insn_is_rep_string(in) ? before : 0; /* RCX may be 0 */
	if (INSN_IS(in, M(ROL), M(ROR), M(RCL), M(RCR), M(SHL), M(SHR), M(SAR)))
		return after_shift(in, before, insn_count(in, cl));
	if (INSN_IS(in, M(SHLD), M(SHRD)))
		return after_double_shift(in, before, insn_count(in, cl));
	for (size_t i = 0; i < sizeof(flag_rows) / sizeof(flag_rows[0]); i++)
		if (insn_is_one_of(in, flag_rows[i].of))
			return (before & flag_rows[i].keeps) | flag_rows[i].adds;
	return before;
}

uint32_t insn_reads_flags(const struct insn *in)
{
	if (INSN_IS(in, M(PUSHF), M(PUSHFQ)))
		return DT_STATUS;
	if (INSN_IS(in, M(LAHF)))
		return DT_STATUS & ~DT_OF;
	return in->i.cpu_flags ? (uint32_t)in->i.cpu_flags->tested & DT_STATUS : 0;
}

bool insn_undefined_result(const struct insn *in, int cl)
{
	int count = insn_count(in, cl);

	if (in->op[0].size != 16)
		return false;
	return INSN_IS(in, M(BSWAP)) ||
	       (INSN_IS(in, M(SHLD), M(SHRD)) && (count < 0 || (count & 31) > 16));
}

bool insn_is_branch(const struct insn *in)
{
	switch (in->i.meta.category) {
	case ZYDIS_CATEGORY_COND_BR:
	case ZYDIS_CATEGORY_UNCOND_BR:
	case ZYDIS_CATEGORY_CALL:
	case ZYDIS_CATEGORY_RET:
		return true;
	default:
		return in->i.mnemonic == ZYDIS_MNEMONIC_SYSCALL ||
		       in->i.mnemonic == ZYDIS_MNEMONIC_SYSRET;
	}
}

bool insn_is_rep_string(const struct insn *in)
{
	return in->i.attributes &
	       (ZYDIS_ATTRIB_HAS_REP | ZYDIS_ATTRIB_HAS_REPE | ZYDIS_ATTRIB_HAS_REPNE);
}

bool insn_is_cmps(const struct insn *in)
{
	return INSN_IS(in, M(CMPSB), M(CMPSW), M(CMPSD), M(CMPSQ)) &&
	       in->i.meta.category == ZYDIS_CATEGORY_STRINGOP;
}

static bool touches_memory(const struct insn *in, unsigned int actions)
{
	/* Hints and address arithmetic name memory without accessing it. */
	if (in->i.mnemonic == ZYDIS_MNEMONIC_CLFLUSH)
		return false;
	switch (in->i.meta.category) {
	case ZYDIS_CATEGORY_NOP:
	case ZYDIS_CATEGORY_WIDENOP:
	case ZYDIS_CATEGORY_PREFETCH:
	case ZYDIS_CATEGORY_PREFETCHWT1:
		return false;
	default:
		break;
	}
	for (int k = 0; k < in->i.operand_count; k++)
		if (in->op[k].type == ZYDIS_OPERAND_TYPE_MEMORY &&
		    in->op[k].mem.type != ZYDIS_MEMOP_TYPE_AGEN && (in->op[k].actions & actions))
			return true;
	return false;
}

bool insn_loads(const struct insn *in)
{
	return touches_memory(in, ZYDIS_OPERAND_ACTION_MASK_READ);
}

bool insn_stores(const struct insn *in)
{
	return touches_memory(in, ZYDIS_OPERAND_ACTION_MASK_WRITE);
}

unsigned int insn_branch_type(const struct insn *in)
{
	bool direct = in->op[0].type == ZYDIS_OPERAND_TYPE_IMMEDIATE;

	switch (in->i.meta.category) {
	case ZYDIS_CATEGORY_COND_BR:
		return 0;
	case ZYDIS_CATEGORY_UNCOND_BR:
		return direct ? 2 : 1;
	case ZYDIS_CATEGORY_CALL:
		return direct ? 4 : 3;
	case ZYDIS_CATEGORY_RET:
		return 5;
	default:
		return 8;
	}
}

bool insn_is_rip_relative(const struct insn *in)
{
	for (int k = 0; k < in->i.operand_count; k++)
		if (in->op[k].type == ZYDIS_OPERAND_TYPE_MEMORY &&
		    (in->op[k].mem.base == ZYDIS_REGISTER_RIP ||
		     in->op[k].mem.base == ZYDIS_REGISTER_EIP))
			return true;
	return false;
}

void insn_text(const struct insn *in, uint64_t rip, char *buf, size_t len)
{
	static ZydisFormatter formatter;
	static bool ready;

	if (!ready) {
		ZydisFormatterInit(&formatter, ZYDIS_FORMATTER_STYLE_INTEL);
		ready = true;
	}
	if (!ZYAN_SUCCESS(ZydisFormatterFormatInstruction(
		    &formatter, &in->i, in->op, in->i.operand_count_visible, buf, len, rip, NULL)))
		strcpy(buf, "?");
}
