// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Branch records of the BPF backend by the kernel's own driver: two tenants' threads alternate on
 * one CPU, in code with known branches. Each record of a thread must be one of its
 * branches, and follow from the one before.
 */
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include "tests/beds/bed.h"
#include "tests/beds/tenants.h"
#include "tests/beds/workload.h"
#include "vpmu/lbr_regs.h"

#define READINGS 16
#define TRIES	 8

/*
 * An endless loop that calls three functions deep, and gives the CPU up (sched_yield) after 230 to
 * 741 rounds: most samples are of the loop, and not of the kernel. Each turn has another number of
 * rounds than the one before; were they all alike, the samples could keep step with the turns. The
 * first table has the branches: from, to. The second one has the branches at which the CPU can be
 * next after a branch to somewhere: to, from.
 */
#define PAIR(x, a, b) "	.quad " x "_" a ", " x "_" b "\n"
/* clang-format off */
#define FLOW(x)                                \
	x "_begin:	add $37, %ebx\n"         \
	"		mov %ebx, %ecx\n"        \
	"		and $511, %ecx\n"        \
	"		add $230, %ecx\n"        \
	x "_inner:\n"                          \
	x "_c1:		call " x "_f1\n"       \
	x "_r1:		dec %ecx\n"            \
	x "_j1:		jnz " x "_inner\n"     \
	x "_c0:		call " x "_y\n"       \
	x "_j2:		jmp " x "_begin\n"     \
	x "_y:		mov $24, %eax\n"      \
	"		syscall\n"            \
	x "_t0:		ret\n"                \
	x "_f1:		nop\n"                 \
	x "_c2:		call " x "_f2\n"       \
	x "_t1:		ret\n"                 \
	x "_f2:\n"                             \
	x "_c3:		call " x "_f3\n"       \
	x "_t2:		ret\n"                 \
	x "_f3:		test $1, %cl\n"        \
	x "_j3:		jz " x "_even\n"       \
	"		nop\n"                 \
	x "_even:	nop\n"                 \
	x "_t3:		ret\n"                 \
	x "_end:\n"                            \
	"	.pushsection .data.rel.ro, \"aw\"\n" \
	"	.balign 8\n"                   \
	x "_branches:\n"                       \
	PAIR(x, "c1", "f1") PAIR(x, "c2", "f2") PAIR(x, "c3", "f3") PAIR(x, "c0", "y") \
	PAIR(x, "t3", "t2") PAIR(x, "t2", "t1") PAIR(x, "t1", "r1") PAIR(x, "j1", "inner") \
	PAIR(x, "j2", "begin") PAIR(x, "j3", "even") PAIR(x, "t0", "j2") \
	"	.quad 0\n"                     \
	x "_next:\n"                           \
	PAIR(x, "f1", "c2") PAIR(x, "f2", "c3") PAIR(x, "f3", "j3") PAIR(x, "f3", "t3") \
	PAIR(x, "even", "t3") PAIR(x, "t2", "t2") PAIR(x, "t1", "t1") PAIR(x, "r1", "j1") \
	PAIR(x, "r1", "c0") PAIR(x, "j2", "j2") \
	PAIR(x, "inner", "c1") PAIR(x, "begin", "c1") \
	"	.quad 0\n"                     \
	"	.popsection\n"
/* clang-format on */

__asm__(".text\n" FLOW("flow_a") FLOW("flow_b"));

extern const char flow_a_begin[], flow_a_end[], flow_b_begin[], flow_b_end[];
extern const uint64_t flow_a_branches[], flow_b_branches[], flow_a_next[], flow_b_next[];

/* The first four branches are calls: of the three functions, and of sched_yield. */
static const struct flow {
	const char *begin, *end;
	const uint64_t *branches, *next;
} flows[2] = {{flow_a_begin, flow_a_end, flow_a_branches, flow_a_next},
	      {flow_b_begin, flow_b_end, flow_b_branches, flow_b_next}};

static struct tenants t;
static struct vpmu_backend_node *node[2]; /* of the threads, below the tenants */
static pid_t pid[2];

