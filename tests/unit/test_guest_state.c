// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * State for a VMM: a vCPU's registers read and set one by one, and its reset. Twins do the same,
 * one of them stays, the other is moved to a used host by its registers again and again. And values
 * that no register can hold: refused, with nothing changed. VPMU_SEED=n replays one history.
 */
#include <errno.h>

#include "guest_twins.h"

TestSuite(guest_state, .init = urcu_memb_register_thread, .fini = twins_end);

struct state {
	size_t n;
	uint32_t msr[VPMU_GUEST_STATE_MSRS];
	uint64_t val[VPMU_GUEST_STATE_MSRS];
};

static void get_state(struct bed *b, struct state *s)
{
	s->n = vpmu_guest_msr_list(b->g, s->msr, VPMU_GUEST_STATE_MSRS);
	cr_assert_leq(s->n, VPMU_GUEST_STATE_MSRS);
	for (size_t i = 0; i < s->n; i++)
		cr_assert_eq(vpmu_guest_get_msr(b->g, s->msr[i], &s->val[i]), 0);
}

static void set_state(struct bed *b, const struct state *s)
{
	for (size_t i = 0; i < s->n; i++)
		cr_assert_eq(vpmu_guest_set_msr(b->g, s->msr[i], s->val[i]), 0, "%x = %llx",
			     s->msr[i], (unsigned long long)s->val[i]);
}

static void check_state(struct bed *b, const struct state *s, const char *when)
{
	struct state now;

	get_state(b, &now);
	cr_assert_eq(now.n, s->n);
	for (size_t i = 0; i < s->n; i++) {
		/* A counter that is on has a quality as soon as it is placed. */
		bool begun = s->msr[i] - VPMU_PV_MSR_BASE < VPMU_PV_MSR_COUNT &&
			     s->val[i] == VPMU_PV_UNSUPPORTED &&
			     (b->g->enabled >> (s->msr[i] - VPMU_PV_MSR_BASE) / 4 & 1);

		cr_assert(now.msr[i] == s->msr[i] && (now.val[i] == s->val[i] || begun),
			  "%s: %x is %llx, was %llx", when, s->msr[i],
			  (unsigned long long)now.val[i], (unsigned long long)s->val[i]);
	}
}

/* A vCPU that has run and may be placed. */
static struct bed *used_bed(const struct vpmu_guest_cfg *cfg, uint64_t seed)
{
	struct bed *b = new_bed(cfg);

	bed_enter(b, 0);
	for (unsigned int step = 0; step < 40; step++)
		act(b, seed + step);
	if (seed & 1)
		bed_unplace(b);
	return b;
}

/* ---- moving ---- */

static unsigned int moves, with_status, with_records, running;

static void move(struct bed **b, const struct vpmu_guest_cfg *cfg, uint64_t seed, const char *when)
{
	struct bed *to = used_bed(cfg, seed);
	int on = (*b)->on;
	struct state s;

	if (seed & 2)
		bed_unplace(*b);
	running += (*b)->g->enabled != 0;
	get_state(*b, &s);
	for (size_t i = 0; i < s.n; i++) {
		with_status += (s.msr[i] == 0x38e || s.msr[i] == 0xc0000300) && s.val[i];
		with_records += (s.msr[i] == 0x1500 || s.msr[i] == 0xc0010300) && s.val[i];
	}
	vpmu_guest_reset(to->g);
	set_state(to, &s);
	check_state(to, &s, when);
	cr_assert_eq(to->g->pmi, 0);
	free_bed(*b);
	bed_enter(to, on);
	*b = to;
	moves++;
}

static void perhaps_move(struct bed *a, struct bed **b, const struct vpmu_guest_cfg *cfg,
			 const char *when)
{
	/* A pending PMI is not in a register, so it is served before a move. */
	cr_assert_eq(serve(a), serve(*b), "%s: PMI", when);
	if (below(12) == 0)
		move(b, cfg, rnd(), when);
}

Test(guest_state, twins)
{
	const char *one = getenv("VPMU_SEED");
	uint64_t first = one ? strtoull(one, NULL, 0) : 1, last = one ? first : 100;

	ignored_info = VPMU_LBR_INFO_CYC; /* since when is not in a register */
	for (unsigned int i = 0; i < NR_CFGS; i++) {
		for (uint64_t seed = first; seed <= last; seed++)
			twins(&cfgs[i], seed, perhaps_move);
	}
	cr_assert(one || (moves > 1000 && with_status > 50 && with_records > 50 && running > 50),
		  "%u moves, %u with status, %u with records, %u running", moves, with_status,
		  with_records, running);
}

/* ---- reset ---- */

