// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Generator: chooses one instruction and encodes it. Encodings are written out here
 * (SDM vol. 2, appendix A opcode maps) and not asked of an encoder library, so that every form a
 * decoder must understand is produced: both directions of an ALU operation, useless prefixes,
 * high-byte registers, every addressing form.
 */
#include <string.h>

#include "tests/emu/gen_internal.h"

enum {
	BYTE = 1 << 0,	    /* 8-bit operands; otherwise 16, 32 or 64 by prefix */
	STACK = 1 << 1,	    /* 64-bit by default, 16 with 66 */
	LOCK = 1 << 2,	    /* may be locked when the destination is memory */
	ATOMIC = 1 << 3,    /* locked anyway */
	MEM = 1 << 4,	    /* register form does not exist */
	REG = 1 << 5,	    /* memory form does not exist */
	OREG = 1 << 6,	    /* register in the opcode byte */
	BARE = 1 << 7,	    /* no ModRM */
	F3 = 1 << 8,	    /* mandatory prefix */
	BITREG = 1 << 9,    /* a register bit offset moves the address */
	NO66 = 1 << 10,	    /* no 16-bit form */
	ANYDIGIT = 1 << 11, /* /0../7 all exist */
	CC = 1 << 12,	    /* condition in the low four bits of the opcode */
	WIDE = 1 << 13,	    /* memory operand of 8 or 16 bytes by REX.W, aligned */
};

enum { IMM0, IMM8, IMMZ, IMMV, MOFFS, IMM16_8 };

struct row {
	uint8_t map; /* 0: one byte, 1: 0F, 2: 0F 38 */
	uint8_t op;
	int8_t ext; /* /digit, or -1: /r */
	uint8_t imm;
	uint16_t flags;
	uint8_t weight;
};

#define ALU(n)                                                                                     \
	{0, (n)*8 + 0, -1, IMM0, BYTE | LOCK, 2}, {0, (n)*8 + 1, -1, IMM0, LOCK, 4},               \
		{0, (n)*8 + 2, -1, IMM0, BYTE, 2}, {0, (n)*8 + 3, -1, IMM0, 0, 4},                 \
		{0, (n)*8 + 4, -1, IMM8, BYTE | BARE, 1}, {0, (n)*8 + 5, -1, IMMZ, BARE, 1},       \
		{0, 0x80, (n), IMM8, BYTE | LOCK, 2}, {0, 0x81, (n), IMMZ, LOCK, 2},               \
	{                                                                                          \
		0, 0x83, (n), IMM8, LOCK, 3                                                        \
	}

