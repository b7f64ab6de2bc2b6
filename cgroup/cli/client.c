// SPDX-License-Identifier: GPL-2.0-or-later
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include "cgroup/cli/client.h"

#define ANSWER_MAX  (128u << 20)
#define TIMEOUT_SEC 30
#define PLACES_MAX  5

struct client {
	int fd;
	char path[sizeof(((struct sockaddr_un *)0)->sun_path)];
};

static int dial(const char *path)
{
	struct sockaddr_un addr = {.sun_family = AF_UNIX};
	struct timeval tv = {.tv_sec = TIMEOUT_SEC};
	int fd, ret;

	if (strlen(path) >= sizeof(addr.sun_path))
		return -ENAMETOOLONG;
	strcpy(addr.sun_path, path);
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return -errno;
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &tv, sizeof(tv));
	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &tv, sizeof(tv));
	if (connect(fd, (struct sockaddr *)&addr, sizeof(addr)) == 0)
		return fd;
	ret = -errno;
	close(fd);
	return ret;
}

/* Anybody may make directories in /tmp: only one that is ours is used. */
static bool trusted(const char *path)
{
	char dir[128];
	struct stat st;

	if (strncmp(path, "/tmp/", 5) != 0)
		return true;
	snprintf(dir, sizeof(dir), "%.*s", (int)(strrchr(path, '/') - path), path);
	return lstat(dir, &st) || (S_ISDIR(st.st_mode) && st.st_uid == geteuid());
}

static size_t usual_places(char place[PLACES_MAX][108])
{
	const char *xdg = getenv("XDG_RUNTIME_DIR");
	size_t n = 0;

	snprintf(place[n++], 108, "/run/vpmu/vpmud.sock");
	snprintf(place[n++], 108, "/run/vpmu/vpmu-vmm.sock");
	if (xdg && *xdg == '/')
		snprintf(place[n++], 108, "%s/vpmu/vpmu-vmm.sock", xdg);
	snprintf(place[n++], 108, "/tmp/vpmu-%u/vpmu-vmm.sock", geteuid());
	return n;
}

static struct client *client_new(int fd, const char *path)
{
	struct client *c = calloc(1, sizeof(*c));

	if (!c) {
		close(fd);
		cli_error("out of memory");
		return NULL;
	}
	c->fd = fd;
	strcpy(c->path, path);
	return c;
}

static const char *named_path(const struct cli *cli)
{
	const char *env = getenv("VPMU_SOCKET");

	return cli->socket ? cli->socket : env && *env ? env : NULL;
}

bool client_named(const struct cli *cli)
{
	return named_path(cli) != NULL;
}

struct client *client_open(const struct cli *cli, bool quiet)
{
	const char *path = named_path(cli);
	char place[PLACES_MAX][108], tried[PLACES_MAX * 128] = "";
	size_t n = path ? 1 : usual_places(place), len = 0;

	for (size_t i = 0; i < n; i++) {
		const char *p = path ? path : place[i];
		int fd = trusted(p) ? dial(p) : -EPERM;

		if (fd >= 0)
			return client_new(fd, p);
		if (len < sizeof(tried))
			len += (size_t)snprintf(tried + len, sizeof(tried) - len, "%s%s (%s)",
						i ? ", " : "", p, strerror(-fd));
	}
	if (!quiet)
		cli_error("no server: tried %s; start one with `vpmu-vmm --socket PATH ...`, or "
			  "say where it listens with -S PATH or $VPMU_SOCKET",
			  tried);
	return NULL;
}

void client_close(struct client *c)
{
	if (!c)
		return;
	close(c->fd);
	free(c);
}

void client_wait_long(struct client *c)
{
	struct timeval tv = {0}; /* for ever */

	setsockopt(c->fd, SOL_SOCKET, SO_RCVTIMEO, &tv, sizeof(tv));
}

int client_fd(const struct client *c)
{
	return c->fd;
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

/* One line, malloc'd, without its newline. */
static int receive_line(int fd, char **out)
{
	size_t len = 0, room = 1 << 16;
	char *buf = malloc(room);
	int ret = -ENOMEM;

	while (buf) {
		ssize_t n;

		if (len == room) {
			char *more = room < ANSWER_MAX ? realloc(buf, room * 2) : NULL;

			if (!more) {
				ret = room < ANSWER_MAX ? -ENOMEM : -EMSGSIZE;
				break;
			}
			buf = more;
			room *= 2;
		}
		n = recv(fd, buf + len, room - len, 0);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0) {
			ret = n < 0 ? -errno : -EPIPE;
			break;
		}
		len += (size_t)n;
		if (memchr(buf + len - n, '\n', (size_t)n)) {
			*(char *)memchr(buf, '\n', len) = '\0';
			*out = buf;
			return 0;
		}
	}
	free(buf);
	return ret;
}

static const char *why(int ret)
{
	if (ret == -EAGAIN)
		return "it does not answer; what was asked may be done later";
	return ret == -EPIPE || ret == -ECONNRESET ? "it closed the connection" : strerror(-ret);
}

json_t *client_try(struct client *c, json_t *req, char **err)
{
	char *line = req ? json_dumps(req, JSON_COMPACT) : NULL, *text = NULL;
	json_t *resp = NULL;
	json_error_t je;
	int ret;

	*err = NULL;
	json_decref(req);
	if (!line) {
		/* JSON's texts are UTF-8: jansson takes no others. */
		cli_error("an argument is no UTF-8 text, or there is no memory");
		return NULL;
	}
	ret = send_all(c->fd, line, strlen(line));
	if (!ret)
		ret = send_all(c->fd, "\n", 1);
	if (!ret || ret == -EPIPE) /* it may have said why */
		ret = receive_line(c->fd, &text);
	free(line);
	if (ret) {
		cli_error("server at %s: %s", c->path, why(ret));
		return NULL;
	}
	resp = json_loads(text, JSON_REJECT_DUPLICATES, &je);
	free(text);
	if (json_is_true(json_object_get(resp, "ok")))
		return resp;
	if (json_is_string(json_object_get(resp, "error")))
		*err = strdup(json_string_value(json_object_get(resp, "error")));
	else
		cli_error("server at %s: its answer is none of vpmu's protocol", c->path);
	json_decref(resp);
	return NULL;
}

json_t *client_ask(struct client *c, json_t *req)
{
	char *err;
	json_t *resp = client_try(c, req, &err);

	if (!resp && err)
		cli_error("%s", err);
	free(err);
	return resp;
}

json_t *client_simple(struct client *c, const char *cmd)
{
	return client_ask(c, json_pack("{s:s}", "cmd", cmd));
}
