/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The calling thread's perf events on a fake kernel (fake_perf.h), as the PMU of one pCPU of
 * libvpmu's core, on which a VM is placed. */
#ifndef TESTS_UNIT_PERF_CORE_BED_H
#define TESTS_UNIT_PERF_CORE_BED_H

#include "fake_perf.h"
#include "vpmu/account.h"
#include "vpmu/consumer.h"
#include "vpmu/context.h"
#include "vpmu/host.h"
#include "vpmu/pcpu.h"
#include "vpmu/core/rcu.h"

#define MS	     1000000ULL
#define INSTRUCTIONS vpmu_key_generic(VPMU_EV_INSTRUCTIONS, UK)
#define CYCLES	     vpmu_key_generic(VPMU_EV_CYCLES, UK)

struct perf_core {
	struct vpmu_hostpmu_perf p;
	struct vpmu_host *host; /* NULL: not begun */
	struct vpmu_pcpu *pcpu;
	struct vpmu_account *vm;
	struct vpmu_context ctx;
};

/* @opts.cpu is set here. */
static inline void perf_core_begin(struct perf_core *k, struct vpmu_hostpmu_perf_opts opts)
{
	opts.cpu = VPMU_PERF_THREAD;
	urcu_memb_register_thread();
	memset(k, 0, sizeof(*k));
	cr_assert(!vpmu_hostpmu_perf_init(&k->p, &opts));
	k->host = vpmu_host_create();
	cr_assert(k->host);
	cr_assert(!vpmu_pcpu_create(k->host, &k->p.pmu, 0, &k->pcpu));
	vpmu_hostpmu_perf_set_thread(&k->p, gettid_());
	cr_assert(!vpmu_account_create(vpmu_host_root(k->host), NULL, &k->vm));
	cr_assert(!vpmu_context_init(&k->ctx, k->vm, NULL));
	cr_assert(!vpmu_context_place(&k->ctx, k->pcpu));
	vpmu_pcpu_switch(k->pcpu, &k->ctx);
}

/* The consumers have been deleted. */
static inline void perf_core_end(struct perf_core *k)
{
	vpmu_pcpu_switch(k->pcpu, NULL);
	vpmu_context_fini(&k->ctx);
	vpmu_host_destroy(k->host);
	vpmu_hostpmu_perf_fini(&k->p);
	cr_expect_eq(fake.open_fds, 0);
	urcu_memb_unregister_thread();
	k->host = NULL;
}

static inline struct vpmu_value perf_core_read(struct perf_core *k, const struct vpmu_consumer *c)
{
	struct vpmu_value v;

	vpmu_pcpu_flush(k->pcpu);
	vpmu_consumer_read(c, &v);
	return v;
}

/* System calls take a little of the thread's time. */
static inline bool about(uint64_t a, uint64_t b)
{
	return a + b / 50 + 20000 >= b && b + b / 50 + 20000 >= a;
}

#define TIMES_ARE(value, enabled, running)                                                         \
	do {                                                                                       \
		struct vpmu_value v_ = value;                                                      \
		cr_expect(about(v_.enabled_ns, enabled) && about(v_.running_ns, running),          \
			  "%lu of %lu", v_.running_ns, v_.enabled_ns);                             \
	} while (0)

/* Tests @first, which is @body(false), and @second, @body(true). */
#define TEST_BOTH(suite, body, first, second)                                                      \
	Test(suite, first)                                                                         \
	{                                                                                          \
		body(false);                                                                       \
	}                                                                                          \
	Test(suite, second)                                                                        \
	{                                                                                          \
		body(true);                                                                        \
	}

#endif
