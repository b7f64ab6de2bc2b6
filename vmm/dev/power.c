// SPDX-License-Identifier: GPL-2.0-or-later
/* See power.h. */
#include "vmm/dev/power.h"
#include "vmm/engine/platform.h"

/* ACPI 6.4, 4.8.3.7: SLP_TYP is bits 4:2, SLP_EN bit 5. Sleep status has only WAK_STS, never set.
 */
#define SLEEP_TYPE(v) ((v) >> 2 & 7)
#define SLEEP_ENABLE  (1u << 5)

/* Ports CF8H to CFBH: a byte access to CF9H is to the reset register, a 4-byte access to PCI's
 * address register (pci.c). Words are for neither. */
#define RESET_PORTS (PLATFORM_RESET - 1)
#define RESET_CPU   (1u << 2)

#define KEYBOARD_RESET 0xfe

static uint64_t sleep_read(void *dev, uint64_t offset, unsigned int size)
{
	return 0;
}

static void sleep_write(void *dev, uint64_t offset, unsigned int size, uint64_t value)
{
	const struct power *p = dev;

	if (!offset && value & SLEEP_ENABLE && SLEEP_TYPE(value) == PLATFORM_SLEEP_S5)
		p->off(p->arg);
}

static uint64_t reset_read(void *dev, uint64_t offset, unsigned int size)
{
	return size == 1 && offset == 1 ? 0 : UINT32_MAX;
}

static void reset_write(void *dev, uint64_t offset, unsigned int size, uint64_t value)
{
	const struct power *p = dev;

	if (size == 1 && offset == 1 && value & RESET_CPU)
		p->reset(p->arg);
}

/* Status: input buffer empty, so kernels do not wait for it. */
static uint64_t keyboard_read(void *dev, uint64_t offset, unsigned int size)
{
	return 0;
}

static void keyboard_write(void *dev, uint64_t offset, unsigned int size, uint64_t value)
{
	const struct power *p = dev;

	if (value == KEYBOARD_RESET)
		p->reset(p->arg);
}

int power_claim(struct power *p, struct bus *bus)
{
	static const struct bus_device sleep = {
		.sizes = 1, .read = sleep_read, .write = sleep_write};
	static const struct bus_device reset = {
		.sizes = 1 | 2, .read = reset_read, .write = reset_write};
	static const struct bus_device keyboard = {
		.sizes = 1, .read = keyboard_read, .write = keyboard_write};
	int ret = bus_claim(bus, PLATFORM_SLEEP_CONTROL, 2, &sleep, p);

	if (!ret)
		ret = bus_claim(bus, RESET_PORTS, 4, &reset, p);
	return ret ? ret : bus_claim(bus, PLATFORM_KEYBOARD, 1, &keyboard, p);
}
