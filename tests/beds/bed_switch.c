// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The cost of a context switch, in instructions of the CPU that switches: the clock of this bed is
 * the number of instructions, and repeats.
 */
#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include <linux/bpf.h>
#include <sys/utsname.h>

#include "tests/beds/bed.h"
#include "tests/beds/tenants.h"
#include "tests/beds/workload.h"
#include "tests/measured.h"

/* What differs from one kind of CPU to the other: @arm on arm64, @x86 on x86. */
#ifdef __aarch64__
#define PER_ARCH(arm, x86) (arm)
#else
#define PER_ARCH(arm, x86) (x86)
#endif
#define EMPTY PER_ARCH(90, 55) /* a program that does nothing takes a few more than that */
#define NOISE 4 /* a switch costs up to 3 instructions more or less from one run to the next */

/* Most of what is added is the kernel's own, and differs from one kernel to the next: the limits
 * are those of 6.1. */
static bool limited(void)
{
	struct utsname u;

	cr_assert(!uname(&u));
	return !strncmp(u.release, "6.1.", 4);
}

/* Attach a program that does nothing to every context switch. Returns its link. */
static int attach_empty(void)
{
	static const struct bpf_insn insns[] = {
		{.code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = BPF_REG_0},
		{.code = BPF_JMP | BPF_EXIT},
	};
	LIBBPF_OPTS(bpf_prog_load_opts, opts, .expected_attach_type = BPF_TRACE_RAW_TP);
	int prog, link, id = libbpf_find_vmlinux_btf_id("sched_switch", BPF_TRACE_RAW_TP);

	cr_assert(id > 0, "BTF of sched_switch: %d", id);
	opts.attach_btf_id = (__u32)id;
	prog = bpf_prog_load(BPF_PROG_TYPE_TRACING, "empty", "GPL", insns, 2, &opts);
	cr_assert(prog >= 0, "bpf_prog_load: %s", strerror(errno));
	link = bpf_raw_tracepoint_open(NULL, prog);
	cr_assert(link >= 0, "attach: %s", strerror(errno));
	close(prog);
	return link;
}

/* The clock of the other tests: a switch costs the same each time, and a program that does nothing
 * adds the same to every switch. */
Test(bed_switch, of_a_program_that_does_nothing)
{
	double plain[2], empty[2];
	int link;

	bed_one_cpu();
	cgroup_make("a");
	cgroup_make("b");
	for (int i = 0; i < 2; i++) {
		plain[0] = pair_cost("a", "b");
		plain[1] = pair_cost("a", "a");
		link = attach_empty();
		empty[0] = pair_cost("a", "b") - plain[0];
		empty[1] = pair_cost("a", "a") - plain[1];
		close(link);
		printf("a switch to another cgroup %.1f, within one %.1f; an empty program %.1f, "
		       "%.1f more\n",
		       plain[0], plain[1], empty[0], empty[1]);
		cr_expect(empty[0] > EMPTY && empty[0] < empty[1] + NOISE);
		cr_expect(empty[1] > EMPTY && empty[1] < empty[0] + NOISE);
		if (limited())
			cr_expect(empty[0] < EMPTY + 40 && empty[1] < EMPTY + 40);
	}
	cgroup_remove("a");
	cgroup_remove("b");
}

/* ---- the BPF backend --------------------------------------------------------------------- */

static const char *const keys[] = {"instructions:GH", "cycles:GH", "instructions:uGH", "cycles:kGH",
				   NULL};

/*
 * Limits of the backend's cost of a switch. "goal" is the target; more than "most" is a
 * step back and fails. There are no goals for x86.
 */
enum row {
	KEY_1,
	KEYS_2,
	KEYS_4,
	SAME,
	UNCOUNTED_SAME,
	UNCOUNTED,
	NOBODY,
	TO_UNCOUNTED,
	BOUND,
	PREEMPTS
};
static const struct {
	const char *what;
	double goal, most;
} rows[] = {
	[KEY_1] = {"to another tenant, 1 key", 380, PER_ARCH(390, 346)},
	[KEYS_2] = {"to another tenant, 2 keys", 600, PER_ARCH(600, 512)},
	[KEYS_4] = {"to another tenant, 4 keys", 1050, PER_ARCH(1050, 840)},
	[SAME] = {"within a tenant", 112, 134},
	[UNCOUNTED_SAME] = {"between tasks that nobody counts, of one cgroup", 106, 134},
	[UNCOUNTED] = {"between tasks that nobody counts, of two cgroups", 106, PER_ARCH(156, 166)},
	[NOBODY] = {"while nobody counts", 0, 10},
	/* These have no goal: the parts that the rows above leave out. */
	[TO_UNCOUNTED] = {"between a tenant and others, 4 keys", 1050, PER_ARCH(1050, 840)},
	[BOUND] = {"between a bound task and others, 4 keys", 1050, PER_ARCH(1075, 864)},
	[PREEMPTS] = {"to another tenant, 2 keys and preempted-by-others", 1050, 1000},
};

static void check(enum row row, double added)
{
	printf("%-50s %7.1f", rows[row].what, added);
	if (PER_ARCH(true, false))
		printf("   goal %.0f", rows[row].goal);
	putchar('\n');
	if (limited() || row == NOBODY)
		cr_expect_leq(added, rows[row].most, "%s: %.1f instructions, at most %.0f",
			      rows[row].what, added, rows[row].most);
}

