/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A small multiboot image, for the test and the fuzzer of vmm/boot/multiboot.c. Its code goes from
 * the 32-bit entry to the exit port. */
#ifndef TESTS_UNIT_MULTIBOOT_IMAGE_H
#define TESTS_UNIT_MULTIBOOT_IMAGE_H

#include <elf.h>
#include <stddef.h>
#include <string.h>

#include "vmm/boot/multiboot.h"

#define MB_AT  0x400000u /* where the code goes */
#define MB_BSS 0x500000u /* where the segment with more memory than file goes */

struct mb_image {
	Elf32_Ehdr eh;
	Elf32_Phdr ph[3];
	uint32_t header[3]; /* of multiboot */
	uint8_t code[64];
};

static inline void mb_image(struct mb_image *m)
{
	/* Exit with EAX + the information's flags + the first byte of the command line:
	 * add (%ebx), %eax; mov 16(%ebx), %ecx; movzbl (%ecx), %edx; add %edx, %eax;
	 * mov %eax, 0x500000; out %eax, $0xf4; hlt; jmp to the hlt */
	static const uint8_t code[] = {0x03, 0x03, 0x8b, 0x4b, 0x10, 0x0f, 0xb6, 0x11, 0x01, 0xd0,
				       0xa3, 0x00, 0x00, 0x50, 0x00, 0xe7, 0xf4, 0xf4, 0xeb, 0xfd};

	memset(m, 0, sizeof(*m));
	m->eh = (Elf32_Ehdr){
		.e_ident = {0x7f, 'E', 'L', 'F', ELFCLASS32, ELFDATA2LSB, EV_CURRENT},
		.e_type = ET_EXEC,
		.e_machine = EM_386,
		.e_version = EV_CURRENT,
		.e_entry = MB_AT + offsetof(struct mb_image, code),
		.e_phoff = offsetof(struct mb_image, ph),
		.e_ehsize = sizeof(Elf32_Ehdr),
		.e_phentsize = sizeof(Elf32_Phdr),
		.e_phnum = 3,
	};
	m->ph[0] = (Elf32_Phdr){
		.p_type = PT_LOAD,
		.p_flags = PF_R | PF_X,
		.p_vaddr = MB_AT,
		.p_paddr = MB_AT,
		.p_filesz = sizeof(*m),
		.p_memsz = sizeof(*m),
	};
	m->ph[1] = (Elf32_Phdr){
		.p_type = PT_LOAD,
		.p_flags = PF_R | PF_W,
		.p_paddr = MB_BSS,
		.p_filesz = 4,
		.p_memsz = 0x3000,
	};
	m->ph[2] = (Elf32_Phdr){.p_type = PT_NOTE, .p_paddr = 1, .p_memsz = 1};
	m->header[0] = 0x1badb002;
	m->header[1] = 3;
	m->header[2] = -(0x1badb002u + 3);
	memcpy(m->code, code, sizeof(code));
}

#endif
