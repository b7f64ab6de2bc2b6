// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * A connection to a server; see peer_link.h. Whatever comes in is hostile. Nothing may be parsed
 * that is longer or denser than an answer can be, and no function may be called twice.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "service/clock.h"
#include "service/json_memory.h"
#include "vpmud/peer_link.h"
#include "vpmud/peers.h"
#include "vpmu/util/fail.h"

#define READ_BYTES   (1 << 16)
#define READS_A_TURN 16 /* then others have their turn */

struct asked {
	struct asked *next;
	uint64_t sent_ns;
	void (*fn)(void *arg, const json_t *answer);
	void *arg;
};

struct link {
	struct link_opts o;
	int fd;
	pid_t pid;
	sd_event_source *io;
	char *out;
	size_t out_len, out_room;
	char *in;
	size_t in_len, in_room, seen; /* no newline in the first @seen bytes */
	struct asked *first, **last;
	uint64_t sent, done; /* numbers of requests; they are their ids */
	bool dead;
	char why[200];
};

/* ---- requests ------------------------------------------------------------------------------- */

static int peer_link_watch(struct link *l)
{
	return sd_event_source_set_io_events(l->io, EPOLLIN | (l->out_len ? EPOLLOUT : 0));
}

/* Append @req and a newline to what is sent. */
static int peer_link_append(struct link *l, const json_t *req)
{
	size_t len = json_dumpb(req, NULL, 0, JSON_COMPACT), need = l->out_len + len + 1;

	if (!len)
		return -ENOMEM;
	if (need > LINK_OUT_MAX)
		return -ENOBUFS;
	if (need > l->out_room) {
		char *more = realloc(l->out, need + 4096);

		if (!more)
			return -ENOMEM;
		l->out = more;
		l->out_room = need + 4096;
	}
	if (json_dumpb(req, l->out + l->out_len, len, JSON_COMPACT) != len)
		return -ENOMEM;
	l->out[l->out_len + len] = '\n';
	l->out_len = need;
	return 0;
}

int link_ask(struct link *l, json_t *req, void (*fn)(void *arg, const json_t *answer), void *arg)
{
	struct asked *a = req ? malloc(sizeof(*a)) : NULL;
	int ret = a ? 0 : -ENOMEM;

	if (!ret && (l->dead || l->sent - l->done >= LINK_ASKED_MAX))
		ret = -ENOBUFS;
	if (!ret && json_object_set_new(req, "id", json_integer((json_int_t)(l->sent + 1))))
		ret = -ENOMEM;
	if (!ret)
		ret = peer_link_append(l, req);
	json_decref(req);
	if (ret) {
		free(a);
		return ret;
	}
	*a = (struct asked){.sent_ns = now_ns(), .fn = fn, .arg = arg};
	*l->last = a;
	l->last = &a->next;
	l->sent++;
	peer_link_watch(l);
	return 0;
}

void link_fail(struct link *l, const char *fmt, ...)
{
	char text[sizeof(l->why)];
	va_list ap;

	if (l->dead)
		return;
	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	fail(0, l->why, sizeof(l->why), "%s", text);
	l->dead = true;
}

uint64_t link_sent(const struct link *l)
{
	return l->sent;
}

uint64_t link_done(const struct link *l)
{
	return l->done;
}

uint64_t link_since(const struct link *l)
{
	return l->first ? l->first->sent_ns : 0;
}

pid_t link_pid(const struct link *l)
{
	return l->pid;
}

/* ---- answers -------------------------------------------------------------------------------- */

/* An answer has at least some text for each of its values. Without this a server could make us
 * allocate many times what it sends. */
static bool dense(const char *line, size_t len)
{
	size_t n = 0;

	if (len < LINK_DENSITY_MIN)
		return false;
	for (size_t i = 0; i < len; i++)
		n += line[i] == '[' || line[i] == '{' || line[i] == ',';
	return n > len / 8;
}

static void peer_link_take_line(struct link *l, const char *line, size_t len)
{
	json_t *obj, *id;
	json_error_t je;
	struct asked *a;

	if (dense(line, len)) {
		link_fail(l, "it sends brackets instead of answers");
		return;
	}
	obj = json_memory_parse(line, len, JSON_REJECT_DUPLICATES, &je);
	if (!obj || json_memory_failed()) {
		link_fail(l, obj || json_memory_failed() ? "no memory for its answer"
							 : "what it sends is no JSON");
		goto out;
	}
	id = json_object_get(obj, "id");
	if (!json_is_boolean(json_object_get(obj, "ok"))) {
		link_fail(l, "what it sends is no answer");
	} else if (json_is_string(id) && !strcmp(json_string_value(id), "end")) {
		if (l->o.farewell)
			l->o.farewell(l->o.arg, obj);
	} else if (!l->first && !id) {
		/* An error before any request: it does not want us. */
		const char *text = json_string_value(json_object_get(obj, "error"));

		link_fail(l, "it says: %.120s", text ? text : "nothing");
	} else if (!l->first || !json_is_integer(id) ||
		   (uint64_t)json_integer_value(id) != l->done + 1) {
		link_fail(l, "it answers what was not asked");
	} else {
		a = l->first;
		l->first = a->next;
		if (!l->first)
			l->last = &l->first;
		l->done++;
		a->fn(a->arg, obj);
		free(a);
	}
out:
	json_decref(obj);
}

