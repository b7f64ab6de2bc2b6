/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What vpmu top counts: its options, and the session behind it. Used by the screen and by batch
 * mode. */
#ifndef CLI_TOP_SOURCE_H
#define CLI_TOP_SOURCE_H

#include "cgroup/cli/session.h"

struct top_opts {
	struct what_opts what;
	double delay_s;	 /* between two updates */
	long iterations; /* updates; 0: until q or Ctrl-C */
	bool batch;
};

struct top_source {
	struct client *c;
	char *session;
	struct reading *before; /* totals of the last update */
	struct reading *diff;	/* what the last update shows */
	double seconds;		/* diff is over so much time */
};

/* top_open - start a session and read it once. false after an error was printed. In both cases the
 * caller must call top_close. */
bool top_open(struct top_source *src, struct client *c, const struct top_opts *o);
/* top_take - the counts since the last call; valid until the next one. NULL after an error was
 * printed. */
const struct reading *top_take(struct top_source *src);
/* top_close - end the session. Errors are not printed: the server may be gone. */
void top_close(struct top_source *src);

#endif
