/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Which registers Linux's PMU drivers read and write, in which order and with which values: at
 * boot, to count and to sample, in the PMI handler, and for branch records. Written from reading
 * arch/x86/events of Linux 6.x (core, intel, amd) and contains none of its code. For
 * test_guest_linux.c; needs guest_use.h.
 *
 * A plain access (lx_rd, lx_wr) must not fault: Linux would warn, or not boot. A "safe" one may:
 * Linux asks in this way whether a register is there.
 */
#ifndef TESTS_UNIT_LINUX_PMU_H
#define TESTS_UNIT_LINUX_PMU_H

#include "guest_use.h"
#include "vmm/vm/cpuid.h"

#define BITS(hi, lo, v) ((v) >> (lo) & ((2u << ((hi) - (lo))) - 1))
#define LX_EVENTS	16

enum { EAX, EBX, ECX, EDX };

struct lx_event {
	int idx; /* GP counter, or 32 + fixed counter */
	uint64_t config;
	uint64_t period, left; /* until the next sample */
	uint64_t prev, count;
	unsigned int samples;
};

/* What Linux knows of the PMU after its boot. */
struct lx {
	const char *driver; /* Linux's name for the CPU's events; NULL: no PMU */
	bool intel;
	unsigned int version; /* AMD: 2 is PerfMonV2 */
	unsigned int gp, fixed;
	uint32_t sel, ctr, stride; /* first event select and counter */
	uint64_t max_period;
	unsigned int lbr_nr;
	bool arch_lbr, lbr_freeze;
	uint32_t lbr_tos, lbr_from, lbr_to, lbr_info;
	uint64_t global; /* all counters, as in the global control register */
	struct kvm_cpuid_entry2 leaf[VMM_CPUID_MAX];
	size_t nr_leaves;

	/* while events are on */
	struct lx_event ev[LX_EVENTS];
	unsigned int nr_events;
	uint64_t fixed_ctrl;
	bool lbr_user;
	uint64_t lbr_filter;
	struct vpmu_lbr_entry br[VPMU_LBR_DEPTH_MAX]; /* read by the last PMI */
	unsigned int nr_br;
};

static const char *lx_doing = ""; /* for messages */

/* ---- accesses ---- */

static inline uint64_t lx_rd(uint32_t msr)
{
	uint64_t val = 0;
	int ret = vpmu_guest_rdmsr(b.g, msr, &val);

	cr_assert_eq(ret, 0, "%s: RDMSR %x is #GP", lx_doing, msr);
	return val;
}

static inline void lx_wr(uint32_t msr, uint64_t val)
{
	int ret = vpmu_guest_wrmsr(b.g, msr, val);

	cr_assert_eq(ret, 0, "%s: WRMSR %x, %llx is #GP", lx_doing, msr, (unsigned long long)val);
}

static inline bool lx_rd_safe(uint32_t msr, uint64_t *val)
{
	return !vpmu_guest_rdmsr(b.g, msr, val);
}

static inline bool lx_wr_safe(uint32_t msr, uint64_t val)
{
	return !vpmu_guest_wrmsr(b.g, msr, val);
}

static inline uint64_t lx_rdpmc(uint32_t ecx)
{
	uint64_t val = 0;

	cr_assert_eq(vpmu_guest_rdpmc(b.g, ecx, &val), 0, "%s: RDPMC %x is #GP", lx_doing, ecx);
	return val;
}

/* Linux's check_msr: bits that were flipped read back flipped. It puts the old value back. */
static inline bool lx_works(uint32_t msr, uint64_t flip)
{
	uint64_t old, back;

	if (!lx_rd_safe(msr, &old) || !lx_wr_safe(msr, old ^ flip) || !lx_rd_safe(msr, &back) ||
	    back != (old ^ flip))
		return false;
	lx_wr(msr, old);
	return true;
}

