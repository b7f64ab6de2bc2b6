/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Handlers of moves, stack operations and helper calls; part of soft_exec(), included by exec.c
 * only.
 */

#define MOVES(sz)                                                                                  \
	L_MOV_RR##sz:                                                                              \
	{                                                                                          \
		PUT##sz(op->dst, GET##sz(op->src));                                                \
		NEXT;                                                                              \
	}                                                                                          \
	L_MOV_RI##sz:                                                                              \
	{                                                                                          \
		PUT##sz(op->dst, (T##sz)op->imm);                                                  \
		NEXT;                                                                              \
	}                                                                                          \
	L_LDB##sz:                                                                                 \
	{                                                                                          \
		T##sz x;                                                                           \
		LOAD(sz, EAB, x);                                                                  \
		PUT##sz(op->dst, x);                                                               \
		NEXT;                                                                              \
	}                                                                                          \
	L_LDX##sz:                                                                                 \
	{                                                                                          \
		T##sz x;                                                                           \
		LOAD(sz, EAX, x);                                                                  \
		PUT##sz(op->dst, x);                                                               \
		NEXT;                                                                              \
	}                                                                                          \
	L_STB##sz:                                                                                 \
	{                                                                                          \
		STORE(sz, EAB, GET##sz(op->src));                                                  \
		NEXT;                                                                              \
	}                                                                                          \
	L_STX##sz:                                                                                 \
	{                                                                                          \
		STORE(sz, EAX, GET##sz(op->src));                                                  \
		NEXT;                                                                              \
	}                                                                                          \
	L_STI##sz:                                                                                 \
	{                                                                                          \
		STORE(sz, EAX, op->imm);                                                           \
		NEXT;                                                                              \
	}                                                                                          \
	/* First part of a decomposed read-modify-write: traps as the store will. */               \
	L_LDW##sz:                                                                                 \
	{                                                                                          \
		const soft_u##sz *p;                                                               \
		RMW(sz, EAX, p);                                                                   \
		PUT##sz(op->dst, p->v);                                                            \
		NEXT;                                                                              \
	}
MOVES(8)
MOVES(16)
MOVES(32)
MOVES(64)

#define EXTEND(name, from, cast, to)                                                               \
	L_EXR_##name:                                                                              \
	{                                                                                          \
		PUT##to(op->dst, (T##to)(cast)GET##from(op->src));                                 \
		NEXT;                                                                              \
	}                                                                                          \
	L_EXB_##name:                                                                              \
	{                                                                                          \
		T##from x;                                                                         \
		LOAD(from, EAB, x);                                                                \
		PUT##to(op->dst, (T##to)(cast)x);                                                  \
		NEXT;                                                                              \
	}                                                                                          \
	L_EXX_##name:                                                                              \
	{                                                                                          \
		T##from x;                                                                         \
		LOAD(from, EAX, x);                                                                \
		PUT##to(op->dst, (T##to)(cast)x);                                                  \
		NEXT;                                                                              \
	}
EXTEND(Z8, 8, uint8_t, 64)
EXTEND(Z16, 16, uint16_t, 64)
EXTEND(S8_32, 8, int8_t, 32)
EXTEND(S8_64, 8, int8_t, 64)
EXTEND(S16_32, 16, int16_t, 32)
EXTEND(S16_64, 16, int16_t, 64)
EXTEND(S32_64, 32, int32_t, 64)

L_NOP : NEXT;
L_LEA64B : R(op->dst) = EAB;
NEXT;
L_LEA64X : R(op->dst) = EAX;
NEXT;
L_LEA32 : R(op->dst) = (uint32_t)EAX;
NEXT;
L_LEA16 : PUT16(op->dst, EAX);
NEXT;

/* ---- stack ---- */
L_PUSH_R:
{
	STORE(64, R(SOFT_RSP) - 8, R(op->src));
	R(SOFT_RSP) -= 8;
	NEXT;
}
L_PUSH_I:
{
	STORE(64, R(SOFT_RSP) - 8, op->imm);
	R(SOFT_RSP) -= 8;
	NEXT;
}
L_POP_R:
{
	uint64_t x;
	LOAD(64, R(SOFT_RSP), x);
	R(SOFT_RSP) += 8;
	R(op->dst) = x;
	NEXT;
}
L_LEAVE:
{
	uint64_t x;
	LOAD(64, R(SOFT_RBP), x);
	R(SOFT_RSP) = R(SOFT_RBP) + 8;
	R(SOFT_RBP) = x;
	NEXT;
}

/* ---- registers only ---- */
L_BSWAP32 : R(op->dst) = __builtin_bswap32((uint32_t)R(op->dst));
NEXT;
L_BSWAP64 : R(op->dst) = __builtin_bswap64(R(op->dst));
NEXT;
L_CDQ : R(SOFT_RDX) = (uint32_t)((int32_t)R(SOFT_RAX) >> 31);
NEXT;
L_CQO : R(SOFT_RDX) = (uint64_t)((int64_t)R(SOFT_RAX) >> 63);
NEXT;
L_CWDE : R(SOFT_RAX) = (uint32_t)(int16_t)R(SOFT_RAX);
NEXT;
L_CDQE : R(SOFT_RAX) = (uint64_t)(int32_t)R(SOFT_RAX);
NEXT;
L_XCHG32:
{
	uint32_t x = GET32(op->dst);
	PUT32(op->dst, GET32(op->src));
	PUT32(op->src, x);
	NEXT;
}
L_XCHG64:
{
	uint64_t x = R(op->dst);
	R(op->dst) = R(op->src);
	R(op->src) = x;
	NEXT;
}

/* ---- everything without a handler of its own ---- */
L_HELPER : if (unlikely(op->fn(v, op))) goto trap;
NEXT;

/* A system instruction: alone in its block. It sees what was counted so far, itself included, in
 * v->acc and v->left, and may change the mode. */
L_SYS:
{
	int rc;

	v->left = left;
	v->acc = acc;
	v->rip = v->cur->next;
	rc = op->fn(v, op);
	left = v->left;
	acc = v->acc;
	tlb = v->tlb;
	if (unlikely(rc == 1))
		goto trap;
	/* Serialising instructions are among these: a safe point. */
	soft_sync(v);
	if (unlikely(rc || v->attn))
		goto out;
	goto find;
}

/* Patched over the first op that must not run any more. */
L_STOP : v->trap = SOFT_TRAP_STOP;
goto trap;

/* The block ended for lack of room, at a page's end, or before a system instruction. */
L_END : FALL(op);
