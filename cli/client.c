// SPDX-License-Identifier: GPL-2.0-or-later
/* The client's side of the control socket: see client.h. */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include "cli/client.h"
#include "cli/error.h"
#include "cli/progress.h"
#include "cli/sockets.h"
#include "cli/terminal.h"
#include "service/program/memory.h"

#define ANSWER_MAX  (128u << 20) /* bytes of one answer */
#define TIMEOUT_SEC 30

struct client {
	int fd;
	char *in; /* received, and not taken yet */
	size_t in_len, in_room;
	bool wait_long; /* client_wait_long was called */
	bool lost;	/* the connection has ended, or is of no use any more */
	json_t *last;	/* array: what the server sent because it ends */
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

static struct client *client_new(int fd, const char *path)
{
	struct client *c = xcalloc(1, sizeof(*c));

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

struct client *client_reach(const struct cli *cli, char *tried, size_t room)
{
	const char *path = named_path(cli);
	char place[SOCKETS_USUAL][SOCKET_PATH_MAX];
	size_t n = path ? 1 : sockets_usual(place), len = 0;

	*tried = '\0';
	for (size_t i = 0; i < n; i++) {
		const char *p = path ? path : place[i];
		int fd = socket_trusted(p) ? dial(p) : -EPERM;

		if (fd >= 0) {
			*tried = '\0';
			return client_new(fd, p);
		}
		if (len < room)
			len += (size_t)snprintf(tried + len, room - len, "%s%s (%s)", i ? ", " : "",
						p, strerror(-fd));
	}
	return NULL;
}

struct client *client_open(const struct cli *cli, bool quiet)
{
	char tried[CLIENT_TRIED], found[SOCKETS_FOUND];
	struct client *c = client_reach(cli, tried, sizeof(tried));

