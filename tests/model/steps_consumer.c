// SPDX-License-Identifier: GPL-2.0-or-later
/* Steps of consumers: guests (local form, on their pCPU) and operators (control form, anywhere). */
#include "tests/model/steps.h"
#include "vpmu/charge.h"

#include <errno.h>
#include <string.h>

/* ---- consumers ---- */

void key_in_use(struct history *h, int key)
{
	if (!h->key_used[key] && ++h->nr_keys_used > VPMU_MAX_SLOTS)
		H_COUNT(recycled);
	h->key_used[key] = true;
}

bool slots_full(struct history *h, int key)
{
	bool among;

	return model_distinct_keys(h->m, key, &among) == VPMU_MAX_SLOTS && !among;
}

static bool can_any(const struct history *h, int key)
{
	bool any = false;

	for (int p = 0; p < H_PCPUS; p++) {
		if (!h->pcpu[p].alive)
			continue;
		any = true;
		if (fake_can(&h->pcpu[p].fake, key))
			return true;
	}
	return !any;
}

static void con_prepare(struct history *h, int i, int acc, int key, bool local)
{
	memset(&h->con[i], 0, sizeof(h->con[i]));
	h->con[i].acc = acc;
	h->con[i].key = key;
	h->con[i].local = local;
	h->con[i].pcpu_at_add = pick(h, H_PCPUS, pcpu_alive) != M_NONE;
	h->con[i].can_at_add = can_any(h, key);
	h->con[i].model = M_NONE;
}

static void con_added(struct history *h, int i, bool enabled)
{
	struct h_con *c = &h->con[i];
	struct vpmu_value v;

	c->alive = true;
	c->enabled = enabled;
	c->model = model_consumer(h->m, h->acc[c->acc].model, c->key);
	h->acc[c->acc].consumers++;
	if (enabled) {
		model_enable(h->m, c->model);
		key_in_use(h, c->key);
	}
	vpmu_consumer_read(&c->c, &v);
	H_CHECK(h, !v.count && !v.enabled_ns && !v.running_ns,
		"I5: new consumer %d shows the past: %lu/%lu/%lu", i, v.count, v.enabled_ns,
		v.running_ns);
}

static void con_gone(struct history *h, int i, const struct vpmu_value *last)
{
	struct h_con *c = &h->con[i];
	struct m_truth t = model_truth(h->m, c->model);

	H_CHECK(h,
		last->count == t.counted && last->enabled_ns == t.enabled_ns &&
			last->running_ns == t.running_ns,
		"I2: last value of consumer %d is %lu/%lu/%lu, true %lu/%lu/%lu", i, last->count,
		last->enabled_ns, last->running_ns, t.counted, t.enabled_ns, t.running_ns);
	model_forget(h->m, c->model);
	c->alive = false;
	h->acc[c->acc].consumers--;
}

static int rnd_key(struct history *h)
{
	return h->pool[rnd(h, (unsigned int)h->keys)];
}

/* A vCPU's pCPU, or M_NONE: guests program counters where they are. */
static int pcpu_of_account(const struct history *h, int acc)
{
	for (int v = 0; v < H_VCPUS; v++) {
		if (h->vcpu[v].alive && h->vcpu[v].own == acc)
			return h->vcpu[v].place;
	}
	return M_NONE;
}

void step_local_add(struct history *h)
{
	int v = pick(h, H_VCPUS, vcpu_alive), i = FREE(h->con), key = rnd_key(h), want = 0, ret;
	struct h_pcpu *p;

	if (v == M_NONE || i == M_NONE || i >= h->max_consumers || h->vcpu[v].place == M_NONE)
		return;
	p = &h->pcpu[h->vcpu[v].place];
	if (!fake_can(&p->fake, key))
		want = -EOPNOTSUPP;
	else if (slots_full(h, key))
		want = -ENOSPC;
	con_prepare(h, i, h->vcpu[v].own, key, true);
	ret = OP(h, i,
		 vpmu_consumer_add(&h->con[i].c, h->acc[h->vcpu[v].own].a, m_keys[key].key, p->p));
	say(h, "local add consumer %d: vcpu %d, key %d: %d", i, v, key, ret);
	H_CHECK(h, ret == want, "local add: %d, expected %d", ret, want);
	if (ret == -ENOSPC) {
		H_COUNT(enospc);
		return;
	}
	con_added(h, i, ret == 0);
	consumers_changed(h);
}

