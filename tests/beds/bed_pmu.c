// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The bed's PMU: does it count exactly, as everything else in the beds relies on? And do libvpmu's
 * names and attributes select the right events on arm64? Runs in both beds.
 */
#include "tests/beds/bed.h"

/* User instructions of a loop of 2 * @n, with those of the system calls around it. */
static uint64_t measure(const char *event, uint64_t n)
{
	int fd = bed_open(event, 0, -1, -1);
	uint64_t count;

	bed_enable(fd, true);
	bed_loop(n);
	bed_enable(fd, false);
	count = bed_count(fd);
	close(fd);
	return count;
}

Test(bed_pmu, instructions_are_exact)
{
	uint64_t around;

	bed_one_cpu();
	around = measure("instructions:uH", 1000) - 2000;
	printf("user instructions of a loop of 2N: 2N + %lu\n", around);
	cr_assert_lt(around, 1000u);
	for (uint64_t n = 1000; n <= 1000000; n *= 10) {
		for (int i = 0; i < 3; i++) {
			uint64_t count = measure("instructions:uH", n);

			cr_expect_eq(count, 2 * n + around, "N = %lu: %lu", n, count);
		}
	}
}

/* Names and attributes on an arm64 host, with its events in sysfs. */
Test(bed_pmu, events_are_those_of_arm)
{
	struct perf_event_attr attr;
	vpmu_key_t key, back;
	char name[VPMU_EVENT_NAME_MAX];

	cr_assert_eq(vpmu_event_host_space(), VPMU_SPACE_ARM);
	cr_assert(!vpmu_event_parse("r8:uH", vpmu_event_host_space(), &key, NULL, 0));
	cr_expect_str_eq(vpmu_event_name(key, name), "instructions:uH");

	/* a name of libpfm's, and a raw event */
	cr_assert(!vpmu_event_parse("arm_n1::L1D_TLB:k", 0, &key, NULL, 0));
	cr_expect_str_eq(vpmu_event_name(key, name), "arm::r25:k");
	cr_assert(!vpmu_key_to_attr(key, &attr));
	cr_expect(attr.type == PERF_TYPE_RAW && attr.config == 0x25 && attr.exclude_user &&
		  !attr.exclude_kernel && attr.exclude_host && !attr.exclude_guest);
	cr_expect(!vpmu_key_from_attr(&attr, &back) && back == key);

	/* This PMU has no BR_RETIRED. perf's own branches would be PC_WRITE_RETIRED. */
	cr_assert(!vpmu_event_parse("branches", 0, &key, NULL, 0));
	cr_expect_eq(vpmu_key_to_attr(key, &attr), -EOPNOTSUPP);
	attr = (struct perf_event_attr){.type = PERF_TYPE_HARDWARE,
					.size = sizeof(attr),
					.config = PERF_COUNT_HW_BRANCH_INSTRUCTIONS};
	cr_expect_eq(vpmu_key_from_attr(&attr, &key), -EINVAL);
	attr.type = PERF_TYPE_RAW;
	attr.config = 0x21;
	cr_assert(!vpmu_key_from_attr(&attr, &key));
	cr_expect_str_eq(vpmu_event_name(key, name), "branches:GH");
	cr_expect_eq(vpmu_event_parse("intel::rc0", 0, &key, NULL, 0), 0);
	cr_assert(!vpmu_event_parse("intel::r1a8", 0, &key, NULL, 0));
	cr_expect_eq(vpmu_key_to_attr(key, &attr), -EOPNOTSUPP);
}

/* Group: counts of user and of kernel mode add up to the whole. */
Test(bed_pmu, user_and_kernel_are_all)
{
	static const char *const names[] = {"instructions:H", "instructions:uH", "instructions:kH"};
	int fd[3];

	bed_one_cpu();
	fd[0] = bed_open(names[0], 0, -1, -1);
	for (int i = 1; i < 3; i++)
		fd[i] = bed_open(names[i], 0, -1, fd[0]);
	bed_enable(fd[0], true);
	for (int i = 0; i < 1000; i++) {
		bed_loop(100);
		syscall(SYS_getppid);
	}
	bed_enable(fd[0], false);
	printf("all %lu, user %lu, kernel %lu\n", bed_count(fd[0]), bed_count(fd[1]),
	       bed_count(fd[2]));
	cr_expect_gt(bed_count(fd[1]), 200000u);
	cr_expect_gt(bed_count(fd[2]), 1000u);

	cr_expect_eq(bed_count(fd[0]), bed_count(fd[1]) + bed_count(fd[2]));
}
