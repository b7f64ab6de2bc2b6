/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Operator sessions: a list of events counted for one node, or for each tenant, VM or vCPU of a
 * part of the tree. A session is a set of rows, one per node, each with one consumer per event.
 * Rows follow the tree: a node that comes gets a row that counts from then on; a node that goes
 * leaves its final values, shown by one more read. All functions: control thread.
 *
 * Counts of a tenant include everything below it, so a row and the rows below it overlap; what a
 * removed node counted is in its parent's row ever after.
 */
#ifndef CGROUP_SERVICE_SESSION_H
#define CGROUP_SERVICE_SESSION_H

#include <stddef.h>
#include <stdint.h>

#include "cgroup/tenant/tenant.h"

#define SESSION_EVENTS_MAX 64	  /* events of one session: no more slots than these */
#define SESSION_NAME_MAX   64	  /* bytes of a session's name */
#define SESSION_VALUES_MAX 262144 /* rows times events of one session */
#define SESSION_GONE_MAX   4096	  /* rows of removed nodes kept; older ones are dropped */
#define SESSIONS_MAX	   256

enum session_scope { SESSION_ONE, SESSION_TENANT, SESSION_VM, SESSION_VCPU };

/* session_scope_parse - "none", "tenant", "vm", "vcpu"; -EINVAL otherwise. session_scope_name is
 * the inverse. */
int session_scope_parse(const char *name, enum session_scope *scope);
const char *session_scope_name(enum session_scope scope);

/* session_name_ok - 1 to SESSION_NAME_MAX of [A-Za-z0-9_.:-]; profiles and captures have such names
 * too. One line to @err when not. Pure. */
bool session_name_ok(const char *name, char *err, size_t errlen);

struct sessions;
struct session;

/* sessions_create - watches @ts. sessions_destroy closes every session. */
int sessions_create(struct tenants *ts, struct sessions **out);
void sessions_destroy(struct sessions *ss);

struct session_spec {
	const char *name; /* NULL: "@1", "@2", ... Names given: [A-Za-z0-9_.:-] */
	size_t nr_events;
	const char *const *events; /* as the operator spelled them; copied */
	const vpmu_key_t *keys;
	enum session_scope scope;
	const struct node *target; /* what SESSION_ONE counts; where the others look. "/": all */
	const void *owner;	   /* session_close_owner's; NULL: stays */
};

/*
 * session_open - count from now on. -EEXIST: name taken; -EINVAL: scope and target do not fit;
 * -ENOSPC: the host has no slot left; -E2BIG: too many rows or sessions. One line to @err.
 * The session stays bound to the target's name: a tenant or VM of that name that comes later is
 * counted too.
 */
int session_open(struct sessions *ss, const struct session_spec *spec, struct session **out,
		 char *err, size_t errlen);

/* session_close - stop. Other sessions and consumers do not notice. */
void session_close(struct session *s);
/* session_close_owner - close every session of @owner. session_owned - whether there is one. */
void session_close_owner(struct sessions *ss, const void *owner);
bool session_owned(const struct sessions *ss, const void *owner);

struct session *session_find(const struct sessions *ss, const char *name);
/* sessions_each - in order of opening; stops when @fn returns non-zero and returns that. */
int sessions_each(const struct sessions *ss, int (*fn)(struct session *s, void *arg), void *arg);

const char *session_name(const struct session *s);
const char *session_target(const struct session *s); /* path or VM name */
enum session_scope session_scope(const struct session *s);
const void *session_owner(const struct session *s);
size_t session_nr_events(const struct session *s);
size_t session_nr_rows(const struct session *s);
const char *session_event(const struct session *s, size_t i);
vpmu_key_t session_key(const struct session *s, size_t i);
uint64_t session_age_ns(const struct session *s);      /* CLOCK_MONOTONIC since the attach */
uint64_t session_read_age_ns(const struct session *s); /* likewise, of the last read's values */
uint64_t session_dropped(const struct session *s);     /* rows lost to SESSION_GONE_MAX so far */

/* One node's values. Valid during the callback. */
struct session_row {
	uint64_t id; /* of this row in its session; never used again */
	enum node_kind kind;
	unsigned int depth; /* of the node in the tree; "/" is 0 */
	const char *path;   /* the tenant's, or of the tenant the VM is in */
	const char *vm;	    /* NODE_VM and NODE_VCPU, else NULL */
	unsigned int vcpu;
	bool gone;			 /* the node was removed: final values, not shown again */
	const char *error;		 /* not NULL: the node could not be counted, and why */
	const struct vpmu_value *values; /* nr_events */
};

/*
 * session_read - make all counts current (once) and call @fn for every row, parents before
 * children. While vCPUs run, a parent shows at least the sum of its children. Rows of removed nodes
 * are forgotten after it, unless @keep_gone. Stops when @fn returns non-zero and returns that (then
 * nothing is forgotten). @fn must not touch sessions.
 */
int session_read(struct session *s, bool keep_gone,
		 int (*fn)(const struct session_row *row, void *arg), void *arg);

#endif