static inline uint32_t lx_cpuid(const struct lx *l, uint32_t leaf, int reg)
{
	for (size_t i = 0; i < l->nr_leaves; i++) {
		const struct kvm_cpuid_entry2 *e = &l->leaf[i];
		const uint32_t r[] = {e->eax, e->ebx, e->ecx, e->edx};

		if (e->function == leaf)
			return r[reg];
	}
	return 0;
}

/* ---- boot ---- */

/* Of CPUs with signatures that the models have or had: the driver, and how many branch records that
 * are not architectural it expects. */
static const struct lx_cpu {
	unsigned int family, model;
	const char *name;
	unsigned int legacy_lbr;
} lx_cpus[] = {
	{6, 0x4f, "broadwell", 16},	 {6, 0x55, "skylake", 32},  {6, 0x6a, "icelake", 32},
	{6, 0x8f, "sapphire_rapids", 0}, {0x10, 0x04, "AMD K7", 0}, {0x19, 0x01, "AMD 17h+", 0},
	{0x19, 0x11, "AMD 17h+", 0},
};

static inline const struct lx_cpu *lx_cpu(const struct lx *l)
{
	uint32_t sig = lx_cpuid(l, 1, EAX);
	unsigned int family = BITS(11, 8, sig), model = BITS(7, 4, sig);

	if (family == 0xf)
		family += BITS(27, 20, sig);
	if (family >= 6)
		model |= BITS(19, 16, sig) << 4;
	for (size_t i = 0; i < sizeof(lx_cpus) / sizeof(lx_cpus[0]); i++) {
		if (lx_cpus[i].family == family && lx_cpus[i].model == model)
			return &lx_cpus[i];
	}
	cr_assert_fail("Linux has no driver of its own for signature %x", sig);
	return NULL;
}

/* 32 - number of leading zeros, i.e. the number of the highest bit, counted from 1 */
static inline unsigned int lx_fls(uint32_t v)
{
	return v ? 32 - (unsigned int)__builtin_clz(v) : 0;
}

static inline void lx_lbr_reset(struct lx *l)
{
	if (!l->lbr_nr)
		return;
	if (l->arch_lbr)
		lx_wr(0x14cf, l->lbr_nr);
	for (unsigned int i = 0; !l->arch_lbr && i < l->lbr_nr; i++) {
		lx_wr(0xc0010300 + 2 * i, 0);
		lx_wr(0xc0010301 + 2 * i, 0);
	}
	if (!l->intel)
		lx_wr(0xc000010e, 0);
}

static inline void lx_boot_intel_lbr(struct lx *l, const struct lx_cpu *cpu)
{
	lx_doing = "probing branch records";
	if (lx_cpuid(l, 7, EDX) >> 19 & 1) {
		l->lbr_nr = 8 * lx_fls(lx_cpuid(l, 0x1c, EAX) & 0xff);
		l->arch_lbr = l->lbr_nr && lx_wr_safe(0x14cf, l->lbr_nr);
		if (!l->arch_lbr)
			l->lbr_nr = 0;
		l->lbr_from = 0x1500;
		l->lbr_to = 0x1600;
		l->lbr_info = 0x1200;
	}
	if (cpu->legacy_lbr) { /* without asking for architectural ones */
		l->lbr_nr = cpu->legacy_lbr;
		l->lbr_tos = 0x1c9;
		l->lbr_from = 0x680;
		l->lbr_to = 0x6c0;
	}
	if (l->lbr_tos && !lx_works(l->lbr_tos, 3))
		l->lbr_nr = 0;
	for (unsigned int i = 0; i < l->lbr_nr; i++) {
		if (!lx_works(l->lbr_from + i, 0xffff) || !lx_works(l->lbr_to + i, 0xffff))
			l->lbr_nr = 0;
	}
}

