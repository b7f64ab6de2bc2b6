/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * One vCPU of a VM: its engine vCPU, its account's context, its PMU registers and its devices; and
 * the loop that runs it on any engine and answers its exits. A scheduler (vm.h) decides where and
 * when it runs: the modelled pCPUs of vmm/sched/runner.c or the threads of vmm/sched/threads.c.
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
	VCPU_EXITED,	/* it wrote its status to the exit port */
	VCPU_HALTED,	/* it is in HLT, and nothing can ever wake it */
	VCPU_FAILED,	/* triple fault, or an engine error */
	VCPU_STOPPED	/* another vCPU of its VM failed */
};

/* What the control thread asks of the pCPU that takes this vCPU out of a queue next (runner.c). */
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
	/* What each slice reads. It comes first, so that a vCPU among a thousand brings few cache
	 * lines with it: runqueue.c fetches them before its turn. */
	_Alignas(64) struct vm *vm;
	const struct vmm_engine_ops *ops; /* of vm */
	struct vmm_engine_vcpu *ev;
	struct vpmu_guest *guest;

	/* Only for runner.c, see there. */
	uint64_t vtime;		      /* effort it was charged, divided by its share */
	struct runner_pcpu *clock_of; /* the queue to whose virtual time vtime relates; or NULL */
	double rate;		      /* vtime for each unit of effort; 0: to be computed */
	uint64_t rate_of;	      /* shares_generation that rate is of */
	struct runner_pcpu *placed;   /* where ctx is placed */
	struct vcpu *next;	      /* in a list of requested ones */
	_Atomic int request;	      /* enum vcpu_request */
	_Atomic int sleep;	      /* who gets it when it wakes up: halt.c */
	bool counted;		      /* among those that the queues have room for */
	bool active;		      /* counted in vm->share; under the lock of the shares */
	bool away;		      /* on no pCPU and in no queue; under the runner's lock */
	bool guest_gone;	      /* vpmu_guest_fini done */

	/* The outcome. The thread that runs the vCPU writes it before it calls vm_vcpu_ended. */
	enum vcpu_state state;
	uint32_t status;	    /* VCPU_EXITED */
	struct vcpu_branches *last; /* malloc'd; NULL: nobody recorded branches */

	unsigned int id;
	struct vpmu_context ctx;
	struct vmm_run run;

	/* What only exits read. */
	struct bus ports; /* the I/O ports it reaches, and its own devices there */
	struct serial serial;
	struct exitport exitport;
	uint64_t denied, unsupported; /* how many of the guest's are in the VM's already */

	void *thread; /* only for threads.c */
};

/*
 * What one exit of an emulator guest costs, in modelled cycles and ref-cycles. It is charged as
 * host time (VPMU_EMU_HOST). A world switch on hardware costs about as much; the exact figure is a
 * convention (vpmu-vmm(1)).
 */
#define VCPU_WORLD_SWITCH_CYCLES 1000

/* A vCPU comes through a safe point of its pCPU at least this often, however long its slice is:
 * in units of effort (vmm_run.effort). A control call waits for no more than this. */
#define VCPU_POLL_EFFORT 200000

/* A slice is a number of instructions. It ends early after so much effort beyond these (about 3
 * ms), so that other vCPUs need not wait for long. What it used is charged in any case: the next
 * slice comes later (runqueue.c). */
#define VCPU_SLICE_EXTRA_MAX 2000000
#define VCPU_SLICE_EXITS_MAX 1000 /* and after so many exits */
/* and after so many PAUSE instructions in a VM of several vCPUs. Waiting for a vCPU that runs on
 * another pCPU mostly takes fewer. */
#define VCPU_SLICE_PAUSES 100

/* vcpu_devices - make the devices of @v, as after a reset, and put them onto its bus. v->vm and
 * v->id are set. -errno of bus_claim. Control thread. */
int vcpu_devices(struct vcpu *v);

/* vcpu_note_uncounted - add to vm->denied and vm->unsupported what the guest has selected and did
 * not get counted since the last call. Thread that runs @v. */
void vcpu_note_uncounted(struct vcpu *v);

/* vcpu_where - vpmu_context.where for the ctx of a vCPU: where it executes. -errno of the engine.
 */
int vcpu_where(struct vpmu_context *ctx, struct vpmu_where *out);

/* Where a vCPU runs. */
struct vcpu_env {
	struct vpmu_pcpu *pcpu;
	struct vpmu_emu_tally *tally; /* of the modelled pCPU; NULL: threads.c runs it */
	uint64_t *clock_ns;	      /* modelled clock, 1 ns per ref-cycle; with tally */
	const _Atomic bool *hurry;    /* the pCPU has something to do first; NULL: never */
};

enum vcpu_slice {
	VCPU_SLICE_BUDGET, /* the budget is used up; there is more to run */
	VCPU_SLICE_INTR,   /* it was kicked */
	VCPU_SLICE_YIELD,  /* it waits for another vCPU of its VM, in a loop */
	VCPU_SLICE_HALTED, /* it waits in HLT for an event: vmm_run.u.hlt */
	VCPU_SLICE_ENDED   /* it never runs again; state says why */
};

/* What slices have used. */
struct vcpu_used {
	uint64_t insns;	 /* instructions that retired */
	uint64_t effort; /* vmm_run.effort, and that of answering exits */
};

/*
 * vcpu_run_slice - run @v and answer its exits, for at most @budget instructions (0: until it is
 * kicked or has ended). @v must be current on @env->pcpu. Adds to *used. Polls the pCPU at every
 * exit, and at least every VCPU_POLL_EFFORT. Ends early after VCPU_SLICE_EXTRA_MAX, and with
 * VCPU_SLICE_INTR when the control thread wants the vCPU (vcpu.request) or another one of the pCPU
 * (vcpu_env.hurry). Only the owner of the pCPU.
 */
enum vcpu_slice vcpu_run_slice(struct vcpu *v, const struct vcpu_env *env, uint64_t budget,
			       struct vcpu_used *used);

#endif
