// SPDX-License-Identifier: GPL-2.0-or-later
/* The client's side of the control socket; see client.h. */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "cli/wait.h"
#include "service/connection.h"
#include "cli/client.h"
#include "cli/error.h"
#include "cli/sockets.h"
#include "cli/terminal.h"
#include "service/program/memory.h"

#define TIMEOUT_SEC 30
#define PATH_LEN    sizeof(((struct sockaddr_un *)0)->sun_path)

struct client {
	struct connection c;
	bool wait_long; /* client_wait_long was called */
	bool lost;	/* the connection has ended or is unusable */
	json_t *last;	/* array: the server's last answers before its end */
	char path[PATH_LEN];
};

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
	struct client *c;

	*tried = '\0';
	c = xcalloc(1, sizeof(*c));
	for (size_t i = 0; i < n; i++) {
		const char *p = path ? path : place[i];
		int ret = socket_trusted(p) ? connection_open(&c->c, p, TIMEOUT_SEC) : -EPERM;

		if (!ret) {
			*tried = '\0';
			strcpy(c->path, p);
			return c;
		}
		if (len < room)
			len += (size_t)snprintf(tried + len, room - len, "%s%s (%s)", i ? ", " : "",
						p, strerror(-ret));
	}
	free(c);
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
	connection_close(&c->c);
	json_decref(c->last);
	free(c);
}

void client_wait_long(struct client *c)
{
	struct timeval tv = {0}; /* no limit */

	setsockopt(c->c.fd, SOL_SOCKET, SO_RCVTIMEO, &tv, sizeof(tv));
	c->wait_long = true;
}

struct connection *client_connection(struct client *c)
{
	return &c->c;
}

int client_fd(const struct client *c)
{
	return c->c.fd;
}

/* Show progress until there is something to receive. */
static void wait_with_progress(int fd)
{
	struct pollfd p = {.fd = fd, .events = POLLIN};

	for (int half_s = 0; poll(&p, 1, 500) == 0; half_s++)
		progress_show("waiting for the server", "%d s", half_s / 2);
	progress_end();
}

static const char *why(int ret)
{
	if (ret == -EAGAIN)
		return "it does not answer; it may still execute the request later";
	return ret == -EPIPE || ret == -ECONNRESET ? "it closed the connection" : strerror(-ret);
}

/* Make all strings in @v safe to print. Returns false if a key is not safe. */
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

/* Keep @resp for client_last() if the server sent it at its end. Returns true if it was taken. */
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

/* Receive one answer into *@resp (NULL: it violates the protocol). Returns 0 or -errno. */
static int receive_answer(struct client *c, json_t **resp)
{
	int ret;

	do {
		ret = connection_receive(&c->c, c->wait_long ? wait_with_progress : NULL, resp);
		if (ret)
			return ret;
		if (*resp && !make_safe(*resp)) {
			json_decref(*resp);
			*resp = NULL;
		}
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

static bool usage_refused; /* the server rejected the command line */

int client_exit_status(int status)
{
	return status == 1 && usage_refused ? EXIT_USAGE : status;
}

/*
 * The server's errors begin with the name of a field of the request: replace it by the option or
 * argument that the user typed. Returns a malloc'd string.
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
		{"cpus: ", "-C: "},
		{"mode: ", "--mode: "},
		{"lbr: ", "-g: "},
		{"vm-add: vm/", "vm add: "},
		{"vm-add: ", "vm add: "},
		{"profile-start: ", "profile: "},
		{"lbr-attach: ", "lbr: "},
		{"name: no VM ", "no VM "},
		{"target: no ", "no "},
		{"target: ", "-t: "},
		{"file: ", "vm: FILE "},
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

/* Return true if the error @resp to request @cmd is about the command line. A damaged snapshot is
 * not. */
static bool about_usage(const json_t *resp, const char *cmd)
{
	json_int_t err = json_integer_value(json_object_get(resp, "errno"));
	const char *text = json_string_value(json_object_get(resp, "error"));

	return (err == EINVAL && strcmp(cmd, "vm-restore")) ||
	       (err == ENOENT && text && strncmp(text, "event", 5) == 0);
}

/* Explain that the server has no command @cmd, such as vpmud, which runs no VMs, and name other
 * servers. As as_typed(). */
static char *no_command(const struct client *c, const char *cmd)
{
	static const char *const of_vpmud[] = {"reload", "history", "cgroup-find", "cgroup-add"};
	const char *whose = "vpmu-vmm";
	char found[SOCKETS_FOUND];

	for (size_t i = 0; i < sizeof(of_vpmud) / sizeof(of_vpmud[0]); i++)
		if (!strcmp(cmd, of_vpmud[i]))
			whose = "vpmud";

	sockets_found(c->path, found);
	return xasprintf("the server at %s has no command \"%s\", which is one of %s%s", c->path,
			 cmd, whose, found);
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
	if (c->lost) { /* reported before; what comes now may be the answer to an earlier request */
		free(line);
		return NULL;
	}
	ret = connection_send(&c->c, line);
	if (!ret || ret == -EPIPE) /* it may have sent the reason */
		ret = receive_answer(c, &resp);
	free(line);
	if (ret) {
		c->lost = true;
		if (!c->last) /* otherwise the caller shows the server's last answers */
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

json_t *client_silent(struct client *c, const char *cmd)
{
	char *err;
	json_t *answer = client_try(c, json_pack("{s:s}", "cmd", cmd), &err);

	free(err);
	return answer;
}

json_t *client_simple(struct client *c, const char *cmd)
{
	return client_ask(c, json_pack("{s:s}", "cmd", cmd));
}
