/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Between the generator's files: gen.c places instructions and follows state, gen_ops.c and
 * gen_mem.c choose and encode them, gen_flow.c and gen_special.c compose them.
 */
#ifndef TESTS_EMU_GEN_INTERNAL_H
#define TESTS_EMU_GEN_INTERNAL_H

#include "tests/emu/gen.h"

struct gen {
	uint64_t rng;
	struct dt_seq *q;
	unsigned int pos, limit; /* next byte in the slot; no instruction may reach past limit */
	uint64_t val[DT_NREGS];
	uint32_t known;		 /* bit per register: val[] is its value */
	uint32_t frozen;	 /* must not be written (a loop relies on it) */
	unsigned int skip_until; /* up to here code may be jumped over: learn no values */
	bool avx;		 /* has AVX instructions, and then none that show XINUSE */
	uint32_t restored;	 /* the area of the last XRSTOR */
	/* Bits 511:256 are in use, and then it has no SSE instructions, either. The AVX component
	 * is in use, too: else a switch of the host's tasks makes it so (AMD family 19H). */
	bool zmm;
	uint32_t undef;
	uint32_t join_undef[DT_SLOT + 1];
};

/* One instruction being encoded. */
struct enc {
	uint8_t b[24];
	unsigned int n;
};

#define REG(r) (1u << (r))

extern const bool *gen_isa;
extern bool gen_intel;

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

/*
 * gen_join - control may come from the instruction at @from to @to (slot offsets), with what was
 * undefined there. gen_can_join - there is room for another, and for a body of a few instructions.
 * gen_patch32 - overwrite four bytes placed before.
 */
void gen_join(struct gen *g, int from, unsigned int to, uint32_t undef);
bool gen_can_join(const struct gen *g);
void gen_patch32(struct gen *g, unsigned int at, uint32_t v);

/* gen_simple_op - one instruction that only goes forward (and its preparation). */
void gen_simple_op(struct gen *g);

/* ---- gen_mem.c ---- */

/* gen_value - a number on which arithmetic goes wrong first, or any. gen_address - in the scratch
 * areas, a multiple of @align. gen_pick_reg - any register, seldom RSP. gen_is_small - its value is
 * known and a usable bit offset. */
uint64_t gen_value(struct gen *g);
uint32_t gen_address(struct gen *g, uint32_t align);
unsigned int gen_pick_reg(struct gen *g);
bool gen_is_small(struct gen *g, unsigned int r);

struct memop {
	uint8_t mod, rm, sib;
	bool has_sib, riprel;
	bool rex_x, rex_b;
	bool addr32;
	uint8_t segment;  /* prefix byte, or 0 */
	uint8_t disp_len; /* 0, 1, 4 */
	uint32_t disp;
	uint32_t target;
};

typedef void gen_fn(struct gen *g);

/* A memory operand; @bit_bytes is what a register bit offset will add to the address. */
struct memop gen_mem_operand(struct gen *g, uint32_t align, int64_t bit_bytes);

/* ModRM, SIB and displacement of @m, or of register @rm where @m is NULL. Stores in @disp_at where
 * the displacement is. */
void gen_put_operand(struct enc *e, const struct memop *m, unsigned int rm, unsigned int reg,
		     unsigned int *disp_at);
/* ModRM, SIB and an absolute address. */
void gen_put_absolute(struct enc *e, unsigned int reg, uint32_t at);
/* The instruction at @e has its length: make the displacement of @m relative, if it is. */
void gen_put_rel(struct gen *g, struct enc *e, const struct memop *m, unsigned int disp_at);
/* Place @e, which may have bytes behind the instruction, if that is in the ISA. */
bool gen_place(struct gen *g, struct enc *e, const struct memop *m, unsigned int disp_at);

/* ---- gen_fp.c ---- */

extern bool gen_misalign, gen_masked;
/* A state of x87 and SSE that FXRSTOR64 accepts. */
void gen_fx(struct gen *g, uint8_t fx[DT_FX_BYTES]);
void gen_vectors(struct gen *g, struct dt_vectors *v);
gen_fn t_simd, t_x87, t_fp_control;

/* ---- gen_vex.c ---- */
gen_fn t_bmi, t_avx, t_gather, t_opmask, t_vex_illegal;

/* ---- gen_evex.c ---- */
gen_fn t_evex, t_gather_evex, t_evex_illegal;

/* ---- gen_xsave.c ---- */
gen_fn t_xsave;

/* ---- gen_ops.c ---- */

/* One random instruction from the opcode table / from random bytes. */
bool gen_table_op(struct gen *g);
bool gen_random_op(struct gen *g);
/* One of some rows of the table. */
enum op_group { OPS_SHIFT_CL, OPS_DIV, OPS_BT_REG, OPS_CMPXCHG, OPS_DOUBLE_SHIFT_CL };
bool gen_group_op(struct gen *g, enum op_group group);
/* gen_set_reg - MOV r32, imm32: the one way values become known later. gen_set_reg_wide - MOV r64,
 * imm64 whose upper half an instruction with 32-bit addresses must not look at. */
int gen_set_reg(struct gen *g, unsigned int reg, uint32_t value);
int gen_set_reg_wide(struct gen *g, unsigned int reg, uint32_t value);

/* ---- gen_flow.c ---- */
gen_fn t_jump_over, t_jump_indirect, t_call, t_loop, t_iret, t_self_modify, t_bad_jump;

/* ---- gen_special.c ---- */
gen_fn t_string, t_bad_access, t_selector, t_shift_cl, t_div, t_bit, t_cmpxchg, t_flags, t_fault,
	t_fixed, t_segment_base, t_cpuid, t_stack;

#endif
