// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * XSAVE and its relatives, XCR0, and CPUID leaf 0DH (SDM vol. 1, chapter 13; APM vol. 4, XSAVE).
 * The components are x87, SSE, AVX, and AVX-512's three; there is no supervisor state, so IA32_XSS
 * is 0.
 *
 * A component is in use (XINUSE) if its registers differ from the initial ones. So what is saved
 * depends on nothing but registers. AMD's CPUs do the same.
 */
#include <string.h>

#include "vmm/emu/cpu/emit.h"
#include "vmm/emu/internal.h"
#include "vmm/engine/simd.h"

#define XS_X87	   1ULL
#define XS_SSE	   2ULL
#define XS_AVX	   4ULL
#define XS_AVX512  0xe0ULL	/* opmask registers, ZMM_Hi256, Hi16_ZMM */
#define XS_COMPACT (1ULL << 63) /* in XCOMP_BV */

#define XS_HEADER  EMU_FX_BYTES
#define XS_EXT_AT  576u	 /* behind the header */
#define XS_EXT_END 2688u /* of the standard format */
#define XS_MPX	   256u	 /* between AVX and AVX-512 on Intel's CPUs only */
#define XS_ALIGN   64u

struct xsave_area {
	struct emu_fx fx;
	uint64_t bv, comp, reserved[6];
	uint8_t ext[XS_EXT_END - XS_EXT_AT]; /* each component where the standard format has it */
};
_Static_assert(offsetof(struct xsave_area, bv) == XS_HEADER &&
		       offsetof(struct xsave_area, ext) == XS_EXT_AT,
	       "the layout of the standard format");

/* The components behind the header, in the order of their bits: where they are in the standard
 * format of Intel's CPUs, and in struct emu_fpu. */
#define XS_PART(bit, at, of)                                                                       \
	{                                                                                          \
		1ULL << (bit), at, sizeof(((struct emu_fpu *)0)->of), offsetof(struct emu_fpu, of) \
	}
static const struct xsave_part {
	uint64_t bit;
	uint16_t at, bytes, of;
} xsave_parts[] = {
	XS_PART(2, 576, ymm_high),
	XS_PART(5, 1088, k),
	XS_PART(6, 1152, zmm_high),
	XS_PART(7, 1664, zmm_hi16),
};
#define XSAVE_EACH(p)                                                                              \
	for (const struct xsave_part *p = xsave_parts;                                             \
	     p < xsave_parts + sizeof(xsave_parts) / sizeof(xsave_parts[0]); p++)

uint64_t emu_xcr0_valid(bool whole, uint32_t simd)
{
	if (!whole)
		return XS_X87 | XS_SSE | XS_AVX;
	if (!(simd & VMM_SIMD_XSAVE))
		return 0;
	return XS_X87 | XS_SSE | (simd & VMM_SIMD_AVX ? XS_AVX : 0) |
	       (simd & VMM_SIMD_AVX512 ? XS_AVX512 : 0);
}

/* Where @p is in an area; @comp: the components of the compacted format, or 0. */
static uint32_t xsave_at(const struct emu_vcpu *v, const struct xsave_part *p, uint64_t comp)
{
	uint32_t at = XS_EXT_AT;

	if (!comp)
		return p->at - (p->bit & XS_AVX512 && !v->intel ? XS_MPX : 0);
	XSAVE_EACH (before)
		at += before < p && comp & before->bit ? before->bytes : 0;
	return at;
}

/* The bytes of an area up to the last of @components; in the standard format, or with @comp. */
static uint32_t xsave_bytes(const struct emu_vcpu *v, uint64_t components, uint64_t comp)
{
	uint32_t bytes = XS_EXT_AT;

	XSAVE_EACH (p)
		if (components & p->bit)
			bytes = xsave_at(v, p, comp) + p->bytes;
	return bytes;
}

void emu_xsave_cpuid(const struct emu_vcpu *v, uint32_t sub, uint32_t regs[4])
{
	uint64_t all = emu_xcr0_valid(v->whole, v->simd);

	if (!all || (sub > 1 && !(all >> sub & 1))) {
		memset(regs, 0, 4 * sizeof(regs[0]));
	} else if (sub == 0) {
		regs[0] = (uint32_t)all;
		regs[1] = xsave_bytes(v, v->fpu.xcr0, 0);
		regs[2] = xsave_bytes(v, all, 0);
	} else if (sub == 1 && (v->xsave & EMU_XSAVE_COMPACT)) {
		regs[1] = xsave_bytes(v, v->fpu.xcr0, v->fpu.xcr0);
	}
}

/* ---- which components are in use ---- */

static bool x87_in_use(const struct emu_vcpu *v)
{
	const struct emu_fpu *f = &v->fpu;
	uint64_t any = 0;

	for (int i = 0; i < 8; i++)
		any |= f->fx.st[i].q[0] | f->fx.st[i].w[4];
	/* AMD's CPUs have pointers only while an exception is pending: fpu.c. */
	if (v->intel)
		any |= f->fip | f->fdp | f->fop | f->fcs | f->fds;
	return any || f->fx.fcw != EMU_FCW_INIT || f->fx.fsw || f->fx.ftw;
}

