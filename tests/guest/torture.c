// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The command torture: random operations, legal or not, on the PMU, branch record and local APIC
 * registers, with work in between and PMIs enabled. The vCPU must survive them, and the check_*
 * functions below must pass after every CHECK_EVERY operations; in particular a counter must still
 * count exactly.
 */
#include "guest-tools/flow.h"
#include "guest-tools/sample.h"
#include "tests/guest/hostile.h"

#define CHECK_EVERY 50 /* operations between two checks */
#define SHOWN_MAX   8

#define MSR_DEBUGCTL	 0x1d9u
#define MSR_X2APIC_TPR	 0x808u
#define MSR_X2APIC_LVTPC 0x834u

struct range {
	uint32_t first, n;
};

/* Registers of both vendors, existing or not, and their neighbours. */
static const struct range ranges[] = {
	{0xc0, 10},	  {0x186, 9},	   {0x1d9, 1},	     {0x309, 5},      {0x345, 1},
	{0x38d, 6},	  {0x4c1, 9},	   {0x14ce, 2},	     {0x1200, 33},    {0x1500, 33},
	{0x1600, 33},	  {0xc000010e, 2}, {0xc0000300, 4},  {0xc0010000, 8}, {0xc0010200, 16},
	{0xc0010300, 33}, {0x802, 2},	   {0x808, 1},	     {0x80b, 1},      {0x810, 32},
	{0x832, 6},	  {0x83f, 1},	   {0x56504d00, 80},
};

static struct args_torture args;
static const struct guest_info *vcpu;
static struct pmu pmu;
static struct lbr_dev lbr;
static struct guest_pmi pmi;
static bool apic, partial;
static uint64_t rnd, faults, armed, runs, pmis, no_cause, interrupts, checks, failures;
static bool nmi_only; /* since the last check LVTPC was NMI or masked, never a vector */

static uint64_t random64(void)
{
	/* splitmix64 */
	uint64_t z = rnd += 0x9e3779b97f4a7c15;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
	z = (z ^ z >> 27) * 0x94d049bb133111eb;
	return z ^ z >> 31;
}

static uint64_t below(uint64_t n)
{
	return random64() % n;
}

static void torture_check(bool ok, const char *what, uint32_t msr, uint64_t saw, uint64_t expected)
{
	checks++;
	if (ok)
		return;
	if (failures++ < SHOWN_MAX)
		out("FAIL %s (vcpu %u): MSR 0x%x: saw 0x%lx, expected 0x%lx\n", what, vcpu->vcpu,
		    msr, saw, expected);
}

/* ---- operations -------------------------------------------------------------------------------
 */

/* Random values that often have an effect: few bits, legal event selects, periods, noise. */
static uint64_t random_value(void)
{
	static const uint16_t events[] = {0xc0, 0x3c, 0xc4, 0x20c4, 0x76, 0xc2, 0x81d0, 0x82d0, 0};

	switch (below(8)) {
	case 0:
		return 0;
	case 1:
		return 1ull << below(64);
	case 2:
		return random64() & random64() & random64();
	case 3: /* an event select, mostly with INT and EN */
		return events[below(9)] | (random64() & 0x730000) | EVTSEL_EN;
	case 4: /* a counter that overflows soon */
		return -(1 + below(1000)) & ((1ull << pmu.width) - 1);
	case 5:
		return below(0x100);
	case 6:
		return pmu.gp ? (1ull << pmu.gp) - 1 : 1;
	default:
		return random64();
	}
}

static uint32_t random_msr(void)
{
	const struct range *r = &ranges[below(sizeof(ranges) / sizeof(ranges[0]))];

	return r->first + (uint32_t)below(r->n);
}

/* Replace values that would end the program: vectors that look like another interrupt, and LVTPC
 * delivery modes that the handler does not know. */
static uint64_t tame(uint32_t msr, uint64_t value)
{
	if (msr == MSR_X2APIC_LVTPC) {
		switch (below(4)) {
		case 0:
			nmi_only = false;
			return GUEST_VEC_PMI;
		case 1:
			return 1u << 16 | 4u << 8;
		default:
			return 4u << 8;
		}
	}
	/* Self IPIs and the other LVT entries (the error entry delivers) must not use the vector of
	 * an exception, of a PMI, or of a spurious interrupt, which the kernel does not
	 * acknowledge. */
	if ((msr == 0x83f || (msr >= 0x832 && msr <= 0x837)) &&
	    (value & 0xff) <= GUEST_VEC_SPURIOUS)
		return value | 0x80;
	return value;
}

static void work(void)
{
	struct guest_run run = {.msr = 0, .mem = vcpu->mem, .call = sys_null_call};

	switch (below(3)) {
	case 0:
		run.fn = workload_loop;
		run.n = below(500);
		break;
	case 1:
		run.fn = workload_chain;
		run.n = below(100);
		break;
	default:
		run.fn = workload_syscalls;
		run.n = below(20);
	}
	sys_run(&run);
	runs++;
}

