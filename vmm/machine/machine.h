/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Everything vpmu-vmm runs: the tenants, the VMs by name, and the backends, made when VMs need
 * them: an engine, its scheduler and its source of counts. Control thread, unless noted. Errors:
 * -errno and one line in @err.
 */
#pragma once

#include "service/tenant/tenant.h"
#include "vmm/config/config.h"
#include "vmm/vm/vm.h"

struct machine;

/* A VM, from its adding to its removal; it stays after it has ended. */
struct machine_vm {
	struct machine *machine;
	char *name;
	struct node *node;  /* node->user is this */
	const char *engine; /* its name */
	unsigned int can;   /* VMM_CAN_* of the engine */
	enum vpmu_guest_model pmu;
	unsigned int vcpus, max_events;
	bool kernel;	    /* it boots a stock kernel: its vCPUs share one console */
	uint64_t ram_bytes; /* counted in machine.ram_bytes; 0 once it has ended */
	/* as configured, for snapshots; allow and deny may be NULL */
	char *image, *args, *allow, *deny;
	enum vpmu_policy_tier policy;
	enum vm_lbr lbr;
	unsigned int weight; /* among the VMs and tenants of its tenant */
	struct vm *vm;	     /* NULL once it has ended */
	void *user;	     /* the caller's: machine_opts.adding */
	/* once it has ended */
	enum vm_state state;
	enum vm_how how;
	uint32_t status;
	char reason[VM_REASON_MAX];
	struct machine_uncounted {
		uint64_t n, last;
	} denied, unsupported; /* before: machine_vm_denied, machine_vm_unsupported */
	uint64_t refused;      /* before: machine_vm_refused */
	/* VM_FAILED: the last branches by vCPU, NULL for a vCPU without records. Otherwise NULL */
	struct vcpu_branches **branches;
	/* private to vmm/machine */
	struct vpmu_policy *policy_mem;
	_Atomic bool over;
	struct machine_vm *next;
};

struct machine_opts {
	const struct host_config *host; /* copied; its strings are not */

	/* @vm is being added: set vm->user. -errno and one line in @err: it is not added. freed is
	 * called for each VM with a user, when nothing uses it any more. Both may be NULL. */
	int (*adding)(struct machine_vm *vm, const struct vm_config *c, char *err, size_t errlen,
		      void *arg);
	void (*freed)(struct machine_vm *vm, void *arg);
	/* A line of a console, raw bytes of the guest. Thread of the vCPU. */
	void (*console)(const struct machine_vm *vm, unsigned int vcpu, const char *line,
			size_t len, void *arg);
	/* A byte that a stock kernel sent to its serial port. Thread of the vCPU; may be NULL. */
	void (*sent)(const struct machine_vm *vm, uint8_t byte, void *arg);
	/* Call machine_reap soon. Any thread. */
	void (*wake)(void *arg);
	/* @vm has ended; state, status and reason are set. */
	void (*ended)(const struct machine_vm *vm, void *arg);
	/* One line for the operator, such as which engine "auto" chose. */
	void (*note)(const char *line, void *arg);
	void *arg;
};

int machine_create(const struct machine_opts *o, struct machine **out, char *err, size_t errlen);
/* machine_destroy - stop and remove every VM, then everything else. */
void machine_destroy(struct machine *m);

struct tenants *machine_tenants(struct machine *m);

/* machine_vm_add - create the VM that @c describes (checked by vm_config_check), and its tenant if
 * that is new. It stays paused until machine_vm_start. */
int machine_vm_add(struct machine *m, const struct vm_config *c, struct machine_vm **out, char *err,
		   size_t errlen);
/*
 * machine_unpack - read and unpack the kernel of the file @path on a thread of its own, before a VM
 * with that kernel is added; NULL: no memory. machine_opts.wake is called when machine_unpacked
 * becomes true; then machine_unpack_take gives the kernel to the next machine_vm_add of that path,
 * or fails with -errno and one line in @err. machine_unpack_leave discards it; the thread may
 * continue for a while. Either frees @u.
 */
