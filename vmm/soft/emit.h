/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What the emitters (emit*.c) share. An emitter turns one decoded instruction into ops; there is
 * one emitter per group of instructions. The table in isa.c assigns an emitter to every
 * instruction of the closed list, and soft_emit() calls it. An emitter must never access guest
 * memory or change the vCPU. state.c uses soft_isa_row() only.
 */
#ifndef VMM_SOFT_EMIT_H
#define VMM_SOFT_EMIT_H

#include <Zydis/Zydis.h>

#include "vmm/soft/internal.h"
#include "vmm/soft/ops.h"

struct emit {
	struct soft_code *c;
	const ZydisDecodedInstruction *zi;
	const ZydisDecodedOperand *zo;
	uint64_t rip, next;
	uint8_t ev;	     /* SOFT_EV_LOAD etc. without the cost */
	enum soft_fclass fc; /* out: state of the lazy flags after an instruction that sets flags */
};

/* Emits the instruction and returns true. Returns false if the closed list does not have this form
 * of the instruction. */
typedef bool (*emit_fn)(struct emit *e, unsigned int arg);

struct soft_isa_row {
	ZydisMnemonic mnemonic;
	emit_fn fn;
	uint16_t arg;
	uint8_t cost;  /* modelled cycles, without memory accesses (docs/soft-machine.md) */
	uint8_t flags; /* ISA_* */
};
#define ISA_NO_MEM 1u /* do not count loads and stores of its memory operands */
#define ISA_BRANCH 2u

/* Modelled cycles that are added to a row's cost. */
#define SOFT_COST_LOAD	2u
#define SOFT_COST_STORE 1u
#define SOFT_COST_LOCK	12u

/* isa.c: the row of @m, or NULL if the closed list does not have @m. */
const struct soft_isa_row *soft_isa_row(ZydisMnemonic m);

/* A resolved memory operand. */
struct emit_mem {
	uint8_t base, idx, scale;
	bool ss;
	int64_t disp;
};

enum { ALU_ADD, ALU_OR, ALU_ADC, ALU_SBB, ALU_AND, ALU_SUB, ALU_XOR, ALU_CMP, ALU_TEST };
/* Kinds of soft_help_locked, in addition to ALU_ADD..ALU_XOR. */
enum {
	LOCKED_INC = 16,
	LOCKED_DEC,
	LOCKED_NEG,
	LOCKED_NOT,
	LOCKED_BTS,
	LOCKED_BTR,
	LOCKED_BTC,
	LOCKED_XADD,
	LOCKED_XCHG,
	LOCKED_CMPXCHG
};
enum { ROT_ROL, ROT_ROR, ROT_RCL, ROT_RCR };
enum { SCAN_BSF, SCAN_BSR, SCAN_TZCNT, SCAN_LZCNT, SCAN_POPCNT };
enum { STR_MOVS, STR_STOS, STR_LODS, STR_CMPS, STR_SCAS };
enum { FLAG_CLC, FLAG_STC, FLAG_CMC, FLAG_CLD, FLAG_STD };
#define EMIT_IMM 0xff /* src: the operand is op->imm */

/* emit.c */
struct soft_op *emit_add(struct emit *e, unsigned int opcode);
struct soft_op *emit_helper(struct emit *e, int (*fn)(struct soft_vcpu *, const struct soft_op *),
			    unsigned int lg, unsigned int kind);
struct soft_op *emit_sysop(struct emit *e, int (*fn)(struct soft_vcpu *, const struct soft_op *));
void emit_mem(struct emit *e, unsigned int i, struct emit_mem *m);
void emit_set_mem(struct soft_op *op, const struct emit_mem *m);
/* Register that holds the segment base of memory operand @i. */
uint8_t emit_seg(const struct emit *e, unsigned int i);
struct soft_op *emit_load(struct emit *e, const struct emit_mem *m, unsigned int lg,
			  unsigned int dst);
struct soft_op *emit_store(struct emit *e, const struct emit_mem *m, unsigned int lg,
			   unsigned int src);
/* Emit an op that leaves the effective address of operand @i in SOFT_TEA. */
void emit_tea(struct emit *e, unsigned int i);
unsigned int emit_reg(const struct emit *e, unsigned int i);
/* Return the register that holds source operand @i. For a memory operand that is SOFT_T0, and a
 * load into it is emitted. */
unsigned int emit_src(struct emit *e, unsigned int i);
/* emit_rmw_begin and emit_rmw_end enclose the ops that modify operand @i. emit_rmw_begin returns
 * the register that those ops must modify. For a memory operand the two emit the load and the
 * store. */
unsigned int emit_rmw_begin(struct emit *e, unsigned int i, struct emit_mem *m);
void emit_rmw_end(struct emit *e, unsigned int i, const struct emit_mem *m);

