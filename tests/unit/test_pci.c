// SPDX-License-Identifier: GPL-2.0-or-later
/* vmm/dev/pci.c: configuration mechanism 1 as the PCI Local Bus Specification 3.0 has it, section
 * by section, and what Linux does to find out whether it works (arch/x86/pci/direct.c). */
#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>

#include "vmm/dev/pci.h"
#include "vmm/dev/power.h"

#define ADDRESS 0xcf8
#define DATA	0xcfc

static struct bus bus;
static struct pci pci;
static unsigned int resets;

static void on_power(void *arg)
{
	resets++;
}

static struct power power = {.off = on_power, .reset = on_power};

static void init(void)
{
	cr_assert_eq(power_claim(&power, &bus), 0);
	cr_assert_eq(pci_claim(&pci, &bus), 0);
}

TestSuite(pci, .init = init);

static uint32_t in(uint64_t port, unsigned int size)
{
	return (uint32_t)bus_read(&bus, port, size);
}

static void out(uint64_t port, unsigned int size, uint32_t value)
{
	bus_write(&bus, port, size, value);
}

static uint32_t config(unsigned int bus_nr, unsigned int device, unsigned int function,
		       unsigned int reg)
{
	out(ADDRESS, 4, 1u << 31 | bus_nr << 16 | device << 11 | function << 8 | reg);
	return in(DATA, 4);
}

/* The steps of pci_check_type1() and pci_sanity_check(). */
Test(pci, linux_finds_mechanism_1)
{
	uint32_t before;

	out(0xcfb, 1, 1);
	before = in(ADDRESS, 4);
	cr_assert_eq(before, 0, "as after a reset");
	out(ADDRESS, 4, 0x80000000);
	cr_assert_eq(in(ADDRESS, 4), 0x80000000);
	out(ADDRESS, 4, 0x80000008);
	cr_assert_eq(in(DATA + 2, 2), 0x0600, "a host bridge");
	out(ADDRESS, 4, before);
	cr_assert_eq(in(ADDRESS, 4), before);
}

/* 3.2.2.3.2: bits 30:24 and 1:0 read as 0, the others as written. */
Test(pci, address_bits)
{
	for (unsigned int bit = 0; bit < 32; bit++) {
		uint32_t x = 1u << bit;
		bool kept = bit == 31 || (bit < 24 && bit > 1);

		out(ADDRESS, 4, x);
		cr_assert_eq(in(ADDRESS, 4), kept ? x : 0, "bit %u", bit);
		out(ADDRESS, 4, ~x);
		cr_assert_eq(in(ADDRESS, 4), 0x80fffffc & ~x, "all but bit %u", bit);
	}
}

/* The same section: only accesses of four bytes at CF8H are to the register. Others are to other
 * ports, of which one is the reset register. */
Test(pci, narrow_accesses_are_to_other_ports)
{
	static const struct {
		unsigned int port, size;
		uint32_t value;
	} others[] = {
		{0xcf8, 1, 0xff},   {0xcf9, 1, 0xfb},	    {0xcfa, 1, 0xff},
		{0xcfb, 1, 0xff},   {0xcf8, 2, 0xffff},	    {0xcf9, 2, 0xffff},
		{0xcfa, 2, 0xffff}, {0xcf6, 4, 0xfbffffff}, {0xcf9, 4, 0xfffffffb},
		{0xcfa, 4, 0xffff},
	};

	out(ADDRESS, 4, 0x80123454);
	for (size_t i = 0; i < sizeof(others) / sizeof(*others); i++) {
		out(others[i].port, others[i].size, others[i].value);
		cr_assert_eq(in(ADDRESS, 4), 0x80123454, "%x by %u", others[i].port,
			     others[i].size);
	}
	cr_assert_eq(resets, 0);
	for (unsigned int port = 0xcf8; port < 0xcfc; port++)
		cr_assert_eq(in(port, 1), port == 0xcf9 ? 0 : 0xff);
	cr_assert_eq(in(0xcf8, 2), 0xffff);
	cr_assert_eq(in(0xcfa, 2), 0xffff);
	/* An address with a second byte that would reset the VM does not. */
	out(ADDRESS, 4, 0x80000600);
	cr_assert_eq(resets, 0);
	out(0xcf9, 1, 6);
	cr_assert_eq(resets, 1);
	cr_assert_eq(in(ADDRESS, 4), 0x80000600);
}

/* The header of the host bridge, 6.1, by every size at every offset. */
Test(pci, host_bridge)
{
	static const uint8_t header[256] = {
		0x36, 0x1b,	  /* vendor */
		0x08, 0x00,	  /* device */
		0x06, 0x00,	  /* command: memory, bus master */
		0x00, 0x00,	  /* status: no capabilities */
		0x00,		  /* revision */
		0x00, 0x00, 0x06, /* class: host bridge */
		0x00, 0x00, 0x00, /* header type 0, one function */
	};

	for (unsigned int reg = 0; reg < 256; reg += 4) {
		uint32_t want = 0;

		for (unsigned int i = 0; i < 4; i++)
			want |= (uint32_t)header[reg + i] << 8 * i;
		cr_assert_eq(config(0, 0, 0, reg), want, "register %02x", reg);
		for (unsigned int i = 0; i < 4; i++)
			cr_assert_eq(in(DATA + i, 1), header[reg + i], "byte %02x", reg + i);
		for (unsigned int i = 0; i < 3; i++)
			cr_assert_eq(in(DATA + i, 2), want >> 8 * i & 0xffff, "word %02x", reg + i);
		/* Bits 1:0 of the address choose nothing. */
		cr_assert_eq(config(0, 0, 0, reg | 3), want);
	}
}

