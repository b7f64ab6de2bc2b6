// SPDX-License-Identifier: GPL-2.0-or-later
/* Steps of samplers: alarms of vCPUs' own consumers, samplers of any account. */
#include "tests/model/steps.h"
#include "vpmu/pcpu.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>

/* Often near, sometimes far beyond the range of narrow counters. */
static uint64_t rnd_distance(struct history *h)
{
	return 1 + random_split(&h->rng) % (chance(h, 50) ? 60 : chance(h, 80) ? 3000 : 200000);
}

/* ---- alarms ---- */

/*
 * In the middle of a charge. Any count at a look: it is delivered at the first
 * look at which the distance is used up, and how long ago that was.
 */
static uint64_t alarm_fires(struct vpmu_alarm *a, uint64_t over)
{
	struct h_alm *x = (struct h_alm *)((char *)a - offsetof(struct h_alm, a));
	struct history *h = x->h;
	uint64_t n = model_watched(h->m, x->watch), next;
	int i = (int)(x - h->alm);

	H_TELL(h, x->set, "alarm %d fired, but is not set", i);
	H_TELL(h, n >= x->due && over == n - x->due,
	       "alarm %d, fire %lu: %lu late, counted %lu, due at %lu", i, x->fires, over, n,
	       x->due);
	H_COUNT(fires);
	x->fires++;
	next = chance(h, 10) ? 0 : rnd_distance(h);
	x->due += next;
	if (!next) {
		x->set = false;
		model_unwatch(h->m, x->watch);
	}
	return next;
}

static uint64_t alarm_fire(struct vpmu_alarm *a, uint64_t over)
{
	uint64_t next;

	if (h_trace_pause)
		h_trace_pause(true);
	next = alarm_fires(a, over);
	if (h_trace_pause)
		h_trace_pause(false);
	return next;
}

static bool con_for_alarm(const struct history *h, int i)
{
	const struct h_con *c = &h->con[i];

	return c->alive && c->local && c->enabled;
}

static int vcpu_of(const struct history *h, int acc)
{
	for (int v = 0; v < H_VCPUS; v++) {
		if (h->vcpu[v].alive && h->vcpu[v].own == acc)
			return v;
	}
	return M_NONE;
}

void alarm_clear(struct history *h, int i)
{
	struct h_alm *x = &h->alm[i];
	int at = h->vcpu[x->vcpu].place;

	say(h, "clear alarm %d of vcpu %d", i, x->vcpu);
	OP_VOID(h, M_NONE, vpmu_alarm_clear(&x->a, at == M_NONE ? NULL : h->pcpu[at].p));
	if (!x->set)
		return; /* the last fire was its end */
	H_CHECK(h, model_watched(h->m, x->watch) < x->due,
		"alarm %d cleared: counted %lu, due at %lu, not fired", i,
		model_watched(h->m, x->watch), x->due);
	x->set = false;
	model_unwatch(h->m, x->watch);
}

void con_alarms_clear(struct history *h, int con)
{
	for (int i = 0; i < H_ALARMS; i++) {
		if (h->alm[i].set && h->alm[i].con == con)
			alarm_clear(h, i);
	}
}

static void alarm_set(struct history *h, int i)
{
	struct h_alm *x = &h->alm[i];
	const struct h_con *c;
	uint64_t events = rnd_distance(h);
	int at;

	if (!x->set) {
		int con = pick(h, H_CONSUMERS, con_for_alarm);

		if (con == M_NONE)
			return;
		memset(x, 0, sizeof(*x));
		x->h = h;
		x->con = con;
		x->vcpu = vcpu_of(h, h->con[con].acc);
		x->a.fire = alarm_fire;
	}
	c = &h->con[x->con];
	at = h->vcpu[x->vcpu].place;
	if (at == M_NONE)
		return;
	say(h, "set alarm %d of vcpu %d, consumer %d: %lu", i, x->vcpu, x->con, events);
	OP_VOID(h, M_NONE,
		vpmu_alarm_set(&x->a, &h->vcpu[x->vcpu].ctx, &c->c, h->pcpu[at].p, events));
	/* The old distance may have been used up, even for the last time, on the way: it is
	 * replaced all the same. */
	if (x->set)
		model_unwatch(h->m, x->watch);
	x->set = true;
	x->watch = model_watch(h->m, h->acc[c->acc].model, c->key, M_NONE);
	x->due = events;
}

