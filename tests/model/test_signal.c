// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * I4 (and I2 with it): a consumer can be read in any context, at every point of any operation.
 *
 *   test_signal [--traps N] [--signals N] [--seed N]
 *
 * 1. Every point: random histories (history.h) whose library calls run under the trap flag. After
 *    each single instruction a SIGTRAP handler reads all consumers, those being added or removed
 *    included, and checks that each value lies between the one before the call and the truth, and
 *    that it never goes back.
 * 2. Timer: the same, interrupted by SIGRTMIN at random microseconds instead.
 * 3. Between threads: while a control thread adds, disables, enables and removes consumers one
 *    instruction at a time, the owner of an online pCPU executes and charges at every one of them.
 *    In every other round somebody else counts the same, so that charges go on after a stop.
 *
 * Plain main with TAP-like output. Without a trap flag (trap.h) only 2 runs. Skipped (77) under
 * TSan, which must not be single-stepped.
 */
#include <errno.h>
#include <getopt.h>
#include <linux/futex.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

#include "tests/model/history.h"
#include "tests/model/trap.h"
#include "vpmu/account.h"
#include "vpmu/host.h"
#include "vpmu/lbr.h"
#include "vpmu/pcpu.h"
#include "vpmu/core/rcu.h"

/* The handler's input and output; written by the thread it interrupts or by itself. */
static struct {
	struct history *h;
	volatile bool in_call;
	struct vpmu_value before[H_CONSUMERS], last[H_CONSUMERS];
	struct m_truth truth[H_CONSUMERS];
	bool watch[H_CONSUMERS], gone[H_CONSUMERS];
	/* samplers and branch records */
	struct vpmu_value smp_last[H_SAMPLERS];
	struct m_truth smp_truth[H_SAMPLERS];
	bool smp_watch[H_SAMPLERS], vcpu_watch[H_VCPUS];
	struct vpmu_lbr_regs now; /* the handler's */
	unsigned long traps, reads, lbr_reads, lbr_again;
	uint64_t rip;

	const char *why; /* it failed */
	int con;	 /* or sampler, or vCPU */
	struct vpmu_value value;
} s;

/* vpmu_lbr_read lets the writer run: it is the thread that the handler interrupts, so a yield would
 * only give a time slice to all others, ten times at each instruction of a write. */
int __wrap_sched_yield(void);

int __wrap_sched_yield(void)
{
	return 0;
}

static void blame(int con, const char *why, const struct vpmu_value *v, uint64_t rip)
{
	if (s.why)
		return;
	s.con = con;
	s.why = why;
	s.value = *v;
	s.rip = rip;
}

static bool is_zero(const struct vpmu_value *v)
{
	return !v->count && !v->enabled_ns && !v->running_ns;
}

/* In the handler: reads only, nothing that is not async-signal-safe. */
static void look_at(int i, uint64_t rip)
{
	const struct h_con *c = &s.h->con[i];
	const struct m_truth *t = &s.truth[i];
	struct vpmu_value v;

	vpmu_consumer_read(&c->c, &v);
	s.reads++;
	if (s.h->touched[i] && is_zero(&v)) {
		/* Being made, or removed: nothing yet, or no more; or nothing charged so far. */
		s.gone[i] |= !c->alive || !is_zero(&s.last[i]);
		return;
	}
	if (s.h->touched[i] && (!c->alive || s.gone[i]))
		blame(i, "I5: a consumer being made or removed shows a value", &v, rip);
	else if (v.count < s.last[i].count || v.enabled_ns < s.last[i].enabled_ns)
		blame(i, "I2: went back", &v, rip);
	else if (v.running_ns < s.before[i].running_ns)
		blame(i, "I2: running time went back", &v, rip);
	else if (v.count > t->counted || v.enabled_ns > t->enabled_ns)
		blame(i, "I2: ahead of the truth", &v, rip);
	else if (v.running_ns > v.enabled_ns)
		blame(i, "I2: running longer than enabled", &v, rip);
	else if (v.running_ns &&
		 (!v.supported ||
		  v.quality != (m_keys[c->key].modelled ? VPMU_Q_MODELLED : VPMU_Q_EXACT)))
		blame(i, "I7: counted, but of another quality", &v, rip);
	s.last[i] = v;
}

