/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The built-in commands of the control socket, without sockets: a request object in, fields of an
 * answer out. docs/protocol.md is their specification. Control thread.
 */
#ifndef CGROUP_SERVICE_COMMANDS_H
#define CGROUP_SERVICE_COMMANDS_H

#include "cgroup/service/capture.h"
#include "cgroup/service/profile.h"
#include "cgroup/service/server.h"
#include "cgroup/service/session.h"

/* What commands work on. */
struct commands {
	struct tenants *ts;
	struct sessions *sessions;
	struct profiles *profiles;
	struct captures *captures;
	const struct server_opts *opts;
	const void *conn; /* connection of the request being answered; NULL: none */
};

struct command {
	const char *name;
	int (*fn)(struct commands *c, const json_t *req, json_t *resp, char *err, size_t errlen);
};

/* Ends with name NULL. hello is the server's own: it knows all names. */
extern const struct command builtin_commands[];

/* command_oom - "out of memory" to @err; returns -ENOMEM. */
int command_oom(char *err, size_t errlen);
/* command_target - the node field "target" names; missing and not @required: "/". */
int command_target(struct commands *c, const json_t *req, bool required, struct node **out,
		   char *err, size_t errlen);
/* command_address - an address as a "0x..." string; NULL when out of memory. */
json_t *command_address(uint64_t address);

/* profile_commands.c */
int cmd_profile_start(struct commands *c, const json_t *req, json_t *resp, char *err,
		      size_t errlen);
int cmd_profile_read(struct commands *c, const json_t *req, json_t *resp, char *err, size_t errlen);
int cmd_profile_stop(struct commands *c, const json_t *req, json_t *resp, char *err, size_t errlen);
int cmd_profiles(struct commands *c, const json_t *req, json_t *resp, char *err, size_t errlen);
/* lbr_commands.c */
int cmd_lbr_attach(struct commands *c, const json_t *req, json_t *resp, char *err, size_t errlen);
int cmd_lbr_read(struct commands *c, const json_t *req, json_t *resp, char *err, size_t errlen);
int cmd_lbr_detach(struct commands *c, const json_t *req, json_t *resp, char *err, size_t errlen);
int cmd_captures(struct commands *c, const json_t *req, json_t *resp, char *err, size_t errlen);

#endif
