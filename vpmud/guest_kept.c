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

int guest_kept_add(struct guest_kept *k, uint64_t owner, int fd)
{
	struct epoll_event e = {.data.u64 = owner};

	if (k->set < 0)
		k->set = epoll_create1(EPOLL_CLOEXEC);
	return k->set < 0 || epoll_ctl(k->set, EPOLL_CTL_ADD, fd, &e) ? -errno : 0;
}

int guest_kept_count(const struct guest_kept *k, uint64_t owner, unsigned int *of,
		     unsigned int *all)
{
	unsigned int nr_of = 0, nr_all = 0;
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
		nr_all++;
		nr_of += data == owner;
	}
	ret = ferror(f) ? -EIO : 0;
	fclose(f);
	if (ret)
		return ret;
	*of = nr_of;
	*all = nr_all;
	return 0;
}

void guest_kept_close(struct guest_kept *k)
{
	if (k->set >= 0)
		close(k->set);
	k->set = -1;
}
