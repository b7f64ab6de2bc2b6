/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Lazy arithmetic flags. An instruction that sets flags only leaves its operands or its result in
 * the vCPU (fl_a, fl_b, fl_kind). The six flags are computed from them when an instruction reads
 * flags. All files that execute instructions or deliver events call these functions. Where the
 * manuals leave a flag undefined, the value is the one measured on AMD family 19h
 * (docs/emulator.md, "Undefined flags").
 */
#ifndef VMM_SOFT_FLAGS_H
#define VMM_SOFT_FLAGS_H

#include "vmm/emu/emu.h"

#define SOFT_CF	   0x001ULL
#define SOFT_PF	   0x004ULL
#define SOFT_AF	   0x010ULL
#define SOFT_ZF	   0x040ULL
#define SOFT_SF	   0x080ULL
#define SOFT_TF	   0x100ULL
#define SOFT_IF	   0x200ULL
#define SOFT_DF	   0x400ULL
#define SOFT_OF	   0x800ULL
#define SOFT_IOPL  0x3000ULL
#define SOFT_NT	   0x4000ULL
#define SOFT_RF	   0x10000ULL
#define SOFT_VM	   0x20000ULL
#define SOFT_AC	   0x40000ULL
#define SOFT_VIF   0x80000ULL
#define SOFT_VIP   0x100000ULL
#define SOFT_ID	   0x200000ULL
#define SOFT_ARITH (SOFT_CF | SOFT_PF | SOFT_AF | SOFT_ZF | SOFT_SF | SOFT_OF)

#define SOFT_FK(kind, sz_log2) ((uint32_t)(SOFT_FK_##kind) * 4 + (sz_log2))

static inline void soft_fl_set(struct soft_vcpu *v, uint32_t kind, uint64_t a, uint64_t b)
{
	v->fl_a = a;
	v->fl_b = b;
	v->fl_kind = kind;
}

static inline void soft_fl_raw(struct soft_vcpu *v, uint64_t flags)
{
	soft_fl_set(v, SOFT_FK(RAW, 0), flags, 0);
}

/* ZF, SF and PF of a result that is sign-extended from its size. */
static inline uint64_t soft_fl_zsp(uint64_t res)
{
	return (res ? 0 : SOFT_ZF) | (res >> 63 ? SOFT_SF : 0) |
	       (__builtin_parity((unsigned int)res & 0xff) ? 0 : SOFT_PF);
}

static inline uint64_t soft_sext(uint64_t x, unsigned int sz_log2)
{
	unsigned int sh = 64 - (8u << sz_log2);

	return (uint64_t)((int64_t)(x << sh) >> sh);
}

static inline uint64_t soft_zext(uint64_t x, unsigned int sz_log2)
{
	unsigned int sh = 64 - (8u << sz_log2);

	return x << sh >> sh;
}

/* soft_fl_override - set the flags in @mask to their values in @val. The other flags stay as they
 * are (BT, IMUL, ...). @val must have no bit outside of @mask. */
static inline void soft_fl_override(struct soft_vcpu *v, uint32_t mask, uint32_t val)
{
	if (!(v->fl_kind & SOFT_FK_OVER)) {
		v->fl_kind |= SOFT_FK_OVER;
		v->fl_omask = mask;
		v->fl_oval = val;
	} else {
		v->fl_omask |= mask;
		v->fl_oval = (v->fl_oval & ~mask) | val;
	}
}

