// SPDX-License-Identifier: LGPL-2.1-or-later
/*
 * The events that the host can count with perf, and the reasons why not, as text for `vpmu check`.
 * Not for the switch path.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include <linux/perf_event.h>

#include "vpmu/event/event.h"
#include "vpmu/host/perf_priv.h"
#include "vpmu/util/proctext.h"

struct check {
	int (*fn)(const char *what, bool ok, const char *why, void *arg);
	void *arg;
	int paranoid;
	unsigned int leave;
};

static int paranoid_level(void)
{
	char text[16];
	int level;

	proctext_read(text, sizeof(text), "/proc/sys/kernel/perf_event_paranoid");
	return sscanf(text, "%d", &level) == 1 ? level : -ENOENT;
}

/* Write one line to @buf: the reason why a probe of @key returned @rc. */
static void perf_check_why_not(int paranoid, vpmu_key_t key, int rc, char *buf, size_t len)
{
	struct perf_event_attr attr;

	switch (rc) {
	case -ENOENT:
		snprintf(buf, len, "%s",
			 vpmu_perf_capacity().gp
				 ? "this CPU's PMU does not have it"
				 : "no hardware PMU (in a VM: its host gives it no vPMU)");
		return;
	case -EACCES:
	case -EPERM:
		if (paranoid == -ENOENT)
			snprintf(buf, len, "perf_event_open: %s", strerror(-rc));
		else
			snprintf(buf, len,
				 "not permitted: perf_event_paranoid is %d; needs CAP_PERFMON or a "
				 "lower value",
				 paranoid);
		return;
	case -EOPNOTSUPP:
		if (key && vpmu_key_to_attr(key, &attr))
			snprintf(buf, len, "no event of this meaning on this CPU");
		else
			snprintf(buf, len,
				 "the PMU does not count guests apart now (no support, or VMs with "
				 "a mediated vPMU run)");
		return;
	case -EINVAL:
		snprintf(buf, len, "this CPU's PMU does not have it");
		return;
	case -EBUSY:
		snprintf(buf, len, "others hold all hardware counters");
		return;
	case -ENOSYS:
		snprintf(buf, len, "the kernel has no perf events");
		return;
	default:
		snprintf(buf, len, "perf_event_open: %s", strerror(-rc));
	}
}

static int check_perf(const struct check *ck)
{
	int rc = vpmu_perf_probe(
		vpmu_key_make(VPMU_SPACE_SOFTWARE, PERF_COUNT_SW_TASK_CLOCK,
			      VPMU_KEY_USR | VPMU_KEY_OS | VPMU_KEY_GUEST | VPMU_KEY_HOST),
		-1);
	char why[160];

	if (rc)
		perf_check_why_not(ck->paranoid, 0, rc, why, sizeof(why));
	else
		snprintf(why, sizeof(why), "perf_event_paranoid is %d", ck->paranoid);
	return ck->fn("perf events", !rc, why, ck->arg);
}

static int check_hardware(const struct check *ck)
{
	const struct vpmu_perf_capacity c = vpmu_perf_capacity();
	unsigned int left = c.gp - vpmu_perf_usable(&c, ck->leave);
	char why[160];
	int n;

	if (c.gp) {
		n = snprintf(why, sizeof(why),
			     "%u general and %u fixed ones; %u general %s left to others", c.gp,
			     c.fixed, left, left == 1 ? "one is" : "ones are");
		if (c.kinds > 1)
			snprintf(why + n, sizeof(why) - (size_t)n, "; %u kinds of core", c.kinds);
	} else {
		perf_check_why_not(ck->paranoid, vpmu_key_generic(VPMU_EV_BRANCHES, VPMU_KEY_USR),
				   c.rc, why, sizeof(why));
	}
	return ck->fn("hardware counters", c.gp, why, ck->arg);
}

static int probe(vpmu_key_t key)
{
	int rc = vpmu_perf_probe(key, -1);

	/* The kernel checks permissions before it looks for a PMU. A missing PMU is the better
	 * reason. */
	if (vpmu_key_space(key) != VPMU_SPACE_SOFTWARE && rc != -EOPNOTSUPP &&
	    !vpmu_perf_capacity().gp)
		rc = vpmu_perf_capacity().rc;
	return rc;
}

void vpmu_hostpmu_perf_why_not(vpmu_key_t key, char *why, size_t whylen)
{
	int rc = probe(key);

	if (rc)
		perf_check_why_not(paranoid_level(), key, rc, why, whylen);
	else
		snprintf(why, whylen, "not known: it can be counted now");
}

static int check_event(const struct vpmu_event_info *info, void *arg)
{
	const struct check *ck = arg;
	int rc;
	char why[160] = "";

	if (vpmu_key_space(info->key) == VPMU_SPACE_SCHED) /* not perf's */
		return 0;
	rc = probe(info->key);
	if (rc)
		perf_check_why_not(ck->paranoid, info->key, rc, why, sizeof(why));
	if (rc && info->key == vpmu_key_generic(VPMU_EV_REF_CYCLES, VPMU_KEY_USR | VPMU_KEY_OS))
		return ck->fn(info->name, true,
			      "in KVM guests, as TSC ticks between entering and leaving the guest "
			      "(quality tsc)",
			      ck->arg);
	return ck->fn(info->name, !rc, why, ck->arg);
}

int vpmu_hostpmu_perf_check(unsigned int leave_counters,
			    int (*fn)(const char *what, bool ok, const char *why, void *arg),
			    void *arg)
{
	struct check ck = {
		.fn = fn, .arg = arg, .paranoid = paranoid_level(), .leave = leave_counters};
	int rc = check_perf(&ck);

	if (!rc)
		rc = check_hardware(&ck);
	if (!rc)
		rc = vpmu_event_list(check_event, &ck);
	return rc;
}
