/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A VM: guest RAM with a loaded image, an engine VM and its vCPUs.
 *
 * Only the control thread calls vm_* functions, unless noted: a scheduler's threads call some.
 * Errors: -errno and one line in @err.
 */
#pragma once

#include "vmm/boot/boot.h"
#include "vmm/vm/devices.h"
#include "vmm/vm/share.h"
#include "vmm/vm/vcpu.h"
#include "vpmu/quota.h"

struct vm;

/*
 * A scheduler runs vCPUs: on modelled pCPUs (runner.h) or with one thread per vCPU (threads.h).
 * Only the control thread calls these operations.
 */
struct vm_sched {
	const struct vm_sched_ops *ops;
};

struct vm_sched_ops {
	/* A vCPU is created. *pmu: the host PMU, for its register model to check which events can
	 * be counted. */
	int (*vcpu_init)(struct vm_sched *s, struct vcpu *v, struct vpmu_hostpmu **pmu, char *err,
			 size_t errlen);
	/* A vCPU is destroyed, after remove. */
	void (*vcpu_fini)(struct vm_sched *s, struct vcpu *v);
	/* Let the VM's vCPUs run, except those that have ended. */
	int (*start)(struct vm_sched *s, struct vm *vm, char *err, size_t errlen);
	/* Stop them. Returns when none of them is on a pCPU. */
	void (*pause)(struct vm_sched *s, struct vm *vm);
	/* As pause; on return their PMU registers are also placed nowhere, so that a snapshot can
	 * be taken. start places them again. -EOPNOTSUPP: not supported, nothing changed. */
	int (*unplace)(struct vm_sched *s, struct vm *vm);
	/* As pause, for good. On return the counters of the vCPUs are deleted. */
	void (*remove)(struct vm_sched *s, struct vm *vm);
	/* @v has work: if it waits in HLT, it must run. Any thread. */
	void (*wake)(struct vm_sched *s, struct vcpu *v);
};

struct vm_opts {
	const char *name;
	unsigned int vcpus;
	uint64_t memory_bytes;
	const struct image *image; /* needed during vm_create only */
	/* How it boots, or has booted if there is load; NULL: found by its contents. With
	 * boot_linux and boot_multiboot the VM gets the hardware of vmm/engine/platform.h, which
	 * needs VMM_CAN_IRQCHIP. */
	const struct boot_protocol *protocol;
	const struct image *initrd; /* NULL: none; needed during vm_create only */
	const uint8_t *rng_seed;    /* as in boot_params; needed during vm_create only */
	/* Instead of an image: load RAM, the vCPUs (fresh from the engine) and shared devices from
	 * a snapshot. Called by vm_create. */
	int (*load)(struct vm *vm, void *arg, char *err, size_t errlen);
	void *load_arg;
	const char *args;
	unsigned int max_events;  /* vm.quota.max; 0: no limit */
	struct vpmu_quota *quota; /* of the tenant; NULL: none */
	struct vpmu_guest_cfg pmu;
	const struct vmm_engine_ops *ops;
	struct vmm_engine *engine;
	bool irqchip; /* give it interrupt controllers (VMM_CAN_IRQCHIP); implied by boot_linux */
	bool svm;     /* CPUID shows SVM; with boot_linux and an engine that has it */
	struct vm_sched *sched;
	struct share *share;	      /* of the tenant; NULL: the VM competes with all tenants */
	unsigned int weight;	      /* among the VMs of the tenant; 0: SHARE_WEIGHT_DEFAULT */
	struct vpmu_account *account; /* of the VM */
	struct vpmu_account *const *vcpu_accounts; /* of its vCPUs; children of account */

	/* A vCPU has printed a line: raw bytes. Called by the thread that runs the vCPU. */
	void (*console)(struct vm *vm, unsigned int vcpu, const char *line, size_t len, void *arg);
	/* A stock kernel has sent a byte to its serial port. Same thread; may be NULL. */
	void (*sent)(struct vm *vm, uint8_t byte, void *arg);
	/* The last vCPU has ended. Called by the thread that ran it, which must not vm_destroy. */
	void (*ended)(struct vm *vm, void *arg);
	/* Thread @tid will run a vCPU: put it into the VM's cgroup. Called by the control thread;
	 * may be NULL. */
	int (*join)(struct vm *vm, int tid, void *arg, char *err, size_t errlen);
	void *arg;
};

