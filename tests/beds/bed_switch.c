// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * What a context switch costs, in instructions of the CPU that switches: the clock of this bed is
 * the number of instructions, and repeats.
 */
#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include <linux/bpf.h>

#include "tests/beds/bed.h"
#include "tests/beds/tenants.h"
#include "tests/beds/workload.h"

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
		cr_expect(empty[0] > 90 && empty[0] < 130);
		cr_expect(empty[1] > 90 && empty[1] < 130);
	}
	cgroup_remove("a");
	cgroup_remove("b");
}

/* ---- the kernel plane --------------------------------------------------------------------- */

static const char *const keys[] = {"instructions:GH", "cycles:GH", "instructions:uGH", "cycles:kGH",
				   NULL};

/*
 * What the plane may add to a switch. "goal" is what it is to be one day; more than "most" is a
 * step back and fails.
 */
enum row { KEY_1, KEYS_2, KEYS_4, SAME, UNCOUNTED_SAME, UNCOUNTED, NOBODY };
static const struct {
	const char *what;
	double goal, most;
} rows[] = {
	[KEY_1] = {"to another tenant, 1 key", 380, 655},
	[KEYS_2] = {"to another tenant, 2 keys", 600, 890},
	[KEYS_4] = {"to another tenant, 4 keys", 1050, 1415},
	[SAME] = {"within a tenant", 112, 130},
	[UNCOUNTED_SAME] = {"between tasks that nobody counts, of one cgroup", 106, 130},
	[UNCOUNTED] = {"between tasks that nobody counts, of two cgroups", 106, 200},
	/* A switch costs up to 3 instructions more or less from one run to the next. */
	[NOBODY] = {"while nobody counts", 0, 10},
};

static void check(enum row row, double added)
{
	printf("%-50s %7.1f   goal %.0f\n", rows[row].what, added, rows[row].goal);
	cr_expect_leq(added, rows[row].most, "%s: %.1f instructions, at most %.0f", rows[row].what,
		      added, rows[row].most);
}

/* What the plane adds to a switch with so many tenants, over what a switch costs without it. */
static void of_tenants(unsigned int tenants)
{
	double other, same;
	char last[24];
	struct kernel_usage u;
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
		}
		kernel_usage(p.k, &u);
		cr_expect_eq(u.programs, 1u);
		tenants_detach(&p);
	}
	check(NOBODY, pair_cost("t0", last) - other);
	kernel_usage(p.k, &u);
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
