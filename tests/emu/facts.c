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
	unsigned int bits = in->op[0].size;
	bool rotate = false, logical = false;
	uint32_t undef = 0;
	bool maybe_zero = count < 0;

	switch (in->i.mnemonic) {
	case ZYDIS_MNEMONIC_ROL:
	case ZYDIS_MNEMONIC_ROR:
	case ZYDIS_MNEMONIC_RCL:
	case ZYDIS_MNEMONIC_RCR:
		rotate = true;
		break;
	case ZYDIS_MNEMONIC_SHL:
	case ZYDIS_MNEMONIC_SHR:
		logical = true;
		break;
	default:
		break;
	}
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

uint32_t insn_undefined_flags(const struct insn *in, uint32_t before, int cl)
{
	if (insn_is_cmps(in))
		return insn_is_rep_string(in) ? before : 0; /* RCX may be 0 */
	switch (in->i.mnemonic) {
	case ZYDIS_MNEMONIC_ADD:
	case ZYDIS_MNEMONIC_ADC:
	case ZYDIS_MNEMONIC_SUB:
	case ZYDIS_MNEMONIC_SBB:
	case ZYDIS_MNEMONIC_CMP:
	case ZYDIS_MNEMONIC_NEG:
	case ZYDIS_MNEMONIC_XADD:
	case ZYDIS_MNEMONIC_CMPXCHG:
	case ZYDIS_MNEMONIC_POPCNT:
	case ZYDIS_MNEMONIC_POPF:
	case ZYDIS_MNEMONIC_POPFQ:
	case ZYDIS_MNEMONIC_IRETQ:
		return 0;
	case ZYDIS_MNEMONIC_SCASB:
	case ZYDIS_MNEMONIC_SCASW:
	case ZYDIS_MNEMONIC_SCASD:
	case ZYDIS_MNEMONIC_SCASQ:
		return insn_is_rep_string(in) ? before : 0;
	case ZYDIS_MNEMONIC_INC:
	case ZYDIS_MNEMONIC_DEC:
		return before & DT_CF;
	case ZYDIS_MNEMONIC_AND:
	case ZYDIS_MNEMONIC_OR:
	case ZYDIS_MNEMONIC_XOR:
	case ZYDIS_MNEMONIC_TEST:
		return DT_AF;
	case ZYDIS_MNEMONIC_ANDN:
	case ZYDIS_MNEMONIC_BLSI:
	case ZYDIS_MNEMONIC_BLSMSK:
	case ZYDIS_MNEMONIC_BLSR:
	case ZYDIS_MNEMONIC_BZHI:
		return DT_AF | DT_PF;
	case ZYDIS_MNEMONIC_BEXTR:
		return DT_AF | DT_SF | DT_PF;
	case ZYDIS_MNEMONIC_MUL:
	case ZYDIS_MNEMONIC_IMUL:
		return DT_SF | DT_ZF | DT_AF | DT_PF;
	case ZYDIS_MNEMONIC_DIV:
	case ZYDIS_MNEMONIC_IDIV:
		return DT_STATUS;
	case ZYDIS_MNEMONIC_BT:
	case ZYDIS_MNEMONIC_BTS:
	case ZYDIS_MNEMONIC_BTR:
	case ZYDIS_MNEMONIC_BTC:
		return (before & DT_ZF) | DT_OF | DT_SF | DT_AF | DT_PF;
	case ZYDIS_MNEMONIC_BSF:
	case ZYDIS_MNEMONIC_BSR:
		return DT_STATUS & ~DT_ZF;
	case ZYDIS_MNEMONIC_TZCNT:
	case ZYDIS_MNEMONIC_LZCNT:
		return DT_OF | DT_SF | DT_PF | DT_AF;
	case ZYDIS_MNEMONIC_CLC:
	case ZYDIS_MNEMONIC_STC:
	case ZYDIS_MNEMONIC_CMC:
		return before & ~DT_CF;
	case ZYDIS_MNEMONIC_SAHF:
		return before & DT_OF;
	case ZYDIS_MNEMONIC_CMPXCHG8B:
	case ZYDIS_MNEMONIC_CMPXCHG16B:
		return before & ~DT_ZF;
	case ZYDIS_MNEMONIC_ROL:
	case ZYDIS_MNEMONIC_ROR:
	case ZYDIS_MNEMONIC_RCL:
	case ZYDIS_MNEMONIC_RCR:
	case ZYDIS_MNEMONIC_SHL:
	case ZYDIS_MNEMONIC_SHR:
	case ZYDIS_MNEMONIC_SAR:
		return after_shift(in, before, insn_count(in, cl));
	case ZYDIS_MNEMONIC_SHLD:
	case ZYDIS_MNEMONIC_SHRD:
		return after_double_shift(in, before, insn_count(in, cl));
	default:
		return before;
	}
}

uint32_t insn_reads_flags(const struct insn *in)
{
	switch (in->i.mnemonic) {
	case ZYDIS_MNEMONIC_PUSHF:
	case ZYDIS_MNEMONIC_PUSHFQ:
		return DT_STATUS;
	case ZYDIS_MNEMONIC_LAHF:
		return DT_STATUS & ~DT_OF;
	default:
		return in->i.cpu_flags ? (uint32_t)in->i.cpu_flags->tested & DT_STATUS : 0;
	}
}

bool insn_undefined_result(const struct insn *in, int cl)
{
	int count;

	switch (in->i.mnemonic) {
	case ZYDIS_MNEMONIC_BSWAP:
		return in->op[0].size == 16;
	case ZYDIS_MNEMONIC_SHLD:
	case ZYDIS_MNEMONIC_SHRD:
		count = insn_count(in, cl);
		return in->op[0].size == 16 && (count < 0 || (count & 31) > 16);
	default:
		return false;
	}
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
	switch (in->i.mnemonic) {
	case ZYDIS_MNEMONIC_CMPSB:
	case ZYDIS_MNEMONIC_CMPSW:
	case ZYDIS_MNEMONIC_CMPSD:
	case ZYDIS_MNEMONIC_CMPSQ:
		return in->i.meta.category == ZYDIS_CATEGORY_STRINGOP;
	default:
		return false;
	}
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
