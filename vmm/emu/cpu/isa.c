// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The closed list: every instruction that the emulator executes, the function that emits it,
 * and its modelled cost in cycles without memory accesses. An instruction that is not in the list
 * ends run() with an error that names the instruction. decode.c looks instructions up here.
 */
#include "vmm/emu/cpu/emit.h"

#define I(m, f, a, c, ...)                                                                         \
	{                                                                                          \
		ZYDIS_MNEMONIC_##m, f, a, c, (0 __VA_ARGS__)                                       \
	}
#define CC(m, f, c, fl)                                                                            \
	I(m##O, f, 0, c, fl), I(m##NO, f, 1, c, fl), I(m##B, f, 2, c, fl), I(m##NB, f, 3, c, fl),  \
		I(m##Z, f, 4, c, fl), I(m##NZ, f, 5, c, fl), I(m##BE, f, 6, c, fl),                \
		I(m##NBE, f, 7, c, fl), I(m##S, f, 8, c, fl), I(m##NS, f, 9, c, fl),               \
		I(m##P, f, 10, c, fl), I(m##NP, f, 11, c, fl), I(m##L, f, 12, c, fl),              \
		I(m##NL, f, 13, c, fl), I(m##LE, f, 14, c, fl), I(m##NLE, f, 15, c, fl)
#define STR(m, k)                                                                                  \
	I(m##B, emit_string, (k) << 2 | 0, 2), I(m##W, emit_string, (k) << 2 | 1, 2),              \
		I(m##D, emit_string, (k) << 2 | 2, 2), I(m##Q, emit_string, (k) << 2 | 3, 2)
#define NOPS(m) I(m, emit_hint, 0, 1, | ISA_NO_MEM)

static const struct emu_isa_row rows[] = {
	/* arithmetic and logic */
	I(ADD, emit_alu, ALU_ADD, 1),
	I(OR, emit_alu, ALU_OR, 1),
	I(ADC, emit_alu, ALU_ADC, 1),
	I(SBB, emit_alu, ALU_SBB, 1),
	I(AND, emit_alu, ALU_AND, 1),
	I(SUB, emit_alu, ALU_SUB, 1),
	I(XOR, emit_alu, ALU_XOR, 1),
	I(CMP, emit_alu, ALU_CMP, 1),
	I(TEST, emit_alu, ALU_TEST, 1),
	I(NOT, emit_unary, EMU_OP_NOT8, 1),
	I(NEG, emit_unary, EMU_OP_NEG8, 1),
	I(INC, emit_unary, EMU_OP_INC8, 1),
	I(DEC, emit_unary, EMU_OP_DEC8, 1),
	I(SHL, emit_shift, 0, 1),
	I(SHR, emit_shift, 1, 1),
	I(SAR, emit_shift, 2, 1),
	I(ROL, emit_rotate, ROT_ROL, 1),
	I(ROR, emit_rotate, ROT_ROR, 1),
	I(RCL, emit_rotate, ROT_RCL, 3),
	I(RCR, emit_rotate, ROT_RCR, 3),
	I(SHLD, emit_shiftd, 0, 3),
	I(SHRD, emit_shiftd, 1, 3),
	I(MUL, emit_mul, 0, 3),
	I(IMUL, emit_imul, 0, 3),
	I(DIV, emit_mul, 2, 14),
	I(IDIV, emit_mul, 3, 14),
	I(BT, emit_bt, 0, 1),
	I(BTS, emit_bt, 1, 1),
	I(BTR, emit_bt, 2, 1),
	I(BTC, emit_bt, 3, 1),
	I(BSF, emit_scan, SCAN_BSF, 3),
	I(BSR, emit_scan, SCAN_BSR, 3),
	I(TZCNT, emit_scan, SCAN_TZCNT, 2),
	I(LZCNT, emit_scan, SCAN_LZCNT, 1),
	I(POPCNT, emit_scan, SCAN_POPCNT, 1),
	I(BSWAP, emit_bswap, 0, 1),
	I(ANDN, emit_bmi, BMI_ANDN, 1),
	I(BEXTR, emit_bmi, BMI_BEXTR, 2),
	I(BLSI, emit_bmi, BMI_BLSI, 1),
	I(BLSMSK, emit_bmi, BMI_BLSMSK, 1),
	I(BLSR, emit_bmi, BMI_BLSR, 1),
	I(BZHI, emit_bmi, BMI_BZHI, 1),
	I(MULX, emit_bmi, BMI_MULX, 4),
	I(PDEP, emit_bmi, BMI_PDEP, 3),
	I(PEXT, emit_bmi, BMI_PEXT, 3),
	I(RORX, emit_bmi, BMI_RORX, 1),
	I(SARX, emit_bmi, BMI_SARX, 1),
	I(SHLX, emit_bmi, BMI_SHLX, 1),
	I(SHRX, emit_bmi, BMI_SHRX, 1),
	I(CBW, emit_cbw, 0, 1),
	I(CWDE, emit_simple, EMU_OP_CWDE, 1),
	I(CDQE, emit_simple, EMU_OP_CDQE, 1),
	I(CWD, emit_cbw, 1, 1),
	I(CDQ, emit_simple, EMU_OP_CDQ, 1),
	I(CQO, emit_simple, EMU_OP_CQO, 1),
	/* moves */
	I(MOV, emit_mov, 0, 1),
	I(MOVNTI, emit_mov, 0, 1),
	I(MOVBE, emit_movbe, 0, 1),
	I(MOVZX, emit_movx, 0, 1),
	I(MOVSX, emit_movx, 1, 1),
	I(MOVSXD, emit_movx, 1, 1),
	I(XLAT, emit_xlat, 0, 2),
	I(LEA, emit_lea, 0, 1),
	I(XCHG, emit_xchg, 0, 2),
	I(XADD, emit_xadd, 0, 4),
	I(CMPXCHG, emit_cmpxchg, 0, 5),
	I(CMPXCHG8B, emit_cmpxchgb, 2, 8),
	I(CMPXCHG16B, emit_cmpxchgb, 3, 12),
	I(PUSH, emit_push, 0, 1),
	I(POP, emit_pop, 0, 1),
	I(LEAVE, emit_leave, 0, 2),
	I(ENTER, emit_enter, 0, 8),
	CC(SET, emit_setcc, 1, ),
	CC(CMOV, emit_cmov, 1, ),
	/* flags */
	I(CLC, emit_flagop, FLAG_CLC, 1),
	I(STC, emit_flagop, FLAG_STC, 1),
	I(CMC, emit_flagop, FLAG_CMC, 1),
	I(CLD, emit_flagop, FLAG_CLD, 2),
	I(STD, emit_flagop, FLAG_STD, 2),
	I(LAHF, emit_ahf, 0, 2),
	I(SAHF, emit_ahf, 1, 1),
	I(PUSHF, emit_system, SYS_PUSHF, 8),
	I(PUSHFQ, emit_system, SYS_PUSHF, 8),
	I(POPF, emit_system, SYS_POPF, 20),
	I(POPFQ, emit_system, SYS_POPF, 20),
	/* transfers of control */
	CC(J, emit_jcc, 1, | ISA_BRANCH),
	I(JMP, emit_jmp, 0, 1, | ISA_BRANCH),
	I(CALL, emit_call, 0, 1, | ISA_BRANCH),
	I(RET, emit_ret, 0, 1, | ISA_BRANCH),
	I(LOOP, emit_loop, EMU_OP_LOOP, 1, | ISA_BRANCH),
	I(LOOPE, emit_loop, EMU_OP_LOOPE, 1, | ISA_BRANCH),
	I(LOOPNE, emit_loop, EMU_OP_LOOPNE, 1, | ISA_BRANCH),
	I(JRCXZ, emit_loop, EMU_OP_JRCXZ, 1, | ISA_BRANCH),
	I(JECXZ, emit_loop, EMU_OP_JRCXZ, 1, | ISA_BRANCH),
	I(SYSCALL, emit_system, SYS_SYSCALL, 25, | ISA_BRANCH | ISA_NO_MEM),
	I(SYSRET, emit_system, SYS_SYSRET, 25, | ISA_BRANCH | ISA_NO_MEM),
	I(SYSENTER, emit_system, SYS_SYSENTER, 25, | ISA_BRANCH | ISA_NO_MEM),
	I(SYSEXIT, emit_system, SYS_SYSEXIT, 25, | ISA_BRANCH | ISA_NO_MEM),
	I(IRETQ, emit_system, SYS_IRETQ, 28, | ISA_BRANCH),
	I(INT, emit_system, SYS_INT, 31, | ISA_BRANCH | ISA_NO_MEM),
	I(INT3, emit_system, SYS_INT3, 31, | ISA_BRANCH | ISA_NO_MEM),
	/* strings */
	STR(MOVS, STR_MOVS),
	STR(STOS, STR_STOS),
	STR(LODS, STR_LODS),
	STR(CMPS, STR_CMPS),
	STR(SCAS, STR_SCAS),
	/* hints and barriers */
	NOPS(NOP),
	I(PAUSE, emit_pause, 0, 1),
	NOPS(ENDBR64),
	NOPS(ENDBR32),
	NOPS(PREFETCHNTA),
	NOPS(PREFETCHT0),
	NOPS(PREFETCHT1),
	NOPS(PREFETCHT2),
	NOPS(PREFETCHW),
	I(LFENCE, emit_fence, 0, 4),
	I(MFENCE, emit_fence, 0, 20),
	I(SFENCE, emit_fence, 0, 4),
	/* system */
	I(UD0, emit_system, SYS_UD, 1, | ISA_NO_MEM),
	I(UD1, emit_system, SYS_UD, 1, | ISA_NO_MEM),
	I(UD2, emit_system, SYS_UD, 1),
	I(CLI, emit_system, SYS_CLI, 4),
	I(STI, emit_system, SYS_STI, 4),
	I(HLT, emit_system, SYS_HLT, 4),
	I(CLTS, emit_system, SYS_CLTS, 4),
	I(INVLPG, emit_system, SYS_INVLPG, 31, | ISA_NO_MEM),
	I(WBINVD, emit_system, SYS_WBINVD, 31),
	I(INVD, emit_system, SYS_INVD, 31),
	I(LGDT, emit_system, SYS_LGDT, 20),
	I(LIDT, emit_system, SYS_LIDT, 20),
	I(SGDT, emit_system, SYS_SGDT, 8),
	I(SIDT, emit_system, SYS_SIDT, 8),
	I(LLDT, emit_system, SYS_LLDT, 20),
	I(LTR, emit_system, SYS_LTR, 20),
	I(STR, emit_system, SYS_STR, 4),
	I(SLDT, emit_system, SYS_SLDT, 4),
	I(SMSW, emit_system, SYS_SMSW, 4),
	I(LMSW, emit_system, SYS_LMSW, 8),
	I(LAR, emit_descriptor, EMU_LAR, 20),
	I(LSL, emit_descriptor, EMU_LSL, 20),
	I(VERR, emit_descriptor, EMU_VERR, 20),
	I(VERW, emit_descriptor, EMU_VERW, 20),
	I(VMCALL, emit_system, SYS_VMCALL, 31, | ISA_NO_MEM),
	I(VMMCALL, emit_system, SYS_VMMCALL, 31, | ISA_NO_MEM),
	I(VMRUN, emit_system, SYS_VMRUN, 31, | ISA_BRANCH | ISA_NO_MEM),
	I(VMLOAD, emit_system, SYS_VMLOAD, 31, | ISA_NO_MEM),
	I(VMSAVE, emit_system, SYS_VMSAVE, 31, | ISA_NO_MEM),
	I(STGI, emit_system, SYS_STGI, 20, | ISA_NO_MEM),
	I(CLGI, emit_system, SYS_CLGI, 20, | ISA_NO_MEM),
	I(INVLPGA, emit_system, SYS_INVLPGA, 31, | ISA_NO_MEM),
	I(SKINIT, emit_system, SYS_SKINIT, 31, | ISA_NO_MEM),
	I(RSM, emit_system, SYS_RSM, 31, | ISA_NO_MEM),
	I(SWAPGS, emit_system, SYS_SWAPGS, 4),
	I(RDFSBASE, emit_system, SYS_RDBASE, 4),
	I(RDGSBASE, emit_system, SYS_RDBASE, 4),
	I(WRFSBASE, emit_system, SYS_WRBASE, 4),
	I(WRGSBASE, emit_system, SYS_WRBASE, 4),
	I(XGETBV, emit_system, SYS_XGETBV, 8),
	I(XSETBV, emit_system, SYS_XSETBV, 31),
	I(CPUID, emit_system, SYS_CPUID, 31),
	I(RDTSC, emit_system, SYS_RDTSC, 20),
	I(RDTSCP, emit_system, SYS_RDTSCP, 24),
	I(RDMSR, emit_system, SYS_RDMSR, 31),
	I(WRMSR, emit_system, SYS_WRMSR, 31),
	I(RDPMC, emit_system, SYS_RDPMC, 20),
	I(IN, emit_system, SYS_IN, 31),
	I(OUT, emit_system, SYS_OUT, 31),
};

#define NR_ROWS (unsigned int)(sizeof(rows) / sizeof(rows[0]))

static const struct emu_isa_row *row_at(unsigned int i)
{
	if (i < NR_ROWS)
		return &rows[i];
	i -= NR_ROWS;
	return i < emu_isa_nr_fp ? &emu_isa_fp[i] : &emu_isa_avx[i - emu_isa_nr_fp];
}

static unsigned int isa_nr_rows(void)
{
	return NR_ROWS + emu_isa_nr_fp + emu_isa_nr_avx;
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
