/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * 16- and 32-bit code at CPL 0, one instruction at a time: the trampoline of a stock kernel, from
 * the start-up IPI to 64-bit mode. legacy.c fetches and counts, the other files execute.
 */
#pragma once

#include "vmm/emu/cpu/emit.h"

struct legacy {
	struct emu_vcpu *v;
	const ZydisDecodedInstruction *zi;
	const ZydisDecodedOperand *zo;
	const struct legacy_row *row;
	uint64_t next; /* RIP after the instruction completes */
	bool taken;    /* it is a taken branch */
};

/* Executes the decoded instruction. Returns as emu_sys_* (internal.h), or -1 if this form of it is
 * not in the list. */
typedef int legacy_fn(struct legacy *l);

struct legacy_row {
	ZydisMnemonic mnemonic;
	legacy_fn *fn;
	unsigned int arg;
	emu_op_fn *op; /* the helper of 64-bit mode that @fn calls, or NULL */
};
/* arg of legacy_modify: a kind of emu_help_locked(), and flags. */
#define LEGACY_CMPXCHG8B 63u
#define LEGACY_TEST	 64u  /* stores no result */
#define LEGACY_LOCKED	 128u /* in the list only with LOCK */
/* arg of string instructions */
#define LEGACY_LOAD  1u
#define LEGACY_STORE 2u

/* emu_legacy_step - execute one instruction of a vCPU that is not in 64-bit mode. An unsupported
 * instruction ends run() with VMM_EXIT_ERROR, and so does an exception, as nothing can be delivered
 * here. */
void emu_legacy_step(struct emu_vcpu *v);

/* emu_legacy_interrupt - deliver vector @vec in real mode; v->rip is the return address. Nothing
 * changes if it traps. */
int emu_legacy_interrupt(struct emu_vcpu *v, uint8_t vec);

/* emu_legacy_insn - execute the decoded instruction. As legacy_fn, or LEGACY_AGAIN. */
legacy_fn emu_legacy_insn;

/* A repeated string instruction is not done; it goes on from the registers. */
#define LEGACY_AGAIN 3

/* ---- legacy_insn.c: shared by the files of instructions. Return as emu_sys_*. ---- */
/* The segment register @r; DS if @r is no segment register. */
struct kvm_segment *legacy_segment(struct emu_vcpu *v, ZydisRegister r);
/* The linear address of @bytes at @off in segment @s. Traps. */
int legacy_linear(struct emu_vcpu *v, const struct kvm_segment *s, uint64_t off, unsigned int bytes,
		  bool write, uint64_t *la);
int legacy_load(struct emu_vcpu *v, const struct kvm_segment *s, uint64_t off, unsigned int bytes,
		uint64_t *x);
int legacy_insn_store(struct emu_vcpu *v, const struct kvm_segment *s, uint64_t off,
		      unsigned int bytes, uint64_t x);
/* The bytes of operand @i, and their log2. */
unsigned int legacy_insn_bytes_of(const struct legacy *l, unsigned int i);
static inline unsigned int legacy_insn_lg(const struct legacy *l, unsigned int i)
{
	return (unsigned int)__builtin_ctz(legacy_insn_bytes_of(l, i));
}
/* Read or write operand @i. */
int legacy_insn_get(struct legacy *l, unsigned int i, uint64_t *x);
int legacy_insn_put(struct legacy *l, unsigned int i, uint64_t x);
/* Store @n values of @bytes below the top of the stack, the first one first. Traps. */
int legacy_push(struct emu_vcpu *v, unsigned int bytes, const uint64_t *x, unsigned int n);
/* Read the value at SP + @skip; the caller moves SP once nothing can fail any more. */
int legacy_insn_peek(struct emu_vcpu *v, unsigned int skip, unsigned int bytes, uint64_t *x);
void legacy_insn_drop(struct emu_vcpu *v, unsigned int bytes);
/* The offset of a memory operand in its segment. */
uint64_t legacy_address(const struct legacy *l, const ZydisDecodedOperandMem *m);

legacy_fn legacy_mov, legacy_lea, legacy_call, legacy_ret, legacy_jmp, legacy_jcc, legacy_port;

/* ---- legacy_stack.c ---- */
/* The far pointer in memory operand @o. Traps. */
int legacy_far_pointer(struct legacy *l, const ZydisDecodedOperand *o, uint64_t *off,
		       uint64_t *sel);
legacy_fn legacy_pushv, legacy_pushf, legacy_pop, legacy_popf, legacy_push_all, legacy_pop_all,
	legacy_int, legacy_iret, legacy_far_call, legacy_leave, legacy_load_far, legacy_store_table;

/* ---- legacy_arith.c ---- */
legacy_fn legacy_op; /* calls the row's helper with arg as op->idx */
legacy_fn legacy_multiply, legacy_rotate, legacy_imul, legacy_shiftd, legacy_scan, legacy_movx,
	legacy_bswap, legacy_cwde, legacy_cdq, legacy_x87, legacy_string, legacy_string_port;

/* ---- legacy_modify.c; legacy_locked: a row of legacy_modify with LOCK ---- */
legacy_fn legacy_modify, legacy_locked, legacy_shift;

/* ---- legacy_mode.c; legacy_load_system: LTR of a 32-bit TSS, LLDT of a null selector, from a
 * register ---- */
int legacy_load_segment(struct emu_vcpu *v, unsigned int seg, uint16_t sel);
/* legacy_far_to - transfer to @sel:@off. Only to code of CPL 0: everything else is #GP here. */
int legacy_far_to(struct legacy *l, uint16_t sel, uint64_t off);
legacy_fn legacy_far_jump, legacy_mov_cr, legacy_wrmsr, legacy_load_system, legacy_load_table;
