// SPDX-License-Identifier: GPL-2.0-or-later
/* Chooses the backend of a profile or capture. It must never choose silently among several. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "service/backend_choice.h"
#include "vpmu/util/fail.h"

/* Names of backends for an error text, such as "emulator, kvm", or "none". */
static const char *names(const struct tenants *ts, const struct node *n, char *buf, size_t len)
{
	const struct vpmu_backend *s;
	size_t at = 0;

	snprintf(buf, len, "none");
	for (unsigned int i = 0; (s = tenants_source(ts, i)); i++)
		if ((!n || n->in[i]) && at < len)
			at += (size_t)snprintf(buf + at, len - at, "%s%s", at ? ", " : "",
					       s->backend);
	return buf;
}

/* The last backend with @can of those that count @n (NULL: of all). *nr: their number. */
static struct vpmu_backend *able(const struct tenants *ts, const struct node *n, unsigned int can,
				 unsigned int *nr)
{
	struct vpmu_backend *s, *found = NULL;

	*nr = 0;
	for (unsigned int i = 0; (s = tenants_source(ts, i)); i++) {
		if ((n && !n->in[i]) || (s->can & can) != can)
			continue;
		found = s;
		++*nr;
	}
	return found;
}

static int backend_choice_named(const struct tenants *ts, const struct node *target,
				unsigned int can, const char *what, const char *backend,
				struct vpmu_backend **out, char *err, size_t errlen)
{
	struct vpmu_backend *s;
	unsigned int i = 0;
	char buf[128];

	while ((s = tenants_source(ts, i)) && strcmp(s->backend, backend) != 0)
		i++;
	if (!s)
		return fail(-ENOENT, err, errlen, "backend: no \"%s\"; this host has: %s", backend,
			    names(ts, NULL, buf, sizeof(buf)));
	if (target->kind == NODE_VM && !target->in[i])
		return fail(-EINVAL, err, errlen, "backend: VM %s is on backend %s", target->name,
			    node_source(target)->backend);
	if ((s->can & can) != can)
		return fail(-EOPNOTSUPP, err, errlen, "backend: %s has no %s", backend, what);
	*out = s;
	return 0;
}

static int only(const struct tenants *ts, const struct node *target, unsigned int can,
		const char *what, struct vpmu_backend **out, char *err, size_t errlen)
{
	bool counted = false;
	unsigned int nr;
	char buf[128];

	for (unsigned int i = 0; i < TENANTS_SOURCES_MAX; i++)
		counted |= target->in[i] != NULL;
	*out = able(ts, counted ? target : NULL, can, &nr);
	if (nr == 1)
		return 0;
	names(ts, counted ? target : NULL, buf, sizeof(buf));
	if (nr > 1)
		return fail(-EINVAL, err, errlen, "backend: %s is on several: %s; name one",
			    node_target(target), buf);
	if (counted)
		return fail(-EOPNOTSUPP, err, errlen,
			    "target: %s is counted on backend %s, which has no %s",
			    node_target(target), buf, what);
	return fail(-EOPNOTSUPP, err, errlen,
		    "target: no backend of this host has %s (backends: %s); VMs of the emulator do",
		    what, buf);
}

int backend_choose(struct tenants *ts, struct node *target, unsigned int can, const char *what,
		   const char *backend, struct vpmu_backend_node **out, char *err, size_t errlen)
{
	struct vpmu_backend *s = NULL;
	int ret = backend ? backend_choice_named(ts, target, can, what, backend, &s, err, errlen)
			  : only(ts, target, can, what, &s, err, errlen);

	if (ret)
		return ret;
	if (tenant_count(target, s))
		return fail(-ENOMEM, err, errlen, "target: out of memory");
	*out = node_in(target, s);
	return 0;
}
