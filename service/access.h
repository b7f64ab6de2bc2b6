/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Access rights on the control socket, in two levels. An administrator may use every command. A
 * reader sees only the tenants that its groups may see; no answer may reveal others, not even an
 * object that the same user opened earlier with more rights. The kernel identifies the client
 * (SO_PEERCRED, SO_PEERGROUPS); options grant rights to groups.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#define ACCESS_TENANTS_MAX 32 /* tenants of one rule, and of one reader */
#define ACCESS_RULES_MAX   32

/* Rights of one client. Its strings belong to the rules. */
struct access {
	uid_t uid;
	bool owner; /* root, or the user that the server runs as: an administrator without limits */
	bool admin;
	bool all; /* sees every tenant, and the host */
	unsigned int nr;
	const char *tenants[ACCESS_TENANTS_MAX]; /* !all: sees these and everything below them */
};

/* Rights of the members of a group. */
struct access_rule {
	gid_t gid;
	bool admin, all;
	unsigned int nr;
	const char *tenants[ACCESS_TENANTS_MAX];
};

struct access_rules {
	struct access_rule rule[ACCESS_RULES_MAX];
	size_t nr;
	char *text; /* storage of the rules' strings */
};

/* A list of groups, and what gives it, for messages. Both may be NULL: no list. */
struct access_list {
	const char *at, *groups;
};

/*
 * access_parse - parse the lists to *rules: @admins is "GROUP ..." and @readers is
 * "GROUP[=/tenant,...] ...", both separated by blanks. A group is a name or a number. A reader's
 * group without tenants sees all. -EINVAL, -ENOENT (no such group) or -E2BIG with one line
 * to @err, which begins with the list's @at.
 * access_fini - free; zeroed rules are fine.
 */
int access_parse(struct access_rules *rules, struct access_list admins, struct access_list readers,
		 char *err, size_t errlen);
void access_fini(struct access_rules *rules);

/* access_of - the rights of the client at the other end of socket @fd. Root and this process's user
 * are administrators; others get the rights that @rules (may be NULL) grant to the groups they had
 * when they connected. -EACCES: none. */
int access_of(const struct access_rules *rules, int fd, struct access *out);

/* access_socket - the mode of the socket that admits the groups in @rules; *gid: the group that the
 * socket must have, or -1. */
mode_t access_socket(const struct access_rules *rules, gid_t *gid);

/* Pools of clients that share a limit, the narrowest first. */
enum access_pool {
	POOL_USER,    /* of one user; root and the server's own user have no such limit */
	POOL_TENANT,  /* readers that may see the same tenant, or that see all */
	POOL_READERS, /* the rest is for administrators */
	POOL_OTHERS,  /* all except root and the server's own user, for which room is reserved */
	POOL_ALL,
	NR_POOLS
};

/* access_pooled - returns true if @a and @b (NULL: the server itself) share @pool. */
bool access_pooled(enum access_pool pool, const struct access *a, const struct access *b);
/* access_count - add @other to the counts @nr of the pools that it shares with @who.
 * access_full - the first pool in which @nr reaches @max; NR_POOLS: each has room. */
void access_count(unsigned int nr[NR_POOLS], const struct access *who, const struct access *other);
enum access_pool access_full(const unsigned int nr[NR_POOLS], const unsigned int max[NR_POOLS]);

/* access_sees - returns true if @a (NULL: the server itself) sees the tenant at @path. */
bool access_sees(const struct access *a, const char *path);
static inline bool access_admin(const struct access *a)
{
	return !a || a->admin;
}
static inline bool access_all(const struct access *a)
{
	return !a || a->all;
}
