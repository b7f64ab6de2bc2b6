// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Interrupts of an emulator vCPU: connects the registers of its local APIC (lapic.c) to the events
 * that run() delivers. Callers are msr.c (the guest accesses the APIC), run.c (an event was taken),
 * engine.c (pmi(), new system registers) and state.c (snapshots). This file must never deliver an
 * event itself: run.c and event.c do.
 *
 * The vCPU can have one vector and one NMI queued: v->intr_pending, v->nmi_pending. Every other
 * event waits in the APIC. Whenever the APIC or the queue changes, emu_irq_update() queues the next
 * event. Invariant between any two instructions: if the APIC could deliver a vector, a vector is
 * queued, either that one or one from the caller (interrupt()).
 */
#include "vmm/emu/irqchip/chip.h"
#include "vmm/emu/internal.h"

#define APIC_BASE_X2APIC (3ULL << 10) /* EN and EXTD: SDM vol. 3, 11.12.1 */

static bool in_x2apic(const struct emu_vcpu *v)
{
	return (v->apic_base & APIC_BASE_X2APIC) == APIC_BASE_X2APIC;
}

bool emu_lapic_on(const struct emu_vcpu *v)
{
	return v->chip ? v->apic_base & APIC_BASE_EN : in_x2apic(v);
}

bool emu_irq_settled(const struct lapic *l, bool nmi, bool intr, uint8_t vector)
{
	if (l->nmi && !nmi)
		return false;
	if (l->offered)
		return intr && vector == l->offered;
	return intr || !lapic_next(l);
}

void emu_irq_update(struct emu_vcpu *v)
{
	struct lapic *l = &v->lapic;

	/* While an NMI is handled the CPU keeps one more, and further ones are lost: SDM vol. 3,
	 * 6.7.1. Two can have arrived since run() returned. A CPU would have begun to handle the
	 * first before the second arrived, so keep both. */
	if (l->nmi && (!v->nmi_pending || v->nmi_masked)) {
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
	emu_recheck(v);
}

void emu_irq_taken(struct emu_vcpu *v)
{
	if (v->chip)
		v->extra += EMU_EFFORT_INTERRUPT;
	if (v->lapic.offered && !v->intr_pending)
		lapic_taken(&v->lapic);
	emu_irq_update(v);
}

void emu_lapic_mode(struct emu_vcpu *v)
{
	struct lapic *l = &v->lapic;

	if (v->chip && emu_lapic_on(v)) {
		if (in_x2apic(v) && !l->x2)
			lapic_enter_x2apic(l);
		l->x2 = in_x2apic(v);
		emu_chip_address(v);
	}
	if (emu_lapic_on(v))
		return;
	/* An APIC that is switched off loses its state (SDM vol. 3, 11.12.5.1). */
	if (l->offered)
		v->intr_pending = false;
	if (!v->chip) {
		lapic_init(l, v->id);
		return;
	}
	lapic_init_full(l, v->id, l->deadline);
	emu_chip_address(v);
	emu_chip_timer(v);
}

/* Copy into the APIC the registers that are kept elsewhere. */
static void bring_up_to_date(struct emu_vcpu *v)
{
	v->lapic = emu_lapic(v);
	if (!v->chip)
		return;
	v->lapic.now = emu_chip_now(v, emu_unfolded(v));
	v->lapic.tsc_offset = v->tsc_offset;
}

/* The guest has written to the APIC. */
static void irq_written(struct emu_vcpu *v)
{
	v->cr8 = v->lapic.tpr >> 4;
	if (v->chip)
		emu_chip_after(v);
	emu_irq_update(v);
}

struct lapic emu_lapic(const struct emu_vcpu *v)
{
	struct lapic l = v->lapic;

	/* CR8 is TPR bits 7:4. A write of CR8 clears TPR bits 3:0 (SDM vol. 3, 11.8.6). */
	if (emu_lapic_on(v) && v->cr8 != l.tpr >> 4)
		l.tpr = (uint32_t)v->cr8 << 4;
	return l;
}

int emu_lapic_rdmsr(struct emu_vcpu *v, uint32_t msr, uint64_t *x)
{
	v->extra += EMU_EFFORT_APIC;
	if (!in_x2apic(v))
		return emu_gp(v, 0);
	bring_up_to_date(v);
	return lapic_rdmsr(&v->lapic, msr, x) ? emu_gp(v, 0) : 0;
}

int emu_lapic_wrmsr(struct emu_vcpu *v, uint32_t msr, uint64_t x)
{
	v->extra += EMU_EFFORT_APIC;
	if (!in_x2apic(v))
		return emu_gp(v, 0);
	bring_up_to_date(v);
	if (lapic_wrmsr(&v->lapic, msr, x))
		return emu_gp(v, 0);
	irq_written(v);
	return 0;
}

/* The instruction executes alone: only it is unfolded. */
uint32_t emu_lapic_mmio_read(struct emu_vcpu *v, uint32_t reg)
{
	uint32_t x;

	v->acc = 0;
	bring_up_to_date(v);
	x = lapic_mmio_read(&v->lapic, reg);
	emu_irq_update(v); /* an error may interrupt */
	return x;
}

void emu_lapic_mmio_write(struct emu_vcpu *v, uint32_t reg, uint32_t x)
{
	v->acc = 0;
	bring_up_to_date(v);
	lapic_mmio_write(&v->lapic, reg, x);
	irq_written(v);
}

void emu_lapic_deadline(struct emu_vcpu *v, const uint64_t *x)
{
	bring_up_to_date(v);
	if (x)
		lapic_wr_deadline(&v->lapic, *x);
	emu_chip_timer(v);
}

void emu_pmi(struct emu_vcpu *v)
{
	if (!emu_lapic_on(v))
		return;
	lapic_pmi(&v->lapic, v->intel);
	emu_irq_update(v);
}
