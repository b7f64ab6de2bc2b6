// SPDX-License-Identifier: GPL-2.0-or-later
/* vpmu/blob: written values come back; cut, stretched or mislabelled ones do not. */
#include <criterion/criterion.h>
#include <string.h>

#include "vpmu/core/blob.h"

#define TAG_A 0x41414141u
#define TAG_B 0x42424242u

static struct vpmu_blob_reader reader(const struct vpmu_blob *b)
{
	return (struct vpmu_blob_reader){.data = b->data, .len = b->len};
}

Test(blob, numbers_are_little_endian)
{
	static const uint8_t want[] = {0x11, 0x33, 0x22, 0x77, 0x66, 0x55, 0x44, 0xff,
				       0xee, 0xdd, 0xcc, 0xbb, 0xaa, 0x99, 0x88};
	struct vpmu_blob b = {0};

	vpmu_blob_u8(&b, 0x11);
	vpmu_blob_u16(&b, 0x2233);
	vpmu_blob_u32(&b, 0x44556677);
	vpmu_blob_u64(&b, 0x8899aabbccddeeffULL);
	cr_assert_eq(b.len, sizeof(want));
	cr_assert(!memcmp(b.data, want, sizeof(want)));

	struct vpmu_blob_reader r = reader(&b);

	cr_assert_eq(vpmu_blob_get_u8(&r), 0x11);
	cr_assert_eq(vpmu_blob_get_u16(&r), 0x2233);
	cr_assert_eq(vpmu_blob_get_u32(&r), 0x44556677);
	cr_assert(!vpmu_blob_done(&r));
	cr_assert_eq(vpmu_blob_get_u64(&r), 0x8899aabbccddeeffULL);
	cr_assert(vpmu_blob_done(&r));
	vpmu_blob_fini(&b);
	cr_assert(!b.data && !b.len);
}

/* The first failure sticks, and later reads give 0. */
Test(blob, beyond_the_end)
{
	struct vpmu_blob b = {0};
	uint8_t bytes[4] = {1, 1, 1, 1};

	vpmu_blob_u16(&b, 0xffff);

	struct vpmu_blob_reader r = reader(&b);

	cr_assert_eq(vpmu_blob_get_u32(&r), 0);
	cr_assert(r.failed);
	cr_assert_eq(vpmu_blob_get_u8(&r), 0, "there are bytes, but it has failed");
	vpmu_blob_get_bytes(&r, bytes, sizeof(bytes));
	cr_assert(!memcmp(bytes, "\0\0\0\0", 4));
	cr_assert(!vpmu_blob_done(&r));
	vpmu_blob_fini(&b);
}

Test(blob, bool_is_0_or_1)
{
	for (unsigned int x = 0; x < 256; x++) {
		uint8_t byte = (uint8_t)x;
		struct vpmu_blob_reader r = {.data = &byte, .len = 1};

		cr_assert_eq(vpmu_blob_get_bool(&r), x == 1);
		cr_assert_eq(r.failed, x > 1, "%u", x);
	}
}

Test(blob, growth)
{
	struct vpmu_blob b = {0};

	for (uint32_t i = 0; i < 100000; i++)
		vpmu_blob_u32(&b, i * 2654435761u);
	cr_assert(!b.failed);

	struct vpmu_blob_reader r = reader(&b);

	for (uint32_t i = 0; i < 100000; i++)
		cr_assert_eq(vpmu_blob_get_u32(&r), i * 2654435761u);
	cr_assert(vpmu_blob_done(&r));
	vpmu_blob_fini(&b);
}

static void nested(struct vpmu_blob *b)
{
	size_t outer = vpmu_blob_begin(b, TAG_A, 3), inner;

	vpmu_blob_u8(b, 1);
	inner = vpmu_blob_begin(b, TAG_B, 1);
	vpmu_blob_bytes(b, "hello", 5);
	vpmu_blob_end(b, inner);
	vpmu_blob_u8(b, 2);
	vpmu_blob_end(b, outer);
	vpmu_blob_u8(b, 9);
}

/* Reads it all; whether it is exactly that. */
static bool read_nested(const uint8_t *data, size_t len)
{
	struct vpmu_blob_reader r = {.data = data, .len = len}, outer, inner;
	char text[5];

	if (!vpmu_blob_get_section(&r, TAG_A, 3, &outer) || vpmu_blob_get_u8(&outer) != 1 ||
	    !vpmu_blob_get_section(&outer, TAG_B, 1, &inner))
		return false;
	vpmu_blob_get_bytes(&inner, text, sizeof(text));
	return !memcmp(text, "hello", 5) && vpmu_blob_done(&inner) &&
	       vpmu_blob_get_u8(&outer) == 2 && vpmu_blob_done(&outer) &&
	       vpmu_blob_get_u8(&r) == 9 && vpmu_blob_done(&r);
}

Test(blob, sections_nest_and_do_not_leak)
{
	struct vpmu_blob b = {0};
	uint8_t *copy;

	nested(&b);
	cr_assert(read_nested(b.data, b.len));
	/* Every length and every changed byte: in a buffer of its own, so that a read beyond it is
	 * seen by the address sanitizer. */
	for (size_t len = 0; len < b.len; len++) {
		copy = malloc(len ? len : 1);
		memcpy(copy, b.data, len);
		cr_assert(!read_nested(copy, len), "cut to %zu", len);
		free(copy);
	}
	copy = malloc(b.len);
	for (size_t at = 0; at < b.len; at++) {
		for (unsigned int bit = 0; bit < 8; bit++) {
			memcpy(copy, b.data, b.len);
			copy[at] ^= (uint8_t)(1u << bit);
			cr_assert(!read_nested(copy, b.len), "byte %zu bit %u", at, bit);
		}
	}
	free(copy);
	vpmu_blob_fini(&b);
}

/* A section that is longer than what holds it does not reach into what follows. */
Test(blob, section_longer_than_its_parent)
{
	struct vpmu_blob b = {0};
	struct vpmu_blob_reader r, outer, inner;

	nested(&b);
	b.data[12 + 1 + 8] = 7; /* inner's length: 5 fit, 1 more follows in outer, then r's */
	r = reader(&b);
	cr_assert(vpmu_blob_get_section(&r, TAG_A, 3, &outer));
	cr_assert_eq(vpmu_blob_get_u8(&outer), 1);
	cr_assert(!vpmu_blob_get_section(&outer, TAG_B, 1, &inner));
	cr_assert(outer.failed && inner.failed);
	cr_assert_eq(vpmu_blob_get_u8(&r), 9, "the parent goes on behind the section");
	vpmu_blob_fini(&b);
}

Test(blob, a_failed_blob_takes_nothing_more)
{
	struct vpmu_blob b = {.failed = true};
	size_t s = vpmu_blob_begin(&b, TAG_A, 1);

	vpmu_blob_u64(&b, 1);
	vpmu_blob_end(&b, s);
	cr_assert(!b.data && !b.len);
}
