// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Helpers for the rarer integer instructions: multiplication and division, rotates, double
 * shifts, bit tests and scans, sign extension, flag instructions. Operand registers follow
 * soft_rd()/soft_wr(); op->base is log2 of the operand's bytes, op->idx the kind (emit.h).
 *
 * Undefined flags are those AMD family 19h leaves, see docs/emulator.md.
 */
#include "vmm/emu/cpu/emit.h"

static uint64_t rd(const struct soft_vcpu *v, unsigned int reg, unsigned int lg)
{
	return soft_rd(v, reg, 1u << lg);
}

static void wr(struct soft_vcpu *v, unsigned int reg, unsigned int lg, uint64_t x)
{
	soft_wr(v, reg, 1u << lg, x);
}

/* ---- multiplication: only CF and OF are written ---- */

static void mul_flags(struct soft_vcpu *v, bool over)
{
	soft_fl_override(v, SOFT_CF | SOFT_OF, over ? SOFT_CF | SOFT_OF : 0);
}

/* The double-width result of a one-operand multiplication. */
static void wide_result(struct soft_vcpu *v, unsigned int lg, uint64_t lo, uint64_t hi)
{
	if (lg == 0) {
		soft_wr(v, SOFT_RAX, 2, (hi & 0xff) << 8 | (lo & 0xff));
		return;
	}
	wr(v, SOFT_RAX, lg, lo);
	wr(v, SOFT_RDX, lg, hi);
}

int soft_help_mul(struct soft_vcpu *v, const struct soft_op *op)
{
	unsigned int lg = op->base;
	unsigned __int128 r = (unsigned __int128)rd(v, 0, lg) * rd(v, op->src, lg);
	uint64_t hi = (uint64_t)(r >> (8u << lg));

	wide_result(v, lg, (uint64_t)r, hi);
	mul_flags(v, soft_zext(hi, lg) != 0);
	return 0;
}

int soft_help_imul1(struct soft_vcpu *v, const struct soft_op *op)
{
	unsigned int lg = op->base;
	__int128 r = (__int128)(int64_t)soft_sext(rd(v, 0, lg), lg) *
		     (int64_t)soft_sext(rd(v, op->src, lg), lg);

	wide_result(v, lg, (uint64_t)r, (uint64_t)(r >> (8u << lg)));
	mul_flags(v, r != (int64_t)soft_sext((uint64_t)r, lg));
	return 0;
}

static int imul(struct soft_vcpu *v, const struct soft_op *op, int64_t x, int64_t y)
{
	int64_t r = x * y; /* of 16-bit operands: cannot overflow */

	soft_wr(v, op->dst, 2, (uint64_t)r);
	mul_flags(v, r != (int16_t)r);
	return 0;
}

int soft_help_imul2(struct soft_vcpu *v, const struct soft_op *op)
{
	return imul(v, op, (int16_t)rd(v, op->dst, 1), (int16_t)rd(v, op->src, 1));
}

int soft_help_imul3(struct soft_vcpu *v, const struct soft_op *op)
{
	return imul(v, op, (int16_t)rd(v, op->src, 1), (int16_t)op->imm);
}

/* ---- division ---- */

static int div_done(struct soft_vcpu *v, unsigned int lg, uint64_t q, uint64_t r)
{
	v->extra += SOFT_EFFORT_DIVIDE;
	wide_result(v, lg, q, r);
	soft_fl_override(v, SOFT_ZF | SOFT_SF | SOFT_PF | SOFT_AF, SOFT_AF);
	return 0;
}

static unsigned __int128 dividend(const struct soft_vcpu *v, unsigned int lg)
{
	if (lg == 0)
		return (uint16_t)v->r[SOFT_RAX];
	return (unsigned __int128)rd(v, SOFT_RDX, lg) << (8u << lg) | rd(v, SOFT_RAX, lg);
}

