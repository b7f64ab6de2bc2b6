// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Serves the metrics and the live page over HTTP, with libmicrohttpd on one thread; see http.h.
 * main.c calls it. Clients may be slow, broken and many: each is limited in memory and time, and
 * the server is queried no more than once a second. Connections are accepted here, because
 * libmicrohttpd stops listening when there are too many: a new connection must always be accepted,
 * and replaces an old one.
 */
#include <errno.h>
#include <fcntl.h>
#include <microhttpd.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "exporter/http.h"
#include "exporter/users.h"
#include "service/clock.h"
#include "service/program/memory.h"
#include "vpmu/util/fail.h"

#define SEC   1000000000ULL
#define REALM "vpmu"

struct conn {
	struct conn *next, **back;
	int fd;
	uint64_t since_ns; /* when it began, or its last answer ended */
	uint64_t reads;	   /* serial of the text it is reading; 0: none */
	bool cut;	   /* shut down; libmicrohttpd has yet to close it */
};

enum code { C200, C400, C401, C404, C405, C413, C429, C503, CODES };
static const unsigned int code_number[CODES] = {200, 400, 401, 404, 405, 413, 429, 503};

struct http {
	const struct http_opts *o;
	struct MHD_Daemon *mhd;
	struct MHD_Response *small[CODES], *index;
	struct texts texts;
	struct conn *conns;	       /* newest first */
	unsigned int nr_conns, nr_cut; /* all; those with @cut */
	uint64_t requests[CODES], cut;
};

static void conn_cut(struct http *h, struct conn *c)
{
	if (c->cut)
		return;
	shutdown(c->fd, SHUT_RDWR);
	c->cut = true;
	h->nr_cut++;
	h->cut++;
}

/* ---- texts ---------------------------------------------------------------------------------- */

/* Write the counts, then this process's own metrics. */
static int write_text(void *arg, struct expo *e)
{
	const struct http *h = arg;
	char label[32];
	int ret = h->o->render(h->o->arg, e);

	if (ret || e->form == EXPO_JSON)
		return ret;
	expo_family(e, "vpmu_http_requests", EXPO_COUNTER, NULL,
		    "HTTP requests that were answered.");
	for (int i = 0; i < CODES; i++) {
		snprintf(label, sizeof(label), "code=\"%u\"", code_number[i]);
		expo_u64(e, label, h->requests[i], 0);
	}
	expo_family(e, "vpmu_http_connections_cut", EXPO_COUNTER, NULL,
		    "HTTP connections that were ended because they were slow or silent.");
	expo_u64(e, "", h->cut, 0);
	expo_family(e, "vpmu_http_connections", EXPO_GAUGE, NULL, "HTTP connections.");
	expo_u64(e, "", h->nr_conns, 0);
	return 0;
}

/* Cut off the readers of the oldest text. */
static void cut_readers(void *arg)
{
	struct http *h = arg;
	uint64_t newest = h->texts.serial, oldest = newest;

	for (const struct conn *c = h->conns; c; c = c->next)
		if (c->reads && c->reads < oldest)
			oldest = c->reads;
	for (struct conn *c = h->conns; c; c = c->next) {
		if (c->reads != oldest || oldest == newest)
			continue;
		conn_cut(h, c);
		c->reads = 0;
	}
}

/* ---- requests ------------------------------------------------------------------------------- */

static enum MHD_Result http_answer(struct http *h, struct MHD_Connection *c, enum code code)
{
	h->requests[code]++;
	if (code == C401)
		return MHD_queue_basic_auth_fail_response(c, REALM, h->small[code]);
	return MHD_queue_response(c, code_number[code], h->small[code]);
}

static const char *http_header(struct MHD_Connection *c, const char *name)
{
	return MHD_lookup_connection_value(c, MHD_HEADER_KIND, name);
}

