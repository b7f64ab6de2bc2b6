// SPDX-License-Identifier: LGPL-2.1-or-later
/*
 * Event keys: the tables of generic and software events, and the pure functions on keys. Register
 * models and host PMUs call these, also when a guest writes an event select: no locks, no
 * allocation. Vendors' encodings are in their tables (vendor.h).
 *
 * A key is canonical: equivalent encodings must give the same u64, or they would not share a
 * counter. vpmu_key_valid therefore rejects a raw key that has a generic equivalent.
 */
#include "vpmu/event/event.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include <linux/perf_event.h>

#include "vpmu/event/priv.h"
#include "vpmu/event/vendor.h"

/* The vendors' encodings of these events are in their tables (vendor.h). */
const struct generic_row vpmu_generic_rows[VPMU_EV_GENERIC_NR] = {
	[VPMU_EV_CYCLES] = {"cycles", "cpu-cycles", "unhalted core cycles",
			    PERF_COUNT_HW_CPU_CYCLES},
	[VPMU_EV_INSTRUCTIONS] = {"instructions", NULL, "retired instructions",
				  PERF_COUNT_HW_INSTRUCTIONS},
	[VPMU_EV_REF_CYCLES] = {"ref-cycles", NULL, "unhalted cycles at the TSC's rate",
				PERF_COUNT_HW_REF_CPU_CYCLES},
	[VPMU_EV_BRANCHES] = {"branches", "branch-instructions", "retired branches",
			      PERF_COUNT_HW_BRANCH_INSTRUCTIONS},
	[VPMU_EV_BRANCHES_TAKEN] = {"branches-taken", NULL, "retired taken branches", -1},
	[VPMU_EV_BRANCHES_CONDITIONAL] = {"branches-conditional", NULL,
					  "retired conditional branches, taken or not", -1},
	[VPMU_EV_LOADS] = {"loads", NULL, "retired instructions that load", -1},
	[VPMU_EV_STORES] = {"stores", NULL, "retired instructions that store", -1},
	[VPMU_EV_BRANCH_MISSES] = {"branch-misses", NULL, "retired mispredicted branches",
				   PERF_COUNT_HW_BRANCH_MISSES},
	[VPMU_EV_CACHE_REFERENCES] = {"cache-references", NULL,
				      "references to the last-level cache",
				      PERF_COUNT_HW_CACHE_REFERENCES},
	[VPMU_EV_CACHE_MISSES] = {"cache-misses", NULL, "misses of the last-level cache",
				  PERF_COUNT_HW_CACHE_MISSES},
	[VPMU_EV_BUS_CYCLES] = {"bus-cycles", NULL, "unhalted cycles of the reference clock",
				PERF_COUNT_HW_BUS_CYCLES},
	[VPMU_EV_SLOTS] = {"slots", NULL, "top-down issue slots", -1},
	[VPMU_EV_STALLED_FRONTEND] = {"stalled-cycles-frontend", "idle-cycles-frontend",
				      "cycles in which the front end delivers nothing",
				      PERF_COUNT_HW_STALLED_CYCLES_FRONTEND},
	[VPMU_EV_STALLED_BACKEND] = {"stalled-cycles-backend", "idle-cycles-backend",
				     "cycles in which the back end takes nothing",
				     PERF_COUNT_HW_STALLED_CYCLES_BACKEND},
};

/*
 * enum perf_sw_ids of linux/perf_event.h. The kernel counts these for a thread in guest and host
 * alike, regardless of exclude_host and exclude_guest: perf_exclude_event() in kernel/events/core.c
 * tests user and kernel only, and the clocks test nothing. bpf-output (10) counts nothing, so it is
 * omitted.
 */
const struct software_row vpmu_software_rows[VPMU_SW_NR] = {
	[PERF_COUNT_SW_CPU_CLOCK] = {"cpu-clock", NULL, "CPU clock, ns", SW_PRIV_NONE},
	[PERF_COUNT_SW_TASK_CLOCK] = {"task-clock", NULL, "time the thread ran, ns", SW_PRIV_NONE},
	[PERF_COUNT_SW_PAGE_FAULTS] = {"page-faults", "faults", "page faults", SW_PRIV_REGS},
	[PERF_COUNT_SW_CONTEXT_SWITCHES] = {"context-switches", "cs", "context switches",
					    SW_PRIV_NONE},
	[PERF_COUNT_SW_CPU_MIGRATIONS] = {"cpu-migrations", "migrations",
					  "moves of the thread to another CPU", SW_PRIV_NONE},
	[PERF_COUNT_SW_PAGE_FAULTS_MIN] = {"minor-faults", NULL, "page faults without I/O",
					   SW_PRIV_REGS},
	[PERF_COUNT_SW_PAGE_FAULTS_MAJ] = {"major-faults", NULL, "page faults with I/O",
					   SW_PRIV_REGS},
	[PERF_COUNT_SW_ALIGNMENT_FAULTS] = {"alignment-faults", NULL,
					    "unaligned accesses the kernel fixed up", SW_PRIV_REGS},
	[PERF_COUNT_SW_EMULATION_FAULTS] = {"emulation-faults", NULL,
					    "instructions the kernel emulated", SW_PRIV_REGS},
	[PERF_COUNT_SW_DUMMY] = {"dummy", NULL, "counts nothing", SW_PRIV_NONE},
	[PERF_COUNT_SW_CGROUP_SWITCHES] = {"cgroup-switches", NULL,
					   "context switches to another cgroup", SW_PRIV_NONE},
};

