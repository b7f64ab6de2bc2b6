/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Named objects that operators open and close: sessions, profiles and captures each have a
 * registry. It keeps names, owners and targets, the list in order of opening, and the limits. The
 * objects' function is in their own modules. Control thread.
 */
#pragma once

#include <stdbool.h>

#include "service/access.h"
#include "service/tenant/tenant.h"

#define REGISTRY_NAME_MAX 64 /* bytes of a name */

/* Fields common to all requests that open an object. */
struct opening {
	const char *name;    /* NULL: "@1", "@2", ...; for a reader "@" and a random number */
	const char *backend; /* NULL: not given. Not used by sessions, which are of all backends */
	struct node *target;
	const void *owner;	  /* the connection; NULL: the object outlives it */
	const struct access *who; /* rights of the client; NULL: the server itself */
};

/* The registry's part of an object: first in the object's own struct. */
struct registered {
	const struct registry_kind *kind;
	char name[REGISTRY_NAME_MAX + 1];
	char *target;	   /* node_target of its target, which may come and go */
	char *path;	   /* of the target, which a user must be allowed to see; NULL: see
			    * registry_kind.by_row */
	const void *owner; /* opening.owner; NULL also while lost */
	uint64_t lost_ns;  /* not 0: lost; now_ns of its connection's end, or of its last use */
	struct access who; /* rights of the client that opened it */
	struct registered *next;
};

/* A kind of objects, in the words of the protocol. Constants. */
struct registry_kind {
	const char *kind; /* "session"; the listing command adds an s */
	const char *open; /* "attach": the command that opens one */
	const char *end;  /* "detach": the command that ends one */
	unsigned int max[NR_POOLS];
	bool by_row; /* rights are checked for each row, not for the target */
	bool stays;  /* a named one outlives its connection by registry.keep_lost_ns */
	void (*close)(struct registered *e); /* stops it, calls registry_remove and frees it */
};

struct registry {
	const struct registry_kind *kind;
	struct registered *first;
	unsigned int nr;
	uint64_t next_auto;
	uint64_t keep_lost_ns; /* how long a lost object is kept */
	uint64_t refused;      /* opens refused because of kind->max */
};

/*
 * registry_prepare - set @e's name, target and owner from @o. It is not in the list yet:
 * registry_add inserts it, registry_discard undoes this. -E2BIG: limit of the kind reached;
 * -EEXIST: the name is taken; -EINVAL: invalid name; -ENOMEM. One line to @err. Administrators
 * share a name space; each reader has its own, so that none learns names of others.
 */
int registry_prepare(struct registry *r, struct registered *e, const struct opening *o, char *err,
		     size_t errlen);
void registry_discard(struct registered *e);
void registry_add(struct registry *r, struct registered *e);
/* registry_remove - remove from the list, and discard. */
void registry_remove(struct registry *r, struct registered *e);

/* registry_owner_lost - connection @owner has ended. Named objects of a kind that stays are kept
 * for keep_lost_ns, the others are closed.
 * registry_lose - the same for one named object.
 * registry_expire - close the lost objects that are due; returns the ns until the next is, 0 if
 * there is none.
 * registry_close_all - close all objects. */
void registry_lose(struct registered *e);
void registry_owner_lost(struct registry *r, const void *owner);
uint64_t registry_expire(struct registry *r);
void registry_close_all(struct registry *r);

/* registry_usable - returns true if @who may use @e: administrators use all, readers their own, if
 * they may see its target now.
 * registry_find - find by name among the objects that @who may use; one of an administrator takes
 * precedence.
 * registry_owned - the first object of @owner; NULL: none. */
bool registry_usable(const struct registered *e, const struct access *who);
struct registered *registry_find(const struct registry *r, const char *name,
				 const struct access *who);
struct registered *registry_owned(const struct registry *r, const void *owner);