static void look_at_sampler(int i, uint64_t rip)
{
	const struct m_truth *t = &s.smp_truth[i];
	struct vpmu_value v;

	vpmu_sampler_read(s.h->smp[i].s, &v);
	s.reads++;
	if (v.count < s.smp_last[i].count || v.enabled_ns < s.smp_last[i].enabled_ns)
		blame(i, "I2: a sampler went back", &v, rip);
	else if (v.count > t->counted || v.enabled_ns > t->enabled_ns)
		blame(i, "I2: a sampler is ahead of the truth", &v, rip);
	s.smp_last[i] = v;
}

/* No call executes anything: a capture's records are as they were at some moment before it. */
static bool records_ok(int v, enum vpmu_lbr_user user)
{
	const struct vpmu_lbr_regs *r = &s.now, *model = &s.h->vcpu[v].lbr[VPMU_LBR_HOST].r;
	uint64_t newer = UINT64_MAX;

	if (r->count > r->depth || r->depth > VPMU_LBR_DEPTH_MAX)
		return false;
	for (unsigned int n = 0; n < r->count; n++) {
		const struct vpmu_lbr_entry *e = vpmu_lbr_nth(r, n);

		if (e->from >> 24 != s.h->vcpu[v].tag || e->to >> 24 != s.h->vcpu[v].tag)
			return false;
		if (user == VPMU_LBR_HOST &&
		    (e->from >= newer || (e->to & 0xffffff) != (~e->from & 0xffffff)))
			return false;
		newer = e->from;
	}
	/* A record that was popped since is in no total. */
	if (user != VPMU_LBR_HOST || s.h->lbr_moves || (r->ctl & VPMU_LBR_CALL_STACK))
		return true;
	return r->total < model->total ||
	       (r->total == model->total && r->count == model->count &&
		(!r->count || !memcmp(vpmu_lbr_nth(r, 0), vpmu_lbr_nth(model, 0), 24)));
}

static void look_at_records(int v, uint64_t rip)
{
	enum vpmu_lbr_user user;
	int ret = vpmu_lbr_read(s.h->acc[s.h->vcpu[v].own].a, &s.now, &user);

	s.lbr_reads++;
	if (ret == -EAGAIN)
		s.lbr_again++;
	else if (ret && ret != -ENOENT)
		blame(v, "lbr_read failed", &(struct vpmu_value){0}, rip);
	else if (!ret && !records_ok(v, user))
		blame(v, "I5: branch records of nobody, or half of them",
		      &(struct vpmu_value){.count = s.now.total, .enabled_ns = s.now.count}, rip);
}

static void on_signal(int sig, siginfo_t *info, void *context)
{
	ucontext_t *uc = context;
	uint64_t rip = trap_pc(uc);

	if (!s.in_call)
		return;
	s.traps++;
	for (int i = 0; i < s.h->max_consumers; i++) {
		if (s.watch[i])
			look_at(i, rip);
	}
	for (int i = 0; i < H_SAMPLERS; i++) {
		if (s.smp_watch[i] && i != s.h->smp_touched - 1)
			look_at_sampler(i, rip);
	}
	for (int v = 0; v < H_VCPUS; v++) {
		if (s.vcpu_watch[v])
			look_at_records(v, rip);
	}
	if (s.why)
		trap_stop(uc);
}

