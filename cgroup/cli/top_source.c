// SPDX-License-Identifier: GPL-2.0-or-later
/* The session behind vpmu top: see top_source.h. */
#include <stdlib.h>

#include "cgroup/cli/top_source.h"

bool top_open(struct top_source *src, struct client *c, const struct top_opts *o)
{
	*src = (struct top_source){.c = c, .session = session_attach(c, &o->what, NULL)};
	return src->session && top_take(src);
}

const struct reading *top_take(struct top_source *src)
{
	uint64_t last = src->before ? src->before->age_ns : 0;
	struct reading *diff = session_difference(src->c, src->session, false, &src->before);

	if (!diff)
		return NULL;
	src->seconds = (double)(src->before->age_ns - last) / 1e9;
	reading_free(src->diff);
	src->diff = diff;
	return diff;
}

void top_close(struct top_source *src)
{
	json_t *resp = NULL;
	char *err = NULL;

	if (src->session)
		resp = client_try(src->c,
				  json_pack("{s:s, s:s}", "cmd", "detach", "session", src->session),
				  &err);
	json_decref(resp);
	free(err);
	reading_free(src->diff);
	reading_free(src->before);
	free(src->session);
	*src = (struct top_source){0};
}
