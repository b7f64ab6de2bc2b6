/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A vCPU whose counters are on pages of the fake vpmud, and the events of the fake kernel. */
#ifndef TESTS_UNIT_KVM_PAGES_BED_H
#define TESTS_UNIT_KVM_PAGES_BED_H

#include "conserved.h"
#include "fake_perf.h"
#include "fake_vpmud.h"
#include "tests/random.h"
#include "vpmu/account.h"
#include "vpmu/consumer.h"
#include "vpmu/context.h"
#include "vpmu/core/rcu.h"
#include "vpmu/host.h"
#include "vpmu/kvm/pages.h"
#include "vpmu/kvm/share_priv.h"
#include "vpmu/pcpu.h"

#define MS	1000000ULL
#define KEY(ev) ((uint64_t)VPMU_SPACE_GENERIC << VPMU_KEY_SPACE_SHIFT | (ev) | UK | VPMU_KEY_GUEST)
#define KEYS	3

static const vpmu_key_t keys[KEYS] = {KEY(VPMU_EV_INSTRUCTIONS), KEY(VPMU_EV_CYCLES),
				      KEY(VPMU_EV_BRANCHES)};

static struct {
	struct vpmu_hostpmu_perf perf;
	struct kvm_pages pages;
	struct share_client *client;
	struct vpmu_host *host;
	struct vpmu_pcpu *pcpu;
	struct vpmu_account *vm;
	struct vpmu_context ctx;
	struct vpmu_consumer c[KEYS];
	bool on[KEYS];
	uint64_t from[KEYS], last[KEYS]; /* truth at the begin, count when last read */
	unsigned int pages_at[KEYS];	 /* of vpmud's, at the begin */
	uint64_t truth, charged_ns;	 /* events so far; fake.cpu_ns as of the last charge */
	uint64_t ticks;
} b;

/* ---- given events: descriptors of the fake vpmud's ---------------------- */

static struct vpmu_perf_sys sys;
static int given = -1;
static uint64_t given_period;
static bool given_on;
static int given_tid, given_sig;

static bool is_given(int fd)
{
	return fd >= 0 && fd == given;
}

static int sys_notify(int fd, int tid, int sig)
{
	/* No event of the fake kernel has been opened: the descriptor is vpmud's. */
	if (fake.fail && given < 0)
		given = fd;
	if (!is_given(fd))
		return fake_notify(fd, tid, sig);
	given_tid = tid;
	given_sig = sig;
	return 0;
}

static int sys_period(int fd, uint64_t events)
{
	if (!is_given(fd))
		return fake_period(fd, events);
	given_period = events;
	return 0;
}

static int sys_enable(int fd, bool on)
{
	if (!is_given(fd))
		return fake_enable(fd, on);
	given_on = on;
	return 0;
}

static void sys_close(int fd)
{
	if (!is_given(fd)) {
		fake_close(fd);
		return;
	}
	close(fd);
	given = -1;
}

/* ---- the bed ------------------------------------------------------------ */

static void no_kick(void *arg)
{
}

static void begin(bool perf)
{
	const struct vpmu_hostpmu_perf_opts o = {
		.cpu = VPMU_PERF_THREAD, .leave_counters = 1, .kick = no_kick, .alarm_signal = 40};

	fake_start(4, false);
	sys = fake_sys;
	sys.notify = sys_notify;
	sys.period = sys_period;
	sys.enable = sys_enable;
	sys.close = sys_close;
	vpmu_perf_sys = &sys;
	vpmu_perf_capacity();
	fake.fail = perf ? 0 : -EACCES;
	urcu_memb_register_thread();
	if (!*vpmud.dir)
		vpmud_start(true);
	cr_assert(!share_open(vpmud.path, &b.client));
	cr_assert(!vpmu_hostpmu_perf_init(&b.perf, &o));
	kvm_pages_init(&b.pages, &b.perf, b.client, 40);
	vpmu_hostpmu_perf_set_thread(&b.perf, gettid_());
	kvm_pages_thread(&b.pages, gettid_());
	b.host = vpmu_host_create();
	cr_assert(!vpmu_pcpu_create(b.host, &b.pages.pmu, 0, &b.pcpu));
	cr_assert(!vpmu_account_create(vpmu_host_root(b.host), NULL, &b.vm));
	cr_assert(!vpmu_context_init(&b.ctx, b.vm, NULL));
	cr_assert(!vpmu_context_place(&b.ctx, b.pcpu));
	vpmu_pcpu_switch(b.pcpu, &b.ctx);
}

/* KVM_RUN, and its return. */
static void run(uint64_t ns)
{
	uint64_t now;

	fake_run(ns);
	now = fake.cpu_ns;
	vpmud_charge(ns / 2 / 1000 * 2, now - b.charged_ns, 0);
	b.charged_ns = now;
	b.truth += ns / 2 / 1000 * 2;
}

