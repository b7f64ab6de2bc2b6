// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * What guest counters count: value = (written + events) mod 2^48, exactly, through anything the
 * guest and the scheduler do; overflow bits; what the host cannot do and how the guest is told.
 */
#include <criterion/criterion.h>
#include <errno.h>

#include "guest_bed.h"

#define USR  (1u << 16)
#define OS   (1u << 17)
#define EDGE (1u << 18)
#define INT  (1u << 20)
#define EN   (1u << 22)
#define INV  (1u << 23)
#define BOTH (USR | OS)
#define W48  0xffffffffffffULL

#define INSTR  0xc0u
#define CYCLES 0x3cu
#define BRANCH 0xc4u
#define TAKEN  0x20c4u
#define LOADS  0x81d0u
#define STORES 0x82d0u
#define MISSES 0xc5u /* the soft host has none */

static struct bed b;

static uint64_t rd(uint32_t msr)
{
	uint64_t val = 0;
	int ret = vpmu_guest_rdmsr(b.g, msr, &val);

	cr_assert_eq(ret, 0, "RDMSR %x: %d", msr, ret);
	return val;
}

static void wr(uint32_t msr, uint64_t val)
{
	int ret = vpmu_guest_wrmsr(b.g, msr, val);

	cr_assert_eq(ret, 0, "WRMSR(%x, %llx): %d", msr, (unsigned long long)val, ret);
}

static uint64_t pmc(uint32_t ecx)
{
	uint64_t val = 0;

	cr_assert_eq(vpmu_guest_rdpmc(b.g, ecx, &val), 0);
	return val;
}

#define PV_EN(i)  rd(VPMU_PV_MSR_BASE + 4 * (i))
#define PV_RUN(i) rd(VPMU_PV_MSR_BASE + 4 * (i) + 1)
#define PV_Q(i)	  rd(VPMU_PV_MSR_BASE + 4 * (i) + 2)

static void start_on(enum vpmu_guest_model model, unsigned int gp, unsigned int fixed,
		     const struct vpmu_softpmu_opts *soft)
{
	struct vpmu_guest_cfg cfg = {.model = model, .gp = gp, .fixed = fixed};

	cr_assert_eq(bed_init(&b, &cfg, soft), 0);
	bed_enter(&b, 0);
}

static void start(enum vpmu_guest_model model)
{
	start_on(model, 0, 0, NULL);
}

/* The guest runs @n user and @m kernel instructions, with some of everything else. */
static void work(uint64_t n, uint64_t m)
{
	bed_exec(&b, VPMU_SOFT_USR, VPMU_SOFT_INSTRUCTIONS, n);
	bed_exec(&b, VPMU_SOFT_OS, VPMU_SOFT_INSTRUCTIONS, m);
	bed_exec(&b, VPMU_SOFT_USR, VPMU_SOFT_BRANCHES, n / 2);
	bed_exec(&b, VPMU_SOFT_OS, VPMU_SOFT_BRANCHES, m / 2);
	bed_exec(&b, VPMU_SOFT_USR, VPMU_SOFT_CYCLES, 3 * n);
	bed_exec(&b, VPMU_SOFT_OS, VPMU_SOFT_CYCLES, 3 * m);
	bed_exec(&b, VPMU_SOFT_USR, VPMU_SOFT_REF_CYCLES, 2 * n);
	bed_exec(&b, VPMU_SOFT_OS, VPMU_SOFT_REF_CYCLES, 2 * m);
	/* the hypervisor's own work is never the guest's */
	bed_exec(&b, VPMU_SOFT_HOST, VPMU_SOFT_INSTRUCTIONS, 1000003);
}

/* I1 at the end of every test: nothing was lost or invented on the way. */
static int conserved(const struct vpmu_conservation *c, void *arg)
{
	cr_assert_eq(c->hardware, c->charged, "pcpu %u key %llx: hardware %llu, charged %llu",
		     c->pcpu, (unsigned long long)c->key, (unsigned long long)c->hardware,
		     (unsigned long long)c->charged);
	return 0;
}

static void finish(void)
{
	cr_assert_eq(vpmu_host_conservation(b.host, conserved, NULL), 0);
	bed_fini(&b);
}

/* ---- privilege, enables, writes ---- */