void step_alarm(struct history *h)
{
	int i = (int)rnd(h, h_trace ? 4 : H_ALARMS);

	if (h->alm[i].set && chance(h, 40) && h->vcpu[h->alm[i].vcpu].place != M_NONE)
		alarm_clear(h, i);
	else
		alarm_set(h, i);
}

void step_overflow(struct history *h)
{
	int p = pick(h, H_PCPUS, pcpu_alive);

	if (p == M_NONE)
		return;
	say(h, "overflow call on pcpu %d", p);
	OP_VOID(h, M_NONE, vpmu_pcpu_overflow(h->pcpu[p].p));
}

/* ---- samplers ---- */

static bool same_entries(const struct vpmu_lbr_regs *a, const struct vpmu_lbr_regs *b)
{
	for (unsigned int n = 0; n < a->count; n++) {
		if (memcmp(vpmu_lbr_nth(a, n), vpmu_lbr_nth(b, n), sizeof(a->e[0])))
			return false;
	}
	return true;
}

static void sample_lbr(struct history *h, const struct vpmu_sample *s, int v)
{
	enum vpmu_lbr_user user;
	struct h_lbr *want = v == M_NONE ? NULL : lbr_shown(h, v, &user);

	if (h->lbr_moves)
		return;
	H_TELL(h, s->has_lbr == (want != NULL), "sample of vcpu %d %s branch records", v,
	       s->has_lbr ? "has" : "has no");
	if (!s->has_lbr || !want)
		return;
	H_TELL(h,
	       s->lbr_user == user && s->lbr->ctl == want->r.ctl &&
		       s->lbr->count == want->r.count && s->lbr->total == want->r.total &&
		       same_entries(s->lbr, &want->r),
	       "sample of vcpu %d: %u branch records of user %d, %lu made; true: %u, %d, %lu", v,
	       s->lbr->count, s->lbr_user, s->lbr->total, want->r.count, user, want->r.total);
}

/* In the middle of a charge. */
static void check_sample(void *arg, const struct vpmu_sample *s)
{
	struct h_smp *x = arg;
	struct history *h = x->h;
	int i = (int)(x - h->smp), p = 0, v;
	uint64_t n;

	h->samples++;
	H_COUNT(samples);
	while (p < H_PCPUS && !(h->pcpu[p].alive && h->pcpu[p].id == (int)s->pcpu))
		p++;
	if (p == H_PCPUS || !x->alive) {
		h_tell(h, "sampler %d: sample of pCPU %u", i, s->pcpu);
		return;
	}
	v = h->pcpu[p].vcpu;
	n = model_watched(h->m, x->watch[s->pcpu]);
	x->taken[s->pcpu] += s->periods;
	H_TELL(h, s->periods && x->taken[s->pcpu] == n / x->period && s->over == n % x->period,
	       "sampler %d, period %lu, pCPU %u: %lu samples, %lu more events; counted %lu", i,
	       x->period, s->pcpu, x->taken[s->pcpu], s->over, n);
	H_TELL(h,
	       v == M_NONE ? s->ctx->own == h->acc[OTHER].a
			   : s->ctx == &h->vcpu[v].ctx &&
				     model_below(h->m, h->acc[h->vcpu[v].own].model,
						 h->acc[x->acc].model),
	       "I5: sampler %d of account %d: a sample of somebody else", i, x->acc);
	H_TELL(h, s->time_ns == h->pcpu[p].fake.emulator.own_clock_ns, "sample: another time");
	/* A PMU without alarms delivers too late for an exact place. */
	if (v != M_NONE && h->vcpu[v].where_known && h->pcpu[p].fake.alarms != FAKE_NEVER)
		H_TELL(h,
		       s->where_known && s->where.ip == h->vcpu[v].branches &&
			       s->where.cpl == h->vcpu[v].tag % 4,
		       "sample of vcpu %d: at %#lx", v, s->where.ip);
	else
		H_TELL(h, !s->where_known && !s->where.ip && !s->where.cpl,
		       "sample: place is known to be %#lx", s->where.ip);
	if (x->lbr)
		sample_lbr(h, s, v);
	else
		H_TELL(h, !s->has_lbr && !s->lbr, "sample with records nobody wanted");
}

