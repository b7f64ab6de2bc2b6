// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The list of 16- and 32-bit code, see legacy.h: each instruction that is executed, and its
 * function. legacy.c calls this file.
 */
#include "vmm/emu/cpu/flags.h"
#include "vmm/emu/realmode/legacy.h"

#define L(m, fn, arg)                                                                              \
	{                                                                                          \
		ZYDIS_MNEMONIC_##m, fn, arg, NULL                                                  \
	}
#define OP(m, fn, arg, op)                                                                         \
	{                                                                                          \
		ZYDIS_MNEMONIC_##m, fn, arg, op                                                    \
	}
#define STRING(m, fn, what) L(m##B, fn, what), L(m##W, fn, what), L(m##D, fn, what)

static int legacy_nop(struct legacy *l)
{
	return 0;
}

static const struct legacy_row rows[] = {
	/* arithmetic and logic */
	L(ADD, legacy_modify, ALU_ADD),
	L(OR, legacy_modify, ALU_OR),
	L(ADC, legacy_modify, ALU_ADC),
	L(SBB, legacy_modify, ALU_SBB),
	L(AND, legacy_modify, ALU_AND),
	L(SUB, legacy_modify, ALU_SUB),
	L(XOR, legacy_modify, ALU_XOR),
	L(CMP, legacy_modify, ALU_SUB | LEGACY_TEST),
	L(TEST, legacy_modify, ALU_AND | LEGACY_TEST),
	L(INC, legacy_modify, LOCKED_INC),
	L(DEC, legacy_modify, LOCKED_DEC),
	L(NEG, legacy_modify, LOCKED_NEG),
	L(NOT, legacy_modify, LOCKED_NOT),
	L(BT, legacy_modify, LOCKED_BTS | LEGACY_TEST),
	L(BTS, legacy_modify, LOCKED_BTS),
	L(BTR, legacy_modify, LOCKED_BTR),
	L(BTC, legacy_modify, LOCKED_BTC | LEGACY_LOCKED),
	L(XCHG, legacy_modify, LOCKED_XCHG),
	L(XADD, legacy_modify, LOCKED_XADD | LEGACY_LOCKED),
	L(CMPXCHG, legacy_modify, LOCKED_CMPXCHG | LEGACY_LOCKED),
	L(CMPXCHG8B, legacy_modify, LEGACY_CMPXCHG8B | LEGACY_LOCKED),
	L(SHL, legacy_shift, 0),
	L(SHR, legacy_shift, 0),
	L(SAR, legacy_shift, 0),
	OP(ROL, legacy_rotate, ROT_ROL, emu_help_rotate),
	OP(ROR, legacy_rotate, ROT_ROR, emu_help_rotate),
	OP(RCL, legacy_rotate, ROT_RCL, emu_help_rotate),
	OP(RCR, legacy_rotate, ROT_RCR, emu_help_rotate),
	OP(SHLD, legacy_shiftd, false, emu_help_shiftd),
	OP(SHRD, legacy_shiftd, true, emu_help_shiftd),
	OP(MUL, legacy_multiply, 0, emu_help_mul),
	OP(IMUL, legacy_imul, 0, emu_help_imul1),
	OP(DIV, legacy_multiply, 0, emu_help_div),
	OP(IDIV, legacy_multiply, 0, emu_help_idiv),
	L(BSF, legacy_scan, SCAN_BSF),
	L(BSR, legacy_scan, SCAN_BSR),
	L(BSWAP, legacy_bswap, 0),
	OP(CBW, legacy_op, 0, emu_help_cbw),
	OP(CWD, legacy_op, 0, emu_help_cwd),
	L(CWDE, legacy_cwde, 0),
	L(CDQ, legacy_cdq, 0),
	/* moves */
	L(MOV, legacy_mov, 0),
	L(MOVZX, legacy_movx, 0),
	L(MOVSX, legacy_movx, 0),
	L(LEA, legacy_lea, 0),
	L(LDS, legacy_load_far, EMU_DS),
	L(LES, legacy_load_far, EMU_ES),
	L(LSS, legacy_load_far, EMU_SS),
	L(LFS, legacy_load_far, EMU_FS),
	L(LGS, legacy_load_far, EMU_GS),
	STRING(MOVS, legacy_string, LEGACY_LOAD | LEGACY_STORE),
	STRING(STOS, legacy_string, LEGACY_STORE),
	STRING(LODS, legacy_string, LEGACY_LOAD),
	STRING(INS, legacy_string_port, LEGACY_STORE),
	STRING(OUTS, legacy_string_port, LEGACY_LOAD),
	/* the stack */
	L(PUSH, legacy_pushv, 0),
	L(PUSHA, legacy_push_all, 0),
	L(PUSHAD, legacy_push_all, 0),
	L(PUSHF, legacy_pushf, 0),
	L(PUSHFD, legacy_pushf, 0),
	L(POP, legacy_pop, 0),
	L(POPA, legacy_pop_all, 0),
	L(POPAD, legacy_pop_all, 0),
	L(POPF, legacy_popf, 0),
	L(POPFD, legacy_popf, 0),
	L(LEAVE, legacy_leave, 0),
	/* transfers of control; also Jcc, below */
	L(CALL, legacy_call, 0),
	L(RET, legacy_ret, 0),
	L(JMP, legacy_jmp, 0),
	L(INT, legacy_int, 0),
	L(IRET, legacy_iret, 0),
	L(IRETD, legacy_iret, 0),
	/* flags */
	OP(CLC, legacy_op, FLAG_CLC, emu_help_flagop),
	OP(STC, legacy_op, FLAG_STC, emu_help_flagop),
	OP(CMC, legacy_op, FLAG_CMC, emu_help_flagop),
	OP(CLD, legacy_op, FLAG_CLD, emu_help_flagop),
	OP(STD, legacy_op, FLAG_STD, emu_help_flagop),
	OP(CLI, legacy_op, 0, emu_sys_cli),
	OP(STI, legacy_op, 0, emu_sys_sti),
	/* hints */
	L(NOP, legacy_nop, 0),
	L(PAUSE, legacy_nop, 0),
	L(ENDBR32, legacy_nop, 0),
	L(ENDBR64, legacy_nop, 0),
	/* system */
	L(WBINVD, legacy_nop, 0),
	L(INVD, legacy_nop, 0),
	L(LGDT, legacy_load_table, 0),
	L(LIDT, legacy_load_table, 0),
	L(SGDT, legacy_store_table, 0),
	L(SIDT, legacy_store_table, 0),
	L(LLDT, legacy_load_system, 0),
	L(LTR, legacy_load_system, 0),
	L(WRMSR, legacy_wrmsr, 0),
	L(IN, legacy_port, 0),
	L(OUT, legacy_port, 0),
	OP(RDMSR, legacy_op, 0, emu_sys_rdmsr),
	OP(RDTSC, legacy_op, 0, emu_sys_rdtsc),
	OP(CPUID, legacy_op, 0, emu_sys_cpuid),
	OP(HLT, legacy_op, 0, emu_sys_hlt),
	/* a boot loader's search for an FPU */
	L(FNINIT, legacy_x87, X87_INIT),
	L(FNSTCW, legacy_x87, X87_STCW),
	L(FNSTSW, legacy_x87, X87_STSW),
};

