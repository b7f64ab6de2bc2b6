// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * x87 instructions. The host executes them with the guest's control word, so masks affect registers
 * and FSW as on any CPU. An unmasked exception only sets FSW.ES: the next waiting instruction
 * raises #MF, and emu_fp_x87() checks for it before the host's CPU would raise it.
 *
 * The pointers to the last instruction and operand must be the guest's, so this file maintains
 * them.
 */
#include <string.h>

#include "vmm/emu/cpu/emit.h"

#define SLOW (EMU_FP_DE | EMU_FP_UE) /* some hosts need microcode for these */
/* Exceptions that, if unmasked, keep a result from being stored (SDM vol. 1, 8.5). */
#define NO_STORE (EMU_FP_IE | EMU_FP_OE | EMU_FP_UE)

static const uint8_t *x87_stub_of(const struct emu_op *op)
{
	unsigned int modrm = op->src;

	if (modrm >= 0xc0)
		return emu_stub_x87_reg + (op->dst * 64u + modrm - 0xc0) * 4;
	return emu_stub_x87_mem + (op->dst * 8u + (modrm >> 3 & 7)) * 4;
}

static void x87_note(struct emu_vcpu *v, const struct emu_op *op)
{
	struct emu_fpu *f = &v->fpu;

	f->fop = (uint16_t)(op->dst << 8 | op->src);
	f->fip = (uint64_t)op->imm;
	f->fcs = v->seg[EMU_CS].selector;
	if (op->base) { /* the offset in the segment */
		f->fdp = v->r[EMU_TEA] - (op->scale == EMU_FS	? v->r[EMU_FSBASE]
					  : op->scale == EMU_GS ? v->r[EMU_GSBASE]
								: 0);
		f->fds = v->seg[op->scale].selector;
	}
}

/*
 * op->dst, op->src: opcode - D8H and ModRM; op->imm: RIP; op->base: bytes of the memory operand, or
 * 0; op->scale: its segment; op->idx: X87_*.
 */
int emu_help_x87(struct emu_vcpu *v, const struct emu_op *op)
{
	_Alignas(16) uint8_t buf[16] = {0};
	bool store = op->idx & X87_STORE;
	struct emu_x87_out out;
	uint16_t fsw, fcw;
	uint8_t *p = NULL;

	v->extra += EMU_EFFORT_X87 + (op->idx & X87_LONG ? EMU_EFFORT_X87_LONG : 0);
	if (emu_fp_x87(v, true))
		return 1;
	if (store) {
		p = emu_rmw_slow(v, v->r[EMU_TEA], op->base);
		if (!p)
			return 1;
	} else if (op->base &&
		   emu_sys_read(v, v->r[EMU_TEA], buf, op->base, v->cpl == 3 ? EMU_ACC_U : 0)) {
		return 1;
	}
	/* Flags that are set are masked, else #MF would have been raised: clearing them leaves ES
	 * as it is. */
	fsw = v->fpu.fx.fsw;
	v->fpu.fx.fsw = fsw & (uint16_t)~SLOW;
	out = emu_x87_call(&v->fpu.fx, buf, x87_stub_of(op), emu_flags(v) | 2);
	fcw = v->fpu.fx.fcw;
	if (op->idx & X87_FLAGS)
		emu_fl_raw(v, out.flags & EMU_ARITH);
	if (unlikely(v->fpu.fx.fsw & SLOW))
		v->extra += EMU_EFFORT_X87_ASSIST;
	fsw = v->fpu.fx.fsw |= fsw & SLOW;
	if (store && !(fsw & ~fcw & NO_STORE)) {
		memcpy(p, buf, op->base);
		if (p == v->bounce.buf)
			emu_rmw_commit(v);
	}
	x87_note(v, op);
	return 0;
}

/* ---- control instructions ---- */

/* The environment of 14 or 28 bytes, in the protected-mode formats (SDM vol. 1, figures 8-9 and
 * 8-11). */
