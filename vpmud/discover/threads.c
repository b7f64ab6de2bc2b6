// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Finds the threads of a process that run vCPUs. Most VMMs name them. Where the names do not help,
 * the system call that a thread waits in does: KVM_RUN of a vCPU's descriptor. A thread that is
 * always in its guest does not show it; its vCPU is not reported until it does, or until only one
 * thread and one vCPU are left. No thread may be stopped or traced.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>

#include "vpmud/discover/priv.h"

/* KVM_RUN of linux/kvm.h: _IO(0xAE, 0x80). */
#define KVM_RUN_REQUEST 0xae80

/*
 * Return the descriptor on which thread @tid of the process at @dir waits in ioctl(fd, KVM_RUN), or
 * -1. A kernel thread within the process (kvm-nx-lpage-recovery) shows the call of its creator, but
 * has no stack in user space.
 */
static int runs_file(int dir, int tid)
{
	char path[64], buf[256];
	unsigned long long fd, request, sp;
	long nr;

	snprintf(path, sizeof(path), "task/%d/syscall", tid);
	if (procfile_read(dir, path, buf, sizeof(buf)) <= 0 ||
	    sscanf(buf, "%ld %llx %llx %*x %*x %*x %*x %llx", &nr, &fd, &request, &sp) != 4)
		return -1; /* running, or no permission */
	if (nr != SYS_ioctl || request != KVM_RUN_REQUEST || !sp || fd > INT32_MAX)
		return -1;
	return (int)fd;
}

static int index_of_file(const struct kvm_files *f, int fd)
{
	for (size_t i = 0; i < f->nr; i++)
		if (f->vcpu[i].fd == fd)
			return f->vcpu[i].index;
	return CMDLINE_NO_VCPU;
}

/* Return the index under which this thread was last reported. */
static int index_before(const struct proc *p, pid_t tid, uint64_t start_time)
{
	const struct disc_vm *vm = p->vm;

	for (size_t i = 0; vm && i < vm->nr_vcpus; i++)
		if (vm->vcpus[i].tid == tid && vm->vcpus[i].start_time == start_time)
			return vm->vcpus[i].index;
	return CMDLINE_NO_VCPU;
}

static bool has_index(const struct kvm_files *f, int index)
{
	for (size_t i = 0; i < f->nr; i++)
		if (f->vcpu[i].index == index)
			return true;
	return false;
}

static int by_index(const void *a, const void *b)
{
	const struct disc_vcpu *x = a, *y = b;

	if (x->index != y->index)
		return x->index < y->index ? -1 : 1;
	return x->start_time < y->start_time ? -1 : x->start_time > y->start_time;
}

/* Sort by index, and of several threads that claim the same vCPU keep the oldest. */
static size_t sort(struct disc *d, struct proc *p, size_t nr)
{
	size_t n = 0;

	qsort(d->vcpus, nr, sizeof(*d->vcpus), by_index);
	for (size_t i = 0; i < nr; i++) {
		if (n && d->vcpus[n - 1].index == d->vcpus[i].index) {
			disc_note(d, p, NOTE_THREADS_TWICE,
				  "process %d: threads %d and %d both have the name of vCPU %d; "
				  "the older one counts",
				  (int)p->pid, (int)d->vcpus[n - 1].tid, (int)d->vcpus[i].tid,
				  d->vcpus[i].index);
			continue;
		}
		d->vcpus[n++] = d->vcpus[i];
	}
	return n;
}

/*
 * If exactly one vCPU has no thread, and one unassigned thread has run a guest, pair them. @guests:
 * number of such threads, @last: one of them.
 */
static size_t pair_last(struct disc *d, size_t nr, size_t guests, const struct disc_vcpu *last)
{
	int index = CMDLINE_NO_VCPU;
	size_t left = 0;

	for (size_t i = 0; i < d->files.nr; i++) {
		bool known = false;

		for (size_t k = 0; k < nr; k++)
			known |= d->vcpus[k].index == d->files.vcpu[i].index;
		if (!known) {
			index = d->files.vcpu[i].index;
			left++;
		}
	}
	if (left != 1 || guests != 1 || nr == LOOK_THREADS_MAX)
		return nr;
	d->vcpus[nr] = *last;
	d->vcpus[nr].index = index;
	return nr + 1;
}

int threads_look(struct disc *d, struct proc *p, int dir, bool files, size_t *nr)
{
	struct disc_vcpu last = {0};
	size_t n = 0, guests = 0;
	struct dirent *e;
	DIR *all;
	int ret = procfile_dir(dir, "task", &all);

	*nr = 0;
	if (ret)
		return ret;
	for (size_t looked = 0;;) {
		struct proc_stat st;
		char path[64];
		int tid, index;

		errno = 0;
		e = readdir(all);
		if (!e) {
			ret = -errno;
			break;
		}
		tid = procfile_number(e->d_name);
		if (tid <= 0)
			continue;
		if (looked++ == LOOK_THREADS_MAX) {
			disc_note(d, p, NOTE_THREADS_MANY,
				  "process %d has more than %d threads; the rest is not looked at "
				  "for vCPUs",
				  (int)p->pid, LOOK_THREADS_MAX);
			break;
		}
		d->work++;
		snprintf(path, sizeof(path), "task/%d/stat", tid);
		ret = procfile_stat(dir, path, &st);
		if (procfile_gone(ret) || (!ret && (st.state == 'Z' || st.state == 'X'))) {
			ret = 0;
			continue; /* it ended since the directory was read */
		}
		if (ret)
			break;
		index = cmdline_vcpu(st.comm);
		if (index == CMDLINE_ALL_VCPUS) {
			disc_note(d, p, NOTE_THREADS_SHARED,
				  "process %d runs all its vCPUs in one thread; it is shown as "
				  "vCPU 0",
				  (int)p->pid);
			index = 0;
		}
		if (index < 0 && files) {
			index = index_before(p, tid, st.start_time);
			if (index >= 0 && !has_index(&d->files, index))
				index = CMDLINE_NO_VCPU;
			if (index < 0) {
				d->work++;
				index = index_of_file(&d->files, runs_file(dir, tid));
			}
			if (index < 0 && st.guest_time) {
				guests++;
				last = (struct disc_vcpu){0, tid, st.start_time};
			}
		}
		if (index >= 0)
			d->vcpus[n++] = (struct disc_vcpu){index, tid, st.start_time};
	}
	closedir(all);
	if (ret)
		return ret;
	if (files)
		n = pair_last(d, n, guests, &last);
	*nr = sort(d, p, n);
	return 0;
}
