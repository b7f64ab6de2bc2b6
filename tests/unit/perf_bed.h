/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What the two tests of the perf host PMU share. */
#ifndef TESTS_UNIT_PERF_BED_H
#define TESTS_UNIT_PERF_BED_H

#include <criterion/criterion.h>

#include <semaphore.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <linux/perf_event.h>

#include "vpmu/hostpmu_perf_priv.h"

#define UK	    (VPMU_KEY_USR | VPMU_KEY_OS)
#define CTR_TSC	    30
#define CTR_NOMINAL 31

static inline vpmu_key_t sw_key(unsigned int ev)
{
	return vpmu_key_make(VPMU_SPACE_SOFTWARE, (uint16_t)ev,
			     UK | VPMU_KEY_GUEST | VPMU_KEY_HOST);
}

static inline int gettid_(void)
{
	return (int)syscall(SYS_gettid);
}

/* A PMU of the calling thread. */
static inline void thread_pmu(struct vpmu_hostpmu_perf *p)
{
	struct vpmu_hostpmu_perf_opts opts = {.cpu = VPMU_PERF_THREAD};

	cr_assert(!vpmu_hostpmu_perf_init(p, &opts));
	vpmu_hostpmu_perf_set_thread(p, gettid_());
}

/* Bind @key to the first counter that can count it. */
static inline unsigned int bind_key(struct vpmu_hostpmu_perf *p, vpmu_key_t key)
{
	uint32_t ctrs = p->pmu.ops->eligible(&p->pmu, key);
	unsigned int ctr;

	cr_assert(ctrs);
	for (ctr = (unsigned int)__builtin_ctz(ctrs); p->ctr[ctr].key; ctr++)
		;
	cr_assert(ctrs & 1u << ctr);
	cr_assert(!p->pmu.ops->bind(&p->pmu, ctr, key));
	return ctr;
}

static inline uint64_t read_ctr(struct vpmu_hostpmu_perf *p, unsigned int ctr)
{
	return p->pmu.ops->read(&p->pmu, ctr);
}

static inline void spin(void)
{
	for (volatile unsigned int i = 0; i < 1000000; i++)
		;
}

/* A thread that says who it is, then works each time it is told to go. */
struct sleeper {
	sem_t go, done;
	int tid;
};

static inline void *sleeper(void *arg)
{
	struct sleeper *s = arg;

	s->tid = gettid_();
	sem_post(&s->done);
	sem_wait(&s->go);
	spin();
	sem_post(&s->done);
	sem_wait(&s->go);
	return NULL;
}

#endif
