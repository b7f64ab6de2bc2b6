// SPDX-License-Identifier: GPL-2.0-or-later
/* vmm/dev/bus and the devices on it: the device that gets an access, whole or in bytes. */
#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>

#include "vmm/dev/power.h"
#include "vmm/dev/serial.h"
#include "vpmu/guest/abi.h"

/* A device that notes its writes, and reads as its tag plus the offset. */
struct note {
	uint8_t tag;
	unsigned int n;
	struct {
		uint64_t offset, value;
		unsigned int size;
		bool write;
	} seen[32];
};

static uint64_t note_read(void *dev, uint64_t offset, unsigned int size)
{
	struct note *d = dev;

	d->seen[d->n].offset = offset;
	d->seen[d->n].size = size;
	d->seen[d->n++].write = false;
	return 0x0101010101010101 * (uint64_t)d->tag + offset;
}

static void note_write(void *dev, uint64_t offset, unsigned int size, uint64_t value)
{
	struct note *d = dev;

	d->seen[d->n].offset = offset;
	d->seen[d->n].size = size;
	d->seen[d->n].value = value;
	d->seen[d->n++].write = true;
}

static const struct bus_device bytes = {.sizes = 1, .read = note_read, .write = note_write};
static const struct bus_device dwords = {.sizes = 4, .read = note_read, .write = note_write};
static const struct bus_device any = {.sizes = 15, .read = note_read, .write = note_write};

static struct bus bus;
static struct note a, b;

static void reset(void)
{
	memset(&bus, 0, sizeof(bus));
	a = (struct note){.tag = 0x10};
	b = (struct note){.tag = 0x20};
}

static void expect_write(const struct note *d, unsigned int i, uint64_t offset, unsigned int size,
			 uint64_t value)
{
	cr_assert_gt(d->n, i);
	cr_assert(d->seen[i].write);
	cr_assert_eq(d->seen[i].offset, offset);
	cr_assert_eq(d->seen[i].size, size);
	cr_assert_eq(d->seen[i].value, value);
}

Test(bus, claims, .init = reset)
{
	cr_assert_eq(bus_claim(&bus, 0x100, 8, &bytes, &a), 0);
	for (uint64_t base = 0xf9; base < 0x108; base++)
		cr_assert_eq(bus_claim(&bus, base, 8, &bytes, &b), -EBUSY, "%#lx",
			     (unsigned long)base);
	cr_assert_eq(bus_claim(&bus, 0, UINT64_MAX, &bytes, &b), -EBUSY);
	cr_assert_eq(bus_claim(&bus, 0x108, 0, &bytes, &b), -EINVAL);
	cr_assert_eq(bus_claim(&bus, UINT64_MAX, 2, &bytes, &b), -EINVAL);
	cr_assert_eq(bus_claim(&bus, 0xf8, 8, &bytes, &b), 0);
	cr_assert_eq(bus_claim(&bus, 0x108, 8, &bytes, &b), 0);
	cr_assert_eq(bus_claim(&bus, UINT64_MAX, 1, &bytes, &b), 0);
	for (unsigned int i = 4; i < BUS_RANGES_MAX; i++)
		cr_assert_eq(bus_claim(&bus, i * 0x1000, 1, &bytes, &b), 0);
	cr_assert_eq(bus_claim(&bus, 0x2000000, 1, &bytes, &b), -ENOSPC);
}

Test(bus, whole_or_in_bytes, .init = reset)
{
	cr_assert_eq(bus_claim(&bus, 0x100, 8, &bytes, &a), 0);
	cr_assert_eq(bus_claim(&bus, 0x108, 4, &dwords, &b), 0);
	/* The size it takes. */
	bus_write(&bus, 0x108, 4, 0x44332211);
	expect_write(&b, 0, 0, 4, 0x44332211);
	/* Others are split, and it takes no bytes. */
	bus_write(&bus, 0x108, 2, 0x2211);
	bus_write(&bus, 0x109, 4, 0x44332211);
	bus_write(&bus, 0x108, 8, 1);
	cr_assert_eq(b.n, 1);
	cr_assert_eq(bus_read(&bus, 0x109, 2), 0xffff);
	/* Across the start of a device, and from one into the next. */
	bus_write(&bus, 0xfe, 4, 0x44332211);
	expect_write(&a, 0, 0, 1, 0x33);
	expect_write(&a, 1, 1, 1, 0x44);
	cr_assert_eq(a.n, 2);
	bus_write(&bus, 0x106, 4, 0x44332211);
	expect_write(&a, 2, 6, 1, 0x11);
	expect_write(&a, 3, 7, 1, 0x22);
	cr_assert_eq(a.n, 4);
	cr_assert_eq(b.n, 1);
	cr_assert_eq(bus_read(&bus, 0xff, 4), 0x121110ff);
	cr_assert_eq(bus_read(&bus, 0x108, 4), 0x20202020ull);
}

