// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * SIMD floating-point exceptions of FMA and VCVTPS2PH while underflow or overflow may be unmasked:
 * simd_fp.c calls these for a lane, for the reasons given there.
 */

#include "vmm/emu/cpu/emit.h"

#define MXCSR_DAZ 0x40u
#define RANGE	  (EMU_FP_OE | EMU_FP_UE)

/* A finite number: (neg ? -m : m) * 2^e. */
struct avx_number {
	unsigned __int128 m;
	int e;
	bool neg;
};

static struct avx_number avx_number(uint64_t x, bool is64, bool daz)
{
	unsigned int bits = is64 ? 52 : 23, e = (unsigned int)(x >> bits) & (is64 ? 0x7ff : 0xff);
	uint64_t m = x & ((1ULL << bits) - 1);

	if (e)
		m |= 1ULL << bits;
	else if (daz)
		m = 0;
	return (struct avx_number){
		.m = m,
		.e = (int)(e ? e : 1) - (is64 ? 0x3ff : 0x7f) - (int)bits,
		.neg = x >> (is64 ? 63 : 31) & 1,
	};
}

static int avx_top(unsigned __int128 m)
{
	uint64_t high = (uint64_t)(m >> 64);

	return high ? 127 - __builtin_clzll(high) : 63 - __builtin_clzll((uint64_t)m);
}

static int avx_low(unsigned __int128 m)
{
	return (uint64_t)m ? __builtin_ctzll((uint64_t)m)
			   : 64 + __builtin_ctzll((uint64_t)(m >> 64));
}

/* Returns true if a product plus @z has more bits than a number has, with an unlimited exponent. */
static bool avx_inexact(struct avx_number p, struct avx_number z, bool is64)
{
	unsigned __int128 sum;
	int low, top, bits = is64 ? 53 : 24;

	if (!p.m || !z.m) {
		sum = p.m ? p.m : z.m;
		return sum && avx_top(sum) - avx_low(sum) >= bits;
	}
	low = p.e + avx_low(p.m) < z.e + avx_low(z.m) ? p.e + avx_low(p.m) : z.e + avx_low(z.m);
	top = p.e + avx_top(p.m) > z.e + avx_top(z.m) ? p.e + avx_top(p.m) : z.e + avx_top(z.m);
	/* Only numbers of about the same size cancel each other, and these are not so long. */
	if (top - low > 120)
		return true;
	p.m = p.e < low ? p.m >> (low - p.e) : p.m << (p.e - low);
	z.m = z.e < low ? z.m >> (low - z.e) : z.m << (z.e - low);
	sum = p.neg == z.neg ? p.m + z.m : p.m > z.m ? p.m - z.m : z.m - p.m;
	return sum && avx_top(sum) - avx_low(sum) >= bits;
}

static uint64_t avx_element(const union emu_xmm *x, bool is64, unsigned int i)
{
	return is64 ? x->q[i] : x->d[i];
}

/* The flags of element @i (SDM vol. 2, VFMADD132PS and the others). */
static uint32_t fma_element(unsigned int opcode, bool is64, uint32_t mxcsr, uint32_t masks,
			    const union emu_xmm *first, const struct emu_simd_io *lane,
			    unsigned int i)
{
	/* 6: subtracts in even elements, 7: in odd ones. Scalar forms are odd. */
	unsigned int kind = opcode & 15, order = opcode >> 4;
	uint64_t a = avx_element(first, is64, i), b = avx_element(&lane->b, is64, i),
		 c = avx_element(&lane->c, is64, i);
	bool daz = mxcsr & MXCSR_DAZ, tiny;
	struct emu_simd_io io = {.mxcsr = mxcsr, .host = lane->host};
	struct avx_number x, y, z;
	uint64_t r;
	uint32_t f;

	if (kind < 8)
		kind = (kind == 6) == (i & 1) ? 9 : 11;
	kind |= 1;
	io.a.q[0] = a;
	io.b.q[0] = b;
	io.c.q[0] = c;
	emu_simd_fp(&io, emu_stub_fma + ((is64 ? 42u : 0) + (order << 4 | kind) - 0x96) * 8);
	f = io.mxcsr & EMU_FP_FLAGS;
	if (f & EMU_FP_IE)
		return f;
	r = is64 ? io.a.q[0] << 1 : (uint64_t)io.a.d[0] << 33;
	tiny = r && !(r >> (is64 ? 53 : 56));
	if (!(masks & EMU_FP_UE) && tiny)
		f |= EMU_FP_UE;
	if (!(f & ~masks & RANGE))
		return f;
	x = avx_number(order == 9 ? a : c, is64, daz);
	y = avx_number(order == 10 ? a : b, is64, daz);
	z = avx_number(order == 9 ? c : order == 10 ? b : a, is64, daz);
	x.m *= y.m;
	x.e += y.e;
	x.neg ^= y.neg ^ (kind >= 12);
	z.neg ^= kind == 11 || kind == 15;
	return (f & ~EMU_FP_PE) | (avx_inexact(x, z, is64) ? EMU_FP_PE : 0);
}

uint32_t emu_fma_flags(const uint8_t *stub, uint32_t mxcsr, uint32_t masks, const union emu_xmm *a,
		       const struct emu_simd_io *io)
{
	unsigned int n = (unsigned int)(stub - emu_stub_fma) / 8, opcode = 0x96 + n % 42;
	bool is64 = n >= 42, scalar = (opcode & 15) > 7 && opcode & 1;
	uint32_t f = 0;

	for (unsigned int i = 0; i < (scalar ? 1u : is64 ? 2u : 4u); i++)
		f |= fma_element(opcode, is64, mxcsr, masks, a, io, i);
	return f;
}

uint32_t emu_ps2ph_flags(const uint8_t *stub, uint32_t mxcsr, uint32_t masks,
			 const struct emu_simd_io *io)
{
	uint32_t all = 0;

	for (unsigned int i = 0; i < 4; i++) {
		struct emu_simd_io one = {.b.d = {io->b.d[i]}, .mxcsr = mxcsr, .host = io->host};
		struct avx_number x = avx_number(io->b.d[i], false, mxcsr & MXCSR_DAZ);
		uint32_t f;

		emu_simd_fp(&one, stub);
		f = one.mxcsr & EMU_FP_FLAGS;
		if (!(f & EMU_FP_IE) && !(masks & EMU_FP_UE) && (one.a.w[0] & 0x3ff) &&
		    !(one.a.w[0] & 0x7c00))
			f |= EMU_FP_UE;
		if (!(f & EMU_FP_IE) && (f & ~masks & RANGE))
			f = (f & ~EMU_FP_PE) |
			    (x.m && avx_top(x.m) - avx_low(x.m) >= 11 ? EMU_FP_PE : 0);
		all |= f;
	}
	return all;
}
