// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Inspects one process: is it a VM, which one, and which threads are its vCPUs. scan.c calls it.
 * Everything is read relative to the process's directory in /proc, so that a reused pid gives an
 * error and never a mixture. It must never open a file of the process, only links and files of
 * /proc.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "service/program/memory.h"
#include "vpmud/discover/priv.h"

/* Most rounds between fruitless reads of a process's files. */
#define WAIT_MAX 16

/* Rounds until unknown vCPUs are noted. */
#define UNKNOWN_ROUNDS 4

/* Enough of a command line to identify the program. */
#define ARGV0_SIZE 4096

void process_forget(struct proc *p)
{
	free(p->args);
	p->args = NULL;
	p->args_read = false;
	free(p->socket);
	p->socket = NULL;
	free(p->domain);
	p->domain = NULL;
	p->kind = PROC_NEW;
	p->noted = 0;
	p->wait = 0;
	p->next = 0;
}

bool process_due(const struct disc *d, const struct proc *p, const struct proc_stat *st)
{
	if (p->kind != PROC_OTHER || p->vm)
		return p->kind != PROC_KERNEL;
	/* A process that starts to run a guest maps memory. */
	return (!p->args_read || st->vsize != p->vsize) && d->round >= p->next;
}

/* Exponential backoff of fruitless reads. */
static void looked(const struct disc *d, struct proc *p)
{
	p->wait = p->wait ? p->wait * 2 : 1;
	if (p->wait > WAIT_MAX)
		p->wait = WAIT_MAX;
	p->next = d->round + p->wait;
}

/* Return true if the kernel may still be in execve(): the process has its new name but no arguments
 * yet, for long on a slow disk, and one thread. */
static bool starting(const struct proc *p, const struct proc_stat *st)
{
	return !p->args_read && st->nr_threads <= 1;
}

/* Identify the program and read its arguments; once, because that waits for the lock of its memory
 * map, but again while they are empty. */
static int classify(struct disc *d, struct proc *p, int dir, const struct proc_stat *st)
{
	bool first = p->kind == PROC_NEW;
	bool denied;
	ssize_t n;

	if (st->flags & PROC_FLAG_KTHREAD) {
		p->kind = PROC_KERNEL;
		return 0;
	}
	n = procfile_read(dir, "cmdline", d->args, ARGV0_SIZE);
	d->work++;
	denied = n == -EACCES || n == -EPERM;
	if (n < 0 && !denied)
		return (int)n;
	if (n < 0)
		n = 0;
	/* A process with several threads is past execve(): its arguments may really be empty. */
	p->args_read = n || (!first && (denied || st->nr_threads > 1));
	if (cmdline_qemu_comm(st->comm) || cmdline_qemu_argv0(d->args, (size_t)n))
		p->kind = PROC_QEMU;
	else if (!strcmp(st->comm, "vpmu-vmm"))
		p->kind = PROC_VMM;
	else
		p->kind = PROC_OTHER;
	if (p->kind != PROC_QEMU || !n)
		return 0;
	if (n == ARGV0_SIZE - 1) {
		n = procfile_read(dir, "cmdline", d->args, sizeof(d->args));
		d->work++;
		if (n < 0)
			return (int)n;
	}
	if (!p->args)
		p->args = xmalloc(sizeof(*p->args));
	cmdline_qemu(d->args, (size_t)n, p->args);
	return 0;
}

/* files_look(), but a lack of permission means no files. */
static int files(struct disc *d, struct proc *p, int dir)
{
	int ret = files_look(d, p, dir);

	if (ret != -EACCES && ret != -EPERM)
		return ret;
	disc_note(d, NULL, NOTE_FILES_DENIED,
		  "process %d: its open files can't be seen, and perhaps not those of others. VMMs "
		  "other than QEMU are not found there, and QEMU's vCPUs only by their threads' "
		  "names. CAP_SYS_PTRACE permits it",
		  (int)p->pid);
	d->files.vm = false;
	d->files.nr = 0;
	d->files.nr_sockets = 0;
	return 0;
}

static void process_set_name(struct proc *p, struct disc_vm *vm)
{
	char name[DISC_NAME_SIZE];

	if (p->args && p->args->name[0]) {
		vm_set(&vm->name, p->args->name);
		return;
	}
	if (p->kind == PROC_QEMU)
		strcpy(name, "qemu");
	else
		cmdline_name(p->comm, strlen(p->comm), name);
	if (!name[0])
		strcpy(name, "kvm");
	snprintf(name + strlen(name), sizeof(name) - strlen(name), "-%d", (int)p->pid);
	vm_set(&vm->name, name);
}

/* Find the socket of a vpmu-vmm; it has none while it starts, or with --no-socket. */
static int find_socket(struct disc *d, struct proc *p, int dir)
{
	int ret;

	if (p->socket || d->round < p->next)
		return 0;
	looked(d, p);
	ret = files(d, p, dir);
	if (!ret && d->files.nr_sockets)
		ret = files_listening(d, dir, &p->socket);
	return procfile_gone(ret) ? ret : 0;
}

