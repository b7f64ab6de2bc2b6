// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Checks of ELF executables, for the boot protocols. See elf.h. An image is hostile: each field
 * that a protocol uses is checked here before anything is written.
 */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "vmm/boot/elf.h"
#include "vpmu/util/fail.h"

int elf_bad_field(const struct elf_check *c, const char *field, uint64_t value,
		  const char *accepted)
{
	return fail(-ENOEXEC, c->err, c->errlen, "%s: %s is 0x%" PRIx64 "; expected %s",
		    c->img->name, field, value, accepted);
}

static int elf_bad_phdr(const struct elf_check *c, unsigned int i, const char *field,
			uint64_t value, const char *accepted)
{
	return fail(-ENOEXEC, c->err, c->errlen,
		    "%s: program header %u: %s is 0x%" PRIx64 "; expected %s", c->img->name, i,
		    field, value, accepted);
}

bool elf_probe(const struct image *img)
{
	return img->bytes >= SELFMAG && !memcmp(img->data, ELFMAG, SELFMAG);
}

static void elf_widen(const Elf32_Ehdr *h, Elf64_Ehdr *eh)
{
	*eh = (Elf64_Ehdr){
		.e_type = h->e_type,
		.e_machine = h->e_machine,
		.e_version = h->e_version,
		.e_entry = h->e_entry,
		.e_phoff = h->e_phoff,
		.e_ehsize = h->e_ehsize,
		.e_phentsize = h->e_phentsize,
		.e_phnum = h->e_phnum,
	};
	memcpy(eh->e_ident, h->e_ident, EI_NIDENT);
}

int elf_header(const struct elf_check *c, Elf64_Ehdr *eh)
{
	bool elf32 = c->rules->elf32;
	size_t bytes = elf32 ? sizeof(Elf32_Ehdr) : sizeof(Elf64_Ehdr);
	size_t phdr_bytes = elf32 ? sizeof(Elf32_Phdr) : sizeof(Elf64_Phdr);
	Elf32_Ehdr narrow;

	if (c->img->bytes < bytes)
		return fail(-ENOEXEC, c->err, c->errlen,
			    "%s: %zu bytes long; expected an ELF%u executable (header of %zu)",
			    c->img->name, c->img->bytes, elf32 ? 32 : 64, bytes);
	memcpy(elf32 ? (void *)&narrow : eh, c->img->data, bytes);
	if (elf32)
		elf_widen(&narrow, eh);
	if (memcmp(eh->e_ident, ELFMAG, SELFMAG))
		return fail(-ENOEXEC, c->err, c->errlen,
			    "%s: e_ident is %02x %02x %02x %02x; expected 7f 45 4c 46 (ELF)",
			    c->img->name, eh->e_ident[0], eh->e_ident[1], eh->e_ident[2],
			    eh->e_ident[3]);
	if (eh->e_ident[EI_CLASS] != (elf32 ? ELFCLASS32 : ELFCLASS64))
		return elf_bad_field(c, "e_ident[EI_CLASS]", eh->e_ident[EI_CLASS],
				     elf32 ? "1 (32-bit)" : "2 (64-bit)");
	if (eh->e_ident[EI_DATA] != ELFDATA2LSB)
		return elf_bad_field(c, "e_ident[EI_DATA]", eh->e_ident[EI_DATA],
				     "1 (little endian)");
	if (eh->e_ident[EI_VERSION] != EV_CURRENT)
		return elf_bad_field(c, "e_ident[EI_VERSION]", eh->e_ident[EI_VERSION], "1");
	if (eh->e_type != ET_EXEC)
		return elf_bad_field(c, "e_type", eh->e_type, "2 (static executable)");
	if (eh->e_machine != (elf32 ? EM_386 : EM_X86_64))
		return elf_bad_field(c, "e_machine", eh->e_machine,
				     elf32 ? "3 (x86)" : "0x3e (x86-64)");
	if (eh->e_version != EV_CURRENT)
		return elf_bad_field(c, "e_version", eh->e_version, "1");
	if (eh->e_ehsize != bytes)
		return elf_bad_field(c, "e_ehsize", eh->e_ehsize, elf32 ? "0x34" : "0x40");
	if (eh->e_phentsize != phdr_bytes)
		return elf_bad_field(c, "e_phentsize", eh->e_phentsize, elf32 ? "0x20" : "0x38");
	if (!eh->e_phnum || eh->e_phnum > ELF_PHDRS_MAX)
		return elf_bad_field(c, "e_phnum", eh->e_phnum, "1 to 64");
	if (eh->e_phoff > c->img->bytes || eh->e_phnum * phdr_bytes > c->img->bytes - eh->e_phoff)
		return elf_bad_field(c, "e_phoff", eh->e_phoff,
				     "a program header table inside the file");
	return 0;
}

void elf_phdr(const struct image *img, const Elf64_Ehdr *eh, unsigned int i, Elf64_Phdr *ph)
{
	const uint8_t *at = img->data + eh->e_phoff + i * (size_t)eh->e_phentsize;
	Elf32_Phdr p;

	if (eh->e_ident[EI_CLASS] != ELFCLASS32) {
		memcpy(ph, at, sizeof(*ph));
		return;
	}
	memcpy(&p, at, sizeof(p));
	*ph = (Elf64_Phdr){
		.p_type = p.p_type,
		.p_flags = p.p_flags,
		.p_offset = p.p_offset,
		.p_vaddr = p.p_vaddr,
		.p_paddr = p.p_paddr,
		.p_filesz = p.p_filesz,
		.p_memsz = p.p_memsz,
		.p_align = p.p_align,
	};
}

