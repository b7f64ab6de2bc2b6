// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Encodings of the host's instructions (SDM vol. 2, chapter 2; APM vol. 3, chapter 1), for the
 * files jit*.c. Translated code can contain no others. A guest's bytes arrive here only as
 * operands: register numbers, displacements and immediates.
 */
#include <string.h>

#include "vmm/emu/jit/jit.h"

#define P0F 0x0f00u

void x_byte(struct jit_buf *b, unsigned int x)
{
	if (b->at < b->end)
		*b->at++ = (uint8_t)x;
	else
		b->full = true;
}

void x_word(struct jit_buf *b, uint64_t x, unsigned int bytes)
{
	for (; bytes; bytes--, x >>= 8)
		x_byte(b, (unsigned int)x & 0xff);
}

static bool fits8(int64_t x)
{
	return x == (int8_t)x;
}

/* ModRM, SIB and displacement. */
static void modrm(struct jit_buf *b, unsigned int reg, struct rm m)
{
	unsigned int r = (reg & 7) << 3, base = m.base & 7;

	if (m.is_reg) {
		x_byte(b, 0xc0 | r | base);
		return;
	}
	if (m.base == HOST_NONE) { /* [disp32], or [index * scale + disp32] */
		x_byte(b, r | 4);
		x_byte(b,
		       (unsigned int)m.scale << 6 | (m.idx == HOST_NONE ? 4 : m.idx & 7u) << 3 | 5);
		x_word(b, (uint32_t)m.disp, 4);
		return;
	}
	/* RBP or R13 as base needs a displacement; RSP or R12 as base, and an index, need a SIB
	 * byte. */
	unsigned int mod = m.disp == 0 && base != 5 ? 0 : fits8(m.disp) ? 1 : 2;

	if (m.idx != HOST_NONE || base == 4) {
		x_byte(b, mod << 6 | r | 4);
		x_byte(b, (unsigned int)m.scale << 6 | (m.idx == HOST_NONE ? 4 : m.idx & 7u) << 3 |
				  base);
	} else {
		x_byte(b, mod << 6 | r | base);
	}
	if (mod)
		x_word(b, (uint32_t)m.disp, mod == 1 ? 1 : 4);
}

static void opcode_bytes(struct jit_buf *b, unsigned int opcode)
{
	if (opcode > 0xffff)
		x_byte(b, opcode >> 16);
	if (opcode > 0xff)
		x_byte(b, opcode >> 8 & 0xff);
	x_byte(b, opcode & 0xff);
}

static void rex_op(struct jit_buf *b, unsigned int opcode, unsigned int lg, unsigned int reg,
		   struct rm m, bool byte_rm, bool byte_reg)
{
	unsigned int rex = lg == 3 ? 8 : 0;

	rex |= (reg >> 3 & 1) << 2;
	if (m.idx != HOST_NONE)
		rex |= (m.idx >> 3 & 1u) << 1;
	if (m.base != HOST_NONE)
		rex |= m.base >> 3 & 1u;
	if (lg == 1)
		x_byte(b, 0x66);
	/* SPL, BPL, SIL and DIL need a REX prefix; without one they would be AH, CH, DH and BH. */
	if (rex || (byte_rm && m.is_reg && m.base >= 4) || (byte_reg && reg >= 4))
		x_byte(b, 0x40 | rex);
	opcode_bytes(b, opcode);
	modrm(b, reg, m);
}

void x_op(struct jit_buf *b, unsigned int opcode, unsigned int lg, unsigned int reg, struct rm m)
{
	rex_op(b, opcode, lg, reg, m, lg == 0, lg == 0);
}

void x_vex(struct jit_buf *b, unsigned int prefix, unsigned int opcode, unsigned int lg,
	   unsigned int reg, unsigned int vvvv, struct rm m)
{
	bool x = m.idx != HOST_NONE && m.idx >> 3, base = m.base != HOST_NONE && m.base >> 3;

	x_byte(b, 0xc4);
	x_byte(b, (reg >> 3 ? 0 : 0x80u) | (x ? 0 : 0x40u) | (base ? 0 : 0x20u) |
			  (opcode >> 8 == 0x0f38 ? 2 : 3));
	x_byte(b, (lg == 3 ? 0x80u : 0) | (~vvvv & 15) << 3 | prefix);
	x_byte(b, opcode & 0xff);
	modrm(b, reg, m);
}

void x_ext(struct jit_buf *b, unsigned int opcode, unsigned int lg, unsigned int reg, struct rm m,
	   unsigned int from)
{
	rex_op(b, opcode, lg, reg, m, from == 0, false);
}

void x_alu(struct jit_buf *b, unsigned int alu, unsigned int lg, struct rm dst, unsigned int src)
{
	x_op(b, alu * 8 + (lg ? 1 : 0), lg, src, dst);
}

void x_alu_load(struct jit_buf *b, unsigned int alu, unsigned int lg, unsigned int dst,
		struct rm src)
{
	x_op(b, alu * 8 + (lg ? 3 : 2), lg, dst, src);
}

