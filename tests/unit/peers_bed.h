/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A host with vpmud's tree and server, and servers of vpmu-vmm that the test plays itself: each has
 * a socket, VMs whose counts the test writes, sessions on them, and faults. One thread: turn() lets
 * everybody do what it can do now.
 */
#ifndef TESTS_UNIT_PEERS_BED_H
#define TESTS_UNIT_PEERS_BED_H

#include <criterion/criterion.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "service/clock.h"
#include "service/json_memory.h"
#include "service/server.h"
#include "vpmud/peers.h"
#include "fake_backend.h"

#define VMS_MAX	      16
#define SESSIONS      32
#define CLIENTS	      16
#define WAIT_NS	      3600000000000ULL /* an hour */
#define COUNT_NS(cnt) ((cnt) + 1)      /* what the VMs of the test run for */

struct played_vm {
	char name[80], path[300], backend[16];
	unsigned int vcpus;
	uint64_t count, born; /* all, and when it was added: nothing else has run before that */
	bool gone;
};

struct played_session {
	char name[16], scope[16], target[80], events[64];
	size_t nr_events;
	uint64_t base[VMS_MAX];
	bool open, told[VMS_MAX]; /* rows of VMs that are gone */
};

struct played_client {
	int fd;
	size_t len;
	char in[65536];
	bool greeted;
};

/* A server of vpmu-vmm. */
struct played {
	char path[108];
	int listen;
	struct played_client client[CLIENTS];
	unsigned int nr_clients;
	struct played_vm vm[VMS_MAX];
	unsigned int nr_vms;
	struct played_session session[SESSIONS];
	unsigned int asked; /* requests that were answered */
	char last[4096];    /* the last request that is none of the usual */
	/* Faults: */
	bool hangs;		/* reads nothing */
	const char *name;	/* "server" of hello */
	const char *instead_of; /* of this command: */
	const char *raw;	/* this is sent instead of the answer */
	bool half;		/* answers come in two parts, the second at the next turn */
	char *rest;		/* of such an answer */
	int rest_fd;
	uint64_t back; /* taken off all counts */
};

static struct tenants *ts;
static struct fake_source kernel;
static struct peers *peers;
static struct server *srv;
static sd_event *ev;
static char bed_dir[64], sock[96], bed_log[8192];
static struct access_rules bed_access;

static inline void bed_note(void *arg, const char *line)
{
	size_t n = strlen(bed_log);

	snprintf(bed_log + n, sizeof(bed_log) - n, "%s\n", line);
}

/* ---- a played server ------------------------------------------------------------------------ */

static inline void play_begin(struct played *f, const char *name)
{
	struct sockaddr_un addr = {.sun_family = AF_UNIX};

	memset(f, 0, sizeof(*f));
	f->name = "vpmu-vmm";
	snprintf(f->path, sizeof(f->path), "%s/%s.sock", bed_dir, name);
	unlink(f->path);
	strcpy(addr.sun_path, f->path);
	f->listen = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	cr_assert_eq(bind(f->listen, (struct sockaddr *)&addr, sizeof(addr)), 0);
	cr_assert_eq(listen(f->listen, 8), 0);
}

static inline void play_end(struct played *f)
{
	for (unsigned int i = 0; i < f->nr_clients; i++)
		if (f->client[i].fd >= 0)
			close(f->client[i].fd);
	f->nr_clients = 0;
	if (f->listen > 0)
		close(f->listen);
	f->listen = 0;
	free(f->rest);
	f->rest = NULL;
	unlink(f->path);
}

static inline struct played_vm *play_vm(struct played *f, const char *name, const char *path,
					const char *backend, unsigned int vcpus)
{
	struct played_vm *v = &f->vm[f->nr_vms++];

	cr_assert_leq(f->nr_vms, VMS_MAX);
	snprintf(v->name, sizeof(v->name), "%s", name);
	snprintf(v->path, sizeof(v->path), "%s", path);
	snprintf(v->backend, sizeof(v->backend), "%s", backend);
	v->vcpus = vcpus;
	return v;
}