static bool con_alive(const struct history *h, int i)
{
	return h->con[i].alive;
}

bool con_operator(const struct history *h, int i)
{
	return h->con[i].alive && !h->con[i].local;
}

/* The pCPU to call with for consumer @i: NULL for the control form. False: cannot be called now. */
static bool con_pcpu(struct history *h, int i, struct vpmu_pcpu **p)
{
	int at;

	*p = NULL;
	if (!h->con[i].local)
		return true;
	at = pcpu_of_account(h, h->con[i].acc);
	if (at == M_NONE)
		return false;
	*p = h->pcpu[at].p;
	return true;
}

bool con_del(struct history *h, int i)
{
	struct vpmu_value last;
	struct vpmu_pcpu *p;

	if (!con_pcpu(h, i, &p))
		return false;
	con_alarms_clear(h, i);
	say(h, "%s del consumer %d", p ? "local" : "control", i);
	OP_VOID(h, i, vpmu_consumer_del(&h->con[i].c, p, &last));
	if (!p)
		all_refreshed(h); /* by the sync, which comes before the key is dropped */
	con_gone(h, i, &last);
	consumers_changed(h);
	return true;
}

void step_del(struct history *h)
{
	int i = pick(h, H_CONSUMERS, con_alive);

	if (i != M_NONE)
		con_del(h, i);
}

void step_disable(struct history *h)
{
	int i = pick(h, H_CONSUMERS, con_alive);
	struct vpmu_pcpu *p;

	if (i == M_NONE || !con_pcpu(h, i, &p))
		return;
	con_alarms_clear(h, i);
	say(h, "%s disable consumer %d", p ? "local" : "control", i);
	OP_VOID(h, M_NONE, vpmu_consumer_disable(&h->con[i].c, p));
	if (!p && h->con[i].enabled)
		all_refreshed(h);
	model_disable(h->m, h->con[i].model);
	h->con[i].enabled = false;
	consumers_changed(h);
	check_value(h, i, true);
}

void step_enable(struct history *h)
{
	int i = pick(h, H_CONSUMERS, con_alive), ret, want = 0;
	struct vpmu_pcpu *p;
	struct h_con *c;

	if (i == M_NONE || !con_pcpu(h, i, &p))
		return;
	c = &h->con[i];
	ret = OP(h, M_NONE, vpmu_consumer_enable(&c->c, p));
	say(h, "%s enable consumer %d: %d", p ? "local" : "control", i, ret);
	if (!c->enabled && slots_full(h, c->key))
		want = -ENOSPC;
	/* A guest that moved between different pCPUs may have either. */
	if (c->local && (ret == -EOPNOTSUPP || m_keys[c->key].event == M_NONE)) {
		H_CHECK(h, h->mixed || m_keys[c->key].event == M_NONE, "enable: %d", ret);
		want = -EOPNOTSUPP;
	}
	if (!c->local && !want && !c->can_at_add)
		want = -EOPNOTSUPP; /* and enabled, as by add */
	H_CHECK(h, ret == want, "enable: %d, expected %d", ret, want);
	if (ret && (c->local || ret != -EOPNOTSUPP))
		return;
	if (!p && !c->enabled)
		all_refreshed(h);
	if (!c->enabled) {
		model_enable(h->m, c->model);
		key_in_use(h, c->key);
	}
	c->enabled = true;
	consumers_changed(h);
}

