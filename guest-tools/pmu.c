// SPDX-License-Identifier: GPL-2.0-or-later
/* The guest tools' PMU driver; see pmu.h. It must work on real CPUs and other hypervisors, too, so
 * it relies on CPUID only and treats a #GP as "not supported". */
#include "guest-tools/pmu.h"
#include "guest-tools/tools.h"

/* SDM vol. 4 table 2-2 */
#define MSR_IA32_PMC0	       0xc1u
#define MSR_IA32_PERFEVTSEL0   0x186u
#define MSR_IA32_FIXED_CTR0    0x309u
#define MSR_IA32_GLOBAL_STATUS 0x38eu
#define MSR_IA32_GLOBAL_CTRL   0x38fu
#define MSR_IA32_STATUS_RESET  0x390u /* versions 2 and 3: OVF_CTRL */
/* APM vol. 2, 13.2 */
#define MSR_AMD_PERF_CTL0     0xc0010200u /* PERF_CTR0 is the next one, and so on in pairs */
#define MSR_AMD_GLOBAL_STATUS 0xc0000300u
#define MSR_AMD_GLOBAL_CTL    0xc0000301u
#define MSR_AMD_STATUS_CLR    0xc0000302u
#define MSR_AMD_K7_CTL0	      0xc0010000u
#define MSR_AMD_K7_CTR0	      0xc0010004u

static bool pmu_vendor_is(const uint32_t r[4], const char *id) /* EBX EDX ECX */
{
	static const uint8_t order[3] = {1, 3, 2};

	for (int i = 0; i < 12; i++) {
		if ((char)(r[order[i / 4]] >> i % 4 * 8) != id[i])
			return false;
	}
	return true;
}

static void probe_pv(struct pmu *pmu)
{
	uint32_t r[4];

	tool_cpuid(1, 0, r);
	if (!(r[2] & 1u << 31)) /* hypervisor present: leaves 40000000H are valid */
		return;
	tool_cpuid(VPMU_PV_CPUID_BASE, 0, r);
	if (r[0] <= VPMU_PV_CPUID_BASE || r[1] != VPMU_PV_SIG_EBX || r[2] != VPMU_PV_SIG_EBX ||
	    r[3] != VPMU_PV_SIG_EBX)
		return;
	tool_cpuid(VPMU_PV_CPUID_BASE + 1, 0, r);
	if (r[0] == VPMU_PV_VERSION)
		pmu->pv = r[1];
}

/* SDM vol. 3, 20.2: EAX version, counters, width, length of EBX; EDX (and ECX from v5) fixed */
static void pmu_probe_intel(struct pmu *pmu, uint32_t max_leaf)
{
	uint32_t r[4];
	unsigned int bits;

	if (max_leaf < 0xa)
		return;
	tool_cpuid(0xa, 0, r);
	pmu->version = r[0] & 0xff;
	pmu->gp = r[0] >> 8 & 0xff;
	pmu->width = r[0] >> 16 & 0xff;
	bits = r[0] >> 24;
	pmu->missing = r[1];
	if (bits < 32)
		pmu->missing |= ~0u << bits;
	if (pmu->version >= 2)
		pmu->fixed = r[3] & 0x1f;
	/* The paravirtual MSRs have numbers for 16 GP and 4 fixed counters. */
	if (pmu->gp > VPMU_PV_FIXED)
		pmu->gp = VPMU_PV_FIXED;
	if (pmu->fixed > 4)
		pmu->fixed = 4;
	if (pmu->version >= 2) { /* version 1 has no global control */
		pmu->vendor = PMU_INTEL;
		pmu->global_ctrl = MSR_IA32_GLOBAL_CTRL;
		pmu->status = MSR_IA32_GLOBAL_STATUS;
		pmu->status_clear = MSR_IA32_STATUS_RESET;
		pmu->evtsel0 = MSR_IA32_PERFEVTSEL0;
		pmu->ctr0 = MSR_IA32_PMC0;
		pmu->stride = 1;
	}
}

