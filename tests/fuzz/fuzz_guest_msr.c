// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * libFuzzer over what a hostile guest and its scheduler can do to a register model: RDMSR, WRMSR,
 * RDPMC, CPUID, execution, migration, unplacement, RESET and INIT, of every model. Every answer is
 * compared with the plain model of tests/unit/guest_plain.h where the host has counters for all
 * keys; on a small host, where counts are partial, with what stays true then.
 */
#include <stdint.h>
#include <stdio.h>

#include "tests/unit/guest_bed.h"
#include "tests/unit/guest_plain.h"

#define NR_SHAPES (sizeof(shapes) / sizeof(shapes[0]))

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct in {
	const uint8_t *p, *end;
};

static uint64_t take(struct in *in, unsigned int bytes)
{
	uint64_t v = 0;

	for (unsigned int i = 0; i < bytes && in->p < in->end; i++)
		v |= (uint64_t)*in->p++ << 8 * i;
	return v;
}

/* Hosts live as long as the process: making one waits for grace periods. */
static struct bed *bed_of(bool big)
{
	static struct bed beds[2];
	static bool made[2];
	struct vpmu_softpmu_opts soft = {.gp = big ? 16 : 2, .fixed = 3};

	if (!made[0] && !made[1])
		urcu_memb_register_thread();
	if (!made[big])
		bed_host(&beds[big], &soft);
	made[big] = true;
	return &beds[big];
}

#define CHECK(cond, ...)                                                                           \
	do {                                                                                       \
		if (!(cond)) {                                                                     \
			fprintf(stderr, __VA_ARGS__);                                              \
			fputc('\n', stderr);                                                       \
			abort();                                                                   \
		}                                                                                  \
	} while (0)

/* The registers PMUs have, so that most numbers hit; busy ones twice. */
static const struct {
	uint32_t base, count;
} areas[] = {
	{0xc1, 16},	 {0x186, 16},	  {0x309, 8},	    {0x38d, 8},
	{0x4c1, 16},	 {0x1d9, 1},	  {0x345, 1},	    {VPMU_PV_MSR_BASE, 84},
	{0xc0000300, 4}, {0xc0010000, 8}, {0xc0010200, 34}, {0x38f, 3},
	{0xc0000301, 2}, {0x186, 4},	  {0xc0010200, 8},  {0x390, 2},
};

#define NR_AREAS (sizeof(areas) / sizeof(areas[0]))

/* One of them, or any 32-bit number now and then. */
static uint32_t some_msr(struct in *in)
{
	uint8_t a = (uint8_t)take(in, 1);

	if (a >= 15 * 16)
		return (uint32_t)take(in, 4);
	return areas[a % NR_AREAS].base + (uint32_t)take(in, 1) % areas[a % NR_AREAS].count;
}

static uint64_t some_value(struct in *in)
{
	uint8_t how = (uint8_t)take(in, 1);

	switch (how & 7) {
	case 0:
		return take(in, 8);
	case 1:
		return 1ULL << (how >> 3) << (take(in, 1) & 32);
	case 2:
		return (1ULL << 48) - 1 - take(in, 2);
	case 3: /* an event select that counts */
		return take(in, 2) | 1u << 22 | (uint64_t)(how >> 3 & 3) << 16;
	case 4: /* bits of the global registers: counters, or one of 58 to 63 */
		if (how & 0x80)
			return 1ULL << (58 + take(in, 1) % 6);
		return take(in, 1) | (take(in, 1) & 15) << 32;
	default:
		return take(in, 4);
	}
}

static bool pv_counter(uint32_t msr)
{
	return msr - VPMU_PV_MSR_BASE < VPMU_PV_MSR_COUNT;
}

