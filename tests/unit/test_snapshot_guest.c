// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The PMU of a vCPU that moves: twins do the same, one of them stays, the other is saved and loaded
 * on a new host again and again; a guest can see no difference. And bytes that lie:
 * refused with nothing changed, or another state that a guest can be in. VPMU_SEED=n replays one
 * history, VPMU_HISTORIES=n sets how many run per configuration (300).
 */
#include <errno.h>

#include "guest_twins.h"
#include "vpmu/core/blob.h"
#include "vpmu/guest/save.h"

TestSuite(snapshot_guest, .init = urcu_memb_register_thread, .fini = twins_end);

/* ---- moving ------------------------------------------------------------------------------------
 */

static struct vpmu_blob save(struct bed *b)
{
	struct vpmu_blob blob = {0};

	cr_assert_eq(vpmu_guest_save(b->g, &blob), 0);
	return blob;
}

static int load(struct bed *b, const uint8_t *data, size_t len, char err[200])
{
	struct vpmu_blob_reader r = {.data = data, .len = len};
	int ret;

	*err = 0;
	ret = vpmu_guest_load(b->g, &r, err, 200);
	cr_assert_eq(!ret, !*err, "%d: \"%s\"", ret, err);
	cr_assert(ret == 0 || ret == -EINVAL, "%d", ret);
	cr_assert(ret || vpmu_blob_done(&r));
	return ret;
}

static void check_same(const struct vpmu_blob *a, const struct vpmu_blob *b, const char *what)
{
	cr_assert(a->len == b->len && !memcmp(a->data, b->data, a->len), "%s", what);
}

/* To a new host; the old one is gone. */
static void move(struct bed **b, const struct vpmu_guest_cfg *cfg)
{
	struct bed *to = new_bed(cfg);
	struct vpmu_blob one, two;
	int on = (*b)->on;
	char err[200];

	bed_unplace(*b);
	one = save(*b);
	cr_assert_eq(load(to, one.data, one.len, err), 0, "%s", err);
	two = save(to);
	check_same(&one, &two, "saved again, it is not the same");
	vpmu_blob_fini(&one);
	vpmu_blob_fini(&two);
	free_bed(*b);
	bed_enter(to, on);
	*b = to;
}

static unsigned int moves, pmis, waiting, with_records;

static void perhaps_move(struct bed *a, struct bed **b, const struct vpmu_guest_cfg *cfg,
			 const char *when)
{
	if (below(12) == 0) {
		struct vpmu_lbr_regs r;

		moves++;
		/* its alarms are not answered yet: the PMI goes out over there */
		with_records +=
			!vpmu_lbr_guest_get(&(*b)->ctx, (*b)->pcpu[(*b)->on], &r) && r.count > 0;
		move(b, cfg);
		waiting += vpmu_guest_pending((*b)->g);
	}
	if (below(3)) {
		bool pa = serve(a), pb = serve(*b);

		cr_assert_eq(pa, pb, "%s: PMI %d stayed, %d moved", when, pa, pb);
		pmis += pa;
	}
	cr_assert_eq(a->g->denied, (*b)->g->denied, "%s", when);
	cr_assert_eq(a->g->denied_last, (*b)->g->denied_last, "%s", when);
}

Test(snapshot_guest, twins)
{
	const char *one = getenv("VPMU_SEED"), *many = getenv("VPMU_HISTORIES");
	uint64_t n = many ? strtoull(many, NULL, 10) : 300;

	for (unsigned int i = 0; i < NR_CFGS; i++) {
		for (uint64_t s = 1; s <= n; s++)
			twins(&cfgs[i], one ? strtoull(one, NULL, 10) : s * 1000 + i, perhaps_move);
	}
	fprintf(stderr, "# %u moves, %u with a PMI waiting, %u with branch records; %u PMIs\n",
		moves, waiting, with_records, pmis);
	cr_assert(one || (moves > 100 && pmis > 20 && waiting > 5 && with_records > 20));
}

/* ---- bytes that lie ----------------------------------------------------------------------------
 */

/* Something of everything. */
static struct bed *busy(const struct vpmu_guest_cfg *cfg)
{
	struct bed *b = new_bed(cfg);

	bed_enter(b, 0);
	rng_state = 7;
	for (unsigned int step = 0; step < 300; step++)
		act(b, rnd());
	vpmu_guest_wrmsr(b->g, 0x14ce, VPMU_LBR_EN | VPMU_LBR_USR | VPMU_LBR_TYPES);
	vpmu_guest_wrmsr(b->g, 0xc000010f, 0x40);
	vpmu_guest_wrmsr(b->g, 0x390, ~0ULL >> 6);
	vpmu_guest_wrmsr(b->g, 0xc0000302, ~0ULL);
	bed_enter(b, 1);
	for (unsigned int i = 0; i < 40; i++)
		branch(b, 0x400000 + i, 0x500000 + i, 3);
	bed_unplace(b);
	return b;
}

