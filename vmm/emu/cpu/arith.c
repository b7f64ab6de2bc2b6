// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Helpers for the rarer integer instructions: multiplication and division, rotates, double shifts,
 * bit tests and scans, sign extension, flag instructions. Operand registers follow
 * emu_rd()/emu_wr(); op->base is log2 of the operand's bytes, op->idx the kind (emit.h).
 *
 * Undefined flags have the values of AMD family 19h, see docs/internals/emulator.md.
 */
#include "vmm/emu/cpu/emit.h"

static uint64_t rd(const struct emu_vcpu *v, unsigned int reg, unsigned int lg)
{
	return emu_rd(v, reg, 1u << lg);
}

static void wr(struct emu_vcpu *v, unsigned int reg, unsigned int lg, uint64_t x)
{
	emu_wr(v, reg, 1u << lg, x);
}

/* ---- multiplication: only CF and OF are written ---- */

static void mul_flags(struct emu_vcpu *v, bool over)
{
	emu_fl_override(v, EMU_CF | EMU_OF, over ? EMU_CF | EMU_OF : 0);
}

/* Store the double-width result of a one-operand multiplication. */
static void wide_result(struct emu_vcpu *v, unsigned int lg, uint64_t lo, uint64_t hi)
{
	if (lg == 0) {
		emu_wr(v, EMU_RAX, 2, (hi & 0xff) << 8 | (lo & 0xff));
		return;
	}
	wr(v, EMU_RAX, lg, lo);
	wr(v, EMU_RDX, lg, hi);
}

int emu_help_mul(struct emu_vcpu *v, const struct emu_op *op)
{
	unsigned int lg = op->base;
	unsigned __int128 r = (unsigned __int128)rd(v, 0, lg) * rd(v, op->src, lg);
	uint64_t hi = (uint64_t)(r >> (8u << lg));

	wide_result(v, lg, (uint64_t)r, hi);
	mul_flags(v, emu_zext(hi, lg) != 0);
	return 0;
}

int emu_help_imul1(struct emu_vcpu *v, const struct emu_op *op)
{
	unsigned int lg = op->base;
	__int128 r = (__int128)(int64_t)emu_sext(rd(v, 0, lg), lg) *
		     (int64_t)emu_sext(rd(v, op->src, lg), lg);

	wide_result(v, lg, (uint64_t)r, (uint64_t)(r >> (8u << lg)));
	mul_flags(v, r != (int64_t)emu_sext((uint64_t)r, lg));
	return 0;
}

static int imul(struct emu_vcpu *v, const struct emu_op *op, int64_t x, int64_t y)
{
	int64_t r = x * y; /* of 16-bit operands: cannot overflow */

	emu_wr(v, op->dst, 2, (uint64_t)r);
	mul_flags(v, r != (int16_t)r);
	return 0;
}

int emu_help_imul2(struct emu_vcpu *v, const struct emu_op *op)
{
	return imul(v, op, (int16_t)rd(v, op->dst, 1), (int16_t)rd(v, op->src, 1));
}

int emu_help_imul3(struct emu_vcpu *v, const struct emu_op *op)
{
	return imul(v, op, (int16_t)rd(v, op->src, 1), (int16_t)op->imm);
}

/* ---- division ---- */

static int div_done(struct emu_vcpu *v, unsigned int lg, uint64_t q, uint64_t r)
{
	v->extra += EMU_EFFORT_DIVIDE;
	wide_result(v, lg, q, r);
	emu_fl_override(v, EMU_ZF | EMU_SF | EMU_PF | EMU_AF, EMU_AF);
	return 0;
}

static unsigned __int128 dividend(const struct emu_vcpu *v, unsigned int lg)
{
	if (lg == 0)
		return (uint16_t)v->r[EMU_RAX];
	return (unsigned __int128)rd(v, EMU_RDX, lg) << (8u << lg) | rd(v, EMU_RAX, lg);
}

int emu_help_div(struct emu_vcpu *v, const struct emu_op *op)
{
	unsigned int lg = op->base;
	unsigned __int128 n = dividend(v, lg);
	uint64_t d = rd(v, op->src, lg), q, r;

	if (!d)
		return emu_fault(v, EMU_DE, false, 0);
	if ((uint64_t)(n >> 64) == 0) {
		q = (uint64_t)n / d;
		r = (uint64_t)n % d;
		if (lg < 3 && q >> (8u << lg))
			return emu_fault(v, EMU_DE, false, 0);
	} else {
		if ((uint64_t)(n >> 64) >= d) /* only 64-bit operands get here */
			return emu_fault(v, EMU_DE, false, 0);
		q = (uint64_t)(n / d);
		r = (uint64_t)(n % d);
	}
	return div_done(v, lg, q, r);
}

