// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Translated code: the templates of SSE to SSE4.2. jit_rare.c calls jit_simd().
 *
 * A block with such instructions first checks FRAME_SSE: they may only execute where they raise
 * neither #UD nor #NM, and arithmetic only while the host's MXCSR is the guest's, which masks all
 * exceptions (emu_jit_run). The interpreter executes every other block.
 */
#include <stddef.h>

#include "vmm/emu/cpu/emit.h"
#include "vmm/emu/jit/jit.h"

#define VCPU(field) ((int32_t)offsetof(struct emu_vcpu, field))

/* An instruction, as encoded in its stub (fpstub.c). */
struct code {
	unsigned int opcode; /* behind 0F, or with 0F38 or 0F3A */
	uint8_t prefix, imm;
	bool wide, has_imm, to_rm;
};

static struct code read_stub(const struct emu_op *op)
{
	const uint8_t *p = (const uint8_t *)(uintptr_t)op->imm;
	struct code c = {0};

	if (*p == 0x66 || *p == 0xf2 || *p == 0xf3)
		c.prefix = *p++;
	if (*p == 0x48) {
		c.wide = true;
		p++;
	}
	if (p[1] == 0x38 || p[1] == 0x3a) {
		c.opcode = 0x0f0000u | p[1] * 256u | p[2];
		c.to_rm = p[3] == 0xc8;
		c.imm = p[4];
		c.has_imm = p[1] == 0x3a;
		return c;
	}
	c.opcode = p[1];
	c.imm = p[3]; /* after 0F, the opcode and ModRM; RET, if there is none */
	c.has_imm = c.opcode == 0x70 || c.opcode == 0xc2 || (c.opcode >= 0xc4 && c.opcode <= 0xc6);
	return c;
}

static void x_simd(struct jit *j, unsigned int prefix, unsigned int opcode, unsigned int lg,
		   unsigned int reg, struct rm m)
{
	if (prefix)
		x_byte(&j->b, prefix);
	x_op(&j->b, opcode > 0xff ? opcode : 0x0f00 + opcode, lg, reg, m);
}

static void x_code(struct jit *j, struct code c, unsigned int reg, struct rm m)
{
	x_simd(j, c.prefix, c.opcode, c.wide ? 3 : 2, reg, m);
	if (c.has_imm)
		x_byte(&j->b, c.imm);
}

/* ---- registers ----
 * Guest register N up to 13 is in host register N from its first use in a block on (set in j->xmm).
 * Each result is also stored to the vCPU at once, so exits need no stores. The others are loaded at
 * each use. */

#define XMM_KEPT    14u
#define XMM_SCRATCH 14u

static struct rm in_vcpu(unsigned int n)
{
	return rm_mem(HOST_S1, VCPU(fpu.fx.xmm) + (int32_t)(16 * n));
}

static void vcpu(struct jit *j)
{
	x_mov(&j->b, 3, HOST_S1, rm_mem(HOST_RSP, FRAME_VCPU));
}

/* MOVUPS. */
static void load_all(struct jit *j, unsigned int reg, struct rm m)
{
	x_simd(j, 0, 0x10, 2, reg, m);
}

static void store_all(struct jit *j, unsigned int reg, struct rm m)
{
	x_simd(j, 0, 0x11, 2, reg, m);
}

/* A host register that holds guest register @n; HOST_S1 holds the vCPU. */
static unsigned int jit_simd_get(struct jit *j, unsigned int n)
{
	unsigned int reg = n < XMM_KEPT ? n : XMM_SCRATCH;

	if (!(j->xmm >> n & 1))
		load_all(j, reg, in_vcpu(n));
	if (n < XMM_KEPT)
		j->xmm |= 1u << n;
	return reg;
}

/* The host register for a new value of guest register @n. */
static unsigned int jit_simd_target(unsigned int n)
{
	return n < XMM_KEPT ? n : XMM_SCRATCH;
}

/* Store the new value of guest register @n from jit_simd_target(n). */
static void jit_simd_put(struct jit *j, unsigned int n)
{
	store_all(j, jit_simd_target(n), in_vcpu(n));
	if (n < XMM_KEPT)
		j->xmm |= 1u << n;
}

