// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Finds the open files of a process that belong to KVM or to vpmu-vmm's socket. process.c calls it.
 * The links in /proc/PID/fd cannot be forged: only KVM creates an anon_inode:kvm-vm. Reading them
 * needs the right to trace the process. None of the files may be opened.
 */
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "service/program/memory.h"
#include "vpmud/discover/priv.h"
#include "vpmu/util/utf8.h"

#define VM_LINK	    "anon_inode:kvm-vm"
#define VCPU_LINK   "anon_inode:kvm-vcpu:"
#define SOCKET_LINK "socket:["

/* Flags of a listening socket in /proc/net/unix, and its type (SOCK_STREAM). */
#define UNIX_LISTENS 0x10000

/* Parse the number between @prefix and @end, which must be the end of @link. */
static bool number_behind(const char *link, const char *prefix, char end, uint64_t max, uint64_t *v)
{
	size_t n = strlen(prefix);
	char *stop;

	if (strncmp(link, prefix, n) || !isdigit((unsigned char)link[n]))
		return false;
	errno = 0;
	*v = strtoull(link + n, &stop, 10);
	return !errno && *v <= max && *stop == end && (!end || !stop[1]);
}

static void take_link(struct kvm_files *f, int fd, const char *link)
{
	uint64_t v;

	if (!strcmp(link, VM_LINK)) {
		f->vm = true;
	} else if (number_behind(link, VCPU_LINK, 0, INT_MAX, &v)) {
		f->vcpu[f->nr].fd = fd;
		f->vcpu[f->nr++].index = (int)v;
	} else if (number_behind(link, SOCKET_LINK, ']', UINT64_MAX, &v)) {
		f->sockets[f->nr_sockets++] = v;
	}
}

int files_look(struct disc *d, struct proc *p, int dir)
{
	struct kvm_files *f = &d->files;
	struct dirent *e;
	DIR *all;
	int ret = procfile_dir(dir, "fd", &all);

	f->vm = false;
	f->nr = 0;
	f->nr_sockets = 0;
	if (ret)
		return ret;
	for (size_t n = 0;;) {
		char link[64];
		ssize_t len;
		int nr;

		errno = 0;
		e = readdir(all);
		if (!e) {
			ret = -errno;
			break;
		}
		nr = procfile_number(e->d_name);
		if (nr < 0)
			continue;
		if (++n > LOOK_FILES_MAX) {
			disc_note(d, p, NOTE_FILES_MANY,
				  "process %d has more than %d open files; the rest is not "
				  "looked at for VMs",
				  (int)p->pid, LOOK_FILES_MAX);
			break;
		}
		d->work++;
		len = readlinkat(dirfd(all), e->d_name, link, sizeof(link));
		if (len < 0 && errno == EACCES) {
			ret = -EACCES;
			break;
		}
		/* Closed in between, or longer than any relevant link. */
		if (len < 0 || (size_t)len == sizeof(link))
			continue;
		link[len] = 0;
		take_link(f, nr, link);
	}
	closedir(all);
	return ret;
}

static bool ours(const struct kvm_files *f, uint64_t inode)
{
	for (size_t i = 0; i < f->nr_sockets; i++)
		if (f->sockets[i] == inode)
			return true;
	return false;
}

/* Make @path absolute: a server may have bound a relative one. */
static int files_absolute(int dir, const char *path, char **out)
{
	char cwd[PATH_MAX];
	ssize_t len;

	if (*path == '/') {
		*out = xstrdup(path);
		return 0;
	}
	len = readlinkat(dir, "cwd", cwd, sizeof(cwd) - 1);
	if (len < 0)
		return -errno;
	cwd[len] = 0;
	*out = xasprintf("%s/%s", cwd, path);
	return 0;
}

int files_listening(struct disc *d, int dir, char **path)
{
	int fd = openat(dir, "net/unix", O_RDONLY | O_CLOEXEC), ret = 0;
	char *line = NULL;
	size_t size = 0;
	FILE *f;

	*path = NULL;
	if (fd < 0)
		return -errno;
	f = fdopen(fd, "r");
	if (!f) {
		ret = -errno;
		close(fd);
		return ret;
	}
	d->work++;
	/* Num RefCount Protocol Flags Type St Inode Path */
	while (!ret && !*path && getline(&line, &size, f) > 0) {
		unsigned int flags;
		uint64_t inode;
		int at = 0;

		line[strcspn(line, "\n")] = 0;
		if (sscanf(line, "%*s %*x %*x %x %*x %*x %" SCNu64 " %n", &flags, &inode, &at) <
			    2 ||
		    !at || !(flags & UNIX_LISTENS) || !ours(&d->files, inode) || line[at] == '@' ||
		    !line[at] || !utf8_text(line + at))
			continue;
		ret = files_absolute(dir, line + at, path);
	}
	free(line);
	fclose(f);
	return ret;
}
