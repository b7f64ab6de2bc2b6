/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * One vCPU of a VM: its engine vCPU, its account's context, its PMU registers and its devices; and
 * the loop that runs it on any engine and handles its exits. A scheduler (vm.h) decides where and
 * when it runs: the modelled pCPUs of vmm/sched/runner.c or the threads of vmm/sched/threads.c.
 */
#pragma once

#include <stdatomic.h>

#include "vmm/dev/power.h"
#include "vmm/engine/engine.h"
#include "vmm/dev/serial.h"
#include "vpmu/context.h"
#include "vpmu/guest/guest.h"
#include "vpmu/lbr_regs.h"

struct vm;
struct image;

enum vcpu_state {
	VCPU_READY = 0, /* can run */
	VCPU_EXITED,	/* it wrote its status to the exit port */
	VCPU_HALTED,	/* it is in HLT, and nothing can wake it */
	VCPU_FAILED,	/* triple fault, or an engine error */
	VCPU_STOPPED	/* another vCPU of its VM failed */
};

/* Requests of the control thread to the pCPU that takes this vCPU out of a queue next
 * (runner.c). */
enum vcpu_request {
	VCPU_REQ_NONE = 0,
	VCPU_REQ_PARK,	  /* put the vCPU aside */
	VCPU_REQ_UNPLACE, /* put it aside and place it nowhere, for a snapshot */
	VCPU_REQ_DROP,	  /* put it aside for good and delete its counters */
	VCPU_REQ_SLEEP	  /* it waits in HLT; not by the control thread but by its pCPU (halt.c) */
};

/* The last branches of a vCPU that has ended. */
struct vcpu_branches {
	enum vpmu_lbr_user user; /* the guest's own, or a capture */
	struct vpmu_lbr_regs regs;
};

struct vcpu {
	/* Read by each slice. First, so that a slice touches few cache lines: with a thousand vCPUs
	 * they are cold, and runqueue.c prefetches them. */
	_Alignas(64) struct vm *vm;
	const struct vmm_engine_ops *ops; /* of vm */
	struct vmm_engine_vcpu *ev;
	struct vpmu_guest *guest;

	/* Only for runner.c, see there. */
	uint64_t vtime;		      /* effort charged, divided by its share */
	struct runner_pcpu *clock_of; /* vtime relates to the virtual time of this queue; or NULL */
	double rate;		      /* vtime for each unit of effort; 0: to be computed */
	uint64_t rate_of;	      /* shares_generation() when rate was computed */
	struct runner_pcpu *placed;   /* where ctx is placed */
	struct vcpu *next;	      /* in a list of requested ones */
	_Atomic int request;	      /* enum vcpu_request */
	_Atomic int sleep;	      /* which thread takes it when it wakes up: halt.c */
	bool counted;		      /* the queues have room for it */
	bool active;		      /* counted in vm->share; under the lock of the shares */
	bool away;		      /* on no pCPU and in no queue; under the runner's lock */
	bool guest_gone;	      /* vpmu_guest_fini done */

	/* The outcome. The thread that runs the vCPU writes it before it calls vm_vcpu_ended. */
	enum vcpu_state state;
	uint32_t status;	    /* VCPU_EXITED */
	struct vcpu_branches *last; /* malloc'd; NULL: no branches were recorded */

	unsigned int id;
	struct vpmu_context ctx;
	struct vmm_run run;

	/* Read only by exits. */
	struct bus ports; /* the I/O ports it reaches, and its own devices there */
	struct serial serial;
	struct exitport exitport;
	uint64_t denied, unsupported; /* guest's counts already added to the VM's */

	void *thread; /* only for threads.c */
};

/*
 * Cost of one exit of an emulator guest, in modelled cycles and ref-cycles, charged as host time
 * (VPMU_EMU_HOST). A world switch on hardware costs about as much; the exact figure is a convention
 * (vpmu-vmm(1)).
 */
#define VCPU_WORLD_SWITCH_CYCLES 1000

/* A vCPU reaches a safe point of its pCPU at least this often, in units of effort (vmm_run.effort),
 * however long its slice is. This bounds the wait of a control call. */
#define VCPU_POLL_EFFORT 200000

/* A slice is a number of instructions. It ends early after this much effort beyond these (about 3
 * ms), to bound the wait of other vCPUs. All effort is charged: the next slice comes later
 * (runqueue.c). */
#define VCPU_SLICE_EXTRA_MAX 2000000
#define VCPU_SLICE_EXITS_MAX 1000 /* and after this many exits */
/* and after this many PAUSE instructions in a VM of several vCPUs. Waiting for a vCPU that runs on
 * another pCPU mostly takes fewer. */
#define VCPU_SLICE_PAUSES 100

/* vcpu_devices - make the devices of @v, as after a reset, and put them onto its bus. v->vm and
 * v->id are set. -errno of bus_claim. Control thread. */
int vcpu_devices(struct vcpu *v);

/* vcpu_note_uncounted - add to vm->denied and vm->unsupported the events that the guest selected
 * since the last call and that are not counted. Thread that runs @v. */
void vcpu_note_uncounted(struct vcpu *v);

/* vcpu_where - vpmu_context.where of a vCPU's ctx: its code location. -errno of the engine. */
int vcpu_where(struct vpmu_context *ctx, struct vpmu_where *out);

/* Where a vCPU runs. */
struct vcpu_env {
	struct vpmu_pcpu *pcpu;
	struct vpmu_emu_tally *tally; /* of the modelled pCPU; NULL: threads.c runs it */
	uint64_t *clock_ns;	      /* modelled clock, 1 ns per ref-cycle; with tally */
	const _Atomic bool *hurry;    /* end the slice, the pCPU has requests; NULL: never */
};

enum vcpu_slice {
	VCPU_SLICE_BUDGET, /* the budget is used up; there is more to run */
	VCPU_SLICE_INTR,   /* it was kicked */
	VCPU_SLICE_YIELD,  /* it waits for another vCPU of its VM, in a loop */
	VCPU_SLICE_HALTED, /* it waits in HLT for an event: vmm_run.u.hlt */
	VCPU_SLICE_ENDED   /* it never runs again; see vcpu.state */
};

/* Usage by slices. */
struct vcpu_used {
	uint64_t insns;	 /* instructions that retired */
	uint64_t effort; /* vmm_run.effort, and that of handling exits */
};

/*
 * vcpu_run_slice - run @v and handle its exits, for up to @budget instructions (0: until it is
 * kicked or has ended). @v must be current on @env->pcpu. Adds to *used. Polls the pCPU at every
 * exit, and at least every VCPU_POLL_EFFORT. Ends early after VCPU_SLICE_EXTRA_MAX, and with
 * VCPU_SLICE_INTR if the control thread requests this vCPU (vcpu.request) or another one of the
 * pCPU (vcpu_env.hurry). Only the owner of the pCPU may call it.
 */
enum vcpu_slice vcpu_run_slice(struct vcpu *v, const struct vcpu_env *env, uint64_t budget,
			       struct vcpu_used *used);
