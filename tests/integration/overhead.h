/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What the guest tools' own instructions add to the counts of a workload. */
#pragma once

/*
 * Overhead of a measured run in a guest, in CPL3, beyond the workload (from its first instruction
 * to its RET): exactly CALL *RAX and SYSCALL of user_call (user.S). The tools do not subtract it
 * from their output.
 */
#define WORKLOAD_OVERHEAD_INSNS_U    2
#define WORKLOAD_OVERHEAD_BRANCHES_U 2
#define WORKLOAD_OVERHEAD_TAKEN_U    2
#define WORKLOAD_OVERHEAD_LOADS_U    0
#define WORKLOAD_OVERHEAD_STORES_U   1 /* the return address */

/* Its overhead in CPL0 on the emulator: the instructions after the WRMSR that starts the counters,
 * up to and including the WRMSR that stops them. */
#define WORKLOAD_OVERHEAD_INSNS_K    13
#define WORKLOAD_OVERHEAD_BRANCHES_K 3
#define WORKLOAD_OVERHEAD_TAKEN_K    2
#define WORKLOAD_OVERHEAD_LOADS_K    2
#define WORKLOAD_OVERHEAD_STORES_K   0

/* The same for amd-k7 and amd-core, which have no global control. n counters are started one after
 * the other and stopped in the same order; each of them counts this. */
#define WORKLOAD_LIST_INSNS_K(n)    (25 + 7 * ((n)-1))
#define WORKLOAD_LIST_BRANCHES_K(n) (6 + ((n)-1))
#define WORKLOAD_LIST_TAKEN_K(n)    (4 + ((n)-1))
#define WORKLOAD_LIST_LOADS_K(n)    (10 + 3 * ((n)-1))
#define WORKLOAD_LIST_STORES_K(n)   0

/* Cost of one @call in CPL3 (MOV, SYSCALL, RET of sys_null_call in user.S) and in CPL0. */
#define WORKLOAD_CALL_INSNS_U	 3
#define WORKLOAD_CALL_BRANCHES_U 2
#define WORKLOAD_CALL_TAKEN_U	 2
#define WORKLOAD_CALL_LOADS_U	 1
#define WORKLOAD_CALL_STORES_U	 0
#define WORKLOAD_CALL_INSNS_K	 6
#define WORKLOAD_CALL_BRANCHES_K 3
#define WORKLOAD_CALL_TAKEN_K	 2
#define WORKLOAD_CALL_LOADS_K	 0
#define WORKLOAD_CALL_STORES_K	 0
