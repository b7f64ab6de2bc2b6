/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Contexts: a vCPU task as the switch path sees it: an account plus caches.
 *
 * The VMM embeds a context in each vCPU, places it on a pCPU and hands it to vpmu_pcpu_switch
 * (pcpu.h). Only libvpmu may access the private part.
 */
#ifndef VPMU_CONTEXT_H
#define VPMU_CONTEXT_H

#include <stdbool.h>
#include <stdint.h>

#include "vpmu/lbr_regs.h"

#ifdef __cplusplus
extern "C" {
#endif

struct vpmu_account;
struct vpmu_alarm;
struct vpmu_cell;
struct vpmu_pcpu;
struct vpmu_quota;
struct vpmu_taskdata;

/* The next instruction that a vCPU will execute. */
struct vpmu_where {
	uint64_t ip;
	uint8_t cpl; /* 0..3 */
};

/* Private part of struct vpmu_context: the task's branch records, see lbr.h. */
struct vpmu_lbr_task {
	struct vpmu_taskdata *data[VPMU_LBR_USERS]; /* RCU. Writers: GUEST the owner, HOST control
						     * under ctl_lock */
	struct vpmu_taskdata *parked;  /* the guest's previous one; under the pool's lock */
	struct vpmu_taskdata *pending; /* not yet, or no longer, published; under ctl_lock */
	unsigned int host_users;       /* captures of own and its ancestors; under ctl_lock */
	bool guest_on;		       /* the guest's ctl has VPMU_LBR_EN; owner */
};

/*
 * A vCPU task. @own is the vCPU's account, @group its VM's. Events are charged to @own and those of
 * its ancestors that have consumers. vCPUs that are counted only through the same VM or tenant are
 * therefore equal: a switch between them reads no counter.
 */
struct vpmu_context {
	struct vpmu_account *own;
	struct vpmu_account *group; /* NULL: none */
	/*
	 * Returns the position of the vCPU, for samples: 0 or -errno. The VMM may set it after
	 * vpmu_context_init; NULL: unknown. Called by the owner of the pCPU on which the context
	 * runs, never while guest code executes.
	 */
	int (*where)(struct vpmu_context *ctx, struct vpmu_where *out);
	struct vpmu_quota *quota; /* of its VM (quota.h), set by the VMM; NULL: no limit */
	/* private */
	struct vpmu_pcpu *pcpu;
	uint64_t serial;	   /* of @pcpu */
	uint32_t home;		   /* @pcpu's number */
	struct vpmu_cell *cell;	   /* head of the charged cells: see struct vpmu_cell */
	uint64_t tree_gen;	   /* the host's when @keys was computed; 0: stale */
	uint64_t keys;		   /* slots in use by the account and its ancestors */
	uint64_t watch;		   /* slots of its alarms, and of samplers in @samplers */
	struct vpmu_alarm *alarms; /* of its own consumers, see alarm.c */
	uint32_t samplers;	   /* samplers of the account and its ancestors, one bit each */
	struct vpmu_lbr_task lbr;
	struct vpmu_context *host_next, **host_prev; /* of all contexts, under ctl_lock */
};

/*
 * vpmu_context_init - make @ctx a task of @own, whose parent must be @group unless @group is NULL.
 * The accounts cannot be deleted before vpmu_context_fini. @ctx is the caller's memory. Returns 0;
 * -EINVAL if @group is not the parent; -EBUSY if @own has a context; -ENOMEM. Control.
 */
int vpmu_context_init(struct vpmu_context *ctx, struct vpmu_account *own,
		      struct vpmu_account *group);

/* vpmu_context_fini - release the accounts. @ctx must not be running. Idempotent. Control. */
void vpmu_context_fini(struct vpmu_context *ctx);

/*
 * vpmu_context_place - prepare @ctx to run on @pcpu: before it first runs, and at every migration.
 * Allocates all memory that switches need. @ctx must not be running. Returns 0, or -ENOMEM: @ctx is
 * still placed where it was. Owner of @pcpu, or control while @pcpu is offline.
 */
int vpmu_context_place(struct vpmu_context *ctx, struct vpmu_pcpu *pcpu);

#ifdef __cplusplus
}
#endif

#endif
