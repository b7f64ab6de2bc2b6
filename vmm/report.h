/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What vpmu-vmm prints on standard output: for people, or one JSON object per line. Each line
 * goes out whole, whoever else prints, and nobody waits for whoever reads it (lineout.h). Any
 * thread.
 */
#ifndef VMM_REPORT_H
#define VMM_REPORT_H

#include <stdbool.h>

#include "vmm/machine/machine.h"

/* report_init - before any other. @gone(arg): nobody can read it any more; from another thread.
 * -errno. */
int report_init(bool json, void (*gone)(void *arg), void *arg);

/* report_close - print what is queued; gives up on a reader that takes nothing. Last call. */
void report_close(void);

/* report_console - a line of a guest: "[name] text", with several vCPUs "[name/1] text"; or kind
 * "console". */
void report_console(const struct machine_vm *vm, unsigned int vcpu, const char *line, size_t len);

/* report_end - how a VM ended: "vm name: done, status 0", or kind "vm-end". */
void report_end(const struct machine_vm *vm);

/*
 * report_post_mortem - of a VM that has failed: the last branches of each vCPU, newest first,
 * "name/1: 0x201234 -> 0x200100 (rel-call)" a line; or an object of kind "post-mortem" for each
 * vCPU. One line when nobody recorded any. Nothing for a VM that has not failed.
 */
void report_post_mortem(const struct machine_vm *vm);

/* report_removed - a VM was removed while it ran: "vm name: removed", or kind "vm-end". */
void report_removed(const struct machine_vm *vm);

/* report_ready - JSON only: the socket (NULL: none) is served and the VMs exist. */
void report_ready(const char *socket, size_t vms, bool paused);

/* report_failed - whether a line could not be written: the reader is gone. */
bool report_failed(void);

#endif