static const struct row rows[] = {
	ALU(0),
	ALU(1),
	ALU(2),
	ALU(3),
	ALU(4),
	ALU(5),
	ALU(6),
	ALU(7),
	{0, 0xfe, 0, IMM0, BYTE | LOCK, 3},
	{0, 0xfe, 1, IMM0, BYTE | LOCK, 3},
	{0, 0xff, 0, IMM0, LOCK, 5},
	{0, 0xff, 1, IMM0, LOCK, 5},
	{0, 0xf6, 2, IMM0, BYTE | LOCK, 2},
	{0, 0xf7, 2, IMM0, LOCK, 4},
	{0, 0xf6, 3, IMM0, BYTE | LOCK, 2},
	{0, 0xf7, 3, IMM0, LOCK, 4},
	{0, 0x84, -1, IMM0, BYTE, 2},
	{0, 0x85, -1, IMM0, 0, 3},
	{0, 0xa8, -1, IMM8, BYTE | BARE, 1},
	{0, 0xa9, -1, IMMZ, BARE, 1},
	{0, 0xf6, 0, IMM8, BYTE, 2},
	{0, 0xf7, 0, IMMZ, 0, 2},
	{0, 0xf6, 4, IMM0, BYTE, 2},
	{0, 0xf7, 4, IMM0, 0, 5},
	{0, 0xf6, 5, IMM0, BYTE, 2},
	{0, 0xf7, 5, IMM0, 0, 4},
	{1, 0xaf, -1, IMM0, 0, 5},
	{0, 0x69, -1, IMMZ, 0, 4},
	{0, 0x6b, -1, IMM8, 0, 4},
	{0, 0x88, -1, IMM0, BYTE, 4},
	{0, 0x89, -1, IMM0, 0, 6},
	{0, 0x8a, -1, IMM0, BYTE, 4},
	{0, 0x8b, -1, IMM0, 0, 6},
	{0, 0xb0, -1, IMM8, BYTE | OREG, 3},
	{0, 0xb8, -1, IMMV, OREG, 4},
	{0, 0xc6, 0, IMM8, BYTE, 3},
	{0, 0xc7, 0, IMMZ, 0, 4},
	{0, 0xa0, -1, MOFFS, BYTE | BARE, 1},
	{0, 0xa1, -1, MOFFS, BARE, 1},
	{0, 0xa2, -1, MOFFS, BYTE | BARE, 1},
	{0, 0xa3, -1, MOFFS, BARE, 1},
	{1, 0xb6, -1, IMM0, 0, 4},
	{1, 0xb7, -1, IMM0, 0, 4},
	{1, 0xbe, -1, IMM0, 0, 4},
	{1, 0xbf, -1, IMM0, 0, 4},
	{0, 0x63, -1, IMM0, 0, 4},
	{0, 0x8d, -1, IMM0, MEM, 5},
	{0, 0x86, -1, IMM0, BYTE | ATOMIC | LOCK, 2},
	{0, 0x87, -1, IMM0, ATOMIC | LOCK, 3},
	{0, 0x90, -1, IMM0, OREG, 3},
	{1, 0xc0, -1, IMM0, BYTE | LOCK, 2},
	{1, 0xc1, -1, IMM0, LOCK, 4},
	{1, 0xb0, -1, IMM0, BYTE | LOCK, 2},
	{1, 0xb1, -1, IMM0, LOCK, 4},
	{1, 0xc7, 1, IMM0, MEM | LOCK | WIDE | NO66, 3},
	{0, 0xc0, 0, IMM8, BYTE | ANYDIGIT, 8},
	{0, 0xc1, 0, IMM8, ANYDIGIT, 14},
	{0, 0xd0, 0, IMM0, BYTE | ANYDIGIT, 4},
	{0, 0xd1, 0, IMM0, ANYDIGIT, 7},
	{0, 0xd2, 0, IMM0, BYTE | ANYDIGIT, 3},
	{0, 0xd3, 0, IMM0, ANYDIGIT, 5},
	{1, 0xa4, -1, IMM8, 0, 3},
	{1, 0xac, -1, IMM8, 0, 3},
	{1, 0xa5, -1, IMM0, 0, 2},
	{1, 0xad, -1, IMM0, 0, 2},
	{1, 0xa3, -1, IMM0, BITREG, 2},
	{1, 0xab, -1, IMM0, BITREG | LOCK, 2},
	{1, 0xb3, -1, IMM0, BITREG | LOCK, 2},
	{1, 0xbb, -1, IMM0, BITREG | LOCK, 2},
	{1, 0xba, 4, IMM8, 0, 2},
	{1, 0xba, 5, IMM8, LOCK, 2},
	{1, 0xba, 6, IMM8, LOCK, 2},
	{1, 0xba, 7, IMM8, LOCK, 2},
	{1, 0xbc, -1, IMM0, 0, 3},
	{1, 0xbd, -1, IMM0, 0, 3},
	{1, 0xbc, -1, IMM0, F3, 3},
	{1, 0xbd, -1, IMM0, F3, 3},
	{1, 0xb8, -1, IMM0, F3, 4},
	{1, 0x90, 0, IMM0, BYTE | CC, 10},
	{1, 0x40, -1, IMM0, CC, 12},
	{1, 0xc8, -1, IMM0, OREG, 4},
	{0, 0x98, -1, IMM0, BARE, 4},
	{0, 0x99, -1, IMM0, BARE, 4},
	{0, 0x9e, -1, IMM0, BYTE | BARE, 2},
	{0, 0x9f, -1, IMM0, BYTE | BARE, 2},
	{0, 0xf5, -1, IMM0, BYTE | BARE, 2},
	{0, 0xf8, -1, IMM0, BYTE | BARE, 2},
	{0, 0xf9, -1, IMM0, BYTE | BARE, 2},
	{0, 0xfc, -1, IMM0, BYTE | BARE, 2},
	{0, 0xfd, -1, IMM0, BYTE | BARE, 2},
	{0, 0x90, -1, IMM0, BYTE | BARE, 1},
	{1, 0x1f, 0, IMM0, 0, 2},
	{0, 0x90, -1, IMM0, BARE | F3 | NO66, 1},
	{1, 0x18, 1, IMM0, MEM, 1},
	{1, 0x0d, 1, IMM0, MEM, 1},
	{0, 0xd7, -1, IMM0, BYTE | BARE, 1},
	{0, 0x50, -1, IMM0, STACK | OREG, 4},
	{0, 0x58, -1, IMM0, STACK | OREG, 4},
	{0, 0x68, -1, IMMZ, STACK | BARE, 2},
	{0, 0x6a, -1, IMM8, STACK | BARE, 2},
	{0, 0xff, 6, IMM0, STACK, 3},
	{0, 0x8f, 0, IMM0, STACK, 3},
	{2, 0xf0, -1, IMM0, MEM, 2},
	{2, 0xf1, -1, IMM0, MEM, 2},
	{1, 0xc3, -1, IMM0, MEM | NO66, 2},
	{1, 0xae, 0, IMM0, REG | F3 | NO66, 1},
	{1, 0xae, 1, IMM0, REG | F3 | NO66, 1},
	{1, 0x01, 6, IMM0, MEM, 1},
	{0, 0xc8, -1, IMM16_8, STACK | BARE, 1},
	{0, 0xc9, -1, IMM0, STACK | BARE, 1},
};