static const struct {
	int line;
	uint64_t sel;
	uint64_t usr, os; /* weight of a user and a kernel instruction */
} priv_rows[] = {
	{__LINE__, INSTR | USR | EN, 1, 0},
	{__LINE__, INSTR | OS | EN, 0, 1},
	{__LINE__, INSTR | BOTH | EN, 1, 1},
	{__LINE__, INSTR | EN, 0, 0},
	{__LINE__, INSTR | BOTH, 0, 0},
	{__LINE__, CYCLES | USR | EN, 3, 0},
	{__LINE__, INSTR | BOTH | EN | INT, 1, 1},
	{__LINE__, CYCLES | BOTH | EN | INV, 3, 3},
};

Test(guest_count, privilege)
{
	for (unsigned int k = 0; k < sizeof(priv_rows) / sizeof(priv_rows[0]); k++) {
		uint64_t want = 1000 * priv_rows[k].usr + 77 * priv_rows[k].os;

		start(VPMU_GUEST_INTEL_V2);
		wr(0x186, priv_rows[k].sel);
		work(1000, 77);
		cr_assert_eq(rd(0xc1), want, "line %d: %llu", priv_rows[k].line,
			     (unsigned long long)rd(0xc1));
		cr_assert_eq(pmc(0), want, "line %d", priv_rows[k].line);
		finish();
	}
}

Test(guest_count, fixed_privilege)
{
	/* counter n: instructions, cycles (x3), ref-cycles (x2); control 1 = OS, 2 = USR */
	start(VPMU_GUEST_INTEL_V5);
	for (unsigned int ctrl = 0; ctrl < 4; ctrl++) {
		uint64_t n = (ctrl & 2 ? 1000 : 0) + (ctrl & 1 ? 77 : 0);

		wr(0x38d, 0x111 * ctrl);
		for (unsigned int i = 0; i < 3; i++)
			wr(0x309 + i, 0);
		wr(0x38f, 7ULL << 32);
		work(1000, 77);
		wr(0x38f, 0);
		work(5000, 5000);
		cr_assert_eq(rd(0x309), n);
		cr_assert_eq(rd(0x30a), 3 * n);
		cr_assert_eq(rd(0x30b), 2 * n);
		cr_assert_eq(pmc(0x40000001), 3 * n);
	}
	finish();
}

Test(guest_count, global_and_local_enable)
{
	start(VPMU_GUEST_INTEL_V5);
	wr(0x38f, 0);
	wr(0x186, INSTR | BOTH | EN);
	wr(0x189, BRANCH | BOTH | EN);
	wr(0x38d, 0x3);
	work(10, 0);
	cr_assert_eq(rd(0xc1), 0);
	wr(0x38f, 1ULL << 32 | 9);
	work(100, 0);
	wr(0x38f, 8);
	work(1000, 0);
	wr(0x189, BRANCH | BOTH); /* local off */
	work(10000, 0);
	wr(0x38f, 9);
	wr(0x189, BRANCH | BOTH | EN);
	work(100000, 0);
	cr_assert_eq(rd(0xc1), 100100);
	cr_assert_eq(rd(0xc4), 50 + 500 + 50000);
	cr_assert_eq(rd(0x309), 100);
	finish();
}

/* Power-up: GP counters are enabled globally, fixed ones are not. */
Test(guest_count, version_1_software)
{
	start(VPMU_GUEST_INTEL_V2);
	wr(0x186, INSTR | BOTH | EN);
	wr(0x38d, 0x3);
	work(10, 0);
	cr_assert_eq(rd(0xc1), 10);
	cr_assert_eq(rd(0x309), 0);
	finish();

	start(VPMU_GUEST_AMD_V2);
	wr(0xc0010003, 0xc0 | BOTH | EN); /* K7 software */
	work(10, 0);
	cr_assert_eq(rd(0xc0010007), 10);
	finish();
}

Test(guest_count, write_while_counting)
{
	start(VPMU_GUEST_INTEL_V2);
	wr(0x186, INSTR | USR | EN);
	work(500, 0);
	wr(0xc1, 7);
	work(20, 0);
	cr_assert_eq(rd(0xc1), 27);
	wr(0xc1, 0xffffffffu); /* sign-extended: -1 */
	cr_assert_eq(rd(0xc1), W48);
	wr(0x4c1, 0x1234567890);
	work(1, 0);
	cr_assert_eq(rd(0xc1), 0x1234567891);
	work(1, 0);
	cr_assert_eq(pmc(0), 0x1234567892);
	finish();
}

