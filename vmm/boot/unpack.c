// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Decompressing the payload of a bzImage; see linux.h. Called by bzimage.c. The data is hostile:
 * output never exceeds the caller's room, whatever size the data claims.
 *
 * Formats as the kernel writes them (linux scripts/Makefile.lib): one stream each; for lz4 the
 * "legacy" frame of lz4 -l. A 32-bit size follows that is not part of the stream.
 */
#include <errno.h>
#include <limits.h>
#include <string.h>
#include <zlib.h>

/* Each of these libraries is optional at build time. */
#ifdef UNPACK_BZ2
#include <bzlib.h>
#endif
#ifdef UNPACK_LZ4
#include <lz4.h>
#endif
#ifdef UNPACK_LZMA
#include <lzma.h>
#endif
#ifdef UNPACK_ZSTD
#include <zstd.h>
#include <zstd_errors.h>
#endif

#include "vmm/boot/linux.h"

#define DICTIONARY_MAX (256ULL << 20)

static long unpack_gzip(const uint8_t *in, size_t n, uint8_t *out, size_t room)
{
	z_stream s = {
		.next_in = (Bytef *)in,
		.avail_in = n > UINT_MAX ? UINT_MAX : (uInt)n,
		.next_out = out,
		.avail_out = room > UINT_MAX ? UINT_MAX : (uInt)room,
	};
	long ret;
	int z;

	if (inflateInit2(&s, MAX_WBITS + 16) != Z_OK) /* 16: a gzip header and trailer */
		return -ENOMEM;
	z = inflate(&s, Z_FINISH);
	if (z == Z_STREAM_END)
		ret = (long)s.total_out;
	else if (z == Z_MEM_ERROR)
		ret = -ENOMEM;
	else
		ret = z == Z_BUF_ERROR && !s.avail_out ? -E2BIG : -EBADMSG;
	inflateEnd(&s);
	return ret;
}

#ifdef UNPACK_LZMA
static long run_lzma(lzma_stream *s, const uint8_t *in, size_t n, uint8_t *out, size_t room)
{
	lzma_ret z;
	long ret;

	s->next_in = in;
	s->avail_in = n;
	s->next_out = out;
	s->avail_out = room;
	z = lzma_code(s, LZMA_FINISH);
	/* The end may only be reported by the next call. */
	if (z == LZMA_OK)
		z = lzma_code(s, LZMA_FINISH);
	if (z == LZMA_STREAM_END)
		ret = (long)s->total_out;
	else if (z == LZMA_MEM_ERROR)
		ret = -ENOMEM;
	else
		ret = (z == LZMA_OK || z == LZMA_BUF_ERROR) && !s->avail_out ? -E2BIG : -EBADMSG;
	lzma_end(s);
	return ret;
}

static long unpack_xz(const uint8_t *in, size_t n, uint8_t *out, size_t room)
{
	lzma_stream s = LZMA_STREAM_INIT;

	if (lzma_stream_decoder(&s, DICTIONARY_MAX, 0) != LZMA_OK)
		return -ENOMEM;
	return run_lzma(&s, in, n, out, room);
}

static long unpack_lzma(const uint8_t *in, size_t n, uint8_t *out, size_t room)
{
	lzma_stream s = LZMA_STREAM_INIT;

	if (lzma_alone_decoder(&s, DICTIONARY_MAX) != LZMA_OK)
		return -ENOMEM;
	return run_lzma(&s, in, n, out, room);
}
#else
#define unpack_xz   NULL
#define unpack_lzma NULL
#endif

#ifdef UNPACK_ZSTD
static long unpack_zstd(const uint8_t *in, size_t n, uint8_t *out, size_t room)
{
	size_t frame = ZSTD_findFrameCompressedSize(in, n);
	size_t done;

	if (ZSTD_isError(frame))
		return -EBADMSG;
	/* With the whole output in one buffer the decoder needs no window. */
	done = ZSTD_decompress(out, room, in, frame);
	if (!ZSTD_isError(done))
		return (long)done;
	switch (ZSTD_getErrorCode(done)) {
	case ZSTD_error_memory_allocation:
		return -ENOMEM;
	case ZSTD_error_dstSize_tooSmall:
		return -E2BIG;
	default:
		return -EBADMSG;
	}
}
#else
#define unpack_zstd NULL
#endif

