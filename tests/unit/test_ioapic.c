// SPDX-License-Identifier: GPL-2.0-or-later
/* vmm/emu/ioapic: every register and bit (82093AA data sheet, 3.2), edges, levels, snapshots. */
#include <criterion/criterion.h>
#include <string.h>

#include "vmm/emu/irqchip/ioapic.h"

#define MASKED	   0x10000u
#define LEVEL	   0x8000u
#define REMOTE_IRR 0x4000u

static struct ioapic a;

static void init(void)
{
	memset(&a, 0xee, sizeof(a));
	ioapic_init(&a);
}

static uint32_t rd(uint32_t reg)
{
	ioapic_write(&a, 0, reg);
	return ioapic_read(&a, 0x10);
}

static uint32_t wr(uint32_t reg, uint32_t val)
{
	ioapic_write(&a, 0, reg);
	return ioapic_write(&a, 0x10, val);
}

#define LOW(pin)  (0x10 + 2 * (pin))
#define HIGH(pin) (0x11 + 2 * (pin))

Test(ioapic, reset_values, .init = init)
{
	cr_assert_eq(rd(0), 0);
	cr_assert_eq(rd(1), 0x00170011); /* 24 pins, version 11H */
	cr_assert_eq(rd(2), 0);
	for (uint32_t pin = 0; pin < 24; pin++) {
		cr_assert_eq(rd(LOW(pin)), MASKED);
		cr_assert_eq(rd(HIGH(pin)), 0);
	}
	cr_assert_eq(ioapic_open(&a), IOAPIC_SHUT);
}

/* Each register of 256, each bit: what reads back. */
Test(ioapic, map, .init = init)
{
	for (uint32_t reg = 0; reg < 256; reg++)
		for (unsigned int bit = 0; bit < 32; bit++) {
			uint32_t ok = 0, got;

			if (reg == 0)
				ok = 0x0f000000;
			else if (reg >= 0x10 && reg < 0x40)
				ok = reg & 1 ? 0xff000000
					     : 0x1afff; /* not the two read-only bits */
			if (reg == 1 || reg == 2)
				continue;
			wr(reg, 1u << bit);
			got = rd(reg);
			cr_assert_eq(got, ok & 1u << bit, "register %#x bit %u: %#x", reg, bit,
				     got);
			wr(reg, reg >= 0x10 && reg < 0x40 && !(reg & 1) ? MASKED : 0);
		}
	wr(1, 0xffffffff);
	cr_assert_eq(rd(1), 0x00170011, "read-only");
	wr(0, 0x05000000);
	cr_assert_eq(rd(2), 0x05000000, "the arbitration ID follows");
	/* Other offsets in the page are nothing. */
	for (uint32_t offset = 4; offset < 4096; offset += 4) {
		if (offset == 0x10)
			continue;
		cr_assert_eq(ioapic_read(&a, offset), 0);
		cr_assert_eq(ioapic_write(&a, offset, 0xffffffff), 0);
	}
	cr_assert_eq(rd(1), 0x00170011);
}

Test(ioapic, edges, .init = init)
{
	for (uint32_t pin = 0; pin < 24; pin++) {
		cr_assert_eq(ioapic_line(&a, pin, true), 0, "masked");
		cr_assert_eq(wr(LOW(pin), 0x40 + pin), 0, "an edge while masked is lost");
		cr_assert_eq(ioapic_line(&a, pin, true), 0, "no edge");
		cr_assert_eq(ioapic_line(&a, pin, false), 0);
		cr_assert_eq(ioapic_line(&a, pin, true), 1u << pin);
		cr_assert_eq(rd(LOW(pin)), 0x40 + pin, "no remote IRR");
		cr_assert_eq(ioapic_eoi(&a, (uint8_t)(0x40 + pin)), 0);
	}
}