/* APM vol. 2, 13.2.1: four counters always; six with PERFCTR_CORE, 80000001H ECX[23] */
static void probe_amd_legacy(struct pmu *pmu)
{
	uint32_t r[4];
	uint64_t v;

	tool_cpuid(0x80000001u, 0, r);
	pmu->vendor = PMU_AMD;
	pmu->version = 1;
	pmu->width = 48;
	pmu->gp = r[2] & 1u << 23 ? 6 : 4;
	pmu->evtsel0 = pmu->gp == 6 ? MSR_AMD_PERF_CTL0 : MSR_AMD_K7_CTL0;
	pmu->ctr0 = pmu->gp == 6 ? MSR_AMD_PERF_CTL0 + 1 : MSR_AMD_K7_CTR0;
	pmu->stride = pmu->gp == 6 ? 2 : 1;
	/* Without a PMU, CPUID looks the same: try to access a register. */
	if (!tool_rdmsr(pmu->evtsel0, &v))
		*pmu = (struct pmu){.vendor = PMU_NONE, .pv = pmu->pv};
}

/* APM vol. 2, 13.2: PerfMonV2 in 80000022H EAX[0], counters in EBX[3:0] */
static void pmu_probe_amd(struct pmu *pmu)
{
	uint32_t r[4];
	uint32_t max_leaf;

	tool_cpuid(0x80000000u, 0, r);
	max_leaf = r[0];
	if (max_leaf >= 0x80000022u)
		tool_cpuid(0x80000022u, 0, r);
	if (max_leaf < 0x80000022u || !(r[0] & 1)) {
		probe_amd_legacy(pmu);
		return;
	}
	pmu->vendor = PMU_AMD;
	pmu->version = 2;
	pmu->gp = r[1] & 0xf;
	pmu->width = 48;
	pmu->global_ctrl = MSR_AMD_GLOBAL_CTL;
	pmu->status = MSR_AMD_GLOBAL_STATUS;
	pmu->status_clear = MSR_AMD_STATUS_CLR;
	pmu->evtsel0 = MSR_AMD_PERF_CTL0;
	pmu->ctr0 = MSR_AMD_PERF_CTL0 + 1;
	pmu->stride = 2;
}

void pmu_probe(struct pmu *pmu)
{
	uint32_t r[4];

	*pmu = (struct pmu){.vendor = PMU_NONE};
	tool_cpuid(0, 0, r);
	if (pmu_vendor_is(r, "GenuineIntel"))
		pmu_probe_intel(pmu, r[0]);
	else if (pmu_vendor_is(r, "AuthenticAMD"))
		pmu_probe_amd(pmu);
	probe_pv(pmu);
}

void pmu_describe(const struct pmu *pmu, char *buf, size_t size)
{
	size_t n;

	if (pmu->vendor == PMU_NONE) {
		text_format(buf, size, "no PMU");
		return;
	}
	if (pmu->vendor == PMU_INTEL)
		n = text_format(buf, size, "Intel architectural version %u: %u + %u fixed",
				pmu->version, pmu->gp, pmu->fixed);
	else
		n = text_format(buf, size, "%s: %u",
				pmu->version == 2 ? "AMD PerfMonV2" : "AMD without global control",
				pmu->gp);
	text_format(buf + n, size - n, " counters of %u bits, %s%s", pmu->width,
		    pmu->pv & VPMU_PV_FEAT_TIMES ? "times and quality" : "no times",
		    pmu->pv & VPMU_PV_FEAT_RDPMC ? ", RDPMC" : "");
}

uint32_t pmu_counter_msr(const struct pmu *pmu, int ctr)
{
	if (ctr >= (int)VPMU_PV_FIXED)
		return MSR_IA32_FIXED_CTR0 + (uint32_t)ctr - VPMU_PV_FIXED;
	return pmu->ctr0 + pmu->stride * (uint32_t)ctr;
}

uint32_t pmu_evtsel_msr(const struct pmu *pmu, int ctr)
{
	return pmu->evtsel0 + pmu->stride * (uint32_t)ctr;
}

/* The event's bits of an event select; 0: a GP counter of this vendor cannot count it. */
static uint64_t gp_config(const struct pmu *pmu, const struct event *e)
{
	if (e->id == EV_RAW)
		return e->config;
	return pmu->vendor == PMU_AMD ? event_table[e->id].amd : event_table[e->id].intel;
}

uint64_t pmu_gp_select(const struct pmu *pmu, const struct event *e)
{
	uint64_t config = gp_config(pmu, e);

	return config ? config | (e->usr ? EVTSEL_USR : 0) | (e->os ? EVTSEL_OS : 0) : 0;
}

int pmu_fixed(const struct pmu *pmu, const struct event *e)
{
	int f = e->id == EV_RAW ? -1 : event_table[e->id].fixed;

	return f < (int)pmu->fixed ? f : -1;
}

