// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Linux's PMU drivers on every model: the accesses of linux_pmu.h, none of which may fault, and
 * what Linux must find, count, sample and record with them.
 */
#include "guest_manual.h"
#include "linux_pmu.h"

TestSuite(guest_linux, .fini = finish);

#define PERIOD 1000

/* What Linux must find, in the order of guest_manual.h's machines. */
static const struct {
	int line;
	const char *driver; /* NULL: no PMU */
	bool intel;
	unsigned int version, lbr;
} finds[NR_MACHINES] = {
	[M_NONE] = {L, NULL, false, 0, 0},
	[M_OFF] = {L, NULL, true, 0, 0},
	[M_V2] = {L, "broadwell", true, 2, 0},
	[M_V2_ARCH] = {L, "broadwell", true, 2, 0},
	[M_V3] = {L, "broadwell", true, 3, 0},
	[M_V4] = {L, "skylake", true, 4, 0},
	[M_V5] = {L, "sapphire_rapids", true, 5, 32},
	[M_V5_34] = {L, "sapphire_rapids", true, 5, 32},
	[M_V5_NOLBR] = {L, "sapphire_rapids", true, 5, 0},
	[M_K7] = {L, "AMD K7", false, 0, 0},
	[M_CORE] = {L, "AMD 17h+", false, 0, 0},
	[M_AMD] = {L, "AMD 17h+", false, 2, 16},
	[M_AMD15] = {L, "AMD 17h+", false, 2, 16},
	[M_AMD_NOLBR] = {L, "AMD 17h+", false, 2, 0},
};

static struct lx linux_;
static uint64_t ran; /* instructions of the guest */

static void boot(const struct machine *m)
{
	cr_assert_eq(bed_init(&b, &m->cfg, NULL), 0);
	bed_enter(&b, 0);
	ran = 0;
	lx_boot(&linux_);
}

Test(guest_linux, boots)
{
	for (unsigned int k = 0; k < NR_MACHINES; k++) {
		const struct lx *l = &linux_;

		boot(&machines[k]);
		cr_assert_eq(l->intel, finds[k].intel, "line %d", finds[k].line);
		cr_assert_eq(!l->driver, !finds[k].driver, "line %d: PMU of %s", finds[k].line,
			     l->driver ? l->driver : "none");
		if (l->driver)
			cr_assert_str_eq(l->driver, finds[k].driver, "line %d", finds[k].line);
		cr_assert_eq(l->version, finds[k].version, "line %d", finds[k].line);
		cr_assert_eq(l->lbr_nr, finds[k].lbr, "line %d: %u branch records", finds[k].line,
			     l->lbr_nr);
		if (l->driver) {
			cr_assert_eq(l->gp, machines[k].gp);
			cr_assert_eq(l->fixed, machines[k].fixed);
		}
		finish();
	}
}

/* ---- counting and sampling ---- */

static uint64_t last_branch; /* address of the newest one outside of the handler */

/* The kernel's own branches; a PMI handler makes them before it reads the records. */
static void handler_branches(void)
{
	for (unsigned int i = 0; i < 5; i++)
		branch(VPMU_EMU_OS, VPMU_LBR_JCC, 0xffffffff81000000 + i, 0xffffffff81001000 + i);
}

/* Each record of the PMI is a branch from before it, the newest first. */
static void check_records(void)
{
	const struct lx *l = &linux_;

	if (!l->lbr_user)
		return;
	cr_assert_eq(l->nr_br, l->lbr_nr, "%u of %u records", l->nr_br, l->lbr_nr);
	for (unsigned int i = 0; i < l->nr_br; i++) {
		cr_assert_eq(l->br[i].from, last_branch - i, "record %u is from %llx", i,
			     (unsigned long long)l->br[i].from);
		cr_assert_eq(l->br[i].to, last_branch - i + 0x1000);
		if (l->arch_lbr)
			cr_assert_eq(l->br[i].info >> 56 & 0xf, 5u);
	}
}

