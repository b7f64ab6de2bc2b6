// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Access rights of clients by their groups. The listener calls access_of once per connection; the
 * commands check every path with access_sees. A client that no rule names must get nothing.
 */
#include <errno.h>
#include <grp.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "service/access.h"
#include "service/program/memory.h"
#include "service/tenant/tenant.h"
#include "vpmu/util/fail.h"

#define GROUPS_MAX 65536 /* NGROUPS_MAX of Linux */

/* ---- the rules ------------------------------------------------------------------------------ */

static int find_group(const char *at, const char *name, gid_t *gid, char *err, size_t errlen)
{
	char *end;
	unsigned long n;
	struct group *g;

	errno = 0;
	n = strtoul(name, &end, 10);
	if (*name >= '0' && *name <= '9' && !*end && !errno && n < UINT32_MAX) {
		*gid = (gid_t)n;
		return 0;
	}
	g = getgrnam(name);
	if (!g)
		return fail(-ENOENT, err, errlen,
			    "%s: no group \"%.64s\"; expected a group of this host, or its number",
			    at, name);
	*gid = g->gr_gid;
	return 0;
}

static int add_tenants(struct access_rule *r, const char *at, char *list, char *err, size_t errlen)
{
	char *path, why[300];

	while ((path = strsep(&list, ","))) {
		if (strcmp(path, "/") == 0) {
			r->all = true;
			continue;
		}
		if (!tenant_path_ok(path, why, sizeof(why)))
			return fail(-EINVAL, err, errlen, "%s: %s", at, why);
		if (r->nr == ACCESS_TENANTS_MAX)
			return fail(-E2BIG, err, errlen, "%s: more than %d tenants of a group", at,
				    ACCESS_TENANTS_MAX);
		r->tenants[r->nr++] = path;
	}
	return 0;
}

static int add_rules(struct access_rules *rules, const char *at, char *list, bool admin, char *err,
		     size_t errlen)
{
	char *item, *tenants;
	int ret = 0;

	while (!ret && (item = strsep(&list, " \t"))) {
		struct access_rule *r = &rules->rule[rules->nr];

		if (!*item)
			continue;
		if (rules->nr == ACCESS_RULES_MAX)
			return fail(-E2BIG, err, errlen, "%s: more than %d groups in all", at,
				    ACCESS_RULES_MAX);
		tenants = strchr(item, '=');
		if (tenants)
			*tenants++ = '\0';
		if (tenants && admin)
			return fail(-EINVAL, err, errlen,
				    "%s: \"%.64s=\" is invalid; expected groups only (an "
				    "administrator sees every tenant)",
				    at, item);
		*r = (struct access_rule){.admin = admin, .all = !tenants};
		ret = find_group(at, item, &r->gid, err, errlen);
		if (!ret && tenants)
			ret = add_tenants(r, at, tenants, err, errlen);
		rules->nr += !ret;
	}
	return ret;
}

int access_parse(struct access_rules *rules, struct access_list admins, struct access_list readers,
		 char *err, size_t errlen)
{
	size_t a = admins.groups ? strlen(admins.groups) + 1 : 0;
	size_t r = readers.groups ? strlen(readers.groups) + 1 : 0;
	int ret = 0;

	*rules = (struct access_rules){.text = xmalloc(a + r + 1)};
	if (a)
		ret = add_rules(rules, admins.at, memcpy(rules->text, admins.groups, a), true, err,
				errlen);
	if (r && !ret)
		ret = add_rules(rules, readers.at, memcpy(rules->text + a, readers.groups, r),
				false, err, errlen);
	if (ret)
		access_fini(rules);
	return ret;
}

void access_fini(struct access_rules *rules)
{
	free(rules->text);
	*rules = (struct access_rules){0};
}

mode_t access_socket(const struct access_rules *rules, gid_t *gid)
{
	*gid = (gid_t)-1;
	if (!rules || !rules->nr)
		return 0600;
	for (size_t i = 1; i < rules->nr; i++)
		if (rules->rule[i].gid != rules->rule[0].gid)
			return 0666; /* a file has one group: let everybody connect, access_of
				      * decides */
	*gid = rules->rule[0].gid;
	return 0660;
}

