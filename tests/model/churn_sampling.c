// SPDX-License-Identifier: GPL-2.0-or-later
/* Samplers, alarms and branches of test_churn, which checks the sums. */
#include "tests/model/churn_sampling.h"
#include "vpmu/core/internal.h"

#include <stddef.h>
#include <string.h>

unsigned long churn_samples, churn_records;

/* ---- samplers ---- */

static void look_at_records(const struct vpmu_sample *s)
{
	for (unsigned int n = 0; n < s->lbr->count; n++) {
		const struct vpmu_lbr_entry *e = vpmu_lbr_nth(s->lbr, n);

		if (e->from != (uintptr_t)s->ctx->own)
			churn_fail("I5: a sample's branch record %u is somebody else's", n);
	}
	__atomic_add_fetch(&churn_records, s->lbr->count, __ATOMIC_RELAXED);
}

/* On the owner of the pCPU, or on control while it is offline. */
static void sampled(void *arg, const struct vpmu_sample *s)
{
	struct churn_sampler *x = arg;
	const struct vpmu_account *a = s->ctx->own;

	while (a && a != x->account)
		a = a->parent;
	if (!__atomic_load_n(&x->live, __ATOMIC_RELAXED))
		churn_fail("a sample after vpmu_sampler_destroy");
	if (!a)
		churn_fail("I5: a sample of somebody who is not below the account");
	if (s->pcpu >= CHURN_PCPUS || !s->periods || s->over >= x->period) {
		churn_fail("sample of pCPU %u: %lu periods and %lu events", s->pcpu, s->periods,
			   s->over);
		return;
	}
	__atomic_add_fetch(&x->taken[s->pcpu], s->periods, __ATOMIC_RELAXED);
	if (s->has_lbr)
		look_at_records(s);
}

int churn_sample(struct churn_sampler *x, struct vpmu_host *host, struct vpmu_account *account,
		 vpmu_key_t key, uint64_t period, bool lbr)
{
	struct vpmu_sampler_opts opts = {
		.account = account, .key = key, .period = period, .lbr = lbr, sampled, x};

	memset(x, 0, sizeof(*x));
	x->account = account;
	x->period = period;
	x->live = true;
	return vpmu_sampler_create(host, &opts, &x->s);
}

/* Each sample is of a period that was counted, and there is none afterwards. */
void churn_sample_end(struct churn_sampler *x)
{
	struct vpmu_sampler *s = x->s;
	uint64_t taken = 0;

	vpmu_sampler_destroy(s);
	__atomic_store_n(&x->live, false, __ATOMIC_RELAXED);
	x->s = NULL;
	for (int p = 0; p < CHURN_PCPUS; p++)
		taken += __atomic_load_n(&x->taken[p], __ATOMIC_RELAXED);
	__atomic_add_fetch(&churn_samples, taken, __ATOMIC_RELAXED);
}

/* ---- alarms ---- */

static uint64_t fire(struct vpmu_alarm *a, uint64_t over)
{
	struct churn_alarm *x = (struct churn_alarm *)((char *)a - offsetof(struct churn_alarm, a));
	uint64_t n = *x->executed - x->from;

	if (!x->set || n < x->due || (x->exact && over != n - x->due) || over > n - x->due)
		churn_fail("alarm of %lu, fire %lu: %lu late, executed %lu, due at %lu", x->period,
			   x->fires, over, n, x->due);
	x->due += x->period;
	x->fires++;
	return x->period;
}

void churn_alarm_set(struct churn_alarm *x, struct vpmu_context *ctx, const struct vpmu_consumer *c,
		     struct vpmu_pcpu *p, const uint64_t *executed, uint64_t period, bool exact)
{
	if (x->set)
		churn_alarm_clear(x, p);
	*x = (struct churn_alarm){.a.fire = fire,
				  .set = true,
				  .exact = exact,
				  .executed = executed,
				  .from = *executed,
				  .due = period,
				  .period = period};
	vpmu_alarm_set(&x->a, ctx, c, p, period);
}

void churn_alarm_clear(struct churn_alarm *x, struct vpmu_pcpu *p)
{
	uint64_t n;

	if (!x->set)
		return;
	vpmu_alarm_clear(&x->a, p);
	n = *x->executed - x->from;
	if (x->fires > n / x->period || (x->exact && x->fires != n / x->period))
		churn_fail("alarm of %lu: executed %lu, fired %lu times", x->period, n, x->fires);
	x->set = false;
}

/* ---- branches ---- */

void churn_branch(struct vpmu_emupmu *pmu, const struct vpmu_account *who)
{
	struct vpmu_lbr_regs *r = &pmu->own_tally.lbr;

	if (!(r->ctl & VPMU_LBR_EN))
		return;
	r->head = (uint8_t)((r->head + 1) % VPMU_LBR_DEPTH_MAX);
	r->e[r->head] = (struct vpmu_lbr_entry){.from = (uintptr_t)who, .to = 1};
	r->count = (uint8_t)(r->count < r->depth ? r->count + 1 : r->depth);
	r->cycles = vpmu_emu_clock(&pmu->own_tally);
	r->total++;
}
