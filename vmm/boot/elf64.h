/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What the boot protocols of ELF64 executables share: checks of the ELF header. Other folders do
 * not include this. System V ABI ch. 4 and 5. */
#ifndef VMM_BOOT_ELF64_H
#define VMM_BOOT_ELF64_H

#include <elf.h>

#include "vmm/boot/boot.h"

#define ELF64_PHDRS_MAX 64

/* What a check reports to. */
struct elf64_check {
	const struct image *img;
	const struct vmm_ram *ram;
	char *err;
	size_t errlen;
};

/* elf64_bad_field, elf64_bad_phdr - -ENOEXEC and one line: the field, what it holds, and what is
 * accepted. */
int elf64_bad_field(const struct elf64_check *c, const char *field, uint64_t value,
		    const char *accepted);
int elf64_bad_phdr(const struct elf64_check *c, unsigned int i, const char *field, uint64_t value,
		   const char *accepted);

/* elf64_probe - whether @img begins as an ELF file does. Pure. */
bool elf64_probe(const struct image *img);

/* elf64_header - check the header of c->img, a static x86-64 executable, and copy it to *eh: its
 * program headers are inside the file. elf64_phdr - copy program header @i. */
int elf64_header(const struct elf64_check *c, Elf64_Ehdr *eh);
void elf64_phdr(const struct image *img, const Elf64_Ehdr *eh, unsigned int i, Elf64_Phdr *ph);

/* elf64_is_load - a PT_LOAD segment that occupies memory. */
static inline bool elf64_is_load(const Elf64_Phdr *ph)
{
	return ph->p_type == PT_LOAD && ph->p_memsz;
}

/* How a protocol places segments in guest memory. */
struct elf64_rules {
	uint64_t lowest;	 /* none begins below */
	const char *lowest_text; /* that in words: "0x200000 or above" */
	/* Each is at its p_vaddr, which p_paddr must equal. Otherwise it is at its p_paddr. */
	bool same_addresses;
};

/* elf64_segments - check all PT_LOAD segments: inside the file and in RAM, none over another,
 * aligned as they say; and that the entry, an address in guest memory, is in what the file has of
 * one. */
int elf64_segments(const struct elf64_check *c, const Elf64_Ehdr *eh, const struct elf64_rules *r);

/* elf64_copy - copy the segments, which were checked, to RAM. elf64_end - the first address behind
 * all of them. */
void elf64_copy(const struct image *img, const Elf64_Ehdr *eh, const struct elf64_rules *r,
		const struct vmm_ram *ram);
uint64_t elf64_end(const struct image *img, const Elf64_Ehdr *eh, const struct elf64_rules *r);

#endif
