/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Sessions of the server, as `vpmu stat`, `top`, `attach` and `detach` use them. */
#ifndef CLI_SESSION_H
#define CLI_SESSION_H

#include <stdbool.h>

#include "cgroup/cli/client.h"
#include "cgroup/cli/options.h"
#include "cgroup/cli/reading.h"

/*
 * session_attach - start a session that counts @what. @name: it gets this name and stays when the
 * connection ends. NULL: the server chooses a name, and the session ends with the connection.
 * Returns the name, malloc'd, or NULL after an error was printed.
 */
char *session_attach(struct client *c, const struct what_opts *what, const char *name);

/* session_read - the counts since the attach. @end: the session ends with this reading. NULL after
 * an error was printed. */
struct reading *session_read(struct client *c, const char *session, bool end);

/*
 * session_difference - the counts since *before, a reading of the same session (NULL: since the
 * attach). *before is replaced by the counts of now. NULL after an error was printed; *before is
 * then as it was.
 */
struct reading *session_difference(struct client *c, const char *session, bool end,
				   struct reading **before);

#endif
