/* SPDX-License-Identifier: GPL-2.0-or-later */
/* vm-set and tenant-set of vpmu-vmm's control socket (docs/protocol.md): settings that can change
 * while VMs run. Control thread. */
#ifndef VMM_CONTROL_SET_H
#define VMM_CONTROL_SET_H

#include "vmm/control.h"

/* control_set_register - add the commands to @c's server. @c outlives it. -errno. */
int control_set_register(struct control *c);

#endif
