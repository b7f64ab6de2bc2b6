/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What guests of a tenant may count: the keys pmu, gp, policy, allow, deny, max_events and
 * tenant_max_events of a section [tenant /PATH] in vpmud.conf, with the meaning that vpmu-vmm(1)
 * gives them. The host's list, guest_events, is for VMs of tenants without such keys. config.c
 * makes a policy, guests.c applies it. Not thread-safe; no function blocks.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "vpmu/event/key.h"
#include "vpmu/guest/policy.h"

#define GUESTS_EVENTS_MAX 16   /* events of the host's list, and of software in a policy */
#define GUESTS_LIST_MAX	  4095 /* bytes of allow or deny */

/* guests_parse - the events of @list, names separated by blanks, or "none", as keys without
 * privilege levels. Returns their number, at most GUESTS_EVENTS_MAX; -EINVAL, -E2BIG with one line
 * in @err. */
int guests_parse(const char *list, vpmu_key_t key[GUESTS_EVENTS_MAX], char *err, size_t errlen);

/* The host's list, parsed. */
struct guest_events {
	vpmu_key_t key[GUESTS_EVENTS_MAX];
	int nr;
};

struct guest_policy {
	char *pmu, *allow, *deny; /* as given; NULL: not */
	bool tier_given;	  /* else the host's list decides, unless allow is given */
	unsigned int gp, max_events, tenant_max_events; /* 0: not given */
	char *at;					/* "FILE:LINE" of the first key */
	/* tier, and the list of hardware events; software events of the list */
	struct vpmu_policy events;
	vpmu_key_t software[GUESTS_EVENTS_MAX];
	unsigned int nr_software;
};

/* guest_policy_new - a policy without keys. guest_policy_free - NULL is fine.
 * guest_policy_set - set key @name, which is one of the above. allow and deny may be given several
 * times: each adds to the list. -EINVAL, with the reason in @why unless the value is malformed.
 * guest_policy_check - all keys are set: do they fit each other? -EINVAL: "KEY: the fault" in
 * @err. */
struct guest_policy *guest_policy_new(const char *at);
void guest_policy_free(struct guest_policy *p);
int guest_policy_set(struct guest_policy *p, const char *name, const char *value, char *why,
		     size_t whylen);
int guest_policy_check(const struct guest_policy *p, char *err, size_t errlen);

/* guest_policy_decides - returns true if @p has more than tenant_max_events, which does not replace
 * what a tenant inherits. */
bool guest_policy_decides(const struct guest_policy *p);

/* guest_policy_allows - returns true if a guest may count @key, any 64 bits. Without @p, @host
 * decides. */
bool guest_policy_allows(const struct guest_policy *p, const struct guest_events *host,
			 vpmu_key_t key);

/* guest_policy_text - @p, or @host, as lines KEY=VALUE with pmu, gp, policy, allow and deny, for
 * vpmu-qemu; software events, which no register model counts, are left out. malloc'd. */
char *guest_policy_text(const struct guest_policy *p, const struct guest_events *host);
