/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A small kernel as vmlinux and as bzImage, for the tests and the fuzzer of vmm/boot: made here, so
 * that no real kernel is needed. */
#ifndef TESTS_UNIT_BZ_IMAGE_H
#define TESTS_UNIT_BZ_IMAGE_H

#include <bzlib.h>
#include <lz4hc.h>
#include <lzma.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>
#include <zstd.h>

#include "tests/elf_image.h"
#include "vmm/boot/bytes.h"
#include "vmm/boot/linux.h"

#define BZ_TEXT	   0x1000000ULL
#define BZ_DATA	   0x1200000ULL
#define BZ_VIRTUAL 0xffffffff80000000ULL
#define BZ_END	   (BZ_DATA + 0x9000) /* the first address behind the kernel */

/* text, data with bss, a segment at virtual address 0 as that of per-CPU data, and a note */
struct bz_vmlinux {
	Elf64_Ehdr eh;
	Elf64_Phdr ph[4];
	uint8_t text[0x400];
	uint8_t data[0x300];
};

static inline void bz_vmlinux(struct bz_vmlinux *k)
{
	uint32_t x = 1;

	memset(k, 0, sizeof(*k));
	k->eh = elf_program(BZ_TEXT + 0x40, 4);
	k->ph[0] = (Elf64_Phdr){
		.p_type = PT_LOAD,
		.p_flags = PF_R | PF_X,
		.p_offset = offsetof(struct bz_vmlinux, text),
		.p_vaddr = BZ_VIRTUAL + BZ_TEXT,
		.p_paddr = BZ_TEXT,
		.p_filesz = sizeof(k->text),
		.p_memsz = sizeof(k->text),
		.p_align = 1,
	};
	k->ph[1] = (Elf64_Phdr){
		.p_type = PT_LOAD,
		.p_flags = PF_R | PF_W,
		.p_offset = offsetof(struct bz_vmlinux, data),
		.p_vaddr = BZ_VIRTUAL + BZ_DATA,
		.p_paddr = BZ_DATA,
		.p_filesz = sizeof(k->data),
		.p_memsz = 0x8000,
		.p_align = 1,
	};
	k->ph[2] = (Elf64_Phdr){
		.p_type = PT_LOAD,
		.p_flags = PF_R | PF_W,
		.p_offset = offsetof(struct bz_vmlinux, data),
		.p_vaddr = 0,
		.p_paddr = BZ_DATA + 0x8000,
		.p_filesz = 0x10,
		.p_memsz = 0x1000,
		.p_align = 1,
	};
	k->ph[3] = (Elf64_Phdr){.p_type = PT_NOTE};
	/* Something that compresses little: the high bytes of a linear congruential generator. */
	for (size_t i = 0; i < sizeof(k->text); i++) {
		x = x * 1664525 + 1013904223;
		k->text[i] = (uint8_t)(x >> 24);
	}
	memset(k->data, 0xda, sizeof(k->data));
}

enum bz_method { BZ_GZIP, BZ_XZ, BZ_LZMA, BZ_ZSTD, BZ_LZ4, BZ_BZIP2, BZ_METHODS };

static inline const char *bz_name(enum bz_method m)
{
	static const char *const names[] = {"gzip", "xz", "lzma", "zstd", "lz4", "bzip2"};

	return names[m];
}

/* Compress @n bytes at @in, as the kernel's build does, to @out, which has room. Returns how many
 * bytes, 0: it failed. */