Test(guest_count, event_change)
{
	start(VPMU_GUEST_INTEL_V2);
	wr(0x186, INSTR | USR | EN);
	work(100, 0);
	wr(0x186, CYCLES | USR | EN); /* the value stays and goes on with cycles */
	work(10, 0);
	wr(0x186, INSTR | OS | EN);
	work(100, 5);
	wr(0x186, INSTR | USR | EN); /* back to a key that was there before */
	work(1, 0);
	wr(0x186, 0);
	work(1000, 1000);
	cr_assert_eq(rd(0xc1), 100 + 30 + 5 + 1);
	finish();
}

Test(guest_count, amd_events)
{
	static const struct {
		uint64_t sel;
		enum vpmu_soft_event ev;
	} e[] = {
		{0xc0, VPMU_SOFT_INSTRUCTIONS}, {0x76, VPMU_SOFT_CYCLES},
		{0xc2, VPMU_SOFT_BRANCHES},	{0xc4, VPMU_SOFT_BRANCHES_TAKEN},
		{0x129, VPMU_SOFT_LOADS},	{0x229, VPMU_SOFT_STORES},
	};

	start(VPMU_GUEST_AMD_V2);
	for (uint32_t i = 0; i < 6; i++)
		wr(0xc0010200 + 2 * i, e[i].sel | USR | EN | 1ULL << 41); /* HostOnly: ignored */
	for (uint32_t i = 0; i < 6; i++)
		bed_exec(&b, VPMU_SOFT_USR, e[i].ev, 1000 + i);
	for (uint32_t i = 0; i < 6; i++) {
		cr_assert_eq(rd(0xc0010201 + 2 * i), 1000 + i, "event %llx",
			     (unsigned long long)e[i].sel);
		cr_assert_eq(pmc(i), 1000 + i);
	}
	wr(0xc0000301, 0x3e);
	bed_exec(&b, VPMU_SOFT_USR, VPMU_SOFT_INSTRUCTIONS, 5);
	cr_assert_eq(pmc(0), 1000);
	/* event 1C0H: bit 32 is part of the event, so this is something else */
	wr(0xc0010200, 0xc0 | 1ULL << 32 | USR | EN);
	wr(0xc0000301, 0x3f);
	bed_exec(&b, VPMU_SOFT_USR, VPMU_SOFT_INSTRUCTIONS, 5);
	cr_assert_eq(pmc(0), 1000);
	cr_assert_eq(PV_Q(0), VPMU_PV_UNSUPPORTED);
	finish();
}

/* ---- overflow ---- */

struct ovf {
	enum vpmu_guest_model model;
	uint32_t sel, ctr, ctr_fw, status, clr;
	uint64_t event;
};

static const struct ovf ovf_models[] = {
	{VPMU_GUEST_INTEL_V2, 0x187, 0xc2, 0x4c2, 0x38e, 0x390, INSTR},
	{VPMU_GUEST_INTEL_V5, 0x187, 0xc2, 0x4c2, 0x38e, 0x390, INSTR},
	{VPMU_GUEST_AMD_V2, 0xc0010202, 0xc0010203, 0xc0010203, 0xc0000300, 0xc0000302, 0xc0},
};

Test(guest_count, overflow_exact)
{
	for (unsigned int k = 0; k < 3; k++) {
		const struct ovf *o = &ovf_models[k];

		start(o->model);
		wr(o->sel, o->event | USR | EN | INT);
		wr(o->ctr_fw, W48 - 99);
		work(99, 0);
		cr_assert_eq(rd(o->status), 0, "one too early");
		cr_assert_eq(rd(o->ctr), W48);
		work(1, 0);
		cr_assert_eq(rd(o->status), 2);
		cr_assert_eq(rd(o->ctr), 0);
		work(5, 0);
		cr_assert_eq(rd(o->status), 2, "the bit is sticky");
		cr_assert_eq(rd(o->ctr), 5);
		wr(o->clr, 2);
		cr_assert_eq(rd(o->status), 0);
		work(5, 0);
		cr_assert_eq(rd(o->status), 0);
		finish();
	}
}

