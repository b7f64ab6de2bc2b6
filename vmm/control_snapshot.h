/* SPDX-License-Identifier: GPL-2.0-or-later */
/* vm-save and vm-restore of vpmu-vmm's control socket (docs/protocol.md). Control thread. */
#ifndef VMM_CONTROL_SNAPSHOT_H
#define VMM_CONTROL_SNAPSHOT_H

#include "vmm/control.h"

/* control_snapshot_register - add the commands to @c's server. @c outlives it. -errno. */
int control_snapshot_register(struct control *c);

#endif
