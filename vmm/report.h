/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The standard output of vpmu-vmm, as text or as one JSON object per line (--json). The man page
 * vpmu-vmm(1) has the formats. Lines of several threads do not mix, and no caller waits for the
 * reader of standard output (lineout.h). Guests' lines go through their consoles, which are
 * machine_vm.user (console.h). Any thread may call these functions.
 */
#pragma once

#include <stdbool.h>

#include "vmm/machine/machine.h"

/* report_init - start. Call it before any other function here. @trouble(arg) is called once, on
 * another thread, at the first error on standard output. -errno. lineout_close() ends it. */
int report_init(bool json, void (*trouble)(void *arg), void *arg);

/* report_console - give a line of a guest to its console, and print it if the console prints:
 * "[name] text", or "[name/1] text" if the VM has several vCPUs. JSON: kind "console". */
void report_console(const struct machine_vm *vm, unsigned int vcpu, const char *line, size_t len);

/* report_end - print how a VM ended: "vm name: done, status 0". JSON: kind "vm-end". */
void report_end(const struct machine_vm *vm);

/*
 * report_post_mortem - print the last branches of each vCPU of a VM that has failed, newest first,
 * a line such as "name/1: 0x201234 -> 0x200100 (rel-call)" for each. JSON: one object of kind
 * "post-mortem" per vCPU. If no branches were recorded, it prints one line about that. Prints
 * nothing for a VM that has not failed.
 */
void report_post_mortem(const struct machine_vm *vm);

/* report_removed - print that a VM was removed while it ran: "vm name: removed". JSON: kind
 * "vm-end". */
void report_removed(const struct machine_vm *vm);

/* report_ready - JSON only: print that the VMs exist and @socket (NULL: none) is served. */
void report_ready(const char *socket, size_t vms, bool paused);