#ifdef UNPACK_LZ4
#define LZ4_BLOCK_BYTES                                                                            \
	(8 << 20) /* unpacked size of each block of a legacy frame except the last \ */

/* lz4's doc/lz4_Frame_format.md, "Legacy frame": a magic number, then blocks, each with its
 * compressed size before it. It ends with the file, or where no block can follow. */
static long unpack_lz4(const uint8_t *in, size_t n, uint8_t *out, size_t room)
{
	size_t at = 4, done = 0;

	while (n - at >= 4) {
		uint32_t size = (uint32_t)in[at] | (uint32_t)in[at + 1] << 8 |
				(uint32_t)in[at + 2] << 16 | (uint32_t)in[at + 3] << 24;
		size_t left = room - done;
		int got;

		/* The kernel's size word is the last thing, so nothing follows it. */
		if (n - at == 4 && done)
			break;
		at += 4;
		if (!size || size > n - at || size > (uint32_t)LZ4_compressBound(LZ4_BLOCK_BYTES))
			return -EBADMSG;
		got = LZ4_decompress_safe((const char *)in + at, (char *)out + done, (int)size,
					  left < (size_t)LZ4_BLOCK_BYTES ? (int)left
									 : LZ4_BLOCK_BYTES);
		if (got < 0)
			return left < (size_t)LZ4_BLOCK_BYTES ? -E2BIG : -EBADMSG;
		at += size;
		done += (size_t)got;
	}
	return done ? (long)done : -EBADMSG;
}
#else
#define unpack_lz4 NULL
#endif

#ifdef UNPACK_BZ2
static long unpack_bzip2(const uint8_t *in, size_t n, uint8_t *out, size_t room)
{
	bz_stream s = {
		.next_in = (char *)in,
		.avail_in = n > UINT_MAX ? UINT_MAX : (unsigned int)n,
		.next_out = (char *)out,
		.avail_out = room > UINT_MAX ? UINT_MAX : (unsigned int)room,
	};
	long ret;
	int z;

	if (BZ2_bzDecompressInit(&s, 0, 0) != BZ_OK)
		return -ENOMEM;
	z = BZ2_bzDecompress(&s);
	if (z == BZ_STREAM_END)
		ret = (long)((uint64_t)s.total_out_hi32 << 32 | s.total_out_lo32);
	else if (z == BZ_MEM_ERROR)
		ret = -ENOMEM;
	else
		ret = z == BZ_OK && !s.avail_out ? -E2BIG : -EBADMSG;
	BZ2_bzDecompressEnd(&s);
	return ret;
}
#else
#define unpack_bzip2 NULL
#endif

long unpack(const uint8_t *in, size_t n, uint8_t *out, size_t room, const char **method)
{
	static const struct {
		const char *name;
		uint8_t magic[6];
		size_t len;
		long (*unpack)(const uint8_t *in, size_t n, uint8_t *out, size_t room);
	} formats[] = {
		{"gzip", {0x1f, 0x8b, 8}, 3, unpack_gzip},
		{"xz", {0xfd, '7', 'z', 'X', 'Z', 0}, 6, unpack_xz},
		{"lzma", {0x5d, 0, 0}, 3, unpack_lzma},
		{"zstd", {0x28, 0xb5, 0x2f, 0xfd}, 4, unpack_zstd},
		{"lz4", {0x02, 0x21, 0x4c, 0x18}, 4, unpack_lz4},
		{"bzip2", {'B', 'Z', 'h'}, 3, unpack_bzip2},
	};

	for (size_t i = 0; i < sizeof(formats) / sizeof(formats[0]); i++)
		if (n >= formats[i].len && !memcmp(in, formats[i].magic, formats[i].len)) {
			*method = formats[i].name;
			return formats[i].unpack ? formats[i].unpack(in, n, out, room) : -ENOSYS;
		}
	*method = "";
	return -ENOTSUP;
}
