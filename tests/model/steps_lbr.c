// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Steps of branch records: captures of accounts, guests' own use, reading from other places. Each
 * branch carries the tag of the vCPU that made it, which is unique, and its number.
 */
#include "tests/model/steps.h"
#include "vpmu/lbr.h"
#include "vpmu/core/rcu.h"

#include <errno.h>
#include <string.h>

#define ALL   (VPMU_LBR_EN | VPMU_LBR_OS | VPMU_LBR_USR | VPMU_LBR_TYPES)
#define STACK (VPMU_LBR_EN | VPMU_LBR_USR | VPMU_LBR_CALL_STACK | VPMU_LBR_CALLS)
#define JUMPS (VPMU_LBR_EN | VPMU_LBR_OS | VPMU_LBR_JCC | VPMU_LBR_REL_JMP)

/* ---- what should be there ---- */

struct h_lbr *lbr_chosen(struct history *h, int v)
{
	struct h_lbr *l = h->vcpu[v].lbr;

	if (l[VPMU_LBR_GUEST].exists && (l[VPMU_LBR_GUEST].r.ctl & VPMU_LBR_EN))
		return &l[VPMU_LBR_GUEST];
	return l[VPMU_LBR_HOST].exists ? &l[VPMU_LBR_HOST] : NULL;
}

struct h_lbr *lbr_shown(struct history *h, int v, enum vpmu_lbr_user *user)
{
	struct h_lbr *l = h->vcpu[v].lbr, *shown = lbr_chosen(h, v);

	if (!shown && l[VPMU_LBR_GUEST].exists)
		shown = &l[VPMU_LBR_GUEST];
	*user = shown == &l[VPMU_LBR_GUEST] ? VPMU_LBR_GUEST : VPMU_LBR_HOST;
	return shown;
}

/* I5: records of others in no entry, used or not. */
static void own_records(struct history *h, int v, const struct vpmu_lbr_regs *r, const char *who)
{
	for (int i = 0; i < VPMU_LBR_DEPTH_MAX; i++) {
		const struct vpmu_lbr_entry *e = &r->e[i];

		H_CHECK(h,
			(!e->from && !e->to && !e->info) ||
				(e->from >> 24 == h->vcpu[v].tag && e->to >> 24 == h->vcpu[v].tag),
			"I5: %s of vcpu %d (tag %#x) has a branch from %#lx to %#lx", who, v,
			h->vcpu[v].tag, e->from, e->to);
	}
}

void lbr_same(struct history *h, int v, const struct vpmu_lbr_regs *r, const struct h_lbr *want,
	      const char *who)
{
	const struct vpmu_lbr_regs *w = &want->r;

	H_CHECK(h,
		r->ctl == w->ctl && r->depth == w->depth && r->count == w->count &&
			r->cycles == w->cycles && r->total == w->total,
		"%s of vcpu %d: ctl %#x, depth %u, %u records of %lu, %lu cycles ago; true: %#x, "
		"%u, %u of %lu, %lu",
		who, v, r->ctl, r->depth, r->count, r->total, r->cycles, w->ctl, w->depth, w->count,
		w->total, w->cycles);
	own_records(h, v, r, who);
	for (unsigned int n = 0; n < w->count; n++) {
		const struct vpmu_lbr_entry *a = vpmu_lbr_nth(r, n), *b = vpmu_lbr_nth(w, n);

		H_CHECK(h, a && !memcmp(a, b, sizeof(*a)),
			"%s of vcpu %d: record %u is %#lx -> %#lx, true %#lx -> %#lx", who, v, n,
			a ? a->from : 0, a ? a->to : 0, b->from, b->to);
		H_COUNT(records);
	}
}

static bool has_lbr(const struct history *h, int p)
{
	return h->pcpu[p].fake.pmu.lbr_depth != 0;
}

void lbr_executed(struct history *h, int p, uint64_t cycles)
{
	struct h_lbr *l = h->pcpu[p].vcpu == M_NONE ? NULL : lbr_chosen(h, h->pcpu[p].vcpu);

	if (l && has_lbr(h, p))
		l->r.cycles += cycles;
}

/* Who runs makes some branches. */
void lbr_branches(struct history *h, int p)
{
	static const uint32_t types[] = {VPMU_LBR_JCC, VPMU_LBR_REL_JMP,  VPMU_LBR_REL_CALL,
					 VPMU_LBR_RET, VPMU_LBR_IND_CALL, VPMU_LBR_OTHER};
	int v = h->pcpu[p].vcpu;
	struct h_lbr *l;

	if (v == M_NONE)
		return;
	l = has_lbr(h, p) ? lbr_chosen(h, v) : NULL;
	for (unsigned int n = rnd(h, l ? 12 : 3); n; n--) {
		struct h_vcpu *x = &h->vcpu[v];
		uint32_t nr = ++x->branches & 0xffffff;
		struct fake_branch b = {
			.mode = (int)rnd(h, 2),
			.type = types[rnd(h, sizeof(types) / sizeof(types[0]))],
			.e = {.from = (uint64_t)x->tag << 24 | nr,
			      .to = (uint64_t)x->tag << 24 | (~nr & 0xffffff),
			      .info = nr % 1000 | VPMU_LBR_INFO_CYC_VALID},
		};

		fake_branch(&h->pcpu[p].fake, &b);
		if (l && fake_record(&l->r, &b))
			l->r.cycles = 0;
	}
}

