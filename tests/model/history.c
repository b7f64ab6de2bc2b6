// SPDX-License-Identifier: GPL-2.0-or-later
/* Random steps, done to the library and told to the model. See history.h. */
#include "tests/model/history.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ROOT  0
#define OTHER 1

struct h_stats h_stats;

void h_fail(struct history *h, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(h->why, sizeof(h->why), fmt, ap);
	va_end(ap);
	longjmp(h->failed, 1);
}

static void say(const struct history *h, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));
static void say(const struct history *h, const char *fmt, ...)
{
	va_list ap;

	if (!h->log)
		return;
	printf("#   %4d ", h->step);
	va_start(ap, fmt);
	vprintf(fmt, ap);
	va_end(ap);
	putchar('\n');
}

static unsigned int rnd(struct history *h, unsigned int below)
{
	return (unsigned int)(rnd64(&h->rng) % below);
}

static bool chance(struct history *h, unsigned int percent)
{
	return rnd(h, 100) < percent;
}

/* A random index below @n for which @ok holds, or M_NONE. */
static int pick(struct history *h, int n, bool (*ok)(const struct history *h, int i))
{
	int first = (int)rnd(h, (unsigned int)n);

	for (int k = 0; k < n; k++) {
		int i = (first + k) % n;

		if (ok(h, i))
			return i;
	}
	return M_NONE;
}

static int pick_free(bool alive_at_0, const void *first, size_t size, int n)
{
	for (int i = 0; i < n; i++) {
		const bool *alive = (const bool *)((const char *)first + (size_t)i * size);

		if (*alive == alive_at_0)
			return i;
	}
	return M_NONE;
}
#define FREE(array)                                                                                \
	pick_free(false, array, sizeof(array[0]), (int)(sizeof(array) / sizeof(array[0])))

static bool pcpu_alive(const struct history *h, int i)
{
	return h->pcpu[i].alive;
}

static bool vcpu_alive(const struct history *h, int i)
{
	return h->vcpu[i].alive;
}

static bool vcpu_current(const struct history *h, int v)
{
	for (int p = 0; p < H_PCPUS; p++) {
		if (h->pcpu[p].alive && h->pcpu[p].vcpu == v)
			return true;
	}
	return false;
}

/* ---- who is charged, and what the library has seen of it ---- */

/* The account that is charged while @vcpu runs: its own while that has consumers itself. */
int h_charged(const struct history *h, int vcpu)
{
	const struct h_vcpu *v;

	if (vcpu == M_NONE)
		return OTHER;
	v = &h->vcpu[vcpu];
	if (v->group == M_NONE)
		return v->own;
	for (int i = 0; i < H_CONSUMERS; i++) {
		if (h->con[i].alive && h->con[i].enabled && h->con[i].acc == v->own)
			return v->own;
	}
	return v->group;
}

/* pCPU @i took up all changes and read all its counters. */
void h_refreshed(struct history *h, int i)
{
	struct h_pcpu *p = &h->pcpu[i];

	if (!p->alive)
		return;
	p->seen_account = h_charged(h, p->vcpu);
	model_keys_in_use(h->m, h->acc[p->seen_account].model, &p->seen_keys);
	p->seen_changes = h->changes;
	memset(p->unread, 0, sizeof(p->unread));
}

/* Some consumer began or ended to count: pCPUs may or may not have looked at it. */
static void consumers_changed(struct history *h)
{
	h->changes++;
	for (int i = 0; i < H_PCPUS; i++) {
		struct h_pcpu *p = &h->pcpu[i];
		m_keyset now;

		if (!p->alive)
			continue;
		model_keys_in_use(h->m, h->acc[h_charged(h, p->vcpu)].model, &now);
		for (int k = 0; k < m_nr_keys; k++)
			p->seen_keys.has[k] |= now.has[k];
	}
}

static void all_refreshed(struct history *h)
{
	for (int p = 0; p < H_PCPUS; p++)
		h_refreshed(h, p);
}

/* ---- pCPUs ---- */

