/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Shared by the tests in which runners, controllers and readers work at the same time. A test
 * defines TENANTS, VMS, VCPUS, its struct vcpu and struct runner_own first, then includes this,
 * then defines slice().
 */
#ifndef TESTS_MODEL_CHURN_H
#define TESTS_MODEL_CHURN_H

#include <getopt.h>
#include <pthread.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tests/model/churn_sampling.h"
#include "tests/model/fake.h"

#define RUNNERS 2
#define READERS 2

#define load(p)	    __atomic_load_n((p), __ATOMIC_ACQUIRE)
#define store(p, v) __atomic_store_n((p), (v), __ATOMIC_RELEASE)

struct vm {
	struct vpmu_account *account;
	unsigned int tenant;
	struct vcpu vcpu[VCPUS];
	bool dying;	   /* atomic */
	unsigned int held; /* atomic: vCPUs that runners have */
};

struct runner {
	struct vpmu_emupmu pmu;
	struct vpmu_pcpu *p;
	uint64_t rng;
	pthread_mutex_t lock;
	struct vcpu *inbox; /* under lock */
	struct vcpu *mine[VMS * VCPUS];
	int n;
	unsigned long slices, moved; /* moved: atomic */
	struct runner_own own;
};

static uint64_t base_seed = 1;
static struct vpmu_host *host;
static struct vpmu_account *tenant[TENANTS];
static struct runner runner[RUNNERS];
static int stop_controllers, stop_runners, stop_readers, failed; /* atomic */

#define fail churn_fail
void churn_fail(const char *fmt, ...)
{
	va_list ap;

	if (__atomic_exchange_n(&failed, 1, __ATOMIC_RELAXED))
		return;
	va_start(ap, fmt);
	printf("# ");
	vprintf(fmt, ap);
	putchar('\n');
	va_end(ap);
}

static unsigned int rnd(uint64_t *rng, unsigned int below)
{
	return (unsigned int)(random_split(rng) % below);
}

/* ---- runners ---- */

/* @others: the PMU of all but the first, or NULL. */
static void runners_init(const struct vpmu_emupmu_opts *others)
{
	host = vpmu_host_create();
	for (int i = 0; i < RUNNERS; i++) {
		runner[i].rng = base_seed + (uint64_t)i;
		pthread_mutex_init(&runner[i].lock, NULL);
		vpmu_emupmu_init(&runner[i].pmu, i ? others : NULL);
		if (vpmu_pcpu_create(host, &runner[i].pmu.pmu, (unsigned int)i, &runner[i].p))
			fail("pcpu_create");
	}
}

static void give(struct runner *to, struct vcpu *v)
{
	pthread_mutex_lock(&to->lock);
	v->next = to->inbox;
	to->inbox = v;
	pthread_mutex_unlock(&to->lock);
}

static void take_inbox(struct runner *r)
{
	struct vcpu *v;

	pthread_mutex_lock(&r->lock);
	v = r->inbox;
	r->inbox = NULL;
	pthread_mutex_unlock(&r->lock);
	for (; v; v = v->next) {
		if (vpmu_context_place(&v->ctx, r->p))
			fail("place");
		r->mine[r->n++] = v;
	}
}

/* Run one of its vCPUs, mine[*i], or now and then the host: NULL. */
static struct vcpu *switch_to_some(struct runner *r, int *i)
{
	struct vcpu *v = NULL;

	take_inbox(r);
	if (r->n && rnd(&r->rng, 8)) {
		*i = (int)rnd(&r->rng, (unsigned int)r->n);
		v = r->mine[*i];
	}
	vpmu_pcpu_switch(r->p, v ? &v->ctx : NULL);
	return v;
}

/* With the running account. */
static void offline_sometimes(struct runner *r)
{
	if (rnd(&r->rng, 300))
		return;
	vpmu_pcpu_offline(r->p);
	sched_yield();
	vpmu_pcpu_online(r->p);
}

