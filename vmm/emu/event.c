// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Interrupt and exception delivery in 64-bit mode, and the instructions that change the privilege
 * level: SYSCALL, SYSRET, SYSENTER, SYSEXIT, IRETQ, INT n, far RET. AMD64 APM vol. 2, 8.9 and 8.2;
 * SDM vol. 3, 6.14.
 *
 * run.c delivers events by emu_deliver() and emu_interrupt(); the dispatch loop calls the
 * emu_sys_* functions. All checks and stores come before the first change of registers, so a trap
 * leaves the registers unchanged. Delivery must never count a retired instruction.
 */
#include <string.h>

#include "vmm/emu/debug.h"
#include "vmm/emu/svm/svm.h"

#define EFER_SCE       1ULL
#define GATE_INTERRUPT 0xe
#define GATE_TRAP      0xf

void emu_set_cpl(struct emu_vcpu *v, unsigned int cpl)
{
	if (cpl == v->cpl)
		return;
	v->extra += EMU_EFFORT_MODE;
	emu_fold(v);
	v->cpl = (uint8_t)cpl;
	v->tlb = v->tlbs[cpl == 3];
	emu_ctx_update(v);
}

/* Interrupt or exception @vec was delivered while the last branch is recorded: the one before it is
 * kept. #DB ends the recording and, like #MC, keeps nothing (APM vol. 2, 13.1.6.1). */
static void event_last(struct emu_vcpu *v, uint8_t vec, bool exception)
{
	if (exception && vec == EMU_DB) {
		v->last.on = false;
		emu_lbr_update(v);
	} else if (!exception || vec != EMU_MC) {
		v->last.ip[EMU_LAST_INT_FROM] = v->last.ip[EMU_LAST_FROM];
		v->last.ip[EMU_LAST_INT_TO] = v->last.ip[EMU_LAST_TO];
	}
}

static int interrupt(struct emu_vcpu *v, uint8_t vec, enum emu_event_kind kind, bool has_err,
		     uint32_t err)
{
	uint32_t ext = kind != EMU_EVENT_EMU, code = vec * 8u + 2 + ext;
	unsigned int type, dpl, ist, cpl;
	uint64_t gate[2], offset, rsp, frame[6], flags = emu_get_rflags(v);
	struct kvm_segment cs;
	unsigned int n = 0, acc, old = v->cpl;
	uint64_t from = kind == EMU_EVENT_EMU ? v->cur->rip : v->rip;
	uint16_t sel;

	v->extra += EMU_EFFORT_EVENT;
	if (vec * 16u + 15 > v->idt.limit)
		return emu_gp(v, code);
	if (emu_sys_read(v, v->idt.base + vec * 16u, gate, 16, 0))
		return 1;
	type = gate[0] >> 40 & 0x1f;
	dpl = gate[0] >> 45 & 3;
	ist = gate[0] >> 32 & 7;
	sel = gate[0] >> 16 & 0xffff;
	offset = (gate[0] & 0xffff) | (gate[0] >> 32 & 0xffff0000) | gate[1] << 32;
	if (type != GATE_INTERRUPT && type != GATE_TRAP)
		return emu_gp(v, code);
	if (kind == EMU_EVENT_EMU && dpl < v->cpl)
		return emu_gp(v, code);
	if (!(gate[0] >> 47 & 1))
		return emu_fault(v, EMU_NP, true, code);

	if (emu_read_cs(v, sel, ext, &cs))
		return 1;
	if (cs.dpl > v->cpl)
		return emu_gp(v, (sel & ~7u) | ext);
	cpl = cs.type & 4 ? v->cpl : cs.dpl;
	if (!emu_canonical(offset))
		return emu_gp(v, ext);

	rsp = v->r[EMU_RSP];
	if (ist || cpl < v->cpl) {
		if (emu_tss(v, ist ? 0x24 + (ist - 1) * 8 : 4 + cpl * 8, &rsp, 8, ext))
			return 1;
		if (!emu_canonical(rsp))
			return emu_fault(v, EMU_STACK, true, ext);
	}
	rsp &= ~15ULL;

	if (has_err)
		frame[n++] = err;
	frame[n++] = v->rip;
	frame[n++] = v->seg[EMU_CS].selector;
	/* The RF bit in the frame is 1 for a fault, except for that of an instruction breakpoint.
	 * For every other event it is RFLAGS.RF, which is 1 after an IRETQ that sets it and, on
	 * Intel's CPUs, between the iterations of a repeated string instruction, and 0 between
	 * other instructions (SDM vol. 3, 18.3.1.1). */
	frame[n++] = flags | (kind == EMU_EVENT_FAULT ? EMU_RF : 0);
	frame[n++] = v->r[EMU_RSP];
	frame[n++] = v->seg[EMU_SS].selector;
	rsp -= n * 8;
	acc = cpl == 3 ? EMU_ACC_U : 0;
	if (emu_sys_write(v, rsp, frame, n * 8, acc)) {
		if (v->trap == EMU_TRAP_FAULT && v->fault.canon)
			emu_fault(v, EMU_STACK, true, ext);
		return 1;
	}

	flags &= ~(EMU_TF | EMU_NT | EMU_RF | EMU_VM);
	if (type == GATE_INTERRUPT)
		flags &= ~EMU_IF;
	emu_put_rflags(v, flags);
	if (cpl != v->cpl) {
		/* SS becomes a null selector with the new CPL as RPL (APM vol. 2, 8.9.3). */
		memset(&v->seg[EMU_SS], 0, sizeof(v->seg[EMU_SS]));
		v->seg[EMU_SS].selector = (uint16_t)cpl;
		v->seg[EMU_SS].dpl = (uint8_t)cpl;
		v->seg[EMU_SS].unusable = 1;
	}
	emu_set_cpl(v, cpl);
	cs.selector = (uint16_t)((sel & ~3u) | cpl);
	v->seg[EMU_CS] = cs;
	v->r[EMU_RSP] = rsp;
	v->rip = offset;
	v->sti_shadow = v->brk.ss_shadow = false;
	if (unlikely(v->last.on))
		event_last(v, vec, kind == EMU_EVENT_FAULT || kind == EMU_EVENT_TRAP);
	emu_lbr_far(v, from, old);
	return 0;
}