#define NR_ROWS (sizeof(rows) / sizeof(rows[0]))

static const struct row div_rows[] = {
	{0, 0xf6, 6, IMM0, BYTE, 1},
	{0, 0xf7, 6, IMM0, 0, 2},
	{0, 0xf6, 7, IMM0, BYTE, 1},
	{0, 0xf7, 7, IMM0, 0, 2},
};

static uint64_t gen_imm(struct gen *g)
{
	return percent(g, 50) ? gen_value(g) : below(g, 70);
}

static unsigned int imm_len(unsigned int imm, unsigned int opsize)
{
	const unsigned int len[] = {
		[IMM8] = 1, [IMMZ] = opsize == 16 ? 2 : 4, [IMMV] = opsize / 8, [IMM16_8] = 3};

	return len[imm];
}

static void shuffle_prefixes(struct gen *g, uint8_t *p, unsigned int n)
{
	for (unsigned int i = n; i > 1; i--) {
		unsigned int k = below(g, i);
		uint8_t t = p[i - 1];

		p[i - 1] = p[k];
		p[k] = t;
	}
}

struct choice {
	unsigned int opsize; /* 8, 16, 32, 64 */
	bool mem, lock;
	unsigned int reg, rm;
	struct memop m;
};

static void choose(struct gen *g, const struct row *r, struct choice *c)
{
	static const uint8_t sizes[] = {16, 32, 32, 64, 64};
	bool atomic;
	int64_t bit_bytes = 0;

	c->opsize = r->flags & BYTE ? 8 : sizes[below(g, 5)];
	if (r->flags & STACK)
		c->opsize = percent(g, 85) ? 64 : 16;
	if (r->flags & NO66 && c->opsize == 16)
		c->opsize = 32;
	c->reg = gen_pick_reg(g);
	c->rm = gen_pick_reg(g);
	c->mem = r->flags & MEM || (!(r->flags & (REG | OREG | BARE)) && percent(g, 50));
	/* An unknown or large bit offset leads anywhere. */
	for (int tries = 0; r->flags & BITREG && !gen_is_small(g, c->reg) && tries < 12; tries++)
		c->reg = gen_pick_reg(g);
	if (r->flags & BITREG && !(r->flags & MEM) && !gen_is_small(g, c->reg) && percent(g, 90))
		c->mem = false;
	c->lock = c->mem && r->flags & LOCK && percent(g, 25);
	if (!c->mem)
		return;
	if (r->flags & BITREG && g->known & 1u << c->reg) {
		int64_t bits = (int64_t)g->val[c->reg];

		bits = c->opsize == 64 ? bits : c->opsize == 32 ? (int32_t)bits : (int16_t)bits;
		bit_bytes = (bits >> (c->opsize == 64	? 6
				      : c->opsize == 32 ? 5
							: 4)) *
			    (int)(c->opsize / 8);
	}
	/* Locked operands stay inside a cache line: some hosts punish split locks. */
	atomic = c->lock || r->flags & ATOMIC;
	c->m = gen_mem_operand(g,
			       r->flags & WIDE && percent(g, 95) ? 16
			       : atomic				 ? 8
								 : 1,
			       bit_bytes);
}

static void put_prefixes(struct gen *g, const struct row *r, const struct choice *c, struct enc *e)
{
	uint8_t p[8];
	unsigned int n = 0;

	if (c->opsize == 16 || (c->opsize == 8 && percent(g, 3)))
		p[n++] = 0x66;
	if (r->flags & F3)
		p[n++] = 0xf3;
	if (c->lock)
		p[n++] = 0xf0;
	if (c->mem && c->m.segment)
		p[n++] = c->m.segment;
	if (c->mem && c->m.addr32)
		p[n++] = 0x67;
	shuffle_prefixes(g, p, n);
	for (unsigned int i = 0; i < n; i++)
		put(e, p[i]);
}

