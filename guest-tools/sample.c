// SPDX-License-Identifier: GPL-2.0-or-later
/* Sampling; see sample.h. This file sets up counters and LVTPC and runs the workload; kernel_pmi.c
 * takes the samples. */
#include "guest-tools/sample.h"

/* SDM vol. 3, 11.12.1 */
#define MSR_APIC_BASE	 0x1bu
#define APIC_BASE_X2	 (3u << 10) /* EN, EXTD */
#define MSR_X2APIC_SVR	 0x80fu
#define MSR_X2APIC_LVTPC 0x834u
#define LVT_MASKED	 (1u << 16)

bool apic_enable(char *err, size_t err_size)
{
	uint32_t r[4];
	uint64_t base;

	tool_cpuid(1, 0, r);
	if (!(r[2] & 1u << 21)) {
		text_format(err, err_size,
			    "no PMIs here: no local APIC in x2APIC mode (CPUID 1 ECX[21] is 0)");
		return false;
	}
	if (!tool_rdmsr(MSR_APIC_BASE, &base) ||
	    ((base & APIC_BASE_X2) != APIC_BASE_X2 &&
	     !tool_wrmsr(MSR_APIC_BASE, base | APIC_BASE_X2)) ||
	    !tool_wrmsr(MSR_X2APIC_SVR, 1u << 8 | GUEST_VEC_SPURIOUS)) {
		text_format(err, err_size, "no PMIs here: the local APIC cannot be enabled (#GP)");
		return false;
	}
	return true;
}

static uint64_t sample_mask_of(const struct pmu *pmu)
{
	return (1ull << pmu->width) - 1;
}

static uint64_t global_bit(int ctr)
{
	return ctr >= (int)VPMU_PV_FIXED ? 1ull << (32 + ctr - (int)VPMU_PV_FIXED) : 1ull << ctr;
}

/* Choose the sampling counter and the one that only counts. */
static bool sample_choose(struct sampler *s, char *err, size_t err_size)
{
	const struct event *ev = &s->o.ev;
	uint64_t select = pmu_gp_select(&s->pmu, ev);
	int fixed = pmu_fixed(&s->pmu, ev);

	s->ctr = s->ref = PMU_NO_COUNTER;
	if (!pmu_countable(&s->pmu, ev)) {
		text_format(err, err_size, "%s: this PMU has no such event", ev->name);
		return false;
	}
	if (s->o.fixed && fixed < 0) {
		text_format(err, err_size, "%s: no fixed counter counts that here", ev->name);
		return false;
	}
	if (s->o.fixed || !select || !s->pmu.gp) {
		s->ctr = (int)VPMU_PV_FIXED + fixed;
		if (select && s->pmu.gp)
			s->ref = 0;
		return true;
	}
	s->ctr = 0;
	/* Without global control the handler cannot stop both counters at once, so their counts of
	 * CPL0 would differ. */
	if (!s->pmu.global_ctrl && ev->os)
		return true;
	if (fixed >= 0)
		s->ref = (int)VPMU_PV_FIXED + fixed;
	else if (s->pmu.gp > 1)
		s->ref = 1;
	return true;
}

static void set_up_pmi(struct sampler *s)
{
	struct guest_pmi *p = &s->pmi;
	uintptr_t buf = (uintptr_t)s->info->mem + ((s->o.keep + 63) & ~(size_t)63);
	uintptr_t end = (uintptr_t)s->info->mem + s->info->mem_bytes;

	*p = (struct guest_pmi){
		.delivery = s->o.delivery,
		.status = s->pmu.vendor == PMU_INTEL ? GUEST_STATUS_INTEL
			  : s->pmu.status	     ? GUEST_STATUS_AMD
						     : GUEST_STATUS_NONE,
		.ctl = s->pmu.global_ctrl,
		.ctl_off = UINT64_MAX,
		.ctr = pmu_counter_msr(&s->pmu, s->ctr),
		.width = s->pmu.width,
		.period = s->o.period,
		.stack_nr = s->o.stack_nr,
	};
	if (!p->ctl) {
		p->ctl = pmu_evtsel_msr(&s->pmu, s->ctr);
		p->ctl_off = EVTSEL_EN;
	}
	for (uint64_t bit = global_bit(s->ctr); bit > 1; bit >>= 1)
		p->status_bit++;
	if (s->o.lbr_depth) {
		p->lbr_from = s->lbr.from;
		p->lbr_to = s->lbr.to;
		p->lbr_stride = s->lbr.stride;
		p->lbr_nr = s->o.lbr_depth;
	}
	p->sample_bytes = (uint32_t)sizeof(struct guest_sample) + 8 * (p->stack_nr + 2 * p->lbr_nr);
	p->buf = (unsigned char *)buf;
	p->max = buf < end ? (end - buf) / p->sample_bytes : 0;
}

