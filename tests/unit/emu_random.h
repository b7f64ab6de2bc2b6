/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Random guest programs for tests of translated code: loops of random instructions, some of which
 * overwrite the program. random_prog() makes one from a seed. RDI = BED_DATA, RSP = the stack, R15
 * = the outer count; no instruction writes these. A program ends in HLT or in a fault.
 */
#ifndef TESTS_UNIT_EMU_RANDOM_H
#define TESTS_UNIT_EMU_RANDOM_H

#include <criterion/criterion.h>
#include <stdint.h>
#include <string.h>

#include "tests/random.h"

static inline unsigned int below(uint64_t *s, unsigned int n)
{
	return (unsigned int)((random_split(s) >> 32) * n >> 32);
}

#define CODE_MAX 0x3000u

struct prog {
	uint8_t code[CODE_MAX];
	unsigned int n;
	uint64_t rng;
};

static void put(struct prog *p, unsigned int bytes, uint64_t x)
{
	for (; bytes; bytes--, x >>= 8)
		p->code[p->n++] = (uint8_t)x;
}

static unsigned int any_reg(struct prog *p)
{
	return below(&p->rng, 16);
}

static unsigned int free_reg(struct prog *p)
{
	unsigned int r;

	do
		r = any_reg(p);
	while (r == 4 || r == 7 || r == 15);
	return r;
}

/* One instruction with ModRM: @opcode (with 0F00 for the second map) of 1 << @lg bytes. The operand
 * is register @rm, or for 16 memory at RDI + what is near 0, near a page's end, or indexed. */
static void insn(struct prog *p, unsigned int opcode, unsigned int lg, unsigned int reg,
		 unsigned int rm)
{
	unsigned int idx = free_reg(p), form = below(&p->rng, 8);
	bool sib = rm == 16 && form == 0;
	unsigned int rex = (lg == 3 ? 8 : 0) | (reg >> 3 & 1) << 2 | (rm < 16 ? rm >> 3 : 0);

	if (sib) { /* an index below 64 */
		put(p, 4, 0x3fe08348 | (idx >> 3) | (idx & 7) << 16);
		rex |= idx >> 3 << 1;
	}
	if (lg == 1)
		put(p, 1, 0x66);
	put(p, 1, 0x40 | rex);
	if (opcode > 0xff)
		put(p, 1, 0x0f);
	put(p, 1, opcode & 0xff);
	if (rm < 16) {
		put(p, 1, 0xc0 | (reg & 7) << 3 | (rm & 7));
	} else if (sib) {
		put(p, 2, (0x44 | (reg & 7) << 3) | ((idx & 7) << 3 | 7 | 0xc0) << 8);
		put(p, 1, below(&p->rng, 100));
	} else if (form == 1) { /* around the end of a page */
		put(p, 1, 0x87 | (reg & 7) << 3);
		put(p, 4, 4096 - below(&p->rng, 9));
	} else {
		put(p, 1, 0x47 | (reg & 7) << 3);
		put(p, 1, below(&p->rng, 120));
	}
}

static unsigned int reg_or_mem(struct prog *p, bool writes)
{
	return below(&p->rng, 2) ? 16 : writes ? free_reg(p) : any_reg(p);
}

