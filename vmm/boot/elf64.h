/* SPDX-License-Identifier: GPL-2.0-or-later */
/* ELF header and segment checks, shared by the boot protocols of ELF64 executables. Only vmm/boot
 * includes this. System V ABI ch. 4 and 5. */
#ifndef VMM_BOOT_ELF64_H
#define VMM_BOOT_ELF64_H

#include <elf.h>

#include "vmm/boot/boot.h"

#define ELF64_PHDRS_MAX 64

/* The input of a check, and where its error goes. */
struct elf64_check {
	const struct image *img;
	const struct vmm_ram *ram;
	char *err;
	size_t errlen;
};

/* elf64_bad_field, elf64_bad_phdr - return -ENOEXEC with one line: the field, its value, and the
 * values expected. */
int elf64_bad_field(const struct elf64_check *c, const char *field, uint64_t value,
		    const char *accepted);
int elf64_bad_phdr(const struct elf64_check *c, unsigned int i, const char *field, uint64_t value,
		   const char *accepted);

/* elf64_probe - returns true if @img begins like an ELF file. Pure. */
bool elf64_probe(const struct image *img);

/* elf64_header - check the header of c->img, a static x86-64 executable, and that its program
 * headers are inside the file, and copy it to *eh. elf64_phdr - copy program header @i. */
int elf64_header(const struct elf64_check *c, Elf64_Ehdr *eh);
void elf64_phdr(const struct image *img, const Elf64_Ehdr *eh, unsigned int i, Elf64_Phdr *ph);

/* elf64_is_load - returns true for a PT_LOAD segment that occupies memory. */
static inline bool elf64_is_load(const Elf64_Phdr *ph)
{
	return ph->p_type == PT_LOAD && ph->p_memsz;
}

/* How a protocol places segments in guest memory. */
struct elf64_rules {
	uint64_t lowest;	 /* lowest address of a segment */
	const char *lowest_text; /* that in words: "0x200000 or above" */
	/* Segments are at their p_vaddr, which p_paddr must equal. Otherwise at their p_paddr. */
	bool same_addresses;
};

/* elf64_segments - check all PT_LOAD segments: inside the file and in RAM, not overlapping, aligned
 * by p_align; and that the entry, an address in guest memory, is in the file's bytes of one. */
int elf64_segments(const struct elf64_check *c, const Elf64_Ehdr *eh, const struct elf64_rules *r);

/* elf64_copy - copy the checked segments to RAM. elf64_end - the first address behind all of
 * them. */
void elf64_copy(const struct image *img, const Elf64_Ehdr *eh, const struct elf64_rules *r,
		const struct vmm_ram *ram);
uint64_t elf64_end(const struct image *img, const Elf64_Ehdr *eh, const struct elf64_rules *r);

#endif
