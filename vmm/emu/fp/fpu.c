// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The state of x87, MMX and SSE as a whole: reset, FXSAVE and FXRSTOR, MXCSR, and the checks before
 * an instruction may execute in the current mode (SDM vol. 3, 2.5 and table 15-1 of chapter 15; APM
 * vol. 2, 11.2). Emitters emit calls of the helpers here.
 */
#include <string.h>

#include "vmm/emu/internal.h"

#define CR0_MP	 (1ULL << 1)
#define CR0_EM	 (1ULL << 2)
#define XCR0_YMM 6ULL /* the states of SSE and AVX */

#define LEAF_AMD	0x80000001u
#define AMD_MISALIGNSSE (1u << 7) /* ECX: MXCSR has the bit MM */

void emu_fpu_reset(struct emu_fpu *f)
{
	uint32_t mask = f->mxcsr_mask;

	memset(f, 0, sizeof(*f));
	f->fx.fcw = 0x40; /* FNINIT sets it to 37FH */
	f->fx.ftw = 0xff;
	f->fx.mxcsr = EMU_MXCSR_INIT;
	f->mxcsr = EMU_MXCSR_INIT;
	f->mxcsr_mask = mask ? mask : 0xffff;
	f->xcr0 = 1;
}

void emu_fpu_settle(struct emu_fpu *f)
{
	f->fx.fop = 0;
	f->fx.fip = f->fx.fdp = 0;
	f->fx.mxcsr = EMU_MXCSR_INIT; /* the guest's MXCSR is never in the image */
	emu_x87_call(&f->fx, NULL, emu_stub_none, 2);
}

void emu_fpu_mask(struct emu_vcpu *v)
{
	v->fpu.mxcsr_mask = 0xffff;
	for (size_t i = 0; i < v->nr_cpuid && !v->intel; i++)
		if (v->cpuid[i].function == LEAF_AMD && (v->cpuid[i].ecx & AMD_MISALIGNSSE))
			v->fpu.mxcsr_mask |= EMU_MXCSR_MM;
	v->fpu.mxcsr &= v->fpu.mxcsr_mask;
}

static int not_now(struct emu_vcpu *v)
{
	return emu_fault(v, EMU_NM, false, 0);
}

/* FSW.ES: an unmasked exception is pending. With CR0.NE = 0 it would be an external interrupt,
 * which is not modelled. */
static int fpu_pending(struct emu_vcpu *v)
{
	return v->fpu.fx.fsw & EMU_FSW_ES ? emu_fault(v, EMU_MF, false, 0) : 0;
}

int emu_fp_x87(struct emu_vcpu *v, bool wait)
{
	if (unlikely(v->cr0 & (CR0_EM | CR0_TS)))
		return not_now(v);
	return wait ? fpu_pending(v) : 0;
}

int emu_fp_mmx(struct emu_vcpu *v)
{
	if (unlikely(v->cr0 & CR0_EM))
		return emu_ud(v);
	if (unlikely(v->cr0 & CR0_TS))
		return not_now(v);
	return fpu_pending(v);
}

int emu_fp_sse(struct emu_vcpu *v)
{
	v->extra += EMU_EFFORT_SIMD;
	if (unlikely((v->cr0 & CR0_EM) || !(v->cr4 & CR4_OSFXSR)))
		return emu_ud(v);
	return unlikely(v->cr0 & CR0_TS) ? not_now(v) : 0;
}

int emu_fp_avx(struct emu_vcpu *v)
{
	v->extra += EMU_EFFORT_SIMD;
	if (unlikely(!(v->cr4 & CR4_OSXSAVE) || (v->fpu.xcr0 & XCR0_YMM) != XCR0_YMM))
		return emu_ud(v);
	return unlikely(v->cr0 & CR0_TS) ? not_now(v) : 0;
}

int emu_fp_avx512(struct emu_vcpu *v)
{
	v->extra += EMU_EFFORT_SIMD;
	if (unlikely(!(v->cr4 & CR4_OSXSAVE) || (v->fpu.xcr0 & EMU_XCR0_ZMM) != EMU_XCR0_ZMM))
		return emu_ud(v);
	return unlikely(v->cr0 & CR0_TS) ? not_now(v) : 0;
}

int emu_fp_simd(struct emu_vcpu *v, const struct emu_op *op)
{
	return op->flags & EMU_OPF_VEX ? emu_fp_avx(v) : emu_fp_sse(v);
}

int emu_help_fwait(struct emu_vcpu *v, const struct emu_op *op)
{
	if ((v->cr0 & (CR0_MP | CR0_TS)) == (CR0_MP | CR0_TS))
		return not_now(v);
	return fpu_pending(v);
}

