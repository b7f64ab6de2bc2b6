/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The layout of guest memory for multiboot images (boot_multiboot in boot.h). Only vmm/boot and
 * tests include this. Multiboot Specification 0.6.96, 3.2 and 3.3.
 */
#pragma once

#include "vmm/boot/boot.h"

#define MULTIBOOT_MAGIC 0x2badb002u /* in EAX */

/* Guest-physical addresses below 1 MiB. The command line and the ACPI tables are where linux.h has
 * them. */
#define MULTIBOOT_GDT	 0x6000u
#define MULTIBOOT_INFO	 0x7000u /* in EBX */
#define MULTIBOOT_MMAP	 0x7100u
#define MULTIBOOT_MODULE 0x7300u

#define MULTIBOOT_NAME_MAX 255u /* bytes of the image's name in the command line */

/* Fields of the information, as offsets; each is 32 bits. The first one is the flags. */
enum {
	MULTIBOOT_LOWER = 4, /* KiB from 0 */
	MULTIBOOT_UPPER = 8, /* KiB from 1 MiB */
	MULTIBOOT_CMDLINE = 16,
	MULTIBOOT_MODS_COUNT = 20,
	MULTIBOOT_MODS_ADDR = 24, /* of each: start, end, string, 0 */
	MULTIBOOT_MMAP_LENGTH = 44,
	MULTIBOOT_MMAP_ADDR = 48,
	MULTIBOOT_MMAP_BYTES = 24, /* of a range: u32 20, u64 address, u64 bytes, u32 type */
};
enum {
	MULTIBOOT_HAS_MEMORY = 1 << 0,
	MULTIBOOT_HAS_CMDLINE = 1 << 2,
	MULTIBOOT_HAS_MODULES = 1 << 3,
	MULTIBOOT_HAS_MMAP = 1 << 6,
};
