/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * One vCPU of a VM: its engine vCPU, its account's context, its PMU registers and its devices;
 * and the loop that runs it on either engine and answers its exits. Who runs it where and when is
 * the scheduler's business (vm.h): the modelled pCPUs of runner.c or the threads of threads.c.
 */
#ifndef VMM_VM_VCPU_H
#define VMM_VM_VCPU_H

#include <stdatomic.h>

#include "vmm/engine/engine.h"
#include "vmm/dev/exitport.h"
#include "vmm/dev/serial.h"
#include "vpmu/context.h"
#include "vpmu/guest/guest.h"
#include "vpmu/lbr_regs.h"

struct vm;
struct image;

enum vcpu_state {
	VCPU_READY = 0, /* can run */
	VCPU_EXITED,	/* wrote its status to the exit port */
	VCPU_HALTED,	/* HLT, and nothing can ever wake it */
	VCPU_FAILED,	/* triple fault, engine error */
	VCPU_STOPPED	/* its VM failed elsewhere */
};

/* What the runner asks of the pCPU that meets the vCPU next. */
enum vcpu_request {
	VCPU_REQ_NONE = 0,
	VCPU_REQ_PARK,	  /* put it aside */
	VCPU_REQ_UNPLACE, /* put it aside, placed nowhere: for a snapshot */
	VCPU_REQ_DROP	  /* put it aside for good: its counters go */
};

/* The last branches of a vCPU that has ended. */
struct vcpu_branches {
	enum vpmu_lbr_user user; /* the guest's own, or a capture */
	struct vpmu_lbr_regs regs;
};

struct vcpu {
	struct vm *vm;
	unsigned int id;
	struct vmm_engine_vcpu *ev;
	struct vpmu_context ctx;
	struct vpmu_guest *guest;
	struct vmm_run run;
	struct bus ports; /* the I/O ports it reaches, and its own devices there */
	struct serial serial;
	struct exitport exitport;

	/* Outcome: written by the thread that runs it, before it says so (vm_vcpu_ended). */
	enum vcpu_state state;
	uint32_t status;	    /* VCPU_EXITED */
	struct vcpu_branches *last; /* malloc'd; NULL: nobody recorded */

	uint64_t denied; /* of guest->denied: in vm->denied already */

	/* runner.c's, see there */
	struct vcpu *next;
	struct runner_pcpu *placed; /* where ctx is placed */
	_Atomic int request;	    /* enum vcpu_request */
	bool away;		    /* on no pCPU and in no queue; under the runner's lock */
	bool guest_gone;	    /* vpmu_guest_fini done */

	void *thread; /* threads.c's */
};

/*
 * Modelled cost of one return from a soft guest to its VMM and back, in cycles and in ref-cycles:
 * charged as host time (VPMU_SOFT_HOST). The order of what a world switch costs on hardware; the
 * exact figure is a convention (vpmu-vmm(1)).
 */
#define VCPU_WORLD_SWITCH_CYCLES 1000

/* A slice ends early after so many exits, so that a guest that does nothing but exit does not
 * hold its pCPU longer than others. */
#define VCPU_SLICE_EXITS_MAX 1000

/* vcpu_devices - make the devices of @v, as after a reset, and put them onto its bus. v->vm and
 * v->id are set. -errno of bus_claim. Control thread. */
int vcpu_devices(struct vcpu *v);

/* vcpu_note_denials - what the policy denied its guest since the last call, to vm->denied. Thread
 * that runs it. */
void vcpu_note_denials(struct vcpu *v);

/* vcpu_where - for vpmu_context.where of a vCPU's ctx. -errno of the engine. */
int vcpu_where(struct vpmu_context *ctx, struct vpmu_where *out);

/* Where a vCPU runs. */
struct vcpu_env {
	struct vpmu_pcpu *pcpu;
	struct vpmu_soft_tally *tally; /* of the modelled pCPU; NULL on KVM */
	uint64_t *clock_ns;	       /* modelled clock, 1 ns per ref-cycle; with tally */
};

enum vcpu_slice {
	VCPU_SLICE_BUDGET, /* the budget is used up: more to run */
	VCPU_SLICE_INTR,   /* kicked */
	VCPU_SLICE_ENDED   /* never runs again: state says why */
};

/*
 * vcpu_run_slice - run @v, which is current on @env->pcpu, for at most @budget instructions (0:
 * until kicked or ended) and answer its exits. Adds the instructions retired to *retired. Polls
 * the pCPU at every exit. Owner of the pCPU.
 */
enum vcpu_slice vcpu_run_slice(struct vcpu *v, const struct vcpu_env *env, uint64_t budget,
			       uint64_t *retired);

#endif