/* The guest executes @n instructions. Returns the number of PMIs. */
static unsigned int run(uint64_t n)
{
	unsigned int pmis = 0;
	uint64_t step;

	for (; n; n -= step) {
		const struct vpmu_emu_tally *t = b.sp[b.on].tally;

		step = n;
		for (unsigned int c = 0; c < VPMU_MAX_CTRS; c++) {
			uint64_t left = vpmu_emu_alarm_left(t, &t->alarm[c]);

			if ((t->armed >> c & 1) && t->alarm[c].event == VPMU_EMU_INSTRUCTIONS &&
			    left < step)
				step = left;
		}
		cr_assert_gt(step, 0u, "an alarm that is due does not go away");
		for (unsigned int i = 0; i < 40; i++) {
			last_branch = 0x400000 + ran + i;
			branch(VPMU_EMU_USR, VPMU_LBR_JCC, last_branch, last_branch + 0x1000);
		}
		ran += step;
		bed_exec(&b, VPMU_EMU_USR, VPMU_EMU_BRANCHES, step);
		bed_exec(&b, VPMU_EMU_USR, VPMU_EMU_CYCLES, 3 * step);
		bed_exec(&b, VPMU_EMU_USR, VPMU_EMU_REF_CYCLES, 2 * step);
		bed_exec(&b, VPMU_EMU_USR, VPMU_EMU_INSTRUCTIONS, step);
		vpmu_pcpu_overflow(b.pcpu[b.on]);
		if (!vpmu_guest_pending(b.g) || !vpmu_guest_service(b.g))
			continue;
		pmis++;
		handler_branches();
		lx_pmi(&linux_);
		check_records();
	}
	return pmis;
}

/* Use every counter: GP counter 0 samples instructions. */
static void open_events(struct lx *l)
{
	static const uint64_t intel[] = {0xc0, 0xc4, 0x3c}, amd[] = {0xc0, 0xc2, 0x76};
	/* AMD's driver sets HostOnly or GuestOnly for exclude_guest, exclude_host. */
	static const uint64_t owner[] = {0, 1ULL << 41, 1ULL << 40};

	lx_doing = "opening events";
	for (unsigned int i = 0; i < l->gp; i++)
		lx_add(l, (int)i,
		       l->intel ? intel[i % 3] | BOTH : amd[i % 3] | BOTH | owner[i / 2 % 3],
		       i ? 0 : PERIOD);
	for (unsigned int i = 0; i < l->fixed && i < 3; i++)
		lx_add(l, 32 + (int)i, 0, 0);
}

/* Of each instruction: of a GP counter's event, of a fixed counter's. */
static uint64_t factor(const struct lx_event *e)
{
	static const unsigned int gp[] = {1, 1, 3}, fixed[] = {1, 3, 2};

	return e->idx < 32 ? gp[e->idx % 3] : fixed[e->idx - 32];
}

Test(guest_linux, counts_and_samples)
{
	for (unsigned int k = 0; k < NR_MACHINES; k++) {
		struct lx *l = &linux_;

		boot(&machines[k]);
		if (l->driver) {
			open_events(l);
			lx_enable_all(l, false);
			cr_assert_eq(run(10 * PERIOD + 123), 10u, "line %d", finds[k].line);
			lx_doing = "stopping";
			lx_disable_all(l);
			cr_assert_eq(run(5 * PERIOD), 0u, "line %d: while off", finds[k].line);
			lx_doing = "starting again";
			lx_enable_all(l, false);
			cr_assert_eq(run(PERIOD - 123), 1u, "line %d", finds[k].line);
			for (unsigned int i = 0; i < l->nr_events; i++) {
				struct lx_event *e = &l->ev[i];

				lx_update(e);
				cr_assert_eq(e->count, 11 * PERIOD * factor(e),
					     "line %d: counter %d: %llu", finds[k].line, e->idx,
					     (unsigned long long)e->count);
				cr_assert_eq(e->samples, i ? 0 : 11u);
			}
		}
		finish();
	}
}

/* perf record -b, on the models that have branch records: any branch of both rings. */
Test(guest_linux, samples_branches)
{
	unsigned int with = 0;

	for (unsigned int k = 0; k < NR_MACHINES; k++) {
		struct lx *l = &linux_;

		boot(&machines[k]);
		if (l->lbr_nr) {
			with++;
			lx_doing = "opening events";
			l->lbr_user = true;
			l->lbr_filter = l->intel ? 0x7f0006 : 0;
			lx_lbr_reset(l);
			open_events(l);
			lx_enable_all(l, false);
			cr_assert_eq(run(3 * PERIOD), 3u, "line %d", finds[k].line);
			cr_assert_eq(l->nr_br, l->lbr_nr);
			lx_doing = "stopping";
			lx_disable_all(l);
			run(10);
			lx_lbr_read(l);
			cr_assert_lt(l->br[0].from, last_branch - 39, "recorded while disabled");
			lx_lbr_reset(l);
			lx_lbr_read(l);
			cr_assert_eq(l->nr_br, 0u, "line %d: after a reset", finds[k].line);
		}
		finish();
	}
	cr_assert_eq(with, 4u);
}

