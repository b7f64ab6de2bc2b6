// SPDX-License-Identifier: GPL-2.0-or-later
#include <inttypes.h>
#include <jansson.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include "vmm/report.h"

static bool json;
static _Atomic bool failed;

void report_init(bool as_json)
{
	json = as_json;
}

bool report_failed(void)
{
	return atomic_load(&failed);
}

static void line_done(int rc)
{
	if (rc < 0 || fflush(stdout))
		atomic_store(&failed, true);
}

/* Takes the reference. NULL: out of memory. */
static void print_json(json_t *obj)
{
	char *text = obj ? json_dumps(obj, JSON_COMPACT) : NULL;

	line_done(text ? printf("%s\n", text) : -1);
	free(text);
	json_decref(obj);
}

void report_console(const struct machine_vm *vm, unsigned int vcpu, const char *line, size_t len)
{
	char text[SERIAL_TEXT_MAX];

	serial_text(line, len, text);
	if (json)
		print_json(json_pack("{s:s, s:s, s:i, s:s}", "kind", "console", "vm", vm->name,
				     "vcpu", (int)vcpu, "text", text));
	else if (vm->vcpus > 1)
		line_done(printf("[%s/%u] %s\n", vm->name, vcpu, text));
	else
		line_done(printf("[%s] %s\n", vm->name, text));
}

void report_end(const struct machine_vm *vm)
{
	const char *state = vm_state_name(vm->state);

	if (json && vm->state == VM_FAILED)
		print_json(json_pack("{s:s, s:s, s:s, s:s}", "kind", "vm-end", "vm", vm->name,
				     "state", state, "reason", vm->reason));
	else if (json)
		print_json(json_pack("{s:s, s:s, s:s, s:I}", "kind", "vm-end", "vm", vm->name,
				     "state", state, "status", (json_int_t)vm->status));
	else if (vm->state == VM_FAILED)
		line_done(printf("vm %s: failed: %s\n", vm->name, vm->reason));
	else
		line_done(printf("vm %s: %s, status %" PRIu32 "\n", vm->name, state, vm->status));
}

void report_removed(const struct machine_vm *vm)
{
	if (json)
		print_json(json_pack("{s:s, s:s, s:s}", "kind", "vm-end", "vm", vm->name, "state",
				     "removed"));
	else
		line_done(printf("vm %s: removed\n", vm->name));
}

void report_ready(const char *socket, size_t vms, bool paused)
{
	if (json)
		print_json(json_pack("{s:s, s:s*, s:I, s:b}", "kind", "ready", "socket", socket,
				     "vms", (json_int_t)vms, "paused", paused));
}