/* How a VM in state VM_DONE or VM_FAILED ended. */
enum vm_how {
	VM_HOW_EXITED = 0, /* its vCPUs ended one by one */
	VM_HOW_OFF,	   /* the guest switched the machine off */
	VM_HOW_RESET,	   /* the guest reset the machine */
	VM_HOW_FAILED
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
	/* All vCPUs must stop. 1: reason and how are being written; 2: they are valid. */
	_Atomic int failing;
	unsigned int nr_vcpus;
	struct vcpu *vcpus;
	const struct vmm_engine_ops *ops;
	struct vmm_engine_vm *evm;
	struct vm_sched *sched;
	struct share share; /* of the CPU time, if the scheduler divides it */
	struct vmm_ram ram;
	void (*console)(struct vm *vm, unsigned int vcpu, const char *line, size_t len, void *arg);
	void (*sent)(struct vm *vm, uint8_t byte, void *arg);
	void (*ended)(struct vm *vm, void *arg);
	int (*join)(struct vm *vm, int tid, void *arg, char *err, size_t errlen);
	void *arg;
	bool irqchip;		    /* it has interrupt controllers */
	bool svm;		    /* CPUID shows SVM; it cannot be saved */
	struct vm_devices *devices; /* shared by all vCPUs; NULL: each has its own */
	/* Only for halt.c: */
	bool waits;			  /* its vCPUs wait outside of run() (VMM_CAN_WAKE) */
	struct {			  /* under the runner's timer_lock */
		struct runner_pcpu *home; /* pCPU with the heap; NULL: in no heap */
		unsigned int at;	  /* index in the heap */
		uint64_t due;
	} timer;
	bool started;
	_Atomic unsigned int live; /* vCPUs that have not ended */
	_Atomic bool over;	   /* all have ended, and the outcome is final */
	struct vpmu_quota quota;   /* of distinct events */
	/* Events that the guest selected and that are not counted, all vCPUs: struct vpmu_guest. */
	struct vm_uncounted {
		_Atomic uint64_t n;
		_Atomic uint64_t last; /* the newest: vpmu_guest.denied_last */
	} denied, unsupported;
	enum vm_how how;
	char reason[VM_REASON_MAX];
};

/* vm_create - make a paused VM from its image or snapshot. -ENOEXEC: the image is invalid; other
 * errors come from the engine, or -ENOMEM. */
int vm_create(const struct vm_opts *o, struct vm **out, char *err, size_t errlen);

/* vm_destroy - stop and free @vm and delete the counters of its vCPUs. The caller keeps the
 * accounts. */
void vm_destroy(struct vm *vm);

/* vm_start - run @vm, or continue after vm_pause. vm_pause - on return no vCPU runs. */
int vm_start(struct vm *vm, char *err, size_t errlen);
void vm_pause(struct vm *vm);

/* vm_unplace - pause @vm and place its vCPUs nowhere until vm_start, so that their state can be
 * saved. -EOPNOTSUPP: its scheduler or engine does not support that (VMM_CAN_SAVE); nothing
 * changed. */
int vm_unplace(struct vm *vm);

enum vm_state vm_state(const struct vm *vm);
const char *vm_state_name(enum vm_state s); /* "paused", "running", "done", "failed" */

/*
 * vm_status - the exit status of a VM in state VM_DONE: the first status that is not 0, in order of
 * vCPUs. A VM with all vCPUs halted and no status is VM_FAILED.
 */
uint32_t vm_status(const struct vm *vm);

/* vm_how - how the VM ended; valid once it has. vm_how_name - "exited", "off", "reset",
 * "failed". */
enum vm_how vm_how(const struct vm *vm);
const char *vm_how_name(enum vm_how how);

/* vm_input - @n bytes for the serial port of a VM with a stock kernel; @flush as in serial_input().
 * Returns the number taken; -EOPNOTSUPP: the guest takes no input; -ENOMEM. */
long vm_input(struct vm *vm, const void *data, size_t n, bool flush);

/* ---- for the scheduler's threads, vcpu.c and devices.c ---- */

/* vm_end - the guest has ended the VM in this way (VM_HOW_OFF, VM_HOW_RESET). Otherwise as vm_fail.
 */
void vm_end(struct vm *vm, enum vm_how how);

/* vm_fail - the VM cannot continue. Its other vCPUs stop at their next exit or slice. The first
 * reason is kept. */
void vm_fail(struct vm *vm, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static inline bool vm_failing(struct vm *vm)
{
	return atomic_load_explicit(&vm->failing, memory_order_relaxed) != 0;
}

/* vm_vcpu_ended - @v will not run again. @v is current nowhere and its state is set. The thread
 * that ran it calls this before the scheduler lets go of it, so vm_destroy waits for the call. */
void vm_vcpu_ended(struct vcpu *v);
