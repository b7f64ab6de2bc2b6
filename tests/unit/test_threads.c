// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * vmm/sched/threads with scripted vCPUs instead of KVM's: each thread's counters are its own tally,
 * kicks and orders take effect, and what guests read is exact.
 */
#include <criterion/criterion.h>
#include <pthread.h>
#include <time.h>
#include <unistd.h>

#include "fake_engine.h"
#include "vmm/sched/threads.h"
#include "vpmu/account.h"
#include "vpmu/core/blob.h"
#include "vpmu/conservation.h"
#include "vpmu/host.h"
#include "vpmu/core/rcu.h"
#include "vpmu/guest/save.h"

#define VCPUS 3

struct bed {
	struct vpmu_host *host;
	struct threads *threads;
	struct vpmu_account *account, *vcpus[VCPUS];
	struct vm *vm;
	_Atomic unsigned int ended, joined;
};

static int pmu_create(struct vcpu *v, void *arg, struct vpmu_hostpmu **pmu, char *err,
		      size_t errlen)
{
	struct vpmu_emupmu *sp = calloc(1, sizeof(*sp));

	cr_assert_eq(vpmu_emupmu_init(sp, NULL), 0);
	sp->tally = &v->ev->own;
	*pmu = &sp->pmu;
	return 0;
}

static void pmu_destroy(struct vpmu_hostpmu *pmu)
{
	free(pmu);
}

static void pmu_set_thread(struct vpmu_hostpmu *pmu, int tid)
{
	cr_assert_eq(tid, gettid());
}

static const struct threads_pmu fake_pmu = {
	.create = pmu_create, .set_thread = pmu_set_thread, .destroy = pmu_destroy};

static void on_console(struct vm *vm, unsigned int vcpu, const char *line, size_t len, void *arg)
{
}

static void on_ended(struct vm *vm, void *arg)
{
	struct bed *b = arg;

	b->ended++;
}

/* The control thread, before the vCPU runs anything. */
static int on_join(struct vm *vm, int tid, void *arg, char *err, size_t errlen)
{
	struct bed *b = arg;

	cr_assert_neq(tid, gettid());
	b->joined++;
	return 0;
}

/* The scripted engine, which could be saved. */
static struct vmm_engine_ops ops;

static void bed_init(struct bed *b)
{
	struct image img = fake_image();
	struct vm_opts o = {
		.name = "vm",
		.vcpus = VCPUS,
		.memory_bytes = 4 << 20,
		.image = &img,
		.pmu.model = VPMU_GUEST_INTEL_V2,
		.ops = &ops,
		.vcpu_accounts = b->vcpus,
		.console = on_console,
		.ended = on_ended,
		.join = on_join,
		.arg = b,
	};
	char err[256] = "";

	ops = fake_ops;
	ops.can |= VMM_CAN_SAVE;
	memset(b, 0, sizeof(*b));
	urcu_memb_register_thread();
	fake_wrong = 0;
	b->host = vpmu_host_create();
	cr_assert_eq(threads_create(b->host, &fake_pmu, 10, &b->threads), 0);
	cr_assert_eq(vpmu_account_create(vpmu_host_root(b->host), NULL, &b->account), 0);
	for (int i = 0; i < VCPUS; i++)
		cr_assert_eq(vpmu_account_create(b->account, NULL, &b->vcpus[i]), 0);
	o.account = b->account;
	o.sched = threads_sched(b->threads);
	cr_assert_eq(vm_create(&o, &b->vm, err, sizeof(err)), 0, "%s", err);
}

static int conserved(const struct vpmu_conservation *c, void *arg)
{
	cr_assert_eq(c->hardware, c->charged);
	cr_assert_geq(c->pcpu, 10);
	(*(unsigned int *)arg)++;
	return 0;
}

static void bed_fini(struct bed *b)
{
	unsigned int rows = 0;

	cr_assert_eq(vpmu_host_conservation(b->host, conserved, &rows), 0);
	vm_destroy(b->vm);
	for (int i = 0; i < VCPUS; i++)
		cr_assert_eq(vpmu_account_del(b->vcpus[i]), 0);
	cr_assert_eq(vpmu_account_del(b->account), 0);
	threads_destroy(b->threads);
	vpmu_host_destroy(b->host);
	urcu_memb_barrier();
	urcu_memb_unregister_thread();
	cr_assert_eq(fake_wrong, 0);
}

/* The bed of the test that runs, which ends even while it runs. */
static struct bed b;

static void fini(void)
{
	bed_fini(&b);
}

TestSuite(threads, .fini = fini);

static void start(struct bed *b)
{
	char err[256] = "";

	cr_assert_eq(vm_start(b->vm, err, sizeof(err)), 0, "%s", err);
}

static void wait_ended(struct bed *b)
{
	struct timespec ms = {.tv_nsec = 1000000};

	while (!b->ended)
		nanosleep(&ms, NULL);
}

/* SDM vol. 4: IA32_FIXED_CTR0, IA32_FIXED_CTR_CTRL, IA32_PERF_GLOBAL_CTRL. */
#define FIXED0	   0x309
#define FIXED_CTRL 0x38d
#define GLOBAL	   0x38f

