// SPDX-License-Identifier: GPL-2.0-or-later
/* Making a VM from an image or a snapshot, starting and stopping it, and how it ended. See vm.h. */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "vpmu/util/fail.h"
#include "vmm/engine/simd.h"
#include "vmm/boot/rdpmc.h"
#include "vmm/vm/cpuid.h"
#include "vmm/vm/ram.h"
#include "vmm/vm/vm.h"

/* ---- creation ---- */

static int engine_failed(const struct vm *vm, int ret, const char *what, char *err, size_t errlen)
{
	return fail(ret, err, errlen, "vm %s: engine %s: %s: %s", vm->name, vm->ops->name, what,
		    strerror(-ret));
}

/* How the VM starts. */
struct boot {
	const struct boot_protocol *protocol; /* NULL: from a snapshot */
	struct boot_params params;
	uint64_t entry;
	struct rdpmc_sites rdpmc; /* the rewritten instructions */
};

/* Set CPUID and the registers of the boot protocol. */
static int boot_vcpu(struct vcpu *v, const struct boot *boot, const struct vmm_engine *engine,
		     char *err, size_t errlen)
{
	const struct vmm_engine_ops *ops = v->vm->ops;
	/* KVM's guests get the frequency of the TSC from their paravirtual clock. */
	struct vmm_cpuid_host host = {0};
	struct kvm_cpuid_entry2 cpuid[VMM_CPUID_MAX];
	struct kvm_regs regs;
	struct kvm_sregs sregs;
	size_t n;
	int ret;

	/* CPUID first: KVM checks control register bits against it. */
	if (ops->can & VMM_CAN_WAKE) {
		host.tsc_khz = VMM_TSC_HZ / 1000;
		host.timer_hz = VMM_TSC_HZ;
	}
	ops->supported_cpuid(engine, &host.supported, &host.nr_supported);
	host.simd = vmm_simd_host();
	host.svm = v->vm->svm;
	n = v->vm->devices ? vmm_cpuid_linux(v->guest, v->id, v->vm->nr_vcpus, &host, cpuid)
			   : vmm_cpuid(v->guest, v->id, ops->can & VMM_CAN_LAPIC, cpuid);
	ret = ops->set_cpuid(v->ev, cpuid, n);
	if (ret)
		return engine_failed(v->vm, ret, "setting CPUID", err, errlen);
	/* The kernel starts its other vCPUs. */
	if (!boot->protocol || (boot->protocol->platform && v->id))
		return 0;
	ret = ops->get_sregs(v->ev, &sregs);
	if (ret)
		return engine_failed(v->vm, ret, "reading registers", err, errlen);
	boot->protocol->registers(boot->entry, v->id, &boot->params, &regs, &sregs);
	ret = ops->set_sregs(v->ev, &sregs);
	if (!ret)
		ret = ops->set_regs(v->ev, &regs);
	if (ret)
		return engine_failed(v->vm, ret, "setting registers", err, errlen);
	return 0;
}

/* If RDPMC cannot exit from the engine, a kernel with a PMU must not execute it: find its RDPMC
 * instructions. */
static int find_rdpmc(const struct vm *vm, const struct vm_opts *o, struct rdpmc_sites *sites,
		      char *err, size_t errlen)
{
	int ret;

	/* The code of other images cannot be located: there RDPMC stays #GP. */
	if (o->protocol != &boot_linux || o->pmu.model == VPMU_GUEST_NONE ||
	    !(vm->ops->can & VMM_CAN_RDPMC_SITES))
		return 0;
	ret = rdpmc_find(o->image, sites, err, errlen);
	if (!ret)
		rdpmc_rewrite(&vm->ram, sites);
	return ret;
}

/* Returns true if the snapshot's kernel was rewritten when it booted: otherwise it would have no
 * PMU. */
static bool restored_rdpmc(const struct vm *vm, const struct vm_opts *o)
{
	return o->load && vm->devices && o->pmu.model != VPMU_GUEST_NONE &&
	       vm->ops->can & VMM_CAN_RDPMC_SITES;
}

