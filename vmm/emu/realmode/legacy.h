/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * 16- and 32-bit code at CPL 0, one instruction at a time: the trampoline of a stock kernel, from
 * the start-up IPI to 64-bit mode. legacy.c fetches and counts, the other files execute.
 */
#ifndef VMM_EMU_REALMODE_LEGACY_H
#define VMM_EMU_REALMODE_LEGACY_H

#include "vmm/emu/cpu/emit.h"

struct legacy {
	struct emu_vcpu *v;
	const ZydisDecodedInstruction *zi;
	const ZydisDecodedOperand *zo;
	uint64_t next; /* RIP after the instruction completes */
	bool taken;    /* it is a taken branch */
};

/* emu_legacy_step - execute one instruction of a vCPU that is not in 64-bit mode. An unsupported
 * instruction ends run() with VMM_EXIT_ERROR, and so does an exception, as nothing can be delivered
 * here. */
void emu_legacy_step(struct emu_vcpu *v);

/* emu_legacy_interrupt - deliver vector @vec in real mode; v->rip is the return address. Nothing
 * changes if it traps. */
int emu_legacy_interrupt(struct emu_vcpu *v, uint8_t vec);

/* emu_legacy_insn - execute the decoded instruction. Returns as emu_sys_* (internal.h), or -1 if
 * the instruction is not in the list. LEGACY_AGAIN. */
int emu_legacy_insn(struct legacy *l);

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

/* ---- legacy_stack.c ---- */
/* legacy_stack - PUSH, POP, PUSHF, POPF, PUSHA, POPA, INT, IRET, far CALL, LEAVE, far pointers,
 * SGDT, SIDT. As emu_legacy_insn(). */
int legacy_stack(struct legacy *l);

/* ---- legacy_arith.c ---- */
/* legacy_arith - an instruction that legacy_insn.c does not have. As emu_legacy_insn(). */
int legacy_arith(struct legacy *l);

/* ---- legacy_lock.c ---- */
/* legacy_locked - an instruction with a LOCK prefix, or XCHG with memory. */
int legacy_locked(struct legacy *l);

/* ---- legacy_mode.c ---- */
int legacy_load_segment(struct emu_vcpu *v, unsigned int seg, uint16_t sel);
/* legacy_far_to - transfer to @sel:@off. Only to code of CPL 0: everything else is #GP here. */
int legacy_far_to(struct legacy *l, uint16_t sel, uint64_t off);
int legacy_far_jump(struct legacy *l);
int legacy_mov_cr(struct legacy *l);
int legacy_wrmsr(struct legacy *l);
/* legacy_load_system - LTR of a 32-bit TSS, LLDT of a null selector, from a register. */
int legacy_load_system(struct legacy *l);
int legacy_load_table(struct legacy *l, struct kvm_dtable *t);

#endif
