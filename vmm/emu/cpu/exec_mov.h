/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Handlers of moves, stack operations and helper calls; part of emu_exec(), included by exec.c
 * only.
 */

#define LOADED(n, sz, ea)                                                                          \
	OP(n)                                                                                      \
	{                                                                                          \
		T##sz x;                                                                           \
		LOAD(sz, ea, x);                                                                   \
		PUT##sz(op->dst, x);                                                               \
		NEXT;                                                                              \
	}
#define CHECKED(n, sz, effort)                                                                     \
	OP(n)                                                                                      \
	{                                                                                          \
		const emu_u##sz *p;                                                                \
		v->extra += (effort);                                                              \
		RMW(sz, EAX, p);                                                                   \
		PUT##sz(op->dst, p->v);                                                            \
		NEXT;                                                                              \
	}
#define MOVES(sz)                                                                                  \
	DO(MOV_RR##sz, PUT##sz(op->dst, GET##sz(op->src)))                                         \
	DO(MOV_RI##sz, PUT##sz(op->dst, (T##sz)op->imm))                                           \
	LOADED(LDB##sz, sz, EAB)                                                                   \
	LOADED(LDX##sz, sz, EAX)                                                                   \
	DO(STB##sz, STORE(sz, EAB, GET##sz(op->src)))                                              \
	DO(STX##sz, STORE(sz, EAX, GET##sz(op->src)))                                              \
	DO(STI##sz, STORE(sz, EAX, op->imm))                                                       \
	/* First part of a decomposed read-modify-write: traps as the store will. */               \
	CHECKED(LDW##sz, sz, 0)                                                                    \
	/* The same of a locked instruction in a VM of one vCPU. */                                \
	CHECKED(LDL##sz, sz, EMU_EFFORT_ALONE)
ALL_SIZES(MOVES);

#define EXTEND_FROM(n, from, cast, to, ea)                                                         \
	OP(n)                                                                                      \
	{                                                                                          \
		T##from x;                                                                         \
		LOAD(from, ea, x);                                                                 \
		PUT##to(op->dst, (T##to)(cast)x);                                                  \
		NEXT;                                                                              \
	}
#define EXTEND(name, from, cast, to)                                                               \
	DO(EXR_##name, PUT##to(op->dst, (T##to)(cast)GET##from(op->src)))                          \
	EXTEND_FROM(EXB_##name, from, cast, to, EAB)                                               \
	EXTEND_FROM(EXX_##name, from, cast, to, EAX)
EXTEND(Z8, 8, uint8_t, 64)
EXTEND(Z16, 16, uint16_t, 64)
EXTEND(S8_32, 8, int8_t, 32)
EXTEND(S8_64, 8, int8_t, 64)
EXTEND(S16_32, 16, int16_t, 32)
EXTEND(S16_64, 16, int16_t, 64)
EXTEND(S32_64, 32, int32_t, 64)

DO(NOP, )
DO(LEA64B, R(op->dst) = EAB)
DO(LEA64X, R(op->dst) = EAX)
DO(LEA32, R(op->dst) = (uint32_t)EAX)
DO(LEA16, PUT16(op->dst, EAX))

/* ---- stack ---- */
#define PUSH(n, x)                                                                                 \
	OP(n)                                                                                      \
	{                                                                                          \
		STORE(64, R(EMU_RSP) - 8, x);                                                      \
		R(EMU_RSP) -= 8;                                                                   \
		NEXT;                                                                              \
	}
PUSH(PUSH_R, R(op->src))
PUSH(PUSH_I, op->imm)
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
DO(BSWAP32, R(op->dst) = __builtin_bswap32((uint32_t)R(op->dst)))
DO(BSWAP64, R(op->dst) = __builtin_bswap64(R(op->dst)))
DO(CDQ, R(EMU_RDX) = (uint32_t)((int32_t)R(EMU_RAX) >> 31))
DO(CQO, R(EMU_RDX) = (uint64_t)((int64_t)R(EMU_RAX) >> 63))
DO(CWDE, R(EMU_RAX) = (uint32_t)(int16_t)R(EMU_RAX))
DO(CDQE, R(EMU_RAX) = (uint64_t)(int32_t)R(EMU_RAX))
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
	rc = unlikely(v->guest) ? emu_svm_sys(v, op) : op->fn(v, op);
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
