// SPDX-License-Identifier: LGPL-2.1-or-later
/*
 * The counters of a vCPU, for all register models. The vendor files and msr.c call these functions.
 *
 * Each counter that is on is a consumer of the vCPU's account. The counter's value is its register
 * value at some instant plus the consumer's count since then; ctr_fold adds the two before each
 * use. A carry out of the counter's width is an overflow; only ctr_fold detects overflows. Counters
 * that interrupt also have an alarm, so that the engine stops and the fold is done at the right
 * instruction (pmi.c).
 */
#include <errno.h>
#include <string.h>

#include "vpmu/core/consumer_local.h"
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
	[VPMU_GUEST_INTEL_V3] = {"intel-v3", &guest_intel_v3_ops},
	[VPMU_GUEST_INTEL_V4] = {"intel-v4", &guest_intel_v4_ops},
	[VPMU_GUEST_AMD_K7] = {"amd-k7", &guest_amd_k7_ops},
	[VPMU_GUEST_AMD_CORE] = {"amd-core", &guest_amd_core_ops},
};

_Static_assert(ARRAY_SIZE(models) == VPMU_GUEST_MODELS, "a row for each model");

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

/* Add what the consumer counted up to @now to the register value and times, and note a wrap. */
static void ctr_fold(struct vpmu_guest *g, unsigned int i, const struct vpmu_value *now)
{
	struct vpmu_guest_ctr *c = &g->ctr[i];
	uint64_t delta = now->count - c->base.count;
	/* The value is below 2^48, so the sum can exceed 64 bits only after centuries without a
	 * fold. */
	uint64_t sum = c->value + delta;

	if (sum & ~g->width_mask) {
		if (g->ops->global)
			g->global_status |= guest_global_bit(i);
		/* Several wraps before the next vpmu_guest_service make one PMI. */
		if (g->intr & (1u << i))
			g->pmi = true;
	}
	c->value = sum & g->width_mask;
	if (now->supported) {
		c->enabled_ns += now->enabled_ns - c->base.enabled_ns;
		c->running_ns += now->running_ns - c->base.running_ns;
		if (c->quality == VPMU_PV_UNSUPPORTED || now->quality > c->quality)
			c->quality = (uint8_t)now->quality;
	}
	/* Also if it ran since where the event cannot be counted: that is in no time. */
	if (!now->supported || now->losses != c->base.losses)
		c->lost = true;
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
	g->work += VPMU_GUEST_WORK_FLUSH;
	guest_for_each_ctr(i, ctrs)
	{
		g->work += VPMU_GUEST_WORK_READ;
		vpmu_consumer_read(&g->ctr[i].consumer, &now);
		ctr_fold(g, i, &now);
	}
}

uint64_t guest_ctr_read(struct vpmu_guest *g, unsigned int i)
{
	guest_settle(g, 1u << i);
	return g->ctr[i].value;
}

/* A written value begins a new measurement: times and quality start over. */
static void ctr_restart(struct vpmu_guest *g, unsigned int i, uint64_t val)
{
	struct vpmu_guest_ctr *c = &g->ctr[i];

	c->value = val;
	c->enabled_ns = 0;
	c->running_ns = 0;
	c->quality = VPMU_PV_UNSUPPORTED;
	c->lost = g->failed & 1u << i;
}

void guest_ctr_write(struct vpmu_guest *g, unsigned int i, uint64_t val)
{
	guest_settle(g, 1u << i); /* an overflow from before the write still counts */
	ctr_restart(g, i, val & g->width_mask);
	guest_arm_again(g, i);
}

/* ---- starting and stopping ---- */

