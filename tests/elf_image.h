/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The headers of small ELF files for x86-64, as tests and benchmarks make them for guests. */
#ifndef TESTS_ELF_IMAGE_H
#define TESTS_ELF_IMAGE_H

#include <elf.h>
#include <stddef.h>
#include <stdint.h>

/* A program that begins at @entry; right behind this header are @segments program headers. */
static inline Elf64_Ehdr elf_program(uint64_t entry, uint16_t segments)
{
	return (Elf64_Ehdr){.e_ident = {0x7f, 'E', 'L', 'F', ELFCLASS64, ELFDATA2LSB, EV_CURRENT},
			    .e_type = ET_EXEC,
			    .e_machine = EM_X86_64,
			    .e_version = EV_CURRENT,
			    .e_entry = entry,
			    .e_phoff = sizeof(Elf64_Ehdr),
			    .e_ehsize = sizeof(Elf64_Ehdr),
			    .e_phentsize = sizeof(Elf64_Phdr),
			    .e_phnum = segments};
}

/* @bytes of the file from @offset, which are loaded at @at. @flags: PF_R, PF_W and PF_X. */
static inline Elf64_Phdr elf_segment(uint32_t flags, uint64_t at, size_t offset, size_t bytes)
{
	return (Elf64_Phdr){.p_type = PT_LOAD,
			    .p_flags = flags,
			    .p_offset = offset,
			    .p_vaddr = at,
			    .p_paddr = at,
			    .p_filesz = bytes,
			    .p_memsz = bytes};
}

#endif