/* Guest-physical address of segment @ph. */
static uint64_t elf_address(const struct elf_rules *r, const Elf64_Phdr *ph)
{
	return r->same_addresses ? ph->p_vaddr : ph->p_paddr;
}

static int check_align(const struct elf_check *c, unsigned int i, const Elf64_Phdr *ph)
{
	if (ph->p_align & (ph->p_align - 1))
		return elf_bad_phdr(c, i, "p_align", ph->p_align, "0 or a power of two");
	if (ph->p_align > 1 && (ph->p_vaddr - ph->p_offset) & (ph->p_align - 1))
		return elf_bad_phdr(c, i, "p_offset", ph->p_offset,
				    "equal to p_vaddr modulo p_align");
	return 0;
}

static int check_load(const struct elf_check *c, const Elf64_Ehdr *eh, unsigned int i)
{
	const struct elf_rules *r = c->rules;
	const char *field = r->same_addresses ? "p_vaddr" : "p_paddr";
	Elf64_Phdr ph, other;
	uint64_t at;
	int ret;

	elf_phdr(c->img, eh, i, &ph);
	at = elf_address(r, &ph);
	if (ph.p_filesz > ph.p_memsz)
		return elf_bad_phdr(c, i, "p_filesz", ph.p_filesz, "up to p_memsz");
	if (ph.p_offset > c->img->bytes || ph.p_filesz > c->img->bytes - ph.p_offset)
		return elf_bad_phdr(c, i, "p_offset", ph.p_offset,
				    "p_offset + p_filesz inside the file");
	if (!ph.p_memsz)
		return 0;
	if (at < r->lowest)
		return elf_bad_phdr(c, i, field, at, r->lowest_text);
	if (at != vmm_ram_end(c->ram) && !vmm_ram_holds(c->ram, at, 1))
		return elf_bad_phdr(c, i, field, at, "an address in guest memory");
	if (!vmm_ram_holds(c->ram, at, ph.p_memsz))
		return elf_bad_phdr(
			c, i, "p_memsz", ph.p_memsz,
			r->same_addresses
				? "p_vaddr + p_memsz inside guest memory (give the VM more?)"
				: "p_paddr + p_memsz inside guest memory (give the VM more?)");
	if (r->same_addresses && ph.p_paddr != ph.p_vaddr)
		return elf_bad_phdr(c, i, "p_paddr", ph.p_paddr, "the same as p_vaddr");
	ret = r->elf32 ? 0 : check_align(c, i, &ph); /* multiboot loaders ignore it */
	if (ret)
		return ret;
	for (unsigned int j = 0; j < i; j++) {
		elf_phdr(c->img, eh, j, &other);
		/* Neither sum wraps: both ends have been checked to be in guest memory. */
		if (elf_is_load(&other) && at < elf_address(r, &other) + other.p_memsz &&
		    elf_address(r, &other) < at + ph.p_memsz)
			return elf_bad_phdr(c, i, field, at, "segments that do not overlap");
	}
	return 0;
}

int elf_segments(const struct elf_check *c, const Elf64_Ehdr *eh)
{
	const struct elf_rules *r = c->rules;
	bool entry_ok = false, any = false;
	Elf64_Phdr ph;
	int ret;

	for (unsigned int i = 0; i < eh->e_phnum; i++) {
		elf_phdr(c->img, eh, i, &ph);
		if (!r->elf32 && (ph.p_type == PT_INTERP || ph.p_type == PT_DYNAMIC))
			return elf_bad_phdr(c, i, "p_type", ph.p_type,
					    "a static executable (no PT_INTERP, no PT_DYNAMIC)");
		if (ph.p_type != PT_LOAD)
			continue;
		ret = check_load(c, eh, i);
		if (ret)
			return ret;
		any |= elf_is_load(&ph);
		/* The entry must be in bytes of the file: zero-fill is not code. Flags don't
		 * matter: there is no NX before the image has its own page tables. */
		entry_ok |= eh->e_entry >= elf_address(r, &ph) &&
			    eh->e_entry - elf_address(r, &ph) < ph.p_filesz;
	}
	if (!any)
		return fail(-ENOEXEC, c->err, c->errlen,
			    "%s: no PT_LOAD segment; expected at least one", c->img->name);
	if (!entry_ok)
		return elf_bad_field(c, "e_entry", eh->e_entry,
				     "an address in a segment of the file");
	return 0;
}

void elf_copy(const struct image *img, const Elf64_Ehdr *eh, const struct elf_rules *r,
	      const struct vmm_ram *ram)
{
	Elf64_Phdr ph;

	for (unsigned int i = 0; i < eh->e_phnum; i++) {
		elf_phdr(img, eh, i, &ph);
		if (elf_is_load(&ph))
			memcpy(ram->base + elf_address(r, &ph), img->data + ph.p_offset,
			       ph.p_filesz);
	}
}

uint64_t elf_load_end(const struct image *img, const Elf64_Ehdr *eh, const struct elf_rules *r)
{
	uint64_t end = 0;
	Elf64_Phdr ph;

	for (unsigned int i = 0; i < eh->e_phnum; i++) {
		elf_phdr(img, eh, i, &ph);
		if (elf_is_load(&ph) && elf_address(r, &ph) + ph.p_memsz > end)
			end = elf_address(r, &ph) + ph.p_memsz;
	}
	return end;
}
