/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A VM whose vCPUs run one after the other on the modelled pCPUs of a host, by any engine: for
 * tests of vmm/vm. */
#ifndef TESTS_UNIT_VM_BED_H
#define TESTS_UNIT_VM_BED_H

#include <criterion/criterion.h>
#include <urcu/urcu-memb.h>

#include "vmm/sched/runner.h"
#include "vmm/vm/vm.h"
#include "vpmu/account.h"
#include "vpmu/host.h"

#define BED_VCPUS 3

static const struct host_config one_pcpu = {
	.pcpus = 1,
	.gp = 4,
	.fixed = 3,
	.width = 48,
	.slice_insns = 1000,
	.seed = 1,
	.migrate_every = 1,
	.tick_us = 1000,
};

/* The bed of the test that runs. */
static struct bed {
	struct vpmu_host *host;
	struct runner *runner;
	struct vpmu_account *account, *vcpus[BED_VCPUS];
	struct vm *vm;
	unsigned int ended;
	char said[4 * SERIAL_LINE_MAX]; /* the last line of the console */
	unsigned int said_by;
} b;

static inline void on_console(struct vm *vm, unsigned int vcpu, const char *line, size_t len,
			      void *arg)
{
	snprintf(b.said, sizeof(b.said), "%.*s", (int)len, line);
	b.said_by = vcpu;
}

static inline void on_ended(struct vm *vm, void *arg)
{
	b.ended++;
}

static inline void bed_host(const struct host_config *config)
{
	b = (struct bed){0};
	urcu_memb_register_thread();
	b.host = vpmu_host_create();
	cr_assert(b.host);
	cr_assert_eq(runner_create(b.host, config, &b.runner), 0);
	cr_assert_eq(vpmu_account_create(vpmu_host_root(b.host), NULL, &b.account), 0);
	for (unsigned int i = 0; i < BED_VCPUS; i++)
		cr_assert_eq(vpmu_account_create(b.account, NULL, &b.vcpus[i]), 0);
}

/* A VM as @o has it, on the bed's host. */
static inline int bed_create(struct vm_opts o, char err[256])
{
	o.name = "vm";
	o.sched = runner_sched(b.runner);
	o.account = b.account;
	o.vcpu_accounts = b.vcpus;
	o.console = on_console;
	o.ended = on_ended;
	return vm_create(&o, &b.vm, err, 256);
}

static inline void bed_start(void)
{
	char err[256] = "";

	cr_assert_eq(vm_start(b.vm, err, sizeof(err)), 0, "%s", err);
}

/* Until the VM has ended. */
static inline void bed_run(void)
{
	for (int i = 0; !b.ended; i++) {
		cr_assert_lt(i, 100000);
		cr_assert_gt(runner_step(b.runner, 1), 0);
	}
	cr_assert_eq(b.ended, 1);
}

/* The .fini of suites, too. */
static inline void bed_fini(void)
{
	if (!b.host)
		return;
	if (b.vm)
		vm_destroy(b.vm);
	for (unsigned int i = 0; i < BED_VCPUS; i++)
		cr_assert_eq(vpmu_account_del(b.vcpus[i]), 0);
	cr_assert_eq(vpmu_account_del(b.account), 0);
	runner_destroy(b.runner);
	vpmu_host_destroy(b.host);
	urcu_memb_unregister_thread();
	b.host = NULL;
}

#endif