static void before_call(struct history *h)
{
	for (int i = 0; i < h->max_consumers; i++) {
		s.watch[i] = h->con[i].alive || h->touched[i];
		s.gone[i] = false;
		if (!s.watch[i])
			continue;
		memset(&s.truth[i], 0, sizeof(s.truth[i]));
		if (h->con[i].alive)
			s.truth[i] = model_truth(h->m, h->con[i].model);
		vpmu_consumer_read(&h->con[i].c, &s.before[i]);
		s.last[i] = s.before[i];
	}
	for (int i = 0; i < H_SAMPLERS; i++) {
		s.smp_watch[i] = h->smp[i].alive;
		if (!s.smp_watch[i])
			continue;
		s.smp_truth[i] = model_truth(h->m, h->smp[i].model);
		vpmu_sampler_read(h->smp[i].s, &s.smp_last[i]);
	}
	for (int v = 0; v < H_VCPUS; v++)
		s.vcpu_watch[v] = h->vcpu[v].alive;
	s.in_call = true;
}

static void after_call(struct history *h)
{
	s.in_call = false;
	if (s.why)
		h_fail(h,
		       "%s: consumer %d read %lu/%lu/%lu, before the call %lu/%lu/%lu, true "
		       "%lu/%lu/%lu, at rip %#lx (addr2line)",
		       s.why, s.con, s.value.count, s.value.enabled_ns, s.value.running_ns,
		       s.before[s.con].count, s.before[s.con].enabled_ns,
		       s.before[s.con].running_ns, s.truth[s.con].counted,
		       s.truth[s.con].enabled_ns, s.truth[s.con].running_ns, s.rip);
	for (int i = 0; i < h->max_consumers; i++) {
		if (s.watch[i] && !h->touched[i])
			look_at(i, 0);
	}
}

static void trace_steps(struct history *h, bool on)
{
	if (on) {
		before_call(h);
		trap_flag_on();
	} else {
		trap_flag_off();
		after_call(h);
	}
}

/* Callbacks are not tested here. */
static void pause_steps(bool on)
{
	(on ? trap_flag_off : trap_flag_on)();
}

static void trace_timer(struct history *h, bool on)
{
	(on ? before_call : after_call)(h);
}

static struct history history;

#define ENOUGH 300000 /* points, for histories to have met everything */

static bool too_little(void)
{
	return !h_stats.fires || !h_stats.samples || !h_stats.captures || !h_stats.pmis;
}

static int run_histories(uint64_t *seed, int steps, unsigned long traps)
{
	unsigned long n = 0;

	memset(&s, 0, sizeof(s));
	memset(&h_stats, 0, sizeof(h_stats));
	s.h = &history;
	while (s.traps < traps || (traps >= ENOUGH && too_little() && s.traps < 5 * traps)) {
		int step;

		*seed += 1;
		step = history_run(&history, *seed, steps, false);
		s.in_call = false;
		if (step) {
			printf("# history --seed %#lx failed at step %d: %s\n", *seed, step - 1,
			       history.why);
			return -1;
		}
		n++;
	}
	printf("# %lu histories, interrupted at %lu points, %lu reads of counts, %lu of branch "
	       "records, %lu of them in the middle of a write\n",
	       n, s.traps, s.reads, s.lbr_reads, s.lbr_again);
	printf("# in them %lu alarms fired, %lu samples, %lu captures, %lu PMIs, %lu vCPUs moved, "
	       "%lu "
	       "VMs killed\n",
	       h_stats.fires, h_stats.samples, h_stats.captures, h_stats.pmis, h_stats.moved,
	       h_stats.killed);
	if (traps < ENOUGH || !too_little())
		return 0;
	printf("# which is too little\n");
	return -1;
}

static void set_handler(int sig, void (*handler)(int, siginfo_t *, void *))
{
	struct sigaction sa = {.sa_sigaction = handler, .sa_flags = SA_SIGINFO | SA_RESTART};

	sigaction(sig, &sa, NULL);
}

static int every_point(uint64_t seed, unsigned long traps)
{
	int ret;

	set_handler(SIGTRAP, on_signal);
	h_trace = trace_steps;
	h_trace_pause = pause_steps;
	ret = run_histories(&seed, 60, traps);
	trap_flag_off();
	h_trace = NULL;
	h_trace_pause = NULL;
	return ret;
}

