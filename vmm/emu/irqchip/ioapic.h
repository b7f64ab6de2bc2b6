/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The I/O APIC of an emulator VM: 24 pins, registers of Intel's 82093AA (data sheet 290566, chapter
 * 3), version 11H. chip.c, clock.c and chip_state.c call these functions under the lock of the I/O
 * APIC; chip.c sends the resulting messages. ioapic.c must never access a vCPU itself. The guest is
 * not trusted: no write may cause a fault.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "vpmu/core/blob.h"

#define IOAPIC_PINS 24

struct ioapic {
	uint64_t entry[IOAPIC_PINS]; /* the redirection table */
	uint32_t lines;		     /* bit per pin: asserted by the device */
	uint8_t id;
	uint8_t select; /* IOREGSEL */
};

/* ioapic_init - give *a the state after a reset. */
void ioapic_init(struct ioapic *a);

/* ioapic_read, ioapic_write - the guest accesses the 32-bit register at @offset (of the page).
 * ioapic_write and the functions below return a set of pins: for each of them the caller must send
 * ioapic_message(). */
uint32_t ioapic_read(const struct ioapic *a, uint32_t offset);
uint32_t ioapic_write(struct ioapic *a, uint32_t offset, uint32_t val);
/* ioapic_line - a device drives @pin (below IOAPIC_PINS) to @level: true asserts it, regardless of
 * the polarity bit. */
uint32_t ioapic_line(struct ioapic *a, unsigned int pin, bool level);
/* ioapic_eoi - a local APIC broadcasts the end of @vector. */
uint32_t ioapic_eoi(struct ioapic *a, uint8_t vector);

struct ioapic_message {
	uint8_t dest, vector;
	uint8_t mode; /* delivery mode, as in bits 10:8 */
	bool logical, level;
};

/* ioapic_message - the message of @pin. */
struct ioapic_message ioapic_message(const struct ioapic *a, unsigned int pin);
/* ioapic_refused - no local APIC accepts the message of @pin. */
void ioapic_refused(struct ioapic *a, unsigned int pin);

/* ioapic_open - returns IOAPIC_SHUT if no device can wake a vCPU, IOAPIC_OPEN if one can wake a
 * vCPU that accepts interrupts, IOAPIC_OPEN_ALWAYS if one can wake any vCPU (NMI, INIT). */
enum ioapic_open { IOAPIC_SHUT, IOAPIC_OPEN, IOAPIC_OPEN_ALWAYS };
enum ioapic_open ioapic_open(const struct ioapic *a);

/* ioapic_save - append *a to @b as one section.
 * ioapic_load - read such a section. Returns false, with *a unchanged, if it is damaged or no guest
 * could have produced this state. */
void ioapic_save(const struct ioapic *a, struct vpmu_blob *b);
bool ioapic_load(struct ioapic *a, struct vpmu_blob_reader *r);