static void check_rd(struct bed *b, const struct plain *p, uint32_t msr, bool big)
{
	uint64_t got = 0x1234, want = 0x1234;
	int wret = plain_rd(p, msr, &want), ret = vpmu_guest_rdmsr(b->g, msr, &got);
	bool count;

	if (ret == -ENOENT) { /* the plain model knows #GP only */
		CHECK(wret == -EFAULT, "RDMSR %x: not ours, but the manual's", msr);
		return;
	}
	CHECK(ret == wret, "RDMSR %x = %d, not %d", msr, ret, wret);
	if (big || ret) {
		CHECK(got == want, "RDMSR %x: %llx, not %llx", msr, (unsigned long long)got,
		      (unsigned long long)want);
		return;
	}
	/* Partial counts: control registers are exact all the same, counters stay in their width.
	 */
	count = (msr >= 0xc1 && msr < 0xd1) || (msr >= 0x4c1 && msr < 0x4d1) ||
		(msr >= 0x309 && msr < 0x310) || msr == 0x38e || msr == 0xc0000300 ||
		(msr >= 0xc0010004 && msr < 0xc0010008) || (msr >= 0xc0010200 && (msr & 1));
	if (count)
		CHECK(msr == 0x38e || !(got >> 48), "counter %x beyond its width", msr);
	else if (!pv_counter(msr))
		CHECK(got == want, "RDMSR %x: %llx, not %llx", msr, (unsigned long long)got,
		      (unsigned long long)want);
}

static void check_wr(struct bed *b, struct plain *p, uint32_t msr, uint64_t val, bool big)
{
	struct plain old = *p;
	int want = plain_wr(p, msr, val), ret = vpmu_guest_wrmsr(b->g, msr, val);

	if (ret == -ENOENT)
		ret = -EFAULT;
	CHECK(ret == want, "WRMSR(%x, %llx) = %d, not %d", msr, (unsigned long long)val, ret, want);
	if (ret)
		CHECK(!memcmp(&old, p, sizeof(old)), "the plain model changed on a fault");
	else
		check_rd(b, p, msr, big);
}

static void check_times(struct bed *b, const struct plain *p)
{
	for (unsigned int c = 0; c < 20; c++) {
		uint32_t msr = VPMU_PV_MSR_BASE + 4 * c;
		uint64_t en, run;

		if (vpmu_guest_rdmsr(b->g, msr, &en))
			continue;
		CHECK(!vpmu_guest_rdmsr(b->g, msr + 1, &run), "no running time");
		CHECK(run <= en, "counter %u ran longer than it was on", c);
	}
}

/* Whatever happened, in the end every register says what it should. */
static void check_all(struct bed *b, const struct plain *p, bool big)
{
	for (unsigned int a = 0; a < NR_AREAS; a++) {
		for (uint32_t i = 0; i < areas[a].count; i++)
			check_rd(b, p, areas[a].base + i, big);
	}
}

/* A guest that counts already: every counter on, so that what follows shows in the counts. */
static void prelude(struct bed *b, struct plain *p, bool big)
{
	static const uint32_t intel[] = {0xc0, 0xc4, 0x3c, 0x20c4, 0x81d0, 0x82d0, 0xc0, 0xc4};
	static const uint32_t amd[] = {0xc0, 0xc2, 0x76, 0xc4, 0x129, 0x229, 0xc0, 0xc2};
	bool is_amd = p->s->kind == AMD;

	bed_enter(b, 0);
	p->placed = true;
	for (uint32_t i = 0; i < p->s->gp; i++)
		check_wr(b, p, is_amd ? 0xc0010200 + 2 * i : 0x186 + i,
			 (is_amd ? amd : intel)[i % 8] | (1 + i % 3) << 16 | 1u << 22, big);
	if (!is_amd) {
		check_wr(b, p, 0x38d, 0x3333 & ((1u << 4 * p->s->fixed) - 1), big);
		check_wr(b, p, 0x38f, gmask(p), big);
	}
	plain_look(p, 0);
}

static int conserved(const struct vpmu_conservation *c, void *arg)
{
	CHECK(c->hardware == c->charged, "key %llx: hardware %llu, charged %llu",
	      (unsigned long long)c->key, (unsigned long long)c->hardware,
	      (unsigned long long)c->charged);
	return 0;
}

