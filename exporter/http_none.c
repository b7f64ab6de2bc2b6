// SPDX-License-Identifier: GPL-2.0-or-later
/* A build without libmicrohttpd, such as the one for the test beds: metrics are a file or
 * `vpmu metrics` there. See http.h and users.h. */
#include <errno.h>

#include "exporter/http.h"
#include "exporter/users.h"
#include "vpmu/util/fail.h"

int http_start(const struct http_opts *o, int *sock, pid_t *pid, char *err, size_t errlen)
{
	return fail(-EOPNOTSUPP, err, errlen,
		    "metrics: listen: this build has no HTTP; textfile and `vpmu metrics` are "
		    "accepted");
}

void http_stop(int sock, pid_t pid)
{
}

int users_read(const char *path, struct users **out, char *err, size_t errlen)
{
	return fail(-EOPNOTSUPP, err, errlen, "metrics: users: this build has no HTTP");
}

void users_free(struct users *u)
{
}
