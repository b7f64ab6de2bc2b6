// SPDX-License-Identifier: GPL-2.0-or-later
/* vmm/emu/lapic: every register, every fault, priorities, delivery of PMIs (SDM vol. 3, chapter
 * 11). */
#include "lapic_bed.h"

Test(lapic, reset_values, .init = init)
{
	static const uint32_t masked[] = {CMCI, TIMER, THERMAL, LVTPC, LINT0, LINT1, LVTERR};

	cr_assert_eq(rd(ID), 0);
	cr_assert_eq(rd(VERSION), 0x00060014); /* integrated, seven entries */
	cr_assert_eq(rd(SVR), 0xff);
	for (size_t i = 0; i < sizeof(masked) / sizeof(masked[0]); i++)
		cr_assert_eq(rd(masked[i]), MASKED, "%#x", masked[i]);
	for (uint32_t msr = ISR; msr < ESR; msr++)
		cr_assert_eq(rd(msr), 0, "%#x", msr);
	cr_assert_eq(rd(TPR) | rd(PPR) | rd(ESR) | rd(ICR) | rd(INITIAL) | rd(CURRENT) | rd(DIVIDE),
		     0);
	cr_assert_not(waits());
}

/* What can be read and what can be written, of all 256 (table 11-6). */
Test(lapic, map, .init = init_enabled)
{
	static const struct {
		uint32_t first, last;
		const char *access;
	} map[] = {
		{ID, VERSION, "r"},	{TPR, TPR, "rw"},	{PPR, PPR, "r"},
		{EOI, EOI, "w"},	{LDR, LDR, "r"},	{SVR, SVR, "rw"},
		{ISR, ESR - 1, "r"},	{ESR, ESR, "rw"},	{CMCI, CMCI, "rw"},
		{ICR, ICR, "rw"},	{TIMER, INITIAL, "rw"}, {CURRENT, CURRENT, "r"},
		{DIVIDE, DIVIDE, "rw"}, {SELF, SELF, "w"},
	};

	for (uint32_t msr = 0x800; msr < 0x900; msr++) {
		const char *access = "";
		uint64_t x;

		for (size_t i = 0; i < sizeof(map) / sizeof(map[0]); i++)
			if (msr >= map[i].first && msr <= map[i].last)
				access = map[i].access;
		cr_assert_eq(lapic_rdmsr(&l, msr, &x), strchr(access, 'r') ? 0 : -EFAULT, "%#x",
			     msr);
		if (strchr(access, 'w'))
			wr(msr, msr == SVR ? 0x1ff : 0);
		else
			wr_gp(msr, 0);
		/* Bits 63:32 are reserved but in the ICR. */
		if (msr != ICR)
			wr_gp(msr, 1ull << 32);
	}
	cr_assert_eq(lapic_wrmsr(&l, 0x7ff, 0), -ENOENT);
	cr_assert_eq(lapic_wrmsr(&l, 0x900, 0), -ENOENT);
	cr_assert_eq(lapic_rdmsr(&l, 0x7ff, &(uint64_t){0}), -ENOENT);
	cr_assert_eq(lapic_rdmsr(&l, 0x900, &(uint64_t){0}), -ENOENT);
}

/* Each bit of each register: writable, or #GP. */
Test(lapic, reserved_bits, .init = init_enabled)
{
	static const struct {
		uint32_t msr;
		uint64_t ok, kept; /* bits that may be written; of these, bits that read back */
	} rows[] = {
		{TPR, 0xff, 0xff},
		{EOI, 0, 0},
		{SVR, 0x1ff, 0x1ff},
		{ESR, 0, 0},
		{CMCI, 0x117ff, 0x107ff},
		{ICR, 0xffffffff000cdfff, 0xffffffff000ccfff},
		{TIMER, 0x310ff, 0x300ff},
		{THERMAL, 0x117ff, 0x107ff},
		{LVTPC, 0x117ff, 0x107ff},
		{LINT0, 0x1f7ff, 0x1a7ff},
		{LINT1, 0x1f7ff, 0x1a7ff},
		{LVTERR, 0x110ff, 0x100ff},
		{INITIAL, 0xffffffff, 0xffffffff},
		{DIVIDE, 0xb, 0xb},
		{SELF, 0xff, 0},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		for (unsigned int bit = 0; bit < 64; bit++) {
			uint64_t x = 1ull << bit, got;

			if (!(rows[i].ok & x)) {
				wr_gp(rows[i].msr, x);
				continue;
			}
			/* SVR bit 8 keeps LVT entries writable. */
			if (rows[i].msr == SVR)
				x |= 0x100;
			wr(rows[i].msr, x);
			if (!lapic_rdmsr(&l, rows[i].msr, &got))
				cr_assert_eq(got, x & rows[i].kept, "%#x bit %u", rows[i].msr, bit);
		}
	}
}