static bool xsave_any(const void *registers, unsigned int bytes)
{
	const uint64_t *x = registers;
	uint64_t any = 0;

	for (unsigned int i = 0; i < bytes / 8; i++)
		any |= x[i];
	return any;
}

/* Those of @mask that are in use; MXCSR belongs to the SSE state with @mxcsr. */
static uint64_t xsave_in_use(const struct emu_vcpu *v, uint64_t mask, bool mxcsr)
{
	const struct emu_fpu *f = &v->fpu;
	uint64_t used = x87_in_use(v) ? XS_X87 : 0;

	if (xsave_any(f->fx.xmm, sizeof(f->fx.xmm)) || (mxcsr && f->mxcsr != EMU_MXCSR_INIT))
		used |= XS_SSE;
	XSAVE_EACH (p)
		if (mask & p->bit && xsave_any((const uint8_t *)f + p->of, p->bytes))
			used |= p->bit;
	return used & mask;
}

/* ---- the instructions: op->base is 1 with REX.W, op->idx is XS_* of emit.h ---- */

static uint64_t xsave_mask(const struct emu_vcpu *v)
{
	return ((uint32_t)v->r[EMU_RAX] | v->r[EMU_RDX] << 32) & v->fpu.xcr0;
}

/* Checks before memory is accessed. @feature: of v->xsave, what the instruction belongs to. */
static int xsave_enter(struct emu_vcpu *v, uint32_t feature)
{
	v->extra += EMU_EFFORT_X87_STATE;
	if (!(v->cr4 & CR4_OSXSAVE) || (v->xsave & feature) != feature)
		return emu_ud(v);
	if (feature == EMU_XSAVE_SUPER && v->cpl)
		return emu_gp(v, 0);
	if (v->cr0 & CR0_TS)
		return emu_fault(v, EMU_NM, false, 0);
	return v->r[EMU_TEA] & (XS_ALIGN - 1) ? emu_gp(v, 0) : 0;
}

/* AMD's CPUs access the first byte of the area first, and then the one at @off (measured on family
 * 19H). Traps. */
static int xsave_touch(struct emu_vcpu *v, unsigned int off, unsigned int acc)
{
	uint64_t va = v->r[EMU_TEA];

	if (v->intel || va + off < va)
		return 0;
	return emu_touch(v, va, acc) || emu_touch(v, va + off, acc);
}

/* Store members of area @a. */
#define XSAVE_PUT(v, a, from, to)                                                                  \
	emu_area_io(v, offsetof(struct xsave_area, from),                                          \
		    (uint8_t *)(a) + offsetof(struct xsave_area, from),                            \
		    offsetof(struct xsave_area, to) - offsetof(struct xsave_area, from), true)

int emu_help_xsave(struct emu_vcpu *v, const struct emu_op *op)
{
	static const uint32_t feature[] = {[XS_SAVE] = 0,
					   [XS_SAVEOPT] = EMU_XSAVE_OPT,
					   [XS_SAVEC] = EMU_XSAVE_COMPACT,
					   [XS_SAVES] = EMU_XSAVE_SUPER};
	bool compact = op->idx == XS_SAVEC || op->idx == XS_SAVES;
	uint64_t mask = xsave_mask(v), comp = compact ? mask | XS_COMPACT : 0, used, put = mask;
	uint32_t bytes = xsave_bytes(v, mask, comp);
	struct xsave_area a;

	if (xsave_enter(v, feature[op->idx]))
		return 1;
	v->extra += mask & XS_AVX512 ? EMU_EFFORT_ZMM_STATE : 0;
	if (xsave_touch(v, bytes - 1, EMU_ACC_W) || emu_area_open(v, v->r[EMU_TEA], bytes))
		return 1;
	used = xsave_in_use(v, mask, compact);
	if (op->idx != XS_SAVE)
		put = used;
	emu_fx_out(v, &a.fx, op->base);
	if (put & XS_X87) {
		XSAVE_PUT(v, &a, fx.fcw, fx.mxcsr);
		XSAVE_PUT(v, &a, fx.st, fx.xmm);
	}
	if (put & XS_SSE)
		XSAVE_PUT(v, &a, fx.xmm, fx.rest);
	if ((compact ? put & XS_SSE : mask & (XS_SSE | XS_AVX)))
		XSAVE_PUT(v, &a, fx.mxcsr, fx.st);
	XSAVE_EACH (p)
		if (put & p->bit)
			emu_area_io(v, xsave_at(v, p, comp), (uint8_t *)&v->fpu + p->of, p->bytes,
				    true);
	if (compact) {
		a.bv = used;
		a.comp = comp;
		XSAVE_PUT(v, &a, bv, reserved);
	} else {
		emu_area_io(v, XS_HEADER, &a.bv, sizeof(a.bv), false);
		a.bv = (a.bv & ~mask) | used;
		XSAVE_PUT(v, &a, bv, comp);
	}
	emu_area_close(v);
	return 0;
}

