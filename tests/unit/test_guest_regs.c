// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Every PMU register by the manuals, bit by bit, against the register models. The tables
 * are written from the SDM and the APM alone and share nothing with vpmu/guest.
 */
#include "guest_manual.h"
#include "guest_use.h"

TestSuite(guest_regs, .fini = finish);

/* The test's last write to IA32_LBR_DEPTH. */
static unsigned int depth;

static void start_machine(const struct machine *m)
{
	int ret;

	finish();
	ret = bed_init(&b, &m->cfg, NULL);
	cr_assert_eq(ret, 0, "line %d: init %d", m->line, ret);
	depth = m->lbr;
	bed_enter(&b, 0);
}

/* All registers of the model as one array, to see that a refused write changed nothing. */
#define MAX_REGS 256
static unsigned int dump(const struct machine *m, uint64_t out[MAX_REGS])
{
	unsigned int n = 0;

	for (const struct row *r = m->rows; r->line; r++) {
		for (unsigned int i = 0; i < row_count(m, r, depth); i++) {
			if (row_has(m, r, r->msr + i * r->stride, depth))
				out[n++] = rd(r->msr + i * r->stride);
		}
	}
	return n;
}

static void check_value(const struct machine *m, const struct row *r, uint32_t msr, uint64_t val)
{
	uint64_t before[MAX_REGS], after[MAX_REGS];
	bool legal = row_takes(r, val);
	unsigned int n = dump(m, before);
	int ret = vpmu_guest_wrmsr(b.g, msr, val);

	cr_assert_eq(ret, legal ? 0 : -EFAULT, "machine %d row %d %s: WRMSR(%x, %llx) = %d",
		     m->line, r->line, r->name, msr, (unsigned long long)val, ret);
	if (legal && r->back == DEPTH)
		depth = (unsigned int)val;
	if (legal) {
		uint64_t back = rd(msr), want = row_back(r, val);

		cr_assert_eq(back, want, "machine %d row %d %s: %x holds %llx after %llx, not %llx",
			     m->line, r->line, r->name, msr, (unsigned long long)back,
			     (unsigned long long)val, (unsigned long long)want);
	} else {
		cr_assert_eq(dump(m, after), n);
		cr_assert(!memcmp(before, after, n * sizeof(before[0])),
			  "machine %d row %d: a refused write changed something", m->line, r->line);
	}
}

Test(guest_regs, reset_values)
{
	for (const struct machine *m = machines; m < machines + NR_MACHINES; m++) {
		start_machine(m);
		for (const struct row *r = m->rows; r->line; r++) {
			for (unsigned int i = 0; i < row_count(m, r, depth); i++) {
				uint32_t msr = r->msr + i * r->stride;
				uint64_t want = r->reset;

				if (!row_has(m, r, msr, depth))
					continue;
				if (r->count == PVREGS && i % 4 == 2)
					want = VPMU_PV_UNSUPPORTED;
				cr_assert_eq(rd(msr), want, "machine %d row %d %s %x", m->line,
					     r->line, r->name, msr);
			}
		}
	}
}

/* Each bit of each register alone, then legal and illegal mixtures. */
Test(guest_regs, every_bit)
{
	for (const struct machine *m = machines; m < machines + NR_MACHINES; m++) {
		start_machine(m);
		for (const struct row *r = m->rows; r->line; r++) {
			for (unsigned int i = 0; i < row_count(m, r, depth); i++) {
				uint32_t msr = r->msr + i * r->stride;

				if (!row_has(m, r, msr, depth))
					continue;
				for (unsigned int bit = 0; bit < 64; bit++) {
					check_value(m, r, msr, 1ULL << bit);
					/* a reserved bit is refused in company, too */
					check_value(m, r, msr, r->keep | 1ULL << bit);
				}
				check_value(m, r, msr, r->keep);
				check_value(m, r, msr, r->keep | r->ignore);
				check_value(m, r, msr, ALL);
				check_value(m, r, msr, 0);
			}
		}
	}
}

/* Closed world: every MSR number of the ranges PMUs live in is one of ours, #GP, or not ours. */
Test(guest_regs, every_msr)
{
	static const uint32_t range[][2] = {{0, 0x2000},
					    {0xc0000000, 0xc0002000},
					    {0xc0010000, 0xc0012000},
					    {PV - 16, PV + 96}};

	for (const struct machine *m = machines; m < machines + NR_MACHINES; m++) {
		start_machine(m);
		for (unsigned int s = 0; s < 4; s++) {
			for (uint32_t msr = range[s][0]; msr < range[s][1]; msr++) {
				const struct row *r = row_of(m, msr, depth);
				int other = no_register(msr);
				uint64_t val = 0x5a5a;
				int ret = vpmu_guest_rdmsr(b.g, msr, &val);

				cr_assert_eq(ret, r ? 0 : other, "machine %d: RDMSR %x = %d",
					     m->line, msr, ret);
				cr_assert(!ret || val == 0x5a5a, "a refused read wrote a value");
				ret = vpmu_guest_wrmsr(b.g, msr, 0);
				cr_assert_eq(ret, r ? (row_takes(r, 0) ? 0 : -EFAULT) : other,
					     "machine %d: WRMSR %x = %d", m->line, msr, ret);
			}
		}
	}
}

