// SPDX-License-Identifier: GPL-2.0-or-later
/* Random steps, applied to the library and to the model. See history.h. */
#include "tests/model/steps.h"
#include "vpmu/host.h"
#include "vpmu/lbr.h"
#include "vpmu/core/rcu.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct h_stats h_stats;
void (*h_trace)(struct history *h, bool on);
void (*h_trace_pause)(bool on);

void h_fail(struct history *h, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(h->why, sizeof(h->why), fmt, ap);
	va_end(ap);
	longjmp(h->failed, 1);
}

void h_tell(struct history *h, const char *fmt, ...)
{
	va_list ap;

	if (h->told)
		return;
	h->told = true;
	va_start(ap, fmt);
	vsnprintf(h->why, sizeof(h->why), fmt, ap);
	va_end(ap);
}

void say(const struct history *h, const char *fmt, ...)
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

unsigned int rnd(struct history *h, unsigned int below)
{
	return (unsigned int)(random_split(&h->rng) % below);
}

bool chance(struct history *h, unsigned int percent)
{
	return rnd(h, 100) < percent;
}

/* A random index below @n for which @ok holds, or M_NONE. */
int pick(struct history *h, int n, bool (*ok)(const struct history *h, int i))
{
	int first = (int)rnd(h, (unsigned int)n);

	for (int k = 0; k < n; k++) {
		int i = (first + k) % n;

		if (ok(h, i))
			return i;
	}
	return M_NONE;
}

int pick_free(bool alive_at_0, const void *first, size_t size, int n)
{
	for (int i = 0; i < n; i++) {
		const bool *alive = (const bool *)((const char *)first + (size_t)i * size);

		if (*alive == alive_at_0)
			return i;
	}
	return M_NONE;
}
bool pcpu_alive(const struct history *h, int i)
{
	return h->pcpu[i].alive;
}

bool vcpu_alive(const struct history *h, int i)
{
	return h->vcpu[i].alive;
}

bool vcpu_current(const struct history *h, int v)
{
	for (int p = 0; p < H_PCPUS; p++) {
		if (h->pcpu[p].alive && h->pcpu[p].vcpu == v)
			return true;
	}
	return false;
}

void op_begin(struct history *h, int con)
{
	if (con != M_NONE)
		h->touched[con] = true;
	for (int i = 0; i < H_PCPUS; i++)
		h->pcpu[i].seen_kicks = h->pcpu[i].fake.kicks;
	if (h_trace)
		h_trace(h, true);
}

void op_end(struct history *h)
{
	if (h_trace)
		h_trace(h, false);
	memset(h->touched, 0, sizeof(h->touched));
	if (h->told)
		longjmp(h->failed, 1);
}

/* ---- charged accounts, and the library's view of them ---- */

