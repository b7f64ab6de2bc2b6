// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Hostile kernels: whatever the bytes are, unpacking and loading them either refuses them with one
 * line and leaves guest RAM alone, or writes inside of it, with an entry in it. The first byte says
 * how the rest makes a kernel: bits 2:0 the compression of a good bzImage that the rest patches (6:
 * a good vmlinux is patched; 7: the rest is the file); bit 3: the patches are to the vmlinux in the
 * bzImage, which is compressed afterwards. The second byte is the length of the initrd in pages,
 * and how many vCPUs there are.
 */
#include <stdbool.h>
#include <stddef.h>

#include "tests/fuzz/fuzz.h"
#include "tests/unit/bz_image.h"
#include "vmm/engine/platform.h"

#define RAM_BYTES (32ULL << 20)

/* The kernel that the input stands for, in memory of exactly its size. */
static bool make(uint8_t how, const uint8_t *data, size_t size, struct image *img)
{
	unsigned int kind = how & 7;
	struct bz_vmlinux k;
	uint8_t *exact;

	bz_vmlinux(&k);
	if (kind < BZ_METHODS) {
		if (how & 8)
			fuzz_patch(&k, sizeof(k), data, size);
		if (!bz_image(kind, &k, sizeof(k), img))
			return false;
		if (!(how & 8))
			fuzz_patch(img->data, img->bytes, data, size);
		exact = realloc(img->data, img->bytes);
		if (exact)
			img->data = exact;
		return true;
	}
	*img = (struct image){.name = strdup("fuzz.bz"), .bytes = kind == 6 ? sizeof(k) : size};
	img->data = malloc(img->bytes ? img->bytes : 1);
	if (!img->name || !img->data)
		return false;
	if (kind == 6) {
		fuzz_patch(&k, sizeof(k), data, size);
		memcpy(img->data, &k, sizeof(k));
	} else if (size) {
		memcpy(img->data, data, size);
	}
	return true;
}

/* Guest RAM that shows a write: the loader writes all of these. */
static bool untouched(const uint8_t *ram)
{
	static const uint8_t zero[4096];

	return !memcmp(ram + LINUX_ZERO_PAGE, zero, 4096) &&
	       !memcmp(ram + LINUX_PAGES, zero, 4096) && !memcmp(ram + LINUX_ACPI, zero, 4096) &&
	       !memcmp(ram + BZ_TEXT, zero, 4096);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static uint8_t *ram, disk[256 * 4096];
	struct image img = {0}, initrd = {.name = "disk", .data = disk};
	struct boot_params p = {.initrd = &initrd};
	struct vmm_ram slots;
	uint64_t entry = 0;
	char err[256] = "";
	int ret;

	if (size < 2)
		return 0;
	if (!ram) {
		ram = fuzz_ram(RAM_BYTES);
		memset(disk, 0x77, sizeof(disk));
	}
	slots = (struct vmm_ram){.base = ram, .nr = 1, .slot[0].bytes = RAM_BYTES};
	initrd.bytes = data[1] * 4096u + 1;
	p.nr_vcpus = data[1] % (PLATFORM_VCPUS_MAX + 1);
	if (!make(data[0], data + 2, size - 2, &img))
		goto out;
	ret = linux_unpack(&img, err, sizeof(err));
	if (!ret)
		ret = boot_linux.load(&img, &slots, &p, &entry, err, sizeof(err));
	if (ret) {
		if (!*err || strchr(err, '\n') || !untouched(ram))
			abort();
	} else {
		const uint8_t *zp = ram + LINUX_ZERO_PAGE;
		uint64_t at = get_u32(zp + LINUX_HDR_RAMDISK);

		if (*err || entry < LINUX_KERNEL || entry >= RAM_BYTES || !p.nr_vcpus ||
		    at < LINUX_KERNEL || at > RAM_BYTES - initrd.bytes || ram[at] != 0x77 ||
		    ram[at + initrd.bytes - 1] != 0x77 || memcmp(ram + LINUX_ACPI, "RSD PTR ", 8))
			abort();
		madvise(ram, RAM_BYTES, MADV_DONTNEED);
	}
out:
	image_free(&img);
	return 0;
}