/* ---- captures ---- */

static bool below(const struct history *h, int a, int top)
{
	return model_below(h->m, h->acc[a].model, h->acc[top].model);
}

void lbr_capture(struct history *h)
{
	for (int v = 0; v < H_VCPUS; v++) {
		struct h_lbr *l = &h->vcpu[v].lbr[VPMU_LBR_HOST];
		bool want = false;
		uint32_t ctl = 0;

		for (int a = 0; h->vcpu[v].alive && a < H_ACCOUNTS; a++) {
			if (h->acc[a].alive && h->acc[a].captures && below(h, h->vcpu[v].own, a)) {
				want = true;
				ctl = h->acc[a].capture_ctl;
			}
		}
		if (want && !l->exists)
			l->r = (struct vpmu_lbr_regs){.ctl = ctl, .depth = VPMU_LBR_DEPTH_MAX};
		l->exists = want;
	}
}

static void detach(struct history *h, int a)
{
	say(h, "capture of account %d ends, of %u", a, h->acc[a].captures);
	h->lbr_moves = true;
	OP_VOID(h, M_NONE, vpmu_lbr_detach(h->acc[a].a));
	h->lbr_moves = false;
	if (h->acc[a].captures)
		h->acc[a].captures--;
	lbr_capture(h);
}

void lbr_detach_all(struct history *h, int acc)
{
	while (h->acc[acc].captures)
		detach(h, acc);
}

void step_lbr_attach(struct history *h)
{
	uint32_t ctl = chance(h, 70)   ? ALL
		       : chance(h, 80) ? STACK
		       : chance(h, 50) ? JUMPS
				       : 1u << 9;
	int a = chance(h, 15) ? ROOT : pick(h, H_ACCOUNTS, acc_alive), want = 0, ret;
	bool facility = false;

	if (chance(h, 50)) {
		detach(h, a);
		return;
	}
	for (int p = 0; p < H_PCPUS; p++)
		facility |= h->pcpu[p].alive && has_lbr(h, p);
	for (int o = 0; o < H_ACCOUNTS; o++) {
		const struct h_acc *x = &h->acc[o];

		if (x->alive && x->captures && x->capture_ctl != ctl &&
		    (below(h, a, o) || below(h, o, a)))
			want = -EBUSY;
	}
	if (a == OTHER || !facility)
		want = -EOPNOTSUPP;
	if (ctl == 1u << 9)
		want = -EINVAL;
	h->lbr_moves = true;
	ret = OP(h, M_NONE, vpmu_lbr_attach(h->acc[a].a, ctl & ~(rnd(h, 2) * VPMU_LBR_EN)));
	h->lbr_moves = false;
	say(h, "capture account %d with %#x: %d", a, ctl, ret);
	H_CHECK(h, ret == want, "attach: %d, expected %d", ret, want);
	if (ret)
		return;
	H_COUNT(captures);
	h->acc[a].captures++;
	h->acc[a].capture_ctl = ctl;
	lbr_capture(h);
}

/* ---- the guest's own, of vCPUs without a register model ---- */

static bool vcpu_raw(const struct history *h, int v)
{
	return h->vcpu[v].alive && !h->vcpu[v].guest;
}

static void guest_set(struct history *h, int v, struct vpmu_pcpu *p)
{
	static const uint32_t ctls[] = {0, ALL, ALL, STACK, JUMPS, ALL & ~VPMU_LBR_EN};
	struct h_lbr *l = &h->vcpu[v].lbr[VPMU_LBR_GUEST];
	struct vpmu_lbr_regs r = l->r;
	int want = l->exists ? 0 : -ENOENT, ret;

	if (chance(h, 30)) {
		r = (struct vpmu_lbr_regs){.depth = (uint8_t)(8 + 8 * rnd(h, 4)),
					   .head = (uint8_t)rnd(h, 32),
					   .cycles = rnd(h, 1000),
					   .total = 40 + rnd(h, 1000)};
		r.count = (uint8_t)rnd(h, r.depth + 1u);
		for (int i = 0; i < VPMU_LBR_DEPTH_MAX; i++) {
			uint64_t at = (uint64_t)h->vcpu[v].tag << 24 | rnd(h, 1u << 24);

			r.e[i] = (struct vpmu_lbr_entry){at, at, rnd(h, 100)};
		}
	}
	r.ctl = ctls[rnd(h, 6)];
	if (l->exists && chance(h, 5)) {
		r.head = VPMU_LBR_DEPTH_MAX; /* no state there can be */
		want = -EINVAL;
	}
	ret = OP(h, M_NONE, vpmu_lbr_guest_set(&h->vcpu[v].ctx, p, &r));
	say(h, "guest of vcpu %d sets %u records, ctl %#x: %d", v, r.count, r.ctl, ret);
	H_CHECK(h, ret == want, "guest_set: %d, expected %d", ret, want);
	if (!ret)
		l->r = r;
}