bool pmu_countable(const struct pmu *pmu, const struct event *e)
{
	if (pmu->vendor == PMU_NONE)
		return false;
	if (pmu->vendor == PMU_INTEL && e->id != EV_RAW && event_table[e->id].arch_bit >= 0 &&
	    pmu->missing & 1u << event_table[e->id].arch_bit)
		return false;
	return pmu_fixed(pmu, e) >= 0 || (gp_config(pmu, e) && pmu->gp);
}

/* Assign counters; equal events share one if @share is set. False: a countable event got no
 * counter. */
static bool assign(const struct pmu *pmu, struct pmu_slot *s, size_t n, bool share)
{
	uint32_t used = 0; /* by counter number */
	bool all = true;

	for (size_t i = 0; i < n; i++) {
		int fixed = pmu_fixed(pmu, s[i].ev), gp = 0;
		int same = PMU_NO_COUNTER;

		s[i].ctr = PMU_NO_COUNTER;
		s[i].state = PMU_NOT_SUPPORTED;
		if (!pmu_countable(pmu, s[i].ev))
			continue;
		s[i].state = PMU_COUNTED;
		for (size_t k = 0; k < i && same < 0; k++) {
			if (event_same(s[k].ev, s[i].ev))
				same = s[k].ctr;
		}
		while (gp < (int)pmu->gp && used & 1u << gp)
			gp++;
		if (share && same >= 0)
			s[i].ctr = same;
		else if (fixed >= 0 && !(used & 1u << (VPMU_PV_FIXED + (unsigned int)fixed)))
			s[i].ctr = (int)VPMU_PV_FIXED + fixed;
		else if (gp_config(pmu, s[i].ev) && gp < (int)pmu->gp)
			s[i].ctr = gp;
		else
			s[i].ctr = same;
		if (s[i].ctr >= 0) {
			used |= 1u << s[i].ctr;
		} else {
			s[i].state = PMU_NO_FREE;
			all = false;
		}
	}
	return all;
}

void pmu_assign(const struct pmu *pmu, const struct event *ev, struct pmu_slot *s, size_t n)
{
	for (size_t i = 0; i < n; i++)
		s[i] = (struct pmu_slot){.ev = &ev[i]};
	if (!assign(pmu, s, n, false))
		assign(pmu, s, n, true);
}

static bool pmu_write_msr(uint32_t msr, uint64_t value)
{
	struct guest_op op = {.kind = GUEST_WRMSR, .index = msr, .value = value};

	sys_pmu(&op, 1);
	return !op.fault;
}

/* Set up one counter; fixed ones are collected in *fixed_ctrl. Without global control EN stays 0:
 * it is set when the counters are started. */
static bool program_one(const struct pmu *pmu, const struct pmu_slot *s, uint64_t *fixed_ctrl)
{
	unsigned int fixed = (unsigned int)s->ctr - VPMU_PV_FIXED;

	if (s->ctr >= (int)VPMU_PV_FIXED) {
		*fixed_ctrl |= (uint64_t)((s->ev->os ? FIXED_OS : 0) | (s->ev->usr ? FIXED_USR : 0))
			       << 4 * fixed;
		return pmu_write_msr(pmu_counter_msr(pmu, s->ctr), 0);
	}
	return pmu_write_msr(pmu_evtsel_msr(pmu, s->ctr), 0) &&
	       pmu_write_msr(pmu_counter_msr(pmu, s->ctr), 0) &&
	       pmu_write_msr(pmu_evtsel_msr(pmu, s->ctr),
			     pmu_gp_select(pmu, s->ev) | (pmu->global_ctrl ? EVTSEL_EN : 0));
}

static bool shares_earlier(const struct pmu_slot *s, size_t i)
{
	for (size_t k = 0; k < i; k++) {
		if (s[k].ctr == s[i].ctr)
			return true;
	}
	return false;
}

/* Without global control: the writes that start the counters one by one, in the order of @s. */
static void list_writes(const struct pmu *pmu, const struct pmu_slot *s, size_t n,
			struct guest_run *run, struct guest_write *writes)
{
	run->writes = writes;
	for (size_t i = 0; i < n; i++) {
		uint64_t select = pmu_gp_select(pmu, s[i].ev);

		if (s[i].ctr >= 0 && s[i].state == PMU_COUNTED && !shares_earlier(s, i))
			writes[run->nr_writes++] =
				(struct guest_write){.msr = pmu_evtsel_msr(pmu, s[i].ctr),
						     .on = select | EVTSEL_EN,
						     .off = select};
	}
}

bool pmu_program(const struct pmu *pmu, struct pmu_slot *s, size_t n, struct guest_run *run,
		 struct guest_write writes[PMU_WRITES_MAX])
{
	uint64_t fixed_ctrl = 0, enable = 0;

