// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Passed events that are still open; see guest_kept.h. A file stays in an epoll set, which holds no
 * reference to it, until its last descriptor is closed (epoll(7), Q6), and the set's fdinfo has a
 * line for each (proc(5), /proc/pid/fdinfo). Nobody waits on the set.
 */
#include "vpmud/guest_kept.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <unistd.h>

#define READ_EVERY_NS 1000000000u

bool guest_kept_fits(const struct guest_kept_nr *n)
{
	return n->vm < GUEST_KEPT_VM_MAX && n->all < GUEST_KEPT_MAX &&
	       n->tenant < GUEST_KEPT_MAX - n->all;
}

uint64_t guest_kept_owner(const char *path, pid_t pid, uint64_t start_time)
{
	uint32_t tenant = 2166136261; /* FNV-1a */

	for (const char *c = path; *c && (c == path || *c != '/'); c++)
		tenant = (tenant ^ (unsigned char)*c) * 16777619;
	return (uint64_t)tenant << 32 | (uint32_t)((uint32_t)pid * 2654435761 + start_time);
}

int guest_kept_add(struct guest_kept *k, uint64_t owner, int fd)
{
	struct epoll_event e = {.data.u64 = owner};

	if (k->nr == GUEST_KEPT_MAX)
		return -ENOSPC;
	if (k->set < 0)
		k->set = epoll_create1(EPOLL_CLOEXEC);
	if (k->set < 0 || epoll_ctl(k->set, EPOLL_CTL_ADD, fd, &e))
		return -errno;
	k->owner[k->nr++] = owner;
	return 0;
}

void guest_kept_count(const struct guest_kept *k, uint64_t owner, struct guest_kept_nr *n)
{
	*n = (struct guest_kept_nr){.all = k->nr};
	for (unsigned int i = 0; i < k->nr; i++) {
		n->tenant += k->owner[i] >> 32 == owner >> 32;
		n->vm += (uint32_t)k->owner[i] == (uint32_t)owner;
	}
}

/* Forget those that are closed. An error in the middle leaves numbers that are too large, until the
 * next reading. */
static void kept_read(struct guest_kept *k)
{
	unsigned int nr = 0, before = k->nr;
	char path[40], line[160];
	FILE *f;

	snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", k->set);
	f = fopen(path, "re");
	if (!f)
		return;
	while (nr < before && fgets(line, sizeof(line), f))
		nr += sscanf(line, "tfd: %*d events: %*x data: %" SCNx64, &k->owner[nr]) == 1;
	if (!ferror(f))
		k->nr = nr;
	fclose(f);
}

bool guest_kept_room(struct guest_kept *k, uint64_t owner, uint64_t now_ns)
{
	struct guest_kept_nr n;

	guest_kept_count(k, owner, &n);
	if (guest_kept_fits(&n))
		return true;
	if (k->read_ns && now_ns - k->read_ns < READ_EVERY_NS)
		return false;
	k->read_ns = now_ns;
	kept_read(k);
	guest_kept_count(k, owner, &n);
	return guest_kept_fits(&n);
}

void guest_kept_close(struct guest_kept *k)
{
	if (k->set >= 0)
		close(k->set);
	k->set = -1;
	k->nr = 0;
}
