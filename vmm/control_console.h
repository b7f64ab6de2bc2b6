/* SPDX-License-Identifier: GPL-2.0-or-later */
/* console-read and console-write of vpmu-vmm's control socket (docs/protocol.md), and the console
 * fields of `list`. machine_vm.user is the console, or NULL (a test without consoles). Control
 * thread. */
#ifndef VMM_CONTROL_CONSOLE_H
#define VMM_CONTROL_CONSOLE_H

#include "vmm/control.h"

/* control_console_register - add the commands to @c's server. @c outlives it. -errno. */
int control_console_register(struct control *c);

/* control_console_info - add to the VM @obj of `list` the number of lines that its console lost, if
 * any. */
void control_console_info(const struct machine_vm *vm, json_t *obj);

#endif
