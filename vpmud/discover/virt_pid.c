// SPDX-License-Identifier: GPL-2.0-or-later
/* Finds the directory of the pid files of libvirt's QEMU driver. virt.c calls it once per URI. */
#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <libxml/uri.h>

#include "service/program/memory.h"
#include "vpmud/discover/virt.h"

/* Return the value of parameter @key of a URI's query, malloc()ed. */
static char *parameter(const char *query, const char *key)
{
	size_t n = strlen(key);

	for (const char *p = query; p && *p; p = strchr(p, '&') ? strchr(p, '&') + 1 : NULL)
		if (!strncmp(p, key, n) && p[n] == '=')
			return xmlURIUnescapeString(p + n + 1, (int)strcspn(p + n + 1, "&"), NULL);
	return NULL;
}

static char *joined(const char *dir, const char *rest)
{
	return dir ? xasprintf("%s%s", dir, rest) : NULL;
}

char *virt_pid_dir(const char *uri)
{
	xmlURI *u = xmlParseURI(uri);
	char *dir = NULL, *value = NULL;

	if (!u || !u->scheme || strncmp(u->scheme, "qemu", 4) || !u->path || u->server)
		goto out; /* of another driver, or of another host */
	if (!strcmp(u->path, "/system")) {
		dir = xstrdup("/run/libvirt/qemu");
	} else if (!strcmp(u->path, "/embed")) {
		value = parameter(u->query_raw, "root");
		dir = joined(value, "/run/qemu");
	} else if (!strcmp(u->path, "/session")) {
		value = parameter(u->query_raw, "socket");
		dir = value ? joined(dirname(value), "/qemu/run")
			    : joined(getenv("XDG_RUNTIME_DIR"), "/libvirt/qemu/run");
	}
out:
	free(value);
	xmlFreeURI(u);
	return dir;
}