/* Operators: one or many consumers anywhere, all or nothing. */
void step_add_many(struct history *h)
{
	struct vpmu_consumer *c[64];
	struct vpmu_account *acc[64];
	vpmu_key_t key[64];
	int idx[64], n = 1 + (int)rnd(h, (unsigned int)h->batch), got = 0, want = 0, ret;
	size_t failed = 99, want_failed = 99;
	bool bad = chance(h, 3), in_use[M_KEYS] = {false};
	int distinct;

	distinct = model_distinct_keys(h->m, 0, &in_use[0]);
	for (int k = 0; k < m_nr_keys; k++)
		model_distinct_keys(h->m, k, &in_use[k]);
	for (int i = 0; i < h->max_consumers && got < n; i++) {
		int a = pick(h, H_ACCOUNTS, acc_alive), k = rnd_key(h);

		if (h->con[i].alive)
			continue;
		con_prepare(h, i, a, k, false);
		idx[got] = i;
		h->touched[i] = true;
		c[got] = &h->con[i].c;
		acc[got] = h->acc[a].a;
		key[got] = m_keys[k].key;
		got++;
	}
	if (!got)
		return;
	if (bad)
		key[rnd(h, (unsigned int)got)] = chance(h, 50) ? 0 : UINT64_MAX;
	for (int i = 0; i < got && (want == 0 || want == -EOPNOTSUPP); i++) {
		int k = h->con[idx[i]].key;

		if (key[i] != m_keys[k].key) {
			want = -EINVAL;
			want_failed = (size_t)i;
		} else if (!in_use[k] && distinct == VPMU_MAX_SLOTS) {
			want = -ENOSPC;
			want_failed = (size_t)i;
			H_COUNT(enospc);
		} else {
			distinct += !in_use[k];
			in_use[k] = true;
			key_in_use(h, k); /* even if all is undone: the slot had the key */
			if (!can_any(h, k))
				want = -EOPNOTSUPP;
		}
	}
	if (got == 1 && chance(h, 50))
		ret = OP(h, idx[0], vpmu_consumer_add(c[0], acc[0], key[0], NULL));
	else
		ret = OP(h, idx[0], vpmu_consumer_add_many(c, acc, key, (size_t)got, &failed));
	say(h, "control add of %d consumers from %d (account %d, key %d): %d", got, idx[0],
	    h->con[idx[0]].acc, h->con[idx[0]].key, ret);
	H_CHECK(h, ret == want, "add_many: %d, expected %d", ret, want);
	if (ret && ret != -EOPNOTSUPP) {
		H_CHECK(h, failed == want_failed || got == 1, "add_many: failed at %zu, not %zu",
			failed, want_failed);
		consumers_changed(h);
		return;
	}
	for (int i = 0; i < got; i++)
		con_added(h, idx[i], true);
	all_refreshed(h);
	consumers_changed(h);
}

void del_all(struct history *h, const int *idx, int n)
{
	struct vpmu_consumer *c[H_CONSUMERS];
	struct vpmu_value last[H_CONSUMERS];

	for (int i = 0; i < n; i++) {
		c[i] = &h->con[idx[i]].c;
		h->touched[idx[i]] = true;
	}
	OP_VOID(h, idx[0], vpmu_consumer_del_many(c, (size_t)n, last));
	all_refreshed(h); /* by the sync, which comes before the keys are dropped */
	for (int i = 0; i < n; i++)
		con_gone(h, idx[i], &last[i]);
	consumers_changed(h);
}

void step_del_many(struct history *h)
{
	int idx[H_CONSUMERS], n = 0, most = 1 + (int)rnd(h, (unsigned int)h->batch);

	for (int i = 0; i < H_CONSUMERS && n < most; i++) {
		if (con_operator(h, i) && chance(h, 50))
			idx[n++] = i;
	}
	say(h, "control del of %d consumers", n);
	if (n)
		del_all(h, idx, n);
}
