// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Helpers that access memory: locked read-modify-writes, and the rarer stack instructions.
 *
 * In a VM of one vCPU most locked instructions do not come here: emit_int.c makes plain ops of
 * them. A locked access inside one cache line is a host atomic, so vCPUs that run on several
 * threads see each other's. One that crosses a line, or touches a page with decoded code, is atomic
 * against other such accesses of the VM only (its split_lock); docs/emulator.md says so.
 */
#include <string.h>

#include "vmm/emu/debug.h"
#include "vmm/emu/cpu/emit.h"

#define LINE 64u

static __attribute__((no_sanitize("alignment"))) bool cas(void *p, unsigned int lg, uint64_t *old,
							  uint64_t new)
{
	switch (lg) {
	case 0:
		return __atomic_compare_exchange_n((uint8_t *)p, (uint8_t *)old, (uint8_t) new,
						   false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
	case 1:
		return __atomic_compare_exchange_n((uint16_t *)p, (uint16_t *)old, (uint16_t) new,
						   false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
	case 2:
		return __atomic_compare_exchange_n((uint32_t *)p, (uint32_t *)old, (uint32_t) new,
						   false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
	default:
		return __atomic_compare_exchange_n((uint64_t *)p, old, new, false, __ATOMIC_SEQ_CST,
						   __ATOMIC_SEQ_CST);
	}
}

/* What another vCPU may change meanwhile: cas() looks again. */
static __attribute__((no_sanitize("alignment"))) uint64_t peek(const void *p, unsigned int lg)
{
	switch (lg) {
	case 0:
		return __atomic_load_n((const uint8_t *)p, __ATOMIC_RELAXED);
	case 1:
		return __atomic_load_n((const uint16_t *)p, __ATOMIC_RELAXED);
	case 2:
		return __atomic_load_n((const uint32_t *)p, __ATOMIC_RELAXED);
	default:
		return __atomic_load_n((const uint64_t *)p, __ATOMIC_RELAXED);
	}
}

/* What @old becomes. */
static uint64_t modify(const struct soft_vcpu *v, const struct soft_op *op, uint64_t old,
		       uint64_t b)
{
	unsigned int lg = op->base;
	uint64_t bit = 1ULL << (b & ((8u << lg) - 1));

	switch (op->idx) {
	case ALU_ADD:
	case LOCKED_XADD:
		return old + b;
	case ALU_OR:
		return old | b;
	case ALU_ADC:
		return old + b + soft_cf(v);
	case ALU_SBB:
		return old - b - soft_cf(v);
	case ALU_AND:
		return old & b;
	case ALU_SUB:
		return old - b;
	case ALU_XOR:
		return old ^ b;
	case LOCKED_INC:
		return old + 1;
	case LOCKED_DEC:
		return old - 1;
	case LOCKED_NEG:
		return 0 - old;
	case LOCKED_NOT:
		return ~old;
	case LOCKED_BTS:
		return old | bit;
	case LOCKED_BTR:
		return old & ~bit;
	case LOCKED_BTC:
		return old ^ bit;
	case LOCKED_CMPXCHG:
		return old == soft_rd(v, 0, 1u << lg) ? b : old;
	default:
		return b;
	}
}

static void carry_flags(struct soft_vcpu *v, unsigned int lg, uint64_t a, uint64_t b, uint64_t r,
			uint64_t carries)
{
	unsigned int msb = (8u << lg) - 1;
	uint64_t of = (carries >> msb ^ carries >> (msb - 1)) & 1;

	soft_fl_raw(v, soft_fl_zsp(soft_sext(r, lg)) | ((a ^ b ^ r) & SOFT_AF) |
			       (carries >> msb & 1) | (of ? SOFT_OF : 0));
}

/* Registers and flags, once memory is done. */
static void finish(struct soft_vcpu *v, const struct soft_op *op, uint64_t a, uint64_t b)
{
	unsigned int lg = op->base, bytes = 1u << lg;
	uint64_t r = modify(v, op, a, b), sr = soft_sext(r, lg);
	uint64_t cf;

	switch (op->idx) {
	case ALU_ADD:
	case LOCKED_XADD:
		soft_fl_set(v, SOFT_FK(ADD, lg), sr, soft_sext(b, lg));
		if (op->idx == LOCKED_XADD)
			soft_wr(v, op->src, bytes, a);
		break;
	case ALU_OR:
	case ALU_AND:
	case ALU_XOR:
		soft_fl_set(v, SOFT_FK(SUB, lg), sr, 0);
		break;
	case ALU_ADC:
		carry_flags(v, lg, a, b, r, (a & b) | ((a | b) & ~r));
		break;
	case ALU_SBB:
		carry_flags(v, lg, a, b, r, (~a & b) | ((~a | b) & r));
		break;
	case ALU_SUB:
		soft_fl_set(v, SOFT_FK(SUB, lg), soft_sext(a, lg), soft_sext(b, lg));
		break;
	case LOCKED_INC:
	case LOCKED_DEC:
		cf = soft_cf(v);
		soft_fl_set(v, op->idx == LOCKED_INC ? SOFT_FK(INC, lg) : SOFT_FK(DEC, lg), sr, cf);
		break;
	case LOCKED_NEG:
		soft_fl_set(v, SOFT_FK(SUB, lg), 0, soft_sext(a, lg));
		break;
	case LOCKED_BTS:
	case LOCKED_BTR:
	case LOCKED_BTC:
		soft_fl_override(v, SOFT_CF, a >> (b & ((8u << lg) - 1)) & 1);
		break;
	case LOCKED_CMPXCHG:
		b = soft_rd(v, 0, bytes);
		soft_fl_set(v, SOFT_FK(SUB, lg), soft_sext(b, lg), soft_sext(a, lg));
		if (a != b)
			soft_wr(v, 0, bytes, a);
		break;
	case LOCKED_XCHG:
		soft_wr(v, op->src, bytes, a);
		break;
	}
}

/* op->src: the register operand (SOFT_T0 for an immediate); the address is in SOFT_TEA. */
int soft_help_locked(struct soft_vcpu *v, const struct soft_op *op)
{
	unsigned int lg = op->base, bytes = 1u << lg;
	uint64_t at = v->r[SOFT_TEA], b = soft_rd(v, op->src, bytes), old;
	const struct soft_tlbe *e = &v->tlb[at >> SOFT_PAGE_SHIFT & (SOFT_TLB_SIZE - 1)];
	void *p;

	v->extra += SOFT_EFFORT_LOCKED;
	if (likely(e->wtag == ((at + bytes - 1) & SOFT_PAGE_MASK)))
		p = (void *)(e->add + at);
	else
		p = soft_rmw_slow(v, at, bytes);
	if (!p)
		return 1;
	if (p != v->bounce.buf && (at & (LINE - 1)) + bytes <= LINE) {
		old = peek(p, lg);
		while (!cas(p, lg, &old, modify(v, op, old, b)))
			;
	} else {
		v->extra += SOFT_EFFORT_SPLIT;
		pthread_mutex_lock(&v->vm->split_lock);
		p = soft_rmw_slow(v, at, bytes); /* what it holds now; cannot fail a second time */
		if (!p) {
			pthread_mutex_unlock(&v->vm->split_lock);
			return 1;
		}
		old = soft_get(p, bytes);
		soft_put(p, bytes, modify(v, op, old, b));
		if (p == v->bounce.buf)
			soft_rmw_commit(v);
		pthread_mutex_unlock(&v->vm->split_lock);
	}
	finish(v, op, old, b);
	return 0;
}

/* CMPXCHG8B, CMPXCHG16B: op->base is log2 of half the operand. */
int soft_help_cmpxchgb(struct soft_vcpu *v, const struct soft_op *op)
{
	unsigned int half = 1u << op->base;
	uint64_t at = v->r[SOFT_TEA], lo, hi, acc[2], new[2];
	bool same;
	void *p;

	if (half == 8 && (at & 15))
		return soft_gp(v, 0); /* SDM, CMPXCHG16B: must be aligned */
	acc[0] = soft_rd(v, SOFT_RAX, half);
	acc[1] = soft_rd(v, SOFT_RDX, half);
	new[0] = soft_rd(v, SOFT_RBX, half);
	new[1] = soft_rd(v, SOFT_RCX, half);
	v->extra += SOFT_EFFORT_LOCKED + SOFT_EFFORT_SPLIT;
	pthread_mutex_lock(&v->vm->split_lock);
	p = soft_rmw_slow(v, at, 2 * half);
	if (!p) {
		pthread_mutex_unlock(&v->vm->split_lock);
		return 1;
	}
	if (half == 4 && p != v->bounce.buf && (at & (LINE - 1)) + 8 <= LINE) {
		uint64_t old = acc[0] | acc[1] << 32;

		same = cas(p, 3, &old, new[0] | new[1] << 32);
		lo = (uint32_t)old;
		hi = old >> 32;
	} else {
		lo = soft_get(p, half);
		hi = soft_get((uint8_t *)p + half, half);
		same = lo == acc[0] && hi == acc[1];
		if (same) {
			soft_put(p, half, new[0]);
			soft_put((uint8_t *)p + half, half, new[1]);
			if (p == v->bounce.buf)
				soft_rmw_commit(v);
		}
	}
	pthread_mutex_unlock(&v->vm->split_lock);
	if (!same) {
		soft_wr(v, SOFT_RAX, half, lo);
		soft_wr(v, SOFT_RDX, half, hi);
	}
	soft_fl_override(v, SOFT_ZF, same ? SOFT_ZF : 0);
	return 0;
}

int soft_help_fence(struct soft_vcpu *v, const struct soft_op *op)
{
	v->extra += SOFT_EFFORT_FENCE;
	atomic_thread_fence(memory_order_seq_cst);
	return 0;
}

/* ---- stack ---- */

int soft_help_push16(struct soft_vcpu *v, const struct soft_op *op)
{
	if (soft_st_slow(v, v->r[SOFT_RSP] - 2, 2, v->r[op->src]))
		return 1;
	v->r[SOFT_RSP] -= 2;
	return 0;
}

int soft_help_pop16(struct soft_vcpu *v, const struct soft_op *op)
{
	uint64_t x = soft_ld_slow(v, v->r[SOFT_RSP], 2);

	if (v->trap)
		return 1;
	v->r[SOFT_RSP] += 2;
	soft_wr(v, op->dst, 2, x);
	return 0;
}

/* op->idx: the destination is in the stack segment too. */
int soft_help_popm(struct soft_vcpu *v, const struct soft_op *op)
{
	unsigned int bytes = 1u << op->base;
	uint64_t x = soft_ld_slow(v, v->r[SOFT_RSP], bytes);

	if (v->trap)
		return 1;
	if (soft_st_slow(v, v->r[SOFT_TEA], bytes, x)) {
		v->fault.canon &= op->idx;
		return 1;
	}
	v->r[SOFT_RSP] += bytes;
	return 0;
}

int soft_help_enter(struct soft_vcpu *v, const struct soft_op *op)
{
	uint64_t frame = v->r[SOFT_RSP] - 8, rsp = frame - (uint64_t)op->imm;

	if (soft_st_slow(v, frame, 8, v->r[SOFT_RBP]))
		return 1;
	/* The new top of the stack must be writable too (SDM, ENTER). The frame stays stored. */
	if (!soft_rmw_quiet(v, rsp, 1))
		return 1;
	v->r[SOFT_RBP] = frame;
	v->r[SOFT_RSP] = rsp;
	return 0;
}
