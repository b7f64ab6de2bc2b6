/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The HTTP server of the metrics, for a process without rights (docs/security.md). It has one
 * thread, which writes a text when a scraper wants one; all scrapers of one second share it.
 */
#ifndef EXPORTER_HTTP_H
#define EXPORTER_HTTP_H

#include <stdbool.h>
#include <signal.h>
#include <stddef.h>

#define HTTP_CONNECTIONS_MAX 256 /* one more takes the place of the slowest */
#define HTTP_ACCEPT_MAX	     32	 /* connections that are accepted in one go */
/* With those that are about to end. */
#define HTTP_CONNECTIONS_ALL (HTTP_CONNECTIONS_MAX + 4 * HTTP_ACCEPT_MAX)
#define HTTP_REQUEST_MAX     16384 /* bytes of a request's line and header */
#define HTTP_SLOW_SEC	     30	   /* for a request and its answer, or for a silence */
#define HTTP_SHARE_MS	     1000  /* a text is served for so long */
#define HTTP_ASK_SEC	     15	   /* the server sends each part of an answer within this time */
#define HTTP_TEXTS_MAX                                                                             \
	16 /* texts at a time; from half of them on who reads the oldest is cut off */
#define HTTP_MEMORY_MAX (1ull << 30) /* of the process */

struct expo;
struct users;

struct http_opts {
	int listen_fd;		/* it is listening already, and stays the caller's */
	const char *cert, *key; /* PEM texts; NULL: no TLS */
	struct users *users;	/* NULL: everybody */
	/* Called once, before the first client is looked at: give up what serving does not need.
	 * -errno and one line in @err end it. */
	int (*ready)(void *arg, char *err, size_t errlen);
	int (*render)(void *arg, struct expo *e); /* all counts, but expo_end; -errno: none now */
	void *arg;
	const volatile sig_atomic_t *end; /* set by a signal: end */
	const sigset_t *signals;	  /* that are blocked while it waits; the others are else */
};

/* http_serve - serve until @o->end. -errno and one line in @err if it cannot begin. */
int http_serve(const struct http_opts *o, char *err, size_t errlen);

#endif
