// SPDX-License-Identifier: GPL-2.0-or-later
/* cgroup/sample/branches.c on a fake kernel: the requests to perf, and the results of its samples.
 * On real drivers it is tested by tests/beds/bed_branches.c. */
#include "cgroup/sample/branches.h"
#include "sample_fake.h"

#define CALL_STACK (VPMU_LBR_EN | VPMU_LBR_OS | VPMU_LBR_USR | VPMU_LBR_CALL_STACK | VPMU_LBR_CALLS)
#define ALL	   (VPMU_LBR_EN | VPMU_LBR_OS | VPMU_LBR_USR | VPMU_LBR_TYPES)

Test(sample_branches, filters)
{
	static const struct {
		uint32_t ctl;
		uint64_t filter; /* 0: refused */
	} row[] = {
		/* not of the kernel: its interrupt handler would be on each call stack */
		{CALL_STACK, PERF_SAMPLE_BRANCH_CALL_STACK | PERF_SAMPLE_BRANCH_USER},
		{CALL_STACK & ~(uint32_t)VPMU_LBR_USR, 0},
		{ALL, PERF_SAMPLE_BRANCH_ANY | PERF_SAMPLE_BRANCH_USER | PERF_SAMPLE_BRANCH_KERNEL},
		{VPMU_LBR_EN | VPMU_LBR_USR | VPMU_LBR_REL_CALL | VPMU_LBR_IND_CALL,
		 PERF_SAMPLE_BRANCH_ANY_CALL | PERF_SAMPLE_BRANCH_USER},
		{VPMU_LBR_EN | VPMU_LBR_OS | VPMU_LBR_RET | VPMU_LBR_JCC,
		 PERF_SAMPLE_BRANCH_ANY_RETURN | PERF_SAMPLE_BRANCH_COND |
			 PERF_SAMPLE_BRANCH_KERNEL},
		{VPMU_LBR_EN | VPMU_LBR_OS | VPMU_LBR_REL_CALL, 0},
		{VPMU_LBR_EN | VPMU_LBR_OS | VPMU_LBR_OTHER | VPMU_LBR_RET, 0},
		{VPMU_LBR_EN | VPMU_LBR_OS, 0},
	};

	for (size_t i = 0; i < sizeof(row) / sizeof(row[0]); i++) {
		struct branches *b = NULL;
		int ret = branches_open(&fake_sys, 42, row[i].ctl, &b);
		const struct perf_event_attr *a;

		if (!row[i].filter) {
			cr_expect_eq(ret, -EOPNOTSUPP, "row %zu", i);
			continue;
		}
		cr_assert_eq(ret, 0, "row %zu", i);
		a = &fake_event(42, -1, 0)->attr;
		cr_expect_eq(a->branch_sample_type, row[i].filter | PERF_SAMPLE_BRANCH_TYPE_SAVE,
			     "row %zu: %llx", i, (unsigned long long)a->branch_sample_type);
		cr_expect_eq(a->sample_type, RING_FIXED | PERF_SAMPLE_BRANCH_STACK);
		cr_expect(a->write_backward && a->disabled && !a->pinned);
		cr_expect_eq(a->exclude_kernel, !(row[i].ctl & VPMU_LBR_OS));
		cr_expect_eq(a->exclude_user, !(row[i].ctl & VPMU_LBR_USR));
		branches_close(b);
	}
	cr_expect_eq(fake_events(), 0u);
}

