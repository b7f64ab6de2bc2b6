// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Files below the cgroup root: the only file that writes to cgroupfs. tenant.c calls it on the
 * control thread; any program asks it where cgroup2 is mounted. It must never touch directories
 * outside of the root.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <linux/magic.h>
#include <mntent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "cgroup/fs/cgroupfs.h"
#include "vpmu/util/fail.h"
#include "vpmu/util/proctext.h"

struct cgroupfs {
	char *root;  /* real path of the directory above all tenants */
	char *mount; /* real path of the topmost cgroup2 directory above root */
	char *home;  /* this process's cgroup before the first join; NULL: not moved */
};

char *cgroupfs_mount(const char *mounts)
{
	FILE *f = setmntent(mounts, "re");
	char buf[8192], *dir = NULL;
	struct mntent m;

	while (f && !dir && getmntent_r(f, &m, buf, sizeof(buf)))
		if (!strcmp(m.mnt_type, "cgroup2"))
			dir = strdup(m.mnt_dir);
	if (f)
		endmntent(f);
	return dir;
}

static bool is_cgroup2(const char *dir)
{
	struct statfs sfs;

	return statfs(dir, &sfs) == 0 && sfs.f_type == CGROUP2_SUPER_MAGIC;
}

/* Write @text to @dir/@file in one write(2): cgroupfs treats each write as a whole. */
static int cgroupfs_write_file(const char *dir, const char *file, const char *text)
{
	char path[PATH_MAX];
	int fd, ret = 0;

	if (snprintf(path, sizeof(path), "%s/%s", dir, file) >= (int)sizeof(path))
		return -ENAMETOOLONG;
	fd = open(path, O_WRONLY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	if (write(fd, text, strlen(text)) < 0)
		ret = -errno;
	close(fd);
	return ret;
}

int cgroupfs_open(const char *root, struct cgroupfs **out, char *err, size_t errlen)
{
	struct cgroupfs *fs = calloc(1, sizeof(*fs));
	struct stat st;
	int ret;

	if (!fs)
		return fail(-ENOMEM, err, errlen, "cgroup root: out of memory");
	fs->root = realpath(root, NULL);
	if (!fs->root) {
		ret = fail(-errno, err, errlen,
			   "cgroup root: %s: %s; expected an existing cgroup2 directory", root,
			   strerror(errno));
		goto fail;
	}
	if (!is_cgroup2(fs->root) || stat(fs->root, &st) || !S_ISDIR(st.st_mode)) {
		ret = fail(-EINVAL, err, errlen,
			   "cgroup root: %s: not a cgroup2 directory; expected one of `findmnt -t "
			   "cgroup2` or below",
			   root);
		goto fail;
	}
	if (access(fs->root, W_OK | X_OK)) {
		ret = fail(-errno, err, errlen,
			   "cgroup root: %s: %s; expected a directory this user may make "
			   "directories in (delegate one, or run as root)",
			   root, strerror(errno));
		goto fail;
	}
	fs->mount = strdup(fs->root);
	if (!fs->mount) {
		ret = fail(-ENOMEM, err, errlen, "cgroup root: out of memory");
		goto fail;
	}
	for (;;) {
		char *slash = strrchr(fs->mount, '/');

		if (!slash || slash == fs->mount)
			break;
		*slash = '\0';
		if (!is_cgroup2(fs->mount)) {
			*slash = '/';
			break;
		}
	}
	*out = fs;
	return 0;
fail:
	cgroupfs_close(fs);
	return ret;
}

void cgroupfs_leave(struct cgroupfs *fs)
{
	char pid[16];

	if (!fs->home)
		return;
	snprintf(pid, sizeof(pid), "%d", getpid());
	/* If the old cgroup is gone, the root of the mount always takes processes. */
	if (cgroupfs_write_file(fs->home, "cgroup.procs", pid))
		cgroupfs_write_file(fs->mount, "cgroup.procs", pid);
	free(fs->home);
	fs->home = NULL;
}

void cgroupfs_close(struct cgroupfs *fs)
{
	if (!fs)
		return;
	free(fs->root);
	free(fs->mount);
	free(fs->home);
	free(fs);
}

char *cgroupfs_dir(const struct cgroupfs *fs, const char *path)
{
	char *dir;

	if (strcmp(path, "/") == 0)
		return strdup(fs->root);
	return asprintf(&dir, "%s%s", strcmp(fs->root, "/") ? fs->root : "", path) < 0 ? NULL : dir;
}

int cgroupfs_id(const char *dir, uint64_t *id, char *err, size_t errlen)
{
	/* A kernfs file handle is the 64-bit node id: FILEID_KERNFS, linux/exportfs.h. */
	union {
		struct file_handle h;
		char room[sizeof(struct file_handle) + sizeof(uint64_t)];
	} u = {.h.handle_bytes = sizeof(uint64_t)};
	struct stat st;
	int mount_id;

	if (name_to_handle_at(AT_FDCWD, dir, &u.h, &mount_id, 0) == 0 &&
	    u.h.handle_bytes == sizeof(*id)) {
		memcpy(id, u.h.f_handle, sizeof(*id));
		return 0;
	}
	/* A sandbox may forbid the call; the inode number is the same id on 64-bit kernels. */
	if (stat(dir, &st))
		return fail(-errno, err, errlen, "cgroup %s: cannot read its id: %s", dir,
			    strerror(errno));
	*id = st.st_ino;
	return 0;
}

/* ---- makers of directories ----------------------------------------------------------------- */

/*
 * Directories made here record their maker in an extended attribute, so that a server can take over
 * those of a killed one: "PID START", where START is field 22 of proc(5)'s stat. Without extended
 * attributes (before Linux 5.7) nothing is taken over.
 */
#define MAKER "user.vpmu.maker"

static int cgroupfs_start(int pid, uint64_t *start)
{
	char text[1024];

	proctext_read(text, sizeof(text), "/proc/%d/stat", pid);
	return proctext_start(text, start);
}

static void sign(const char *dir)
{
	uint64_t start;
	char text[64];
	int n;

	if (cgroupfs_start(getpid(), &start))
		return;
	n = snprintf(text, sizeof(text), "%d %" PRIu64, getpid(), start);
	setxattr(dir, MAKER, text, (size_t)n, 0);
}

/* Returns true if @dir was made by a process that has ended. */
static bool left_behind(const char *dir)
{
	uint64_t start, now;
	char text[64];
	ssize_t n = getxattr(dir, MAKER, text, sizeof(text) - 1);
	int pid;

	if (n <= 0)
		return false;
	text[n] = '\0';
	if (sscanf(text, "%d %" SCNu64, &pid, &start) != 2)
		return false;
	return cgroupfs_start(pid, &now) || now != start;
}

int cgroupfs_make(const char *dir, bool *made, char *err, size_t errlen)
{
	struct stat st;

	*made = mkdir(dir, 0755) == 0;
	if (*made) {
		sign(dir);
		return 0;
	}
	if (errno == EEXIST) {
		if (stat(dir, &st) == 0 && S_ISDIR(st.st_mode) && is_cgroup2(dir)) {
			*made = left_behind(dir);
			if (*made)
				sign(dir);
			return 0;
		}
		return fail(-EEXIST, err, errlen,
			    "cgroup %s: the name is taken by a file of the kernel; expected a name "
			    "without a controller's prefix",
			    dir);
	}
	return fail(-errno, err, errlen, "cgroup %s: cannot make it: %s", dir, strerror(errno));
}

int cgroupfs_remove(const char *dir, char *err, size_t errlen)
{
	if (rmdir(dir) == 0 || errno == ENOENT)
		return 0;
	if (errno == EBUSY)
		return fail(-EBUSY, err, errlen,
			    "cgroup %s: in use; move the threads of its cgroup.threads and remove "
			    "the cgroups below it first",
			    dir);
	return fail(-errno, err, errlen, "cgroup %s: cannot remove it: %s", dir, strerror(errno));
}

/* ---- joining ------------------------------------------------------------------------------ */

/* The process of thread @tid; *alone: it has no other threads. */
static int thread_group(int tid, int *tgid, bool *alone)
{
	char path[64], status[4096], *field;
	struct stat st;
	ssize_t ret = proctext_read(status, sizeof(status), "/proc/%d/status", tid);

	if (ret < 0)
		return ret == -ENOENT ? -ESRCH : (int)ret;
	field = proctext_field(status, "Tgid:");
	if (!field || sscanf(field, "%d", tgid) != 1)
		return -ESRCH;
	snprintf(path, sizeof(path), "/proc/%d/task", *tgid);
	if (stat(path, &st))
		return -ESRCH;
	/* proc(5): a task directory has one link per thread and two of its own. */
	*alone = st.st_nlink <= 3;
	return 0;
}

/* The cgroup2 directory of process @pid, malloc'd; NULL if it is not visible from here. */
static char *cgroup_of(const struct cgroupfs *fs, int pid)
{
	char text[2 * PATH_MAX], *dir, *path;

	proctext_read(text, sizeof(text), "/proc/%d/cgroup", pid);
	path = proctext_field(text, "0::");
	/* /..: outside of our cgroup namespace */
	if (!path || *path != '/' || strncmp(path, "/..", 3) == 0)
		return NULL;
	if (strcmp(path, "/") == 0)
		return strdup(fs->mount);
	return asprintf(&dir, "%s%s", fs->mount, path) < 0 ? NULL : dir;
}

static bool cgroupfs_is_below(const char *root, const char *dir)
{
	size_t n = strlen(root);

	return strncmp(dir, root, n) == 0 && (dir[n] == '\0' || dir[n] == '/');
}

static int make_threaded(const char *dir, char *err, size_t errlen)
{
	char type[32];
	int ret = (int)proctext_read(type, sizeof(type), "%s/cgroup.type", dir);

	if (ret < 0)
		return fail(ret, err, errlen, "cgroup %s: cannot read cgroup.type: %s", dir,
			    strerror(-ret));
	type[strcspn(type, "\n")] = '\0';
	if (strcmp(type, "threaded") == 0)
		return 0;
	ret = cgroupfs_write_file(dir, "cgroup.type", "threaded");
	if (ret)
		return fail(
			ret, err, errlen,
			"cgroup %s: is \"%s\" and cannot become threaded: %s; expected an empty "
			"cgroup below a root without domain controllers in cgroup.subtree_control",
			dir, type, strerror(-ret));
	return 0;
}

/* Make every directory from below the root down to @path threaded, top down. */
static int make_way_threaded(struct cgroupfs *fs, const char *path, char *err, size_t errlen)
{
	char part[PATH_MAX];
	const char *end = path;

	while (*end) {
		char *dir;
		int ret;

		end = strchrnul(end + 1, '/');
		snprintf(part, sizeof(part), "%.*s", (int)(end - path), path);
		dir = cgroupfs_dir(fs, part);
		if (!dir)
			return fail(-ENOMEM, err, errlen, "cgroup %s: out of memory", path);
		ret = make_threaded(dir, err, errlen);
		free(dir);
		if (ret)
			return ret;
	}
	return 0;
}

/* Move process @tgid into the threaded domain rooted at fs->root. */
static int enter_domain(struct cgroupfs *fs, int tgid, char *err, size_t errlen)
{
	char *now = cgroup_of(fs, tgid);
	char pid[16];
	int ret;

	if (now && cgroupfs_is_below(fs->root, now)) {
		free(now);
		return 0;
	}
	snprintf(pid, sizeof(pid), "%d", tgid);
	ret = cgroupfs_write_file(fs->root, "cgroup.procs", pid);
	if (ret) {
		free(now);
		return fail(ret, err, errlen,
			    "cgroup %s: process %d cannot enter it: %s; expected a root without "
			    "domain controllers in cgroup.subtree_control",
			    fs->root, tgid, strerror(-ret));
	}
	if (tgid == getpid() && !fs->home)
		fs->home = now ? now : strdup(fs->mount);
	else
		free(now);
	return 0;
}

int cgroupfs_join(struct cgroupfs *fs, const char *path, int tid, char *err, size_t errlen)
{
	char *dir = cgroupfs_dir(fs, path), text[16], type[32];
	bool alone, threaded;
	int tgid, ret;

	if (!dir)
		return fail(-ENOMEM, err, errlen, "cgroup %s: out of memory", path);
	ret = thread_group(tid, &tgid, &alone);
	if (ret) {
		fail(ret, err, errlen, "thread %d: %s; expected a running thread", tid,
		     strerror(-ret));
		goto out;
	}
	proctext_read(type, sizeof(type), "%s/cgroup.type", dir);
	/* This process may start threads for other tenants at any time: always use threaded mode.
	 */
	threaded = !alone || tgid == getpid() || strcmp(type, "domain\n") != 0;
	if (threaded) {
		ret = make_way_threaded(fs, path, err, errlen);
		if (ret)
			goto out;
		ret = enter_domain(fs, tgid, err, errlen);
		if (ret)
			goto out;
	}
	snprintf(text, sizeof(text), "%d", tid);
	ret = cgroupfs_write_file(dir, threaded ? "cgroup.threads" : "cgroup.procs", text);
	if (ret)
		fail(ret, err, errlen, "cgroup %s: thread %d cannot join: %s", dir, tid,
		     strerror(-ret));
out:
	free(dir);
	return ret;
}
