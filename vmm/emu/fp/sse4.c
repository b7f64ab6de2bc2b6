// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Instructions of SSE4.1 and SSE4.2 that have another form than those in simd.c: implicit operands,
 * results in memory, general registers only. op as described there.
 */
#include <nmmintrin.h>

#include "vmm/emu/fp/avx.h"

/* PEXTRx and EXTRACTPS to memory. */
int emu_help_simd_extract(struct emu_vcpu *v, const struct emu_op *op)
{
	struct emu_simd_io io = {.gpr = 0};

	if (emu_fp_simd(v, op))
		return 1;
	io.b = v->fpu.fx.xmm[op->src];
	emu_simd_int(&io, (const void *)(uintptr_t)op->imm);
	return emu_simd_store(v, op, &io.gpr);
}

/* An explicit length: its sign does not count, and no text is longer than 16. With REX.W it has 64
 * bits (SDM vol. 2, 4.1.1), which the stub has not. */
static uint64_t sse4_length(const struct emu_vcpu *v, unsigned int reg, bool wide)
{
	int64_t n = wide ? (int64_t)v->r[reg] : (int32_t)v->r[reg];

	return (uint32_t)(n > 16 ? 16 : n < -16 ? -16 : (int32_t)n);
}

/* op->idx: TEXT_*; op->scale: REX.W. The memory operand may have any address. */
int emu_help_pcmpstr(struct emu_vcpu *v, const struct emu_op *op)
{
	struct emu_op unaligned = *op;
	struct emu_simd_io io;

	unaligned.idx = 0;
	v->extra += EMU_EFFORT_SIMD;
	if (emu_fp_simd(v, op) || emu_simd_source(v, &unaligned, &io.b))
		return 1;
	io.a = v->fpu.fx.xmm[op->dst];
	if (op->idx & TEXT_EXPLICIT) {
		io.mm_a = sse4_length(v, EMU_RAX, op->scale);
		io.mm_b = sse4_length(v, EMU_RDX, op->scale);
	}
	emu_simd_text(&io, (const void *)(uintptr_t)op->imm);
	if (op->idx & TEXT_MASK && op->flags & EMU_OPF_VEX)
		avx_put(v, 0, &(union emu_ymm){.x = {io.a}}, 1);
	else if (op->idx & TEXT_MASK)
		v->fpu.fx.xmm[0] = io.a;
	else
		v->r[EMU_RCX] = (uint32_t)io.gpr;
	emu_fl_raw(v, io.flags & EMU_ARITH);
	return 0;
}

/* XMM0 is the mask: the top bit of each element. op->scale: its bytes. */
int emu_help_blendv(struct emu_vcpu *v, const struct emu_op *op)
{
	union emu_xmm b, mask = v->fpu.fx.xmm[0], *x = &v->fpu.fx.xmm[op->dst];

	if (emu_fp_sse(v) || emu_simd_source(v, op, &b))
		return 1;
	for (unsigned int i = 0; i < 16; i++)
		if (mask.b[i | (op->scale - 1u)] & 0x80)
			x->b[i] = b.b[i];
	return 0;
}

/* op->base: log2 of the source's bytes. */
__attribute__((target("sse4.2"))) int emu_help_crc32(struct emu_vcpu *v, const struct emu_op *op)
{
	uint64_t x = emu_rd(v, op->src, 1u << op->base);
	uint32_t crc = (uint32_t)v->r[op->dst];

	switch (op->base) {
	case 0:
		crc = _mm_crc32_u8(crc, (uint8_t)x);
		break;
	case 1:
		crc = _mm_crc32_u16(crc, (uint16_t)x);
		break;
	case 2:
		crc = _mm_crc32_u32(crc, (uint32_t)x);
		break;
	default:
		crc = (uint32_t)_mm_crc32_u64(crc, x);
	}
	v->r[op->dst] = crc;
	return 0;
}
