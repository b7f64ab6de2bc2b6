// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * An owner that never polls, and then polls again (vpmu_host_set_deadline): what control calls
 * answer in that time, that no other pCPU is harmed, and that no count is lost. Besides: an owner
 * that answers by going offline.
 *
 * pCPU 0 has an owner that polls all the time, pCPU 1 one that obeys the test. Once a
 * pCPU is stalled the deadline is a day, so a call that waits for it once more hangs. Plain main
 * with TAP-like output, because Criterion does not run under TSan.
 */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "tests/model/fake.h"
#include "vpmu/core/internal.h"
#include "vpmu/emupmu.h"

#define SHORT_NS 20000000ULL
#define CAPTURE	 (VPMU_LBR_USR | VPMU_LBR_TYPES)
#define DAY_NS	 86400000000000ULL

enum order { IDLE, POLL, RUN, GO_OFFLINE, GO_ONLINE, SWITCH_AWAY, SWITCH_BACK, STOP };

struct cpu {
	struct vpmu_emupmu pmu;
	struct vpmu_pcpu *p;
	struct vpmu_account *vm, *vcpu;
	struct vpmu_context ctx;
	enum order order;     /* atomic; what to do next */
	bool polls;	      /* atomic: poll all the time */
	unsigned int answers; /* poll at so many kicks; of the thread that makes control calls */
	unsigned long kicks;  /* atomic */
	unsigned long runs;   /* of 10 events each */
	pthread_t thread;
};

static struct vpmu_host *host;
static struct vpmu_account *tenant;
static struct cpu cpu[2];
static vpmu_key_t insns, branches;
static unsigned int nr_tests, nr_failed;

#define CHECK(what, ok)                                                                            \
	do {                                                                                       \
		bool ok_ = (ok);                                                                   \
                                                                                                   \
		nr_failed += !ok_;                                                                 \
		printf("%sok %u - %s\n", ok_ ? "" : "not ", ++nr_tests, what);                     \
	} while (0)

/* ---- owners ---- */

/* On the thread that makes the control call. */
static void kicked(void *arg)
{
	struct cpu *c = arg;

	__atomic_add_fetch(&c->kicks, 1, __ATOMIC_RELAXED);
	if (c->answers) {
		c->answers--;
		store_release(&c->order, POLL);
	}
}

static void run(struct cpu *c)
{
	const struct fake_branch b = {
		.mode = VPMU_EMU_USR, .type = VPMU_LBR_JCC, .e = {.from = 0x100, .to = 0x200}};

	for (int ev = 0; ev < VPMU_EMU_EVENTS; ev++)
		vpmu_emu_add(&c->pmu.own_tally, VPMU_EMU_USR, ev, 10);
	c->pmu.own_clock_ns += 10;
	c->runs++;
	fake_record(&c->pmu.own_tally.lbr, &b);
}

static void obey(struct cpu *c, enum order order)
{
	switch (order) {
	case POLL:
		vpmu_pcpu_poll(c->p);
		break;
	case RUN:
		run(c);
		break;
	case SWITCH_AWAY:
		vpmu_pcpu_switch(c->p, NULL);
		break;
	case SWITCH_BACK:
		vpmu_pcpu_switch(c->p, &c->ctx);
		break;
	case GO_OFFLINE:
		vpmu_pcpu_offline(c->p);
		break;
	case GO_ONLINE:
		vpmu_pcpu_online(c->p);
		break;
	default:
		break;
	}
}

static void *owner(void *arg)
{
	struct cpu *c = arg;
	enum order order;

	urcu_memb_register_thread();
	vpmu_pcpu_online(c->p);
	vpmu_pcpu_switch(c->p, &c->ctx);
	while ((order = load_acquire(&c->order)) != STOP) {
		obey(c, order);
		if (order != IDLE)
			store_release(&c->order, IDLE);
		else if (load_acquire(&c->polls))
			vpmu_pcpu_poll(c->p);
		sched_yield();
	}
	vpmu_pcpu_switch(c->p, NULL);
	vpmu_pcpu_offline(c->p);
	urcu_memb_unregister_thread();
	return NULL;
}

/* Have pCPU @i's owner do it, and wait until that is done. */
static void tell(int i, enum order order)
{
	store_release(&cpu[i].order, order);
	while (load_acquire(&cpu[i].order) != IDLE)
		sched_yield();
}

static void stops_polling(void)
{
	store_release(&cpu[1].polls, false);
	vpmu_host_set_deadline(host, SHORT_NS);
}

