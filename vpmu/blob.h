/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Byte streams of snapshots: numbers little-endian, sections with a tag, a version and a length.
 * Whoever reads one believes nothing: every read is bounds-checked, the first failure sticks, and
 * a section must be used up exactly.
 *
 * A file of a whole VM is: magic, version, sections, CRC (snapshot files: docs/snapshot.md).
 */
#ifndef VPMU_BLOB_H
#define VPMU_BLOB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct vpmu_blob {     /* zeroed = empty */
	uint8_t *data; /* malloc'd */
	size_t len, room;
	bool failed; /* out of memory: everything since is ignored */
};

void vpmu_blob_fini(struct vpmu_blob *b);
void vpmu_blob_u8(struct vpmu_blob *b, uint8_t x);
void vpmu_blob_u16(struct vpmu_blob *b, uint16_t x);
void vpmu_blob_u32(struct vpmu_blob *b, uint32_t x);
void vpmu_blob_u64(struct vpmu_blob *b, uint64_t x);
void vpmu_blob_bytes(struct vpmu_blob *b, const void *p, size_t n);
/* vpmu_blob_begin - open a section; returns what vpmu_blob_end needs to close it. They nest. */
size_t vpmu_blob_begin(struct vpmu_blob *b, uint32_t tag, uint16_t version);
void vpmu_blob_end(struct vpmu_blob *b, size_t section);

struct vpmu_blob_reader {
	const uint8_t *data;
	size_t len, at;
	bool failed; /* something was read that is not there: what was read since is 0 */
};

uint8_t vpmu_blob_get_u8(struct vpmu_blob_reader *r);
uint16_t vpmu_blob_get_u16(struct vpmu_blob_reader *r);
uint32_t vpmu_blob_get_u32(struct vpmu_blob_reader *r);
uint64_t vpmu_blob_get_u64(struct vpmu_blob_reader *r);
/* vpmu_blob_get_bool - a byte that is 0 or 1; others fail. */
bool vpmu_blob_get_bool(struct vpmu_blob_reader *r);
void vpmu_blob_get_bytes(struct vpmu_blob_reader *r, void *p, size_t n);
/* vpmu_blob_get_section - the section that must come next: *version, and *inner reads what is in
 * it. false: another tag, or it does not fit (then @r has failed). */
bool vpmu_blob_get_section(struct vpmu_blob_reader *r, uint32_t tag, uint16_t *version,
			   struct vpmu_blob_reader *inner);
/* vpmu_blob_done - nothing failed and nothing is left. */
static inline bool vpmu_blob_done(const struct vpmu_blob_reader *r)
{
	return !r->failed && r->at == r->len;
}

#endif
