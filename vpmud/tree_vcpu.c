// SPDX-License-Identifier: GPL-2.0-or-later
/* Looks up VMs and vCPUs by their processes and threads; see tree.h. */
#include "vpmud/tree_priv.h"

bool tree_vm_start(const struct tree *t, pid_t pid, uint64_t *start_time)
{
	const struct tree_vm *v = t->first_vm;

	while (v && (!v->node || v->vm->pid != pid))
		v = v->next;
	if (v)
		*start_time = v->vm->start_time;
	return v;
}

struct node *tree_vcpu(const struct tree *t, pid_t pid, uint64_t start_time, pid_t tid)
{
	const struct tree_vm *v = t->first_vm;

	while (v && (!v->node || v->vm->pid != pid || v->vm->start_time != start_time))
		v = v->next;
	for (size_t i = 0; v && i < v->nr_vcpus; i++)
		if (v->vcpus[i].bound && v->vcpus[i].thread.tid == tid)
			return v->vcpus[i].node;
	return NULL;
}
