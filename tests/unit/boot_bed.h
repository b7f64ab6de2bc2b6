/* SPDX-License-Identifier: GPL-2.0-or-later */
/* For tests of a boot protocol: an image and the guest RAM that it is loaded to. */
#ifndef TESTS_UNIT_BOOT_BED_H
#define TESTS_UNIT_BOOT_BED_H

#include <criterion/criterion.h>
#include <errno.h>

#include "vmm/boot/boot.h"
#include "vmm/boot/bytes.h"
#include "vmm/engine/platform.h"
#include "vmm/vm/ram.h"

#define MIB (1ULL << 20)
#define GIB (1ULL << 30)

static struct image img;
static struct vmm_ram ram;
static struct boot_params p; /* of one vCPU, as a test begins */
static uint64_t entry;
static char err[256];

static void boot_bed(const char *name, void *data, size_t bytes, uint64_t ram_bytes)
{
	img = (struct image){.name = (char *)name, .data = data, .bytes = bytes};
	p = (struct boot_params){.nr_vcpus = 1};
	vm_ram_layout(ram_bytes, &ram);
	cr_assert_eq(vm_ram_map(&ram, false), 0);
}

static void fini(void)
{
	vm_ram_unmap(&ram);
}

static int load_by(const struct boot_protocol *by)
{
	*err = 0;
	return by->load(&img, &ram, &p, &entry, err, sizeof(err));
}

/* Another size of RAM, without contents. */
static inline void other_ram(uint64_t bytes)
{
	vm_ram_unmap(&ram);
	vm_ram_layout(bytes, &ram);
	cr_assert_eq(vm_ram_map(&ram, false), 0);
}

/* Walk the tables at @pml4 as the CPU would; ~0 when not mapped. */
static inline uint64_t walk_from(uint64_t pml4, uint64_t va)
{
	uint64_t e = get_u64(ram.base + pml4 + (va >> 39 & 511) * 8);

	if (!(e & 1))
		return ~0ULL;
	e = get_u64(ram.base + (e & ~0xfffULL) + (va >> 30 & 511) * 8);
	if (!(e & 1))
		return ~0ULL;
	e = get_u64(ram.base + (e & ~0xfffULL) + (va >> 21 & 511) * 8);
	if ((e & 0x87) != 0x83) /* present, writable, supervisor, large */
		return ~0ULL;
	return (e & ~0x1fffffULL) | (va & 0x1fffff);
}

/* A refusal: load()'s or linux_unpack()'s @call returns @error, and has @says in its line. */
#define REFUSED(call, error, says)                                                                 \
	do {                                                                                       \
		cr_assert_eq(call, error);                                                         \
		cr_assert(strstr(err, says), "%s", err);                                           \
	} while (0)

#endif
