/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The built-in commands of the control socket, without sockets: a request object in, fields of an
 * answer out. docs/protocol.md is their specification. Control thread.
 */
#ifndef CGROUP_COMMANDS_H
#define CGROUP_COMMANDS_H

#include "cgroup/server.h"
#include "cgroup/session.h"

/* What commands work on. */
struct commands {
	struct tenants *ts;
	struct sessions *sessions;
	const struct server_opts *opts;
	const void *conn; /* connection of the request being answered; NULL: none */
};

struct command {
	const char *name;
	int (*fn)(struct commands *c, const json_t *req, json_t *resp, char *err, size_t errlen);
};

/* Ends with name NULL. hello is the server's own: it knows all names. */
extern const struct command builtin_commands[];

#endif