static void start(unsigned int i)
{
	int rc;

	/* A vpmud that answers may take as long as a busy machine needs. */
	b.client->wait_ns = vpmud.mode == VPMUD_GOOD || vpmud.mode == VPMUD_REFUSES
				    ? 600 * 1000 * MS
				    : SHARE_WAIT_NS;
	b.pages.access = true; /* as in WRMSR */
	rc = vpmu_consumer_add(&b.c[i], b.vm, keys[i], b.pcpu);
	b.pages.access = false;
	cr_assert(!rc || rc == -EOPNOTSUPP, "%d", rc);
	b.on[i] = true;
	b.from[i] = b.truth;
	b.last[i] = 0;
	b.pages_at[i] = vpmud.pages;
}

/* The value of @i, after what must hold of any. */
static struct vpmu_value value(unsigned int i)
{
	uint64_t truth = b.truth - b.from[i], gap, slack;
	struct vpmu_value v;

	vpmu_pcpu_flush(b.pcpu);
	vpmu_consumer_read(&b.c[i], &v);
	if (!v.supported)
		return v;
	gap = v.enabled_ns - v.running_ns;
	cr_assert_leq(v.running_ns, v.enabled_ns);
	cr_assert_geq(v.count, b.last[i]);
	cr_assert_leq(v.count, truth, "%lu of %lu", v.count, truth);
	/* An event is 1000 ns. The clocks of a page and of the thread differ by the system calls
	 * since the last charge, and a gap that a page's end begins by so much. */
	slack = 2000 + 1000 * (vpmud.pages - b.pages_at[i]);
	cr_assert_leq((truth - v.count) * 1000, gap + slack, "%lu of %lu events, gap of %lu ns",
		      v.count, truth, gap);
	b.last[i] = v.count;
	return v;
}

static void stop(unsigned int i)
{
	value(i);
	vpmu_consumer_del(&b.c[i], b.pcpu, NULL);
	b.on[i] = false;
}

static void tick(void)
{
	vpmu_pcpu_tick(b.pcpu);
	b.ticks++;
}

/* Let vpmud's threads run until @condition holds; @ns: the guest runs so long in each round. */
#define UNTIL(condition, ns)                                                                       \
	do {                                                                                       \
		for (unsigned int i_ = 0; !(condition); i_++) {                                    \
			cr_assert(i_ < 120000, "%u keys on the page", kvm_pages_shared(&b.pages)); \
			usleep(5000);                                                              \
			if (ns)                                                                    \
				run(ns);                                                           \
			tick();                                                                    \
		}                                                                                  \
	} while (0)

/* Until @n keys are on vpmud's page. */
static void until_shared(unsigned int n)
{
	UNTIL(kvm_pages_shared(&b.pages) == n, 10000);
}

static void end(void)
{
	if (!b.host)
		return;
	for (unsigned int i = 0; i < KEYS; i++)
		if (b.on[i])
			stop(i);
	conserved(b.host);
	vpmu_pcpu_switch(b.pcpu, NULL);
	vpmu_context_fini(&b.ctx);
	vpmu_host_destroy(b.host);
	kvm_pages_thread(&b.pages, 0);
	vpmu_hostpmu_perf_fini(&b.perf);
	share_close(b.client);
	vpmud_fini();
	cr_expect_eq(fake.open_fds, 0);
	cr_expect_eq(given, -1);
	urcu_memb_unregister_thread();
	b.host = NULL;
}

TestSuite(kvm_pages, .fini = end);

static bool whole(const struct vpmu_value *v, unsigned int i)
{
	return v->supported && v->count == b.truth - b.from[i] && v->running_ns == v->enabled_ns;
}

#define ASSERT_WHOLE(i)                                                                            \
	do {                                                                                       \
		struct vpmu_value v_ = value(i);                                                   \
		cr_assert(whole(&v_, i), "%lu of %lu", v_.count, b.truth - b.from[i]);             \
	} while (0)

/* vpmud dies, and its page ends or is left behind. */
static inline void vpmud_kill_and(void (*page)(void))
{
	vpmud_kill();
	pthread_mutex_lock(&vpmud.lock);
	page();
	pthread_mutex_unlock(&vpmud.lock);
}

/* All keys get on the page, however late; a count that begins there lacks nothing. */
static void all_shared(void)
{
	/* What could not be counted when it started must be started again. */
	for (unsigned int i = 0; i < KEYS; i++) {
		for (unsigned int n = 0; n < 20000 && !(b.on[i] && b.c[i].supported); n++) {
			if (b.on[i])
				stop(i);
			usleep(n ? 5000 : 0);
			start(i);
		}
	}
	until_shared(KEYS);
	for (unsigned int i = 0; i < KEYS; i++) {
		stop(i);
		start(i);
	}
	cr_assert_eq(kvm_pages_shared(&b.pages), KEYS);
	for (unsigned int n = 0; n < 10; n++) {
		run(MS);
		for (unsigned int i = 0; i < KEYS; i++)
			ASSERT_WHOLE(i);
	}
}

#endif
