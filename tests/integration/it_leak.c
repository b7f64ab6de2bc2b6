// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * No guest finds anything of another tenant's: guest tool leak hunts for branches, counts, status
 * bits and PMIs that are not its own, while guest tool victim of another tenant fills the same
 * pCPUs' registers with them; over many random schedules, each a machine of its own with the seed
 * as its number. With the reset of branch records taken out the same guest finds the victim's.
 *
 * Test programs take IT_LEAK_SEED (replay one) and IT_LEAK_SCHEDULES from the environment.
 */
#include <criterion/criterion.h>
#include <stdlib.h>

#include "machine_bed.h"
#include "tests/lbr_faults.h"

/* Sanitized programs are slower by an order of magnitude. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SCHEDULES 500
#else
#define SCHEDULES 10000
#endif

struct found {
	unsigned int reports;
	json_int_t checks, branches, other;
};

static json_int_t field(const json_t *o, const char *name)
{
	return json_integer_value(json_object_get(o, name));
}

static void collect(const struct bed *b, struct found *f)
{
	for (size_t i = 0; i < b->nr_lines; i++) {
		json_t *o = json_loads(b->lines[i].text, 0, NULL);
		const char *kind = json_string_value(json_object_get(o, "kind"));

		if (kind && !strcmp(kind, "guest-leak")) {
			f->reports++;
			f->checks += field(o, "checks");
			f->branches += field(o, "branches");
			f->other += field(o, "lost_branches") + field(o, "counts") +
				    field(o, "status") + field(o, "pmis") + field(o, "registers");
		}
		json_decref(o);
	}
}

/* Everything about the schedule comes from the seed. */
static void schedule(unsigned int seed, enum lbr_fault fault, struct found *f)
{
	static const char *const models[] = {"intel-v5", "amd-v2", "intel-v4", "amd-core"};
	unsigned int pcpus = 1 + seed % 2, slice = 40 + seed * 37 % 700;
	char host[128];
	struct bed b;

	snprintf(host, sizeof(host),
		 "pcpus=%u,slice=%u,random_slices=yes,migrate=random:2,seed=%u,tick_us=5", pcpus,
		 slice, seed);
	bed_open(&b, host);
	/* Branch records need models 0 and 1; the others' part of the hunt is the same. */
	bed_add(&b, "name=victim,tenant=/mallory,memory=4M,pmu=%s,args=victim 40",
		models[seed / 2 % 2]);
	bed_add(&b, "name=leak,tenant=/alice,memory=4M,pmu=%s,args=leak -j --spin 600 2",
		models[seed / 4 % (fault ? 2 : 4)]);
	lbr_break_host(bed_host(&b), fault);
	bed_run(&b, 2);
	collect(&b, f);
	bed_close(&b);
}

static unsigned int from_env(const char *name, unsigned int otherwise)
{
	const char *text = getenv(name);

	return text ? (unsigned int)strtoul(text, NULL, 10) : otherwise;
}

#define WORKERS 8

static unsigned int first, end; /* seeds */

/* Schedules first + i, first + i + WORKERS, ... below @end. */
static void work(unsigned int i, void *result)
{
	struct found *f = result;

	for (unsigned int seed = first + i; seed < end; seed += WORKERS) {
		schedule(seed, LBR_FAULT_NONE, f);
		if (f->branches + f->other) {
			fprintf(stderr,
				"seed %u: %lld foreign branches, %lld others; replay with "
				"IT_LEAK_SEED=%u IT_LEAK_SCHEDULES=1\n",
				seed, (long long)f->branches, (long long)f->other, seed);
			break;
		}
	}
}

Test(leak, nothing_over_many_schedules)
{
	unsigned int n = from_env("IT_LEAK_SCHEDULES", SCHEDULES);
	struct found sum = {0}, f[WORKERS];

	first = from_env("IT_LEAK_SEED", 0);
	end = first + n;
	bed_fork(WORKERS, f, sizeof(f[0]), work);
	for (unsigned int i = 0; i < WORKERS; i++) {
		sum.reports += f[i].reports;
		sum.checks += f[i].checks;
		sum.branches += f[i].branches;
		sum.other += f[i].other;
	}
	cr_assert_eq(sum.branches + sum.other, 0);
	cr_assert_eq(sum.reports, n);
	fprintf(stderr, "%u schedules, %lld checks, nothing found\n", n, (long long)sum.checks);
}

/* The hunt can succeed. */
Test(leak, without_reset_the_victims_branches_are_found)
{
	struct found f = {0};

	for (unsigned int seed = 0; seed < 50; seed++)
		schedule(seed, LBR_FAULT_NO_RESET, &f);
	fprintf(stderr, "without reset: %lld foreign branches in 50 schedules\n",
		(long long)f.branches);
	cr_assert_gt(f.branches, 0);
}
