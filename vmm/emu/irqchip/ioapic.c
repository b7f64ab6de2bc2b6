// SPDX-License-Identifier: GPL-2.0-or-later
/* The registers of the I/O APIC: 82093AA data sheet, 3.1 and 3.2. See ioapic.h. */
#include "vmm/emu/irqchip/ioapic.h"
#include "vpmu/core/blob_io.h"

enum { OFFSET_SELECT = 0x00, OFFSET_WINDOW = 0x10 };
enum { REG_ID = 0, REG_VERSION = 1, REG_ARBITRATION = 2, REG_TABLE = 0x10 };

#define VERSION (0x11u | (IOAPIC_PINS - 1) << 16)

/* Bits of an entry (3.2.4). */
#define RTE_VECTOR     0xffULL
#define RTE_MODE_SHIFT 8
#define RTE_LOGICAL    (1ULL << 11)
#define RTE_STATUS     (1ULL << 12) /* read-only; messages are sent at once */
#define RTE_POLARITY   (1ULL << 13)
#define RTE_REMOTE_IRR (1ULL << 14) /* read-only */
#define RTE_LEVEL      (1ULL << 15)
#define RTE_MASK       (1ULL << 16)
#define RTE_DEST_SHIFT 56
#define RTE_WRITABLE   (0xff0000000001ffffULL & ~(RTE_STATUS | RTE_REMOTE_IRR))

void ioapic_init(struct ioapic *a)
{
	*a = (struct ioapic){0};
	for (unsigned int i = 0; i < IOAPIC_PINS; i++)
		a->entry[i] = RTE_MASK;
}

/* An asserted level-triggered pin sends unless its interrupt is being handled. */
static uint32_t send_level(struct ioapic *a, unsigned int pin)
{
	uint64_t *e = &a->entry[pin];

	if (!(*e & RTE_LEVEL) || !(a->lines >> pin & 1) || (*e & (RTE_MASK | RTE_REMOTE_IRR)))
		return 0;
	*e |= RTE_REMOTE_IRR;
	return 1u << pin;
}

uint32_t ioapic_line(struct ioapic *a, unsigned int pin, bool level)
{
	uint64_t e = a->entry[pin];
	bool was = a->lines >> pin & 1;

	a->lines = (a->lines & ~(1u << pin)) | (uint32_t)level << pin;
	if (e & RTE_LEVEL)
		return send_level(a, pin);
	/* An edge at a masked pin is lost (3.2.4, Interrupt Mask). */
	return level && !was && !(e & RTE_MASK) ? 1u << pin : 0;
}

uint32_t ioapic_eoi(struct ioapic *a, uint8_t vector)
{
	uint32_t pins = 0;

	for (unsigned int i = 0; i < IOAPIC_PINS; i++) {
		uint64_t *e = &a->entry[i];

		if (!(*e & RTE_REMOTE_IRR) || (*e & RTE_VECTOR) != vector)
			continue;
		*e &= ~RTE_REMOTE_IRR;
		pins |= send_level(a, i);
	}
	return pins;
}

uint32_t ioapic_read(const struct ioapic *a, uint32_t offset)
{
	uint32_t reg = a->select, n = reg - REG_TABLE;

	if (offset == OFFSET_SELECT)
		return reg;
	if (offset != OFFSET_WINDOW)
		return 0;
	switch (reg) {
	case REG_ID:
	case REG_ARBITRATION:
		return (uint32_t)a->id << 24;
	case REG_VERSION:
		return VERSION;
	default:
		if (n >= 2 * IOAPIC_PINS)
			return 0;
		return (uint32_t)(a->entry[n / 2] >> 32 * (n & 1));
	}
}

uint32_t ioapic_write(struct ioapic *a, uint32_t offset, uint32_t val)
{
	uint32_t n = a->select - REG_TABLE;
	uint64_t *e, half, x;

	if (offset == OFFSET_SELECT)
		a->select = (uint8_t)val;
	if (offset != OFFSET_WINDOW)
		return 0;
	if (a->select == REG_ID)
		a->id = val >> 24 & 15;
	if (n >= 2 * IOAPIC_PINS)
		return 0;
	e = &a->entry[n / 2];
	half = 0xffffffffULL << 32 * (n & 1);
	x = (*e & ~half) | ((uint64_t)val << 32 * (n & 1));
	*e = (x & RTE_WRITABLE) | (*e & RTE_REMOTE_IRR);
	/* Kernels end a stuck level-triggered interrupt by making the pin edge-triggered. */
	if (!(*e & RTE_LEVEL))
		*e &= ~RTE_REMOTE_IRR;
	return send_level(a, n / 2);
}

struct ioapic_message ioapic_message(const struct ioapic *a, unsigned int pin)
{
	uint64_t e = a->entry[pin];

	return (struct ioapic_message){
		.dest = (uint8_t)(e >> RTE_DEST_SHIFT),
		.vector = (uint8_t)(e & RTE_VECTOR),
		.mode = e >> RTE_MODE_SHIFT & 7,
		.logical = e & RTE_LOGICAL,
		.level = e & RTE_LEVEL,
	};
}

void ioapic_refused(struct ioapic *a, unsigned int pin)
{
	a->entry[pin] &= ~RTE_REMOTE_IRR;
}

enum ioapic_open ioapic_open(const struct ioapic *a)
{
	enum ioapic_open open = IOAPIC_SHUT;

	for (unsigned int i = 0; i < IOAPIC_PINS; i++) {
		unsigned int mode = a->entry[i] >> RTE_MODE_SHIFT & 7;

		if (a->entry[i] & RTE_MASK)
			continue;
		if (mode > 1)
			return IOAPIC_OPEN_ALWAYS;
		open = IOAPIC_OPEN;
	}
	return open;
}

/* ---- snapshots ---- */

#define TAG    0x43504149u /* "IAPC" */
#define FORMAT 1

static void ioapic_io(struct blob_io *io, void *of)
{
	struct ioapic *a = of;

	IO_EACH(a->entry);
	IO(a->lines), IO(a->id), IO(a->select);
}

void ioapic_save(const struct ioapic *a, struct vpmu_blob *b)
{
	blob_save(b, TAG, FORMAT, ioapic_io, a);
}

static bool entry_plausible(uint64_t e)
{
	/* Remote IRR is only at level-triggered pins. */
	return !(e & ~(RTE_WRITABLE | RTE_REMOTE_IRR)) &&
	       ((e & RTE_LEVEL) || !(e & RTE_REMOTE_IRR));
}

bool ioapic_load(struct ioapic *a, struct vpmu_blob_reader *r)
{
	struct ioapic n = {0};
	bool ok = blob_load(r, TAG, FORMAT, ioapic_io, &n);

	for (unsigned int i = 0; i < IOAPIC_PINS; i++)
		ok = ok && entry_plausible(n.entry[i]);
	if (!ok || n.lines >> IOAPIC_PINS || n.id > 15)
		return false;
	*a = n;
	return true;
}