static void random_insn(struct prog *p)
{
	static const uint16_t bits[] = {0x0fa3, 0x0fab, 0x0fb3, 0x0fbb};
	unsigned int lg = below(&p->rng, 4), k = below(&p->rng, 8), a = free_reg(p), back;

	switch (below(&p->rng, 26)) {
	case 0:
	case 1:
	case 2: /* ADD to CMP, register to operand */
		insn(p, k * 8 + (lg ? 1 : 0), lg, any_reg(p), reg_or_mem(p, k != 7));
		break;
	case 3:
	case 4: /* the other way */
		insn(p, k * 8 + (lg ? 3 : 2), lg, a, reg_or_mem(p, false));
		break;
	case 5: /* with an immediate byte */
		insn(p, lg ? 0x83 : 0x80, lg, k, reg_or_mem(p, k != 7));
		put(p, 1, random_split(&p->rng));
		break;
	case 6: /* TEST */
		insn(p, lg ? 0x85 : 0x84, lg, any_reg(p), reg_or_mem(p, false));
		break;
	case 7: /* MOV both ways */
		insn(p, lg ? 0x89 : 0x88, lg, any_reg(p), reg_or_mem(p, true));
		break;
	case 8:
		insn(p, lg ? 0x8b : 0x8a, lg, a, reg_or_mem(p, false));
		break;
	case 9: /* INC, DEC */
		insn(p, lg ? 0xff : 0xfe, lg, k & 1, reg_or_mem(p, true));
		break;
	case 10: /* NOT, NEG */
		insn(p, lg ? 0xf7 : 0xf6, lg, 2 + (k & 1), reg_or_mem(p, true));
		break;
	case 11: /* shifts and rotates by a constant */
		insn(p, lg ? 0xc1 : 0xc0, lg, k == 6 ? 4 : k, reg_or_mem(p, true));
		put(p, 1, below(&p->rng, 70));
		break;
	case 12: /* by CL */
		insn(p, lg ? 0xd3 : 0xd2, lg, k == 6 ? 4 : k, reg_or_mem(p, true));
		break;
	case 13: /* IMUL */
		insn(p, 0x0faf, lg ? lg : 2, a, reg_or_mem(p, false));
		break;
	case 14: /* MUL, IMUL */
		insn(p, lg ? 0xf7 : 0xf6, lg, 4 + (k & 1), reg_or_mem(p, false));
		break;
	case 15: /* a division that does not fault: XOR EDX, EDX; OR operand, 1; DIV, IDIV */
		put(p, 2, 0xd231);
		put(p, 3, 0x01cb83); /* or $1, %ebx */
		if (k & 1)
			put(p, 3, 0xe8d148); /* shr %rax */
		put(p, 3, k & 1 ? 0xfbf748 : 0xf3f748);
		break;
	case 16: /* SETcc, CMOVcc */
		insn(p, 0x0f90 + below(&p->rng, 16), 0, 0, reg_or_mem(p, true));
		break;
	case 17:
		insn(p, 0x0f40 + below(&p->rng, 16), lg ? lg : 2, a, reg_or_mem(p, false));
		break;
	case 18: /* MOVZX, MOVSX, MOVSXD */
		if (k < 4)
			insn(p, (k & 1 ? 0x0fb6 : 0x0fbe) + (k >> 1), 2 + (lg & 1), a,
			     reg_or_mem(p, false));
		else
			insn(p, 0x63, 3, a, reg_or_mem(p, false));
		break;
	case 19: /* BT and the like with a constant, or of registers */
		if (k & 1) {
			insn(p, bits[below(&p->rng, 4)], lg ? lg : 2, any_reg(p), free_reg(p));
		} else {
			insn(p, 0x0fba, lg ? lg : 2, 4 + below(&p->rng, 4), reg_or_mem(p, true));
			put(p, 1, random_split(&p->rng));
		}
		break;
	case 20: /* BSF, BSR, and with F3: TZCNT, LZCNT, POPCNT */
		if (k & 1)
			put(p, 1, 0xf3);
		insn(p, k < 3 ? 0x0fbc : k < 6 ? 0x0fbd : 0x0fb8, 3, a, any_reg(p));
		if (k == 6) /* 0F B8 without F3 is no instruction */
			p->code[p->n - 2] = 0xbc;
		break;
	case 21: /* PUSH and POP */
		put(p, 1, 0x40 | a >> 3);
		put(p, 1, 0x50 | (a & 7));
		a = free_reg(p);
		put(p, 1, 0x40 | a >> 3);
		put(p, 1, 0x58 | (a & 7));
		break;
	case 22: /* XADD, CMPXCHG, XCHG of memory, with LOCK where it is allowed */
		if (k & 1)
			put(p, 1, 0xf0);
		insn(p, k < 3 ? 0x0fc1 - !lg : k < 6 ? 0x0fb1 - !lg : lg ? 0x87 : 0x86, lg, a, 16);
		break;
	case 23: /* LEA */
		insn(p, 0x8d, lg ? lg : 3, a, 16);
		break;
	case 24: /* CLC, STC, CMC, CDQ, CQO, CWDE, CDQE, BSWAP, LAHF */
		put(p, 1,
		    k < 3    ? 0xf8 + (k == 1) - 3 * (k == 2)
		    : k < 5  ? 0x99
		    : k == 7 ? 0x9f
			     : 0x98);
		break;
	default: /* a short jump over one instruction */
		put(p, 2, 0x70 | below(&p->rng, 16));
		back = p->n;
		insn(p, 0x01, 2 + (lg & 1), any_reg(p), reg_or_mem(p, true));
		p->code[back - 1] = (uint8_t)(p->n - back);
	}
}

/* An inner loop, perhaps around a call. */
static void random_loop(struct prog *p, unsigned int leaf)
{
	unsigned int n = 1 + below(&p->rng, 30), begin;
	int kind = (int)below(&p->rng, 4);

	put(p, 4, 0x302444c7); /* movl $count, 48(%rsp) */
	put(p, 4, 2 + below(&p->rng, 40));
	begin = p->n;
	while (n--)
		random_insn(p);
	if (kind == 1) { /* call leaf */
		put(p, 1, 0xe8);
		put(p, 4, leaf - (p->n + 4));
	} else if (kind == 2) { /* lea leaf(%rip), %rax; call *%rax */
		put(p, 3, 0x058d48);
		put(p, 4, leaf - (p->n + 4));
		put(p, 2, 0xd0ff);
	} else if (kind == 3 && !below(&p->rng, 4)) { /* changes the immediate of an ADD */
		put(p, 2, 0x05fe);		      /* incb 2(%rip) */
		put(p, 4, 2);
		put(p, 3, 0x01c383); /* add $1, %ebx */
	}
	put(p, 4, 0x30244cff); /* decl 48(%rsp) */
	put(p, 2, 0x850f);     /* jne begin */
	put(p, 4, begin - (p->n + 4));
}

static inline void random_prog(struct prog *p, uint64_t seed)
{
	unsigned int begin, leaf;

	memset(p->code, 0, sizeof(p->code));
	p->n = 0;
	p->rng = seed;
	put(p, 4, 0x40ec8348); /* sub $64, %rsp */
	put(p, 3, 0xc7c749);   /* mov $count, %r15 */
	put(p, 4, 3 + below(&p->rng, 6));
	put(p, 1, 0xe9); /* over the leaf */
	put(p, 4, 0);
	leaf = p->n;
	for (unsigned int i = below(&p->rng, 6); i; i--)
		random_insn(p);
	put(p, 1, 0xc3);
	begin = p->n;
	p->n = leaf - 4;
	put(p, 4, begin - leaf);
	p->n = begin;
	for (unsigned int i = 1 + below(&p->rng, 4); i; i--)
		random_loop(p, leaf);
	put(p, 3, 0xcfff49); /* dec %r15 */
	put(p, 2, 0x850f);   /* jne begin */
	put(p, 4, begin - (p->n + 4));
	put(p, 1, 0xf4);
	cr_assert(p->n < CODE_MAX);
}

#endif
