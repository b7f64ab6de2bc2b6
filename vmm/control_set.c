// SPDX-License-Identifier: GPL-2.0-or-later
/* vm-set and tenant-set. Control thread. A request that fails must change nothing. */
#include <errno.h>
#include <string.h>

#include "vpmu/util/fail.h"
#include "service/request.h"
#include "vmm/control.h"

/* Settings of both commands; 0: not given. */
struct changes {
	uint64_t weight, max_events;
};

static int get_changes(const json_t *req, struct changes *c, char *err, size_t errlen)
{
	int ret = request_uint(req, "weight", false, 1, VM_WEIGHT_MAX, &c->weight, err, errlen);

	if (!ret)
		ret = request_uint(req, "max_events", false, 1, MAX_EVENTS_MAX, &c->max_events, err,
				   errlen);
	if (!ret && !c->weight && !c->max_events)
		ret = fail(-EINVAL, err, errlen, "give weight or max_events");
	return ret;
}

int control_vm_set(void *arg, const json_t *req, json_t *resp, char *err, size_t errlen)
{
	static const char *const fields[] = {"name", "weight", "max_events", NULL};
	struct changes change = {0};
	struct machine_vm *vm;
	int ret = control_named_vm(arg, req, fields, true, &vm, err, errlen);

	if (!ret)
		ret = get_changes(req, &change, err, errlen);
	if (ret)
		return ret;
	if (change.weight && strcmp(vm->engine, "emulator") != 0)
		return fail(-EOPNOTSUPP, err, errlen,
			    "weight: VM \"%s\" has the engine %s, with CPU time from the kernel; "
			    "expected a VM of the emulator",
			    vm->name, vm->engine);
	machine_set_vm(vm, (unsigned int)change.weight, (unsigned int)change.max_events);
	return 0;
}

int control_tenant_set(void *arg, const json_t *req, json_t *resp, char *err, size_t errlen)
{
	static const char *const fields[] = {"path", "weight", "max_events", NULL};
	struct changes change = {0};
	const char *path = NULL;
	struct control *c = arg;
	struct node *tenant;
	int ret = request_fields(req, fields, err, errlen);

	if (!ret)
		ret = request_string(req, "path", true, VM_TENANT_MAX, &path, err, errlen);
	if (!ret)
		ret = get_changes(req, &change, err, errlen);
	if (ret)
		return ret;
	tenant = tenant_find(machine_tenants(c->machine), path);
	if (!tenant || tenant->kind == NODE_ROOT)
		return fail(-ENOENT, err, errlen,
			    "path: no tenant \"%s\"; `vpmu list` shows the tenants", path);
	ret = machine_set_tenant(c->machine, tenant, (unsigned int)change.weight,
				 (unsigned int)change.max_events);
	return ret ? fail(ret, err, errlen, "tenant-set: out of memory") : 0;
}