int emu_help_idiv(struct emu_vcpu *v, const struct emu_op *op)
{
	unsigned int lg = op->base;
	unsigned __int128 un = dividend(v, lg), uq, ud;
	int64_t d = (int64_t)emu_sext(rd(v, op->src, lg), lg);
	unsigned int bits = lg == 3 ? 128 : 16u << lg;
	bool nneg = un >> (bits - 1) & 1, qneg = nneg != (d < 0);
	uint64_t limit = 1ULL << ((8u << lg) - 1), r;

	if (!d)
		return emu_fault(v, EMU_DE, false, 0);
	if (bits < 128 && nneg)
		un |= ~(unsigned __int128)0 << bits;
	/* Magnitudes, so that no intermediate overflows. */
	if (nneg)
		un = -un;
	ud = d < 0 ? -(unsigned __int128)(__int128)d : (unsigned __int128)d;
	uq = un / ud;
	r = (uint64_t)(un % ud);
	if (uq > limit - !qneg)
		return emu_fault(v, EMU_DE, false, 0);
	return div_done(v, lg, qneg ? 0 - (uint64_t)uq : (uint64_t)uq, nneg ? 0 - r : r);
}

/* ---- rotates and double shifts ---- */

int emu_help_rotate(struct emu_vcpu *v, const struct emu_op *op)
{
	unsigned int lg = op->base, bits = 8u << lg;
	unsigned int count = (unsigned int)(op->src == EMIT_IMM ? op->imm : (int64_t)v->r[EMU_RCX]);
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
		a = c ? emu_zext(a << c | a >> (bits - c), lg) : a;
		cf = a & 1;
		break;
	case ROT_ROR:
		c = count & (bits - 1);
		a = c ? emu_zext(a >> c | a << (bits - c), lg) : a;
		cf = a >> (bits - 1) & 1;
		break;
	case ROT_RCL:
		v->extra += count;
		cf = emu_cf(v);
		for (c = count % (bits + 1); c; c--) {
			uint64_t out = a >> (bits - 1) & 1;

			a = emu_zext(a << 1 | cf, lg);
			cf = out;
		}
		break;
	case ROT_RCR:
		v->extra += count;
		cf = emu_cf(v);
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
	emu_fl_override(v, EMU_CF | EMU_OF, (uint32_t)(cf | (of ? EMU_OF : 0)));
	return 0;
}

int emu_help_shiftd(struct emu_vcpu *v, const struct emu_op *op)
{
	unsigned int lg = op->base, bits = 8u << lg;
	unsigned int c = (unsigned int)(op->scale ? (int64_t)v->r[EMU_RCX] : op->imm);
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
		r = c == bits ? b : emu_zext(a >> c | b << (bits - c), lg);
		of = (r >> (bits - 1) ^ r >> (bits - 2)) & 1;
	} else {
		cf = a >> (bits - c) & 1;
		r = c == bits ? b : emu_zext(a << c | b >> (bits - c), lg);
		of = (r >> (bits - 1) & 1) ^ cf;
	}
	wr(v, op->dst, lg, r);
	emu_fl_raw(v, emu_fl_zsp(emu_sext(r, lg)) | EMU_AF | cf | (of ? EMU_OF : 0));
	return 0;
}

/* ---- bits ---- */

/* EMU_TEA = the address of the word that holds the bit; op->idx: the segment base in it. */
int emu_help_btea(struct emu_vcpu *v, const struct emu_op *op)
{
	int64_t bit = (int64_t)emu_sext(rd(v, op->src, op->base), op->base);

	uint64_t seg = v->r[op->idx], at = v->r[EMU_TEA] - seg;

	at += (uint64_t)(bit >> (3 + op->base)) << op->base;
	v->r[EMU_TEA] = seg + (op->flags & EMU_OPF_A32 ? (uint32_t)at : at);
	return 0;
}

