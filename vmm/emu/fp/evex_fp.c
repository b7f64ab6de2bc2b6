// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * AVX-512: floating-point exceptions, as in simd_fp.c. Elements that are masked off raise none, and
 * neither does an instruction with embedded rounding or {sae}.
 */
#include "vmm/emu/fp/evex.h"

#define EVEX_RC 13u /* position of the rounding mode in MXCSR */
#define BEFORE	(EMU_FP_IE | EMU_FP_DE | EMU_FP_ZE)
#define RANGE	(EMU_FP_OE | EMU_FP_UE)
#define RUN_ALL (EMU_FP_FLAGS << EMU_MXCSR_MASKS)

/* One instruction while underflow or overflow may be unmasked. */
struct evex_exact {
	unsigned int map, prefix, opcode, imm, elements;
	bool w;
	uint32_t mxcsr, masks, host, run; /* run: the flags that the stub raised */
	uint64_t mask;
	const struct evex_io *in;
	struct emu_vcpu *v; /* is charged */
};

static uint64_t evex_element(const struct evex_io *io, unsigned int z, bool is64, unsigned int i)
{
	return is64 ? io->z[z].q[i] : io->z[z].d[i];
}

static uint32_t evex_fma(const struct evex_exact *x, unsigned int i)
{
	unsigned int kind = x->opcode & 15;
	struct emu_simd_io io = {.host = x->host};
	union emu_xmm a = {.q = {evex_element(x->in, EVEX_REG, x->w, i)}};

	if (kind < 8) /* 6: subtracts in even elements, 7: in odd ones */
		kind = (kind == 6) == (i & 1) ? 9 : 11;
	io.a = a;
	io.b.q[0] = evex_element(x->in, EVEX_RM, x->w, i);
	io.c.q[0] = evex_element(x->in, EVEX_VVVV, x->w, i);
	return emu_fma_flags(
		emu_stub_fma + ((x->w ? 42u : 0) + ((x->opcode & 0xf0) | kind | 1) - 0x96) * 8,
		x->mxcsr, x->masks, &a, &io);
}

/* VSCALEFxx: exact with an unlimited exponent. */
static uint32_t evex_scalef(const struct evex_exact *x, unsigned int i)
{
	union evex_reg zero = {.q = {0}};
	struct evex_io io = {.mxcsr = x->mxcsr, .host = x->host, .k = {1}};
	unsigned int shift = x->w ? 53 : 56;
	uint64_t r;
	uint32_t f;

	x->v->extra += EMU_EFFORT_EXACT;
	io.z[EVEX_REG] = io.z[EVEX_VVVV] = io.z[EVEX_RM] = zero;
	io.z[EVEX_VVVV].q[0] = evex_element(x->in, EVEX_VVVV, x->w, i);
	io.z[EVEX_RM].q[0] = evex_element(x->in, EVEX_RM, x->w, i);
	emu_evex_fp(&io, emu_evex_stub((unsigned int)emu_evex_find(2, SIMD_66, x->w, 0, 0x2d, 0)));
	f = io.mxcsr & EMU_FP_FLAGS;
	r = x->w ? io.z[EVEX_REG].q[0] << 1 : (uint64_t)io.z[EVEX_REG].d[0] << 33;
	if (!(x->masks & EMU_FP_UE) && r && !(r >> shift))
		f |= EMU_FP_UE;
	return f & ~x->masks & RANGE ? f & ~EMU_FP_PE : f;
}

/* VCVTPS2PH: four elements at once; 0 raises nothing. */
static uint32_t evex_ps2ph(const struct evex_exact *x, unsigned int first)
{
	struct emu_simd_io io = {.host = x->host};

	for (unsigned int i = 0; i < 4 && first + i < x->elements; i++)
		io.b.d[i] = x->mask >> (first + i) & 1 ? x->in->z[EVEX_REG].d[first + i] : 0;
	return emu_ps2ph_flags(emu_stub_ps2ph + (x->imm & 7) * 8, x->mxcsr, x->masks, &io);
}

