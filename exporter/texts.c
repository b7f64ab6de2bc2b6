// SPDX-License-Identifier: GPL-2.0-or-later
/* Texts shared by scrapers; see http.h. A failure is returned as NULL: an old text must never be
 * served in place of a missing one. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <zlib.h>

#include "exporter/http.h"
#include "service/clock.h"

#define GZIP_LEVEL 1
#define SEC	   1000000000ULL
#define MSEC	   1000000ULL

static unsigned int live; /* buffers held by responses, including old ones */

static void buffer_free(void *buffer)
{
	free(buffer);
	live--;
}

static void text_drop(struct text *t)
{
	for (int i = 0; i < 2; i++) {
		if (t->response[i])
			MHD_destroy_response(t->response[i]);
		t->response[i] = NULL;
	}
	free(t->plain);
	t->plain = NULL;
	t->len = 0;
}

static int refresh(struct texts *x, enum expo_form form)
{
	struct expo e = {.form = form};
	struct text *t = &x->text[form];
	int ret;

	if (t->plain && now_ns() - t->at_ns < HTTP_SHARE_MS * MSEC)
		return 0;
	if (live >= HTTP_TEXTS_MAX / 2)
		x->cut_readers(x->arg);
	if (live >= HTTP_TEXTS_MAX)
		return -ENOMEM;
	ret = x->write(x->arg, &e);
	if (!ret)
		ret = expo_end(&e);
	if (ret) {
		expo_fini(&e);
		return ret;
	}
	text_drop(t);
	t->plain = e.text;
	t->len = e.len;
	t->at_ns = now_ns();
	t->serial = ++x->serial;
	return 0;
}

/* Compress @len bytes with gzip; NULL: no memory. */
static char *compress_text(const char *text, size_t len, size_t *out)
{
	z_stream z = {.next_in = (unsigned char *)text, .avail_in = (unsigned int)len};
	char *body = NULL, *less;
	size_t room;

	/* 16 added to the window bits: a gzip header. */
	if (deflateInit2(&z, GZIP_LEVEL, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY) != Z_OK)
		return NULL;
	room = deflateBound(&z, len);
	body = malloc(room);
	z.next_out = (unsigned char *)body;
	z.avail_out = (unsigned int)room;
	if (!body || deflate(&z, Z_FINISH) != Z_STREAM_END) {
		free(body);
		deflateEnd(&z);
		return NULL;
	}
	*out = room - z.avail_out;
	deflateEnd(&z);
	less = realloc(body, *out);
	return less ? less : body;
}

static struct MHD_Response *response(struct texts *x, enum expo_form form, bool gzip)
{
	struct text *t = &x->text[form];
	struct MHD_Response *r;
	size_t len = t->len;
	char *body;

	if (t->response[gzip])
		return t->response[gzip];
	body = gzip ? compress_text(t->plain, t->len, &len) : malloc(len);
	if (!body)
		return NULL;
	if (!gzip)
		memcpy(body, t->plain, len);
	r = MHD_create_response_from_buffer_with_free_callback(len, body, buffer_free);
	if (!r) {
		free(body);
		return NULL;
	}
	live++;
	if (MHD_add_response_header(r, "Content-Type", expo_content_type(form)) == MHD_NO ||
	    MHD_add_response_header(r, "Vary", "Accept, Accept-Encoding") == MHD_NO ||
	    (gzip && MHD_add_response_header(r, "Content-Encoding", "gzip") == MHD_NO)) {
		MHD_destroy_response(r);
		return NULL;
	}
	t->response[gzip] = r;
	return r;
}

struct MHD_Response *texts_get(struct texts *x, enum expo_form form, bool gzip, uint64_t *serial)
{
	struct MHD_Response *r = refresh(x, form) ? NULL : response(x, form, gzip);

	*serial = x->text[form].serial;
	return r;
}