/* Disabled by software: entries are masked and stay so, fixed interrupts are dropped. */
Test(lapic, software_disable, .init = init)
{
	wr(LVTPC, NMI);
	cr_assert_eq(rd(LVTPC), NMI | MASKED);
	wr(SELF, 0x40);
	cr_assert_not(waits());
	wr(SVR, 0x1ff);
	cr_assert_eq(rd(LVTPC), NMI | MASKED, "enabling unmasks nothing");
	wr(LVTPC, NMI);
	cr_assert_eq(rd(LVTPC), NMI);
	wr(SELF, 0x40);
	wr(SVR, 0xff);
	cr_assert_eq(rd(LVTPC), NMI | MASKED);
	/* What waits already is held. */
	cr_assert_eq(next(), 0x40);
}

Test(lapic, pmi_nmi, .init = init_enabled)
{
	lapic_pmi(&l, true);
	inject();
	cr_assert_not(cpu.nmi, "the entry is masked");
	wr(LVTPC, NMI);
	lapic_pmi(&l, false);
	cr_assert(waits());
	cr_assert_eq(rd(LVTPC), NMI, "AMD: not masked by delivery");
	inject();
	cr_assert(cpu.nmi);
	cr_assert_not(waits());
	/* A second one waits while the CPU holds one; a third is the second. */
	lapic_pmi(&l, false);
	lapic_pmi(&l, false);
	inject();
	cr_assert(waits());
	cpu.nmi = false;
	inject();
	cr_assert(cpu.nmi);
	cpu.nmi = false;
	inject();
	cr_assert_not(cpu.nmi);
}

Test(lapic, automask, .init = init_enabled)
{
	wr(LVTPC, NMI);
	lapic_pmi(&l, true);
	cr_assert_eq(rd(LVTPC), NMI | MASKED);
	inject();
	cr_assert(cpu.nmi, "delivered all the same");
	cpu.nmi = false;
	lapic_pmi(&l, true);
	inject();
	cr_assert_not(cpu.nmi);
	wr(LVTPC, NMI);
	lapic_pmi(&l, true);
	inject();
	cr_assert(cpu.nmi);
	/* The same for fixed delivery, and nothing is masked by a PMI that is not delivered. */
	wr(LVTPC, 0x50);
	lapic_pmi(&l, true);
	cr_assert_eq(rd(LVTPC), 0x50 | MASKED);
	wr(LVTPC, 0x60 | MASKED);
	lapic_pmi(&l, true);
	cr_assert_eq(rd(LVTPC), 0x60 | MASKED);
	cr_assert_eq(rd(IRR + 2), 1u << 16);
	cr_assert_eq(rd(IRR + 3), 0);
}

/* Delivery modes this entry does not have deliver nothing. */
Test(lapic, pmi_other_modes, .init = init_enabled)
{
	for (uint64_t mode = 1; mode < 8; mode++) {
		if (mode == 4)
			continue;
		wr(LVTPC, mode << 8 | 0x40);
		lapic_pmi(&l, false);
		cr_assert_not(waits(), "mode %lu", (unsigned long)mode);
	}
}