/* This process reads on CPU 1. The flows share CPU 0, each in a tenant of its own. */
static void setup(void)
{
	static const char *const events[] = {"instructions", NULL};
	static const char *const names[] = {"t0", "t1"};

	bed_run_on(1);
	tenants_open(&t, 2, events);
	for (unsigned int i = 0; i < 2; i++) {
		pid[i] = fork();
		cr_assert(pid[i] >= 0);
		if (!pid[i]) {
			cgroup_enter(names[i]);
			bed_run_on(0);
			((void (*)(void))(uintptr_t)flows[i].begin)();
		}
		cr_assert(!vpmu_backend_node_add(t.node[i], 1000 + i, &node[i]));
		cr_assert(!bpf_backend_bind_task(node[i], pid[i], bed_start_time(pid[i])));
	}
	usleep(20000); /* until both loop */
}

static void end(void)
{
	for (unsigned int i = 0; i < 2; i++) {
		kill(pid[i], SIGKILL);
		cr_assert_eq(waitpid(pid[i], NULL, 0), pid[i]);
		vpmu_backend_node_remove(node[i]);
	}
	tenants_close(&t);
}

static bool is_user(uint64_t at)
{
	return at && !(at >> 63);
}

/* Returns true if @table, pairs that end with 0, has the pair. */
static bool has(const uint64_t *table, uint64_t a, uint64_t b)
{
	for (; *table; table += 2)
		if (table[0] == a && table[1] == b)
			return true;
	return false;
}

static bool within(const struct flow *f, uint64_t at)
{
	return at >= (uintptr_t)f->begin && at < (uintptr_t)f->end;
}

/* The number of the call at @at; more than 3: there is none. */
static unsigned int call_at(const struct flow *f, uint64_t at)
{
	unsigned int i = 0;

	while (i < 4 && f->branches[2 * i] != at)
		i++;
	return i;
}

/* ---- the expected records ------------------------------------------------------------------ */

struct seen {
	unsigned int readings, user, kernel, wrong;
	unsigned int restored; /* readings with calls that have returned, see check_chain() */
};

static void wrong(struct seen *s, const char *what, const struct vpmu_lbr_regs *r, unsigned int i)
{
	const struct vpmu_lbr_entry *e = vpmu_lbr_nth(r, i);

	if (s->wrong++)
		return;
	cr_expect(false, "record %u of %u, %lx to %lx: %s", i, r->count, e->from, e->to, what);
	for (i = 0; i < r->count; i++) {
		e = vpmu_lbr_nth(r, i);
		printf("record %u: %lx to %lx\n", i, e->from, e->to);
	}
}

static bool call_follows(const struct flow *f, uint64_t old, uint64_t at)
{
	unsigned int o = call_at(f, old), n = call_at(f, at);

	return o < 2 ? n == o + 1 : n == 0 || (o == 2 && n == 3);
}

/* All branches, or all calls: each is one of the flow's, and follows from the one before it. */
static void check_flow(const struct flow *f, bool calls, const struct vpmu_lbr_regs *r,
		       struct seen *s)
{
	for (unsigned int i = 0; i < r->count; i++) {
		const struct vpmu_lbr_entry *e = vpmu_lbr_nth(r, i), *old = vpmu_lbr_nth(r, i + 1);

		if (!is_user(e->from) || !is_user(e->to)) {
			s->kernel++;
			if ((is_user(e->from) && !within(f, e->from)) ||
			    (is_user(e->to) && !within(f, e->to)))
				wrong(s, "not from or to this flow", r, i);
			continue;
		}
		s->user++;
		if (!has(f->branches, e->from, e->to))
			wrong(s, "no branch of this flow", r, i);
		if (!old || !is_user(old->from) || !is_user(old->to))
			continue;
		if (calls ? !call_follows(f, old->from, e->from) : !has(f->next, old->to, e->from))
			wrong(s, "it does not follow from the one before", r, i);
	}
}

/*
 * Calls that have not returned: the flow's, down to the loop. Below them may be calls that have
 * returned. Where Linux saves a thread's architectural LBR without XSAVES, it copies the records
 * that there are and clears only the last one of its list (intel_pmu_arch_lbr_save()). So it also
 * restores leftovers of a save with more records, and that stays: the thread was
 * once interrupted inside the functions, and gives the CPU up outside of them since.
 */
