// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * What must hold, by the names of the design's invariants:
 *   I1 conservation, I2 monotonic and nothing from before or after, I3 a switch reads only what
 *   prev or next use, I5 no consumer sees work of others (history.c: step_i5_probe), I7 quality
 *   and "not supported" reach the value.
 * I4, reads at every point, is test_signal.c.
 */
#include "tests/model/steps.h"
#include "vpmu/charge.h"
#include "vpmu/conservation.h"
#include "vpmu/host.h"

#include <string.h>

static const char *key_name(int key)
{
	static _Thread_local char buf[2][VPMU_EVENT_NAME_MAX];
	static _Thread_local int n;

	return vpmu_event_name(m_keys[key].key, buf[n++ & 1]);
}

static void check_quality(struct history *h, const struct h_con *c, const struct vpmu_value *v)
{
	const struct m_key *k = &m_keys[c->key];
	enum vpmu_quality want = k->modelled ? VPMU_Q_MODELLED : VPMU_Q_EXACT;

	H_CHECK(h, v->supported || (v->count == 0 && v->running_ns == 0),
		"I7: %s is called unsupported but counted %lu", key_name(c->key), v->count);
	if (v->running_ns)
		H_CHECK(h, v->supported && v->quality == want,
			"I7: %s counted, but is called %s, %s", key_name(c->key),
			v->supported ? "supported" : "unsupported", vpmu_quality_name(v->quality));
	if (k->event == M_NONE && c->pcpu_at_add)
		H_CHECK(h, !v->supported, "I7: %s counts on no PMU but is called supported",
			key_name(c->key));
}

void check_value(struct history *h, int con, bool exact)
{
	struct h_con *c = &h->con[con];
	struct m_truth t = model_truth(h->m, c->model);
	struct vpmu_value v;

	vpmu_consumer_read(&c->c, &v);
	H_CHECK(h,
		v.count >= c->last.count && v.enabled_ns >= c->last.enabled_ns &&
			v.running_ns >= c->last.running_ns,
		"I2: consumer %d (%s) went back: %lu/%lu/%lu after %lu/%lu/%lu", con,
		key_name(c->key), v.count, v.enabled_ns, v.running_ns, c->last.count,
		c->last.enabled_ns, c->last.running_ns);
	c->last = v;
	H_CHECK(h,
		v.count <= t.counted && v.enabled_ns <= t.enabled_ns &&
			v.running_ns <= t.running_ns && v.running_ns <= v.enabled_ns,
		"I2: consumer %d (%s) is ahead of the truth: %lu/%lu/%lu, true %lu/%lu/%lu", con,
		key_name(c->key), v.count, v.enabled_ns, v.running_ns, t.counted, t.enabled_ns,
		t.running_ns);
	if (!exact)
		return;
	H_CHECK(h,
		v.count == t.counted && v.enabled_ns == t.enabled_ns &&
			v.running_ns == t.running_ns,
		"I2: consumer %d (%s) reads %lu/%lu/%lu, true %lu/%lu/%lu", con, key_name(c->key),
		v.count, v.enabled_ns, v.running_ns, t.counted, t.enabled_ns, t.running_ns);
	H_CHECK(h, v.partial == (t.running_ns && t.uncountable_ns),
		"I7: consumer %d (%s) is called %s", con, key_name(c->key),
		v.partial ? "partial" : "whole");
	if (v.running_ns == v.enabled_ns && (v.enabled_ns || !t.uncountable_ns) &&
	    m_keys[c->key].event != M_NONE) {
		H_CHECK(h, (v.partial || v.count == t.executed) && vpmu_value_scaled(&v) == v.count,
			"I2: consumer %d (%s) claims to be exact with %lu, executed %lu", con,
			key_name(c->key), v.count, t.executed);
		H_COUNT(exact_values);
	} else if (v.running_ns) {
		H_CHECK(h, vpmu_value_scaled(&v) >= v.count, "I7: scaled below what was counted");
		H_COUNT(multiplexed_values);
	} else {
		H_COUNT(unsupported_values);
	}
	check_quality(h, c, &v);
}

void check_stale(struct history *h)
{
	for (int i = 0; i < H_CONSUMERS; i++) {
		if (h->con[i].alive)
			check_value(h, i, false);
	}
	check_alarms(h);
	check_samplers(h, false);
	check_pending(h);
	check_lbr_cpu(h);
}

static void check_sharing(struct history *h)
{
	struct vpmu_sharing s;
	unsigned int enabled = 0, counters = 0;
	bool dummy;

	vpmu_host_sharing(h->host, &s);
	for (int i = 0; i < H_CONSUMERS; i++)
		enabled += h->con[i].alive && h->con[i].enabled;
	for (int i = 0; i < H_SAMPLERS; i++)
		enabled += h->smp[i].alive;
	for (int v = 0; v < H_VCPUS; v++) {
		const struct h_guest *g = h->vcpu[v].alive ? h->vcpu[v].guest : NULL;

		for (int i = 0; g && i < VPMU_GUEST_MAX_CTRS; i++)
			enabled += g->ctr[i].on && g->ctr[i].can;
	}
	for (int p = 0; p < H_PCPUS; p++) {
		for (unsigned int i = 0; h->pcpu[p].alive && i < h->pcpu[p].fake.pmu.nr_ctrs; i++)
			counters += h->pcpu[p].fake.key[i] != M_NONE;
	}
	H_CHECK(h,
		s.consumers == enabled && s.host_counters == counters &&
			s.keys == (unsigned int)model_distinct_keys(h->m, 0, &dummy),
		"sharing says %u consumers, %u keys, %u counters; true: %u, %d, %u", s.consumers,
		s.keys, s.host_counters, enabled, model_distinct_keys(h->m, 0, &dummy), counters);
}

