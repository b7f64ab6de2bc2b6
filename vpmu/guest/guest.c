// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The counters of a vCPU, whatever their registers look like: each one that is on is a consumer of
 * the vCPU's account, its value the register's value at some instant plus what the consumer counted
 * since. Overflow needs no interrupt here: the carry out of the width shows whenever the two are
 * added up, and they are before anybody can see the result.
 */
#include <errno.h>
#include <string.h>

#include "vpmu/guest/abi.h"
#include "vpmu/guest/internal.h"

static const struct {
	const char *name;
	const struct vpmu_guest_ops *ops;
} models[] = {
	[VPMU_GUEST_NONE] = {"none", NULL},
	[VPMU_GUEST_INTEL_V2] = {"intel-v2", &guest_intel_v2_ops},
	[VPMU_GUEST_INTEL_V5] = {"intel-v5", &guest_intel_v5_ops},
	[VPMU_GUEST_AMD_V2] = {"amd-v2", &guest_amd_v2_ops},
};

int vpmu_guest_model_parse(const char *name, enum vpmu_guest_model *model)
{
	for (unsigned int i = 0; i < ARRAY_SIZE(models); i++) {
		if (!strcmp(name, models[i].name)) {
			*model = (enum vpmu_guest_model)i;
			return 0;
		}
	}
	return -EINVAL;
}

const char *vpmu_guest_model_name(enum vpmu_guest_model model)
{
	return (unsigned int)model < ARRAY_SIZE(models) ? models[model].name : "?";
}

uint64_t guest_global_mask(const struct vpmu_guest *g)
{
	return (g->ctrs & (BIT(FIXED0) - 1)) | (uint64_t)(g->ctrs >> FIXED0) << 32;
}

/* ---- values ---- */

/* Move the consumer's reading @now into the register value, times and overflow bit. */
static void ctr_fold(struct vpmu_guest *g, unsigned int i, const struct vpmu_value *now)
{
	struct vpmu_guest_ctr *c = &g->ctr[i];
	uint64_t delta = now->count - c->base.count;
	/* The value is below 2^48: the sum cannot leave 64 bits before the host has counted for
	 * centuries between two looks. */
	uint64_t sum = c->value + delta;

	if (sum & ~g->width_mask)
		g->global_status |= guest_global_bit(i);
	c->value = sum & g->width_mask;
	if (now->supported) {
		c->enabled_ns += now->enabled_ns - c->base.enabled_ns;
		c->running_ns += now->running_ns - c->base.running_ns;
		if (c->quality == VPMU_PV_UNSUPPORTED || now->quality > c->quality)
			c->quality = (uint8_t)now->quality;
	} else {
		c->lost = true;
	}
	c->base = *now;
}

void guest_settle(struct vpmu_guest *g, uint32_t ctrs)
{
	struct vpmu_value now;
	unsigned int i;

	ctrs &= g->enabled;
	if (!ctrs)
		return;
	vpmu_pcpu_flush(g->pcpu);
	guest_for_each_ctr(i, ctrs)
	{
		vpmu_consumer_read(&g->ctr[i].consumer, &now);
		ctr_fold(g, i, &now);
	}
}

uint64_t guest_ctr_read(struct vpmu_guest *g, unsigned int i)
{
	guest_settle(g, 1u << i);
	return g->ctr[i].value;
}

/* A new value starts a new story: times and what is known of their quality begin with it. */
static void ctr_restart(struct vpmu_guest_ctr *c, uint64_t val)
{
	c->value = val;
	c->enabled_ns = 0;
	c->running_ns = 0;
	c->quality = VPMU_PV_UNSUPPORTED;
	c->lost = c->failed;
}

void guest_ctr_write(struct vpmu_guest *g, unsigned int i, uint64_t val)
{
	guest_settle(g, 1u << i); /* an overflow before the write has happened */
	ctr_restart(&g->ctr[i], val & g->width_mask);
}

/* ---- starting and stopping ---- */

static void ctr_disable(struct vpmu_guest *g, unsigned int i)
{
	struct vpmu_guest_ctr *c = &g->ctr[i];
	struct vpmu_value last;

	vpmu_consumer_disable(&c->consumer, g->pcpu);
	vpmu_consumer_read(&c->consumer, &last);
	ctr_fold(g, i, &last);
	c->enabled = false;
	g->enabled &= ~(1u << i);
}

static void ctr_del(struct vpmu_guest *g, unsigned int i)
{
	struct vpmu_guest_ctr *c = &g->ctr[i];

	if (c->enabled)
		ctr_disable(g, i);
	vpmu_consumer_del(&c->consumer, g->pcpu, NULL);
	c->key = 0;
	c->base = (struct vpmu_value){0};
}

/* Hardware never refuses to count: whatever the host says, the guest's write succeeds, the counter
 * stands still and its quality register tells. */
