// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * libFuzzer target: RDPMC of hostile kernels (vmm/boot/rdpmc.c). The input is a kernel's code, with
 * RDPMC planted at its offsets, and patches to ELF and section headers. Whatever boot_linux.check
 * accepts is looked through: either it is refused with one line, or every site found is the bytes
 * 0F 33 in the file's part of a segment, each once, and rewriting changes these bytes
 * in guest RAM and no others.
 *
 * The first byte: bits 0: section headers; 1: patches to the file follow the code; 7:2 how many
 * RDPMC are planted. Then so many places (2 bytes each, bit 15: with SHL RDX,32 behind it).
 */
#include <stdbool.h>

#include "tests/elf_image.h"
#include "tests/fuzz/fuzz.h"
#include "vmm/boot/rdpmc.h"

#define RAM_BYTES (4ULL << 20)
#define TEXT	  0x200000u
#define CODE_MAX  8192u

struct file {
	Elf64_Ehdr eh;
	Elf64_Phdr ph[2];
	Elf64_Shdr sh[3];
	uint8_t code[CODE_MAX];
};

static void make(struct file *f, size_t code, bool sections)
{
	size_t at = offsetof(struct file, code);

	*f = (struct file){
		.eh = elf_program(TEXT, 2),
	};
	f->ph[0] = elf_segment(PF_R | PF_X, TEXT, at, code);
	f->ph[0].p_vaddr = 0xffffffff81000000;
	f->ph[1] = (Elf64_Phdr){.p_type = PT_LOAD,
				.p_flags = PF_R | PF_W,
				.p_offset = at,
				.p_vaddr = 0xffffffff82000000,
				.p_paddr = TEXT + 0x100000,
				.p_filesz = code / 2,
				.p_memsz = code};
	if (!sections)
		return;
	f->eh.e_shoff = offsetof(struct file, sh);
	f->eh.e_shnum = 3;
	f->eh.e_shentsize = sizeof(Elf64_Shdr);
	for (unsigned int i = 1; i < 3; i++)
		f->sh[i] = (Elf64_Shdr){.sh_type = SHT_PROGBITS,
					.sh_flags = SHF_ALLOC | SHF_EXECINSTR,
					.sh_offset = at + (i - 1) * (code / 2),
					.sh_size = code / 2};
}

/* True if the two bytes at guest-physical @gpa are in the file's part of a segment, and are RDPMC
 * there. */
static bool is_rdpmc(const struct image *img, uint64_t gpa)
{
	Elf64_Ehdr eh;

	memcpy(&eh, img->data, sizeof(eh));
	for (unsigned int i = 0; i < eh.e_phnum; i++) {
		Elf64_Phdr ph;

		memcpy(&ph, img->data + eh.e_phoff + i * sizeof(ph), sizeof(ph));
		if (ph.p_type == PT_LOAD && gpa >= ph.p_paddr &&
		    gpa - ph.p_paddr + 2 <= ph.p_filesz)
			return !memcmp(img->data + ph.p_offset + (gpa - ph.p_paddr), "\x0f\x33", 2);
	}
	return false;
}

static void look(const struct image *img, const struct vmm_ram *slots)
{
	static uint8_t before[RAM_BYTES];
	struct boot_params p = {.nr_vcpus = 1};
	static struct rdpmc_sites sites;
	size_t changed = 0;
	uint64_t entry;
	char err[256] = "";

	if (boot_linux.load(img, slots, &p, &entry, err, sizeof(err)))
		return;
	if (rdpmc_find(img, &sites, err, sizeof(err))) {
		if (!*err || strchr(err, '\n'))
			abort();
		return;
	}
	if (*err || sites.nr > RDPMC_SITES_MAX)
		abort();
	if (!sites.nr)
		return;
	memcpy(before, slots->base, RAM_BYTES);
	rdpmc_rewrite(slots, &sites);
	for (size_t i = 0; i < sites.nr; i++) {
		if (!is_rdpmc(img, sites.gpa[i]) ||
		    memcmp(slots->base + sites.gpa[i], "\xe5\x33", 2))
			abort();
		for (size_t j = 0; j < i; j++)
			if (sites.gpa[j] == sites.gpa[i])
				abort();
	}
	for (size_t i = 0; i < RAM_BYTES; i += 4096)
		if (memcmp(before + i, slots->base + i, 4096))
			for (size_t j = i; j < i + 4096; j++)
				changed += before[j] != slots->base[j];
	/* 0F becomes E5; 33 stays. */
	if (changed != sites.nr)
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static uint8_t *ram;
	static struct file f;
	struct image img = {.name = "fuzz.vmlinux"};
	struct vmm_ram slots;
	size_t planted, code;

	if (size < 4)
		return -1;
	if (!ram)
		ram = fuzz_ram(RAM_BYTES);
	planted = data[0] >> 2;
	if (size < 4 + 2 * planted)
		return -1;
	code = size - 1 - 2 * planted;
	if (code > CODE_MAX)
		code = CODE_MAX;
	make(&f, code, data[0] & 1);
	memcpy(f.code, data + 1 + 2 * planted, code);
	for (size_t i = 0; i < planted; i++) {
		unsigned int x = data[1 + 2 * i] | data[2 + 2 * i] << 8;
		size_t at = (x & 0x7fff) % code, n = x >> 15 ? 6 : 2;

		for (size_t j = 0; j < n && at + j < code; j++)
			f.code[at + j] = (uint8_t) "\x0f\x33\x48\xc1\xe2\x20"[j];
	}
	if (data[0] & 2)
		fuzz_patch(&f, offsetof(struct file, code), data + size - (code < 64 ? code : 64),
			   code < 64 ? code : 64);
	/* memory of exactly its size, so that reading beyond is seen */
	img.bytes = offsetof(struct file, code) + code;
	img.data = malloc(img.bytes);
	if (!img.data)
		return 0;
	memcpy(img.data, &f, img.bytes);
	slots = (struct vmm_ram){.base = ram, .nr = 1, .slot[0].bytes = RAM_BYTES};
	look(&img, &slots);
	madvise(ram, RAM_BYTES, MADV_DONTNEED);
	free(img.data);
	return 0;
}
