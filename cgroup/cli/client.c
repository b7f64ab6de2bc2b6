// SPDX-License-Identifier: GPL-2.0-or-later
/* The client's side of the control socket: see client.h. */
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
#include "cgroup/cli/error.h"
#include "cgroup/cli/terminal.h"

#define ANSWER_MAX  (128u << 20) /* bytes of one answer */
#define TIMEOUT_SEC 30
#define PLACES_MAX  4

struct client {
	int fd;
	char path[sizeof(((struct sockaddr_un *)0)->sun_path)];
};

/* Connect to @path. Returns the socket, or -errno. */
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

/* Everybody may make directories in /tmp, so a socket there is used only in a directory of ours. */
static bool trusted(const char *path)
{
	char dir[128];
	struct stat st;

	if (strncmp(path, "/tmp/", 5) != 0)
		return true;
	snprintf(dir, sizeof(dir), "%.*s", (int)(strrchr(path, '/') - path), path);
	return lstat(dir, &st) || (S_ISDIR(st.st_mode) && st.st_uid == geteuid());
}

/* Where vpmu-vmm listens without --socket: docs/protocol.md. */
static size_t usual_places(char place[PLACES_MAX][108])
{
	const char *xdg = getenv("XDG_RUNTIME_DIR");
	size_t n = 0;

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
			  "name its socket with -S PATH or $VPMU_SOCKET",
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
	struct timeval tv = {0}; /* no limit */

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

/* Receive one line into *out, malloc'd, without its newline. Returns 0 or -errno. */
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
		return "it does not answer; it may still do what was asked later";
	return ret == -EPIPE || ret == -ECONNRESET ? "it closed the connection" : strerror(-ret);
}

/* Make all strings in @v safe to print. false: out of memory, or a key that is not safe. */
static bool make_safe(json_t *v)
{
	const char *key;
	json_t *part;
	char *copy;
	size_t i;
	bool ok;

	switch (json_typeof(v)) {
	case JSON_STRING:
		if (terminal_is_safe(json_string_value(v)))
			return true;
		copy = strdup(json_string_value(v));
		ok = copy && json_string_set(v, terminal_safe(copy)) == 0;
		free(copy);
		return ok;
	case JSON_ARRAY:
		json_array_foreach (v, i, part)
			if (!make_safe(part))
				return false;
		return true;
	case JSON_OBJECT:
		json_object_foreach (v, key, part)
			if (!terminal_is_safe(key) || !make_safe(part))
				return false;
		return true;
	default:
		return true;
	}
}

/* Parse the line @text. NULL: it is no JSON object. */
static json_t *parse_answer(const char *text)
{
	json_t *resp = json_loads(text, JSON_REJECT_DUPLICATES, NULL);

	if (json_is_object(resp) && make_safe(resp))
		return resp;
	json_decref(resp);
	return NULL;
}

json_t *client_try(struct client *c, json_t *req, char **err)
{
	char *line = req ? json_dumps(req, JSON_COMPACT) : NULL, *text = NULL;
	json_t *resp = NULL;
	int ret;

	*err = NULL;
	json_decref(req);
	if (!line) {
		/* A string of JSON is UTF-8; jansson takes no other bytes. */
		cli_error("an argument is not UTF-8 text, or memory ran out");
		return NULL;
	}
	ret = send_all(c->fd, line, strlen(line));
	if (!ret)
		ret = send_all(c->fd, "\n", 1);
	if (!ret || ret == -EPIPE) /* a server that closed the connection may have said why */
		ret = receive_line(c->fd, &text);
	free(line);
	if (ret) {
		cli_error("server at %s: %s", c->path, why(ret));
		return NULL;
	}
	resp = parse_answer(text);
	free(text);
	if (json_is_true(json_object_get(resp, "ok")))
		return resp;
	if (json_is_string(json_object_get(resp, "error")))
		*err = strdup(json_string_value(json_object_get(resp, "error")));
	else
		cli_error("server at %s: its answer does not follow vpmu's protocol", c->path);
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
