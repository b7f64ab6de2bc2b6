// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * vmm/boot/rdpmc.c: which bytes of a kernel are RDPMC. Images are made here of ordinary code with
 * sites, and with bytes that only look like one. Doubtful ones are refused, and then nothing of the
 * kernel is rewritten.
 */
#include <criterion/criterion.h>

#include <elf.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "vmm/boot/rdpmc.h"

#define VADDR 0xffffffff81000000ull
#define PADDR 0x1000000ull
#define TEXT  0x1000u /* offset in the file */
#define BYTES 0x20000u

#define NAMES 0xc00u /* the section names */

static uint8_t file[BYTES];
static struct image img;
static size_t used; /* bytes of text */

/* An ordinary function without a loop. */
static const uint8_t ordinary[] = {
	0x55, 0x48, 0x89, 0xe5, 0x41, 0x54, 0x53, 0x48, 0x83, 0xec, 0x10, 0x8b, 0x45, 0xfc, 0x01,
	0xd8, 0x89, 0x45, 0xf8, 0x48, 0x8b, 0x7d, 0xf0, 0xe8, 0x10, 0x20, 0x01, 0x00, 0x85, 0xc0,
	0x74, 0x05, 0xb8, 0xea, 0xff, 0xff, 0xff, 0x48, 0x8d, 0x65, 0xf0, 0x5b, 0x41, 0x5c, 0x5d,
	0xc3, 0x0f, 0x1f, 0x40, 0x00, 0x66, 0x2e, 0x0f, 0x1f, 0x84, 0x00, 0x00, 0x00, 0x00, 0x00};
/* native_read_pmc(): MOV ECX,EDI; RDPMC; SHL RDX,32; OR RAX,RDX; RET. */
static const uint8_t read_pmc[] = {0x89, 0xf9, 0x0f, 0x33, 0x48, 0xc1,
				   0xe2, 0x20, 0x48, 0x09, 0xd0, 0xc3};
#define SITE 2

static void put(const void *bytes, size_t n)
{
	memcpy(file + TEXT + used, bytes, n);
	used += n;
}

static void fill(unsigned int functions)
{
	while (functions--)
		put(ordinary, sizeof(ordinary));
}

/* Where the next bytes are executed. */
static uint64_t here(void)
{
	return VADDR + used;
}

static void begin(void)
{
	memset(file, 0, sizeof(file));
	used = 0;
	fill(4);
}

/* Complete the image. @code: the sections that are marked code; 0: no section headers. */
static void end(uint64_t code)
{
	Elf64_Ehdr *eh = (Elf64_Ehdr *)file;
	Elf64_Phdr *ph = (Elf64_Phdr *)(eh + 1);
	Elf64_Shdr *sh = (Elf64_Shdr *)(file + 0x800);

	memcpy(eh->e_ident, ELFMAG, SELFMAG);
	*ph = (Elf64_Phdr){.p_type = PT_LOAD,
			   .p_flags = PF_R | PF_X,
			   .p_offset = TEXT,
			   .p_vaddr = VADDR,
			   .p_paddr = PADDR,
			   .p_filesz = used,
			   .p_memsz = used};
	eh->e_phoff = sizeof(*eh);
	eh->e_phnum = 1;
	eh->e_phentsize = sizeof(*ph);
	if (code) {
		sh[1] = (Elf64_Shdr){.sh_type = SHT_PROGBITS,
				     .sh_flags = SHF_ALLOC | SHF_EXECINSTR,
				     .sh_offset = TEXT,
				     .sh_size = code};
		eh->e_shoff = 0x800;
		eh->e_shnum = 2;
		eh->e_shentsize = sizeof(*sh);
	}
	img = (struct image){.name = (char *)"kernel", .data = file, .bytes = sizeof(file)};
}

/* An image of @code between functions, of which there are @more behind it. */
static void image_of(const void *code, size_t n, unsigned int more)
{
	begin();
	put(code, n);
	fill(more);
	end(used);
}

static struct rdpmc_sites sites;
static char err[300];

static int find(void)
{
	*err = '\0';
	return rdpmc_find(&img, &sites, err, sizeof(err));
}

#define FOUND(n)                                                                                   \
	do {                                                                                       \
		cr_expect_eq(find(), 0, "%s", err);                                                \
		cr_expect_eq(sites.nr, n, "%u sites", (unsigned int)sites.nr);                     \
	} while (0)

