// SPDX-License-Identifier: GPL-2.0-or-later
/* See pci.h. Section numbers are those of the PCI Local Bus Specification 3.0. */
#include "vmm/dev/pci.h"
#include "vpmu/core/blob_io.h"
#include "vmm/engine/platform.h"

/* The address register, 3.2.2.3.2. Bits 30:24 and 1:0 are reserved and read as 0. */
#define ENABLE	 (1u << 31)
#define FUNCTION 0x00ffff00u /* bus, device and function */
#define REGISTER 0x000000fcu
#define WRITABLE (ENABLE | FUNCTION | REGISTER)

/*
 * The host bridge's header, 6.1. Its IDs are those of QEMU's generic PCI host bridge, a similar
 * device: it has no register beyond the header, so no driver binds to it, and Linux has no quirk
 * for it (early-quirks.c, drivers/pci/quirks.c). The bridges of real chipsets, such as Intel's
 * 440FX, have quirks and registers that kernels probe.
 *
 * It is read-only. The bridge answers memory accesses and is a bus master regardless of its command
 * register, as in PCs. It has no address ranges, no interrupt pin, no capabilities and no further
 * functions. 6.2.4: a host bridge needs no subsystem IDs.
 */
#define VENDOR_RED_HAT	   0x1b36u
#define DEVICE_HOST_BRIDGE 0x0008u
#define COMMAND		   0x0006u
#define CLASS_HOST_BRIDGE  0x060000u

static uint32_t host_bridge(unsigned int reg)
{
	switch (reg) {
	case 0x00:
		return DEVICE_HOST_BRIDGE << 16 | VENDOR_RED_HAT;
	case 0x04:
		return COMMAND;
	case 0x08:
		return CLASS_HOST_BRIDGE << 8;
	default:
		return 0;
	}
}

/* 3.2.2.3.4: where no device answers, all bits are 1. Without ENABLE the access goes to unused
 * ports, which read the same. */
static uint32_t config_read(uint32_t address)
{
	if (!(address & ENABLE) || address & FUNCTION)
		return UINT32_MAX;
	return host_bridge(address & REGISTER);
}

static uint64_t address_read(void *dev, uint64_t offset, unsigned int size)
{
	struct pci *p = dev;

	return atomic_load_explicit(&p->address, memory_order_relaxed);
}

static void address_write(void *dev, uint64_t offset, unsigned int size, uint64_t value)
{
	struct pci *p = dev;

	atomic_store_explicit(&p->address, (uint32_t)value & WRITABLE, memory_order_relaxed);
}

static uint64_t data_read(void *dev, uint64_t offset, unsigned int size)
{
	struct pci *p = dev;

	return config_read(atomic_load_explicit(&p->address, memory_order_relaxed)) >> 8 * offset;
}

static void data_write(void *dev, uint64_t offset, unsigned int size, uint64_t value)
{
}

int pci_claim(struct pci *p, struct bus *bus)
{
	/* Only 4-byte accesses: the reset register is among these ports. */
	static const struct bus_device address = {
		.sizes = 4, .read = address_read, .write = address_write};
	static const struct bus_device data = {
		.sizes = 1 | 2 | 4, .read = data_read, .write = data_write};
	int ret = bus_claim(bus, PLATFORM_PCI_ADDRESS, 4, &address, p);

	return ret ? ret : bus_claim(bus, PLATFORM_PCI_DATA, 4, &data, p);
}

/* ---- snapshots ---- */

#define TAG 0x41494350u /* "PCIA" */

static void pci_io(struct blob_io *io, void *address)
{
	IO(*(uint32_t *)address);
}

void pci_save(struct pci *p, struct vpmu_blob *b)
{
	uint32_t address = atomic_load(&p->address);

	blob_save(b, TAG, 1, pci_io, &address);
}

bool pci_load(struct pci *p, struct vpmu_blob_reader *r)
{
	uint32_t address;

	if (!blob_load(r, TAG, 1, pci_io, &address) || address & ~WRITABLE)
		return false;
	atomic_store(&p->address, address);
	return true;
}