bool sampler_open(struct sampler *s, const struct guest_info *info, const struct sample_opts *o,
		  char *err, size_t err_size)
{
	*s = (struct sampler){.info = info, .o = *o};
	pmu_probe(&s->pmu);
	if (s->pmu.vendor == PMU_NONE) {
		text_format(err, err_size, "no PMU to sample with");
		return false;
	}
	if (!apic_enable(err, err_size) || !sample_choose(s, err, err_size))
		return false;
	if (o->lbr_depth) {
		lbr_probe(&s->lbr, err, err_size);
		if (s->lbr.kind == LBR_NONE)
			return false;
		if (!lbr_depth_ok(&s->lbr, o->lbr_depth)) {
			text_format(err, err_size, "%u branch records: %s", o->lbr_depth,
				    s->lbr.depths ? "CPUID 1CH EAX does not offer that depth"
						  : "the depth is fixed here");
			return false;
		}
		if (o->lbr_mode == LBR_CALLS && !s->lbr.call_stack) {
			text_format(err, err_size,
				    "no call-stack mode: the branch records here have none");
			return false;
		}
	}
	return true;
}

/* Set up both counters, and *run to start them. */
static bool program(struct sampler *s, bool sampling, struct guest_run *run)
{
	const int ctrs[2] = {s->ctr, s->ref};
	uint64_t fixed_ctrl = 0,
		 nibble = (s->o.ev.os ? FIXED_OS : 0) | (s->o.ev.usr ? FIXED_USR : 0);
	uint64_t select = pmu_gp_select(&s->pmu, &s->o.ev);
	bool ok = true;

	*run = (struct guest_run){.msr = s->pmu.global_ctrl};
	for (int i = 0; i < 2; i++) {
		bool irq = sampling && i == 0;
		uint64_t v = irq ? -s->o.period & sample_mask_of(&s->pmu) : 0;
		int c = ctrs[i];

		if (c == PMU_NO_COUNTER)
			continue;
		ok = tool_wrmsr(pmu_counter_msr(&s->pmu, c), v) && ok;
		run->enable |= global_bit(c);
		if (c >= (int)VPMU_PV_FIXED) {
			fixed_ctrl |= (nibble | (irq ? FIXED_PMI : 0))
				      << 4 * (c - (int)VPMU_PV_FIXED);
			continue;
		}
		v = select | (irq ? EVTSEL_INT : 0);
		if (!s->pmu.global_ctrl) {
			s->writes[run->nr_writes++] = (struct guest_write){
				.msr = pmu_evtsel_msr(&s->pmu, c), .on = v | EVTSEL_EN, .off = v};
			run->writes = s->writes;
		}
		ok = tool_wrmsr(pmu_evtsel_msr(&s->pmu, c),
				v | (s->pmu.global_ctrl ? EVTSEL_EN : 0)) &&
		     ok;
	}
	if (fixed_ctrl)
		ok = tool_wrmsr(MSR_IA32_FIXED_CTRL, fixed_ctrl) && ok;
	return ok;
}