/* The memory operand. */
static struct rm operand(struct jit *j, const struct emu_op *op, bool jit_simd_store, bool *ok)
{
	struct rm m = {0};

	if (!j->tea_known) {
		*ok = false;
		return m;
	}
	j->aligned = op->base == 16 && (op->idx & SIMD_ALIGN);
	m = jit_access(j, j->tea, op->base, jit_simd_store, ok);
	j->aligned = false;
	return m;
}

/* The second operand, with the vCPU in HOST_S1 afterwards. */
static struct rm jit_simd_source(struct jit *j, const struct emu_op *op, bool *ok)
{
	struct rm m = {0};

	if (op->base)
		m = operand(j, op, false, ok);
	vcpu(j);
	if (op->base)
		return m;
	return op->src < XMM_KEPT ? rm_reg(jit_simd_get(j, op->src)) : in_vcpu(op->src);
}

/* ---- templates ---- */

static bool jit_simd_compute(struct jit *j, const struct emu_op *op)
{
	struct code c = read_stub(op);
	bool ok = true;
	struct rm m;

	/* INSERTPS chooses an element of a register, but none of a memory operand. */
	if (c.opcode == 0x0f3a21 && !op->base && op->src >= XMM_KEPT)
		return false;
	m = jit_simd_source(j, op, &ok);
	x_code(j, c, jit_simd_get(j, op->dst), m);
	jit_simd_put(j, op->dst);
	return ok;
}

static bool with_gpr(struct jit *j, const struct emu_op *op)
{
	struct code c = read_stub(op);
	unsigned int d;
	bool ok = true;
	struct rm m;

	if (op->idx & SIMD_FROM_GPR) {
		m = op->base ? operand(j, op, false, &ok) : jit_rm(op->src);
		vcpu(j);
		x_code(j, c, jit_simd_get(j, op->dst), m);
		jit_simd_put(j, op->dst);
		return ok;
	}
	m = jit_simd_source(j, op, &ok);
	if (op->idx & SIMD_FLAGS) {
		x_code(j, c, jit_simd_get(j, op->dst), m);
		jit_set(j, SHAPE_ALL, false);
		return ok;
	}
	d = jit_host(op->dst);
	if (d == HOST_NONE)
		d = HOST_S2;
	if (!m.is_reg && !(op->idx & SIMD_FP)) /* these have no memory form */
		m = rm_reg(jit_simd_get(j, op->src));
	if (c.to_rm)
		x_code(j, c, m.base, rm_reg(d));
	else
		x_code(j, c, d, m);
	jit_put(j, op->dst, d);
	return ok;
}

/* Shifts by a constant: 66 0F 71, 72 and 73. */
static void jit_simd_shift(struct jit *j, unsigned int opcode, unsigned int digit, unsigned int n,
			   unsigned int count)
{
	vcpu(j);
	x_simd(j, 0x66, opcode, 2, digit, rm_reg(jit_simd_get(j, n)));
	x_byte(&j->b, count);
	jit_simd_put(j, n);
}

static void shift_count(struct jit *j, const struct emu_op *op)
{
	unsigned int code = read_stub(op).opcode; /* D1..D3 right, E1, E2 arithmetic, F1..F3 left */

	jit_simd_shift(j, 0x70 + (code & 3),
		       code >> 4 == 0xd	  ? 2
		       : code >> 4 == 0xe ? 4
					  : 6,
		       op->dst, op->scale);
}

static bool jit_simd_load(struct jit *j, const struct emu_op *op)
{
	bool ok = true;
	struct rm m = jit_simd_source(j, op, &ok);
	unsigned int reg = jit_simd_target(op->dst);

	if (op->base == 16) {
		load_all(j, reg, m);
	} else if (op->idx & SIMD_ZERO) { /* MOVSS, MOVSD */
		x_simd(j, op->base == 4 ? 0xf3 : 0xf2, 0x10, 2, reg, m);
	} else { /* MOVLPS, MOVHPS */
		reg = jit_simd_get(j, op->dst);
		x_simd(j, 0, op->scale ? 0x16 : 0x12, 2, reg, m);
	}
	jit_simd_put(j, op->dst);
	return ok;
}