/* ---- FXSAVE, FXRSTOR: op->base is 1 with REX.W ---- */

static int fpu_fx_ready(struct emu_vcpu *v)
{
	if (emu_fp_x87(v, false))
		return 1;
	return v->r[EMU_TEA] & 15 ? emu_gp(v, 0) : 0;
}

void emu_fx_out(const struct emu_vcpu *v, struct emu_fx *fx, bool wide)
{
	const struct emu_fpu *f = &v->fpu;

	memcpy(fx, &f->fx, EMU_FX_WRITTEN);
	fx->fop = 0;
	fx->fip = fx->fdp = 0;
	/* AMD's CPUs store pointers only while an exception is pending, and otherwise zeros if they
	 * have XSaveErPtr (APM vol. 2, 11.4.4.3). */
	if (v->intel || (fx->fsw & EMU_FSW_ES)) {
		fx->fop = f->fop;
		fx->fip = f->fip;
		fx->fdp = f->fdp;
		if (!wide) {
			fx->fip = (uint32_t)f->fip | (uint64_t)(v->intel ? 0 : f->fcs) << 32;
			fx->fdp = (uint32_t)f->fdp | (uint64_t)(v->intel ? 0 : f->fds) << 32;
		}
	}
	fx->mxcsr = f->mxcsr;
	fx->mxcsr_mask = f->mxcsr_mask;
}

int emu_help_fxsave(struct emu_vcpu *v, const struct emu_op *op)
{
	struct emu_fx fx;

	v->extra += EMU_EFFORT_X87_STATE;
	if (fpu_fx_ready(v))
		return 1;
	emu_fx_out(v, &fx, op->base);
	return emu_st_wide(v, v->r[EMU_TEA], &fx, EMU_FX_WRITTEN);
}

/* AMD's CPUs keep as many bits of a pointer as linear addresses have (measured on family 19H). No
 * model shows LA57. */
static uint64_t fpu_pointer(const struct emu_vcpu *v, uint64_t x)
{
	unsigned int top = v->la57 ? 7 : 16;

	return v->intel ? x : (uint64_t)((int64_t)(x << top) >> top);
}

void emu_fx_in(struct emu_vcpu *v, const struct emu_fx *fx, bool wide, bool sse)
{
	struct emu_fpu *f = &v->fpu;

	memcpy(&f->fx, fx, sse ? EMU_FX_WRITTEN : offsetof(struct emu_fx, xmm));
	emu_fpu_settle(f);
	if (sse)
		f->mxcsr = fx->mxcsr;
	f->fop = fx->fop & 0x7ff;
	f->fip = wide ? fpu_pointer(v, fx->fip) : (uint32_t)fx->fip;
	f->fdp = wide ? fpu_pointer(v, fx->fdp) : (uint32_t)fx->fdp;
	f->fcs = wide ? 0 : (uint16_t)(fx->fip >> 32);
	f->fds = wide ? 0 : (uint16_t)(fx->fdp >> 32);
}

int emu_help_fxrstor(struct emu_vcpu *v, const struct emu_op *op)
{
	struct emu_fx fx;

	v->extra += EMU_EFFORT_X87;
	if (fpu_fx_ready(v) || emu_ld_wide(v, v->r[EMU_TEA], &fx, EMU_FX_WRITTEN))
		return 1;
	if (fx.mxcsr & ~v->fpu.mxcsr_mask)
		return emu_gp(v, 0);
	emu_fx_in(v, &fx, op->base, true);
	return 0;
}

/* LDMXCSR and STMXCSR; op->base: store. */
int emu_help_mxcsr(struct emu_vcpu *v, const struct emu_op *op)
{
	uint32_t x;

	if (emu_fp_simd(v, op))
		return 1;
	if (op->base)
		return emu_st_slow(v, v->r[EMU_TEA], 4, v->fpu.mxcsr);
	x = (uint32_t)emu_ld_slow(v, v->r[EMU_TEA], 4);
	if (v->trap)
		return 1;
	if (x & ~v->fpu.mxcsr_mask)
		return emu_gp(v, 0);
	v->fpu.mxcsr = x;
	return 0;
}

/* CLFLUSH: no caches are modelled, but the byte must be readable (SDM vol. 2, CLFLUSH). */
int emu_help_clflush(struct emu_vcpu *v, const struct emu_op *op)
{
	uint8_t byte;

	return emu_sys_read(v, v->r[EMU_TEA], &byte, 1, v->cpl == 3 ? EMU_ACC_U : 0);
}
