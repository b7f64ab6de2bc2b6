// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Counts of guests on KVM by the TSC, on a machine with a TSC that counts instructions
 * (tests/nested/run
 * --exact): a loop that executes so many instructions more than another one counts exactly as many
 * ticks more. Their number is in the emulator's counter of instructions for the same
 * image. The surplus of each run, the exits at its beginning and end, is the same for both loops,
 * and the fastest of several runs has no interrupt in it.
 */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "machine_bed.h"

#define RUNS  12
#define SHORT 20000
#define LONG  120000

/* ---- whether the TSC counts instructions here ---- */

static uint64_t loop_ticks(uint64_t n)
{
	uint64_t least = UINT64_MAX;

	for (int i = 0; i < RUNS; i++) {
		uint64_t left = n, from = __builtin_ia32_rdtsc(), ticks;

		__asm__ volatile("1: dec %0\n jnz 1b" : "+r"(left) : : "cc");
		ticks = __builtin_ia32_rdtsc() - from;
		if (ticks < least)
			least = ticks;
	}
	return least;
}

static bool exact_machine(void)
{
	if (loop_ticks(LONG) - loop_ticks(SHORT) == 2 * (LONG - SHORT))
		return true;
	fprintf(stderr, "# SKIP: the TSC does not count instructions here (tests/nested/run "
			"--exact)\n");
	return false;
}

/* ---- what guests count ---- */

/* Of fixed counter @ctr, all runs' lines "rd": IA32_FIXED_CTR0 and 2, IA32_FIXED_CTR_CTRL and
 * IA32_PERF_GLOBAL_CTRL (SDM vol. 4). */
static void guest_args(char *args, size_t bytes, unsigned int ctr)
{
	size_t len = (size_t)snprintf(args, bytes, "msr wr 0x38f 0 wr 0x38d 0x%x", 3U << 4 * ctr);

	for (int i = 0; i < RUNS; i++)
		for (int k = 0; k < 2; k++)
			len += (size_t)snprintf(
				args + len, bytes - len,
				" wr 0x%x 0 count 0x38f 0x%x00000000 loop %d rd 0x%x", 0x309 + ctr,
				1U << ctr, k ? LONG : SHORT, 0x309 + ctr);
	cr_assert_lt(len, bytes);
}

/* By how many the smallest count of the long loop exceeds that of the short one. */
static uint64_t difference(const struct bed *b, const char *vm)
{
	uint64_t least[2] = {UINT64_MAX, UINT64_MAX};
	unsigned int n = 0;

	for (size_t i = 0; i < b->nr_lines; i++) {
		const char *value = strstr(b->lines[i].text, "rd 0x3");

		if (strcmp(b->lines[i].vm, vm) || !value || !(value = strstr(value, " = ")))
			continue;
		uint64_t count = strtoull(value + 3, NULL, 0);

		if (count < least[n % 2])
			least[n % 2] = count;
		n++;
	}
	cr_assert_eq(n, 2u * RUNS, "%s printed %u counts", vm, n);
	cr_assert_gt(least[0], 0u);
	return least[1] - least[0];
}

Test(kvm_exact, ticks_are_instructions)
{
	char instructions[1900], ticks[1900];
	struct bed b;

	if (!bed_kvm() || !exact_machine())
		return;
	guest_args(instructions, sizeof(instructions), 0);
	guest_args(ticks, sizeof(ticks), 2);
	bed_open(&b, "");
	bed_add(&b, "name=emulator,engine=emulator,pmu=intel-v5,policy=full,args=%s", instructions);
	bed_run(&b, 1);
	bed_add(&b, "name=kvm,engine=kvm,pmu=intel-v5,policy=full,args=%s", ticks);
	bed_run(&b, 2);
	cr_assert_eq(b.failed, 0);
	cr_expect_eq(difference(&b, "kvm"), difference(&b, "emulator"),
		     "%lu instructions, %lu ticks", difference(&b, "emulator"),
		     difference(&b, "kvm"));
	fprintf(stderr, "# %lu instructions more, %lu ticks more\n", difference(&b, "emulator"),
		difference(&b, "kvm"));
	bed_close(&b);
}
