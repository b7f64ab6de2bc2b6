// SPDX-License-Identifier: GPL-2.0-or-later
/* Drops privileges of vpmu-exporter; see config.h. Nothing that only the start needs may be kept:
 * clients are untrusted, and TLS and HTTP are large. */
#include <libgen.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>

#include "exporter/config.h"
#include "exporter/http.h"
#include "service/daemon/contain.h"
#include "service/program/memory.h"

#define FILES_MAX (HTTP_CONNECTIONS_ALL + 64)

static void limit(int what, rlim_t max)
{
	const struct rlimit r = {max, max};

	setrlimit(what, &r);
}

int exporter_contain(const char *user, const char *file, char *err, size_t errlen)
{
	/* To reconnect to the server. */
	static const uint16_t calls[] = {SYS_socket, SYS_connect};
	char *copy = xstrdup(file);
	const struct contain_path path = {copy ? dirname(copy) : NULL,
					  LANDLOCK_ACCESS_FS_REMOVE_FILE, "the socket"};
	const struct contain_opts o = {
		.user = user,
		.socket = file,
		.paths = &path,
		.nr_paths = 1,
		.calls = calls,
		.nr_calls = sizeof(calls) / sizeof(calls[0]),
		.purpose = "those that serving needs",
	};
	int ret;

	limit(RLIMIT_NOFILE, FILES_MAX);
	limit(RLIMIT_CORE, 0);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
	limit(RLIMIT_AS, HTTP_MEMORY_MAX);
#endif
	ret = contain(&o, err, errlen);
	free(copy);
	return ret;
}