static int http_allowed(struct http *h, struct MHD_Connection *c)
{
	char *password = NULL, *name;
	int ret = 0;

	if (!h->o->users)
		return 1;
	name = MHD_basic_auth_get_username_password(c, &password);
	if (name && password)
		ret = users_check(h->o->users, name, password, now_ns());
	if (password)
		explicit_bzero(password, strlen(password));
	MHD_free(password);
	MHD_free(name);
	return ret;
}

static enum MHD_Result http_text(struct http *h, struct MHD_Connection *c, enum expo_form form)
{
	bool gzip = accept_gzip(http_header(c, "Accept-Encoding"));
	const union MHD_ConnectionInfo *info =
		MHD_get_connection_info(c, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
	struct conn *conn = info ? info->socket_context : NULL;
	uint64_t serial;
	struct MHD_Response *r = texts_get(&h->texts, form, gzip, &serial);

	if (!r)
		return http_answer(h, c, C503);
	if (conn)
		conn->reads = serial;
	h->requests[C200]++;
	return MHD_queue_response(c, MHD_HTTP_OK, r);
}

static enum MHD_Result on_request(void *arg, struct MHD_Connection *c, const char *url,
				  const char *method, const char *version, const char *upload,
				  size_t *upload_len, void **state)
{
	struct http *h = arg;
	int may;

	/* No request may have a body: answering before it closes the connection. */
	if (http_header(c, "Content-Length") ? strcmp(http_header(c, "Content-Length"), "0") != 0
					     : http_header(c, "Transfer-Encoding") != NULL)
		return http_answer(h, c, C413);
	if (!*state) {
		*state = h;
		return MHD_YES;
	}
	may = http_allowed(h, c);
	if (may <= 0)
		return http_answer(h, c, may ? C429 : C401);
	if (strcmp(method, "GET") && strcmp(method, "HEAD"))
		return http_answer(h, c, C405);
	if (!strcmp(url, "/")) {
		h->requests[C200]++;
		return MHD_queue_response(c, MHD_HTTP_OK, h->index);
	}
	if (!strcmp(url, "/report.json"))
		return http_text(h, c, EXPO_JSON);
	if (strcmp(url, "/metrics"))
		return http_answer(h, c, C404);
	return http_text(h, c, accept_form(http_header(c, "Accept")));
}

/* ---- connections ---------------------------------------------------------------------------- */

static void on_connection(void *arg, struct MHD_Connection *c, void **context,
			  enum MHD_ConnectionNotificationCode what)
{
	struct http *h = arg;
	struct conn *conn = *context;

