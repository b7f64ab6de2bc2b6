/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The built-in commands of the control socket, without sockets: a request object in, fields of an
 * answer out. docs/protocol.md is their specification. Control thread. They build JSON without
 * checks: server.c discards an answer in which an allocation failed (json_memory_failed). A value
 * goes into its parent when it is complete, for a parent that cannot take it frees it.
 */
#pragma once

#include "service/capture.h"
#include "service/clock.h"
#include "service/json_text.h"
#include "service/profile.h"
#include "service/server.h"
#include "service/session.h"

/* State shared by all commands. */
struct commands {
	struct tenants *ts;
	struct sessions *sessions;
	struct profiles *profiles;
	struct captures *captures;
	struct history *history; /* NULL: none, and no command `history` */
	struct server *server;	 /* for server_then */
	const struct server_opts *opts;
	/* Rights and identity of the connection of the current request. NULL: the server itself. */
	const struct access *who;
	/* Start of the answer as text, with a comma after each field: `{"rows":[...],`. The server
	 * takes ownership with the answer, or frees it. */
	struct json_text text;
};

/* A command: see server_fn (server.h). */
typedef int command_fn(struct commands *c, const json_t *req, json_t *resp, char *err,
		       size_t errlen);

/* Required rights: administrators only; also readers that see all tenants; every reader. */
enum command_for { FOR_ADMINS, FOR_ALL_SEEING, FOR_READERS };

struct command {
	const char *name;
	command_fn *fn;
	enum command_for who;
	const char *const *fields; /* that a request may have besides "cmd" and "id"; NULL: none */
};
#define FIELDS(...) ((const char *const[]){__VA_ARGS__, NULL})

/* Ends with name NULL. hello is in server.c, because it lists all names. */
extern const struct command builtin_commands[];

/* ---- shared by the commands ----------------------------------------------------------------- */

/* command_address - an address as a "0x..." string. */
json_t *command_address(uint64_t address);
/* command_value - the fields of a value.
 * command_value_text - the same, as text; @late: of a row with late_ns. */
json_t *command_value(const struct vpmu_value *v);
void command_value_text(struct json_text *t, const struct vpmu_value *v, bool late);

/* command_as_of - add the fields of a reading's time to @obj. */
void command_as_of(json_t *obj, const struct as_of *a);

/* command_traces - add the @max largest of @t as array @key to @resp, their number as "nr-@key",
 * and the samples of the rest as "other-@key". @chains: whole call chains, else only the first
 * address. Returns 0 or -ENOMEM. */
struct traces;
int command_traces(json_t *resp, const char *key, const struct traces *t, size_t max, bool chains);

/* command_node_kind - "tenant", "vm", ...: a constant. */
const char *command_node_kind(enum node_kind kind);

/*
 * command_target - the node that field "target" names. If it is missing and not @required: "/", or
 * the only tenant that a reader sees. A node that the client does not see does not exist for it.
 * @narrows: the command filters by the client's rights itself, so any client may name "/".
 */
int command_target(struct commands *c, const json_t *req, bool required, bool narrows,
		   struct node **out, char *err, size_t errlen);

/* command_opening - parse the fields "target" (@required, or "/"), "name", "keep", and "backend".
 */
int command_opening(struct commands *c, const json_t *req, bool required, bool narrows,
		    struct opening *out, char *err, size_t errlen);

/* command_events - parse field "events", which is required, to keys and names, which the caller
 * frees. */
int command_events(struct commands *c, const json_t *req, vpmu_key_t keys[SESSION_EVENTS_MAX],
		   char *names[SESSION_EVENTS_MAX], size_t *n, char *err, size_t errlen);

/* Description of sessions, profiles or captures. */
struct command_kind {
	const char *field; /* "session": the field with its name */
	/* Add the fields of this kind only. */
	void (*describe)(const struct registered *e, const struct access *who, json_t *obj);
};

/* command_describe - add @e's name, target and keep, and the fields of its kind for this client. */
void command_describe(const struct commands *c, const struct command_kind *kind,
		      const struct registered *e, json_t *obj);
/* command_array - add @array, which it takes over, as field @key unless it is empty. */
void command_array(json_t *obj, const char *key, json_t *array);
/* command_backend - add field "backend" and, if other backends count @target as well, "left-out":
 * an array of these. @target NULL: gone. */
void command_backend(const char *backend, const struct node *target, json_t *obj);
/* command_list - implements the command that lists all of @r. */
int command_list(const struct commands *c, const struct command_kind *kind,
		 const struct registry *r, const json_t *req, json_t *resp, char *err,
		 size_t errlen);
/* command_opened - @e is new: close it again if the client gets no answer.
 * command_ended - close @e if the client gets its answer. */
void command_opened(struct commands *c, struct registered *e);
void command_ended(struct commands *c, struct registered *e);
/* command_named - look up the object of @r that field r->kind->kind names. */
int command_named(const struct commands *c, const struct registry *r, const json_t *req,
		  struct registered **out, char *err, size_t errlen);

/* ---- in files of their own ------------------------------------------------------------------ */

extern command_fn cmd_history;
extern command_fn cmd_attach, cmd_reattach, cmd_read, cmd_detach, cmd_sessions;
extern command_fn cmd_profile_start, cmd_profile_read, cmd_profile_stop, cmd_profiles;
extern command_fn cmd_lbr_attach, cmd_lbr_read, cmd_lbr_detach, cmd_captures;
