// SPDX-License-Identifier: GPL-2.0-or-later
/* Memory and comparison of reported VMs. process.c builds one for each VM it inspects, scan.c
 * compares it with the one reported before. */
#include <stdlib.h>
#include <string.h>

#include "service/program/memory.h"
#include "vpmud/discover/priv.h"

void vm_free(struct disc_vm *vm)
{
	if (!vm)
		return;
	free((void *)vm->name);
	free((void *)vm->uuid);
	free((void *)vm->cgroup);
	free((void *)vm->tenant);
	free((void *)vm->backend_socket);
	free((void *)vm->vcpus);
	free(vm);
}

void vm_set(const char **field, const char *text)
{
	free((void *)*field);
	*field = xstrdup(text);
}

static bool vm_same(const char *a, const char *b)
{
	return a == b || (a && b && !strcmp(a, b));
}

bool vm_equal(const struct disc_vm *a, const struct disc_vm *b)
{
	if (a->pid != b->pid || a->start_time != b->start_time || a->uid != b->uid ||
	    !vm_same(a->name, b->name) || !vm_same(a->uuid, b->uuid) ||
	    !vm_same(a->kind, b->kind) || !vm_same(a->cgroup, b->cgroup) ||
	    a->cgroup_id != b->cgroup_id || !vm_same(a->tenant, b->tenant) ||
	    !vm_same(a->backend_socket, b->backend_socket) || a->nr_vcpus != b->nr_vcpus ||
	    a->nr_unknown != b->nr_unknown)
		return false;
	for (size_t i = 0; i < a->nr_vcpus; i++)
		if (a->vcpus[i].index != b->vcpus[i].index || a->vcpus[i].tid != b->vcpus[i].tid ||
		    a->vcpus[i].start_time != b->vcpus[i].start_time)
			return false;
	return true;
}
