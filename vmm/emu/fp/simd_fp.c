// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * SIMD floating-point exceptions. Stubs run with all of them masked. An exception that the guest
 * has unmasked is raised before any change except MXCSR's flags (SDM vol. 1, 11.5.1).
 *
 * The host reports the exceptions of an instruction while they are masked. Where an unmasked one
 * differs, this file computes it: unmasked underflow needs no inexact result, and with an unmasked
 * overflow or underflow, PE is set if the result would be inexact with an unlimited exponent (SDM
 * vol. 1, 4.9.1.4 to 4.9.1.6).
 */
#include <string.h>

#include "vmm/emu/cpu/emit.h"

#define CR4_OSXMMEXCPT (1ULL << 10)

#define BEFORE	(EMU_FP_IE | EMU_FP_DE | EMU_FP_ZE) /* known before the result is computed */
#define RANGE	(EMU_FP_OE | EMU_FP_UE)
#define RUN_ALL (EMU_FP_FLAGS << EMU_MXCSR_MASKS)

/* The operation of an instruction that can overflow or underflow. */
struct shape {
	unsigned int opcode, lanes; /* of one element: 58, 59, 5A, 5C or 5E */
	unsigned int pairs;	    /* ADDSUBxx, HADDxx, HSUBxx: their opcode */
	bool from64, to64;	    /* elements have 64 bits */
	uint32_t host;		    /* the thread's MXCSR */
};

static bool shape_of(const uint8_t *stub, struct shape *s)
{
	size_t n = (size_t)(stub - emu_stub_simd) / 8;
	unsigned int prefix = (unsigned int)n / 256;

	s->opcode = n % 256;
	if (n < 1024 && (s->opcode == 0x7c || s->opcode == 0x7d || s->opcode == 0xd0)) {
		s->pairs = s->opcode;
		s->from64 = s->to64 = prefix == SIMD_66;
		s->lanes = s->from64 ? 2 : 4;
		return true;
	}
	if (n >= 1024 || (s->opcode != 0x58 && s->opcode != 0x59 && s->opcode != 0x5a &&
			  s->opcode != 0x5c && s->opcode != 0x5e))
		return false;
	s->from64 = prefix == SIMD_66 || prefix == SIMD_F2;
	s->to64 = s->from64 && s->opcode != 0x5a;
	s->lanes = prefix == SIMD_F3 || prefix == SIMD_F2 ? 1 : s->from64 ? 2 : 4;
	return s->opcode != 0x5a || s->from64;
}

static bool tiny(const struct shape *s, const union emu_xmm *r, unsigned int lane)
{
	uint64_t x = s->to64 ? r->q[lane] << 1 : (uint64_t)r->d[lane] << 33;
	unsigned int fraction = s->to64 ? 53 : 56;

	return x && !(x >> fraction);
}

/* The number at @x with the exponent @e (biased), which must be finite and not 0. */
static uint64_t with_exponent(uint64_t x, bool is64, unsigned int e)
{
	unsigned int bits = is64 ? 52 : 23;
	uint64_t fraction = x & ((1ULL << bits) - 1);
	unsigned int sign = (unsigned int)(x >> (is64 ? 63 : 31)) & 1;

	if (!(x >> bits & (is64 ? 0x7ff : 0xff)) && fraction) { /* denormal: normalise it */
		while (!(fraction >> bits))
			fraction <<= 1;
		fraction &= (1ULL << bits) - 1;
	}
	return (uint64_t)sign << (is64 ? 63 : 31) | (uint64_t)e << bits | fraction;
}

/* The flags that the operation of @s raises for two scalars. */
static uint32_t simd_fp_flags_of(const struct shape *s, uint32_t mxcsr, uint64_t a, uint64_t b,
				 struct emu_simd_io *io)
{
	memset(io, 0, sizeof(*io));
	io->a.q[0] = a;
	io->b.q[0] = b;
	io->mxcsr = mxcsr;
	io->host = s->host;
	emu_simd_fp(io, emu_simd_stub(s->from64 ? SIMD_F2 : SIMD_F3, s->opcode));
	return io->mxcsr & EMU_FP_FLAGS;
}