	if (c || !*tried || quiet)
		return c;
	sockets_found(NULL, found);
	if (*found)
		cli_error("no server: tried %s%s", tried, found);
	else
		cli_error("no server: tried %s; %s", tried,
			  strstr(tried, strerror(EACCES))
				  ? "only root, the server's user and members of its admin_group "
				    "and reader_group may use its socket"
				  : "start vpmud or `vpmu-vmm --socket PATH ...`, or name its "
				    "socket with -S PATH or $VPMU_SOCKET");
	return NULL;
}

void client_close(struct client *c)
{
	if (!c)
		return;
	close(c->fd);
	free(c->in);
	json_decref(c->last);
	free(c);
}

void client_wait_long(struct client *c)
{
	struct timeval tv = {0}; /* no limit */

	setsockopt(c->fd, SOL_SOCKET, SO_RCVTIMEO, &tv, sizeof(tv));
	c->wait_long = true;
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

/* Send @text and a newline, all at once: the server is not woken for half a line. */
static int send_line(int fd, const char *text)
{
	char *line = xasprintf("%s\n", text);
	int ret = send_all(fd, line, strlen(line));

	free(line);
	return ret;
}

/* Make room for more bytes: as many as the server likes. Returns 0 or -errno. */
static int more_room(struct client *c)
{
	size_t room = c->in_room ? c->in_room * 2 : 1 << 16;
	char *more;

	if (c->in_len < c->in_room)
		return 0;
	if (c->in_room >= ANSWER_MAX)
		return -EMSGSIZE;
	more = realloc(c->in, room);
	if (!more)
		return -ENOMEM;
	c->in = more;
	c->in_room = room;
	return 0;
}

/* Say how long it takes until there is something to receive. */
static void wait_with_progress(struct client *c)
{
	struct pollfd p = {.fd = c->fd, .events = POLLIN};

	for (int half_s = 0; poll(&p, 1, 500) == 0; half_s++)
		progress_show("waiting for the server", "%d s", half_s / 2);
	progress_end();
}

/* Receive one line into *out, malloc'd, without its newline. Returns 0 or -errno. */
static int receive_line(struct client *c, char **out)
{
	size_t seen = 0;

	for (;;) {
		char *nl = c->in_len > seen ? memchr(c->in + seen, '\n', c->in_len - seen) : NULL;
		ssize_t n;
		int ret;

		if (nl) {
			size_t len = (size_t)(nl - c->in);

			*out = xstrndup(c->in, len);
			c->in_len -= len + 1;
			memmove(c->in, nl + 1, c->in_len);
			return 0;
		}
		seen = c->in_len;
		ret = more_room(c);
		if (ret)
			return ret;
		if (c->wait_long)
			wait_with_progress(c);
		n = recv(c->fd, c->in + c->in_len, c->in_room - c->in_len, 0);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n < 0 ? -errno : -EPIPE;
		c->in_len += (size_t)n;
	}
}

static const char *why(int ret)
{
	if (ret == -EAGAIN)
		return "it does not answer; it may still do what was asked later";
	return ret == -EPIPE || ret == -ECONNRESET ? "it closed the connection" : strerror(-ret);
}

/* Make all strings in @v safe to print. false: a key is not safe. */
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
		copy = xstrdup(json_string_value(v));
		ok = json_string_set(v, terminal_safe(copy)) == 0;
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
static json_t *client_parse_answer(const char *text)
{
	json_t *resp = json_loads(text, JSON_REJECT_DUPLICATES, NULL);

	if (json_is_object(resp) && make_safe(resp))
		return resp;
	json_decref(resp);
	return NULL;
}

/* Whether @resp is one of the server's last lines. It is then kept for client_last, and taken. */
static bool keep_last(struct client *c, json_t *resp)
{
	const char *id = json_string_value(json_object_get(resp, "id"));

	if (!id || strcmp(id, "end"))
		return false;
	if (!c->last)
		c->last = json_array();
	json_array_append_new(c->last, resp);
	return true;
}

/* Receive one answer into *resp (NULL: it does not follow the protocol). Returns 0 or -errno. */
static int receive_answer(struct client *c, json_t **resp)
{
	char *text = NULL;
	int ret;

	do {
		ret = receive_line(c, &text);
		if (ret)
			return ret;
		*resp = client_parse_answer(text);
		free(text);
	} while (*resp && keep_last(c, *resp));
	return 0;
}

const json_t *client_last(struct client *c)
{
	json_t *resp;

	while (!c->lost && receive_answer(c, &resp) == 0)
		json_decref(resp);
	c->lost = true;
	return c->last;
}

bool client_lost(const struct client *c)
{
	return c->lost;
}

static bool usage_refused; /* the server said that the command line was wrong */

int client_exit_status(int status)
{
	return status == 1 && usage_refused ? EXIT_USAGE : status;
}

/*
 * The server's errors begin with the name of a field of the request. Say it as the user typed it.
 * Returns a malloc'd string.
 */
static char *as_typed(const char *error)
{
	static const struct {
		const char *field, *typed;
	} words[] = {
		{"events: ", "-e: "},
		{"event: ", "-e: "},
		{"period: ", "-c: "},
		{"scope: ", "--for-each: "},
		{"mode: ", "--mode: "},
		{"lbr: ", "-g: "},
		{"vm-add: vm/", "vm add: "},
		{"vm-add: ", "vm add: "},
		{"profile-start: ", "profile: "},
		{"lbr-attach: ", "lbr: "},
		{"name: no VM ", "no VM "},
		{"target: no ", "no "},
		{"path: no ", "no "},
		{"session: no ", "no session "},
	};
	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
		size_t n = strlen(words[i].field);

		if (strncmp(error, words[i].field, n) == 0)
			return xasprintf("%s%s", words[i].typed, error + n);
	}
	return xstrdup(error);
}

/* Whether the error @resp to request @cmd is about what the user typed. A damaged snapshot is not.
 */
static bool about_usage(const json_t *resp, const char *cmd)
{
	json_int_t err = json_integer_value(json_object_get(resp, "errno"));
	const char *text = json_string_value(json_object_get(resp, "error"));

	return (err == EINVAL && strcmp(cmd, "vm-restore")) ||
	       (err == ENOENT && text && strncmp(text, "event", 5) == 0);
}

/* The server has no command @cmd: vpmud runs no VMs. Others may have it. As as_typed. */
static char *no_command(const struct client *c, const char *cmd)
{
	char found[SOCKETS_FOUND], *text;

	sockets_found(c->path, found);
	return asprintf(&text, "the server at %s has no command \"%s\"%s", c->path, cmd, found) < 0
		       ? NULL
		       : text;
}

json_t *client_try(struct client *c, json_t *req, char **err)
{
	char *line = req ? json_dumps(req, JSON_COMPACT) : NULL;
	json_t *resp = NULL;
	char cmd[32] = "";
	int ret;

	*err = NULL;
	if (!line) {
		/* A string of JSON is UTF-8; jansson takes no other bytes. */
		cli_error("an argument is not UTF-8 text");
		usage_refused = true;
		json_decref(req);
		return NULL;
	}
	snprintf(cmd, sizeof(cmd), "%s", json_string_value(json_object_get(req, "cmd")));
	json_decref(req);
	ret = send_line(c->fd, line);
	if (!ret || ret == -EPIPE) /* a server that closed the connection may have said why */
		ret = receive_answer(c, &resp);
	free(line);
	if (ret) {
		c->lost = true;
		if (!c->last) /* otherwise the caller shows what the server said at its end */
			cli_error("server at %s: %s", c->path, why(ret));
		return NULL;
	}
	if (json_is_true(json_object_get(resp, "ok")))
		return resp;
	usage_refused |= about_usage(resp, cmd);
	if (json_integer_value(json_object_get(resp, "errno")) == ENOSYS)
		*err = no_command(c, cmd);
	else if (json_is_string(json_object_get(resp, "error")))
		*err = as_typed(json_string_value(json_object_get(resp, "error")));
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