static void step_pcpu_create(struct history *h)
{
	struct vpmu_softpmu_opts opts = {.no_default = true};
	int i = FREE(h->pcpu), ret;
	struct h_pcpu *p;

	if (i == M_NONE || i >= h->max_pcpus || h->nr_pcpu_ids == M_PCPUS)
		return;
	p = &h->pcpu[i];
	memset(p, 0, sizeof(*p));
	p->id = h->nr_pcpu_ids++;
	p->vcpu = M_NONE;
	opts.gp = (unsigned int)h->gp;
	opts.fixed = (unsigned int)h->fixed;
	opts.width = (unsigned int)h->width;
	if (h->mixed && chance(h, 50)) {
		opts.gp = 1 + rnd(h, 4);
		opts.fixed = rnd(h, 4);
	}
	H_CHECK(h, !fake_init(&p->fake, &opts, h->m, p->id, rnd64(&h->rng)), "fake_init");
	for (int e = 0; e < M_EVENTS; e++)
		p->fake.cannot[e] = h->mixed && chance(h, 20);
	p->fake.refuse_percent = h->refuse_percent;
	ret = vpmu_pcpu_create(h->host, &p->fake.pmu, (unsigned int)p->id, &p->p);
	H_CHECK(h, ret == 0, "vpmu_pcpu_create: %d", ret);
	p->alive = true;
	model_switch(h->m, p->id, h->acc[OTHER].model);
	h_refreshed(h, i);
	say(h, "pcpu %d create: id %d, %u gp, %u fixed, %u bits", i, p->id, opts.gp, opts.fixed,
	    opts.width);
}

static void do_switch(struct history *h, int i, int v)
{
	struct h_pcpu *p = &h->pcpu[i];
	int account = h_charged(h, v);
	m_keyset next;

	model_keys_in_use(h->m, h->acc[account].model, &next);
	fake_reset_calls(&p->fake);
	vpmu_pcpu_switch(p->p, v == M_NONE ? NULL : &h->vcpu[v].ctx);
	check_switch(h, i, account, &next);
	p->seen_account = account;
	p->seen_keys = next;
	p->seen_changes = h->changes;
	p->vcpu = v;
	/* Leaves, as the model has no groups: what runs is the vCPU. */
	model_switch(h->m, p->id, h->acc[v == M_NONE ? OTHER : h->vcpu[v].own].model);
	say(h, "switch pcpu %d to vcpu %d (%u PMU calls)", i, v, p->fake.calls);
}

static void step_pcpu_destroy(struct history *h)
{
	int i = pick(h, H_PCPUS, pcpu_alive), ret;
	struct h_pcpu *p;

	if (i == M_NONE)
		return;
	p = &h->pcpu[i];
	if (p->vcpu != M_NONE) {
		ret = vpmu_pcpu_destroy(p->p);
		H_CHECK(h, ret == -EBUSY, "destroy of a busy pCPU: %d", ret);
		do_switch(h, i, M_NONE);
	}
	say(h, "pcpu %d destroy", i);
	ret = vpmu_pcpu_destroy(p->p);
	H_CHECK(h, ret == 0, "vpmu_pcpu_destroy: %d", ret);
	p->alive = false;
	for (unsigned int c = 0; c < p->fake.pmu.nr_ctrs; c++)
		H_CHECK(h, p->fake.key[c] == M_NONE, "pCPU gone, counter %u still bound", c);
	for (int v = 0; v < H_VCPUS; v++) {
		if (h->vcpu[v].alive && h->vcpu[v].place == i)
			h->vcpu[v].place = M_NONE;
	}
}

static void flush(struct history *h, int i, bool tick)
{
	struct h_pcpu *p = &h->pcpu[i];

	say(h, "%s pcpu %d", tick ? "tick" : "flush", i);
	if (tick)
		vpmu_pcpu_tick(p->p);
	else
		vpmu_pcpu_flush(p->p);
	h_refreshed(h, i);
	check_no_idle_counter(h, i);
}

static void run(struct history *h, int i)
{
	struct h_pcpu *p = &h->pcpu[i];
	uint64_t mask = p->fake.pmu.width_mask, most, sum[M_EVENTS] = {0};
	bool wrap = false;
	struct m_exec x = {.ns = 1 + rnd(h, 10000)};

	/* At most one wrap between readings, as a real tick would see to. */
	most = mask / (chance(h, 50) ? 4 : 40);
	if (mask > UINT32_MAX && chance(h, 80))
		most = 100000;
	for (int e = 0; e < M_EVENTS; e++) {
		for (int mode = 0; mode < M_MODES; mode++) {
			x.ev[mode][e] = chance(h, 30) ? 0 : rnd64(&h->rng) % (most + 1);
			sum[e] += x.ev[mode][e];
		}
		wrap |= p->unread[e] + sum[e] > mask;
	}
	if (wrap) {
		flush(h, i, false);
		H_COUNT(wraps);
	}
	for (int e = 0; e < M_EVENTS; e++)
		p->unread[e] += sum[e];
	fake_execute(&p->fake, &x);
	say(h, "run pcpu %d vcpu %d, %lu ns, user instructions %lu", i, p->vcpu, x.ns, x.ev[1][1]);
}

