// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The clients of the control socket and their buffers. server.c creates one listener; sd-event
 * calls it on the control thread. It must never wait for a client, except for FAREWELL_MS at the
 * end.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "vpmu/util/fail.h"
#include "service/clock.h"
#include "service/listener.h"
#include "service/program/memory.h"
#include "service/socket_file.h"

#define FAREWELL_MS 2000 /* limit of the wait for all clients together when the server ends */

struct client {
	struct listener *l;
	struct client *next;
	int fd;
	struct access who;   /* its rights; the address is the connection's identity */
	sd_event_source *io; /* the socket */
	/* Enabled while a whole line is buffered. A timer that is due: libsystemd dispatches a
	 * defer source that is enabled again before all others, so pipelined requests would be
	 * answered before those of other clients. */
	sd_event_source *work;
	sd_event_source *timer; /* armed while an answer waits */
	struct later *later;	/* its request waits, or NULL */
	char *out;		/* the answer being written, or NULL */
	size_t out_len, out_done;
	size_t in_len;
	uint64_t active_ns; /* now_ns: when it last sent something or read a part of its answer */
	bool eof;	    /* the client sends nothing more */
	bool close;	    /* close once its answer is written */
	char in[SERVER_LINE_MAX];
};

struct listener {
	struct server *s;
	sd_event *ev;
	const struct server_opts *opts;
	struct socket_file file;
	int reserve_fd; /* closed for a moment, if no descriptor is left, to accept a client and
			 * refuse it */
	sd_event_source *io;
	struct client *clients;
};

static void listener_client_close(struct client *c)
{
	struct listener *l = c->l;
	struct client **link = &l->clients;

	while (*link != c)
		link = &(*link)->next;
	*link = c->next;
	if (c->later)
		server_forget(c->later);
	server_conn_closed(l->s, &c->who);
	sd_event_source_disable_unref(c->io);
	sd_event_source_disable_unref(c->work);
	sd_event_source_disable_unref(c->timer);
	close(c->fd);
	free(c->out);
	free(c);
}

static void client_drop(struct client *c, const char *why)
{
	const struct server_opts *o = c->l->opts;
	struct ucred cred = {.pid = 0};
	socklen_t len = sizeof(cred);
	char line[160];

	getsockopt(c->fd, SOL_SOCKET, SO_PEERCRED, &cred, &len);
	snprintf(line, sizeof(line), "socket: client with pid %d dropped: %s", cred.pid, why);
	if (o->log)
		o->log(line, o->arg);
	listener_client_close(c);
}

static uint64_t slow_us(const struct listener *l)
{
	return (l->opts->slow_sec ? l->opts->slow_sec : SERVER_SLOW_SEC) * 1000000ULL;
}

/* Restart the timeout: the client has read something, or a new answer is pending. Not from the
 * loop's time, which is that of its last wait: the server may have worked since. */
static void rearm(struct client *c)
{
	sd_event_source_set_time(c->timer, now_ns() / 1000 + slow_us(c->l));
}

/* Returns true if there is room for an answer of @len bytes to @c beside those that clients have
 * not read yet. One user must not use up the room of others; a long answer fits when it is alone.
 */
static bool answer_fits(const struct client *c, size_t len)
{
	static const size_t max[NR_POOLS] = {SERVER_PENDING_USER, SERVER_PENDING_TENANT,
					     SERVER_PENDING_READERS, SERVER_PENDING_OTHERS,
					     SERVER_PENDING_MAX};

	for (int p = 0; p < NR_POOLS; p++) {
		const enum access_pool pool = (enum access_pool)p;
		size_t sum = 0;

		for (const struct client *o = c->l->clients; o; o = o->next)
			sum += access_pooled(pool, &c->who, &o->who) ? o->out_len : 0;
		if (sum && sum + len > max[p] && access_pooled(pool, &c->who, &c->who))
			return false;
	}
	return true;
}

