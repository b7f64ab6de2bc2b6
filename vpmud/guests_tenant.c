// SPDX-License-Identifier: GPL-2.0-or-later
/* Which tenant a VM belongs to, and what that permits; see guests_priv.h. */
#include <string.h>

#include "vpmud/guests_priv.h"

unsigned int guests_limit(const void *arg, const char *path)
{
	const struct guests *g = arg;
	unsigned int max = rules_guest_max(g->rules, path);

	return max ? max : strchr(path + 1, '/') ? 0 : GUEST_TENANT_MAX;
}

void guests_leave_tenant(struct vmm *v)
{
	guest_quota_leave(&v->g->quotas, v->quota.parent);
	v->quota.parent = NULL;
	v->policy = NULL;
}

void guests_enter_tenant(struct vmm *v, const char *path)
{
	struct guests *g = v->g;

	if (v->quota.parent && !strcmp(v->quota.parent->path, path))
		return;
	guests_leave_tenant(v);
	v->policy = rules_guest(g->rules, path);
	v->quota.max = v->policy ? v->policy->max_events : 0;
	v->quota.parent = guest_quota_enter(&g->quotas, path, guests_limit, g);
}

static void guests_on_process(const struct disc_vm *vm, void *arg)
{
	struct vmm *v = arg;
	char path[TENANT_PATH_MAX + 1];

	tree_tenant_of(v->g->o.tree, vm, path);
	guests_enter_tenant(v, path);
}

char *guests_config(struct vmm *v)
{
	const struct node *vm = tree_vm(v->g->o.tree, v->peer.pid, v->peer.start_time);

	if (vm && !v->nr_binds)
		guests_enter_tenant(v, vm->path);
	else if (!vm &&
		 disc_process(v->g->o.disc, v->peer.pid, v->peer.start_time, guests_on_process, v))
		return NULL;
	return guest_policy_text(v->policy, &v->g->events);
}

bool guests_still_permitted(struct vmm *v)
{
	v->policy = rules_guest(v->g->rules, v->binds->vcpu->path);
	v->quota.max = v->policy ? v->policy->max_events : 0;
	for (const struct bind *b = v->binds; b; b = b->next)
		if (!guest_policy_allows(v->policy, &v->g->events, b->key))
			return false;
	return true;
}
