// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Branch records under random histories against a plain model: a task's guest has records, the
 * operators' capture has others; while the task runs, those of the guest if it has them enabled,
 * else the capture's, get the executed branches. No switch, migration, attach or detach changes any
 * bit of either, and no other task's branches are ever in them.
 */
#include <errno.h>
#include <stdlib.h>

#include "lbr_bed.h"
#include "tests/random.h"

#define STEPS	  4000
#define SEEDS	  25
#define NODES	  (BED_VCPUS + 4)
#define CLEAN_END 4 /* of so many histories one ends with no users, the others with some */

static uint64_t rng;

static unsigned int rnd(unsigned int below)
{
	return (unsigned int)(random_shift(&rng) % below);
}

struct m_data {
	bool exists;
	struct vpmu_lbr_regs r;
};

static struct m_vcpu {
	bool alive;
	int pcpu; /* -1: nowhere */
	struct m_data guest, host;
} m[BED_VCPUS];

static int current[BED_PCPUS]; /* vCPU; -1: the host */

/* Accounts that can be captured: vCPUs, VM, tenant, root, a tenant with nothing in it. */
static struct vpmu_account *node[NODES];
static struct {
	unsigned int users;
	uint32_t ctl;
} m_node[NODES];
#define VM     BED_VCPUS
#define TENANT (BED_VCPUS + 1)
#define ROOT   (BED_VCPUS + 2)
#define EMPTY  (BED_VCPUS + 3)

/* @a is @top or below it. */
static bool below(int a, int top)
{
	static const int parent[] = {VM, VM, VM, VM, TENANT, ROOT, -1, ROOT};

	while (a >= 0 && a != top)
		a = parent[a];
	return a >= 0;
}

static struct m_data *m_chosen(int v)
{
	if (m[v].guest.exists && (m[v].guest.r.ctl & VPMU_LBR_EN))
		return &m[v].guest;
	return m[v].host.exists ? &m[v].host : NULL;
}

/* Who is captured, after an attach, a detach or a birth. */
static void m_capture(void)
{
	for (int v = 0; v < BED_VCPUS; v++) {
		struct m_data *h = &m[v].host;
		bool want = false;
		uint32_t ctl = 0;

		for (int n = 0; n < NODES; n++) {
			if (m[v].alive && m_node[n].users && below(v, n)) {
				want = true;
				ctl = m_node[n].ctl;
			}
		}
		if (want && !h->exists)
			h->r = (struct vpmu_lbr_regs){.ctl = ctl, .depth = VPMU_LBR_DEPTH_MAX};
		h->exists = want;
	}
}

static void same(const struct vpmu_lbr_regs *r, const struct vpmu_lbr_regs *want, int v,
		 const char *what)
{
	cr_assert_eq(memcmp(r, want, sizeof(*r)), 0,
		     "vCPU %d, %s: ctl %#x/%#x count %u/%u head %u/%u cycles %lu/%lu total %lu/%lu",
		     v, what, r->ctl, want->ctl, r->count, want->count, r->head, want->head,
		     r->cycles, want->cycles, r->total, want->total);
}

/* ---- steps ---- */

static struct vpmu_pcpu *place_of(int v)
{
	return m[v].pcpu < 0 ? NULL : b.p[m[v].pcpu];
}

static void step_switch(int p)
{
	int v = (int)rnd(BED_VCPUS + 2);

	if (v < BED_VCPUS && (!m[v].alive || m[v].pcpu != p))
		return;
	current[p] = v < BED_VCPUS ? v : -1;
	vpmu_pcpu_switch(b.p[p], v < BED_VCPUS ? &b.ctx[v] : NULL);
}

static void step_execute(int p)
{
	struct m_data *d = current[p] >= 0 ? m_chosen(current[p]) : NULL;

	for (unsigned int n = rnd(40); n; n--) {
		uint64_t from = (uint64_t)(current[p] + 1) << 56 | rnd(1u << 30), dt = rnd(100);

		lbr_cycles(&b, p, dt);
		lbr_branch(&b, p, from);
		if (d)
			lbr_push(&d->r, from, 0);
	}
	lbr_cycles(&b, p, 5);
	if (d)
		d->r.cycles += 5;
}

static void step_place(int v)
{
	if (!m[v].alive || (m[v].pcpu >= 0 && current[m[v].pcpu] == v))
		return;
	m[v].pcpu = (int)rnd(BED_PCPUS);
	cr_assert_eq(vpmu_context_place(&b.ctx[v], b.p[m[v].pcpu]), 0);
}

