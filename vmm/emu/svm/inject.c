// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Events of a guest: those that VMRUN injects (APM vol. 2, 15.20), virtual interrupts (15.21), and
 * exits by exceptions, interrupts and NMIs (15.12, 15.13). run.c asks before each chunk. Delivery
 * itself is event.c's; an exit in the middle of one reports the event in EXITINTINFO.
 */
#include "vmm/emu/realmode/legacy.h"
#include "vmm/emu/svm/svm.h"

bool emu_svm_exception(struct emu_vcpu *v, uint8_t vec, bool has_err, uint32_t err)
{
	if (vec > 31 || !(v->svm->c.exceptions >> vec & 1))
		return false;
	/* An intercepted #PF leaves CR2 alone: event.c has not set it yet. */
	svm_trap(v, VMEXIT_EXCP + vec, has_err ? err : 0, vec == EMU_PF_VEC ? v->fault.cr2 : 0, 0);
	v->svm->exit.bytes = vec == EMU_PF_VEC && !(err & EMU_ACC_X);
	return true;
}

bool emu_svm_shutdown(struct emu_vcpu *v)
{
	if (!svm_wants(v, VMEXIT_SHUTDOWN))
		return false;
	svm_trap(v, VMEXIT_SHUTDOWN, 0, 0, 0);
	v->svm->outer = 0;
	return true;
}

void emu_svm_event(struct emu_vcpu *v, unsigned int type, uint8_t vec, bool has_err, uint32_t err)
{
	v->svm->outer = vec | type << 8 | (has_err ? VMCB_EVENT_ERROR : 0) | VMCB_EVENT_VALID |
			(has_err ? (uint64_t)err << 32 : 0);
}

/* Deliver an event; @ret is the return address. Returns as emu_svm_events(). */
static int svm_deliver(struct emu_vcpu *v, unsigned int type, uint8_t vec, bool has_err,
		       uint32_t err, uint64_t ret)
{
	enum emu_event_kind kind = type == VMCB_TYPE_EXCEPTION ? EMU_EVENT_FAULT : EMU_EVENT_EXT;
	uint64_t rip = v->rip;

	emu_svm_event(v, type, vec, has_err, err);
	v->rip = ret;
	if (!(emu_in_64bit(v) ? emu_interrupt(v, vec, kind, has_err, err)
			      : emu_legacy_interrupt(v, vec))) {
		v->svm->outer = 0;
		return 1;
	}
	v->rip = rip;
	if (v->trap == EMU_TRAP_FAULT && !emu_in_64bit(v) &&
	    !emu_svm_exception(v, v->fault.vec, v->fault.has_err, v->fault.err))
		emu_error(v, "exception %u while an event is delivered in real mode", v->fault.vec);
	if (v->trap == EMU_TRAP_VMEXIT) {
		emu_svm_exit(v);
		return 1;
	}
	return v->trap == EMU_TRAP_FAULT && !emu_deliver(v) ? 1 : 2;
}

/* Events are delivered in 64-bit code and in real mode; in other code they wait. */
static bool delivers(const struct emu_vcpu *v)
{
	return emu_in_64bit(v) || !(v->cr0 & 1);
}

/* EVENTINJ. Software interrupts and #BP, #OF push the RIP behind the instruction (15.20, 15.7.1).
 */
static int inject(struct emu_vcpu *v)
{
	uint64_t e = v->svm->inject, ret = v->rip;
	unsigned int type = VMCB_EVENT_TYPE(e);
	uint8_t vec = e & VMCB_EVENT_VECTOR;

	v->svm->inject = 0;
	if (type == VMCB_TYPE_NMI)
		vec = EMU_NMI;
	if (type == VMCB_TYPE_SOFT || (type == VMCB_TYPE_EXCEPTION && (vec == 3 || vec == 4)))
		ret = v->svm->c.next_rip;
	if (!delivers(v)) {
		emu_error(v,
			  "event of vector %u injected into protected mode, where none is "
			  "delivered",
			  vec);
		return 2;
	}
	return svm_deliver(v, type, vec, type == VMCB_TYPE_EXCEPTION && (e & VMCB_EVENT_ERROR),
			   (uint32_t)(e >> 32), ret);
}

bool emu_svm_open(const struct emu_vcpu *v)
{
	uint64_t flags = v->svm->c.int_ctl & VMCB_V_INTR_MASKING ? v->svm->host.rflags : v->rflags;

	return flags & EMU_IF;
}

static bool physical_due(const struct emu_vcpu *v)
{
	return v->intr_pending && emu_svm_open(v) && v->intr_vec >> 4 > v->cr8 && !v->sti_shadow;
}

static bool nmi_due(const struct emu_vcpu *v)
{
	return v->nmi_pending && !v->nmi_masked && !v->sti_shadow;
}

static bool virtual_due(const struct emu_vcpu *v)
{
	uint32_t ctl = v->svm->c.int_ctl;
	unsigned int tpr = ctl & VMCB_V_INTR_MASKING ? v->svm->vtpr : (unsigned int)v->cr8;

	return v->virq && (v->rflags & EMU_IF) && !v->sti_shadow &&
	       ((ctl & VMCB_V_IGN_TPR) || (ctl >> VMCB_V_PRIO_SHIFT & 15) > tpr);
}

bool emu_svm_wakes(const struct emu_vcpu *v)
{
	return v->svm->inject || nmi_due(v) || physical_due(v) || virtual_due(v);
}

static int exit_by(struct emu_vcpu *v, unsigned int code)
{
	svm_trap(v, code, 0, 0, 0);
	emu_svm_exit(v);
	return 1;
}

int emu_svm_events(struct emu_vcpu *v)
{
	uint8_t vec;

	if (v->svm->inject)
		return inject(v);
	if (nmi_due(v)) {
		if (svm_wants(v, VMEXIT_NMI))
			return exit_by(v, VMEXIT_NMI);
		if (delivers(v)) {
			v->nmi_pending = false;
			v->nmi_masked = true;
			emu_irq_taken(v);
			return svm_deliver(v, VMCB_TYPE_NMI, EMU_NMI, false, 0, v->rip);
		}
	}
	if (physical_due(v)) {
		if (svm_wants(v, VMEXIT_INTR))
			return exit_by(v, VMEXIT_INTR);
		if (delivers(v) && (v->rflags & EMU_IF)) {
			vec = v->intr_vec;
			v->intr_pending = false;
			emu_irq_taken(v);
			return svm_deliver(v, VMCB_TYPE_INTR, vec, false, 0, v->rip);
		}
	}
	if (virtual_due(v)) {
		if (svm_wants(v, VMEXIT_VINTR))
			return exit_by(v, VMEXIT_VINTR);
		if (delivers(v)) {
			v->virq = false;
			return svm_deliver(v, VMCB_TYPE_INTR, (uint8_t)v->svm->c.int_vector, false,
					   0, v->rip);
		}
	}
	return 0;
}
