// SPDX-License-Identifier: GPL-2.0-or-later
/* Steps of the machine: pCPUs, running accounts, VMs. */
#include "tests/model/steps.h"
#include "vpmu/core/rcu.h"
#include "vpmu/core/internal.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>

#define MOST_STOPS (h_trace ? 3 : 40) /* of one run */

/* ---- pCPUs ---- */

void step_pcpu_create(struct history *h)
{
	struct vpmu_emupmu_opts opts = {.no_default = true};
	int i = FREE(h->pcpu), alarms = h->alarms, ret;
	struct h_pcpu *p;

	if (i == M_NONE || i >= h->max_pcpus || h->nr_pcpu_ids == M_PCPUS - 1)
		return;
	p = &h->pcpu[i];
	memset(p, 0, sizeof(*p));
	p->id = h->nr_pcpu_ids++;
	p->vcpu = M_NONE;
	opts.gp = (unsigned int)h->gp;
	opts.fixed = (unsigned int)h->fixed;
	opts.width = (unsigned int)h->width;
	opts.no_lbr = h->no_lbr;
	if (h->mixed && chance(h, 50)) {
		alarms = (int)rnd(h, FAKE_EARLY + 1);
		opts.no_lbr = chance(h, 30);
		opts.gp = 1 + rnd(h, 4);
		opts.fixed = rnd(h, 4);
	}
	H_CHECK(h, !fake_init(&p->fake, &opts, h->m, p->id, random_split(&h->rng), alarms),
		"fake_init");
	for (int e = 0; e < M_EVENTS; e++)
		p->fake.cannot[e] = h->mixed && chance(h, 20);
	for (int k = 0; k < m_nr_keys; k++)
		model_can(h->m, p->id, k, fake_eligible(&p->fake, k) != 0);
	p->fake.refuse_percent = h->refuse_percent;
	ret = OP(h, M_NONE, vpmu_pcpu_create(h->host, &p->fake.pmu, (unsigned int)p->id, &p->p));
	H_CHECK(h, ret == 0, "vpmu_pcpu_create: %d", ret);
	p->alive = true;
	model_switch(h->m, p->id, h->acc[OTHER].model);
	h_refreshed(h, i);
	say(h, "pcpu %d create: id %d, %u gp, %u fixed, %u bits, alarms %d%s", i, p->id, opts.gp,
	    opts.fixed, opts.width, alarms, opts.no_lbr ? ", no LBR" : "");
}

void do_switch(struct history *h, int i, int v)
{
	struct h_pcpu *p = &h->pcpu[i];
	int account;
	bool lbr = v != p->vcpu && ((v != M_NONE && lbr_chosen(h, v)) ||
				    (p->vcpu != M_NONE && lbr_chosen(h, p->vcpu)));
	unsigned int samples = h->samples;
	m_keyset next;

	if (v != M_NONE)
		guest_place(h, v, i);
	account = h_charged(h, v);
	model_keys_in_use(h->m, h->acc[account].model, &next);
	fake_reset_calls(&p->fake);
	OP_VOID(h, M_NONE, vpmu_pcpu_switch(p->p, v == M_NONE ? NULL : &h->vcpu[v].ctx));
	check_switch(h, i, account, &next, h->samples - samples);
	H_CHECK(h, lbr || h->samples != samples || !p->fake.lbr_calls,
		"I3: the same owner of branch records, %u calls", p->fake.lbr_calls);
	p->seen_account = account;
	p->seen_keys = next;
	p->seen_changes = h->changes;
	p->vcpu = v;
	/* Leaves, as the model has no groups: what runs is the vCPU. */
	model_switch(h->m, p->id, h->acc[v == M_NONE ? OTHER : h->vcpu[v].own].model);
	say(h, "switch pcpu %d to vcpu %d (%u PMU calls)", i, v, p->fake.calls);
}