struct machine_unpack *machine_unpack(struct machine *m, const char *path);
bool machine_unpacked(struct machine_unpack *u);
int machine_unpack_take(struct machine_unpack *u, char *err, size_t errlen);
void machine_unpack_leave(struct machine_unpack *u);
/* machine_unpack_unused - no VM was added: forget the kernel that was taken for it. */
void machine_unpack_unused(struct machine *m);
/* machine_vm_restore - machine_vm_add, but @load gives the VM its contents (vm_opts.load), and
 * c->image is not used. -EOPNOTSUPP: VMs of this engine cannot be restored. */
int machine_vm_restore(struct machine *m, const struct vm_config *c,
		       int (*load)(struct vm *vm, void *arg, char *err, size_t errlen),
		       void *load_arg, struct machine_vm **out, char *err, size_t errlen);
/* machine_vm_remove - stop the VM if it runs, and remove it. Its counts are added to its tenant's.
 * Cannot fail. */
void machine_vm_remove(struct machine_vm *vm);
struct machine_vm *machine_vm_find(const struct machine *m, const char *name);
struct machine_vm *machine_vms(const struct machine *m); /* first; ->next. In order of adding */

/* machine_vm_start, machine_vm_pause - do nothing if the VM runs (is paused) already or has
 * ended. */
int machine_vm_start(struct machine_vm *vm, char *err, size_t errlen);
void machine_vm_pause(struct machine_vm *vm);
enum vm_state machine_vm_state(const struct machine_vm *vm);
/* machine_vm_denied - number of selections of events that the policy denies; .last: the newest
 * event, as in vpmu_guest.denied_last.
 * machine_vm_unsupported - number of counters that the guest started with an event that the host
 * cannot count. */
struct machine_uncounted machine_vm_denied(const struct machine_vm *vm);
struct machine_uncounted machine_vm_unsupported(const struct machine_vm *vm);

/* machine_vm_refused - number of guest counters that were not started, because its quota of
 * distinct events was used up or no slot was free for guests. */
uint64_t machine_vm_refused(const struct machine_vm *vm);
/* machine_tenant_weight - the weight of the VM's tenant among its siblings. */
unsigned int machine_tenant_weight(const struct machine_vm *vm);
/* machine_tenant_max_events - the quota of distinct events of the VM's tenant, all its VMs. */
unsigned int machine_tenant_max_events(const struct machine_vm *vm);
/* machine_set_vm - change the VM's weight (vmm/vm/share.h) and its quota of distinct events
 * (vpmu/quota.h); 0: unchanged. machine_set_tenant - those of @tenant, a tenant's node or the one
 * of "/host". -ENOMEM. */
void machine_set_vm(struct machine_vm *vm, unsigned int weight, unsigned int max_events);
int machine_set_tenant(struct machine *m, const struct node *tenant, unsigned int weight,
		       unsigned int max_events);

/* machine_launch - let the modelled pCPUs run from now on. VMs started before all begin together:
 * with one pCPU the run then depends on the seed alone. */
int machine_launch(struct machine *m, char *err, size_t errlen);

/* machine_step - before machine_launch, for tests: run up to @slices slices of the modelled pCPUs
 * on the caller's thread (runner_step). Returns the number run. */
uint64_t machine_step(struct machine *m, uint64_t slices);

/* machine_reap - handle the VMs that have ended: free their resources and call ended(). */
void machine_reap(struct machine *m);

/*
 * machine_ticks - returns true if machine_tick must be called every MACHINE_TICK_MS: there are KVM
 * vCPUs. (Modelled pCPUs tick by themselves.)
 */
#define MACHINE_TICK_MS 20
bool machine_ticks(const struct machine *m);
void machine_tick(struct machine *m);

/* The backends: the modelled pCPUs of the emulator, and vCPU threads of KVM with perf events. */
#define BACKEND_EMU "emulator"
#define BACKEND_KVM "kvm"

/* A capability that this host has or lacks. */
struct machine_fact {
	const char *what, *backend, *why;
	bool ok;
};

/* machine_describe - for `check`: calls @fn for each fact. */
void machine_describe(struct machine *m, void (*fn)(const struct machine_fact *f, void *arg),
		      void *arg);
