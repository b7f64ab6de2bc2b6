/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A bus: maps addresses to devices. One bus is one address space, such as the I/O ports that one
 * vCPU reaches. A device for several vCPUs is claimed on the bus of each, and has its own lock.
 *
 * Devices claim their addresses when the VM is made (vmm/vm/vm.c). The exit loop (vmm/vm/vcpu.c)
 * passes every guest access to the bus. Accesses are hostile: every address and every size is
 * handled.
 */
#pragma once

#include <stdint.h>

#define BUS_RANGES_MAX 16

/* Operations of a device. @offset is relative to the start of the range. Called on the thread of
 * the vCPU that makes the access. */
struct bus_device {
	unsigned int sizes; /* access sizes that it handles whole, ORed: 1, 2, 4, 8 bytes */
	uint64_t (*read)(void *dev, uint64_t offset, unsigned int size);
	void (*write)(void *dev, uint64_t offset, unsigned int size, uint64_t value);
};

/* Zeroed: a bus without devices. */
struct bus {
	unsigned int nr;
	struct {
		uint64_t base, bytes;
		const struct bus_device *ops;
		void *dev;
	} range[BUS_RANGES_MAX];
};

/*
 * bus_claim - from now on @dev answers at @base .. @base + @bytes - 1. -EBUSY: another device
 * handles accesses of one of its sizes there; -ENOSPC: more than BUS_RANGES_MAX ranges; -EINVAL: no
 * addresses, or beyond 2^64. @ops and @dev must outlive the bus.
 */
int bus_claim(struct bus *b, uint64_t base, uint64_t bytes, const struct bus_device *ops,
	      void *dev);

/*
 * bus_read / bus_write - an access of @size bytes (1, 2, 4 or 8) at @addr. Value bits above these
 * bytes are ignored, in both directions.
 *
 * A device gets the access whole if its range holds all of it and the device handles that size.
 * Otherwise the access is split into bytes, lowest address first, each for the device there that
 * handles single bytes. A byte without such a device reads as FFH and is lost when written.
 * Example: a 4-byte OUT to port 3F6H writes its upper two bytes to a UART at 3F8H.
 */
uint64_t bus_read(const struct bus *b, uint64_t addr, unsigned int size);
void bus_write(const struct bus *b, uint64_t addr, unsigned int size, uint64_t value);