static inline void lx_boot_intel(struct lx *l, const struct lx_cpu *cpu)
{
	static const uint32_t extra[] = {0x1a6, 0x1a7, 0x3f6, 0x3f7};
	uint64_t misc, caps = 0;
	uint32_t a;

	lx_doing = "booting"; /* the early code cannot handle a #GP */
	misc = lx_rd(0x1a0);
	cr_assert_eq(misc >> 34 & 1, 0u, "execute disable is turned off");
	cr_assert_eq(misc >> 22 & 1, 0u, "CPUID leaves are hidden");
	cr_assert_eq(misc & 1, 1u, "fast strings are off");
	a = lx_cpuid(l, 0, EAX) > 9 ? lx_cpuid(l, 0xa, EAX) : 0;
	cr_assert_eq(misc >> 7 & 1, BITS(7, 0, a) != 0, "EMON is not what CPUID 0AH says");
	if (!BITS(7, 0, a) || BITS(15, 8, a) < 2 || BITS(31, 24, a) < 7)
		return; /* no architectural PMU: this driver has nothing to do */
	cr_assert_eq(lx_cpuid(l, 1, EDX) >> 21 & 1, 0u, "DS: BTS and PEBS would be asked for");
	l->driver = cpu->name;
	l->version = BITS(7, 0, a);
	l->gp = BITS(15, 8, a);
	cr_assert_eq(BITS(23, 16, a), 48u);
	l->fixed =
		l->version < 5 ? BITS(4, 0, lx_cpuid(l, 0xa, EDX)) : lx_fls(lx_cpuid(l, 0xa, ECX));
	l->global = ((1ULL << l->gp) - 1) | ((1ULL << l->fixed) - 1) << 32;
	if (lx_cpuid(l, 1, ECX) >> 15 & 1)
		caps = lx_rd(0x345);
	lx_boot_intel_lbr(l, cpu);
	cr_assert(!l->lbr_nr || (caps & 0x3f) == 0x3f, "the LBR format is not architectural");
	lx_doing = "probing extra registers";
	for (size_t i = 0; i < sizeof(extra) / sizeof(extra[0]); i++)
		cr_assert(!lx_works(extra[i], 0x11), "%x: nothing is behind it", extra[i]);
	l->sel = 0x186;
	l->stride = 1;
	l->ctr = caps >> 13 & 1 ? 0x4c1 : 0xc1;
	l->max_period = caps >> 13 & 1 ? W48 >> 1 : 0x7fffffff;
}

static inline void lx_boot_amd(struct lx *l, const struct lx_cpu *cpu)
{
	uint32_t a = lx_cpuid(l, 0x80000022, EAX), c = lx_cpuid(l, 0x80000022, EBX);

	l->driver = cpu->name;
	l->sel = 0xc0010000;
	l->ctr = 0xc0010004;
	l->stride = 1;
	l->gp = 4;
	l->max_period = W48 >> 1;
	if (lx_cpuid(l, 0x80000001, ECX) >> 23 & 1) {
		l->sel = 0xc0010200;
		l->ctr = 0xc0010201;
		l->stride = 2;
		l->gp = 6;
		if (a & 1) {
			l->version = 2;
			l->gp = BITS(3, 0, c);
			if (a >> 1 & 1)
				l->lbr_nr = BITS(9, 4, c);
			l->lbr_freeze = a >> 2 & 1;
		}
	}
	l->global = (1ULL << l->gp) - 1;
}

/* Linux's check_hw_exists: nothing is on, and a counter keeps a written value. */
static inline bool lx_hw_exists(const struct lx *l)
{
	uint64_t val;

	for (unsigned int i = 0; i < l->gp; i++) {
		if (!lx_rd_safe(l->sel + i * l->stride, &val) || (val & EN))
			return false;
	}
	if (l->fixed && (!lx_rd_safe(0x38d, &val) || val))
		return false;
	for (unsigned int i = 0; i < l->gp; i++) {
		if (!lx_works(l->ctr + i * l->stride, 0xffff))
			return false;
	}
	return true;
}

