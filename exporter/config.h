/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * vpmu-exporter.conf: one section [vpmu-exporter] (vpmu-exporter(8)). `vpmu metrics` reads it, too.
 * A message is one line: file and line, what is wrong, what is accepted.
 */
#ifndef EXPORTER_CONFIG_H
#define EXPORTER_CONFIG_H

#include "exporter/metrics.h"

#define EXPORTER_CONF                                                                              \
	"/etc/vpmu/vpmu-exporter.conf" /* when no file is named; it may be missing                 \
					*/

struct exporter_config {
	char *socket;		  /* of the server; NULL: vpmud's usual one */
	char *events;		  /* NULL: the usual ones */
	char *listen;		  /* metrics_listen_ok; NULL: the service manager listens */
	char *tls_cert, *tls_key; /* files; both or none */
	char *users;		  /* a file, exporter/users.h */
	unsigned int max_domains, max_tenants;
	unsigned int keep_gone; /* seconds */
	enum metrics_created created;
	uint32_t given;
};

/* exporter_config_read - *@c from the file at @path; NULL: from EXPORTER_CONF, if it is there.
 * exporter_config_text - from the @len bytes at @text, called @name. -EINVAL: not accepted. One
 * line to @err. exporter_config_fini - free what *c holds, also after an error. */
int exporter_config_read(struct exporter_config *c, const char *path, char *err, size_t errlen);
int exporter_config_text(struct exporter_config *c, const char *name, const char *text, size_t len,
			 char *err, size_t errlen);
void exporter_config_fini(struct exporter_config *c);

/* exporter_metrics - what is exported as @c says, asked for over the connection @connection. */
int exporter_metrics(const struct exporter_config *c, void *connection, struct metrics **out,
		     char *err, size_t errlen);

#endif
