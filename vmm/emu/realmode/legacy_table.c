// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The list of 16- and 32-bit code, see legacy.h: each instruction that is executed, and its
 * function. legacy.c calls this file.
 */
#include "vmm/emu/cpu/flags.h"
#include "vmm/emu/realmode/legacy.h"

#define OP(m, fn, arg, op)                                                                         \
	{                                                                                          \
		ZYDIS_MNEMONIC_##m, fn, arg, op                                                    \
	}
/* L(FUNCTION, ARG, MNEMONIC...): a row for each. NAMED: the argument of each is @a with the
 * mnemonic appended, or'ed with @flags. */
#define L(...) ROWS_64(L_NEXT(__VA_ARGS__))
#define L_NEXT(fn, arg, m, ...)                                                                    \
	OP(m, fn, arg, NULL) __VA_OPT__(, L_AGAIN ROWS_PARENS(fn, arg, __VA_ARGS__))
#define L_AGAIN()  L_NEXT
#define NAMED(...) ROWS_64(NAMED_NEXT(__VA_ARGS__))
#define NAMED_NEXT(fn, a, flags, m, ...)                                                           \
	OP(m, fn, a##m | flags, NULL)                                                              \
	__VA_OPT__(, NAMED_AGAIN ROWS_PARENS(fn, a, flags, __VA_ARGS__))
#define NAMED_AGAIN() NAMED_NEXT
#define STRING(m)     m##B, m##W, m##D

static int legacy_nop(struct legacy *l)
{
	return 0;
}

static const struct legacy_row rows[] = {
	/* arithmetic and logic */
	NAMED(legacy_modify, ALU_, 0, ADD, OR, ADC, SBB, AND, SUB, XOR),
	L(legacy_modify, ALU_SUB | LEGACY_TEST, CMP),
	L(legacy_modify, ALU_AND | LEGACY_TEST, TEST),
	L(legacy_modify, LOCKED_BTS | LEGACY_TEST, BT),
	NAMED(legacy_modify, LOCKED_, 0, INC, DEC, NEG, NOT, BTS, BTR, XCHG),
	NAMED(legacy_modify, LOCKED_, LEGACY_LOCKED, BTC, XADD, CMPXCHG),
	L(legacy_modify, LEGACY_CMPXCHG8B | LEGACY_LOCKED, CMPXCHG8B),
	L(legacy_shift, 0, SHL, SHR, SAR),
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
	NAMED(legacy_scan, SCAN_, 0, BSF, BSR),
	L(legacy_bswap, 0, BSWAP),
	OP(CBW, legacy_op, 0, emu_help_cbw),
	OP(CWD, legacy_op, 0, emu_help_cwd),
	L(legacy_cwde, 0, CWDE),
	L(legacy_cdq, 0, CDQ),
	/* moves */
	L(legacy_mov, 0, MOV),
	L(legacy_movx, 0, MOVZX, MOVSX),
	L(legacy_lea, 0, LEA),
	L(legacy_load_far, EMU_DS, LDS),
	L(legacy_load_far, EMU_ES, LES),
	L(legacy_load_far, EMU_SS, LSS),
	L(legacy_load_far, EMU_FS, LFS),
	L(legacy_load_far, EMU_GS, LGS),
	L(legacy_string, LEGACY_LOAD | LEGACY_STORE, STRING(MOVS)),
	L(legacy_string, LEGACY_STORE, STRING(STOS)),
	L(legacy_string, LEGACY_LOAD, STRING(LODS)),
	L(legacy_string_port, LEGACY_STORE, STRING(INS)),
	L(legacy_string_port, LEGACY_LOAD, STRING(OUTS)),
	/* the stack */
	L(legacy_pushv, 0, PUSH),
	L(legacy_push_all, 0, PUSHA, PUSHAD),
	L(legacy_pushf, 0, PUSHF, PUSHFD),
	L(legacy_pop, 0, POP),
	L(legacy_pop_all, 0, POPA, POPAD),
	L(legacy_popf, 0, POPF, POPFD),
	L(legacy_leave, 0, LEAVE),
	/* transfers of control; also Jcc, below */
	L(legacy_call, 0, CALL),
	L(legacy_ret, 0, RET),
	L(legacy_jmp, 0, JMP),
	L(legacy_int, 0, INT),
	L(legacy_iret, 0, IRET, IRETD),
	/* flags */
	OP(CLC, legacy_op, FLAG_CLC, emu_help_flagop),
	OP(STC, legacy_op, FLAG_STC, emu_help_flagop),
	OP(CMC, legacy_op, FLAG_CMC, emu_help_flagop),
	OP(CLD, legacy_op, FLAG_CLD, emu_help_flagop),
	OP(STD, legacy_op, FLAG_STD, emu_help_flagop),
	OP(CLI, legacy_op, 0, emu_sys_cli),
	OP(STI, legacy_op, 0, emu_sys_sti),
	/* hints, and what caches need not do */
	L(legacy_nop, 0, NOP, PAUSE, ENDBR32, ENDBR64, WBINVD, INVD),
	/* system */
	L(legacy_load_table, 0, LGDT, LIDT),
	L(legacy_store_table, 0, SGDT, SIDT),
	L(legacy_load_system, 0, LLDT, LTR),
	L(legacy_wrmsr, 0, WRMSR),
	L(legacy_port, 0, IN, OUT),
	OP(RDMSR, legacy_op, 0, emu_sys_rdmsr),
	OP(RDTSC, legacy_op, 0, emu_sys_rdtsc),
	OP(CPUID, legacy_op, 0, emu_sys_cpuid),
	OP(HLT, legacy_op, 0, emu_sys_hlt),
	/* a boot loader's search for an FPU */
	L(legacy_x87, X87_INIT, FNINIT),
	L(legacy_x87, X87_STCW, FNSTCW),
	L(legacy_x87, X87_STSW, FNSTSW),
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