static int create_vcpu(struct vm *vm, unsigned int id, const struct vm_opts *o,
		       const struct boot *boot, char *err, size_t errlen)
{
	struct vcpu *v = &vm->vcpus[id];
	struct vpmu_guest_cfg cfg = o->pmu;
	struct vpmu_hostpmu *pmu = NULL;
	int ret;

	cfg.svm = o->svm;
	cfg.rdpmc = vm->ops->can & VMM_CAN_RDPMC || boot->rdpmc.nr || restored_rdpmc(vm, o);
	v->vm = vm;
	v->id = id;
	v->away = true;
	v->guest = calloc(1, sizeof(*v->guest));
	if (!v->guest)
		return fail(-ENOMEM, err, errlen, "vm %s: out of memory", vm->name);
	v->ops = vm->ops;
	ret = vm->ops->vcpu_create(vm->evm, id, &v->ev);
	if (ret)
		return engine_failed(vm, ret, "creating a vCPU", err, errlen);
	ret = vpmu_context_init(&v->ctx, o->vcpu_accounts[id], o->account);
	if (ret)
		return engine_failed(vm, ret, "accounts", err, errlen);
	v->ctx.where = vcpu_where;
	v->ctx.quota = vm->quota.max || vm->quota.parent ? &vm->quota : NULL;
	ret = vcpu_devices(v);
	if (ret)
		return fail(ret, err, errlen, "vm %s: devices: %s", vm->name, strerror(-ret));
	ret = vm->sched->ops->vcpu_init(vm->sched, v, &pmu, err, errlen);
	if (ret)
		return ret;
	ret = vpmu_guest_init(v->guest, &cfg, &v->ctx, pmu);
	if (ret)
		return fail(ret, err, errlen, "vm %s: PMU model %s with gp = %u, fixed = %u: %s",
			    vm->name, vpmu_guest_model_name(o->pmu.model), o->pmu.gp, o->pmu.fixed,
			    strerror(-ret));
	return boot_vcpu(v, boot, o->engine, err, errlen);
}

static void free_vm(struct vm *vm)
{
	for (unsigned int i = 0; vm->vcpus && i < vm->nr_vcpus; i++) {
		struct vcpu *v = &vm->vcpus[i];

		if (v->vm)
			vm->sched->ops->vcpu_fini(vm->sched, v);
		vpmu_context_fini(&v->ctx);
		if (v->ev)
			vm->ops->vcpu_destroy(v->ev);
		free(v->last);
		/* RCU readers may still use its consumers. */
		if (v->guest)
			vpmu_rcu_free(v->guest);
	}
	if (vm->evm)
		vm->ops->vm_destroy(vm->evm);
	vm_ram_unmap(&vm->ram);
	vm_devices_free(vm->devices);
	free(vm->vcpus);
	free(vm->name);
	free(vm);
}