/* It is refused with one line that has @text in it. */
static void refused(const char *text)
{
	cr_expect_eq(find(), -ENOEXEC);
	cr_expect(strstr(err, text) && strstr(err, "rdpmc=off") && !strchr(err, '\n'), "%s", err);
}

Test(rdpmc, sites_are_found_and_rewritten)
{
	static const uint8_t after[] = {0x89, 0xf9, 0xe5, 0x33, 0x48, 0xc1,
					0xe2, 0x20, 0x48, 0x09, 0xd0, 0xc3};
	struct vmm_ram ram = {.nr = 1, .slot[0].bytes = PADDR + BYTES};
	uint64_t want[3];

	for (int headers = 0; headers < 2; headers++) {
		begin();
		for (int i = 0; i < 3; i++) {
			want[i] = here() + SITE;
			put(read_pmc, sizeof(read_pmc));
			fill(1 + (unsigned int)i);
		}
		end(headers ? used : 0);
		FOUND(3);
		for (int i = 0; i < 3; i++) {
			cr_expect_eq(sites.rip[i], want[i]);
			cr_expect_eq(sites.gpa[i], want[i] - VADDR + PADDR);
		}
		ram.base = mmap(NULL, ram.slot[0].bytes, PROT_READ | PROT_WRITE,
				MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		cr_assert(ram.base != MAP_FAILED);
		memcpy(ram.base + PADDR, file + TEXT, used);
		rdpmc_rewrite(&ram, &sites);
		for (int i = 0; i < 3; i++) {
			uint64_t at = want[i] - SITE - VADDR;

			cr_expect(!memcmp(ram.base + PADDR + at, after, sizeof(after)));
			memcpy(ram.base + PADDR + at, read_pmc, sizeof(read_pmc));
		}
		cr_expect(!memcmp(ram.base + PADDR, file + TEXT, used), "other bytes changed");
		munmap(ram.base, ram.slot[0].bytes);
	}
}

/* MOV EAX,330F0000H: the bytes are a part of another instruction. */
Test(rdpmc, bytes_of_another_instruction)
{
	static const uint8_t mov[] = {0xb8, 0x00, 0x00, 0x0f, 0x33, 0x01, 0xc3};
	static const uint8_t shl[] = {0xb8, 0x00, 0x00, 0x0f, 0x33, 0x48, 0xc1, 0xe2, 0x20};

	image_of(mov, sizeof(mov), 2);
	FOUND(0);
	/* With the bytes that should follow RDPMC behind it, it is doubtful. */
	image_of(shl, sizeof(shl), 2);
	refused("are not met when decoding");
}

/* A certain site does not help another one: all or none. */
Test(rdpmc, an_instruction_that_nothing_follows)
{
	static const uint8_t low[] = {0x89, 0xf9, 0x0f, 0x33, 0x89, 0xc7, 0x90, 0x90,
				      0x90, 0x90, 0x90, 0x90, 0x90, 0x90, 0xc3};
	uint64_t at;
	char text[40];

	begin();
	put(read_pmc, sizeof(read_pmc));
	fill(2);
	at = here() + SITE;
	put(low, sizeof(low));
	fill(2);
	end(used);
	refused("SHL RDX,32 does not follow");
	snprintf(text, sizeof(text), "0x%lx", at);
	cr_expect(strstr(err, text), "%s", err);
}

/* An instruction may be between the two. */
Test(rdpmc, shl_may_come_later)
{
	static const uint8_t late[] = {0x0f, 0x33, 0x89, 0xc0, 0x48, 0xc1,
				       0xe2, 0x20, 0x48, 0x09, 0xd0, 0xc3};

	image_of(late, sizeof(late), 1);
	FOUND(1);
}

/* __rdgsbase_inactive() and native_read_pmc() of a Linux 6.18, in a section of code. A displacement
 * has the byte D6H, which is no instruction: a third of all starts end there. */
Test(rdpmc, starts_that_meet_no_instruction)
{
	static const uint8_t code[] = {
		0xf3, 0x0f, 0x1e, 0xfa, 0x53, 0x48, 0x89, 0xfb, 0xe9, 0x85, 0x56, 0x5a, 0x02, 0x48,
		0x89, 0x37, 0x5b, 0xe9, 0x8a, 0x88, 0xd6, 0x00, 0x48, 0x89, 0xf0, 0xe9, 0x86, 0x56,
		0x5a, 0x02, 0xe8, 0x6d, 0xb2, 0x01, 0x00, 0x48, 0x89, 0x03, 0x5b, 0xe9, 0x74, 0x88,
		0xd6, 0x00, 0x0f, 0x1f, 0x40, 0x00, 0x90, 0x90, 0x90, 0x90, 0x90, 0x90, 0x90, 0x90,
		0x90, 0x90, 0x90, 0x90, 0x90, 0x90, 0x90, 0x90, 0xf3, 0x0f, 0x1e, 0xfa, 0x53, 0x89,
		0xf9, 0x0f, 0x33, 0x66, 0x90, 0x48, 0xc1, 0xe2, 0x20, 0x48, 0x89, 0xd3, 0x48, 0x09,
		0xc3, 0x48, 0x89, 0xd8, 0x5b, 0xe9, 0x42, 0x88, 0xd6, 0x00};

	image_of(code, sizeof(code), 2);
	FOUND(1);
}

Test(rdpmc, data_is_not_code)
{
	uint64_t code;

	begin();
	put(read_pmc, sizeof(read_pmc));
	fill(1);
	code = used;
	fill(2);
	put(read_pmc, sizeof(read_pmc)); /* in .rodata of the same segment */
	fill(1);
	end(code);
	FOUND(1);
}

/* ---- kernels of two segments: since Linux 6.18 .init.text and the alternatives' code are in the
 * writable one, which is not executable ---- */

/* Complete an image with the bytes from @split in a segment RW-, and in a section named @name with
 * @flags; without a name there are no section headers. */
static void end_split(uint64_t split, const char *name, uint64_t flags)
{
	Elf64_Phdr *ph = (Elf64_Phdr *)(file + sizeof(Elf64_Ehdr));
	Elf64_Shdr *sh = (Elf64_Shdr *)(file + 0x800);

	((Elf64_Ehdr *)file)->e_shnum = 0;
	end(name ? split : 0);
	((Elf64_Ehdr *)file)->e_phnum = 2;
	ph[0].p_filesz = ph[0].p_memsz = split;
	ph[1] = (Elf64_Phdr){.p_type = PT_LOAD,
			     .p_flags = PF_R | PF_W,
			     .p_offset = TEXT + split,
			     .p_vaddr = VADDR + split + 0x200000,
			     .p_paddr = PADDR + split + 0x400000,
			     .p_filesz = used - split,
			     .p_memsz = used - split + 0x1000};
	if (!name)
		return;
	sh[2] = (Elf64_Shdr){.sh_type = SHT_PROGBITS,
			     .sh_name = 1,
			     .sh_flags = SHF_ALLOC | flags,
			     .sh_offset = TEXT + split,
			     .sh_size = used - split};
	sh[3] = (Elf64_Shdr){.sh_type = SHT_STRTAB, .sh_offset = NAMES, .sh_size = 0x100};
	strcpy((char *)file + NAMES + 1, name);
	((Elf64_Ehdr *)file)->e_shnum = 4;
	((Elf64_Ehdr *)file)->e_shstrndx = 3;
}

/* Begin one that has @bytes in the middle of its second segment; returns where that begins. */
static uint64_t begin_split(const uint8_t *bytes, size_t n)
{
	uint64_t split;

	begin();
	split = used;
	fill(3);
	put(bytes, n);
	fill(2);
	return split;
}

Test(rdpmc, code_in_a_writable_segment)
{
	static const struct {
		const char *name;
		uint64_t flags;
	} rows[] = {{".init.text", SHF_EXECINSTR}, {".data", SHF_EXECINSTR | SHF_WRITE}, {NULL, 0}};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		uint64_t split = begin_split(read_pmc, sizeof(read_pmc)),
			 site = split + 3 * sizeof(ordinary) + SITE;

		end_split(split, rows[i].name, rows[i].flags);
		cr_assert_eq(find(), 0, "%s", err);
		cr_assert_eq(sites.nr, 1, "%zu", i);
		cr_expect_eq(sites.rip[0], VADDR + 0x200000 + site);
		cr_expect_eq(sites.gpa[0], PADDR + 0x400000 + site);
	}
}