static void step_run(struct history *h)
{
	int i = pick(h, H_PCPUS, pcpu_alive);

	if (i != M_NONE)
		run(h, i);
}

static void step_flush(struct history *h)
{
	int i = pick(h, H_PCPUS, pcpu_alive);

	if (i != M_NONE)
		flush(h, i, false);
}

static void step_tick(struct history *h)
{
	int i = pick(h, H_PCPUS, pcpu_alive);

	if (i != M_NONE)
		flush(h, i, true);
}

static void step_exact(struct history *h)
{
	say(h, "sync and compare all");
	check_exact(h);
}

static void step_conservation(struct history *h)
{
	say(h, "conservation");
	check_conservation(h);
}

/* ---- vCPUs on pCPUs ---- */

static bool place(struct history *h, int v, int p)
{
	int ret = vpmu_context_place(&h->vcpu[v].ctx, h->pcpu[p].p);

	H_CHECK(h, ret == 0, "vpmu_context_place: %d", ret);
	h->vcpu[v].place = p;
	say(h, "place vcpu %d on pcpu %d", v, p);
	return true;
}

static void step_switch(struct history *h)
{
	int p = pick(h, H_PCPUS, pcpu_alive), v = pick(h, H_VCPUS, vcpu_alive);

	if (p == M_NONE)
		return;
	if (v == M_NONE || chance(h, 15)) {
		do_switch(h, p, M_NONE);
		return;
	}
	if (h->vcpu[v].place == M_NONE)
		place(h, v, p);
	p = h->vcpu[v].place;
	do_switch(h, p, v);
}

static void step_migrate(struct history *h)
{
	int p = pick(h, H_PCPUS, pcpu_alive), v = pick(h, H_VCPUS, vcpu_alive);

	if (p == M_NONE || v == M_NONE)
		return;
	if (vcpu_current(h, v))
		do_switch(h, h->vcpu[v].place, M_NONE);
	place(h, v, p);
	if (chance(h, 50))
		do_switch(h, p, v);
}

/* ---- accounts, VMs ---- */

static bool acc_alive(const struct history *h, int i)
{
	return h->acc[i].alive;
}

static bool acc_tenant(const struct history *h, int i)
{
	return h->acc[i].alive && (h->acc[i].kind == ACC_TENANT || h->acc[i].kind == ACC_ROOT);
}

static bool acc_vm(const struct history *h, int i)
{
	return h->acc[i].alive && h->acc[i].kind == ACC_VM;
}

static int acc_create(struct history *h, enum acc_kind kind, int parent)
{
	int i = FREE(h->acc), ret;
	struct h_acc *a = &h->acc[i];

	if (i == M_NONE)
		return M_NONE;
	*a = (struct h_acc){.kind = kind, .parent = parent};
	ret = vpmu_account_create(h->acc[parent].a, a, &a->a);
	H_CHECK(h, ret == 0, "vpmu_account_create: %d", ret);
	H_CHECK(h, vpmu_account_owner(a->a) == a && vpmu_account_parent(a->a) == h->acc[parent].a,
		"account's owner or parent");
	a->alive = true;
	a->model = model_account(h->m, h->acc[parent].model);
	h->acc[parent].children++;
	return i;
}

/* vpmu_account_del says -EBUSY exactly when it should. */
static bool acc_del(struct history *h, int i)
{
	struct h_acc *a = &h->acc[i];
	bool busy = a->children || a->consumers || a->contexts || i == ROOT || i == OTHER;
	int ret = vpmu_account_del(a->a);

	H_CHECK(h, ret == (busy ? -EBUSY : 0),
		"vpmu_account_del: %d with %d children, %d consumers, %d contexts", ret,
		a->children, a->consumers, a->contexts);
	say(h, "account %d del: %d", i, ret);
	if (busy)
		return false;
	a->alive = false;
	h->acc[a->parent].children--;
	H_COUNT(folds);
	return true;
}

static void step_tenant_create(struct history *h)
{
	int parent = pick(h, H_ACCOUNTS, acc_tenant);
	int i = acc_create(h, ACC_TENANT, parent);

	say(h, "tenant %d below %d", i, parent);
}

static void step_account_del(struct history *h)
{
	acc_del(h, pick(h, H_ACCOUNTS, acc_alive));
}

