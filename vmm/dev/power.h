/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * How guests end their VM. power.c, for stock kernels: ACPI's sleep control register (soft off
 * only), the reset register of PCs at port CF9H, and the keyboard controller's reset command
 * (vmm/engine/platform.h). One for all vCPUs; it has no state.
 */
#pragma once

#include "vmm/dev/bus.h"

struct power {
	/* Thread of the vCPU. The guest may continue until its VM is stopped, and cause another
	 * call. */
	void (*off)(void *arg);
	void (*reset)(void *arg);
	void *arg;
};

/* power_claim - put *@p, filled in by the caller, onto @bus. -errno of bus_claim. */
int power_claim(struct power *p, struct bus *bus);

/*
 * exitport.c: the exit port of freestanding guests (VPMU_PORT_EXIT in vpmu/guest/abi.h): a 32-bit
 * write ends the vCPU with that status. It ignores other sizes and reads as all ones.
 */
struct exitport {
	void (*exited)(uint32_t status, void *arg); /* thread of the vCPU */
	void *arg;
};

/* exitport_claim - put *@e, filled in by the caller, onto @bus. -errno of bus_claim. */
int exitport_claim(struct exitport *e, struct bus *bus);
/* exitport_claim_debug - the same at PLATFORM_DEBUG_EXIT (vmm/engine/platform.h), where the write
 * may have any size. */
int exitport_claim_debug(struct exitport *e, struct bus *bus);
