/* SPDX-License-Identifier: GPL-2.0-or-later */
/* For tests of a boot protocol: an image and the guest RAM that it is loaded to. */
#ifndef TESTS_UNIT_BOOT_BED_H
#define TESTS_UNIT_BOOT_BED_H

#include <criterion/criterion.h>
#include <errno.h>

#include "vmm/boot/boot.h"
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

#endif
