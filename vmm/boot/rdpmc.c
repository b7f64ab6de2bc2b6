// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * See rdpmc.h. The bytes 0F 33 also occur inside other instructions and in data, about once in 64
 * KiB. Rewriting those would corrupt the guest. x86 code decoded from a wrong start soon
 * resynchronizes. So nearly all of many starts before a real instruction reach it, and nearly none
 * reach bytes inside another instruction.
 */
#include <Zydis/Zydis.h>
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "vmm/boot/elf64.h"
#include "vmm/boot/rdpmc.h"
#include "vpmu/util/fail.h"

static const uint8_t rdpmc[2] = {0x0f, 0x33};
static const uint8_t in_eax[2] = {0xe5, RDPMC_PORT};
/* SHL RDX,32, with which the kernel joins the two halves. */
static const uint8_t shl_rdx[4] = {0x48, 0xc1, 0xe2, 0x20};

/* apply_alternatives() copies from this section. */
static const char copied_section[] = ".altinstr_replacement";

/* Decode from each byte that is SETTLE to STARTS bytes before the candidate. */
#define STARTS 96
#define SETTLE 32
/* This percentage of starts must reach it, of at least VOTES_MIN that decode. */
#define AGREE_PERCENT 70
#define VOTES_MIN     16
/* An image with more bytes 0F 33 than this, or more bytes of code than it is long, does not come
 * from a compiler, and searching it would take too long. */
#define CANDIDATES_MAX 65536
/* SHL RDX,32 ends within this many bytes behind it. */
#define SHL_WITHIN 12

/* A part of the image to search. */
struct part {
	Elf64_Phdr ph;		/* its segment */
	uint64_t offset, bytes; /* in the file */
	bool data;		/* may contain data, too */
	bool copied;		/* the kernel executes copies of it */
};

struct text {
	const uint8_t *data;
	uint64_t bytes;
	ZydisDecoder decoder;
};

/* Decode from @start until @at is reached or passed. Returns the end of the last instruction; 0:
 * invalid bytes. */
static uint64_t rdpmc_decode(const struct text *t, uint64_t start, uint64_t at)
{
	ZydisDecodedInstruction insn;

	while (start < at) {
		if (!ZYAN_SUCCESS(ZydisDecoderDecodeInstruction(&t->decoder, NULL, t->data + start,
								t->bytes - start, &insn)))
			return 0;
		start += insn.length;
	}
	return start;
}

/* Displacements and the like need not be instructions: a start there that does not decode has no
 * vote. */
static bool is_instruction(const struct text *t, uint64_t at)
{
	unsigned int votes = 0, met = 0;

	for (uint64_t back = SETTLE; back <= STARTS && back <= at; back++) {
		uint64_t end = rdpmc_decode(t, at - back, at);

		votes += end != 0;
		met += end == at;
	}
	/* At the beginning of the text there are too few starts. */
	return votes >= VOTES_MIN && met * 100 >= votes * AGREE_PERCENT;
}

/* Returns true if SHL RDX,32 soon follows the instruction at @at. */
static bool shl_follows(const struct text *t, uint64_t at)
{
	uint64_t end = at + sizeof(rdpmc) + SHL_WITHIN;
	ZydisDecodedInstruction insn;

	for (at += sizeof(rdpmc); at + sizeof(shl_rdx) <= end && at < t->bytes; at += insn.length) {
		if (t->bytes - at >= sizeof(shl_rdx) &&
		    !memcmp(t->data + at, shl_rdx, sizeof(shl_rdx)))
			return true;
		if (!ZYAN_SUCCESS(ZydisDecoderDecodeInstruction(&t->decoder, NULL, t->data + at,
								t->bytes - at, &insn)))
			return false;
	}
	return false;
}

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
	struct text t = {.data = p, .bytes = part->bytes};

	ZydisDecoderInit(&t.decoder, ZYDIS_MACHINE_MODE_LONG_64, ZYDIS_STACK_WIDTH_64);
	for (; (p = memmem(p, (size_t)(end - p), rdpmc, sizeof(rdpmc))); p++) {
		uint64_t at = (uint64_t)(p - t.data), inside = part->offset + at - ph->p_offset;
		bool insn = is_instruction(&t, at), shl = shl_follows(&t, at);

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
		elf64_phdr(img, eh, i, ph);
		if (elf64_is_load(ph) && part->offset >= ph->p_offset &&
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

		elf64_phdr(img, eh, i, &part.ph);
		part.offset = part.ph.p_offset;
		part.bytes = part.ph.p_filesz;
		if (elf64_is_load(&part.ph) && part.bytes)
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
		memcpy(ram->base + s->gpa[i], in_eax, sizeof(in_eax));
}
