/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * How many distinct events guests count at a time: all of them, those of a tenant with the tenants
 * below it, and those of one VM. An event that is bound several times below a quota is counted
 * once there. guests.c takes an event for each bind. Every step is bounded by GUEST_KEYS_MAX and
 * TENANT_LEVELS_MAX, because hostile VMMs cause it. The event loop's thread only.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "vpmu/event/key.h"

#define GUEST_KEYS_MAX	 24 /* distinct events of all guests: the host has 64 slots */
#define GUEST_TENANT_MAX 16 /* the default of a tenant that is below no other */

/* One tenant's or VM's. Zeroed, it has no limit and no parent. */
struct guest_quota {
	struct guest_quota *parent; /* its limit applies, too */
	unsigned int max;	    /* 0: no limit. May change: what is bound goes on */
	unsigned int nr;	    /* distinct events */
	uint32_t refs[GUEST_KEYS_MAX];
	/* of a tenant */
	struct guest_quota *next;
	unsigned int users;
	char *path;
};

struct guest_quotas {
	vpmu_key_t key[GUEST_KEYS_MAX]; /* 0: free */
	struct guest_quota all;
	struct guest_quota *tenants; /* that are in use */
};

/* guest_quota_take - count @key once more for @q and what is above it. -ENOSPC: nothing has
 * changed; a limit is reached. guest_quota_release - the opposite, of a @key that was taken for @q.
 */
int guest_quota_take(struct guest_quotas *s, struct guest_quota *q, vpmu_key_t key);
void guest_quota_release(struct guest_quotas *s, struct guest_quota *q, vpmu_key_t key);

/*
 * guest_quota_enter - the quota of the tenant at @path, with those above it; each is in use until
 * guest_quota_leave. @limit returns the limit of a path; 0: none.
 * guest_quota_limits - set all limits again.
 */
typedef unsigned int guest_quota_limit(const void *arg, const char *path);
struct guest_quota *guest_quota_enter(struct guest_quotas *s, const char *path,
				      guest_quota_limit *limit, const void *arg);
void guest_quota_leave(struct guest_quotas *s, struct guest_quota *tenant);
void guest_quota_limits(struct guest_quotas *s, guest_quota_limit *limit, const void *arg);