Test(guest_state, reset)
{
	for (unsigned int i = 0; i < NR_CFGS; i++) {
		struct bed *fresh = new_bed(&cfgs[i]);
		struct state power_up;

		get_state(fresh, &power_up);
		for (uint64_t seed = 1; seed < 200; seed++) {
			struct bed *b = used_bed(&cfgs[i], seed);
			int on = b->on;

			vpmu_guest_reset(b->g);
			check_state(b, &power_up, "after a reset");
			cr_assert(!vpmu_guest_pending(b->g));
			cr_assert_eq(b->g->enabled | b->g->armed | b->g->intr, 0);
			for (unsigned int n = 0; n < VPMU_GUEST_MAX_CTRS; n++)
				cr_assert_eq(b->g->ctr[n].key, 0, "counter %u has a consumer", n);
			cr_assert_eq(b->on, on);
			compare(fresh, b, "after a reset");
			if (on < 0)
				bed_enter(b, 0);
			bed_exec(b, VPMU_EMU_USR, VPMU_EMU_INSTRUCTIONS, 1u << 20);
			check_state(b, &power_up, "a while after a reset");
			free_bed(b);
		}
		free_bed(fresh);
	}
}

/* ---- hostile values ---- */

/* Every bit of every register: what is taken reads back, what is refused has changed nothing. */
Test(guest_state, every_bit)
{
	for (unsigned int i = 0; i < NR_CFGS; i++) {
		unsigned int taken = 0, refused = 0;

		for (uint64_t seed = 2; seed < 4; seed++) {
			struct bed *b = used_bed(&cfgs[i], seed);
			struct state s;

			get_state(b, &s);
			for (size_t k = 0; k < 64 * s.n; k++) {
				uint64_t val = s.val[k / 64] ^ 1ULL << k % 64, now;
				uint32_t msr = s.msr[k / 64];
				uint64_t denied = b->g->denied;
				int ret = vpmu_guest_set_msr(b->g, msr, val);

				cr_assert(ret == 0 || ret == -EINVAL, "%x: %d", msr, ret);
				cr_assert_eq(vpmu_guest_get_msr(b->g, msr, &now), 0);
				cr_assert_eq(b->g->denied, denied);
				if (ret) {
					refused++;
					check_state(b, &s, "refused");
				} else {
					taken++;
					cr_assert_eq(now, val, "%x = %llx reads as %llx", msr,
						     (unsigned long long)val,
						     (unsigned long long)now);
					set_state(b, &s);
				}
			}
			check_state(b, &s, "in the end");
			free_bed(b);
		}
		fprintf(stderr, "# %s: %u flipped bits refused, %u taken\n",
			vpmu_guest_model_name(cfgs[i].model), refused, taken);
		cr_assert(cfgs[i].model == VPMU_GUEST_NONE || (refused > 500 && taken > 500));
	}
}

static void expect(struct bed *b, uint32_t msr, uint64_t val, int want)
{
	int ret = vpmu_guest_set_msr(b->g, msr, val);

	cr_assert_eq(ret, want, "%s: %x = %llx: %d, expected %d",
		     vpmu_guest_model_name(b->g->cfg.model), msr, (unsigned long long)val, ret,
		     want);
}

static uint64_t reads(struct bed *b, uint32_t msr)
{
	uint64_t val = ~0ULL;

	cr_assert_eq(vpmu_guest_get_msr(b->g, msr, &val), 0, "%x", msr);
	return val;
}

Test(guest_state, intel_registers)
{
	static const struct vpmu_guest_cfg v2 = {.model = VPMU_GUEST_INTEL_V2, .gp = 4},
					   v5 = {.model = VPMU_GUEST_INTEL_V5, .gp = 4};
	struct bed *b;

	b = new_bed(&v5);
	expect(b, 0xc1, 0xfedcba987654ULL, 0); /* 48 bits, no sign extension */
	cr_assert_eq(reads(b, 0x4c1), 0xfedcba987654ULL);
	expect(b, 0xc1, 1ULL << 48, -EINVAL);
	expect(b, 0xc5, 0, -ENOENT); /* a fifth counter */
	expect(b, 0x1b, 0, -ENOENT); /* not the PMU's */
	expect(b, 0x38e, 0x0c0000070000000fULL, 0);
	cr_assert_eq(reads(b, 0x38e), 0x0c0000070000000fULL);
	expect(b, 0x38e, 1u << 4, -EINVAL);
	expect(b, 0x390, 0xf, 0); /* does not clear */
	expect(b, 0x391, 1u << 4, -EINVAL);
	cr_assert_eq(reads(b, 0x38e), 0x0c0000070000000fULL);
	cr_assert_eq(reads(b, 0x390), 0);
	expect(b, 0x345, reads(b, 0x345), 0);
	expect(b, 0x345, reads(b, 0x345) ^ 1, -EINVAL);
	expect(b, 0x1500, 0x400000, 0);
	expect(b, 0x14cf, reads(b, 0x14cf), 0);
	cr_assert_eq(reads(b, 0x1500), 0x400000);
	expect(b, 0x14cf, 16, 0);
	cr_assert_eq(reads(b, 0x1500), 0);
	expect(b, VPMU_PV_MSR_BASE + 1, 1, -EINVAL); /* ran longer than it was enabled */
	expect(b, VPMU_PV_MSR_BASE, 5, 0);
	expect(b, VPMU_PV_MSR_BASE + 1, 5, 0);
	expect(b, VPMU_PV_MSR_BASE, 4, 0);
	cr_assert_eq(reads(b, VPMU_PV_MSR_BASE + 1), 4);
	expect(b, VPMU_PV_MSR_BASE, 1ULL << 63, -EINVAL);
	expect(b, VPMU_PV_MSR_BASE + 2, 4, -EINVAL);
	expect(b, VPMU_PV_MSR_BASE + 3, 0, -ENOENT);
	free_bed(b);
	b = new_bed(&v2);
	expect(b, 0x38e, 0x70000000fULL, 0);
	expect(b, 0x38e, 1ULL << 59, -EINVAL); /* not frozen by a status bit */
	expect(b, 0x391, 0, -ENOENT);
	free_bed(b);
}

