/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Handlers of moves, stack operations and helper calls; part of emu_exec(), included by exec.c
 * only.
 */

#define MOVES(sz)                                                                                  \
	OP(MOV_RR##sz)                                                                             \
	{                                                                                          \
		PUT##sz(op->dst, GET##sz(op->src));                                                \
		NEXT;                                                                              \
	}                                                                                          \
	OP(MOV_RI##sz)                                                                             \
	{                                                                                          \
		PUT##sz(op->dst, (T##sz)op->imm);                                                  \
		NEXT;                                                                              \
	}                                                                                          \
	OP(LDB##sz)                                                                                \
	{                                                                                          \
		T##sz x;                                                                           \
		LOAD(sz, EAB, x);                                                                  \
		PUT##sz(op->dst, x);                                                               \
		NEXT;                                                                              \
	}                                                                                          \
	OP(LDX##sz)                                                                                \
	{                                                                                          \
		T##sz x;                                                                           \
		LOAD(sz, EAX, x);                                                                  \
		PUT##sz(op->dst, x);                                                               \
		NEXT;                                                                              \
	}                                                                                          \
	OP(STB##sz)                                                                                \
	{                                                                                          \
		STORE(sz, EAB, GET##sz(op->src));                                                  \
		NEXT;                                                                              \
	}                                                                                          \
	OP(STX##sz)                                                                                \
	{                                                                                          \
		STORE(sz, EAX, GET##sz(op->src));                                                  \
		NEXT;                                                                              \
	}                                                                                          \
	OP(STI##sz)                                                                                \
	{                                                                                          \
		STORE(sz, EAX, op->imm);                                                           \
		NEXT;                                                                              \
	}                                                                                          \
	/* First part of a decomposed read-modify-write: traps as the store will. */               \
	OP(LDW##sz)                                                                                \
	{                                                                                          \
		const emu_u##sz *p;                                                                \
		RMW(sz, EAX, p);                                                                   \
		PUT##sz(op->dst, p->v);                                                            \
		NEXT;                                                                              \
	}                                                                                          \
	/* The same of a locked instruction in a VM of one vCPU. */                                \
	OP(LDL##sz)                                                                                \
	{                                                                                          \
		const emu_u##sz *p;                                                                \
		v->extra += EMU_EFFORT_ALONE;                                                      \
		RMW(sz, EAX, p);                                                                   \
		PUT##sz(op->dst, p->v);                                                            \
		NEXT;                                                                              \
	}
MOVES(8)
MOVES(16)
MOVES(32)
MOVES(64)

#define EXTEND(name, from, cast, to)                                                               \
	OP(EXR_##name)                                                                             \
	{                                                                                          \
		PUT##to(op->dst, (T##to)(cast)GET##from(op->src));                                 \
		NEXT;                                                                              \
	}                                                                                          \
	OP(EXB_##name)                                                                             \
	{                                                                                          \
		T##from x;                                                                         \
		LOAD(from, EAB, x);                                                                \
		PUT##to(op->dst, (T##to)(cast)x);                                                  \
		NEXT;                                                                              \
	}                                                                                          \
	OP(EXX_##name)                                                                             \
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

OP(NOP)
{
	NEXT;
}
OP(LEA64B)
{
	R(op->dst) = EAB;
	NEXT;
}
OP(LEA64X)
{
	R(op->dst) = EAX;
	NEXT;
}
OP(LEA32)
{
	R(op->dst) = (uint32_t)EAX;
	NEXT;
}
OP(LEA16)
{
	PUT16(op->dst, EAX);
	NEXT;
}

/* ---- stack ---- */
OP(PUSH_R)
{
	STORE(64, R(EMU_RSP) - 8, R(op->src));
	R(EMU_RSP) -= 8;
	NEXT;
}
OP(PUSH_I)
{
	STORE(64, R(EMU_RSP) - 8, op->imm);
	R(EMU_RSP) -= 8;
	NEXT;
}
OP(POP_R)
{
	uint64_t x;
	LOAD(64, R(EMU_RSP), x);
	R(EMU_RSP) += 8;
	R(op->dst) = x;
	NEXT;
}
OP(LEAVE)
{
	uint64_t x;
	LOAD(64, R(EMU_RBP), x);
	R(EMU_RSP) = R(EMU_RBP) + 8;
	R(EMU_RBP) = x;
	NEXT;
}

/* ---- registers only ---- */
OP(BSWAP32)
{
	R(op->dst) = __builtin_bswap32((uint32_t)R(op->dst));
	NEXT;
}
OP(BSWAP64)
{
	R(op->dst) = __builtin_bswap64(R(op->dst));
	NEXT;
}
OP(CDQ)
{
	R(EMU_RDX) = (uint32_t)((int32_t)R(EMU_RAX) >> 31);
	NEXT;
}
OP(CQO)
{
	R(EMU_RDX) = (uint64_t)((int64_t)R(EMU_RAX) >> 63);
	NEXT;
}
OP(CWDE)
{
	R(EMU_RAX) = (uint32_t)(int16_t)R(EMU_RAX);
	NEXT;
}
OP(CDQE)
{
	R(EMU_RAX) = (uint64_t)(int32_t)R(EMU_RAX);
	NEXT;
}
OP(XCHG32)
{
	uint32_t x = GET32(op->dst);
	PUT32(op->dst, GET32(op->src));
	PUT32(op->src, x);
	NEXT;
}
OP(XCHG64)
{
	uint64_t x = R(op->dst);
	R(op->dst) = R(op->src);
	R(op->src) = x;
	NEXT;
}

/* ---- instructions without their own handler ---- */
OP(HELPER)
{
	v->extra += EMU_EFFORT_HELPER;
	if (unlikely(op->fn(v, op)))
		goto trap;
	NEXT;
}

/* A repeated string instruction: its counts beyond the block's sum are known now. It ends the
 * block; an END follows. */
OP(STRING_REP)
{
	if (unlikely(op->fn(v, op)))
		goto trap;
	if (unlikely(v->attn || v->extra >= v->extra_stop)) {
		v->rip = v->cur->next;
		goto out;
	}
	NEXT;
}

/* A system instruction, alone in its block. v->acc and v->left are up to date, itself included, and
 * it may change the mode. */
OP(SYS)
{
	int rc;

	v->left = left;
	v->acc = acc;
	v->rip = v->cur->next;
	v->extra += EMU_EFFORT_SYSTEM;
	rc = op->fn(v, op);
	left = v->left;
	acc = v->acc;
	tlb = v->tlb;
	if (unlikely(rc == 1))
		goto trap;
	/* A safe point, as serialising instructions are among these. */
	emu_sync(v);
	if (unlikely(rc || v->attn || v->extra >= v->extra_stop))
		goto out;
	goto find;
}

/* Counts executions of a block; replaces its first op. */
OP(HEAT)
{
	goto *emu_jit_heat(v, v->cur);
}

/* A translated block; replaces its first op. Only the interpreter records branches. */
OP(NATIVE)
{
	uint32_t word;

	if (unlikely(v->lbr_sel))
		goto * v->cur->h0;
	v->left = left;
	v->acc = acc;
	word = emu_jit_run(v, v->cur);
	left = v->left;
	acc = v->acc;
	if (EMU_JIT_KIND(word) == EMU_JIT_ENTER) {
		blk = v->jit.block;
		ENTER;
	}
	op = &v->cur->ops[v->cur->nr_ops - 1];
	if (EMU_JIT_KIND(word) == EMU_JIT_TAKEN)
		TAKEN(op);
	if (EMU_JIT_KIND(word) == EMU_JIT_FALL)
		FALL(op);
	op = &v->cur->ops[EMU_JIT_INDEX(word)];
	goto *(EMU_JIT_INDEX(word) ? op->h : v->cur->h0);
}

/* Patched over the first op that must not run. */
OP(STOP)
{
	v->trap = EMU_TRAP_STOP;
	goto trap;
}

/* End of a block that is full, at a page's end, or before a system instruction. */
OP(END)
{
	FALL(op);
}
