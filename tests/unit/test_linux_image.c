// SPDX-License-Identifier: GPL-2.0-or-later
/* vmm/boot/bzimage.c and unpack.c: a bzImage of each compression, and damaged ones. */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>

#include "bz_image.h"

static struct bz_vmlinux kernel;

static void init(void)
{
	bz_vmlinux(&kernel);
}

TestSuite(linux_image, .init = init);

static struct image make(enum bz_method m)
{
	struct image img;

	cr_assert(bz_image(m, &kernel, sizeof(kernel), &img), "%s", bz_name(m));
	return img;
}

Test(linux_image, every_compression)
{
	for (enum bz_method m = 0; m < BZ_METHODS; m++) {
		struct image img = make(m);
		uint8_t header[0x26c - LINUX_HDR];
		char err[256] = "";

		memcpy(header, img.data + LINUX_HDR, sizeof(header));
		cr_assert(linux_is_bzimage(&img));
		cr_assert_eq(linux_unpack(&img, err, sizeof(err)), 0, "%s: %s", bz_name(m), err);
		cr_assert_eq(img.bytes, sizeof(kernel), "%s", bz_name(m));
		cr_assert(!memcmp(img.data, &kernel, sizeof(kernel)), "%s", bz_name(m));
		cr_assert_eq(img.setup_bytes, sizeof(header));
		cr_assert(!memcmp(img.setup, header, sizeof(header)));
		/* It is no bzImage now: nothing more happens. */
		cr_assert_eq(linux_unpack(&img, err, sizeof(err)), 0);
		cr_assert_eq(img.bytes, sizeof(kernel));
		image_free(&img);
	}
}

/* Kernels are longer than a block of LZ4's legacy frame. */
Test(linux_image, lz4_blocks)
{
	const size_t block = 8u << 20, n = block + 5000, room = n + (1 << 16);
	uint8_t *in = malloc(n), *packed = calloc(1, room);
	struct image img;
	char err[256] = "";
	size_t at = 4;

	cr_assert(in && packed);
	for (size_t i = 0; i < n; i++)
		in[i] = (uint8_t)(i >> 9);
	put_u32(packed, 0x184c2102);
	for (size_t from = 0; from < n; from += block) {
		size_t len = n - from < block ? n - from : block;
		int got = LZ4_compress_default((char *)in + from, (char *)packed + at + 4, (int)len,
					       (int)(room - at - 8));

		cr_assert_gt(got, 0);
		put_u32(packed + at, (uint32_t)got);
		at += 4 + (size_t)got;
	}
	put_u32(packed + at, (uint32_t)n);
	cr_assert(bz_image(BZ_LZ4, &kernel, sizeof(kernel), &img));
	img.data = realloc(img.data, BZ_PAYLOAD + at + 4);
	memcpy(img.data + BZ_PAYLOAD, packed, at + 4);
	img.bytes = BZ_PAYLOAD + at + 4;
	put_u32(img.data + LINUX_HDR_PAYLOAD_LENGTH, (uint32_t)at + 4);
	cr_assert_eq(linux_unpack(&img, err, sizeof(err)), 0, "%s", err);
	cr_assert_eq(img.bytes, n);
	cr_assert(!memcmp(img.data, in, n));
	image_free(&img);
	free(in);
	free(packed);
}

/* ---- damage ---- */

struct damage {
	int line;
	size_t offset, bytes;
	uint64_t value;
	const char *says;
};

#define D(field, bytes, value, says)                                                               \
	{                                                                                          \
		__LINE__, LINUX_HDR_##field, bytes, value, says                                    \
	}

Test(linux_image, every_header_field)
{
	static const struct damage rows[] = {
		D(BOOT_FLAG, 2, 0, "boot_flag is 0x0; expected 0xaa55"),
		D(VERSION, 2, 0x20b, "version is 0x20b"),
		D(VERSION, 2, 0, "version is 0x0"),
		D(XLOADFLAGS, 2, 0x7e, "xloadflags is 0x7e"),
		D(JUMP, 1, 0x65, "jump is 0x65"),
		D(JUMP, 1, 0x8f, "jump is 0x8f"),
		D(JUMP, 1, 0xff, "jump is 0xff"),
		D(SETUP_SECTS, 1, 65, "setup_sects is 0x41"),
		D(SETUP_SECTS, 1, 64, "by setup_sects"),
		/* 4: the payload's place is another. */
		D(SETUP_SECTS, 1, 0, "payload_length is 0x"),
		D(PAYLOAD_OFFSET, 4, UINT32_MAX, "payload_offset is 0xffffffff"),
		D(PAYLOAD_OFFSET, 4, 0x10000, "payload_offset is 0x10000"),
		D(PAYLOAD_LENGTH, 4, 0, "payload_length is 0x0"),
		D(PAYLOAD_LENGTH, 4, 7, "payload_length is 0x7"),
		D(PAYLOAD_LENGTH, 4, UINT32_MAX, "payload_length is 0xffffffff"),
	};

	for (const struct damage *d = rows; d < rows + sizeof(rows) / sizeof(rows[0]); d++) {
		struct image img = make(BZ_XZ);
		uint8_t *data = img.data;
		size_t bytes = img.bytes;
		char err[256] = "";

		memcpy(data + d->offset, &d->value, d->bytes);
		cr_assert_eq(linux_unpack(&img, err, sizeof(err)), -ENOEXEC, "line %d", d->line);
		cr_assert(strstr(err, d->says), "line %d: %s", d->line, err);
		cr_assert(!strncmp(err, "test.bz: bzImage: ", 18) && !strchr(err, '\n'), "%s", err);
		cr_assert(img.data == data && img.bytes == bytes && !img.setup, "line %d", d->line);
		image_free(&img);
	}
}

