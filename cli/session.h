/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Sessions of the server, for `vpmu stat`, `top`, `attach` and `detach`. Several targets are
 * several sessions of the server, read one after another and merged into one reading.
 */
#pragma once

#include <stdbool.h>

#include "cli/client.h"
#include "cli/options.h"
#include "cli/reading.h"

struct sessions {
	struct client *c;
	char *name[CLI_TARGETS_MAX];
	bool gone[CLI_TARGETS_MAX]; /* the target was gone at the last reading */
	size_t nr;
	bool ours; /* they end with the connection, or by SESSION_END */
};

/*
 * sessions_attach - start a session for each target of @what, counting from now on. @name: the name
 * of the only session, which outlives the connection. NULL: the server chooses names, and the
 * sessions end with the connection. Returns false after an error was printed. Call sessions_fini()
 * in either case.
 */
bool sessions_attach(struct sessions *s, struct client *c, const struct what_opts *what,
		     const char *name);
/* sessions_named - use the existing session @name, of any client, for reading only. Else as
 * sessions_attach(). */
void sessions_named(struct sessions *s, struct client *c, const char *name);
void sessions_fini(struct sessions *s);

enum session_read {
	SESSION_PEEK, /* rows of removed VMs are returned by the next read again */
	SESSION_READ, /* rows of removed VMs are returned for the last time */
	SESSION_END,  /* the sessions end with this reading */
};

/* sessions_read - read the counts since the attach. NULL after an error was printed. */
struct reading *sessions_read(struct sessions *s, enum session_read how);

/* sessions_gone - returns true if all targets were gone at the last reading. */
bool sessions_gone(const struct sessions *s);

/* sessions_last - the counts that the server sent at its end; call it only once the server has
 * closed the connection. NULL: none, or not of all sessions. */
struct reading *sessions_last(struct sessions *s);
