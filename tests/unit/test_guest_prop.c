// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Random histories of PMU use by a hostile guest under a restless scheduler, against the plain
 * model. A failing history prints its seed; VPMU_SEED=n replays that one, VPMU_HISTORIES=n sets how
 * many run per machine.
 */
#include <criterion/criterion.h>

static unsigned long long seed_now;

#define PLAY_FAIL(y, text)                                                                         \
	cr_assert(false, "VPMU_SEED=%llu step %u: %s", seed_now, (y)->steps, text)

#include "guest_play.h"
#include "tests/random.h"

static uint64_t rng_state;

static uint64_t rnd(void)
{
	return random_split(&rng_state);
}

static uint64_t env(const char *name, uint64_t dflt)
{
	const char *s = getenv(name);

	return s ? strtoull(s, NULL, 0) : dflt;
}

/* vCPUs come and go on one host, as they do. Without VPMU_SEED the whole run is the same each
 * time, so what depends on earlier vCPUs comes back, too. */
static void histories(const struct machine *m)
{
	struct vpmu_emupmu_opts emulator = {.gp = 16};
	uint64_t n = getenv("VPMU_SEED") ? 1 : env("VPMU_HISTORIES", 1500);
	uint8_t bytes[2048];
	struct bed b;
	struct play y = {.b = &b, .exact = true};

	urcu_memb_register_thread();
	bed_host(&b, &emulator);
	for (uint64_t i = 0; i < n; i++) {
		size_t len;

		seed_now = env("VPMU_SEED", i * 1000 + (uint64_t)m->line);
		rng_state = seed_now;
		len = 64 + rnd() % (sizeof(bytes) - 64);
		for (size_t k = 0; k < len; k++)
			bytes[k] = (uint8_t)rnd();
		y.at = bytes;
		y.end = bytes + len;
		play(&y, m, rnd() & 1);
	}
	if (getenv("VPMU_VERBOSE"))
		printf("%d: %llu PMIs\n", m->line, (unsigned long long)y.pmis);
	/* A run in which nothing interrupts tests no interrupts. */
	cr_assert(n < 100 || !m->gp || y.pmis > n / 4, "%llu PMIs in %llu histories",
		  (unsigned long long)y.pmis, (unsigned long long)n);
	bed_host_fini(&b);
	urcu_memb_unregister_thread();
}

#define PROP(name, machine)                                                                        \
	Test(guest_prop, name)                                                                     \
	{                                                                                          \
		histories(&machines[machine]);                                                     \
	}

PROP(policy_off, M_OFF)
PROP(intel_v2, M_V2)
PROP(intel_v2_architectural, M_V2_ARCH)
PROP(intel_v3, M_V3)
PROP(intel_v4, M_V4)
PROP(intel_v5, M_V5)
PROP(intel_v5_small, M_V5_34)
PROP(intel_v5_no_lbr, M_V5_NOLBR)
PROP(amd_k7, M_K7)
PROP(amd_core, M_CORE)
PROP(amd_v2, M_AMD)
PROP(amd_v2_15, M_AMD15)
PROP(amd_v2_standard, M_AMD_NOLBR)
