// SPDX-License-Identifier: GPL-2.0-or-later
/* The part of selftest that checks PMIs and branch records; see selftest.h. */
#include "guest-tools/flow.h"
#include "tests/guest/selftest.h"
#include "guest-tools/truth.h"

#define MSR_X2APIC_LVTPC 0x834u
#define LVTPC_NMI	 (4u << 8)
#define LVTPC_MASKED	 (1u << 16)

static struct sampler s;
static char err[200];

static const struct event insns_u = {.id = EV_INSTRUCTIONS, .usr = true, .name = "instructions:u"};

/* Sample a loop of 3 instructions per iteration, every 1000 instructions. */
static void check_delivery(const struct guest_info *info, enum guest_pmi_delivery delivery)
{
	struct sample_opts o = {.ev = insns_u, .period = 1000, .delivery = delivery};
	bool vector = delivery == GUEST_PMI_VECTOR;
	uint64_t outside = 0;

	if (!sampler_open(&s, info, &o, err, sizeof(err)) ||
	    !sampler_run(&s, workload_loop, 5000, 0, err, sizeof(err))) {
		out("# vcpu %u: %s\n", info->vcpu, err);
		check("sampling can be set up", false, 0, 1);
		return;
	}
	if (!s.counted || s.partial) {
		out("# vcpu %u: instructions are not counted here all the time: PMIs not checked\n",
		    info->vcpu);
		return;
	}
	check_equal(vector ? "PMIs by vector" : "PMIs by NMI", s.handled, s.expected);
	check(vector ? "each by vector has a cause, and none is late"
		     : "each by NMI has a cause, and none is late",
	      sampler_ok(&s), s.pmi.no_cause + s.pmi.overruns, 0);
	for (uint64_t i = 0; i < s.pmi.samples; i++) {
		uint64_t ip = sampler_get(&s, i)->ip;

		outside += ip < (uint64_t)workload_loop || ip >= (uint64_t)workload_loop + 64;
	}
	check_equal(vector ? "samples by vector are in the loop" : "samples by NMI are in the loop",
		    outside, 0);
	check_equal("the interrupted code computes the same", s.result, 5000ull * 5001 / 2);
}

/* An overflow with LVTPC masked does not interrupt. Its status bit stays until it is cleared. */
static void check_masked(const struct guest_info *info)
{
	const struct pmu *pmu = &s.pmu;
	struct guest_pmi pmi = {
		.delivery = GUEST_PMI_NMI,
		.status = GUEST_STATUS_NONE,
		.sample_bytes = sizeof(struct guest_sample),
	};
	uint64_t select = pmu_gp_select(pmu, &insns_u) | EVTSEL_INT | EVTSEL_EN, v = 0;
	struct guest_run run = {.msr = pmu->global_ctrl, .enable = 1};
	uint64_t result;

	pmu_quiet(pmu);
	sys_pmi(&pmi);
	tool_wrmsr(MSR_X2APIC_LVTPC, LVTPC_MASKED | LVTPC_NMI);
	tool_wrmsr(pmu_counter_msr(pmu, 0), -100ull & ((1ull << pmu->width) - 1));
	if (pmu->global_ctrl) {
		tool_wrmsr(pmu_evtsel_msr(pmu, 0), select);
	} else {
		run.msr = pmu_evtsel_msr(pmu, 0);
		run.enable = select;
	}
	tool_run(info, workload_find("loop", 4), 1000, &run, &result);
	check_equal("no PMI through a masked LVTPC", pmi.pmis, 0);
	sys_pmi(NULL);
	if (pmu->status) {
		tool_rdmsr(pmu->status, &v);
		check_equal("its overflow is in the status", v, 1);
		tool_wrmsr(pmu->status_clear, 1);
		tool_rdmsr(pmu->status, &v);
		check_equal("and can be cleared", v, 0);
	}
	pmu_quiet(pmu);
}

void check_pmis(const struct guest_info *info)
{
	struct pmu pmu;

	pmu_probe(&pmu);
	if (pmu.vendor == PMU_NONE)
		return;
	if (!apic_enable(err, sizeof(err))) {
		out("# vcpu %u: %s\n", info->vcpu, err);
		return;
	}
	check_delivery(info, GUEST_PMI_NMI);
	check_delivery(info, GUEST_PMI_VECTOR);
	if (s.counted && !s.partial)
		check_masked(info);
}

/* Compare the records at PMIs with the truth, for all branches or the call stack. */
static void check_truth(const struct guest_info *info, const struct lbr_dev *dev, bool branches)
{
	struct sample_opts o = {
		.ev = insns_u,
		.period = 101,
		.lbr_depth = dev->max,
		.lbr_mode = branches ? LBR_BRANCHES : LBR_CALLS,
		.stack_nr = LBR_DEPTH_MAX + 1,
		.keep = 512,
	};
	uint64_t captures = 0, equal = 0;

	if (!sampler_open(&s, info, &o, err, sizeof(err)) ||
	    !sampler_run(&s, branches ? workload_branches : workload_chain, 200, 0, err,
			 sizeof(err))) {
		out("# vcpu %u: %s\n", info->vcpu, err);
		return; /* no local APIC: reported by check_pmis */
	}
	if (!s.counted || s.partial)
		return;
	for (uint64_t i = 0; i < s.pmi.samples; i++) {
		const struct guest_sample *g = sampler_get(&s, i);
		unsigned int want, n;

		if (truth_edge(g, branches))
			continue;
		captures++;
		n = branches ? truth_branches(&s, g, &want) : truth_chain(&s, g, &want);
		equal += want && n == want;
	}
	check("branch records were captured", captures > 3, captures, 4);
	check_equal(branches ? "records are the last branches" : "records are the call stack",
		    equal, captures);
}

void check_branch_records(const struct guest_info *info)
{
	uint64_t from = 0, to = 0;
	struct lbr_dev dev;

	lbr_probe(&dev, err, sizeof(err));
	if (dev.kind == LBR_NONE) {
		out("# vcpu %u: %s\n", info->vcpu, err);
		return;
	}
	check("branch records start empty",
	      lbr_start(&dev, LBR_BRANCHES, dev.max) && lbr_stop(&dev) &&
		      lbr_clear(&dev, dev.max) && tool_rdmsr(dev.from, &from) &&
		      tool_rdmsr(dev.to, &to) && !from && !to,
	      from | to, 0);
	check_truth(info, &dev, true);
	if (dev.call_stack)
		check_truth(info, &dev, false);
}