Test(lapic, pmi_fixed, .init = init_enabled)
{
	wr(LVTPC, 0x41);
	lapic_pmi(&l, false);
	cr_assert_eq(rd(IRR + 2), 2);
	inject();
	cr_assert_eq(cpu.vector, 0x41);
	cr_assert_eq(rd(IRR + 2), 2, "in IRR until taken");
	cr_assert_eq(rd(ISR + 2), 0);
	/* Not taken yet (IF = 0): still waiting. */
	inject();
	cr_assert_eq(cpu.vector, 0x41);
	cr_assert(waits());
	cr_assert_eq(take(), 0x41);
	cr_assert_eq(rd(IRR + 2), 0);
	cr_assert_eq(rd(ISR + 2), 2);
	cr_assert_eq(rd(PPR), 0x40);
	cr_assert_not(waits());
	wr(EOI, 0);
	cr_assert_eq(rd(ISR + 2), 0);
	cr_assert_eq(rd(PPR), 0);
	wr(EOI, 0); /* with nothing in service: no effect */
}

Test(lapic, illegal_vectors, .init = init_enabled)
{
	for (uint64_t vector = 0; vector < 16; vector++) {
		wr(LVTPC, vector);
		lapic_pmi(&l, false);
		cr_assert_not(waits());
		cr_assert_eq(rd(ESR), 0, "shown when written only");
		cr_assert_eq(esr(), 0x40, "receive illegal vector");
		wr(SELF, vector);
		cr_assert_eq(esr(), 0x60, "send and receive");
		wr(ICR, 7ull << 32 | vector); /* to somebody else */
		cr_assert_eq(esr(), 0x20, "send");
		cr_assert_eq(esr(), 0);
	}
	wr(LVTPC, 16);
	lapic_pmi(&l, false);
	cr_assert_eq(rd(IRR), 1u << 16);
}

Test(lapic, error_interrupt, .init = init_enabled)
{
	wr(LVTERR, 0xfe);
	wr(SELF, 3);
	cr_assert_eq(rd(IRR + 7), 1u << 30);
	cr_assert_eq(next(), 0xfe);
	wr(EOI, 0);
	/* Its own vector illegal: noted, and no more. */
	wr(LVTERR, 3);
	wr(ICR, 7ull << 32 | 3);
	cr_assert_eq(esr(), 0x60);
	cr_assert_not(waits());
}

Test(lapic, priorities, .init = init_enabled)
{
	wr(SELF, 0x35);
	inject();
	/* A higher one comes before the first was taken: it goes first. */
	wr(SELF, 0x81);
	inject();
	cr_assert_eq(cpu.vector, 0x81);
	cr_assert_eq(take(), 0x81);
	/* Below and at the class in service: nothing is offered; above it is. */
	wr(SELF, 0x8f);
	cr_assert_eq(next(), -1);
	wr(SELF, 0x90);
	cr_assert_eq(next(), 0x90);
	cr_assert_eq(rd(PPR), 0x90);
	/* EOI ends the highest in service. */
	wr(EOI, 0);
	cr_assert_eq(rd(ISR + 4), 2u);
	cr_assert_eq(next(), -1);
	wr(EOI, 0);
	cr_assert_eq(next(), 0x8f);
	wr(EOI, 0);
	cr_assert_eq(next(), 0x35);
	wr(EOI, 0);
	cr_assert_eq(next(), -1);
	cr_assert_not(waits());
}

Test(lapic, tpr_and_ppr, .init = init_enabled)
{
	wr(TPR, 0x37);
	cr_assert_eq(rd(PPR), 0x37);
	wr(SELF, 0x52);
	cr_assert_eq(next(), 0x52);
	cr_assert_eq(rd(PPR), 0x50);
	wr(TPR, 0x5a);
	cr_assert_eq(rd(PPR), 0x5a);
	wr(TPR, 0xff);
	cr_assert_eq(rd(PPR), 0xff);
	/* TPR itself is held against the vector by the CPU, which has it as CR8. */
	wr(SELF, 0x61);
	inject();
	cr_assert_eq(cpu.vector, 0x61);
}

Test(lapic, every_vector, .init = init_enabled)
{
	for (unsigned int vector = 16; vector < 256; vector++) {
		wr(SELF, vector);
		for (uint32_t i = 0; i < 8; i++)
			cr_assert_eq(rd(IRR + i), i == vector / 32 ? 1u << vector % 32 : 0);
		cr_assert_eq(next(), (int)vector);
		for (uint32_t i = 0; i < 8; i++)
			cr_assert_eq(rd(ISR + i), i == vector / 32 ? 1u << vector % 32 : 0);
		wr(EOI, 0);
	}
	cr_assert_not(waits());
}

