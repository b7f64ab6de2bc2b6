/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * How many of the perf events that vpmud has passed are still open somewhere: in the process that
 * asked, in one that it passed them on to, or in a socket's queue. guests_bind.c limits them.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define GUEST_KEPT_VM_MAX 1024 /* of a VM: one for each bind */
#define GUEST_KEPT_MAX	  16384

struct guest_kept {
	int set; /* an epoll set; -1: none so far */
	unsigned int nr;
	uint64_t read_ns; /* when the set was last read; 0: never */
	/* Of the events that were open then, and of those since: some may be closed. */
	uint64_t owner[GUEST_KEPT_MAX];
};

/* Open events: of a VM, of all VMs of its tenant (the one at the top), of all. */
struct guest_kept_nr {
	unsigned int vm, tenant, all;
};

/* guest_kept_fits - returns true if the VM may get one more. A tenant has no more than are free:
 * however many it fills, others find room. Pure. */
bool guest_kept_fits(const struct guest_kept_nr *n);
/* guest_kept_owner - process @pid as a VM of the tenant at @path. Two VMs or tenants have the same
 * number with a probability of 2^-32, and then share their limits. Pure. */
uint64_t guest_kept_owner(const char *path, pid_t pid, uint64_t start_time);
/* guest_kept_room - returns true if @owner may get one more. Closed ones are only looked for if
 * there seems to be no room, and once a second, since the time grows with the number of all.
 * guest_kept_add - @fd is passed to @owner, for which there is room: it counts until its last
 * descriptor anywhere is closed. 0 or -errno.
 * guest_kept_count - set *@n for @owner. */
bool guest_kept_room(struct guest_kept *k, uint64_t owner, uint64_t now_ns);
int guest_kept_add(struct guest_kept *k, uint64_t owner, int fd);
void guest_kept_count(const struct guest_kept *k, uint64_t owner, struct guest_kept_nr *n);
void guest_kept_close(struct guest_kept *k);