/* Returns true if the header of @a is valid for XRSTOR, or XRSTORS if @super. */
static bool xsave_header_valid(const struct emu_vcpu *v, const struct xsave_area *a, bool super)
{
	bool compact = a->comp & XS_COMPACT;
	uint64_t any = 0;

	if (!compact)
		return !super && !(a->bv & ~v->fpu.xcr0) && !a->comp && !a->reserved[0];
	for (int i = 0; i < 6; i++)
		any |= a->reserved[i];
	return (v->xsave & EMU_XSAVE_COMPACT) && !any && !(a->comp & ~XS_COMPACT & ~v->fpu.xcr0) &&
	       !(a->bv & ~(a->comp & ~XS_COMPACT));
}

/* The initial state of x87 and SSE. */
static const struct emu_fx xsave_init = {.fcw = EMU_FCW_INIT, .mxcsr = EMU_MXCSR_INIT};

int emu_help_xrstor(struct emu_vcpu *v, const struct emu_op *op)
{
	bool super = op->idx == XS_SAVES, compact;
	unsigned int acc = v->cpl == 3 ? EMU_ACC_U : 0;
	struct emu_fpu *f = &v->fpu;
	uint64_t mask = xsave_mask(v), load;
	uint32_t bytes;
	struct xsave_area a;

	if (xsave_enter(v, super ? EMU_XSAVE_SUPER : 0))
		return 1;
	if (xsave_touch(v, XS_HEADER, EMU_ACC_R) ||
	    emu_sys_read(v, v->r[EMU_TEA], &a, XS_EXT_AT, acc))
		return 1;
	if (!xsave_header_valid(v, &a, super))
		return emu_gp(v, 0);
	compact = a.comp & XS_COMPACT;
	load = mask & a.bv;
	v->extra += load & XS_AVX512 ? EMU_EFFORT_ZMM_STATE : 0;
	bytes = xsave_bytes(v, load, a.comp);
	if (bytes > XS_EXT_AT && xsave_touch(v, bytes - 1, EMU_ACC_R))
		return 1;
	XSAVE_EACH (p)
		if (load & p->bit && emu_sys_read(v, v->r[EMU_TEA] + xsave_at(v, p, a.comp),
						  a.ext + p->at - XS_EXT_AT, p->bytes, acc))
			return 1;
	/* In the standard format MXCSR is loaded whatever XSTATE_BV is. */
	if (compact ? load & XS_SSE : mask & (XS_SSE | XS_AVX)) {
		if (a.fx.mxcsr & ~f->mxcsr_mask)
			return emu_gp(v, 0);
		f->mxcsr = a.fx.mxcsr;
	} else if (mask & XS_SSE) {
		f->mxcsr = EMU_MXCSR_INIT;
	}
	if (mask & XS_X87)
		emu_fx_in(v, load & XS_X87 ? &a.fx : &xsave_init, op->base, false);
	if (mask & XS_SSE)
		memcpy(f->fx.xmm, load & XS_SSE ? a.fx.xmm : xsave_init.xmm, sizeof(f->fx.xmm));
	XSAVE_EACH (p)
		if (load & p->bit)
			memcpy((uint8_t *)f + p->of, a.ext + p->at - XS_EXT_AT, p->bytes);
		else if (mask & p->bit)
			memset((uint8_t *)f + p->of, 0, p->bytes);
	return 0;
}

int emu_sys_xgetbv(struct emu_vcpu *v, const struct emu_op *op)
{
	uint32_t n = (uint32_t)v->r[EMU_RCX];

	if (!(v->cr4 & CR4_OSXSAVE))
		return emu_ud(v);
	if (n > 1 || (n && !(v->xsave & EMU_XSAVE_INUSE)))
		return emu_gp(v, 0);
	v->extra += n && v->fpu.xcr0 & XS_AVX512 ? EMU_EFFORT_ZMM_STATE : 0;
	v->r[EMU_RAX] = n ? xsave_in_use(v, v->fpu.xcr0, true) : v->fpu.xcr0;
	v->r[EMU_RDX] = 0;
	return 0;
}

int emu_sys_xsetbv(struct emu_vcpu *v, const struct emu_op *op)
{
	uint64_t x = (uint32_t)v->r[EMU_RAX] | v->r[EMU_RDX] << 32;

	if (!(v->cr4 & CR4_OSXSAVE))
		return emu_ud(v);
	if (v->cpl || (uint32_t)v->r[EMU_RCX] || !emu_xcr0_ok(x, emu_xcr0_valid(v->whole, v->simd)))
		return emu_gp(v, 0);
	v->fpu.xcr0 = x;
	return 0;
}
