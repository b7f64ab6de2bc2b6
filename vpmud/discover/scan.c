// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Rounds over /proc; discover.c's timer runs a bounded piece of a round at a time. VMs and new
 * processes are inspected in each round, others now and then: one short file shows whether they
 * have changed. A VM is gone when a whole round did not find it, or when its pid belongs to another
 * process. An error other than the end of the process must never make a VM vanish.
 */
#include <errno.h>
#include <fcntl.h>
#include <search.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "service/program/memory.h"
#include "vpmud/discover/priv.h"

/* Burst of notes that processes may cause, and rounds until one more is allowed: users can create
 * any number of odd processes. */
#define NOTES_MAX   32
#define NOTE_ROUNDS 8

/* After this many rounds as no VM, a process is checked in one of as many. */
#define SETTLED_ROUNDS 8

/* Directory entries that cost as much as reading a file. */
#define ENTRIES_PER_FILE 8

static int scan_by_pid(const void *a, const void *b)
{
	const struct proc *x = a, *y = b;

	return x->pid < y->pid ? -1 : x->pid > y->pid;
}

struct proc *scan_find(struct disc *d, pid_t pid)
{
	struct proc key = {.pid = pid};
	void *node = tfind(&key, &d->procs, scan_by_pid);

	return node ? *(struct proc **)node : NULL;
}

static void scan_report_end(struct disc *d, struct proc *p)
{
	struct disc_vm *vm = p->vm;

	if (!vm)
		return;
	p->vm = NULL;
	d->ops.removed(d->arg, vm);
	vm_free(vm);
}

static void scan_forget(void *proc)
{
	struct proc *p = proc;

	process_forget(p);
	vm_free(p->vm);
	free(p);
}

/* The process ended, or its pid was reused. */
static void gone(struct disc *d, struct proc *p)
{
	scan_report_end(d, p);
	tdelete(p, &d->procs, scan_by_pid);
	scan_forget(p);
}

/* Replace the reported VM by @vm (NULL: none) and report the difference. */
static void report(struct disc *d, struct proc *p, struct disc_vm *vm)
{
	struct disc_vm *old = p->vm;

	if (!vm) {
		scan_report_end(d, p);
		return;
	}
	if (old && vm_equal(old, vm)) {
		vm_free(vm);
		return;
	}
	p->vm = vm;
	if (old)
		d->ops.changed(d->arg, vm);
	else
		d->ops.added(d->arg, vm);
	vm_free(old);
}

static struct proc *remember(struct disc *d, pid_t pid, const struct proc_stat *st)
{
	struct proc *p = xcalloc(1, sizeof(*p));

	p->pid = pid;
	p->start_time = st->start_time;
	p->since = d->round;
	strcpy(p->comm, st->comm);
	xtsearch(p, &d->procs, scan_by_pid);
	return p;
}

/* Handle a read error other than the end of the process: nothing changes, and the round returns the
 * error. */
static void scan_failed(struct disc *d, struct proc *p, pid_t pid, int err)
{
	if (p)
		p->seen = d->round;
	/* hidepid: another user's process */
	if (err == -EACCES || err == -EPERM)
		return;
	if (!d->error)
		d->error = err;
	disc_note(d, NULL, NOTE_ERROR, "process %d could not be looked at: %s; it is tried again",
		  (int)pid, strerror(-err));
}

void scan_failed_round(struct disc *d, int err)
{
	if (!d->error)
		d->error = err;
	disc_note(d, NULL, NOTE_ERROR, "%s: %s; it is tried again", d->proc_path, strerror(-err));
}

