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

/* The part of an object that its registry knows: first in the object's own struct. */
struct registered {
	char name[REGISTRY_NAME_MAX + 1];
	char *target;	   /* node_target of what it is about; it may come and go */
	const void *owner; /* who opened it; NULL: it stays when they are gone */
	struct registered *next;
};

/* What kind of objects, in the words of the protocol. Constants. */
struct registry_kind {
	const char *kind; /* "session"; the command that lists them adds an s */
	const char *open; /* "attach": the command that makes one */
	const char *end;  /* "detach": what a user does to be rid of one */
	unsigned int max;
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
 * registry_prepare - give @e a name (@name NULL: "@1", "@2", ...), a target and an owner. It is not
 * in the list yet: registry_add puts it there, registry_discard undoes this. -E2BIG: there are
 * kind->max; -EEXIST: the name is taken; -EINVAL: it is no name; -ENOMEM. One line to @err.
 */
int registry_prepare(struct registry *r, struct registered *e, const char *name,
		     const struct node *target, const void *owner, char *err, size_t errlen);
void registry_discard(struct registered *e);
void registry_add(struct registry *r, struct registered *e);
/* registry_remove - out of the list, and discard. */
void registry_remove(struct registry *r, struct registered *e);

/* registry_find - by name; registry_owned - the first one of @owner. NULL: there is none. */
struct registered *registry_find(const struct registry *r, const char *name);
struct registered *registry_owned(const struct registry *r, const void *owner);

#endif