/* The flags that one lane raises with masks @masks. */
static uint32_t lane_flags(const struct shape *s, uint32_t mxcsr, uint32_t masks, uint64_t a,
			   uint64_t b)
{
	const unsigned int middle = s->from64 ? 0x3ff : 0x7f;
	struct emu_simd_io io;
	uint32_t f = simd_fp_flags_of(s, mxcsr, a, b, &io);

	if (f & (EMU_FP_IE | EMU_FP_ZE))
		return f;
	if (!(masks & EMU_FP_UE) && tiny(s, &io.a, 0))
		f |= EMU_FP_UE;
	if (!(f & ~masks & RANGE))
		return f;
	f &= ~EMU_FP_PE;
	if (s->opcode == 0x58 || s->opcode == 0x5c) {
		/* A tiny sum is exact. In a sum that overflows, both operands can be halved, unless
		 * one is so small that the sum is inexact anyway. */
		unsigned int bits = s->from64 ? 52 : 23;
		uint64_t top = s->from64 ? 0x7ff : 0xff, ea = a >> bits & top, eb = b >> bits & top;

		if (f & EMU_FP_UE)
			return f;
		if (ea < 2 || eb < 2)
			return f |
			       (((ea < 2 ? a : b) << 1 << (s->from64 ? 0 : 32)) ? EMU_FP_PE : 0);
		a -= 1ULL << bits;
		b -= 1ULL << bits;
	} else {
		if (s->opcode != 0x5a)
			a = with_exponent(a, s->from64, middle);
		b = with_exponent(b, s->from64, middle);
	}
	return f | (simd_fp_flags_of(s, mxcsr, a, b, &io) & EMU_FP_PE);
}

static uint64_t element(const union emu_xmm *x, bool is64, unsigned int lane)
{
	return is64 ? x->q[lane] : x->d[lane];
}

/* The flags of element @i of the instruction's result. */
static uint32_t element_flags(const struct shape *s, uint32_t mxcsr, uint32_t masks,
			      const union emu_xmm *a, const union emu_xmm *b, unsigned int i)
{
	struct shape one = *s;
	uint64_t x = element(a, s->from64, i), y = element(b, s->from64, i);

	if (s->pairs == 0xd0) {
		one.opcode = i & 1 ? 0x58 : 0x5c;
	} else if (s->pairs) { /* two neighbours in the first operand, then in the second */
		const union emu_xmm *from = i < s->lanes / 2 ? a : b;
		unsigned int first = i % (s->lanes / 2) * 2;

		one.opcode = s->pairs == 0x7c ? 0x58 : 0x5c;
		x = element(from, s->from64, first);
		y = element(from, s->from64, first + 1);
	}
	return lane_flags(&one, mxcsr, masks, x, y);
}

/* An operation in a step of DPPx: adds its flags to @flags, and returns its result. */
static uint64_t dp_one(struct shape *s, uint32_t mxcsr, uint32_t masks, uint64_t x, uint64_t y,
		       uint32_t *flags)
{
	struct emu_simd_io io;

	*flags |= lane_flags(s, mxcsr, masks, x, y);
	simd_fp_flags_of(s, mxcsr, x, y, &io);
	return s->from64 ? io.a.q[0] : io.a.d[0];
}

/* DPPS and DPPD: a step of products, one of sums of two, and one of four (SDM vol. 2). Each raises
 * as an instruction would, and one with an unmasked exception is the last. */
static uint32_t dp_flags(bool is64, unsigned int imm, uint32_t mxcsr, uint32_t masks,
			 const union emu_xmm *a, const struct emu_simd_io *io, unsigned int n)
{
	struct shape s = {.opcode = 0x59, .from64 = is64, .to64 = is64, .host = io->host};
	unsigned int lanes = is64 ? 2 : 4;
	uint32_t all = 0, f = 0;
	uint64_t t[2][4] = {0};

	for (unsigned int k = 0; k < n; k++)
		for (unsigned int i = 0; i < lanes; i++)
			if (imm >> (4 + i) & 1)
				t[k][i] = dp_one(&s, mxcsr, masks, element(&a[k], is64, i),
						 element(&io[k].b, is64, i), &f);
	for (;;) {
		all |= f & ~masks & BEFORE ? f & BEFORE : f;
		lanes /= 2;
		if (!lanes || all & ~masks)
			return all;
		s.opcode = 0x58;
		f = 0;
		for (unsigned int k = 0; k < n; k++)
			for (unsigned int i = 0; i < lanes; i++)
				t[k][i] =
					dp_one(&s, mxcsr, masks, t[k][2 * i], t[k][2 * i + 1], &f);
	}
}

