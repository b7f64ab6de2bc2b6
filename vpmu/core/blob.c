// SPDX-License-Identifier: LGPL-2.1-or-later
/*
 * Byte streams of snapshots, see blob.h. Input is untrusted: no read may go past the end.
 */
#include <stdlib.h>
#include <string.h>

#include "vpmu/core/blob.h"

/* Sections: tag u32, version u16, reserved u16 (0), length u32, then that many bytes. */
#define SECTION_LEN_AT 8
#define SECTION_HEAD   12

void vpmu_blob_fini(struct vpmu_blob *b)
{
	free(b->data);
	*b = (struct vpmu_blob){0};
}

void vpmu_blob_bytes(struct vpmu_blob *b, const void *p, size_t n)
{
	if (b->failed || !n)
		return;
	if (n > b->room - b->len) {
		size_t room = b->room ? b->room : 4096;
		uint8_t *data;

		while (room - b->len < n && room <= SIZE_MAX / 2)
			room *= 2;
		data = room - b->len < n ? NULL : realloc(b->data, room);
		if (!data) {
			b->failed = true;
			return;
		}
		b->data = data;
		b->room = room;
	}
	memcpy(b->data + b->len, p, n);
	b->len += n;
}

static void put_le(uint8_t *to, uint64_t x, size_t bytes)
{
	for (size_t i = 0; i < bytes; i++)
		to[i] = (uint8_t)(x >> 8 * i);
}

static void blob_le(struct vpmu_blob *b, uint64_t x, size_t bytes)
{
	uint8_t buf[8];

	put_le(buf, x, bytes);
	vpmu_blob_bytes(b, buf, bytes);
}

void vpmu_blob_u8(struct vpmu_blob *b, uint8_t x)
{
	blob_le(b, x, 1);
}

void vpmu_blob_u16(struct vpmu_blob *b, uint16_t x)
{
	blob_le(b, x, 2);
}

void vpmu_blob_u32(struct vpmu_blob *b, uint32_t x)
{
	blob_le(b, x, 4);
}

void vpmu_blob_u64(struct vpmu_blob *b, uint64_t x)
{
	blob_le(b, x, 8);
}

size_t vpmu_blob_begin(struct vpmu_blob *b, uint32_t tag, uint16_t version)
{
	size_t at = b->len;

	vpmu_blob_u32(b, tag);
	vpmu_blob_u16(b, version);
	vpmu_blob_u16(b, 0);
	vpmu_blob_u32(b, 0);
	return at;
}

void vpmu_blob_end(struct vpmu_blob *b, size_t section)
{
	if (b->failed)
		return;
	if (b->len - section - SECTION_HEAD > UINT32_MAX) {
		b->failed = true;
		return;
	}
	put_le(b->data + section + SECTION_LEN_AT, b->len - section - SECTION_HEAD, 4);
}

/* ---- reading ---- */

/* The next @n bytes; NULL, and @r fails, if there are fewer. */
static const uint8_t *blob_take(struct vpmu_blob_reader *r, size_t n)
{
	const uint8_t *p = r->data + r->at;

	if (r->failed || n > r->len - r->at) {
		r->failed = true;
		return NULL;
	}
	r->at += n;
	return p;
}

static uint64_t get_le(struct vpmu_blob_reader *r, size_t bytes)
{
	const uint8_t *p = blob_take(r, bytes);
	uint64_t x = 0;

	for (size_t i = 0; p && i < bytes; i++)
		x |= (uint64_t)p[i] << 8 * i;
	return x;
}

uint8_t vpmu_blob_get_u8(struct vpmu_blob_reader *r)
{
	return (uint8_t)get_le(r, 1);
}

uint16_t vpmu_blob_get_u16(struct vpmu_blob_reader *r)
{
	return (uint16_t)get_le(r, 2);
}

uint32_t vpmu_blob_get_u32(struct vpmu_blob_reader *r)
{
	return (uint32_t)get_le(r, 4);
}

uint64_t vpmu_blob_get_u64(struct vpmu_blob_reader *r)
{
	return get_le(r, 8);
}

bool vpmu_blob_get_bool(struct vpmu_blob_reader *r)
{
	uint8_t x = vpmu_blob_get_u8(r);

	if (x > 1)
		r->failed = true;
	return x == 1;
}

void vpmu_blob_get_bytes(struct vpmu_blob_reader *r, void *p, size_t n)
{
	const uint8_t *from = blob_take(r, n);

	if (from && n)
		memcpy(p, from, n);
	else if (n)
		memset(p, 0, n);
}

bool vpmu_blob_get_section(struct vpmu_blob_reader *r, uint32_t tag, uint16_t version,
			   struct vpmu_blob_reader *inner)
{
	uint32_t t = vpmu_blob_get_u32(r);
	uint16_t v = vpmu_blob_get_u16(r), reserved = vpmu_blob_get_u16(r);
	uint32_t len = vpmu_blob_get_u32(r);
	const uint8_t *data = blob_take(r, len);

	*inner = (struct vpmu_blob_reader){.failed = true};
	if (!data || t != tag || v != version || reserved) {
		r->failed = true;
		return false;
	}
	*inner = (struct vpmu_blob_reader){.data = data, .len = len};
	return true;
}