static void ctr_enable(struct vpmu_guest *g, unsigned int i)
{
	struct vpmu_guest_ctr *c = &g->ctr[i];
	int ret;

	if (c->key) {
		ret = vpmu_consumer_enable(&c->consumer, g->pcpu);
	} else {
		ret = vpmu_consumer_add(&c->consumer, g->ctx->own, c->sel, g->pcpu);
		if (!ret || ret == -EOPNOTSUPP)
			c->key = c->sel;
	}
	c->failed = ret && ret != -EOPNOTSUPP;
	c->enabled = !c->failed;
	if (c->enabled)
		g->enabled |= 1u << i;
	if (ret)
		c->lost = true;
}

static bool ctr_on(const struct vpmu_guest *g, unsigned int i)
{
	return g->ctr[i].sel && (g->global_ctrl & guest_global_bit(i)) &&
	       !(g->global_status & STATUS_CTR_FRZ);
}

void guest_apply(struct vpmu_guest *g, uint32_t ctrs)
{
	unsigned int i;

	if (!g->pcpu)
		return; /* no consumers now; placement applies what the registers say then */
	/* Stop first, so that slots which become free can be had by what starts. */
	guest_for_each_ctr(i, ctrs & g->ctrs)
	{
		struct vpmu_guest_ctr *c = &g->ctr[i];

		if (c->key && c->sel && c->key != c->sel)
			ctr_del(g, i);
		else if (c->enabled && !ctr_on(g, i))
			ctr_disable(g, i);
		if (c->failed && !ctr_on(g, i))
			c->failed = false;
	}
	guest_for_each_ctr(i, ctrs & g->ctrs)
	{
		if (!g->ctr[i].enabled && ctr_on(g, i))
			ctr_enable(g, i);
	}
}

void guest_select(struct vpmu_guest *g, unsigned int i, vpmu_key_t sel)
{
	g->ctr[i].sel = sel;
	guest_apply(g, 1u << i);
}

void guest_set_global(struct vpmu_guest *g, uint64_t val)
{
	guest_settle(g, g->ctrs);
	g->global_ctrl = val;
	guest_apply(g, g->ctrs);
}

uint64_t guest_status(struct vpmu_guest *g)
{
	guest_settle(g, g->ctrs);
	return g->global_status;
}

void guest_set_status(struct vpmu_guest *g, uint64_t clear, uint64_t set)
{
	uint64_t old = guest_status(g);

	g->global_status = (old & ~clear) | set;
	if ((g->global_status ^ old) & STATUS_CTR_FRZ)
		guest_apply(g, g->ctrs);
}

/* Fold and delete every consumer. Owner of the pCPU; @g->pcpu is set. */
static void guest_detach(struct vpmu_guest *g)
{
	unsigned int i;

	guest_settle(g, g->ctrs);
	guest_for_each_ctr(i, g->ctrs)
	{
		if (g->ctr[i].key)
			ctr_del(g, i);
		g->ctr[i].failed = false;
	}
}

/* ---- life ---- */

static void set_reset_values(struct vpmu_guest *g)
{
	unsigned int i;

	guest_for_each_ctr(i, g->ctrs)
	{
		g->ctr[i].evtsel = 0;
		ctr_restart(&g->ctr[i], 0);
	}
	g->fixed_ctrl = 0;
	g->global_status = 0;
	g->debugctl = 0;
	/*
	 * The enable bits of the GP counters are 1, so that software of version 1, which does not
	 * know the register, can count: SDM vol. 3 table 10-1, IA32_PERF_GLOBAL_CTRL "sets bits
	 * n-1:0 and clears the upper bits". PerfCntrGlobalCtl likewise, as Linux has found on
	 * PerfMonV2 parts (kvm_pmu_refresh).
	 */
	g->global_ctrl = g->ctrs & (BIT(FIXED0) - 1);
}

int vpmu_guest_init(struct vpmu_guest *g, const struct vpmu_guest_cfg *cfg,
		    struct vpmu_context *ctx, struct vpmu_hostpmu *pmu)
{
	const struct vpmu_guest_ops *ops;
	unsigned int gp, fixed;

	if ((unsigned int)cfg->model >= ARRAY_SIZE(models))
		return -EINVAL;
	ops = models[cfg->model].ops;
	*g = (struct vpmu_guest){.cfg = *cfg, .ops = ops, .ctx = ctx, .pmu = pmu};
	if (!ops) {
		g->cfg.gp = 0;
		g->cfg.fixed = 0;
		return 0;
	}
	gp = cfg->gp ? cfg->gp : ops->gp_default;
	fixed = cfg->fixed ? cfg->fixed : ops->fixed_default;
	if (gp < ops->gp_min || gp > ops->gp_max || fixed > ops->fixed_max || !ctx || !pmu)
		return -EINVAL;
	g->cfg.gp = gp;
	g->cfg.fixed = fixed;
	g->width_mask = BIT(ops->width) - 1;
	g->ctrs = (uint32_t)((BIT(gp) - 1) | (BIT(fixed) - 1) << FIXED0);
	set_reset_values(g);
	return 0;
}

