/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The true history of the workloads of flow.S: the true call chain of "chain" is on its stack, and
 * the true branches of "branches" follow from RIP and R8. truth.c and tests compare branch records
 * with it.
 */
#ifndef TESTS_GUEST_FLOW_H
#define TESTS_GUEST_FLOW_H

#include "guest-tools/flow.h"

struct flow_branch {
	uint64_t from, to;
};

/*
 * flow_branches - compute the newest @max branches that workload_branches, copied to @code, has
 * taken when it is at @ip with state @r8; the newest first. The oldest branch possible is the jump
 * into the first block. Returns their number, or -1 if @ip is outside of the blocks or @ip and @r8
 * contradict each other.
 */
int flow_branches(uint64_t code, uint64_t ip, uint64_t r8, struct flow_branch *b, int max);

/* flow_call_ok - returns true if the branch @from -> @to can be the call that left @ret on the
 * stack, i.e. a CALL of chain or of user_call with that target ends at @ret. Reads the code at
 * @ret. */
bool flow_call_ok(uint64_t from, uint64_t to, uint64_t ret);

#endif