int soft_help_div(struct soft_vcpu *v, const struct soft_op *op)
{
	unsigned int lg = op->base;
	unsigned __int128 n = dividend(v, lg);
	uint64_t d = rd(v, op->src, lg), q, r;

	if (!d)
		return soft_fault(v, SOFT_DE, false, 0);
	if ((uint64_t)(n >> 64) == 0) {
		q = (uint64_t)n / d;
		r = (uint64_t)n % d;
		if (lg < 3 && q >> (8u << lg))
			return soft_fault(v, SOFT_DE, false, 0);
	} else {
		if ((uint64_t)(n >> 64) >= d) /* only 64-bit operands get here */
			return soft_fault(v, SOFT_DE, false, 0);
		q = (uint64_t)(n / d);
		r = (uint64_t)(n % d);
	}
	return div_done(v, lg, q, r);
}

int soft_help_idiv(struct soft_vcpu *v, const struct soft_op *op)
{
	unsigned int lg = op->base;
	unsigned __int128 un = dividend(v, lg), uq, ud;
	int64_t d = (int64_t)soft_sext(rd(v, op->src, lg), lg);
	unsigned int bits = lg == 3 ? 128 : 16u << lg;
	bool nneg = un >> (bits - 1) & 1, qneg = nneg != (d < 0);
	uint64_t limit = 1ULL << ((8u << lg) - 1), r;

	if (!d)
		return soft_fault(v, SOFT_DE, false, 0);
	if (bits < 128 && nneg)
		un |= ~(unsigned __int128)0 << bits;
	/* Magnitudes, so that no intermediate overflows. */
	if (nneg)
		un = -un;
	ud = d < 0 ? -(unsigned __int128)(__int128)d : (unsigned __int128)d;
	uq = un / ud;
	r = (uint64_t)(un % ud);
	if (uq > limit - !qneg)
		return soft_fault(v, SOFT_DE, false, 0);
	return div_done(v, lg, qneg ? 0 - (uint64_t)uq : (uint64_t)uq, nneg ? 0 - r : r);
}

/* ---- rotates and double shifts ---- */

int soft_help_rotate(struct soft_vcpu *v, const struct soft_op *op)
{
	unsigned int lg = op->base, bits = 8u << lg;
	unsigned int count =
		(unsigned int)(op->src == EMIT_IMM ? op->imm : (int64_t)v->r[SOFT_RCX]);
	uint64_t a = rd(v, op->dst, lg), cf = 0, msb, of;
	unsigned int c;

	count &= lg == 3 ? 63 : 31;
	if (!count) {
		wr(v, op->dst, lg, a);
		return 0;
	}
	switch (op->idx) {
	case ROT_ROL:
		c = count & (bits - 1);
		a = c ? soft_zext(a << c | a >> (bits - c), lg) : a;
		cf = a & 1;
		break;
	case ROT_ROR:
		c = count & (bits - 1);
		a = c ? soft_zext(a >> c | a << (bits - c), lg) : a;
		cf = a >> (bits - 1) & 1;
		break;
	case ROT_RCL:
		v->extra += count;
		cf = soft_cf(v);
		for (c = count % (bits + 1); c; c--) {
			uint64_t out = a >> (bits - 1) & 1;

			a = soft_zext(a << 1 | cf, lg);
			cf = out;
		}
		break;
	case ROT_RCR:
		v->extra += count;
		cf = soft_cf(v);
		for (c = count % (bits + 1); c; c--) {
			uint64_t out = a & 1;

			a = a >> 1 | cf << (bits - 1);
			cf = out;
		}
		break;
	}
	msb = a >> (bits - 1) & 1;
	of = op->idx == ROT_ROL || op->idx == ROT_RCL ? cf ^ msb : msb ^ (a >> (bits - 2) & 1);
	wr(v, op->dst, lg, a);
	soft_fl_override(v, SOFT_CF | SOFT_OF, (uint32_t)(cf | (of ? SOFT_OF : 0)));
	return 0;
}

