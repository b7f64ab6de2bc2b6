/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Reads vpmu-exporter.conf: one section [vpmu-exporter] (vpmu-exporter(8)); for the exporter and
 * `vpmu metrics`. An error is one line: file and line, the error, the expected value.
 */
#pragma once

#include <stddef.h>

#include "exporter/metrics.h"

#define EXPORTER_CONF "/etc/vpmu/vpmu-exporter.conf" /* default file; may be missing */

struct exporter_config {
	char *socket;		  /* of the server; NULL: vpmud's default */
	char *events;		  /* NULL: the default ones */
	char *listen;		  /* see metrics_listen_ok(); NULL: the service manager's socket */
	char *tls_cert, *tls_key; /* files; both or none */
	char *users;		  /* a file, see exporter/users.h */
	unsigned int max_domains, max_tenants;
	unsigned int keep_gone; /* seconds */
	enum metrics_created created;
	bool as_of;
	uint32_t given;
};

/* exporter_config_read - read *@c from the file at @path; NULL: from EXPORTER_CONF if it exists.
 * exporter_config_text - parse @len bytes at @text; messages use @name as the file name. Both
 * return 0, or -errno (-EINVAL: invalid) and one line in @err. exporter_config_fini - free the
 * members of *@c, also after an error. */
int exporter_config_read(struct exporter_config *c, const char *path, char *err, size_t errlen);
int exporter_config_text(struct exporter_config *c, const char *name, const char *text, size_t len,
			 char *err, size_t errlen);
void exporter_config_fini(struct exporter_config *c);

/* exporter_metrics - create the metrics configured by @c, queried over @connection. */
int exporter_metrics(const struct exporter_config *c, void *connection, struct metrics **out,
		     char *err, size_t errlen);

/* rights.c drops privileges before the first client (docs/security.md). */
/* exporter_contain - become @user (NULL: stay), and drop all that serving does not need. @file: the
 * Unix socket to remove at the end; NULL: none. Returns 0, or -errno and one line in @err. */
int exporter_contain(const char *user, const char *file, char *err, size_t errlen);
