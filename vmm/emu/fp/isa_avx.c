// SPDX-License-Identifier: GPL-2.0-or-later
/* The closed list, continued: AVX, AVX2, FMA, F16C, and AVX-512's instructions on opmask registers.
 * isa.c reads these rows. */
#include "vmm/emu/fp/avx.h"

#define VROW(f, a, c, m) ISA_ROW(f, a, c, 0, V##m)
#define VROWS(...)	 ROWS_64(VROWS_NEXT(__VA_ARGS__))
#define VROWS_NEXT(f, a, c, m, ...)                                                                \
	VROW(f, a, c, m)                                                                           \
	__VA_OPT__(, VROWS_AGAIN ROWS_PARENS(f, a, c, __VA_ARGS__))
#define VROWS_AGAIN()  VROWS_NEXT
#define VMOVE(k, ...)  VROWS(emit_avx_mov, k, 1, __VA_ARGS__)
#define VPLAIN(c, ...) VROWS(emit_avx, VEX_PLAIN, c, __VA_ARGS__)
#define VARITH(c, ...) VROWS(emit_avx, VEX_ARITH, c, __VA_ARGS__)
/* The forms of 1, 2, 4 and 8 bytes. */
#define OPMASK(k, c, m)                                                                            \
	ISA_ROW(emit_opmask, OPMASK_##k, c, 0, m##B),                                              \
		ISA_ROW(emit_opmask, OPMASK_##k | 1, c, 0, m##W),                                  \
		ISA_ROW(emit_opmask, OPMASK_##k | 2, c, 0, m##D),                                  \
		ISA_ROW(emit_opmask, OPMASK_##k | 3, c, 0, m##Q)
#define FMA_ORDERS(m) m##132PS, m##132PD, m##213PS, m##213PD, m##231PS, m##231PD
#define FMA_ALL(m)    FMA_ORDERS(m), m##132SS, m##132SD, m##213SS, m##213SD, m##231SS, m##231SD

const struct emu_isa_row emu_isa_avx[] = {
	/* moves */
	VMOVE(MOV_ALL | MOVE_ALIGNED, MOVAPS, MOVAPD, MOVDQA, MOVNTPS, MOVNTPD, MOVNTDQ, MOVNTDQA),
	VMOVE(MOV_ALL, MOVUPS, MOVUPD, MOVDQU, LDDQU),
	VMOVE(MOV_LOW32, MOVSS),
	VMOVE(MOV_LOW64, MOVSD),
	VMOVE(MOV_ZERO64, MOVD, MOVQ),
	VMOVE(MOVE_LOW, MOVLPS, MOVLPD),
	VMOVE(MOVE_HIGH, MOVHPS, MOVHPD),
	VMOVE(MOV_HL, MOVHLPS),
	VMOVE(MOV_LH, MOVLHPS),
	VROWS(emit_avx_zero, 0, 1, ZEROUPPER),
	VROWS(emit_avx_zero, AVX_256, 4, ZEROALL),
	VROWS(emit_maskmov, 0, 4, MASKMOVDQU),
	VROWS(emit_fxstate, FX_LDMXCSR, 4, LDMXCSR),
	VROWS(emit_fxstate, FX_STMXCSR, 2, STMXCSR),
	VROWS(emit_simd, SIMD_TO_R, 2, PEXTRW, PEXTRB, PEXTRD, PEXTRQ, EXTRACTPS),
	VROWS(emit_avx_gpr, 0, 2, PINSRW, PINSRB, PINSRD, PINSRQ),
	VROWS(emit_avx_bits, 4 | AVX_TO_GPR, 2, MOVMSKPS),
	VROWS(emit_avx_bits, 8 | AVX_TO_GPR, 2, MOVMSKPD),
	VROWS(emit_avx_bits, 1 | AVX_TO_GPR, 2, PMOVMSKB),
	/* floating point */
	VARITH(3, ADDPS, ADDPD, ADDSS, ADDSD, SUBPS, SUBPD, SUBSS, SUBSD, MULPS, MULPD, MULSS,
	       MULSD, RCPPS, RCPSS, RSQRTPS, RSQRTSS, CVTDQ2PS, CVTPS2DQ, CVTTPS2DQ, ADDSUBPS,
	       ADDSUBPD),
	VROWS(emit_avx, VEX_LONG, 11, DIVPS, DIVSS),
	VROWS(emit_avx, VEX_LONG, 13, DIVPD, DIVSD),
	VROWS(emit_avx, VEX_LONG, 14, SQRTPS, SQRTSS),
	VROWS(emit_avx, VEX_LONG, 20, SQRTPD, SQRTSD),
	VARITH(1, MINPS, MINPD, MINSS, MINSD, MAXPS, MAXPD, MAXSS, MAXSD),
	VROWS(emit_avx, VEX_COMPARE, 1, CMPPS, CMPPD, CMPSS, CMPSD),
	VROWS(emit_simd, SIMD_COMPARE, 2, COMISS, COMISD, UCOMISS, UCOMISD),
	VARITH(4, CVTSD2SS, CVTSS2SD),
	VROWS(emit_avx, VEX_WIDEN_FP, 4, CVTDQ2PD, CVTPS2PD),
	VROWS(emit_avx, VEX_NARROW, 4, CVTPD2DQ, CVTPD2PS, CVTTPD2DQ),
	VARITH(6, HADDPS, HADDPD, HSUBPS, HSUBPD, ROUNDPS, ROUNDPD, ROUNDSS, ROUNDSD),
	VROWS(emit_avx, VEX_LONG, 12, DPPS),
	VROWS(emit_avx, VEX_LONG, 9, DPPD),
	VROWS(emit_avx_bits, 16, 3, PTEST),
	VROWS(emit_avx_bits, 4, 3, TESTPS),
	VROWS(emit_avx_bits, 8, 3, TESTPD),
	VROWS(emit_simd, SIMD_CVT_TO_R, 5, CVTSD2SI, CVTSS2SI, CVTTSD2SI, CVTTSS2SI),
	VROWS(emit_avx_gpr, SIMD_FP, 4, CVTSI2SD, CVTSI2SS),
	VROWS(emit_avx, VEX_FMA, 4, FMA_ALL(FMADD), FMA_ALL(FMSUB), FMA_ALL(FNMADD),
	      FMA_ALL(FNMSUB), FMA_ORDERS(FMADDSUB), FMA_ORDERS(FMSUBADD)),
	VROWS(emit_avx, VEX_PH2PS, 4, CVTPH2PS),
	VROWS(emit_avx_ps2ph, 0, 4, CVTPS2PH),
	/* bits of floating-point numbers */
	VPLAIN(1, ANDPS, ANDPD, ANDNPS, ANDNPD, ORPS, ORPD, XORPS, XORPD, UNPCKLPS, UNPCKLPD,
	       UNPCKHPS, UNPCKHPD, SHUFPS, SHUFPD, MOVDDUP, MOVSLDUP, MOVSHDUP, BLENDPS, BLENDPD,
	       INSERTPS),
	/* integers */
	VPLAIN(1, PADDB, PADDW, PADDD, PADDQ, PADDSB, PADDSW, PADDUSB, PADDUSW, PSUBB, PSUBW, PSUBD,
	       PSUBQ, PSUBSB, PSUBSW, PSUBUSB, PSUBUSW, PAVGB, PAVGW, PMINUB, PMINSW, PMAXUB,
	       PMAXSW, PAND, PANDN, POR, PXOR, PCMPEQB, PCMPEQW, PCMPEQD, PCMPGTB, PCMPGTW, PCMPGTD,
	       PACKSSWB, PACKSSDW, PACKUSWB, PUNPCKLBW, PUNPCKLWD, PUNPCKLDQ, PUNPCKLQDQ, PUNPCKHBW,
	       PUNPCKHWD, PUNPCKHDQ, PUNPCKHQDQ, PSHUFD, PSHUFLW, PSHUFHW),
	VPLAIN(1, PSHUFB, PALIGNR, PABSB, PABSW, PABSD, PSIGNB, PSIGNW, PSIGND, PBLENDW, PCMPEQQ,
	       PACKUSDW, PMINSB, PMINSD, PMINUW, PMINUD, PMAXSB, PMAXSD, PMAXUW, PMAXUD),
	VROWS(emit_avx, VEX_WIDEN_2, 1, PMOVSXBW, PMOVSXWD, PMOVSXDQ, PMOVZXBW, PMOVZXWD, PMOVZXDQ),
	VROWS(emit_avx, VEX_WIDEN_4, 1, PMOVSXBD, PMOVSXWQ, PMOVZXBD, PMOVZXWQ),
	VROWS(emit_avx, VEX_WIDEN_8, 1, PMOVSXBQ, PMOVZXBQ),
	VPLAIN(3, PMULLW, PMULHW, PMULHUW, PMULUDQ, PMADDWD, PSADBW, PHADDW, PHADDD, PHADDSW,
	       PHSUBW, PHSUBD, PHSUBSW, PMADDUBSW, PMULHRSW, PMULDQ, PCMPGTQ),
	VPLAIN(4, PMULLD, MPSADBW, PHMINPOSUW),
	VROWS(emit_pcmpstr, 0, 10, PCMPISTRI),
	VROWS(emit_pcmpstr, TEXT_MASK, 10, PCMPISTRM),
	VROWS(emit_pcmpstr, TEXT_EXPLICIT, 14, PCMPESTRI),
	VROWS(emit_pcmpstr, TEXT_EXPLICIT | TEXT_MASK, 14, PCMPESTRM),
	VROWS(emit_avx, VEX_SHIFT, 1, PSLLW, PSLLD, PSLLQ, PSRLW, PSRLD, PSRLQ, PSRAW, PSRAD),
	VROWS(emit_avx_perm, PERM_SLLDQ, 1, PSLLDQ),
	VROWS(emit_avx_perm, PERM_SRLDQ, 1, PSRLDQ),
	VROWS(emit_avx_perm, PERM_SLLV, 1, PSLLVD),
	VROWS(emit_avx_perm, PERM_SRLV, 1, PSRLVD),
	VROWS(emit_avx_perm, PERM_SLLV_Q, 1, PSLLVQ),
	VROWS(emit_avx_perm, PERM_SRLV_Q, 1, PSRLVQ),
	VROWS(emit_avx_perm, PERM_SRAV, 1, PSRAVD),
	/* elements */
	VROWS(emit_avx_perm, PERM_Q, 3, PERMQ, PERMPD),
	VROWS(emit_avx_perm, PERM_D, 3, PERMD, PERMPS),
	VROWS(emit_avx_perm, PERM_128, 3, PERM2F128, PERM2I128),
	VROWS(emit_avx_perm, PERM_INSERT, 3, INSERTF128, INSERTI128),
	VROWS(emit_avx_extract, 0, 3, EXTRACTF128, EXTRACTI128),
	VROWS(emit_avx_perm, PERM_BLEND, 1, PBLENDD),
	VROWS(emit_avx_perm, PERM_PS, 1, PERMILPS),
	VROWS(emit_avx_perm, PERM_PD, 1, PERMILPD),
	VROWS(emit_avx_perm, PERM_BLENDV + 4, 2, BLENDVPS),
	VROWS(emit_avx_perm, PERM_BLENDV + 8, 2, BLENDVPD),
	VROWS(emit_avx_perm, PERM_BLENDV + 1, 2, PBLENDVB),
	VROWS(emit_avx_perm, PERM_BROADCAST + 1, 1, PBROADCASTB),
	VROWS(emit_avx_perm, PERM_BROADCAST + 2, 1, PBROADCASTW),
	VROWS(emit_avx_perm, PERM_BROADCAST + 4, 1, BROADCASTSS, PBROADCASTD),
	VROWS(emit_avx_perm, PERM_BROADCAST + 8, 1, BROADCASTSD, PBROADCASTQ),
	VROWS(emit_avx_perm, PERM_BROADCAST + 16, 1, BROADCASTF128, BROADCASTI128),
	VROWS(emit_avx_maskmov, 4, 4, MASKMOVPS, PMASKMOVD),
	VROWS(emit_avx_maskmov, 8, 4, MASKMOVPD, PMASKMOVQ),
	VROWS(emit_avx_gather, 2 | 2 << 2, 20, GATHERDPS, PGATHERDD),
	VROWS(emit_avx_gather, 2 | 3 << 2, 14, GATHERDPD, PGATHERDQ),
	VROWS(emit_avx_gather, 3 | 2 << 2, 14, GATHERQPS, PGATHERQD),
	VROWS(emit_avx_gather, 3 | 3 << 2, 14, GATHERQPD, PGATHERQQ),
	/* opmask registers */
	OPMASK(MOV, 1, KMOV),
	OPMASK(AND, 1, KAND),
	OPMASK(ANDN, 1, KANDN),
	OPMASK(OR, 1, KOR),
	OPMASK(XOR, 1, KXOR),
	OPMASK(XNOR, 1, KXNOR),
	OPMASK(NOT, 1, KNOT),
	OPMASK(ADD, 4, KADD),
	OPMASK(SHIFTL, 4, KSHIFTL),
	OPMASK(SHIFTR, 4, KSHIFTR),
	OPMASK(TEST, 1, KTEST),
	OPMASK(ORTEST, 1, KORTEST),
	ISA_ROW(emit_opmask, OPMASK_UNPACK | 1, 4, 0, KUNPCKBW),
	ISA_ROW(emit_opmask, OPMASK_UNPACK | 2, 4, 0, KUNPCKWD),
	ISA_ROW(emit_opmask, OPMASK_UNPACK | 3, 4, 0, KUNPCKDQ),
};

const unsigned int emu_isa_nr_avx = sizeof(emu_isa_avx) / sizeof(emu_isa_avx[0]);
