/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Maps that grow; see growmap.c. Private to this folder: included by priv.h. */
#pragma once

#include "cgroup/cgroup.h"

/* An array of maps; its inner maps (pages) are mapped into this process. */
struct pages {
	int fd;
	uint32_t nr;	     /* maximum number of pages */
	uint32_t entries;    /* of a page */
	uint32_t value_size; /* of an entry, a multiple of 8 */
	void **page;	     /* nr of them; NULL: not made */
	uint64_t bytes;	     /* memory of the pages made */
	const struct bpf_backend_sys *sys;
	const char *pin_dir, *name; /* page I is pinned as name-I; NULL: it is not */
	bool frozen;		    /* only programs write to pages */
};
/* pages_init, pages_free - the caller keeps ownership of @fd. */
void pages_init(struct pages *p, const struct bpf_backend_sys *sys, int fd, uint32_t nr,
		uint32_t entries, uint32_t value_size);
void pages_free(struct pages *p);
/* pages_add - make the pages @index[0..n), which must not exist. All or nothing. Waits for a grace
 * period of the kernel. */
int pages_add(struct pages *p, const uint32_t *index, uint32_t n);
/* pages_remove - unmap page @i and remove its pin. The caller has taken it out of the outer map. */
void pages_remove(struct pages *p, uint32_t i);
/* pages_find - take over the pages that a former process has pinned.
 * pages_unpin - remove the pins of all pages, including unknown ones. */
int pages_find(struct pages *p);
void pages_unpin(const struct pages *p);
