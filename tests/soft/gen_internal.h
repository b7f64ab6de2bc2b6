/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Between the generator's two halves: gen.c places instructions and follows state, gen_ops.c
 * chooses and encodes them.
 */
#ifndef TESTS_SOFT_GEN_INTERNAL_H
#define TESTS_SOFT_GEN_INTERNAL_H

#include "tests/soft/gen.h"

struct gen {
	uint64_t rng;
	struct dt_seq *q;
	unsigned int pos, limit; /* next byte in the slot; no instruction may reach past limit */
	uint64_t val[DT_NREGS];
	uint32_t known;		 /* bit per register: val[] is its value */
	uint32_t frozen;	 /* must not be written (a loop relies on it) */
	unsigned int skip_until; /* up to here code may be jumped over: learn no values */
	uint32_t undef;
	uint32_t join_undef[DT_SLOT + 1];
};

/* One instruction being encoded. */
struct enc {
	uint8_t b[24];
	unsigned int n;
};

extern const bool *gen_isa;

static inline uint32_t below(struct gen *g, uint32_t n)
{
	return dt_below(&g->rng, n);
}

static inline bool percent(struct gen *g, uint32_t p)
{
	return below(g, 100) < p;
}

static inline uint64_t here(const struct gen *g)
{
	return g->q->c.slot + g->pos;
}

static inline void put(struct enc *e, uint8_t b)
{
	e->b[e->n++] = b;
}

static inline void put_le(struct enc *e, uint64_t v, unsigned int bytes)
{
	for (unsigned int i = 0; i < bytes; i++)
		put(e, (uint8_t)(v >> (8 * i)));
}

/*
 * emit - place @e after the instructions so far, preceded by a CMP where it decides on undefined
 * flags. Returns its offset in the slot, or -1 and nothing placed: no room, not in the ISA, writes
 * a frozen register, or its result is undefined.
 * emit_raw - place bytes that are no instruction.
 */
int emit(struct gen *g, const struct enc *e);
int emit_bytes(struct gen *g, const uint8_t *b, unsigned int n);
int emit_raw(struct gen *g, const uint8_t *b, unsigned int n);

/* gen_ops.c: one random instruction from the opcode table / from random bytes. */
bool gen_table_op(struct gen *g);
bool gen_random_op(struct gen *g);
/* An instruction of table row groups, for templates. */
enum op_group { OPS_SHIFT_CL, OPS_DIV, OPS_BT_REG, OPS_CMPXCHG, OPS_DOUBLE_SHIFT_CL };
bool gen_group_op(struct gen *g, enum op_group group);
/* MOV r32, imm32: the one way values become known later. */
int gen_set_reg(struct gen *g, unsigned int reg, uint32_t value);
/* An address in the scratch areas; a multiple of @align. */
uint32_t gen_address(struct gen *g, uint32_t align);
uint64_t gen_value(struct gen *g);

#endif
