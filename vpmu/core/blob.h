/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Byte streams of snapshots: numbers are little-endian; sections have a tag, a version and a
 * length. vpmu/guest/save.c, vmm/emu and vmm/snapshot write and read them;
 * docs/internals/snapshot.md specifies the file they are in.
 *
 * The bytes are untrusted. Each read is checked against the end. After the first failure every read
 * returns 0, so one check at the end (vpmu_blob_done) is enough; it also requires that all bytes
 * were read.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct vpmu_blob {     /* all zero: empty */
	uint8_t *data; /* malloc'd */
	size_t len, room;
	bool failed; /* out of memory; later writes were dropped */
};

void vpmu_blob_fini(struct vpmu_blob *b);
void vpmu_blob_u8(struct vpmu_blob *b, uint8_t x);
void vpmu_blob_u16(struct vpmu_blob *b, uint16_t x);
void vpmu_blob_u32(struct vpmu_blob *b, uint32_t x);
void vpmu_blob_u64(struct vpmu_blob *b, uint64_t x);
void vpmu_blob_bytes(struct vpmu_blob *b, const void *p, size_t n);
/* vpmu_blob_begin - open a section. Returns the handle for vpmu_blob_end. Sections nest. */
size_t vpmu_blob_begin(struct vpmu_blob *b, uint32_t tag, uint16_t version);
void vpmu_blob_end(struct vpmu_blob *b, size_t section);

struct vpmu_blob_reader {
	const uint8_t *data;
	size_t len, at;
	bool failed; /* a read went past the end; reads since then gave 0 */
};

uint8_t vpmu_blob_get_u8(struct vpmu_blob_reader *r);
uint16_t vpmu_blob_get_u16(struct vpmu_blob_reader *r);
uint32_t vpmu_blob_get_u32(struct vpmu_blob_reader *r);
uint64_t vpmu_blob_get_u64(struct vpmu_blob_reader *r);
/* vpmu_blob_get_bool - a byte that must be 0 or 1. */
bool vpmu_blob_get_bool(struct vpmu_blob_reader *r);
void vpmu_blob_get_bytes(struct vpmu_blob_reader *r, void *p, size_t n);
/* vpmu_blob_get_section - make *@inner a reader of the next section, which must have @tag and
 * @version. Returns false, and @r has failed, if one differs or the section is too long. */
bool vpmu_blob_get_section(struct vpmu_blob_reader *r, uint32_t tag, uint16_t version,
			   struct vpmu_blob_reader *inner);
/* vpmu_blob_done - returns true if no read failed and all bytes were read. */
static inline bool vpmu_blob_done(const struct vpmu_blob_reader *r)
{
	return !r->failed && r->at == r->len;
}
