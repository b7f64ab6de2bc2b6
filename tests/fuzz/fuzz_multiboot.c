// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * libFuzzer target: hostile multiboot images (vmm/boot/multiboot.c). Whatever the bytes are, the
 * protocol either refuses them with one line and leaves guest RAM alone, or loads them inside of
 * it. The first byte chooses how the rest makes an image: it is one, or a list of patches to a good
 * one. The second byte has the module's length in pages and the number of vCPUs.
 */
#include <stdbool.h>

#include "tests/fuzz/fuzz.h"
#include "tests/unit/multiboot_image.h"
#include "vmm/boot/bytes.h"
#include "vmm/boot/linux.h"
#include "vmm/engine/platform.h"

#define RAM_BYTES (8ULL << 20)

/* The image that the input stands for, in memory of exactly its size. */
static struct image make(const uint8_t *data, size_t size, bool patches)
{
	struct image img = {.name = "fuzz.flat"};
	struct mb_image m;

	if (patches) {
		mb_image(&m);
		fuzz_patch(&m, sizeof(m), data, size);
		/* Most patches of the header would only break its checksum. */
		if (size & 1)
			m.header[2] = -(m.header[0] + m.header[1]);
	}
	img.bytes = patches ? sizeof(m) : size;
	img.data = malloc(img.bytes ? img.bytes : 1);
	if (img.data && img.bytes)
		memcpy(img.data, patches ? (const void *)&m : data, img.bytes);
	return img;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static uint8_t *ram, disk[256 * 4096];
	struct image img, initrd = {.name = "module", .data = disk};
	struct boot_params p = {.args = "one two", .initrd = &initrd};
	struct vmm_ram slots;
	uint64_t entry = 0;
	char err[256] = "";
	int ret;

	if (size < 2)
		return -1;
	if (!ram) {
		ram = fuzz_ram(RAM_BYTES);
		memset(disk, 0x77, sizeof(disk));
	}
	slots = (struct vmm_ram){.base = ram, .nr = 1, .slot[0].bytes = RAM_BYTES};
	initrd.bytes = data[1] * 4096u + 1;
	p.nr_vcpus = data[1] % (PLATFORM_VCPUS_MAX + 1);
	img = make(data + 2, size - 2, data[0] & 1);
	if (!img.data)
		return 0;
	ret = boot_multiboot.load(&img, &slots, &p, &entry, err, sizeof(err));
	if (!!ret != !!boot_multiboot.check(&img, &slots, &p, err, sizeof(err)))
		abort();
	if (ret) {
		if (!*err || strchr(err, '\n') || get_u32(ram + MULTIBOOT_INFO) ||
		    ram[LINUX_ACPI] || ram[LINUX_CMDLINE])
			abort();
	} else {
		const uint8_t *module = ram + get_u32(ram + MULTIBOOT_INFO + MULTIBOOT_MODS_ADDR);
		uint64_t at = get_u32(module), end = get_u32(module + 4);

		if (*err || entry < LINUX_KERNEL || entry >= RAM_BYTES || end > RAM_BYTES ||
		    end - at != initrd.bytes || ram[at] != 0x77 || ram[end - 1] != 0x77 ||
		    memcmp(ram + LINUX_ACPI, "RSD PTR ", 8))
			abort();
		madvise(ram, RAM_BYTES, MADV_DONTNEED);
	}
	free(img.data);
	return 0;
}
