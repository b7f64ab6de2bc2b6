// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The kernel's cost of a start of the BPF backend: almost all of it is that the verifier goes
 * through the BPF programs. Its own number of instructions is bounded here, and no program is
 * loaded that is not used. Skipped where BPF is not permitted.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <criterion/criterion.h>

#include "cgroup/priv.h"
#include "tests/integration/cgroup_bed.h"

/* The most of a program is 25,487 on Linux 6.1 and 22,390 on 6.18; compiled by clang 19, 29,387 and
 * 21,754. The verifier goes through a path of a function that is not global each time it is called,
 * and so often that a small change can cost a hundred times as much. */
#define MOST_INSNS 40000u

static struct bpf_backend_sys sys;
static unsigned int loads, programs, most; /* programs: of the last load */
static bool refuses_moves;

static bool is_move(const struct bpf_program *p)
{
	return !strncmp(bpf_program__name(p), "on_move", 7) ||
	       !strncmp(bpf_program__name(p), "on_attach", 9);
}

static int load(struct bpf_object_skeleton *s)
{
	struct bpf_program *p;
	int ret;

	loads++;
	programs = 0;
	bpf_object__for_each_program(p, *s->obj)
	{
		if (!bpf_program__autoload(p))
			continue;
		programs++;
		if (is_move(p) && refuses_moves)
			return -EACCES;
	}
	ret = bpf_backend_sys_real.load(s);
	bpf_object__for_each_program(p, *s->obj)
	{
		struct bpf_prog_info info = {0};
		__u32 len = sizeof(info);

		if (ret || !bpf_program__autoload(p))
			continue;
		cr_assert_eq(bpf_obj_get_info_by_fd(bpf_program__fd(p), &info, &len), 0);
		printf("# %s: %u instructions verified\n", bpf_program__name(p),
		       info.verified_insns);
		most = info.verified_insns > most ? info.verified_insns : most;
	}
	return ret;
}

static unsigned int only = MOVE_MEANS; /* the one of the means that is permitted; MOVE_MEANS: all */

static bool may_hook(unsigned int means, int hook)
{
	return (only == MOVE_MEANS || means == only) && bpf_backend_sys_real.may_hook(means, hook);
}

static struct bpf_backend *start(void)
{
	const struct bpf_backend_opts o = {.sys = &sys};

	loads = most = 0;
	return bed_open(&o);
}

static void is_cheap(void)
{
	struct bpf_backend *k = start();

	cr_expect_eq(loads, 1u);
	cr_expect_eq(programs, 2u + (k->move_by != MOVE_MEANS));
	cr_expect(most && most <= MOST_INSNS, "%u", most);
	bpf_backend_close(k);
}

Test(cgroup_start, the_verifier_has_little_to_do)
{
	sys = bpf_backend_sys_real;
	sys.load = load;
	sys.may_hook = may_hook;
	for (only = 0; only <= MOVE_MEANS; only++)
		is_cheap();
	sys.files = "/nowhere"; /* the program that has to know nothing of the kernel */
	is_cheap();
}

/* The kernel takes the program that does nothing, and not ours: each of the means is tried. */
Test(cgroup_start, moves_that_are_refused_cost_nothing_else)
{
	struct bpf_backend *k;
	struct bpf_backend_usage u;

	sys = bpf_backend_sys_real;
	sys.load = load;
	refuses_moves = true;
	k = start();
	cr_expect_eq(k->move_by, MOVE_MEANS);
	cr_expect_null(k->on_move);
	cr_expect(loads >= 2 && loads <= MOVE_MEANS + 1, "%u", loads);
	cr_expect_eq(programs, 2u);
	bpf_backend_usage(k, &u);
	cr_expect(!u.moves);
	bpf_backend_close(k);
}

/* Refuses the program that needs runqueues as a kernel without CONFIG_KALLSYMS_ALL does, at once.
 */
static int load_without_symbols(struct bpf_object_skeleton *s)
{
	struct bpf_program *p = bpf_object__find_program_by_name(*s->obj, "on_switch_symbol");

	if (!bpf_program__autoload(p))
		return load(s);
	loads++;
	return -ENOENT;
}

/* On Linux 6.1: the nested bed. */
Test(cgroup_start, a_kernel_that_does_not_find_its_symbols)
{
	struct bpf_backend *k;
	enum move_means means;
	bool symbol;

	sys = bpf_backend_sys_real;
	sys.load = load;
	k = start();
	means = k->move_by;
	symbol = !strcmp(bpf_program__name(k->on_switch), "on_switch_symbol");
	bpf_backend_close(k);
	if (!symbol)
		cr_skip_test("this kernel has no use for runqueues");
	sys.load = load_without_symbols;
	for (unsigned int i = 0; i < 2; i++) { /* it remembers that */
		k = start();
		cr_expect_eq(loads, 2u - i);
		cr_expect_eq(k->move_by, means);
		cr_expect_str_eq(bpf_program__name(k->on_switch), "on_switch");
		bpf_backend_close(k);
	}
}
