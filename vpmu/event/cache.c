// SPDX-License-Identifier: LGPL-2.1-or-later
/* perf's names of cache events; see priv.h. The encodings are in the vendors' tables. */
#include <stddef.h>
#include <string.h>

#include "vpmu/event/priv.h"
#include "vpmu/event/vendor.h"

static const char *const cache_names[EVENT_CACHE_NR] = {
	[EVENT_L1D_LOADS] = "L1-dcache-loads",	 [EVENT_L1D_LOAD_MISSES] = "L1-dcache-load-misses",
	[EVENT_L1D_STORES] = "L1-dcache-stores", [EVENT_L1D_PREFETCHES] = "L1-dcache-prefetches",
	[EVENT_L1I_LOADS] = "L1-icache-loads",	 [EVENT_L1I_LOAD_MISSES] = "L1-icache-load-misses",
	[EVENT_LLC_LOADS] = "LLC-loads",	 [EVENT_LLC_LOAD_MISSES] = "LLC-load-misses",
	[EVENT_LLC_STORES] = "LLC-stores",	 [EVENT_LLC_STORE_MISSES] = "LLC-store-misses",
	[EVENT_DTLB_LOADS] = "dTLB-loads",	 [EVENT_DTLB_LOAD_MISSES] = "dTLB-load-misses",
	[EVENT_DTLB_STORES] = "dTLB-stores",	 [EVENT_DTLB_STORE_MISSES] = "dTLB-store-misses",
	[EVENT_ITLB_LOADS] = "iTLB-loads",	 [EVENT_ITLB_LOAD_MISSES] = "iTLB-load-misses",
	[EVENT_BRANCH_LOADS] = "branch-loads",	 [EVENT_BRANCH_LOAD_MISSES] = "branch-load-misses",
	[EVENT_NODE_LOADS] = "node-loads",	 [EVENT_NODE_LOAD_MISSES] = "node-load-misses",
	[EVENT_NODE_STORES] = "node-stores",	 [EVENT_NODE_STORE_MISSES] = "node-store-misses",
};

const char *vpmu_cache_name(unsigned int nr)
{
	return nr < EVENT_CACHE_NR ? cache_names[nr] : NULL;
}

/* Return the vendor's event @nr on this CPU; NULL: it has none. */
static const struct event_cache *cache_find(const struct event_vendor *v, enum event_cache_nr nr)
{
	for (const struct event_cache *e = v->cache; e->nr != EVENT_CACHE_NR; e++) {
		if (e->nr != nr)
			continue;
		if (e->generic >= 0)
			return e;
		if (e->pfm ? vpmu_pfm_host_has(e->pfm, v->config_mask, e->config)
			   : !v->cache_host || v->cache_host())
			return e;
	}
	return NULL;
}

bool vpmu_cache_event(const char *name, enum vpmu_space raw_space, enum vpmu_space *space,
		      uint16_t *event, uint64_t *config)
{
	const struct event_vendor *v = raw_space ? vpmu_event_vendor(raw_space) : vpmu_event_host();
	const struct event_cache *e;
	unsigned int nr = 0;

	while (nr < EVENT_CACHE_NR && strcmp(name, cache_names[nr]))
		nr++;
	if (nr == EVENT_CACHE_NR)
		return false;
	e = v ? cache_find(v, (enum event_cache_nr)nr) : NULL;
	if (e && e->generic >= 0) {
		*space = VPMU_SPACE_GENERIC;
		*event = (uint16_t)e->generic;
	} else if (e) {
		*space = v->space;
		*config = e->config;
	} else {
		*space = v && v->space == VPMU_SPACE_ARM ? VPMU_SPACE_INTEL : VPMU_SPACE_ARM;
		*config = 0xff00 + nr; /* no event of these vendors */
	}
	return true;
}
