// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Helpers that access memory: locked read-modify-writes, and the rarer stack instructions.
 *
 * In a VM of one vCPU most locked instructions do not get here: emit_int.c emits plain ops for
 * them. A locked access inside one cache line is a host atomic, so vCPUs that run on several
 * threads see each other's. One that crosses a line, or touches a page with decoded code, is atomic
 * only against other such accesses of the VM (its split_lock); see docs/internals/emulator.md.
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

/* Read memory that another vCPU may change: cas() checks it again. */
static __attribute__((no_sanitize("alignment"))) uint64_t atomic_peek(const void *p,
								      unsigned int lg)
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

uint64_t emu_atomic_result(const struct emu_vcpu *v, const struct emu_op *op, uint64_t old,
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
		return old + b + emu_cf(v);
	case ALU_SBB:
		return old - b - emu_cf(v);
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
		return old == emu_rd(v, 0, 1u << lg) ? b : old;
	default:
		return b;
	}
}

static void carry_flags(struct emu_vcpu *v, unsigned int lg, uint64_t a, uint64_t b, uint64_t r,
			uint64_t carries)
{
	unsigned int msb = (8u << lg) - 1;
	uint64_t of = (carries >> msb ^ carries >> (msb - 1)) & 1;

	emu_fl_raw(v, emu_fl_zsp(emu_sext(r, lg)) | ((a ^ b ^ r) & EMU_AF) | (carries >> msb & 1) |
			      (of ? EMU_OF : 0));
}

void emu_atomic_finish(struct emu_vcpu *v, const struct emu_op *op, uint64_t a, uint64_t b)
{
	unsigned int lg = op->base, bytes = 1u << lg;
	uint64_t r = emu_atomic_result(v, op, a, b), sr = emu_sext(r, lg);
	uint64_t cf;

	switch (op->idx) {
	case ALU_ADD:
	case LOCKED_XADD:
		emu_fl_set(v, EMU_FK(ADD, lg), sr, emu_sext(b, lg));
		if (op->idx == LOCKED_XADD)
			emu_wr(v, op->src, bytes, a);
		break;
	case ALU_OR:
	case ALU_AND:
	case ALU_XOR:
		emu_fl_set(v, EMU_FK(SUB, lg), sr, 0);
		break;
	case ALU_ADC:
		carry_flags(v, lg, a, b, r, (a & b) | ((a | b) & ~r));
		break;
	case ALU_SBB:
		carry_flags(v, lg, a, b, r, (~a & b) | ((~a | b) & r));
		break;
	case ALU_SUB:
		emu_fl_set(v, EMU_FK(SUB, lg), emu_sext(a, lg), emu_sext(b, lg));
		break;
	case LOCKED_INC:
	case LOCKED_DEC:
		cf = emu_cf(v);
		emu_fl_set(v, op->idx == LOCKED_INC ? EMU_FK(INC, lg) : EMU_FK(DEC, lg), sr, cf);
		break;
	case LOCKED_NEG:
		emu_fl_set(v, EMU_FK(SUB, lg), 0, emu_sext(a, lg));
		break;
	case LOCKED_BTS:
	case LOCKED_BTR:
	case LOCKED_BTC:
		emu_fl_override(v, EMU_CF, a >> (b & ((8u << lg) - 1)) & 1);
		break;
	case LOCKED_CMPXCHG:
		b = emu_rd(v, 0, bytes);
		emu_fl_set(v, EMU_FK(SUB, lg), emu_sext(b, lg), emu_sext(a, lg));
		if (a != b)
			emu_wr(v, 0, bytes, a);
		break;
	case LOCKED_XCHG:
		emu_wr(v, op->src, bytes, a);
		break;
	}
}