/* 3.2.2.3.4: where no device is, all bits are 1. Only function 0 of a device of one function
 * answers, only on bus 0. */
Test(pci, nothing_else)
{
	for (unsigned int function = 1; function < 1u << 16; function++) {
		out(ADDRESS, 4, 1u << 31 | function << 8);
		cr_assert_eq(in(DATA, 4), UINT32_MAX, "function %04x", function);
	}
	cr_assert_eq(in(DATA + 3, 1), 0xff);
	/* Without bit 31 the data ports are ports that no device has. */
	out(ADDRESS, 4, 0);
	cr_assert_eq(in(DATA, 4), UINT32_MAX);
	cr_assert_eq(in(DATA + 1, 1), 0xff);
	/* Over the end of the window there is nothing, either. */
	cr_assert_eq(config(0, 0, 0, 0), 0x00081b36);
	cr_assert_eq(in(DATA + 2, 4), 0xffff0008);
	cr_assert_eq(in(DATA + 4, 4), UINT32_MAX);
}

/* The bridge has no register that can be written: base addresses claim nothing (6.2.5.1). */
Test(pci, writes_change_nothing)
{
	for (unsigned int reg = 0; reg < 256; reg += 4) {
		uint32_t was = config(0, 0, 0, reg);

		for (unsigned int size = 1; size <= 4; size *= 2)
			for (unsigned int i = 0; i < 4; i += size) {
				out(DATA + i, size, UINT32_MAX);
				out(DATA + i, size, 0);
				out(DATA + i, size, UINT32_MAX);
			}
		cr_assert_eq(in(ADDRESS, 4), 0x80000000 | reg);
		cr_assert_eq(in(DATA, 4), was, "register %02x", reg);
	}
	/* A special cycle (3.6.2), and a device that is not there. */
	out(ADDRESS, 4, 0x8000ff00);
	out(DATA, 4, 0);
	out(ADDRESS, 4, 0x80010000);
	out(DATA, 4, 0);
	cr_assert_eq(config(0, 0, 0, 0), 0x00081b36);
}

/* Two vCPUs have a bus each, and the register is one. */
Test(pci, one_for_all_vcpus)
{
	struct bus other = {0};

	cr_assert_eq(pci_claim(&pci, &other), 0);
	bus_write(&other, ADDRESS, 4, 0x80000004);
	cr_assert_eq(in(ADDRESS, 4), 0x80000004);
	cr_assert_eq(in(DATA, 1), 6);
}

static bool load(struct pci *p, uint32_t address, uint16_t version, unsigned int bytes)
{
	struct vpmu_blob b = {0};
	struct vpmu_blob_reader r;
	size_t section = vpmu_blob_begin(&b, 0x41494350u, version);
	bool good;

	for (unsigned int i = 0; i < bytes; i++)
		vpmu_blob_u8(&b, (uint8_t)((uint64_t)address >> 8 * i));
	vpmu_blob_end(&b, section);
	r = (struct vpmu_blob_reader){.data = b.data, .len = b.len};
	good = pci_load(p, &r);
	vpmu_blob_fini(&b);
	return good;
}

Test(pci, snapshot)
{
	struct pci to = {0};
	struct bus there = {0};
	struct vpmu_blob b = {0};
	struct vpmu_blob_reader r;

	out(ADDRESS, 4, 0x80000008);
	pci_save(&pci, &b);
	cr_assert(!b.failed);
	for (size_t len = 0; len <= b.len; len++) {
		r = (struct vpmu_blob_reader){.data = b.data, .len = len};
		cr_assert_eq(pci_load(&to, &r), len == b.len, "%zu bytes", len);
	}
	cr_assert(vpmu_blob_done(&r));
	vpmu_blob_fini(&b);
	cr_assert_eq(pci_claim(&to, &there), 0);
	cr_assert_eq(bus_read(&there, ADDRESS, 4), 0x80000008);
	cr_assert_eq(bus_read(&there, DATA + 3, 1), 6);

	/* An impossible state, or another section, changes nothing. */
	for (unsigned int bit = 0; bit < 32; bit++)
		cr_assert_eq(load(&to, 1u << bit, 1, 4), bit == 31 || (bit < 24 && bit > 1),
			     "bit %u", bit);
	cr_assert(load(&to, 0x80fffffc, 1, 4));
	cr_assert_not(load(&to, 0, 0, 4));
	cr_assert_not(load(&to, 0, 2, 4));
	cr_assert_not(load(&to, 0, 1, 3));
	cr_assert_not(load(&to, 0, 1, 5));
	cr_assert_not(load(&to, 0x80fffffe, 1, 4));
	cr_assert_eq(bus_read(&there, ADDRESS, 4), 0x80fffffc);
}
