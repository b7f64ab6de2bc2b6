// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * A guest of KVM with a known loop: what is counted as the guest's and as the host's; and libvpmu's
 * PMU in a guest: PMIs, RDPMC. run.c calls this.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "selftest/priv.h"

#define KVM_AROUND    10     /* instructions of the guest besides the loop */
#define KVM_HOST_MOST 500000 /* instructions of user mode for a VM that begins and ends */

/* Returns 0, or says why there is no KVM. */
static int kvm_usable(struct selftest *t)
{
	int fd = open("/dev/kvm", O_RDWR | O_CLOEXEC);

	if (fd < 0) {
		selftest_skip(t, "/dev/kvm: %s", strerror(errno));
		return -errno;
	}
	close(fd);
	return 0;
}

static int kvm_split(struct selftest *t)
{
	static const char *const events[] = {"instructions:G", "instructions:uH", "instructions:H",
					     "instructions:GH"};
	enum { GUEST, USER, HOST, ALL, NR };
	const struct vpmu_value *v = t->value[NODE_A];
	const uint64_t n = t->o->exact ? 1000000 : 10000000;
	struct worker w = {.to = -1, .from = -1};
	enum vpmu_quality q;
	vpmu_key_t keys[NR];
	char why[200];
	int ret;

	for (int i = 0; i < NR; i++)
		if (vpmu_event_parse(events[i], vpmu_event_host_space(), &keys[i], why,
				     sizeof(why)) ||
		    !vpmu_backend_can_count(t->s, keys[i], &q, why, sizeof(why))) {
			selftest_skip(t, "guest and host: %s: %s", events[i], why);
			return 0;
		}
	ret = worker_start(t, NODE_A, &w);
	if (!ret)
		ret = measure_begin(t, keys, NR);
	if (!ret)
		ret = worker_do(t, &w, WORK_GUEST, n);
	if (!ret)
		ret = measure_whole(t);
	if (!ret) {
		selftest_expect(t, "instructions:G of a guest", 2 * n,
				2 * n + KVM_AROUND + (t->o->exact ? 0 : t->interrupts),
				v[GUEST].count, "a loop of %llu", (unsigned long long)n);
		selftest_expect(t, "instructions:uH beside it", 1, KVM_HOST_MOST, v[USER].count,
				"the guest leaks into the host's count");
		selftest_expect(t, "guest + host", v[ALL].count - v[ALL].count / 20,
				v[ALL].count + v[ALL].count / 20, v[GUEST].count + v[HOST].count,
				"cgroup a; one of the sides counts for another one");
		selftest_expect(t, "instructions:G of others", 0, 0, t->value[NODE_B][GUEST].count,
				"cgroup b");
	}
	worker_end(&w);
	return ret;
}

static int kvm_pmu(struct selftest *t)
{
	struct guest_seen *seen = mmap(NULL, sizeof(*seen), PROT_READ | PROT_WRITE,
				       MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	struct worker w = {.to = -1, .from = -1};
	int ret;

	if (seen == MAP_FAILED)
		return -errno;
	t->guest = seen;
	ret = worker_start(t, NODE_A, &w);
	if (!ret)
		ret = worker_do(t, &w, WORK_GUEST_PMU, 1);
	if (ret == -EOPNOTSUPP || ret == -EBUSY) {
		selftest_skip(t, "a guest's PMU: %s", seen->why);
		ret = 0;
	} else if (ret && seen->why[0]) {
		selftest_expect(t, "a guest with a PMU", 0, 0, (uint64_t)-ret, "%s", seen->why);
		ret = 0;
	} else if (!ret) {
		selftest_expect(t, "PMIs that a guest took", GUEST_PMIS, GUEST_PMIS, seen->pmis,
				"of its fixed counter 2");
		selftest_expect(t, "PMIs that were raised", GUEST_PMIS, GUEST_PMIS, seen->raised,
				"of its fixed counter 2");
		selftest_expect(t, "RDPMC of a stopped counter", seen->msr, seen->msr, seen->rdpmc,
				"RDMSR has another value");
		selftest_expect(t, "its count of a loop", 1000, UINT32_MAX, seen->msr,
				"ref-cycles");
	}
	worker_end(&w);
	t->guest = NULL;
	munmap(seen, sizeof(*seen));
	return ret;
}

void check_kvm(struct selftest *t)
{
	int ret;

	if (kvm_usable(t))
		return;
	if (t->pmu) {
		ret = kvm_split(t);
		for (int i = 0; i < 4 && ret == -EAGAIN; i++)
			ret = kvm_split(t);
		if (ret == -EAGAIN)
			selftest_skip(t, "guest and host: partial each time: context switches were "
					 "not shown");
		else if (ret)
			selftest_give_up(t, "a guest", ret);
	} else {
		selftest_skip(t, "guest and host: no hardware counters");
	}
	ret = kvm_pmu(t);
	if (ret)
		selftest_give_up(t, "a guest's PMU", ret);
}