/* The boot of one CPU. l->driver stays NULL if Linux finds no PMU. */
static inline void lx_boot(struct lx *l)
{
	const struct lx_cpu *cpu;

	*l = (struct lx){0};
	l->nr_leaves = vmm_cpuid(b.g, 0, true, l->leaf);
	l->intel = lx_cpuid(l, 0, EBX) == 0x756e6547; /* "Genu" */
	cpu = lx_cpu(l);
	if (l->intel)
		lx_boot_intel(l, cpu);
	else
		lx_boot_amd(l, cpu);
	lx_doing = "checking that the PMU works";
	if (l->driver && !lx_hw_exists(l))
		l->driver = NULL; /* "Broken PMU hardware detected" */
	if (!l->driver)
		return;
	lx_doing = "starting the CPU";
	if (!l->intel && l->version == 2) {
		lx_wr(0xc0000301, 0);
		lx_wr(0xc0000302, 1ULL << 58 | l->global);
	}
	lx_lbr_reset(l);
	if (l->intel) /* does FREEZE_IN_SMM have to be turned off? */
		cr_assert_eq(lx_rd(0x1d9) >> 14 & 1, 0u);
}

/* ---- branch records ---- */

static inline void lx_lbr_enable(struct lx *l, bool pmi)
{
	uint64_t dbg;

	/* From version 4 on, clearing the status has unfrozen the records. */
	if (!l->lbr_user || (l->intel && pmi && l->version >= 4))
		return;
	if (!l->intel)
		lx_wr(0xc000010e, l->lbr_filter);
	if (l->intel || l->lbr_freeze) {
		dbg = lx_rd(0x1d9);
		lx_wr(0x1d9, dbg | 1 << 11);
		cr_assert_eq(lx_rd(0x1d9), dbg | 1 << 11, "FREEZE_LBRS_ON_PMI was dropped");
	}
	if (l->intel)
		lx_wr(0x14ce, l->lbr_filter | 1);
	else
		lx_wr(0xc000010f, lx_rd(0xc000010f) | 1 << 6);
}

static inline void lx_lbr_disable(struct lx *l)
{
	if (!l->lbr_user)
		return;
	if (l->intel) {
		lx_wr(0x14ce, 0);
		return;
	}
	lx_wr(0xc000010f, lx_rd(0xc000010f) & ~(1ULL << 6));
	if (l->lbr_freeze)
		lx_wr(0x1d9, lx_rd(0x1d9) & ~(1ULL << 11));
}

static inline void lx_lbr_read(struct lx *l)
{
	l->nr_br = 0;
	for (unsigned int i = 0; l->lbr_user && i < l->lbr_nr; i++) {
		struct vpmu_lbr_entry *e = &l->br[l->nr_br];

		if (l->intel) { /* up to the first that was never made */
			e->from = lx_rd(l->lbr_from + i);
			if (!e->from)
				return;
			e->to = lx_rd(l->lbr_to + i);
			e->info = lx_rd(l->lbr_info + i);
		} else {
			e->from = lx_rd(0xc0010300 + 2 * i);
			e->to = lx_rd(0xc0010301 + 2 * i);
			if (!(e->to >> 62)) /* neither valid nor speculative */
				continue;
			e->to = (uint64_t)((int64_t)(e->to << 16) >> 16);
		}
		l->nr_br++;
	}
}

/* ---- events ---- */

static inline uint32_t lx_counter(const struct lx *l, const struct lx_event *e)
{
	return e->idx < 32 ? l->ctr + (uint32_t)e->idx * l->stride : 0x309 + (uint32_t)e->idx - 32;
}

/* x86_perf_event_update and _set_period */
static inline uint64_t lx_update(struct lx_event *e)
{
	uint64_t now =
		lx_rdpmc(e->idx < 32 ? (uint32_t)e->idx : 0x40000000u + (uint32_t)e->idx - 32);
	uint64_t delta = (now - e->prev) & W48;

	e->prev = now;
	e->count += delta;
	e->left -= delta;
	return now;
}