/* Start writing the answer @line (malloc'd; NULL: no memory). */
static void set_answer(struct client *c, char *line)
{
	size_t len = line ? strlen(line) : 0;

	if (!answer_fits(c, len)) {
		free(line);
		line = server_error_line(
			-EAGAIN, "answer: other clients have not read theirs; ask again later");
		len = line ? strlen(line) : 0;
	}
	c->out = line;
	c->out_len = len;
	c->out_done = 0;
	rearm(c);
	if (!line) /* no memory even for the error */
		c->close = true;
}

/* Watch the socket for the events that the client's state needs. While a buffered line waits for
 * its turn the socket is not watched, so the request is done even if the client has gone. */
static int client_wait(struct client *c)
{
	bool line = !c->later && memchr(c->in, '\n', c->in_len) != NULL;
	/* While its request waits, only a hangup matters. */
	int ret = sd_event_source_set_io_events(c->io, c->later ? 0 : c->out ? EPOLLOUT : EPOLLIN);

	if (ret >= 0)
		ret = sd_event_source_set_enabled(c->io,
						  c->out || !line ? SD_EVENT_ON : SD_EVENT_OFF);
	if (ret >= 0)
		ret = sd_event_source_set_enabled(c->work, !c->out && line ? SD_EVENT_ONESHOT
									   : SD_EVENT_OFF);
	if (ret >= 0)
		ret = sd_event_source_set_enabled(c->timer,
						  c->out ? SD_EVENT_ONESHOT : SD_EVENT_OFF);
	return ret;
}

/* Write as much as the socket takes. Returns false if the client is gone. */
static bool client_write(struct client *c)
{
	while (c->out && c->out_done < c->out_len) {
		ssize_t n = send(c->fd, c->out + c->out_done, c->out_len - c->out_done,
				 MSG_NOSIGNAL | MSG_DONTWAIT);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EAGAIN)
			return true;
		if (n < 0) {
			listener_client_close(c);
			return false;
		}
		c->out_done += (size_t)n;
		c->active_ns = now_ns();
		rearm(c);
	}
	free(c->out);
	c->out = NULL;
	c->out_len = 0;
	return true;
}

/* After every change of the client: write, then choose the events to wait for. */
static void client_go_on(struct client *c)
{
	if (!client_write(c))
		return;
	if (!c->out && !c->later && (c->close || (c->eof && !memchr(c->in, '\n', c->in_len)))) {
		listener_client_close(c);
		return;
	}
	if (client_wait(c) < 0)
		client_drop(c, "the event loop refused it");
}

static int on_work(sd_event_source *src, uint64_t usec, void *arg)
{
	struct client *c = arg;
	char *nl = memchr(c->in, '\n', c->in_len);
	size_t len;
	char *line;

	if (!nl || c->out || c->later)
		return 0;
	len = (size_t)(nl - c->in);
	line = server_dispatch_conn(c->l->s, &c->who, c->in, len, &c->later);
	if (!c->later)
		set_answer(c, line);
	c->in_len -= len + 1;
	memmove(c->in, nl + 1, c->in_len);
	client_go_on(c);
	return 0;
}

void listener_answer(struct listener *l, const struct later *later, char *line)
{
	struct client *c = l->clients;

	while (c->later != later)
		c = c->next;
	c->later = NULL;
	c->active_ns = now_ns(); /* the server was slow, not the client */
	set_answer(c, line);
	client_go_on(c);
}

static void client_read(struct client *c)
{
	ssize_t n = recv(c->fd, c->in + c->in_len, sizeof(c->in) - c->in_len, MSG_DONTWAIT);

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n < 0) {
		listener_client_close(c);
		return;
	}
	if (n == 0)
		c->eof = true;
	else
		c->active_ns = now_ns();
	c->in_len += (size_t)n;
	if (c->in_len == sizeof(c->in) && !memchr(c->in, '\n', c->in_len)) {
		c->in_len = 0;
		c->close = true;
		set_answer(c,
			   server_error_line(
				   -EMSGSIZE,
				   "request: longer than 65535 bytes; expected up to 65535 bytes"));
	}
	client_go_on(c);
}

