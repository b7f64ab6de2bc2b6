/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The registers of the local APIC of one emulator vCPU (SDM vol. 3, chapter 11). There are two
 * kinds.
 *
 * Without interrupt controllers in the VM (lapic_init) it has only x2APIC mode, with the registers
 * for delivering a PMI:
 *   - the LVT performance entry, with fixed and NMI delivery and a mask;
 *   - IRR, ISR, TPR, PPR and EOI;
 *   - SVR, ESR with its error interrupt, and self IPIs.
 * The other LVT entries and the timer's registers store writes and deliver nothing. The timer's
 * current count is 0. IPIs to other vCPUs go nowhere; so do INIT, SIPI and SMI to itself.
 *
 * With interrupt controllers (lapic_init_full) it also has the xAPIC mode, logical destinations,
 * level-triggered interrupts, and the timer. Outgoing messages, an IPI or the end of a
 * level-triggered interrupt, are in ->sends, ->icr_sent and ->ended for the caller to pass on.
 *
 * After a reset the APIC is software-disabled (SVR bit 8 clear): LVT entries are masked and cannot
 * be unmasked, and fixed interrupts are ignored, until the guest sets that bit.
 *
 * The files of the emulator call these functions; irq.c connects the APIC to the vCPU. lapic.c,
 * lapic_timer.c and lapic_save.c must never access a vCPU themselves. Only the thread that runs the
 * vCPU may call these functions. The guest is not trusted: an access that is #GP in the manual
 * returns -EFAULT and changes nothing.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "vpmu/core/blob.h"

#define LAPIC_MSR_BASE	0x800u /* ID 802H, VERSION 803H, TPR 808H, EOI 80BH, SVR 80FH, ... */
#define LAPIC_MSR_COUNT 0x100u

struct lapic {
	uint32_t id;
	uint32_t svr, tpr, esr, esr_shown;
	uint32_t lvt[7]; /* CMCI, timer, thermal, performance, LINT0, LINT1, error */
	uint32_t irr[8], isr[8];
	uint64_t icr;
	uint32_t timer_initial, timer_divide;
	bool nmi;	 /* an NMI waits until the CPU can queue it */
	uint8_t offered; /* the vector in irr that the CPU has queued and not taken yet; 0: none */

	/* The rest is 0 without interrupt controllers. */
	bool full;     /* initialised by lapic_init_full() */
	bool deadline; /* the timer has the TSC-deadline mode (CPUID 1 ECX bit 24) */
	bool x2;       /* in x2APIC mode, else in xAPIC mode or disabled */
	uint32_t tmr[8];
	uint32_t ldr, dfr;     /* of xAPIC mode */
	uint32_t timer_left;   /* the current count at timer_at; 0: the timer has stopped */
	uint64_t timer_at;     /* VM clock, ns */
	uint64_t tsc_deadline; /* IA32_TSC_DEADLINE; 0: not armed */

	/* Passed between the APIC and its caller, not saved: */
	uint64_t now;	     /* VM clock, ns: updated by the caller */
	uint64_t tsc_offset; /* the guest's TSC is now + tsc_offset; updated by the caller */
	bool sends;	     /* send the IPI in ->icr_sent */
	uint64_t icr_sent;
	uint8_t ended; /* broadcast the EOI of this level-triggered vector; 0: none */
};

#define LAPIC_NEVER (~0ULL)

/* lapic_init - give *l the state after a reset. */
void lapic_init(struct lapic *l, unsigned int id);
/* lapic_init_full - the same with interrupt controllers, for a reset or an INIT; starts in xAPIC
 * mode. @deadline: the timer has the TSC-deadline mode. */
void lapic_init_full(struct lapic *l, unsigned int id, bool deadline);
/* lapic_enter_x2apic - from xAPIC mode to x2APIC mode. */
void lapic_enter_x2apic(struct lapic *l);

