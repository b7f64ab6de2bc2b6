/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The opcodes of the dispatch loop, as one list. exec.c makes a label of each. The emitters compute
 * an opcode as the first of its group plus an index: a change of order inside a group needs a
 * change of the emitters, too.
 *
 * Suffixes name the operands, destination first:
 *   RR register, register
 *   RI register, immediate
 *   RM register, [base + disp]
 *   RX register, [base + (idx << scale) + disp]
 *   MR [base + (idx << scale) + disp], register
 *   MI [base + (idx << scale) + disp], immediate
 * The number after them is the operand size in bits.
 */
#pragma once

#define OPS_SZ(X, n) X(n##8), X(n##16), X(n##32), X(n##64)

/* Two-operand arithmetic: [operation][form][size]. */
#define OPS_ALU_FORMS(X, a)                                                                        \
	OPS_SZ(X, a##_RR), OPS_SZ(X, a##_RI), OPS_SZ(X, a##_RM), OPS_SZ(X, a##_RX),                \
		OPS_SZ(X, a##_MR), OPS_SZ(X, a##_MI)
#define OPS_ALU(X)                                                                                 \
	OPS_ALU_FORMS(X, ADD), OPS_ALU_FORMS(X, OR), OPS_ALU_FORMS(X, ADC), OPS_ALU_FORMS(X, SBB), \
		OPS_ALU_FORMS(X, AND), OPS_ALU_FORMS(X, SUB), OPS_ALU_FORMS(X, XOR),               \
		OPS_ALU_FORMS(X, CMP), OPS_ALU_FORMS(X, TEST)

#define OPS_MOV(X)                                                                                 \
	OPS_SZ(X, MOV_RR), OPS_SZ(X, MOV_RI), OPS_SZ(X, LDB), OPS_SZ(X, LDX), OPS_SZ(X, STB),      \
		OPS_SZ(X, STX), OPS_SZ(X, STI), OPS_SZ(X, LDW), OPS_SZ(X, LDL)

/* Extending moves: [register, base form, indexed form][kind]. */
#define OPS_EXT_KINDS(X, f)                                                                        \
	X(f##Z8), X(f##Z16), X(f##S8_32), X(f##S8_64), X(f##S16_32), X(f##S16_64), X(f##S32_64)
#define OPS_EXT(X) OPS_EXT_KINDS(X, EXR_), OPS_EXT_KINDS(X, EXB_), OPS_EXT_KINDS(X, EXX_)

#define OPS_UNARY(X)                                                                               \
	OPS_SZ(X, NOT), OPS_SZ(X, NEG), OPS_SZ(X, INC), OPS_SZ(X, DEC), OPS_SZ(X, SHL_I),          \
		OPS_SZ(X, SHR_I), OPS_SZ(X, SAR_I), OPS_SZ(X, SHL_C), OPS_SZ(X, SHR_C),            \
		OPS_SZ(X, SAR_C)

#define OPS_MISC(X)                                                                                \
	X(NOP), X(LEA64B), X(LEA64X), X(LEA32), X(LEA16), X(PUSH_R), X(PUSH_I), X(POP_R),          \
		X(LEAVE), X(MUL32), X(MUL64), X(XADD32), X(XADD64), X(CMPXCHG32), X(CMPXCHG64),    \
		X(IMUL_RR32), X(IMUL_RR64), X(IMUL_RRI32), X(IMUL_RRI64), X(BSWAP32), X(BSWAP64),  \
		X(CDQ), X(CQO), X(CWDE), X(CDQE), X(XCHG32), X(XCHG64), X(HELPER), X(STRING_REP),  \
		X(SYS), X(STOP), X(HEAT), X(NATIVE), X(END)

/* Conditions on a SUB-like state of the lazy flags (a, b). CC14 adds those on a result in a. */
#define OPS_CC10(X, n)                                                                             \
	X(n##B), X(n##AE), X(n##E), X(n##NE), X(n##BE), X(n##A), X(n##L), X(n##GE), X(n##LE),      \
		X(n##G)
#define OPS_CC14(X, n) OPS_CC10(X, n), X(n##RE), X(n##RNE), X(n##RS), X(n##RNS)
#define OPS_COND(X)                                                                                \
	X(JCC), OPS_CC14(X, J_), X(SETCC), OPS_CC14(X, SET_), X(CMOVCC16), X(CMOVCC32),            \
		X(CMOVCC64), OPS_CC14(X, CMOV32_), OPS_CC14(X, CMOV64_)

#define OPS_BRANCH(X)                                                                              \
	X(JMP), X(JMP_R), X(CALL), X(CALL_R), X(RET), X(RETI), X(LOOP), X(LOOPE), X(LOOPNE),       \
		X(JRCXZ)

/* Fused pairs: [first instruction][condition]. */
#define OPS_FUSE_CMP(X)                                                                            \
	OPS_CC10(X, CJ_RR8_), OPS_CC10(X, CJ_RR32_), OPS_CC10(X, CJ_RR64_), OPS_CC10(X, CJ_RI8_),  \
		OPS_CC10(X, CJ_RI32_), OPS_CC10(X, CJ_RI64_), OPS_CC10(X, CJ_RX32_),               \
		OPS_CC10(X, CJ_RX64_), OPS_CC10(X, CJ_MR32_), OPS_CC10(X, CJ_MR64_),               \
		OPS_CC10(X, CJ_MI8_), OPS_CC10(X, CJ_MI32_), OPS_CC10(X, CJ_MI64_)
#define OPS_CC6(X, n) X(n##E), X(n##NE), X(n##L), X(n##GE), X(n##LE), X(n##G)
#define OPS_FUSE_TEST(X)                                                                           \
	OPS_CC6(X, TJ_RR8_), OPS_CC6(X, TJ_RR32_), OPS_CC6(X, TJ_RR64_), OPS_CC6(X, TJ_RI8_),      \
		OPS_CC6(X, TJ_RI32_)
#define OPS_FUSE_RES(X)                                                                            \
	X(ADDJ32_RE), X(ADDJ32_RNE), X(ADDJ64_RE), X(ADDJ64_RNE), X(SUBJ32_RE), X(SUBJ32_RNE),     \
		X(SUBJ64_RE), X(SUBJ64_RNE), X(DECJ32_RE), X(DECJ32_RNE), X(DECJ64_RE),            \
		X(DECJ64_RNE)

#define EMU_OPS(X)                                                                                 \
	OPS_ALU(X), OPS_MOV(X), OPS_EXT(X), OPS_UNARY(X), OPS_MISC(X), OPS_COND(X), OPS_BRANCH(X), \
		OPS_FUSE_CMP(X), OPS_FUSE_TEST(X), OPS_FUSE_RES(X)

enum emu_opcode {
#define X(n) EMU_OP_##n
	EMU_OPS(X),
#undef X
	EMU_NR_OPS
};