void check_exact(struct history *h)
{
	check_stale(h);
	OP_VOID(h, M_NONE, vpmu_host_sync(h->host));
	for (int p = 0; p < H_PCPUS; p++)
		h_refreshed(h, p);
	for (int i = 0; i < H_CONSUMERS; i++) {
		if (h->con[i].alive)
			check_value(h, i, true);
	}
	check_sharing(h);
	check_alarms(h);
	check_samplers(h, true);
	check_lbr(h);
}

struct rows {
	struct vpmu_conservation row[H_PCPUS * VPMU_MAX_SLOTS];
	int n;
};

/* Under the library's lock: only collect. */
static int collect(const struct vpmu_conservation *c, void *arg)
{
	struct rows *rows = arg;

	rows->row[rows->n++] = *c;
	return 0;
}

static int key_of(vpmu_key_t key)
{
	for (int k = 0; k < m_nr_keys; k++) {
		if (m_keys[k].key == key)
			return k;
	}
	return M_NONE;
}

void check_conservation(struct history *h)
{
	struct rows rows = {.n = 0};
	bool seen[H_PCPUS][M_KEYS] = {0};
	int ret = OP(h, M_NONE, vpmu_host_conservation(h->host, collect, &rows));

	H_CHECK(h, ret == 0, "I1: conservation failed: %d", ret);
	for (int p = 0; p < H_PCPUS; p++)
		h_refreshed(h, p);
	for (int i = 0; i < rows.n; i++) {
		const struct vpmu_conservation *r = &rows.row[i];
		int k = key_of(r->key), p = 0;
		uint64_t hw;

		while (p < H_PCPUS && !(h->pcpu[p].alive && h->pcpu[p].id == (int)r->pcpu))
			p++;
		H_CHECK(h, p < H_PCPUS && k != M_NONE, "I1: row of no pCPU or key: %u %#lx",
			r->pcpu, r->key);
		H_CHECK(h, !seen[p][k], "I1: two rows for pCPU %u, %s", r->pcpu, key_name(k));
		seen[p][k] = true;
		H_CHECK(h, r->hardware == r->charged, "I1: pCPU %u, %s: hardware %lu, charged %lu",
			r->pcpu, key_name(k), r->hardware, r->charged);
		/* A key that lost its slot to another starts again: then only a part. */
		hw = model_hardware(h->m, h->pcpu[p].id, k);
		H_CHECK(h, h->nr_keys_used > VPMU_MAX_SLOTS ? r->hardware <= hw : r->hardware == hw,
			"I1: pCPU %u, %s: hardware %lu, executed while bound %lu", r->pcpu,
			key_name(k), r->hardware, hw);
		H_COUNT(rows);
	}
	for (int p = 0; p < H_PCPUS; p++) {
		for (int k = 0; k < m_nr_keys && h->pcpu[p].alive; k++) {
			if (fake_counter_of(&h->pcpu[p].fake, k) != M_NONE)
				H_CHECK(h, seen[p][k], "I1: no row for pCPU %d, %s, which counts",
					h->pcpu[p].id, key_name(k));
		}
	}
}

/* After vpmu_pcpu_switch, calls reset before it. */
void check_switch(struct history *h, int pcpu, int next_account, const m_keyset *next,
		  unsigned int samples)
{
	struct h_pcpu *p = &h->pcpu[pcpu];
	const struct fake *f = &p->fake;

	if (p->seen_changes == h->changes && p->seen_account == next_account &&
	    !memcmp(&p->seen_keys, next, sizeof(*next))) {
		H_CHECK(h, f->calls == 0, "I3: equal contexts, but %u calls of the PMU", f->calls);
		H_COUNT(equal_switches);
	}
	H_COUNT(switches);
	/* Once more when slots may have got other keys since this pCPU looked. */
	H_CHECK(h, f->nows <= 1u + samples + (p->seen_changes != h->changes),
		"I3: the clock was read %u times", f->nows);
	for (int k = 0; k < m_nr_keys; k++) {
		if (!f->reads[k])
			continue;
		H_CHECK(h, p->seen_keys.has[k] || next->has[k] || f->rebound[k],
			"I3: the switch read %s, which neither prev nor next use", key_name(k));
		H_CHECK(h, f->reads[k] == 1 || f->rebound[k], "I3: the switch read %s %u times",
			key_name(k), f->reads[k]);
	}
}

/* After a flush or a tick: a key that waits has no counter it could have had. */
void check_no_idle_counter(struct history *h, int pcpu)
{
	const struct h_pcpu *p = &h->pcpu[pcpu];
	m_keyset use;

	if (h->refuse_percent)
		return;
	model_keys_in_use(h->m, h->acc[h_charged(h, p->vcpu)].model, &use);
	for (int k = 0; k < m_nr_keys; k++) {
		uint32_t ctrs;

		if (!use.has[k] || fake_counter_of(&p->fake, k) != M_NONE)
			continue;
		ctrs = fake_eligible(&p->fake, k);
		for (unsigned int i = 0; i < p->fake.pmu.nr_ctrs; i++) {
			if (ctrs & 1u << i)
				H_CHECK(h, p->fake.key[i] != M_NONE && use.has[p->fake.key[i]],
					"rotation: %s waits while counter %u is free or unused",
					key_name(k), i);
		}
	}
}