/* Stop @ctrs, which are enabled. */
static void ctrs_disable(struct vpmu_guest *g, uint32_t ctrs)
{
	struct vpmu_value last;
	uint64_t slots = 0;
	unsigned int i;

	if (!ctrs)
		return;
	guest_for_each_ctr(i, ctrs)
	{
		if (g->ctr[i].consumer.slot >= 0)
			slots |= BIT(g->ctr[i].consumer.slot);
	}
	consumers_charge(g->pcpu, g->ctx->own, slots);
	guest_disarm(g, ctrs);
	guest_for_each_ctr(i, ctrs)
	{
		g->work += VPMU_GUEST_WORK_SWITCH;
		consumer_cease(&g->ctr[i].consumer, &last);
		ctr_fold(g, i, &last);
		g->ctr[i].enabled = false;
	}
	g->enabled &= ~ctrs;
	g->again &= ~ctrs;
}

/* Counter @i is not enabled. */
static void ctr_del(struct vpmu_guest *g, unsigned int i)
{
	struct vpmu_guest_ctr *c = &g->ctr[i];

	vpmu_consumer_del(&c->consumer, g->pcpu, NULL);
	c->key = 0;
	c->base = (struct vpmu_value){0};
}

/* The event of counter @i, in the form of vpmu_guest.denied_last. */
static uint64_t event_of(const struct vpmu_guest *g, unsigned int i)
{
	return i < FIXED0 ? g->ctr[i].evtsel : i - FIXED0;
}

/*
 * Prepare counter @i to count. Returns true if consumer_start must follow. Hardware never refuses
 * to count, so the guest's write always succeeds. If the host cannot count, the counter stands
 * still and its quality register shows it.
 */
static bool ctr_take(struct vpmu_guest *g, unsigned int i)
{
	struct vpmu_guest_ctr *c = &g->ctr[i];
	int ret = consumer_take(&c->consumer, c->key ? NULL : g->ctx->own, c->sel, g->pcpu);

	if (ret == -EOPNOTSUPP && !c->key) {
		g->unsupported++;
		g->unsupported_last = event_of(g, i);
	}
	if (!ret || ret == -EOPNOTSUPP)
		c->key = c->sel;
	g->work += VPMU_GUEST_WORK_SWITCH;
	c->enabled = !ret || ret == -EOPNOTSUPP;
	g->failed &= ~(1u << i);
	if (c->enabled)
		g->enabled |= 1u << i;
	else
		g->failed |= 1u << i;
	g->again &= ~(1u << i);
	if (ret) {
		g->again |= 1u << i;
		c->lost = true;
	}
	return !ret;
}

/* True if the global controls enable counter @i. */
static bool globally_on(const struct vpmu_guest *g, unsigned int i)
{
	return (g->global_ctrl & guest_global_bit(i)) && !(g->global_status & STATUS_CTR_FRZ);
}

static bool ctr_on(const struct vpmu_guest *g, unsigned int i)
{
	return g->ctr[i].sel && globally_on(g, i);
}

/* True if counter @i has another event than its consumer. */
static bool ctr_changes(const struct vpmu_guest *g, unsigned int i)
{
	return g->ctr[i].key && g->ctr[i].sel && g->ctr[i].key != g->ctr[i].sel;
}

/* Stop those of @ctrs that do not continue. All stops precede all starts, so that starting counters
 * can use the freed slots. */
static void ctrs_stop(struct vpmu_guest *g, uint32_t ctrs)
{
	uint32_t stop = 0;
	unsigned int i;

	guest_for_each_ctr(i, ctrs & g->enabled)
	{
		if (ctr_changes(g, i) || !ctr_on(g, i))
			stop |= 1u << i;
	}
	ctrs_disable(g, stop);
	guest_for_each_ctr(i, ctrs)
	{
		struct vpmu_guest_ctr *c = &g->ctr[i];

		if (ctr_changes(g, i))
			ctr_del(g, i);
		if (!ctr_on(g, i))
			g->again &= ~(1u << i);
		if (c->denied && globally_on(g, i)) {
			g->failed |= 1u << i;
			c->lost = true; /* the guest expects it to count */
		} else if (!ctr_on(g, i)) {
			g->failed &= ~(1u << i);
		}
	}
}

