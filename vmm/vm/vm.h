/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A VM: guest RAM with a loaded image, an engine VM and its vCPUs.
 *
 * vm_* functions are the control thread's; what a scheduler's threads call says so. Errors:
 * -errno and one line in @err.
 */
#ifndef VMM_VM_VM_H
#define VMM_VM_VM_H

#include "vmm/boot/boot.h"
#include "vmm/vm/vcpu.h"

struct vm;

/*
 * Who runs vCPUs: the modelled pCPUs (runner.h) or one thread per vCPU (threads.h). All: control
 * thread.
 */
struct vm_sched {
	const struct vm_sched_ops *ops;
};

struct vm_sched_ops {
	/* A vCPU comes to be: the host PMU its register model asks what can be counted. */
	int (*vcpu_init)(struct vm_sched *s, struct vcpu *v, struct vpmu_hostpmu **pmu, char *err,
			 size_t errlen);
	/* ... and goes, after remove. */
	void (*vcpu_fini)(struct vm_sched *s, struct vcpu *v);
	/* Let the VM's vCPUs run (those that have not ended). */
	int (*start)(struct vm_sched *s, struct vm *vm, char *err, size_t errlen);
	/* Returns when none of them is on a pCPU. */
	void (*pause)(struct vm_sched *s, struct vm *vm);
	/* As pause; on return their PMU registers are also placed nowhere, so that a snapshot can
	 * be taken. start places them again. -EOPNOTSUPP: this scheduler cannot, nothing happened.
	 */
	int (*unplace)(struct vm_sched *s, struct vm *vm);
	/* The same for good; their counters are gone on return. */
	void (*remove)(struct vm_sched *s, struct vm *vm);
};

struct vm_opts {
	const char *name;
	unsigned int vcpus;
	uint64_t memory_bytes;
	const struct image *image; /* needed during vm_create only */
	/* Instead of an image, a snapshot: gives the vCPUs, which are as the engine made them, and
	 * RAM their contents. Inside vm_create. */
	int (*load)(struct vm *vm, void *arg, char *err, size_t errlen);
	void *load_arg;
	const char *args;
	struct vpmu_guest_cfg pmu;
	const struct vmm_engine_ops *ops;
	struct vmm_engine *engine;
	struct vm_sched *sched;
	struct vpmu_account *account;		   /* of the VM, and */
	struct vpmu_account *const *vcpu_accounts; /* of its vCPUs, children of it */

	/* A line of a vCPU's console, raw bytes. Thread that runs the vCPU. */
	void (*console)(struct vm *vm, unsigned int vcpu, const char *line, size_t len, void *arg);
	/* The last vCPU has ended. Thread that ran it; vm_destroy is for the control thread. */
	void (*ended)(struct vm *vm, void *arg);
	/* Thread @tid will run a vCPU: put it into the VM's cgroup. Control thread; may be NULL. */
	int (*join)(struct vm *vm, int tid, void *arg, char *err, size_t errlen);
	void *arg;
};

enum vm_state {
	VM_PAUSED = 0, /* created, or paused */
	VM_RUNNING,
	VM_DONE,  /* every vCPU has ended; status */
	VM_FAILED /* reason */
};

#define VM_REASON_MAX 320

struct vm {
	char *name;
	unsigned int nr_vcpus;
	struct vcpu *vcpus;
	const struct vmm_engine_ops *ops;
	struct vmm_engine_vm *evm;
	struct vm_sched *sched;
	struct vmm_ram ram;
	void (*console)(struct vm *vm, unsigned int vcpu, const char *line, size_t len, void *arg);
	void (*ended)(struct vm *vm, void *arg);
	int (*join)(struct vm *vm, int tid, void *arg, char *err, size_t errlen);
	void *arg;
	bool started;
	_Atomic unsigned int live; /* vCPUs that have not ended */
	_Atomic bool over;	   /* all have, and the outcome is settled */
	_Atomic uint64_t denied;   /* selections that the policy denied, of all vCPUs; and what */
	_Atomic uint64_t denied_last; /* the newest was: vpmu_guest.denied_last */
	_Atomic int failing;	      /* 0; 1: the reason is being written; 2: it is there */
	char reason[VM_REASON_MAX];
};

/* vm_create - a paused VM, loaded and reset. -ENOEXEC: the image; others: engine, memory. */
int vm_create(const struct vm_opts *o, struct vm **out, char *err, size_t errlen);

/* vm_destroy - stop and free; counters of its vCPUs are gone, the accounts are the caller's. */
void vm_destroy(struct vm *vm);

/* vm_start - run, or go on after vm_pause. vm_pause - returns when no vCPU runs. */
int vm_start(struct vm *vm, char *err, size_t errlen);
void vm_pause(struct vm *vm);

/* vm_unplace - pause, and the vCPUs are placed nowhere until vm_start: their state can be saved.
 * -EOPNOTSUPP: nothing happened; not with this scheduler or engine. */
int vm_unplace(struct vm *vm);

enum vm_state vm_state(const struct vm *vm);
const char *vm_state_name(enum vm_state s); /* "paused", "running", "done", "failed" */

/*
 * vm_status - VM_DONE: exit status of the VM: that of the first vCPU whose status is not 0. A VM
 * all of whose vCPUs halted without a status has failed.
 */
uint32_t vm_status(const struct vm *vm);

/* ---- for the scheduler's threads and vcpu.c ---- */

/* vm_fail - the VM cannot go on: its other vCPUs stop at their next exit or slice. The first
 * reason stays. */
void vm_fail(struct vm *vm, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static inline bool vm_failing(struct vm *vm)
{
	return atomic_load_explicit(&vm->failing, memory_order_relaxed) != 0;
}

/* vm_vcpu_ended - @v will not run again and is current nowhere; its state is set. By the thread
 * that ran it, before the scheduler lets go of it (so that vm_destroy waits for this). */
void vm_vcpu_ended(struct vcpu *v);

#endif
