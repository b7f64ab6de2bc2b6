/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The built-in commands of the control socket, without sockets: a request object in, fields of an
 * answer out. docs/protocol.md is their specification. Control thread.
 */
#ifndef SERVICE_COMMANDS_H
#define SERVICE_COMMANDS_H

#include "service/capture.h"
#include "service/json_text.h"
#include "service/profile.h"
#include "service/server.h"
#include "service/session.h"

/* What commands work on. */
struct commands {
	struct tenants *ts;
	struct sessions *sessions;
	struct profiles *profiles;
	struct captures *captures;
	struct server *server; /* for server_then */
	const struct server_opts *opts;
	/* Of the connection of the request being answered: what it may do, and its identity. NULL:
	 * the server itself asks. */
	const struct access *who;
	/* The begin of the answer as text, with a comma behind each field: `{"rows":[...],`. The
	 * server takes it with the answer, or frees it. */
	struct json_text text;
};

/* A command: server_fn (server.h) says what it gets and returns. */
typedef int command_fn(struct commands *c, const json_t *req, json_t *resp, char *err,
		       size_t errlen);

/* Who may use a command: administrators only; readers who see all tenants too; every reader. */
enum command_for { FOR_ADMINS, FOR_ALL_SEEING, FOR_READERS };

struct command {
	const char *name;
	command_fn *fn;
	enum command_for who;
};

/* Ends with name NULL. hello is the server's own: it knows all names. */
extern const struct command builtin_commands[];

/* ---- what the commands share ---------------------------------------------------------------- */

/* command_oom - "out of memory" to @err; returns -ENOMEM. */
int command_oom(char *err, size_t errlen);
/* command_address - an address as a "0x..." string; NULL when out of memory. */
json_t *command_address(uint64_t address);
/* command_value - the fields of a value; NULL when out of memory. command_value_text - the same, as
 * text. */
json_t *command_value(const struct vpmu_value *v);
void command_value_text(struct json_text *t, const struct vpmu_value *v);

/* command_traces - the @max biggest of @t as array @key of @resp, their number as "nr-@key", the
 * samples of the rest as "other-@key". @chains: whole call chains, else the first address alone. 0
 * or -ENOMEM. */
struct traces;
int command_traces(json_t *resp, const char *key, const struct traces *t, size_t max, bool chains);

/* command_node_kind - "tenant", "vm", ...: a constant. */
const char *command_node_kind(enum node_kind kind);

/*
 * command_target - the node field "target" names; missing and not @required: "/", or the only
 * tenant that a reader sees. A node that the client does not see is one that is not there.
 * @narrows: the command leaves out what the client does not see, so "/" is accepted of everybody.
 */
int command_target(struct commands *c, const json_t *req, bool required, bool narrows,
		   struct node **out, char *err, size_t errlen);

/* command_opening - "target" (@required, or "/"), "name", "keep", and "backend". */
int command_opening(struct commands *c, const json_t *req, bool required, bool narrows,
		    struct opening *out, char *err, size_t errlen);

/* Sessions, profiles or captures: how one is shown. */
struct command_kind {
	const char *field; /* "session": what its name is called */
	/* Add the fields that only this kind has; others than 0: no memory. */
	int (*describe)(const struct registered *e, const struct access *who, json_t *obj);
};
extern const struct command_kind command_sessions, command_profiles, command_captures;

/* command_describe - @e's name, target and keep, and what the kind adds for this client; not 0: no
 * memory. */
int command_describe(const struct commands *c, const struct command_kind *kind,
		     const struct registered *e, json_t *obj);
/* command_backend - fields "backend" and, when other backends count @target as well, "left-out": an
 * array of these. @target NULL: gone. Not 0: no memory. */
int command_backend(const char *backend, const struct node *target, json_t *obj);
/* command_list - the whole command that lists all of @r. */
int command_list(const struct commands *c, const struct command_kind *kind,
		 const struct registry *r, const json_t *req, json_t *resp, char *err,
		 size_t errlen);
/* command_named - the one of @r that field r->kind->kind names. */
int command_named(const struct commands *c, const struct registry *r, const json_t *req,
		  struct registered **out, char *err, size_t errlen);

/* ---- in files of their own ------------------------------------------------------------------ */

extern command_fn cmd_attach, cmd_reattach, cmd_read, cmd_detach, cmd_sessions;
extern command_fn cmd_profile_start, cmd_profile_read, cmd_profile_stop, cmd_profiles;
extern command_fn cmd_lbr_attach, cmd_lbr_read, cmd_lbr_detach, cmd_captures;

#endif
