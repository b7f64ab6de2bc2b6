// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The counter budget without a kernel: assignment of counters, the platform's assumed number,
 * and the lines of `vpmu check`. The backend with it is in tests/integration/it_cgroup_budget.c.
 */
#include "folder_bed.h"
#include "cgroup/slot.h"
#include "vpmud/report.h"

#define ALL (VPMU_KEY_USR | VPMU_KEY_OS | VPMU_KEY_GUEST | VPMU_KEY_HOST)

static vpmu_key_t generic(enum vpmu_generic ev, uint64_t flags)
{
	return vpmu_key_make(VPMU_SPACE_GENERIC, (uint16_t)ev, flags);
}

/* ---- the plan ----------------------------------------------------------------------------- */

static const struct bpf_backend_pmu intel = {
	.known = true,
	.general = 4,
	.fixed = 1u << VPMU_EV_INSTRUCTIONS | 1u << VPMU_EV_CYCLES | 1u << VPMU_EV_REF_CYCLES};
static const struct bpf_backend_pmu amd = {.known = true, .general = 6};

static struct budget_unit unit(unsigned int slot, vpmu_key_t key)
{
	return (struct budget_unit){.slots = 1ULL << slot, .nr_keys = 1, .key = {key}};
}

static struct budget_unit pair(unsigned int slot, uint64_t flags)
{
	return (struct budget_unit){
		.slots = 3ULL << slot,
		.nr_keys = 2,
		.key = {generic(VPMU_EV_CYCLES, flags), generic(VPMU_EV_INSTRUCTIONS, flags)}};
}

Test(bpf_backend_budget, fixed_counters_first_and_general_ones_are_left)
{
	struct budget_unit u[5] = {
		pair(0, ALL),
		unit(2, generic(VPMU_EV_REF_CYCLES, ALL)),
		unit(3, generic(VPMU_EV_BRANCHES, ALL)),
		unit(4, generic(VPMU_EV_BRANCH_MISSES, ALL)),
		unit(5, generic(VPMU_EV_CACHE_MISSES, ALL)),
	};

	/* Three on fixed counters, and 4 - 2 general ones. */
	cr_expect_eq(budget_plan(&intel, 2, u, 4), 0x1fu);
	cr_expect_eq(budget_plan(&intel, 2, u, 5), 0x1fu);
	cr_expect_eq(budget_plan(&intel, 1, u, 5), 0x3fu);
	/* The same on AMD: all are on general ones. */
	cr_expect_eq(budget_plan(&amd, 2, u, 5), 0x0fu);
	cr_expect_eq(budget_plan(&amd, 0, u, 5), 0x3fu);
	/* One counter is used, whatever is to be left. A pair has no room then, and waits whole. */
	cr_expect_eq(budget_plan(&amd, 6, u, 5), 0x04u);
	cr_expect_eq(budget_plan(&amd, 64, u, 5), 0x04u);
}

Test(bpf_backend_budget, a_pair_finds_room_whole_or_not_at_all)
{
	const struct bpf_backend_pmu arm = {
		.known = true, .general = 1, .fixed = 1u << VPMU_EV_CYCLES};
	struct budget_unit u[2] = {unit(4, generic(VPMU_EV_BRANCHES, ALL)), pair(0, ALL)};

	u[1].key[0] = generic(VPMU_EV_INSTRUCTIONS, ALL);
	u[1].key[1] = generic(VPMU_EV_CYCLES, ALL);
	u[1].served_ns = 1;
	cr_expect_eq(budget_plan(&arm, 0, u, 2), 0x10u);
	u[0].served_ns = 2;
	cr_expect_eq(budget_plan(&arm, 0, u, 2), 0x03u);
}

Test(bpf_backend_budget, an_event_with_no_other_counter_waits_for_its_own)
{
	struct budget_unit u[2] = {
		unit(0, generic(VPMU_EV_REF_CYCLES, ALL)),
		unit(1, generic(VPMU_EV_REF_CYCLES, VPMU_KEY_USR | VPMU_KEY_HOST)),
	};

	cr_expect_eq(budget_plan(&intel, 0, u, 2), 1u);
	u[0].served_ns = u[0].slots == 1; /* the plan has sorted them */
	u[1].served_ns = u[1].slots == 1;
	cr_expect_eq(budget_plan(&intel, 0, u, 2), 2u);
}

/* Whatever the units are: never more than there are counters, no counter idle that somebody could
 * use, and everybody is served. */