void step_pcpu_destroy(struct history *h)
{
	int i = pick(h, H_PCPUS, pcpu_alive), ret;
	struct h_pcpu *p;

	if (i == M_NONE || h->nr_pcpu_ids == M_PCPUS - 1)
		return; /* none could come after the last */
	p = &h->pcpu[i];
	if (p->vcpu != M_NONE) {
		ret = OP(h, M_NONE, vpmu_pcpu_destroy(p->p));
		H_CHECK(h, ret == -EBUSY, "destroy of a busy pCPU: %d", ret);
		do_switch(h, i, M_NONE);
	}
	for (int v = 0; v < H_VCPUS; v++) {
		if (h->vcpu[v].alive && h->vcpu[v].guest && h->vcpu[v].guest->place == i)
			guest_place(h, v, M_NONE);
	}
	say(h, "pcpu %d destroy", i);
	ret = OP(h, M_NONE, vpmu_pcpu_destroy(p->p));
	H_CHECK(h, ret == 0, "vpmu_pcpu_destroy: %d", ret);
	p->alive = false;
	for (unsigned int c = 0; c < p->fake.pmu.nr_ctrs; c++)
		H_CHECK(h, p->fake.key[c] == M_NONE, "pCPU gone, counter %u still bound", c);
	for (int v = 0; v < H_VCPUS; v++) {
		if (h->vcpu[v].alive && h->vcpu[v].place == i)
			h->vcpu[v].place = M_NONE;
	}
	/* The memory comes back after a grace period: the next pCPU may lie where this one was. */
	if (!h_trace && chance(h, 10)) {
		say(h, "grace period");
		urcu_memb_barrier();
		step_pcpu_create(h);
	}
}

void flush(struct history *h, int i, bool tick)
{
	struct h_pcpu *p = &h->pcpu[i];

	say(h, "%s pcpu %d", tick ? "tick" : "flush", i);
	if (tick)
		OP_VOID(h, M_NONE, vpmu_pcpu_tick(p->p));
	else
		OP_VOID(h, M_NONE, vpmu_pcpu_flush(p->p));
	h_refreshed(h, i);
	check_no_idle_counter(h, i);
}

/* The clock of branch records: guests' cycles. */
static uint64_t cycles(const struct m_exec *x)
{
	return x->ev[0][0] + x->ev[1][0];
}

/* As an engine does: stop where an alarm is due, so far as this kind of PMU knows. */
static void execute(struct history *h, int i, struct m_exec *x, bool told)
{
	struct h_pcpu *p = &h->pcpu[i];
	bool due = true;

	if (p->vcpu != M_NONE && chance(h, 80))
		guest_service(h, p->vcpu);
	lbr_branches(h, i);
	for (int stops = 0; due && stops < MOST_STOPS && (!told || fake_tells_all(&p->fake));
	     stops++) {
		uint64_t before = cycles(x);

		due = fake_execute_some(&p->fake, x);
		lbr_executed(h, i, before - cycles(x));
		if (due && (p->fake.alarms != FAKE_LATE || chance(h, 50))) {
			OP_VOID(h, M_NONE, vpmu_pcpu_overflow(p->p));
			H_COUNT(stops);
			if (p->vcpu != M_NONE && chance(h, 60))
				guest_service(h, p->vcpu);
		}
		if (chance(h, 30))
			lbr_branches(h, i);
	}
	/* The library looks at counters with alarms after half their range. */
	for (int e = 0; told && e < M_EVENTS; e++)
		p->unread[e] = p->fake.pmu.width_mask / 2 + 16;
	if (!due || told)
		return;
	/* A period of a few events: the rest at once. */
	fake_execute(&p->fake, x);
	lbr_executed(h, i, cycles(x));
	OP_VOID(h, M_NONE, vpmu_pcpu_overflow(p->p));
}

