// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Interrupts of a soft vCPU: connects the registers of its local APIC (lapic.c) to the events that
 * run() delivers. Callers are msr.c (the guest accesses the APIC), run.c (an event was taken),
 * engine.c (pmi(), new system registers) and state.c (snapshots). This file must never deliver an
 * event itself: run.c and event.c do.
 *
 * The vCPU can have one vector and one NMI queued: v->intr_pending, v->nmi_pending. Every other
 * event waits in the APIC. Whenever the APIC or the queue changes, soft_irq_update() queues the
 * event that comes next. Between any two instructions this holds: if the APIC could deliver a
 * vector, a vector is queued, either that one or one that the caller has queued by interrupt().
 */
#include "vmm/soft/internal.h"

#define APIC_BASE_X2APIC (3ULL << 10) /* EN and EXTD: SDM vol. 3, 11.12.1 */

bool soft_lapic_on(const struct soft_vcpu *v)
{
	return (v->apic_base & APIC_BASE_X2APIC) == APIC_BASE_X2APIC;
}

bool soft_irq_settled(const struct lapic *l, bool nmi, bool intr, uint8_t vector)
{
	if (l->nmi && !nmi)
		return false;
	if (l->offered)
		return intr && vector == l->offered;
	return intr || !lapic_next(l);
}

void soft_irq_update(struct soft_vcpu *v)
{
	struct lapic *l = &v->lapic;

	if (l->nmi && !v->nmi_pending) {
		v->nmi_pending = true;
		l->nmi = false;
	}
	/* Take the queued vector back: a vector of a higher class may have arrived. */
	if (l->offered)
		v->intr_pending = false;
	l->offered = 0;
	if (!v->intr_pending && lapic_next(l)) {
		l->offered = (uint8_t)lapic_next(l);
		v->intr_vec = l->offered;
		v->intr_pending = true;
	}
	soft_recheck(v);
}

void soft_irq_taken(struct soft_vcpu *v)
{
	if (v->lapic.offered && !v->intr_pending)
		lapic_taken(&v->lapic);
	soft_irq_update(v);
}

void soft_lapic_mode(struct soft_vcpu *v)
{
	if (soft_lapic_on(v))
		return;
	/* An APIC that is switched off loses its state (SDM vol. 3, 11.12.5.1). */
	if (v->lapic.offered)
		v->intr_pending = false;
	lapic_init(&v->lapic, v->id);
}

struct lapic soft_lapic(const struct soft_vcpu *v)
{
	struct lapic l = v->lapic;

	/* CR8 is TPR bits 7:4. A write of CR8 clears TPR bits 3:0 (SDM vol. 3, 11.8.6). */
	if (soft_lapic_on(v) && v->cr8 != l.tpr >> 4)
		l.tpr = (uint32_t)v->cr8 << 4;
	return l;
}

int soft_lapic_rdmsr(struct soft_vcpu *v, uint32_t msr, uint64_t *x)
{
	v->extra += SOFT_EFFORT_APIC;
	if (!soft_lapic_on(v))
		return soft_gp(v, 0);
	v->lapic = soft_lapic(v);
	return lapic_rdmsr(&v->lapic, msr, x) ? soft_gp(v, 0) : 0;
}

int soft_lapic_wrmsr(struct soft_vcpu *v, uint32_t msr, uint64_t x)
{
	v->extra += SOFT_EFFORT_APIC;
	if (!soft_lapic_on(v))
		return soft_gp(v, 0);
	v->lapic = soft_lapic(v);
	if (lapic_wrmsr(&v->lapic, msr, x))
		return soft_gp(v, 0);
	v->cr8 = v->lapic.tpr >> 4;
	soft_irq_update(v);
	return 0;
}

void soft_pmi(struct soft_vcpu *v)
{
	if (!soft_lapic_on(v))
		return;
	lapic_pmi(&v->lapic, v->intel);
	soft_irq_update(v);
}