/* VPMU_GUEST_NONE: nothing but refusals, whatever is asked. */
static void fuzz_none(struct in *in)
{
	struct vpmu_guest_cfg cfg = {.model = VPMU_GUEST_NONE};
	struct vpmu_guest *g = calloc(1, sizeof(*g));
	uint64_t val;

	BED_MUST(g && !vpmu_guest_init(g, &cfg, NULL, NULL));
	while (in->p < in->end) {
		uint32_t msr = some_msr(in);

		CHECK(vpmu_guest_rdmsr(g, msr, &val) < 0, "RDMSR %x without a PMU", msr);
		CHECK(vpmu_guest_wrmsr(g, msr, some_value(in)) < 0, "WRMSR %x without a PMU", msr);
		CHECK(vpmu_guest_rdpmc(g, (uint32_t)take(in, 4), &val) == -EFAULT, "RDPMC");
	}
	vpmu_guest_fini(g);
	free(g);
}

static void step(struct in *in, struct bed *b, struct plain *p, bool big)
{
	uint8_t op = (uint8_t)take(in, 1);
	uint64_t ns = 0;

	switch (op & 15) {
	case 0:
		bed_enter(b, op >> 4 & 1);
		p->placed = true;
		break;
	case 1:
		if (op >> 4 & 1) {
			bed_unplace(b);
			p->placed = false;
		} else {
			bed_leave(b);
		}
		break;
	case 2:
		ns = take(in, 2);
		bed_time(b, ns);
		if (b->on < 0)
			ns = 0;
		break;
	case 3:
		vpmu_pcpu_tick(b->pcpu[op >> 4 & 1]);
		break;
	case 4:
		vpmu_guest_reset(b->g, op >> 4 & 1);
		if (!(op >> 4 & 1))
			plain_reset(p);
		break;
	case 5: {
		uint32_t ecx = (uint32_t)take(in, 1) | (uint32_t)take(in, 1) << 24;
		uint64_t got = 0x1234, want = 0x1234;
		int wret = plain_pmc(p, ecx, &want), ret = vpmu_guest_rdpmc(b->g, ecx, &got);

		CHECK(ret == wret && (got == want || (!big && !ret && !(got >> 48))),
		      "RDPMC %x = %d, %llx; not %d, %llx", ecx, ret, (unsigned long long)got, wret,
		      (unsigned long long)want);
		break;
	}
	case 6: {
		uint32_t regs[4] = {op, op, op, op};

		vpmu_guest_cpuid(b->g, (uint32_t)take(in, 4), op >> 4, regs);
		break;
	}
	case 7: { /* somebody else where the vCPU is not */
		int n = op >> 4 & 1;

		if (b->on != n)
			b->sp[n].tally->ev[op >> 5 & 1][VPMU_SOFT_INSTRUCTIONS] += take(in, 2);
		break;
	}
	case 8:
	case 9:
	case 10: {
		unsigned int mode = (op >> 4) % 3;
		int ev = (int)(take(in, 1) % VPMU_SOFT_EVENTS);
		uint64_t n = take(in, 2);

		if (b->on < 0)
			break;
		bed_exec(b, (enum vpmu_soft_mode)mode, (enum vpmu_soft_event)ev, n);
		if (mode != VPMU_SOFT_HOST)
			plain_event(p, mode, ev, n);
		break;
	}
	case 11:
		check_rd(b, p, some_msr(in), big);
		break;
	default: {
		uint32_t msr = some_msr(in);

		check_wr(b, p, msr, some_value(in), big);
		break;
	}
	}
	plain_look(p, ns);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct in in = {data, data + size};
	unsigned int shape = (unsigned int)take(&in, 1);
	bool big = shape & 0x80, busy;
	struct bed *b = bed_of(big);
	struct plain p = {0};

	busy = shape & 0x40;
	shape = (shape & 0x3f) % (NR_SHAPES + 1);
	if (shape == NR_SHAPES) {
		fuzz_none(&in);
		return 0;
	}
	p.s = &shapes[shape];
	plain_reset(&p);
	BED_MUST(!bed_vcpu(b, &p.s->cfg));
	if (busy)
		prelude(b, &p, big);
	while (in.p < in.end)
		step(&in, b, &p, big);
	check_all(b, &p, big);
	check_times(b, &p);
	vpmu_host_conservation(b->host, conserved, NULL);
	bed_vcpu_fini(b);
	return 0;
}
