/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The HTTP server of the metrics, for an unprivileged process (docs/security.md). One thread, which
 * writes a text when a scraper requests one; all scrapers within a second share it. main.c calls
 * it.
 */
#pragma once

#include <microhttpd.h>
#include <stdbool.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>

#include "exporter/exposition.h"

#define HTTP_CONNECTIONS_MAX 256 /* one more replaces the slowest */
#define HTTP_ACCEPT_MAX	     32	 /* connections accepted at a time */
/* Including connections that are closing. */
#define HTTP_CONNECTIONS_ALL (HTTP_CONNECTIONS_MAX + 4 * HTTP_ACCEPT_MAX)
#define HTTP_REQUEST_MAX     16384 /* bytes of a request's line and header */
#define HTTP_SLOW_SEC	     30	   /* for a request with its answer, or for idling */
#define HTTP_SHARE_MS	     1000  /* lifetime of a text */
#define HTTP_ASK_SEC	     15	   /* timeout for each part of the server's answer */
#define HTTP_TEXTS_MAX                                                                             \
	16 /* texts at a time; from half of them on, readers of the oldest are cut off */
#define HTTP_MEMORY_MAX (1ull << 30) /* of the process */

struct users;

struct http_opts {
	int listen_fd;		/* already listening; stays the caller's */
	const char *cert, *key; /* PEM texts; NULL: no TLS */
	struct users *users;	/* NULL: no authentication */
	/* Called once before the first client is served, to drop privileges. -errno and one line in
	 * @err make http_serve() fail. */
	int (*ready)(void *arg, char *err, size_t errlen);
	int (*render)(void *arg, struct expo *e); /* all counts, without expo_end(); -errno: none */
	const char *page;			  /* the live page, of /; it reads /report.json */
	size_t page_len;
	void *arg;
	const volatile sig_atomic_t *end; /* set by a signal handler to stop serving */
	const sigset_t *signals; /* signal mask while waiting; all others are blocked otherwise */
};

/* http_serve - serve until *@o->end. Returns 0, or -errno and one line in @err if it cannot
 * start. */
int http_serve(const struct http_opts *o, char *err, size_t errlen);

/*
 * texts.c: the texts for scrapers, plain and compressed. Each form is written no more than once a
 * second and shared by all scrapers of that second. http.c calls it. One thread.
 */
#define TEXTS_FORMS 3 /* number of enum expo_form */

/* A text in one form. Connections that still read it hold references to the responses. */
struct text {
	uint64_t at_ns, serial;
	char *plain;
	size_t len;
	struct MHD_Response *response[2]; /* [1]: gzip */
};

/* The caller sets the first part and zeroes the rest. */
struct texts {
	int (*write)(void *arg, struct expo *e); /* all families, no expo_end(); -errno: none */
	void (*cut_readers)(void *arg); /* too many old texts: cut off readers of the oldest */
	void *arg;
	/* read-only for the caller: */
	struct text text[TEXTS_FORMS];
	uint64_t serial; /* of the newest text */
};

/*
 * texts_get - return the current text, up to HTTP_SHARE_MS old; it belongs to @x. *@serial is its
 * number. NULL: none, or no memory.
 */
struct MHD_Response *texts_get(struct texts *x, enum expo_form form, bool gzip, uint64_t *serial);

/* accept.c: content negotiation. Parses a scraper's header fields Accept and Accept-Encoding (RFC
 * 9110, 12.5). They are untrusted; every input yields a valid choice. http.c calls it. Pure, any
 * thread. */

/* accept_form - return OpenMetrics if @accept (may be NULL) prefers its version 1.0.0 to plain text
 * or weights both the same; else the text format. */
enum expo_form accept_form(const char *accept);

/* accept_gzip - returns true if @encodings (may be NULL) contains gzip or "*" with a weight above
 * 0. */
bool accept_gzip(const char *encodings);