/* A call has found pCPU 1 stalled. On a slow machine it can have found pCPU 0 stalled, too: that
 * one comes back by itself. From here on, a thread that waits for pCPU 1 hangs. */
static void only_one_is_stalled(void)
{
	vpmu_host_set_deadline(host, DAY_NS);
	while (load_relaxed(&cpu[0].p->stalled))
		sched_yield();
}

/* It polls again, until the host has noticed. */
static void comes_back(void)
{
	vpmu_host_set_deadline(host, 0);
	store_release(&cpu[1].polls, true);
	while (vpmu_host_stalled(host, NULL))
		sched_yield();
}

static uint64_t count(const struct vpmu_consumer *c)
{
	struct vpmu_value v;

	vpmu_consumer_read(c, &v);
	return v.count;
}

static int nothing(const struct vpmu_conservation *c, void *arg)
{
	++*(unsigned int *)arg;
	return c->hardware == c->charged ? 0 : -EILSEQ;
}

static bool conserved(void)
{
	unsigned int rows = 0;

	return !vpmu_host_conservation(host, nothing, &rows) && rows;
}

static void add(struct vpmu_consumer *c, struct vpmu_account *a, vpmu_key_t key)
{
	memset(c, 0, sizeof(*c));
	CHECK("a consumer is added", !vpmu_consumer_add(c, a, key, NULL));
}

/* ---- counting ---- */

static void counting(void)
{
	struct vpmu_consumer all, here, gone, c;
	struct vpmu_value last;
	struct vpmu_sharing sh;
	unsigned long kicks, runs;
	unsigned int id = 99, rows = 0;

	add(&all, tenant, insns);
	add(&here, cpu[1].vm, insns);
	add(&gone, cpu[1].vm, branches);
	tell(1, RUN);
	vpmu_host_sync(host);
	CHECK("counts are current", count(&here) == 10 && count(&all) == 10);
	runs = cpu[1].runs;

	stops_polling();
	CHECK("no pCPU is stalled yet", !vpmu_host_stalled(host, NULL));
	tell(1, RUN);
	kicks = __atomic_load_n(&cpu[1].kicks, __ATOMIC_RELAXED);
	memset(&c, 0, sizeof(c));
	CHECK("an attach is refused", vpmu_consumer_add(&c, tenant, branches, NULL) == -ETIMEDOUT);
	only_one_is_stalled();
	CHECK("it kicked the pCPU", __atomic_load_n(&cpu[1].kicks, __ATOMIC_RELAXED) > kicks);
	CHECK("the pCPU that is stalled has a name", vpmu_host_stalled(host, &id) == 1 && id == 1);
	vpmu_host_sharing(host, &sh);
	CHECK("what was refused left nothing", sh.consumers == 3 && sh.keys == 2 && !count(&c));

	tell(0, RUN);
	CHECK("a sync says so", vpmu_host_sync(host) == -ETIMEDOUT);
	CHECK("other pCPUs are current", count(&all) == 20);
	CHECK("its own counts are those of its last answer", count(&here) == 10);
	CHECK("enabling is refused", (vpmu_consumer_disable(&here, NULL),
				      vpmu_consumer_enable(&here, NULL)) == -ETIMEDOUT);
	CHECK("conservation cannot be checked",
	      vpmu_host_conservation(host, nothing, &rows) == -ETIMEDOUT && !rows);
	vpmu_consumer_del(&gone, NULL, &last);
	CHECK("a detach ends with the last values", last.count == 10 && !count(&gone));
	tell(1, RUN);
	tell(1, SWITCH_AWAY);
	tell(1, SWITCH_BACK);
	CHECK("it switches and is still stalled", vpmu_host_stalled(host, NULL) == 1);
	CHECK("what ended stays", count(&here) == 10);
	CHECK("what goes on counts on", count(&all) == 20 + (cpu[1].runs - runs) * 10);

	tell(1, RUN);
	comes_back();
	vpmu_host_sync(host);
	CHECK("no count is lost", count(&all) == 20 + (cpu[1].runs - runs) * 10);
	CHECK("every count is charged", conserved());
	CHECK("what was refused works", !vpmu_consumer_add(&c, tenant, branches, NULL));
	CHECK("and so does enabling", !vpmu_consumer_enable(&here, NULL));
	tell(1, RUN);
	vpmu_host_sync(host);
	CHECK("from there on", count(&c) == 10 && count(&here) == 20);
	vpmu_consumer_del(&c, NULL, NULL);
	vpmu_consumer_del(&here, NULL, NULL);
	vpmu_consumer_del(&all, NULL, NULL);
}