static bool jit_simd_store(struct jit *j, const struct emu_op *op)
{
	bool ok = true;
	struct rm m = operand(j, op, true, &ok);
	unsigned int reg;

	vcpu(j);
	reg = jit_simd_get(j, op->src);
	if (op->base == 16)
		store_all(j, reg, m);
	else if (op->scale) /* MOVHPS */
		x_simd(j, 0, 0x17, 2, reg, m);
	else
		x_simd(j, op->base == 4 ? 0xf3 : 0xf2, 0x11, 2, reg, m);
	return ok;
}

static bool jit_simd_mov(struct jit *j, const struct emu_op *op)
{
	static const struct {
		uint8_t prefix, opcode;
	} between[] = {
		[MOV_ALL] = {0, 0x28},	     [MOV_LOW32] = {0xf3, 0x10}, [MOV_LOW64] = {0xf2, 0x10},
		[MOV_ZERO64] = {0xf3, 0x7e}, [MOV_HL] = {0, 0x12},	 [MOV_LH] = {0, 0x16},
	};
	unsigned int lg = op->scale == MOV_FROM32 || op->scale == MOV_TO32 ? 2 : 3, d, s;

	vcpu(j);
	switch (op->scale) {
	case MOV_FROM32:
	case MOV_FROM64:
		x_simd(j, 0x66, 0x6e, lg, jit_simd_target(op->dst), jit_rm(op->src));
		jit_simd_put(j, op->dst);
		return true;
	case MOV_TO32:
	case MOV_TO64:
		d = jit_host(op->dst);
		if (d == HOST_NONE)
			d = HOST_S2;
		x_simd(j, 0x66, 0x7e, lg, jit_simd_get(j, op->src), rm_reg(d));
		jit_put(j, op->dst, d);
		return true;
	}
	if (op->dst >= XMM_KEPT && op->src >= XMM_KEPT) /* there is one scratch register */
		return false;
	s = jit_simd_get(j, op->src);
	d = op->scale == MOV_ALL || op->scale == MOV_ZERO64 ? jit_simd_target(op->dst)
							    : jit_simd_get(j, op->dst);
	x_simd(j, between[op->scale].prefix, between[op->scale].opcode, 2, d, rm_reg(s));
	jit_simd_put(j, op->dst);
	return true;
}

unsigned int jit_simd_level(const struct emu_op *op)
{
	if (op->flags & EMU_OPF_VEX)
		return JIT_SSE_NONE;
	if (op->fn == emu_help_simd || op->fn == emu_help_simd_count ||
	    op->fn == emu_help_simd_shift || op->fn == emu_help_simd_load ||
	    op->fn == emu_help_simd_store || op->fn == emu_help_simd_mov)
		return JIT_SSE_MOVES;
	if (op->fn == emu_help_simd_fp)
		return JIT_SSE_ALL;
	if (op->fn == emu_help_simd_gpr)
		return op->idx & SIMD_FP ? JIT_SSE_ALL : JIT_SSE_MOVES;
	return JIT_SSE_NONE;
}

/* Guest registers that the op reads, as far as they may be results just stored. */
static uint32_t reads(const struct emu_op *op)
{
	uint32_t dst = 1u << op->dst, src = op->base ? 0 : 1u << op->src;

	if (op->fn == emu_help_simd_load)
		return op->idx & SIMD_ZERO || op->base == 16 ? 0 : dst;
	if (op->fn == emu_help_simd_store)
		return 1u << op->src;
	if (op->fn == emu_help_simd_mov)
		return op->scale == MOV_FROM32 || op->scale == MOV_FROM64 ? 0 : src;
	if (op->fn == emu_help_simd_count || op->fn == emu_help_simd_shift)
		return dst;
	if (op->fn == emu_help_simd_gpr)
		return op->idx & SIMD_FROM_GPR ? dst : op->idx & SIMD_FLAGS ? dst | src : src;
	return dst | src;
}