void vpmu_guest_fini(struct vpmu_guest *g)
{
	vpmu_guest_placed(g, NULL);
}

void vpmu_guest_placed(struct vpmu_guest *g, struct vpmu_pcpu *pcpu)
{
	if (!pcpu && g->pcpu)
		guest_detach(g);
	g->pcpu = pcpu;
	guest_apply(g, g->ctrs);
}

void vpmu_guest_reset(struct vpmu_guest *g, bool init)
{
	unsigned int i;

	if (init)
		return;
	guest_for_each_ctr(i, g->ctrs) g->ctr[i].sel = 0;
	guest_apply(g, g->ctrs);
	set_reset_values(g);
}

/* ---- registers ---- */

/*
 * PMU registers of either vendor, those included that no model has: what a model does not list is
 * #GP if it is one of these, and not ours otherwise. IA32_DEBUGCTL is not among them: AMD has a
 * DebugCtl at the same place that is no business of the PMU's.
 */
static const struct vpmu_msr_range pmu_msrs[] = {
	/* Intel: SDM vol. 4 table 2-2 */
	{0x0c1, 10},  /* IA32_PMC0..9 */
	{0x186, 10},  /* IA32_PERFEVTSEL0..9 */
	{0x1a6, 2},   /* MSR_OFFCORE_RSP_0, 1 */
	{0x1c8, 2},   /* MSR_LBR_SELECT, MSR_LASTBRANCH_TOS */
	{0x309, 16},  /* IA32_FIXED_CTR0.. */
	{0x329, 1},   /* MSR_PERF_METRICS */
	{0x345, 1},   /* IA32_PERF_CAPABILITIES */
	{0x38d, 10},  /* IA32_FIXED_CTR_CTRL .. IA32_PERF_GLOBAL_INUSE, uncore control */
	{0x3f1, 2},   /* IA32_PEBS_ENABLE, MSR_PEBS_DATA_CFG */
	{0x3f6, 2},   /* MSR_PEBS_LD_LAT, MSR_PEBS_FRONTEND */
	{0x4c1, 10},  /* IA32_A_PMC0..9 */
	{0x600, 1},   /* IA32_DS_AREA */
	{0x680, 32},  /* MSR_LASTBRANCH_x_FROM_IP */
	{0x6c0, 32},  /* MSR_LASTBRANCH_x_TO_IP */
	{0xdc0, 32},  /* MSR_LASTBRANCH_INFO_x */
	{0x1200, 32}, /* IA32_LBR_x_INFO */
	{0x14ce, 2},  /* IA32_LBR_CTL, IA32_LBR_DEPTH */
	{0x1500, 32}, /* IA32_LBR_x_FROM_IP */
	{0x1600, 32}, /* IA32_LBR_x_TO_IP */
	/* AMD: APM vol. 2 appendix A.6, and linux/arch/x86/include/asm/msr-index.h */
	{0xc000010e, 2},   /* LbrSelect, DbgExtnCfg */
	{0xc0000300, 4},   /* PerfCntrGlobalStatus, Ctl, StatusClr, StatusSet */
	{0xc0010000, 8},   /* PerfEvtSel0..3, PerfCtr0..3 */
	{0xc0010200, 32},  /* PERF_CTL0, PERF_CTR0 ... */
	{0xc0010230, 12},  /* L3 (L2I) PMC */
	{0xc0010240, 16},  /* northbridge, data fabric PMC */
	{0xc0010280, 1},   /* performance time-stamp counter */
	{0xc0010300, 32},  /* LBR stack */
	{0xc0010800, 128}, /* UMC PMC */
	{0xc0011030, 14},  /* IBS */
	/* our own */
	{VPMU_PV_MSR_BASE, VPMU_PV_MSR_COUNT},
};

static int unlisted(uint32_t msr)
{
	for (unsigned int i = 0; i < ARRAY_SIZE(pmu_msrs); i++) {
		if (msr - pmu_msrs[i].base < pmu_msrs[i].count)
			return -EFAULT;
	}
	return -ENOENT;
}

static const struct guest_reg *find_reg(const struct vpmu_guest *g, uint32_t msr)
{
	for (unsigned int i = 0; g->ops && i < g->ops->nr_regs; i++) {
		const struct guest_reg *r = &g->ops->regs[i];

		if (msr - r->base < r->count)
			return r;
	}
	return NULL;
}