/* Set up and enable a counter that overflows soon; sometimes its PMI freezes the counters. */
static void torture_arm(void)
{
	const uint32_t c = pmu.gp ? (uint32_t)below(pmu.gp) : 0;
	uint64_t select = 0xc0 | EVTSEL_EN | EVTSEL_INT | (1 + below(3)) << 16;

	if (pmu.vendor == PMU_NONE)
		return;
	if (pmu.vendor == PMU_INTEL)
		faults += !tool_wrmsr(MSR_DEBUGCTL, below(3) ? 0 : below(4) << 11);
	if (pmu.fixed && !below(3)) {
		faults += !tool_wrmsr(pmu_counter_msr(&pmu, VPMU_PV_FIXED),
				      -(1 + below(300)) & ((1ull << pmu.width) - 1));
		faults += !tool_wrmsr(MSR_IA32_FIXED_CTRL, FIXED_PMI | (1 + below(3)));
	}
	faults += !tool_wrmsr(pmu_counter_msr(&pmu, (int)c),
			      -(1 + below(300)) & ((1ull << pmu.width) - 1));
	faults += !tool_wrmsr(pmu_evtsel_msr(&pmu, (int)c), select);
	if (pmu.global_ctrl)
		faults += !tool_wrmsr(pmu.global_ctrl,
				      ((1ull << pmu.gp) - 1) | ((1ull << pmu.fixed) - 1) << 32);
	armed++;
	work();
}

static void operate(void)
{
	uint32_t msr = random_msr();
	uint64_t v = tame(msr, random_value());
	enum guest_op_kind kind = GUEST_WRMSR;

	switch (below(8)) {
	case 0:
	case 1:
		kind = GUEST_RDMSR;
		break;
	case 2:
		kind = GUEST_RDPMC;
		msr = (uint32_t)(below(2)   ? below(20)
				 : below(2) ? 0x40000000 + below(6)
					    : random64());
		break;
	}
	if (!tool_op(kind, msr, &v))
		faults++;
}

/* ---- invariants --------------------------------------------------------------------------- */

static uint64_t counters_mask(void)
{
	return ((1ull << pmu.gp) - 1) | ((1ull << pmu.fixed) - 1) << 32;
}

static void torture_check_status(void)
{
	/* Intel: LBR_Frz, CTR_Frz, and Ovf_Uncore, OvfBuf, CondChgd, which STATUS_SET may set (SDM
	 * vol. 3 figure 20-10). AMD: LBRS frozen, counters frozen (APM vol. 2, 13.2.4). */
	const uint64_t others =
		pmu.vendor == PMU_INTEL ? 3ull << 58 | 3ull << 62 | 1ull << 61 : 3ull << 58;
	uint64_t v;

	if (pmu.status && tool_rdmsr(pmu.status, &v))
		torture_check(!(v & ~(counters_mask() | others)), "status of absent counters",
			      pmu.status, v, counters_mask() | others);
}

static void read_counters(uint64_t *v)
{
	for (int i = 0; i < (int)pmu.gp; i++)
		if (!tool_rdmsr(pmu_counter_msr(&pmu, i), &v[i]))
			v[i] = 0;
	for (int i = 0; i < (int)pmu.fixed; i++)
		if (!tool_rdmsr(pmu_counter_msr(&pmu, (int)VPMU_PV_FIXED + i), &v[16 + i]))
			v[16 + i] = 0;
}

static void check_stopped(void)
{
	uint64_t a[VPMU_PV_FIXED + 4] = {0}, b[VPMU_PV_FIXED + 4] = {0};

	read_counters(a);
	for (int i = 0; i < (int)VPMU_PV_FIXED + 4; i++)
		torture_check(!(a[i] >> pmu.width), "value wider than the counter", (uint32_t)i,
			      a[i], pmu.width);
	pmu_quiet(&pmu);
	read_counters(a);
	work();
	read_counters(b);
	for (int i = 0; i < (int)VPMU_PV_FIXED + 4; i++)
		torture_check(a[i] == b[i], "a disabled counter moved", (uint32_t)i, b[i], a[i]);
	torture_check_status();
}

static bool count_loop(uint64_t n, uint64_t *count)
{
	static const struct event ev = {
		.id = EV_INSTRUCTIONS, .usr = true, .name = "instructions:u"};
	const struct workload *w = workload_find("loop", 4);
	uint64_t select = pmu_gp_select(&pmu, &ev) | EVTSEL_EN, result, enabled, running;
	struct guest_run run = {.msr = pmu.global_ctrl, .enable = 1};
	uint32_t ctr = pmu_counter_msr(&pmu, 0);
	bool ok;

	ok = tool_wrmsr(ctr, 0);
	if (!pmu.global_ctrl) {
		run.msr = pmu_evtsel_msr(&pmu, 0);
		run.enable = select;
	} else {
		ok = tool_wrmsr(pmu_evtsel_msr(&pmu, 0), select) && ok;
	}
	ok = !tool_run(vcpu, w, n, &run, &result) && ok;
	ok = tool_rdmsr(ctr, count) && ok;
	partial = pmu.pv & VPMU_PV_FEAT_TIMES && tool_rdmsr(VPMU_PV_MSR_BASE, &enabled) &&
		  tool_rdmsr(VPMU_PV_MSR_BASE + 1, &running) && running < enabled;
	if (pmu.pv & VPMU_PV_FEAT_TIMES && tool_rdmsr(VPMU_PV_MSR_BASE + 2, &result))
		partial = partial || result == VPMU_PV_UNSUPPORTED;
	tool_wrmsr(pmu_evtsel_msr(&pmu, 0), 0);
	return ok;
}