int emu_interrupt(struct emu_vcpu *v, uint8_t vec, enum emu_event_kind kind, bool has_err,
		  uint32_t err)
{
	int rc;

	v->brk.quiet = true;
	rc = interrupt(v, vec, kind, has_err, err);
	v->brk.quiet = false;
	return rc;
}

static bool contributory(uint8_t vec)
{
	return vec == EMU_DE || (vec >= EMU_TS && vec <= EMU_GP);
}

int emu_deliver(struct emu_vcpu *v)
{
	uint8_t first = v->fault.vec, vec;
	bool has_err = v->fault.has_err;
	uint32_t err = v->fault.err;
	enum emu_event_kind kind;

	v->brk.hits = 0; /* discarded: the instruction that hit them is not done */
	for (;;) {
		v->trap = EMU_TRAP_NONE;
		v->fault.canon = false;
		if (unlikely(v->guest) && emu_svm_exception(v, first, has_err, err))
			goto leave_guest;
		if (first == EMU_PF_VEC)
			v->cr2 = v->fault.cr2;
		/* #DB never needs RF here: it is a trap, an instruction breakpoint, or a fault that
		 * has set RF already (debug.c). #DF is an abort. */
		kind = first == EMU_DB || first == EMU_DOUBLE ? EMU_EVENT_TRAP : EMU_EVENT_FAULT;
		if (!emu_interrupt(v, first, kind, has_err, err)) {
			if (first == EMU_DB)
				v->dr[7] &= ~EMU_DR7_GD; /* SDM vol. 3, 18.2.4 */
			if (unlikely(v->guest))
				v->svm->outer = 0;
			return 0;
		}
		vec = v->fault.vec;
		if (unlikely(v->guest)) {
			emu_svm_event(v, VMCB_TYPE_EXCEPTION, first, has_err, err);
			if (v->trap == EMU_TRAP_VMEXIT ||
			    (v->trap == EMU_TRAP_FAULT &&
			     emu_svm_exception(v, vec, v->fault.has_err, v->fault.err)))
				goto leave_guest;
		}
		if (v->trap != EMU_TRAP_FAULT)
			return 1;
		if (first == EMU_DOUBLE && unlikely(v->guest) && emu_svm_shutdown(v))
			goto leave_guest;
		if (first == EMU_DOUBLE) {
			v->run->exit = VMM_EXIT_SHUTDOWN;
			v->trap = EMU_TRAP_EXIT;
			return 1;
		}
		/* SDM vol. 3, table 6-5. */
		if ((contributory(first) && contributory(vec)) ||
		    (first == EMU_PF_VEC && (vec == EMU_PF_VEC || contributory(vec)))) {
			if (vec == EMU_PF_VEC)
				v->cr2 = v->fault.cr2;
			if (unlikely(v->guest))
				v->svm->outer = 0;
			first = EMU_DOUBLE;
			has_err = true;
			err = 0;
		} else {
			first = vec;
			has_err = v->fault.has_err;
			err = v->fault.err;
		}
	}
leave_guest:
	emu_svm_exit(v);
	return 0;
}