int jit_simd_quarters(const struct emu_op *op, uint32_t *known)
{
	uint32_t now = reads(op), first = now & ~*known;
	int q = __builtin_popcount(first) * EMU_QUARTERS_XMM;

	*known |= now;
	if (op->fn != emu_help_simd_store &&
	    !(op->fn == emu_help_simd_gpr && op->idx & (SIMD_TO_GPR | SIMD_FLAGS)))
		*known |= 1u << op->dst;
	*known &= (1u << XMM_KEPT) - 1;
	if (op->fn == emu_help_simd_fp && (op->idx & SIMD_LONG))
		return q + EMU_QUARTERS_FP_LONG;
	if (op->fn == emu_help_simd_store)
		return q + EMU_QUARTERS_SIMD_STORE;
	return q + (jit_simd_level(op) == JIT_SSE_ALL ? EMU_QUARTERS_FP : EMU_QUARTERS_SIMD);
}

bool jit_simd(struct jit *j, const struct emu_op *op)
{
	if (op->fn == emu_help_simd || op->fn == emu_help_simd_fp)
		return jit_simd_compute(j, op);
	if (op->fn == emu_help_simd_gpr)
		return with_gpr(j, op);
	if (op->fn == emu_help_simd_load)
		return jit_simd_load(j, op);
	if (op->fn == emu_help_simd_store)
		return jit_simd_store(j, op);
	if (op->fn == emu_help_simd_mov)
		return jit_simd_mov(j, op);
	if (op->fn == emu_help_simd_count)
		shift_count(j, op);
	else
		jit_simd_shift(j, 0x73, op->idx & SIMD_RIGHT ? 3 : 7, op->dst, op->scale);
	return true;
}

void jit_simd_enter(struct jit *j)
{
	const struct rm m = rm_mem(HOST_RSP, FRAME_SSE);

	if (j->blk->simd == JIT_SSE_NONE)
		return;
	x_alu_imm(&j->b, X_CMP, 2, m, j->blk->simd);
	jit_leave_at(j, x_jcc(&j->b, CC_B));
}

/* ---- the host's MXCSR ---- */

#define CR0_EM_TS 0xcULL
#define MASKS	  (EMU_FP_FLAGS << EMU_MXCSR_MASKS)
#define FP_RUNS	  64 /* runs that load MXCSR after one that needed it */
#define SLOW	  (EMU_FP_DE | EMU_FP_UE)

static void set_mxcsr(uint32_t x)
{
	__asm__ volatile("ldmxcsr %0" : : "m"(x) : "memory");
}

void jit_simd_begin(struct emu_vcpu *v, const struct emu_block *b)
{
	uint32_t mxcsr = v->fpu.mxcsr;

	v->jit.sse = JIT_SSE_NONE;
	if ((v->cr0 & CR0_EM_TS) || !(v->cr4 & CR4_OSFXSR))
		return;
	v->jit.sse = JIT_SSE_MOVES;
	if (b->simd == JIT_SSE_ALL)
		v->jit.fp_runs = FP_RUNS;
	if (!v->jit.fp_runs || (mxcsr & MASKS) != MASKS || mxcsr >> 16)
		return;
	v->jit.fp_runs--;
	v->jit.sse = JIT_SSE_ALL;
	set_mxcsr(mxcsr & ~SLOW);
}

void jit_simd_end(struct emu_vcpu *v, uint32_t word, int64_t insns)
{
	uint32_t now;

	if (v->jit.sse == JIT_SSE_MOVES && v->jit.block->simd == JIT_SSE_ALL &&
	    EMU_JIT_KIND(word) == EMU_JIT_OP)
		v->jit.fp_runs = FP_RUNS; /* missing MXCSR is why the code was left */
	if (v->jit.sse != JIT_SSE_ALL)
		return;
	now = emu_host_mxcsr();
	set_mxcsr(v->host_mxcsr);
	v->fpu.mxcsr |= now & EMU_FP_FLAGS;
	/* The number of instructions that needed microcode is unknown: charge one in eight. */
	if (unlikely(now & SLOW) && insns > 0)
		v->extra += (uint64_t)insns / 8 * EMU_EFFORT_ASSIST;
}
