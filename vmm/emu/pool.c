// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Regions of 2 MiB with objects of one size each, see pool.h. engine.c, cache.c and jit.c call this
 * when a vCPU is created or destroyed, decodes more code or first translates; never call it on a
 * path of guest execution.
 *
 * A region returns to the host with its last object. With AddressSanitizer each object comes from
 * malloc, so that use after free is detected.
 */
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "vmm/emu/pool.h"

#define REGION	(2u << 20) /* a huge page of x86 and of arm64 with pages of 4 KiB */
#define HEADER	64u
#define CLASSES 8u /* sizes in use at a time */

#if defined(__SANITIZE_ADDRESS__)
#define PLAIN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define PLAIN 1
#endif
#endif

struct object {
	struct object *next;
};

/* At the start of its 2 MiB. */
struct region {
	struct region *next, **link; /* regions of the size with room */
	struct object *free;	     /* freed objects */
	uint32_t fresh;		     /* offset of the first byte never handed out */
	uint32_t used;		     /* objects in use */
};
_Static_assert(sizeof(struct region) <= HEADER, "objects begin behind it");

static struct class
{
	size_t bytes; /* 0: free */
	unsigned int regions;
	struct region *room;
} classes[CLASSES];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* protects all of it */

static struct class *class_of(size_t bytes)
{
	struct class *c = NULL;

	for (unsigned int i = 0; i < CLASSES; i++) {
		if (classes[i].bytes == bytes)
			return &classes[i];
		if (!classes[i].regions && !c)
			c = &classes[i];
	}
	if (c)
		*c = (struct class){.bytes = bytes};
	return c;
}

static void link_region(struct class *c, struct region *r)
{
	r->next = c->room;
	r->link = &c->room;
	if (r->next)
		r->next->link = &r->next;
	c->room = r;
}

static void unlink_region(struct region *r)
{
	*r->link = r->next;
	if (r->next)
		r->next->link = r->link;
	r->link = NULL;
}

static struct region *region_make(struct class *c)
{
	char *p = mmap(NULL, 2 * (size_t)REGION, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	struct region *r;
	size_t before;

	if (p == MAP_FAILED)
		return NULL;
	before = -(uintptr_t)p % REGION;
	r = (struct region *)(void *)(p + before);
	if (before)
		munmap(p, before);
	munmap(p + before + REGION, REGION - before);
	if (c->regions)
		madvise(r, REGION, MADV_HUGEPAGE); /* only slower if this fails */
	r->fresh = HEADER;
	c->regions++;
	link_region(c, r);
	return r;
}

static bool is_full(const struct region *r, size_t bytes)
{
	return !r->free && r->fresh + bytes > REGION;
}

static void *pool_get(size_t bytes)
{
	struct class *c = class_of(bytes);
	struct region *r = !c ? NULL : c->room ? c->room : region_make(c);
	void *p;

	if (!r)
		return NULL;
	if (r->free) {
		p = r->free;
		r->free = r->free->next;
		memset(p, 0, bytes);
	} else {
		p = (char *)r + r->fresh;
		r->fresh += (uint32_t)bytes;
	}
	r->used++;
	if (is_full(r, bytes))
		unlink_region(r);
	return p;
}

static void pool_put(void *p, size_t bytes)
{
	struct region *r = (struct region *)(void *)((char *)p - (uintptr_t)p % REGION);
	struct class *c = class_of(bytes);
	struct object *o = p;

	if (is_full(r, bytes))
		link_region(c, r);
	o->next = r->free;
	r->free = o;
	if (--r->used)
		return;
	unlink_region(r);
	c->regions--;
	munmap(r, REGION);
}

void *emu_pool_get(size_t bytes)
{
	void *p;

	if (!bytes || bytes > EMU_POOL_MAX)
		return NULL;
	bytes = (bytes + 63) & ~(size_t)63;
#ifdef PLAIN
	p = aligned_alloc(64, bytes);
	return p ? memset(p, 0, bytes) : NULL;
#endif
	pthread_mutex_lock(&lock);
	p = pool_get(bytes);
	pthread_mutex_unlock(&lock);
	return p;
}

void emu_pool_put(void *p, size_t bytes)
{
	if (!p)
		return;
#ifdef PLAIN
	free(p);
	return;
#endif
	pthread_mutex_lock(&lock);
	pool_put(p, (bytes + 63) & ~(size_t)63);
	pthread_mutex_unlock(&lock);
}
