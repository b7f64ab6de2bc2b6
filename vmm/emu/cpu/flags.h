/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Lazy arithmetic flags. An instruction that sets flags only stores its operands or its result in
 * the vCPU (fl_a, fl_b, fl_kind). The six flags are computed when an instruction reads flags. All
 * files that execute instructions or deliver events call these functions. Where the manuals leave a
 * flag undefined, the value is the one measured on AMD family 19h (docs/internals/emulator.md,
 * "Undefined flags").
 */
#pragma once

#include "vmm/emu/emu.h"

#define EMU_CF	  0x001ULL
#define EMU_PF	  0x004ULL
#define EMU_AF	  0x010ULL
#define EMU_ZF	  0x040ULL
#define EMU_SF	  0x080ULL
#define EMU_TF	  0x100ULL
#define EMU_IF	  0x200ULL
#define EMU_DF	  0x400ULL
#define EMU_OF	  0x800ULL
#define EMU_IOPL  0x3000ULL
#define EMU_NT	  0x4000ULL
#define EMU_RF	  0x10000ULL
#define EMU_VM	  0x20000ULL
#define EMU_AC	  0x40000ULL
#define EMU_VIF	  0x80000ULL
#define EMU_VIP	  0x100000ULL
#define EMU_ID	  0x200000ULL
#define EMU_ARITH (EMU_CF | EMU_PF | EMU_AF | EMU_ZF | EMU_SF | EMU_OF)

#define EMU_FK(kind, sz_log2) ((uint32_t)(EMU_FK_##kind) * 4 + (sz_log2))

static inline void emu_fl_set(struct emu_vcpu *v, uint32_t kind, uint64_t a, uint64_t b)
{
	v->fl_a = a;
	v->fl_b = b;
	v->fl_kind = kind;
}

static inline void emu_fl_raw(struct emu_vcpu *v, uint64_t flags)
{
	emu_fl_set(v, EMU_FK(RAW, 0), flags, 0);
}

/* ZF, SF and PF of a result that is sign-extended from its size. */
static inline uint64_t emu_fl_zsp(uint64_t res)
{
	return (res ? 0 : EMU_ZF) | (res >> 63 ? EMU_SF : 0) |
	       (__builtin_parity((unsigned int)res & 0xff) ? 0 : EMU_PF);
}

static inline uint64_t emu_sext(uint64_t x, unsigned int sz_log2)
{
	unsigned int sh = 64 - (8u << sz_log2);

	return (uint64_t)((int64_t)(x << sh) >> sh);
}

static inline uint64_t emu_zext(uint64_t x, unsigned int sz_log2)
{
	unsigned int sh = 64 - (8u << sz_log2);

	return x << sh >> sh;
}

/* emu_fl_override - set the flags in @mask to their values in @val. The other flags are unchanged
 * (BT, IMUL, ...). @val must have no bit outside of @mask. */
static inline void emu_fl_override(struct emu_vcpu *v, uint32_t mask, uint32_t val)
{
	if (!(v->fl_kind & EMU_FK_OVER)) {
		v->fl_kind |= EMU_FK_OVER;
		v->fl_omask = mask;
		v->fl_oval = val;
	} else {
		v->fl_omask |= mask;
		v->fl_oval = (v->fl_oval & ~mask) | val;
	}
}