/* The VMM traps the model's registers. */
Test(guest_regs, ranges_cover)
{
	for (const struct machine *m = machines; m < machines + NR_MACHINES; m++) {
		const struct vpmu_msr_range *t = vpmu_guest_msr_ranges(m->cfg.model);
		unsigned int n = 0;

		while (t[n].count)
			n++;
		cr_assert_leq(n, 12u);
		for (const struct row *r = m->rows; r->line; r++) {
			for (unsigned int i = 0; i < row_count(m, r, depth); i++) {
				uint32_t msr = r->msr + i * r->stride;
				bool in = false;

				for (unsigned int j = 0; j < n; j++)
					in |= msr - t[j].base < t[j].count;
				cr_assert(in, "machine %d: %x is not trapped", m->line, msr);
			}
		}
		/* what KVM would answer by itself */
		for (uint32_t msr = 0xc0010000; msr < 0xc0010008; msr++) {
			bool in = false;

			for (unsigned int j = 0; j < n; j++)
				in |= msr - t[j].base < t[j].count;
			cr_assert(in);
		}
	}
}

/* ---- the K7 aliases are the same registers ---- */

Test(guest_regs, k7_alias)
{
	start_machine(&machines[M_AMD]);
	for (uint32_t i = 0; i < 4; i++) {
		wr(0xc0010000 + i, 0x5300c0 + i);
		cr_assert_eq(rd(0xc0010200 + 2 * i), 0x5300c0 + i);
		wr(0xc0010200 + 2 * i, 0x1000000c0ULL + i);
		cr_assert_eq(rd(0xc0010000 + i), 0x1000000c0ULL + i);
		wr(0xc0010004 + i, 1000 + i);
		cr_assert_eq(rd(0xc0010201 + 2 * i), 1000 + i);
		wr(0xc0010201 + 2 * i, 2000 + i);
		cr_assert_eq(rd(0xc0010004 + i), 2000 + i);
	}
}

Test(guest_regs, full_width_alias)
{
	start_machine(&machines[M_V2]);
	for (uint32_t i = 0; i < 8; i++) {
		wr(0x4c1 + i, 0x800000000000ULL + i);
		cr_assert_eq(rd(0xc1 + i), 0x800000000000ULL + i);
		wr(0xc1 + i, 0x123480000000ULL + i);
		cr_assert_eq(rd(0x4c1 + i), 0xffff80000000ULL + i);
	}
}

/* ---- IA32_PERF_GLOBAL_STATUS, STATUS_SET, STATUS_RESET, INUSE ---- */

Test(guest_regs, status_set_reset)
{
	const uint64_t settable = 0x6c000007000000ffULL;

	start_machine(&machines[M_V5]);
	for (unsigned int bit = 0; bit < 64; bit++) {
		if (!(settable >> bit & 1))
			continue;
		wr(0x391, 1ULL << bit);
		cr_assert_eq(rd(0x38e), 1ULL << bit);
		wr(0x390, ~(1ULL << bit) & settable);
		cr_assert_eq(rd(0x38e), 1ULL << bit, "clearing others cleared bit %u", bit);
		wr(0x390, 1ULL << bit);
		cr_assert_eq(rd(0x38e), 0);
	}
	wr(0x391, settable);
	cr_assert_eq(rd(0x38e), settable);
	start_machine(&machines[M_AMD]);
	wr(0xc0000303, ALL);
	cr_assert_eq(rd(0xc0000300), 0x3f | 3ULL << 58);
	wr(0xc0000300, 0); /* read-only: ignored */
	cr_assert_eq(rd(0xc0000300), 0x3f | 3ULL << 58);
	wr(0xc0000302, 0x15 | 1ULL << 58);
	cr_assert_eq(rd(0xc0000300), 0x2a | 1ULL << 59);
	wr(0xc0000302, ALL);
	cr_assert_eq(rd(0xc0000300), 0);
}

Test(guest_regs, inuse)
{
	start_machine(&machines[M_V5]);
	wr(0x188, 0x00c0); /* not enabled: in use all the same */
	cr_assert_eq(rd(0x392), 0x4);
	wr(0x188, 0xff00); /* event select 0 */
	cr_assert_eq(rd(0x392), 0);
	wr(0x18d, 1 << 20 | 0x3c); /* INT */
	cr_assert_eq(rd(0x392), 1ULL << 63 | 0x80);
	wr(0x18d, 0);
	wr(0x38d, 0x120);
	cr_assert_eq(rd(0x392), 6ULL << 32);
	wr(0x38d, 0x008); /* PMI of a counter that is off */
	cr_assert_eq(rd(0x392), 1ULL << 63);
}