static inline json_t *play_list(struct played *f)
{
	json_t *nodes = json_pack("[{s:s,s:s,s:i}]", "kind", "root", "path", "/", "depth", 0);

	for (unsigned int i = 0; i < f->nr_vms; i++)
		if (!f->vm[i].gone)
			json_array_append_new(nodes,
					      json_pack("{s:s,s:s,s:s,s:i,s:s,s:s,s:i,s:[]}",
							"kind", "vm", "path", f->vm[i].path, "vm",
							f->vm[i].name, "vcpus", (int)f->vm[i].vcpus,
							"backend", f->vm[i].backend, "state",
							"running", "weight", 7, "surprise"));
	return json_pack("{s:o}", "nodes", nodes);
}

static inline json_t *play_value(const struct played_session *s, size_t e, uint64_t n)
{
	/* The second event of a session is one that the emulator has not. */
	return json_pack("{s:o,s:o,s:o,s:o,s:s,s:b}", "count",
			 json_sprintf("%llu", (unsigned long long)(e ? 0 : n)), "counter-value",
			 json_string("0"), "enabled-ns",
			 json_sprintf("%llu", (unsigned long long)(e ? 0 : COUNT_NS(n))),
			 "running-ns",
			 json_sprintf("%llu", (unsigned long long)(e ? 0 : COUNT_NS(n))), "quality",
			 "", "supported", e ? 0 : 1);
}

static inline void play_row(json_t *rows, const struct played_session *s, int id, const char *kind,
			    const char *path, const char *vm, int vcpu, const char *backend,
			    bool gone, uint64_t n)
{
	json_t *values = json_array();
	json_t *row = json_pack("{s:i,s:s,s:s,s:i,s:s,s:s*,s:b}", "row", id, "backend", backend,
				"kind", kind, "depth", 1, "path", path, "vm", vm, "gone", gone);

	for (size_t e = 0; e < s->nr_events; e++)
		json_array_append_new(values, play_value(s, e, n));
	json_object_set_new(row, "values", values);
	if (vcpu >= 0)
		json_object_set_new(row, "vcpu", json_integer(vcpu));
	json_array_append_new(rows, row);
}

static inline uint64_t play_count(const struct played *f, const struct played_session *s,
				  unsigned int i)
{
	return f->vm[i].count - s->base[i] - f->back;
}

static inline json_t *play_rows(struct played *f, struct played_session *s)
{
	json_t *rows = json_array();
	char path[300];

	for (unsigned int i = 0; i < f->nr_vms; i++) {
		const struct played_vm *v = &f->vm[i];
		uint64_t n = play_count(f, s, i), all = 0, host = 0;

		if (!strcmp(s->scope, "tenant")) {
			/* The row of each path as often as VMs are in it: each time the same. */
			for (unsigned int k = 0; k < f->nr_vms; k++) {
				bool emulator = !strcmp(f->vm[k].backend, "emulator");

				all += emulator ? play_count(f, s, k) : 0;
				host += emulator && !strcmp(f->vm[k].path, "/host")
						? play_count(f, s, k)
						: 0;
			}
			if (!i) {
				/* Of its KVM VMs: nobody's business here. */
				play_row(rows, s, 3, "root", "/", NULL, -1, "kvm", false, 777777);
				play_row(rows, s, 1, "root", "/", NULL, -1, "emulator", false, all);
				play_row(rows, s, 2, "host", "/host", NULL, -1, "emulator", false,
					 host);
			}
			if (!strcmp(v->path, "/host") || strcmp(v->backend, "emulator"))
				continue;
			snprintf(path, sizeof(path), "%s", v->path);
			for (char *slash = path; slash; slash = strrchr(path, '/')) {
				uint64_t sum = 0;
				size_t len;

				if (slash != path)
					*slash = '\0';
				len = strlen(path);
				for (unsigned int k = 0; k < f->nr_vms; k++)
					if (!strncmp(f->vm[k].path, path, len) &&
					    (!f->vm[k].path[len] || f->vm[k].path[len] == '/') &&
					    !strcmp(f->vm[k].backend, "emulator"))
						sum += play_count(f, s, k);
				play_row(rows, s, 100 + (int)len, "tenant", path, NULL, -1,
					 "emulator", false, sum);
				if (strrchr(path, '/') == path)
					break;
			}
			continue;
		}
		if (s->target[0] != '/' && strcmp(s->target, v->name))
			continue;
		if (v->gone && s->told[i])
			continue;
		s->told[i] |= v->gone;
		if (!strcmp(s->scope, "vcpu"))
			for (unsigned int c = 0; c < v->vcpus; c++)
				play_row(rows, s, 1000 + 10 * (int)i + (int)c, "vcpu", v->path,
					 v->name, (int)c, v->backend, v->gone, c ? 0 : n);
		else
			play_row(rows, s, 1000 + (int)i, "vm", v->path, v->name, -1, v->backend,
				 v->gone, n);
	}
	return json_pack("{s:o,s:s}", "rows", rows, "session", s->name);
}

