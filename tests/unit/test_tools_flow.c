// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * What flow.h knows about the workloads chain and branches, at every single instruction of them:
 * stepped natively with TF, while the test keeps the branches taken and the calls that are live.
 */
#include <criterion/criterion.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>

#include "guest-tools/flow.h"
#include "guest-tools/workloads.h"

#define MAX_BRANCHES 40000
#define MAX_DEPTH    64

static struct {
	uint64_t lo, hi; /* the code that is looked at */
	uint64_t last;	 /* where the step before stood; 0: outside */
	struct flow_branch taken[MAX_BRANCHES];
	size_t nr;
	struct flow_branch calls[MAX_DEPTH]; /* live */
	size_t depth, deepest;
	uint64_t base; /* RSP in the first instruction */
	uint64_t steps, checked, edges, bad;
	bool chain;
} t;

/* RSP points at the return address of the innermost frame. */
static void check_chain(const greg_t *r)
{
	const uint64_t *stack = (const uint64_t *)r[REG_RSP];
	size_t words = (t.base - (uint64_t)r[REG_RSP]) / 8;

	t.checked++;
	if (words != t.depth) {
		t.bad++;
		return;
	}
	for (size_t i = 0; i < t.depth; i++) {
		const struct flow_branch *c = &t.calls[t.depth - 1 - i];

		t.bad += !flow_call_ok(c->from, c->to, stack[i]);
		/* and the branch before or behind it cannot be taken for it */
		t.bad += flow_call_ok(c->from + 1, c->to, stack[i]) ||
			 flow_call_ok(c->from, c->to, stack[i] + 1);
	}
}

static void check_branches(const greg_t *r)
{
	struct flow_branch b[16];
	int n = flow_branches((uint64_t)branch_code, (uint64_t)r[REG_RIP], (uint64_t)r[REG_R8], b,
			      16);

	if (n < 0) {
		t.edges++;
		return;
	}
	t.checked++;
	/* the jump into the first block is the oldest it knows */
	if ((size_t)n != (t.nr < 16 ? t.nr : 16)) {
		t.bad++;
		return;
	}
	for (int i = 0; i < n; i++)
		t.bad += b[i].from != t.taken[t.nr - 1 - (size_t)i].from ||
			 b[i].to != t.taken[t.nr - 1 - (size_t)i].to;
}

/* The instruction at @ip went to @to. */
static void step(uint64_t ip, uint64_t to)
{
	const uint8_t *p = (const uint8_t *)ip;
	bool call = p[0] == 0xe8 || (p[0] == 0x41 && p[1] == 0xff && p[2] == 0xd1);
	bool ret = p[0] == 0xc3, jump = p[0] == 0xff || p[0] == 0xeb || p[0] == 0xe9;
	bool jcc = p[0] >> 4 == 7 && to != ip + 2;

	if (t.chain) {
		if (call && t.depth < MAX_DEPTH)
			t.calls[t.depth++] = (struct flow_branch){ip, to};
		else if (ret && t.depth)
			t.depth--;
		if (t.depth > t.deepest)
			t.deepest = t.depth;
		return;
	}
	jcc = jcc || (p[0] == 0x0f && p[1] >> 4 == 8 && to != ip + 6);
	if ((call || ret || jump || jcc) && t.nr < MAX_BRANCHES)
		t.taken[t.nr++] = (struct flow_branch){ip, to};
}

static void on_trap(int sig, siginfo_t *info, void *context)
{
	const greg_t *r = ((ucontext_t *)context)->uc_mcontext.gregs;
	uint64_t ip = (uint64_t)r[REG_RIP];

	if (ip < t.lo || ip >= t.hi) {
		t.last = 0;
		return;
	}
	if (!t.steps++)
		t.base = (uint64_t)r[REG_RSP];
	if (t.last)
		step(t.last, ip);
	t.last = ip;
	if (t.chain)
		check_chain(r);
	else
		check_branches(r);
}