/* ---- timer ---- */

static timer_t timer;
static uint64_t timer_rng;

static void arm(void)
{
	struct itimerspec t = {.it_value.tv_nsec = 1000 + (long)(random_split(&timer_rng) % 60000)};

	timer_settime(timer, 0, &t, NULL);
}

static void on_timer(int sig, siginfo_t *info, void *context)
{
	on_signal(sig, info, context);
	arm();
}

static int random_points(uint64_t seed, unsigned long signals)
{
	struct sigevent ev = {.sigev_notify = SIGEV_THREAD_ID, .sigev_signo = SIGRTMIN};
	int ret;

	ev._sigev_un._tid = (pid_t)syscall(SYS_gettid);
	timer_rng = seed;
	set_handler(SIGRTMIN, on_timer);
	if (timer_create(CLOCK_MONOTONIC, &ev, &timer))
		return -errno;
	h_trace = trace_timer;
	arm();
	ret = run_histories(&seed, 3000, signals);
	timer_delete(timer);
	h_trace = NULL;
	return ret;
}

/* ---- a control thread, one instruction at a time, against an owner that charges ---- */

static struct {
	struct vpmu_host *host;
	struct vpmu_emupmu pmu;
	struct vpmu_pcpu *p;
	struct vpmu_context ctx;
	struct vpmu_account *tenant, *vm, *vcpu;
	/* Atomic; asked and news are waited for: a thread that yields its CPU instead is late by
	 * the time slices of all others. */
	uint32_t asked, done; /* charges */
	uint32_t news;	      /* changes with done and blocked */
	int blocked;	      /* the owner waits for a lock */
	int stop;
	uint64_t executed; /* user instructions */

	struct vpmu_consumer c, peer;
	uint64_t last, limit;
	const char *why; /* it failed */
	uint64_t value, rip;
	unsigned long charges, blocks, points;
} r;

static __thread bool is_owner;
int __real_pthread_mutex_lock(pthread_mutex_t *m);
int __wrap_pthread_mutex_lock(pthread_mutex_t *m);

/* Wait until *@word is not @old any more, for a while. */
static void wait_while(uint32_t *word, uint32_t old)
{
	const struct timespec while_ns = {.tv_nsec = 1000000};

	syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, old, &while_ns, NULL, 0);
}

