// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Hostile guest images: whatever the bytes are, the boot protocol either refuses them with one line
 * and leaves guest RAM alone, or loads them inside of it. The first byte chooses how the rest makes
 * an image: it is one, or it is a list of patches to a good one, so that the deeper checks are met
 * without a corpus.
 */
#include <stdbool.h>

#include "tests/elf_image.h"
#include "tests/fuzz/fuzz.h"
#include "vmm/boot/boot.h"
#include "vpmu/guest/abi.h"

#define RAM_BYTES (8ULL << 20)

struct good {
	Elf64_Ehdr eh;
	Elf64_Phdr ph[3];
	uint8_t code[64];
};

static void make_good(struct good *g)
{
	*g = (struct good){
		.eh = elf_program(VPMU_BOOT_IMAGE + offsetof(struct good, code), 3),
	};
	for (unsigned int i = 0; i < 3; i++)
		g->ph[i] = (Elf64_Phdr){
			.p_type = i < 2 ? PT_LOAD : PT_NOTE,
			.p_flags = PF_R | (i ? PF_W : PF_X),
			.p_vaddr = VPMU_BOOT_IMAGE + i * 0x1000,
			.p_paddr = VPMU_BOOT_IMAGE + i * 0x1000,
			.p_filesz = sizeof(*g),
			.p_memsz = i ? 0x3000 : sizeof(*g),
			.p_align = 0x1000,
		};
}

/* The image that the input stands for, in memory of exactly its size. */
static struct image make_image(const uint8_t *data, size_t size)
{
	bool patches = size && data[0] & 1;
	struct image img = {.name = "fuzz.elf"};
	struct good g;

	if (patches) {
		make_good(&g);
		fuzz_patch(&g, sizeof(g), data + 1, size - 1);
	}
	img.bytes = patches ? sizeof(g) : size ? size - 1 : 0;
	img.data = malloc(img.bytes ? img.bytes : 1);
	if (img.data && img.bytes)
		memcpy(img.data, patches ? (const void *)&g : data + 1, img.bytes);
	return img;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static uint8_t *ram;
	struct boot_params boot = {.args = "stat loop 1", .nr_vcpus = 1};
	struct image img = make_image(data, size);
	const struct boot_protocol *protocol;
	struct vmm_ram slots;
	uint64_t entry = 0;
	char err[256] = "";
	int ret;

	if (!ram)
		ram = fuzz_ram(RAM_BYTES);
	if (!img.data)
		return 0;
	slots = (struct vmm_ram){.base = ram, .nr = 1, .slot[0].bytes = RAM_BYTES};
	ret = boot_find(&img, &protocol, err, sizeof(err));
	if (!ret)
		ret = protocol->load(&img, &slots, &boot, &entry, err, sizeof(err));
	if (ret) {
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
