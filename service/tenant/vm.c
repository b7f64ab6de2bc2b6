// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * VMs and their vCPUs as nodes of the tree. vpmu-vmm and vpmud call this on the control thread.
 * Watchers must never see an incomplete VM: they are notified when it is complete.
 */
#include <errno.h>
#include <search.h>
#include <stdio.h>
#include <string.h>

#include "service/tenant/priv.h"
#include "vpmu/util/fail.h"

struct node *tenant_vm_find(const struct tenants *ts, const char *name)
{
	struct node key = {.name = name}, **found = tfind(&key, &ts->by_vm, node_cmp_name);

	return found ? *found : NULL;
}

static int add_vcpu(struct tenants *ts, struct node *vm, unsigned int vcpu, unsigned int source,
		    struct node **out)
{
	struct node *n = node_new(ts, NODE_VCPU, vm);
	int ret;

	if (!n)
		return -ENOMEM;
	snprintf(priv(n)->number, sizeof(priv(n)->number), "%u", vcpu);
	n->name = priv(n)->number;
	n->path = vm->path;
	n->vcpu = vcpu;
	ret = vpmu_backend_node_add(vm->in[source], n->serial, &n->in[source]);
	if (ret) {
		node_free(n);
		return ret;
	}
	node_chain(n);
	if (out)
		*out = n;
	return 0;
}

/* Free a VM that no watcher has been notified of. */
static void forget_vm(struct tenants *ts, struct node *vm)
{
	struct node *c;

	while ((c = vm->first_child)) {
		node_leave_sources(c);
		node_unchain(c);
		node_free(c);
	}
	node_leave_sources(vm);
	node_free(vm);
}

int tenant_vm_add(struct tenants *ts, struct node *t, struct vpmu_backend *s, const char *name,
		  unsigned int vcpus, void *user, struct node **vm, char *err, size_t errlen)
{
	unsigned int i = tenants_source_index(ts, s);
	struct node *n;
	int ret;

	if (!tenant_vm_name_ok(name, err, errlen))
		return -EINVAL;
	if (vcpus > TENANT_VCPUS_MAX)
		return fail(-EINVAL, err, errlen, "VM %s: %u vCPUs; expected 0 to %d", name, vcpus,
			    TENANT_VCPUS_MAX);
	if (t->kind != NODE_TENANT && t->kind != NODE_HOST)
		return fail(-EINVAL, err, errlen,
			    "VM %s: \"%s\" is no tenant; give one, or /host for a VM without", name,
			    t->path);
	if (tenant_vm_find(ts, name))
		return fail(-EEXIST, err, errlen,
			    "VM %s: there is a VM of that name in %s; take another name", name,
			    tenant_vm_find(ts, name)->path);
	n = node_new(ts, NODE_VM, t);
	if (!n)
		return fail(-ENOMEM, err, errlen, "VM %s: out of memory", name);
	priv(n)->name = strdup(name);
	n->name = priv(n)->name;
	n->path = t->path;
	n->user = user;
	ret = n->name ? node_count_by(t, i) : -ENOMEM;
	if (!ret)
		ret = vpmu_backend_node_add(t->in[i], n->serial, &n->in[i]);
	for (unsigned int v = 0; v < vcpus && !ret; v++)
		ret = add_vcpu(ts, n, v, i, NULL);
	if (!ret && !tsearch(n, &ts->by_vm, node_cmp_name))
		ret = -ENOMEM;
	if (ret) {
		forget_vm(ts, n);
		return fail(ret, err, errlen, "VM %s: %s", name, strerror(-ret));
	}
	node_chain(n);
	node_tell_added(n, i);
	for (struct node *c = n->first_child; c; c = c->next)
		node_tell_added(c, i);
	if (vm)
		*vm = n;
	return 0;
}

struct node *node_vcpu(const struct node *vm, unsigned int vcpu)
{
	for (struct node *c = vm->first_child; c; c = c->next)
		if (c->vcpu == vcpu)
			return c;
	return NULL;
}

int tenant_vcpu_add(struct tenants *ts, struct node *vm, unsigned int vcpu, struct node **out,
		    char *err, size_t errlen)
{
	unsigned int i = tenants_source_index(ts, node_source(vm));
	struct node *n;
	int ret;

	if (vcpu >= TENANT_VCPUS_MAX)
		return fail(-EINVAL, err, errlen, "VM %s: vCPU %u; expected 0 to %d", vm->name,
			    vcpu, TENANT_VCPUS_MAX - 1);
	if (node_vcpu(vm, vcpu))
		return fail(-EEXIST, err, errlen,
			    "VM %s: it has a vCPU %u; expected another number", vm->name, vcpu);
	ret = add_vcpu(ts, vm, vcpu, i, &n);
	if (ret)
		return fail(ret, err, errlen, "VM %s: vCPU %u: %s", vm->name, vcpu, strerror(-ret));
	node_tell_added(n, i);
	*out = n;
	return 0;
}

void tenant_vcpu_remove(struct node *vcpu)
{
	node_delete(vcpu);
}

void tenant_vm_remove(struct tenants *ts, struct node *vm)
{
	while (vm->first_child)
		node_delete(vm->first_child);
	node_delete(vm);
}