/* The exceptions that a lane raises if underflow or overflow may be unmasked. @a, @io: its operands
 * and what the stub returned. */
static uint32_t exactly(const uint8_t *stub, uint32_t mxcsr, uint32_t masks, const union emu_xmm *a,
			const struct emu_simd_io *io)
{
	struct shape s = {.host = io->host};
	uint32_t f = 0;

	if (stub >= emu_stub_fma && stub < emu_stub_fma + EMU_STUBS_FMA * 8)
		return emu_fma_flags(stub, mxcsr, masks, a, io);
	if (stub >= emu_stub_ps2ph && stub < emu_stub_ps2ph + 64)
		return emu_ps2ph_flags(stub, mxcsr, masks, io);
	if (!shape_of(stub, &s))
		return io->mxcsr & EMU_FP_FLAGS;
	for (unsigned int i = 0; i < s.lanes; i++)
		f |= element_flags(&s, mxcsr, masks, a, &io->b, i);
	return f;
}

uint32_t emu_simd_flags(unsigned int opcode, bool from64, uint32_t mxcsr, uint32_t masks,
			uint32_t host, uint64_t a, uint64_t b)
{
	struct shape s = {
		.opcode = opcode, .from64 = from64, .to64 = from64 && opcode != 0x5a, .host = host};

	return lane_flags(&s, mxcsr, masks, a, b);
}

int emu_simd_raise(struct emu_vcpu *v, uint32_t flags)
{
	v->fpu.mxcsr |= flags;
	if (!(v->cr4 & CR4_OSXMMEXCPT))
		return emu_ud(v);
	return emu_fault(v, EMU_XM, false, 0);
}

int emu_simd_run_fp(struct emu_vcpu *v, const uint8_t *stub, struct emu_simd_io *io, unsigned int n,
		    void (*call)(struct emu_simd_io *, const void *))
{
	uint32_t mxcsr = v->fpu.mxcsr, masks = mxcsr >> EMU_MXCSR_MASKS & EMU_FP_FLAGS, raised = 0;
	uint32_t run = (mxcsr & 0xffff & ~EMU_FP_FLAGS) | RUN_ALL;
	union emu_xmm a[2];
	unsigned int imm;
	bool is64;

	/* FTZ has an effect only while underflow is masked (SDM vol. 1, 10.2.3.3). */
	if (unlikely(!(masks & EMU_FP_UE)))
		run &= ~EMU_MXCSR_FTZ;
	for (unsigned int i = 0; i < n; i++) {
		a[i] = io[i].a;
		io[i].mxcsr = run;
		io[i].host = v->host_mxcsr;
		call(&io[i], stub);
		raised |= io[i].mxcsr & EMU_FP_FLAGS;
	}
	v->extra += EMU_EFFORT_MXCSR;
	if (unlikely(raised & (EMU_FP_DE | EMU_FP_UE)))
		v->extra += EMU_EFFORT_ASSIST;
	if (unlikely(masks != EMU_FP_FLAGS)) {
		if (emu_stub_is_dp(stub, &is64, &imm)) {
			v->extra += 4 * EMU_EFFORT_EXACT;
			raised = dp_flags(is64, imm, run, masks, a, io, n);
		} else if (raised & ~masks & BEFORE) {
			return emu_simd_raise(v, raised & BEFORE);
		} else if ((masks & RANGE) != RANGE) {
			v->extra += EMU_EFFORT_EXACT * n;
			raised = 0;
			for (unsigned int i = 0; i < n; i++)
				raised |= exactly(stub, run, masks, &a[i], &io[i]);
		}
		if (raised & ~masks)
			return emu_simd_raise(v, raised);
	}
	v->fpu.mxcsr = mxcsr | raised;
	return 0;
}
