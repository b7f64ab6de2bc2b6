// SPDX-License-Identifier: GPL-2.0-or-later
/* vm-save and vm-restore: control_snapshot_register adds them to the server. Control thread. */
#include <errno.h>
#include <string.h>

#include "vpmu/util/fail.h"
#include "cgroup/service/request.h"
#include "vmm/control_snapshot.h"
#include "vmm/snapshot/snapshot.h"

/* Only absolute paths: the server's working directory is not the client's. */
static int get_file(const json_t *req, const char **file, char *err, size_t errlen)
{
	int ret = request_string(req, "file", true, SNAPSHOT_PATH_MAX, file, err, errlen);

	if (!ret && **file != '/')
		ret = fail(-EINVAL, err, errlen,
			   "file: \"%.80s\" given, accepted: a path that starts with /", *file);
	return ret;
}

static int cmd_vm_save(void *arg, const json_t *req, json_t *resp, char *err, size_t errlen)
{
	static const char *const fields[] = {"name", "file", NULL};
	const char *name = NULL, *file = NULL;
	struct control *c = arg;
	struct machine_vm *vm;
	int ret = request_fields(req, fields, err, errlen);

	if (!ret)
		ret = request_string(req, "name", true, VM_NAME_MAX, &name, err, errlen);
	if (!ret)
		ret = get_file(req, &file, err, errlen);
	if (ret)
		return ret;
	/* A VM that has ended just now must be known as ended. */
	machine_reap(c->machine);
	vm = machine_vm_find(c->machine, name);
	if (!vm)
		return fail(-ENOENT, err, errlen, "name: no VM \"%s\"; a VM of `list` is accepted",
			    name);
	ret = snapshot_save(vm, file, err, errlen);
	if (!ret && json_object_set_new(resp, "saved", json_true()))
		ret = fail(-ENOMEM, err, errlen, "vm-save: out of memory");
	return ret;
}

static int cmd_vm_restore(void *arg, const json_t *req, json_t *resp, char *err, size_t errlen)
{
	static const char *const fields[] = {"file", "name", "tenant", NULL};
	const char *file = NULL, *name = NULL, *tenant = NULL;
	struct control *c = arg;
	struct machine_vm *vm;
	int ret = request_fields(req, fields, err, errlen);

	if (!ret)
		ret = get_file(req, &file, err, errlen);
	if (!ret)
		ret = request_string(req, "name", false, VM_NAME_MAX, &name, err, errlen);
	if (!ret)
		ret = request_string(req, "tenant", false, VM_TENANT_MAX, &tenant, err, errlen);
	if (!ret)
		ret = snapshot_restore(c->machine, file, name, tenant, &vm, err, errlen);
	if (ret)
		return ret;
	if (!c->paused)
		ret = machine_vm_start(vm, err, errlen);
	if (!ret && (json_object_set_new(resp, "vm", json_string(vm->name)) ||
		     json_object_set_new(resp, "engine", json_string(vm->engine))))
		ret = fail(-ENOMEM, err, errlen, "vm-restore: out of memory");
	if (ret)
		machine_vm_remove(vm);
	else
		c->added(vm, c->arg);
	return ret;
}

int control_snapshot_register(struct control *c)
{
	int ret = server_register(c->server, "vm-save", cmd_vm_save, c);

	return ret ? ret : server_register(c->server, "vm-restore", cmd_vm_restore, c);
}
