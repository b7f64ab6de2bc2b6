// SPDX-License-Identifier: GPL-2.0-or-later
/* See power.h. */
#include "vmm/dev/power.h"
#include "vmm/engine/platform.h"
#include "vpmu/guest/abi.h"

static uint64_t exitport_read(void *dev, uint64_t offset, unsigned int size)
{
	return UINT32_MAX;
}

static void exitport_write(void *dev, uint64_t offset, unsigned int size, uint64_t value)
{
	const struct exitport *e = dev;

	e->exited((uint32_t)value, e->arg);
}

int exitport_claim(struct exitport *e, struct bus *bus)
{
	static const struct bus_device ops = {
		.sizes = 4, .read = exitport_read, .write = exitport_write};

	return bus_claim(bus, VPMU_PORT_EXIT, 4, &ops, e);
}

int exitport_claim_debug(struct exitport *e, struct bus *bus)
{
	static const struct bus_device ops = {
		.sizes = 1 | 2 | 4, .read = exitport_read, .write = exitport_write};

	return bus_claim(bus, PLATFORM_DEBUG_EXIT, 4, &ops, e);
}
