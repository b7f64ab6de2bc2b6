/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Names of events for test_event: those that parse, with their keys, and those that are refused. */
#ifndef TESTS_UNIT_EVENT_NAMES_H
#define TESTS_UNIT_EVENT_NAMES_H

#include <errno.h>

#include <linux/perf_event.h>

#include "vpmu/event/event.h"

#define U  VPMU_KEY_USR
#define K  VPMU_KEY_OS
#define UK (U | K)
#define G  VPMU_KEY_GUEST
#define H  VPMU_KEY_HOST
/* vpmu_key_make(), usable in a static table; vpmu_key_make itself is checked against it. */
#define KEY(space, ev, flags) ((uint64_t)(space) << 40 | (uint64_t)(ev) | (flags))
#define GENERIC(ev, flags)    KEY(VPMU_SPACE_GENERIC, ev, flags)
#define SOFTWARE(ev, flags)   KEY(VPMU_SPACE_SOFTWARE, ev, (flags) | G | H)

static const struct {
	int line;
	const char *name;
	enum vpmu_space raw_space;
	vpmu_key_t key;
	const char *canonical;
} parses[] = {
	{__LINE__, "cycles", 0, GENERIC(VPMU_EV_CYCLES, UK | G), "cycles"},
	{__LINE__, "cpu-cycles", 0, GENERIC(VPMU_EV_CYCLES, UK | G), "cycles"},
	{__LINE__, "instructions:u", 0, GENERIC(VPMU_EV_INSTRUCTIONS, U | G), "instructions:u"},
	{__LINE__, "instructions:k", 0, GENERIC(VPMU_EV_INSTRUCTIONS, K | G), "instructions:k"},
	{__LINE__, "instructions:uk", 0, GENERIC(VPMU_EV_INSTRUCTIONS, UK | G), "instructions"},
	{__LINE__, "instructions:kh", 0, GENERIC(VPMU_EV_INSTRUCTIONS, K | G), "instructions:k"},
	{__LINE__, "instructions:G", 0, GENERIC(VPMU_EV_INSTRUCTIONS, UK | G), "instructions"},
	{__LINE__, "instructions:H", 0, GENERIC(VPMU_EV_INSTRUCTIONS, UK | H), "instructions:H"},
	{__LINE__, "instructions:HGu", 0, GENERIC(VPMU_EV_INSTRUCTIONS, U | G | H),
	 "instructions:uGH"},
	{__LINE__, "ref-cycles", 0, GENERIC(VPMU_EV_REF_CYCLES, UK | G), "ref-cycles"},
	{__LINE__, "branches", 0, GENERIC(VPMU_EV_BRANCHES, UK | G), "branches"},
	{__LINE__, "branch-instructions", 0, GENERIC(VPMU_EV_BRANCHES, UK | G), "branches"},
	{__LINE__, "branches-taken", 0, GENERIC(VPMU_EV_BRANCHES_TAKEN, UK | G), "branches-taken"},
	{__LINE__, "loads", 0, GENERIC(VPMU_EV_LOADS, UK | G), "loads"},
	{__LINE__, "stores:u", 0, GENERIC(VPMU_EV_STORES, U | G), "stores:u"},
	{__LINE__, "branch-loads:u", VPMU_SPACE_INTEL, GENERIC(VPMU_EV_BRANCHES, U | G),
	 "branches:u"},
	{__LINE__, "branch-load-misses", VPMU_SPACE_AMD, GENERIC(VPMU_EV_BRANCH_MISSES, UK | G),
	 "branch-misses"},
	{__LINE__, "L1-dcache-loads", VPMU_SPACE_INTEL, GENERIC(VPMU_EV_LOADS, UK | G), "loads"},
	{__LINE__, "L1-dcache-stores:k", VPMU_SPACE_INTEL, GENERIC(VPMU_EV_STORES, K | G),
	 "stores:k"},
	/* Arm ARM: L1D_CACHE_REFILL, LL_CACHE_MISS_RD, L1D_TLB_REFILL, BR_MIS_PRED */
	{__LINE__, "L1-dcache-load-misses", VPMU_SPACE_ARM, KEY(VPMU_SPACE_ARM, 0x03, UK | G),
	 "arm::r3"},
	{__LINE__, "LLC-load-misses:u", VPMU_SPACE_ARM, KEY(VPMU_SPACE_ARM, 0x37, U | G),
	 "arm::r37:u"},
	{__LINE__, "dTLB-load-misses", VPMU_SPACE_ARM, KEY(VPMU_SPACE_ARM, 0x05, UK | G),
	 "arm::r5"},
	{__LINE__, "branch-load-misses", VPMU_SPACE_ARM, KEY(VPMU_SPACE_ARM, 0x10, UK | G),
	 "arm::r10"},
	{__LINE__, "slots", 0, GENERIC(VPMU_EV_SLOTS, UK | G), "slots"},
	{__LINE__, "idle-cycles-frontend:H", 0, GENERIC(VPMU_EV_STALLED_FRONTEND, UK | H),
	 "stalled-cycles-frontend:H"},
	{__LINE__, "stalled-cycles-backend:u", 0, GENERIC(VPMU_EV_STALLED_BACKEND, U | G),
	 "stalled-cycles-backend:u"},
	{__LINE__, "run-delay", 0, KEY(6, 0, UK | G | H), "run-delay"},
	{__LINE__, "steal", 0, KEY(6, 0, UK | G | H), "run-delay"},
	{__LINE__, "run-delay:uk", 0, KEY(6, 0, UK | G | H), "run-delay"},
	{__LINE__, "involuntary-context-switches", 0, KEY(6, 1, UK | G | H),
	 "involuntary-context-switches"},
	{__LINE__, "nivcsw", 0, KEY(6, 1, UK | G | H), "involuntary-context-switches"},
	{__LINE__, "preempted-by-others", 0, KEY(6, 2, UK | G | H), "preempted-by-others"},
	{__LINE__, "idle-time", 0, KEY(6, 3, UK | G | H), "idle-time"},
	{__LINE__, "idle", 0, KEY(6, 3, UK | G | H), "idle-time"},
	/* software: a thread in guest and host alike */
	{__LINE__, "task-clock", 0, SOFTWARE(PERF_COUNT_SW_TASK_CLOCK, UK), "task-clock"},
	{__LINE__, "task-clock:GH", 0, SOFTWARE(PERF_COUNT_SW_TASK_CLOCK, UK), "task-clock"},
	{__LINE__, "cs", 0, SOFTWARE(PERF_COUNT_SW_CONTEXT_SWITCHES, UK), "context-switches"},
	{__LINE__, "migrations", 0, SOFTWARE(PERF_COUNT_SW_CPU_MIGRATIONS, UK), "cpu-migrations"},
	{__LINE__, "faults:u", 0, SOFTWARE(PERF_COUNT_SW_PAGE_FAULTS, U), "page-faults:u"},
	{__LINE__, "major-faults:k", 0, SOFTWARE(PERF_COUNT_SW_PAGE_FAULTS_MAJ, K),
	 "major-faults:k"},
	{__LINE__, "dummy", 0, SOFTWARE(PERF_COUNT_SW_DUMMY, UK), "dummy"},
	/* raw: SDM vol. 3 table 20-1, and AMD PPR */
	{__LINE__, "r3c", VPMU_SPACE_INTEL, GENERIC(VPMU_EV_CYCLES, UK | G), "cycles"},
	{__LINE__, "rc0", VPMU_SPACE_INTEL, GENERIC(VPMU_EV_INSTRUCTIONS, UK | G), "instructions"},
	{__LINE__, "r013C", VPMU_SPACE_INTEL, GENERIC(VPMU_EV_BUS_CYCLES, UK | G), "bus-cycles"},
	{__LINE__, "r4f2e", VPMU_SPACE_INTEL, GENERIC(VPMU_EV_CACHE_REFERENCES, UK | G),
	 "cache-references"},
	{__LINE__, "r412e", VPMU_SPACE_INTEL, GENERIC(VPMU_EV_CACHE_MISSES, UK | G),
	 "cache-misses"},
	{__LINE__, "rc4", VPMU_SPACE_INTEL, GENERIC(VPMU_EV_BRANCHES, UK | G), "branches"},
	{__LINE__, "r20c4", VPMU_SPACE_INTEL, GENERIC(VPMU_EV_BRANCHES_TAKEN, UK | G),
	 "branches-taken"},
	{__LINE__, "r11c4", VPMU_SPACE_INTEL, GENERIC(VPMU_EV_BRANCHES_CONDITIONAL, UK | G),
	 "branches-conditional"},
	{__LINE__, "rd1", VPMU_SPACE_AMD, GENERIC(VPMU_EV_BRANCHES_CONDITIONAL, UK | G),
	 "branches-conditional"},
	{__LINE__, "rc5", VPMU_SPACE_INTEL, GENERIC(VPMU_EV_BRANCH_MISSES, UK | G),
	 "branch-misses"},
	{__LINE__, "r1a4", VPMU_SPACE_INTEL, GENERIC(VPMU_EV_SLOTS, UK | G), "slots"},
	{__LINE__, "r76", VPMU_SPACE_AMD, GENERIC(VPMU_EV_CYCLES, UK | G), "cycles"},
	{__LINE__, "rc0", VPMU_SPACE_AMD, GENERIC(VPMU_EV_INSTRUCTIONS, UK | G), "instructions"},
	{__LINE__, "rc2", VPMU_SPACE_AMD, GENERIC(VPMU_EV_BRANCHES, UK | G), "branches"},
	{__LINE__, "rc3", VPMU_SPACE_AMD, GENERIC(VPMU_EV_BRANCH_MISSES, UK | G), "branch-misses"},
	{__LINE__, "rc4", VPMU_SPACE_AMD, GENERIC(VPMU_EV_BRANCHES_TAKEN, UK | G),
	 "branches-taken"},
	{__LINE__, "r100000120", VPMU_SPACE_AMD, GENERIC(VPMU_EV_REF_CYCLES, UK | G), "ref-cycles"},
	{__LINE__, "amd::rc2", VPMU_SPACE_INTEL, GENERIC(VPMU_EV_BRANCHES, UK | G), "branches"},
	{__LINE__, "r1a8:u", VPMU_SPACE_INTEL, 0x0214000100a8ULL, "intel::r1a8:u"},
	{__LINE__, "intel::r20420c4", VPMU_SPACE_AMD, 0x021e022000c4ULL, "intel::r20420c4"},
	{__LINE__, "r1000001ff", VPMU_SPACE_AMD, 0x031c000101ffULL, "amd::r1000001ff"},
	/* raw: Arm ARM, "PMU events and event numbers", on any machine */
	{__LINE__, "r8", VPMU_SPACE_ARM, GENERIC(VPMU_EV_INSTRUCTIONS, UK | G), "instructions"},
	{__LINE__, "r11:u", VPMU_SPACE_ARM, GENERIC(VPMU_EV_CYCLES, U | G), "cycles:u"},
	{__LINE__, "arm::r06", VPMU_SPACE_AMD, GENERIC(VPMU_EV_LOADS, UK | G), "loads"},
	{__LINE__, "arm::r7:H", 0, GENERIC(VPMU_EV_STORES, UK | H), "stores:H"},
	{__LINE__, "arm::r21", 0, GENERIC(VPMU_EV_BRANCHES, UK | G), "branches"},
	{__LINE__, "arm::r22", 0, GENERIC(VPMU_EV_BRANCH_MISSES, UK | G), "branch-misses"},
	{__LINE__, "arm::r32", 0, GENERIC(VPMU_EV_CACHE_REFERENCES, UK | G), "cache-references"},
	{__LINE__, "arm::r33", 0, GENERIC(VPMU_EV_CACHE_MISSES, UK | G), "cache-misses"},
	{__LINE__, "arm::r4004", 0, GENERIC(VPMU_EV_REF_CYCLES, UK | G), "ref-cycles"},
	{__LINE__, "arm::r23", 0, GENERIC(VPMU_EV_STALLED_FRONTEND, UK | G),
	 "stalled-cycles-frontend"},
	{__LINE__, "arm::r24:u", 0, GENERIC(VPMU_EV_STALLED_BACKEND, U | G),
	 "stalled-cycles-backend:u"},
	{__LINE__, "arm::r25:k", 0, 0x051800000025ULL, "arm::r25:k"},
	{__LINE__, "rffff", VPMU_SPACE_ARM, 0x051c0000ffffULL, "arm::rffff"},
	{__LINE__, "rc0", VPMU_SPACE_ARM, 0x051c000000c0ULL, "arm::rc0"},
	/* SDM vol. 3, 20.2.1.1: INV without a counter mask is ignored */
	{__LINE__, "r8000c0", VPMU_SPACE_INTEL, GENERIC(VPMU_EV_INSTRUCTIONS, UK | G),
	 "instructions"},
	/* libpfm4 */
	{__LINE__, "skl::BR_INST_RETIRED:NEAR_TAKEN", 0, GENERIC(VPMU_EV_BRANCHES_TAKEN, UK | G),
	 "branches-taken"},
	{__LINE__, "skl::br_inst_retired:near_taken:u", 0, GENERIC(VPMU_EV_BRANCHES_TAKEN, U | G),
	 "branches-taken:u"},
	{__LINE__, "amd64_fam19h_zen4::RETIRED_INSTRUCTIONS:kH", 0,
	 GENERIC(VPMU_EV_INSTRUCTIONS, K | H), "instructions:kH"},
	{__LINE__, "skl::UNHALTED_REFERENCE_CYCLES", 0, GENERIC(VPMU_EV_REF_CYCLES, UK | G),
	 "ref-cycles"},
	{__LINE__, "icl::TOPDOWN:SLOTS:k", 0, GENERIC(VPMU_EV_SLOTS, K | G), "slots:k"},
	{__LINE__, "skl::MEM_INST_RETIRED:ALL_LOADS", 0, GENERIC(VPMU_EV_LOADS, UK | G), "loads"},
	{__LINE__, "skl::CYCLE_ACTIVITY:STALLS_TOTAL", 0, 0x021c040400a3ULL, "intel::r40004a3"},
	{__LINE__, "skl::BR_INST_RETIRED:NEAR_TAKEN:c=1:e", 0, 0x021e012000c4ULL,
	 "intel::r10420c4"},
	{__LINE__, "perf::PERF_COUNT_HW_INSTRUCTIONS:u", 0, GENERIC(VPMU_EV_INSTRUCTIONS, U | G),
	 "instructions:u"},
	{__LINE__, "perf::PERF_COUNT_SW_TASK_CLOCK", 0, SOFTWARE(PERF_COUNT_SW_TASK_CLOCK, UK),
	 "task-clock"},
};

