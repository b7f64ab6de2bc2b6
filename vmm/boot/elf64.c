// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Checks of ELF64 executables, for the boot protocols. See elf64.h. An image is hostile: each field
 * that a protocol uses is checked here before anything is written.
 */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "vmm/boot/elf64.h"
#include "vpmu/util/fail.h"

int elf64_bad_field(const struct elf64_check *c, const char *field, uint64_t value,
		    const char *accepted)
{
	return fail(-ENOEXEC, c->err, c->errlen, "%s: %s is 0x%" PRIx64 "; expected %s",
		    c->img->name, field, value, accepted);
}

int elf64_bad_phdr(const struct elf64_check *c, unsigned int i, const char *field, uint64_t value,
		   const char *accepted)
{
	return fail(-ENOEXEC, c->err, c->errlen,
		    "%s: program header %u: %s is 0x%" PRIx64 "; expected %s", c->img->name, i,
		    field, value, accepted);
}

bool elf64_probe(const struct image *img)
{
	return img->bytes >= SELFMAG && !memcmp(img->data, ELFMAG, SELFMAG);
}

int elf64_header(const struct elf64_check *c, Elf64_Ehdr *eh)
{
	if (c->img->bytes < sizeof(*eh))
		return fail(-ENOEXEC, c->err, c->errlen,
			    "%s: %zu bytes long; expected an ELF64 executable (header of %zu)",
			    c->img->name, c->img->bytes, sizeof(*eh));
	memcpy(eh, c->img->data, sizeof(*eh));
	if (memcmp(eh->e_ident, ELFMAG, SELFMAG))
		return fail(-ENOEXEC, c->err, c->errlen,
			    "%s: e_ident is %02x %02x %02x %02x; expected 7f 45 4c 46 (ELF)",
			    c->img->name, eh->e_ident[0], eh->e_ident[1], eh->e_ident[2],
			    eh->e_ident[3]);
	if (eh->e_ident[EI_CLASS] != ELFCLASS64)
		return elf64_bad_field(c, "e_ident[EI_CLASS]", eh->e_ident[EI_CLASS], "2 (64-bit)");
	if (eh->e_ident[EI_DATA] != ELFDATA2LSB)
		return elf64_bad_field(c, "e_ident[EI_DATA]", eh->e_ident[EI_DATA],
				       "1 (little endian)");
	if (eh->e_ident[EI_VERSION] != EV_CURRENT)
		return elf64_bad_field(c, "e_ident[EI_VERSION]", eh->e_ident[EI_VERSION], "1");
	if (eh->e_type != ET_EXEC)
		return elf64_bad_field(c, "e_type", eh->e_type, "2 (static executable)");
	if (eh->e_machine != EM_X86_64)
		return elf64_bad_field(c, "e_machine", eh->e_machine, "0x3e (x86-64)");
	if (eh->e_version != EV_CURRENT)
		return elf64_bad_field(c, "e_version", eh->e_version, "1");
	if (eh->e_ehsize != sizeof(*eh))
		return elf64_bad_field(c, "e_ehsize", eh->e_ehsize, "0x40");
	if (eh->e_phentsize != sizeof(Elf64_Phdr))
		return elf64_bad_field(c, "e_phentsize", eh->e_phentsize, "0x38");
	if (!eh->e_phnum || eh->e_phnum > ELF64_PHDRS_MAX)
		return elf64_bad_field(c, "e_phnum", eh->e_phnum, "1 to 64");
	if (eh->e_phoff > c->img->bytes ||
	    eh->e_phnum * sizeof(Elf64_Phdr) > c->img->bytes - eh->e_phoff)
		return elf64_bad_field(c, "e_phoff", eh->e_phoff,
				       "a program header table inside the file");
	return 0;
}

void elf64_phdr(const struct image *img, const Elf64_Ehdr *eh, unsigned int i, Elf64_Phdr *ph)
{
	memcpy(ph, img->data + eh->e_phoff + i * sizeof(*ph), sizeof(*ph));
}

/* Guest-physical address of segment @ph. */
static uint64_t elf64_address(const struct elf64_rules *r, const Elf64_Phdr *ph)
{
	return r->same_addresses ? ph->p_vaddr : ph->p_paddr;
}