/* Group 1 and MOV: a byte, a word, or a doubleword that is sign-extended. */
static void imm_of(struct jit_buf *b, unsigned int lg, int64_t imm)
{
	x_word(b, (uint64_t)imm, lg == 0 ? 1 : lg == 1 ? 2 : 4);
}

void x_alu_imm(struct jit_buf *b, unsigned int alu, unsigned int lg, struct rm dst, int64_t imm)
{
	/* The extension of an immediate byte is cut to the operand's size. */
	imm = lg == 0 ? (int8_t)imm : lg == 1 ? (int16_t)imm : (int32_t)imm;
	rex_op(b, lg == 0 ? 0x80 : fits8(imm) ? 0x83 : 0x81, lg, alu, dst, lg == 0, false);
	if (lg && fits8(imm))
		x_byte(b, (unsigned int)imm & 0xff);
	else
		imm_of(b, lg, imm);
}

void x_mov(struct jit_buf *b, unsigned int lg, unsigned int dst, struct rm src)
{
	x_op(b, lg ? 0x8b : 0x8a, lg, dst, src);
}

void x_store(struct jit_buf *b, unsigned int lg, struct rm dst, unsigned int src)
{
	x_op(b, lg ? 0x89 : 0x88, lg, src, dst);
}

void x_store_imm(struct jit_buf *b, unsigned int lg, struct rm dst, int64_t imm)
{
	rex_op(b, lg ? 0xc7 : 0xc6, lg, 0, dst, lg == 0, false);
	imm_of(b, lg, imm);
}

void x_mov_imm(struct jit_buf *b, unsigned int dst, uint64_t imm)
{
	if (imm == (uint64_t)(int64_t)(int32_t)imm && imm >> 31) {
		x_op(b, 0xc7, 3, 0, rm_reg(dst));
		x_word(b, imm, 4);
		return;
	}
	if (dst >= 8 || imm >> 32)
		x_byte(b, 0x40 | (imm >> 32 ? 8 : 0) | dst >> 3);
	x_byte(b, 0xb8 | (dst & 7));
	x_word(b, imm, imm >> 32 ? 8 : 4);
}

void x_lea(struct jit_buf *b, unsigned int lg, unsigned int dst, struct rm m)
{
	x_op(b, 0x8d, lg, dst, m);
}

void x_shift_imm(struct jit_buf *b, unsigned int kind, unsigned int lg, struct rm dst,
		 unsigned int count)
{
	rex_op(b, (count == 1 ? 0xd0 : 0xc0) + (lg ? 1 : 0), lg, kind, dst, lg == 0, false);
	if (count != 1)
		x_byte(b, count);
}

void x_unary(struct jit_buf *b, unsigned int kind, unsigned int lg, struct rm dst)
{
	rex_op(b, lg ? 0xf7 : 0xf6, lg, kind, dst, lg == 0, false);
}

void x_setcc(struct jit_buf *b, unsigned int cc, struct rm dst)
{
	rex_op(b, P0F + 0x90 + cc, 0, 0, dst, true, false);
}

void x_lahf(struct jit_buf *b)
{
	x_byte(b, 0x9f);
}

void x_sahf(struct jit_buf *b)
{
	x_byte(b, 0x9e);
}

void x_ah(struct jit_buf *b, unsigned int alu, unsigned int imm)
{
	x_byte(b, 0x80);
	x_byte(b, 0xc4 | alu << 3);
	x_byte(b, imm);
}

void x_ah_test(struct jit_buf *b, unsigned int imm)
{
	x_byte(b, 0xf6);
	x_byte(b, 0xc4);
	x_byte(b, imm);
}

void x_add_sums(struct jit_buf *b, const uint8_t *at)
{
	static const uint8_t paddq[] = {0x66, 0x44, 0x0f, 0xd4, 0x3d}; /* xmm15, [rip + disp32] */

	for (size_t i = 0; i < sizeof(paddq); i++)
		x_byte(b, paddq[i]);
	x_word(b, (uint64_t)(at - (b->at + 4)), 4);
}

uint8_t *x_jcc(struct jit_buf *b, unsigned int cc)
{
	x_byte(b, 0x0f);
	x_byte(b, 0x80 | cc);
	x_word(b, 0, 4);
	return b->at - 4;
}

uint8_t *x_jmp(struct jit_buf *b)
{
	x_byte(b, 0xe9);
	x_word(b, 0, 4);
	return b->at - 4;
}

void x_link(const struct jit_buf *b, uint8_t *site, const uint8_t *to)
{
	int32_t d = (int32_t)(to - (site + 4));

	if (!b->full) /* else the site may be incomplete, and the code will not be executed */
		memcpy(site, &d, sizeof(d));
}

void x_jmp_mem(struct jit_buf *b, struct rm m)
{
	rex_op(b, 0xff, 2, 4, m, false, false);
}

void x_align(struct jit_buf *b, unsigned int to)
{
	while ((uintptr_t)b->at & (to - 1) && !b->full)
		x_byte(b, 0xcc);
}