static bool call(struct sampler *s, struct guest_run *run, workload_fn *fn, uint64_t n,
		 size_t bytes)
{
	run->fn = fn;
	run->n = n;
	run->mem = s->info->mem;
	run->mem_bytes = bytes;
	run->call = sys_null_call;
	run->fault = 0;
	s->result = sys_run(run);
	return !run->fault;
}

/* Check that @ctr was counted, and without multiplexing, if the host reports that. */
static void sample_read_times(struct sampler *s, int ctr)
{
	const uint32_t pv = VPMU_PV_MSR_BASE + 4 * (uint32_t)ctr;
	uint64_t enabled, running, quality;

	s->counted = true;
	if (!(s->pmu.pv & VPMU_PV_FEAT_TIMES) || !tool_rdmsr(pv, &enabled) ||
	    !tool_rdmsr(pv + 1, &running) || !tool_rdmsr(pv + 2, &quality))
		return;
	s->counted = quality != VPMU_PV_UNSUPPORTED;
	s->partial = running < enabled;
}

/* Count the event in a run without interrupts, with the sampled counter. */
static bool count_alone(struct sampler *s, workload_fn *fn, uint64_t n, size_t bytes)
{
	struct guest_run run;
	bool ok;

	pmu_quiet(&s->pmu);
	ok = program(s, false, &run) && call(s, &run, fn, n, bytes) &&
	     tool_rdmsr(pmu_counter_msr(&s->pmu, s->ctr), &s->count);
	sample_read_times(s, s->ctr);
	return ok;
}

bool sampler_run(struct sampler *s, workload_fn *fn, uint64_t n, size_t bytes, char *err,
		 size_t err_size)
{
	struct guest_run run, drain = {.msr = 0};
	uint64_t v = 0, result;
	bool ok = true;

	set_up_pmi(s);
	if (s->ref == PMU_NO_COUNTER)
		ok = count_alone(s, fn, n, bytes);
	pmu_quiet(&s->pmu);
	ok = ok && program(s, true, &run);
	if (ok && sys_pmi(&s->pmi)) {
		text_format(err, err_size,
			    "no PMIs here: a register that the PMI handler needs is #GP");
		return false;
	}
	if (s->o.lbr_depth)
		ok = ok && lbr_start(&s->lbr, s->o.lbr_mode, s->o.lbr_depth);
	ok = ok && call(s, &run, fn, n, bytes);
	result = s->result;
	if (s->o.lbr_depth)
		ok = lbr_stop(&s->lbr) && ok;
	/* A PMI of the last instruction may still be pending. Interrupts are on in this call. */
	if (ok && s->o.delivery == GUEST_PMI_VECTOR)
		ok = call(s, &drain, workload_empty, 0, 0);
	s->result = result;
	sys_pmi(NULL);
	tool_wrmsr(MSR_X2APIC_LVTPC, LVT_MASKED);
	ok = ok && tool_rdmsr(pmu_counter_msr(&s->pmu, s->ctr), &v);
	if (ok && s->ref != PMU_NO_COUNTER) {
		ok = tool_rdmsr(pmu_counter_msr(&s->pmu, s->ref), &s->count);
		sample_read_times(s, s->ref);
	}
	pmu_quiet(&s->pmu);
	if (!ok) {
		text_format(err, err_size, "a counter register is #GP here");
		return false;
	}
	s->handled = s->pmi.pmis - s->pmi.no_cause;
	s->own = (s->handled + s->pmi.overruns) * s->o.period +
		 ((v + s->o.period) & sample_mask_of(&s->pmu));
	/* A run without the handler does not count the handler's instructions, so do not use it. */
	if (s->ref == PMU_NO_COUNTER && s->o.ev.os)
		s->count = s->own;
	s->expected = s->count / s->o.period;
	return true;
}

bool sampler_ok(const struct sampler *s)
{
	uint64_t d = s->handled > s->expected ? s->handled - s->expected : s->expected - s->handled;

	/* Events in CPL3 are the same for both counters. */
	return d <= 1 && !s->pmi.no_cause && !s->pmi.overruns &&
	       (s->o.ev.os || s->partial || s->own == s->count);
}
