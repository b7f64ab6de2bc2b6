/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Shares: how vCPUs that compete for CPU time divide it. They form a tree: tenants, VMs below them,
 * vCPUs below these. Time is divided between siblings by their weights, as with cgroup cpu.weight;
 * only siblings with a runnable vCPU take part. All vCPUs of a VM have equal parts. So a VM gains
 * nothing from more vCPUs, nor a tenant from more VMs.
 *
 * vmm/machine makes the shares of tenants, and vm_create() that of a VM. The scheduler reports when
 * vCPUs begin and cease to compete, and reads the resulting rates.
 */
#pragma once

#include <stdatomic.h>
#include <stdint.h>

#define SHARE_WEIGHT_MIN     1u
#define SHARE_WEIGHT_DEFAULT 100u
#define SHARE_WEIGHT_MAX     10000u

/* One tenant or VM. It must stay where it is while it has children. */
struct share {
	/* private */
	struct share *parent; /* NULL: it competes with all others that have none */
	_Atomic uint32_t weight;
	_Atomic uint64_t active; /* sum of the weights of competing children */
};

/* share_init - @s has no children yet. @weight: SHARE_WEIGHT_MIN to SHARE_WEIGHT_MAX. */
void share_init(struct share *s, struct share *parent, uint32_t weight);
/* share_set_weight, share_weight - set the weight, at any time; read it. Any thread. */
void share_set_weight(struct share *s, uint32_t weight);
static inline uint32_t share_weight(const struct share *s)
{
	return atomic_load_explicit(&s->weight, memory_order_relaxed);
}

/* share_enter, share_leave - one vCPU of the VM @s begins, or ceases, to compete. Any thread. */
void share_enter(struct share *s);
void share_leave(struct share *s);

/* share_rate - virtual time for each unit of effort of one vCPU of the VM @s: the inverse of its
 * current part of the CPU time. @s has a competing vCPU. Any thread. */
double share_rate(const struct share *s);

/* shares_generation - changes whenever share_rate() of any VM may have changed. Any thread. */
uint64_t shares_generation(void);