static void step_guest(int v)
{
	static const uint32_t ctls[] = {0, LBR_ALL, LBR_STACK, LBR_ALL & ~VPMU_LBR_EN};
	struct m_data *g = &m[v].guest;
	struct vpmu_lbr_regs r;
	int ret;

	if (!m[v].alive)
		return;
	switch (rnd(6)) {
	case 0:
		r.depth = (uint8_t)(8 + 8 * rnd(4));
		cr_assert_eq(vpmu_lbr_guest_open(&b.ctx[v], place_of(v), r.depth), 0);
		if (!g->exists)
			*g = (struct m_data){.exists = true, .r.depth = r.depth};
		break;
	case 1:
		if (rnd(3) == 0) {
			vpmu_lbr_guest_close(&b.ctx[v], place_of(v));
			g->exists = false;
		}
		break;
	case 2:
		ret = vpmu_lbr_guest_get(&b.ctx[v], place_of(v), &r);
		cr_assert_eq(ret, g->exists ? 0 : -ENOENT);
		if (g->exists)
			same(&r, &g->r, v, "guest_get");
		break;
	case 3:
		/* Something altogether different. */
		r = (struct vpmu_lbr_regs){.depth = (uint8_t)(8 + 8 * rnd(4)),
					   .head = (uint8_t)rnd(32),
					   .cycles = rnd(1000),
					   .total = rnd(1000)};
		r.ctl = ctls[rnd(4)];
		r.count = (uint8_t)rnd(r.depth + 1u);
		for (int i = 0; i < VPMU_LBR_DEPTH_MAX; i++)
			r.e[i] = (struct vpmu_lbr_entry){(uint64_t)(v + 1) << 56 | rnd(1u << 30),
							 rnd(100), rnd(100)};
		goto set;
	default:
		r = g->r;
		r.ctl = ctls[rnd(4)];
	set:
		ret = vpmu_lbr_guest_set(&b.ctx[v], place_of(v), &r);
		cr_assert_eq(ret, g->exists ? 0 : -ENOENT);
		if (g->exists)
			g->r = r;
	}
}

static void step_attach(void)
{
	uint32_t ctl = rnd(4) ? LBR_ALL : LBR_STACK;
	int n = (int)rnd(NODES), ret = 0;

	if (rnd(2)) {
		vpmu_lbr_detach(node[n]);
		if (m_node[n].users)
			m_node[n].users--;
		m_capture();
		return;
	}
	for (int o = 0; o < NODES; o++) {
		if (m_node[o].users && m_node[o].ctl != ctl && (below(o, n) || below(n, o)))
			ret = -EBUSY;
	}
	cr_assert_eq(vpmu_lbr_attach(node[n], ctl), ret);
	if (ret)
		return;
	m_node[n].users++;
	m_node[n].ctl = ctl;
	m_capture();
}

static void step_life(int v)
{
	if (!m[v].alive) {
		cr_assert_eq(vpmu_context_init(&b.ctx[v], b.vcpu[v], b.vm), 0);
		m[v] = (struct m_vcpu){.alive = true, .pcpu = -1};
	} else if (m[v].pcpu < 0 || current[m[v].pcpu] != v) {
		vpmu_context_fini(&b.ctx[v]);
		m[v] = (struct m_vcpu){.alive = false, .pcpu = -1};
	}
	m_capture();
}

/* All views, after a sync and, for the running task, live before it. */
static void check(void)
{
	struct vpmu_lbr_regs r;
	enum vpmu_lbr_user user;
	struct m_data *d;
	size_t tasks = 0;

	for (int p = 0; p < BED_PCPUS; p++) {
		int v = current[p];

		if (v < 0 || !m_chosen(v)) {
			cr_assert(lbr_cpu_zero(&b, p), "I5: pCPU %d holds records of nobody", p);
			continue;
		}
		cr_assert_eq(vpmu_lbr_live(&b.ctx[v], b.p[p], &r, &user), 0);
		same(&r, &m_chosen(v)->r, v, "live");
		cr_assert_eq(user, m_chosen(v) == &m[v].guest ? VPMU_LBR_GUEST : VPMU_LBR_HOST);
	}
	vpmu_host_sync(b.host);
	for (int v = 0; v < BED_VCPUS; v++) {
		int ret = vpmu_lbr_read(b.vcpu[v], &r, &user);

		tasks += m[v].guest.exists + m[v].host.exists;
		d = m_chosen(v) ? m_chosen(v) : m[v].guest.exists ? &m[v].guest : NULL;
		cr_assert_eq(ret, d ? 0 : -ENOENT, "vCPU %d: %d", v, ret);
		if (!d)
			continue;
		same(&r, &d->r, v, "read");
		cr_assert_eq(user, d == &m[v].guest ? VPMU_LBR_GUEST : VPMU_LBR_HOST);
	}
	cr_assert_eq(lbr_usage(&b).tasks, tasks);
}

static void history(uint64_t seed)
{
	rng = seed * 0x9e3779b97f4a7c15;
	bed_init(&b, NULL);
	for (int n = 0; n < BED_VCPUS; n++) {
		m[n] = (struct m_vcpu){.alive = true, .pcpu = n % BED_PCPUS};
		node[n] = b.vcpu[n];
	}
	node[VM] = b.vm;
	node[TENANT] = b.tenant;
	node[ROOT] = vpmu_host_root(b.host);
	cr_assert_eq(vpmu_account_create(node[ROOT], NULL, &node[EMPTY]), 0);
	memset(m_node, 0, sizeof(m_node));
	current[0] = current[1] = -1;
	for (int i = 0; i < STEPS; i++) {
		unsigned int what = rnd(100);
		int p = (int)rnd(BED_PCPUS), v = (int)rnd(BED_VCPUS);

		if (what < 30)
			step_switch(p);
		else if (what < 55)
			step_execute(p);
		else if (what < 65)
			step_place(v);
		else if (what < 83)
			step_guest(v);
		else if (what < 90)
			step_attach();
		else if (what < 92)
			step_life(v);
		else if (what < 94)
			vpmu_pcpu_flush(b.p[p]);
		else if (what < 95)
			vpmu_pcpu_tick(b.p[p]);
		else
			check();
	}
	for (int n = 0; n < NODES && seed % CLEAN_END == 0; n++) {
		while (m_node[n].users--)
			vpmu_lbr_detach(node[n]);
	}
	bed_fini(&b);
}

Test(lbr_random, round_trips)
{
	for (uint64_t seed = 1; seed <= SEEDS; seed++)
		history(seed);
}