Test(bpf_backend_budget, turns_are_fair)
{
	const struct bpf_backend_pmu *const pmus[] = {&intel, &amd};
	unsigned int seed = 1;

	for (int round = 0; round < 200; round++) {
		const struct bpf_backend_pmu *p = pmus[round % 2];
		unsigned int leave = (unsigned int)rand_r(&seed) % 4, n, usable, used;
		uint64_t served[VPMU_MAX_SLOTS] = {0}, on, least, most;
		struct budget_unit u[30];

		n = 3 + (unsigned int)rand_r(&seed) % 27;
		usable = p->general > leave ? p->general - leave : 1;
		for (int turn = 0; turn < 600; turn++) {
			/* Raw events and one pair, which has room on both. */
			for (unsigned int i = 0; i < n; i++) {
				u[i] = unit(2 * i, vpmu_key_make(VPMU_SPACE_AMD,
								 (uint16_t)(0x300 + i), ALL));
				u[i].served_ns = served[2 * i];
			}
			if (usable > 1) {
				u[0] = pair(0, ALL);
				u[0].served_ns = served[0];
			}
			on = budget_plan(p, leave, u, n);
			used = 0;
			for (unsigned int i = 0; i < 2 * n; i++) {
				if (!(on >> i & 1))
					continue;
				served[i]++;
				used += !(p == &intel && usable > 1 && i < 2); /* fixed */
			}
			cr_assert_leq(used, usable);
			if (n > usable + 2)
				cr_assert_geq(used + 1, usable);
			cr_assert_eq(on & 1, usable > 1 ? on >> 1 & 1 : on & 1, "half a pair");
		}
		least = UINT64_MAX;
		most = 0;
		for (unsigned int i = p == &intel; i < n; i++) {
			least = served[2 * i] < least ? served[2 * i] : least;
			most = served[2 * i] > most ? served[2 * i] : most;
		}
		/* Exact except for the last place beside a pair. */
		if (p == &intel)
			cr_expect_leq(most - least, 1u, "round %d: %llu to %llu", round,
				      (unsigned long long)least, (unsigned long long)most);
		cr_expect_gt(least, 0u);
	}
}

/* ---- the platform ------------------------------------------------------------------------- */

static uint32_t leaf[16][5]; /* leaf, EAX, EBX, ECX, EDX */
static unsigned int leaves;

static bool fake_cpuid(uint32_t n, uint32_t r[4])
{
	memset(r, 0, 4 * sizeof(*r));
	for (unsigned int i = 0; i < leaves; i++)
		if (leaf[i][0] == n)
			memcpy(r, &leaf[i][1], 4 * sizeof(*r));
	return leaves > 0;
}

TestSuite(bpf_backend_pmu, .init = folder_begin, .fini = folder_end);

static void set_leaf(uint32_t n, uint32_t a, uint32_t b, uint32_t c, uint32_t d)
{
	const uint32_t row[5] = {n, a, b, c, d};

	memcpy(leaf[leaves++], row, sizeof(row));
}

static void set_vendor(const char name[13])
{
	uint32_t v[3];

	memcpy(v, name, 12);
	leaves = 0;
	set_leaf(0, 16, v[0], v[2], v[1]);
}

static struct bpf_backend_pmu find(unsigned int counters)
{
	const struct bpf_backend_sys sys = {.cpuid = fake_cpuid, .files = folder};
	struct bpf_backend_pmu p;

	pmu_find(&sys, counters, &p);
	return p;
}

static void expect(unsigned int line, unsigned int general, uint32_t fixed, const char *from)
{
	struct bpf_backend_pmu p = find(0);

	cr_expect(p.known, "line %u: %s", line, p.from);
	cr_expect_eq(p.general, general, "line %u: %u general", line, p.general);
	cr_expect_eq(p.fixed, fixed, "line %u: fixed %x", line, p.fixed);
	cr_expect(strstr(p.from, from), "line %u: %s", line, p.from);
}

static void unknown(unsigned int line, const char *why)
{
	struct bpf_backend_pmu p = find(0);

	cr_expect(!p.known && !p.general && !p.fixed, "line %u", line);
	cr_expect(strstr(p.from, why), "line %u: %s", line, p.from);
	/* The configuration knows better. */
	p = find(5);
	cr_expect(p.known && p.general == 5 && strstr(p.from, "vpmud.conf"), "line %u", line);
}

