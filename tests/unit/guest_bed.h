/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A vCPU with a register model on a host with two emulator pCPUs, for the tests and the fuzzer of
 * vpmu/guest. bed_exec() is "the guest executed this": it adds to the tallies of the pCPU the vCPU
 * is on. Everything on one thread, pCPUs offline.
 */
#ifndef TESTS_UNIT_GUEST_BED_H
#define TESTS_UNIT_GUEST_BED_H

#include <stdlib.h>
#include <string.h>
#include <urcu/urcu-memb.h>

#include "vpmu/account.h"
#include "vpmu/context.h"
#include "vpmu/guest/abi.h"
#include "vpmu/guest/guest.h"
#include "vpmu/host.h"
#include "vpmu/pcpu.h"
#include "vpmu/emupmu.h"

#define BED_PCPUS 2

struct bed {
	struct vpmu_host *host;
	struct vpmu_emupmu sp[BED_PCPUS];
	struct vpmu_pcpu *pcpu[BED_PCPUS];
	struct vpmu_account *vm, *vcpu;
	struct vpmu_context ctx;
	struct vpmu_guest *g;
	int on; /* pCPU the vCPU is on, -1: none */
};

#define BED_MUST(x)                                                                                \
	do {                                                                                       \
		if (!(x))                                                                          \
			abort();                                                                   \
	} while (0)

static inline void bed_leave(struct bed *b)
{
	if (b->on < 0)
		return;
	vpmu_pcpu_switch(b->pcpu[b->on], NULL);
	b->on = -1;
}

/* Switch the vCPU in on pCPU @n, migrating it there when it was elsewhere. */
static inline void bed_enter(struct bed *b, int n)
{
	if (b->on == n)
		return;
	bed_leave(b);
	BED_MUST(!vpmu_context_place(&b->ctx, b->pcpu[n]));
	vpmu_guest_placed(b->g, b->pcpu[n]);
	vpmu_pcpu_switch(b->pcpu[n], &b->ctx);
	b->on = n;
}

/* Take the vCPU off its pCPU altogether. */
static inline void bed_unplace(struct bed *b)
{
	vpmu_guest_placed(b->g, NULL);
	bed_leave(b);
}

/* The host: pCPUs with PMUs as in @emulator, offline. The thread is registered with liburcu. */
static inline void bed_host(struct bed *b, const struct vpmu_emupmu_opts *emulator)
{
	memset(b, 0, sizeof(*b));
	b->host = vpmu_host_create();
	BED_MUST(b->host);
	for (int i = 0; i < BED_PCPUS; i++) {
		BED_MUST(!vpmu_emupmu_init(&b->sp[i], emulator));
		BED_MUST(!vpmu_pcpu_create(b->host, &b->sp[i].pmu, (unsigned int)i, &b->pcpu[i]));
	}
}

static inline void bed_host_fini(struct bed *b)
{
	for (int i = 0; i < BED_PCPUS; i++)
		BED_MUST(!vpmu_pcpu_destroy(b->pcpu[i]));
	vpmu_host_destroy(b->host);
}

/* The vCPU, on no pCPU yet. Returns vpmu_guest_init's result. */
static inline int bed_vcpu(struct bed *b, const struct vpmu_guest_cfg *cfg)
{
	BED_MUST(!vpmu_account_create(vpmu_host_root(b->host), NULL, &b->vm));
	BED_MUST(!vpmu_account_create(b->vm, NULL, &b->vcpu));
	BED_MUST(!vpmu_context_init(&b->ctx, b->vcpu, b->vm));
	b->g = calloc(1, sizeof(*b->g));
	BED_MUST(b->g);
	b->on = -1;
	return vpmu_guest_init(b->g, cfg, &b->ctx, &b->sp[0].pmu);
}

static inline void bed_vcpu_fini(struct bed *b)
{
	vpmu_guest_fini(b->g);
	bed_leave(b);
	vpmu_context_fini(&b->ctx);
	BED_MUST(!vpmu_account_del(b->vcpu));
	BED_MUST(!vpmu_account_del(b->vm));
	vpmu_rcu_free(b->g);
	b->g = NULL;
}

/* Both; the usual case. */
static inline int bed_init(struct bed *b, const struct vpmu_guest_cfg *cfg,
			   const struct vpmu_emupmu_opts *emulator)
{
	urcu_memb_register_thread();
	bed_host(b, emulator);
	return bed_vcpu(b, cfg);
}

static inline void bed_fini(struct bed *b)
{
	bed_vcpu_fini(b);
	bed_host_fini(b);
	urcu_memb_unregister_thread();
}

static inline void bed_exec(struct bed *b, enum vpmu_emu_mode mode, enum vpmu_emu_event ev,
			    uint64_t n)
{
	BED_MUST(b->on >= 0);
	vpmu_emu_add(b->sp[b->on].tally, mode, ev, n);
}

static inline void bed_time(struct bed *b, uint64_t ns)
{
	for (int i = 0; i < BED_PCPUS; i++)
		b->sp[i].own_clock_ns += ns;
}

#endif
