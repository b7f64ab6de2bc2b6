// SPDX-License-Identifier: LGPL-2.1-or-later
/* The list of vendors, and the vendor of the running CPU. Called by the rest of this folder. */
#include <stddef.h>

#include "vpmu/event/event.h"
#include "vpmu/event/vendor.h"

const struct event_vendor *const vpmu_event_vendors[] = {&vpmu_event_intel, &vpmu_event_amd,
							 &vpmu_event_arm, NULL};

const struct event_vendor *vpmu_event_vendor(enum vpmu_space space)
{
	for (const struct event_vendor *const *v = vpmu_event_vendors; *v; v++) {
		if ((*v)->space == space)
			return *v;
	}
	return NULL;
}

const struct event_vendor *vpmu_event_host(void)
{
	/* Cached: in a VM, CPUID can exit and take tens of microseconds. Concurrent callers store
	 * the same value. */
	static int cached = -1;
	int at = __atomic_load_n(&cached, __ATOMIC_RELAXED);

	if (at < 0) {
		for (at = 0; vpmu_event_vendors[at]; at++) {
			if (vpmu_event_vendors[at]->is_host())
				break;
		}
		__atomic_store_n(&cached, at, __ATOMIC_RELAXED);
	}
	return vpmu_event_vendors[at];
}

enum vpmu_space vpmu_event_host_space(void)
{
	const struct event_vendor *host = vpmu_event_host();

	return host ? host->space : 0;
}
