// SPDX-License-Identifier: GPL-2.0-or-later
/* Which keys the BPF backend can count, and the reasons why not. Sessions, `vpmu events` and `vpmu
 * check` show them. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "cgroup/slot.h"

bool can_count(const struct vpmu_backend *s, vpmu_key_t key, enum vpmu_quality *q, char *why,
	       size_t whylen)
{
	const struct bpf_backend *k = backend_of(s);
	int ret = key_is_sched(key) ? sched_probe(k, vpmu_key_event(key)) : slot_probe(k, key);

	if (!ret) {
		*q = key == vpmu_key_sched(VPMU_SCHED_IDLE) ? VPMU_Q_ESTIMATED : VPMU_Q_EXACT;
		return true;
	}
	if (ret == -EOPNOTSUPP && key & VPMU_KEY_GUEST && pmu_is_mediated(k->sys)) {
		snprintf(why, whylen,
			 "guests have the counters to themselves here (enable_mediated_pmu of "
			 "KVM); with :H the host is counted");
		return false;
	}
	if (slot_is_preempts(key)) {
		snprintf(why, whylen,
			 "this kernel does not number its switches (CONFIG_FAIR_GROUP_SCHED)");
		return false;
	}
	if (key == vpmu_key_sched(VPMU_SCHED_IDLE)) {
		snprintf(why, whylen, "/proc/stat does not have it: %s", strerror(-ret));
		return false;
	}
	if (key_is_sched(key)) {
		snprintf(why, whylen,
			 "this kernel does not keep it for threads (CONFIG_SCHED_INFO)");
		return false;
	}
	switch (ret) {
	case -EACCES:
	case -EPERM:
		snprintf(why, whylen,
			 "not permitted: counting whole CPUs needs CAP_PERFMON, and a "
			 "perf_event_paranoid of 2 or less");
		break;
	case -ENOENT:
	case -EOPNOTSUPP:
	case -EINVAL:
	case -ENODEV:
		snprintf(why, whylen, "this host's PMU does not count it");
		break;
	default:
		snprintf(why, whylen, "perf_event_open: %s", strerror(-ret));
	}
	return false;
}