void guest_apply(struct vpmu_guest *g, uint32_t ctrs)
{
	uint32_t begin = 0;
	unsigned int i;

	if (!g->pcpu)
		return; /* no consumers exist now; vpmu_guest_placed calls this again */
	/* To all others a change is none: a guest writes these registers often. */
	ctrs &= g->selected | g->enabled | g->failed;
	if (!ctrs)
		return;
	ctrs_stop(g, ctrs);
	guest_for_each_ctr(i, ctrs & ~g->enabled)
	{
		if (ctr_on(g, i) && ctr_take(g, i))
			begin |= 1u << i;
	}
	if (begin)
		vpmu_pcpu_flush(g->pcpu);
	guest_for_each_ctr(i, begin) consumer_start(&g->ctr[i].consumer);
	guest_arm(g, ctrs);
}

static bool guest_allowed(const struct vpmu_guest *g, unsigned int i, vpmu_key_t key)
{
	if (i >= FIXED0)
		return vpmu_policy_allows_fixed(g->cfg.policy, key);
	return vpmu_policy_allows(g->cfg.policy, g->ops->intel ? VPMU_SPACE_INTEL : VPMU_SPACE_AMD,
				  g->ctr[i].evtsel, key);
}

void guest_derive(struct vpmu_guest *g, uint32_t ctrs)
{
	unsigned int i;

	guest_for_each_ctr(i, ctrs & g->ctrs)
	{
		struct vpmu_guest_ctr *c = &g->ctr[i];
		bool intr = false;
		vpmu_key_t key = g->ops->select(g, i, &intr);

		c->denied = key && !guest_allowed(g, i, key);
		c->sel = c->denied ? 0 : key;
		g->selected = key ? g->selected | 1u << i : g->selected & ~(1u << i);
		g->intr = intr ? g->intr | 1u << i : g->intr & ~(1u << i);
	}
}

void guest_denied(struct vpmu_guest *g, uint32_t ctrs)
{
	unsigned int i;

	guest_for_each_ctr(i, ctrs & g->ctrs)
	{
		if (!g->ctr[i].denied)
			continue;
		g->denied++;
		g->denied_last = event_of(g, i);
	}
}

void guest_evtsel_write(struct vpmu_guest *g, unsigned int i, uint64_t val)
{
	guest_settle(g, 1u << i);
	g->ctr[i].evtsel = val;
	guest_derive(g, 1u << i);
	guest_denied(g, 1u << i);
	guest_apply(g, 1u << i);
}

void guest_set_global(struct vpmu_guest *g, uint64_t val)
{
	g->global_ctrl = val; /* no settle: events stay the same, and ctrs_disable folds */
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
	if ((g->global_status ^ old) & STATUS_LBR_FRZ)
		guest_lbr_apply(g);
}

/* Fold and delete every consumer. @g->pcpu must be set. */
static void guest_detach(struct vpmu_guest *g)
{
	unsigned int i;

	ctrs_disable(g, g->enabled);
	guest_for_each_ctr(i, g->ctrs)
	{
		if (g->ctr[i].key)
			ctr_del(g, i);
	}
	g->failed = 0;
	g->again = 0;
}

/* ---- life ---- */

static void set_reset_values(struct vpmu_guest *g)
{
	unsigned int i;

	g->failed = 0;
	g->again = 0;
	guest_for_each_ctr(i, g->ctrs)
	{
		g->ctr[i].evtsel = 0;
		ctr_restart(g, i, 0);
	}
	g->fixed_ctrl = 0;
	g->global_status = 0;
	g->debugctl = 0;
	g->overflowed = 0;
	g->pmi = false;
	/*
	 * The enable bits of the GP counters reset to 1, for version-1 software that does not use
	 * the register: SDM vol. 3 table 10-1, IA32_PERF_GLOBAL_CTRL "sets bits n-1:0 and clears
	 * the upper bits". PerfCntrGlobalCtl does the same on PerfMonV2 parts (Linux,
	 * kvm_pmu_refresh). In AMD models without the register these bits are always 1.
	 */
	g->global_ctrl = g->ctrs & (BIT(FIXED0) - 1);
	g->lbr_ctl = 0;
	g->lbr_enable = 0;
	g->lbr_depth = g->lbr_max;
	guest_derive(g, g->ctrs);
}

