/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The registers of the local APIC of one soft vCPU, in x2APIC mode only (SDM vol. 3, 11.12). It has
 * what delivering a PMI needs:
 *   - the LVT performance entry, with fixed and NMI delivery and a mask;
 *   - IRR, ISR, TPR, PPR and EOI;
 *   - SVR, ESR with its error interrupt, and self IPIs.
 * The other LVT entries and the timer's registers keep what is written and deliver nothing. The
 * timer's current count is 0. IPIs to other vCPUs go nowhere; so do INIT, SIPI and SMI to itself.
 *
 * After a reset the APIC is software-disabled (SVR bit 8 clear): LVT entries are masked and cannot
 * be unmasked, and fixed interrupts are not accepted, until the guest sets that bit.
 *
 * The files of the soft machine call these functions; irq.c connects the APIC to the vCPU. lapic.c
 * must never access a vCPU itself. Only the thread that runs the vCPU may call these functions. The
 * guest is not trusted: an access for which the manual demands #GP returns -EFAULT and changes
 * nothing.
 */
#ifndef VMM_SOFT_LAPIC_H
#define VMM_SOFT_LAPIC_H

#include <stdbool.h>
#include <stdint.h>

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
	bool nmi;	 /* an NMI waits until the CPU can queue it */
	uint8_t offered; /* the vector in irr that the CPU has queued and not taken yet; 0: none */
};

/* lapic_init - give *l the state after a reset. */
void lapic_init(struct lapic *l, unsigned int id);

/* lapic_rdmsr / lapic_wrmsr - the guest reads or writes @msr. Return 0; -EFAULT: the guest gets
 * #GP; -ENOENT: @msr is not in 800H..8FFH. The caller must make ->tpr agree with CR8 before the
 * call, and CR8 with ->tpr after it. After lapic_wrmsr the caller must look at ->nmi and lapic_next
 * again. */
int lapic_rdmsr(const struct lapic *l, uint32_t msr, uint64_t *val);
int lapic_wrmsr(struct lapic *l, uint32_t msr, uint64_t val);

/* lapic_pmi - the counters raise their interrupt. It goes through LVTPC and is lost if that entry
 * is masked. @automask: delivery sets the entry's mask bit (Intel). Afterwards the caller must look
 * at ->nmi and lapic_next again. */
void lapic_pmi(struct lapic *l, bool automask);

/* lapic_next - return the vector that the CPU should queue now, or 0. It is the highest vector in
 * IRR, provided that its class (bits 7:4) is above the class of every vector in ISR. TPR is not
 * considered: CR8 is TPR bits 7:4, and the CPU compares a queued vector with CR8 itself. */
unsigned int lapic_next(const struct lapic *l);

/* lapic_taken - call it when the CPU has taken the vector in ->offered. That vector is in service
 * (in ISR) from now on. */
void lapic_taken(struct lapic *l);

/* lapic_save - append the APIC to @b as one section.
 * lapic_load - read such a section. @l must have been initialised with the ID of the vCPU. Returns
 * 0, or -EINVAL if the section is damaged or no guest could have produced this state; *l is then
 * unchanged. */
void lapic_save(const struct lapic *l, struct vpmu_blob *b);
int lapic_load(struct lapic *l, struct vpmu_blob_reader *r);

#endif
