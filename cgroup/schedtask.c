// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The scheduler's figures of all bound threads in one pass of the kernel's iterator of tasks
 * (sched.bpf.c). schedstat.c calls this; where it fails, /proc has the same figures at six to
 * eight times the CPU time.
 */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include "cgroup/bpf/sched.h"
#include "cgroup/priv.h"

#include <account.skel.h> /* it needs maps.h */
#include <sched.skel.h>

#define RECORDS 512 /* of a read */

static int schedtask_quiet(enum libbpf_print_level level, const char *fmt, va_list ap)
{
	return 0;
}

int schedtask_open(struct bpf_backend *k)
{
	libbpf_print_fn_t print;
	int ret;

	if (*k->sys->files) /* a test's own /proc */
		return -EOPNOTSUPP;
	if (k->sched.tasks)
		return 0;
	/* A kernel without it has /proc: no reason for a message. */
	print = libbpf_set_print(schedtask_quiet);
	k->sched.tasks = sched_bpf__open();
	ret = k->sched.tasks ? 0 : -errno;
	if (!ret)
		ret = bpf_map__reuse_fd(k->sched.tasks->maps.tasks,
					bpf_map__fd(k->skel->maps.tasks));
	if (!ret)
		ret = sched_bpf__load(k->sched.tasks);
	if (!ret)
		ret = sched_bpf__attach(k->sched.tasks);
	libbpf_set_print(print);
	if (ret)
		schedtask_close(k);
	return ret;
}

void schedtask_close(struct bpf_backend *k)
{
	sched_bpf__destroy(k->sched.tasks);
	k->sched.tasks = NULL;
}

int schedtask_read(struct bpf_backend *k,
		   void (*fn)(struct bpf_backend *k, const struct sched_record *r))
{
	struct sched_record r[RECORDS];
	size_t have = 0;
	ssize_t n;
	int fd = bpf_iter_create(bpf_link__fd(k->sched.tasks->links.on_task)), ret;

	if (fd < 0)
		return fd;
	/* A read may end within a record. */
	while ((n = read(fd, (char *)r + have, sizeof(r) - have)) > 0) {
		size_t nr = (have + (size_t)n) / sizeof(*r);

		for (size_t i = 0; i < nr; i++)
			fn(k, &r[i]);
		have = (have + (size_t)n) % sizeof(*r);
		memmove(r, &r[nr], have);
	}
	ret = n < 0 ? -errno : 0;
	close(fd);
	return ret;
}