const struct software_row vpmu_sched_rows[VPMU_SCHED_NR] = {
	[VPMU_SCHED_RUN_DELAY] =
		{"run-delay", "steal",
		 "time vCPU threads waited for a CPU, ns: what KVM tells guests as steal",
		 SW_PRIV_NONE},
	[VPMU_SCHED_INVOLUNTARY] = {"involuntary-context-switches", "nivcsw",
				    "context switches of vCPU threads that could go on",
				    SW_PRIV_NONE},
	[VPMU_SCHED_PREEMPTED] = {"preempted-by-others", "preempted",
				  "context switches of tasks that could go on to another tenant",
				  SW_PRIV_NONE},
	[VPMU_SCHED_IDLE] = {"idle-time", "idle",
			     "time CPUs were idle, ns: a part of the clocks of / and /host",
			     SW_PRIV_NONE},
};

vpmu_key_t vpmu_key_from_raw(enum vpmu_space space, uint64_t config, uint64_t flags)
{
	const struct event_vendor *vendor = vpmu_event_vendor(space);
	uint64_t raw;
	unsigned int ev;

	if (!vendor)
		return 0;
	flags &= VPMU_KEY_FLAGS;
	raw = vendor->encode(config & vendor->config_mask);
	config = vendor->decode(raw);
	for (ev = 0; ev < VPMU_EV_GENERIC_NR; ev++) {
		if (vendor->generic[ev] == (int64_t)config)
			return vpmu_key_make(VPMU_SPACE_GENERIC, (uint16_t)ev, flags);
	}
	return vpmu_key_make(space, 0, flags) | raw;
}

int vpmu_key_to_raw(vpmu_key_t key, enum vpmu_space space, uint64_t *config)
{
	const struct event_vendor *vendor = vpmu_event_vendor(space);
	int64_t generic;

	if (!vendor || !vpmu_key_valid(key))
		return -EOPNOTSUPP;
	if (vpmu_key_space(key) == space) {
		*config = vendor->decode(key);
		return 0;
	}
	if (vpmu_key_space(key) != VPMU_SPACE_GENERIC)
		return -EOPNOTSUPP;
	generic = vendor->generic[vpmu_key_event(key)];
	if (generic == VPMU_NO_CONFIG)
		return -EOPNOTSUPP;
	*config = (uint64_t)generic;
	return 0;
}

/* A raw key is canonical if its config maps back to it. */
static bool raw_valid(vpmu_key_t key)
{
	const struct event_vendor *vendor = vpmu_event_vendor(vpmu_key_space(key));

	return vendor &&
	       vpmu_key_from_raw(vendor->space, vendor->decode(key), key) == (key & ~VPMU_KEY_SVM);
}

bool vpmu_key_valid(vpmu_key_t key)
{
	const uint64_t plain =
		VPMU_KEY_EVENT_MASK | VPMU_KEY_FLAGS | 0xfULL << VPMU_KEY_SPACE_SHIFT;
	enum vpmu_space space = vpmu_key_space(key);
	unsigned int event = vpmu_key_event(key);

	if (key & ~VPMU_KEY_VALID_MASK || !(key & VPMU_KEY_PRIV) || !(key & VPMU_KEY_WHERE))
		return false;
	if (key & VPMU_KEY_SVM && ((key & VPMU_KEY_WHERE) != VPMU_KEY_GUEST ||
				   (space != VPMU_SPACE_GENERIC && space != VPMU_SPACE_AMD)))
		return false;

	switch (space) {
	case VPMU_SPACE_GENERIC:
		return !(key & ~(plain | VPMU_KEY_SVM)) && event < VPMU_EV_GENERIC_NR;
	case VPMU_SPACE_SOFTWARE:
		if (key & ~plain || event >= VPMU_SW_NR || !vpmu_software_rows[event].name)
			return false;
		/* Flags that the kernel ignores must all be set: see VPMU_SPACE_SOFTWARE. */
		if ((key & VPMU_KEY_WHERE) != VPMU_KEY_WHERE)
			return false;
		return vpmu_software_rows[event].priv == SW_PRIV_REGS ||
		       (key & VPMU_KEY_PRIV) == VPMU_KEY_PRIV;
	case VPMU_SPACE_SCHED:
		return event < VPMU_SCHED_NR && (key & plain) == key &&
		       (key & VPMU_KEY_FLAGS) == VPMU_KEY_FLAGS;
	default:
		return raw_valid(key);
	}
}

