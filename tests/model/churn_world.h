/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The VMs, vCPUs, tenants and runners of test_churn, and the consumers that its readers may look
 * at. For one program file, as churn.h. */
#ifndef TESTS_MODEL_CHURN_WORLD_H
#define TESTS_MODEL_CHURN_WORLD_H

#include <pthread.h>

#include "tests/model/churn_sampling.h"
#include "vpmu/account.h"
#include "vpmu/consumer.h"
#include "vpmu/context.h"
#include "vpmu/host.h"
#include "vpmu/pcpu.h"
#include "vpmu/core/rcu.h"

#define TENANTS	  3
#define NESTED	  2 /* this tenant is below the one before it */
#define VMS	  12
#define VCPUS	  2 /* of each VM */
#define LOCALS	  3 /* consumers of each vCPU */
#define PUBLISHED 256

/* Keys that count: indices of m_keys (event order of enum vpmu_generic, user and kernel). The
 * first seven fit 4 + 3 counters. */
static const int plain_keys[] = {0, 1, 2, 3, 4, 5, 6};
#define PLAIN 7
static bool multiplex;

/* A consumer that readers may look at. */
struct pub {
	struct vpmu_consumer c;
	struct vpmu_value seen; /* the most anybody has read: fields are atomic */
	int slot;		/* in published[] */
};
static struct pub *published[PUBLISHED]; /* atomic; entries live until a grace period later */

struct vcpu {
	struct vm *vm;
	struct vpmu_account *own;
	struct vpmu_context ctx;
	uint64_t executed[PLAIN]; /* by its holder */
	struct pub *local[LOCALS];
	int local_key[LOCALS];
	uint64_t local_from[LOCALS];
	bool local_partial[LOCALS]; /* was disabled since: not compared */
	struct churn_alarm alarm[LOCALS];
	struct vcpu *next;
};

struct runner_own {
	uint64_t host_executed[PLAIN];
	uint64_t here[TENANTS + 2][PLAIN]; /* executed on this pCPU: in all, host, tenants */
	unsigned long fires;		   /* atomic */
};

#include "tests/model/churn.h"

static uint64_t tenant_gone[TENANTS][PLAIN]; /* executed by VMs that are gone */
static struct vm *vms[VMS];

static void publish(struct pub *pub, uint64_t *rng)
{
	for (unsigned int i = rnd(rng, PUBLISHED);; i = (i + 1) % PUBLISHED) {
		struct pub *none = NULL;

		if (__atomic_compare_exchange_n(&published[i], &none, pub, false, __ATOMIC_RELEASE,
						__ATOMIC_RELAXED)) {
			pub->slot = (int)i;
			return;
		}
	}
}

static void unpublish(struct pub *pub)
{
	store(&published[pub->slot], NULL);
}

#endif