static void wake(uint32_t *word)
{
	syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

static void tell(void)
{
	__atomic_add_fetch(&r.news, 1, __ATOMIC_SEQ_CST);
	wake(&r.news);
}

int __wrap_pthread_mutex_lock(pthread_mutex_t *m)
{
	int ret;

	if (!is_owner)
		return __real_pthread_mutex_lock(m);
	if (!pthread_mutex_trylock(m))
		return 0;
	__atomic_store_n(&r.blocked, 1, __ATOMIC_SEQ_CST);
	tell();
	ret = __real_pthread_mutex_lock(m);
	__atomic_store_n(&r.blocked, 0, __ATOMIC_SEQ_CST);
	return ret;
}

static void *owner(void *arg)
{
	uint32_t done = 0;

	is_owner = true;
	urcu_memb_register_thread();
	vpmu_pcpu_online(r.p);
	vpmu_pcpu_switch(r.p, &r.ctx);
	while (!__atomic_load_n(&r.stop, __ATOMIC_ACQUIRE)) {
		if (__atomic_load_n(&r.asked, __ATOMIC_ACQUIRE) == done) {
			vpmu_pcpu_poll(r.p);
			wait_while(&r.asked, done);
			continue;
		}
		vpmu_pcpu_poll(r.p);
		/* Published before it happens: no reader may see more. */
		__atomic_add_fetch(&r.executed, 7, __ATOMIC_SEQ_CST);
		vpmu_emu_add(&r.pmu.own_tally, VPMU_EMU_USR, VPMU_EMU_INSTRUCTIONS, 7);
		r.pmu.own_clock_ns += 3;
		vpmu_pcpu_flush(r.p);
		__atomic_store_n(&r.done, ++done, __ATOMIC_RELEASE);
		tell();
	}
	vpmu_pcpu_switch(r.p, NULL);
	vpmu_pcpu_offline(r.p);
	urcu_memb_unregister_thread();
	return NULL;
}

/* Have the owner charge once more. It may be waiting for a lock that the interrupted code holds:
 * then go on without. */
static void charge_now(void)
{
	uint32_t want = __atomic_load_n(&r.asked, __ATOMIC_RELAXED), news;

	/* Unless it still does the last one. */
	if (__atomic_load_n(&r.done, __ATOMIC_ACQUIRE) == want) {
		__atomic_store_n(&r.asked, ++want, __ATOMIC_RELEASE);
		wake(&r.asked);
	}
	for (;;) {
		news = __atomic_load_n(&r.news, __ATOMIC_SEQ_CST);
		if (__atomic_load_n(&r.done, __ATOMIC_ACQUIRE) == want) {
			r.charges++;
			return;
		}
		if (__atomic_load_n(&r.blocked, __ATOMIC_SEQ_CST))
			break;
		wait_while(&r.news, news);
	}
	r.blocks++;
}

static void on_race_step(int sig, siginfo_t *info, void *context)
{
	ucontext_t *uc = context;
	struct vpmu_value v;
	int saved = errno; /* liburcu ends the process at a futex's error that it does not expect */

	r.points++;
	/* Before and after each charge. */
	for (int i = 0; i < 2; i++) {
		vpmu_consumer_read(&r.c, &v);
		if (!r.why && v.count < r.last)
			r.why = "I2: went back";
		else if (!r.why &&
			 v.count > r.limit + __atomic_load_n(&r.executed, __ATOMIC_SEQ_CST))
			r.why = "I2: counts from before";
		if (r.why) {
			r.value = v.count;
			r.rip = trap_pc(uc);
			trap_stop(uc);
			break;
		}
		r.last = v.count;
		if (!i)
			charge_now();
	}
	errno = saved;
}

static vpmu_key_t race_key; /* user instructions */

enum race_op { RACE_ADD, RACE_DISABLE, RACE_ENABLE, RACE_DEL };

/* One operation on a consumer of @a, at every instruction of which the owner charges. */
static int race(enum race_op op, struct vpmu_account *a)
{
	static const char *const name[] = {"add", "disable", "enable", "del"};
	uint64_t before = __atomic_load_n(&r.executed, __ATOMIC_SEQ_CST);
	struct vpmu_value v, last = {0};
	int ret = 0;

	if (op == RACE_DEL) {
		/* A removed consumer reads 0: no handler, the returned value must not be less. */
		vpmu_consumer_del(&r.c, NULL, &last);
		if (last.count < r.last)
			printf("# del returned %lu, %lu had been read\n", last.count, r.last);
		return last.count < r.last ? -1 : 0;
	}
	if (op == RACE_ADD) {
		memset(&r.c, 0, sizeof(r.c));
		r.last = 0;
	}
	if (op != RACE_DISABLE)
		r.limit = r.last - before; /* modulo 2^64: nothing from before may count */
	trap_flag_on();
	if (op == RACE_ADD)
		ret = vpmu_consumer_add(&r.c, a, race_key, NULL);
	else if (op == RACE_ENABLE)
		ret = vpmu_consumer_enable(&r.c, NULL);
	else
		vpmu_consumer_disable(&r.c, NULL);
	trap_flag_off();
	if (ret || r.why) {
		printf("# %s: %d, %s: %lu after %lu, at rip %#lx\n", name[op], ret,
		       r.why ? r.why : "", r.value, r.last, r.rip);
		return -1;
	}
	charge_now();
	vpmu_consumer_read(&r.c, &v);
	if (v.count < r.last || (op == RACE_DISABLE && v.count != r.last)) {
		printf("# after %s: %lu after %lu\n", name[op], v.count, r.last);
		return -1;
	}
	r.last = v.count;
	return 0;
}

static int race_all(unsigned int rounds)
{
	pthread_t t;
	int ret = -1;

	memset(&r, 0, sizeof(r));
	race_key = vpmu_key_generic(VPMU_EV_INSTRUCTIONS, VPMU_KEY_USR);
	r.host = vpmu_host_create();
	vpmu_emupmu_init(&r.pmu, NULL);
	if (vpmu_pcpu_create(r.host, &r.pmu.pmu, 0, &r.p) ||
	    vpmu_account_create(vpmu_host_root(r.host), NULL, &r.tenant) ||
	    vpmu_account_create(r.tenant, NULL, &r.vm) ||
	    vpmu_account_create(r.vm, NULL, &r.vcpu) || vpmu_context_init(&r.ctx, r.vcpu, r.vm) ||
	    vpmu_context_place(&r.ctx, r.p))
		return -1;
	set_handler(SIGTRAP, on_race_step);
	pthread_create(&t, NULL, owner, NULL);
	for (unsigned int i = 0; i < rounds; i++) {
		struct vpmu_account *a = (struct vpmu_account *[]){r.tenant, r.vm, r.vcpu}[i % 3];
		bool peer = i & 1;

		if (peer && vpmu_consumer_add(&r.peer, a, race_key, NULL))
			goto out;
		if (race(RACE_ADD, a) || race(RACE_DISABLE, a) || race(RACE_ENABLE, a) ||
		    race(RACE_DISABLE, a) || race(RACE_ENABLE, a) || race(RACE_DEL, a))
			goto out;
		if (peer)
			vpmu_consumer_del(&r.peer, NULL, NULL);
	}
	ret = 0;
out:
	__atomic_store_n(&r.stop, 1, __ATOMIC_RELEASE);
	pthread_join(t, NULL);
	vpmu_context_fini(&r.ctx);
	if (!ret)
		vpmu_host_destroy(r.host);
	printf("# %lu points, %lu charges there, %lu where the owner had to wait\n", r.points,
	       r.charges, r.blocks);
	return ret;
}

static int report(int n, int ret, const char *what)
{
	printf("%sok %d - %s\n", ret ? "not " : "", n, what);
	fflush(stdout);
	return ret != 0;
}

int main(int argc, char **argv)
{
	static const struct option options[] = {{"traps", required_argument, NULL, 't'},
						{"signals", required_argument, NULL, 'r'},
						{"rounds", required_argument, NULL, 'c'},
						{"seed", required_argument, NULL, 's'},
						{NULL, 0, NULL, 0}};
	unsigned long arg[128] = {['t'] = ENOUGH, ['r'] = 2000, ['c'] = 9, ['s'] = 1};
	int opt, failed = 0;

#ifdef __SANITIZE_THREAD__
	printf("1..0 # SKIP TSan delays signals\n");
	return 77;
#endif
	while ((opt = getopt_long(argc, argv, "t:r:c:s:", options, NULL)) != -1) {
		if (opt == '?')
			return 2;
		arg[opt] = strtoul(optarg, NULL, 0);
	}
	m_keys_init();
	urcu_memb_register_thread();
	/* Its thread must not be made, with the trap flag, inside a traced call. */
	urcu_memb_get_default_call_rcu_data();
	printf("1..3\n");
	if (TRAP_STEPS)
		failed |= report(1, every_point(arg['s'], arg['t']),
				 "I4 reads after every single instruction");
	else
		printf("# SKIP reads after every instruction: no trap flag on this CPU\n");
	failed |= report(2, random_points(arg['s'], arg['r']), "I4 reads at random times");
	if (TRAP_STEPS)
		failed |= report(3, race_all((unsigned int)arg['c']),
				 "I2 control calls at every instruction of which an owner charges");
	else
		printf("# SKIP control calls one by one instruction: no trap flag on this CPU\n");
	urcu_memb_unregister_thread();
	return failed;
}
