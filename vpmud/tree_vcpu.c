// SPDX-License-Identifier: GPL-2.0-or-later
/* Looks up VMs and vCPUs by their processes and threads; see tree.h. */
#include <string.h>

#include "vpmud/tree_priv.h"

void tree_tenant_of(const struct tree *t, const struct disc_vm *vm, char path[TENANT_PATH_MAX + 1])
{
	const struct rules_vm of = {vm->name, vm->tenant, vm->cgroup, !strcmp(vm->kind, "libvirt"),
				    vm->uid};
	const struct rule *refused;
	char why[200];

	if (!rules_vm(t->rules, &of, path, &refused, why, sizeof(why)))
		strcpy(path, "/host");
}

struct node *tree_vm(const struct tree *t, pid_t pid, uint64_t start_time)
{
	const struct tree_vm *v = t->first_vm;

	while (v && (!v->node || v->vm->pid != pid || v->vm->start_time != start_time))
		v = v->next;
	return v ? v->node : NULL;
}

struct node *tree_vcpu(const struct tree *t, pid_t pid, uint64_t start_time, pid_t tid,
		       uint64_t *start)
{
	const struct tree_vm *v = t->first_vm;

	while (v && (!v->node || v->vm->pid != pid || v->vm->start_time != start_time))
		v = v->next;
	for (size_t i = 0; v && i < v->nr_vcpus; i++)
		if (v->vcpus[i].bound && v->vcpus[i].thread.tid == tid) {
			*start = v->vcpus[i].thread.start_time;
			return v->vcpus[i].node;
		}
	return NULL;
}