/* perf record --call-graph lbr: Linux does not freeze these records. */
Test(guest_linux, call_stacks)
{
	struct lx *l = &linux_;

	boot(&machines[M_V5]);
	lx_doing = "using call stacks";
	lx_lbr_reset(l);
	lx_wr(0x14ce, 0x38000d); /* user, calls and returns */
	for (unsigned int i = 0; i < 10; i++)
		branch(VPMU_EMU_USR, VPMU_LBR_REL_CALL, 0x1000 + i, 0x2000 + i);
	branch(VPMU_EMU_USR, VPMU_LBR_JCC, 0x3000, 0x4000);
	l->lbr_user = true;
	lx_lbr_read(l);
	cr_assert_eq(l->nr_br, 10u);
	/* another task is switched in, and back */
	lx_lbr_reset(l);
	for (unsigned int i = 0; i < 10; i++) {
		lx_wr(0x1500 + i, l->br[i].from);
		lx_wr(0x1600 + i, l->br[i].to);
		lx_wr(0x1200 + i, l->br[i].info);
	}
	lx_lbr_read(l);
	cr_assert_eq(l->nr_br, 10u);
	cr_assert_eq(l->br[0].from, 0x1009u);
	cr_assert_eq(l->br[9].to, 0x2000u);
}

/* ---- other uses of the registers by Linux ---- */

/* ptrace's single step of branches, in a guest that knows nothing of what DEBUGCTL has here; and
 * writing back what IA32_MISC_ENABLE held. */
Test(guest_linux, debug_registers)
{
	for (unsigned int k = 0; k < NR_MACHINES; k++) {
		uint64_t dbg, misc;

		boot(&machines[k]);
		lx_doing = "stepping branches";
		dbg = lx_rd(0x1d9);
		lx_wr(0x1d9, dbg | 2);
		cr_assert_eq(lx_rd(0x1d9), dbg, "line %d: BTF is kept", finds[k].line);
		lx_wr(0x1d9, dbg | 3);
		cr_assert_eq(lx_rd(0x1d9), dbg);
		lx_wr(0x1d9, dbg & ~2ULL);
		lx_doing = "writing IA32_MISC_ENABLE";
		if (linux_.intel) {
			misc = lx_rd(0x1a0);
			lx_wr(0x1a0, misc & ~(1ULL << 34 | 1 << 22));
			cr_assert_eq(lx_rd(0x1a0), misc);
		} else {
			cr_assert(!lx_rd_safe(0x1a0, &misc), "AMD has no such register");
		}
		finish();
	}
}

/* intel_pmu_reset, when the handler gave up: everything goes off. */
Test(guest_linux, resets)
{
	for (unsigned int k = 0; k < NR_MACHINES; k++) {
		struct lx *l = &linux_;

		boot(&machines[k]);
		if (l->driver && l->intel) {
			open_events(l);
			lx_enable_all(l, false);
			bed_exec(&b, VPMU_EMU_USR, VPMU_EMU_INSTRUCTIONS, 2 * PERIOD);
			lx_doing = "resetting";
			for (unsigned int i = 0; i < l->gp; i++) {
				lx_wr(l->sel + i, 0);
				lx_wr(l->ctr + i, 0);
			}
			for (unsigned int i = 0; i < l->fixed; i++)
				lx_wr(0x309 + i, 0);
			lx_wr(0x390, lx_rd(0x38e));
			lx_wr(0x38f, 0);
			if (l->lbr_nr)
				lx_wr(0x1d9, lx_rd(0x1d9) & ~(1ULL << 11 | 1));
			bed_exec(&b, VPMU_EMU_USR, VPMU_EMU_INSTRUCTIONS, 2 * PERIOD);
			for (unsigned int i = 0; i < l->gp; i++)
				cr_assert_eq(lx_rdpmc(i), 0u);
			cr_assert_eq(lx_rd(0x38e), 0u);
		}
		finish();
	}
}

/* The fewest general counters that a configuration may ask for are enough for Linux. */
Test(guest_linux, fewest_counters)
{
	for (int m = VPMU_GUEST_INTEL_V2; m < VPMU_GUEST_MODELS; m++) {
		struct vpmu_guest_cfg cfg = {.model = (enum vpmu_guest_model)m};
		int ret;

		for (cfg.gp = 1; (ret = bed_init(&b, &cfg, NULL)); cfg.gp++) {
			cr_assert_lt(cfg.gp, VPMU_GUEST_MAX_GP);
			bed_fini(&b);
		}
		bed_enter(&b, 0);
		lx_boot(&linux_);
		cr_assert(linux_.driver, "%s with %u counters", vpmu_guest_model_name(cfg.model),
			  cfg.gp);
		cr_assert_eq(linux_.gp, cfg.gp);
		finish();
	}
}
