// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The server: commands by name, and answers. The socket and its clients are in listener.c; what
 * the built-in commands do is in commands.c. An answer must always be exactly one line.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cgroup/service/commands.h"
#include "cgroup/service/listener.h"
#include "cgroup/service/request.h"
#include "vpmu/util/fail.h"

#define COMMANDS_MAX 64

struct entry {
	const char *name;
	const struct command *builtin; /* NULL: fn and arg, of server_register */
	server_fn fn;
	void *arg;
};

struct server {
	struct commands c;
	struct server_opts opts;
	struct listener *listener;
	struct entry cmd[COMMANDS_MAX];
	size_t nr_cmds;
};

static const struct entry *find_command(const struct server *s, const char *name)
{
	for (size_t i = 0; i < s->nr_cmds; i++)
		if (strcmp(s->cmd[i].name, name) == 0)
			return &s->cmd[i];
	return NULL;
}

static int add_command(struct server *s, const struct entry *e)
{
	if (find_command(s, e->name))
		return -EEXIST;
	if (s->nr_cmds == COMMANDS_MAX)
		return -ENOSPC;
	s->cmd[s->nr_cmds++] = *e;
	return 0;
}

int server_register(struct server *s, const char *cmd, server_fn fn, void *arg)
{
	struct entry e = {.name = cmd, .fn = fn, .arg = arg};

	return add_command(s, &e);
}

static int cmd_hello(void *arg, const json_t *req, json_t *resp, char *err, size_t errlen)
{
	const struct server *s = arg;
	json_t *names = json_array();
	int ret = request_fields(req, NULL, err, errlen);

	for (size_t i = 0; names && i < s->nr_cmds; i++) {
		if (json_array_append_new(names, json_string(s->cmd[i].name))) {
			json_decref(names);
			names = NULL;
		}
	}
	if (json_object_set_new(resp, "commands", names) ||
	    json_object_set_new(resp, "server", json_string(s->opts.name)) ||
	    json_object_set_new(resp, "version", json_string(VPMU_VERSION)) ||
	    json_object_set_new(resp, "protocol", json_integer(SERVER_PROTOCOL)) ||
	    json_object_set_new(resp, "pid", json_integer(getpid())))
		return fail(-ENOMEM, err, errlen, "hello: out of memory");
	return ret;
}

/* ---- answering ---------------------------------------------------------------------------- */

static char *to_line(json_t *resp)
{
	size_t len = json_dumpb(resp, NULL, 0, JSON_COMPACT);
	char *line = len ? malloc(len + 2) : NULL;

	if (!line)
		return NULL;
	if (json_dumpb(resp, line, len, JSON_COMPACT) != len) {
		free(line);
		return NULL;
	}
	line[len] = '\n';
	line[len + 1] = '\0';
	return line;
}

/* The answer's line. Drops the reference to @resp (may be NULL), keeps that to @req. */
static char *answer(int ret, const json_t *req, json_t *resp, const char *err)
{
	json_t *id = req ? json_object_get(req, "id") : NULL;
	char *line = NULL;

	if (ret) {
		json_decref(resp);
		resp = json_pack("{s:b, s:i, s:s}", "ok", 0, "errno", -ret, "error",
				 *err ? err : strerror(-ret));
	} else if (resp && json_object_set_new(resp, "ok", json_true())) {
		json_decref(resp);
		resp = NULL;
	}
	if (resp && (!id || json_object_set(resp, "id", id) == 0))
		line = to_line(resp);
	json_decref(resp);
	if (!line)
		line = strdup("{\"ok\":false,\"errno\":12,\"error\":\"answer: out of memory\"}\n");
	return line;
}

char *server_error_line(int ret, const char *text)
{
	return answer(ret, NULL, NULL, text);
}

