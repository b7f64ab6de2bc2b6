// SPDX-License-Identifier: LGPL-2.1-or-later
/*
 * Conversion of keys to and from struct perf_event_attr, for the running CPU. The perf host PMU
 * calls this when it binds a counter, and `vpmu check` does; the switch path never. An attr must
 * never count anything but its key: -EOPNOTSUPP if perf has no exact encoding on this CPU.
 */
#include <errno.h>
#include <string.h>

#include <linux/perf_event.h>

#include "vpmu/event/priv.h"
#include "vpmu/event/vendor.h"

/* Get perf's own id of generic event @ev, if it has exactly this meaning on the running CPU. */
static bool hw_id(enum vpmu_generic ev, uint64_t *id)
{
	const struct event_vendor *host = vpmu_event_host();

	if (vpmu_generic_rows[ev].hw_id < 0 || (host && host->wrong_hw_ids & 1u << ev))
		return false;
	*id = (uint64_t)vpmu_generic_rows[ev].hw_id;
	return true;
}

static int generic_to_attr(vpmu_key_t key, struct perf_event_attr *attr)
{
	enum vpmu_generic ev = (enum vpmu_generic)vpmu_key_event(key);
	const struct event_vendor *host = vpmu_event_host();
	uint64_t config;

	if (hw_id(ev, &config)) {
		attr->type = PERF_TYPE_HARDWARE;
		attr->config = config;
		return 0;
	}
	if (!host || vpmu_key_to_raw(key, host->space, &config) || !host->host_has(ev))
		return -EOPNOTSUPP;
	attr->type = PERF_TYPE_RAW;
	attr->config = config;
	return 0;
}

static int raw_to_attr(vpmu_key_t key, struct perf_event_attr *attr)
{
	const struct event_vendor *host = vpmu_event_host();
	uint64_t config;

	if (!host || vpmu_key_space(key) != host->space ||
	    vpmu_key_to_raw(key, host->space, &config))
		return -EOPNOTSUPP;
	attr->type = PERF_TYPE_RAW;
	attr->config = config;
	return 0;
}

int vpmu_key_to_attr(vpmu_key_t key, struct perf_event_attr *attr)
{
	memset(attr, 0, sizeof(*attr));
	attr->size = sizeof(*attr);
	if (!vpmu_key_valid(key))
		return -EINVAL;
	if (key & VPMU_KEY_SVM) /* the mode of a guest's own SVM: perf cannot tell */
		return -EOPNOTSUPP;

	attr->exclude_user = !(key & VPMU_KEY_USR);
	attr->exclude_kernel = !(key & VPMU_KEY_OS);
	attr->exclude_hv = attr->exclude_kernel;
	attr->exclude_guest = !(key & VPMU_KEY_GUEST);
	attr->exclude_host = !(key & VPMU_KEY_HOST);

	switch (vpmu_key_space(key)) {
	case VPMU_SPACE_SOFTWARE:
		attr->type = PERF_TYPE_SOFTWARE;
		attr->config = vpmu_key_event(key);
		return 0;
	case VPMU_SPACE_GENERIC:
		return generic_to_attr(key, attr);
	default:
		return raw_to_attr(key, attr);
	}
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
		/* These events occur in the kernel, so such an attr counts nothing. (The clocks do
		 * count with exclude_kernel.) */
		return -EINVAL;
	}
	*key = vpmu_key_make(VPMU_SPACE_SOFTWARE, (uint16_t)attr->config, flags);
	return vpmu_key_valid(*key) ? 0 : -EINVAL;
}

static int hardware_from_attr(const struct perf_event_attr *attr, uint64_t flags, vpmu_key_t *key)
{
	unsigned int ev;
	uint64_t id;

	for (ev = 0; ev < VPMU_EV_GENERIC_NR; ev++) {
		if (!hw_id((enum vpmu_generic)ev, &id) || id != attr->config)
			continue;
		*key = vpmu_key_make(VPMU_SPACE_GENERIC, (uint16_t)ev, flags);
		return 0;
	}
	return -EINVAL;
}

static int raw_from_attr(const struct perf_event_attr *attr, uint64_t flags, vpmu_key_t *key)
{
	const struct event_vendor *host = vpmu_event_host();
	int ev;

	if (!host || attr->config & ~host->config_mask)
		return -EINVAL;
	ev = host->pseudo(attr->config);
	*key = ev >= 0 ? vpmu_key_make(VPMU_SPACE_GENERIC, (uint16_t)ev, flags)
		       : vpmu_key_from_raw(host->space, attr->config, flags);
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