static uint32_t evex_exactly(const struct evex_exact *x)
{
	bool from64 = x->prefix == SIMD_66 || x->prefix == SIMD_F2, arithmetic = x->map == 1;
	unsigned int opcode = x->opcode, step = 1;
	uint32_t f = 0;

	switch (EVEX_OPCODE(x->map, 0, 0, opcode)) {
	case EVEX_OPCODE(1, 0, 0, 0x58):
	case EVEX_OPCODE(1, 0, 0, 0x59):
	case EVEX_OPCODE(1, 0, 0, 0x5c):
	case EVEX_OPCODE(1, 0, 0, 0x5e):
	case EVEX_OPCODE(2, 0, 0, 0x2c):
	case EVEX_OPCODE(2, 0, 0, 0x2d):
		break;
	case EVEX_OPCODE(1, 0, 0, 0x5a):
		if (!from64)
			return x->run;
		break;
	case EVEX_OPCODE(3, 0, 0, 0x1d):
		step = 4;
		break;
	default:
		if (x->map != 2 || opcode < 0x96)
			return x->run;
	}
	for (unsigned int i = 0; i < x->elements; i += step) {
		if (step == 4)
			f |= evex_ps2ph(x, i);
		else if (!(x->mask >> i & 1))
			continue;
		else if (arithmetic)
			f |= emu_simd_flags(opcode, from64, x->mxcsr, x->masks, x->host,
					    evex_element(x->in, EVEX_VVVV, from64, i),
					    evex_element(x->in, EVEX_RM, from64, i));
		else
			f |= opcode < 0x90 ? evex_scalef(x, i) : evex_fma(x, i);
	}
	return f;
}

/* The flags of the instruction whose operands are @in and whose flags were @run. */
static uint32_t evex_flags(struct emu_vcpu *v, union evex_op e, const struct evex_io *in,
			   uint32_t mxcsr, uint32_t masks, uint32_t run)
{
	struct evex_exact x = {.v = v,
			       .mxcsr = mxcsr,
			       .masks = masks,
			       .host = in->host,
			       .run = run,
			       .mask = in->k[0],
			       .in = in};
	unsigned int which = emu_evex_opcode(e.stub, &x.imm), bytes;
	bool scalar;

	x.map = which >> 12;
	x.w = which >> 11 & 1;
	x.prefix = which >> 8 & 3;
	x.opcode = which & 0xff;
	scalar = x.map == 1 ? x.prefix >= SIMD_F3
			    : x.map == 2 && (x.opcode & 1) && (x.opcode & 15) != 7;
	bytes = x.map == 1 ? (x.prefix == SIMD_66 || x.prefix == SIMD_F2 ? 8 : 4)
			   : (x.map == 2 && x.w ? 8 : 4);
	x.elements = scalar ? 1 : evex_bytes(e) / bytes;
	return evex_exactly(&x);
}

int emu_evex_run_fp(struct emu_vcpu *v, union evex_op e, struct evex_io *io)
{
	uint32_t mxcsr = v->fpu.mxcsr, masks = mxcsr >> EMU_MXCSR_MASKS & EMU_FP_FLAGS, raised;
	uint32_t run = (mxcsr & 0xffff & ~EMU_FP_FLAGS) | RUN_ALL;
	struct evex_io in;

	if (e.sae)
		masks = EMU_FP_FLAGS;
	if (e.round)
		run = (run & ~(3u << EVEX_RC)) | (e.round - 1u) << EVEX_RC;
	if (unlikely(!(masks & EMU_FP_UE)))
		run &= ~EMU_MXCSR_FTZ;
	io->mxcsr = run;
	io->host = v->host_mxcsr;
	if (unlikely(masks != EMU_FP_FLAGS))
		in = *io;
	emu_evex_fp(io, emu_evex_stub(e.stub));
	v->extra += EMU_EFFORT_MXCSR;
	raised = io->mxcsr & EMU_FP_FLAGS;
	if (unlikely(raised & (EMU_FP_DE | EMU_FP_UE)))
		v->extra += EMU_EFFORT_ASSIST << e.length;
	if (e.sae)
		return 0;
	if (unlikely(masks != EMU_FP_FLAGS)) {
		if (raised & ~masks & BEFORE)
			return emu_simd_raise(v, raised & BEFORE);
		if ((masks & RANGE) != RANGE) {
			v->extra += EMU_EFFORT_EXACT << e.length;
			raised = evex_flags(v, e, &in, run, masks, raised);
		}
		if (raised & ~masks)
			return emu_simd_raise(v, raised);
	}
	v->fpu.mxcsr = mxcsr | raised;
	return 0;
}
