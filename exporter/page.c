// SPDX-License-Identifier: GPL-2.0-or-later
/* Puts the page together; see page.h. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "exporter/page.h"
#include "service/program/memory.h"

#define NONCE_BYTES 16

struct page_parts {
	char nonce[2 * NONCE_BYTES + 1];
	char *data;
	bool live;
};

/* Write JSON of ASCII. These characters are in its strings only, where \u... means the same. */
static void page_put_data(const char *json, FILE *f)
{
	for (const char *c = json; *c; c++) {
		if (*c == '<' || *c == '>' || *c == '&')
			fprintf(f, "\\u%04x", (unsigned int)*c);
		else
			fputc(*c, f);
	}
}

static void page_put(const struct page_parts *p, const char *name, size_t len, FILE *f)
{
	if (!strncmp(name, "nonce", len))
		fputs(p->nonce, f);
	else if (!strncmp(name, "connect", len))
		fputs(p->live ? "'self'" : "'none'", f);
	else if (!strncmp(name, "css", len))
		fwrite(report_css, 1, report_css_len, f);
	else if (!strncmp(name, "js", len))
		fwrite(report_js, 1, report_js_len, f);
	else if (!strncmp(name, "data", len))
		page_put_data(p->data, f);
}

static const char *page_find(const char *from, const char *end, const char *mark)
{
	const char *at = memmem(from, (size_t)(end - from), mark, strlen(mark));

	return at ? at : end;
}

char *page_text(const json_t *data, bool live, size_t *len)
{
	const char *at = report_html, *end = report_html + report_html_len, *open, *close;
	unsigned char random[NONCE_BYTES];
	struct page_parts p = {.live = live};
	char *out = NULL;
	FILE *f;

	if (getrandom(random, sizeof(random), 0) != sizeof(random))
		return NULL;
	for (size_t i = 0; i < sizeof(random); i++)
		snprintf(p.nonce + 2 * i, 3, "%02x", random[i]);
	p.data = json_dumps(data, JSON_COMPACT | JSON_ENSURE_ASCII);
	if (!p.data)
		return NULL;
	f = open_memstream(&out, len);
	if (!f)
		memory_out();
	while (at < end) {
		open = page_find(at, end, "{{");
		fwrite(at, 1, (size_t)(open - at), f);
		if (open == end)
			break;
		close = page_find(open, end, "}}");
		page_put(&p, open + 2, (size_t)(close - open - 2), f);
		at = close == end ? end : close + 2;
	}
	if (fclose(f))
		memory_out();
	free(p.data);
	return out;
}
