// SPDX-License-Identifier: GPL-2.0-or-later
/* libFuzzer: input of the exporter: header fields of scrapers, files with users,
 * configurations, listening addresses, and names that become labels. Labels that were written can
 * be read back and hold nothing but what may be shown. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "exporter/config.h"
#include "exporter/http.h"
#include "exporter/listen.h"
#include "exporter/users.h"
#include "vpmu/util/utf8.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* name="value", with each quote and backslash of the value escaped. */
static void check_label(const char *text)
{
	const char *p = text + 3;

	if (strncmp(text, "x=\"", 3))
		abort();
	for (; *p && *p != '"'; p++) {
		if (*p == '\\' && *++p != '"' && *p != '\\')
			abort();
	}
	if (strcmp(p, "\"") || !utf8_text(text))
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text = malloc(size + 1), label[64] = "", err[600] = "";
	struct exporter_config conf;
	struct users *u = NULL;
	size_t used = 0;

	if (!text)
		return 0;
	memcpy(text, data, size);
	text[size] = '\0';
	if (accept_form(text) == EXPO_OPENMETRICS && !strcasestr(text, "openmetrics"))
		abort();
	if (accept_gzip(text) && !strcasestr(text, "gzip") && !strchr(text, '*'))
		abort();
	metrics_listen_ok(text);
	if (expo_label(label, sizeof(label), &used, "x", text)) {
		if (used != strlen(label) || used >= sizeof(label))
			abort();
		check_label(label);
	} else if (used || *label) {
		abort();
	}
	if (!users_text("f", text, size, &u, err, sizeof(err)))
		users_free(u);
	else if (strncmp(err, "f:", 2) || !utf8_text(err))
		abort();
	if (exporter_config_text(&conf, "f", text, size, err, sizeof(err)) && !utf8_text(err))
		abort();
	exporter_config_fini(&conf);
	free(text);
	return 0;
}
