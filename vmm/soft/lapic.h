/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The local APIC of one soft vCPU, x2APIC mode only (SDM vol. 3, 11.12): as much as delivering a
 * PMI needs. LVT performance entry with fixed and NMI delivery and mask; IRR, ISR, TPR, PPR, EOI;
 * SVR, ESR with its error interrupt, self IPIs; the other LVT entries keep what is written and
 * deliver nothing. No timer: its registers keep what is written and the count stays 0. IPIs to
 * other vCPUs, and INIT, SIPI and SMI to itself, go nowhere. On KVM the kernel has the local APIC.
 *
 * As after any reset it is software-disabled (SVR bit 8 clear): LVT entries are masked and cannot
 * be unmasked, fixed interrupts are not accepted, until the guest sets that bit.
 *
 * Everything: the thread that runs the vCPU, between runs. The guest is hostile: what the manual
 * makes #GP is -EFAULT, and nothing has changed.
 */
#ifndef VMM_SOFT_LAPIC_H
#define VMM_SOFT_LAPIC_H

#include <stdbool.h>
#include <stdint.h>

#include "vmm/engine/engine.h"
#include "vpmu/blob.h"

#define LAPIC_MSR_BASE	0x800u /* ID 802H, VERSION 803H, TPR 808H, EOI 80BH, SVR 80FH, ... */
#define LAPIC_MSR_COUNT 0x100u
#define LAPIC_LVTPC	0x834u

struct lapic {
	uint32_t id;
	uint32_t svr, tpr, esr, esr_shown;
	uint32_t lvt[7]; /* CMCI, timer, thermal, performance, LINT0, LINT1, error */
	uint32_t irr[8], isr[8];
	uint64_t icr;
	uint32_t timer_initial, timer_divide;
	bool nmi;	 /* waits for the engine to take it */
	uint8_t offered; /* vector that is queued in the engine, still in irr; 0: none */
};

/* lapic_init - as after reset, software-enabled by what the guest writes to SVR. */
void lapic_init(struct lapic *l, unsigned int id);

/* lapic_rdmsr / wrmsr - 0, -EFAULT (#GP), -ENOENT: not 800H..8FFH. After lapic_sync, and with
 * ->tpr what CR8 says it is. */
int lapic_rdmsr(struct lapic *l, uint32_t msr, uint64_t *val);
int lapic_wrmsr(struct lapic *l, uint32_t msr, uint64_t val);

/* lapic_pmi - the counters raise their interrupt: through LVTPC, if that is not masked. @automask:
 * delivery sets its mask bit (Intel). */
void lapic_pmi(struct lapic *l, bool automask);

/*
 * lapic_inject - give the engine what can be delivered now, at most one NMI and one vector; what
 * cannot stays. Before every run. The engine holds the vector back as long as IF or CR8 (which is
 * TPR bits 7:4) say so; it stays in IRR until it was taken.
 */
void lapic_inject(struct lapic *l, const struct vmm_engine_ops *ops, struct vmm_engine_vcpu *v);
/* lapic_pending - inject has (or may have) something to do. */
static inline bool lapic_pending(const struct lapic *l)
{
	uint32_t any = l->nmi;

	for (int i = 0; i < 8; i++)
		any |= l->irr[i];
	return any != 0;
}

/* lapic_sync - if the vector that was offered has been taken, it is in service (ISR) from now on;
 * else it is offered no longer. */
void lapic_sync(struct lapic *l, const struct vmm_engine_ops *ops, struct vmm_engine_vcpu *v);

/* lapic_save - append one section. lapic_load - -EINVAL: nothing changed. */
void lapic_save(const struct lapic *l, struct vpmu_blob *b);
int lapic_load(struct lapic *l, struct vpmu_blob_reader *r);

#endif
