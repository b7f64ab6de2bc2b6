// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Guest-physical addresses without RAM in a VM with interrupt controllers: the registers of the
 * local APIC and of the I/O APIC. Elsewhere below 4 GiB, as on a PC, loads return ones and stores
 * are lost. access.c calls these functions. Every access is made by an instruction that executes
 * alone, so the clock is exact, and the effects of the access follow immediately.
 */
#include "vmm/emu/irqchip/chip.h"
#include "vmm/emu/internal.h"

#define APIC_BASE_ADDRESS 0xffffffffff000ULL
#define HOLE		  (3ULL << 30)
#define HOLE_END	  (4ULL << 30)

static bool in_lapic(const struct emu_vcpu *v, uint64_t pa)
{
	return emu_lapic_on(v) && !v->lapic.x2 &&
	       (pa & EMU_PAGE_MASK) == (v->apic_base & APIC_BASE_ADDRESS);
}

static uint64_t ones(unsigned int bytes)
{
	return bytes == 8 ? ~0ULL : (1ULL << 8 * bytes) - 1;
}

/* Returns true if the access may proceed, or false with v->trap set. */
static bool mmio_begin(struct emu_vcpu *v, uint64_t pa, const char *what)
{
	if (pa < HOLE || pa >= HOLE_END) {
		emu_error(v, "%s of guest-physical 0x%llx, where there is no RAM", what,
			  (unsigned long long)pa);
		return false;
	}
	if (!v->single) {
		v->trap = EMU_TRAP_SMC; /* execute it again, alone */
		return false;
	}
	v->extra += EMU_EFFORT_APIC;
	return true;
}

uint64_t emu_device_load(struct emu_vcpu *v, uint64_t pa, unsigned int bytes)
{
	unsigned int at = pa & 3;
	uint32_t x;

	if (!mmio_begin(v, pa, "load"))
		return 0;
	if (in_lapic(v, pa)) {
		/* Registers are 32 bits at multiples of 16 (11.4.1). */
		if ((pa & 15) + bytes > 4)
			return 0;
		x = emu_lapic_mmio_read(v, pa >> 4 & 0xff);
		return x >> 8 * at & ones(bytes);
	}
	if ((pa & EMU_PAGE_MASK) == EMU_IOAPIC_PAGE) {
		if (at + bytes > 4)
			return 0;
		x = emu_chip_ioapic_read(v->chip, pa & 0xffc);
		return x >> 8 * at & ones(bytes);
	}
	return ones(bytes);
}

int emu_device_store(struct emu_vcpu *v, uint64_t pa, unsigned int bytes, uint64_t x)
{
	if (!mmio_begin(v, pa, "store"))
		return 1;
	if (in_lapic(v, pa)) {
		if (bytes == 4 && !(pa & 15))
			emu_lapic_mmio_write(v, pa >> 4 & 0xff, (uint32_t)x);
	} else if ((pa & EMU_PAGE_MASK) == EMU_IOAPIC_PAGE) {
		if (bytes == 4 && !(pa & 3)) {
			emu_chip_ioapic_write(v, pa & 0xffc, (uint32_t)x);
			emu_chip_take(v);
		}
	}
	return 0;
}
