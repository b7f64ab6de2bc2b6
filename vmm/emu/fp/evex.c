// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * AVX-512: all instructions with an EVEX prefix but gathers and scatters. The operands go into
 * fixed registers, the host's own instruction computes (evex.h), and its result goes where the
 * guest has it.
 */
#include <string.h>

#include "vmm/emu/fp/evex.h"

union evex_reg evex_get(const struct emu_vcpu *v, unsigned int n)
{
	const struct emu_fpu *f = &v->fpu;
	union evex_reg z = {.q = {0}};

	if (n < 16)
		z = (union evex_reg){
			.x = {f->fx.xmm[n], f->ymm_high[n], f->zmm_high[n][0], f->zmm_high[n][1]}};
	else if (n < EVEX_NONE)
		memcpy(&z, f->zmm_hi16[n - 16], sizeof(z));
	return z;
}

void evex_put(struct emu_vcpu *v, unsigned int n, const union evex_reg *z)
{
	struct emu_fpu *f = &v->fpu;

	if (n < 16) {
		f->fx.xmm[n] = z->x[0];
		f->ymm_high[n] = z->x[1];
		memcpy(f->zmm_high[n], &z->x[2], sizeof(f->zmm_high[n]));
	} else {
		memcpy(f->zmm_hi16[n - 16], z, sizeof(*z));
	}
}

/* Change the operands as the stub wants them. */
static void evex_prepare(union evex_op e, struct evex_io *io)
{
	union evex_reg *rm = &io->z[EVEX_RM];

	switch (e.prepare) {
	case EVEX_SHIFT:
		io->z[EVEX_VVVV] = *rm;
		rm->q[0] = e.count;
		break;
	case EVEX_ROTATE_D:
	case EVEX_ROTATE_Q:
		io->z[EVEX_VVVV] = *rm;
		for (unsigned int i = 0; i < 8; i++)
			rm->q[i] = e.count * (e.prepare == EVEX_ROTATE_D ? 0x100000001u : 1u);
		break;
	case EVEX_BYTES_LEFT:
		io->z[EVEX_VVVV] = *rm;
		memset(rm, 0, sizeof(*rm));
		break;
	case EVEX_UPPER:
		rm->q[1] = rm->q[0];
		break;
	default:
		break;
	}
}

/* Elements that are masked off become 0. */
static void evex_zero(union evex_op e, uint64_t mask, union evex_reg *z)
{
	unsigned int bytes = 1u << e.lg, n = e.scalar ? 1 : evex_bytes(e) / bytes;

	for (unsigned int i = 0; i < n; i++)
		if (!(mask >> i & 1))
			memset(z->b + i * bytes, 0, bytes);
}

static void evex_result(struct emu_vcpu *v, const struct emu_op *op, union evex_op e,
			struct evex_io *io)
{
	unsigned int n = e.to == EVEX_TO_RM ? EVEX_RM : EVEX_REG;

	switch (e.to) {
	case EVEX_TO_REG:
	case EVEX_TO_RM:
		if (e.zero && e.kept) {
			v->extra += EMU_EFFORT_SIMD << e.length;
			evex_zero(e, evex_mask(v, e), &io->z[n]);
		}
		evex_put(v, n == EVEX_RM ? op->src : op->dst, &io->z[n]);
		break;
	case EVEX_TO_K:
		v->fpu.k[op->dst] = io->k[0];
		break;
	case EVEX_TO_RCX:
		v->r[op->dst] = io->r[0];
		break;
	case EVEX_TO_RDX:
		v->r[op->src] = io->r[1];
		break;
	case EVEX_TO_FLAGS:
		emu_fl_raw(v, io->flags & EMU_ARITH);
		break;
	default:
		break;
	}
}

/* A store of a register: no stub. */
static int evex_plain_store(struct emu_vcpu *v, const struct emu_op *op, union evex_op e)
{
	const union evex_reg z = evex_get(v, op->dst);
	struct evex_area area;

	if (evex_open(v, op, e, &area))
		return 1;
	evex_close(v, e, &area, z.b + (e.store == EVEX_STORE_UPPER ? 8 : 0));
	return 0;
}

int emu_help_evex(struct emu_vcpu *v, const struct emu_op *op)
{
	const union evex_op e = {.imm = op->imm};
	struct evex_area area;
	struct evex_io io;

	v->extra += e.long_ ? EMU_EFFORT_FP_LONG << e.length : 0;
	if (emu_fp_avx512(v))
		return 1;
	if (e.store == EVEX_STORE_REG || e.store == EVEX_STORE_UPPER)
		return evex_plain_store(v, op, e);
	v->extra += EMU_EFFORT_EVEX;
	io.z[EVEX_VVVV] = evex_get(v, op->scale);
	io.z[EVEX_REG] =
		evex_get(v, e.to == EVEX_TO_K || e.to == EVEX_TO_RCX ? EVEX_NONE : op->dst);
	io.z[EVEX_RM] = evex_get(v, op->idx ? EVEX_NONE : op->src);
	io.k[0] = evex_mask(v, e);
	io.k[1] = op->idx & EVEX_RM_K ? v->fpu.k[op->src] : 0;
	io.r[0] = 0;
	io.r[1] = op->idx & EVEX_RM_GPR ? v->r[op->src] : 0;
	if (e.store) {
		if (evex_open(v, op, e, &area))
			return 1;
	} else if (op->base) {
		if (evex_load(v, op, e, &io.z[EVEX_RM]))
			return 1;
		io.r[1] = io.z[EVEX_RM].q[0];
	}
	evex_prepare(e, &io);
	/* The rest of a result that is merged becomes 0 with @zero. */
	if (e.zero && !e.kept)
		memset(&io.z[e.to == EVEX_TO_RM ? EVEX_RM : EVEX_REG], 0, sizeof(io.z[0]));
	if (!e.fp)
		emu_evex_int(&io, emu_evex_stub(e.stub));
	else if (emu_evex_run_fp(v, e, &io))
		return 1;
	if (e.store)
		evex_close(v, e, &area,
			   e.store == EVEX_STORE_RDX ? (void *)&io.r[1] : (void *)&io.z[EVEX_RM]);
	else
		evex_result(v, op, e, &io);
	return 0;
}