/* The backend's cost of a switch with so many tenants, over a switch without it. */
static void of_tenants(unsigned int tenants)
{
	double other, same;
	char last[24];
	struct bpf_backend_usage u;
	struct tenants p;

	bed_one_cpu();
	cgroup_make("none");
	cgroup_make("none2");
	tenants_open(&p, tenants, keys);
	snprintf(last, sizeof(last), "t%u", tenants - 1);
	other = pair_cost("t0", last);
	same = pair_cost("t0", "t0");
	printf("%u tenants; instructions of a switch to another one %.1f, within one %.1f. "
	       "Added:\n",
	       tenants, other, same);
	for (unsigned int nr = 4; nr; nr /= 2) {
		tenants_attach(&p, nr, false);
		check(nr == 1 ? KEY_1 : nr == 2 ? KEYS_2 : KEYS_4, pair_cost("t0", last) - other);
		if (nr == 4) {
			check(SAME, pair_cost("t0", "t0") - same);
			check(UNCOUNTED_SAME, pair_cost("none", "none") - same);
			check(UNCOUNTED, pair_cost("none", "none2") - other);
			check(TO_UNCOUNTED, pair_cost("t0", "none") - other);
		}
		bpf_backend_usage(p.k, &u);
		cr_expect_eq(u.programs, 1u + u.moves);
		tenants_detach(&p);
	}
	check(NOBODY, pair_cost("t0", last) - other);
	bpf_backend_usage(p.k, &u);
	cr_expect_eq(u.programs, 0u);
	tenants_close(&p);
	cgroup_remove("none");
	cgroup_remove("none2");
}

Test(bed_switch, of_2_tenants)
{
	of_tenants(2);
}

Test(bed_switch, of_100_tenants)
{
	of_tenants(100);
}

Test(bed_switch, of_10000_tenants)
{
	of_tenants(10000);
}

/* ---- the parts that the rows above leave out-----------------------------------------------------
 */

Test(bed_switch, of_bound_tasks)
{
	struct tenants p;
	double plain;

	bed_one_cpu();
	cgroup_make("none");
	tenants_open(&p, 2, keys);
	plain = pair_cost("none", "none");
	tenants_attach(&p, 4, false);
	/* The parent of each pair is this task. */
	cr_assert_eq(bpf_backend_bind_task(p.node[1], getpid(), bed_start_time(getpid())), 0);
	check(BOUND, pair_cost("none", "none") - plain);
	bpf_backend_unbind_task(p.node[1], getpid());
	tenants_detach(&p);
	tenants_close(&p);
	cgroup_remove("none");
}

/* Who asks for preemptions by others pays for them. */
Test(bed_switch, of_preemptions)
{
	static const char *const events[] = {"instructions:GH", "cycles:GH", "preempted-by-others",
					     NULL};
	struct tenants p;
	double plain;

	bed_one_cpu();
	tenants_open(&p, 2, events);
	plain = pair_cost("t0", "t1");
	tenants_attach(&p, 2, false);
	check(KEYS_2, pair_cost("t0", "t1") - plain);
	tenants_detach(&p);
	tenants_attach(&p, 3, false);
	check(PREEMPTS, pair_cost("t0", "t1") - plain);
	tenants_detach(&p);
	tenants_close(&p);
}

/* Instructions in the kernel of each switch of the pair that runs, by @count: the rest of
 * what happens between two readings is the same for few rounds and for many. */
static double bpf_backend_cost(const struct pair *p, uint64_t (*count)(void *), void *arg)
{
	enum { REPEATS = 9 };
	double cost[REPEATS];

	for (int i = 0; i < REPEATS; i++) {
		uint64_t v[3];

		v[0] = count(arg);
		pair_rounds(p, 100);
		v[1] = count(arg);
		pair_rounds(p, 400);
		v[2] = count(arg);
		cost[i] = ((double)(v[2] - v[1]) - (double)(v[1] - v[0])) / (2 * 300);
	}
	return median(cost, REPEATS);
}

static uint64_t count_event(void *arg)
{
	return bed_count(*(int *)arg);
}

static uint64_t count_tenants(void *arg)
{
	struct tenants *t = arg;
	uint64_t sum = 0;

	vpmu_backend_flush(t->counting[1]);
	for (int i = 0; i < 2; i++) {
		vpmu_backend_read(t->counting[i]);
		sum += tenants_value(t, (unsigned int)i, 3)->count;
	}
	return sum;
}

/*
 * The program runs in the kernel, in the time of the tenants that switch. So its instructions are
 * among the tenants' kernel-side counts, all of them: none is lost, and none is charged
 * to somebody else.
 */
Test(bed_switch, share_of_a_tenants_kernel_count)
{
	static const char *const events[] = {"instructions:GH", "cycles:GH", "instructions:uGH",
					     "instructions:kGH", NULL};
	int fd = bed_open("instructions:kGH", -1, 0, -1);
	double without, with, charged;
	struct tenants t;
	struct pair p;

	bed_one_cpu();
	tenants_open(&t, 2, events);
	bed_enable(fd, true);
	usleep(500000);
	pair_make(&p, "t0", "t1");
	without = bpf_backend_cost(&p, count_event, &fd);
	pair_end(&p);
	/* Not while a pair runs, which leaves no time for a grace period to end. */
	tenants_attach(&t, 4, false);
	usleep(500000);
	pair_make(&p, "t0", "t1");
	with = bpf_backend_cost(&p, count_event, &fd);
	charged = bpf_backend_cost(&p, count_tenants, &t);
	pair_end(&p);
	tenants_detach(&t);
	close(fd);
	printf("instructions of a switch in the kernel: %.1f, with the program %.1f; its tenants "
	       "are "
	       "charged %.1f: %.1f of the program's %.1f\n",
	       without, with, charged, charged - without, with - without);
	cr_expect(charged - without > 0.9 * (with - without) &&
		  charged - without < 1.1 * (with - without));
	tenants_close(&t);
}
