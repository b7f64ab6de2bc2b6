/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * AVX-512, between emit_evex.c, evexstub.c and the helpers in evex.c, evex_mem.c and evex_fp.c.
 *
 * A stub is the guest's instruction on fixed registers: ModRM.reg is register 1, ModRM.rm register
 * 2, EVEX.vvvv register 0 (which is also how an absent vvvv is encoded), the mask is k1. A memory
 * operand is loaded first, and broadcast, so stubs have none. Embedded rounding becomes MXCSR.RC.
 * Zeroing is done by evex.c. So a stub depends on opcode, prefix, W, the vector's length, and the
 * immediate byte alone.
 */
#pragma once

#include "vmm/emu/cpu/emit.h"

union evex_reg {
	uint8_t b[64];
	uint32_t d[16];
	uint64_t q[8];
	union emu_xmm x[4];
} __attribute__((aligned(64)));

/* Operands of a stub, in and out. */
struct evex_io {
	union evex_reg z[3];
	uint64_t k[2];	/* k1, k2; only k1 is an output */
	uint64_t r[2];	/* RCX (ModRM.reg), RDX (ModRM.rm) */
	uint64_t flags; /* out: RFLAGS */
	uint32_t mxcsr, host;
};
enum { EVEX_VVVV, EVEX_REG, EVEX_RM };

/* Where the result of a stub goes. */
enum evex_to {
	EVEX_TO_REG, /* vector register op->dst */
	EVEX_TO_RM,  /* vector register op->src */
	EVEX_TO_K,   /* opmask register op->dst */
	EVEX_TO_RCX, /* general register op->dst */
	EVEX_TO_RDX, /* general register op->src */
	EVEX_TO_FLAGS,
	EVEX_TO_NOTHING,
};
/* What happens to the operands before the stub. */
enum evex_prepare {
	EVEX_AS_IS,
	EVEX_SHIFT,    /* by the constant count: rm is the first operand */
	EVEX_ROTATE_D, /* the same, with a count in each element */
	EVEX_ROTATE_Q,
	EVEX_BYTES_LEFT, /* VPSLLDQ: the lanes of rm are the upper half of VPALIGNR's operand */
	EVEX_UPPER,	 /* the memory operand stands for the upper half of 16 bytes */
};
/* What memory operand a store writes. */
enum evex_store {
	EVEX_LOAD,
	EVEX_STORE_REG,	  /* register op->dst, without a stub */
	EVEX_STORE_UPPER, /* the upper half of its lowest 16 bytes */
	EVEX_STORE_RM,	  /* the stub's register 2 */
	EVEX_STORE_RDX,
};
#define EVEX_NONE 32u /* op->dst, op->src, op->scale: there is no such operand */
/* op->idx: op->src is a general register, or an opmask register */
#define EVEX_RM_GPR 1u
#define EVEX_RM_K   2u

/* op->imm. op->dst, op->src, op->scale: the registers that ModRM.reg, ModRM.rm and EVEX.vvvv
 * encode; op->base: bytes of the memory operand at EMU_TEA, or 0. */
union evex_op {
	int64_t imm;
	struct {
		uint64_t stub : 16;  /* number of the stub */
		uint64_t mask : 3;   /* opmask register; 0: none */
		uint64_t zero : 1;   /* elements that are masked off become 0 */
		uint64_t kept : 1;   /* the destination is a source, too, or all is written */
		uint64_t fp : 1;     /* uses MXCSR */
		uint64_t sae : 1;    /* raises no exceptions */
		uint64_t round : 3;  /* 1 + the rounding mode; 0: that of MXCSR */
		uint64_t length : 2; /* log2 of the vector's 16-byte lanes */
		uint64_t lg : 2;     /* log2 of the bytes of an element of the destination */
		uint64_t mem_lg : 2; /* and of what a mask bit stands for in memory */
		uint64_t broadcast : 1;
		uint64_t whole : 1;  /* memory is read in whole, regardless of the mask */
		uint64_t packed : 1; /* memory has only the elements of the mask, in sequence */
		uint64_t scalar : 1;
		uint64_t align : 1;
		uint64_t long_ : 1; /* a division or square root */
		uint64_t to : 3, prepare : 3, store : 3;
		uint64_t count : 8;
	};
};
_Static_assert(sizeof(union evex_op) == 8, "it is op->imm");

/* evexstub.c */
/* Execute a stub, without and with MXCSR as emu_simd_fp() does. */
void emu_evex_int(struct evex_io *io, const void *stub);
void emu_evex_fp(struct evex_io *io, const void *stub);
/* emu_evex_find - return the number of the stub, or -1. @length: as above. */
int emu_evex_find(unsigned int map, unsigned int prefix, bool w, unsigned int length,
		  unsigned int opcode, unsigned int imm);
const uint8_t *emu_evex_stub(unsigned int number);
/* emu_evex_opcode - map << 12 | W << 11 | prefix << 8 | opcode of a stub. */
unsigned int emu_evex_opcode(unsigned int number, unsigned int *imm);
#define EVEX_OPCODE(map, w, prefix, opcode) ((map) << 12 | (w) << 11 | (prefix) << 8 | (opcode))

/* evex_fp.c: execute a stub that uses MXCSR, with its exceptions. Traps. */
int emu_evex_run_fp(struct emu_vcpu *v, union evex_op e, struct evex_io *io);

/* evex.c */
static inline unsigned int evex_bytes(union evex_op e)
{
	return 16u << e.length;
}
union evex_reg evex_get(const struct emu_vcpu *v, unsigned int n);
void evex_put(struct emu_vcpu *v, unsigned int n, const union evex_reg *z);
static inline uint64_t evex_mask(const struct emu_vcpu *v, union evex_op e)
{
	return e.mask ? v->fpu.k[e.mask] : UINT64_MAX;
}

/* evex_mem.c: the memory operand. evex_open checks a store's accesses, and evex_close makes them,
 * with the elements of @from; in between the instruction must not access memory. evex_load and
 * evex_open trap. */
struct evex_area {
	uint8_t *direct;    /* or NULL: emu_area_io() */
	unsigned int first; /* offset of the area in the operand */
	uint64_t bits;	    /* elements to store */
	bool open;	    /* by emu_area_open() */
};
int evex_load(struct emu_vcpu *v, const struct emu_op *op, union evex_op e, union evex_reg *to);
int evex_open(struct emu_vcpu *v, const struct emu_op *op, union evex_op e, struct evex_area *a);
void evex_close(struct emu_vcpu *v, union evex_op e, const struct evex_area *a, const void *from);
