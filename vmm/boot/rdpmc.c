// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * See rdpmc.h. The bytes 0F 33 also occur inside of other instructions and in data, about once in
 * 64 KiB. Rewriting one of those would corrupt the guest. x86 code that is decoded from a wrong
 * start soon falls into step with the right one. So of many starts before a real instruction nearly
 * all meet it, and of those before bytes inside of another one nearly none does.
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
/* SHL RDX,32, by which the kernel joins the two halves. */
static const uint8_t shl_rdx[4] = {0x48, 0xc1, 0xe2, 0x20};

/* Decode from each of the last STARTS - SETTLE bytes that are at least SETTLE bytes before it. */
#define STARTS 96
#define SETTLE 32
/* So many of a hundred must meet it. */
#define AGREE_PERCENT 70
/* An image with more bytes 0F 33 than this, or more bytes of code than it is long, is none that a
 * compiler made, and looking through it would take too long. */
#define CANDIDATES_MAX 65536
/* SHL RDX,32 ends within so many bytes behind it. */
#define SHL_WITHIN 12

struct text {
	const uint8_t *data;
	uint64_t bytes;
	ZydisDecoder decoder;
};

/* Whether decoding from @start meets an instruction at @at. Behind bytes that are no instruction,
 * which code does not have, it meets nothing. */
static bool meets(const struct text *t, uint64_t start, uint64_t at)
{
	ZydisDecodedInstruction insn;

	while (start < at && ZYAN_SUCCESS(ZydisDecoderDecodeInstruction(
				     &t->decoder, NULL, t->data + start, t->bytes - start, &insn)))
		start += insn.length;
	return start == at;
}

static bool is_instruction(const struct text *t, uint64_t at)
{
	unsigned int starts = 0, met = 0;

	for (uint64_t back = SETTLE; back <= STARTS && back <= at; back++) {
		starts++;
		met += meets(t, at - back, at);
	}
	/* At the very beginning of the text there is nothing to ask. */
	return starts >= SETTLE && met * 100 >= starts * AGREE_PERCENT;
}

/* Decoded from the instruction at @at, SHL RDX,32 comes soon. */
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
		    "%s: %s, more than any kernel has; accepted on KVM: rdpmc=off, which shows no "
		    "PMU",
		    img->name, what);
}

/* Look through @bytes at @offset of the image, which are a part of segment *ph. */
static int find_in(const struct image *img, const Elf64_Phdr *ph, uint64_t offset, uint64_t bytes,
		   struct rdpmc_sites *out, char *err, size_t errlen)
{
	const uint8_t *p = img->data + offset, *end = p + bytes;
	struct text t = {.data = p, .bytes = bytes};

	ZydisDecoderInit(&t.decoder, ZYDIS_MACHINE_MODE_LONG_64, ZYDIS_STACK_WIDTH_64);
	for (; (p = memmem(p, (size_t)(end - p), rdpmc, sizeof(rdpmc))); p++) {
		uint64_t at = (uint64_t)(p - t.data), file = offset + at;
		bool insn = is_instruction(&t, at), shl = shl_follows(&t, at);

		if (++out->seen > CANDIDATES_MAX)
			return too_many(img, "more than 65536 times the bytes 0f 33", err, errlen);
		if (!insn && !shl)
			continue;
		if (insn != shl)
			return fail(
				-ENOEXEC, err, errlen,
				"%s: bytes 0f 33 at 0x%" PRIx64 " %s, so nobody can tell "
				"whether they are RDPMC; accepted on KVM: rdpmc=off, which shows "
				"no PMU",
				img->name, file - ph->p_offset + ph->p_vaddr,
				insn ? "are an instruction, but SHL RDX,32 does not follow"
				     : "are not met when decoding, but SHL RDX,32 follows");
		if (out->nr == RDPMC_SITES_MAX)
			return too_many(img, "more than 64 RDPMC instructions", err, errlen);
		out->gpa[out->nr] = file - ph->p_offset + ph->p_paddr;
		out->rip[out->nr++] = file - ph->p_offset + ph->p_vaddr;
	}
	return 0;
}

/* The executable segment whose bytes in the file include @bytes at @offset. */
static bool segment_of(const struct image *img, const Elf64_Ehdr *eh, uint64_t offset,
		       uint64_t bytes, Elf64_Phdr *ph)
{
	for (unsigned int i = 0; i < eh->e_phnum; i++) {
		elf64_phdr(img, eh, i, ph);
		if (elf64_is_load(ph) && ph->p_flags & PF_X && offset >= ph->p_offset &&
		    offset - ph->p_offset <= ph->p_filesz &&
		    bytes <= ph->p_filesz - (offset - ph->p_offset))
			return true;
	}
	return false;
}

/* Whether the image has section headers, which a kernel need not have. */
static bool has_sections(const struct image *img, const Elf64_Ehdr *eh)
{
	return eh->e_shnum && eh->e_shentsize == sizeof(Elf64_Shdr) && eh->e_shoff <= img->bytes &&
	       eh->e_shnum <= (img->bytes - eh->e_shoff) / sizeof(Elf64_Shdr);
}

/* Only sections of code: an executable segment also has data, which can look like code. */
static int find_in_sections(const struct image *img, const Elf64_Ehdr *eh, struct rdpmc_sites *out,
			    char *err, size_t errlen)
{
	uint64_t bytes = 0;
	int ret = 0;

	for (unsigned int i = 0; i < eh->e_shnum && !ret; i++) {
		Elf64_Shdr sh;
		Elf64_Phdr ph;

		memcpy(&sh, img->data + eh->e_shoff + i * sizeof(sh), sizeof(sh));
		if (sh.sh_type != SHT_PROGBITS || !(sh.sh_flags & SHF_EXECINSTR) || !sh.sh_size ||
		    !segment_of(img, eh, sh.sh_offset, sh.sh_size, &ph))
			continue;
		bytes += sh.sh_size;
		ret = bytes > img->bytes
			      ? too_many(img, "sections of code that overlap", err, errlen)
			      : find_in(img, &ph, sh.sh_offset, sh.sh_size, out, err, errlen);
	}
	return ret;
}

static int find_in_segments(const struct image *img, const Elf64_Ehdr *eh, struct rdpmc_sites *out,
			    char *err, size_t errlen)
{
	int ret = 0;

	for (unsigned int i = 0; i < eh->e_phnum && !ret; i++) {
		Elf64_Phdr ph;

		elf64_phdr(img, eh, i, &ph);
		if (elf64_is_load(&ph) && ph.p_flags & PF_X && ph.p_filesz)
			ret = find_in(img, &ph, ph.p_offset, ph.p_filesz, out, err, errlen);
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
