/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Named objects that operators open and close: sessions, profiles and captures each have a registry
 * of their own. It keeps names, owners and targets, the list in order of opening, and the limit of
 * how many there are. What an object does is its own module's. Control thread.
 */
#ifndef CGROUP_SERVICE_REGISTRY_H
#define CGROUP_SERVICE_REGISTRY_H

#include <stdbool.h>

#include "cgroup/tenant/tenant.h"

#define REGISTRY_NAME_MAX 64 /* bytes of a name */

/* What every request to open one says. */
struct opening {
	const char *name;  /* NULL: "@1", "@2", ... */
	const char *plane; /* NULL: not given. Sessions are of all planes */
	struct node *target;
	const void *owner; /* the connection; NULL: it stays when that ends */
};

/* The part of an object that its registry knows: first in the object's own struct. */
struct registered {
	char name[REGISTRY_NAME_MAX + 1];
	char *target;	   /* node_target of what it is about; it may come and go */
	const void *owner; /* opening.owner */
	struct registered *next;
};

/* What kind of objects, in the words of the protocol. Constants. */
struct registry_kind {
	const char *kind; /* "session"; the command that lists them adds an s */
	const char *open; /* "attach": the command that makes one */
	const char *end;  /* "detach": what a user does to be rid of one */
	unsigned int max;
	void (*close)(struct registered *e); /* stop it, registry_remove and free it */
};

struct registry {
	const struct registry_kind *kind;
	struct registered *first;
	unsigned int nr;
	uint64_t next_auto;
};

/* registry_name_ok - 1 to REGISTRY_NAME_MAX of [A-Za-z0-9_.:-]. One line to @err when not. Pure. */
bool registry_name_ok(const char *name, char *err, size_t errlen);

/*
 * registry_prepare - give @e the name, target and owner of @o. It is not in the list yet:
 * registry_add puts it there, registry_discard undoes this. -E2BIG: there are kind->max; -EEXIST:
 * the name is taken; -EINVAL: it is no name; -ENOMEM. One line to @err.
 */
int registry_prepare(struct registry *r, struct registered *e, const struct opening *o, char *err,
		     size_t errlen);
void registry_discard(struct registered *e);
void registry_add(struct registry *r, struct registered *e);
/* registry_remove - out of the list, and discard. */
void registry_remove(struct registry *r, struct registered *e);

/* registry_close_owner - close all of @owner. registry_close_all - close all there are. */
void registry_close_owner(struct registry *r, const void *owner);
void registry_close_all(struct registry *r);

/* registry_find - by name; registry_owned - the first one of @owner. NULL: there is none. */
struct registered *registry_find(const struct registry *r, const char *name);
struct registered *registry_owned(const struct registry *r, const void *owner);

#endif