static const struct legacy_row *legacy_row_of(ZydisMnemonic m)
{
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		if (rows[i].mnemonic == m)
			return &rows[i];
	return NULL;
}

int emu_legacy_insn(struct legacy *l)
{
	unsigned int cc = l->zi->opcode & 0xf;
	uint64_t x;

	if (l->zi->attributes & ZYDIS_ATTRIB_HAS_REPNE)
		return -1;
	if (l->zi->meta.category == ZYDIS_CATEGORY_SETCC)
		return legacy_insn_put(l, 0, emu_cc(l->v, cc));
	if (l->zi->meta.category == ZYDIS_CATEGORY_CMOV)
		return legacy_insn_get(l, 1, &x) || (emu_cc(l->v, cc) && legacy_insn_put(l, 0, x));
	/* 70 to 7F, or 80 to 8F behind 0F; LOOP, JCXZ and XBEGIN are of the same category. */
	if (l->zi->meta.category == ZYDIS_CATEGORY_COND_BR &&
	    l->zi->opcode >> 4 == (l->zi->opcode_map == ZYDIS_OPCODE_MAP_0F ? 8 : 7))
		return legacy_jcc(l);
	l->row = legacy_row_of(l->zi->mnemonic);
	if (!l->row)
		return -1;
	/* An XCHG with memory is always locked. */
	if (l->zi->attributes & ZYDIS_ATTRIB_HAS_LOCK ||
	    (l->zi->mnemonic == ZYDIS_MNEMONIC_XCHG && l->zo[0].type == ZYDIS_OPERAND_TYPE_MEMORY))
		return legacy_locked(l);
	return l->row->fn(l);
}