Test(ioapic, levels, .init = init)
{
	cr_assert_eq(wr(LOW(9), 0x61 | LEVEL), 0);
	cr_assert_eq(ioapic_line(&a, 9, true), 1u << 9);
	cr_assert_eq(rd(LOW(9)), 0x61 | LEVEL | REMOTE_IRR);
	cr_assert_eq(ioapic_line(&a, 9, true), 0, "somebody handles it");
	cr_assert_eq(ioapic_eoi(&a, 0x62), 0, "of another vector");
	cr_assert_eq(rd(LOW(9)), 0x61 | LEVEL | REMOTE_IRR);
	cr_assert_eq(ioapic_eoi(&a, 0x61), 1u << 9, "still asserted: again");
	ioapic_line(&a, 9, false);
	cr_assert_eq(ioapic_eoi(&a, 0x61), 0);
	cr_assert_eq(rd(LOW(9)), 0x61 | LEVEL);
	/* Masked in between: it comes when it is unmasked. */
	wr(LOW(9), 0x61 | LEVEL | MASKED);
	cr_assert_eq(ioapic_line(&a, 9, true), 0);
	cr_assert_eq(wr(LOW(9), 0x61 | LEVEL), 1u << 9);
	/* Edge-triggered for a moment: remote IRR goes. */
	wr(LOW(9), 0x61 | MASKED);
	cr_assert_eq(rd(LOW(9)), 0x61 | MASKED);
	cr_assert_eq(wr(LOW(9), 0x61 | LEVEL), 1u << 9);
	/* Nobody is there for it. */
	ioapic_refused(&a, 9);
	cr_assert_eq(rd(LOW(9)), 0x61 | LEVEL);
	/* Two pins of one vector. */
	wr(LOW(3), 0x61 | LEVEL);
	cr_assert_eq(ioapic_line(&a, 3, true), 1u << 3);
	cr_assert_eq(wr(LOW(9), 0x61 | LEVEL), 1u << 9);
	cr_assert_eq(ioapic_eoi(&a, 0x61), 1u << 3 | 1u << 9);
}

Test(ioapic, messages, .init = init)
{
	struct ioapic_message m;

	wr(LOW(7), 0x0833);
	wr(HIGH(7), 0xa5000000);
	m = ioapic_message(&a, 7);
	cr_assert(m.dest == 0xa5 && m.vector == 0x33 && m.logical && !m.level && m.mode == 0);
	cr_assert_eq(ioapic_open(&a), IOAPIC_OPEN);
	wr(LOW(7), 0x8144);
	m = ioapic_message(&a, 7);
	cr_assert(m.vector == 0x44 && !m.logical && m.level && m.mode == 1);
	cr_assert_eq(ioapic_open(&a), IOAPIC_OPEN);
	wr(LOW(8), 0x0444);
	cr_assert_eq(ioapic_message(&a, 8).mode, 4);
	cr_assert_eq(ioapic_open(&a), IOAPIC_OPEN_ALWAYS, "an NMI wakes in any case");
}

static bool load(const struct vpmu_blob *b, struct ioapic *to)
{
	struct vpmu_blob_reader r = {.data = b->data, .len = b->len};

	return ioapic_load(to, &r) && vpmu_blob_done(&r);
}

/* Every byte changed in every way: refused, or it saves as it was read. */
Test(ioapic, snapshots, .init = init)
{
	struct vpmu_blob b = {0};
	unsigned int refused = 0, loaded = 0;
	struct ioapic n, zero;

	wr(LOW(9), 0x61 | LEVEL);
	ioapic_line(&a, 9, true);
	ioapic_line(&a, 4, true);
	wr(0, 0x03000000);
	ioapic_save(&a, &b);
	ioapic_init(&zero);
	n = zero;
	cr_assert(load(&b, &n));
	cr_assert_eq(memcmp(n.entry, a.entry, sizeof(a.entry)), 0);
	cr_assert(n.lines == a.lines && n.id == 3 && n.select == a.select);
	for (size_t i = 0; i < b.len; i++)
		for (unsigned int x = 0; x < 256; x++) {
			uint8_t was = b.data[i];
			struct vpmu_blob again = {0};

			b.data[i] = (uint8_t)x;
			n = zero;
			if (load(&b, &n)) {
				ioapic_save(&n, &again);
				cr_assert(again.len == b.len && !memcmp(again.data, b.data, b.len));
				vpmu_blob_fini(&again);
				loaded++;
			} else {
				cr_assert_eq(memcmp(&n, &zero, sizeof(n)), 0);
				refused++;
			}
			b.data[i] = was;
		}
	cr_assert_gt(refused, 1000);
	cr_assert_gt(loaded, 1000);
	vpmu_blob_fini(&b);
}