static void vcpu_create(struct history *h, int own, int group)
{
	int i = FREE(h->vcpu), ret;
	struct h_vcpu *v = &h->vcpu[i];

	if (i == M_NONE)
		return;
	*v = (struct h_vcpu){.own = own, .group = group, .place = M_NONE};
	ret = vpmu_context_init(&v->ctx, h->acc[own].a, group == M_NONE ? NULL : h->acc[group].a);
	H_CHECK(h, ret == 0, "vpmu_context_init: %d", ret);
	v->alive = true;
	h->acc[own].contexts++;
	if (group != M_NONE)
		h->acc[group].contexts++;
	say(h, "vcpu %d: own account %d, group %d", i, own, group);
}

static void step_vm_create(struct history *h)
{
	int parent = pick(h, H_ACCOUNTS, acc_tenant);
	int vm = acc_create(h, ACC_VM, parent), n = 1 + (int)rnd(h, 3);

	say(h, "vm: account %d below %d", vm, parent);
	for (int i = 0; vm != M_NONE && i < n; i++) {
		int own = acc_create(h, ACC_VCPU, vm);

		if (own != M_NONE)
			vcpu_create(h, own, chance(h, 80) ? vm : M_NONE);
	}
}

/* ---- consumers ---- */

static void key_in_use(struct history *h, int key)
{
	if (!h->key_used[key] && ++h->nr_keys_used > VPMU_MAX_SLOTS)
		H_COUNT(recycled);
	h->key_used[key] = true;
}

static bool slots_full(struct history *h, int key)
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