static void env_put(const struct emu_vcpu *v, uint8_t *buf, bool small)
{
	const struct emu_fpu *f = &v->fpu;
	/* Intel's CPUs have deprecated FCS and FDS: they store 0 (CPUID.7.EBX[13]). */
	uint16_t cs = v->intel ? 0 : f->fcs, ds = v->intel ? 0 : f->fds;

	if (small) {
		emu_put(buf + 6, 2, f->fip);
		emu_put(buf + 8, 2, cs);
		emu_put(buf + 10, 2, f->fdp);
		emu_put(buf + 12, 2, ds);
		return;
	}
	emu_put(buf + 12, 4, f->fip);
	emu_put(buf + 16, 4, cs | (uint32_t)f->fop << 16);
	emu_put(buf + 20, 4, f->fdp);
	emu_put(buf + 24, 4, 0xffff0000u | ds);
}

static void env_get(struct emu_vcpu *v, const uint8_t *buf, bool small)
{
	struct emu_fpu *f = &v->fpu;

	if (small) {
		f->fip = emu_get(buf + 6, 2);
		f->fcs = (uint16_t)emu_get(buf + 8, 2);
		f->fdp = emu_get(buf + 10, 2);
		f->fds = (uint16_t)emu_get(buf + 12, 2);
		f->fop = 0;
		return;
	}
	f->fip = emu_get(buf + 12, 4);
	f->fcs = (uint16_t)emu_get(buf + 16, 2);
	f->fop = (uint16_t)(emu_get(buf + 18, 2) & 0x7ff);
	f->fdp = emu_get(buf + 20, 4);
	f->fds = (uint16_t)emu_get(buf + 24, 2);
}

static void forget_pointers(struct emu_fpu *f)
{
	f->fop = f->fcs = f->fds = 0;
	f->fip = f->fdp = 0;
}

/* op as of emu_help_x87, but op->scale is the enum below. */
int emu_help_x87_control(struct emu_vcpu *v, const struct emu_op *op)
{
	struct emu_fpu *f = &v->fpu;
	_Alignas(16) uint8_t buf[112] = {0};
	uint64_t va = v->r[EMU_TEA];
	const uint8_t *stub = x87_stub_of(op);
	bool small = op->idx & X87_SMALL;

	if (emu_fp_x87(v, op->idx & X87_WAIT))
		return 1;
	if (small)
		stub = emu_stub_x87_mem16 + ((op->dst == 5 ? 8u : 0) + (op->src >> 3 & 7)) * 8;
	if (op->scale < X87_STCW || op->scale > X87_STSW_AX)
		v->extra += EMU_EFFORT_X87;
	if (op->scale >= X87_LDENV)
		v->extra += EMU_EFFORT_X87_STATE;
	switch (op->scale) {
	case X87_NOP:
		return 0;
	case X87_INIT:
		emu_x87_call(&f->fx, NULL, stub, 2);
		forget_pointers(f);
		return 0;
	case X87_CLEX:
		emu_x87_call(&f->fx, NULL, stub, 2);
		return 0;
	case X87_STCW:
		return emu_st_slow(v, va, 2, f->fx.fcw);
	case X87_STSW:
		return emu_st_slow(v, va, 2, f->fx.fsw);
	case X87_STSW_AX:
		emu_wr(v, EMU_RAX, 2, f->fx.fsw);
		return 0;
	case X87_LDCW:
	case X87_LDENV:
	case X87_RSTOR:
		if (op->scale == X87_LDCW ? emu_sys_read(v, va, buf, 2, v->cpl == 3 ? EMU_ACC_U : 0)
					  : emu_ld_wide(v, va, buf, op->base))
			return 1;
		emu_x87_call(&f->fx, buf, stub, 2);
		if (op->scale != X87_LDCW)
			env_get(v, buf, small);
		return 0;
	default: { /* FNSTENV masks all exceptions, FNSAVE initialises; not if the store faults */
		struct emu_fx fx = f->fx;

		emu_x87_call(&fx, buf, stub, 2);
		env_put(v, buf, small);
		if (emu_st_wide(v, va, buf, op->base))
			return 1;
		f->fx = fx;
		if (op->scale == X87_SAVE)
			forget_pointers(f);
		return 0;
	}
	}
}
