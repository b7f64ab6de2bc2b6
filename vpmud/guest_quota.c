// SPDX-License-Identifier: GPL-2.0-or-later
/* Quotas of distinct events for guests, see guest_quota.h. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "service/program/memory.h"
#include "vpmud/guest_quota.h"

/* ---- events --------------------------------------------------------------------------------- */

/* The place of @key, or a free one; -1: neither. */
static int quota_place(const struct guest_quotas *s, vpmu_key_t key)
{
	int at = -1;

	for (int i = 0; i < GUEST_KEYS_MAX; i++) {
		if (s->key[i] == key)
			return i;
		if (!s->key[i] && at < 0)
			at = i;
	}
	return at;
}

int guest_quota_take(struct guest_quotas *s, struct guest_quota *q, vpmu_key_t key)
{
	int at = quota_place(s, key);

	if (at < 0)
		return -ENOSPC;
	for (const struct guest_quota *u = q; u; u = u->parent)
		if (!u->refs[at] && u->max && u->nr >= u->max)
			return -ENOSPC;
	for (struct guest_quota *u = q; u; u = u->parent)
		u->nr += !u->refs[at]++;
	s->all.nr += !s->all.refs[at]++;
	s->key[at] = key;
	return 0;
}

void guest_quota_release(struct guest_quotas *s, struct guest_quota *q, vpmu_key_t key)
{
	int at = quota_place(s, key);

	for (struct guest_quota *u = q; u; u = u->parent)
		u->nr -= !--u->refs[at];
	if (!--s->all.refs[at]) {
		s->all.nr--;
		s->key[at] = 0;
	}
}

/* ---- tenants -------------------------------------------------------------------------------- */

struct guest_quota *guest_quota_enter(struct guest_quotas *s, const char *path,
				      guest_quota_limit *limit, const void *arg)
{
	const char *slash = strrchr(path, '/');
	struct guest_quota *q = s->tenants;
	char *above;

	while (q && strcmp(q->path, path))
		q = q->next;
	if (!q) {
		q = xcalloc(1, sizeof(*q));
		q->path = xstrdup(path);
		q->max = limit(arg, path);
		q->next = s->tenants;
		s->tenants = q;
		if (slash && slash > path) {
			above = xstrndup(path, (size_t)(slash - path));
			q->parent = guest_quota_enter(s, above, limit, arg);
			free(above);
		}
	}
	q->users++;
	return q;
}

void guest_quota_leave(struct guest_quotas *s, struct guest_quota *tenant)
{
	struct guest_quota **link = &s->tenants, *above;

	while (tenant && !--tenant->users) {
		while (*link != tenant)
			link = &(*link)->next;
		*link = tenant->next;
		above = tenant->parent;
		free(tenant->path);
		free(tenant);
		tenant = above;
		link = &s->tenants;
	}
}

void guest_quota_limits(struct guest_quotas *s, guest_quota_limit *limit, const void *arg)
{
	for (struct guest_quota *q = s->tenants; q; q = q->next)
		q->max = limit(arg, q->path);
}
