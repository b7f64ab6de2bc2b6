// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * What must hold of alarms, samplers, branch records and PMIs, by the names of the design's
 * invariants: see checks.c. That each fires and samples at the right event is checked where it is
 * delivered (steps_sampling.c); here, that none is missing.
 */
#include "tests/model/steps.h"
#include "vpmu/lbr.h"

#include <string.h>

/* Where @vcpu runs, or M_NONE. */
static int runs_on(const struct history *h, int vcpu)
{
	for (int p = 0; p < H_PCPUS; p++) {
		if (h->pcpu[p].alive && h->pcpu[p].vcpu == vcpu)
			return p;
	}
	return M_NONE;
}

void check_alarms(struct history *h)
{
	for (int i = 0; i < H_ALARMS; i++) {
		const struct h_alm *x = &h->alm[i];
		int p;
		uint64_t n;

		if (!x->set)
			continue;
		p = runs_on(h, x->vcpu);
		if (p != M_NONE && !fake_on_time(&h->pcpu[p].fake))
			continue; /* at the next charge */
		n = model_watched(h->m, x->watch);
		H_CHECK(h, n < x->due, "alarm %d of vcpu %d: counted %lu, due at %lu, not fired", i,
			x->vcpu, n, x->due);
	}
}

/* With everything charged, or alarms that are on time. */
static void check_sampler(struct history *h, int i, bool charged)
{
	struct h_smp *x = &h->smp[i];
	struct m_truth t = model_truth(h->m, x->model);
	struct vpmu_value v;

	vpmu_sampler_read(x->s, &v);
	H_CHECK(h,
		v.count >= x->last.count && v.enabled_ns >= x->last.enabled_ns &&
			v.count <= t.counted && v.enabled_ns <= t.enabled_ns,
		"I2: sampler %d reads %lu/%lu, after %lu/%lu, true %lu/%lu", i, v.count,
		v.enabled_ns, x->last.count, x->last.enabled_ns, t.counted, t.enabled_ns);
	x->last = v;
	H_CHECK(h,
		!charged || (v.count == t.counted && v.enabled_ns == t.enabled_ns &&
			     v.running_ns == t.running_ns),
		"I2: sampler %d reads %lu/%lu/%lu, true %lu/%lu/%lu", i, v.count, v.enabled_ns,
		v.running_ns, t.counted, t.enabled_ns, t.running_ns);
	for (int p = 0; p < H_PCPUS; p++) {
		uint64_t n;
		int id = h->pcpu[p].id;

		if (!h->pcpu[p].alive || (!charged && !fake_on_time(&h->pcpu[p].fake)))
			continue;
		n = model_watched(h->m, x->watch[id]);
		H_CHECK(h, x->taken[id] == n / x->period,
			"sampler %d, period %lu, pCPU %d: %lu samples, counted %lu", i, x->period,
			id, x->taken[id], n);
	}
}

void check_samplers(struct history *h, bool charged)
{
	for (int i = 0; i < H_SAMPLERS; i++) {
		if (h->smp[i].alive)
			check_sampler(h, i, charged);
	}
}

void check_lbr_cpu(struct history *h)
{
	static const struct vpmu_lbr_regs zero;

	for (int p = 0; p < H_PCPUS; p++) {
		const struct vpmu_lbr_regs *r = &h->pcpu[p].fake.emulator.own_tally.lbr;
		int v = h->pcpu[p].vcpu;
		struct h_lbr *l;

		if (!h->pcpu[p].alive)
			continue;
		l = v == M_NONE || !h->pcpu[p].fake.pmu.lbr_depth ? NULL : lbr_chosen(h, v);
		if (!l) {
			H_CHECK(h, !memcmp(r, &zero, sizeof(zero)),
				"I5: the CPU of pcpu %d holds %u branch records, ctl %#x, of "
				"nobody "
				"who runs there",
				p, r->count, r->ctl);
			continue;
		}
		H_CHECK(h,
			vpmu_emu_clock(&h->pcpu[p].fake.emulator.own_tally) - r->cycles ==
				l->r.cycles,
			"pcpu %d: newest branch record is %lu cycles old, true %lu", p,
			vpmu_emu_clock(&h->pcpu[p].fake.emulator.own_tally) - r->cycles,
			l->r.cycles);
		H_CHECK(h, r->ctl == l->r.ctl && r->count == l->r.count && r->total == l->r.total,
			"pcpu %d records with %#x, has %u of %lu; vcpu %d: %#x, %u of %lu", p,
			r->ctl, r->count, r->total, v, l->r.ctl, l->r.count, l->r.total);
	}
}

/* After a sync: what readers see of everybody. */
void check_lbr(struct history *h)
{
	for (int v = 0; v < H_VCPUS; v++) {
		enum vpmu_lbr_user user, want_user;
		struct vpmu_lbr_regs r;
		struct h_lbr *want;
		int ret;

		if (!h->vcpu[v].alive)
			continue;
		want = lbr_shown(h, v, &want_user);
		ret = vpmu_lbr_read(h->acc[h->vcpu[v].own].a, &r, &user);
		H_CHECK(h, (ret == 0) == (want != NULL), "lbr_read of vcpu %d: %d", v, ret);
		if (!want)
			continue;
		H_CHECK(h, user == want_user, "lbr_read of vcpu %d: user %d", v, user);
		lbr_same(h, v, &r, want, "lbr_read");
	}
}