static const struct {
	int line;
	const char *name;
	enum vpmu_space raw_space;
	int rc;
	const char *says; /* part of the line */
} refusals[] = {
	{__LINE__, "", 0, -EINVAL, "empty"},
	{__LINE__, "insructions", 0, -ENOENT, "did you mean 'instructions'"},
	{__LINE__, "branchs", 0, -ENOENT, "did you mean 'branches'"},
	{__LINE__, "context-switch", 0, -ENOENT, "did you mean 'context-switches'"},
	{__LINE__, "L1-dcache-load-mises", 0, -ENOENT, "did you mean 'L1-dcache-load-misses'"},
	{__LINE__, "L1-dcache-load-misses:p", 0, -EINVAL, "precise"},
	{__LINE__, "zzz", 0, -ENOENT, "expected"},
	{__LINE__, "bpf-output", 0, -ENOENT, "unknown event"},
	{__LINE__, "sched:sched_switch", 0, -ENOENT,
	 "'sched:sched_switch' is invalid: tracepoints are not counted; expected names that"},
	{__LINE__, "raw_syscalls:sys_enter:u", 0, -ENOENT, "'raw_syscalls:sys_enter:u' is invalid"},
	{__LINE__, "cycles:p", 0, -EINVAL, "precise"},
	{__LINE__, "cycles:upp", 0, -EINVAL, "precise"},
	{__LINE__, "cycles:D", 0, -EINVAL, "modifier 'D'"},
	{__LINE__, "cycles:h", 0, -EINVAL, "no hypervisor level"},
	{__LINE__, "cycles:x", 0, -EINVAL, "'x' is no modifier; expected u k h G H"},
	{__LINE__, "cycles:", 0, -EINVAL, "'' is no modifier"},
	{__LINE__, "cycles\nok", 0, -EINVAL, "'cycles?ok'"},
	{__LINE__, "task-clock:u", 0, -EINVAL, "expected 'task-clock'"},
	{__LINE__, "cs:k", 0, -EINVAL, "expected 'context-switches'"},
	{__LINE__, "task-clock:G", 0, -EINVAL, "guest and host alike"},
	{__LINE__, "page-faults:H", 0, -EINVAL, "guest and host alike"},
	{__LINE__, "rc0", 0, -EINVAL, "intel::rc0 or amd::rc0 or arm::rc0"},
	{__LINE__, "r5300c0", VPMU_SPACE_INTEL, -EINVAL, "privilege is :u or :k"},
	{__LINE__, "r100000120", VPMU_SPACE_INTEL, -EINVAL, "0xff84ffff"},
	{__LINE__, "r1000000000", VPMU_SPACE_AMD, -EINVAL, "0xfff84ffff"},
	{__LINE__, "rfffffffffffffffff", VPMU_SPACE_AMD, -EINVAL, "bits outside"},
	{__LINE__, "r10008", VPMU_SPACE_ARM, -EINVAL, "0xffff (the 16-bit event number)"},
	{__LINE__, "arm::inst_retired", 0, -ENOENT, "no core PMU 'arm'"},
	{__LINE__, "skl::BR_INST_RETIRD:NEAR_TAKEN", 0, -ENOENT, "did you mean 'BR_INST_RETIRED'"},
	{__LINE__, "skl::BR_INST_RETIRED:NEAR_TAKN", 0, -ENOENT, "did you mean 'NEAR_TAKEN'"},
	{__LINE__, "sky::BR_INST_RETIRED", 0, -ENOENT, "did you mean 'skl'"},
	{__LINE__, "skl::BR_INST_RETIRED:c=999", 0, -EINVAL, "out of range"},
	{__LINE__, "skl::BR_INST_RETIRED:NEAR_TAKEN:e", 0, -EINVAL, "combination"},
	{__LINE__, "skl::OFFCORE_RESPONSE_0:DMND_DATA_RD:ANY_RESPONSE", 0, -EINVAL,
	 "second register"},
	{__LINE__, "skl::MEM_TRANS_RETIRED:LOAD_LATENCY", 0, -EINVAL, "second register"},
	{__LINE__, "skl::FRONTEND_RETIRED:L1I_MISS", 0, -EINVAL, "second register"},
	{__LINE__, "skl::UNHALTED_CORE_CYCLES:t", 0, -EINVAL, "AnyThread"},
	{__LINE__, "skl::INST_RETIRED:intx=1", 0, -EINVAL, "transaction"},
	{__LINE__, "amd64_fam19h_zen4::RETIRED_INSTRUCTIONS:g", 0, -EINVAL, ":G and :H"},
	{__LINE__, "amd64_fam19h_zen4::RETIRED_INSTRUCTIONS:u=0:k=0", 0, -EINVAL,
	 "no privilege level"},
	{__LINE__, "netburst::GLOBAL_POWER_EVENTS", 0, -EINVAL, "netburst"},
	{__LINE__, "skx_unc_cha0::UNC_C_CLOCKTICKS", 0, -EINVAL, "core events"},
	{__LINE__, "perf::L1-DCACHE-LOADS", 0, -EINVAL, "expected"},
	{__LINE__, "::", 0, -ENOENT, "no core PMU ''"},
	{__LINE__, ":", 0, -ENOENT, "unknown event"},
	{__LINE__, ":u", 0, -ENOENT, "unknown event"},
};

#endif
