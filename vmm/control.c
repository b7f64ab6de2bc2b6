// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * vpmu-vmm's own commands. server.c calls them on the control thread; requests are hostile. A
 * command that fails must leave no VM behind.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "vpmu/event/event.h"
#include "vpmu/util/fail.h"
#include "service/json_memory.h"
#include "service/request.h"
#include "service/daemon/contain.h"
#include "vmm/control.h"

#define EVTSEL_USR (1ull << 16)
#define EVTSEL_OS  (1ull << 17)

/* ---- VMs ------------------------------------------------------------------------------------ */

/* Set one key from a field, with its value as text, as in an ini file. */
static int set_field(struct vm_config *vm, const char *key, const json_t *value, char *err,
		     size_t errlen)
{
	char number[32];

	if (json_is_string(value))
		return vm_config_set(vm, key, json_string_value(value), err, errlen);
	if (json_is_integer(value)) {
		snprintf(number, sizeof(number), "%" JSON_INTEGER_FORMAT,
			 json_integer_value(value));
		return vm_config_set(vm, key, number, err, errlen);
	}
	return fail(-EINVAL, err, errlen, "vm/%.80s: expected a string or a number", key);
}

static int read_config(const json_t *req, struct vm_config *vm, char *err, size_t errlen)
{
	const json_t *value;
	const char *key;
	int ret;

	/* json_object_foreach needs a mutable object, though it only iterates. */
	json_object_foreach ((json_t *)req, key, value) {
		if (!strcmp(key, "cmd") || !strcmp(key, "id"))
			continue;
		ret = set_field(vm, key, value, err, errlen);
		if (ret)
			return ret;
	}
	/* A client has the operator's rights to VMs, not to files. */
	if (vm->console == VM_CONSOLE_FILE)
		return fail(-EPERM, err, errlen,
			    "vm/console: \"%.80s\" is invalid; expected stdout or ring (files only "
			    "with --vm and --config of the server)",
			    vm->console_file);
	return vm_config_check(vm, err, errlen);
}

static void added(bool ok, void *arg)
{
	struct control *c = arg;

	if (ok)
		c->added(c->vm, c->arg);
	else
		machine_vm_remove(c->vm);
}

int control_vm_added(struct control *c, struct machine_vm *vm, json_t *resp, char *err,
		     size_t errlen)
{
	int ret = c->paused ? 0 : machine_vm_start(vm, err, errlen);

	if (!ret && (json_object_set_new(resp, "vm", json_string(vm->name)) ||
		     json_object_set_new(resp, "engine", json_string(vm->engine))))
		ret = fail(-ENOMEM, err, errlen, "vm %s: out of memory", vm->name);
	if (ret) {
		machine_vm_remove(vm);
		return ret;
	}
	c->vm = vm;
	server_then(c->server, added, c);
	return 0;
}

static int cmd_vm_add(void *arg, const json_t *req, json_t *resp, char *err, size_t errlen)
{
	struct control *c = arg;
	struct vm_config cfg;
	struct machine_vm *vm;
	int ret = vm_config_init(&cfg, "vm-add");

	if (ret)
		return fail(ret, err, errlen, "vm-add: out of memory");
	ret = read_config(req, &cfg, err, errlen);
	if (!ret && cfg.kernel)
		ret = control_kernel_wait(c, &cfg, err, errlen);
	if (!ret)
		ret = machine_vm_add(c->machine, &cfg, &vm, err, errlen);
	vm_config_fini(&cfg);
	if (ret > 0) /* it waits */
		return 0;
	return ret ? ret : control_vm_added(c, vm, resp, err, errlen);
}

int control_named_vm(struct control *c, const json_t *req, const char *const *fields, bool required,
		     struct machine_vm **vm, char *err, size_t errlen)
{
	const char *name = NULL;
	int ret = request_fields(req, fields, err, errlen);

	*vm = NULL;
	if (!ret)
		ret = request_string(req, "name", required, VM_NAME_MAX, &name, err, errlen);
	if (ret || !name)
		return ret;
	machine_reap(c->machine); /* a VM that has just ended is one that has ended */
	*vm = machine_vm_find(c->machine, name);
	if (*vm)
		return 0;
	return fail(-ENOENT, err, errlen, "name: no VM \"%s\"; `vpmu list` shows the VMs", name);
}

static const char *const only_name[] = {"name", NULL};

static void remove_done(bool ok, void *arg)
{
	struct control *c = arg;

	if (!ok)
		return;
	c->removed(c->vm, c->arg);
	machine_vm_remove(c->vm);
}