/*
 * SYSCALL and SYSRET: a single-step trap follows if TF is set after the instruction. For other
 * instructions TF before the instruction decides. So a kernel with TF in its FMASK is not
 * single-stepped at its entry, and the user code that SYSRET returns to gets the trap as if SYSCALL
 * itself had just completed.
 */
int emu_sys_syscall(struct emu_vcpu *v, const struct emu_op *op)
{
	uint64_t flags = emu_get_rflags(v) & ~EMU_RF;
	uint16_t sel = v->star >> 32 & 0xfffc;
	unsigned int old = v->cpl;

	if (!(v->efer & EFER_SCE))
		return emu_ud(v);
	v->r[EMU_RCX] = v->rip;
	v->r[EMU_R11] = flags;
	v->rip = v->lstar;
	emu_taken(v);
	emu_set_cpl(v, 0);
	emu_flat_seg(&v->seg[EMU_CS], sel, 0, true);
	emu_flat_seg(&v->seg[EMU_SS], (uint16_t)(sel + 8), 0, false);
	emu_put_rflags(v, flags & ~v->fmask);
	v->step = v->rflags & EMU_TF;
	emu_lbr_far(v, v->cur->rip, old);
	emu_recheck(v);
	return 0;
}

int emu_sys_sysret(struct emu_vcpu *v, const struct emu_op *op)
{
	uint16_t sel = v->star >> 48 & 0xffff;

	if (!(v->efer & EFER_SCE))
		return emu_ud(v);
	/* AMD's CPUs load any address; the fetch at a non-canonical one faults, in CPL 3. */
	if (v->cpl || (v->intel && !emu_canonical(v->r[EMU_RCX])))
		return emu_gp(v, 0);
	v->rip = v->r[EMU_RCX];
	emu_taken(v);
	emu_set_cpl(v, 3);
	emu_flat_seg(&v->seg[EMU_CS], (uint16_t)((sel + 16) | 3), 3, true);
	emu_flat_seg(&v->seg[EMU_SS], (uint16_t)((sel + 8) | 3), 3, false);
	emu_put_rflags(v, v->r[EMU_R11] & 0x3c7fd7);
	v->step = v->rflags & EMU_TF;
	emu_lbr_far(v, v->cur->rip, 0);
	emu_recheck(v);
	return 0;
}

/* SYSENTER and SYSEXIT exist on vCPUs that show SEP (v->whole). AMD's CPUs have them outside of
 * long mode only (APM vol. 3). */
static int no_sysenter(struct emu_vcpu *v, const struct emu_op *op)
{
	if (!v->whole)
		return emu_sys_closed(v, op);
	return v->intel ? 0 : emu_ud(v);
}

/* SDM vol. 2, SYSENTER. */
int emu_sys_sysenter(struct emu_vcpu *v, const struct emu_op *op)
{
	uint16_t sel = (uint16_t)v->w.sysenter_cs & 0xfffc;
	unsigned int old = v->cpl;

	if (no_sysenter(v, op))
		return 1;
	if (!sel)
		return emu_gp(v, 0);
	emu_taken(v);
	emu_set_cpl(v, 0);
	v->r[EMU_RSP] = v->w.sysenter_esp;
	v->rip = v->w.sysenter_eip;
	emu_flat_seg(&v->seg[EMU_CS], sel, 0, true);
	emu_flat_seg(&v->seg[EMU_SS], (uint16_t)(sel + 8), 0, false);
	emu_put_rflags(v, emu_get_rflags(v) & ~(EMU_IF | EMU_RF));
	emu_lbr_far(v, v->cur->rip, old);
	return 0;
}

