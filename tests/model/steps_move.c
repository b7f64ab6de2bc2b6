// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * A vCPU moves as it does between two processes: its guest is saved, the vCPU is gone with all that
 * was its, and another one, of the same VM or another, goes on from the bytes; sometimes after a
 * life in another host. Counts, overflows that wait and branch records go on as the model has them.
 */
#include "tests/model/guest.h"
#include "vpmu/account.h"
#include "vpmu/core/blob.h"
#include "vpmu/host.h"
#include "vpmu/pcpu.h"
#include "vpmu/guest/save.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define AWAY H_PCPUS /* index of the other host's pCPU */

static void save(struct history *h, int v, struct vpmu_blob *b)
{
	struct h_guest *g = h->vcpu[v].guest;
	struct vpmu_blob again = {0};
	int ret = G_OP(h, vpmu_guest_save(g->g, b));

	H_CHECK(h, ret == 0, "vpmu_guest_save: %d", ret);
	ret = vpmu_guest_save(g->g, &again);
	H_CHECK(h, ret == 0 && again.len == b->len && !memcmp(again.data, b->data, b->len),
		"saving changed what is saved");
	vpmu_blob_fini(&again);
}

/* Into a vCPU that is new; h_guest is the saved one's. */
static void load(struct history *h, int v, struct vpmu_blob *b)
{
	struct h_guest *g = h->vcpu[v].guest;
	struct vpmu_blob_reader r = {b->data, b->len, 0, false};
	char err[200] = "";
	int ret;

	g->g = calloc(1, sizeof(*g->g));
	ret = OP(h, M_NONE, vpmu_guest_init(g->g, &g->cfg, &h->vcpu[v].ctx, &h->reference.pmu));
	H_CHECK(h, ret == 0, "vpmu_guest_init: %d", ret);
	ret = G_OP(h, vpmu_guest_load(g->g, &r, err, sizeof(err)));
	H_CHECK(h, ret == 0, "vpmu_guest_load: %d, %s", ret, err);
	H_CHECK(h, vpmu_guest_pending(g->g) == g->pmi, "restored: a PMI is %s",
		g->pmi ? "lost" : "new");
	vpmu_blob_fini(b);
}

static void unload(struct history *h, int v)
{
	G_OP_VOID(h, vpmu_guest_fini(h->vcpu[v].guest->g));
	vpmu_rcu_free(h->vcpu[v].guest->g);
}

/* In another host, which is there only for this. */
static void away(struct history *h, int v, struct vpmu_blob *b)
{
	struct vpmu_emupmu_opts opts = {.gp = 2, .fixed = 1, .no_default = true};
	struct h_pcpu *p = &h->pcpu[AWAY];
	struct h_acc *a = &h->acc[H_ACCOUNTS];
	struct vpmu_host *host = vpmu_host_create();
	int ret;

	say(h, "vcpu %d is away", v);
	opts.no_lbr = h->no_lbr;
	memset(p, 0, sizeof(*p));
	p->id = M_PCPUS - 1;
	p->vcpu = M_NONE;
	H_CHECK(h, !fake_init(&p->fake, &opts, h->m, p->id, random_split(&h->rng), FAKE_EXACT),
		"away");
	for (int k = 0; k < m_nr_keys; k++)
		model_can(h->m, p->id, k, fake_eligible(&p->fake, k) != 0);
	*a = (struct h_acc){.kind = ACC_VCPU, .model = model_account(h->m, M_NONE)};
	ret = vpmu_pcpu_create(host, &p->fake.pmu, 7, &p->p);
	if (!ret)
		ret = vpmu_account_create(vpmu_host_root(host), NULL, &a->a);
	if (!ret)
		ret = vpmu_context_init(&h->vcpu[v].ctx, a->a, NULL);
	H_CHECK(h, ret == 0, "another host: %d", ret);
	h->away = true;
	h->vcpu[v].own = H_ACCOUNTS;
	h->vcpu[v].group = M_NONE;
	load(h, v, b);
	ret = vpmu_context_place(&h->vcpu[v].ctx, p->p);
	H_CHECK(h, ret == 0, "place: %d", ret);
	h->vcpu[v].place = AWAY;
	guest_place(h, v, AWAY);
	OP_VOID(h, M_NONE, vpmu_pcpu_switch(p->p, &h->vcpu[v].ctx));
	model_switch(h->m, p->id, a->model);
	p->vcpu = v;
	for (unsigned int n = 1 + rnd(h, 6); n; n--) {
		guest_acts(h, v);
		run(h, AWAY);
	}
	OP_VOID(h, M_NONE, vpmu_pcpu_switch(p->p, NULL));
	p->vcpu = M_NONE;
	guest_place(h, v, M_NONE);
	save(h, v, b);
	unload(h, v);
	vpmu_context_fini(&h->vcpu[v].ctx);
	ret = vpmu_account_del(a->a);
	H_CHECK(h, ret == 0, "account of the other host: %d", ret);
	ret = vpmu_pcpu_destroy(p->p);
	H_CHECK(h, ret == 0, "pCPU of the other host: %d", ret);
	vpmu_host_destroy(host);
	h->away = false;
}

static bool local_of(const struct history *h, int con, int acc)
{
	return h->con[con].alive && h->con[con].local && h->con[con].acc == acc;
}

void step_move(struct history *h)
{
	int v = pick(h, H_VCPUS, vcpu_guest), own, group;
	struct vpmu_blob b = {0};
	struct h_guest *g;
	struct h_vcpu *x;

	if (v == M_NONE)
		return;
	x = &h->vcpu[v];
	g = x->guest;
	own = x->own;
	group = x->group;
	if (x->place == M_NONE) {
		if (pick(h, H_PCPUS, pcpu_alive) == M_NONE)
			return;
		place(h, v, pick(h, H_PCPUS, pcpu_alive));
	}
	say(h, "vcpu %d moves", v);
	for (int i = 0; i < H_CONSUMERS; i++) {
		if (local_of(h, i, own))
			con_del(h, i);
	}
	if (vcpu_current(h, v))
		do_switch(h, x->place, M_NONE);
	guest_place(h, v, M_NONE);
	save(h, v, &b);
	unload(h, v);
	x->lbr[VPMU_LBR_HOST].exists = false;
	h->lbr_moves = true;
	OP_VOID(h, M_NONE, vpmu_context_fini(&x->ctx));
	h->lbr_moves = false;
	h->acc[own].contexts--;
	if (group != M_NONE)
		h->acc[group].contexts--;
	x->alive = false;
	if (!h_trace && chance(h, 10))
		away(h, v, &b);
	/* The old account may stay, as others have business with it. */
	if (chance(h, 70) && acc_del(h, own))
		own = M_NONE;
	if (own == M_NONE) {
		int vm = chance(h, 50) && group != M_NONE ? group : pick(h, H_ACCOUNTS, acc_vm);

		own = acc_create(h, ACC_VCPU, vm);
		group = chance(h, 80) ? vm : M_NONE;
	}
	vcpu_begin(h, v, own, group);
	load(h, v, &b);
	H_CHECK(h, x->guest == g && g->place == M_NONE, "move");
	H_COUNT(moved);
}
