// SPDX-License-Identifier: GPL-2.0-or-later
/* The true branches and calls of the workloads of flow.S; see flow.h. No system calls: tests also
 * build this for the host. */
#include "guest-tools/flow.h"

enum { FROM1, TO1, FROM2, TO2, JMP };

static uint64_t inverse(uint64_t odd)
{
	uint64_t x = odd; /* the lowest 3 bits are right; each step doubles their number */

	for (int i = 0; i < 5; i++)
		x *= 2 - odd * x;
	return x;
}

struct walk {
	struct flow_branch *b;
	int n, max;
};

static void flow_add(struct walk *w, uint64_t from, uint64_t to)
{
	if (w->n < w->max)
		w->b[w->n++] = (struct flow_branch){from, to};
}

/* Add the branches inside the block at @block that were taken before offset @off, newest first. */
static void inside(struct walk *w, uint64_t block, const uint8_t *l, uint64_t off)
{
	if (l[FROM2] && off >= l[TO2] && off < l[TO1])
		flow_add(w, block + l[FROM2], block + l[TO2]);
	if (l[FROM1] && off > l[FROM1])
		flow_add(w, block + l[FROM1], block + l[TO1]);
}

int flow_branches(uint64_t code, uint64_t ip, uint64_t r8, struct flow_branch *b, int max)
{
	const uint64_t blocks = code + (uint64_t)(branch_blocks - branch_code);
	const uint64_t back = inverse(FLOW_BRANCH_MUL);
	uint64_t k = (ip - blocks) / 64, off = (ip - blocks) % 64;
	struct walk w = {b, 0, max};

	if (ip < blocks || k >= 16)
		return -1;
	/* The first instruction of a block changes the state. */
	if (off)
		r8 *= back;
	if (r8 >> 60 != k)
		return -1;
	inside(&w, blocks + 64 * k, branch_layout[k], off);
	while (w.n < max && r8 != FLOW_BRANCH_SEED) {
		uint64_t to = blocks + 64 * k;

		r8 *= back;
		k = r8 >> 60;
		flow_add(&w, blocks + 64 * k + branch_layout[k][JMP], to);
		inside(&w, blocks + 64 * k, branch_layout[k], branch_layout[k][JMP]);
	}
	if (w.n < max)
		flow_add(&w, code + (uint64_t)(branch_entry_jmp - branch_code), blocks + 64 * k);
	return w.n;
}

bool flow_call_ok(uint64_t from, uint64_t to, uint64_t ret)
{
	const uint8_t *p = (const uint8_t *)(uintptr_t)ret;

	if (from == ret - 5 && p[-5] == 0xe8) { /* CALL rel32 */
		uint32_t rel = p[-4] | (uint32_t)p[-3] << 8 | (uint32_t)p[-2] << 16 |
			       (uint32_t)p[-1] << 24;

		return to == ret + (uint64_t)(int64_t)(int32_t)rel;
	}
	if (from == ret - 3 && p[-3] == 0x41 && p[-2] == 0xff && p[-1] == 0xd1) /* CALL *R9 */
		return to >= (uintptr_t)chain_walk && to < (uintptr_t)chain_end;
	if (from == ret - 2 && p[-2] == 0xff && p[-1] == 0xd0) /* CALL *RAX: user_call */
		return to == (uintptr_t)chain_walk || to == (uintptr_t)workload_chain;
	return false;
}
