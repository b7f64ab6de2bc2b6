// SPDX-License-Identifier: GPL-2.0-or-later
/* The table of descriptors, see fds.h: blocks of rows that are allocated once and stay. */
#include <errno.h>
#include <stdlib.h>

#include "preload/fds.h"

#define BLOCK_ROWS 1024
#define BLOCKS	   (FDS_MAX / BLOCK_ROWS)
#define KIND_MASK  3ul

/* Object and kind are one word, so that they always belong together. A user counts itself before it
 * loads the object, and fds_take clears the object before it loads the count: sequentially
 * consistent, so that one of them sees the other. */
struct fds_row {
	uintptr_t obj; /* the pointer + its kind */
	uint32_t users;
};

static struct fds_row *fds_blocks[BLOCKS];

static struct fds_row *fds_row(int fd)
{
	struct fds_row *b;

	if (fd < 0 || fd >= FDS_MAX)
		return NULL;
	/* Pairs with fds_reserve. */
	b = __atomic_load_n(&fds_blocks[fd / BLOCK_ROWS], __ATOMIC_ACQUIRE);
	return b ? &b[fd % BLOCK_ROWS] : NULL;
}

enum fds_kind fds_get(int fd, void **obj)
{
	struct fds_row *r = fds_row(fd);
	uintptr_t o;

	if (!r || !__atomic_load_n(&r->obj, __ATOMIC_RELAXED))
		return FDS_NONE;
	__atomic_fetch_add(&r->users, 1, __ATOMIC_SEQ_CST);
	o = __atomic_load_n(&r->obj, __ATOMIC_SEQ_CST);
	if (!o) {
		__atomic_fetch_sub(&r->users, 1, __ATOMIC_SEQ_CST);
		return FDS_NONE;
	}
	*obj = (void *)(o & ~KIND_MASK);
	return (enum fds_kind)(o & KIND_MASK);
}

void fds_put(int fd)
{
	struct fds_row *r = fds_row(fd);

	if (r)
		__atomic_fetch_sub(&r->users, 1, __ATOMIC_SEQ_CST);
}

const uintptr_t *fds_word(int fd, enum fds_kind kind, const void *obj, uintptr_t *value)
{
	*value = (uintptr_t)obj | kind;
	return &fds_row(fd)->obj;
}

int fds_reserve(int fd)
{
	struct fds_row *b, *none = NULL;

	if (fd < 0 || fd >= FDS_MAX)
		return -EMFILE;
	if (fds_row(fd))
		return 0;
	b = calloc(BLOCK_ROWS, sizeof(*b));
	if (!b)
		return -ENOMEM;
	if (!__atomic_compare_exchange_n(&fds_blocks[fd / BLOCK_ROWS], &none, b, false,
					 __ATOMIC_RELEASE, __ATOMIC_RELAXED))
		free(b); /* another thread was faster */
	return 0;
}

void fds_set(int fd, enum fds_kind kind, void *obj)
{
	__atomic_store_n(&fds_row(fd)->obj, (uintptr_t)obj | kind, __ATOMIC_SEQ_CST);
}

enum fds_kind fds_take(int fd, void **obj, bool *busy)
{
	struct fds_row *r = fds_row(fd);
	uintptr_t o;

	if (!r || !__atomic_load_n(&r->obj, __ATOMIC_RELAXED))
		return FDS_NONE;
	o = __atomic_exchange_n(&r->obj, 0, __ATOMIC_SEQ_CST);
	*busy = __atomic_load_n(&r->users, __ATOMIC_SEQ_CST) != 0;
	*obj = (void *)(o & ~KIND_MASK);
	return (enum fds_kind)(o & KIND_MASK);
}

int fds_next(unsigned int fd)
{
	while (fd < FDS_MAX) {
		const struct fds_row *r = fds_row((int)fd);

		if (!r)
			fd = (fd / BLOCK_ROWS + 1) * BLOCK_ROWS;
		else if (!__atomic_load_n(&r->obj, __ATOMIC_RELAXED))
			fd++;
		else
			return (int)fd;
	}
	return -1;
}