int soft_help_shiftd(struct soft_vcpu *v, const struct soft_op *op)
{
	unsigned int lg = op->base, bits = 8u << lg;
	unsigned int c = (unsigned int)(op->scale ? (int64_t)v->r[SOFT_RCX] : op->imm);
	uint64_t a = rd(v, op->dst, lg), b = rd(v, op->src, lg), r, cf, of;

	c &= lg == 3 ? 63 : 31;
	if (!c) {
		wr(v, op->dst, lg, a);
		return 0;
	}
	if (c > bits) { /* 16-bit operands only; result and flags are undefined (SDM, SHLD) */
		c -= bits;
		a = b;
	}
	if (op->idx) {
		cf = a >> (c - 1) & 1;
		r = c == bits ? b : soft_zext(a >> c | b << (bits - c), lg);
		of = (r >> (bits - 1) ^ r >> (bits - 2)) & 1;
	} else {
		cf = a >> (bits - c) & 1;
		r = c == bits ? b : soft_zext(a << c | b >> (bits - c), lg);
		of = (r >> (bits - 1) & 1) ^ cf;
	}
	wr(v, op->dst, lg, r);
	soft_fl_raw(v, soft_fl_zsp(soft_sext(r, lg)) | SOFT_AF | cf | (of ? SOFT_OF : 0));
	return 0;
}

/* ---- bits ---- */

/* SOFT_TEA becomes the address of the word that holds the bit; op->idx: the segment base in it. */
int soft_help_btea(struct soft_vcpu *v, const struct soft_op *op)
{
	int64_t bit = (int64_t)soft_sext(rd(v, op->src, op->base), op->base);

	uint64_t seg = v->r[op->idx], at = v->r[SOFT_TEA] - seg;

	at += (uint64_t)(bit >> (3 + op->base)) << op->base;
	v->r[SOFT_TEA] = seg + (op->flags & SOFT_OPF_A32 ? (uint32_t)at : at);
	return 0;
}

int soft_help_bt(struct soft_vcpu *v, const struct soft_op *op)
{
	unsigned int lg = op->base;
	uint64_t a = rd(v, op->dst, lg);
	unsigned int bit = (unsigned int)(op->src == EMIT_IMM ? op->imm : (int64_t)v->r[op->src]) &
			   ((8u << lg) - 1);
	uint64_t m = 1ULL << bit;

	soft_fl_override(v, SOFT_CF, a & m ? SOFT_CF : 0);
	switch (op->idx) {
	case 1:
		wr(v, op->dst, lg, a | m);
		break;
	case 2:
		wr(v, op->dst, lg, a & ~m);
		break;
	case 3:
		wr(v, op->dst, lg, a ^ m);
		break;
	}
	return 0;
}

int soft_help_scan(struct soft_vcpu *v, const struct soft_op *op)
{
	unsigned int lg = op->base, bits = 8u << lg;
	uint64_t a = rd(v, op->src, lg), r = 0;

	switch (op->idx) {
	case SCAN_BSF:
	case SCAN_BSR:
		if (!a) { /* the destination keeps all of its bits */
			soft_fl_raw(v, SOFT_ZF | SOFT_PF);
			return 0;
		}
		r = (uint64_t)(op->idx == SCAN_BSF ? __builtin_ctzll(a) : 63 - __builtin_clzll(a));
		soft_fl_raw(v, soft_fl_zsp(r) & SOFT_PF);
		break;
	case SCAN_TZCNT:
	case SCAN_LZCNT:
		r = bits;
		if (a)
			r = op->idx == SCAN_TZCNT ? (uint64_t)__builtin_ctzll(a)
						  : (uint64_t)__builtin_clzll(a) - (64 - bits);
		/* OF stays, the others are cleared. */
		soft_fl_override(v, SOFT_ARITH & ~SOFT_OF,
				 (uint32_t)((a ? 0 : SOFT_CF) | (r ? 0 : SOFT_ZF)));
		break;
	case SCAN_POPCNT:
		r = (uint64_t)__builtin_popcountll(a);
		soft_fl_raw(v, a ? 0 : SOFT_ZF);
		break;
	}
	wr(v, op->dst, lg, r);
	return 0;
}

int soft_help_bswap16(struct soft_vcpu *v, const struct soft_op *op)
{
	soft_wr(v, op->dst, 2, 0); /* undefined; hardware clears */
	return 0;
}

