// SPDX-License-Identifier: GPL-2.0-or-later
#include <inttypes.h>
#include <jansson.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "vmm/lineout.h"
#include "vmm/report.h"

static bool json;

/* Takes the reference. NULL: out of memory. */
static char *json_text(json_t *obj)
{
	char *text = obj ? json_dumps(obj, JSON_COMPACT) : NULL;

	json_decref(obj);
	return text;
}

static char *format(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
static char *format(const char *fmt, ...)
{
	char *text;
	va_list ap;

	va_start(ap, fmt);
	if (vasprintf(&text, fmt, ap) < 0)
		text = NULL;
	va_end(ap);
	return text;
}

/* The reader is slower than a guest that floods it. */
static char *lost_line(const char *vm, unsigned long n)
{
	if (json)
		return json_text(json_pack("{s:s, s:s, s:I}", "kind", "console-lost", "vm", vm,
					   "lines", (json_int_t)n));
	return format("[%s] (%lu lines lost: they came faster than they are read)", vm, n);
}

int report_init(bool as_json, void (*gone)(void *arg), void *arg)
{
	json = as_json;
	return lineout_open(lost_line, gone, arg);
}

bool report_failed(void)
{
	return lineout_failed();
}

void report_close(void)
{
	lineout_close();
}

void report_console(const struct machine_vm *vm, unsigned int vcpu, const char *line, size_t len)
{
	char text[SERIAL_TEXT_MAX];

	serial_text(line, len, text);
	if (json)
		lineout_put(json_text(json_pack("{s:s, s:s, s:i, s:s}", "kind", "console", "vm",
						vm->name, "vcpu", (int)vcpu, "text", text)),
			    vm->name);
	else if (vm->vcpus > 1)
		lineout_put(format("[%s/%u] %s", vm->name, vcpu, text), vm->name);
	else
		lineout_put(format("[%s] %s", vm->name, text), vm->name);
}

void report_end(const struct machine_vm *vm)
{
	const char *state = vm_state_name(vm->state);

	if (json && vm->state == VM_FAILED)
		lineout_put(json_text(json_pack("{s:s, s:s, s:s, s:s}", "kind", "vm-end", "vm",
						vm->name, "state", state, "reason", vm->reason)),
			    NULL);
	else if (json)
		lineout_put(json_text(json_pack("{s:s, s:s, s:s, s:I}", "kind", "vm-end", "vm",
						vm->name, "state", state, "status",
						(json_int_t)vm->status)),
			    NULL);
	else if (vm->state == VM_FAILED)
		lineout_put(format("vm %s: failed: %s", vm->name, vm->reason), NULL);
	else
		lineout_put(format("vm %s: %s, status %" PRIu32 "", vm->name, state, vm->status),
			    NULL);
}

void report_removed(const struct machine_vm *vm)
{
	if (json)
		lineout_put(json_text(json_pack("{s:s, s:s, s:s}", "kind", "vm-end", "vm", vm->name,
						"state", "removed")),
			    NULL);
	else
		lineout_put(format("vm %s: removed", vm->name), NULL);
}

void report_ready(const char *socket, size_t vms, bool paused)
{
	if (json)
		lineout_put(json_text(json_pack("{s:s, s:s*, s:I, s:b}", "kind", "ready", "socket",
						socket, "vms", (json_int_t)vms, "paused", paused)),
			    NULL);
}
