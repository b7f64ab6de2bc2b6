// SPDX-License-Identifier: GPL-2.0-or-later
/* The lines that vpmu-vmm prints on standard output; see report.h. Every line goes through
 * lineout.c; nothing here may write to standard output itself. */
#include <inttypes.h>
#include <jansson.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "vmm/console.h"
#include "vmm/lineout.h"
#include "vmm/report.h"
#include "vpmu/util/clock.h"

static bool json;

/* The text of @obj, and drop the reference to it. NULL: out of memory. */
static char *json_text(json_t *obj)
{
	char *text = obj ? json_dumps(obj, JSON_COMPACT) : NULL;

	json_decref(obj);
	return text;
}

__attribute__((format(printf, 1, 2))) static char *format(const char *fmt, ...)
{
	char *text;
	va_list ap;

	va_start(ap, fmt);
	if (vasprintf(&text, fmt, ap) < 0)
		text = NULL;
	va_end(ap);
	return text;
}

/* Print a line of the program itself, which is taken. */
static void report_line(char *text)
{
	lineout_put(text, NULL);
}

static void report_json(json_t *obj)
{
	report_line(json_text(obj));
}

/* The line that replaces @n dropped lines of VM @vm (lineout_lost_fn). */
static char *lost_line(const char *vm, unsigned long n)
{
	if (json)
		return json_text(json_pack("{s:s, s:s, s:I}", "kind", "console-lost", "vm", vm,
					   "lines", (json_int_t)n));
	return format("[%s] (%lu lines lost: they came too fast, or could not be written)", vm, n);
}

int report_init(bool as_json, void (*trouble)(void *arg), void *arg)
{
	json = as_json;
	return lineout_open(lost_line, trouble, arg);
}

void report_console(const struct machine_vm *vm, unsigned int vcpu, const char *line, size_t len)
{
	struct console *c = vm->user;
	char text[SERIAL_TEXT_MAX];

	serial_text(line, len, text);
	if (!console_line(c, vcpu, text, clock_ns(CLOCK_MONOTONIC)) || !console_prints(c))
		return;
	if (json)
		console_print(c,
			      json_text(json_pack("{s:s, s:s, s:i, s:s}", "kind", "console", "vm",
						  vm->name, "vcpu", (int)vcpu, "text", text)));
	else if (vm->vcpus > 1 && !vm->kernel)
		console_print(c, format("[%s/%u] %s", vm->name, vcpu, text));
	else
		console_print(c, format("[%s] %s", vm->name, text));
}

void report_end(const struct machine_vm *vm)
{
	const char *state = vm_state_name(vm->state);

	console_settle(vm->user);
	if (json && vm->state == VM_FAILED)
		report_json(json_pack("{s:s, s:s, s:s, s:s}", "kind", "vm-end", "vm", vm->name,
				      "state", state, "reason", vm->reason));
	else if (json)
		report_json(json_pack("{s:s, s:s, s:s, s:I, s:s*}", "kind", "vm-end", "vm",
				      vm->name, "state", state, "status", (json_int_t)vm->status,
				      "how",
				      vm->how == VM_HOW_EXITED ? NULL : vm_how_name(vm->how)));
	else if (vm->state == VM_FAILED)
		report_line(format("vm %s: failed: %s", vm->name, vm->reason));
	else if (vm->how == VM_HOW_OFF)
		report_line(format("vm %s: %s, switched off by the guest", vm->name, state));
	else if (vm->how == VM_HOW_RESET)
		report_line(format("vm %s: %s, reset by the guest", vm->name, state));
	else
		report_line(format("vm %s: %s, status %" PRIu32 "", vm->name, state, vm->status));
}

/* ---- post-mortem ---- */

static void branches_text(const struct machine_vm *vm, unsigned int vcpu,
			  const struct vpmu_lbr_regs *r)
{
	const struct vpmu_lbr_entry *e;

	if (!vpmu_lbr_nth(r, 0))
		report_line(format("%s/%u: no branch was recorded", vm->name, vcpu));
	for (unsigned int i = 0; (e = vpmu_lbr_nth(r, i)); i++) {
		if (e->from == VPMU_LBR_FROM_FILTERED)
			report_line(format("%s/%u: ? -> 0x%" PRIx64 " (%s)", vm->name, vcpu, e->to,
					   vpmu_lbr_type_name(e->info)));
		else
			report_line(format("%s/%u: 0x%" PRIx64 " -> 0x%" PRIx64 " (%s)", vm->name,
					   vcpu, e->from, e->to, vpmu_lbr_type_name(e->info)));
	}
}

static void branches_json(const struct machine_vm *vm, unsigned int vcpu,
			  const struct vcpu_branches *b)
{
	json_t *entries = json_array();
	const struct vpmu_lbr_entry *e;

	for (unsigned int i = 0; entries && (e = vpmu_lbr_nth(&b->regs, i)); i++) {
		json_t *entry = json_pack(
			"{s:o, s:o, s:s}", "from", json_sprintf("0x%" PRIx64, e->from), "to",
			json_sprintf("0x%" PRIx64, e->to), "type", vpmu_lbr_type_name(e->info));

		if (e->info & VPMU_LBR_INFO_CYC_VALID)
			json_object_set_new(
				entry, "cycles",
				json_integer((json_int_t)(e->info & VPMU_LBR_INFO_CYC)));
		if (json_array_append_new(entries, entry)) {
			json_decref(entries);
			entries = NULL;
		}
	}
	/* json_pack takes the reference to entries. If entries is NULL (out of memory), the result
	 * is NULL, too. */
	report_json(json_pack("{s:s, s:s, s:i, s:s, s:o}", "kind", "post-mortem", "vm", vm->name,
			      "vcpu", (int)vcpu, "source",
			      b->user == VPMU_LBR_GUEST ? "guest" : "capture", "entries", entries));
}

void report_post_mortem(const struct machine_vm *vm)
{
	static const char hint[] = "lbr = branches in [host] keeps the last branches of each vCPU";
	bool any = false;

	if (vm->state != VM_FAILED)
		return;
	for (unsigned int i = 0; vm->branches && i < vm->vcpus; i++) {
		if (!vm->branches[i])
			continue;
		any = true;
		if (json)
			branches_json(vm, i, vm->branches[i]);
		else
			branches_text(vm, i, &vm->branches[i]->regs);
	}
	if (any || !(vm->can & VMM_CAN_LBR))
		return;
	if (json)
		report_json(json_pack("{s:s, s:s, s:s}", "kind", "post-mortem", "vm", vm->name,
				      "note", hint));
	else
		report_line(format("vm %s: no branches were recorded; %s", vm->name, hint));
}

void report_removed(const struct machine_vm *vm)
{
	console_settle(vm->user);
	if (json)
		report_json(json_pack("{s:s, s:s, s:s}", "kind", "vm-end", "vm", vm->name, "state",
				      "removed"));
	else
		report_line(format("vm %s: removed", vm->name));
}

void report_ready(const char *socket, size_t vms, bool paused)
{
	if (json)
		report_json(json_pack("{s:s, s:s*, s:I, s:b}", "kind", "ready", "socket", socket,
				      "vms", (json_int_t)vms, "paused", paused));
}
