// SPDX-License-Identifier: GPL-2.0-or-later
/* The table of descriptors, see fds.h: blocks of rows that are allocated once and stay. */
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>

#include "preload/fds.h"

#define BLOCK_ROWS 1024
#define BLOCKS	   (FDS_MAX / BLOCK_ROWS)
#define KIND_MASK  3u
#define ONE_USER   4u

struct fds_row {
	uint32_t state; /* number of references * ONE_USER + kind */
	void *obj;	/* valid while a reference is held and the kind is not FDS_NONE */
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
	uint32_t kind;

	if (!r || !(__atomic_load_n(&r->state, __ATOMIC_RELAXED) & KIND_MASK))
		return FDS_NONE;
	/* Acquire: pairs with fds_set. From here on fds_take sees the reference. */
	kind = __atomic_fetch_add(&r->state, ONE_USER, __ATOMIC_ACQ_REL) & KIND_MASK;
	if (!kind) {
		fds_put(fd);
		return FDS_NONE;
	}
	*obj = __atomic_load_n(&r->obj, __ATOMIC_RELAXED);
	return (enum fds_kind)kind;
}

void fds_put(int fd)
{
	__atomic_fetch_sub(&fds_row(fd)->state, ONE_USER, __ATOMIC_ACQ_REL);
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
	struct fds_row *r = fds_row(fd);

	__atomic_store_n(&r->obj, obj, __ATOMIC_RELAXED);
	__atomic_fetch_or(&r->state, (uint32_t)kind, __ATOMIC_RELEASE);
}

enum fds_kind fds_take(int fd, void **obj, bool *busy)
{
	struct fds_row *r = fds_row(fd);
	uint32_t old;

	if (!r || !(__atomic_load_n(&r->state, __ATOMIC_RELAXED) & KIND_MASK))
		return FDS_NONE;
	*obj = __atomic_load_n(&r->obj, __ATOMIC_RELAXED);
	old = __atomic_fetch_and(&r->state, ~KIND_MASK, __ATOMIC_ACQ_REL);
	*busy = old >= ONE_USER;
	return (enum fds_kind)(old & KIND_MASK);
}
