/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Who may do what on the control socket. There are two levels. An administrator may use every
 * command. A reader may look at the tenants that its groups may see, and nothing tells it of
 * others, also not in what a user has opened before with other rights. The kernel says who a client
 * is (SO_PEERCRED, SO_PEERGROUPS); the options say what a group may.
 */
#ifndef SERVICE_ACCESS_H
#define SERVICE_ACCESS_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#define ACCESS_TENANTS_MAX 32 /* tenants of one rule, and of one reader */
#define ACCESS_RULES_MAX   32

/* What one client may do. Its strings are those of the rules. */
struct access {
	uid_t uid;
	bool owner; /* root, or the user that the server runs as: an administrator without limits */
	bool admin;
	bool all; /* sees every tenant, and the host */
	unsigned int nr;
	const char *tenants[ACCESS_TENANTS_MAX]; /* !all: sees these and what is below them */
};

/* What the members of a group may do. */
struct access_rule {
	gid_t gid;
	bool admin, all;
	unsigned int nr;
	const char *tenants[ACCESS_TENANTS_MAX];
};

struct access_rules {
	struct access_rule rule[ACCESS_RULES_MAX];
	size_t nr;
	char *text; /* the strings of the rules */
};

/*
 * access_parse - make *rules of the options: @admins is "GROUP ..." and @readers is
 * "GROUP[=/tenant,...] ...", both separated by blanks, either may be NULL. A group is a name or a
 * number. A reader's group without tenants sees all. -EINVAL, -ENOENT (no such group), -E2BIG or
 * -ENOMEM with one line to @err. access_fini - free it; for zeroed rules as well.
 */
int access_parse(struct access_rules *rules, const char *admins, const char *readers, char *err,
		 size_t errlen);
void access_fini(struct access_rules *rules);

/* access_of - what the client at the other end of socket @fd may do. Root and the user of this
 * process are administrators; others are what @rules (may be NULL) say of their groups at the time
 * they connected. -EACCES: nothing. */
int access_of(const struct access_rules *rules, int fd, struct access *out);

/* access_socket - the mode of the socket that lets in whom @rules name, and in *gid the group that
 * it must belong to, or -1. */
mode_t access_socket(const struct access_rules *rules, gid_t *gid);

/* Groups of clients that have limits together, the narrowest first. */
enum access_pool {
	POOL_USER,    /* of one user; root and the server's own user have no such limit */
	POOL_TENANT,  /* readers who may see the same tenant, or who see all */
	POOL_READERS, /* the rest is for administrators */
	POOL_OTHERS,  /* all but root and the server's own user, who always find room */
	POOL_ALL,
	NR_POOLS
};

/* access_pooled - whether @a and @b are in a @pool together; NULL: the server itself. */
bool access_pooled(enum access_pool pool, const struct access *a, const struct access *b);
/* access_full - the first pool for @who of which @nr has as many as @max, or NR_POOLS: each has
 * room. access_count - count @other in those of its pools that it shares with @who. */
void access_count(unsigned int nr[NR_POOLS], const struct access *who, const struct access *other);
enum access_pool access_full(const unsigned int nr[NR_POOLS], const unsigned int max[NR_POOLS]);

/* access_sees - whether @a (NULL: the server itself) sees the tenant at @path. */
bool access_sees(const struct access *a, const char *path);
static inline bool access_admin(const struct access *a)
{
	return !a || a->admin;
}
static inline bool access_all(const struct access *a)
{
	return !a || a->all;
}

#endif