static inline void lx_set_period(const struct lx *l, struct lx_event *e)
{
	uint64_t left;

	if ((int64_t)e->left <= 0)
		e->left += e->period;
	left = e->left < l->max_period ? e->left : l->max_period;
	e->prev = -left & W48;
	lx_wr(lx_counter(l, e), l->intel && l->ctr == 0xc1 && e->idx < 32 ? -left : e->prev);
}

static inline void lx_enable_event(struct lx *l, const struct lx_event *e)
{
	if (e->idx < 32)
		lx_wr(l->sel + (uint32_t)e->idx * l->stride, e->config | INT | EN);
	else /* both rings, PMI */
		l->fixed_ctrl |= 0xbULL << 4 * (e->idx - 32);
}

static inline void lx_global(const struct lx *l, bool on)
{
	if (l->intel)
		lx_wr(0x38f, on ? l->global : 0);
	else if (l->version == 2)
		lx_wr(0xc0000301, on ? l->global : 0);
}

static inline void lx_disable_all(struct lx *l)
{
	lx_global(l, false);
	lx_lbr_disable(l);
	for (unsigned int i = 0; l->version < 2 && i < l->nr_events; i++) {
		uint32_t sel = l->sel + (uint32_t)l->ev[i].idx * l->stride;
		uint64_t val = lx_rd(sel);

		if (val & EN)
			lx_wr(sel, val & ~(uint64_t)EN);
	}
}

static inline void lx_enable_all(struct lx *l, bool pmi)
{
	lx_lbr_enable(l, pmi);
	if (l->intel)
		lx_wr(0x38d, l->fixed_ctrl);
	lx_global(l, true);
	for (unsigned int i = 0; l->version < 2 && i < l->nr_events; i++)
		lx_enable_event(l, &l->ev[i]);
}

/* perf_event_open: @period 0 counts only. */
static inline void lx_add(struct lx *l, int idx, uint64_t config, uint64_t period)
{
	struct lx_event *e = &l->ev[l->nr_events++];

	*e = (struct lx_event){.idx = idx, .config = config};
	e->period = period ? period : l->max_period;
	e->left = e->period;
	lx_set_period(l, e);
	lx_enable_event(l, e);
}

/* ---- the PMI handlers ---- */

static inline bool lx_overflowed(const struct lx *l, struct lx_event *e, uint64_t status)
{
	uint64_t now = lx_update(e);

	/* Without a status register the counter shows it: it is no longer "negative". */
	return l->version < 2 ? !(now >> 47) : status >> e->idx & 1;
}

static inline void lx_handle(struct lx *l, uint64_t status)
{
	for (unsigned int i = 0; i < l->nr_events; i++) {
		if (!lx_overflowed(l, &l->ev[i], status))
			continue;
		l->ev[i].samples++;
		lx_set_period(l, &l->ev[i]);
	}
}

static inline void lx_pmi(struct lx *l)
{
	uint64_t status = 0;

	lx_doing = "handling a PMI";
	if (l->version < 2) {
		lx_handle(l, 0);
		return;
	}
	lx_global(l, false); /* the records are frozen, not disabled */
	status = lx_rd(l->intel ? 0x38e : 0xc0000300);
	cr_assert_neq(status, 0u, "a PMI without a status bit");
	if (l->intel || status >> 58 & 1)
		lx_lbr_read(l);
	if (l->intel) {
		for (int loops = 0; status; loops++) {
			cr_assert_lt(loops, 100, "irq loop stuck");
			lx_wr(0x390, status);
			lx_handle(l, status & ~(3ULL << 58));
			status = lx_rd(0x38e);
		}
		lx_enable_all(l, true);
		return;
	}
	status &= ~(1ULL << 58);
	cr_assert_eq(status & ~l->global, 0u, "reserved PerfCntrGlobalStatus bits are set");
	lx_handle(l, status);
	lx_wr(0xc0000302, ~0ULL); /* everything that was handled */
	lx_global(l, true);
}

#endif
