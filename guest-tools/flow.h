/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The workloads of flow.S, and functions that compute their true history: the true call chain of
 * "chain" is on its stack, and the true branches of "branches" follow from RIP and R8. truth.c and
 * tests compare branch records with it. Both C and assembly include this file.
 */
#pragma once

#define FLOW_CHAIN_DEPTH 22
#define FLOW_CHAIN_SEED	 0x9e3779b97f4a7c15
#define FLOW_CHAIN_MUL	 6364136223846793005
#define FLOW_CHAIN_ADD	 1442695041
#define FLOW_BRANCH_SEED 0x9e3779b97f4a7c15 /* odd, as the multiplier: invertible modulo 2^64 */
#define FLOW_BRANCH_MUL	 0x5851f42d
#define FLOW_MEM_BYTES	 512 /* scratch of chain */

#ifndef __ASSEMBLER__
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

uint64_t workload_chain(uint64_t n, void *mem, size_t mem_bytes, uint64_t (*call)(uint64_t));
uint64_t chain_walk(uint64_t n, void *mem, size_t depth, uint64_t (*call)(uint64_t));
uint64_t workload_branches(uint64_t n, void *mem, size_t mem_bytes, uint64_t (*call)(uint64_t));
extern const char chain_end[], branch_code[], branch_entry_jmp[], branch_blocks[];
extern const char branch_code_end[];
/* For each of the 16 blocks, offsets in the block: FROM and TO of a branch inside (0: none), FROM
 * and TO of a second one (0: none), and the jump at the end. */
extern const uint8_t branch_layout[16][5];

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