static inline json_t *play_attach(struct played *f, const json_t *req)
{
	struct played_session *s = f->session;

	while (s->open)
		s++;
	memset(s, 0, sizeof(*s));
	s->open = true;
	s->nr_events = json_array_size(json_object_get(req, "events"));
	snprintf(s->name, sizeof(s->name), "@%d", (int)(s - f->session) + 1);
	snprintf(s->scope, sizeof(s->scope), "%s",
		 json_string_value(json_object_get(req, "scope")));
	snprintf(s->target, sizeof(s->target), "%s",
		 json_string_value(json_object_get(req, "target")));
	snprintf(s->events, sizeof(s->events), "%s",
		 json_string_value(json_array_get(json_object_get(req, "events"), 0)));
	for (unsigned int i = 0; i < f->nr_vms; i++) {
		s->base[i] = f->vm[i].count;
		s->told[i] = f->vm[i].gone;
	}
	return json_pack("{s:s}", "session", s->name);
}

static inline struct played_session *play_session(struct played *f, const json_t *req)
{
	const char *name = json_string_value(json_object_get(req, "session"));

	for (unsigned int i = 0; i < SESSIONS; i++)
		if (f->session[i].open && name && !strcmp(f->session[i].name, name))
			return &f->session[i];
	return NULL;
}

static inline unsigned int play_sessions(const struct played *f)
{
	unsigned int n = 0;

	for (unsigned int i = 0; i < SESSIONS; i++)
		n += f->session[i].open;
	return n;
}

static inline json_t *play_do(struct played *f, const char *cmd, const json_t *req, char **text)
{
	struct played_session *s = play_session(f, req);

	if (!strcmp(cmd, "hello"))
		return json_pack("{s:s,s:i}", "server", f->name, "protocol", SERVER_PROTOCOL);
	if (!strcmp(cmd, "list"))
		return play_list(f);
	if (!strcmp(cmd, "sharing"))
		return json_pack("{s:[{s:s,s:i,s:i,s:i,s:s}]}", "backends", "backend", "emulator",
				 "consumers", 5, "keys", 3, "host-counters", 4, "refused", "2");
	if (!strcmp(cmd, "attach"))
		return play_attach(f, req);
	if (!strcmp(cmd, "read") && s)
		return play_rows(f, s);
	if (!strcmp(cmd, "detach") && s) {
		s->open = false;
		return play_rows(f, s);
	}
	if (!strcmp(cmd, "conservation"))
		return json_pack("{s:[{s:s,s:i,s:s,s:s,s:s}]}", "rows", "backend", "emulator",
				 "pcpu", 1, "event", f->name, "hardware", "18446744073709551615",
				 "charged", "7");
	*text = json_dumps(req, JSON_COMPACT | JSON_SORT_KEYS);
	snprintf(f->last, sizeof(f->last), "%s", *text);
	free(*text);
	*text = NULL;
	if (!strcmp(cmd, "vm-remove")) {
		for (unsigned int i = 0; i < f->nr_vms; i++)
			f->vm[i].gone |= !strcmp(f->vm[i].name,
						 json_string_value(json_object_get(req, "name")));
		return json_object();
	}
	if (!strcmp(cmd, "lbr-read"))
		return json_pack("{s:[{s:O,s:i}]}", "rows", "vm", json_object_get(req, "target"),
				 "vcpu", 0);
	if (!strcmp(cmd, "console-read"))
		return json_pack("{s:[s],s:s}", "lines", "hello", "next", "6");
	if (!strcmp(cmd, "pause"))
		return json_object();
	*text = strdup("no such session");
	return NULL;
}

