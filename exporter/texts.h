/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The texts that scrapers get, plain and compressed. Each form is written once a second at most,
 * and all scrapers of that second are given the same text. One thread.
 */
#ifndef EXPORTER_TEXTS_H
#define EXPORTER_TEXTS_H

#include <microhttpd.h>
#include <stdbool.h>
#include <stdint.h>

#include "exporter/exposition.h"

#define TEXTS_FORMS 2 /* of enum expo_form */

/* A text of one moment in one form. Connections that still read it have references of their own to
 * the responses. */
struct text {
	uint64_t at_ns, serial;
	char *plain;
	size_t len;
	struct MHD_Response *response[2]; /* [1]: gzip */
};

/* The caller sets the first part; the rest is 0. */
struct texts {
	int (*write)(void *arg, struct expo *e); /* all families, but expo_end; -errno: none */
	void (*cut_readers)(void *arg);		 /* there are many old texts: end who reads them */
	void *arg;
	/* private, but for reading: */
	struct text text[TEXTS_FORMS];
	uint64_t serial; /* of the newest text */
};

/*
 * texts_get - the text of now, at most HTTP_SHARE_MS old; it belongs to @x. *@serial is its number.
 * NULL: there is none, or memory has run out. texts_fini - forget the texts; who reads one goes on.
 */
struct MHD_Response *texts_get(struct texts *x, enum expo_form form, bool gzip, uint64_t *serial);
void texts_fini(struct texts *x);

#endif