static int on_client(sd_event_source *src, int fd, uint32_t revents, void *arg)
{
	struct client *c = arg;

	if (c->later) {
		if (revents & (EPOLLERR | EPOLLHUP))
			listener_client_close(c);
	} else if (c->out) {
		if (revents & (EPOLLERR | EPOLLHUP))
			listener_client_close(c); /* nothing can read the answer any more */
		else
			client_go_on(c);
	} else if (revents & EPOLLIN) {
		client_read(c);
	} else if (revents & (EPOLLERR | EPOLLHUP)) {
		listener_client_close(c);
	}
	return 0;
}

/* The server may have been too busy to notice that the client reads: drop it only if its socket
 * takes nothing more. */
static int on_slow(sd_event_source *src, uint64_t usec, void *arg)
{
	struct client *c = arg;
	size_t done = c->out_done;

	if (!client_write(c))
		return 0;
	if (c->out && c->out_done == done)
		client_drop(c, "it does not read its answer");
	else
		client_go_on(c);
	return 0;
}

static void listener_refuse(int fd, int error, const char *text)
{
	char *line = server_error_line(error, text);

	if (line)
		send(fd, line, strlen(line), MSG_NOSIGNAL | MSG_DONTWAIT);
	free(line);
	close(fd);
}

static const unsigned int clients_max[NR_POOLS] = {SERVER_CLIENTS_USER, SERVER_CLIENTS_TENANT,
						   SERVER_CLIENTS_READERS, SERVER_CLIENTS_OTHERS,
						   SERVER_CLIENTS_MAX};

/* The pool without room for a client @who, or NR_POOLS. */
static enum access_pool pool_full(const struct listener *l, const struct access *who)
{
	unsigned int nr[NR_POOLS] = {0};

	for (const struct client *c = l->clients; c; c = c->next)
		access_count(nr, who, &c->who);
	return access_full(nr, clients_max);
}

/* The client to close so that @who fits, if @pool is full: it is in that pool, has no answer
 * pending and owns nothing, and has been idle longest, but not less than SERVER_IDLE_MS. NULL:
 * there is none. */
static struct client *longest_idle(const struct listener *l, enum access_pool pool,
				   const struct access *who)
{
	uint64_t latest = now_ns() - SERVER_IDLE_MS * 1000000ULL;
	struct client *idle = NULL;

	for (struct client *c = l->clients; c; c = c->next) {
		if (!access_pooled(pool, who, &c->who) || c->out || c->later ||
		    c->active_ns > (idle ? idle->active_ns : latest) ||
		    memchr(c->in, '\n', c->in_len) || server_conn_owns(l->s, &c->who))
			continue;
		idle = c;
	}
	return idle;
}

/* Idle connections must not lock the operator out, nor one user's lock out other users. Returns the
 * pool that stays full, or NR_POOLS. */
static enum access_pool listener_make_room(const struct listener *l, const struct access *who)
{
	enum access_pool full;
	struct client *c;

	while ((full = pool_full(l, who)) != NR_POOLS) {
		c = longest_idle(l, full, who);
		if (!c)
			break;
		client_drop(c, "too many clients, and it was idle for longest");
	}
	return full;
}

static void refuse_full(int fd, enum access_pool full)
{
	char text[120];

	if (full == POOL_USER)
		snprintf(text, sizeof(text),
			 "socket: you have %d connections, which is the limit; close one",
			 SERVER_CLIENTS_USER);
	else
		snprintf(text, sizeof(text), "socket: too many clients%s; try again later",
			 full == POOL_TENANT ? " of your tenants' users" : "");
	listener_refuse(fd, -EBUSY, text);
}