/* ---- a client ------------------------------------------------------------------------------- */

/* The supplementary groups of the client at @fd: a malloc'd array of *n, or NULL. */
static gid_t *peer_groups(int fd, size_t *n)
{
	socklen_t len = 64 * sizeof(gid_t);
	gid_t *g = NULL, *more;

	*n = 0;
	for (;;) {
		more = realloc(g, len);
		if (!more)
			break;
		g = more;
		if (getsockopt(fd, SOL_SOCKET, SO_PEERGROUPS, g, &len) == 0) {
			*n = len / sizeof(*g);
			return g;
		}
		if (errno != ERANGE || len > GROUPS_MAX * sizeof(*g))
			break; /* ERANGE: len is the size needed */
	}
	free(g);
	return NULL;
}

static bool member(gid_t gid, gid_t first, const gid_t *more, size_t n)
{
	bool in = gid == first;

	for (size_t i = 0; i < n && !in; i++)
		in = gid == more[i];
	return in;
}

static void access_add_rule(struct access *a, const struct access_rule *r)
{
	a->admin |= r->admin;
	a->all |= r->all;
	for (unsigned int i = 0; i < r->nr && a->nr < ACCESS_TENANTS_MAX; i++)
		a->tenants[a->nr++] = r->tenants[i];
}

int access_of(const struct access_rules *rules, int fd, struct access *out)
{
	struct ucred cred;
	socklen_t len = sizeof(cred);
	gid_t *groups;
	size_t n;

	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &len))
		return -EACCES;
	*out = (struct access){.uid = cred.uid, .owner = !cred.uid || cred.uid == geteuid()};
	if (out->owner) {
		out->admin = out->all = true;
		return 0;
	}
	groups = peer_groups(fd, &n);
	for (size_t i = 0; rules && i < rules->nr; i++)
		if (member(rules->rule[i].gid, cred.gid, groups, n))
			access_add_rule(out, &rules->rule[i]);
	free(groups);
	return out->admin || out->all || out->nr ? 0 : -EACCES;
}

bool access_sees(const struct access *a, const char *path)
{
	if (access_all(a))
		return true;
	for (unsigned int i = 0; i < a->nr; i++)
		if (tenant_path_within(a->tenants[i], path))
			return true;
	return false;
}

/* ---- limits --------------------------------------------------------------------------------- */

static bool access_owner(const struct access *a)
{
	return !a || a->owner;
}

static bool access_share_tenant(const struct access *a, const struct access *b)
{
	if (access_all(a) || access_all(b))
		return access_all(a) && access_all(b);
	for (unsigned int i = 0; i < a->nr; i++)
		for (unsigned int k = 0; k < b->nr; k++)
			if (strcmp(a->tenants[i], b->tenants[k]) == 0)
				return true;
	return false;
}

bool access_pooled(enum access_pool pool, const struct access *a, const struct access *b)
{
	bool readers = !access_admin(a) && !access_admin(b);

	switch (pool) {
	case POOL_USER:
		return !access_owner(a) && !access_owner(b) && a->uid == b->uid;
	case POOL_TENANT:
		return readers && access_share_tenant(a, b);
	case POOL_READERS:
		return readers;
	case POOL_OTHERS:
		return !access_owner(a) && !access_owner(b);
	default:
		return true;
	}
}

void access_count(unsigned int nr[NR_POOLS], const struct access *who, const struct access *other)
{
	for (int p = 0; p < NR_POOLS; p++)
		nr[p] += access_pooled((enum access_pool)p, who, other);
}

enum access_pool access_full(const unsigned int nr[NR_POOLS], const unsigned int max[NR_POOLS])
{
	int p = 0;

	while (p < NR_POOLS && nr[p] < max[p])
		p++;
	return (enum access_pool)p;
}