static int run(struct server *s, const json_t *req, json_t *resp, char *err, size_t errlen)
{
	const char *name = json_string_value(json_object_get(req, "cmd"));
	const struct entry *e = find_command(s, name);

	if (!e)
		return fail(-ENOSYS, err, errlen,
			    "cmd: no command \"%s\"; one of the \"commands\" of hello is accepted",
			    name);
	return e->builtin ? e->builtin->fn(&s->c, req, resp, err, errlen)
			  : e->fn(e->arg, req, resp, err, errlen);
}

char *server_dispatch_conn(struct server *s, const void *conn, const char *line, size_t len)
{
	json_t *req = NULL, *resp = NULL;
	char err[512] = "", *text;
	int ret;

	if (len >= SERVER_LINE_MAX)
		return server_error_line(-EMSGSIZE, "request: longer than 65535 bytes; split it");
	ret = request_parse(line, len, &req, err, sizeof(err));
	if (!ret) {
		resp = json_object();
		s->c.conn = conn;
		ret = resp ? run(s, req, resp, err, sizeof(err)) : -ENOMEM;
		s->c.conn = NULL;
	}
	text = answer(ret, req, resp, err);
	json_decref(req);
	return text;
}

char *server_dispatch(struct server *s, const char *line, size_t len)
{
	return server_dispatch_conn(s, NULL, line, len);
}

bool server_conn_owns(struct server *s, const void *conn)
{
	return registry_owned(sessions_registry(s->c.sessions), conn) ||
	       registry_owned(profiles_registry(s->c.profiles), conn) ||
	       registry_owned(captures_registry(s->c.captures), conn);
}

void server_conn_closed(struct server *s, const void *conn)
{
	registry_close_owner(sessions_registry(s->c.sessions), conn);
	registry_close_owner(profiles_registry(s->c.profiles), conn);
	registry_close_owner(captures_registry(s->c.captures), conn);
}

/* ---- life --------------------------------------------------------------------------------- */

int server_create(struct tenants *ts, sd_event *ev, const struct server_opts *opts,
		  struct server **out, char *err, size_t errlen)
{
	struct server *s = calloc(1, sizeof(*s));
	int ret;

	if (!s)
		return fail(-ENOMEM, err, errlen, "socket: out of memory");
	s->opts = *opts;
	s->c.opts = &s->opts;
	s->c.ts = ts;
	ret = server_register(s, "hello", cmd_hello, s);
	for (const struct command *b = builtin_commands; b->name && !ret; b++) {
		struct entry e = {.name = b->name, .builtin = b};

		ret = add_command(s, &e);
	}
	if (!ret)
		ret = sessions_create(ts, &s->c.sessions);
	if (!ret)
		ret = profiles_create(ts, ev, &s->c.profiles);
	if (!ret)
		ret = captures_create(ts, &s->c.captures);
	if (ret) {
		fail(ret, err, errlen, "socket: %s", strerror(-ret));
		goto fail;
	}
	/* Without an event loop there are no clients: only server_dispatch is used. */
	if (ev) {
		ret = listener_create(s, ev, &s->opts, &s->listener, err, errlen);
		if (ret)
			goto fail;
	}
	*out = s;
	return 0;
fail:
	server_destroy(s);
	return ret;
}

void server_destroy(struct server *s)
{
	if (!s)
		return;
	listener_destroy(s->listener);
	captures_destroy(s->c.captures);
	profiles_destroy(s->c.profiles);
	sessions_destroy(s->c.sessions);
	free(s);
}

int server_default_path(const char *name, char *buf, size_t len)
{
	const char *xdg = getenv("XDG_RUNTIME_DIR");
	int n;

	if (geteuid() == 0)
		n = snprintf(buf, len, "/run/vpmu/%s.sock", name);
	else if (xdg && *xdg == '/')
		n = snprintf(buf, len, "%s/vpmu/%s.sock", xdg, name);
	else
		n = snprintf(buf, len, "/tmp/vpmu-%u/%s.sock", geteuid(), name);
	return n < 0 || (size_t)n >= len ? -ENAMETOOLONG : 0;
}
