/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Operator sessions: a list of events counted for one node, or for each tenant, VM or vCPU of a
 * part of the tree. A session is a set of rows, each with one value per event. A node has one row
 * per backend that counts it: a tenant with VMs on two backends has two rows, which are never
 * added. Rows follow the tree: a new node gets a row that counts from then on; a removed node's row
 * keeps its final values, which one more read shows. All functions: control thread.
 *
 * Counts of a tenant include everything below it on the same backend, so a row and the rows below
 * it overlap. A removed node's counts remain in its parent's row.
 */
#pragma once

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

#include "service/clock.h"
#include "service/registry.h"

#define SESSION_EVENTS_MAX  64	   /* events of one session */
#define SESSION_VALUES_MAX  262144 /* rows times events of one session */
#define SESSION_METRICS_MAX 1024   /* bytes of its metrics' names */
#define SESSION_GONE_MAX    4096   /* rows of removed nodes kept; older ones are dropped */
#define SESSIONS_MAX	    256
/* Limits of distinct events at a time, for one reader, the readers of a tenant, and all readers:
 * the host has 64 slots. */
#define SESSION_USER_KEYS    16
#define SESSION_TENANT_KEYS  24
#define SESSION_READERS_KEYS 32

enum session_scope { SESSION_ONE, SESSION_TENANT, SESSION_VM, SESSION_VCPU };

/* session_scope_parse - parse "none", "tenant", "vm", "vcpu"; -EINVAL otherwise.
 * session_scope_name - the inverse. */
int session_scope_parse(const char *name, enum session_scope *scope);
const char *session_scope_name(enum session_scope scope);

struct sessions;

/* One session. Read-only for users of this header. */
struct session {
	struct registered reg; /* first: name, target, owner */
	enum session_scope scope;
	size_t nr_events;
	char **events; /* as given */
	vpmu_key_t *keys;
	char *metrics;	/* names of metrics that the client wants of it; NULL: none */
	char *cpu_list; /* as given; NULL: all CPUs */
	bool *cpus;	/* of cpu_list, one per CPU of the backends; NULL: all */
	size_t nr_rows;
	uint64_t opened_ns;	  /* now_ns of the attach: its values were 0 between this */
	uint64_t opened_width_ns; /* less this and it; UINT64_MAX: unknown */
	struct as_of read;	  /* the last reading */
	uint64_t dropped;	  /* rows that were never shown: too many, or out of memory */
	/* private */
	struct sessions *ss;
	struct tenants *ts;
	bool target_vm;
	struct row **rows;
	size_t cap_rows, nr_gone;
	uint64_t next_id, sorted_gen;
	uint64_t forget_ns;  /* of the current read: rows that went before this are forgotten after
			      * it */
	const json_t *saved; /* a former server's state, until sessions_restored: session_save.h */
	size_t saved_at;     /* index in its rows after the last match */
	const struct session_bases *bases;
};

/* sessions_create - watches @ts.
 * sessions_destroy - closes every session. */
struct sessions *sessions_create(struct tenants *ts);
void sessions_destroy(struct sessions *ss);

/* sessions_on_gone - call @fn when a row's node is removed, with its last values; they may be
 * forgotten before the next read. One user. @fn must not use sessions. */
struct row;
void sessions_on_gone(struct sessions *ss,
		      void (*fn)(const struct session *s, const struct row *r, void *arg),
		      void *arg);

/* sessions_registry - of struct session.
 * sessions_tenants - the tree that they watch.
 * sessions_generation - changes whenever a session is opened or closed. */
struct registry *sessions_registry(struct sessions *ss);
struct tenants *sessions_tenants(const struct sessions *ss);
uint64_t sessions_generation(const struct sessions *ss);

struct session_spec {
	struct opening open; /* target: the node of SESSION_ONE, the top of the others */
	size_t nr_events;
	const char *const *events; /* as given; copied */
	const vpmu_key_t *keys;
	const char *metrics; /* kept for clients, as given; NULL: none */
	const char *cpus;    /* a list of CPUs to count; NULL: all. Not for sessions with a name */
	enum session_scope scope;
};

/*
 * session_open - count from now on. -EEXIST: name taken; -EINVAL: scope and target do not fit,
 * or the CPUs; -EOPNOTSUPP: a backend counts no single CPUs;
 * -ENOSPC: a backend has no counter slot left, or a reader's share of them is used up; -ETIMEDOUT:
 * a CPU of a backend is stalled (in these cases no backend counts); -E2BIG: too many rows or
 * sessions. One line to @err. The session is bound to the target's name: a later tenant or VM of
 * that name is counted, too. The row of a SESSION_ONE of a VM then goes on: its values cover all
 * runs of the VM.
 */
int session_open(struct sessions *ss, const struct session_spec *spec, struct session **out,
		 char *err, size_t errlen);

/* session_rows_for - number of rows of @s for nodes that @who sees. */
size_t session_rows_for(const struct session *s, const struct access *who);

/* session_counts_on - returns true if @source counts a row of @s now. */
bool session_counts_on(const struct session *s, const struct vpmu_backend *source);

/* session_close - stop and free. Other sessions are not affected. */
void session_close(struct session *s);

/* One node's values on one backend. Valid only during the callback. */
struct session_row {
	uint64_t id;	     /* of this row in its session; never reused */
	const char *backend; /* name of the backend */
	enum node_kind kind;
	unsigned int depth; /* of the node in the tree; "/" is 0 */
	const char *path;   /* of the tenant, or of the VM's tenant */
	const char *vm;	    /* NODE_VM and NODE_VCPU, else NULL */
	unsigned int vcpu;
	uint64_t since_us; /* CLOCK_REALTIME: the values count from then on */
	uint64_t late_ns;  /* time before it was found, which the values lack: tenant_late() */
	bool gone;	   /* the node was removed: final values, usually shown once */
	uint64_t gone_ns;  /* gone: now_ns of that */
	const char *error; /* not NULL: the reason why the node is not counted */
	const struct vpmu_value *values; /* nr_events */
};

/*
 * session_read - flush every backend that has rows here once, set @s->read, and call @fn for every
 * row, parents before children; a row stays unchanged until the next call about the session or the
 * tree. While vCPUs run, a parent shows at least the sum of its children on its backend. @fn must
 * not use sessions.
 */
void session_read(struct session *s, void (*fn)(const struct session_row *row, void *arg),
		  void *arg);
/* session_forget_before - forget rows of nodes that were removed before @ns (now_ns): later reads
 * do not show them. */
void session_forget_before(struct session *s, uint64_t ns);
