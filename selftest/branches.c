// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Branch records of a program with known branches: each record between two of its addresses must be
 * one of them. run.c calls this.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "selftest/priv.h"
#include "vpmu/lbr_regs.h"

#if defined(__x86_64__)

#define BRANCHES_READINGS 20  /* at most */
#define BRANCHES_ENOUGH	  100 /* records of the program */

/* Calls, returns and jumps without end; now and then it gives the CPU up. */
__asm__(".text\n"
	"selftest_flow:	mov $5000, %ebx\n"
	"selftest_loop:\n"
	"selftest_call:	call selftest_f\n"
	"selftest_next:	dec %ebx\n"
	"selftest_jnz:	jnz selftest_loop\n"
	"	mov $24, %eax\n" /* sched_yield */
	"	syscall\n"
	"selftest_jmp:	jmp selftest_flow\n"
	"selftest_f:	nop\n"
	"selftest_ret:	ret\n"
	"selftest_flow_end:\n");
extern const char selftest_flow[], selftest_loop[], selftest_call[], selftest_next[],
	selftest_jnz[], selftest_jmp[], selftest_f[], selftest_ret[], selftest_flow_end[];

void branches_flow(void)
{
	((void (*)(void))(uintptr_t)selftest_flow)();
}

static bool branches_within(uint64_t at)
{
	return at >= (uintptr_t)selftest_flow && at < (uintptr_t)selftest_flow_end;
}

static bool branches_known(const struct vpmu_lbr_entry *e)
{
	const char *const known[][2] = {{selftest_call, selftest_f},
					{selftest_ret, selftest_next},
					{selftest_jnz, selftest_loop},
					{selftest_jmp, selftest_flow}};

	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
		if (e->from == (uintptr_t)known[i][0] && e->to == (uintptr_t)known[i][1])
			return true;
	return false;
}

/* Compare the records of @r; returns how many are the program's. */
static unsigned int branches_look(struct selftest *t, const struct vpmu_lbr_regs *r)
{
	const struct vpmu_lbr_entry *e;
	unsigned int n = 0;

	for (unsigned int i = 0; (e = vpmu_lbr_nth(r, i)); i++) {
		if (!branches_within(e->from) || !branches_within(e->to))
			continue; /* to or from the kernel */
		n++;
		selftest_expect(
			t, "records that are branches", 1, 1, branches_known(e),
			"record %u, from %lld to %lld behind the program's begin: no branch", i,
			(long long)(e->from - (uintptr_t)selftest_flow),
			(long long)(e->to - (uintptr_t)selftest_flow));
	}
	return n;
}

static int branches_read(struct selftest *t, struct vpmu_backend_node *task)
{
	unsigned int records = 0;
	struct vpmu_lbr_regs r;
	enum vpmu_lbr_user user;
	int ret;

	for (int i = 0; i < BRANCHES_READINGS && records < BRANCHES_ENOUGH; i++) {
		if (t->o->stop && *t->o->stop)
			return t->error = -EINTR;
		usleep(30000);
		vpmu_backend_flush_node(task);
		ret = vpmu_backend_branches_read(task, &r, &user);
		if (!ret)
			records += branches_look(t, &r);
		else if (ret != -EAGAIN && ret != -ENOENT)
			return ret;
	}
	selftest_expect(t, "records of the program", 8, UINT64_MAX, records, "%d readings",
			BRANCHES_READINGS);
	return 0;
}

void check_branches(struct selftest *t)
{
	const uint32_t ctl = VPMU_LBR_EN | VPMU_LBR_USR | VPMU_LBR_TYPES;
	struct vpmu_backend_node *task = NULL;
	struct worker w = {.to = -1, .from = -1};
	bool attached = false;
	const char *why;
	int ret = worker_start(t, NODE_A, &w);

	if (!ret)
		ret = vpmu_backend_node_add(t->node[NODE_A], 100, &task);
	if (!ret)
		ret = bpf_backend_bind_task(task, w.pid, worker_start_time(&w));
	if (!ret)
		ret = worker_begin(t, &w, WORK_FLOW, 1);
	if (!ret)
		ret = vpmu_backend_branches_attach(t->node[NODE_A], ctl);
	attached = !ret;
	if (ret == -EOPNOTSUPP) {
		why = vpmu_backend_branches_why(t->s);
		selftest_skip(t, "%s", why ? why : "this CPU has no branch records");
		ret = 0;
	} else if (!ret) {
		ret = branches_read(t, task);
	}
	if (attached)
		vpmu_backend_branches_detach(t->node[NODE_A]);
	worker_end(&w);
	if (task)
		vpmu_backend_node_remove(task);
	if (ret)
		selftest_give_up(t, "branch records", ret);
}

#else

void branches_flow(void)
{
}

void check_branches(struct selftest *t)
{
	selftest_skip(t, "the BPF backend records branches on x86 only");
}

#endif