static int cmd_vm_remove(void *arg, const json_t *req, json_t *resp, char *err, size_t errlen)
{
	struct control *c = arg;
	struct machine_vm *vm;
	int ret = control_named_vm(c, req, only_name, true, &vm, err, errlen);

	if (ret)
		return ret;
	c->vm = vm;
	server_then(c->server, remove_done, c);
	return 0;
}

static int control_cmd_pause(void *arg, const json_t *req, json_t *resp, char *err, size_t errlen)
{
	struct control *c = arg;
	struct machine_vm *vm;
	int ret = control_named_vm(c, req, only_name, false, &vm, err, errlen);

	if (ret)
		return ret;
	if (vm) {
		machine_vm_pause(vm);
		return 0;
	}
	c->paused = true;
	for (vm = machine_vms(c->machine); vm; vm = vm->next)
		machine_vm_pause(vm);
	return 0;
}

int control_resume(struct control *c, char *err, size_t errlen)
{
	int ret = 0;

	c->paused = false;
	for (struct machine_vm *vm = machine_vms(c->machine); vm && !ret; vm = vm->next)
		ret = machine_vm_start(vm, err, errlen);
	/* After the VMs: see machine_launch. */
	return ret ? ret : machine_launch(c->machine, err, errlen);
}

static int control_cmd_resume(void *arg, const json_t *req, json_t *resp, char *err, size_t errlen)
{
	struct control *c = arg;
	struct machine_vm *vm;
	int ret = control_named_vm(c, req, only_name, false, &vm, err, errlen);

	if (ret)
		return ret;
	if (!vm)
		return control_resume(c, err, errlen);
	ret = machine_vm_start(vm, err, errlen);
	return ret ? ret : machine_launch(c->machine, err, errlen);
}

static int control_cmd_quit(void *arg, const json_t *req, json_t *resp, char *err, size_t errlen)
{
	struct control *c = arg;
	int ret = request_fields(req, NULL, err, errlen);

	if (!ret)
		c->quit(c->arg);
	return ret;
}

/* ---- callbacks of the server ---------------------------------------------------------------- */

/* The event @last of struct machine_uncounted, as `perf stat -e` spells it. */
static const char *uncounted_name(const struct machine_vm *vm, uint64_t last,
				  char buf[VPMU_EVENT_NAME_MAX])
{
	bool amd = vm->pmu == VPMU_GUEST_AMD_K7 || vm->pmu == VPMU_GUEST_AMD_CORE ||
		   vm->pmu == VPMU_GUEST_AMD_V2;
	uint64_t flags = VPMU_KEY_GUEST;

	/* An event select that counts has USR or OS set; without both it is a fixed counter. */
	if (!(last & (EVTSEL_USR | EVTSEL_OS))) {
		snprintf(buf, VPMU_EVENT_NAME_MAX, "fixed counter %" PRIu64, last);
		return buf;
	}
	flags |= (last & EVTSEL_USR ? VPMU_KEY_USR : 0) | (last & EVTSEL_OS ? VPMU_KEY_OS : 0);
	return vpmu_event_name(
		vpmu_key_from_raw(amd ? VPMU_SPACE_AMD : VPMU_SPACE_INTEL, last, flags), buf);
}

static void control_uncounted(const struct machine_vm *vm, json_t *obj)
{
	const struct machine_uncounted denied = machine_vm_denied(vm),
				       unsupported = machine_vm_unsupported(vm);
	char name[VPMU_EVENT_NAME_MAX];

	if (vm->policy != VPMU_POLICY_FULL || vm->allow || vm->deny)
		json_object_set_new(obj, "denied", json_sprintf("%" PRIu64, denied.n));
	if (denied.n)
		json_object_set_new(obj, "denied-last",
				    json_string(uncounted_name(vm, denied.last, name)));
	if (unsupported.n) {
		json_object_set_new(obj, "unsupported", json_sprintf("%" PRIu64, unsupported.n));
		json_object_set_new(obj, "unsupported-last",
				    json_string(uncounted_name(vm, unsupported.last, name)));
	}
}