static void note(struct vpmu_pcpu *p, void *arg)
{
	__atomic_add_fetch((unsigned int *)arg, 1 + 100 * p->id, __ATOMIC_RELAXED);
}

/* A call has returned before its request is done. */
static void too_late(void)
{
	unsigned int done = 0;
	int ret;

	stops_polling();
	vpmu_host_sync(host);
	only_one_is_stalled();
	pthread_mutex_lock(&host->ctl_lock);
	ret = host_sync_locked(host, note, &done);
	pthread_mutex_unlock(&host->ctl_lock);
	CHECK("only the other pCPU does it", ret == -ETIMEDOUT && done == 1);
	tell(1, POLL);
	CHECK("the answer comes too late for it", !vpmu_host_stalled(host, NULL) && done == 1);
	comes_back();
}

/* ---- samplers ---- */

struct samples {
	unsigned long n;
	bool ended; /* atomic */
	bool after; /* one came after the end */
};

static void sample(void *arg, const struct vpmu_sample *v)
{
	struct samples *s = arg;

	s->n += v->periods;
	s->after |= load_acquire(&s->ended);
}

static void sampling(void)
{
	struct samples first = {0}, second = {0};
	struct vpmu_sampler_opts o = {
		.account = tenant, .key = insns, .period = 5, .sample = sample, .arg = &first};
	struct vpmu_sampler *s = NULL, *t = NULL;
	struct vpmu_consumer c;

	add(&c, tenant, insns);
	CHECK("a sampler", !vpmu_sampler_create(host, &o, &s));
	tell(1, RUN);
	vpmu_host_sync(host);
	CHECK("it takes samples", first.n == 2);
	stops_polling();
	vpmu_host_sync(host);
	only_one_is_stalled();
	vpmu_sampler_destroy(s);
	store_release(&first.ended, true);
	o.arg = &second;
	CHECK("a new one is refused", vpmu_sampler_create(host, &o, &t) == -ETIMEDOUT);
	tell(1, RUN);
	tell(1, SWITCH_AWAY); /* it charges, and still has the sampler in its mask */
	tell(1, SWITCH_BACK);
	CHECK("no sample after the end", !first.after && first.n == 2);
	comes_back();
	CHECK("a new one", !vpmu_sampler_create(host, &o, &t));
	tell(1, RUN);
	vpmu_host_sync(host);
	CHECK("has its own samples", second.n == 2 && first.n == 2 && !first.after);
	CHECK("nothing is kept", !host->samplers_left);
	vpmu_sampler_destroy(t);
	CHECK("all places are free again",
	      !memcmp(host->sampler, (void *[VPMU_SAMPLERS_MAX]){0}, sizeof(host->sampler)));
	CHECK("no count is lost", count(&c) == 30);
	vpmu_consumer_del(&c, NULL, NULL);
}

/* A sampler that is refused half-way, when the pCPU is not known to be stalled. */
static void sampling_is_refused(void)
{
	struct samples none = {0};
	struct vpmu_sampler_opts o = {
		.account = tenant, .key = insns, .period = 5, .sample = sample, .arg = &none};
	struct vpmu_sampler *s = NULL;

	/* It answers when the sampler's consumer is added, and then no more. */
	cpu[1].answers = 1;
	stops_polling();
	CHECK("a sampler is refused", vpmu_sampler_create(host, &o, &s) == -ETIMEDOUT && !s);
	cpu[1].answers = 0;
	none.ended = true;
	tell(1, RUN);
	tell(1, SWITCH_AWAY);
	tell(1, SWITCH_BACK);
	comes_back();
	tell(1, RUN);
	vpmu_host_sync(host);
	CHECK("it takes no sample", !none.n);
}

/* ---- branch records ---- */

static size_t records(void)
{
	struct vpmu_lbr_usage u;

	vpmu_lbr_usage(host, &u);
	return u.tasks;
}

