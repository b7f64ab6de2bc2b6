/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * 16- and 32-bit code at CPL 0, one instruction at a time: the trampoline of a stock kernel, from
 * the start-up IPI to 64-bit mode. legacy.c fetches and counts, legacy_insn.c, legacy_lock.c and
 * legacy_mode.c execute.
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

/* emu_legacy_insn - execute the decoded instruction. Returns as emu_sys_* (internal.h), or -1 if
 * the instruction is not in the list of legacy_insn.c. */
int emu_legacy_insn(struct legacy *l);

/* ---- legacy_insn.c: shared by the files of instructions. Return as emu_sys_*. ---- */
/* The segment register @r; DS if @r is no segment register. */
struct kvm_segment *legacy_segment(struct emu_vcpu *v, ZydisRegister r);
/* The linear address of @bytes at @off in segment @s. Traps. */
int legacy_linear(struct emu_vcpu *v, const struct kvm_segment *s, uint64_t off, unsigned int bytes,
		  bool write, uint64_t *la);
int legacy_load(struct emu_vcpu *v, const struct kvm_segment *s, uint64_t off, unsigned int bytes,
		uint64_t *x);
/* The offset of a memory operand in its segment. */
uint64_t legacy_address(const struct legacy *l, const ZydisDecodedOperandMem *m);

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
int legacy_load_table(struct legacy *l, struct kvm_dtable *t);

#endif