/* Devices share addresses if no size is both's. */
Test(bus, shared_by_size, .init = reset)
{
	cr_assert_eq(bus_claim(&bus, 0x100, 4, &bytes, &a), 0);
	cr_assert_eq(bus_claim(&bus, 0x100, 8, &dwords, &b), 0);
	cr_assert_eq(bus_claim(&bus, 0x103, 1, &any, &a), -EBUSY);
	cr_assert_eq(bus_claim(&bus, 0x104, 1, &dwords, &a), -EBUSY);
	cr_assert_eq(bus_read(&bus, 0x100, 4), 0x20202020);
	cr_assert_eq(bus_read(&bus, 0x100, 1), 0x10);
	cr_assert_eq(bus_read(&bus, 0x101, 4), 0x20202021);
	bus_write(&bus, 0x100, 2, 0x2211);
	expect_write(&a, 1, 0, 1, 0x11);
	expect_write(&a, 2, 1, 1, 0x22);
	cr_assert_eq(b.n, 2);
	bus_write(&bus, 0x104, 4, 5);
	expect_write(&b, 2, 4, 4, 5);
}

Test(bus, every_size_everywhere, .init = reset)
{
	cr_assert_eq(bus_claim(&bus, UINT64_MAX - 7, 8, &any, &a), 0);
	for (unsigned int size = 1; size <= 8; size *= 2) {
		cr_assert_eq(bus_read(&bus, 0x1234, size), ~0ull >> (64 - 8 * size));
		bus_write(&bus, 0x1234, size, 5);
		cr_assert_eq(a.n, 0);
		bus_write(&bus, UINT64_MAX - 7, size, 5);
		expect_write(&a, 0, 0, size, 5);
		/* Over the end of the address space. */
		a.n = 0;
		bus_write(&bus, UINT64_MAX, size, 0x0807060504030201);
		expect_write(&a, 0, 7, 1, 1);
		cr_assert_eq(a.n, 1);
		a.n = 0;
	}
}

/* ---- the devices ---- */

static char line[SERIAL_LINE_MAX + 1];
static unsigned int lines;
static uint32_t status;

static void on_line(const char *text, size_t len, void *arg)
{
	memcpy(line, text, len);
	line[len] = 0;
	lines++;
}

static void on_exit_port(uint32_t s, void *arg)
{
	status = s;
}

Test(bus, serial_and_exit_port, .init = reset)
{
	struct exitport e = {.exited = on_exit_port};
	struct serial s;

	serial_init(&s, on_line, NULL, NULL);
	cr_assert_eq(serial_claim(&s, &bus), 0);
	cr_assert_eq(exitport_claim(&e, &bus), 0);
	cr_assert_eq(serial_claim(&s, &bus), -EBUSY);
	bus_write(&bus, VPMU_PORT_COM1, 1, 'a');
	/* A wide OUT reaches consecutive registers: THR, IER. */
	bus_write(&bus, VPMU_PORT_COM1, 2, 'b' | 0xf5 << 8);
	cr_assert_eq(bus_read(&bus, VPMU_PORT_COM1 + 1, 1), 5);
	bus_write(&bus, VPMU_PORT_COM1, 1, '\n');
	cr_assert_eq(lines, 1);
	cr_assert_str_eq(line, "ab");
	cr_assert_eq(bus_read(&bus, VPMU_PORT_COM1_LSR, 1), 0x60);
	bus_write(&bus, VPMU_PORT_EXIT, 1, 7);
	bus_write(&bus, VPMU_PORT_EXIT, 2, 7);
	cr_assert_eq(status, 0);
	bus_write(&bus, VPMU_PORT_EXIT, 4, 0x12345678);
	cr_assert_eq(status, 0x12345678);
	cr_assert_eq(bus_read(&bus, VPMU_PORT_EXIT, 4), 0xffffffff);
	cr_assert_eq(bus_read(&bus, VPMU_PORT_EXIT, 1), 0xff);
}