static void control_vm_info(const struct node *n, json_t *obj, void *arg)
{
	const struct machine_vm *vm = n->user;
	enum vm_state state = machine_vm_state(vm);

	json_object_set_new(obj, "state", json_string(vm_state_name(state)));
	json_object_set_new(obj, "engine", json_string(vm->engine));
	json_object_set_new(obj, "pmu", json_string(vpmu_guest_model_name(vm->pmu)));
	json_object_set_new(obj, "policy", json_string(vpmu_policy_tier_name(vm->policy)));
	if (vm->max_events != VM_MAX_EVENTS)
		json_object_set_new(obj, "max-events", json_integer(vm->max_events));
	if (machine_vm_refused(vm))
		json_object_set_new(obj, "refused",
				    json_sprintf("%" PRIu64, machine_vm_refused(vm)));
	if (vm->weight != VM_WEIGHT_DEFAULT)
		json_object_set_new(obj, "weight", json_integer(vm->weight));
	if (machine_tenant_weight(vm) != VM_WEIGHT_DEFAULT)
		json_object_set_new(obj, "tenant-weight", json_integer(machine_tenant_weight(vm)));
	if (machine_tenant_max_events(vm) != TENANT_MAX_EVENTS)
		json_object_set_new(obj, "tenant-max-events",
				    json_integer(machine_tenant_max_events(vm)));
	json_object_set_new(obj, "image", json_string(vm->image));
	control_uncounted(vm, obj);
	if (!vm->vm && state == VM_DONE)
		json_object_set_new(obj, "status", json_integer(vm->status));
	if (!vm->vm && state == VM_DONE && vm->how != VM_HOW_EXITED)
		json_object_set_new(obj, "how", json_string(vm_how_name(vm->how)));
	if (!vm->vm && state == VM_FAILED)
		json_object_set_new(obj, "reason", json_string(vm->reason));
	control_console_info(vm, obj);
}

static void control_check_row(const struct machine_fact *f, void *rows)
{
	/* A row is left out if there is no memory for it. */
	json_array_append_new(rows, json_pack("{s:s, s:b, s:s, s:s}", "what", f->what, "ok", f->ok,
					      "why", f->why, "backend", f->backend));
}

static void control_row(const char *what, bool ok, const char *why, void *rows)
{
	json_array_append_new(rows,
			      json_pack("{s:s, s:b, s:s}", "what", what, "ok", ok, "why", why));
}

static void control_check(json_t *rows, bool all, void *arg)
{
	const struct control *c = arg;
	const char *dir = tenants_root(machine_tenants(c->machine))->dir;

	control_row("tenants are cgroups", dir != NULL,
		    !dir  ? "plain paths: the server was given no cgroup root"
		    : all ? dir
			  : "",
		    rows);
	machine_describe(c->machine, control_check_row, rows);
	contain_describe(control_row, rows);
}

static void server_log(const char *line, void *arg)
{
	const struct control *c = arg;

	c->log(line, c->arg);
}

unsigned int control_sessions(struct control *c)
{
	static const char request[] = "{\"cmd\":\"sessions\"}";
	char *line = server_dispatch(c->server, request, sizeof(request) - 1);
	json_t *answer = line ? json_memory_parse(line, strlen(line), 0, NULL) : NULL;
	size_t n = json_array_size(json_object_get(answer, "sessions"));

	json_decref(answer);
	free(line);
	return (unsigned int)n;
}

/* ---- life ----------------------------------------------------------------------------------- */

int control_serve(struct control *c, sd_event *ev, const char *path, char *err, size_t errlen)
{
	static const struct {
		const char *cmd;
		server_fn *fn;
	} commands[] = {
		{"vm-add", cmd_vm_add},
		{"vm-remove", cmd_vm_remove},
		{"pause", control_cmd_pause},
		{"resume", control_cmd_resume},
		{"quit", control_cmd_quit},
		{"vm-save", control_vm_save},
		{"vm-restore", control_vm_restore},
		{"console-read", control_console_read},
		{"console-write", control_console_write},
		{"vm-set", control_vm_set},
		{"tenant-set", control_tenant_set},
	};
	struct server_opts opts = {
		.path = path,
		.own_dir = c->usual_socket,
		.name = "vpmu-vmm",
		.check = control_check,
		.vm_info = control_vm_info,
		.access = c->access,
		.log = server_log,
		.arg = c,
	};
	int ret;

	/* rHEX events are encodings of the host CPU's vendor, as for perf. */
	opts.raw_space = vpmu_event_host_space();
	ret = server_create(machine_tenants(c->machine), ev, &opts, &c->server, err, errlen);
	if (ret)
		return ret;
	for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]) && !ret; i++)
		ret = server_register(c->server, commands[i].cmd, commands[i].fn, c);
	if (ret) {
		control_close(c);
		return fail(ret, err, errlen, "control socket: %s", strerror(-ret));
	}
	return 0;
}

void control_close(struct control *c)
{
	server_destroy(c->server);
	control_kernels_close(c);
	c->server = NULL;
}