/* soft_flags - the six flags, in their RFLAGS positions. */
static inline uint64_t soft_flags(const struct soft_vcpu *v)
{
	unsigned int sz = v->fl_kind & 3;
	unsigned int msb = (8u << sz) - 1;
	uint64_t a = v->fl_a, b = v->fl_b, r, f = 0;

	switch ((enum soft_fk)((v->fl_kind & ~SOFT_FK_OVER) >> 2)) {
	case SOFT_FK_RAW:
		f = a;
		break;
	case SOFT_FK_SUB:
		r = soft_sext(a - b, sz);
		f = soft_fl_zsp(r) | (a < b ? SOFT_CF : 0) | ((a ^ b ^ r) & SOFT_AF);
		f |= ((a ^ b) & (a ^ r)) >> msb & 1 ? SOFT_OF : 0;
		break;
	case SOFT_FK_ADD:
		r = soft_sext(a - b, sz); /* r is the other addend */
		f = soft_fl_zsp(a) | (a < b ? SOFT_CF : 0) | ((a ^ b ^ r) & SOFT_AF);
		f |= ((a ^ r) & (a ^ b)) >> msb & 1 ? SOFT_OF : 0;
		break;
	case SOFT_FK_SBB:
		r = soft_sext(a - b - 1, sz);
		f = soft_fl_zsp(r) | (a <= b ? SOFT_CF : 0) | ((a ^ b ^ r) & SOFT_AF);
		f |= ((a ^ b) & (a ^ r)) >> msb & 1 ? SOFT_OF : 0;
		break;
	case SOFT_FK_ADC:
		r = soft_sext(a - b - 1, sz);
		f = soft_fl_zsp(a) | (a <= b ? SOFT_CF : 0) | ((a ^ b ^ r) & SOFT_AF);
		f |= ((a ^ r) & (a ^ b)) >> msb & 1 ? SOFT_OF : 0;
		break;
	case SOFT_FK_INC:
		f = soft_fl_zsp(a) | b | ((a & 0xf) ? 0 : SOFT_AF);
		f |= soft_zext(a, sz) == 1ULL << msb ? SOFT_OF : 0;
		break;
	case SOFT_FK_DEC:
		f = soft_fl_zsp(a) | b | ((a & 0xf) == 0xf ? SOFT_AF : 0);
		f |= soft_zext(a, sz) == (1ULL << msb) - 1 ? SOFT_OF : 0;
		break;
	case SOFT_FK_SHL:
		f = soft_fl_zsp(a) | SOFT_AF | b | ((a >> 63) != b ? SOFT_OF : 0);
		break;
	case SOFT_FK_SHR:
		f = soft_fl_zsp(a) | SOFT_AF | b;
		f |= (a >> msb ^ a >> (msb - 1)) & 1 ? SOFT_OF : 0;
		break;
	}
	if (v->fl_kind & SOFT_FK_OVER)
		f = (f & ~(uint64_t)v->fl_omask) | v->fl_oval;
	return f;
}

/* soft_cf - the carry flag alone, 0 or 1. */
static inline uint64_t soft_cf(const struct soft_vcpu *v)
{
	if (unlikely(v->fl_kind & SOFT_FK_OVER))
		return v->fl_omask & SOFT_CF ? v->fl_oval & SOFT_CF : soft_flags(v) & SOFT_CF;
	switch ((enum soft_fk)(v->fl_kind >> 2)) {
	case SOFT_FK_SUB:
	case SOFT_FK_ADD:
		return v->fl_a < v->fl_b;
	case SOFT_FK_SBB:
	case SOFT_FK_ADC:
		return v->fl_a <= v->fl_b;
	case SOFT_FK_RAW:
		return v->fl_a & SOFT_CF;
	default:
		return v->fl_b;
	}
}

/* soft_cond - whether flags @f meet condition @cc (the low four bits of Jcc's opcode). */
static inline bool soft_cond(uint64_t f, unsigned int cc)
{
	bool r = false;

	switch (cc >> 1) {
	case 0:
		r = f & SOFT_OF;
		break;
	case 1:
		r = f & SOFT_CF;
		break;
	case 2:
		r = f & SOFT_ZF;
		break;
	case 3:
		r = f & (SOFT_CF | SOFT_ZF);
		break;
	case 4:
		r = f & SOFT_SF;
		break;
	case 5:
		r = f & SOFT_PF;
		break;
	case 6:
		r = !(f & SOFT_SF) != !(f & SOFT_OF);
		break;
	case 7:
		r = (f & SOFT_ZF) || !(f & SOFT_SF) != !(f & SOFT_OF);
		break;
	}
	return r != (cc & 1);
}

/* soft_cc - whether the vCPU's flags meet condition @cc. After a SUB-like instruction most
 * conditions are evaluated without computing the six flags. */
static inline bool soft_cc(const struct soft_vcpu *v, unsigned int cc)
{
	uint64_t a = v->fl_a, b = v->fl_b;
	bool r;

	if (v->fl_kind >> 2 != SOFT_FK_SUB)
		return cc >> 1 == 1 ? soft_cf(v) != (cc & 1) : soft_cond(soft_flags(v), cc);
	switch (cc >> 1) {
	case 1:
		r = a < b;
		break;
	case 2:
		r = a == b;
		break;
	case 3:
		r = a <= b;
		break;
	case 6:
		r = (int64_t)a < (int64_t)b;
		break;
	case 7:
		r = (int64_t)a <= (int64_t)b;
		break;
	default:
		return soft_cond(soft_flags(v), cc);
	}
	return r != (cc & 1);
}

static inline uint64_t soft_get_rflags(const struct soft_vcpu *v)
{
	return (v->rflags & ~SOFT_ARITH) | soft_flags(v) | 2;
}

static inline void soft_put_rflags(struct soft_vcpu *v, uint64_t f)
{
	v->rflags = (f & ~SOFT_ARITH) | 2;
	soft_fl_raw(v, f & SOFT_ARITH);
}

#endif
