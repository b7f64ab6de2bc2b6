/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Sessions of the server, as `vpmu stat`, `top`, `attach` and `detach` use them. Several targets
 * are several sessions of the server, which are read one after another and shown as one reading.
 */
#ifndef CLI_SESSION_H
#define CLI_SESSION_H

#include <stdbool.h>

#include "cli/client.h"
#include "cli/options.h"
#include "cli/reading.h"

struct sessions {
	struct client *c;
	char *name[CLI_TARGETS_MAX];
	bool gone[CLI_TARGETS_MAX]; /* the target was removed when it was last read */
	size_t nr;
	bool ours; /* they end with the connection, or by SESSION_END */
};

/*
 * sessions_attach - start one session for each target of @what, which counts from now on. @name:
 * the one session gets this name and stays when the connection ends. NULL: the server chooses the
 * names, and the sessions end with the connection. false after an error was printed. In both cases
 * the caller must call sessions_fini.
 */
bool sessions_attach(struct sessions *s, struct client *c, const struct what_opts *what,
		     const char *name);
/* sessions_named - the session @name of anybody, which is only read. Else as sessions_attach. */
void sessions_named(struct sessions *s, struct client *c, const char *name);
void sessions_fini(struct sessions *s);

enum session_read {
	SESSION_PEEK, /* rows of removed VMs are shown again by the next read */
	SESSION_READ, /* rows of removed VMs are shown for the last time */
	SESSION_END,  /* the sessions end with this reading */
};

/* sessions_read - the counts since the attach. NULL after an error was printed. */
struct reading *sessions_read(struct sessions *s, enum session_read how);

/* sessions_gone - whether all targets were removed when they were last read. */
bool sessions_gone(const struct sessions *s);

/* sessions_last - the counts that the server sent when it ended; call it only when the server has
 * closed the connection. NULL: it sent none, or not of all sessions. */
struct reading *sessions_last(struct sessions *s);

#endif
