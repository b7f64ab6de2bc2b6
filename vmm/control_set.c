// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * vm-set and tenant-set: control_set_register adds them to the server. Control thread. A request
 * that fails must change nothing.
 */
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

static int cmd_vm_set(void *arg, const json_t *req, json_t *resp, char *err, size_t errlen)
{
	static const char *const fields[] = {"name", "weight", "max_events", NULL};
	struct changes change = {0};
	const char *name = NULL;
	struct control *c = arg;
	struct machine_vm *vm;
	int ret = request_fields(req, fields, err, errlen);

	if (!ret)
		ret = request_string(req, "name", true, VM_NAME_MAX, &name, err, errlen);
	if (!ret)
		ret = get_changes(req, &change, err, errlen);
	if (ret)
		return ret;
	vm = machine_vm_find(c->machine, name);
	if (!vm)
		return fail(-ENOENT, err, errlen, "name: no VM \"%s\"; `vpmu list` shows the VMs",
			    name);
	if (change.weight && strcmp(vm->engine, "emulator") != 0)
		return fail(-EOPNOTSUPP, err, errlen,
			    "weight: VM \"%s\" has the engine %s, with CPU time from the kernel; "
			    "expected a VM of the emulator",
			    name, vm->engine);
	machine_set_vm(vm, (unsigned int)change.weight, (unsigned int)change.max_events);
	return 0;
}

static int cmd_tenant_set(void *arg, const json_t *req, json_t *resp, char *err, size_t errlen)
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

int control_set_register(struct control *c)
{
	int ret = server_register(c->server, "vm-set", cmd_vm_set, c);

	return ret ? ret : server_register(c->server, "tenant-set", cmd_tenant_set, c);
}
