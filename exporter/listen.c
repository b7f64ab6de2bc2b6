// SPDX-License-Identifier: GPL-2.0-or-later
/* The listening socket; see listen.h. */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "exporter/listen.h"
#include "service/daemon/keys.h"
#include "service/program/memory.h"
#include "vpmu/util/fail.h"

#define BACKLOG 128

union address {
	struct sockaddr any;
	struct sockaddr_in in;
	struct sockaddr_in6 in6;
	struct sockaddr_un un;
};

/* Parse @listen as an address. Returns its length; 0: invalid. */
static socklen_t parse(const char *listen, union address *a)
{
	const char *colon = strrchr(listen, ':');
	char host[64];
	uint64_t port;
	size_t n;

	memset(a, 0, sizeof(*a));
	if (!strncmp(listen, "unix:", 5)) {
		a->un.sun_family = AF_UNIX;
		if (listen[5] != '/' || strlen(listen + 5) >= sizeof(a->un.sun_path))
			return 0;
		strcpy(a->un.sun_path, listen + 5);
		return sizeof(a->un);
	}
	if (!colon || config_parse_u64(colon + 1, &port) || port < 1 || port > 65535)
		return 0;
	n = (size_t)(colon - listen);
	if (n >= sizeof(host))
		return 0;
	memcpy(host, listen, n);
	host[n] = '\0';
	if (!n)
		strcpy(host, "127.0.0.1");
	if (n > 2 && host[0] == '[' && host[n - 1] == ']') {
		host[n - 1] = '\0';
		a->in6.sin6_family = AF_INET6;
		a->in6.sin6_port = htons((uint16_t)port);
		return inet_pton(AF_INET6, host + 1, &a->in6.sin6_addr) == 1 ? sizeof(a->in6) : 0;
	}
	a->in.sin_family = AF_INET;
	a->in.sin_port = htons((uint16_t)port);
	return inet_pton(AF_INET, host, &a->in.sin_addr) == 1 ? sizeof(a->in) : 0;
}

bool metrics_listen_ok(const char *listen)
{
	union address a;

	return parse(listen, &a) != 0;
}

/* Remove the socket of a process that has ended. */
static int make_room(const struct sockaddr_un *un)
{
	int fd, ret;
	struct stat st;

	if (lstat(un->sun_path, &st))
		return errno == ENOENT ? 0 : -errno;
	if (!S_ISSOCK(st.st_mode))
		return -EEXIST;
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return -errno;
	ret = connect(fd, (const struct sockaddr *)un, sizeof(*un)) && errno == ECONNREFUSED
		      ? 0
		      : -EADDRINUSE;
	close(fd);
	return ret ? ret : unlink(un->sun_path) ? -errno : 0;
}

int metrics_listen(const char *where, int *out, char **file, char *err, size_t errlen)
{
	union address a;
	socklen_t len = parse(where, &a);
	int one = 1, fd = -1, ret = len ? 0 : -EINVAL;

	if (!ret && a.any.sa_family == AF_UNIX)
		ret = make_room(&a.un);
	if (ret)
		goto out;
	fd = socket(a.any.sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)) ||
	    bind(fd, &a.any, len)) {
		ret = -errno;
		goto out;
	}
	if (a.any.sa_family == AF_UNIX) {
		*file = xstrdup(a.un.sun_path);
		if (chmod(*file, 0660)) {
			ret = -errno;
			goto out;
		}
	}
	if (listen(fd, BACKLOG))
		ret = -errno;
out:
	if (!ret) {
		*out = fd;
		return 0;
	}
	if (fd >= 0)
		close(fd);
	return fail(ret, err, errlen, "listen: %s: %s", where, strerror(-ret));
}