int vm_create(const struct vm_opts *o, struct vm **out, char *err, size_t errlen)
{
	struct boot boot = {.protocol = o->load ? NULL : o->protocol,
			    .params = {.args = o->args,
				       .initrd = o->initrd,
				       .rng_seed = o->rng_seed,
				       .nr_vcpus = o->vcpus,
				       .lapic = o->ops->can & VMM_CAN_LAPIC}};
	struct vm *vm = calloc(1, sizeof(*vm));
	int ret = 0;

	if (!vm)
		return fail(-ENOMEM, err, errlen, "vm %s: out of memory", o->name);
	vm->ops = o->ops;
	vm->sched = o->sched;
	share_init(&vm->share, o->share, o->weight ? o->weight : SHARE_WEIGHT_DEFAULT);
	vm->console = o->console;
	vm->sent = o->sent;
	vm->ended = o->ended;
	vm->join = o->join;
	vm->arg = o->arg;
	vm->nr_vcpus = o->vcpus;
	vm->svm = o->svm;
	vm->name = strdup(o->name);
	vm->vcpus = aligned_alloc(_Alignof(struct vcpu), o->vcpus * sizeof(*vm->vcpus));
	if (vm->vcpus)
		memset(vm->vcpus, 0, o->vcpus * sizeof(*vm->vcpus));
	atomic_init(&vm->live, o->vcpus);
	atomic_init(&vm->failing, 0);
	vm->quota.max = o->max_events;
	vm->quota.parent = o->quota;
	atomic_init(&vm->denied.n, 0);
	atomic_init(&vm->denied.last, 0);
	atomic_init(&vm->unsupported.n, 0);
	atomic_init(&vm->unsupported.last, 0);
	if (!vm->name || !vm->vcpus) {
		ret = fail(-ENOMEM, err, errlen, "vm %s: out of memory", o->name);
		goto fail;
	}
	if (o->protocol && o->protocol->platform) {
		if (!(o->ops->can & VMM_CAN_IRQCHIP)) {
			ret = fail(-EOPNOTSUPP, err, errlen,
				   "engine %s has no interrupt controllers, which a kernel needs; "
				   "expected an image",
				   o->ops->name);
			goto fail;
		}
		vm->devices = vm_devices_new(vm);
		if (!vm->devices) {
			ret = fail(-ENOMEM, err, errlen, "vm %s: out of memory", o->name);
			goto fail;
		}
		vm->devices->exit_port = o->protocol->exit_port;
	}
	vm_ram_layout(o->memory_bytes, &vm->ram);
	/* The image first: the most likely error, and nothing to undo yet. */
	if (!o->load && !boot.protocol)
		ret = boot_find(o->image, &boot.protocol, err, errlen);
	if (!ret && boot.protocol)
		ret = boot.protocol->check(o->image, &vm->ram, &boot.params, err, errlen);
	if (ret)
		goto fail;
	ret = vm_ram_map(&vm->ram, o->ops->can & VMM_CAN_HUGE_PAGES);
	if (ret) {
		fail(ret, err, errlen, "vm %s: %llu MiB of guest memory: %s", vm->name,
		     (unsigned long long)o->memory_bytes >> 20, strerror(-ret));
		goto fail;
	}
	if (boot.protocol)
		ret = boot.protocol->load(o->image, &vm->ram, &boot.params, &boot.entry, err,
					  errlen);
	if (ret)
		goto fail;
	if (boot.protocol)
		ret = find_rdpmc(vm, o, &boot.rdpmc, err, errlen);
	if (ret)
		goto fail;
	ret = vm->ops->vm_create(o->engine, &vm->ram, &vm->evm);
	if (!ret)
		ret = vm->ops->vm_trap_msrs(vm->evm, vpmu_guest_msr_ranges(o->pmu.model));
	if (!ret && (o->irqchip || vm->devices)) {
		ret = vm->ops->irqchip_create(vm->evm);
		vm->irqchip = !ret;
	}
	if (!ret && boot.rdpmc.nr)
		ret = vm->ops->rdpmc_sites(vm->evm, boot.rdpmc.rip, boot.rdpmc.nr);
	if (ret) {
		engine_failed(vm, ret, "creating the VM", err, errlen);
		goto fail;
	}
	for (unsigned int i = 0; i < o->vcpus; i++) {
		ret = create_vcpu(vm, i, o, &boot, err, errlen);
		if (ret)
			goto fail;
	}
	ret = o->load ? o->load(vm, o->load_arg, err, errlen) : 0;
	if (ret)
		goto fail;
	for (unsigned int i = 0; i < o->vcpus; i++)
		vcpu_note_uncounted(&vm->vcpus[i]);
	*out = vm;
	return 0;
fail:
	free_vm(vm);
	return ret;
}

void vm_destroy(struct vm *vm)
{
	vm->sched->ops->remove(vm->sched, vm);
	free_vm(vm);
}

/* ---- running ---- */

int vm_start(struct vm *vm, char *err, size_t errlen)
{
	int ret;

	if (vm->started)
		return 0;
	vm->started = true;
	ret = vm->sched->ops->start(vm->sched, vm, err, errlen);
	if (ret)
		vm->started = false;
	return ret;
}

