// SPDX-License-Identifier: GPL-2.0-or-later
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "vpmu/util/fail.h"
#include "service/socket_file.h"

/*
 * Check the directory of the socket @path. Anyone with write access to it can replace the socket,
 * and anyone can create /tmp/vpmu-UID. @own: it is the server's own directory, created if missing,
 * and others must not have write access; otherwise the operator has chosen it.
 */
static int check_parent(const char *path, bool own, char *err, size_t errlen)
{
	const char *slash = strrchr(path, '/');
	char dir[sizeof(((struct sockaddr_un *)0)->sun_path)];
	struct stat st;

	if (!slash || slash == path)
		return 0;
	snprintf(dir, sizeof(dir), "%.*s", (int)(slash - path), path);
	if (own && mkdir(dir, geteuid() ? 0700 : 0755) && errno != EEXIST)
		return fail(-errno, err, errlen, "socket %s: cannot make %s: %s", path, dir,
			    strerror(errno));
	if (lstat(dir, &st))
		return fail(-errno, err, errlen,
			    "socket %s: %s: %s; expected a path in an existing directory", path,
			    dir, strerror(errno));
	if (S_ISLNK(st.st_mode))
		return fail(
			-ELOOP, err, errlen,
			"socket %s: %s is a symbolic link; expected a path in the directory itself",
			path, dir);
	if ((own || geteuid()) && st.st_uid != geteuid() && st.st_uid != 0)
		return fail(
			-EPERM, err, errlen,
			"socket %s: %s belongs to user %u; expected a directory of yours or root's",
			path, dir, st.st_uid);
	if (own && st.st_mode & 022)
		return fail(
			-EPERM, err, errlen,
			"socket %s: others may write to %s (mode %o); expected mode 755 or less",
			path, dir, st.st_mode & 07777);
	return 0;
}

/* Remove the socket at @addr if no process listens on it. */
static int clear_stale(const struct sockaddr_un *addr, char *err, size_t errlen)
{
	struct stat st;
	int fd, ret;

	if (lstat(addr->sun_path, &st))
		return 0;
	if (!S_ISSOCK(st.st_mode))
		return fail(-EEXIST, err, errlen,
			    "socket %s: exists and is no socket; expected another path",
			    addr->sun_path);
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return fail(-errno, err, errlen, "socket %s: %s", addr->sun_path, strerror(errno));
	ret = connect(fd, (const struct sockaddr *)addr, sizeof(*addr)) ? errno : 0;
	close(fd);
	if (ret != ECONNREFUSED)
		return fail(-EADDRINUSE, err, errlen,
			    "socket %s: a server listens there; expected another path",
			    addr->sun_path);
	if (unlink(addr->sun_path) && errno != ENOENT)
		return fail(-errno, err, errlen, "socket %s: cannot replace it: %s", addr->sun_path,
			    strerror(errno));
	return 0;
}

int socket_file_make(struct socket_file *s, const char *path, bool own_dir, mode_t mode, gid_t gid,
		     char *err, size_t errlen)
{
	struct sockaddr_un addr = {.sun_family = AF_UNIX};
	int ret;

	if (strlen(path) >= sizeof(addr.sun_path))
		return fail(-ENAMETOOLONG, err, errlen,
			    "socket %.40s...: expected a path of up to %zu bytes", path,
			    sizeof(addr.sun_path) - 1);
	strcpy(addr.sun_path, path);
	ret = check_parent(path, own_dir, err, errlen);
	if (!ret)
		ret = clear_stale(&addr, err, errlen);
	if (ret)
		return ret;
	s->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	/* fchmod before bind, so that the file never exists with a wider mode: bind uses the
	 * inode's mode less the umask (unix(7)). chmod after bind and chown, so that the mode does
	 * not depend on the umask. */
	if (s->fd < 0 || fchmod(s->fd, 0600) || bind(s->fd, (struct sockaddr *)&addr, sizeof(addr)))
		return fail(-errno, err, errlen, "socket %s: %s", path, strerror(errno));
	s->bound = true;
	if (gid != (gid_t)-1 && lchown(path, (uid_t)-1, gid))
		return fail(-errno, err, errlen,
			    "socket %s: cannot be given to group %u: %s; the server must run as "
			    "root or be in the group",
			    path, gid, strerror(errno));
	if (chmod(path, mode) || lstat(path, &s->at) || listen(s->fd, 32))
		return fail(-errno, err, errlen, "socket %s: %s", path, strerror(errno));
	return 0;
}

int socket_file_take(struct socket_file *s, int fd, const char *path, char *err, size_t errlen)
{
	int type = 0, listens = 0;
	socklen_t len = sizeof(type);
	struct sockaddr_un addr;
	socklen_t addr_len = sizeof(addr);

	s->fd = fd;
	if (getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &len) || type != SOCK_STREAM ||
	    getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &len) || !listens ||
	    getsockname(fd, (struct sockaddr *)&addr, &addr_len) || addr.sun_family != AF_UNIX)
		return fail(-EINVAL, err, errlen,
			    "socket %s: file descriptor %d is no listening unix stream socket; "
			    "expected ListenStream=%s",
			    path, fd, path);
	if (fcntl(fd, F_SETFL, O_NONBLOCK) || fcntl(fd, F_SETFD, FD_CLOEXEC))
		return fail(-errno, err, errlen, "socket %s: %s", path, strerror(errno));
	return 0;
}

void socket_file_close(struct socket_file *s, const char *path)
{
	struct stat st;

	/* The file may have been replaced. */
	if (s->bound && lstat(path, &st) == 0 && st.st_ino == s->at.st_ino &&
	    st.st_dev == s->at.st_dev)
		unlink(path);
	if (s->fd >= 0)
		close(s->fd);
}
