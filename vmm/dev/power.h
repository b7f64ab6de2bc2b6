/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * How a stock kernel ends its VM: ACPI's sleep control register (soft off only), the reset register
 * of PCs at port CF9H, and the keyboard controller's reset command (vmm/engine/platform.h). One for
 * all vCPUs; it has no state.
 */
#ifndef VMM_DEV_POWER_H
#define VMM_DEV_POWER_H

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

#endif
