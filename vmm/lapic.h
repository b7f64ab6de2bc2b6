/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The local APIC of one soft vCPU, x2APIC mode only (SDM vol. 3, 11.12): as much as delivering a
 * PMI needs. LVT performance entry with fixed and NMI delivery and mask; IRR, ISR, TPR, PPR, EOI;
 * SVR, ESR, self IPIs; the other LVT entries keep what is written and deliver nothing. No timer.
 * On KVM the kernel has the local APIC.
 *
 * Everything: the thread that runs the vCPU, between runs. The guest is hostile: what the manual
 * makes #GP is -EFAULT, and nothing has changed.
 */
#ifndef VMM_LAPIC_H
#define VMM_LAPIC_H

#include <stdbool.h>
#include <stdint.h>

#include "vmm/engine.h"
#include "vpmu/blob.h"

#define LAPIC_MSR_BASE	0x800u /* ID 802H, VERSION 803H, TPR 808H, EOI 80BH, SVR 80FH, ... */
#define LAPIC_MSR_COUNT 0x100u
#define LAPIC_LVTPC	0x834u

struct lapic {
	uint32_t id;
	uint32_t svr, tpr, esr, esr_shown;
	uint32_t lvt[7]; /* CMCI, timer, thermal, performance, LINT0, LINT1, error */
	uint32_t irr[8], isr[8];
	bool nmi; /* waits for the engine to take it */
};

/* lapic_init - as after reset, software-enabled by what the guest writes to SVR. */
void lapic_init(struct lapic *l, unsigned int id);

/* lapic_rdmsr / wrmsr - 0, -EFAULT (#GP), -ENOENT: not 800H..8FFH. */
int lapic_rdmsr(struct lapic *l, uint32_t msr, uint64_t *val);
int lapic_wrmsr(struct lapic *l, uint32_t msr, uint64_t val);

/* lapic_pmi - the counters raise their interrupt: through LVTPC, if that is not masked. @automask:
 * delivery sets its mask bit (Intel). */
void lapic_pmi(struct lapic *l, bool automask);

/* lapic_inject - give the engine what can be delivered now, at most one NMI and one vector; what
 * cannot stays. Before every run. */
void lapic_inject(struct lapic *l, const struct vmm_engine_ops *ops, struct vmm_engine_vcpu *v);
/* lapic_pending - inject has (or may have) something to do. */
static inline bool lapic_pending(const struct lapic *l)
{
	uint32_t any = l->nmi;

	for (int i = 0; i < 8; i++)
		any |= l->irr[i];
	return any != 0;
}

/* lapic_save - append one section. lapic_load - -EINVAL: nothing changed. */
void lapic_save(const struct lapic *l, struct vpmu_blob *b);
int lapic_load(struct lapic *l, struct vpmu_blob_reader *r);

#endif
