// SPDX-License-Identifier: GPL-2.0-or-later
/* Finding the device of an access; splitting accesses that no device takes whole. See bus.h. */
#include <errno.h>

#include "vmm/dev/bus.h"

int bus_claim(struct bus *b, uint64_t base, uint64_t bytes, const struct bus_device *ops, void *dev)
{
	if (!bytes || bytes - 1 > UINT64_MAX - base)
		return -EINVAL;
	/* Compare differences, because sums may wrap. */
	for (unsigned int i = 0; i < b->nr; i++)
		if ((base - b->range[i].base < b->range[i].bytes ||
		     b->range[i].base - base < bytes) &&
		    ops->sizes & b->range[i].ops->sizes)
			return -EBUSY;
	if (b->nr == BUS_RANGES_MAX)
		return -ENOSPC;
	b->range[b->nr].base = base;
	b->range[b->nr].bytes = bytes;
	b->range[b->nr].ops = ops;
	b->range[b->nr++].dev = dev;
	return 0;
}

/* Index of the range with a device that handles the whole access, or -1. */
static int bus_find(const struct bus *b, uint64_t addr, unsigned int size)
{
	for (unsigned int i = 0; i < b->nr; i++) {
		uint64_t offset = addr - b->range[i].base;

		if (offset < b->range[i].bytes && size <= b->range[i].bytes - offset &&
		    (b->range[i].ops->sizes & size))
			return (int)i;
	}
	return -1;
}

static uint64_t low(uint64_t value, unsigned int size)
{
	return size < 8 ? value & ((1ULL << 8 * size) - 1) : value;
}

uint64_t bus_read(const struct bus *b, uint64_t addr, unsigned int size)
{
	int i = bus_find(b, addr, size);
	uint64_t value = 0;

	if (i >= 0)
		return low(b->range[i].ops->read(b->range[i].dev, addr - b->range[i].base, size),
			   size);
	if (size == 1)
		return 0xff;
	for (unsigned int n = 0; n < size; n++)
		value |= bus_read(b, addr + n, 1) << 8 * n;
	return value;
}

void bus_write(const struct bus *b, uint64_t addr, unsigned int size, uint64_t value)
{
	int i = bus_find(b, addr, size);

	if (i >= 0)
		b->range[i].ops->write(b->range[i].dev, addr - b->range[i].base, size,
				       low(value, size));
	else
		for (unsigned int n = 0; size > 1 && n < size; n++)
			bus_write(b, addr + n, 1, value >> 8 * n);
}