/* op->src: the register operand (EMU_T0 for an immediate); the address is in EMU_TEA. */
int emu_help_locked(struct emu_vcpu *v, const struct emu_op *op)
{
	unsigned int lg = op->base, bytes = 1u << lg;
	uint64_t at = v->r[EMU_TEA], b = emu_rd(v, op->src, bytes), old;
	const struct emu_tlbe *e = &v->tlb[at >> EMU_PAGE_SHIFT & (EMU_TLB_SIZE - 1)];
	void *p;

	v->extra += EMU_EFFORT_LOCKED;
	if (likely(e->wtag == ((at + bytes - 1) & EMU_PAGE_MASK)))
		p = (void *)(e->add + at);
	else
		p = emu_rmw_slow(v, at, bytes);
	if (!p)
		return 1;
	if (p != v->bounce.buf && (at & (LINE - 1)) + bytes <= LINE) {
		old = atomic_peek(p, lg);
		while (!cas(p, lg, &old, emu_atomic_result(v, op, old, b)))
			;
	} else {
		v->extra += EMU_EFFORT_SPLIT;
		pthread_mutex_lock(&v->vm->split_lock);
		p = emu_rmw_slow(v, at, bytes); /* the current operand; cannot fail a second time */
		if (!p) {
			pthread_mutex_unlock(&v->vm->split_lock);
			return 1;
		}
		old = emu_get(p, bytes);
		emu_put(p, bytes, emu_atomic_result(v, op, old, b));
		if (p == v->bounce.buf)
			emu_rmw_commit(v);
		pthread_mutex_unlock(&v->vm->split_lock);
	}
	emu_atomic_finish(v, op, old, b);
	return 0;
}

/* CMPXCHG8B, CMPXCHG16B: op->base is log2 of half the operand. */
int emu_help_cmpxchgb(struct emu_vcpu *v, const struct emu_op *op)
{
	unsigned int half = 1u << op->base;
	uint64_t at = v->r[EMU_TEA], lo, hi, acc[2], new[2];
	bool same;
	void *p;

	if (half == 8 && (at & 15))
		return emu_gp(v, 0); /* SDM, CMPXCHG16B: must be aligned */
	acc[0] = emu_rd(v, EMU_RAX, half);
	acc[1] = emu_rd(v, EMU_RDX, half);
	new[0] = emu_rd(v, EMU_RBX, half);
	new[1] = emu_rd(v, EMU_RCX, half);
	v->extra += EMU_EFFORT_LOCKED + EMU_EFFORT_SPLIT;
	pthread_mutex_lock(&v->vm->split_lock);
	p = emu_rmw_slow(v, at, 2 * half);
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
		lo = emu_get(p, half);
		hi = emu_get((uint8_t *)p + half, half);
		same = lo == acc[0] && hi == acc[1];
		if (same) {
			emu_put(p, half, new[0]);
			emu_put((uint8_t *)p + half, half, new[1]);
			if (p == v->bounce.buf)
				emu_rmw_commit(v);
		}
	}
	pthread_mutex_unlock(&v->vm->split_lock);
	if (!same) {
		emu_wr(v, EMU_RAX, half, lo);
		emu_wr(v, EMU_RDX, half, hi);
	}
	emu_fl_override(v, EMU_ZF, same ? EMU_ZF : 0);
	return 0;
}

int emu_help_fence(struct emu_vcpu *v, const struct emu_op *op)
{
	v->extra += EMU_EFFORT_FENCE;
	atomic_thread_fence(memory_order_seq_cst);
	return 0;
}

/* ---- stack ---- */

int emu_help_push16(struct emu_vcpu *v, const struct emu_op *op)
{
	if (emu_st_slow(v, v->r[EMU_RSP] - 2, 2, v->r[op->src]))
		return 1;
	v->r[EMU_RSP] -= 2;
	return 0;
}

int emu_help_pop16(struct emu_vcpu *v, const struct emu_op *op)
{
	uint64_t x = emu_ld_slow(v, v->r[EMU_RSP], 2);

	if (v->trap)
		return 1;
	v->r[EMU_RSP] += 2;
	emu_wr(v, op->dst, 2, x);
	return 0;
}

/* op->idx: the destination is in the stack segment, too. */
int emu_help_popm(struct emu_vcpu *v, const struct emu_op *op)
{
	unsigned int bytes = 1u << op->base;
	uint64_t x = emu_ld_slow(v, v->r[EMU_RSP], bytes);

	if (v->trap)
		return 1;
	if (emu_st_slow(v, v->r[EMU_TEA], bytes, x)) {
		v->fault.canon &= op->idx;
		return 1;
	}
	v->r[EMU_RSP] += bytes;
	return 0;
}

int emu_help_enter(struct emu_vcpu *v, const struct emu_op *op)
{
	uint64_t frame = v->r[EMU_RSP] - 8, rsp = frame - (uint64_t)op->imm;

	if (emu_st_slow(v, frame, 8, v->r[EMU_RBP]))
		return 1;
	/* The new top of the stack must be writable, too (SDM, ENTER). The frame stays stored. */
	if (!emu_rmw_quiet(v, rsp, 1))
		return 1;
	v->r[EMU_RBP] = frame;
	v->r[EMU_RSP] = rsp;
	return 0;
}
