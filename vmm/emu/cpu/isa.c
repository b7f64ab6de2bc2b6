// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The closed list: every instruction that the emulator executes, the function that emits it,
 * and its modelled cost in cycles without memory accesses. An instruction that is not in the list
 * ends run() with an error that names the instruction. decode.c looks instructions up here.
 */
#include "vmm/emu/cpu/emit.h"

#define CC(f, c, fl, m)                                                                            \
	ISA_ROW(f, 0, c, fl, m##O), ISA_ROW(f, 1, c, fl, m##NO), ISA_ROW(f, 2, c, fl, m##B),       \
		ISA_ROW(f, 3, c, fl, m##NB), ISA_ROW(f, 4, c, fl, m##Z),                           \
		ISA_ROW(f, 5, c, fl, m##NZ), ISA_ROW(f, 6, c, fl, m##BE),                          \
		ISA_ROW(f, 7, c, fl, m##NBE), ISA_ROW(f, 8, c, fl, m##S),                          \
		ISA_ROW(f, 9, c, fl, m##NS), ISA_ROW(f, 10, c, fl, m##P),                          \
		ISA_ROW(f, 11, c, fl, m##NP), ISA_ROW(f, 12, c, fl, m##L),                         \
		ISA_ROW(f, 13, c, fl, m##NL), ISA_ROW(f, 14, c, fl, m##LE),                        \
		ISA_ROW(f, 15, c, fl, m##NLE)
#define STRING(k, m)                                                                               \
	ISA_ROW(emit_string, (k) << 2 | 0, 2, 0, m##B),                                            \
		ISA_ROW(emit_string, (k) << 2 | 1, 2, 0, m##W),                                    \
		ISA_ROW(emit_string, (k) << 2 | 2, 2, 0, m##D),                                    \
		ISA_ROW(emit_string, (k) << 2 | 3, 2, 0, m##Q)
/* As ROWS_FLAGS, but the argument of each row is @a with the mnemonic appended. */
#define NAMED(...) ROWS_64(NAMED_NEXT(__VA_ARGS__))
#define NAMED_NEXT(f, a, c, fl, m, ...)                                                            \
	ISA_ROW(f, a##m, c, fl, m)                                                                 \
	__VA_OPT__(, NAMED_AGAIN ROWS_PARENS(f, a, c, fl, __VA_ARGS__))
#define NAMED_AGAIN()	   NAMED_NEXT
#define SYSTEM(c, ...)	   NAMED(emit_system, SYS_, c, 0, __VA_ARGS__)
#define SYS_NO_MEM(c, ...) NAMED(emit_system, SYS_, c, ISA_NO_MEM, __VA_ARGS__)
#define SYS_BRANCH(c, ...) NAMED(emit_system, SYS_, c, ISA_BRANCH | ISA_NO_MEM, __VA_ARGS__)

static const struct emu_isa_row rows[] = {
	/* arithmetic and logic */
	NAMED(emit_alu, ALU_, 1, 0, ADD, OR, ADC, SBB, AND, SUB, XOR, CMP, TEST),
	ROWS(emit_unary, EMU_OP_NOT8, 1, NOT),
	ROWS(emit_unary, EMU_OP_NEG8, 1, NEG),
	ROWS(emit_unary, EMU_OP_INC8, 1, INC),
	ROWS(emit_unary, EMU_OP_DEC8, 1, DEC),
	ROWS(emit_shift, 0, 1, SHL),
	ROWS(emit_shift, 1, 1, SHR),
	ROWS(emit_shift, 2, 1, SAR),
	NAMED(emit_rotate, ROT_, 1, 0, ROL, ROR),
	NAMED(emit_rotate, ROT_, 3, 0, RCL, RCR),
	ROWS(emit_shiftd, 0, 3, SHLD),
	ROWS(emit_shiftd, 1, 3, SHRD),
	ROWS(emit_mul, 0, 3, MUL),
	ROWS(emit_imul, 0, 3, IMUL),
	ROWS(emit_mul, 2, 14, DIV),
	ROWS(emit_mul, 3, 14, IDIV),
	ROWS(emit_bt, 0, 1, BT),
	ROWS(emit_bt, 1, 1, BTS),
	ROWS(emit_bt, 2, 1, BTR),
	ROWS(emit_bt, 3, 1, BTC),
	NAMED(emit_scan, SCAN_, 3, 0, BSF, BSR),
	NAMED(emit_scan, SCAN_, 2, 0, TZCNT),
	NAMED(emit_scan, SCAN_, 1, 0, LZCNT, POPCNT),
	ROWS(emit_bswap, 0, 1, BSWAP),
	NAMED(emit_bmi, BMI_, 1, 0, ANDN, BLSI, BLSMSK, BLSR, BZHI, RORX, SARX, SHLX, SHRX),
	NAMED(emit_bmi, BMI_, 2, 0, BEXTR),
	NAMED(emit_bmi, BMI_, 3, 0, PDEP, PEXT),
	NAMED(emit_bmi, BMI_, 4, 0, MULX),
	ROWS(emit_cbw, 0, 1, CBW),
	ROWS(emit_cbw, 1, 1, CWD),
	NAMED(emit_simple, EMU_OP_, 1, 0, CWDE, CDQE, CDQ, CQO),
	/* moves */
	ROWS(emit_mov, 0, 1, MOV, MOVNTI),
	ROWS(emit_movbe, 0, 1, MOVBE),
	ROWS(emit_movx, 0, 1, MOVZX),
	ROWS(emit_movx, 1, 1, MOVSX, MOVSXD),
	ROWS(emit_xlat, 0, 2, XLAT),
	ROWS(emit_lea, 0, 1, LEA),
	ROWS(emit_xchg, 0, 2, XCHG),
	ROWS(emit_xadd, 0, 4, XADD),
	ROWS(emit_cmpxchg, 0, 5, CMPXCHG),
	ROWS(emit_cmpxchgb, 2, 8, CMPXCHG8B),
	ROWS(emit_cmpxchgb, 3, 12, CMPXCHG16B),
	ROWS(emit_push, 0, 1, PUSH),
	ROWS(emit_pop, 0, 1, POP),
	ROWS(emit_leave, 0, 2, LEAVE),
	ROWS(emit_enter, 0, 8, ENTER),
	CC(emit_setcc, 1, 0, SET),
	CC(emit_cmov, 1, 0, CMOV),
	/* flags */
	NAMED(emit_flagop, FLAG_, 1, 0, CLC, STC, CMC),
	NAMED(emit_flagop, FLAG_, 2, 0, CLD, STD),
	ROWS(emit_ahf, 0, 2, LAHF),
	ROWS(emit_ahf, 1, 1, SAHF),
	ROWS(emit_system, SYS_PUSHF, 8, PUSHF, PUSHFQ),
	ROWS(emit_system, SYS_POPF, 20, POPF, POPFQ),
	/* transfers of control */
	CC(emit_jcc, 1, ISA_BRANCH, J),
	ROWS_FLAGS(emit_jmp, 0, 1, ISA_BRANCH, JMP),
	ROWS_FLAGS(emit_call, 0, 1, ISA_BRANCH, CALL),
	ROWS_FLAGS(emit_ret, 0, 1, ISA_BRANCH, RET),
	NAMED(emit_loop, EMU_OP_, 1, ISA_BRANCH, LOOP, LOOPE, LOOPNE),
	ROWS_FLAGS(emit_loop, EMU_OP_JRCXZ, 1, ISA_BRANCH, JRCXZ, JECXZ),
	SYS_BRANCH(25, SYSCALL, SYSRET, SYSENTER, SYSEXIT),
	NAMED(emit_system, SYS_, 28, ISA_BRANCH, IRETQ),
	SYS_BRANCH(31, INT, INT3, VMRUN),
	/* strings */
	STRING(STR_MOVS, MOVS),
	STRING(STR_STOS, STOS),
	STRING(STR_LODS, LODS),
	STRING(STR_CMPS, CMPS),
	STRING(STR_SCAS, SCAS),
	/* hints and barriers */
	ROWS_FLAGS(emit_hint, 0, 1, ISA_NO_MEM, NOP, ENDBR64, ENDBR32, PREFETCHNTA, PREFETCHT0,
		   PREFETCHT1, PREFETCHT2, PREFETCHW),
	ROWS(emit_pause, 0, 1, PAUSE),
	ROWS(emit_fence, 0, 4, LFENCE, SFENCE),
	ROWS(emit_fence, 0, 20, MFENCE),
	/* system */
	ROWS_FLAGS(emit_system, SYS_UD, 1, ISA_NO_MEM, UD0, UD1),
	ROWS(emit_system, SYS_UD, 1, UD2),
	SYSTEM(4, CLI, STI, HLT, CLTS, STR, SLDT, SMSW, SWAPGS),
	ROWS(emit_system, SYS_RDBASE, 4, RDFSBASE, RDGSBASE),
	ROWS(emit_system, SYS_WRBASE, 4, WRFSBASE, WRGSBASE),
	SYSTEM(8, SGDT, SIDT, LMSW, XGETBV),
	SYSTEM(20, LGDT, LIDT, LLDT, LTR, RDTSC, RDPMC),
	SYS_NO_MEM(20, STGI, CLGI),
	SYSTEM(24, RDTSCP),
	SYSTEM(31, WBINVD, INVD, XSETBV, CPUID, RDMSR, WRMSR, IN, OUT),
	SYS_NO_MEM(31, INVLPG, VMCALL, VMMCALL, VMLOAD, VMSAVE, INVLPGA, SKINIT, RSM),
	NAMED(emit_descriptor, EMU_, 20, 0, LAR, LSL, VERR, VERW),
};

#define NR_ROWS (unsigned int)(sizeof(rows) / sizeof(rows[0]))

static const struct emu_isa_row *row_at(unsigned int i)
{
	if (i < NR_ROWS)
		return &rows[i];
	i -= NR_ROWS;
	if (i < emu_isa_nr_fp)
		return &emu_isa_fp[i];
	i -= emu_isa_nr_fp;
	return i < emu_isa_nr_avx ? &emu_isa_avx[i] : &emu_isa_evex[i - emu_isa_nr_avx];
}

static unsigned int isa_nr_rows(void)
{
	return NR_ROWS + emu_isa_nr_fp + emu_isa_nr_avx + emu_isa_nr_evex;
}

const struct emu_isa_row *emu_isa_row(ZydisMnemonic m)
{
	static uint16_t index[ZYDIS_MNEMONIC_MAX_VALUE + 1]; /* row + 1 */
	static atomic_bool ready;

	/* Threads may race here: all of them write the same values. */
	if (!atomic_load(&ready)) {
		for (unsigned int i = 0; i < isa_nr_rows(); i++)
			__atomic_store_n(&index[row_at(i)->mnemonic], (uint16_t)(i + 1),
					 __ATOMIC_RELAXED);
		atomic_store(&ready, true);
	}
	return index[m] ? row_at(index[m] - 1u) : NULL;
}

int emu_isa_list(int (*fn)(const char *mnemonic, void *arg), void *arg)
{
	for (unsigned int i = 0; i < isa_nr_rows(); i++) {
		int rc = fn(ZydisMnemonicGetString(row_at(i)->mnemonic), arg);

		if (rc)
			return rc;
	}
	return 0;
}