static void guest_open(struct history *h, int v, struct vpmu_pcpu *p)
{
	struct h_lbr *l = &h->vcpu[v].lbr[VPMU_LBR_GUEST];
	unsigned int depth = 8 * rnd(h, 6);
	bool ok = depth >= 8 && depth <= 32;
	int ret = OP(h, M_NONE, vpmu_lbr_guest_open(&h->vcpu[v].ctx, p, depth));

	say(h, "guest of vcpu %d opens, depth %u: %d", v, depth, ret);
	H_CHECK(h, ret == (ok ? 0 : -EINVAL), "guest_open: %d", ret);
	if (!l->exists && ok)
		*l = (struct h_lbr){.exists = true, .r.depth = (uint8_t)depth};
}

void step_lbr_guest(struct history *h)
{
	int v = pick(h, H_VCPUS, vcpu_raw), ret;
	struct vpmu_lbr_regs r;
	struct vpmu_pcpu *p;
	struct h_lbr *l;

	if (v == M_NONE)
		return;
	l = &h->vcpu[v].lbr[VPMU_LBR_GUEST];
	p = h->vcpu[v].place == M_NONE ? NULL : h->pcpu[h->vcpu[v].place].p;
	switch (rnd(h, 6)) {
	case 0:
	case 1:
		guest_open(h, v, p);
		break;
	case 2:
		say(h, "guest of vcpu %d closes", v);
		OP_VOID(h, M_NONE, vpmu_lbr_guest_close(&h->vcpu[v].ctx, p));
		l->exists = false;
		if (chance(h, 40))
			break;
		/* At once again: the same memory, but nothing in it. */
		guest_open(h, v, p);
		guest_set(h, v, p);
		break;
	case 3:
		ret = OP(h, M_NONE, vpmu_lbr_guest_get(&h->vcpu[v].ctx, p, &r));
		H_CHECK(h, ret == (l->exists ? 0 : -ENOENT), "guest_get: %d", ret);
		if (!ret)
			lbr_same(h, v, &r, l, "guest_get");
		break;
	default:
		guest_set(h, v, p);
	}
}

/* ---- reading ---- */

/* Not current: somebody's own all the same. */
void step_lbr_read(struct history *h)
{
	int v = pick(h, H_VCPUS, vcpu_alive), at, ret;
	enum vpmu_lbr_user user = 0, want_user = 0;
	struct vpmu_lbr_regs r;
	struct h_lbr *want;

	if (v == M_NONE)
		return;
	want = lbr_shown(h, v, &want_user);
	H_COUNT(reads_lbr);
	ret = OP(h, M_NONE, vpmu_lbr_read(h->acc[h->vcpu[v].own].a, &r, &user));
	H_CHECK(h, ret == (want ? 0 : -ENOENT), "lbr_read of vcpu %d: %d", v, ret);
	if (want) {
		H_CHECK(h, user == want_user && r.total <= want->r.total,
			"lbr_read of vcpu %d: user %d, %lu branches; true %d, %lu", v, user,
			r.total, want_user, want->r.total);
		own_records(h, v, &r, "lbr_read");
		if (!vcpu_current(h, v))
			lbr_same(h, v, &r, want, "lbr_read");
	}
	at = h->vcpu[v].place;
	if (at == M_NONE)
		return;
	ret = OP(h, M_NONE, vpmu_lbr_live(&h->vcpu[v].ctx, h->pcpu[at].p, &r, &user));
	H_CHECK(h, ret == (want ? 0 : -ENOENT), "lbr_live of vcpu %d: %d", v, ret);
	if (want) {
		H_CHECK(h, user == want_user, "lbr_live of vcpu %d: user %d", v, user);
		lbr_same(h, v, &r, want, "lbr_live");
	}
}

/* I6: after grace periods, memory is there only for its users. */
void step_lbr_memory(struct history *h)
{
	struct vpmu_lbr_usage u;
	size_t tasks = 0;

	for (int v = 0; v < H_VCPUS; v++) {
		for (int user = 0; h->vcpu[v].alive && user < VPMU_LBR_USERS; user++)
			tasks += h->vcpu[v].lbr[user].exists;
	}
	vpmu_lbr_usage(h->host, &u);
	H_CHECK(h, u.tasks == tasks, "I6: %zu buffers in use, true %zu", u.tasks, tasks);
	H_CHECK(h, u.bytes >= u.tasks * sizeof(struct vpmu_lbr_regs), "I6: %zu bytes", u.bytes);
	if (h_trace || !chance(h, 2))
		return;
	say(h, "two grace periods");
	urcu_memb_barrier();
	urcu_memb_barrier();
	vpmu_lbr_usage(h->host, &u);
	H_CHECK(h, u.tasks == tasks && (tasks != 0) == (u.bytes != 0) && u.bytes <= 65536 * tasks,
		"I6: %zu bytes for %zu buffers, true %zu", u.bytes, u.tasks, tasks);
	H_COUNT(freed);
}