static void put_rex(struct gen *g, const struct row *r, const struct choice *c, struct enc *e)
{
	bool w = c->opsize == 64 && !(r->flags & STACK);
	unsigned int rex = 0x40 | (w ? 8 : 0);

	if (!(r->flags & (BARE | OREG)) && r->ext < 0 && c->reg & 8)
		rex |= 4;
	if (r->flags & OREG)
		rex |= c->reg & 8 ? 1 : 0;
	else if (c->mem)
		rex |= (c->m.rex_x ? 2 : 0) | (c->m.rex_b ? 1 : 0);
	else if (!(r->flags & BARE))
		rex |= c->rm & 8 ? 1 : 0;
	if (c->opsize == 8 && percent(g, 3))
		rex |= 8;
	if (rex != 0x40 || percent(g, c->opsize == 8 ? 40 : 4))
		put(e, (uint8_t)rex);
}

static void encode(struct gen *g, const struct row *r, const struct choice *c, struct enc *e)
{
	unsigned int digit = r->flags & ANYDIGIT ? below(g, 8) : (unsigned int)r->ext;
	unsigned int len = imm_len(r->imm, c->opsize), disp_at = 0;
	uint64_t imm = gen_imm(g);

	e->n = 0;
	put_prefixes(g, r, c, e);
	put_rex(g, r, c, e);
	if (r->map)
		put(e, 0x0f);
	if (r->map == 2)
		put(e, 0x38);
	put(e, (uint8_t)(r->op | (r->flags & CC ? below(g, 16) : 0) |
			 (r->flags & OREG ? c->reg & 7 : 0)));
	if (!(r->flags & (BARE | OREG)))
		gen_put_operand(e, c->mem ? &c->m : NULL, c->rm, r->ext < 0 ? c->reg : digit,
				&disp_at);
	if (r->imm == MOFFS)
		put_le(e, gen_address(g, 1), 8);
	else if (r->imm == IMM16_8) /* ENTER: frame size and nesting level */
		put_le(e, below(g, 256) | (percent(g, 80) ? 0 : below(g, 33)) << 16, 3);
	else
		put_le(e, imm, len);
	gen_put_rel(g, e, c->mem ? &c->m : NULL, disp_at);
}

static bool gen_row(struct gen *g, const struct row *r)
{
	struct choice c = {0};
	struct enc e;

	choose(g, r, &c);
	encode(g, r, &c, &e);
	return emit(g, &e) >= 0;
}

bool gen_table_op(struct gen *g)
{
	static uint32_t total;
	uint32_t at;

	if (!total)
		for (size_t i = 0; i < NR_ROWS; i++)
			total += rows[i].weight;
	at = below(g, total);
	for (size_t i = 0; i < NR_ROWS; i++) {
		if (at < rows[i].weight)
			return gen_row(g, &rows[i]);
		at -= rows[i].weight;
	}
	return false;
}

bool gen_group_op(struct gen *g, enum op_group group)
{
	static const struct row cl_rows[] = {{0, 0xd2, 0, IMM0, BYTE | ANYDIGIT, 1},
					     {0, 0xd3, 0, IMM0, ANYDIGIT, 2}};
	static const struct row dshift_rows[] = {{1, 0xa5, -1, IMM0, 0, 1},
						 {1, 0xad, -1, IMM0, 0, 1}};
	static const struct row bit_rows[] = {{1, 0xa3, -1, IMM0, BITREG | MEM, 1},
					      {1, 0xab, -1, IMM0, BITREG | LOCK | MEM, 1},
					      {1, 0xb3, -1, IMM0, BITREG | LOCK | MEM, 1},
					      {1, 0xbb, -1, IMM0, BITREG | LOCK | MEM, 1}};
	static const struct row cmpxchg_rows[] = {{1, 0xb0, -1, IMM0, BYTE | LOCK, 1},
						  {1, 0xb1, -1, IMM0, LOCK, 1},
						  {1, 0xc7, 1, IMM0, MEM | LOCK | WIDE | NO66, 1}};

	switch (group) {
	case OPS_SHIFT_CL:
		return gen_row(g, &cl_rows[below(g, 2)]);
	case OPS_DOUBLE_SHIFT_CL:
		return gen_row(g, &dshift_rows[below(g, 2)]);
	case OPS_DIV:
		return gen_row(g, &div_rows[below(g, 4)]);
	case OPS_BT_REG:
		return gen_row(g, &bit_rows[below(g, 4)]);
	case OPS_CMPXCHG:
		return gen_row(g, &cmpxchg_rows[below(g, 3)]);
	}
	return false;
}