/* The bit belongs to the moment of the wrap, whatever is looked at first afterwards. */
Test(guest_count, overflow_seen_by_any_look)
{
	for (unsigned int look = 0; look < 9; look++) {
		start(VPMU_GUEST_INTEL_V5);
		wr(0x186, INSTR | USR | EN);
		wr(0xc1, -10);
		work(25, 0);
		switch (look) {
		case 0:
			cr_assert_eq(rd(0xc1), 15);
			break;
		case 1:
			cr_assert_eq(pmc(0), 15);
			break;
		case 2:
			wr(0xc1, 0); /* the wrap came before the write */
			break;
		case 3:
			wr(0x186, 0);
			break;
		case 4:
			wr(0x38f, 0);
			break;
		case 5:
			wr(0x186, CYCLES | USR | EN);
			break;
		case 6:
			bed_enter(&b, 1);
			break;
		case 7:
			bed_unplace(&b);
			break;
		default:
			cr_assert_eq(PV_Q(0), VPMU_Q_EXACT);
			break;
		}
		cr_assert_eq(rd(0x38e), 1, "look %u", look);
		wr(0x390, 1);
		cr_assert_eq(rd(0x38e), 0, "look %u: the bit came back", look);
		finish();
	}
}

/* Clearing takes with it what happened until then, not what happens later. */
Test(guest_count, overflow_clear_is_a_moment)
{
	start(VPMU_GUEST_INTEL_V2);
	wr(0x186, INSTR | USR | EN);
	wr(0x38d, 0x2);
	wr(0x38f, 1ULL << 32 | 1);
	wr(0xc1, -1);
	wr(0x309, W48);
	work(1, 0);
	wr(0x390, 1); /* nobody has looked yet; bit 32 is not cleared */
	cr_assert_eq(rd(0x38e), 1ULL << 32);
	wr(0xc1, -1);
	work(1, 0);
	cr_assert_eq(rd(0x38e), 1ULL << 32 | 1);
	finish();
}

Test(guest_count, overflow_more_than_once)
{
	start(VPMU_GUEST_INTEL_V2);
	wr(0x186, CYCLES | USR | EN);
	for (int i = 0; i < 5; i++) {
		wr(0x4c1, W48 - 1);
		bed_exec(&b, VPMU_SOFT_USR, VPMU_SOFT_CYCLES, W48 - 5);
		cr_assert_eq(rd(0xc1), (W48 - 1 + W48 - 5) & W48);
		cr_assert_eq(rd(0x38e), 1);
		wr(0x390, 1);
		cr_assert_eq(rd(0x38e), 0);
	}
	finish();
}

/* Two counters of the same event, one near its end: only that one overflows. */
Test(guest_count, overflow_is_the_counters_own)
{
	start(VPMU_GUEST_INTEL_V5);
	for (uint32_t i = 0; i < 8; i++) {
		wr(0x186 + i, INSTR | USR | EN);
		wr(0x4c1 + i, W48 - 10 * i);
	}
	work(35, 0);
	cr_assert_eq(rd(0x38e), 0x0f);
	for (uint32_t i = 0; i < 8; i++)
		cr_assert_eq(rd(0xc1 + i), (W48 - 10 * i + 35) & W48);
	finish();
}

/* CTR_Frz is a control, too: nothing counts while it is set (SDM vol. 3 20.2.4). */
Test(guest_count, freeze_bit)
{
	start(VPMU_GUEST_INTEL_V5);
	wr(0x186, INSTR | USR | EN);
	wr(0x38d, 0x2);
	wr(0x38f, 1ULL << 32 | 1);
	work(10, 0);
	wr(0x391, 1ULL << 59);
	work(100, 0);
	wr(0x187, INSTR | USR | EN);
	wr(0x38f, 1ULL << 32 | 3);
	work(100, 0);
	cr_assert_eq(rd(0x38e), 1ULL << 59);
	cr_assert_eq(rd(0xc1), 10);
	cr_assert_eq(rd(0x309), 10);
	wr(0x390, 1ULL << 59);
	work(1000, 0);
	cr_assert_eq(rd(0xc1), 1010);
	cr_assert_eq(rd(0xc2), 1000);
	cr_assert_eq(rd(0x309), 1010);
	finish();
}

/* ---- placement ---- */