const char *vpmu_event_name(vpmu_key_t key, char buf[VPMU_EVENT_NAME_MAX])
{
	enum vpmu_space space = vpmu_key_space(key);
	const struct event_vendor *vendor;
	char mods[6] = "";
	char *m = mods;

	if (!vpmu_key_valid(key)) {
		snprintf(buf, VPMU_EVENT_NAME_MAX, "invalid-0x%llx", (unsigned long long)key);
		return buf;
	}

	if (!(key & VPMU_KEY_OS))
		*m++ = 'u';
	if (!(key & VPMU_KEY_USR))
		*m++ = 'k';
	/* A name without modifiers counts in guests; a software event always counts in guest and
	 * host. */
	if (space != VPMU_SPACE_SOFTWARE && space != VPMU_SPACE_SCHED && key & VPMU_KEY_HOST) {
		if (key & VPMU_KEY_GUEST)
			*m++ = 'G';
		*m++ = 'H';
	}
	*m = '\0';

	switch (space) {
	case VPMU_SPACE_GENERIC:
		snprintf(buf, VPMU_EVENT_NAME_MAX, "%s%s%s",
			 vpmu_generic_rows[vpmu_key_event(key)].name, *mods ? ":" : "", mods);
		break;
	case VPMU_SPACE_SOFTWARE:
		snprintf(buf, VPMU_EVENT_NAME_MAX, "%s%s%s",
			 vpmu_software_rows[vpmu_key_event(key)].name, *mods ? ":" : "", mods);
		break;
	case VPMU_SPACE_SCHED:
		snprintf(buf, VPMU_EVENT_NAME_MAX, "%s", vpmu_sched_rows[vpmu_key_event(key)].name);
		break;
	default:
		/* The vendor is part of the name: r1a8 is a different event for each vendor. */
		vendor = vpmu_event_vendor(space);
		snprintf(buf, VPMU_EVENT_NAME_MAX, "%s::r%llx%s%s", vendor->name,
			 (unsigned long long)vendor->decode(key), *mods ? ":" : "", mods);
		break;
	}
	if (key & VPMU_KEY_SVM)
		snprintf(buf + strlen(buf), VPMU_EVENT_NAME_MAX - strlen(buf), "%s%s",
			 key & VPMU_KEY_GUESTONLY ? "/GuestOnly" : "",
			 key & VPMU_KEY_HOSTONLY ? "/HostOnly" : "");
	return buf;
}

int vpmu_event_list(int (*fn)(const struct vpmu_event_info *info, void *arg), void *arg)
{
	struct vpmu_event_info info;
	unsigned int i;
	int rc;

	for (i = 0; i < VPMU_EV_GENERIC_NR; i++) {
		info.name = vpmu_generic_rows[i].name;
		info.alias = vpmu_generic_rows[i].alias;
		info.desc = vpmu_generic_rows[i].desc;
		info.key = vpmu_key_generic((enum vpmu_generic)i, VPMU_KEY_PRIV);
		rc = fn(&info, arg);
		if (rc)
			return rc;
	}
	for (i = 0; i < VPMU_SW_NR; i++) {
		if (!vpmu_software_rows[i].name)
			continue;
		info.name = vpmu_software_rows[i].name;
		info.alias = vpmu_software_rows[i].alias;
		info.desc = vpmu_software_rows[i].desc;
		info.key = vpmu_key_make(VPMU_SPACE_SOFTWARE, (uint16_t)i, VPMU_KEY_FLAGS);
		rc = fn(&info, arg);
		if (rc)
			return rc;
	}
	for (i = 0; i < VPMU_SCHED_NR; i++) {
		info.name = vpmu_sched_rows[i].name;
		info.alias = vpmu_sched_rows[i].alias;
		info.desc = vpmu_sched_rows[i].desc;
		info.key = vpmu_key_sched((enum vpmu_sched)i);
		rc = fn(&info, arg);
		if (rc)
			return rc;
	}
	return 0;
}
