// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Keys to and from struct perf_event_attr, for the CPU this process runs on. Called when a host
 * counter is bound and by `check`; not on the switch path. Never gives an attr that counts
 * something other than its key: what perf cannot say exactly on this CPU is -EOPNOTSUPP.
 */
#include <errno.h>
#include <string.h>

#include <linux/perf_event.h>

#ifdef __x86_64__
#include <cpuid.h>
#endif

#include "vpmu/event/priv.h"

static enum vpmu_space cpu_space(void)
{
#ifdef __x86_64__
	unsigned int eax, ebx, ecx, edx;
	char vendor[12];

	if (!__get_cpuid(0, &eax, &ebx, &ecx, &edx))
		return 0;
	memcpy(vendor, &ebx, 4);
	memcpy(vendor + 4, &edx, 4);
	memcpy(vendor + 8, &ecx, 4);
	if (!memcmp(vendor, "GenuineIntel", 12))
		return VPMU_SPACE_INTEL;
	if (!memcmp(vendor, "AuthenticAMD", 12) || !memcmp(vendor, "HygonGenuine", 12))
		return VPMU_SPACE_AMD;
#endif
	return 0;
}

enum vpmu_space vpmu_host_space(void)
{
	/* CPUID is an exit of tens of microseconds in a VM: ask once. Racing first calls store
	 * the same value. */
	static int cached = -1;
	int space = __atomic_load_n(&cached, __ATOMIC_RELAXED);

	if (space < 0) {
		space = (int)cpu_space();
		__atomic_store_n(&cached, space, __ATOMIC_RELAXED);
	}
	return (enum vpmu_space)space;
}

/* SDM vol. 3, 20.2.1.2: event n of table 20-1 is there when CPUID 0AH EAX[31:24] > n and EBX[n]
 * is 0. Slots is number 7. */
static bool intel_has_slots(void)
{
#ifdef __x86_64__
	unsigned int eax, ebx, ecx, edx;

	if (!__get_cpuid(0xa, &eax, &ebx, &ecx, &edx))
		return false;
	return eax >> 24 > 7 && !(ebx & 1u << 7);
#else
	return false;
#endif
}

/* PPR: LsDispatch is PMCx029 since family 17h. */
static bool amd_has_ls_dispatch(void)
{
#ifdef __x86_64__
	unsigned int eax, ebx, ecx, edx, family;

	if (!__get_cpuid(1, &eax, &ebx, &ecx, &edx))
		return false;
	family = eax >> 8 & 0xf;
	if (family == 0xf)
		family += eax >> 20 & 0xff;
	return family >= 0x17;
#else
	return false;
#endif
}

/* Whether the vendor's encoding of @ev means @ev on this very CPU, for events that have no perf
 * id of their own. */
static bool host_encodes(enum vpmu_generic ev, enum vpmu_space space)
{
	if (space == VPMU_SPACE_AMD)
		return ev == VPMU_EV_BRANCHES_TAKEN || amd_has_ls_dispatch();

	switch (ev) {
	case VPMU_EV_BRANCHES_TAKEN:
		return vpmu_pfm_host_has("BR_INST_RETIRED:NEAR_TAKEN", 0x20c4);
	case VPMU_EV_LOADS:
		return vpmu_pfm_host_has("MEM_INST_RETIRED:ALL_LOADS", 0x81d0) ||
		       vpmu_pfm_host_has("MEM_UOPS_RETIRED:ALL_LOADS", 0x81d0);
	case VPMU_EV_STORES:
		return vpmu_pfm_host_has("MEM_INST_RETIRED:ALL_STORES", 0x82d0) ||
		       vpmu_pfm_host_has("MEM_UOPS_RETIRED:ALL_STORES", 0x82d0);
	case VPMU_EV_SLOTS:
		return intel_has_slots();
	default:
		return false;
	}
}

static int generic_to_attr(vpmu_key_t key, struct perf_event_attr *attr)
{
	enum vpmu_generic ev = (enum vpmu_generic)vpmu_key_event(key);
	const struct generic_row *row = &vpmu_generic_rows[ev];
	enum vpmu_space space = vpmu_host_space();
	uint64_t config;

	if (row->hw_id >= 0) {
		/* perf has an id for cache-* on AMD as well, but it counts other things there. */
		if (space == VPMU_SPACE_AMD && row->amd < 0)
			return -EOPNOTSUPP;
		attr->type = PERF_TYPE_HARDWARE;
		attr->config = (uint64_t)row->hw_id;
		return 0;
	}
	if (vpmu_key_to_raw(key, space, &config) || !host_encodes(ev, space))
		return -EOPNOTSUPP;
	attr->type = PERF_TYPE_RAW;
	attr->config = config;
	return 0;
}

