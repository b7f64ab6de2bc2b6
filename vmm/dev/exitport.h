/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The exit port of freestanding guests (VPMU_PORT_EXIT in vpmu/guest/abi.h): a 32-bit write ends
 * the vCPU with that status. It ignores other sizes and reads as all ones.
 */
#ifndef VMM_DEV_EXITPORT_H
#define VMM_DEV_EXITPORT_H

#include "vmm/dev/bus.h"

struct exitport {
	void (*exited)(uint32_t status, void *arg); /* thread of the vCPU */
	void *arg;
};

/* exitport_claim - put *@e, filled in by the caller, onto @bus. -errno of bus_claim. */
int exitport_claim(struct exitport *e, struct bus *bus);
/* exitport_claim_debug - the same at PLATFORM_DEBUG_EXIT (vmm/engine/platform.h), where the write
 * may have any size. */
int exitport_claim_debug(struct exitport *e, struct bus *bus);

#endif
