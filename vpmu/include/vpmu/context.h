/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Contexts: a vCPU task as the switch path sees it, that is an account plus caches.
 *
 * The VMM embeds a context in each vCPU, places it on a pCPU and hands it to vpmu_pcpu_switch
 * (pcpu.h). Nobody but libvpmu touches the private part.
 */
#ifndef VPMU_CONTEXT_H
#define VPMU_CONTEXT_H

#include <stdbool.h>
#include <stdint.h>

#include "vpmu/lbr_regs.h"

struct vpmu_account;
struct vpmu_alarm;
struct vpmu_cell;
struct vpmu_pcpu;
struct vpmu_quota;
struct vpmu_taskdata;

/* Where a vCPU is: the next instruction it will execute. */
struct vpmu_where {
	uint64_t ip;
	uint8_t cpl; /* 0..3 */
};

/* Private part of struct vpmu_context: the task's branch records, see lbr.h. */
struct vpmu_lbr_task {
	struct vpmu_taskdata *data[VPMU_LBR_USERS]; /* RCU. Writers: GUEST the owner, HOST control
						     * under ctl_lock */
	struct vpmu_taskdata *parked;  /* the guest's last one (taskdata_park); the pool's lock */
	struct vpmu_taskdata *pending; /* not published yet, or no longer; under ctl_lock */
	unsigned int host_users;       /* captured accounts among own and its ancestors; under
					* ctl_lock */
	bool guest_on;		       /* the guest's ctl has VPMU_LBR_EN; owner */
};

/*
 * A vCPU task. @own is the vCPU's account, @group its VM's. What the vCPU does is charged to those
 * of its accounts - @own and the ones above it - that have consumers. So vCPUs that are only
 * counted as part of the same VM or tenant are equal, and a switch between them reads no counter.
 */
struct vpmu_context {
	struct vpmu_account *own;
	struct vpmu_account *group; /* NULL: none */
	/*
	 * Tells where the vCPU is, for samples. The VMM may set it after vpmu_context_init; NULL:
	 * it is not known. Called by the owner of the pCPU on which the context runs, never while
	 * guest code executes. 0 or -errno.
	 */
	int (*where)(struct vpmu_context *ctx, struct vpmu_where *out);
	struct vpmu_quota *quota; /* of its VM (quota.h), set as where; NULL: no limit */
	/* private */
	struct vpmu_pcpu *pcpu;
	uint64_t serial;	   /* of @pcpu */
	uint32_t home;		   /* @pcpu's number */
	struct vpmu_cell *cell;	   /* the first that is charged: see struct vpmu_cell */
	uint64_t tree_gen;	   /* the host's when @keys was computed; 0: compute again */
	uint64_t keys;		   /* slots in use by the account and its ancestors */
	uint64_t watch;		   /* slots of its alarms, and of samplers in @samplers */
	struct vpmu_alarm *alarms; /* its own consumers', see alarm.c */
	uint32_t samplers;	   /* samplers of the account and its ancestors, one bit each */
	struct vpmu_lbr_task lbr;
	struct vpmu_context *host_next, **host_prev; /* all of the host's, under ctl_lock */
};

/*
 * vpmu_context_init - make @ctx a task of @own, whose parent must be @group unless @group is NULL.
 * The accounts cannot be deleted before vpmu_context_fini. -EINVAL: @group is not the parent;
 * -EBUSY: @own has a context; -ENOMEM. Control.
 */
int vpmu_context_init(struct vpmu_context *ctx, struct vpmu_account *own,
		      struct vpmu_account *group);

/* vpmu_context_fini - release the accounts. @ctx must not run anywhere. Idempotent. Control. */
void vpmu_context_fini(struct vpmu_context *ctx);

/*
 * vpmu_context_place - make @ctx ready to run on @pcpu: before it first runs, and at every
 * migration. All memory that switches need is allocated here. @ctx must not run anywhere. Owner of
 * @pcpu, or control while @pcpu is offline. -ENOMEM: it stays where it was placed.
 */
int vpmu_context_place(struct vpmu_context *ctx, struct vpmu_pcpu *pcpu);

#endif