/* The payload's claimed size is not its unpacked size. */
Test(linux_image, claims)
{
	static const struct {
		int line;
		int64_t claimed; /* negative: relative to the truth */
		const char *says;
	} rows[] = {
		{__LINE__, 0, "size of the unpacked kernel is 0x0"},
		{__LINE__, 0x10000001, "size of the unpacked kernel is 0x10000001"},
		{__LINE__, UINT32_MAX, "size of the unpacked kernel is 0xffffffff"},
		{__LINE__, -1, "unpacks to"},
		{__LINE__, 0x10000000, "expected 268435456, as it claims"},
	};

	for (enum bz_method m = 0; m < BZ_METHODS; m++)
		for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
			struct image img = make(m);
			size_t end = BZ_PAYLOAD + get_u32(img.data + LINUX_HDR_PAYLOAD_LENGTH);
			uint64_t claimed = rows[i].claimed < 0 ? sizeof(kernel) - 1
							       : (uint64_t)rows[i].claimed;
			char err[256] = "";

			/* gzip checks its own copy of the size. */
			put_u32(img.data + end - 4, (uint32_t)claimed);
			cr_assert_eq(linux_unpack(&img, err, sizeof(err)), -ENOEXEC, "line %d, %s",
				     rows[i].line, bz_name(m));
			if (m != BZ_GZIP && (m != BZ_LZ4 || rows[i].claimed >= 0))
				cr_assert(strstr(err, rows[i].says), "line %d, %s: %s",
					  rows[i].line, bz_name(m), err);
			image_free(&img);
		}
}

/* However much of the file is missing, it is no kernel, with one line of error. */
Test(linux_image, truncated)
{
	struct vmm_ram ram = {.nr = 1, .slot[0].bytes = 64 << 20};
	struct boot_params p = {.nr_vcpus = 1};

	for (enum bz_method m = 0; m < BZ_METHODS; m++) {
		struct image whole = make(m);

		/* Behind the payload nothing is needed. */
		for (size_t n = 0; n < whole.bytes - 64; n++) {
			struct image img = {.name = strdup("test.bz"), .bytes = n};
			char err[256] = "";
			int ret;

			img.data = malloc(n ? n : 1);
			memcpy(img.data, whole.data, n);
			ret = linux_unpack(&img, err, sizeof(err));
			if (!ret)
				ret = boot_linux.check(&img, &ram, &p, err, sizeof(err));
			cr_assert_eq(ret, -ENOEXEC, "%s, %zu", bz_name(m), n);
			cr_assert(strstr(err, "test.bz: ") && !strchr(err, '\n'), "%s", err);
			image_free(&img);
		}
		image_free(&whole);
	}
}

/* One byte of the payload is another one. LZ4's frame has no checksum and may not notice. */
Test(linux_image, damaged_payload)
{
	for (enum bz_method m = 0; m < BZ_METHODS; m++) {
		struct image whole = make(m);
		size_t len = get_u32(whole.data + LINUX_HDR_PAYLOAD_LENGTH), noticed = 0;

		for (size_t i = 0; i < len; i++) {
			struct image img = make(m);
			char err[256] = "";
			int ret;

			img.data[BZ_PAYLOAD + i] ^= 0x41;
			ret = linux_unpack(&img, err, sizeof(err));
			cr_assert(!ret || (ret == -ENOEXEC && *err && !strchr(err, '\n')), "%s",
				  err);
			noticed += ret != 0;
			cr_assert_eq(img.bytes, ret ? whole.bytes : sizeof(kernel));
			image_free(&img);
		}
		if (m == BZ_GZIP || m == BZ_XZ || m == BZ_BZIP2)
			cr_assert_geq(noticed, len - len / 20, "%s: %zu of %zu", bz_name(m),
				      noticed, len);
		image_free(&whole);
	}
}

/* LZO is a compression of kernels, too, and not one of ours. */
Test(linux_image, unknown_compression)
{
	struct image img = make(BZ_XZ);
	char err[256] = "";

	memcpy(img.data + BZ_PAYLOAD, "\x89LZO", 4);
	cr_assert_eq(linux_unpack(&img, err, sizeof(err)), -ENOEXEC);
	cr_assert(strstr(err, "89 4c 5a 4f; expected what gzip, xz, lzma, zstd, lz4 or bzip2"),
		  "%s", err);
	image_free(&img);
}
