// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The server: commands by name, and answers. The socket and its clients are in listener.c, the
 * built-in commands in commands.c. An answer must always be exactly one line.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "service/clock.h"
#include "service/commands.h"
#include "service/json_memory.h"
#include "service/listener.h"
#include "service/program/memory.h"
#include "service/request.h"
#include "vpmu/util/fail.h"

#define COMMANDS_MAX 64

struct entry {
	const char *name;
	const struct command *builtin; /* NULL: fn and arg, of server_register */
	server_fn *fn;
	void *arg;
	enum command_for who;
};

/* A request that waits, and its client with it. */
struct later {
	struct server *s;
	const struct access *who;
	json_t *req;
	void (*lost)(void *arg);
	void *arg;
};

struct server {
	struct commands c;
	struct server_opts opts;
	struct listener *listener;
	sd_event_source *lost_timer; /* armed while a lost session is kept */
	struct entry cmd[COMMANDS_MAX];
	size_t nr_cmds;
	/* from server_then, for the current request; NULL: nothing */
	void (*then)(bool ok, void *arg);
	void *then_arg;
	json_t *may_wait;    /* the current request, if it may wait */
	struct later *later; /* not NULL: the current request waits */
	uint64_t started_us;
	bool leaving; /* server_leave: sessions with a name stay */
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

int server_register(struct server *s, const char *cmd, server_fn *fn, void *arg)
{
	struct entry e = {.name = cmd, .fn = fn, .arg = arg};

	return add_command(s, &e);
}

int server_history(struct server *s, struct history *h)
{
	static const char *const fields[] = {"since",  "until",	 "target", "scope",
					     "events", "points", NULL};
	static const struct command history = {"history", cmd_history, FOR_READERS, fields};
	struct entry e = {.name = history.name, .builtin = &history, .who = history.who};

	s->c.history = h;
	return add_command(s, &e);
}

void server_then(struct server *s, void (*then)(bool ok, void *arg), void *arg)
{
	s->then = then;
	s->then_arg = arg;
}

static bool may(const struct access *who, const struct entry *e)
{
	return access_admin(who) || e->who == FOR_READERS ||
	       (e->who == FOR_ALL_SEEING && access_all(who));
}

static int cmd_hello(void *arg, const json_t *req, json_t *resp, char *err, size_t errlen)
{
	const struct server *s = arg;
	json_t *names = json_array();
	int ret = request_fields(req, NULL, err, errlen);

	for (size_t i = 0; i < s->nr_cmds; i++)
		if (may(s->c.who, &s->cmd[i]))
			json_array_append_new(names, json_string(s->cmd[i].name));
	json_object_set_new(resp, "commands", names);
	json_object_set_new(resp, "server", json_string(s->opts.name));
	json_object_set_new(resp, "version", json_string(VPMU_VERSION));
	json_object_set_new(resp, "protocol", json_integer(SERVER_PROTOCOL));
	json_object_set_new(resp, "access",
			    json_string(access_admin(s->c.who) ? "admin" : "reader"));
	json_object_set_new(resp, "pid", json_integer(getpid()));
	json_object_set_new(resp, "started-us", json_u64(s->started_us));
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

/* Serialize @resp to the answer's line, with the id of @req (may be NULL). Returns NULL if out of
 * memory. */
static char *service_server_answer(const json_t *req, json_t *resp)
{
	json_t *id = req ? json_object_get(req, "id") : NULL;
	char *line = NULL;

	if (resp && (!id || json_object_set(resp, "id", id) == 0))
		line = to_line(resp);
	if (json_memory_failed()) {
		free(line);
		line = NULL;
	}
	return line;
}

/* Put the text that the command wrote in front of @line. Returns NULL if out of memory. */
static char *with_text(struct json_text *t, char *line)
{
	char *whole = NULL;

	if (!line || (!t->text && !t->failed))
		return line;
	/* The text starts with the object's bracket: skip that of the line. */
	json_text_add(t, line + 1);
	if (json_text_ok(t)) {
		whole = t->text;
		*t = (struct json_text){0};
	}
	free(line);
	return whole;
}

/* Returns NULL if jansson has failed since json_memory_begin. */
static char *error_answer(int ret, const json_t *req, const char *text)
{
	json_t *resp = json_pack("{s:b, s:i, s:s}", "ok", 0, "errno", -ret, "error",
				 *text ? text : strerror(-ret));
	char *line = service_server_answer(req, resp);

	json_decref(resp);
	return line;
}

static char *oom_line(void)
{
	return strdup("{\"ok\":false,\"errno\":12,\"error\":\"request: out of memory\"}\n");
}

char *server_error_line(int ret, const char *text)
{
	char *line;

	json_memory_begin();
	line = error_answer(ret, NULL, text);
	return line ? line : oom_line();
}

static int server_run(struct server *s, const json_t *req, json_t *resp, char *err, size_t errlen)
{
	const char *name = json_string_value(json_object_get(req, "cmd"));
	const struct entry *e = find_command(s, name);
	int ret;

	if (!e)
		return fail(-ENOSYS, err, errlen,
			    "cmd: no command \"%s\"; expected one of the \"commands\" of hello",
			    name);
	if (!may(s->c.who, e))
		return fail(-EACCES, err, errlen, "%s: %s", name,
			    e->who == FOR_ADMINS ? "for administrators only"
						 : "only for administrators");
	if (!e->builtin)
		return e->fn(e->arg, req, resp, err, errlen);
	ret = request_fields(req, e->builtin->fields, err, errlen);
	return ret ? ret : e->builtin->fn(&s->c, req, resp, err, errlen);
}

/* ---- requests that wait --------------------------------------------------------------------- */

struct later *server_wait(struct server *s, void (*lost)(void *arg), void *arg)
{
	struct later *l = s->may_wait ? calloc(1, sizeof(*l)) : NULL;

	if (!l)
		return NULL;
	*l = (struct later){.s = s, .who = s->c.who, .lost = lost, .arg = arg};
	l->req = json_incref(s->may_wait);
	s->may_wait = NULL;
	s->later = l;
	return l;
}

static void later_free(struct later *l)
{
	if (!l)
		return;
	json_decref(l->req);
	free(l);
}

void server_forget(struct later *l)
{
	l->lost(l->arg);
	later_free(l);
}

/* ---- requests ------------------------------------------------------------------------------- */

/* Run the command of @req and return its answer's line; NULL: it waits, or out of memory. */
static char *run_and_answer(struct server *s, const json_t *req)
{
	json_t *resp = json_object();
	char err[512] = "", *text = NULL;
	int ret = resp ? server_run(s, req, resp, err, sizeof(err)) : -ENOMEM;

	if (!ret && s->later) {
		json_decref(resp);
		return NULL;
	}
	later_free(s->later);
	s->later = NULL;
	if (!ret && !json_object_set_new(resp, "ok", json_true()))
		text = with_text(&s->c.text, service_server_answer(req, resp));
	json_text_free(&s->c.text);
	/* Without an answer line the client cannot know: undo the command, or do not do it. */
	if (!ret && s->then)
		s->then(text != NULL, s->then_arg);
	if (!ret && s->opts.done)
		s->opts.done(s->opts.arg);
	if (ret && !json_memory_failed())
		text = error_answer(ret, req, err);
	s->then = NULL;
	json_decref(resp);
	return text;
}

/*
 * Run the command of @req. The out-of-memory answer is built first, while there is memory for it.
 * @later: as server_dispatch_conn.
 */
static char *perform(struct server *s, const struct access *who, json_t *req, struct later **later)
{
	char *oom = error_answer(-ENOMEM, req, "request: out of memory"), *text = NULL;

	if (oom) {
		s->c.who = who;
		s->may_wait = later ? req : NULL;
		text = run_and_answer(s, req);
		s->may_wait = NULL;
		s->c.who = NULL;
	}
	if (!text && !s->later)
		return oom ? oom : oom_line();
	if (later)
		*later = s->later;
	s->later = NULL;
	free(oom);
	return text;
}

void server_go_on(struct later *l, int ret, const char *err)
{
	char *text;

	json_memory_begin();
	text = ret ? error_answer(ret, l->req, err) : perform(l->s, l->who, l->req, NULL);
	listener_answer(l->s->listener, l, text ? text : oom_line());
	later_free(l);
}

/* A request that jansson could not parse completely is not run, and an answer that it could not
 * hold completely is not sent. */
char *server_dispatch_conn(struct server *s, const struct access *who, const char *line, size_t len,
			   struct later **later)
{
	char err[512] = "", *text = NULL;
	json_t *req = NULL;
	int ret;

	if (len >= SERVER_LINE_MAX)
		return server_error_line(-EMSGSIZE, "request: longer than 65535 bytes; split it");
	ret = request_parse(line, len, &req, err, sizeof(err));
	if (ret) {
		text = error_answer(ret, NULL, err);
		return text ? text : oom_line();
	}
	text = perform(s, who, req, later);
	json_decref(req);
	return text;
}

char *server_dispatch(struct server *s, const char *line, size_t len)
{
	return server_dispatch_conn(s, NULL, line, len, NULL);
}

char *server_last_words(struct server *s, const struct access *conn)
{
	struct registered *e = registry_owned(sessions_registry(s->c.sessions), conn);
	bool stays = e && s->leaving && e->name[0] != '@';
	char line[REGISTRY_NAME_MAX + 64], *answer;
	int len;

	if (!e)
		return NULL;
	len = snprintf(line, sizeof(line), "{\"cmd\":\"%s\",\"session\":\"%s\",\"id\":\"end\"}",
		       stays ? "read" : "detach", e->name);
	answer = server_dispatch_conn(s, conn, line, (size_t)len, NULL);
	if (stays)
		registry_lose(e);
	return answer;
}

/* Close lost sessions that are due, and rearm for the next one. */
static int on_lost_timer(sd_event_source *src, uint64_t usec, void *arg)
{
	struct server *s = arg;
	uint64_t left = registry_expire(sessions_registry(s->c.sessions));
	int ret;

	if (!left)
		return sd_event_source_set_enabled(src, SD_EVENT_OFF);
	ret = sd_event_source_set_time(src, (now_ns() + left) / 1000 + 1);
	return ret < 0 ? ret : sd_event_source_set_enabled(src, SD_EVENT_ONESHOT);
}

bool server_conn_owns(struct server *s, const void *conn)
{
	return registry_owned(sessions_registry(s->c.sessions), conn) ||
	       registry_owned(profiles_registry(s->c.profiles), conn) ||
	       registry_owned(captures_registry(s->c.captures), conn);
}

void server_conn_closed(struct server *s, const void *conn)
{
	registry_owner_lost(sessions_registry(s->c.sessions), conn);
	registry_owner_lost(profiles_registry(s->c.profiles), conn);
	registry_owner_lost(captures_registry(s->c.captures), conn);
	if (s->lost_timer)
		on_lost_timer(s->lost_timer, 0, s);
}

/* ---- life --------------------------------------------------------------------------------- */

int server_create(struct tenants *ts, sd_event *ev, const struct server_opts *opts,
		  struct server **out, char *err, size_t errlen)
{
	struct server *s = xcalloc(1, sizeof(*s));
	const struct entry hello = {.name = "hello", .fn = cmd_hello, .arg = s, .who = FOR_READERS};
	int ret;

	json_memory_init();
	s->opts = *opts;
	s->started_us = realtime_us();
	s->c.server = s;
	s->c.opts = &s->opts;
	s->c.ts = ts;
	s->c.sessions = sessions_create(ts);
	ret = add_command(s, &hello);
	for (const struct command *b = builtin_commands; b->name && !ret; b++) {
		struct entry e = {.name = b->name, .builtin = b, .who = b->who};

		ret = add_command(s, &e);
	}
	if (!ret)
		ret = profiles_create(ts, ev, &s->c.profiles);
	if (!ret)
		s->c.captures = captures_create(ts);
	if (ret) {
		fail(ret, err, errlen, "socket: %s", strerror(-ret));
		goto fail;
	}
	sessions_registry(s->c.sessions)->keep_lost_ns =
		(opts->lost_sec ? opts->lost_sec : SERVER_LOST_SEC) * 1000000000ULL;
	/* Without an event loop there are no clients: only server_dispatch is used. */
	if (ev) {
		ret = sd_event_add_time(ev, &s->lost_timer, CLOCK_MONOTONIC, 0, 0, on_lost_timer,
					s);
		if (ret < 0) {
			fail(ret, err, errlen, "socket: event loop: %s", strerror(-ret));
			goto fail;
		}
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
	sd_event_source_disable_unref(s->lost_timer);
	captures_destroy(s->c.captures);
	profiles_destroy(s->c.profiles);
	sessions_destroy(s->c.sessions);
	free(s);
}

struct sessions *server_sessions(struct server *s)
{
	return s->c.sessions;
}

void server_leave(struct server *s)
{
	s->leaving = true;
	listener_destroy(s->listener);
	s->listener = NULL;
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