static inline size_t bz_compress(enum bz_method m, const void *in, size_t n, uint8_t *out,
				 size_t room)
{
	size_t done = 0;

	switch (m) {
	case BZ_GZIP: {
		z_stream s = {.next_in = (Bytef *)in,
			      .avail_in = (uInt)n,
			      .next_out = out,
			      .avail_out = (uInt)room};

		if (deflateInit2(&s, 9, Z_DEFLATED, MAX_WBITS + 16, 8, Z_DEFAULT_STRATEGY) != Z_OK)
			return 0;
		done = deflate(&s, Z_FINISH) == Z_STREAM_END ? s.total_out : 0;
		deflateEnd(&s);
		return done; /* its last 4 bytes are the size already */
	}
	case BZ_XZ: {
		lzma_options_lzma o;
		lzma_filter f[] = {
			{LZMA_FILTER_X86, NULL}, {LZMA_FILTER_LZMA2, &o}, {LZMA_VLI_UNKNOWN, NULL}};

		if (lzma_lzma_preset(&o, 0) ||
		    lzma_stream_buffer_encode(f, LZMA_CHECK_CRC32, NULL, in, n, out, &done, room))
			return 0;
		break;
	}
	case BZ_LZMA: {
		lzma_stream s = LZMA_STREAM_INIT;
		lzma_options_lzma o;

		if (lzma_lzma_preset(&o, 0) || lzma_alone_encoder(&s, &o))
			return 0;
		s.next_in = in;
		s.avail_in = n;
		s.next_out = out;
		s.avail_out = room;
		done = lzma_code(&s, LZMA_FINISH) == LZMA_STREAM_END ? s.total_out : 0;
		lzma_end(&s);
		break;
	}
	case BZ_ZSTD:
		done = ZSTD_compress(out, room, in, n, 3);
		if (ZSTD_isError(done))
			return 0;
		break;
	case BZ_LZ4: {
		int got;

		if (room < 8)
			return 0;
		put_u32(out, 0x184c2102);
		got = LZ4_compress_HC(in, (char *)out + 8, (int)n, (int)(room - 8), 9);
		put_u32(out + 4, (uint32_t)got);
		done = got > 0 ? (size_t)got + 8 : 0;
		break;
	}
	case BZ_BZIP2: {
		unsigned int len = (unsigned int)room;

		if (BZ2_bzBuffToBuffCompress((char *)out, &len, (char *)in, (unsigned int)n, 1, 0,
					     0) != BZ_OK)
			return 0;
		done = len;
		break;
	}
	case BZ_METHODS:
		return 0;
	}
	if (!done || done + 4 > room)
		return 0;
	put_u32(out + done, (uint32_t)n);
	return done + 4;
}

#define BZ_SECTS   3u
#define BZ_KERNEL  ((BZ_SECTS + 1) * 512u)
#define BZ_OFFSET  0x80u /* of the payload */
#define BZ_PAYLOAD (BZ_KERNEL + BZ_OFFSET)
#define BZ_ROOM	   0x4000u
#define BZ_CMDLINE 300u /* its size in the header */

/* Make a bzImage of @n bytes at @kernel in img->data (malloc'd), with something behind the payload.
 * false: no memory. */
static inline bool bz_image(enum bz_method m, const void *kernel, size_t n, struct image *img)
{
	uint8_t *d = calloc(1, BZ_ROOM);
	size_t len;

	*img = (struct image){.name = strdup("test.bz"), .data = d};
	if (!img->name || !d)
		return false;
	len = bz_compress(m, kernel, n, d + BZ_PAYLOAD, BZ_ROOM - BZ_PAYLOAD - 64);
	d[LINUX_HDR_SETUP_SECTS] = BZ_SECTS;
	put_u16(d + LINUX_HDR_BOOT_FLAG, 0xaa55);
	d[LINUX_HDR_JUMP - 1] = 0xeb;
	d[LINUX_HDR_JUMP] = 0x6a;
	memcpy(d + LINUX_HDR_MAGIC, "HdrS", 4);
	put_u16(d + LINUX_HDR_VERSION, 0x20f);
	d[LINUX_HDR_LOADFLAGS] = 0x83; /* LOADED_HIGH, KASLR_FLAG, CAN_USE_HEAP */
	put_u32(d + LINUX_HDR_INITRD_MAX, 0x7fffffff);
	put_u32(d + LINUX_HDR_ALIGNMENT, 0x200000);
	put_u16(d + LINUX_HDR_XLOADFLAGS, 0x7f);
	put_u32(d + LINUX_HDR_CMDLINE_SIZE, BZ_CMDLINE);
	put_u32(d + LINUX_HDR_PAYLOAD_OFFSET, BZ_OFFSET);
	put_u32(d + LINUX_HDR_PAYLOAD_LENGTH, (uint32_t)len);
	put_u64(d + LINUX_HDR_SETUP_DATA, 0x123456789);
	memset(d + BZ_PAYLOAD + len, 0xcc, 64);
	img->bytes = BZ_PAYLOAD + len + 64;
	return len != 0;
}

#endif
