// SPDX-License-Identifier: GPL-2.0-or-later
/* A client's connection, see connection.h. cli/client.c and exporter/answer.c call this. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "service/connection.h"

int connection_open(struct connection *c, const char *path, unsigned int sec)
{
	struct sockaddr_un addr = {.sun_family = AF_UNIX};
	struct timeval tv = {.tv_sec = sec};
	int ret;

	*c = (struct connection){.fd = -1};
	if (strlen(path) >= sizeof(addr.sun_path))
		return -ENAMETOOLONG;
	strcpy(addr.sun_path, path);
	c->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (c->fd < 0)
		return -errno;
	setsockopt(c->fd, SOL_SOCKET, SO_RCVTIMEO, &tv, sizeof(tv));
	setsockopt(c->fd, SOL_SOCKET, SO_SNDTIMEO, &tv, sizeof(tv));
	if (!connect(c->fd, (struct sockaddr *)&addr, sizeof(addr)))
		return 0;
	ret = -errno;
	connection_close(c);
	return ret;
}

void connection_close(struct connection *c)
{
	if (c->fd >= 0)
		close(c->fd);
	free(c->in);
	*c = (struct connection){.fd = -1};
}

static int send_all(int fd, const char *p, size_t len)
{
	while (len) {
		ssize_t n = send(fd, p, len, MSG_NOSIGNAL);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		p += n;
		len -= (size_t)n;
	}
	return 0;
}

/* In one send: the server is not woken for half a line. */
int connection_send(struct connection *c, const char *text)
{
	char *line;
	int len = asprintf(&line, "%s\n", text), ret;

	if (len < 0)
		return -ENOMEM;
	ret = send_all(c->fd, line, (size_t)len);
	free(line);
	return ret;
}

/* Grow the buffer if it is full. Returns 0 or -errno. */
static int more_room(struct connection *c)
{
	size_t room = c->room ? c->room * 2 : 1 << 16;
	char *more;

	if (c->len < c->room)
		return 0;
	if (c->room >= CONNECTION_ANSWER_MAX)
		return -EMSGSIZE;
	more = realloc(c->in, room);
	if (!more)
		return -ENOMEM;
	c->in = more;
	c->room = room;
	return 0;
}

/* Receive until there is a line; *@len: its bytes, without the newline. */
static int receive_line(struct connection *c, void (*before)(int fd), size_t *len)
{
	size_t seen = 0;

	for (;;) {
		char *nl = c->len > seen ? memchr(c->in + seen, '\n', c->len - seen) : NULL;
		ssize_t n;
		int ret;

		if (nl) {
			*len = (size_t)(nl - c->in);
			return 0;
		}
		seen = c->len;
		ret = more_room(c);
		if (ret)
			return ret;
		if (before)
			before(c->fd);
		n = recv(c->fd, c->in + c->len, c->room - c->len, 0);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n < 0 ? -errno : -EPIPE;
		c->len += (size_t)n;
	}
}

int connection_receive(struct connection *c, void (*before)(int fd), json_t **resp)
{
	size_t len = 0;
	int ret = receive_line(c, before, &len);

	*resp = NULL;
	if (ret)
		return ret;
	*resp = json_loadb(c->in, len, JSON_REJECT_DUPLICATES, NULL);
	if (*resp && !json_is_object(*resp)) {
		json_decref(*resp);
		*resp = NULL;
	}
	c->len -= len + 1;
	memmove(c->in, c->in + len + 1, c->len);
	return ret;
}