/* SDM vol. 2, SYSEXIT: with REX.W to 64-bit code. */
int emu_sys_sysexit(struct emu_vcpu *v, const struct emu_op *op)
{
	uint16_t sel = (uint16_t)v->w.sysenter_cs & 0xfffc;

	if (no_sysenter(v, op))
		return 1;
	if (v->cpl || !sel || !emu_canonical(v->r[EMU_RCX]) || !emu_canonical(v->r[EMU_RDX]))
		return emu_gp(v, 0);
	v->r[EMU_RSP] = v->r[EMU_RCX];
	v->rip = v->r[EMU_RDX];
	emu_taken(v);
	emu_set_cpl(v, 3);
	emu_flat_seg(&v->seg[EMU_CS], (uint16_t)((sel + 32) | 3), 3, true);
	emu_flat_seg(&v->seg[EMU_SS], (uint16_t)((sel + 40) | 3), 3, false);
	emu_lbr_far(v, v->cur->rip, 0);
	emu_recheck(v);
	return 0;
}

/* Load null selectors into the data segments that the new privilege level may not use. FS and GS
 * keep their bases (SDM vol. 2, IRET and RET; AMD64 APM vol. 3, IRET and RET). */
static void drop_segments(struct emu_vcpu *v)
{
	static const uint8_t which[] = {EMU_ES, EMU_DS, EMU_FS, EMU_GS};

	for (unsigned int i = 0; i < sizeof(which); i++) {
		struct kvm_segment *s = &v->seg[which[i]];
		bool conforming = (s->type & 0xc) == 0xc;

		if (!s->unusable && s->dpl < v->cpl && !conforming)
			*s = (struct kvm_segment){.unusable = 1};
	}
}

/* Read @n words of a far return's frame at RSP, one at a time, in the order of the indices in
 * @order[]. Traps. */
static int read_words(struct emu_vcpu *v, uint64_t *f, const uint8_t *order, unsigned int n,
		      unsigned int acc)
{
	for (unsigned int i = 0; i < n; i++)
		if (emu_sys_read(v, v->r[EMU_RSP] + order[i] * 8u, &f[order[i]], 8, acc))
			return 1;
	return 0;
}

/*
 * Read the first @n words of a far return's frame. Traps. The order matters if the frame cannot be
 * read, because it decides which address the fault reports. AMD's CPUs read RIP first. Intel's read
 * RIP after CS and RFLAGS, and their IRETQ reads SS and RSP only after it has checked CS. If
 * *late is set on return, the caller must read SS and RSP after that check.
 */
static int read_frame(struct emu_vcpu *v, uint64_t *f, unsigned int n, unsigned int acc, bool *late)
{
	static const uint8_t order[] = {2, 1, 0};

	v->extra += EMU_EFFORT_FAR;
	*late = false;
	if (!emu_sys_read(v, v->r[EMU_RSP], f, n * 8, acc))
		return 0;
	if (!v->intel || v->trap != EMU_TRAP_FAULT)
		return 1;
	v->trap = EMU_TRAP_NONE;
	*late = n > 3;
	return read_words(v, f, n > 3 ? order : order + 1, n > 3 ? 3 : 2, acc);
}

/* Read the code segment for selector @sel of a frame. Traps. */
static int read_return_cs(struct emu_vcpu *v, uint64_t sel, struct kvm_segment *cs)
{
	unsigned int rpl = sel & 3;

	if (!(sel & 0xfffc))
		return emu_gp(v, 0);
	if (emu_read_cs(v, (uint16_t)sel, 0, cs))
		return 1;
	return rpl < v->cpl || (cs->type & 4 ? cs->dpl > rpl : cs->dpl != rpl)
		       ? emu_gp(v, sel & 0xfffc)
		       : 0;
}