int vpmu_key_to_attr(vpmu_key_t key, struct perf_event_attr *attr)
{
	enum vpmu_space space = vpmu_key_space(key);
	uint64_t config;
	int rc = 0;

	memset(attr, 0, sizeof(*attr));
	attr->size = sizeof(*attr);
	if (!vpmu_key_valid(key))
		return -EINVAL;

	attr->exclude_user = !(key & VPMU_KEY_USR);
	attr->exclude_kernel = !(key & VPMU_KEY_OS);
	attr->exclude_hv = attr->exclude_kernel;
	attr->exclude_guest = !(key & VPMU_KEY_GUEST);
	attr->exclude_host = !(key & VPMU_KEY_HOST);

	switch (space) {
	case VPMU_SPACE_SOFTWARE:
		attr->type = PERF_TYPE_SOFTWARE;
		attr->config = vpmu_key_event(key);
		break;
	case VPMU_SPACE_GENERIC:
		rc = generic_to_attr(key, attr);
		break;
	case VPMU_SPACE_INTEL:
	case VPMU_SPACE_AMD:
		if (space != vpmu_host_space() || vpmu_key_to_raw(key, space, &config))
			return -EOPNOTSUPP;
		attr->type = PERF_TYPE_RAW;
		attr->config = config;
		break;
	}
	return rc;
}

static int software_from_attr(const struct perf_event_attr *attr, vpmu_key_t *key)
{
	uint64_t flags = VPMU_KEY_FLAGS;

	if (attr->config >= VPMU_SW_NR || !vpmu_software_rows[attr->config].name)
		return -EINVAL;
	if (vpmu_software_rows[attr->config].priv == SW_PRIV_REGS) {
		if (attr->exclude_user)
			flags &= ~VPMU_KEY_USR;
		if (attr->exclude_kernel)
			flags &= ~VPMU_KEY_OS;
	} else if (attr->exclude_kernel && attr->config != PERF_COUNT_SW_CPU_CLOCK &&
		   attr->config != PERF_COUNT_SW_TASK_CLOCK) {
		/* These happen in the kernel: such an attr counts nothing. The clocks run on. */
		return -EINVAL;
	}
	*key = vpmu_key_make(VPMU_SPACE_SOFTWARE, (uint16_t)attr->config, flags);
	return vpmu_key_valid(*key) ? 0 : -EINVAL;
}

static int hardware_from_attr(const struct perf_event_attr *attr, uint64_t flags, vpmu_key_t *key)
{
	unsigned int ev;

	for (ev = 0; ev < VPMU_EV_GENERIC_NR; ev++) {
		const struct generic_row *row = &vpmu_generic_rows[ev];

		if (row->hw_id < 0 || (uint64_t)row->hw_id != attr->config)
			continue;
		if (vpmu_host_space() == VPMU_SPACE_AMD && row->amd < 0)
			return -EINVAL;
		*key = vpmu_key_make(VPMU_SPACE_GENERIC, (uint16_t)ev, flags);
		return 0;
	}
	return -EINVAL;
}

static int raw_from_attr(const struct perf_event_attr *attr, uint64_t flags, vpmu_key_t *key)
{
	enum vpmu_space space = vpmu_host_space();

	if (attr->config & ~vpmu_raw_config_mask(space))
		return -EINVAL;
	if (space == VPMU_SPACE_INTEL && attr->config == PSEUDO_REF_CYCLES)
		*key = vpmu_key_make(VPMU_SPACE_GENERIC, VPMU_EV_REF_CYCLES, flags);
	else if (space == VPMU_SPACE_INTEL && attr->config == PSEUDO_SLOTS)
		*key = vpmu_key_make(VPMU_SPACE_GENERIC, VPMU_EV_SLOTS, flags);
	else
		*key = vpmu_key_from_raw(space, attr->config, flags);
	return 0;
}

int vpmu_key_from_attr(const struct perf_event_attr *attr, vpmu_key_t *key)
{
	uint64_t flags = 0;
	int rc;

	if (attr->sample_period || attr->precise_ip || attr->config1 || attr->config2 ||
	    attr->exclude_idle || attr->size > sizeof(*attr))
		return -EINVAL;
	if (attr->type == PERF_TYPE_SOFTWARE)
		return software_from_attr(attr, key);

	if (!attr->exclude_user)
		flags |= VPMU_KEY_USR;
	if (!attr->exclude_kernel)
		flags |= VPMU_KEY_OS;
	if (!attr->exclude_guest)
		flags |= VPMU_KEY_GUEST;
	if (!attr->exclude_host)
		flags |= VPMU_KEY_HOST;
	if (!(flags & VPMU_KEY_PRIV) || !(flags & VPMU_KEY_WHERE))
		return -EINVAL;

	if (attr->type == PERF_TYPE_HARDWARE)
		rc = hardware_from_attr(attr, flags, key);
	else if (attr->type == PERF_TYPE_RAW)
		rc = raw_from_attr(attr, flags, key);
	else
		rc = -EINVAL;
	return rc;
}
