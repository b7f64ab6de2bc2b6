/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Stock Linux kernels: unpacking a bzImage, and where the boot protocol boot_linux (boot.h) puts
 * things into guest memory. vmm/machine unpacks; tests look into guest memory.
 *
 * Documentation/arch/x86/boot.rst ("64-bit boot protocol") and zero-page.rst of the kernel.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "vmm/boot/boot.h"

/* linux_is_bzimage - returns true if @img is a bzImage, even if damaged. Pure. */
bool linux_is_bzimage(const struct image *img);

/*
 * linux_unpack - replace a bzImage by its kernel: on return img->data is the unpacked ELF file and
 * img->setup the bzImage's setup header. Any other image is left as it is. -ENOEXEC or -ENOMEM and
 * one line in @err: *img is unchanged. The kernel is limited to BOOT_FILE_MAX bytes, whatever the
 * image claims. Takes up to a second. Any thread.
 */
int linux_unpack(struct image *img, char *err, size_t errlen);

/* Fields of the setup header, as offsets in the bzImage and in the zero page. */
enum {
	LINUX_HDR = 0x1f1, /* where it begins */
	LINUX_HDR_SETUP_SECTS = 0x1f1,
	LINUX_HDR_BOOT_FLAG = 0x1fe,
	LINUX_HDR_JUMP = 0x201, /* length of the header from LINUX_HDR_JUMP_END on */
	LINUX_HDR_JUMP_END = 0x202,
	LINUX_HDR_MAGIC = 0x202,
	LINUX_HDR_VERSION = 0x206,
	LINUX_HDR_LOADER = 0x210,
	LINUX_HDR_LOADFLAGS = 0x211,
	LINUX_HDR_RAMDISK = 0x218,
	LINUX_HDR_RAMDISK_SIZE = 0x21c,
	LINUX_HDR_CMDLINE = 0x228,
	LINUX_HDR_INITRD_MAX = 0x22c,
	LINUX_HDR_ALIGNMENT = 0x230,
	LINUX_HDR_XLOADFLAGS = 0x236,
	LINUX_HDR_CMDLINE_SIZE = 0x238,
	LINUX_HDR_PAYLOAD_OFFSET = 0x248,
	LINUX_HDR_PAYLOAD_LENGTH = 0x24c,
	LINUX_HDR_SETUP_DATA = 0x250,
	LINUX_HDR_END_MAX = 0x290, /* the zero page has something else there */
};
#define LINUX_XLF_KERNEL_64 1

/* Other fields of the zero page. */
enum {
	LINUX_ZP_RSDP = 0x70,
	LINUX_ZP_EXT_RAMDISK = 0xc0,
	LINUX_ZP_EXT_RAMDISK_SIZE = 0xc4,
	LINUX_ZP_EXT_CMDLINE = 0xc8,
	LINUX_ZP_E820_NR = 0x1e8,
	LINUX_ZP_E820 = 0x2d0, /* entries: u64 address, u64 bytes, u32 type */
	LINUX_E820_ENTRY_BYTES = 20,
	LINUX_E820_RAM = 1,
	LINUX_E820_RESERVED = 2,
};

/* A node of the list of setup_data: u64 next, u32 type, u32 bytes, data (boot.rst, "setup_data";
 * struct setup_data and SETUP_RNG_SEED in the kernel's asm/setup_data.h, until 6.7
 * asm/bootparam.h). */
enum {
	LINUX_SETUP_DATA_TYPE = 8,
	LINUX_SETUP_DATA_BYTES = 12,
	LINUX_SETUP_DATA_DATA = 16,
	LINUX_SETUP_RNG_SEED = 9, /* since Linux 6.0; others skip it */
};

/* Guest-physical addresses, all below 1 MiB. The kernel is above. */
#define LINUX_GDT	0x6000u
#define LINUX_ZERO_PAGE 0x7000u
#define LINUX_RNG_SEED	0x8000u /* setup_data, if there is a seed */
#define LINUX_PAGES	0x9000u /* page tables: 1:1 for the first 4 GiB */
#define LINUX_CMDLINE	0x20000u
#define LINUX_LOW_END	0x9fc00u /* end of RAM below a PC's video memory and firmware */
#define LINUX_ACPI	0xe0000u /* RSDP, then the tables */
#define LINUX_ACPI_END	0x100000u
#define LINUX_RESET	0xffff0u /* reset vector of x86 CPUs: code that resets the machine */
#define LINUX_KERNEL	0x100000u

/* In front of a command line that does not have reboot=. Linux on hardware-reduced ACPI without EFI
 * would otherwise reset the machine by a jump to the firmware in real mode, which is only
 * LINUX_RESET here and not supported by the emulator. */
#define LINUX_CMDLINE_PREFIX  "reboot=acpi "
#define LINUX_CMDLINE_MAX     4095u
#define LINUX_CMDLINE_DEFAULT "console=ttyS0 panic=-1"

/* linux_plan_initrd - find the highest place in guest memory for the initrd, from the page behind
 * @end, that of the kernel, to @top: *at, 0 without an initrd. -EINVAL: no room. */
int linux_plan_initrd(const struct boot_params *p, uint64_t end, uint64_t top, uint64_t *at,
		      char *err, size_t errlen);

/* acpi_write - write the ACPI tables of a VM with @nr_vcpus vCPUs to @ram, from LINUX_ACPI to below
 * LINUX_RESET. Returns their size in bytes. */
size_t acpi_write(const struct vmm_ram *ram, unsigned int nr_vcpus);

/* ---- unpack.c: the payload of a bzImage, by the libraries that own the formats ---- */

#define UNPACK_FORMATS "gzip, xz, lzma, zstd, lz4 or bzip2"

/*
 * unpack - decompress the @n bytes at @in, which may be followed by bytes that are not part of the
 * compressed data, to the @room bytes at @out. Returns their number, or -ENOTSUP: the first bytes
 * are not those of a format in UNPACK_FORMATS; -ENOSYS: this build has no library for the format;
 * -ENOMEM; -E2BIG: the output exceeds @room; -EBADMSG: the data is damaged or ends too early, or
 * needs a dictionary of more than 256 MiB. *@method is the name of the format; "" with -ENOTSUP.
 * Uses no more memory than @room and the dictionary. Any thread.
 */
long unpack(const uint8_t *in, size_t n, uint8_t *out, size_t room, const char **method);