/* Doubtful bytes are data where data may be, and is refused in a section that has only code. A
 * section without code is not looked at. */
Test(rdpmc, data_in_a_writable_segment)
{
	static const uint8_t low[] = {0x89, 0xf9, 0x0f, 0x33, 0x89, 0xc7, 0x90, 0x90,
				      0x90, 0x90, 0x90, 0x90, 0x90, 0x90, 0xc3};
	static const uint8_t shl[] = {0xb8, 0x00, 0x00, 0x0f, 0x33, 0x48, 0xc1, 0xe2, 0x20};

	for (int i = 0; i < 2; i++) {
		uint64_t split = begin_split(i ? shl : low, i ? sizeof(shl) : sizeof(low));

		end_split(split, ".data", SHF_EXECINSTR | SHF_WRITE);
		FOUND(0);
		end_split(split, NULL, 0);
		FOUND(0);
		end_split(split, ".init.text", SHF_EXECINSTR);
		refused("may or may not be RDPMC");
	}
	end_split(begin_split(read_pmc, sizeof(read_pmc)), ".rodata", SHF_WRITE);
	FOUND(0);
}

/* The kernel executes a copy of it, and IN at another address is no RDPMC. */
Test(rdpmc, a_site_that_the_kernel_copies)
{
	Elf64_Ehdr *eh = (Elf64_Ehdr *)file;
	Elf64_Shdr *sh = (Elf64_Shdr *)(file + 0x800);
	uint64_t split = begin_split(read_pmc, sizeof(read_pmc));

	end_split(split, ".altinstr_replacement", SHF_EXECINSTR);
	refused(".altinstr_replacement");
	/* It can't be told without names: then it is code as any other. */
	for (int i = 0; i < 6; i++) {
		end_split(split, ".altinstr_replacement", SHF_EXECINSTR);
		if (i == 0)
			eh->e_shstrndx = 4;
		if (i == 1)
			sh[3].sh_offset = UINT64_MAX;
		if (i == 2)
			sh[3].sh_size = UINT64_MAX;
		if (i == 3)
			sh[3].sh_size = sizeof(".altinstr_replacement");
		if (i == 4)
			sh[2].sh_name = UINT32_MAX;
		if (i == 5)
			file[NAMES + 22] = 'x';
		cr_expect_eq(find(), 0, "%s", err);
		cr_expect_eq(sites.nr, 1, "%d", i);
	}
}

