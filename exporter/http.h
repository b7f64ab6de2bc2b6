/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The HTTP server of the metrics. It runs in a process of its own without any right
 * (docs/security.md): clients, TLS and compression are not vpmud's. The process has one thread,
 * which asks vpmud for a text when a scraper wants one; all scrapers of one second share it.
 */
#ifndef EXPORTER_HTTP_H
#define EXPORTER_HTTP_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#define HTTP_CONNECTIONS_MAX 256 /* one more takes the place of the slowest */
#define HTTP_ACCEPT_MAX	     32	 /* connections that are accepted in one go */
/* With those that are about to end. */
#define HTTP_CONNECTIONS_ALL (HTTP_CONNECTIONS_MAX + 4 * HTTP_ACCEPT_MAX)
#define HTTP_REQUEST_MAX     16384 /* bytes of a request's line and header */
#define HTTP_SLOW_SEC	     30	   /* for a request and its answer, or for a silence */
#define HTTP_SHARE_MS	     1000  /* a text is served for so long */
#define HTTP_ASK_SEC	     15	   /* vpmud answers within this time */
#define HTTP_TEXTS_MAX                                                                             \
	16 /* texts at a time; from half of them on who reads the oldest is cut off */
#define HTTP_MEMORY_MAX (1ull << 30) /* of the process */
/* What the processes run as if vpmud is root: a user that has no other processes, so that none can
 * stop them. The number is for hosts without that user: it is one that no distribution and no
 * service manager gives away, and that is in the range of a container's users. */
#define HTTP_USER      "vpmu-http"
#define HTTP_UID_SPARE 65528

struct users;

struct http_opts {
	int listen_fd;		/* it is listening already, and stays the caller's */
	const char *cert, *key; /* PEM texts; NULL: no TLS */
	struct users *users;	/* NULL: everybody */
};

/*
 * http_start - make the processes: one that serves, one that watches it, and one that watches the
 * watcher. *@sock is vpmud's end of the socket pair (wire.h), on which it reads struct wire_ask;
 * *@pid the first watcher. Before the caller has threads. Whichever of them ends, another one
 * follows within a second. -errno, and one line in @err: also when the process cannot serve.
 * -EOPNOTSUPP: this build has no HTTP. http_stop - end them, and close @sock.
 */
int http_start(const struct http_opts *o, int *sock, pid_t *pid, char *err, size_t errlen);
void http_stop(int sock, pid_t pid);

/* For http_start: http_serve - serve until the other end of @sock is gone. Returns then; -errno and
 * one line in @err if it cannot begin. @ready is called before the first client is looked at. */
int http_serve(const struct http_opts *o, int sock, int (*ready)(char *err, size_t errlen),
	       char *err, size_t errlen);

#endif