static int check_load(const struct elf64_check *c, const Elf64_Ehdr *eh, unsigned int i,
		      const struct elf64_rules *r)
{
	const char *field = r->same_addresses ? "p_vaddr" : "p_paddr";
	Elf64_Phdr ph, other;
	uint64_t at;

	elf64_phdr(c->img, eh, i, &ph);
	at = elf64_address(r, &ph);
	if (ph.p_filesz > ph.p_memsz)
		return elf64_bad_phdr(c, i, "p_filesz", ph.p_filesz, "up to p_memsz");
	if (ph.p_offset > c->img->bytes || ph.p_filesz > c->img->bytes - ph.p_offset)
		return elf64_bad_phdr(c, i, "p_offset", ph.p_offset,
				      "p_offset + p_filesz inside the file");
	if (!ph.p_memsz)
		return 0;
	if (at < r->lowest)
		return elf64_bad_phdr(c, i, field, at, r->lowest_text);
	if (at != vmm_ram_end(c->ram) && !vmm_ram_holds(c->ram, at, 1))
		return elf64_bad_phdr(c, i, field, at, "an address in guest memory");
	if (!vmm_ram_holds(c->ram, at, ph.p_memsz))
		return elf64_bad_phdr(c, i, "p_memsz", ph.p_memsz,
				      r->same_addresses
					      ? "p_vaddr + p_memsz inside guest memory (give the "
						"VM more?)"
					      : "p_paddr + p_memsz inside guest memory (give the "
						"VM more?)");
	if (r->same_addresses && ph.p_paddr != ph.p_vaddr)
		return elf64_bad_phdr(c, i, "p_paddr", ph.p_paddr, "the same as p_vaddr");
	if (ph.p_align & (ph.p_align - 1))
		return elf64_bad_phdr(c, i, "p_align", ph.p_align, "0 or a power of two");
	if (ph.p_align > 1 && (ph.p_vaddr - ph.p_offset) & (ph.p_align - 1))
		return elf64_bad_phdr(c, i, "p_offset", ph.p_offset,
				      "equal to p_vaddr modulo p_align");
	for (unsigned int j = 0; j < i; j++) {
		elf64_phdr(c->img, eh, j, &other);
		/* Neither sum wraps: both ends have been checked to be in guest memory. */
		if (elf64_is_load(&other) && at < elf64_address(r, &other) + other.p_memsz &&
		    elf64_address(r, &other) < at + ph.p_memsz)
			return elf64_bad_phdr(c, i, field, at, "segments that do not overlap");
	}
	return 0;
}

int elf64_segments(const struct elf64_check *c, const Elf64_Ehdr *eh, const struct elf64_rules *r)
{
	bool entry_ok = false, any = false;
	Elf64_Phdr ph;
	int ret;

	for (unsigned int i = 0; i < eh->e_phnum; i++) {
		elf64_phdr(c->img, eh, i, &ph);
		if (ph.p_type == PT_INTERP || ph.p_type == PT_DYNAMIC)
			return elf64_bad_phdr(c, i, "p_type", ph.p_type,
					      "a static executable (no PT_INTERP, no PT_DYNAMIC)");
		if (ph.p_type != PT_LOAD)
			continue;
		ret = check_load(c, eh, i, r);
		if (ret)
			return ret;
		any |= elf64_is_load(&ph);
		/* The entry must be in bytes of the file: zero-fill is not code. Flags don't
		 * matter: there is no NX before the image has its own page tables. */
		entry_ok |= eh->e_entry >= elf64_address(r, &ph) &&
			    eh->e_entry - elf64_address(r, &ph) < ph.p_filesz;
	}
	if (!any)
		return fail(-ENOEXEC, c->err, c->errlen,
			    "%s: no PT_LOAD segment; expected at least one", c->img->name);
	if (!entry_ok)
		return elf64_bad_field(c, "e_entry", eh->e_entry,
				       "an address in a segment of the file");
	return 0;
}

void elf64_copy(const struct image *img, const Elf64_Ehdr *eh, const struct elf64_rules *r,
		const struct vmm_ram *ram)
{
	Elf64_Phdr ph;

	for (unsigned int i = 0; i < eh->e_phnum; i++) {
		elf64_phdr(img, eh, i, &ph);
		if (elf64_is_load(&ph))
			memcpy(ram->base + elf64_address(r, &ph), img->data + ph.p_offset,
			       ph.p_filesz);
	}
}

uint64_t elf64_end(const struct image *img, const Elf64_Ehdr *eh, const struct elf64_rules *r)
{
	uint64_t end = 0;
	Elf64_Phdr ph;

	for (unsigned int i = 0; i < eh->e_phnum; i++) {
		elf64_phdr(img, eh, i, &ph);
		if (elf64_is_load(&ph) && elf64_address(r, &ph) + ph.p_memsz > end)
			end = elf64_address(r, &ph) + ph.p_memsz;
	}
	return end;
}