	*run = (struct guest_run){.msr = 0};
	if (pmu->vendor == PMU_NONE)
		return false;
	if (pmu->global_ctrl)
		pmu_write_msr(pmu->global_ctrl, 0);
	if (pmu->fixed)
		pmu_write_msr(MSR_IA32_FIXED_CTRL, 0);
	for (size_t i = 0; i < n; i++) {
		uint64_t bit = 1ull << (s[i].ctr & 31);

		if (s[i].ctr < 0 || s[i].state == PMU_NOT_SUPPORTED)
			continue;
		s[i].state = PMU_COUNTED;
		if (s[i].ctr >= (int)VPMU_PV_FIXED)
			bit = 1ull << (32 + s[i].ctr - (int)VPMU_PV_FIXED);
		if (shares_earlier(s, i))
			s[i].state = enable & bit ? PMU_COUNTED : PMU_NOT_SUPPORTED;
		else if (program_one(pmu, &s[i], &fixed_ctrl))
			enable |= bit;
		else
			s[i].state = PMU_NOT_SUPPORTED;
	}
	if (fixed_ctrl && !pmu_write_msr(MSR_IA32_FIXED_CTRL, fixed_ctrl)) {
		for (size_t i = 0; i < n; i++) {
			if (s[i].ctr >= (int)VPMU_PV_FIXED)
				s[i].state = PMU_NOT_SUPPORTED;
		}
		enable &= 0xffffffffu;
	}
	if (!pmu->global_ctrl) {
		list_writes(pmu, s, n, run, writes);
	} else if (enable) {
		run->msr = pmu->global_ctrl;
		run->enable = enable;
	}
	return enable;
}

static void pmu_read_one(const struct pmu *pmu, struct pmu_slot *s)
{
	const uint32_t pv = VPMU_PV_MSR_BASE + 4 * (uint32_t)s->ctr;
	struct guest_op op[4] = {
		{.kind = GUEST_RDMSR, .index = pmu_counter_msr(pmu, s->ctr)},
		{.kind = GUEST_RDMSR, .index = pv},
		{.kind = GUEST_RDMSR, .index = pv + 1},
		{.kind = GUEST_RDMSR, .index = pv + 2},
	};

	sys_pmu(op, pmu->pv & VPMU_PV_FEAT_TIMES ? 4 : 1);
	if (op[0].fault) {
		s->state = PMU_NOT_SUPPORTED;
		return;
	}
	s->value = op[0].value;
	s->times = pmu->pv & VPMU_PV_FEAT_TIMES && !op[1].fault && !op[2].fault && !op[3].fault;
	if (!s->times)
		return;
	s->enabled_ns = op[1].value;
	s->running_ns = op[2].value;
	s->quality = (uint32_t)op[3].value;
	if (op[3].value == VPMU_PV_UNSUPPORTED)
		s->state = PMU_NOT_SUPPORTED;
	else if (s->enabled_ns && !s->running_ns)
		s->state = PMU_NOT_COUNTED;
}

void pmu_read(const struct pmu *pmu, struct pmu_slot *s, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		if (s[i].ctr >= 0 && s[i].state != PMU_NOT_SUPPORTED)
			pmu_read_one(pmu, &s[i]);
	}
	for (size_t i = 0; i < n; i++) {
		if (s[i].ctr >= 0 && s[i].ctr < (int)VPMU_PV_FIXED)
			pmu_write_msr(pmu_evtsel_msr(pmu, s[i].ctr), 0);
	}
	if (pmu->fixed)
		pmu_write_msr(MSR_IA32_FIXED_CTRL, 0);
}

void pmu_quiet(const struct pmu *pmu)
{
	uint64_t status;

	if (pmu->vendor == PMU_NONE)
		return;
	if (pmu->global_ctrl)
		tool_wrmsr(pmu->global_ctrl, 0);
	if (pmu->fixed)
		tool_wrmsr(MSR_IA32_FIXED_CTRL, 0);
	for (int i = 0; i < (int)pmu->gp; i++)
		tool_wrmsr(pmu_evtsel_msr(pmu, i), 0);
	if (pmu->status && tool_rdmsr(pmu->status, &status))
		tool_wrmsr(pmu->status_clear, status);
}

uint64_t pmu_scaled(const struct pmu_slot *s)
{
	if (!s->times || s->running_ns >= s->enabled_ns)
		return s->value;
	return mul_div(s->value, s->enabled_ns, s->running_ns);
}