int gen_set_reg(struct gen *g, unsigned int reg, uint32_t value)
{
	struct enc e = {.n = 0};

	if (reg & 8)
		put(&e, 0x41);
	put(&e, (uint8_t)(0xb8 | (reg & 7)));
	put_le(&e, value, 4);
	return emit(g, &e);
}

int gen_set_reg_wide(struct gen *g, unsigned int reg, uint32_t value)
{
	uint64_t v = random_split(&g->rng) << 32 | value;
	uint8_t b[10] = {0x48, (uint8_t)(0xb8 | reg)};

	memcpy(b + 2, &v, 8);
	return emit_bytes(g, b, 10);
}

/*
 * Any encoding the decoder knows as an instruction of the ISA: random prefixes, opcode and
 * operands. Left out: what transfers control (templates do that with known targets), segment
 * registers (selectors mean different things on both sides), CPUID leaves of no interest and flags
 * that would trap (TF, AC).
 */
static bool random_op_fits(struct gen *g, const struct insn *in)
{
	/* These mostly fault, which ends the sequence. */
	if ((in->i.attributes & ZYDIS_ATTRIB_IS_PRIVILEGED ||
	     in->i.meta.category == ZYDIS_CATEGORY_IO ||
	     in->i.meta.category == ZYDIS_CATEGORY_IOSTRINGOP ||
	     in->i.meta.category == ZYDIS_CATEGORY_STRINGOP) &&
	    !percent(g, 10))
		return false;
	if (in->i.meta.category == ZYDIS_CATEGORY_INTERRUPT ||
	    in->i.meta.branch_type != ZYDIS_BRANCH_TYPE_NONE || insn_is_branch(in) ||
	    in->i.mnemonic == ZYDIS_MNEMONIC_CPUID || in->i.mnemonic == ZYDIS_MNEMONIC_POPF ||
	    in->i.mnemonic == ZYDIS_MNEMONIC_POPFQ)
		return false;
	for (int k = 0; k < in->i.operand_count; k++)
		if (in->op[k].type == ZYDIS_OPERAND_TYPE_REGISTER &&
		    ZydisRegisterGetClass(in->op[k].reg.value) == ZYDIS_REGCLASS_SEGMENT)
			return false;
	return true;
}

bool gen_random_op(struct gen *g)
{
	static const uint8_t prefixes[] = {0x66, 0x66, 0x67, 0xf2, 0xf3, 0xf0,
					   0x2e, 0x36, 0x3e, 0x26, 0x64, 0x65};

	for (int tries = 0; tries < 40; tries++) {
		struct choice c = {.mem = percent(g, 60), .rm = gen_pick_reg(g)};
		unsigned int map = below(g, 16), disp_at;
		struct enc e = {.n = 0};
		struct insn in;

		while (percent(g, 25) && e.n < 4)
			put(&e, prefixes[below(g, sizeof(prefixes))]);
		if (c.mem)
			c.m = gen_mem_operand(g, 16, 0);
		if (c.mem && c.m.addr32)
			put(&e, 0x67);
		if (c.mem && c.m.segment)
			put(&e, c.m.segment);
		if (percent(g, 60) || c.m.rex_x || c.m.rex_b)
			put(&e, (uint8_t)(0x40 | below(g, 4) << 2 | (c.m.rex_x ? 2 : 0) |
					  (c.m.rex_b ? 1 : 0)));
		if (map >= 8)
			put(&e, 0x0f);
		if (map == 15)
			put(&e, 0x38);
		put(&e, (uint8_t)below(g, 256));
		gen_put_operand(&e, c.mem ? &c.m : NULL, c.rm, below(g, 8), &disp_at);
		put_le(&e, gen_imm(g), 8);
		if (!insn_decode(e.b, e.n, &in) || !gen_isa[in.i.mnemonic] ||
		    !random_op_fits(g, &in))
			continue;
		e.n = in.i.length;
		/* By accident, with any displacement: it would hit code. */
		if (insn_is_rip_relative(&in) &&
		    (!c.mem || !c.m.riprel || in.i.raw.modrm.offset + 1u != disp_at))
			continue;
		if (insn_is_rip_relative(&in))
			gen_put_rel(g, &e, &c.m, disp_at);
		if (emit(g, &e) >= 0)
			return true;
	}
	return false;
}
