/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A runner with VMs of scripted vCPUs (fake_engine.h): for the tests of the runner. */
#ifndef TESTS_UNIT_RUNNER_BED_H
#define TESTS_UNIT_RUNNER_BED_H

#include <criterion/criterion.h>
#include <urcu/urcu-memb.h>

#include "conserved.h"
#include "fake_engine.h"
#include "vmm/sched/runner.h"
#include "vmm/sched/runner_priv.h"
#include "vpmu/account.h"
#include "vpmu/host.h"

#define VMS_MAX 64
#define VCPUS	2

struct bed {
	struct vpmu_host *host;
	struct runner *runner;
	struct {
		struct vm *vm;
		struct vpmu_account *account, *vcpus[VCPUS];
	} vms[VMS_MAX];
	_Atomic unsigned int ended;
	pthread_mutex_t lock;
	char console[4096]; /* lines as "vcpu:text\n" */
};

static const struct host_config small_host = {
	.pcpus = 2,
	.gp = 4,
	.fixed = 3,
	.width = 48,
	.slice_insns = 1000,
	.seed = 1,
	.migrate_every = 4,
	.tick_us = 10,
};

/* The engine of the VMs that are added; with VMM_CAN_WAKE they have interrupt controllers. */
static const struct vmm_engine_ops *bed_ops = &fake_ops;

static inline void on_console(struct vm *vm, unsigned int vcpu, const char *line, size_t len,
			      void *arg)
{
	struct bed *b = arg;
	size_t at;

	pthread_mutex_lock(&b->lock);
	at = strlen(b->console);
	snprintf(b->console + at, sizeof(b->console) - at, "%u:%.*s\n", vcpu, (int)len, line);
	pthread_mutex_unlock(&b->lock);
}

static inline void on_ended(struct vm *vm, void *arg)
{
	struct bed *b = arg;

	b->ended++;
}

static inline void bed_init(struct bed *b, const struct host_config *h)
{
	memset(b, 0, sizeof(*b));
	pthread_mutex_init(&b->lock, NULL);
	urcu_memb_register_thread();
	fake_wrong = 0;
	fake_trace = NULL;
	b->host = vpmu_host_create();
	cr_assert(b->host);
	cr_assert_eq(runner_create(b->host, h, &b->runner), 0);
}

static inline struct vm *add_vm_in(struct bed *b, unsigned int i, struct share *share,
				   unsigned int weight)
{
	struct image img = fake_image();
	struct vm_opts o = {
		.name = "vm",
		.vcpus = VCPUS,
		.memory_bytes = 4 << 20,
		.image = &img,
		.pmu.model = VPMU_GUEST_INTEL_V2,
		.irqchip = bed_ops->can & VMM_CAN_WAKE,
		.ops = bed_ops,
		.sched = runner_sched(b->runner),
		.share = share,
		.weight = weight,
		.vcpu_accounts = b->vms[i].vcpus,
		.console = on_console,
		.ended = on_ended,
		.arg = b,
	};
	char err[256] = "";

	cr_assert_eq(vpmu_account_create(vpmu_host_root(b->host), NULL, &b->vms[i].account), 0);
	for (int v = 0; v < VCPUS; v++)
		cr_assert_eq(vpmu_account_create(b->vms[i].account, NULL, &b->vms[i].vcpus[v]), 0);
	o.account = b->vms[i].account;
	cr_assert_eq(vm_create(&o, &b->vms[i].vm, err, sizeof(err)), 0, "%s", err);
	return b->vms[i].vm;
}

static inline struct vm *add_vm(struct bed *b, unsigned int i)
{
	return add_vm_in(b, i, NULL, 0);
}

static inline void del_vm(struct bed *b, unsigned int i)
{
	if (!b->vms[i].vm)
		return;
	vm_destroy(b->vms[i].vm);
	/* -EBUSY if a consumer or a context were left. */
	for (int v = 0; v < VCPUS; v++)
		cr_assert_eq(vpmu_account_del(b->vms[i].vcpus[v]), 0);
	cr_assert_eq(vpmu_account_del(b->vms[i].account), 0);
	b->vms[i].vm = NULL;
}

static inline void start(struct vm *vm)
{
	char err[256];

	cr_assert_eq(vm_start(vm, err, sizeof(err)), 0);
}

static inline void bed_fini(struct bed *b)
{
	for (unsigned int i = 0; i < VMS_MAX; i++)
		del_vm(b, i);
	conserved(b->host);
	runner_destroy(b->runner);
	vpmu_host_destroy(b->host);
	urcu_memb_unregister_thread();
	b->host = NULL;
	cr_assert_eq(fake_wrong, 0);
}

/* The bed of the test that runs, and the .fini of suites that use it. */
static struct bed b;

static inline void bed_end(void)
{
	if (b.host)
		bed_fini(&b);
}

#endif