Test(sample_branches, what_the_kernel_refuses)
{
	static const struct {
		int error, answer;
	} row[] = {{-EOPNOTSUPP, -EOPNOTSUPP}, {-ENOENT, -EOPNOTSUPP}, {-EINVAL, -EOPNOTSUPP},
		   {-EACCES, -EACCES},	       {-EPERM, -EACCES},      {-ESRCH, -ESRCH},
		   {-ENOMEM, -ENOMEM}};
	struct branches *b;

	for (size_t i = 0; i < sizeof(row) / sizeof(row[0]); i++) {
		fake_open_error = row[i].error;
		cr_expect_eq(branches_probe(&fake_sys, ALL), row[i].answer, "row %zu", i);
		cr_expect_eq(branches_open(&fake_sys, 42, ALL, &b), row[i].answer, "row %zu", i);
	}
	fake_open_error = 0;
	fake_map_max = 1;
	cr_expect_eq(branches_open(&fake_sys, 42, ALL, &b), -ENOMEM, "no room for a ring");
	cr_expect_eq(branches_probe(&fake_sys, ALL), 0);
	cr_expect_eq(fake_events(), 0u, "a probe leaves nothing");
}

static void put(uint64_t first, unsigned int n)
{
	static const unsigned int types[] = {PERF_BR_COND, PERF_BR_CALL, PERF_BR_RET,
					     PERF_BR_SYSCALL};
	struct fake_record r = fake_sample(PERF_RECORD_MISC_USER, 5, 42, 42, 0);

	fake_word(&r, n);
	for (unsigned int i = 0; i < n; i++) {
		struct perf_branch_entry e = {.from = first + i, .to = first + 0x1000 + i};
		uint64_t w[3];

		e.type = types[i % 4];
		e.cycles = i == 1 ? 77 : 0;
		memcpy(w, &e, sizeof(w));
		for (int k = 0; k < 3; k++)
			fake_word(&r, w[k]);
	}
	cr_assert(fake_put(fake_event(42, -1, 0), &r));
}

Test(sample_branches, the_newest_records)
{
	struct vpmu_lbr_regs r;
	struct branches *b;

	cr_assert_eq(branches_open(&fake_sys, 42, ALL, &b), 0);
	cr_expect_eq(branches_read(b, &r), -ENOENT, "there are none yet");
	put(0x100, 4);
	put(0x200, 3);
	cr_assert_eq(branches_read(b, &r), 0);
	cr_expect(!fake_event(42, -1, 0)->paused, "the kernel may write again");
	cr_assert_eq(r.count, 3);
	cr_expect_eq(r.ctl, (uint32_t)ALL);
	cr_expect_eq(r.total, 3u);
	for (unsigned int i = 0; i < 3; i++) {
		cr_expect_eq(vpmu_lbr_nth(&r, i)->from, 0x200u + i, "newest first");
		cr_expect_eq(vpmu_lbr_nth(&r, i)->to, 0x1200u + i);
	}
	cr_expect_str_eq(vpmu_lbr_type_name(vpmu_lbr_nth(&r, 0)->info), "jcc");
	cr_expect_str_eq(vpmu_lbr_type_name(vpmu_lbr_nth(&r, 1)->info), "rel-call");
	cr_expect_str_eq(vpmu_lbr_type_name(vpmu_lbr_nth(&r, 2)->info), "ret");
	cr_expect(!(vpmu_lbr_nth(&r, 0)->info & VPMU_LBR_INFO_CYC_VALID));
	cr_expect_eq(vpmu_lbr_nth(&r, 1)->info & VPMU_LBR_INFO_CYC, 77u);
	cr_assert_eq(branches_read(b, &r), 0);
	cr_expect_eq(r.total, 3u, "the same records count once");
	/* A CPU with more records than the core keeps. */
	put(0x300, 64);
	cr_assert_eq(branches_read(b, &r), 0);
	cr_expect_eq(r.count, VPMU_LBR_DEPTH_MAX);
	cr_expect_eq(vpmu_lbr_nth(&r, 0)->from, 0x300u);
	cr_expect_eq(vpmu_lbr_nth(&r, 31)->from, 0x31fu);
	cr_expect_str_eq(vpmu_lbr_type_name(vpmu_lbr_nth(&r, 3)->info), "other");
	for (uint64_t i = 0; i < 500; i++) {
		put(i, 5);
		cr_assert(!branches_read(b, &r) && vpmu_lbr_nth(&r, 4)->from == i + 4);
	}
	branches_close(b);
}
