// SPDX-License-Identifier: GPL-2.0-or-later
/* See rdpmc.h: which parts of an image have code, and which of their RDPMC are certain.
 * vpmu/kvm/text.h tells instructions from bytes that look alike. */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "vmm/boot/elf.h"
#include "vmm/boot/rdpmc.h"
#include "vpmu/kvm/text.h"
#include "vpmu/util/fail.h"

/* apply_alternatives() copies from this section. */
static const char copied_section[] = ".altinstr_replacement";

/* An image with more bytes 0F 33 than this, or more bytes of code than it is long, does not come
 * from a compiler, and searching it would take too long. */
#define CANDIDATES_MAX 65536
/* A part of the image to search. */
struct part {
	Elf64_Phdr ph;		/* its segment */
	uint64_t offset, bytes; /* in the file */
	bool data;		/* may contain data, too */
	bool copied;		/* the kernel executes copies of it */
};

static int too_many(const struct image *img, const char *what, char *err, size_t errlen)
{
	return fail(-ENOEXEC, err, errlen,
		    "%s: %s, more than any kernel has; on KVM, set rdpmc=off, which shows no PMU",
		    img->name, what);
}

static int find_in(const struct image *img, const struct part *part, struct rdpmc_sites *out,
		   char *err, size_t errlen)
{
	const uint8_t *p = img->data + part->offset, *end = p + part->bytes;
	const Elf64_Phdr *ph = &part->ph;
	struct kvm_text t;

	kvm_text_init(&t, p, part->bytes);
	for (; (p = memmem(p, (size_t)(end - p), kvm_text_rdpmc, sizeof(kvm_text_rdpmc))); p++) {
		uint64_t at = (uint64_t)(p - t.data), inside = part->offset + at - ph->p_offset;
		bool insn = kvm_text_is_instruction(&t, at), shl = kvm_text_shl_follows(&t, at);

		if (++out->seen > CANDIDATES_MAX)
			return too_many(img, "more than 65536 times the bytes 0f 33", err, errlen);
		if ((!insn && !shl) || (insn != shl && part->data))
			continue;
		if (insn != shl)
			return fail(-ENOEXEC, err, errlen,
				    "%s: bytes 0f 33 at 0x%" PRIx64
				    " %s, so they may or may not be RDPMC; on KVM, set rdpmc=off, "
				    "which shows no PMU",
				    img->name, inside + ph->p_vaddr,
				    insn ? "are an instruction, but SHL RDX,32 does not follow"
					 : "are not met when decoding, but SHL RDX,32 follows");
		if (part->copied)
			return fail(-ENOEXEC, err, errlen,
				    "%s: RDPMC at 0x%" PRIx64 " is in %s, which the kernel copies "
				    "elsewhere; expected on KVM: rdpmc=off, which shows no PMU",
				    img->name, inside + ph->p_vaddr, copied_section);
		if (out->nr == RDPMC_SITES_MAX)
			return too_many(img, "more than 64 RDPMC instructions", err, errlen);
		out->gpa[out->nr] = inside + ph->p_paddr;
		out->rip[out->nr++] = inside + ph->p_vaddr;
	}
	return 0;
}

/* Find the segment with @part in its file bytes. */
static bool find_segment(const struct image *img, const Elf64_Ehdr *eh, struct part *part)
{
	Elf64_Phdr *ph = &part->ph;

	for (unsigned int i = 0; i < eh->e_phnum; i++) {
		elf_phdr(img, eh, i, ph);
		if (elf_is_load(ph) && part->offset >= ph->p_offset &&
		    part->offset - ph->p_offset <= ph->p_filesz &&
		    part->bytes <= ph->p_filesz - (part->offset - ph->p_offset))
			return true;
	}
	return false;
}

/* Returns true if the image has section headers, which are optional. */
static bool has_sections(const struct image *img, const Elf64_Ehdr *eh)
{
	return eh->e_shnum && eh->e_shentsize == sizeof(Elf64_Shdr) && eh->e_shoff <= img->bytes &&
	       eh->e_shnum <= (img->bytes - eh->e_shoff) / sizeof(Elf64_Shdr);
}

static void rdpmc_section(const struct image *img, const Elf64_Ehdr *eh, unsigned int i,
			  Elf64_Shdr *sh)
{
	memcpy(sh, img->data + eh->e_shoff + i * sizeof(*sh), sizeof(*sh));
}

static bool is_copied(const struct image *img, const Elf64_Ehdr *eh, const Elf64_Shdr *sh)
{
	Elf64_Shdr names;

	if (eh->e_shstrndx >= eh->e_shnum)
		return false;
	rdpmc_section(img, eh, eh->e_shstrndx, &names);
	return names.sh_offset <= img->bytes && names.sh_size <= img->bytes - names.sh_offset &&
	       sh->sh_name <= names.sh_size &&
	       sizeof(copied_section) <= names.sh_size - sh->sh_name &&
	       !memcmp(img->data + names.sh_offset + sh->sh_name, copied_section,
		       sizeof(copied_section));
}

/* Search only code sections: an executable segment also has data, which can look like code. But
 * search those of all segments: .init.text can be in one that is not executable. A section that is
 * writable as well is data with some code in it, as a kernel's .data. */
static int find_in_sections(const struct image *img, const Elf64_Ehdr *eh, struct rdpmc_sites *out,
			    char *err, size_t errlen)
{
	uint64_t bytes = 0;
	int ret = 0;

	for (unsigned int i = 0; i < eh->e_shnum && !ret; i++) {
		struct part part;
		Elf64_Shdr sh;

		rdpmc_section(img, eh, i, &sh);
		part = (struct part){.offset = sh.sh_offset,
				     .bytes = sh.sh_size,
				     .data = sh.sh_flags & SHF_WRITE,
				     .copied = is_copied(img, eh, &sh)};
		if (sh.sh_type != SHT_PROGBITS || !(sh.sh_flags & SHF_EXECINSTR) || !sh.sh_size ||
		    !find_segment(img, eh, &part))
			continue;
		bytes += sh.sh_size;
		ret = bytes > img->bytes
			      ? too_many(img, "sections of code that overlap", err, errlen)
			      : find_in(img, &part, out, err, errlen);
	}
	return ret;
}

/* Without sections code cannot be told from data. */
static int find_in_segments(const struct image *img, const Elf64_Ehdr *eh, struct rdpmc_sites *out,
			    char *err, size_t errlen)
{
	int ret = 0;

	for (unsigned int i = 0; i < eh->e_phnum && !ret; i++) {
		struct part part = {.data = true};

		elf_phdr(img, eh, i, &part.ph);
		part.offset = part.ph.p_offset;
		part.bytes = part.ph.p_filesz;
		if (elf_is_load(&part.ph) && part.bytes)
			ret = find_in(img, &part, out, err, errlen);
	}
	return ret;
}

int rdpmc_find(const struct image *img, struct rdpmc_sites *out, char *err, size_t errlen)
{
	Elf64_Ehdr eh;

	out->nr = out->seen = 0;
	memcpy(&eh, img->data, sizeof(eh));
	return has_sections(img, &eh) ? find_in_sections(img, &eh, out, err, errlen)
				      : find_in_segments(img, &eh, out, err, errlen);
}

void rdpmc_rewrite(const struct vmm_ram *ram, const struct rdpmc_sites *s)
{
	for (size_t i = 0; i < s->nr; i++)
		memcpy(ram->base + s->gpa[i], kvm_text_in, sizeof(kvm_text_in));
}