/* emu_flags - the six flags, in their RFLAGS positions. */
static inline uint64_t emu_flags(const struct emu_vcpu *v)
{
	unsigned int sz = v->fl_kind & 3;
	unsigned int msb = (8u << sz) - 1;
	uint64_t a = v->fl_a, b = v->fl_b, r, f = 0;

	switch ((enum emu_fk)((v->fl_kind & ~EMU_FK_OVER) >> 2)) {
	case EMU_FK_RAW:
		f = a;
		break;
	case EMU_FK_SUB:
		r = emu_sext(a - b, sz);
		f = emu_fl_zsp(r) | (a < b ? EMU_CF : 0) | ((a ^ b ^ r) & EMU_AF);
		f |= ((a ^ b) & (a ^ r)) >> msb & 1 ? EMU_OF : 0;
		break;
	case EMU_FK_ADD:
		r = emu_sext(a - b, sz); /* r is the other addend */
		f = emu_fl_zsp(a) | (a < b ? EMU_CF : 0) | ((a ^ b ^ r) & EMU_AF);
		f |= ((a ^ r) & (a ^ b)) >> msb & 1 ? EMU_OF : 0;
		break;
	case EMU_FK_SBB:
		r = emu_sext(a - b - 1, sz);
		f = emu_fl_zsp(r) | (a <= b ? EMU_CF : 0) | ((a ^ b ^ r) & EMU_AF);
		f |= ((a ^ b) & (a ^ r)) >> msb & 1 ? EMU_OF : 0;
		break;
	case EMU_FK_ADC:
		r = emu_sext(a - b - 1, sz);
		f = emu_fl_zsp(a) | (a <= b ? EMU_CF : 0) | ((a ^ b ^ r) & EMU_AF);
		f |= ((a ^ r) & (a ^ b)) >> msb & 1 ? EMU_OF : 0;
		break;
	case EMU_FK_INC:
		f = emu_fl_zsp(a) | b | ((a & 0xf) ? 0 : EMU_AF);
		f |= emu_zext(a, sz) == 1ULL << msb ? EMU_OF : 0;
		break;
	case EMU_FK_DEC:
		f = emu_fl_zsp(a) | b | ((a & 0xf) == 0xf ? EMU_AF : 0);
		f |= emu_zext(a, sz) == (1ULL << msb) - 1 ? EMU_OF : 0;
		break;
	case EMU_FK_SHL:
		f = emu_fl_zsp(a) | EMU_AF | b | ((a >> 63) != b ? EMU_OF : 0);
		break;
	case EMU_FK_SHR:
		f = emu_fl_zsp(a) | EMU_AF | b;
		f |= (a >> msb ^ a >> (msb - 1)) & 1 ? EMU_OF : 0;
		break;
	}
	if (v->fl_kind & EMU_FK_OVER)
		f = (f & ~(uint64_t)v->fl_omask) | v->fl_oval;
	return f;
}

/* emu_cf - the carry flag alone, 0 or 1. */
static inline uint64_t emu_cf(const struct emu_vcpu *v)
{
	if (unlikely(v->fl_kind & EMU_FK_OVER))
		return v->fl_omask & EMU_CF ? v->fl_oval & EMU_CF : emu_flags(v) & EMU_CF;
	switch ((enum emu_fk)(v->fl_kind >> 2)) {
	case EMU_FK_SUB:
	case EMU_FK_ADD:
		return v->fl_a < v->fl_b;
	case EMU_FK_SBB:
	case EMU_FK_ADC:
		return v->fl_a <= v->fl_b;
	case EMU_FK_RAW:
		return v->fl_a & EMU_CF;
	default:
		return v->fl_b;
	}
}

/* emu_cond - returns true if flags @f meet condition @cc (the low four bits of Jcc's opcode). */
static inline bool emu_cond(uint64_t f, unsigned int cc)
{
	bool r = false;

	switch (cc >> 1) {
	case 0:
		r = f & EMU_OF;
		break;
	case 1:
		r = f & EMU_CF;
		break;
	case 2:
		r = f & EMU_ZF;
		break;
	case 3:
		r = f & (EMU_CF | EMU_ZF);
		break;
	case 4:
		r = f & EMU_SF;
		break;
	case 5:
		r = f & EMU_PF;
		break;
	case 6:
		r = !(f & EMU_SF) != !(f & EMU_OF);
		break;
	case 7:
		r = (f & EMU_ZF) || !(f & EMU_SF) != !(f & EMU_OF);
		break;
	}
	return r != (cc & 1);
}

/* emu_cc - returns true if the vCPU's flags meet condition @cc. After a SUB-like instruction most
 * conditions are evaluated without computing the six flags. */
static inline bool emu_cc(const struct emu_vcpu *v, unsigned int cc)
{
	uint64_t a = v->fl_a, b = v->fl_b;
	bool r;

	if (v->fl_kind >> 2 != EMU_FK_SUB)
		return cc >> 1 == 1 ? emu_cf(v) != (cc & 1) : emu_cond(emu_flags(v), cc);
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
		return emu_cond(emu_flags(v), cc);
	}
	return r != (cc & 1);
}

static inline uint64_t emu_get_rflags(const struct emu_vcpu *v)
{
	return (v->rflags & ~EMU_ARITH) | emu_flags(v) | 2;
}

static inline void emu_put_rflags(struct emu_vcpu *v, uint64_t f)
{
	v->rflags = (f & ~EMU_ARITH) | 2;
	emu_fl_raw(v, f & EMU_ARITH);
}