static void slice(struct runner *r);

static void *run(void *arg)
{
	struct runner *r = arg;

	urcu_memb_register_thread();
	vpmu_pcpu_online(r->p);
	while (!load(&stop_runners)) {
		slice(r);
		if (++r->slices % 64 == 0)
			sched_yield();
	}
	vpmu_pcpu_switch(r->p, NULL);
	vpmu_pcpu_offline(r->p);
	urcu_memb_unregister_thread();
	return NULL;
}

/* ---- VMs ---- */

static struct vm *vm_new(unsigned int of)
{
	struct vm *vm = calloc(1, sizeof(*vm));

	vm->tenant = of;
	if (vpmu_account_create(tenant[of], vm, &vm->account))
		fail("account_create");
	vm->held = VCPUS;
	for (int k = 0; k < VCPUS; k++) {
		struct vcpu *v = &vm->vcpu[k];

		v->vm = vm;
		if (vpmu_account_create(vm->account, v, &v->own) ||
		    vpmu_context_init(&v->ctx, v->own, vm->account))
			fail("vCPU");
	}
	return vm;
}

static void vm_free(struct vm *vm)
{
	for (int k = 0; k < VCPUS; k++) {
		vpmu_context_fini(&vm->vcpu[k].ctx); /* closes the guest's records */
		if (vpmu_account_del(vm->vcpu[k].own))
			fail("vCPU account is busy");
	}
	if (vpmu_account_del(vm->account))
		fail("VM account is busy");
	free(vm);
}

/* No runner has @vm's vCPUs any more, or the test has failed (false). */
static bool let_go_of(struct vm *vm)
{
	const struct timespec t = {.tv_nsec = 100000};

	while (load(&vm->held)) {
		nanosleep(&t, NULL);
		if (load(&failed))
			return false;
	}
	return true;
}

/* ---- the whole ---- */

/* @flag: another option, which sets *@on. Returns the value of --seconds, or -1. */
static time_t churn_options(int argc, char **argv, const char *flag, bool *on)
{
	const struct option options[] = {{"seconds", required_argument, NULL, 't'},
					 {"seed", required_argument, NULL, 's'},
					 {flag, no_argument, NULL, 'm'},
					 {NULL, 0, NULL, 0}};
	time_t seconds = 3;
	int opt;

	while ((opt = getopt_long(argc, argv, "t:s:", options, NULL)) != -1) {
		if (opt == 't')
			seconds = strtol(optarg, NULL, 0);
		else if (opt == 's')
			base_seed = strtoull(optarg, NULL, 0);
		else if (opt == 'm')
			*on = true;
		else
			return -1;
	}
	return seconds;
}

static struct {
	pthread_t runners[RUNNERS], readers[READERS], controllers[2];
} threads;

static void churn_start(void *(*reader)(void *), void *(*controller)(void *),
			void *(*other)(void *))
{
	for (int i = 0; i < RUNNERS; i++)
		pthread_create(&threads.runners[i], NULL, run, &runner[i]);
	for (int i = 0; i < READERS; i++)
		pthread_create(&threads.readers[i], NULL, reader, NULL);
	pthread_create(&threads.controllers[0], NULL, controller, NULL);
	pthread_create(&threads.controllers[1], NULL, other, NULL);
}

static void churn_stop(int *stop, const pthread_t *t, int n)
{
	store(stop, 1);
	while (n)
		pthread_join(t[--n], NULL);
}

/* Until @seconds are over and the tested case has occurred: on a slow machine that takes
 * longer. */
static void churn_for(time_t seconds, bool (*all_happened)(void))
{
	struct timespec t = {.tv_sec = seconds};

	while (nanosleep(&t, &t))
		;
	t.tv_nsec = 10000000;
	while (!all_happened() && !load(&failed))
		nanosleep(&t, NULL);
}

#endif
