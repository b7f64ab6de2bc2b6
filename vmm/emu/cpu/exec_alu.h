/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Handlers of integer arithmetic; part of emu_exec(), included by exec.c only.
 */

/* Operations on a and b: the result, and the flags. */
#define C_ADD(sz)                                                                                  \
	res = (T##sz)(a + b);                                                                      \
	emu_fl_set(v, EMU_FK(ADD, LG##sz), SEXT(sz, res), SEXT(sz, b))
#define C_SUB(sz)                                                                                  \
	res = (T##sz)(a - b);                                                                      \
	emu_fl_set(v, EMU_FK(SUB, LG##sz), SEXT(sz, a), SEXT(sz, b))
#define C_CMP(sz)                                                                                  \
	(void)res;                                                                                 \
	emu_fl_set(v, EMU_FK(SUB, LG##sz), SEXT(sz, a), SEXT(sz, b))
#define C_LOGIC(sz, x)                                                                             \
	res = (T##sz)(x);                                                                          \
	emu_fl_set(v, EMU_FK(SUB, LG##sz), SEXT(sz, res), 0)
#define C_OR(sz)   C_LOGIC(sz, a | b)
#define C_AND(sz)  C_LOGIC(sz, a &b)
#define C_XOR(sz)  C_LOGIC(sz, a ^ b)
#define C_TEST(sz) C_LOGIC(sz, a &b)
#define C_ADC(sz)                                                                                  \
	bool c_ = emu_cf(v);                                                                       \
	v->extra += EMU_EFFORT_CARRY;                                                              \
	res = (T##sz)(a + b + c_);                                                                 \
	emu_fl_set(v, c_ ? EMU_FK(ADC, LG##sz) : EMU_FK(ADD, LG##sz), SEXT(sz, res), SEXT(sz, b))
#define C_SBB(sz)                                                                                  \
	bool c_ = emu_cf(v);                                                                       \
	v->extra += EMU_EFFORT_CARRY;                                                              \
	res = (T##sz)(a - b - c_);                                                                 \
	emu_fl_set(v, c_ ? EMU_FK(SBB, LG##sz) : EMU_FK(SUB, LG##sz), SEXT(sz, a), SEXT(sz, b))

#define ALU_REG_FORM(n, form, sz, set_b)                                                           \
	OP(n##_##form##sz)                                                                         \
	{                                                                                          \
		T##sz a = GET##sz(op->dst), b, res;                                                \
		set_b;                                                                             \
		C_##n(sz);                                                                         \
		WB_##n(PUT##sz(op->dst, res));                                                     \
		NEXT;                                                                              \
	}
#define ALU_REG_FORMS(n, sz)                                                                       \
	ALU_REG_FORM(n, RR, sz, b = GET##sz(op->src))                                              \
	ALU_REG_FORM(n, RI, sz, b = (T##sz)op->imm)                                                \
	ALU_REG_FORM(n, RM, sz, LOAD(sz, EAB, b))                                                  \
	ALU_REG_FORM(n, RX, sz, LOAD(sz, EAX, b))

#define ALU_RMW_FORM(n, form, sz, other)                                                           \
	OP(n##_##form##sz)                                                                         \
	{                                                                                          \
		T##sz a, b = (other), res;                                                         \
		emu_u##sz *p;                                                                      \
		RMW(sz, EAX, p);                                                                   \
		a = p->v;                                                                          \
		C_##n(sz);                                                                         \
		p->v = res;                                                                        \
		RMW_END(p);                                                                        \
		NEXT;                                                                              \
	}
#define ALU_RMW_FORMS(n, sz)                                                                       \
	ALU_RMW_FORM(n, MR, sz, GET##sz(op->src))                                                  \
	ALU_RMW_FORM(n, MI, sz, (T##sz)op->imm)

#define ALU_CMP_FORM(n, form, sz, other)                                                           \
	OP(n##_##form##sz)                                                                         \
	{                                                                                          \
		T##sz a, b = (other), res;                                                         \
		LOAD(sz, EAX, a);                                                                  \
		C_##n(sz);                                                                         \
		(void)res;                                                                         \
		NEXT;                                                                              \
	}
#define ALU_CMP_FORMS(n, sz)                                                                       \
	ALU_CMP_FORM(n, MR, sz, GET##sz(op->src))                                                  \
	ALU_CMP_FORM(n, MI, sz, (T##sz)op->imm)

#define WB_ADD(x)  (x)
#define WB_OR(x)   (x)
#define WB_ADC(x)  (x)
#define WB_SBB(x)  (x)
#define WB_AND(x)  (x)
#define WB_SUB(x)  (x)
#define WB_XOR(x)  (x)
#define WB_CMP(x)  (void)res
#define WB_TEST(x) (void)res

#define ALU_SIZES(m, n) m(n, 8) m(n, 16) m(n, 32) m(n, 64)
#define ALU(n)		ALU_SIZES(ALU_REG_FORMS, n) ALU_SIZES(ALU_RMW_FORMS, n)
#define ALU_NOWRITE(n)	ALU_SIZES(ALU_REG_FORMS, n) ALU_SIZES(ALU_CMP_FORMS, n)

ALU(ADD);
ALU(OR);
ALU(ADC);
ALU(SBB);
ALU(AND);
ALU(SUB);
ALU(XOR);
ALU_NOWRITE(CMP);
ALU_NOWRITE(TEST);

/* ---- one operand ---- */

#define STEP(n, sz, by)                                                                            \
	OP(n##sz)                                                                                  \
	{                                                                                          \
		T##sz a = (T##sz)(GET##sz(op->dst) + (by));                                        \
		uint64_t cf = emu_cf(v);                                                           \
		emu_fl_set(v, EMU_FK(n, LG##sz), SEXT(sz, a), cf);                                 \
		PUT##sz(op->dst, a);                                                               \
		NEXT;                                                                              \
	}
#define UNARY(sz)                                                                                  \
	DO(NOT##sz, PUT##sz(op->dst, (T##sz) ~GET##sz(op->dst)))                                   \
	OP(NEG##sz)                                                                                \
	{                                                                                          \
		T##sz a = GET##sz(op->dst);                                                        \
		emu_fl_set(v, EMU_FK(SUB, LG##sz), 0, SEXT(sz, a));                                \
		PUT##sz(op->dst, (T##sz)(0 - a));                                                  \
		NEXT;                                                                              \
	}                                                                                          \
	STEP(INC, sz, 1)                                                                           \
	STEP(DEC, sz, -1)
ALL_SIZES(UNARY);

/* Shifts by a non-zero count; CF is the last bit shifted out. Counts up to 31 exceed the width of
 * 8- and 16-bit operands, hence the 64-bit arithmetic. */
#define SHL_BODY(sz, c)                                                                            \
	do {                                                                                       \
		T##sz a = GET##sz(op->dst);                                                        \
		unsigned int c_ = (c);                                                             \
		T##sz res = (T##sz)((uint64_t)a << c_);                                            \
		uint64_t cf = c_ <= (sz) ? (uint64_t)a >> ((sz)-c_) & 1 : 0;                       \
		emu_fl_set(v, EMU_FK(SHL, LG##sz), SEXT(sz, res), cf);                             \
		PUT##sz(op->dst, res);                                                             \
	} while (0)
/* The operand is extended to @a_type (64 bits) as @cast. */
#define SHR_AS(sz, c, a_type, cast)                                                                \
	do {                                                                                       \
		a_type a = (cast)GET##sz(op->dst);                                                 \
		unsigned int c_ = (c);                                                             \
		T##sz res = (T##sz)(a >> c_);                                                      \
		emu_fl_set(v, EMU_FK(SHR, LG##sz), SEXT(sz, res), a >> (c_ - 1) & 1);              \
		PUT##sz(op->dst, res);                                                             \
	} while (0)
#define SHR_BODY(sz, c) SHR_AS(sz, c, uint64_t, T##sz)
#define SAR_BODY(sz, c) SHR_AS(sz, c, int64_t, S##sz)
#define CL_COUNT(sz)	((unsigned int)(R(EMU_RCX) & ((sz) == 64 ? 63 : 31)))

#define SHIFT(n, sz)                                                                               \
	DO(n##_I##sz, n##_BODY(sz, (unsigned int)op->imm))                                         \
	OP(n##_C##sz)                                                                              \
	{                                                                                          \
		unsigned int c = CL_COUNT(sz);                                                     \
		if (likely(c))                                                                     \
			n##_BODY(sz, c);                                                           \
		else                                                                               \
			PUT##sz(op->dst, GET##sz(op->dst));                                        \
		NEXT;                                                                              \
	}
#define SHIFTS(sz) SHIFT(SHL, sz) SHIFT(SHR, sz) SHIFT(SAR, sz)
ALL_SIZES(SHIFTS);

/* ---- exchange and add, compare and exchange: register forms ---- */

#define XADD(sz)                                                                                   \
	OP(XADD##sz)                                                                               \
	{                                                                                          \
		T##sz a = GET##sz(op->dst), b = GET##sz(op->src), res;                             \
		C_ADD(sz);                                                                         \
		PUT##sz(op->src, a);                                                               \
		PUT##sz(op->dst, res);                                                             \
		NEXT;                                                                              \
	}
XADD(32);
XADD(64);

/* If it differs, a 32-bit destination keeps its upper half. */
#define CMPXCHG(sz)                                                                                \
	OP(CMPXCHG##sz)                                                                            \
	{                                                                                          \
		T##sz a = GET##sz(EMU_RAX), b = GET##sz(op->dst), res;                             \
		C_CMP(sz);                                                                         \
		if (a == b)                                                                        \
			PUT##sz(op->dst, GET##sz(op->src));                                        \
		else                                                                               \
			PUT##sz(EMU_RAX, b);                                                       \
		NEXT;                                                                              \
	}
CMPXCHG(32);
CMPXCHG(64);

/* ---- multiplication: SF, ZF, AF and PF are unchanged ---- */

#define IMUL_BODY(sz, wide, x, y)                                                                  \
	do {                                                                                       \
		wide r_ = (wide)(S##sz)(x) * (S##sz)(y);                                           \
		emu_fl_override(v, EMU_CF | EMU_OF, r_ != (S##sz)r_ ? EMU_CF | EMU_OF : 0);        \
		PUT##sz(op->dst, (T##sz)r_);                                                       \
	} while (0)
OP(MUL32)
{
	uint64_t r = (uint64_t)GET32(EMU_RAX) * GET32(op->src);
	v->extra += EMU_EFFORT_MUL;
	emu_fl_override(v, EMU_CF | EMU_OF, r >> 32 ? EMU_CF | EMU_OF : 0);
	R(EMU_RAX) = (uint32_t)r;
	R(EMU_RDX) = r >> 32;
	NEXT;
}
OP(MUL64)
{
	unsigned __int128 r = (unsigned __int128)R(EMU_RAX) * R(op->src);
	v->extra += EMU_EFFORT_MUL;
	emu_fl_override(v, EMU_CF | EMU_OF, (uint64_t)(r >> 64) ? EMU_CF | EMU_OF : 0);
	R(EMU_RAX) = (uint64_t)r;
	R(EMU_RDX) = (uint64_t)(r >> 64);
	NEXT;
}
DO(IMUL_RR32, IMUL_BODY(32, int64_t, GET32(op->dst), GET32(op->src)))
DO(IMUL_RR64, IMUL_BODY(64, __int128, GET64(op->dst), GET64(op->src)))
DO(IMUL_RRI32, IMUL_BODY(32, int64_t, GET32(op->src), op->imm))
DO(IMUL_RRI64, IMUL_BODY(64, __int128, GET64(op->src), op->imm))