void run(struct history *h, int i)
{
	struct h_pcpu *p = &h->pcpu[i];
	uint64_t mask = p->fake.pmu.width_mask, most, sum[M_EVENTS] = {0};
	bool wrap = false, told = mask < 5000 && fake_tells_all(&p->fake);
	struct m_exec x = {.ns = 1 + rnd(h, 10000)};

	/* At most one wrap between readings, as a real tick would see to. */
	most = mask / (chance(h, 50) ? 4 : 40);
	if (mask > UINT32_MAX && chance(h, 80))
		most = 100000;
	if (told)
		most = mask * 2;
	for (int e = 0; e < M_EVENTS; e++) {
		for (int mode = 0; mode < M_MODES; mode++) {
			x.ev[mode][e] = chance(h, 30) ? 0 : random_split(&h->rng) % (most + 1);
			sum[e] += x.ev[mode][e];
		}
		wrap |= p->unread[e] + sum[e] > mask;
	}
	if (wrap && !told) {
		flush(h, i, false);
		H_COUNT(wraps);
	}
	for (int e = 0; e < M_EVENTS; e++)
		p->unread[e] += sum[e];
	say(h, "run pcpu %d vcpu %d, %lu ns, user instructions %lu", i, p->vcpu, x.ns, x.ev[1][1]);
	execute(h, i, &x, told);
}

void step_run(struct history *h)
{
	int i = pick(h, H_PCPUS, pcpu_alive);

	if (i != M_NONE)
		run(h, i);
}

void step_flush(struct history *h)
{
	int i = pick(h, H_PCPUS, pcpu_alive);

	if (i != M_NONE)
		flush(h, i, false);
}

void step_tick(struct history *h)
{
	int i = pick(h, H_PCPUS, pcpu_alive);

	if (i != M_NONE)
		flush(h, i, true);
}

void step_exact(struct history *h)
{
	say(h, "sync and compare all");
	check_exact(h);
}

void step_conservation(struct history *h)
{
	say(h, "conservation");
	check_conservation(h);
}

/* ---- vCPUs on pCPUs ---- */

void place(struct history *h, int v, int p)
{
	int ret;

	/* With or without a time of being nowhere. */
	if (h->vcpu[v].guest && h->vcpu[v].guest->place != p && chance(h, 50))
		guest_place(h, v, M_NONE);
	ret = OP(h, M_NONE, vpmu_context_place(&h->vcpu[v].ctx, h->pcpu[p].p));

	H_CHECK(h, ret == 0, "vpmu_context_place: %d", ret);
	h->vcpu[v].place = p;
	say(h, "place vcpu %d on pcpu %d", v, p);
	guest_place(h, v, p);
}

void step_switch(struct history *h)
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

void step_migrate(struct history *h)
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

bool acc_alive(const struct history *h, int i)
{
	return h->acc[i].alive;
}

static bool acc_tenant(const struct history *h, int i)
{
	return h->acc[i].alive && (h->acc[i].kind == ACC_TENANT || h->acc[i].kind == ACC_ROOT);
}

bool acc_vm(const struct history *h, int i)
{
	return h->acc[i].alive && h->acc[i].kind == ACC_VM;
}

int acc_create(struct history *h, enum acc_kind kind, int parent)
{
	int i = FREE(h->acc), ret;
	struct h_acc *a;

	if (i == M_NONE || i >= H_ACCOUNTS)
		return M_NONE;
	a = &h->acc[i];
	*a = (struct h_acc){.kind = kind, .parent = parent};
	ret = OP(h, M_NONE, vpmu_account_create(h->acc[parent].a, a, &a->a));
	H_CHECK(h, ret == 0, "vpmu_account_create: %d", ret);
	H_CHECK(h, vpmu_account_owner(a->a) == a && a->a->parent == h->acc[parent].a,
		"account's owner or parent");
	a->alive = true;
	a->model = model_account(h->m, h->acc[parent].model);
	h->acc[parent].children++;
	return i;
}