static int on_accept(sd_event_source *src, int listen_fd, uint32_t revents, void *arg)
{
	struct listener *l = arg;
	enum access_pool full;
	struct access who;
	struct client *c;
	int fd;

	if (l->reserve_fd < 0) /* a thread has taken it, or the limit was lowered */
		l->reserve_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
	fd = accept4(listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	if (fd < 0) {
		/* No descriptor is left. The client would stay in the backlog and wake the loop
		 * forever, so close the reserve, accept the client, and refuse it. */
		if ((errno == EMFILE || errno == ENFILE) && l->reserve_fd >= 0) {
			close(l->reserve_fd);
			fd = accept4(listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
			if (fd >= 0)
				listener_refuse(fd, -EMFILE,
						"socket: the server has no file descriptor left; "
						"raise its limit (ulimit -n), or try again later");
			l->reserve_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
		}
		return 0;
	}
	if (access_of(l->opts->access, fd, &who)) {
		listener_refuse(fd, -EACCES,
				"socket: you are in no group that may use this server");
		return 0;
	}
	full = listener_make_room(l, &who);
	if (full != NR_POOLS) {
		refuse_full(fd, full);
		return 0;
	}
	c = calloc(1, sizeof(*c));
	if (!c) {
		listener_refuse(fd, -ENOMEM, "socket: out of memory; try again later");
		return 0;
	}
	c->l = l;
	c->fd = fd;
	c->who = who;
	c->active_ns = now_ns();
	c->next = l->clients;
	l->clients = c;
	if (sd_event_add_io(l->ev, &c->io, fd, EPOLLIN, on_client, c) < 0 ||
	    sd_event_add_time(l->ev, &c->work, CLOCK_MONOTONIC, 0, 1, on_work, c) < 0 ||
	    sd_event_source_set_enabled(c->work, SD_EVENT_OFF) < 0 ||
	    sd_event_add_time_relative(l->ev, &c->timer, CLOCK_MONOTONIC, slow_us(l), 100000,
				       on_slow, c) < 0 ||
	    sd_event_source_set_enabled(c->timer, SD_EVENT_OFF) < 0)
		client_drop(c, "the event loop refused it");
	return 0;
}

int listener_create(struct server *s, sd_event *ev, const struct server_opts *opts,
		    struct listener **out, char *err, size_t errlen)
{
	struct listener *l = xcalloc(1, sizeof(*l));
	mode_t mode;
	gid_t gid;
	int ret;

	l->s = s;
	l->ev = sd_event_ref(ev);
	l->opts = opts;
	l->file.fd = -1;
	mode = access_socket(opts->access, &gid);
	l->reserve_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
	if (opts->listen_fd)
		ret = socket_file_take(&l->file, opts->listen_fd, opts->path, err, errlen);
	else
		ret = socket_file_make(&l->file, opts->path, opts->own_dir, mode, gid, err, errlen);
	if (!ret) {
		ret = sd_event_add_io(ev, &l->io, l->file.fd, EPOLLIN, on_accept, l);
		if (ret < 0)
			fail(ret, err, errlen, "socket %s: event loop: %s", opts->path,
			     strerror(-ret));
	}
	if (ret < 0) {
		listener_destroy(l);
		return ret;
	}
	*out = l;
	return 0;
}

/* Send @c the final counts of its sessions. Waits for a slow reader until @deadline_ns. */
static void say_farewell(struct client *c, uint64_t deadline_ns)
{
	if (c->later)
		server_forget(c->later);
	c->later = NULL;
	while (!c->close) {
		struct pollfd p = {.fd = c->fd, .events = POLLOUT};
		char *line = c->out ? NULL : server_last_words(c->l->s, &c->who);
		uint64_t now = now_ns();

		if (line)
			set_answer(c, line);
		if (!c->out || now >= deadline_ns ||
		    poll(&p, 1, (int)((deadline_ns - now) / 1000000)) != 1 || !client_write(c))
			return;
	}
}

void listener_destroy(struct listener *l)
{
	uint64_t deadline_ns = now_ns() + FAREWELL_MS * 1000000ULL;

	if (!l)
		return;
	for (struct client *c = l->clients, *next; c; c = next) {
		next = c->next;
		say_farewell(c, deadline_ns);
	}
	while (l->clients)
		listener_client_close(l->clients);
	sd_event_source_disable_unref(l->io);
	socket_file_close(&l->file, l->opts->path);
	if (l->reserve_fd >= 0)
		close(l->reserve_fd);
	sd_event_unref(l->ev);
	free(l);
}