Test(guest_count, migration)
{
	uint64_t want = 0;

	start(VPMU_GUEST_INTEL_V2);
	wr(0x186, INSTR | BOTH | EN);
	for (uint64_t i = 0; i < 50; i++) {
		bed_enter(&b, (int)(i & 1));
		work(i * 7, i);
		want += i * 8;
		if (i % 5 == 0) {
			bed_leave(&b);
			/* somebody else runs there now */
			b.sp[i & 1].tally->ev[VPMU_SOFT_USR][VPMU_SOFT_INSTRUCTIONS] += 999;
			bed_enter(&b, (int)(i & 1));
		}
		if (i % 3 == 0)
			cr_assert_eq(rd(0xc1), want);
	}
	cr_assert_eq(pmc(0), want);
	finish();
}

/* Registers work before the vCPU is placed; what they say starts with the placement. */
Test(guest_count, not_placed_yet)
{
	struct vpmu_guest_cfg cfg = {.model = VPMU_GUEST_INTEL_V2};

	cr_assert_eq(bed_init(&b, &cfg, NULL), 0);
	wr(0x186, INSTR | USR | EN);
	wr(0xc1, 100);
	wr(0x38d, 0x2);
	wr(0x38f, 1ULL << 32 | 1);
	cr_assert_eq(rd(0xc1), 100);
	cr_assert_eq(rd(0x186), INSTR | USR | EN);
	bed_enter(&b, 1);
	work(11, 0);
	cr_assert_eq(rd(0xc1), 111);
	cr_assert_eq(rd(0x309), 11);
	bed_unplace(&b);
	cr_assert_eq(rd(0xc1), 111);
	wr(0x186, CYCLES | USR | EN);
	wr(0x309, 5);
	bed_enter(&b, 0);
	work(1, 0);
	cr_assert_eq(rd(0xc1), 114);
	cr_assert_eq(rd(0x309), 6);
	bed_unplace(&b);
	vpmu_guest_reset(b.g, false);
	bed_enter(&b, 0);
	work(1, 0);
	cr_assert_eq(rd(0xc1), 0);
	finish();
}

/* Registers of a vCPU that is placed but switched out. */
Test(guest_count, switched_out)
{
	start(VPMU_GUEST_INTEL_V2);
	wr(0x186, INSTR | USR | EN);
	work(10, 0);
	vpmu_pcpu_switch(b.pcpu[0], NULL);
	b.sp[0].tally->ev[VPMU_SOFT_USR][VPMU_SOFT_INSTRUCTIONS] += 12345; /* another guest */
	cr_assert_eq(rd(0xc1), 10);
	wr(0x187, BRANCH | USR | EN);
	wr(0xc1, 50);
	b.sp[0].tally->ev[VPMU_SOFT_USR][VPMU_SOFT_INSTRUCTIONS] += 12345;
	b.sp[0].tally->ev[VPMU_SOFT_USR][VPMU_SOFT_BRANCHES] += 12345;
	cr_assert_eq(rd(0xc1), 50);
	cr_assert_eq(rd(0xc2), 0);
	vpmu_pcpu_switch(b.pcpu[0], &b.ctx);
	work(4, 0);
	cr_assert_eq(rd(0xc1), 54);
	cr_assert_eq(rd(0xc2), 2);
	finish();
}

Test(guest_count, reset_and_init)
{
	start(VPMU_GUEST_INTEL_V5);
	wr(0x186, INSTR | USR | EN);
	work(10, 0);
	vpmu_guest_reset(b.g, true); /* INIT: goes on counting */
	work(10, 0);
	cr_assert_eq(rd(0xc1), 20);
	wr(0xc1, -5);
	work(10, 0);
	vpmu_guest_reset(b.g, false);
	cr_assert_eq(rd(0x38e), 0, "an overflow from before the reset shows after it");
	work(10, 0);
	cr_assert_eq(rd(0xc1), 0);
	wr(0x186, INSTR | USR | EN);
	work(3, 0);
	cr_assert_eq(rd(0xc1), 3);
	finish();
}

/* ---- sharing and what the host cannot do ---- */