/* Go to the code of frame @f, at the CPL of its CS. v->rip is set already. */
static void event_far_return(struct emu_vcpu *v, const uint64_t *f, const struct kvm_segment *cs,
			     const struct kvm_segment *ss)
{
	unsigned int old = v->cpl, rpl = f[1] & 3;

	emu_taken(v);
	emu_set_cpl(v, rpl);
	v->seg[EMU_CS] = *cs;
	v->seg[EMU_CS].selector = (uint16_t)f[1];
	v->seg[EMU_SS] = *ss;
	if (rpl > old)
		drop_segments(v);
	emu_lbr_far(v, v->cur->rip, old);
}

int emu_sys_iret(struct emu_vcpu *v, const struct emu_op *op)
{
	static const uint8_t rest[] = {4, 3};
	unsigned int acc = v->cpl == 3 ? EMU_ACC_U : 0, rpl;
	uint64_t f[5], keep, now = emu_get_rflags(v);
	struct kvm_segment cs, ss;
	bool late;

	if (now & EMU_NT)
		return emu_gp(v, 0);
	if (read_frame(v, f, 5, acc, &late))
		return 1;
	rpl = f[1] & 3;
	if (read_return_cs(v, f[1], &cs))
		return 1;
	if (late && read_words(v, f, rest, 2, acc))
		return 1;
	if (emu_read_ss(v, (uint16_t)f[4], rpl, &ss))
		return 1;
	if (!emu_canonical(f[0]))
		return emu_gp(v, 0);

	/* Keep the bits that this CPL may not change, and those that IRETQ never loads. */
	keep = EMU_VM | EMU_VIF | EMU_VIP;
	if (v->cpl)
		keep |= EMU_IOPL;
	if (v->cpl > (now & EMU_IOPL) >> 12)
		keep |= EMU_IF;
	emu_put_rflags(v, (now & keep) | (f[2] & 0x3f7fd7 & ~keep));
	v->rip = f[0];
	v->r[EMU_RSP] = f[3];
	event_far_return(v, f, &cs, &ss);
	v->nmi_masked = false;
	v->sti_shadow = false;
	emu_recheck(v);
	if (v->rflags & EMU_RF)
		v->attn |= EMU_ATTN_EVENT; /* chunk() clears it for the next instruction */
	return 0;
}

/* INT n and INT3: the gate's DPL is checked, and the frame's RIP is the next instruction. */
int emu_sys_int(struct emu_vcpu *v, const struct emu_op *op)
{
	uint64_t acc = v->acc;

	/* The taken branch belongs to the mode that executes INT: count before the mode changes. */
	emu_taken(v);
	if (emu_interrupt(v, (uint8_t)op->imm, EMU_EVENT_EMU, false, 0)) {
		v->acc = acc;
		if (unlikely(v->guest))
			emu_svm_event(v, op->idx ? VMCB_TYPE_EXCEPTION : VMCB_TYPE_SOFT,
				      (uint8_t)op->imm, false, 0);
		return 1;
	}
	v->step = false; /* INT clears TF, and no debug trap follows it (SDM vol. 3, 18.3.1.4) */
	return 0;
}

/* RETF to 64-bit code. Kernels use it to load CS. */
int emu_sys_retf(struct emu_vcpu *v, const struct emu_op *op)
{
	unsigned int acc = v->cpl == 3 ? EMU_ACC_U : 0, rpl;
	uint64_t f[4] = {0}, rsp = v->r[EMU_RSP];
	struct kvm_segment cs, ss = v->seg[EMU_SS];
	bool late;

	if (read_frame(v, f, 2, acc, &late))
		return 1;
	rpl = f[1] & 3;
	if (read_return_cs(v, f[1], &cs))
		return 1;
	rsp += 16 + (uint64_t)op->imm;
	if (rpl > v->cpl) {
		if (emu_sys_read(v, rsp, f + 2, 16, acc) ||
		    emu_read_ss(v, (uint16_t)f[3], rpl, &ss))
			return 1;
		rsp = f[2] + (uint64_t)op->imm;
	}
	if (!emu_canonical(f[0]))
		return emu_gp(v, 0);
	v->rip = f[0];
	v->r[EMU_RSP] = rsp;
	event_far_return(v, f, &cs, &ss);
	return 0;
}
