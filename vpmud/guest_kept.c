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
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

bool guest_kept_room(const struct guest_kept_nr *n)
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

	if (k->set < 0)
		k->set = epoll_create1(EPOLL_CLOEXEC);
	return k->set < 0 || epoll_ctl(k->set, EPOLL_CTL_ADD, fd, &e) ? -errno : 0;
}

int guest_kept_count(const struct guest_kept *k, uint64_t owner, struct guest_kept_nr *n)
{
	struct guest_kept_nr nr = {0};
	char path[40], line[160];
	uint64_t data;
	FILE *f;
	int ret;

	snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", k->set);
	f = fopen(path, "re");
	if (!f)
		return -errno;
	while (fgets(line, sizeof(line), f)) {
		if (sscanf(line, "tfd: %*d events: %*x data: %" SCNx64, &data) != 1)
			continue;
		nr.all++;
		nr.tenant += data >> 32 == owner >> 32;
		nr.vm += (uint32_t)data == (uint32_t)owner;
	}
	ret = ferror(f) ? -EIO : 0;
	fclose(f);
	if (!ret)
		*n = nr;
	return ret;
}

void guest_kept_close(struct guest_kept *k)
{
	if (k->set >= 0)
		close(k->set);
	k->set = -1;
}