	if (what == MHD_CONNECTION_NOTIFY_STARTED) {
		conn = xcalloc(1, sizeof(*conn));
		*context = conn;
		conn->fd =
			MHD_get_connection_info(c, MHD_CONNECTION_INFO_CONNECTION_FD)->connect_fd;
		conn->since_ns = now_ns();
		conn->next = h->conns;
		conn->back = &h->conns;
		if (conn->next)
			conn->next->back = &conn->next;
		h->conns = conn;
		h->nr_conns++;
		return;
	}
	if (!conn)
		return;
	*conn->back = conn->next;
	if (conn->next)
		conn->next->back = conn->back;
	h->nr_cut -= conn->cut;
	free(conn);
	*context = NULL;
	h->nr_conns--;
}

static void on_completed(void *arg, struct MHD_Connection *c, void **state,
			 enum MHD_RequestTerminationCode how)
{
	const union MHD_ConnectionInfo *info =
		MHD_get_connection_info(c, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
	struct conn *conn = info ? info->socket_context : NULL;

	if (!conn)
		return;
	conn->reads = 0;
	conn->since_ns = now_ns();
}

/* Cut off slow connections. A client that transfers a byte now and then is as slow as a silent
 * one. */
static void cut_slow(struct http *h)
{
	uint64_t at = now_ns();

	for (struct conn *c = h->conns; c; c = c->next)
		if (at - c->since_ns >= HTTP_SLOW_SEC * SEC)
			conn_cut(h, c);
}

/* Cut off the connection whose request, answer or idling has lasted longest: a scraper needs
 * milliseconds, and reconnects if it was idle. Returns false if there is none. */
static bool conn_cut_longest(struct http *h)
{
	struct conn *longest = NULL;

	for (struct conn *c = h->conns; c; c = c->next)
		if (!c->cut && (!longest || c->since_ns < longest->since_ns))
			longest = c;
	if (longest)
		conn_cut(h, longest);
	return longest != NULL;
}

/* Accept waiting connections, but not a whole flood: each must be served once before it is the
 * oldest. */
static void http_accept(struct http *h)
{
	/* libmicrohttpd may count connections added here only in MHD_run(). */
	unsigned int live = h->nr_conns - h->nr_cut;

	for (int i = 0; i < HTTP_ACCEPT_MAX && h->nr_conns < HTTP_CONNECTIONS_ALL; i++) {
		struct sockaddr_storage addr;
		socklen_t len = sizeof(addr);
		int fd = accept4(h->o->listen_fd, (struct sockaddr *)&addr, &len,
				 SOCK_CLOEXEC | SOCK_NONBLOCK);

		if (fd < 0) {
			/* Without a descriptor or memory the client would stay queued and wake us
			 * endlessly. */
			if (errno != EAGAIN && errno != EINTR && errno != ECONNABORTED &&
			    !conn_cut_longest(h))
				poll(NULL, 0, 100);
			return;
		}
		if (live >= HTTP_CONNECTIONS_MAX && conn_cut_longest(h))
			live--;
		live++;
		/* It closes the socket even on error. */
		MHD_add_connection(h->mhd, fd, (struct sockaddr *)&addr, len);
	}
}

/* ---- life ----------------------------------------------------------------------------------- */

static void http_prepare(struct http *h)
{
	static const char *const lines[CODES] = {
		"",
		"bad request\n",
		"authentication required\n",
		"not found; expected /metrics, /report.json or /\n",
		"expected GET or HEAD\n",
		"expected a request without a body\n",
		"too many wrong passwords; retry later\n",
		"no counts now; see vpmu-exporter's log\n",
	};
	static const char *const headers[][2] = {
		{"Content-Type", "text/html; charset=utf-8"},
		{"Content-Security-Policy", "frame-ancestors 'none'"}, /* the rest is in the page */
		{"X-Content-Type-Options", "nosniff"},
		{"Referrer-Policy", "no-referrer"},
		{"Cache-Control", "no-cache"},
	};

	for (int i = 1; i < CODES; i++) {
		h->small[i] = MHD_create_response_from_buffer(strlen(lines[i]), (void *)lines[i],
							      MHD_RESPMEM_PERSISTENT);
		if (!h->small[i] ||
		    MHD_add_response_header(h->small[i], "Content-Type", "text/plain") == MHD_NO)
			memory_out();
	}
	h->index = MHD_create_response_from_buffer(h->o->page_len, (void *)h->o->page,
						   MHD_RESPMEM_PERSISTENT);
	if (!h->index)
		memory_out();
	for (size_t i = 0; i < sizeof(headers) / sizeof(*headers); i++)
		if (MHD_add_response_header(h->index, headers[i][0], headers[i][1]) == MHD_NO)
			memory_out();
}

/* libmicrohttpd also logs each broken request. Keep only the messages of the start: clients must
 * not fill the log. */
static char start_error[160];

static void http_on_log(void *arg, const char *fmt, va_list ap)
{
	bool *started = arg;

	if (!*started && !*start_error)
		vsnprintf(start_error, sizeof(start_error), fmt, ap);
}

static int exporter_http_start(struct http *h, char *err, size_t errlen)
{
	static bool started;
	const struct MHD_OptionItem tls[] = {
		{MHD_OPTION_HTTPS_MEM_CERT, 0, (void *)h->o->cert},
		{MHD_OPTION_HTTPS_MEM_KEY, 0, (void *)h->o->key},
		{MHD_OPTION_HTTPS_PRIORITIES, 0, "NORMAL:-VERS-TLS1.0:-VERS-TLS1.1"},
		{MHD_OPTION_END, 0, NULL},
	};
	const struct MHD_OptionItem none[] = {{MHD_OPTION_END, 0, NULL}};
	unsigned int flags = MHD_USE_EPOLL | MHD_USE_ERROR_LOG | MHD_USE_NO_LISTEN_SOCKET;
	int listen_flags = fcntl(h->o->listen_fd, F_GETFL);

	if (h->o->cert && MHD_is_feature_supported(MHD_FEATURE_TLS) != MHD_YES)
		return fail(-EOPNOTSUPP, err, errlen, "libmicrohttpd has no TLS here");
	http_prepare(h);
	/* A service manager's socket may be blocking. */
	if (listen_flags < 0 || fcntl(h->o->listen_fd, F_SETFL, listen_flags | O_NONBLOCK))
		return fail(-errno, err, errlen, "the listening socket: %s", strerror(errno));
	h->mhd = MHD_start_daemon(flags | (h->o->cert ? MHD_USE_TLS : 0), 0, NULL, NULL, on_request,
				  h, MHD_OPTION_EXTERNAL_LOGGER, http_on_log, &started,
				  MHD_OPTION_CONNECTION_LIMIT, (unsigned int)HTTP_CONNECTIONS_ALL,
				  MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)HTTP_REQUEST_MAX,
				  MHD_OPTION_CONNECTION_TIMEOUT, (unsigned int)HTTP_SLOW_SEC,
				  MHD_OPTION_NOTIFY_CONNECTION, on_connection, h,
				  MHD_OPTION_NOTIFY_COMPLETED, on_completed, h, MHD_OPTION_ARRAY,
				  h->o->cert ? tls : none, MHD_OPTION_END);
	started = true;
	if (!h->mhd)
		return fail(-EINVAL, err, errlen, "%s%s%s",
			    h->o->cert ? "TLS certificate or key: " : "HTTP: ", start_error,
			    *start_error ? "" : "invalid");
	return 0;
}

static int exporter_http_serve(struct http *h, char *err, size_t errlen)
{
	const union MHD_DaemonInfo *info = MHD_get_daemon_info(h->mhd, MHD_DAEMON_INFO_EPOLL_FD);

	while (!*h->o->end) {
		struct pollfd p[2] = {{.fd = info->epoll_fd, .events = POLLIN},
				      {.fd = h->o->listen_fd, .events = POLLIN}};
		MHD_UNSIGNED_LONG_LONG ms;
		uint64_t wait = h->nr_conns ? 1000 : 3600000;
		struct timespec t;

		if (MHD_get_timeout(h->mhd, &ms) == MHD_YES && ms < wait)
			wait = ms;
		t = (struct timespec){(time_t)(wait / 1000), (long)(wait % 1000 * 1000000)};
		if (ppoll(p, 2, &t, h->o->signals) < 0) {
			if (errno == EINTR)
				continue;
			return fail(-errno, err, errlen, "HTTP: ppoll: %s", strerror(errno));
		}
		if (p[1].revents)
			http_accept(h);
		MHD_run(h->mhd);
		cut_slow(h);
	}
	return 0;
}

int http_serve(const struct http_opts *o, char *err, size_t errlen)
{
	struct http h = {.o = o, .texts = {.write = write_text, .cut_readers = cut_readers}};
	int ret;

	h.texts.arg = &h;
	ret = exporter_http_start(&h, err, errlen);
	if (!ret)
		ret = o->ready(o->arg, err, errlen);
	if (!ret)
		ret = exporter_http_serve(&h, err, errlen);
	/* Freed by the end of the process. */
	return ret;
}