Test(guest_state, amd_registers)
{
	static const struct vpmu_guest_cfg v2 = {.model = VPMU_GUEST_AMD_V2},
					   core = {.model = VPMU_GUEST_AMD_CORE};
	struct bed *b;

	b = new_bed(&v2);
	expect(b, 0xc0000300, 3ULL << 58 | 0x3f, 0);
	cr_assert_eq(reads(b, 0xc0000300), 3ULL << 58 | 0x3f);
	expect(b, 0xc0000300, 0x40, -EINVAL);
	expect(b, 0xc0000302, ~0ULL, 0);
	expect(b, 0xc0000303, 0, 0);
	cr_assert_eq(reads(b, 0xc0000300), 3ULL << 58 | 0x3f);
	expect(b, 0xc0010200, 1u << 19, -EINVAL); /* the guest's write would drop it */
	expect(b, 0xc0010004, 0x123456789abcULL, 0);
	cr_assert_eq(reads(b, 0xc0010201), 0x123456789abcULL);
	expect(b, 0xc0010201, 1ULL << 48, -EINVAL);
	expect(b, 0xc0010300, 1ULL << 58, -EINVAL); /* not sign-extended */
	free_bed(b);
	b = new_bed(&core);
	expect(b, 0xc0000300, 0, -ENOENT);
	free_bed(b);
}

/* A set status makes no PMI; a set counter that interrupts overflows from there. */
Test(guest_state, pmi)
{
	static const struct vpmu_guest_cfg cfg = {.model = VPMU_GUEST_INTEL_V5};
	struct bed *b;

	b = new_bed(&cfg);
	bed_enter(b, 0);
	expect(b, 0x186, 0x5300c0, 0);
	expect(b, 0x38f, 1, 0);
	expect(b, 0x38e, 1, 0);
	cr_assert(!vpmu_guest_pending(b->g));
	expect(b, 0xc1, 0xffffffffff00ULL, 0);
	expect(b, 0x38e, 0, 0);
	bed_exec(b, VPMU_EMU_USR, VPMU_EMU_INSTRUCTIONS, 0xff);
	cr_assert(!serve(b));
	bed_exec(b, VPMU_EMU_USR, VPMU_EMU_INSTRUCTIONS, 1);
	cr_assert(serve(b));
	cr_assert_eq(reads(b, 0x38e), 1);
	free_bed(b);
}

/* A vCPU that is placed when its state is set: the time of its thread goes on between the calls. */
Test(guest_state, time_passes)
{
	for (unsigned int i = 0; i < NR_CFGS; i++) {
		for (uint64_t seed = 1; seed < 50; seed++) {
			struct bed *from = used_bed(&cfgs[i], seed), *to = new_bed(&cfgs[i]);
			struct state s;

			get_state(from, &s);
			bed_enter(to, 0);
			vpmu_guest_reset(to->g);
			for (size_t k = 0; k < s.n; k++) {
				bed_time(to, 1000);
				expect(to, s.msr[k], s.val[k], 0);
			}
			for (size_t k = 0; k < s.n; k++) {
				if (s.msr[k] - VPMU_PV_MSR_BASE < VPMU_PV_MSR_COUNT &&
				    s.msr[k] % 4 < 2)
					cr_assert_leq(reads(to, s.msr[k]) - s.val[k],
						      1000 * VPMU_PV_MSR_COUNT);
			}
			free_bed(from);
			free_bed(to);
		}
	}
}
