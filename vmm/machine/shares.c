// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The shares and quotas of tenants: one of each per tenant with VMs, below its parent's. Created
 * when a VM is added; they live as long as the tenant. Control thread only.
 */
#include <errno.h>
#include <stdlib.h>

#include "vmm/machine/priv.h"

static struct machine_share **shares_find(struct machine *m, const struct node *n)
{
	struct machine_share **p = &m->shares;

	while (*p && (*p)->tenant != n)
		p = &(*p)->next;
	return p;
}

struct machine_share *machine_share(struct machine *m, const struct node *n)
{
	struct machine_share *s = *shares_find(m, n), *above = NULL;

	if (s)
		return s;
	/* Tenants at the top compete with each other, and with "/host". */
	if (n->parent && n->parent->kind != NODE_ROOT) {
		above = machine_share(m, n->parent);
		if (!above)
			return NULL;
	}
	s = calloc(1, sizeof(*s));
	if (!s)
		return NULL;
	s->tenant = n;
	share_init(&s->share, above ? &above->share : NULL, SHARE_WEIGHT_DEFAULT);
	s->emulator.max = s->kvm.max = TENANT_MAX_EVENTS;
	s->emulator.parent = above ? &above->emulator : NULL;
	s->kvm.parent = above ? &above->kvm : NULL;
	s->next = m->shares;
	m->shares = s;
	return s;
}

/* A removed tenant has no VMs and no tenants below it. */
static void removing(struct node *n, void *arg)
{
	struct machine *m = arg;
	struct machine_share **p = shares_find(m, n), *s = *p;

	if (!s)
		return;
	*p = s->next;
	free(s);
}

void machine_shares_begin(struct machine *m)
{
	m->watch = (struct tenants_watch){.removing = removing, .arg = m};
	tenants_watch(m->tenants, &m->watch);
}

void machine_shares_end(struct machine *m)
{
	struct machine_share *s;

	tenants_unwatch(m->tenants, &m->watch);
	while ((s = m->shares)) {
		m->shares = s->next;
		free(s);
	}
}

void machine_set_vm(struct machine_vm *e, unsigned int weight, unsigned int max_events)
{
	if (weight)
		e->weight = weight;
	if (max_events)
		e->max_events = max_events;
	if (e->vm && weight)
		share_set_weight(&e->vm->share, weight);
	if (e->vm && max_events)
		vpmu_quota_set_max(&e->vm->quota, max_events);
}

int machine_set_tenant(struct machine *m, const struct node *tenant, unsigned int weight,
		       unsigned int max_events)
{
	struct machine_share *s = machine_share(m, tenant);

	if (!s)
		return -ENOMEM;
	if (weight)
		share_set_weight(&s->share, weight);
	if (max_events) {
		vpmu_quota_set_max(&s->emulator, max_events);
		vpmu_quota_set_max(&s->kvm, max_events);
	}
	return 0;
}

unsigned int machine_tenant_weight(const struct machine_vm *e)
{
	struct machine_share *s = *shares_find(e->machine, e->node->parent);

	return s ? share_weight(&s->share) : SHARE_WEIGHT_DEFAULT;
}

unsigned int machine_tenant_max_events(const struct machine_vm *e)
{
	struct machine_share *s = *shares_find(e->machine, e->node->parent);

	return s ? s->emulator.max : TENANT_MAX_EVENTS;
}