static void check_chain(const struct flow *f, const struct vpmu_lbr_regs *r, struct seen *s)
{
	const unsigned int newest = r->count ? call_at(f, vpmu_lbr_nth(r, 0)->from) : 0;
	const unsigned int open = newest == 3 ? 1 : newest + 1;

	for (unsigned int i = 0; i < r->count; i++) {
		const struct vpmu_lbr_entry *e = vpmu_lbr_nth(r, i);
		unsigned int call = call_at(f, e->from);

		s->user += is_user(e->from);
		s->kernel += !is_user(e->from);
		if (call > 3 || !has(f->branches, e->from, e->to) ||
		    (i < open && call != newest - i))
			wrong(s, "not a call of this chain", r, i);
	}
	if (r->count && r->count < open)
		wrong(s, "its caller is missing", r, r->count - 1u);
	s->restored += r->count > open;
}

enum mode { CALL_STACK, BRANCHES, CALLS };

static const uint32_t ctl[] = {
	[CALL_STACK] = VPMU_LBR_CALL_STACK | VPMU_LBR_CALLS,
	[BRANCHES] = VPMU_LBR_TYPES,
	[CALLS] = VPMU_LBR_REL_CALL | VPMU_LBR_IND_CALL,
};

static int attach(enum mode mode)
{
	int ret = 0;

	for (unsigned int i = 0; i < 2 && !ret; i++)
		ret = vpmu_backend_branches_attach(t.node[i], ctl[mode] | VPMU_LBR_EN |
								      VPMU_LBR_OS | VPMU_LBR_USR);
	return ret;
}

static void look(enum mode mode, struct seen s[2])
{
	uint64_t total[2] = {0};

	memset(s, 0, 2 * sizeof(*s));
	/* Where other work takes CPU 0, a thread may have fewer copies than readings. */
	for (unsigned int n = 0;
	     n < READINGS ||
	     (n < 4 * READINGS && (s[0].readings < READINGS / 2 || s[1].readings < READINGS / 2));
	     n++) {
		usleep(30000); /* in 20 ms each thread has a copy */
		for (unsigned int i = 0; i < 2; i++) {
			struct vpmu_lbr_regs r;
			enum vpmu_lbr_user user;

			vpmu_backend_flush_node(node[i]);
			cr_assert_eq(vpmu_backend_branches_read(node[i], &r, &user), 0);
			if (r.total == total[i])
				continue; /* no copy since the last reading */
			total[i] = r.total;
			s[i].readings++;
			if (mode == CALL_STACK)
				check_chain(&flows[i], &r, &s[i]);
			else
				check_flow(&flows[i], mode == CALLS, &r, &s[i]);
		}
	}
	for (unsigned int i = 0; i < 2; i++) {
		printf("tenant %u: %u readings; %u records of user code, %u of the kernel\n", i,
		       s[i].readings, s[i].user, s[i].kernel);
		cr_expect_eq(s[i].wrong, 0u, "tenant %u: %u wrong records", i, s[i].wrong);
		cr_expect_geq(s[i].readings, READINGS / 2u);
		vpmu_backend_branches_detach(t.node[i]);
	}
}

/* Returns true if all is right, except for calls that Linux may have restored. */
static bool leftovers(const struct seen s[2])
{
	return !s[0].wrong && !s[1].wrong && (s[0].restored || s[1].restored);
}

/* ---- the test ----------------------------------------------------------------------------- */

/* AMD's CPUs record no call stacks. The reason names that, not missing records. */
Test(bed_branches, of_two_tenants)
{
	static const char *const name[] = {"call-stack", "branches", "calls"};
	struct seen s[2];
	const char *why;
	int ret;

	setup();
	for (enum mode mode = CALL_STACK; mode <= CALLS; mode++) {
		printf("%s:\n", name[mode]);
		ret = attach(mode);
		why = vpmu_backend_branches_why(t.source);
		if (ret) {
			printf("%s\n", why ? why : "no reason");
			cr_expect(mode == CALL_STACK && ret == -EOPNOTSUPP);
			cr_expect(why && strstr(why, "call stack") && strstr(why, "branches"));
			continue;
		}
		look(mode, s);
		/* Only new threads have lists without leftovers. Returns that are not taken into
		 * account are seen with these, too. */
		for (unsigned int n = 1; n < TRIES && leftovers(s); n++) {
			printf("calls that have returned in %u and %u readings: again\n",
			       s[0].restored, s[1].restored);
			end();
			setup();
			cr_assert(!attach(mode));
			look(mode, s);
		}
		cr_expect(!leftovers(s), "calls that have returned, each time");
		cr_expect_geq(s[0].user, 8u);
		cr_expect_geq(s[1].user, 8u);
	}
	end();
}
