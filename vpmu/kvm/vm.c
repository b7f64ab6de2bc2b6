// SPDX-License-Identifier: LGPL-2.1-or-later
/* A VM of vpmu/kvm.h: what is done once, before its vCPUs. */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "vpmu/account.h"
#include "vpmu/host.h"
#include "vpmu/kvm/priv.h"
#include "vpmu/util/fail.h"

static const struct {
	int cap;
	const char *name;
	const char *since;
} vm_caps[] = {
	{KVM_CAP_IMMEDIATE_EXIT, "KVM_CAP_IMMEDIATE_EXIT", "4.11"},
	{KVM_CAP_X86_USER_SPACE_MSR, "KVM_CAP_X86_USER_SPACE_MSR", "5.10"},
	{KVM_CAP_X86_MSR_FILTER, "KVM_CAP_X86_MSR_FILTER", "5.10"},
};

/* MSRs of the other vendor: KVM answers them without a fault, so they are trapped to be #GP. A VMM
 * with many ranges does without. */
static const struct vpmu_msr_range *vm_spare(enum vpmu_guest_model model)
{
	static const struct vpmu_msr_range of_intel[] = {{0xc0010000, 8}, {0xc0010200, 32}, {0, 0}};
	static const struct vpmu_msr_range of_amd[] = {
		{0x0c1, 10}, {0x186, 10}, {0x309, 0x8a}, {0x4c1, 10}, {0, 0}};

	switch (model) {
	case VPMU_GUEST_INTEL_V2:
	case VPMU_GUEST_INTEL_V3:
	case VPMU_GUEST_INTEL_V4:
	case VPMU_GUEST_INTEL_V5:
		return of_intel;
	default:
		return of_amd;
	}
}

static int vm_check(const struct vpmu_kvm_vm *vm, char *why, size_t whylen)
{
	for (size_t i = 0; i < sizeof(vm_caps) / sizeof(vm_caps[0]); i++)
		if (vm->port.ioctl(vm->port.fd, KVM_CHECK_EXTENSION,
				   (void *)(unsigned long)vm_caps[i].cap) <= 0)
			return fail(-EOPNOTSUPP, why, whylen,
				    "KVM lacks %s; expected a KVM of Linux %s or later",
				    vm_caps[i].name, vm_caps[i].since);
	return 0;
}

static int vm_prepare(struct vpmu_kvm_vm *vm, char *why, size_t whylen)
{
	const struct vpmu_kvm_vm_opts *o = &vm->opts;
	int rc = vm_check(vm, why, whylen);

	if (rc)
		return rc;
	rc = kvm_port_vpmu_off(&vm->port);
	if (rc)
		return fail(rc == -EINVAL ? -EBUSY : rc, why, whylen,
			    "KVM's vPMU cannot be switched off: %s",
			    rc == -EINVAL ? "the VM has a vCPU" : strerror(-rc));
	rc = kvm_port_msr_exits(&vm->port, o->msr_exits);
	if (!rc)
		rc = vpmu_kvm_vm_filter(vm, o->filter);
	if (rc)
		return fail(rc, why, whylen, "MSR filter: %s", strerror(-rc));
	return kvm_alarm_install(o->alarm_signal ? o->alarm_signal : SIGRTMIN + 5, why, whylen);
}

int vpmu_kvm_vm_open(const struct vpmu_kvm_vm_opts *opts, struct vpmu_kvm_vm **out, char *why,
		     size_t whylen)
{
	struct vpmu_kvm_vm *vm;
	int rc;

	if (opts->size != sizeof(*opts) || opts->fd < 0 || !opts->guest || !opts->host ||
	    (unsigned int)opts->guest->model >= VPMU_GUEST_MODELS ||
	    (opts->flags & VPMU_KVM_RDPMC && !opts->hva))
		return fail(-EINVAL, why, whylen,
			    "options of the VM are invalid; expected size, fd, guest, host, and "
			    "hva for RDPMC");
	vm = calloc(1, sizeof(*vm));
	if (!vm)
		return fail(-ENOMEM, why, whylen, "out of memory");
	kvm_thread_use();
	kvm_thread_start_rcu();
	vm->opts = *opts;
	vm->opts.filter = NULL; /* not kept, as vpmud */
	vm->opts.vpmud = NULL;
	if (!vm->opts.tick_ns)
		vm->opts.tick_ns = 10000000;
	vm->cfg = *opts->guest;
	vm->cfg.rdpmc = opts->flags & VPMU_KVM_RDPMC;
	vm->cfg.no_lbr = true;
	vm->opts.guest = &vm->cfg;
	vm->ranges = vpmu_guest_msr_ranges(vm->cfg.model);
	kvm_port_vm_init(&vm->port, opts->fd, opts->ioctl);
	if (vm->cfg.rdpmc)
		kvm_port_sync_regs(&vm->port);
	pthread_mutex_init(&vm->search_lock, NULL);
	vm->opts.filter = opts->filter;
	rc = vm_prepare(vm, why, whylen);
	vm->opts.filter = NULL;
	/* Without it (no thread, no file), events of the vCPUs' threads count. */
	if (!rc && opts->vpmud && share_open(opts->vpmud, &vm->share))
		vm->share = NULL;
	if (!rc) {
		rc = vpmu_account_create(opts->parent ? opts->parent : vpmu_host_root(opts->host),
					 vm, &vm->account);
		if (rc)
			fail(rc, why, whylen, "account of the VM: %s", strerror(-rc));
	}
	if (rc) {
		share_close(vm->share);
		kvm_port_vm_fini(&vm->port);
		pthread_mutex_destroy(&vm->search_lock);
		free(vm);
		return rc;
	}
	*out = vm;
	return 0;
}

void vpmu_kvm_vm_close(struct vpmu_kvm_vm *vm)
{
	if (!vm)
		return;
	kvm_thread_use();
	vpmu_account_del(vm->account);
	share_close(vm->share);
	kvm_port_vm_fini(&vm->port);
	pthread_mutex_destroy(&vm->search_lock);
	free(vm);
}

int vpmu_kvm_vm_filter(struct vpmu_kvm_vm *vm, const struct kvm_msr_filter *theirs)
{
	return kvm_port_filter(&vm->port, vm->ranges, vm_spare(vm->cfg.model), theirs);
}

int vpmu_kvm_vm_msr_exits(struct vpmu_kvm_vm *vm, unsigned int reasons)
{
	return kvm_port_msr_exits(&vm->port, reasons);
}

bool vpmu_kvm_vm_traps(const struct vpmu_kvm_vm *vm, uint32_t msr)
{
	for (const struct vpmu_msr_range *r = vm->ranges; r->count; r++)
		if (msr - r->base < r->count)
			return true;
	return false;
}

struct vpmu_account *vpmu_kvm_vm_account(struct vpmu_kvm_vm *vm)
{
	return vm->account;
}

void vpmu_kvm_vm_reset(struct vpmu_kvm_vm *vm)
{
	pthread_mutex_lock(&vm->search_lock);
	vm->searches = vm->looks = 0;
	vm->nr_searched = vm->nr_patched = 0;
	pthread_mutex_unlock(&vm->search_lock);
	kvm_port_forget_sites(&vm->port);
}