int vpmu_guest_rdmsr(struct vpmu_guest *g, uint32_t msr, uint64_t *val)
{
	const struct guest_reg *r = find_reg(g, msr);

	if (!r)
		return unlisted(msr);
	return r->rd ? r->rd(g, msr - r->base, val) : -EFAULT;
}

int vpmu_guest_wrmsr(struct vpmu_guest *g, uint32_t msr, uint64_t val)
{
	const struct guest_reg *r = find_reg(g, msr);

	if (!r)
		return unlisted(msr);
	return r->wr ? r->wr(g, msr - r->base, val) : -EFAULT;
}

int vpmu_guest_rdpmc(struct vpmu_guest *g, uint32_t index, uint64_t *val)
{
	int i = g->ops ? g->ops->rdpmc(g, index) : -1;

	if (i < 0)
		return -EFAULT;
	*val = guest_ctr_read(g, (unsigned int)i);
	return 0;
}

/*
 * Besides its own registers each model traps those of the other vendor that KVM answers by itself,
 * without a fault, when its own vPMU is off (kvm_get_msr_common: K7 and P6 counters and selects).
 */
const struct vpmu_msr_range *vpmu_guest_msr_ranges(enum vpmu_guest_model model)
{
	static const struct vpmu_msr_range intel[] = {
		{0x0c1, 10},	  /* IA32_PMCx */
		{0x186, 10},	  /* IA32_PERFEVTSELx */
		{0x1d9, 1},	  /* IA32_DEBUGCTL */
		{0x309, 0x8a},	  /* IA32_FIXED_CTR0 .. IA32_PERF_GLOBAL_INUSE */
		{0x4c1, 10},	  /* IA32_A_PMCx */
		{0xc0010000, 8},  /* AMD K7 */
		{0xc0010200, 32}, /* AMD PERF_CTL, PERF_CTR */
		{VPMU_PV_MSR_BASE, VPMU_PV_MSR_COUNT},
		{0, 0},
	};
	/* and of the model without a PMU */
	static const struct vpmu_msr_range amd[] = {
		{0x0c1, 10}, /* Intel, as above */
		{0x186, 10},
		{0x309, 0x8a},
		{0x4c1, 10},
		{0xc0000300, 4},  /* PerfCntrGlobal* */
		{0xc0010000, 8},  /* PerfEvtSel, PerfCtr */
		{0xc0010200, 32}, /* PERF_CTL, PERF_CTR */
		{VPMU_PV_MSR_BASE, VPMU_PV_MSR_COUNT},
		{0, 0},
	};

	return model == VPMU_GUEST_INTEL_V2 || model == VPMU_GUEST_INTEL_V5 ? intel : amd;
}

/* ---- CPUID ---- */

enum { EAX, EBX, ECX, EDX };

/* Take away what only some model's own function may put back, and what no model has. */
static void cpuid_strip(uint32_t leaf, uint32_t subleaf, uint32_t regs[4])
{
	switch (leaf) {
	case 0x1:
		/* PDCM, DS-CPL, DTES64; DS */
		regs[ECX] &= ~(uint32_t)(BIT(15) | BIT(4) | BIT(2));
		regs[EDX] &= ~(uint32_t)BIT(21);
		break;
	case 0x7:
		if (subleaf == 0)
			regs[EDX] &= ~(uint32_t)BIT(19); /* Arch LBR */
		else if (subleaf == 1)
			regs[EAX] &= ~(uint32_t)BIT(8); /* ArchPerfmonExt: leaf 23H */
		break;
	case 0x80000001:
		/* PerfCtrExtLLC, PerfTsc, PerfCtrExtNB, PerfCtrExtCore, IBS */
		regs[ECX] &= ~(uint32_t)(BIT(28) | BIT(27) | BIT(24) | BIT(23) | BIT(10));
		break;
	case 0xa:
	case 0x1c:
	case 0x23:
	case 0x8000001b:
	case 0x80000022:
		memset(regs, 0, 4 * sizeof(*regs));
		break;
	default:
		break;
	}
}

void vpmu_guest_cpuid(const struct vpmu_guest *g, uint32_t leaf, uint32_t subleaf, uint32_t regs[4])
{
	cpuid_strip(leaf, subleaf, regs);
	guest_pv_cpuid(g, leaf, regs);
	if (g->ops)
		g->ops->cpuid(g, leaf, subleaf, regs);
}

/* No model raises PMIs yet: what fired is forgotten. */
bool vpmu_guest_service(struct vpmu_guest *g)
{
	g->overflowed = 0;
	g->pmi = false;
	return false;
}

bool vpmu_guest_is_intel(const struct vpmu_guest *g)
{
	return g->cfg.model == VPMU_GUEST_INTEL_V2 || g->cfg.model == VPMU_GUEST_INTEL_V3 ||
	       g->cfg.model == VPMU_GUEST_INTEL_V4 || g->cfg.model == VPMU_GUEST_INTEL_V5;
}