Test(lapic, ipis)
{
	static const struct {
		int line;
		uint64_t icr;
		bool vector, nmi; /* its interrupt at APIC 18 */
	} rows[] = {
		{__LINE__, 0x40040, true, false},	     /* self */
		{__LINE__, 0x80040, true, false},	     /* all */
		{__LINE__, 0xc0040, false, false},	     /* all but self */
		{__LINE__, 18ull << 32 | 0x40, true, false}, /* physical */
		{__LINE__, 17ull << 32 | 0x40, false, false},
		{__LINE__, 0xffffffffull << 32 | 0x40, true, false}, /* broadcast */
		{__LINE__, 0x10004ull << 32 | 0x840, true, false},   /* logical */
		{__LINE__, 0x1000full << 32 | 0x840, true, false},
		{__LINE__, 0x10008ull << 32 | 0x840, false, false},
		{__LINE__, 0x20004ull << 32 | 0x840, false, false},
		{__LINE__, 0xffffffffull << 32 | 0x840, true, false},
		{__LINE__, 18ull << 32 | 0x440, false, true}, /* NMI */
		{__LINE__, 0x80400, false, true},
		{__LINE__, 0x40400, false, false}, /* not with that shorthand */
		{__LINE__, 17ull << 32 | 0x440, false, false},
		{__LINE__, 18ull << 32 | 0x240, false, false}, /* SMI */
		{__LINE__, 18ull << 32 | 0x540, false, false}, /* INIT */
		{__LINE__, 18ull << 32 | 0x640, false, false}, /* SIPI */
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		cpu.vector = -1;
		cpu.nmi = false;
		lapic_init(&l, 18);
		cr_assert_eq(rd(ID), 18);
		cr_assert_eq(rd(LDR), 0x10004);
		wr(SVR, 0x1ff);
		wr(ICR, rows[i].icr);
		cr_assert_eq(rd(ICR), rows[i].icr);
		inject();
		cr_assert_eq(cpu.vector, rows[i].vector ? 0x40 : -1, "line %d", rows[i].line);
		cr_assert_eq(cpu.nmi, rows[i].nmi, "line %d", rows[i].line);
		cr_assert_eq(esr(), 0, "line %d", rows[i].line);
	}
	/* Lowest priority is not supported: only that is reported, even with an illegal vector. */
	wr(ICR, 18ull << 32 | 0x103);
	cr_assert_eq(esr(), 0x10);
}

/* ---- snapshots ---- */

static int load(const struct vpmu_blob *b, struct lapic *to)
{
	struct vpmu_blob_reader r = {.data = b->data, .len = b->len};
	int ret = lapic_load(to, &r);

	if (!ret)
		cr_assert(vpmu_blob_done(&r));
	return ret;
}

static void busy(void)
{
	init_enabled();
	wr(LVTPC, 0x77);
	wr(TPR, 0x12);
	wr(LVTERR, 0x22 | MASKED);
	wr(SELF, 3);
	wr(ESR, 0);
	wr(SELF, 0x91);
	inject();
	take();
	wr(ICR, 18ull << 32 | 0x240);
	wr(INITIAL, 12345);
	wr(DIVIDE, 0xb);
	wr(SELF, 0xa0);
	lapic_pmi(&l, true);
	l.nmi = true;
	inject();
	l.nmi = true;
}

Test(lapic, save_and_load, .init = busy)
{
	struct vpmu_blob b = {0};
	struct lapic n;

	lapic_save(&l, &b);
	cr_assert_not(b.failed);
	lapic_init(&n, 0);
	cr_assert_eq(load(&b, &n), 0);
	cr_assert_eq(memcmp(&n, &l, sizeof(n)), 0);
	/* Of another vCPU. */
	lapic_init(&n, 1);
	cr_assert_eq(load(&b, &n), -EINVAL);
	vpmu_blob_fini(&b);
}

static bool same_bytes(const struct vpmu_blob *a, const struct vpmu_blob *b)
{
	return a->len == b->len && !memcmp(a->data, b->data, a->len);
}