static inline void play_send(struct played *f, int fd, const char *text)
{
	size_t len = strlen(text), half = f->half ? len / 2 : len;

	while (half) {
		ssize_t n = send(fd, text, half, MSG_NOSIGNAL | MSG_DONTWAIT);

		if (n < 0 && errno != EAGAIN)
			return;
		if (n < 0) { /* who reads is in this thread */
			sd_event_run(ev, 0);
			continue;
		}
		text += n;
		half -= (size_t)n;
	}
	if (*text) {
		f->rest = strdup(text);
		f->rest_fd = fd;
	}
}

static inline void play_line(struct played *f, int fd, const char *line, size_t len)
{
	json_t *req = json_loadb(line, len, 0, NULL), *resp;
	const char *cmd = json_string_value(json_object_get(req, "cmd"));
	char *text = NULL, *out, *with_newline;

	cr_assert(cmd, "vpmud asked: %.*s", (int)len, line);
	f->asked++;
	if (f->instead_of && (!strcmp(f->instead_of, cmd) || !strcmp(f->instead_of, "*"))) {
		play_send(f, fd, f->raw);
		json_decref(req);
		return;
	}
	resp = play_do(f, cmd, req, &text);
	if (resp)
		json_object_set_new(resp, "ok", json_true());
	else
		resp = json_pack("{s:b,s:i,s:s}", "ok", 0, "errno", 2, "error", text);
	json_object_set(resp, "id", json_object_get(req, "id"));
	out = json_dumps(resp, JSON_COMPACT);
	cr_assert_geq(asprintf(&with_newline, "%s\n", out), 0);
	play_send(f, fd, with_newline);
	free(with_newline);
	free(out);
	free(text);
	json_decref(resp);
	json_decref(req);
}

static inline void play(struct played *f)
{
	int fd;

	if (f->hangs || !f->listen)
		return;
	while ((fd = accept4(f->listen, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC)) >= 0) {
		cr_assert_lt(f->nr_clients, CLIENTS);
		f->client[f->nr_clients].fd = fd;
		f->client[f->nr_clients++].len = 0;
	}
	if (f->rest) {
		send(f->rest_fd, f->rest, strlen(f->rest), MSG_NOSIGNAL | MSG_DONTWAIT);
		free(f->rest);
		f->rest = NULL;
	}
	for (unsigned int i = 0; i < f->nr_clients; i++) {
		struct played_client *c = &f->client[i];
		ssize_t n;
		char *nl;

		if (c->fd < 0)
			continue;
		n = recv(c->fd, c->in + c->len, sizeof(c->in) - c->len, 0);
		c->len += n > 0 ? (size_t)n : 0;
		while (!f->rest && (nl = memchr(c->in, '\n', c->len))) {
			size_t len = (size_t)(nl - c->in);

			play_line(f, c->fd, c->in, len);
			c->len -= len + 1;
			memmove(c->in, nl + 1, c->len);
		}
		if (!n && !c->len) {
			close(c->fd);
			*c = f->client[--f->nr_clients];
			i--;
		}
	}
}

#endif