static const struct fake_step counting[] = {
	{FAKE_WRMSR, FIXED_CTRL, 0x2, 0},
	{FAKE_WRMSR, GLOBAL, 0x100000000, 0},
	{FAKE_RUN, 123456, 0, 0},
	{FAKE_RDMSR, FIXED0, 123456, 0},
	{FAKE_RUN, 44, 0, 0},
	{FAKE_RDMSR, FIXED0, 123500, 0},
	{FAKE_OUT, VPMU_PORT_EXIT, 0, 4},
};

static const struct fake_step endless[] = {
	{FAKE_WRMSR, FIXED_CTRL, 0x2, 0},
	{FAKE_WRMSR, GLOBAL, 0x100000000, 0},
	{FAKE_RUN, 1000, 0, 0},
	{FAKE_IN, 0x80, 0xff, 1},
	{FAKE_AGAIN, 2, 0, 0},
};

static const struct fake_step failing[] = {{FAKE_RUN, 10, 0, 0}, {FAKE_SHUTDOWN, 0, 0, 0}};

Test(threads, exact)
{
	fake_play(counting, counting, counting);
	bed_init(&b);
	start(&b);
	wait_ended(&b);
	cr_assert_eq(b.joined, VCPUS);
	cr_assert_eq(vm_state(b.vm), VM_DONE);
}

Test(threads, one_failure_stops_the_others)
{
	fake_play(endless, failing, endless);
	bed_init(&b);
	start(&b);
	wait_ended(&b);
	cr_assert_eq(vm_state(b.vm), VM_FAILED);
	cr_assert_eq(b.vm->vcpus[0].state, VCPU_STOPPED);
	cr_assert_eq(b.vm->vcpus[2].state, VCPU_STOPPED);
}

Test(threads, pause_resume_tick_sync)
{
	struct vpmu_consumer c = {0};
	struct vpmu_value before, after = {0};

	fake_play(endless, endless, endless);
	bed_init(&b);
	cr_assert_eq(vpmu_consumer_add(&c, b.account,
				       vpmu_key_generic(VPMU_EV_INSTRUCTIONS, VPMU_KEY_USR), NULL),
		     0);
	for (int i = 0; i < 20; i++) {
		start(&b);
		threads_tick(b.threads);
		do { /* it may not have got to run yet */
			vpmu_host_sync(b.host);
			vpmu_consumer_read(&c, &after);
		} while (!after.count);
		vm_pause(b.vm);
		cr_assert_eq(vm_state(b.vm), VM_PAUSED);
		vpmu_consumer_read(&c, &before);
		vpmu_host_sync(b.host);
		vpmu_consumer_read(&c, &after);
		cr_assert_eq(before.count, after.count);
	}
	cr_assert_eq(b.joined, VCPUS); /* threads are kept over pauses */
	start(&b);
	vpmu_consumer_del(&c, NULL, NULL);
}

Test(threads, never_started)
{
	fake_play(endless, endless, endless);
	bed_init(&b);
	vm_pause(b.vm);
}

/* For a snapshot the counters of all vCPUs end, whatever they do: the rest are register values,
 * and they go on from these. */
Test(threads, unplaced)
{
	struct vpmu_consumer c[VCPUS] = {0};
	struct vpmu_value v;
	uint64_t reg;

	fake_play(endless, endless, endless);
	bed_init(&b);
	cr_assert_eq(vm_unplace(b.vm), 0); /* never started */
	for (int i = 0; i < VCPUS; i++)
		cr_assert_eq(vpmu_consumer_add(&c[i], b.vcpus[i],
					       vpmu_key_generic(VPMU_EV_INSTRUCTIONS, VPMU_KEY_USR),
					       NULL),
			     0);
	for (int round = 0; round < 20; round++) {
		start(&b);
		for (int i = 0; i < VCPUS; i++) {
			uint64_t before;

			vpmu_consumer_read(&c[i], &v);
			before = v.count;
			do {
				vpmu_host_sync(b.host);
				vpmu_consumer_read(&c[i], &v);
			} while (v.count == before);
		}
		cr_assert_eq(vm_unplace(b.vm), 0);
		cr_assert_eq(vm_state(b.vm), VM_PAUSED);
		for (int i = 0; i < VCPUS; i++) {
			struct vpmu_guest *g = b.vm->vcpus[i].guest;
			struct vpmu_blob blob = {0};

			cr_assert_eq(vpmu_guest_save(g, &blob), 0, "it is placed");
			vpmu_blob_fini(&blob);
			cr_assert_eq(vpmu_guest_rdmsr(g, FIXED0, &reg), 0);
			vpmu_consumer_read(&c[i], &v);
			/* The counter was switched on behind the first instructions of the script:
			 * both see the same from then on. */
			cr_assert_eq(reg, v.count, "vCPU %d, round %d", i, round);
		}
	}
	for (int i = 0; i < VCPUS; i++)
		vpmu_consumer_del(&c[i], NULL, NULL);
}