/* Every byte changed in every way, every length: refused, or a state that saves as it was read. */
Test(lapic, hostile_snapshots, .init = busy)
{
	struct lapic n, zero;
	struct vpmu_blob b = {0};
	unsigned int refused = 0, loaded = 0;

	lapic_save(&l, &b);
	lapic_init(&zero, 0);
	for (size_t i = 0; i < b.len; i++) {
		uint8_t was = b.data[i];

		for (unsigned int x = 0; x < 256; x++) {
			b.data[i] = (uint8_t)x;
			n = zero;
			if (load(&b, &n)) {
				cr_assert_eq(memcmp(&n, &zero, sizeof(n)), 0);
				refused++;
			} else {
				struct vpmu_blob again = {0};

				lapic_save(&n, &again);
				cr_assert(same_bytes(&again, &b), "byte %zu = %#x", i, x);
				vpmu_blob_fini(&again);
				cr_assert_eq(n.irr[0] & 0xffff, 0);
				cr_assert_eq(n.isr[0] & 0xffff, 0);
				loaded++;
			}
		}
		b.data[i] = was;
	}
	cr_assert_gt(refused, 1000);
	cr_assert_gt(loaded, 1000);
	for (size_t len = 0; len < b.len; len++) {
		struct vpmu_blob part = {.data = b.data, .len = len};

		n = zero;
		cr_assert_eq(load(&part, &n), -EINVAL);
		cr_assert_eq(memcmp(&n, &zero, sizeof(n)), 0);
	}
	vpmu_blob_fini(&b);
}

/* ---- whatever a guest does ---- */

static uint64_t rng = 1;

/* Values that are valid often enough. */
static uint64_t draw_value(void)
{
	uint64_t x = random_shift(&rng);

	switch (random_shift(&rng) % 4) {
	case 0:
		return 0;
	case 1:
		return x & 0xff;
	case 2:
		return x & 0x1ffff;
	default:
		return x;
	}
}

static unsigned int top(uint32_t first)
{
	for (int i = 7; i >= 0; i--) {
		uint32_t x = (uint32_t)rd(first + (uint32_t)i);

		for (int bit = 31; bit >= 0; bit--)
			if (x >> bit & 1)
				return (unsigned int)(i * 32 + bit);
	}
	return 0;
}

/* The highest that waits above the class in service is delivered; a refusal changes
 * nothing; and every state that can be reached can be saved and loaded. */
Test(lapic, random, .init = init_enabled)
{
	unsigned int taken = 0, nmis = 0, faults = 0;

	for (int n = 0; n < 300000; n++) {
		uint32_t msr = 0x800 + random_shift(&rng) % 0x40;
		uint64_t x = draw_value();
		unsigned int irr, isr;
		struct lapic before;
		int vector;

		switch (random_shift(&rng) % 8) {
		case 0:
			msr = LVTPC;
			x = random_shift(&rng) & 0x107ff;
			/* fall through */
		case 1 ... 3:
			before = l;
			if (lapic_wrmsr(&l, msr, x)) {
				faults++;
				cr_assert_eq(memcmp(&before, &l, sizeof(l)), 0);
			}
			inject();
			break;
		case 4:
			lapic_pmi(&l, x & 1);
			inject();
			break;
		case 5:
			wr(SVR, 0x1ff);
			wr(EOI, 0);
			inject();
			break;
		default:
			irr = top(IRR);
			isr = top(ISR);
			nmis += cpu.nmi;
			cpu.nmi = false;
			vector = x & 1 ? take() : -1;
			if (vector < 0)
				break;
			taken++;
			cr_assert_eq(vector, (int)irr);
			cr_assert_gt(irr >> 4, isr >> 4);
			cr_assert_eq(top(ISR), irr);
			inject();
			break;
		}
		cr_assert_eq((l.irr[0] | l.isr[0]) & 0xffff, 0);
		if (n % 64 == 0) {
			struct vpmu_blob b = {0};
			struct lapic same;

			lapic_save(&l, &b);
			lapic_init(&same, 0);
			cr_assert_eq(load(&b, &same), 0, "step %d", n);
			cr_assert_eq(memcmp(&same, &l, sizeof(l)), 0);
			vpmu_blob_fini(&b);
		}
	}
	/* It did happen. */
	cr_assert_gt(taken, 1000);
	cr_assert_gt(nmis, 100);
	cr_assert_gt(faults, 10000);
}