/* Deal with all whole lines. */
static void take_lines(struct link *l)
{
	size_t at = 0;

	while (!l->dead) {
		size_t from = at > l->seen ? at : l->seen;
		char *nl = memchr(l->in + from, '\n', l->in_len - from);

		if (!nl) {
			l->seen = l->in_len;
			break;
		}
		peer_link_take_line(l, l->in + at, (size_t)(nl - l->in) - at);
		at = (size_t)(nl - l->in) + 1;
		l->seen = at;
		if (l->o.answered)
			l->o.answered(l->o.arg);
	}
	*l->o.buffered -= l->in_len;
	l->in_len -= at;
	l->seen -= l->seen > at ? at : l->seen;
	*l->o.buffered += l->in_len;
	if (l->in_len) {
		memmove(l->in, l->in + at, l->in_len);
	} else {
		free(l->in);
		l->in = NULL;
		l->in_room = 0;
	}
}

static int peer_link_room(struct link *l)
{
	size_t want = l->in_room ? l->in_room * 2 : 2 * READ_BYTES;
	char *more;

	if (l->in_len >= PEERS_LINE_MAX || *l->o.buffered >= PEERS_BUFFER_MAX)
		return -EMSGSIZE;
	if (l->in_room - l->in_len >= READ_BYTES)
		return 0;
	more = realloc(l->in, want);
	if (!more)
		return -ENOMEM;
	l->in = more;
	l->in_room = want;
	return 0;
}

static void peer_link_receive(struct link *l)
{
	for (int i = 0; i < READS_A_TURN && !l->dead; i++) {
		int ret = peer_link_room(l);
		ssize_t n;

		if (ret) {
			link_fail(l, "its answer is longer than is accepted");
			return;
		}
		n = recv(l->fd, l->in + l->in_len, READ_BYTES, MSG_DONTWAIT);
		if (n < 0 && (errno == EAGAIN || errno == EINTR))
			return;
		if (n <= 0) {
			link_fail(l, "%s", n ? strerror(errno) : "it has ended");
			return;
		}
		l->in_len += (size_t)n;
		*l->o.buffered += (size_t)n;
		take_lines(l);
	}
}

static void peer_link_transmit(struct link *l)
{
	while (l->out_len) {
		ssize_t n = send(l->fd, l->out, l->out_len, MSG_NOSIGNAL | MSG_DONTWAIT);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EAGAIN)
			return;
		if (n < 0) {
			/* What it has said before may still be there to read. */
			l->out_len = 0;
			return;
		}
		l->out_len -= (size_t)n;
		memmove(l->out, l->out + n, l->out_len);
	}
}

static int on_io(sd_event_source *src, int fd, uint32_t revents, void *arg)
{
	struct link *l = arg;

	if (revents & EPOLLOUT)
		peer_link_transmit(l);
	if (revents & (EPOLLIN | EPOLLHUP | EPOLLERR))
		peer_link_receive(l);
	if (!l->dead && peer_link_watch(l) < 0)
		link_fail(l, "the event loop refused it");
	if (!l->dead)
		return 0;
	sd_event_source_set_enabled(l->io, SD_EVENT_OFF);
	l->o.ended(l->o.arg, l->why);
	return 0;
}

/* ---- life ----------------------------------------------------------------------------------- */

int link_fd(const struct link_opts *o, int fd, struct link **out)
{
	struct link *l = calloc(1, sizeof(*l));
	struct ucred cred = {0};
	socklen_t len = sizeof(cred);
	int ret;

	if (!l) {
		close(fd);
		return -ENOMEM;
	}
	l->o = *o;
	l->fd = fd;
	l->last = &l->first;
	if (!getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &len))
		l->pid = cred.pid;
	ret = sd_event_add_io(o->ev, &l->io, fd, EPOLLIN, on_io, l);
	if (ret < 0) {
		link_close(l);
		return ret;
	}
	*out = l;
	return 0;
}

int link_open(const struct link_opts *o, const char *path, uid_t uid, struct link **out, char *why,
	      size_t whylen)
{
	struct sockaddr_un addr = {.sun_family = AF_UNIX};
	struct ucred cred;
	socklen_t len = sizeof(cred);
	int fd, ret;

	if (strlen(path) >= sizeof(addr.sun_path))
		return fail(-ENAMETOOLONG, why, whylen, "its path is longer than 107 bytes");
	strcpy(addr.sun_path, path);
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return fail(-errno, why, whylen, "%s", strerror(errno));
	if (connect(fd, (struct sockaddr *)&addr, sizeof(addr))) {
		ret = fail(-errno, why, whylen, "%s",
			   errno == EAGAIN ? "it accepts no connection" : strerror(errno));
		close(fd);
		return ret;
	}
	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &len) || (cred.uid && cred.uid != uid)) {
		close(fd);
		return fail(-EPERM, why, whylen,
			    "a server of user %u; those of root and of user %u are asked", cred.uid,
			    uid);
	}
	ret = link_fd(o, fd, out);
	return ret ? fail(ret, why, whylen, "%s", strerror(-ret)) : 0;
}

void link_close(struct link *l)
{
	struct asked *a;

	if (!l)
		return;
	l->dead = true;
	while ((a = l->first)) {
		l->first = a->next;
		a->fn(a->arg, NULL);
		free(a);
	}
	sd_event_source_disable_unref(l->io);
	close(l->fd);
	*l->o.buffered -= l->in_len;
	free(l->in);
	free(l->out);
	free(l);
}
