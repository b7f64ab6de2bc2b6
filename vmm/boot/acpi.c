// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The ACPI tables of VMs that boot a stock kernel: RSDP, XSDT, FADT, MADT and DSDT. They describe
 * the hardware of vmm/engine/platform.h and exclude any other: ACPI's hardware-reduced mode,
 * without the interrupt controller, timer, clock and keyboard controller of old PCs. linux.c calls
 * this. Section numbers are those of the ACPI specification 6.4.
 */
#include <string.h>

#include "vmm/boot/aml.h"
#include "vmm/boot/bytes.h"
#include "vmm/boot/linux.h"
#include "vmm/engine/platform.h"

#define HEADER 36 /* 5.2.6 */

/* FADT, 5.2.9. */
enum {
	FADT_DSDT = 40,
	FADT_BOOT_ARCH = 109,
	FADT_FLAGS = 112,
	FADT_RESET_REG = 116,
	FADT_RESET_VALUE = 128,
	FADT_MINOR = 131,
	FADT_X_DSDT = 140,
	FADT_SLEEP_CONTROL = 244,
	FADT_SLEEP_STATUS = 256,
	FADT_HYPERVISOR = 268,
	FADT_BYTES = 276,
};
#define FADT_REVISION  6
#define FADT_MINOR_6_4 4
/* 5.2.9.3: no VGA, no CMOS clock; neither legacy devices nor a keyboard controller. */
#define BOOT_ARCH (1u << 2 | 1u << 5)
/* WBINVD works, no power button, no sleep button, there is a reset register, hardware-reduced. */
#define FLAGS (1u << 0 | 1u << 4 | 1u << 5 | 1u << 10 | 1u << 20)

/* MADT, 5.2.12. */
enum { MADT_LAPIC_ADDRESS = 36, MADT_FLAGS = 40, MADT_ENTRIES = 44 };
enum { MADT_LAPIC = 0, MADT_IOAPIC = 1 };

/* A resource template, 6.4. */
#define IO_PORT_DESCRIPTOR	0x47
#define EXTENDED_IRQ_DESCRIPTOR 0x89
#define IRQ_CONSUMER_EDGE_HIGH	0x03
#define END_TAG			0x79

/* A table that is being written. */
struct tables {
	uint8_t *base; /* LINUX_ACPI in host memory */
	size_t used;
};

static uint8_t sum(const uint8_t *p, size_t n)
{
	uint8_t s = 0;

	for (size_t i = 0; i < n; i++)
		s = (uint8_t)(s + p[i]);
	return s;
}

/* The guest-physical address of the next table, and *p in host memory. */
static uint64_t acpi_begin(struct tables *t, uint8_t **p)
{
	t->used = (t->used + 15) & ~15ul;
	*p = t->base + t->used;
	return LINUX_ACPI + t->used;
}

/* Write the header and checksum of the table at @p, which has @bytes. */
static void acpi_end(struct tables *t, uint8_t *p, const char *signature, uint8_t revision,
		     size_t bytes)
{
	memcpy(p, signature, 4);
	put_u32(p + 4, (uint32_t)bytes);
	p[8] = revision;
	memcpy(p + 10, "VPMU  ", 6);
	memcpy(p + 16, "VPMUVM  ", 8);
	put_u32(p + 24, 1);
	memcpy(p + 28, "VPMU", 4);
	put_u32(p + 32, 1);
	p[9] = 0;
	p[9] = (uint8_t)-sum(p, bytes);
	t->used += bytes;
}

/* Generic address of a register of 8 bits in I/O space, 5.2.3.2. */
static void put_port(uint8_t *p, uint16_t port)
{
	p[0] = 1; /* system I/O */
	p[1] = 8; /* bits */
	p[2] = 0;
	p[3] = 1; /* byte access */
	put_u64(p + 4, port);
}

/* Device (COM1) { Name (_HID, EisaId ("PNP0501")) Name (_UID, 0) Name (_CRS, ...) } */
static void serial_device(struct aml *a)
{
	static const uint8_t resources[] = {
		IO_PORT_DESCRIPTOR,
		1, /* decodes 16 bits */
		PLATFORM_COM1 & 0xff,
		PLATFORM_COM1 >> 8,
		PLATFORM_COM1 & 0xff,
		PLATFORM_COM1 >> 8,
		1, /* alignment */
		8, /* ports */
		EXTENDED_IRQ_DESCRIPTOR,
		6,
		0,
		IRQ_CONSUMER_EDGE_HIGH,
		1, /* interrupts */
		PLATFORM_COM1_GSI,
		0,
		0,
		0,
		END_TAG,
		0, /* no checksum */
	};
	size_t device = aml_open(a, AML_EXT, AML_EXT_DEVICE), buffer;

	aml_name(a, "COM1");
	aml_byte(a, AML_NAME);
	aml_name(a, "_HID");
	aml_eisa_id(a, "PNP0501");
	aml_byte(a, AML_NAME);
	aml_name(a, "_UID");
	aml_integer(a, 0);
	aml_byte(a, AML_NAME);
	aml_name(a, "_CRS");
	buffer = aml_open(a, 0, AML_BUFFER);
	aml_integer(a, sizeof(resources));
	aml_bytes(a, resources, sizeof(resources));
	aml_close(a, buffer);
	aml_close(a, device);
}