static void branch_records(void)
{
	struct vpmu_lbr_regs r;
	enum vpmu_lbr_user user;
	size_t kept;

	CHECK("a capture", !vpmu_lbr_attach(cpu[1].vm, CAPTURE) && records() == 1);
	tell(1, RUN);
	stops_polling();
	vpmu_host_sync(host);
	only_one_is_stalled();
	vpmu_lbr_detach(cpu[1].vm);
	CHECK("its records are gone for readers", vpmu_lbr_read(cpu[1].vcpu, &r, &user) == -ENOENT);
	CHECK("but not for the pCPU", records() == 1);
	CHECK("a new one that is about it is refused",
	      vpmu_lbr_attach(tenant, CAPTURE) == -ETIMEDOUT &&
		      vpmu_lbr_read(cpu[0].vcpu, &r, &user) == -ENOENT);
	kept = records();
	CHECK("one elsewhere begins",
	      !vpmu_lbr_attach(cpu[0].vm, CAPTURE) && records() == kept + 1);
	vpmu_lbr_detach(cpu[0].vm);
	CHECK("and ends", records() == kept);
	tell(1, RUN);
	tell(1, SWITCH_AWAY);
	tell(1, SWITCH_BACK);
	comes_back();
	vpmu_host_sync(host);
	urcu_memb_barrier();
	CHECK("nothing is kept", !host->lbr_left && !records());
	CHECK("a capture of both", !vpmu_lbr_attach(tenant, CAPTURE) && records() == 2);
	tell(1, RUN);
	vpmu_host_sync(host);
	CHECK("has only its own records", !vpmu_lbr_read(cpu[1].vcpu, &r, &user) && r.total == 1);
	vpmu_lbr_detach(tenant);
}

/* ---- an answer by going offline ---- */

static void *check_conservation(void *arg)
{
	urcu_memb_register_thread();
	vpmu_host_conservation(host, nothing, arg);
	urcu_memb_unregister_thread();
	return NULL;
}

static void offline_answers(void)
{
	unsigned int rows = 0, before = 0;
	struct vpmu_consumer c;
	pthread_t t;

	add(&c, tenant, insns);
	tell(1, RUN);
	vpmu_host_conservation(host, nothing, &before);
	store_release(&cpu[1].polls, false);
	pthread_create(&t, NULL, check_conservation, &rows);
	/* Somebody waits for pCPU 1, and its owner leaves. */
	for (bool asked = false; !asked; sched_yield()) {
		pthread_mutex_lock(&cpu[1].p->lock);
		asked = cpu[1].p->sync_req != cpu[1].p->sync_ack;
		pthread_mutex_unlock(&cpu[1].p->lock);
	}
	tell(1, GO_OFFLINE);
	pthread_join(t, NULL);
	CHECK("an owner that leaves does what it was asked", before >= 2 && rows == before);
	tell(1, GO_ONLINE);
	store_release(&cpu[1].polls, true);
	vpmu_host_sync(host);
	CHECK("and has charged", count(&c) == 10);
	vpmu_consumer_del(&c, NULL, NULL);
}

static bool init(void)
{
	insns = vpmu_key_generic(VPMU_EV_INSTRUCTIONS, VPMU_KEY_USR);
	branches = vpmu_key_generic(VPMU_EV_BRANCHES, VPMU_KEY_USR);
	host = vpmu_host_create();
	if (!host || vpmu_account_create(vpmu_host_root(host), NULL, &tenant))
		return false;
	for (unsigned int i = 0; i < 2; i++) {
		struct cpu *c = &cpu[i];

		c->polls = true;
		if (vpmu_emupmu_init(&c->pmu, NULL) ||
		    vpmu_pcpu_create(host, &c->pmu.pmu, i, &c->p) ||
		    vpmu_account_create(tenant, NULL, &c->vm) ||
		    vpmu_account_create(c->vm, NULL, &c->vcpu) ||
		    vpmu_context_init(&c->ctx, c->vcpu, c->vm) || vpmu_context_place(&c->ctx, c->p))
			return false;
		c->pmu.kick = kicked;
		c->pmu.kick_arg = c;
		pthread_create(&c->thread, NULL, owner, c);
	}
	/* Both run their vCPU. */
	tell(0, POLL);
	tell(1, POLL);
	return true;
}

int main(void)
{
	urcu_memb_register_thread();
	if (!init()) {
		printf("not ok - setup\n");
		return 1;
	}
	counting();
	too_late();
	sampling();
	sampling_is_refused();
	branch_records();
	offline_answers();
	for (int i = 0; i < 2; i++) {
		store_release(&cpu[i].order, STOP);
		pthread_join(cpu[i].thread, NULL);
		vpmu_context_fini(&cpu[i].ctx);
	}
	vpmu_host_destroy(host);
	printf("1..%u\n", nr_tests);
	urcu_memb_unregister_thread();
	return nr_failed != 0;
}