/* All guest counters of one event are one host counter. */
Test(guest_count, one_key_one_counter)
{
	struct vpmu_sharing s;

	start(VPMU_GUEST_INTEL_V5);
	for (uint32_t i = 0; i < 8; i++)
		wr(0x186 + i, INSTR | BOTH | EN);
	wr(0x38d, 0x3);
	wr(0x38f, 1ULL << 32 | 0xff);
	work(100, 10);
	for (uint32_t i = 0; i < 8; i++)
		cr_assert_eq(rd(0xc1 + i), 110);
	cr_assert_eq(rd(0x309), 110);
	vpmu_host_sharing(b.host, &s);
	cr_assert_eq(s.consumers, 9u);
	cr_assert_eq(s.keys, 1u);
	cr_assert_eq(s.host_counters, 1u);
	finish();
}

/* Eleven guest counters of different keys start and stop at one instant. */
Test(guest_count, global_write_is_one_instant)
{
	static const uint64_t sel[] = {INSTR | USR,  INSTR | OS,  BRANCH | USR, BRANCH | OS,
				       CYCLES | USR, CYCLES | OS, INSTR | BOTH, BRANCH | BOTH};
	struct vpmu_softpmu_opts soft = {.gp = 16};

	start_on(VPMU_GUEST_INTEL_V5, 8, 3, &soft);
	wr(0x38f, 0);
	for (uint32_t i = 0; i < 8; i++)
		wr(0x186 + i, sel[i] | EN);
	wr(0x38d, 0x333);
	for (uint64_t i = 1; i <= 20; i++) {
		work(11, 13);
		bed_time(&b, 100);
		wr(0x38f, 0x7000000ff);
		work(1000, 500);
		bed_time(&b, 50);
		wr(0x38f, 0);
		cr_assert_eq(rd(0xc1), 1000 * i);
		cr_assert_eq(rd(0xc2), 500 * i);
		cr_assert_eq(rd(0xc3), 500 * i);
		cr_assert_eq(rd(0xc4), 250 * i);
		cr_assert_eq(rd(0xc5), 3000 * i);
		cr_assert_eq(rd(0xc6), 1500 * i);
		cr_assert_eq(rd(0xc7), 1500 * i);
		cr_assert_eq(rd(0xc8), 750 * i);
		cr_assert_eq(rd(0x309), 1500 * i);
		cr_assert_eq(rd(0x30a), 4500 * i);
		cr_assert_eq(rd(0x30b), 3000 * i);
		for (unsigned int c = 0; c < 19; c++) {
			if (c >= 8 && c < 16)
				continue;
			cr_assert_eq(PV_EN(c), 50 * i, "counter %u", c);
			cr_assert_eq(PV_RUN(c), 50 * i, "counter %u", c);
		}
	}
	finish();
}

/*
 * More keys than host counters: slots rotate, values are partial, and the times say how much. The
 * workload is even, so that scaling by the times gives the truth again.
 */
Test(guest_count, rotation_times)
{
	static const uint64_t sel[] = {INSTR | USR, INSTR | OS,	   INSTR | BOTH, BRANCH | USR,
				       BRANCH | OS, BRANCH | BOTH, CYCLES | USR, CYCLES | OS};
	static const uint64_t rate[] = {100, 60, 160, 50, 30, 80, 300, 180}; /* a step */
	const unsigned int steps = 8 * 600;
	struct vpmu_softpmu_opts soft = {.gp = 3, .no_default = true};
	bool partial = false;

	start_on(VPMU_GUEST_INTEL_V2, 8, 0, &soft);
	for (uint32_t i = 0; i < 8; i++)
		wr(0x186 + i, sel[i] | EN);
	for (unsigned int s = 0; s < steps; s++) {
		work(100, 60);
		bed_time(&b, 1000);
		vpmu_pcpu_tick(b.pcpu[0]);
	}
	for (unsigned int i = 0; i < 8; i++) {
		uint64_t val = rd(0xc1 + i), en = PV_EN(i), run = PV_RUN(i);

		cr_assert_eq(en, 1000ull * steps);
		cr_assert_leq(run, en);
		cr_assert_gt(run, 0u, "counter %u starved", i);
		partial |= run < en;
		cr_assert_eq(val * 1000, rate[i] * run, "counter %u: %llu in %llu ns", i,
			     (unsigned long long)val, (unsigned long long)run);
		cr_assert_eq(PV_Q(i), i < 6 ? VPMU_Q_EXACT : VPMU_Q_MODELLED);
	}
	cr_assert(partial, "eight keys on three counters without rotation");
	/* a write starts the times anew */
	wr(0xc1, 0);
	cr_assert_eq(PV_EN(0), 0);
	cr_assert_eq(PV_RUN(0), 0);
	bed_time(&b, 500);
	cr_assert_eq(PV_EN(0), 500);
	finish();
}

