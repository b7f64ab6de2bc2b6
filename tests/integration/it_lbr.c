// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Call stacks from branch records are the guest's true call chains, with any other VM in between:
 * a hundred vCPUs on two pCPUs, cut into slices of any length and migrated, compare each capture
 * with the chain their own code keeps (guest tool lbr). Without saving and restoring the same test
 * gets short chains.
 */
#include <criterion/criterion.h>

#include "machine_bed.h"
#include "tests/lbr_faults.h"

#define NR_VMS 50
#define VCPUS  2

struct tally {
	unsigned int vcpus;
	json_int_t captures, equal, cut, wrong;
};

static json_int_t field(const json_t *o, const char *name)
{
	return json_integer_value(json_object_get(o, name));
}

static struct tally tally_of(const struct bed *b)
{
	struct tally t = {0};

	for (size_t i = 0; i < b->nr_lines; i++) {
		json_t *o = json_loads(b->lines[i].text, 0, NULL);
		const char *kind = json_string_value(json_object_get(o, "kind"));

		if (kind && !strcmp(kind, "guest-lbr")) {
			t.vcpus++;
			t.captures += field(o, "captures");
			t.equal += field(o, "equal");
			t.cut += field(o, "short");
			t.wrong += field(o, "wrong");
		}
		json_decref(o);
	}
	return t;
}

static struct tally run(const char *host, const char *pmu, const char *args, enum lbr_fault fault)
{
	struct tally t;
	struct bed b;

	bed_open(&b, host);
	for (unsigned int i = 0; i < NR_VMS; i++)
		bed_add(&b, "name=v%u,tenant=/t%u,vcpus=%u,memory=8M,pmu=%s,args=%s", i, i % 4,
			VCPUS, pmu, args);
	lbr_break_host(bed_host(&b), fault);
	bed_run(&b, NR_VMS);
	t = tally_of(&b);
	cr_assert_eq(t.vcpus, NR_VMS * VCPUS);
	bed_close(&b);
	return t;
}

static void all_equal(const char *host, const char *pmu, const char *args)
{
	struct tally t = run(host, pmu, args, LBR_FAULT_NONE);

	fprintf(stderr, "%s %s [%s]: %lld captures, %lld equal, %lld short, %lld wrong\n", pmu,
		args, host, (long long)t.captures, (long long)t.equal, (long long)t.cut,
		(long long)t.wrong);
	cr_assert_gt(t.captures, 1000);
	cr_assert_eq(t.equal, t.captures, "%lld of %lld", (long long)t.equal,
		     (long long)t.captures);
}

#define CHAIN "lbr -j -c 997 chain 1200"

Test(lbr, chains_are_true_at_any_slice_length)
{
	all_equal("pcpus=2,slice=100000", "intel-v5", CHAIN);
	all_equal("pcpus=2,slice=500,random_slices=yes,migrate=random:3,seed=1", "intel-v5", CHAIN);
	all_equal("pcpus=2,slice=23,random_slices=yes,migrate=random:2,seed=2", "intel-v5", CHAIN);
}

Test(lbr, branches_are_true_at_any_slice_length)
{
	static const char args[] = "lbr -j --branches -c 997 branches 3000";

	all_equal("pcpus=2,slice=300,random_slices=yes,migrate=random:3,seed=3", "amd-v2", args);
	all_equal("pcpus=2,slice=61,random_slices=yes,migrate=random:2,seed=4", "intel-v5", args);
}

/* An operator's capture at the same time changes nothing for the guests. */
Test(lbr, chains_are_true_under_a_capture)
{
	all_equal("pcpus=2,slice=200,random_slices=yes,migrate=random:2,seed=5,lbr=branches",
		  "intel-v5", CHAIN);
}

/* The test can fail. */
Test(lbr, without_restore_chains_are_short)
{
	struct tally t = run("pcpus=2,slice=500,random_slices=yes,migrate=random:3,seed=1",
			     "intel-v5", CHAIN, LBR_FAULT_NO_RESTORE);

	fprintf(stderr, "without restore: %lld captures, %lld equal, %lld short, %lld wrong\n",
		(long long)t.captures, (long long)t.equal, (long long)t.cut, (long long)t.wrong);
	cr_assert_gt(t.cut, t.captures / 2);
}