static void sampled(void *arg, const struct vpmu_sample *s)
{
	if (h_trace_pause)
		h_trace_pause(true);
	check_sample(arg, s);
	if (h_trace_pause)
		h_trace_pause(false);
}

static bool can_sample(const struct history *h, int key)
{
	for (int p = 0; p < H_PCPUS; p++) {
		const struct fake *f = &h->pcpu[p].fake;

		if (h->pcpu[p].alive && f->alarms != FAKE_NEVER && fake_eligible(f, key))
			return true;
	}
	return false;
}

void step_sampler_create(struct history *h)
{
	int i = FREE(h->smp), a = pick(h, H_ACCOUNTS, acc_alive), k, want = 0, ret;
	struct vpmu_sampler_opts opts;
	struct h_smp *x;

	if (i == M_NONE || (h_trace && i >= 3))
		return;
	/* Most need few keys: sharing is tested here. */
	k = h->pool[rnd(h, chance(h, 70) ? 1 + (unsigned int)h->keys / 4 : (unsigned int)h->keys)];
	x = &h->smp[i];
	memset(x, 0, sizeof(*x));
	x->h = h;
	x->acc = a;
	x->key = k;
	x->period = rnd_distance(h);
	x->lbr = chance(h, 40);
	opts = (struct vpmu_sampler_opts){h->acc[a].a, m_keys[k].key, x->period,
					  x->lbr,      sampled,	      x};
	if (slots_full(h, k)) {
		want = -ENOSPC;
		H_COUNT(enospc);
	} else {
		key_in_use(h, k);
		if (!can_sample(h, k))
			want = -EOPNOTSUPP;
		else if (i == VPMU_SAMPLERS_MAX)
			want = -E2BIG;
	}
	ret = OP(h, M_NONE, vpmu_sampler_create(h->host, &opts, &x->s));
	say(h, "sampler %d: account %d, key %d, period %lu%s: %d", i, a, k, x->period,
	    x->lbr ? " with branch records" : "", ret);
	H_CHECK(h, ret == want, "sampler create: %d, expected %d", ret, want);
	if (ret == -ENOSPC) {
		consumers_changed(h);
		return;
	}
	x->model = model_consumer(h->m, h->acc[a].model, k);
	model_enable(h->m, x->model);
	all_refreshed(h);
	if (ret) { /* its consumer has been there since */
		model_forget(h->m, x->model);
	} else {
		x->alive = true;
		for (int id = 0; id < M_PCPUS; id++)
			x->watch[id] = model_watch(h->m, h->acc[a].model, k, id);
		h->acc[a].consumers++;
	}
	consumers_changed(h);
}

void smp_destroy(struct history *h, int i)
{
	struct h_smp *x = &h->smp[i];

	say(h, "destroy sampler %d", i);
	h->smp_touched = i + 1;
	OP_VOID(h, M_NONE, vpmu_sampler_destroy(x->s));
	h->smp_touched = 0;
	all_refreshed(h);
	for (int id = 0; id < M_PCPUS; id++) {
		uint64_t n = model_watched(h->m, x->watch[id]);

		H_CHECK(h, x->taken[id] == n / x->period,
			"sampler %d destroyed: %lu samples on pCPU %d, period %lu, counted %lu", i,
			x->taken[id], id, x->period, n);
		model_unwatch(h->m, x->watch[id]);
	}
	model_forget(h->m, x->model);
	h->acc[x->acc].consumers--;
	x->alive = false;
	consumers_changed(h);
}

static bool smp_alive(const struct history *h, int i)
{
	return h->smp[i].alive;
}

void step_sampler_destroy(struct history *h)
{
	int i = pick(h, H_SAMPLERS, smp_alive);

	if (i != M_NONE)
		smp_destroy(h, i);
}

void acc_samplers_destroy(struct history *h, int acc)
{
	for (int i = 0; i < H_SAMPLERS; i++) {
		if (h->smp[i].alive && h->smp[i].acc == acc)
			smp_destroy(h, i);
	}
}
