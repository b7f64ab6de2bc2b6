/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Branch records (vpmu/lbr_regs.h; SDM vol. 3, 19.1): how the emulator records a taken branch
 * in the pCPU's tally. The dispatch loop (exec.c) and the far transfers (event.c) call these
 * functions. They must never change the effect of the guest's code.
 *
 * While nothing is recorded, this costs nothing. The dispatch loop compares the ctx of a taken
 * branch's target with v->tctx anyway, and v->tctx is then v->ctx. While branches are recorded,
 * v->tctx matches no block. Every taken branch then takes the slow path of a branch with a link
 * that is not made yet, and that path records it.
 *
 * AMD's CPUs have one more record, of the last branch of any kind: v->last (APM vol. 2, 13.1.6.1).
 * It is kept while DebugCtl.LBR is set, with EMU_LBR_LAST in v->lbr_sel.
 */
#pragma once

#include "vmm/emu/internal.h"
#include "vpmu/lbr_regs.h"

/* Types in IA32_LBR_x_INFO (SDM vol. 4, 1200H). */
enum emu_lbr_type {
	EMU_LBR_JCC = 0,
	EMU_LBR_IND_JMP = 1,
	EMU_LBR_REL_JMP = 2,
	EMU_LBR_IND_CALL = 3,
	EMU_LBR_REL_CALL = 4,
	EMU_LBR_RET = 5,
	EMU_LBR_OTHER = 8
};

#define EMU_LBR_LAST (1u << 31) /* in v->lbr_sel, beside bits of VPMU_LBR_* */

static inline uint32_t emu_lbr_mode(unsigned int cpl)
{
	return cpl ? VPMU_LBR_USR : VPMU_LBR_OS;
}

/* emu_lbr_push - write one record. @acc: packed events since the last fold, including the branch,
 * for the record's cycle count. */
static inline void emu_lbr_push(struct emu_vcpu *v, uint64_t from, uint64_t to,
				enum emu_lbr_type type, uint64_t acc)
{
	struct vpmu_lbr_regs *l = &v->tally->lbr;
	uint64_t now = v->clock + (acc >> EMU_LANE_CYCLES & 0xffff) + v->extra_cycles;
	uint64_t cycles = now - l->cycles;
	struct vpmu_lbr_entry *e;

	l->head = (uint8_t)((l->head + 1) % VPMU_LBR_DEPTH_MAX);
	e = &l->e[l->head];
	e->from = from;
	e->to = to;
	e->info = (cycles < VPMU_LBR_INFO_CYC ? cycles : VPMU_LBR_INFO_CYC) |
		  VPMU_LBR_INFO_CYC_VALID | (uint64_t)type << VPMU_LBR_INFO_TYPE_SHIFT;
	l->cycles = now;
	l->total++;
	if (l->count < l->depth)
		l->count++;
}

/* Call-stack mode: a call adds a record and a return removes the newest one. A call to the next
 * instruction is not recorded: code reads its own address this way, and no return follows. */
static inline void emu_lbr_stack(struct emu_vcpu *v, const struct emu_block *b, uint64_t to,
				 uint64_t acc)
{
	struct vpmu_lbr_regs *l = &v->tally->lbr;

	if (b->branch & VPMU_LBR_RET) {
		if (l->count) {
			l->count--;
			l->head = (uint8_t)((l->head - 1u) % VPMU_LBR_DEPTH_MAX);
		}
	} else if (to != b->next) {
		emu_lbr_push(v, b->last, to, b->branch_type, acc);
	}
}

static inline void emu_lbr_last(struct emu_vcpu *v, uint64_t from, uint64_t to)
{
	v->last.ip[EMU_LAST_FROM] = from;
	v->last.ip[EMU_LAST_TO] = to;
}

/* emu_lbr_taken - record that the branch at the end of v->cur goes to @to. Call it only while
 * v->lbr_sel is not 0. */
static inline void emu_lbr_taken(struct emu_vcpu *v, uint64_t to, uint64_t acc)
{
	const struct emu_block *b = v->cur;

	v->extra += EMU_EFFORT_RECORD; /* also if it is not of a type that is recorded */
	if (v->lbr_sel & EMU_LBR_LAST)
		emu_lbr_last(v, b->last, to);
	if (!(b->branch & v->lbr_sel))
		return;
	if (v->lbr_sel & VPMU_LBR_CALL_STACK)
		emu_lbr_stack(v, b, to, acc);
	else
		emu_lbr_push(v, b->last, to, b->branch_type, acc);
}

/* emu_lbr_far - call it after a far transfer, an interrupt or a fault. It came from address @from
 * in level @cpl and went to v->rip in level v->cpl. It is recorded if branches are recorded in
 * level v->cpl. Its FROM is shown only if branches are recorded in level @cpl too (SDM vol. 3,
 * 19.1.2.3). */
static inline void emu_lbr_far(struct emu_vcpu *v, uint64_t from, unsigned int cpl)
{
	if (likely(!(v->lbr_sel & (VPMU_LBR_OTHER | EMU_LBR_LAST))))
		return;
	if (v->lbr_sel & EMU_LBR_LAST)
		emu_lbr_last(v, from, v->rip);
	if (!(v->lbr_sel & VPMU_LBR_OTHER) || (v->lbr_sel & VPMU_LBR_CALL_STACK))
		return;
	if (!(v->lbr_ctl & emu_lbr_mode(cpl)))
		from = VPMU_LBR_FROM_FILTERED;
	emu_lbr_push(v, from, v->rip, EMU_LBR_OTHER, v->acc);
}

/* emu_lbr_update - call it whenever v->ctx, v->cpl, v->lbr_ctl or v->last.on has changed. */
static inline void emu_lbr_update(struct emu_vcpu *v)
{
	uint32_t sel = 0;

	if (v->lbr_ctl & emu_lbr_mode(v->cpl))
		sel = v->lbr_ctl & (VPMU_LBR_TYPES | VPMU_LBR_CALL_STACK);
	v->lbr_sel = (sel & VPMU_LBR_TYPES ? sel : 0) | (v->last.on ? EMU_LBR_LAST : 0);
	v->tctx = v->lbr_sel ? EMU_CTX_NEVER : v->ctx;
}
