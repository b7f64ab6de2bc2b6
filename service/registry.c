// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Names, owners and the list of sessions, profiles or captures. It must never start or stop one
 * except by kind->close.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "service/clock.h"
#include "service/registry.h"
#include "vpmu/util/fail.h"

/* Returns true for 1 to REGISTRY_NAME_MAX of [A-Za-z0-9_.:-]; else one line to @err. */
static bool registry_name_ok(const char *name, char *err, size_t errlen)
{
	size_t len = strlen(name);

	if (len >= 1 && len <= REGISTRY_NAME_MAX &&
	    strspn(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.:-") ==
		    len)
		return true;
	fail(-EINVAL, err, errlen,
	     "name: \"%.64s\" is invalid; expected 1 to %d of [A-Za-z0-9_.:-]", name,
	     REGISTRY_NAME_MAX);
	return false;
}

static bool same_user(const struct registered *e, const struct access *who)
{
	if (access_admin(&e->who) || access_admin(who))
		return access_admin(&e->who) && access_admin(who);
	return e->who.uid == who->uid;
}

/* Check the limits for one more object of @who. Messages contain numbers only if @who may see
 * everything that they count. */
static int check_limits(struct registry *r, const struct access *who, char *err, size_t errlen)
{
	const struct registry_kind *k = r->kind;
	unsigned int nr[NR_POOLS] = {0};
	enum access_pool full;
	const char *whose;

	for (const struct registered *e = r->first; e; e = e->next)
		access_count(nr, who, &e->who);
	full = access_full(nr, k->max);
	if (full == NR_POOLS)
		return 0;
	r->refused++;
	if (full != POOL_USER && !access_admin(who))
		return fail(-E2BIG, err, errlen, "%s: no room for one more %s %s; try again later",
			    k->open, k->kind,
			    full == POOL_TENANT ? "of your tenants' users" : "now");
	whose = full == POOL_USER     ? "you have"
		: full == POOL_OTHERS ? "users other than root have"
				      : "there are";
	return fail(-E2BIG, err, errlen,
		    "%s: %s %u %ss, which is the limit; %s one first, `vpmu sessions` shows them",
		    k->open, whose, k->max[full], k->kind, k->end);
}

static bool registry_taken(const struct registry *r, const char *name, const struct access *who)
{
	for (const struct registered *e = r->first; e; e = e->next)
		if (same_user(e, who) && strcmp(e->name, name) == 0)
			return true;
	return false;
}

/* A random name for a reader: it reveals no number of others' objects, and is not reused while the
 * reader may still know a former one. */
static void name_by_chance(const struct registry *r, struct registered *e, const struct access *who)
{
	uint64_t nr;

	do {
		/* Fallback: the clock reveals nothing of others, either. */
		if (getrandom(&nr, sizeof(nr), GRND_NONBLOCK) != sizeof(nr))
			nr = now_ns();
		snprintf(e->name, sizeof(e->name), "@%llu", (unsigned long long)(nr >> 16));
	} while (registry_taken(r, e->name, who));
}

int registry_prepare(struct registry *r, struct registered *e, const struct opening *o, char *err,
		     size_t errlen)
{
	const struct registry_kind *k = r->kind;
	const char *name = o->name;

	if (check_limits(r, o->who, err, errlen))
		return -E2BIG;
	if (name && !registry_name_ok(name, err, errlen))
		return -EINVAL;
	if (name && registry_taken(r, name, o->who))
		return fail(-EEXIST, err, errlen,
			    "name: there is a %s \"%s\"; %s it, or take another name", k->kind,
			    name, k->end);
	e->target = strdup(node_target(o->target));
	e->path = k->by_row ? NULL : strdup(o->target->path);
	if (!e->target || (!k->by_row && !e->path)) {
		registry_discard(e);
		return fail(-ENOMEM, err, errlen, "%s: out of memory", k->open);
	}
	if (name)
		strcpy(e->name, name);
	else if (access_admin(o->who))
		snprintf(e->name, sizeof(e->name), "@%llu", (unsigned long long)++r->next_auto);
	else
		name_by_chance(r, e, o->who);
	e->kind = k;
	e->owner = o->owner;
	e->who = o->who ? *o->who : (struct access){.owner = true, .admin = true, .all = true};
	e->next = NULL;
	return 0;
}

void registry_discard(struct registered *e)
{
	free(e->target);
	free(e->path);
	e->target = e->path = NULL;
}

void registry_add(struct registry *r, struct registered *e)
{
	struct registered **link = &r->first;

	while (*link)
		link = &(*link)->next;
	*link = e;
	r->nr++;
}

void registry_remove(struct registry *r, struct registered *e)
{
	struct registered **link = &r->first;

	while (*link != e)
		link = &(*link)->next;
	*link = e->next;
	r->nr--;
	registry_discard(e);
}

void registry_lose(struct registered *e)
{
	e->owner = NULL;
	e->lost_ns = now_ns();
}

void registry_owner_lost(struct registry *r, const void *owner)
{
	struct registered *e;

	while ((e = registry_owned(r, owner))) {
		if (!r->kind->stays || e->name[0] == '@') {
			r->kind->close(e);
			continue;
		}
		registry_lose(e);
	}
}

uint64_t registry_expire(struct registry *r)
{
	uint64_t now = now_ns(), left = 0;
	struct registered *e, *next;

	for (e = r->first; e; e = next) {
		uint64_t end = e->lost_ns + r->keep_lost_ns;

		next = e->next;
		if (!e->lost_ns)
			continue;
		if (end <= now)
			r->kind->close(e);
		else if (!left || end - now < left)
			left = end - now;
	}
	return left;
}

void registry_close_all(struct registry *r)
{
	while (r->first)
		r->kind->close(r->first);
}

bool registry_usable(const struct registered *e, const struct access *who)
{
	return access_admin(who) || (same_user(e, who) && (!e->path || access_sees(who, e->path)));
}

struct registered *registry_find(const struct registry *r, const char *name,
				 const struct access *who)
{
	struct registered *found = NULL;

	for (struct registered *e = r->first; e; e = e->next) {
		if (strcmp(e->name, name) != 0 || !registry_usable(e, who))
			continue;
		if (!found || access_admin(&e->who))
			found = e;
	}
	return found;
}

struct registered *registry_owned(const struct registry *r, const void *owner)
{
	struct registered *e = r->first;

	while (e && e->owner != owner)
		e = e->next;
	return e;
}