static inline bool emit_is_mem(const struct emit *e, unsigned int i)
{
	return e->zo[i].type == ZYDIS_OPERAND_TYPE_MEMORY;
}
static inline bool emit_is_reg(const struct emit *e, unsigned int i)
{
	return e->zo[i].type == ZYDIS_OPERAND_TYPE_REGISTER;
}
static inline bool emit_is_imm(const struct emit *e, unsigned int i)
{
	return e->zo[i].type == ZYDIS_OPERAND_TYPE_IMMEDIATE;
}
static inline int64_t emit_imm(const struct emit *e, unsigned int i)
{
	return e->zo[i].imm.value.s;
}
/* log2 of the bytes of operand @i. */
static inline unsigned int emit_lg(const struct emit *e, unsigned int i)
{
	switch (e->zo[i].size) {
	case 8:
		return 0;
	case 16:
		return 1;
	case 32:
		return 2;
	default:
		return 3;
	}
}
static inline unsigned int emit_t0(unsigned int lg)
{
	return lg ? SOFT_T0 : SOFT_T0 * 8;
}
static inline bool emit_lock_prefix(const struct emit *e)
{
	return e->zi->attributes & ZYDIS_ATTRIB_HAS_LOCK;
}
/* Whether other vCPUs must see the instruction as one access. */
static inline bool emit_locked(const struct emit *e)
{
	return !e->c->alone && emit_lock_prefix(e);
}

/* The emitters, by group of instructions. The second argument is the row's arg. */
bool emit_alu(struct emit *e, unsigned int alu);
bool emit_mov(struct emit *e, unsigned int arg);
bool emit_movx(struct emit *e, unsigned int is_signed);
bool emit_lea(struct emit *e, unsigned int arg);
bool emit_unary(struct emit *e, unsigned int opcode);
bool emit_shift(struct emit *e, unsigned int which);
bool emit_rotate(struct emit *e, unsigned int kind);
bool emit_shiftd(struct emit *e, unsigned int right);
bool emit_mul(struct emit *e, unsigned int which);
bool emit_imul(struct emit *e, unsigned int arg);
bool emit_bt(struct emit *e, unsigned int kind);
bool emit_scan(struct emit *e, unsigned int kind);
bool emit_bswap(struct emit *e, unsigned int arg);
bool emit_simple(struct emit *e, unsigned int opcode);
bool emit_hint(struct emit *e, unsigned int arg);
bool emit_cbw(struct emit *e, unsigned int arg);
bool emit_flagop(struct emit *e, unsigned int kind);
bool emit_ahf(struct emit *e, unsigned int store);
bool emit_xchg(struct emit *e, unsigned int arg);
bool emit_pause(struct emit *e, unsigned int arg);
bool emit_xadd(struct emit *e, unsigned int arg);
bool emit_cmpxchg(struct emit *e, unsigned int arg);
bool emit_cmpxchgb(struct emit *e, unsigned int lg);
bool emit_push(struct emit *e, unsigned int arg);
bool emit_pop(struct emit *e, unsigned int arg);
bool emit_leave(struct emit *e, unsigned int arg);
bool emit_enter(struct emit *e, unsigned int arg);
bool emit_jcc(struct emit *e, unsigned int cc);
bool emit_setcc(struct emit *e, unsigned int cc);
bool emit_cmov(struct emit *e, unsigned int cc);
bool emit_jmp(struct emit *e, unsigned int arg);
bool emit_call(struct emit *e, unsigned int arg);
bool emit_ret(struct emit *e, unsigned int arg);
bool emit_loop(struct emit *e, unsigned int opcode);
bool emit_string(struct emit *e, unsigned int arg);
bool emit_fence(struct emit *e, unsigned int arg);
bool emit_system(struct emit *e, unsigned int which);
bool emit_mov_special(struct emit *e);

/* emit_system's instructions. */
enum emit_sys {
	SYS_UD,
	SYS_CLI,
	SYS_STI,
	SYS_HLT,
	SYS_PUSHF,
	SYS_POPF,
	SYS_CLTS,
	SYS_INVLPG,
	SYS_WBINVD,
	SYS_LGDT,
	SYS_LIDT,
	SYS_SGDT,
	SYS_SIDT,
	SYS_LLDT,
	SYS_LTR,
	SYS_STR,
	SYS_SLDT,
	SYS_SWAPGS,
	SYS_RDBASE,
	SYS_WRBASE,
	SYS_CPUID,
	SYS_RDTSC,
	SYS_RDTSCP,
	SYS_RDMSR,
	SYS_WRMSR,
	SYS_RDPMC,
	SYS_IN,
	SYS_OUT,
	SYS_SYSCALL,
	SYS_SYSRET,
	SYS_IRETQ,
	SYS_INT,
	SYS_INT3
};

#endif