void vm_pause(struct vm *vm)
{
	if (!vm->started)
		return;
	vm->sched->ops->pause(vm->sched, vm);
	vm->started = false;
}

int vm_unplace(struct vm *vm)
{
	int ret =
		vm->ops->can & VMM_CAN_SAVE ? vm->sched->ops->unplace(vm->sched, vm) : -EOPNOTSUPP;

	if (!ret)
		vm->started = false;
	return ret;
}

/* Returns true if the caller is the first to end the VM; it must call vm_settle(). */
static bool first_to_end(struct vm *vm)
{
	int none = 0;

	return atomic_compare_exchange_strong(&vm->failing, &none, 1);
}

/* Reason and how are set: stop all vCPUs. */
static void vm_settle(struct vm *vm)
{
	/* Release: pairs with the acquire in vm_how; a reader of 2 sees the reason. */
	atomic_store_explicit(&vm->failing, 2, memory_order_release);
	for (unsigned int i = 0; i < vm->nr_vcpus; i++) {
		vm->ops->kick(vm->vcpus[i].ev);
		if (vm->irqchip)
			vm->sched->ops->wake(vm->sched, &vm->vcpus[i]);
	}
}

void vm_fail(struct vm *vm, const char *fmt, ...)
{
	va_list ap;

	if (!first_to_end(vm))
		return;
	va_start(ap, fmt);
	vsnprintf(vm->reason, sizeof(vm->reason), fmt, ap);
	va_end(ap);
	vm->how = VM_HOW_FAILED;
	vm_settle(vm);
}

void vm_end(struct vm *vm, enum vm_how how)
{
	if (!first_to_end(vm))
		return;
	vm->how = how;
	vm_settle(vm);
}

void vm_vcpu_ended(struct vcpu *v)
{
	struct vm *vm = v->vm;
	bool any = false;

	/* Acquire and release: the last vCPU sees the writes of all others. */
	if (atomic_fetch_sub_explicit(&vm->live, 1, memory_order_acq_rel) != 1)
		return;
	for (unsigned int i = 0; i < vm->nr_vcpus; i++)
		any |= vm->vcpus[i].state != VCPU_HALTED;
	if (!any)
		vm_fail(vm, "%s halted with nothing that could wake %s",
			vm->nr_vcpus > 1 ? "all vCPUs" : "vCPU 0",
			vm->nr_vcpus > 1 ? "them" : "it");
	/* Release: pairs with the acquire in vm_state. */
	atomic_store_explicit(&vm->over, true, memory_order_release);
	vm->ended(vm, vm->arg);
}

/* ---- state ---- */

enum vm_how vm_how(const struct vm *vm)
{
	/* Acquire: pairs with the release in vm_settle(). */
	return atomic_load_explicit(&vm->failing, memory_order_acquire) == 2 ? vm->how
									     : VM_HOW_EXITED;
}

const char *vm_how_name(enum vm_how how)
{
	static const char *const names[] = {"exited", "off", "reset", "failed"};

	return names[how];
}

enum vm_state vm_state(const struct vm *vm)
{
	/* Acquire: pairs with the release in vm_vcpu_ended; over implies that the outcome is
	 * visible. */
	if (!atomic_load_explicit(&vm->over, memory_order_acquire))
		return vm->started ? VM_RUNNING : VM_PAUSED;
	return vm_how(vm) == VM_HOW_FAILED ? VM_FAILED : VM_DONE;
}

const char *vm_state_name(enum vm_state s)
{
	static const char *const names[] = {"paused", "running", "done", "failed"};

	return names[s];
}

uint32_t vm_status(const struct vm *vm)
{
	for (unsigned int i = 0; i < vm->nr_vcpus; i++)
		if (vm->vcpus[i].state == VCPU_EXITED && vm->vcpus[i].status)
			return vm->vcpus[i].status;
	return 0;
}

/* ---- input ---- */

long vm_input(struct vm *vm, const void *data, size_t n, bool flush)
{
	return vm->devices ? serial_input(&vm->devices->serial, data, n, flush) : -EOPNOTSUPP;
}