static void step_local_add(struct history *h)
{
	int v = pick(h, H_VCPUS, vcpu_alive), i = FREE(h->con), key = rnd_key(h), want = 0, ret;
	struct h_pcpu *p;

	if (v == M_NONE || i == M_NONE || h->vcpu[v].place == M_NONE)
		return;
	p = &h->pcpu[h->vcpu[v].place];
	if (!fake_can(&p->fake, key))
		want = -EOPNOTSUPP;
	else if (slots_full(h, key))
		want = -ENOSPC;
	con_prepare(h, i, h->vcpu[v].own, key, true);
	ret = vpmu_consumer_add(&h->con[i].c, h->acc[h->vcpu[v].own].a, m_keys[key].key, p->p);
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

static bool con_operator(const struct history *h, int i)
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

static bool con_del(struct history *h, int i)
{
	struct vpmu_value last;
	struct vpmu_pcpu *p;

	if (!con_pcpu(h, i, &p))
		return false;
	say(h, "%s del consumer %d", p ? "local" : "control", i);
	vpmu_consumer_del(&h->con[i].c, p, &last);
	if (!p)
		all_refreshed(h); /* by the sync, which comes before the key is dropped */
	con_gone(h, i, &last);
	consumers_changed(h);
	return true;
}

static void step_del(struct history *h)
{
	int i = pick(h, H_CONSUMERS, con_alive);

	if (i != M_NONE)
		con_del(h, i);
}

static void step_disable(struct history *h)
{
	int i = pick(h, H_CONSUMERS, con_alive);
	struct vpmu_pcpu *p;

	if (i == M_NONE || !con_pcpu(h, i, &p))
		return;
	say(h, "%s disable consumer %d", p ? "local" : "control", i);
	vpmu_consumer_disable(&h->con[i].c, p);
	if (!p && h->con[i].enabled)
		all_refreshed(h);
	model_disable(h->m, h->con[i].model);
	h->con[i].enabled = false;
	consumers_changed(h);
	check_value(h, i, true);
}

static void step_enable(struct history *h)
{
	int i = pick(h, H_CONSUMERS, con_alive), ret, want = 0;
	struct vpmu_pcpu *p;
	struct h_con *c = &h->con[i];

	if (i == M_NONE || !con_pcpu(h, i, &p))
		return;
	ret = vpmu_consumer_enable(&c->c, p);
	say(h, "%s enable consumer %d: %d", p ? "local" : "control", i, ret);
	if (!c->enabled && slots_full(h, c->key))
		want = -ENOSPC;
	/* A guest that moved between different pCPUs may be told by either. */
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
static void step_add_many(struct history *h)
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
	for (int i = 0; i < H_CONSUMERS && got < n; i++) {
		int a = pick(h, H_ACCOUNTS, acc_alive), k = rnd_key(h);

		if (h->con[i].alive)
			continue;
		con_prepare(h, i, a, k, false);
		idx[got] = i;
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
	ret = got == 1 && chance(h, 50) ? vpmu_consumer_add(c[0], acc[0], key[0], NULL)
					: vpmu_consumer_add_many(c, acc, key, (size_t)got, &failed);
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

static void del_all(struct history *h, const int *idx, int n)
{
	struct vpmu_consumer *c[H_CONSUMERS];
	struct vpmu_value last[H_CONSUMERS];

	for (int i = 0; i < n; i++)
		c[i] = &h->con[idx[i]].c;
	vpmu_consumer_del_many(c, (size_t)n, last);
	all_refreshed(h); /* by the sync, which comes before the keys are dropped */
	for (int i = 0; i < n; i++)
		con_gone(h, idx[i], &last[i]);
	consumers_changed(h);
}

static void step_del_many(struct history *h)
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

static void step_vm_destroy(struct history *h)
{
	int vm = pick(h, H_ACCOUNTS, acc_vm);

	if (vm == M_NONE)
		return;
	say(h, "vm %d destroy", vm);
	for (int v = 0; v < H_VCPUS; v++) {
		struct h_vcpu *x = &h->vcpu[v];

		if (!x->alive || h->acc[x->own].parent != vm)
			continue;
		if (vcpu_current(h, v))
			do_switch(h, x->place, M_NONE);
		if (x->place == M_NONE && pick(h, H_PCPUS, pcpu_alive) != M_NONE)
			place(h, v, pick(h, H_PCPUS, pcpu_alive));
		for (int i = 0; i < H_CONSUMERS; i++) {
			if (h->con[i].alive && h->con[i].acc == x->own && !con_del(h, i))
				return; /* nowhere to delete a guest's counter: later */
		}
		vpmu_context_fini(&x->ctx);
		h->acc[x->own].contexts--;
		if (x->group != M_NONE)
			h->acc[x->group].contexts--;
		x->alive = false;
		acc_del(h, x->own);
	}
	for (int i = 0; i < H_CONSUMERS; i++) {
		if (h->con[i].alive && h->con[i].acc == vm)
			con_del(h, i);
	}
	acc_del(h, vm); /* -EBUSY when somebody made vCPU accounts without vCPUs */
}

/* I5: with everything charged, B executes; nobody's consumer but B's and its ancestors' moves. */
static void step_i5_probe(struct history *h)
{
	int p = pick(h, H_PCPUS, pcpu_alive);
	struct vpmu_value before[H_CONSUMERS], now;
	int b;

	if (p == M_NONE)
		return;
	say(h, "I5 probe on pcpu %d", p);
	check_exact(h);
	for (int i = 0; i < H_CONSUMERS; i++) {
		if (h->con[i].alive)
			vpmu_consumer_read(&h->con[i].c, &before[i]);
	}
	run(h, p);
	flush(h, p, chance(h, 50));
	b = h->acc[h->pcpu[p].vcpu == M_NONE ? OTHER : h->vcpu[h->pcpu[p].vcpu].own].model;
	for (int i = 0; i < H_CONSUMERS; i++) {
		const struct h_con *c = &h->con[i];

		if (!c->alive || model_below(h->m, b, h->acc[c->acc].model))
			continue;
		vpmu_consumer_read(&c->c, &now);
		H_CHECK(h, !memcmp(&now, &before[i], sizeof(now)),
			"I5: consumer %d of account %d saw what account %d executed: %lu -> %lu", i,
			c->acc, b, before[i].count, now.count);
	}
	H_COUNT(i5_probes);
}

/* ---- a whole history ---- */

static const struct {
	void (*step)(struct history *h);
	unsigned int weight, storm_weight;
} steps[] = {
	{step_run, 260, 200},	    {step_switch, 220, 150},	 {step_local_add, 60, 140},
	{step_del, 40, 30},	    {step_disable, 50, 40},	 {step_enable, 60, 60},
	{step_add_many, 45, 100},   {step_del_many, 15, 30},	 {step_tenant_create, 20, 10},
	{step_account_del, 25, 10}, {step_vm_create, 25, 20},	 {step_vm_destroy, 15, 10},
	{step_migrate, 50, 40},	    {step_tick, 50, 50},	 {step_flush, 20, 20},
	{step_exact, 12, 10},	    {step_conservation, 10, 10}, {step_i5_probe, 10, 5},
	{step_pcpu_create, 15, 15}, {step_pcpu_destroy, 8, 4},
};
#define NR_STEPS (sizeof(steps) / sizeof(steps[0]))

static void one_step(struct history *h)
{
	unsigned int total = 0, at;
	size_t i;

	for (i = 0; i < NR_STEPS; i++)
		total += h->storm ? steps[i].storm_weight : steps[i].weight;
	at = rnd(h, total);
	for (i = 0; i < NR_STEPS - 1; i++) {
		unsigned int w = h->storm ? steps[i].storm_weight : steps[i].weight;

		if (at < w)
			break;
		at -= w;
	}
	steps[i].step(h);
	H_COUNT(steps);
}

static void begin(struct history *h, uint64_t seed)
{
	h->seed = h->rng = seed;
	h->storm = chance(h, 12);
	h->max_pcpus = 1 + (int)rnd(h, H_PCPUS);
	h->keys = chance(h, 50) ? 4 + (int)rnd(h, 9) : 12 + (int)rnd(h, 30);
	if (h->storm)
		h->keys = m_nr_keys;
	h->gp = 1 + (int)rnd(h, 4);
	h->fixed = (int)rnd(h, 4);
	h->width = chance(h, 50) ? 8 + (int)rnd(h, 9) : 48;
	h->batch = h->storm ? 60 : 6;
	h->mixed = chance(h, 15);
	h->refuse_percent = chance(h, 10) ? 1 + rnd(h, 60) : 0;
	/* Mostly keys that count somewhere; all of them in a storm. */
	for (int i = 0; i < h->keys; i++) {
		do
			h->pool[i] = h->storm ? i : (int)rnd(h, (unsigned int)m_nr_keys);
		while (!h->storm && m_keys[h->pool[i]].event == M_NONE && chance(h, 85));
	}
	h->m = model_new();
	h->host = vpmu_host_create();
	h->acc[ROOT] = (struct h_acc){.alive = true, .kind = ACC_ROOT, .parent = M_NONE};
	h->acc[ROOT].a = vpmu_host_root(h->host);
	h->acc[ROOT].children = 1;
	h->acc[OTHER] = (struct h_acc){.alive = true, .kind = ACC_OTHER, .parent = ROOT};
	h->acc[OTHER].a = vpmu_host_other(h->host);
	h->acc[OTHER].model = model_account(h->m, 0);
	h->steps = 100 + (int)rnd(h, 200);
	say(h,
	    "seed %#lx: %d pCPUs at most, %d keys, %d gp + %d fixed of %d bits%s%s, %u %% refused",
	    seed, h->max_pcpus, h->keys, h->gp, h->fixed, h->width, h->mixed ? ", mixed" : "",
	    h->storm ? ", storm" : "", h->refuse_percent);
	/* Some histories have consumers before the first pCPU. */
	if (chance(h, 80))
		step_pcpu_create(h);
	for (int i = 0; i < 3; i++)
		step_vm_create(h);
}

/* Everything goes; vpmu_host_destroy then has nothing left but accounts. */
static void end(struct history *h)
{
	int idx[H_CONSUMERS], n = 0;

	if (pick(h, H_PCPUS, pcpu_alive) == M_NONE) {
		h->nr_pcpu_ids = 0; /* only to get rid of guests' counters: no row is compared */
		step_pcpu_create(h);
	}
	for (int v = 0; v < H_VCPUS; v++) {
		if (h->vcpu[v].alive && h->vcpu[v].place == M_NONE)
			place(h, v, pick(h, H_PCPUS, pcpu_alive));
	}
	for (int i = 0; i < H_CONSUMERS; i++) {
		if (con_operator(h, i))
			idx[n++] = i;
		else if (h->con[i].alive)
			con_del(h, i);
	}
	if (n)
		del_all(h, idx, n);
	for (int p = 0; p < H_PCPUS; p++) {
		if (h->pcpu[p].alive)
			do_switch(h, p, M_NONE);
	}
	for (int v = 0; v < H_VCPUS; v++) {
		if (h->vcpu[v].alive)
			vpmu_context_fini(&h->vcpu[v].ctx);
	}
	vpmu_host_destroy(h->host);
	model_free(h->m);
	H_COUNT(histories);
}

int history_run(struct history *h, uint64_t seed, int max_steps, bool log)
{
	memset(h, 0, sizeof(*h));
	h->log = log;
	if (setjmp(h->failed))
		return h->step + 1;
	begin(h, seed);
	if (max_steps && max_steps < h->steps)
		h->steps = max_steps;
	for (h->step = 0; h->step < h->steps; h->step++) {
		one_step(h);
		check_stale(h);
	}
	check_exact(h);
	check_conservation(h);
	end(h);
	return 0;
}