static void torture_check_counting(void)
{
	uint64_t n = 100 + below(1000), a = 0, b = 0;

	if (pmu.vendor == PMU_INTEL)
		tool_wrmsr(MSR_DEBUGCTL, 0);
	torture_check(count_loop(n, &a), "a counter cannot be set up any more",
		      pmu_counter_msr(&pmu, 0), 0, 1);
	if (partial)
		return;
	count_loop(n + 1000, &b);
	if (!partial)
		torture_check(b - a == 3000, "1000 more iterations are 3000 more instructions",
			      pmu_counter_msr(&pmu, 0), b - a, 3000);
}

/* Check and add up the PMIs so far. An NMI must find a status bit. A vector may arrive after the
 * bit has been cleared. */
static void torture_check_pmis(void)
{
	struct guest_run drain = {.fn = workload_empty};

	if (!apic)
		return;
	tool_wrmsr(MSR_X2APIC_TPR, 0); /* interrupts that wait for their priority come now */
	sys_run(&drain);
	if (pmu.status && nmi_only)
		torture_check(!pmi.no_cause, "a PMI without an overflow", pmu.status, pmi.no_cause,
			      0);
	pmis += pmi.pmis;
	if (pmu.status)
		no_cause += pmi.no_cause;
	interrupts += pmi.interrupts;
	pmi.pmis = pmi.no_cause = pmi.interrupts = 0;
	tool_wrmsr(MSR_X2APIC_LVTPC, 4u << 8);
	nmi_only = true;
}

static bool open_pmi(char *err, size_t err_size)
{
	pmi = (struct guest_pmi){
		/* IF must be on in CPL3, because self IPIs and LVTPC vectors come, too. */
		.delivery = GUEST_PMI_VECTOR,
		.status = pmu.vendor == PMU_INTEL ? GUEST_STATUS_INTEL
			  : pmu.status		  ? GUEST_STATUS_AMD
						  : GUEST_STATUS_NONE,
		.keep_lvtpc = 1,
		.sample_bytes = sizeof(struct guest_sample),
	};
	if (!apic_enable(err, err_size))
		return true; /* without a local APIC, there are just no PMIs */
	apic = true;
	if (!sys_pmi(&pmi))
		return true;
	text_format(err, err_size, "a register that the PMI handler needs is #GP");
	return false;
}

TOOL_COMMAND(torture, "[-j] [SEED] [N]", "execute random PMU, LBR and APIC operations");
int torture_main(const struct guest_info *info, const char *text)
{
	static char err[ARGS_ERR_MAX];
	struct lbr_dev none = {.kind = LBR_NONE};

	if (!args_torture_parse(text, &args, err))
		return tool_error(info, err);
	vcpu = info;
	pmu_probe(&pmu);
	lbr_probe(&lbr, err, sizeof(err));
	rnd = args.seed * 0x2545f4914f6cdd1d + info->vcpu;
	if (pmu.vendor == PMU_NONE)
		pmu.width = 63, lbr = none;
	else if (!open_pmi(err, sizeof(err)))
		return tool_cannot(info, err);
	torture_check_pmis();
	for (uint64_t i = 1; i <= args.ops; i++) {
		if (below(6))
			operate();
		else
			torture_arm();
		if (below(4) == 0)
			work();
		if (i % CHECK_EVERY && i != args.ops)
			continue;
		if (pmu.vendor == PMU_NONE)
			continue;
		check_stopped();
		torture_check_counting();
		torture_check_pmis();
	}
	if (lbr.kind != LBR_NONE)
		torture_check(lbr_stop(&lbr), "branch records cannot be stopped", 0, 0, 1);
	sys_pmi(NULL);
	out(args.json
		    ? "{\"kind\":\"guest-torture\",\"vcpu\":%u,\"seed\":%lu,\"ops\":%lu,"
		      "\"armed\":%lu,\"faults\":%lu,\"runs\":%lu,\"pmis\":%lu,\"late_pmis\":%lu,"
		      "\"interrupts\":%lu,\"checks\":%lu,\"failures\":%lu}\n"
		    : "vcpu %u: torture %lu: %lu operations, %lu armed, %lu faults, %lu runs, %lu "
		      "PMIs (%lu "
		      "after their status went), %lu other interrupts, %lu checks, %lu failures\n",
	    info->vcpu, args.seed, args.ops, armed, faults, runs, pmis, no_cause, interrupts,
	    checks, failures);
	return failures ? TOOL_FAILED : TOOL_OK;
}
