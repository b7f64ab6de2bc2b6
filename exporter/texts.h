/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The texts for scrapers, plain and compressed. Each form is written no more than once a second and
 * shared by all scrapers of that second. http.c calls it. One thread.
 */
#ifndef EXPORTER_TEXTS_H
#define EXPORTER_TEXTS_H

#include <microhttpd.h>
#include <stdbool.h>
#include <stdint.h>

#include "exporter/exposition.h"

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

#endif