/* The account that is charged while @vcpu runs: its own while that has consumers itself. */
int h_charged(const struct history *h, int vcpu)
{
	const struct h_vcpu *v;

	if (vcpu == M_NONE)
		return OTHER;
	v = &h->vcpu[vcpu];
	if (v->group == M_NONE || model_enabled(h->m, h->acc[v->own].model))
		return v->own;
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
void consumers_changed(struct history *h)
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

/* The last call was a control call: the pCPUs that it concerned have taken up what has changed. */
void all_refreshed(struct history *h)
{
	for (int i = 0; i < H_PCPUS; i++) {
		struct h_pcpu *p = &h->pcpu[i];

		if (p->alive && p->fake.kicks != p->seen_kicks)
			h_refreshed(h, i);
	}
}

/* ---- a whole history ---- */

/* How often, in histories of three kinds. */
enum { PLAIN, STORM, TRACED, KINDS };
static const struct {
	void (*step)(struct history *h);
	unsigned int weight[KINDS];
} steps[] = {
	{step_run, {260, 200, 200}},	     {step_switch, {220, 150, 200}},
	{step_local_add, {60, 140, 50}},     {step_del, {40, 30, 30}},
	{step_disable, {50, 40, 30}},	     {step_enable, {60, 60, 30}},
	{step_add_many, {45, 100, 15}},	     {step_del_many, {15, 30, 5}},
	{step_tenant_create, {20, 10, 5}},   {step_account_del, {25, 10, 10}},
	{step_vm_create, {25, 20, 10}},	     {step_vm_destroy, {15, 10, 10}},
	{step_migrate, {50, 40, 40}},	     {step_tick, {50, 50, 40}},
	{step_flush, {20, 20, 20}},	     {step_exact, {12, 10, 5}},
	{step_conservation, {10, 10, 3}},    {step_i5_probe, {10, 5, 2}},
	{step_pcpu_create, {15, 15, 10}},    {step_pcpu_destroy, {8, 4, 5}},
	{step_alarm, {90, 30, 200}},	     {step_sampler_create, {25, 20, 60}},
	{step_sampler_destroy, {15, 5, 40}}, {step_overflow, {10, 5, 40}},
	{step_lbr_attach, {25, 10, 60}},     {step_lbr_guest, {60, 10, 120}},
	{step_lbr_read, {30, 10, 10}},	     {step_lbr_memory, {10, 5, 1}},
	{step_guest, {160, 40, 200}},	     {step_move, {25, 5, 15}},
};
#define NR_STEPS (sizeof(steps) / sizeof(steps[0]))

static void one_step(struct history *h)
{
	int kind = h_trace_pause ? TRACED : h->storm ? STORM : PLAIN;
	unsigned int total = 0, at;
	size_t i;

	for (i = 0; i < NR_STEPS; i++)
		total += steps[i].weight[kind];
	at = rnd(h, total);
	for (i = 0; i < NR_STEPS - 1 && at >= steps[i].weight[kind]; i++)
		at -= steps[i].weight[kind];
	steps[i].step(h);
	H_COUNT(steps);
}

static void begin(struct history *h, uint64_t seed)
{
	h->seed = h->rng = seed;
	h->storm = chance(h, 12) && !h_trace;
	h->max_pcpus = 1 + (int)rnd(h, H_PCPUS);
	h->keys = chance(h, 50) ? 4 + (int)rnd(h, 9) : 12 + (int)rnd(h, 30);
	if (h->storm)
		h->keys = m_nr_keys;
	h->gp = 1 + (int)rnd(h, 4);
	h->fixed = (int)rnd(h, 4);
	h->width = chance(h, 50) ? 8 + (int)rnd(h, 9) : 48;
	h->max_consumers = h_trace ? 16 : H_CONSUMERS;
	h->batch = h->storm ? 60 : 6;
	h->mixed = chance(h, 15);
	h->alarms = chance(h, 60) ? FAKE_EXACT : (int)rnd(h, FAKE_EARLY + 1);
	h->no_lbr = chance(h, 10);
	vpmu_emupmu_init(&h->reference, &(struct vpmu_emupmu_opts){.no_lbr = h->no_lbr});
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
	h->steps = 100 + (int)rnd(h, 500);
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
	struct vpmu_lbr_usage u;

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
	for (int v = 0; v < H_VCPUS; v++) {
		if (h->vcpu[v].alive)
			guest_fini(h, v);
	}
	for (int a = 0; a < H_ACCOUNTS; a++) {
		if (!h->acc[a].alive)
			continue;
		acc_samplers_destroy(h, a);
		if (chance(h, 50))
			lbr_detach_all(h, a);
	}
	for (int p = 0; p < H_PCPUS; p++) {
		if (h->pcpu[p].alive)
			do_switch(h, p, M_NONE);
	}
	for (int v = 0; v < H_VCPUS; v++) {
		if (h->vcpu[v].alive)
			vpmu_context_fini(&h->vcpu[v].ctx);
	}
	vpmu_lbr_usage(h->host, &u);
	H_CHECK(h, !u.tasks, "I6: %zu buffers are left", u.tasks);
	if (!h_trace && u.bytes && chance(h, 20)) {
		urcu_memb_barrier();
		urcu_memb_barrier();
		vpmu_lbr_usage(h->host, &u);
		H_CHECK(h, !u.bytes, "I6: %zu bytes are left", u.bytes);
		H_COUNT(freed);
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
	if (max_steps && (max_steps < h->steps || h_trace))
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