/* @b's registers hold values that a guest can write, and counters are 48 bits wide. */
static void check_writable(struct bed *b)
{
	static const struct {
		uint32_t base, count;
	} regs[] = {
		{0x186, 8},	  {0x309, 4},	   {0x38d, 1},	    {0x38f, 1},
		{0x1d9, 1},	  {0xc0000301, 1}, {0xc0010000, 4}, {0x4c1, 8},
		{0xc0010200, 32}, {0x1500, 32},	   {0x1600, 32},    {0x1200, 32},
		{0xc0010300, 32}, {0x14ce, 1},	   {0xc000010e, 2},
	};

	struct vpmu_lbr_regs r;

	for (unsigned int i = 0; i < sizeof(regs) / sizeof(regs[0]); i++) {
		for (uint32_t msr = regs[i].base; msr < regs[i].base + regs[i].count; msr++) {
			uint64_t v, again;

			if (vpmu_guest_rdmsr(b->g, msr, &v))
				continue;
			cr_assert(!vpmu_guest_wrmsr(b->g, msr, v), "%x = %llx: #GP", msr,
				  (unsigned long long)v);
			cr_assert(!vpmu_guest_rdmsr(b->g, msr, &again) && again == v,
				  "%x: %llx, written back %llx", msr, (unsigned long long)v,
				  (unsigned long long)again);
		}
	}
	if (b->g->lbr_max && !vpmu_lbr_guest_get(&b->ctx, NULL, &r)) {
		uint64_t known =
			vpmu_guest_is_intel(b->g) ? 0x1f0000000000ffffULL : 0xff0000000000ffffULL;

		for (unsigned int i = 0; i < r.count; i++)
			cr_assert(!(vpmu_lbr_nth(&r, i)->info & ~known));
	}
	for (unsigned int i = 0; i < VPMU_GUEST_MAX_CTRS; i++) {
		cr_assert_eq(b->g->ctr[i].value >> 48, 0);
		cr_assert(b->g->ctr[i].running_ns <= b->g->ctr[i].enabled_ns);
	}
}

static void lie(const struct vpmu_guest_cfg *cfg, unsigned int *taken, unsigned int *refused)
{
	struct bed *b = busy(cfg), *to = new_bed(cfg), *other = new_bed(cfg);
	struct vpmu_blob good = save(b), before = save(other), now;
	uint8_t *copy = malloc(good.len);
	char err[200];

	for (size_t len = 0; len < good.len; len++) {
		uint8_t *cut = malloc(len ? len : 1);

		memcpy(cut, good.data, len);
		cr_assert_eq(load(other, cut, len, err), -EINVAL, "cut to %zu", len);
		free(cut);
	}
	now = save(other);
	check_same(&before, &now, "a cut section changed something");
	vpmu_blob_fini(&now);
	for (size_t bit = 0; bit < 8 * good.len; bit++) {
		int ret;

		cr_assert_eq(load(to, good.data, good.len, err), 0, "%s", err);
		memcpy(copy, good.data, good.len);
		copy[bit / 8] ^= (uint8_t)(1u << bit % 8);
		ret = load(to, copy, good.len, err);
		now = save(to);
		if (ret) {
			++*refused;
			check_same(&good, &now, "refused, and something changed");
			cr_assert(strlen(err) < 199 && !strchr(err, '\n'), "%s", err);
		} else {
			++*taken;
			cr_assert(now.len == good.len && !memcmp(now.data, copy, now.len),
				  "bit %zu: taken as something else than it says", bit);
			/* it can run */
			bed_enter(to, 0);
			act(to, bit);
			serve(to);
			bed_unplace(to);
			cr_assert_eq(load(to, copy, good.len, err), 0);
			check_writable(to);
		}
		vpmu_blob_fini(&now);
	}
	free(copy);
	vpmu_blob_fini(&good);
	vpmu_blob_fini(&before);
	free_bed(b);
	free_bed(to);
	free_bed(other);
}

Test(snapshot_guest, every_bit)
{
	for (unsigned int i = 0; i < NR_CFGS; i++) {
		unsigned int taken = 0, refused = 0;

		lie(&cfgs[i], &taken, &refused);
		fprintf(stderr, "# %s: %u flipped bits refused, %u make another state\n",
			vpmu_guest_model_name(cfgs[i].model), refused, taken);
		cr_assert(refused > 100);
		cr_assert(cfgs[i].model == VPMU_GUEST_NONE || taken > 500);
	}
}

/* A section belongs to one configuration. */
Test(snapshot_guest, of_another_configuration)
{
	char err[200];

	for (unsigned int i = 0; i < NR_CFGS; i++) {
		struct bed *b = new_bed(&cfgs[i]);
		struct vpmu_blob blob = save(b);

		for (unsigned int j = 0; j < NR_CFGS; j++) {
			struct bed *to = new_bed(&cfgs[j]);
			int ret = load(to, blob.data, blob.len, err);

			cr_assert_eq(ret, i == j ? 0 : -EINVAL, "%u into %u: %s", i, j, err);
			free_bed(to);
		}
		vpmu_blob_fini(&blob);
		free_bed(b);
	}
}

Test(snapshot_guest, placed_is_refused)
{
	struct vpmu_blob blob = {0};
	struct vpmu_blob_reader r = {0};
	struct bed *b;
	char err[100];

	b = new_bed(&cfgs[0]);
	bed_enter(b, 0);
	cr_assert_eq(vpmu_guest_save(b->g, &blob), -EBUSY);
	cr_assert_eq(blob.len, 0);
	cr_assert_eq(vpmu_guest_load(b->g, &r, err, sizeof(err)), -EBUSY);
	free_bed(b);
}