/* Find the vCPU threads of a process of any kind; *@vm is set if it is a VM. */
static int find_threads(struct disc *d, struct proc *p, int dir, size_t *nr, bool *vm)
{
	int ret;

	*nr = 0;
	d->files.nr = 0;
	if (p->kind == PROC_OTHER) {
		ret = files(d, p, dir);
		*vm = !ret && d->files.vm;
		return ret || !*vm ? ret : threads_look(d, p, dir, true, nr);
	}
	*vm = true;
	ret = threads_look(d, p, dir, false, nr);
	if (ret || *nr || p->kind != PROC_QEMU)
		return ret;
	ret = files(d, p, dir);
	if (!ret && d->files.nr)
		ret = threads_look(d, p, dir, true, nr);
	return ret;
}

/* Note vCPUs without a known thread, once the VM has had some rounds to start. @nr: known ones. */
static void note_unknown(struct disc *d, struct proc *p, size_t nr)
{
	if (d->round < p->since + UNKNOWN_ROUNDS)
		return;
	if (d->files.nr > nr)
		disc_note(d, p, NOTE_THREADS_UNKNOWN,
			  "process %d: it is not known yet which threads run %zu of its %zu vCPUs; "
			  "QEMU's -name debug-threads=on shows it at once",
			  (int)p->pid, d->files.nr - nr, d->files.nr);
	else if (p->kind == PROC_QEMU && !nr)
		disc_note(d, p, NOTE_THREADS_UNKNOWN,
			  "process %d: which of QEMU's threads run vCPUs is not known, so its "
			  "vCPUs are not distinguished; -name debug-threads=on shows it",
			  (int)p->pid);
}

int process_look(struct disc *d, struct proc *p, int dir, const struct proc_stat *st,
		 struct disc_vm **out)
{
	struct disc_vm *vm = NULL;
	bool is_vm;
	struct proc *parent;
	size_t nr;
	int ret = 0;

	*out = NULL;
	if (!p->args_read)
		ret = classify(d, p, dir, st);
	if (ret || p->kind == PROC_KERNEL || (p->args && p->args->no_machine))
		return ret;
	/* Wait: a VM must have its name when it is first reported. */
	if (p->kind == PROC_QEMU && starting(p, st))
		return 0;
	p->vsize = st->vsize;
	ret = find_threads(d, p, dir, &nr, &is_vm);
	if (ret)
		return ret;
	if (!is_vm) {
		looked(d, p);
		return 0;
	}
	/* A child just forked by a VM's process is a copy of it, without its vCPUs. */
	parent = scan_find(d, st->ppid);
	if (!nr && !p->vm && parent && parent->vm)
		return 0;
	note_unknown(d, p, nr);
	if (p->kind == PROC_VMM) {
		ret = find_socket(d, p, dir);
		if (ret)
			return ret;
	}
	vm = xcalloc(1, sizeof(*vm));
	vm->pid = p->pid;
	vm->start_time = p->start_time;
	vm->kind = p->kind == PROC_QEMU ? "qemu" : p->kind == PROC_VMM ? "vpmu-vmm" : "kvm";
	ret = procfile_uid(dir, &vm->uid);
	d->work++;
	if (!ret)
		ret = cgroup2_of(d, p, dir, p->kind == PROC_QEMU, vm);
	if (ret) {
		vm_free(vm);
		return ret;
	}
	process_set_name(p, vm);
	if (p->args && p->args->uuid[0])
		vm_set(&vm->uuid, p->args->uuid);
	vm_set(&vm->backend_socket, p->socket);
	vm->vcpus = xmalloc(nr * sizeof(*vm->vcpus));
	memcpy((void *)vm->vcpus, d->vcpus, nr * sizeof(*vm->vcpus));
	vm->nr_vcpus = nr;
	vm->nr_unknown = d->files.nr > nr ? d->files.nr - nr : 0;
	domains_join(d, p, vm);
	*out = vm;
	return 0;
}

int disc_process(struct disc *d, pid_t pid, uint64_t start_time,
		 void (*fn)(const struct disc_vm *vm, void *arg), void *arg)
{
	struct proc p = {.kind = PROC_QEMU, .pid = pid, .start_time = start_time};
	struct disc_vm *vm;
	struct proc_stat st;
	char name[16];
	ssize_t n;
	int dir, ret;

	snprintf(name, sizeof(name), "%d", (int)pid);
	dir = openat(d->proc, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (dir < 0)
		return -errno;
	vm = xcalloc(1, sizeof(*vm));
	vm->kind = "qemu";
	vm->pid = pid;
	vm->start_time = start_time;
	ret = procfile_stat(dir, "stat", &st);
	if (!ret && st.start_time != start_time)
		ret = -ESRCH;
	if (!ret)
		ret = procfile_uid(dir, &vm->uid);
	if (!ret)
		ret = cgroup2_of(d, &p, dir, true, vm);
	n = ret ? ret : procfile_read(dir, "cmdline", d->args, sizeof(d->args));
	if (n < 0) {
		ret = (int)n;
	} else {
		p.args = xmalloc(sizeof(*p.args));
		cmdline_qemu(d->args, (size_t)n, p.args);
		process_set_name(&p, vm);
		if (p.args->uuid[0])
			vm_set(&vm->uuid, p.args->uuid);
		domains_join(d, &p, vm);
		fn(vm, arg);
	}
	process_forget(&p);
	vm_free(vm);
	close(dir);
	return ret;
}