static uint64_t stepped(workload_fn *fn, uint64_t n, void *mem, size_t arg)
{
	struct sigaction sa = {.sa_sigaction = on_trap, .sa_flags = SA_SIGINFO}, old;
	uint64_t result;

	sigaction(SIGTRAP, &sa, &old);
	__asm__ volatile("pushfq; orq $0x100, (%%rsp); popfq" : : : "memory", "cc");
	result = fn(n, mem, arg, NULL);
	__asm__ volatile("pushfq; andq $~0x100, (%%rsp); popfq" : : : "memory", "cc");
	sigaction(SIGTRAP, &old, NULL);
	return result;
}

Test(flow, chain_at_every_instruction)
{
	static const size_t depths[] = {0, 1, 6, FLOW_CHAIN_DEPTH, 30};
	static uint64_t mem[FLOW_MEM_BYTES / 8];

	for (size_t i = 0; i < sizeof(depths) / sizeof(depths[0]); i++) {
		memset(&t, 0, sizeof(t));
		t.chain = true;
		t.lo = (uint64_t)workload_chain;
		t.hi = (uint64_t)chain_end;
		stepped(chain_walk, 700, mem, depths[i]);
		cr_expect_eq(t.bad, 0, "depth %zu: %lu of %lu", depths[i], (unsigned long)t.bad,
			     (unsigned long)t.checked);
		cr_expect(t.checked > 5000, "%lu", (unsigned long)t.checked);
		/* user_call's is one more */
		cr_expect_eq(t.deepest, depths[i] + 1);
	}
}

Test(flow, branches_at_every_instruction)
{
	memset(&t, 0, sizeof(t));
	t.lo = (uint64_t)branch_code;
	t.hi = (uint64_t)branch_code_end;
	stepped(workload_branches, 3000, NULL, 0);
	cr_expect_eq(t.bad, 0, "%lu of %lu", (unsigned long)t.bad, (unsigned long)t.checked);
	cr_expect(t.checked > 20000 && t.nr > 4000, "%lu", (unsigned long)t.checked);
	/* Before the first block and behind the last one. */
	cr_expect(t.edges < 20, "%lu", (unsigned long)t.edges);
}

Test(flow, branches_refuse_what_cannot_be)
{
	const uint64_t code = (uint64_t)branch_code, blocks = (uint64_t)branch_blocks;
	struct flow_branch b[4];
	uint64_t first = FLOW_BRANCH_SEED >> 60;

	cr_expect_eq(flow_branches(code, blocks + 64 * first, FLOW_BRANCH_SEED, b, 4), 1);
	cr_expect_eq(b[0].from, (uint64_t)branch_entry_jmp);
	cr_expect_eq(b[0].to, blocks + 64 * first);
	cr_expect_eq(flow_branches(code, blocks + 64 * (first ^ 1), FLOW_BRANCH_SEED, b, 4), -1);
	cr_expect_eq(flow_branches(code, blocks - 1, FLOW_BRANCH_SEED, b, 4), -1);
	cr_expect_eq(flow_branches(code, blocks + 16 * 64, FLOW_BRANCH_SEED, b, 4), -1);
	/* a copy is the same, elsewhere */
	cr_expect_eq(flow_branches(0x20000000, 0x20000000 + (blocks - code) + 64 * first,
				   FLOW_BRANCH_SEED, b, 4),
		     1);
	cr_expect_eq(b[0].to, 0x20000000 + (blocks - code) + 64 * first);
}

/* The copy that leak and victim run: nothing in it depends on where it is. */
Test(flow, branches_can_be_copied)
{
	size_t bytes = (size_t)(branch_code_end - branch_code);
	void *copy = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	cr_assert(copy != MAP_FAILED && bytes <= 4096);
	memcpy(copy, branch_code, bytes);
	cr_assert_eq(mprotect(copy, 4096, PROT_READ | PROT_EXEC), 0);
	cr_expect_eq(((workload_fn *)copy)(12345, NULL, 0, NULL),
		     workload_branches(12345, NULL, 0, NULL));
	munmap(copy, 4096);
}
