/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Twins: two vCPUs of one configuration to which the same happens, at random, and the comparison of
 * all that their guests can read. For the tests that move one of them.
 */
#ifndef TESTS_UNIT_GUEST_TWINS_H
#define TESTS_UNIT_GUEST_TWINS_H

#include <criterion/criterion.h>
#include <stdio.h>

#include "guest_bed.h"
#include "vpmu/guest/policy.h"
#include "vpmu/lbr.h"
#include "tests/random.h"

static uint64_t rng_state;

static inline uint64_t rnd(void)
{
	return random_split(&rng_state);
}

static inline uint64_t below(uint64_t n)
{
	return rnd() % n;
}

/* ---- one vCPU ---------------------------------------------------------------------------------
 */

static const struct vpmu_emupmu_opts big_host = {.gp = 16, .fixed = 3};

/* Hosts are used again: to destroy one waits for a grace period. */
static struct bed *free_hosts[16];
static unsigned int nr_free_hosts;

static inline struct bed *new_bed(const struct vpmu_guest_cfg *cfg)
{
	struct bed *b;

	if (nr_free_hosts) {
		b = free_hosts[--nr_free_hosts];
	} else {
		b = malloc(sizeof(*b));
		bed_host(b, &big_host);
	}
	cr_assert_eq(bed_vcpu(b, cfg), 0);
	return b;
}

static inline void free_bed(struct bed *b)
{
	bed_vcpu_fini(b);
	free_hosts[nr_free_hosts++] = b;
}

/* The .fini of a suite; its .init is urcu_memb_register_thread. */
static inline void twins_end(void)
{
	while (nr_free_hosts) {
		struct bed *b = free_hosts[--nr_free_hosts];

		bed_host_fini(b);
		free(b);
	}
	urcu_memb_unregister_thread();
}

/* What the engine does at a branch. */
static inline void branch(struct bed *b, uint64_t from, uint64_t to, uint64_t type)
{
	struct vpmu_emu_tally *t = b->sp[b->on].tally;
	struct vpmu_lbr_regs *r = &t->lbr;
	uint64_t now = vpmu_emu_clock(t), cycles = now - r->cycles;

	if (!(r->ctl & VPMU_LBR_EN))
		return;
	r->head = (uint8_t)((r->head + 1) % VPMU_LBR_DEPTH_MAX);
	r->count = r->count < r->depth ? r->count + 1 : r->depth;
	r->e[r->head] = (struct vpmu_lbr_entry){from, to,
						(cycles < 0xffff ? cycles : 0xffff) |
							type << VPMU_LBR_INFO_TYPE_SHIFT |
							VPMU_LBR_INFO_CYC_VALID};
	r->cycles = now;
	r->total++;
}

/* Registers of all models; what one of them has not is #GP for both twins. */
static const struct {
	uint32_t base, count;
} areas[] = {
	{0xc1, 8},	  {0x186, 8},	   {0x309, 4},	     {0x38d, 6},
	{0x4c1, 8},	  {0x1d9, 1},	   {0x345, 1},	     {VPMU_PV_MSR_BASE, 80},
	{0xc0000300, 4},  {0xc0010000, 8}, {0xc0010200, 32}, {0x14ce, 2},
	{0x1500, 32},	  {0x1600, 32},	   {0x1200, 32},     {0xc000010e, 2},
	{0xc0010300, 32},
};

#define NR_AREAS (sizeof(areas) / sizeof(areas[0]))

/* Bits of IA32_LBR_x_INFO that compare does not look at. */
static uint64_t ignored_info;

static inline void compare(struct bed *a, struct bed *b, const char *when)
{
	for (unsigned int i = 0; i < NR_AREAS; i++) {
		for (uint32_t n = 0; n < areas[i].count; n++) {
			uint64_t va = 0, vb = 0;
			uint32_t msr = areas[i].base + n;
			int ra = vpmu_guest_rdmsr(a->g, msr, &va);
			int rb = vpmu_guest_rdmsr(b->g, msr, &vb);

			if (msr >= 0x1200 && msr < 0x1220) {
				va &= ~ignored_info;
				vb &= ~ignored_info;
			}
			cr_assert(ra == rb && va == vb,
				  "%s: RDMSR %x: %d %llx stayed, %d %llx moved", when, msr, ra,
				  (unsigned long long)va, rb, (unsigned long long)vb);
		}
	}
}

static inline uint64_t some_value(uint32_t msr)
{
	static const uint16_t events[] = {0x3c, 0xc0, 0xc4, 0x20c4, 0x81d0, 0x82d0, 0x76, 0xc2};

	if (below(12) == 0)
		return rnd();
	switch (msr) {
	case 0x38d:
		return rnd() & 0xbbb;
	case 0x38e ... 0x391:
	case 0xc0000300 ... 0xc0000303:
		return (rnd() & 0x7000000ffULL) | (below(4) ? 0 : 3ULL << 58);
	case 0x1d9:
		return below(4) << 11;
	case 0x14ce:
		return below(2) | (1 + below(3)) << 1 |
		       (below(2) ? VPMU_LBR_CALL_STACK | VPMU_LBR_CALLS : rnd() & VPMU_LBR_TYPES);
	case 0x14cf:
		return 8 + 8 * below(4);
	case 0xc000010e:
		return rnd() & 0x1ff;
	case 0xc000010f:
		return below(3) ? 0x40 : 0;
	case 0x186 ... 0x18d:
	case 0xc0010000 ... 0xc0010003:
		return events[below(8)] | below(4) << 16 | below(2) << 20 | 1u << 22;
	case 0xc0010200 ... 0xc001021f:
		if (!(msr & 1))
			return events[below(8)] | below(4) << 16 | below(2) << 20 | 1u << 22;
		break;
	case 0x1200 ... 0x121f:
	case 0x1500 ... 0x161f:
	case 0xc0010300 ... 0xc001031f:
		return rnd() >> below(64);
	}
	/* counters: near the end, so that they wrap */
	return below(3) ? 0xffffffffffffULL - below(5000) : below(100000);
}