/* Inspect the process of the open directory @dir, which stays that of this process. */
static void look(struct disc *d, pid_t pid, int dir)
{
	struct proc *p = scan_find(d, pid);
	struct disc_vm *vm = NULL;
	struct proc_stat st;
	int ret = procfile_stat(dir, "stat", &st);

	d->work++;
	if (ret && !procfile_gone(ret)) {
		scan_failed(d, p, pid, ret);
		return;
	}
	/* A zombie runs nothing, unless threads other than its first live on. */
	if (ret || st.state == 'X' || (st.state == 'Z' && st.nr_threads <= 1)) {
		if (p)
			gone(d, p);
		return;
	}
	if (p && p->start_time != st.start_time) {
		gone(d, p);
		p = NULL;
	}
	if (!p)
		p = remember(d, pid, &st);
	p->seen = d->round;
	/* It has executed another program. */
	if (strcmp(p->comm, st.comm)) {
		strcpy(p->comm, st.comm);
		process_forget(p);
	}
	if (!process_due(d, p, &st))
		return;
	ret = process_look(d, p, dir, &st, &vm);
	if (procfile_gone(ret))
		gone(d, p);
	else if (ret)
		scan_failed(d, p, pid, ret);
	else
		report(d, p, vm);
}

/* Return true if @pid is known as no VM and its stat file shows no change, or if a later round
 * checks it. */
static bool unchanged(struct disc *d, pid_t pid)
{
	struct proc *p = scan_find(d, pid);
	struct proc_stat st;
	char path[32];

	if (!p || p->vm)
		return false;
	if (!d->all && d->round - p->since > SETTLED_ROUNDS &&
	    ((uint64_t)pid + d->round) % SETTLED_ROUNDS) {
		p->seen = d->round;
		return true;
	}
	snprintf(path, sizeof(path), "%d/stat", (int)pid);
	d->work++;
	if (procfile_stat(d->proc, path, &st) || st.start_time != p->start_time ||
	    strcmp(st.comm, p->comm) || process_due(d, p, &st))
		return false;
	p->seen = d->round;
	return true;
}

void scan_pid(struct disc *d, pid_t pid)
{
	char name[16];
	int dir;

	snprintf(name, sizeof(name), "%d", (int)pid);
	dir = openat(d->proc, name, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (dir < 0) {
		if (!procfile_gone(-errno))
			scan_failed(d, scan_find(d, pid), pid, -errno);
		return; /* the end of the round handles ended processes */
	}
	look(d, pid, dir);
	close(dir);
}

/* ---- rounds ---- */

struct unseen {
	uint64_t round;
	struct proc *first; /* list of the processes that the round did not find */
};

static void find_unseen(const void *node, VISIT which, void *closure)
{
	struct proc *p = *(struct proc *const *)node;
	struct unseen *u = closure;

	if ((which == postorder || which == leaf) && p->seen != u->round) {
		p->unseen = u->first;
		u->first = p;
	}
}

static void sweep(struct disc *d)
{
	struct unseen u = {.round = d->round};

	twalk_r(d->procs, find_unseen, &u);
	while (u.first) {
		struct proc *p = u.first;

		u.first = p->unseen;
		gone(d, p);
	}
}

int scan_restart(struct disc *d, bool all)
{
	int fd;

	if (d->walk) {
		rewinddir(d->walk);
	} else {
		fd = openat(d->proc, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		d->walk = fd < 0 ? NULL : fdopendir(fd);
		if (!d->walk) {
			int ret = -errno;

			if (fd >= 0)
				close(fd);
			return ret;
		}
	}
	d->round++;
	d->all = all;
	d->error = 0;
	if (d->round % NOTE_ROUNDS == 0 && d->notes < NOTES_MAX)
		d->notes++;
	if (d->round == 1)
		d->notes = NOTES_MAX;
	return 0;
}

bool scan_some(struct disc *d, uint64_t limit)
{
	struct dirent *e;

	for (d->work = 0; d->work < limit;) {
		int pid;

		errno = 0;
		e = readdir(d->walk);
		if (!e) {
			int ret = -errno;

			closedir(d->walk);
			d->walk = NULL;
			/* An incomplete list does not show which processes ended. */
			if (ret)
				scan_failed_round(d, ret);
			else
				sweep(d);
			return true;
		}
		if (d->entries++ % ENTRIES_PER_FILE == 0)
			d->work++;
		pid = procfile_number(e->d_name);
		if (pid > 0 && !unchanged(d, pid))
			scan_pid(d, pid);
	}
	return false;
}

void scan_free(struct disc *d)
{
	if (d->walk)
		closedir(d->walk);
	d->walk = NULL;
	tdestroy(d->procs, scan_forget);
	d->procs = NULL;
}
