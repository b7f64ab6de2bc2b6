/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Named objects that operators open and close: sessions, profiles and captures each have a registry
 * of their own. It keeps names, owners and targets, the list in order of opening, and the limit of
 * how many there are. What an object does is its own module's. Control thread.
 */
#ifndef SERVICE_REGISTRY_H
#define SERVICE_REGISTRY_H

#include <stdbool.h>

#include "service/access.h"
#include "service/tenant/tenant.h"

#define REGISTRY_NAME_MAX 64 /* bytes of a name */

/* What every request to open one says. */
struct opening {
	const char *name;    /* NULL: "@1", "@2", ...; for a reader "@" and a number by chance */
	const char *backend; /* NULL: not given. Sessions are of all backends */
	struct node *target;
	const void *owner;	  /* the connection; NULL: it stays when that ends */
	const struct access *who; /* who asks; NULL: the server itself */
};

/* The part of an object that its registry knows: first in the object's own struct. */
struct registered {
	char name[REGISTRY_NAME_MAX + 1];
	char *target; /* node_target of what it is about; it may come and go */
	char *path;   /* of the target, which a user must see; NULL: see registry_kind.by_row */
	const void *owner; /* opening.owner; NULL also when it is lost */
	uint64_t lost_ns;  /* not 0: its connection has ended; now_ns of that, or of its last use */
	struct access who; /* who opened it */
	struct registered *next;
};

/* What kind of objects, in the words of the protocol. Constants. */
struct registry_kind {
	const char *kind; /* "session"; the command that lists them adds an s */
	const char *open; /* "attach": the command that makes one */
	const char *end;  /* "detach": what a user does to be rid of one */
	unsigned int max[NR_POOLS];
	bool by_row; /* its rows are shown to those only who may see them */
	bool stays;  /* a named one outlives its connection by registry.lost_ns */
	void (*close)(struct registered *e); /* stop it, registry_remove and free it */
};

struct registry {
	const struct registry_kind *kind;
	struct registered *first;
	unsigned int nr;
	uint64_t next_auto;
	uint64_t keep_lost_ns; /* how long a lost one stays */
	uint64_t refused;      /* opens refused because of kind->max */
};

/* registry_name_ok - 1 to REGISTRY_NAME_MAX of [A-Za-z0-9_.:-]. One line to @err when not. Pure. */
bool registry_name_ok(const char *name, char *err, size_t errlen);

/*
 * registry_prepare - give @e the name, target and owner of @o. It is not in the list yet:
 * registry_add puts it there, registry_discard undoes this. -E2BIG: there are as many as the kind
 * allows; -EEXIST: the name is taken; -EINVAL: it is no name; -ENOMEM. One line to @err.
 * Administrators share their names; each reader has names of its own, so that none learns those of
 * others.
 */
int registry_prepare(struct registry *r, struct registered *e, const struct opening *o, char *err,
		     size_t errlen);
void registry_discard(struct registered *e);
void registry_add(struct registry *r, struct registered *e);
/* registry_remove - out of the list, and discard. */
void registry_remove(struct registry *r, struct registered *e);

/* registry_owner_lost - connection @owner has ended. Named ones of a kind that stays are kept
 * for keep_lost_ns, the others are closed. registry_expire - close those whose time is over, and
 * return how many ns are left for the next, 0 if there is none. registry_close_all - close all
 * there are. */
void registry_owner_lost(struct registry *r, const void *owner);
uint64_t registry_expire(struct registry *r);
void registry_close_all(struct registry *r);

/* registry_usable - whether @who may use @e: administrators use all, readers their own, as far as
 * they may see now what it is about.
 * registry_find - by name, of those that @who may use; an administrators' one first.
 * registry_owned - the first one of @owner. NULL: there is none. */
bool registry_usable(const struct registered *e, const struct access *who);
struct registered *registry_find(const struct registry *r, const char *name,
				 const struct access *who);
struct registered *registry_owned(const struct registry *r, const void *owner);

#endif
