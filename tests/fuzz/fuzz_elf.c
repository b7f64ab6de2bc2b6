// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Hostile guest images: whatever the bytes are, the loader either refuses them with one line and
 * leaves guest RAM alone, or loads them inside of it.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "vmm/loader.h"
#include "vpmu/guest/abi.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define RAM_BYTES (8ULL << 20)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static uint8_t *ram;
	struct loader_boot boot = {.args = "stat loop 1", .nr_vcpus = 1};
	/* A copy of exactly @size bytes, so that reading beyond its end is seen. */
	struct image img = {.name = "fuzz.elf", .data = malloc(size ? size : 1), .bytes = size};
	uint64_t entry = 0;
	char err[256] = "";

	if (!ram) {
		/* Guard pages around guest RAM. */
		ram = mmap(NULL, RAM_BYTES + 8192, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		if (ram == MAP_FAILED)
			abort();
		ram += 4096;
		if (mprotect(ram, RAM_BYTES, PROT_READ | PROT_WRITE))
			abort();
	}
	if (!img.data)
		return 0;
	memcpy(img.data, data, size);
	if (loader_load(&img, ram, RAM_BYTES, &boot, &entry, err, sizeof(err))) {
		if (!*err || strchr(err, '\n') || ram[VPMU_BOOT_INFO])
			abort();
	} else {
		if (*err || entry < VPMU_BOOT_IMAGE || entry >= RAM_BYTES)
			abort();
		madvise(ram, RAM_BYTES, MADV_DONTNEED);
	}
	free(img.data);
	return 0;
}
