/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Handlers of conditions and transfers of control, fused pairs included; part of emu_exec(),
 * included by exec.c only. A pair's second op holds the links.
 */

#define CC10(m) m(B) m(AE) m(E) m(NE) m(BE) m(A) m(L) m(GE) m(LE) m(G)
#define CC14(m) CC10(m) m(RE) m(RNE) m(RS) m(RNS)

/* ---- conditions on a state known when the block was decoded ---- */
#define COND_KNOWN(cc)                                                                             \
	OP(J_##cc)                                                                                 \
	{                                                                                          \
		BRANCH(CC_##cc(v->fl_a, v->fl_b), op);                                             \
	}                                                                                          \
	DO(SET_##cc, GET8W(op->dst) = CC_##cc(v->fl_a, v->fl_b))                                   \
	DO(CMOV32_##cc, R(op->dst) = CC_##cc(v->fl_a, v->fl_b) ? GET32(op->src) : GET32(op->dst))  \
	DO(CMOV64_##cc, R(op->dst) = CC_##cc(v->fl_a, v->fl_b) ? R(op->src) : R(op->dst))
#define GET8W(i) (((uint8_t *)v->r)[i])
CC14(COND_KNOWN)

/* ---- any condition, any state; the condition's number is in scale ---- */
OP(JCC)
{
	BRANCH(emu_cc_slow(v, op->scale), op);
}
DO(SETCC, GET8W(op->dst) = emu_cc_slow(v, op->scale))
DO(CMOVCC16, if (emu_cc_slow(v, op->scale)) PUT16(op->dst, GET16(op->src)))
DO(CMOVCC32, PUT32(op->dst, emu_cc_slow(v, op->scale) ? GET32(op->src) : GET32(op->dst)))
DO(CMOVCC64, if (emu_cc_slow(v, op->scale)) R(op->dst) = R(op->src))

/* ---- transfers ---- */
OP(JMP)
{
	TAKEN(op);
}
OP(JMP_R)
{
	TARGET(R(op->src));
	INDIRECT(R(op->src));
}
OP(CALL)
{
	STORE(64, R(EMU_RSP) - 8, op->imm);
	R(EMU_RSP) -= 8;
	TAKEN(op);
}
OP(CALL_R)
{
	uint64_t to = R(op->src);
	if (unlikely(!emu_canonical(to))) {
		emu_call_nowhere(v, op);
		goto trap;
	}
	STORE(64, R(EMU_RSP) - 8, op->imm);
	R(EMU_RSP) -= 8;
	INDIRECT(to);
}
#define RETURN(n, drop)                                                                            \
	OP(n)                                                                                      \
	{                                                                                          \
		uint64_t to;                                                                       \
		LOAD(64, R(EMU_RSP), to);                                                          \
		TARGET(to);                                                                        \
		R(EMU_RSP) += (drop);                                                              \
		INDIRECT(to);                                                                      \
	}
RETURN(RET, 8)
RETURN(RETI, 8 + (uint64_t)op->imm)
#define LOOP_COUNT                                                                                 \
	(op->flags & EMU_OPF_A32 ? (R(EMU_RCX) = (uint32_t)(R(EMU_RCX) - 1)) : --R(EMU_RCX))
#define COUNT_LOOP(n, also)                                                                        \
	OP(n)                                                                                      \
	{                                                                                          \
		v->extra += EMU_EFFORT_LOOP;                                                       \
		bool more = LOOP_COUNT != 0;                                                       \
		BRANCH(more && (also), op);                                                        \
	}
COUNT_LOOP(LOOP, true)
COUNT_LOOP(LOOPE, emu_flags(v) & EMU_ZF)
COUNT_LOOP(LOOPNE, !(emu_flags(v) & EMU_ZF))
OP(JRCXZ)
{
	BRANCH((op->flags & EMU_OPF_A32 ? (uint32_t)R(EMU_RCX) : R(EMU_RCX)) == 0, op);
}

/* ---- compare or test, and jump ---- */
#define CMP_STATE(sz)                                                                              \
	uint64_t a = SEXT(sz, x), b = SEXT(sz, y);                                                 \
	emu_fl_set(v, EMU_FK(SUB, LG##sz), a, b)
#define CJ(form, sz, cc, set)                                                                      \
	OP(CJ_##form##sz##_##cc)                                                                   \
	{                                                                                          \
		T##sz x, y;                                                                        \
		set;                                                                               \
		CMP_STATE(sz);                                                                     \
		BRANCH(CC_##cc(a, b), op + 1);                                                     \
	}
#define X_REG(sz)      x = GET##sz(op->dst)
#define Y_REG(sz)      y = GET##sz(op->src)
#define Y_IMM(sz)      y = (T##sz)op->imm
#define CJ_RR(sz, cc)  CJ(RR, sz, cc, X_REG(sz); Y_REG(sz))
#define CJ_RI(sz, cc)  CJ(RI, sz, cc, X_REG(sz); Y_IMM(sz))
#define CJ_RX(sz, cc)  CJ(RX, sz, cc, X_REG(sz); LOAD(sz, EAX, y))
#define CJ_MR(sz, cc)  CJ(MR, sz, cc, Y_REG(sz); LOAD(sz, EAX, x))
#define CJ_MI(sz, cc)  CJ(MI, sz, cc, Y_IMM(sz); LOAD(sz, EAX, x))
#define CJ_WIDE(m, cc) m(32, cc) m(64, cc)
#define CJ_EACH(m, cc) m(8, cc) CJ_WIDE(m, cc)
#define CJ_ALL(cc)                                                                                 \
	CJ_EACH(CJ_RR, cc)                                                                         \
	CJ_EACH(CJ_RI, cc) CJ_WIDE(CJ_RX, cc) CJ_WIDE(CJ_MR, cc) CJ_EACH(CJ_MI, cc)
CC10(CJ_ALL)

#define TEST_STATE(sz)                                                                             \
	uint64_t a = SEXT(sz, x & y), b = 0;                                                       \
	emu_fl_set(v, EMU_FK(SUB, LG##sz), a, b)
#define TJ(form, sz, cc, other)                                                                    \
	OP(TJ_##form##sz##_##cc)                                                                   \
	{                                                                                          \
		T##sz x = GET##sz(op->dst), y = (other);                                           \
		TEST_STATE(sz);                                                                    \
		BRANCH(CC_##cc(a, b), op + 1);                                                     \
	}
#define TJ_RR(sz, cc) TJ(RR, sz, cc, GET##sz(op->src))
#define TJ_RI(sz, cc) TJ(RI, sz, cc, (T##sz)op->imm)
#define TJ_ALL(cc)    TJ_RR(8, cc) TJ_RR(32, cc) TJ_RR(64, cc) TJ_RI(8, cc) TJ_RI(32, cc)
TJ_ALL(E)
TJ_ALL(NE)
TJ_ALL(L)
TJ_ALL(GE)
TJ_ALL(LE)
TJ_ALL(G)

/* ---- count and jump ---- */
#define SUMJ(n, sz, cc)                                                                            \
	OP(n##J##sz##_##cc)                                                                        \
	{                                                                                          \
		T##sz a = GET##sz(op->dst), b = (T##sz)op->imm, res;                               \
		C_##n(sz);                                                                         \
		PUT##sz(op->dst, res);                                                             \
		BRANCH(CC_##cc(res, 0), op + 1);                                                   \
	}
#define ADDJ(sz, cc) SUMJ(ADD, sz, cc)
#define SUBJ(sz, cc) SUMJ(SUB, sz, cc)
#define DECJ(sz, cc)                                                                               \
	OP(DECJ##sz##_##cc)                                                                        \
	{                                                                                          \
		T##sz a = (T##sz)(GET##sz(op->dst) - 1);                                           \
		uint64_t cf = emu_cf(v);                                                           \
		emu_fl_set(v, EMU_FK(DEC, LG##sz), SEXT(sz, a), cf);                               \
		PUT##sz(op->dst, a);                                                               \
		BRANCH(CC_##cc(a, 0), op + 1);                                                     \
	}
#define COUNTJ(m) m(32, RE) m(32, RNE) m(64, RE) m(64, RNE)

COUNTJ(ADDJ);
COUNTJ(SUBJ);
COUNTJ(DECJ);