/* ---- hostile images ---- */

Test(rdpmc, sections_that_lie)
{
	Elf64_Ehdr *eh = (Elf64_Ehdr *)file;
	Elf64_Shdr *sh = (Elf64_Shdr *)(file + 0x800);

	begin();
	put(read_pmc, sizeof(read_pmc));
	fill(1);
	/* Headers that are not in the file: as if there were none. */
	for (int i = 0; i < 3; i++) {
		end(used);
		if (i == 0)
			eh->e_shoff = UINT64_MAX - 63;
		if (i == 1)
			eh->e_shnum = 65535;
		if (i == 2)
			eh->e_shentsize = 1;
		cr_expect_eq(find(), 0, "%s", err);
		cr_expect_eq(sites.nr, 1, "%d", i);
	}
	/* Sections that are not in the segment are none. */
	for (int i = 0; i < 3; i++) {
		end(used);
		if (i == 0)
			sh[1].sh_size = UINT64_MAX - 0x800;
		if (i == 1)
			sh[1].sh_offset = UINT64_MAX - 10;
		if (i == 2)
			sh[1].sh_size = used + 1;
		cr_expect_eq(find(), 0, "%s", err);
		cr_expect_eq(sites.nr, 0, "%d", i);
	}
	/* The same code many times. */
	end(used);
	eh->e_shnum = 1000;
	memset(file + TEXT + used, 0x90, 0x1000);
	for (int i = 1; i < 30; i++)
		sh[i] = (Elf64_Shdr){.sh_type = SHT_PROGBITS,
				     .sh_flags = SHF_EXECINSTR,
				     .sh_offset = TEXT + used,
				     .sh_size = 0x1000};
	eh->e_shnum = 30;
	((Elf64_Phdr *)(eh + 1))->p_filesz = used + 0x1000;
	cr_expect_eq(find(), 0, "%s", err);
	img.bytes = 29 * 0x1000 - 1;
	refused("overlap");
}

Test(rdpmc, too_many)
{
	begin();
	for (unsigned int i = 0; i < RDPMC_SITES_MAX; i++) {
		put(read_pmc, sizeof(read_pmc));
		fill(2);
	}
	end(used);
	FOUND(RDPMC_SITES_MAX);
	put(read_pmc, sizeof(read_pmc));
	fill(1);
	end(used);
	refused("64 RDPMC instructions");
}