/* Scope (\_SB) { the serial port }  Name (\_S5, Package () { 5, 0 }) */
static uint64_t write_dsdt(struct tables *t)
{
	uint8_t *p;
	uint64_t gpa = acpi_begin(t, &p);
	struct aml a = {.buf = p + HEADER, .room = LINUX_RESET - LINUX_ACPI - t->used - HEADER};
	size_t scope = aml_open(&a, 0, AML_SCOPE), package;

	aml_name(&a, "\\_SB");
	serial_device(&a);
	aml_close(&a, scope);
	aml_byte(&a, AML_NAME);
	aml_name(&a, "\\_S5");
	package = aml_open(&a, 0, AML_PACKAGE);
	aml_byte(&a, 2);
	aml_integer(&a, PLATFORM_SLEEP_S5);
	aml_integer(&a, 0);
	aml_close(&a, package);
	acpi_end(t, p, "DSDT", 2, HEADER + a.len);
	return gpa;
}

static uint64_t write_fadt(struct tables *t, uint64_t dsdt)
{
	uint8_t *p;
	uint64_t gpa = acpi_begin(t, &p);

	put_u32(p + FADT_DSDT, (uint32_t)dsdt);
	put_u16(p + FADT_BOOT_ARCH, BOOT_ARCH);
	put_u32(p + FADT_FLAGS, FLAGS);
	put_port(p + FADT_RESET_REG, PLATFORM_RESET);
	p[FADT_RESET_VALUE] = PLATFORM_RESET_VALUE;
	p[FADT_MINOR] = FADT_MINOR_6_4;
	put_u64(p + FADT_X_DSDT, dsdt);
	put_port(p + FADT_SLEEP_CONTROL, PLATFORM_SLEEP_CONTROL);
	put_port(p + FADT_SLEEP_STATUS, PLATFORM_SLEEP_STATUS);
	memcpy(p + FADT_HYPERVISOR, "VPMU\0\0\0\0", 8);
	acpi_end(t, p, "FACP", FADT_REVISION, FADT_BYTES);
	return gpa;
}

static uint64_t write_madt(struct tables *t, unsigned int nr_vcpus)
{
	uint8_t *p, *e;
	uint64_t gpa = acpi_begin(t, &p);

	put_u32(p + MADT_LAPIC_ADDRESS, PLATFORM_LAPIC);
	e = p + MADT_ENTRIES;
	for (unsigned int i = 0; i < nr_vcpus; i++, e += 8) {
		e[0] = MADT_LAPIC;
		e[1] = 8;
		e[2] = (uint8_t)i; /* processor UID */
		e[3] = (uint8_t)i; /* local APIC ID */
		put_u32(e + 4, 1); /* enabled */
	}
	e[0] = MADT_IOAPIC;
	e[1] = 12;
	e[2] = PLATFORM_IOAPIC_ID;
	put_u32(e + 4, PLATFORM_IOAPIC);
	put_u32(e + 8, 0); /* its first global system interrupt */
	e += 12;
	acpi_end(t, p, "APIC", 5, (size_t)(e - p));
	return gpa;
}

size_t acpi_write(const struct vmm_ram *ram, unsigned int nr_vcpus)
{
	struct tables t = {.base = ram->base + LINUX_ACPI, .used = HEADER};
	uint8_t *rsdp = t.base, *xsdt;
	uint64_t fadt = write_fadt(&t, write_dsdt(&t));
	uint64_t madt = write_madt(&t, nr_vcpus);
	uint64_t gpa = acpi_begin(&t, &xsdt);

	put_u64(xsdt + HEADER, fadt);
	put_u64(xsdt + HEADER + 8, madt);
	acpi_end(&t, xsdt, "XSDT", 1, HEADER + 16);

	/* 5.2.5.3: the first 20 bytes have a checksum of their own. */
	memset(rsdp, 0, HEADER);
	memcpy(rsdp, "RSD PTR ", 8);
	memcpy(rsdp + 9, "VPMU  ", 6);
	rsdp[15] = 2; /* revision */
	put_u32(rsdp + 20, 36);
	put_u64(rsdp + 24, gpa);
	rsdp[8] = (uint8_t)-sum(rsdp, 20);
	rsdp[32] = (uint8_t)-sum(rsdp, 36);
	return t.used;
}