Test(bpf_backend_pmu, what_cpuid_says)
{
	const uint32_t three =
		1u << VPMU_EV_INSTRUCTIONS | 1u << VPMU_EV_CYCLES | 1u << VPMU_EV_REF_CYCLES;

	set_vendor("GenuineIntel");
	unknown(__LINE__, "no PMU");
	folder_put("/sys/bus/event_source/devices/cpu/type", "4");
	unknown(__LINE__, "CPUID 0AH"); /* version 0: a VM without a vPMU */
	set_leaf(10, 0x07300404, 0, 0, 0x603);
	expect(__LINE__, 4, three, "CPUID 0AH");
	leaf[1][1] = 0x07300801; /* version 1 has no fixed ones */
	expect(__LINE__, 8, 0, "CPUID 0AH");
	leaf[1][1] = 0x07300805; /* version 5: three by number, and slots by bit */
	leaf[1][3] = 8;
	expect(__LINE__, 8, three | 1u << VPMU_EV_SLOTS, "CPUID 0AH");
	leaf[1][3] = 2;
	leaf[1][4] = 0;
	expect(__LINE__, 8, 1u << VPMU_EV_CYCLES, "CPUID 0AH");
	leaf[0][1] = 9; /* no such leaf */
	unknown(__LINE__, "CPUID 0AH");

	set_vendor("AuthenticAMD");
	expect(__LINE__, 4, 0, "every CPU of AMD");
	set_leaf(0x80000000, 0x80000021, 0, 0, 0);
	set_leaf(0x80000001, 0, 0, 1u << 23, 0);
	set_leaf(0x80000022, 1, 0x10806, 0, 0);
	expect(__LINE__, 6, 0, "PERFCTR_CORE"); /* the last leaf is not there */
	leaf[1][1] = 0x80000022;
	leaf[3][2] = 0x10818; /* 8 of the core, and other facts above */
	expect(__LINE__, 8, 0, "80000022H");
	leaf[3][1] = 0; /* no PerfMonV2 */
	expect(__LINE__, 6, 0, "PERFCTR_CORE");
	folder_put("/sys/bus/event_source/devices/cpu_atom/type", "10");
	unknown(__LINE__, "several kinds");
}

Test(bpf_backend_pmu, arm64_does_not_tell)
{
	unknown(__LINE__, "no PMU");
	folder_put("/sys/bus/event_source/devices/armv8_pmuv3_0/type", "8");
	expect(__LINE__, 6, 1u << VPMU_EV_CYCLES, "assumed");
	cr_expect_eq(find(4).general, 4u);
	cr_expect_eq(find(4).fixed, 1u << VPMU_EV_CYCLES);
}

Test(bpf_backend_pmu, mediated)
{
	static const char *const yes[] = {"Y\n", "1\n", "Y"};
	static const char *const no[] = {"N\n", "0\n", "", "x"};
	const struct bpf_backend_sys sys = {.cpuid = fake_cpuid, .files = folder};

	cr_expect_not(pmu_is_mediated(&sys));
	for (unsigned int i = 0; i < sizeof(no) / sizeof(no[0]); i++) {
		folder_put("/sys/module/kvm_intel/parameters/enable_mediated_pmu", no[i]);
		cr_expect_not(pmu_is_mediated(&sys), "%s", no[i]);
	}
	for (unsigned int i = 0; i < sizeof(yes) / sizeof(yes[0]); i++) {
		folder_put("/sys/module/kvm_amd/parameters/enable_mediated_pmu", yes[i]);
		cr_expect(pmu_is_mediated(&sys), "%s", yes[i]);
	}
	folder_put("/sys/module/kvm_amd/parameters/enable_mediated_pmu", "N");
	cr_expect_not(pmu_is_mediated(&sys));
	folder_put("/sys/module/kvm/parameters/enable_mediated_pmu", "Y");
	cr_expect(pmu_is_mediated(&sys));
}

/* ---- lines of check --------------------------------------------------------------------- */

static char said[4][500];
static bool ok[4];
static unsigned int rows;

static void on_row(const char *what, bool good, const char *why, void *arg)
{
	cr_assert_lt(rows, 4u);
	ok[rows] = good;
	snprintf(said[rows++], sizeof(said[0]), "%s: %s", what, why);
}

Test(bpf_backend_budget, what_check_shows)
{
	struct bpf_backend_budget b = {
		.known = true, .general = 6, .left = 2, .fixed = 1, .keys = 3, .from = "a manual"};

	budget_rows(&b, on_row, NULL);
	cr_assert_eq(rows, 2u);
	cr_expect(ok[0] && ok[1]);
	cr_expect_str_eq(said[0], "hardware counters: each CPU has 6 general and 1 fixed ones (a "
				  "manual); 2 general ones are left to others");
	cr_expect_str_eq(said[1], "hardware events in use: 3, which take no turns");
	b.turns = b.mediated = true;
	rows = 0;
	budget_rows(&b, on_row, NULL);
	cr_assert_eq(rows, 3u);
	cr_expect(ok[0] && !ok[1] && !ok[2]);
	cr_expect(strstr(said[1], "multiplexed") && strstr(said[2], "enable_mediated_pmu") &&
			  strstr(said[2], ":H"),
		  "%s, %s", said[1], said[2]);
	b = (struct bpf_backend_budget){.from = "CPUs of several kinds"};
	rows = 0;
	budget_rows(&b, on_row, NULL);
	cr_expect(!ok[0] && strstr(said[0], "unknown") &&
			  strstr(said[0], "CPUs of several kinds") && strstr(said[0], "vpmud.conf"),
		  "%s", said[0]);
}