/* ---- extension and exchange ---- */

/* MOVSX and MOVZX to 16 bits from 8; op->idx: signed. */
int soft_help_extend(struct soft_vcpu *v, const struct soft_op *op)
{
	uint64_t x = rd(v, op->src, op->base);

	soft_wr(v, op->dst, 2, op->idx ? soft_sext(x, op->base) : x);
	return 0;
}

int soft_help_cbw(struct soft_vcpu *v, const struct soft_op *op)
{
	soft_wr(v, SOFT_RAX, 2, (uint64_t)(int8_t)v->r[SOFT_RAX]);
	return 0;
}

int soft_help_cwd(struct soft_vcpu *v, const struct soft_op *op)
{
	soft_wr(v, SOFT_RDX, 2, v->r[SOFT_RAX] & 0x8000 ? 0xffff : 0);
	return 0;
}

int soft_help_xchg(struct soft_vcpu *v, const struct soft_op *op)
{
	uint64_t a = rd(v, op->dst, op->base), b = rd(v, op->src, op->base);

	wr(v, op->dst, op->base, b);
	wr(v, op->src, op->base, a);
	return 0;
}

int soft_help_xadd(struct soft_vcpu *v, const struct soft_op *op)
{
	unsigned int lg = op->base;
	uint64_t a = rd(v, op->dst, lg), b = rd(v, op->src, lg);

	wr(v, op->src, lg, a);
	wr(v, op->dst, lg, a + b);
	soft_fl_set(v, SOFT_FK(ADD, lg), soft_sext(a + b, lg), soft_sext(b, lg));
	return 0;
}

int soft_help_cmpxchg(struct soft_vcpu *v, const struct soft_op *op)
{
	unsigned int lg = op->base;
	uint64_t acc = rd(v, 0, lg), old = rd(v, op->dst, lg);

	soft_fl_set(v, SOFT_FK(SUB, lg), soft_sext(acc, lg), soft_sext(old, lg));
	if (acc == old) {
		wr(v, op->dst, lg, rd(v, op->src, lg));
		return 0;
	}
	wr(v, 0, lg, old); /* the destination is not written: a 32-bit one keeps its upper half */
	return 0;
}

/* ---- flags ---- */

int soft_help_flagop(struct soft_vcpu *v, const struct soft_op *op)
{
	switch (op->idx) {
	case FLAG_CLC:
		soft_fl_override(v, SOFT_CF, 0);
		break;
	case FLAG_STC:
		soft_fl_override(v, SOFT_CF, SOFT_CF);
		break;
	case FLAG_CMC:
		soft_fl_override(v, SOFT_CF, (uint32_t)soft_cf(v) ^ SOFT_CF);
		break;
	case FLAG_CLD:
		v->rflags &= ~SOFT_DF;
		break;
	case FLAG_STD:
		v->rflags |= SOFT_DF;
		break;
	}
	return 0;
}

int soft_help_lahf(struct soft_vcpu *v, const struct soft_op *op)
{
	((uint8_t *)v->r)[1] = (uint8_t)(soft_flags(v) | 2);
	return 0;
}

int soft_help_sahf(struct soft_vcpu *v, const struct soft_op *op)
{
	uint64_t ah = ((uint8_t *)v->r)[1];

	soft_fl_raw(v, (soft_flags(v) & SOFT_OF) | (ah & SOFT_ARITH & 0xff));
	return 0;
}

/* XLAT: AL = the byte at RBX + AL; op->base: log2 of the address's bytes, op->src: segment base. */
int soft_help_xlat(struct soft_vcpu *v, const struct soft_op *op)
{
	uint64_t at = v->r[SOFT_RBX] + (uint8_t)v->r[SOFT_RAX], x;

	if (op->base == 2)
		at = (uint32_t)at;
	x = soft_ld_slow(v, at + v->r[op->src], 1);
	if (v->trap)
		return 1;
	soft_wr(v, 0, 1, x);
	return 0;
}
