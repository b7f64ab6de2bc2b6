/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The I/O APIC of an emulator VM: 24 pins, registers as Intel's 82093AA has them (its data sheet,
 * 290566, chapter 3), version 11H. chip.c calls these functions under the lock of the I/O APIC, and
 * passes on the messages that they put out. ioapic.c must never access a vCPU itself. The guest is
 * not trusted: whatever it writes, no access faults.
 */
#ifndef VMM_EMU_IRQCHIP_IOAPIC_H
#define VMM_EMU_IRQCHIP_IOAPIC_H

#include <stdbool.h>
#include <stdint.h>

#include "vpmu/core/blob.h"

#define IOAPIC_PINS 24

struct ioapic {
	uint64_t entry[IOAPIC_PINS]; /* the redirection table */
	uint32_t lines;		     /* bit per pin: what devices drive it to */
	uint8_t id;
	uint8_t select; /* IOREGSEL */
};

/* ioapic_init - give *a the state after a reset. */
void ioapic_init(struct ioapic *a);

/* ioapic_read, ioapic_write - the guest accesses the 32-bit register at @offset (of the page).
 * The return value of ioapic_write and of the functions below is a set of pins: for each of them
 * the caller must send the message that ioapic_message() gives. */
uint32_t ioapic_read(const struct ioapic *a, uint32_t offset);
uint32_t ioapic_write(struct ioapic *a, uint32_t offset, uint32_t val);
/* ioapic_line - a device drives @pin (below IOAPIC_PINS) to @level: true asserts it, whatever the
 * polarity bit says. */
uint32_t ioapic_line(struct ioapic *a, unsigned int pin, bool level);
/* ioapic_eoi - a local APIC broadcasts the end of @vector. */
uint32_t ioapic_eoi(struct ioapic *a, uint8_t vector);

struct ioapic_message {
	uint8_t dest, vector;
	uint8_t mode; /* delivery mode, as in bits 10:8 */
	bool logical, level;
};

/* ioapic_message - what @pin sends. */
struct ioapic_message ioapic_message(const struct ioapic *a, unsigned int pin);
/* ioapic_refused - no local APIC is there for the message of @pin. */
void ioapic_refused(struct ioapic *a, unsigned int pin);

/* ioapic_open - whether a device could wake a vCPU: through no pin; if the vCPU accepts interrupts;
 * or in any case (NMI, INIT). */
enum ioapic_open { IOAPIC_SHUT, IOAPIC_OPEN, IOAPIC_OPEN_ALWAYS };
enum ioapic_open ioapic_open(const struct ioapic *a);

/* ioapic_save - append it to @b as one section. ioapic_load - read such a section: false if it is
 * damaged or no guest could have produced this state; *a is then unchanged. */
void ioapic_save(const struct ioapic *a, struct vpmu_blob *b);
bool ioapic_load(struct ioapic *a, struct vpmu_blob_reader *r);

#endif