int vpmu_guest_init(struct vpmu_guest *g, const struct vpmu_guest_cfg *cfg,
		    struct vpmu_context *ctx, struct vpmu_hostpmu *pmu)
{
	const struct vpmu_guest_ops *ops;
	uint32_t leaf[4] = {0};
	unsigned int gp, fixed;

	if ((unsigned int)cfg->model >= ARRAY_SIZE(models))
		return -EINVAL;
	ops = models[cfg->model].ops;
	if (cfg->policy && cfg->policy->tier == VPMU_POLICY_OFF)
		ops = NULL;
	*g = (struct vpmu_guest){.cfg = *cfg, .ops = ops, .ctx = ctx, .pmu = pmu};
	if (!ops) {
		g->cfg.gp = 0;
		g->cfg.fixed = 0;
		return 0;
	}
	gp = cfg->gp ? cfg->gp : ops->gp_default;
	fixed = cfg->fixed ? cfg->fixed : ops->fixed_default;
	if (gp < ops->gp_min || gp > ops->gp_max || fixed > ops->fixed_max || !ctx || !pmu) {
		g->ops = NULL;
		return -EINVAL;
	}
	g->cfg.gp = gp;
	g->cfg.fixed = fixed;
	g->width_mask = BIT(ops->width) - 1;
	g->ctrs = (uint32_t)((BIT(gp) - 1) | (BIT(fixed) - 1) << FIXED0);
	for (uint8_t i = 0; i < VPMU_GUEST_MAX_CTRS; i++)
		g->ctr[i].index = i;
	if (!cfg->no_lbr && vpmu_policy_lbr(cfg->policy) && pmu->lbr_depth >= ops->lbr_max)
		g->lbr_max = ops->lbr_max;
	set_reset_values(g);
	/* The host PMU finds out now which events it can count, and not in an exit of the guest. */
	ops->cpuid(g, 0xa, 0, leaf);
	return 0;
}

void vpmu_guest_reset(struct vpmu_guest *g)
{
	if (!g->ops)
		return;
	if (g->pcpu)
		guest_detach(g);
	set_reset_values(g);
	if (g->lbr_max)
		guest_lbr_reset(g);
}

void vpmu_guest_fini(struct vpmu_guest *g)
{
	/* Close the records while g->pcpu is known: this vCPU may be running there. */
	if (g->lbr_max)
		vpmu_lbr_guest_close(g->ctx, g->pcpu);
	g->lbr_max = 0;
	vpmu_guest_placed(g, NULL);
}

/* What the host could not count may be countable by now, or on this pCPU: guest_apply starts it. */
static void guest_unsupported_again(struct vpmu_guest *g)
{
	uint32_t again = g->enabled & g->again;
	unsigned int i;

	guest_for_each_ctr(i, again)
	{
		g->ctr[i].enabled = false;
		g->ctr[i].lost = true;
	}
	g->enabled &= ~again;
	g->armed &= ~again; /* without a slot there is no alarm */
}

void vpmu_guest_placed(struct vpmu_guest *g, struct vpmu_pcpu *pcpu)
{
	if (!pcpu && g->pcpu)
		guest_detach(g);
	g->pcpu = pcpu;
	if (pcpu)
		guest_unsupported_again(g);
	guest_apply(g, g->ctrs);
	guest_lbr_apply(g); /* retries after a lack of memory */
}

bool vpmu_guest_is_intel(const struct vpmu_guest *g)
{
	const struct vpmu_guest_ops *ops = models[g->cfg.model].ops;

	return ops && ops->intel;
}
