/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * PCI's configuration space, by configuration mechanism 1 (PCI Local Bus Specification 3.0, section
 * 3.2.2.3.2): the address register at PLATFORM_PCI_ADDRESS, the data ports behind it, and the only
 * device, host bridge 0:0.0. Stock kernels complain about a PC without it. There are no other
 * devices, and the ACPI tables name no root bridge, so that Linux does not scan further.
 *
 * One for all vCPUs. As on hardware, a read of the data port uses the address that was written
 * last, by any vCPU.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "vmm/dev/bus.h"
#include "vpmu/core/blob.h"

/* Zeroed: the reset state. */
struct pci {
	_Atomic uint32_t address;
};

/* pci_claim - put @p onto @bus. -errno of bus_claim. */
int pci_claim(struct pci *p, struct bus *bus);

/* pci_save - append a section with the address register. pci_load - the reverse, while no vCPU
 * runs; false: the section is damaged, or no guest can cause that state (nothing changed). */
void pci_save(struct pci *p, struct vpmu_blob *b);
bool pci_load(struct pci *p, struct vpmu_blob_reader *r);