/* vpmu_account_del returns -EBUSY exactly when it should. */
bool acc_del(struct history *h, int i)
{
	struct h_acc *a = &h->acc[i];
	bool busy = a->children || a->consumers || a->contexts || a->captures || i == ROOT ||
		    i == OTHER;
	int ret = OP(h, M_NONE, vpmu_account_del(a->a));

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

void step_tenant_create(struct history *h)
{
	int parent = pick(h, H_ACCOUNTS, acc_tenant);
	int i = acc_create(h, ACC_TENANT, parent);

	say(h, "tenant %d below %d", i, parent);
}

void step_account_del(struct history *h)
{
	acc_del(h, pick(h, H_ACCOUNTS, acc_alive));
}

/* An engine's, called in the middle of a charge. */
static int where(struct vpmu_context *ctx, struct vpmu_where *out)
{
	const struct h_vcpu *v =
		(const struct h_vcpu *)((const char *)ctx - offsetof(struct h_vcpu, ctx));

	*out = (struct vpmu_where){v->branches, v->tag % 4}; /* seen only if it is known */
	return v->where_known ? 0 : -EIO;
}

/* Its guest and its branches' tag are the caller's: a new one, or one restored. */
void vcpu_begin(struct history *h, int i, int own, int group)
{
	struct h_vcpu *v = &h->vcpu[i];
	int ret;

	v->own = own;
	v->group = group;
	v->place = M_NONE;
	v->h = h;
	ret = OP(h, M_NONE,
		 vpmu_context_init(&v->ctx, h->acc[own].a,
				   group == M_NONE ? NULL : h->acc[group].a));
	H_CHECK(h, ret == 0, "vpmu_context_init: %d", ret);
	v->where_known = chance(h, 80);
	v->ctx.where = v->where_known || chance(h, 50) ? where : NULL;
	v->alive = true;
	lbr_capture(h);
	h->acc[own].contexts++;
	if (group != M_NONE)
		h->acc[group].contexts++;
	say(h, "vcpu %d: own account %d, group %d", i, own, group);
}

static void vcpu_create(struct history *h, int own, int group)
{
	int i = FREE(h->vcpu);

	if (i == M_NONE)
		return;
	h->vcpu[i] = (struct h_vcpu){.tag = ++h->next_tag};
	vcpu_begin(h, i, own, group);
	if (chance(h, 40))
		guest_create(h, i);
}

void step_vm_create(struct history *h)
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

/* Everybody lets go of the account, in any order, and then it goes. */
static void acc_forget(struct history *h, int acc)
{
	if (chance(h, 50))
		acc_samplers_destroy(h, acc);
	for (int i = 0; i < H_CONSUMERS; i++) {
		if (h->con[i].alive && h->con[i].acc == acc)
			con_del(h, i);
	}
	if (chance(h, 50))
		acc_del(h, acc);
	if (!h->acc[acc].alive)
		return;
	lbr_detach_all(h, acc);
	acc_samplers_destroy(h, acc);
	acc_del(h, acc);
}

void step_vm_destroy(struct history *h)
{
	int vm = pick(h, H_ACCOUNTS, acc_vm);

	if (vm == M_NONE)
		return;
	say(h, "vm %d destroy", vm);
	for (int v = 0; v < H_VCPUS; v++) {
		struct h_vcpu *x = &h->vcpu[v];

		if (!x->alive || h->acc[x->own].parent != vm)
			continue;
		/* In the middle of whatever it does. */
		if (chance(h, 50) && x->place != M_NONE)
			guest_fini(h, v);
		if (vcpu_current(h, v))
			do_switch(h, x->place, M_NONE);
		if (x->place == M_NONE && pick(h, H_PCPUS, pcpu_alive) != M_NONE)
			place(h, v, pick(h, H_PCPUS, pcpu_alive));
		for (int i = 0; i < H_CONSUMERS; i++) {
			if (h->con[i].alive && h->con[i].acc == x->own && !con_del(h, i))
				return; /* nowhere to delete a guest's counter: later */
		}
		guest_fini(h, v);
		h->lbr_moves = true;
		OP_VOID(h, M_NONE, vpmu_context_fini(&x->ctx));
		h->lbr_moves = false;
		h->acc[x->own].contexts--;
		if (x->group != M_NONE)
			h->acc[x->group].contexts--;
		x->alive = false;
		acc_forget(h, x->own);
		H_COUNT(killed);
	}
	acc_forget(h, vm); /* -EBUSY when somebody made vCPU accounts without vCPUs */
}

/* I5: with everything charged, B executes; only consumers of B and of its ancestors move. */
void step_i5_probe(struct history *h)
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
