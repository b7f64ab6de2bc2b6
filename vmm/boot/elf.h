/* SPDX-License-Identifier: GPL-2.0-or-later */
/* ELF header and segment checks, shared by the boot protocols. Headers of ELF32 images are widened
 * to those of ELF64. Only vmm/boot includes this. System V ABI ch. 4 and 5. */
#pragma once

#include <elf.h>

#include "vmm/boot/boot.h"

#define ELF_PHDRS_MAX 64

/* What a protocol loads, and how it places segments in guest memory. */
struct elf_rules {
	bool elf32;		 /* i386 instead of x86-64 */
	uint64_t lowest;	 /* lowest address of a segment */
	const char *lowest_text; /* that in words: "0x200000 or above" */
	/* Segments are at their p_vaddr, which p_paddr must equal. Otherwise at their p_paddr. */
	bool same_addresses;
};

/* The input of a check, and where its error goes. */
struct elf_check {
	const struct image *img;
	const struct vmm_ram *ram;
	const struct elf_rules *rules;
	char *err;
	size_t errlen;
};

/* elf_bad_field - return -ENOEXEC with one line: the field, its value, and the values expected. */
int elf_bad_field(const struct elf_check *c, const char *field, uint64_t value,
		  const char *accepted);

/* elf_probe - returns true if @img begins like an ELF file. Pure. */
bool elf_probe(const struct image *img);

/* elf_header - check the header of c->img, a static executable, and that its program
 * headers are inside the file, and copy it to *eh. elf_phdr - copy program header @i. */
int elf_header(const struct elf_check *c, Elf64_Ehdr *eh);
void elf_phdr(const struct image *img, const Elf64_Ehdr *eh, unsigned int i, Elf64_Phdr *ph);

/* elf_is_load - returns true for a PT_LOAD segment that occupies memory. */
static inline bool elf_is_load(const Elf64_Phdr *ph)
{
	return ph->p_type == PT_LOAD && ph->p_memsz;
}

/* elf_segments - check all PT_LOAD segments: inside the file and in RAM, not overlapping, aligned
 * by p_align; and that the entry, an address in guest memory, is in the file's bytes of one. */
int elf_segments(const struct elf_check *c, const Elf64_Ehdr *eh);

/* elf_copy - copy the checked segments to RAM. elf_load_end - the first address behind all of
 * them. */
void elf_copy(const struct image *img, const Elf64_Ehdr *eh, const struct elf_rules *r,
	      const struct vmm_ram *ram);
uint64_t elf_load_end(const struct image *img, const Elf64_Ehdr *eh, const struct elf_rules *r);