int emu_help_bt(struct emu_vcpu *v, const struct emu_op *op)
{
	unsigned int lg = op->base;
	uint64_t a = rd(v, op->dst, lg);
	unsigned int bit = (unsigned int)(op->src == EMIT_IMM ? op->imm : (int64_t)v->r[op->src]) &
			   ((8u << lg) - 1);
	uint64_t m = 1ULL << bit;

	emu_fl_override(v, EMU_CF, a & m ? EMU_CF : 0);
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

int emu_help_scan(struct emu_vcpu *v, const struct emu_op *op)
{
	unsigned int lg = op->base, bits = 8u << lg;
	uint64_t a = rd(v, op->src, lg), r = 0;

	switch (op->idx) {
	case SCAN_BSF:
	case SCAN_BSR:
		if (!a) { /* the destination is unchanged */
			emu_fl_raw(v, EMU_ZF | EMU_PF);
			return 0;
		}
		r = (uint64_t)(op->idx == SCAN_BSF ? __builtin_ctzll(a) : 63 - __builtin_clzll(a));
		emu_fl_raw(v, emu_fl_zsp(r) & EMU_PF);
		break;
	case SCAN_TZCNT:
	case SCAN_LZCNT:
		r = bits;
		if (a)
			r = op->idx == SCAN_TZCNT ? (uint64_t)__builtin_ctzll(a)
						  : (uint64_t)__builtin_clzll(a) - (64 - bits);
		/* OF is unchanged, the others are cleared. */
		emu_fl_override(v, EMU_ARITH & ~EMU_OF,
				(uint32_t)((a ? 0 : EMU_CF) | (r ? 0 : EMU_ZF)));
		break;
	case SCAN_POPCNT:
		r = (uint64_t)__builtin_popcountll(a);
		emu_fl_raw(v, a ? 0 : EMU_ZF);
		break;
	}
	wr(v, op->dst, lg, r);
	return 0;
}

int emu_help_bswap16(struct emu_vcpu *v, const struct emu_op *op)
{
	emu_wr(v, op->dst, 2, 0); /* undefined; hardware clears */
	return 0;
}

/* ---- extension and exchange ---- */

/* MOVSX and MOVZX to 16 bits from 8; op->idx: signed. */
int emu_help_extend(struct emu_vcpu *v, const struct emu_op *op)
{
	uint64_t x = rd(v, op->src, op->base);

	emu_wr(v, op->dst, 2, op->idx ? emu_sext(x, op->base) : x);
	return 0;
}

int emu_help_cbw(struct emu_vcpu *v, const struct emu_op *op)
{
	emu_wr(v, EMU_RAX, 2, (uint64_t)(int8_t)v->r[EMU_RAX]);
	return 0;
}

int emu_help_cwd(struct emu_vcpu *v, const struct emu_op *op)
{
	emu_wr(v, EMU_RDX, 2, v->r[EMU_RAX] & 0x8000 ? 0xffff : 0);
	return 0;
}

int emu_help_xchg(struct emu_vcpu *v, const struct emu_op *op)
{
	uint64_t a = rd(v, op->dst, op->base), b = rd(v, op->src, op->base);

	wr(v, op->dst, op->base, b);
	wr(v, op->src, op->base, a);
	return 0;
}

int emu_help_xadd(struct emu_vcpu *v, const struct emu_op *op)
{
	unsigned int lg = op->base;
	uint64_t a = rd(v, op->dst, lg), b = rd(v, op->src, lg);

	wr(v, op->src, lg, a);
	wr(v, op->dst, lg, a + b);
	emu_fl_set(v, EMU_FK(ADD, lg), emu_sext(a + b, lg), emu_sext(b, lg));
	return 0;
}

int emu_help_cmpxchg(struct emu_vcpu *v, const struct emu_op *op)
{
	unsigned int lg = op->base;
	uint64_t acc = rd(v, 0, lg), old = rd(v, op->dst, lg);

	emu_fl_set(v, EMU_FK(SUB, lg), emu_sext(acc, lg), emu_sext(old, lg));
	if (acc == old) {
		wr(v, op->dst, lg, rd(v, op->src, lg));
		return 0;
	}
	wr(v, 0, lg, old); /* the destination is not written: a 32-bit one keeps its upper half */
	return 0;
}

/* ---- flags ---- */

int emu_help_flagop(struct emu_vcpu *v, const struct emu_op *op)
{
	switch (op->idx) {
	case FLAG_CLC:
		emu_fl_override(v, EMU_CF, 0);
		break;
	case FLAG_STC:
		emu_fl_override(v, EMU_CF, EMU_CF);
		break;
	case FLAG_CMC:
		emu_fl_override(v, EMU_CF, (uint32_t)emu_cf(v) ^ EMU_CF);
		break;
	case FLAG_CLD:
		v->rflags &= ~EMU_DF;
		break;
	case FLAG_STD:
		v->rflags |= EMU_DF;
		break;
	}
	return 0;
}

int emu_help_lahf(struct emu_vcpu *v, const struct emu_op *op)
{
	((uint8_t *)v->r)[1] = (uint8_t)(emu_flags(v) | 2);
	return 0;
}

int emu_help_sahf(struct emu_vcpu *v, const struct emu_op *op)
{
	uint64_t ah = ((uint8_t *)v->r)[1];

	emu_fl_raw(v, (emu_flags(v) & EMU_OF) | (ah & EMU_ARITH & 0xff));
	return 0;
}

/* XLAT: AL = the byte at RBX + AL; op->base: log2 of the address's bytes, op->src: segment base. */
int emu_help_xlat(struct emu_vcpu *v, const struct emu_op *op)
{
	uint64_t at = v->r[EMU_RBX] + (uint8_t)v->r[EMU_RAX], x;

	if (op->base == 2)
		at = (uint32_t)at;
	x = emu_ld_slow(v, at + v->r[op->src], 1);
	if (v->trap)
		return 1;
	emu_wr(v, 0, 1, x);
	return 0;
}