Test(guest_count, times_keep_after_stop)
{
	start(VPMU_GUEST_AMD_V2);
	wr(0xc0010200, 0xc0 | USR | EN);
	bed_time(&b, 70);
	wr(0xc0000301, 0);
	bed_time(&b, 1000);
	cr_assert_eq(PV_EN(0), 70);
	cr_assert_eq(PV_RUN(0), 70);
	cr_assert_eq(PV_Q(0), VPMU_Q_EXACT);
	wr(0xc0000301, 1);
	bed_time(&b, 5);
	bed_leave(&b);
	bed_time(&b, 1000); /* not running */
	bed_enter(&b, 1);
	bed_time(&b, 5);
	cr_assert_eq(PV_EN(0), 80);
	wr(0xc0010004, 0);
	cr_assert_eq(PV_EN(0), 0);
	cr_assert_eq(PV_Q(0), VPMU_Q_EXACT, "still counting");
	finish();
}

/* What the host cannot count reads as not counted; nothing fails. */
Test(guest_count, unsupported)
{
	static const uint64_t sel[] = {
		MISSES | USR,
		0x412e | BOTH,
		INSTR | USR | EDGE,
		CYCLES | USR | 1 << 24,
		CYCLES | USR | INV | 3u << 24,
		0x00 | USR,
		0xffff | BOTH,
	};

	start(VPMU_GUEST_INTEL_V2);
	for (unsigned int i = 0; i < sizeof(sel) / sizeof(sel[0]); i++) {
		wr(0xc1, 55);
		wr(0x186, sel[i] | EN);
		work(1000, 1000);
		bed_time(&b, 100);
		cr_assert_eq(rd(0xc1), 55, "select %llx", (unsigned long long)sel[i]);
		cr_assert_eq(PV_EN(0), 0);
		cr_assert_eq(PV_RUN(0), 0);
		cr_assert_eq(PV_Q(0), VPMU_PV_UNSUPPORTED);
		/* part of the count is missing until the counter is written again */
		wr(0x186, INSTR | USR | EN);
		work(1, 0);
		cr_assert_eq(rd(0xc1), 56);
		cr_assert_eq(PV_Q(0), VPMU_PV_UNSUPPORTED);
		wr(0xc1, 0);
		bed_time(&b, 3);
		cr_assert_eq(PV_Q(0), VPMU_Q_EXACT);
		cr_assert_eq(PV_EN(0), 3);
	}
	finish();
}

Test(guest_count, quality)
{
	start(VPMU_GUEST_INTEL_V2);
	cr_assert_eq(PV_Q(0), VPMU_PV_UNSUPPORTED, "never on");
	wr(0x186, INSTR | USR | EN);
	cr_assert_eq(PV_Q(0), VPMU_Q_EXACT);
	wr(0x186, CYCLES | USR | EN);
	cr_assert_eq(PV_Q(0), VPMU_Q_MODELLED);
	wr(0x186, INSTR | USR | EN);
	cr_assert_eq(PV_Q(0), VPMU_Q_MODELLED, "some of the value is modelled");
	wr(0xc1, 0);
	cr_assert_eq(PV_Q(0), VPMU_Q_EXACT);
	wr(0x186, 0);
	wr(0xc1, 0);
	cr_assert_eq(PV_Q(0), VPMU_PV_UNSUPPORTED, "nothing counted since the write");
	finish();
}

/* Take every slot of the host for events nobody else uses; give them back. */
static struct vpmu_consumer filler[VPMU_MAX_SLOTS];

static void fill_host(void)
{
	for (unsigned int i = 0; i < VPMU_MAX_SLOTS; i++) {
		vpmu_key_t key = vpmu_key_from_raw(VPMU_SPACE_INTEL, 0x100 * i | 0xa8,
						   VPMU_KEY_USR | VPMU_KEY_GUEST);
		int ret = vpmu_consumer_add(&filler[i], b.vm, key, NULL);

		cr_assert(ret == 0 || ret == -EOPNOTSUPP, "%u: %d", i, ret);
	}
}

