/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Sections of a snapshot that are described once for both directions: a function lists the fields
 * of a structure in the order of the format, and blob_save() or blob_load() calls it. Loaded bytes
 * are untrusted: after blob_load() the caller must check each field's range.
 */
#pragma once

#include <errno.h>
#include <string.h>

#include "vpmu/core/blob.h"

struct blob_io {
	struct vpmu_blob *out; /* NULL: load */
	struct vpmu_blob_reader *in;
};

typedef void blob_io_fn(struct blob_io *io, void *of);

/* Save or load @n bytes. An integer is saved as it is in memory. */
_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "as in snapshots");

static inline void blob_io_bytes(struct blob_io *io, void *p, size_t n)
{
	if (io->out)
		vpmu_blob_bytes(io->out, p, n);
	else
		vpmu_blob_get_bytes(io->in, p, n);
}

/* A byte that must be 0 or 1 when it is loaded. */
static inline void blob_io_bool(struct blob_io *io, void *x)
{
	if (io->out)
		vpmu_blob_u8(io->out, *(const uint8_t *)x);
	else
		*(uint8_t *)x = vpmu_blob_get_bool(io->in);
}

#define IO(field)      blob_io_bytes(io, &(field), sizeof(field))
#define IO_BOOL(field) blob_io_bool(io, &(field))
#define IO_EACH(array)                                                                             \
	for (size_t i_ = 0; i_ < sizeof(array) / sizeof((array)[0]); i_++)                         \
	IO((array)[i_])

/* blob_save - append a section. @fn does not change *@of. */
static inline void blob_save(struct vpmu_blob *b, uint32_t tag, uint16_t version, blob_io_fn *fn,
			     const void *of)
{
	size_t section = vpmu_blob_begin(b, tag, version);

	fn(&(struct blob_io){.out = b}, (void *)(uintptr_t)of);
	vpmu_blob_end(b, section);
}

/* blob_load - read the next section. Returns false if it has another tag or version, or its bytes
 * are not exactly the fields. */
static inline bool blob_load(struct vpmu_blob_reader *r, uint32_t tag, uint16_t version,
			     blob_io_fn *fn, void *of)
{
	struct vpmu_blob_reader s;

	if (!vpmu_blob_get_section(r, tag, version, &s))
		return false;
	fn(&(struct blob_io){.in = &s}, of);
	return vpmu_blob_done(&s);
}

/* blob_out - copy @b to @buf, which has room for *bytes, set *bytes to its length, and free it.
 * @rc: an error until here, or 0. Returns 0, @rc, -ENOMEM, or with *bytes set -ENOSPC. */
static inline int blob_out(struct vpmu_blob *b, int rc, void *buf, size_t *bytes)
{
	if (!rc && b->failed)
		rc = -ENOMEM;
	else if (!rc && *bytes < b->len)
		rc = -ENOSPC;
	else if (!rc)
		memcpy(buf, b->data, b->len);
	if (!rc || rc == -ENOSPC)
		*bytes = b->len;
	vpmu_blob_fini(b);
	return rc;
}
