// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * XSAVE and its relatives, XCR0, and CPUID leaf 0DH (SDM vol. 1, chapter 13; APM vol. 4, XSAVE).
 * The components are x87, SSE and AVX; there is no supervisor state, so IA32_XSS is 0.
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
#define XS_COMPACT (1ULL << 63) /* in XCOMP_BV */

#define XS_HEADER  EMU_FX_BYTES
#define XS_AVX_AT  576u /* in both formats: AVX is the first component behind the header */
#define XS_AVX_END 832u
#define XS_ALIGN   64u

struct xsave_area {
	struct emu_fx fx;
	uint64_t bv, comp, reserved[6];
	union emu_xmm ymm_high[16];
};
_Static_assert(offsetof(struct xsave_area, bv) == XS_HEADER &&
		       offsetof(struct xsave_area, ymm_high) == XS_AVX_AT &&
		       sizeof(struct xsave_area) == XS_AVX_END,
	       "the layout of the standard format");

uint64_t emu_xcr0_valid(bool whole, uint32_t simd)
{
	if (!whole)
		return XS_X87 | XS_SSE | XS_AVX;
	if (!(simd & VMM_SIMD_XSAVE))
		return 0;
	return XS_X87 | XS_SSE | (simd & VMM_SIMD_AVX ? XS_AVX : 0);
}

static uint32_t xsave_bytes(uint64_t components)
{
	return components & XS_AVX ? XS_AVX_END : XS_AVX_AT;
}

void emu_xsave_cpuid(const struct emu_vcpu *v, uint32_t sub, uint32_t regs[4])
{
	uint64_t all = emu_xcr0_valid(v->whole, v->simd);

	if (!all || (sub == 2 && !(all & XS_AVX))) {
		memset(regs, 0, 4 * sizeof(regs[0]));
	} else if (sub == 0) {
		regs[0] = (uint32_t)all;
		regs[1] = xsave_bytes(v->fpu.xcr0);
		regs[2] = xsave_bytes(all);
	} else if (sub == 1 && (v->xsave & EMU_XSAVE_COMPACT)) {
		regs[1] = xsave_bytes(v->fpu.xcr0);
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

static bool xsave_any(const union emu_xmm x[16])
{
	uint64_t any = 0;

	for (int i = 0; i < 16; i++)
		any |= x[i].q[0] | x[i].q[1];
	return any;
}

static uint64_t xsave_in_use(const struct emu_vcpu *v)
{
	return (x87_in_use(v) ? XS_X87 : 0) | (xsave_any(v->fpu.fx.xmm) ? XS_SSE : 0) |
	       (xsave_any(v->fpu.ymm_high) ? XS_AVX : 0);
}

/* The same where MXCSR belongs to the SSE state. */
static uint64_t xsave_in_use_mxcsr(const struct emu_vcpu *v)
{
	return xsave_in_use(v) | (v->fpu.mxcsr != EMU_MXCSR_INIT ? XS_SSE : 0);
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
	uint64_t mask = xsave_mask(v), used, put = mask;
	uint32_t bytes = xsave_bytes(mask);
	struct xsave_area a;

	if (xsave_enter(v, feature[op->idx]))
		return 1;
	if (xsave_touch(v, bytes - 1, EMU_ACC_W) || emu_area_open(v, v->r[EMU_TEA], bytes))
		return 1;
	used = mask & (compact ? xsave_in_use_mxcsr(v) : xsave_in_use(v));
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
	if (put & XS_AVX)
		emu_area_io(v, XS_AVX_AT, v->fpu.ymm_high, XS_AVX_END - XS_AVX_AT, true);
	if (compact) {
		a.bv = used;
		a.comp = mask | XS_COMPACT;
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
	struct xsave_area a;

	if (xsave_enter(v, super ? EMU_XSAVE_SUPER : 0))
		return 1;
	if (xsave_touch(v, XS_HEADER, EMU_ACC_R) ||
	    emu_sys_read(v, v->r[EMU_TEA], &a, XS_AVX_AT, acc))
		return 1;
	if (!xsave_header_valid(v, &a, super))
		return emu_gp(v, 0);
	compact = a.comp & XS_COMPACT;
	load = mask & a.bv;
	if ((load & XS_AVX) &&
	    (xsave_touch(v, XS_AVX_END - 1, EMU_ACC_R) ||
	     emu_sys_read(v, v->r[EMU_TEA] + XS_AVX_AT, a.ymm_high, sizeof(a.ymm_high), acc)))
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
	if ((mask & XS_AVX) && (load & XS_AVX))
		memcpy(f->ymm_high, a.ymm_high, sizeof(f->ymm_high));
	else if (mask & XS_AVX)
		memset(f->ymm_high, 0, sizeof(f->ymm_high));
	return 0;
}

int emu_sys_xgetbv(struct emu_vcpu *v, const struct emu_op *op)
{
	uint32_t n = (uint32_t)v->r[EMU_RCX];

	if (!(v->cr4 & CR4_OSXSAVE))
		return emu_ud(v);
	if (n > 1 || (n && !(v->xsave & EMU_XSAVE_INUSE)))
		return emu_gp(v, 0);
	v->r[EMU_RAX] = v->fpu.xcr0 & (n ? xsave_in_use_mxcsr(v) : ~0ULL);
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
