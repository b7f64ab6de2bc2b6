// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Names, owners and the list of sessions, profiles or captures. It must never start or stop one but
 * by kind->close.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cgroup/service/registry.h"
#include "vpmu/util/fail.h"

bool registry_name_ok(const char *name, char *err, size_t errlen)
{
	size_t len = strlen(name);

	if (len >= 1 && len <= REGISTRY_NAME_MAX &&
	    strspn(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.:-") ==
		    len)
		return true;
	fail(-EINVAL, err, errlen, "name: \"%.64s\": 1 to %d of [A-Za-z0-9_.:-] are accepted", name,
	     REGISTRY_NAME_MAX);
	return false;
}

int registry_prepare(struct registry *r, struct registered *e, const struct opening *o, char *err,
		     size_t errlen)
{
	const struct registry_kind *k = r->kind;
	const char *name = o->name;

	if (r->nr >= k->max)
		return fail(-E2BIG, err, errlen, "%s: there are %u %ss; %s one of `%ss` first",
			    k->open, r->nr, k->kind, k->end, k->kind);
	if (name && !registry_name_ok(name, err, errlen))
		return -EINVAL;
	if (name && registry_find(r, name))
		return fail(-EEXIST, err, errlen,
			    "name: there is a %s \"%s\"; %s it, or take another name", k->kind,
			    name, k->end);
	e->target = strdup(node_target(o->target));
	if (!e->target)
		return fail(-ENOMEM, err, errlen, "%s: out of memory", k->open);
	if (name)
		strcpy(e->name, name);
	else
		snprintf(e->name, sizeof(e->name), "@%llu", (unsigned long long)++r->next_auto);
	e->owner = o->owner;
	e->next = NULL;
	return 0;
}

void registry_discard(struct registered *e)
{
	free(e->target);
	e->target = NULL;
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

void registry_close_owner(struct registry *r, const void *owner)
{
	struct registered *e;

	while ((e = registry_owned(r, owner)))
		r->kind->close(e);
}

void registry_close_all(struct registry *r)
{
	while (r->first)
		r->kind->close(r->first);
}

struct registered *registry_find(const struct registry *r, const char *name)
{
	struct registered *e = r->first;

	while (e && strcmp(e->name, name) != 0)
		e = e->next;
	return e;
}

struct registered *registry_owned(const struct registry *r, const void *owner)
{
	struct registered *e = r->first;

	while (e && e->owner != owner)
		e = e->next;
	return e;
}