/* lapic_rdmsr / lapic_wrmsr - the guest reads or writes @msr. Return 0; -EFAULT: the guest gets
 * #GP; -ENOENT: @msr is not in 800H..8FFH. The caller must make ->tpr agree with CR8 before the
 * call, and CR8 with ->tpr after it. After lapic_wrmsr the caller must check ->nmi and lapic_next
 * again. */
int lapic_rdmsr(const struct lapic *l, uint32_t msr, uint64_t *val);
int lapic_wrmsr(struct lapic *l, uint32_t msr, uint64_t val);

/* lapic_mmio_read / lapic_mmio_write - the guest reads or writes the 32-bit register at offset @reg
 * * 16 of the APIC's page, in xAPIC mode. No access faults: reserved bits are ignored, and an
 * access to a missing register is an error in ESR. Otherwise as above. */
uint32_t lapic_mmio_read(struct lapic *l, uint32_t reg);
void lapic_mmio_write(struct lapic *l, uint32_t reg, uint32_t val);

/* lapic_accept - interrupt @vector arrives from outside, edge- or level-triggered. Afterwards the
 * caller must check lapic_next again. */
void lapic_accept(struct lapic *l, unsigned int vector, bool level);

/* lapic_address - the registers that select this APIC as a destination, packed into one non-zero
 * word.
 * lapic_matches - returns true if a message to @dest is for the APIC with that word. @logical: a
 * logical destination; @x2: 32 bits, else 8.
 * lapic_address_enabled - returns true if that APIC accepts fixed interrupts. */
uint64_t lapic_address(const struct lapic *l);
bool lapic_matches(uint64_t address, uint32_t dest, bool logical, bool x2);
bool lapic_address_enabled(uint64_t address);

/* lapic_timer.c */
/* lapic_timer_due - the VM clock at which the timer expires next, or LAPIC_NEVER.
 * lapic_timer_expire - call it when l->now has reached that: delivers the timer's interrupt, and
 * starts the next period. Afterwards the caller must check lapic_next again. */
uint64_t lapic_timer_due(const struct lapic *l);
void lapic_timer_expire(struct lapic *l);
/* lapic_rd_deadline, lapic_wr_deadline - IA32_TSC_DEADLINE. */
uint64_t lapic_rd_deadline(const struct lapic *l);
void lapic_wr_deadline(struct lapic *l, uint64_t x);
/* For lapic.c: the registers of the timer. */
uint32_t lapic_timer_current(const struct lapic *l);
void lapic_timer_wr_initial(struct lapic *l, uint32_t x);
void lapic_timer_wr_divide(struct lapic *l, uint32_t x);
void lapic_timer_wr_lvt(struct lapic *l, uint32_t x);

/* lapic_pmi - a counter interrupt. It goes through LVTPC and is lost if that entry is masked.
 * @automask: delivery sets the entry's mask bit (Intel). Afterwards the caller must check ->nmi and
 * lapic_next again. */
void lapic_pmi(struct lapic *l, bool automask);

/* lapic_next - return the vector that the CPU should queue now, or 0. It is the highest vector in
 * IRR, provided that its class (bits 7:4) is above the class of every vector in ISR. TPR is not
 * considered: CR8 is TPR bits 7:4, and the CPU compares a queued vector with CR8 itself. */
unsigned int lapic_next(const struct lapic *l);

/* lapic_taken - call it when the CPU has taken the vector in ->offered. That vector is in service
 * (in ISR) from now on. */
void lapic_taken(struct lapic *l);

/* lapic_save - append the APIC to @b as one section; a full one as two.
 * lapic_load - read such sections. @l must have been initialised in the same way, with its ->now.
 * Returns 0, or -EINVAL with *l unchanged if a section is damaged or no guest could have produced
 * this state. */
void lapic_save(const struct lapic *l, struct vpmu_blob *b);
int lapic_load(struct lapic *l, struct vpmu_blob_reader *r);
/* lapic_plausible - for lapic_load: returns true if a guest could have produced these registers. */
bool lapic_plausible(const struct lapic *l);