static void empty_host(void)
{
	for (unsigned int i = 0; i < VPMU_MAX_SLOTS; i++)
		vpmu_consumer_del(&filler[i], NULL, NULL);
}

/* All slots of the host taken by others: the guest's write succeeds, the counter stands. */
Test(guest_count, host_full)
{
	start(VPMU_GUEST_INTEL_V2);
	fill_host();
	wr(0x186, INSTR | USR | EN);
	work(100, 0);
	bed_time(&b, 10);
	cr_assert_eq(rd(0xc1), 0);
	cr_assert_eq(PV_Q(0), VPMU_PV_UNSUPPORTED);
	wr(0xc1, 5);
	cr_assert_eq(rd(0xc1), 5);
	cr_assert_eq(PV_Q(0), VPMU_PV_UNSUPPORTED, "still on, still not counted");
	empty_host();
	/* the next placement tries again */
	bed_enter(&b, 1);
	work(100, 0);
	cr_assert_eq(rd(0xc1), 105);
	cr_assert_eq(PV_Q(0), VPMU_PV_UNSUPPORTED, "some of it was not counted");
	wr(0xc1, 0);
	work(7, 0);
	cr_assert_eq(rd(0xc1), 7);
	cr_assert_eq(PV_Q(0), VPMU_Q_EXACT);
	finish();
}

/* It counted, stopped, and could not go on: the count lacks something from then on. */
Test(guest_count, host_full_in_between)
{
	start(VPMU_GUEST_INTEL_V2);
	wr(0x186, INSTR | USR | EN);
	work(100, 0);
	bed_time(&b, 10);
	wr(0x38f, 0);
	cr_assert_eq(PV_Q(0), VPMU_Q_EXACT);
	cr_assert_eq(PV_EN(0), 10);
	fill_host();
	wr(0x38f, 1);
	work(100, 0);
	cr_assert_eq(rd(0xc1), 100);
	cr_assert_eq(PV_Q(0), VPMU_PV_UNSUPPORTED);
	cr_assert_eq(PV_EN(0), 0);
	/* off and written: a new count, which lacks nothing */
	wr(0x38f, 0);
	wr(0xc1, 0);
	empty_host();
	wr(0x38f, 1);
	work(3, 0);
	cr_assert_eq(rd(0xc1), 3);
	cr_assert_eq(PV_Q(0), VPMU_Q_EXACT);
	finish();
}

/* The operator counts the same event: both see all of it, on one counter. */
Test(guest_count, shares_with_operator)
{
	struct vpmu_consumer op = {0};
	struct vpmu_sharing s;
	struct vpmu_value v;

	start(VPMU_GUEST_AMD_V2);
	wr(0xc0010200, 0xc0 | BOTH | EN);
	work(10, 10);
	cr_assert_eq(vpmu_consumer_add(
			     &op, b.vm,
			     vpmu_key_generic(VPMU_EV_INSTRUCTIONS, VPMU_KEY_USR | VPMU_KEY_OS),
			     NULL),
		     0);
	work(100, 100);
	wr(0xc0010201, 3);
	wr(0xc0010200, 0);
	work(1000, 0);
	wr(0xc0010200, 0xc0 | BOTH | EN);
	work(1, 0);
	cr_assert_eq(rd(0xc0010201), 4);
	vpmu_host_sync(b.host);
	vpmu_consumer_read(&op, &v);
	cr_assert_eq(v.count, 200 + 1000 + 1);
	vpmu_host_sharing(b.host, &s);
	cr_assert_eq(s.consumers, 2u);
	cr_assert_eq(s.host_counters, 1u);
	vpmu_consumer_del(&op, NULL, NULL);
	finish();
}

/* A counter switched on and off a thousand times loses nothing. */
Test(guest_count, toggling)
{
	uint64_t want = 0;

	start(VPMU_GUEST_INTEL_V5);
	wr(0x186, INSTR | USR | EN);
	for (uint64_t i = 0; i < 1000; i++) {
		wr(0x38f, i & 1);
		work(i, 0);
		want += i & 1 ? i : 0;
	}
	cr_assert_eq(rd(0xc1), want);
	finish();
}