/* One random thing a guest does or that happens to it. */
static inline void act(struct bed *b, uint64_t seed)
{
	uint64_t kept = rng_state, n;
	uint32_t msr;
	unsigned int i;

	rng_state = seed;
	switch (below(8)) {
	case 1:
		/* a counter that counts, near its end, and interrupts */
		i = (unsigned int)below(6);
		vpmu_guest_wrmsr(b->g, 0x4c1 + i, 0xffffffffffffULL - below(9000));
		vpmu_guest_wrmsr(b->g, 0xc1 + i, -below(9000));
		vpmu_guest_wrmsr(b->g, 0xc0010201 + 2 * i, -below(9000));
		vpmu_guest_wrmsr(b->g, 0xc0010004 + i % 4, -below(9000));
		for (unsigned int k = 0; k < 3; k++) {
			static const uint32_t sel[] = {0x186, 0xc0010000, 0xc0010200};

			vpmu_guest_wrmsr(b->g, sel[k] + i * (k < 2 ? 1 : 2), 0x5300c0);
		}
		vpmu_guest_wrmsr(b->g, 0x38f, 0x70000000fULL);
		vpmu_guest_wrmsr(b->g, 0xc0000301, 0x3f);
		vpmu_guest_wrmsr(b->g, 0x390, 3ULL << 58);
		vpmu_guest_wrmsr(b->g, 0xc0000302, 3ULL << 58);
		break;
	case 0:
	case 2:
		i = (unsigned int)below(NR_AREAS);
		msr = areas[i].base + (uint32_t)below(areas[i].count);
		vpmu_guest_wrmsr(b->g, msr, some_value(msr));
		break;
	case 3:
		bed_enter(b, (int)below(BED_PCPUS));
		break;
	case 4:
		for (n = below(40); n--;)
			branch(b, 0x400000 + below(0x10000), 0x500000 + below(0x10000), below(6));
		break;
	default:
		n = 1 + below(4000);
		bed_exec(b, VPMU_EMU_USR, VPMU_EMU_INSTRUCTIONS, n);
		bed_exec(b, VPMU_EMU_OS, VPMU_EMU_INSTRUCTIONS, n / 3);
		bed_exec(b, VPMU_EMU_USR, VPMU_EMU_CYCLES, 2 * n);
		bed_exec(b, VPMU_EMU_USR, VPMU_EMU_BRANCHES, n / 5);
		bed_exec(b, VPMU_EMU_OS, VPMU_EMU_LOADS, n / 7);
		bed_time(b, n);
		break;
	}
	rng_state = kept;
}

/* The pCPU's alarms are answered, as before every entry into the guest; sometimes it waits. */
static inline bool serve(struct bed *b)
{
	vpmu_pcpu_overflow(b->pcpu[b->on]);
	return vpmu_guest_pending(b->g) && vpmu_guest_service(b->g);
}

static const struct vpmu_policy some_policy = {.tier = VPMU_POLICY_ARCHITECTURAL};

static const struct vpmu_guest_cfg cfgs[] = {
	{.model = VPMU_GUEST_INTEL_V2},
	{.model = VPMU_GUEST_INTEL_V3, .gp = 4, .fixed = 2},
	{.model = VPMU_GUEST_INTEL_V4},
	{.model = VPMU_GUEST_INTEL_V5, .fixed = 4, .rdpmc = true},
	{.model = VPMU_GUEST_INTEL_V5, .policy = &some_policy},
	{.model = VPMU_GUEST_AMD_K7},
	{.model = VPMU_GUEST_AMD_CORE},
	{.model = VPMU_GUEST_AMD_V2},
	{.model = VPMU_GUEST_AMD_V2, .gp = 15, .no_lbr = true},
	{.model = VPMU_GUEST_NONE},
};

#define NR_CFGS (sizeof(cfgs) / sizeof(cfgs[0]))

/* The same happens to two vCPUs; @between may move the second. @when is for messages. */
static inline void twins(const struct vpmu_guest_cfg *cfg, uint64_t seed,
			 void (*between)(struct bed *a, struct bed **b,
					 const struct vpmu_guest_cfg *cfg, const char *when))
{
	struct bed *a = new_bed(cfg), *b = new_bed(cfg);
	char when[80];

	rng_state = seed;
	bed_enter(a, 0);
	bed_enter(b, 0);
	for (unsigned int step = 0; step < 120; step++) {
		uint64_t what = rnd();

		act(a, what);
		act(b, what);
		snprintf(when, sizeof(when), "%s VPMU_SEED=%llu step %u",
			 vpmu_guest_model_name(cfg->model), (unsigned long long)seed, step);
		between(a, &b, cfg, when);
		if (below(8) == 0)
			compare(a, b, when);
	}
	compare(a, b, when);
	free_bed(a);
	free_bed(b);
}

#endif
