/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * How many of the perf events that vpmud has passed are still open somewhere: in the process that
 * asked, in one that it passed them on to, or in a socket's queue. guests_bind.c limits them.
 */
#ifndef VPMUD_GUEST_KEPT_H
#define VPMUD_GUEST_KEPT_H

#include <stdint.h>

struct guest_kept {
	int set; /* an epoll set; -1: none so far */
};

/* guest_kept_add - @fd is passed to @owner: it counts until its last descriptor anywhere is closed.
 * 0 or -errno. */
int guest_kept_add(struct guest_kept *k, uint64_t owner, int fd);
/* guest_kept_count - those of @owner in *@of, and of all in *@all. 0; or -errno, and both are
 * unchanged. At least one has been added. Its time grows with the number of all. */
int guest_kept_count(const struct guest_kept *k, uint64_t owner, unsigned int *of,
		     unsigned int *all);
void guest_kept_close(struct guest_kept *k);

#endif
