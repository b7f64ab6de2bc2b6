// SPDX-License-Identifier: GPL-2.0-or-later
/* The life of VMs and vCPUs, see vm.h, and the two settings that the VMM and the library share: the
 * MSR filter and the reasons for MSR exits. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "preload/fds.h"
#include "preload/sys.h"
#include "preload/vm.h"
#include "vpmu/guest/guest.h"

#define DEFAULT_VM		   0ul /* KVM_X86_DEFAULT_VM, which Linux 6.1 has no name for */
#define CAP_DIRTY_LOG_RING_ACQ_REL 223 /* Linux 6.1 */

/* ---- the VMM's MSR filter ---- */

struct vm_filter {
	struct kvm_msr_filter f;
	uint8_t bitmaps[];
};

/* As many as KVM reads: whole longs. */
static size_t filter_bytes(const struct kvm_msr_filter_range *r)
{
	return ((size_t)r->nmsrs + 63) / 64 * 8;
}

/* 0, or the error of KVM for @f, or -ENOMEM. */
static int filter_copy(const struct kvm_msr_filter *f, struct vm_filter **out)
{
	struct vm_filter *copy;
	size_t bytes = 0;

	for (unsigned int i = 0; i < KVM_MSR_FILTER_MAX_RANGES; i++) {
		if (filter_bytes(&f->ranges[i]) > KVM_MSR_FILTER_MAX_BITMAP_SIZE)
			return -EINVAL;
		if (f->ranges[i].nmsrs && !f->ranges[i].bitmap)
			return -EFAULT;
		bytes += filter_bytes(&f->ranges[i]);
	}
	copy = malloc(sizeof(*copy) + bytes);
	if (!copy)
		return -ENOMEM;
	copy->f = *f;
	bytes = 0;
	for (unsigned int i = 0; i < KVM_MSR_FILTER_MAX_RANGES; i++) {
		if (!f->ranges[i].nmsrs)
			continue;
		memcpy(copy->bitmaps + bytes, f->ranges[i].bitmap, filter_bytes(&f->ranges[i]));
		copy->f.ranges[i].bitmap = copy->bitmaps + bytes;
		bytes += filter_bytes(&f->ranges[i]);
	}
	*out = copy;
	return 0;
}

int vm_set_filter(struct vm *vm, const struct kvm_msr_filter *f)
{
	struct vm_filter *copy = NULL;
	int copied = filter_copy(f, &copy), rc = copied;

	pthread_mutex_lock(&vm->lock);
	if (vm->state != PRE_ON)
		rc = sys_ioctl(vm_fd(vm), KVM_X86_SET_MSR_FILTER, (void *)f);
	else if (!copied)
		rc = vpmu_kvm_vm_filter(vm->kvm, &copy->f);
	/* vm_begin() would set a filter without the VMM's ranges. */
	if (rc >= 0 && copied && vm->state == PRE_WAITING)
		vm_refuse(vm, "its MSR filter cannot be kept");
	if (rc >= 0 && copy) {
		free(vm->filter);
		vm->filter = copy;
		copy = NULL;
	}
	pthread_mutex_unlock(&vm->lock);
	free(copy);
	return rc;
}

int vm_enable_cap(struct vm *vm, struct kvm_enable_cap *cap)
{
	int rc;

	pthread_mutex_lock(&vm->lock);
	if (cap->cap == KVM_CAP_X86_USER_SPACE_MSR && vm->state == PRE_ON)
		rc = vpmu_kvm_vm_msr_exits(vm->kvm, (unsigned int)cap->args[0]);
	else
		rc = sys_ioctl(vm_fd(vm), KVM_ENABLE_CAP, cap);
	if (rc >= 0 && cap->cap == KVM_CAP_X86_USER_SPACE_MSR)
		vm->msr_exits = (unsigned int)cap->args[0];
	if (rc >= 0 && cap->cap == KVM_CAP_SPLIT_IRQCHIP)
		vm->irqchip = true;
	/* QEMU with pmu=off */
	if (rc >= 0 && cap->cap == KVM_CAP_PMU_CAPABILITY && cap->args[0] & KVM_PMU_CAP_DISABLE &&
	    vm->state == PRE_WAITING)
		vm_refuse(vm, "the VMM switches the PMU off");
	/* What the library writes would not be transferred by a live migration. */
	if (rc >= 0 && vm->state == PRE_WAITING &&
	    (cap->cap == KVM_CAP_DIRTY_LOG_RING || cap->cap == CAP_DIRTY_LOG_RING_ACQ_REL))
		vm_refuse(vm, "its dirty pages are in a ring; expected no dirty-ring-size");
	pthread_mutex_unlock(&vm->lock);
	return rc;
}

void vm_unfit(struct vm *vm, const char *why)
{
	pthread_mutex_lock(&vm->lock);
	vm_refuse(vm, why);
	pthread_mutex_unlock(&vm->lock);
}

/* ---- VMs ---- */

/* Restore the VMM's own settings, as far as KVM allows. */
static void vm_undo(struct vm *vm)
{
	struct kvm_msr_filter none = {.flags = KVM_MSR_FILTER_DEFAULT_ALLOW};
	struct kvm_enable_cap exits = {.cap = KVM_CAP_X86_USER_SPACE_MSR, .args = {vm->msr_exits}};
	struct kvm_enable_cap pmu = {.cap = KVM_CAP_PMU_CAPABILITY};

	sys_ioctl(vm_fd(vm), KVM_X86_SET_MSR_FILTER, vm->filter ? &vm->filter->f : &none);
	sys_ioctl(vm_fd(vm), KVM_ENABLE_CAP, &exits);
	/* Only a VM without vCPUs gets its vPMU back. KVM before Linux 5.18 could not switch it
	 * off. */
	if (sys_ioctl(vm_fd(vm), KVM_CHECK_EXTENSION, (void *)KVM_CAP_PMU_CAPABILITY) <= 0 ||
	    !sys_ioctl(vm_fd(vm), KVM_ENABLE_CAP, &pmu))
		vm->opened = false;
}

/* Under vm->lock. */
void vm_refuse(struct vm *vm, const char *why)
{
	if (vm->state == PRE_REFUSED)
		return;
	if (vm->opened)
		vm_undo(vm);
	say("this VM gets no PMU from vpmu: %s%s", why,
	    vm->opened ? "; KVM's stays off, so it has no PMU at all" : "");
	atomic_store(&vm->state, PRE_REFUSED);
	atomic_fetch_sub(&process.watched, 1);
}

/* After the last vCPU and the VM's descriptors are closed. */
static void vm_free(struct vm *vm)
{
	if (vm->state != PRE_REFUSED)
		atomic_fetch_sub(&process.watched, 1);
	vpmu_kvm_vm_close(vm->kvm);
	sys_close(vm->dup);
	memory_free(vm);
	free(vm->filter);
	pthread_mutex_destroy(&vm->memory_lock);
	pthread_mutex_destroy(&vm->lock);
	free(vm);
}

void vm_created(int dev, int fd, unsigned long type)
{
	int rc = fds_reserve(fd);
	struct vm *vm = rc ? NULL : calloc(1, sizeof(*vm));

	if (!vm) {
		say("this VM gets no PMU from vpmu: its descriptor %d: %s", fd,
		    strerror(rc ? -rc : ENOMEM));
		return;
	}
	vm->fd = fd;
	vm->dup = sys_dup(fd);
	vm->fds = 1;
	vm->run_bytes = sys_ioctl(dev, KVM_GET_VCPU_MMAP_SIZE, NULL);
	pthread_mutex_init(&vm->lock, NULL);
	pthread_mutex_init(&vm->memory_lock, NULL);
	atomic_store(&process.vms, true);
	atomic_fetch_add(&process.watched, 1);
	if (vm->dup < 0 || vm->run_bytes < (int)sizeof(struct kvm_run))
		vm_refuse(vm, vm->dup < 0 ? strerror(-vm->dup) : "vCPUs cannot be mapped");
	else if (type != DEFAULT_VM)
		vm_refuse(vm, "it is a confidential VM, or of another type that is not known");
	fds_set(fd, FDS_VM, vm);
}

void vm_close(struct vm *vm)
{
	bool last;

	/* Its vCPUs go on, and so does their PMU. */
	pthread_mutex_lock(&vm->lock);
	vm->closed = true;
	last = !vm->vcpus;
	pthread_mutex_unlock(&vm->lock);
	if (last)
		vm_free(vm);
}

static int vm_real_ioctl(int fd, unsigned long request, void *arg)
{
	return sys_ioctl(fd, request, arg);
}

/* The first vCPU is about to be made. Under vm->lock. */
static void vm_begin(struct vm *vm)
{
	char why[400] = "";
	struct vpmu_kvm_vm_opts opts = {
		.size = sizeof(opts),
		.fd = vm->dup,
		.flags = VPMU_KVM_RDPMC | (process.immediate_exit ? 0 : VPMU_KVM_HAND_ON),
		.guest = &process.guest,
		.host = process_host(),
		.filter = vm->filter ? &vm->filter->f : NULL,
		.msr_exits = vm->msr_exits,
		.hva = memory_hva,
		.dirty = memory_dirty,
		.ioctl = vm_real_ioctl,
		.arg = vm,
		.vpmud = *process.vpmud ? process.vpmud : NULL,
	};
	int rc;

	if (process.unfit)
		return vm_refuse(vm, process.unfit);
	if (!vm->irqchip)
		return vm_refuse(vm, "its interrupt controllers are not in the kernel");
	if (sys_ioctl(vm_fd(vm), KVM_CHECK_EXTENSION, (void *)KVM_CAP_IMMEDIATE_EXIT) <= 0)
		return vm_refuse(vm, "this KVM has no immediate_exit");
	if (!opts.host)
		return vm_refuse(vm, strerror(ENOMEM));
	vm->opened = true;
	rc = vpmu_kvm_vm_open(&opts, &vm->kvm, why, sizeof(why));
	if (rc)
		return vm_refuse(vm, *why ? why : strerror(-rc));
	atomic_store(&vm->state, PRE_ON);
}

/* ---- vCPUs ---- */

static void vcpu_free(struct vcpu *v)
{
	if (v->run)
		sys_unmap_run(v->run, v->run_bytes);
	if (v->dup >= 0)
		sys_close(v->dup);
	pthread_mutex_destroy(&v->lock);
	free(v);
}

/* Under vm->lock. */
static int vcpu_open(struct vm *vm, int fd, unsigned int id)
{
	struct vcpu *v = calloc(1, sizeof(*v));
	struct vpmu_kvm_vcpu_opts opts = {.size = sizeof(opts), .id = id};
	char why[400] = "";
	void *run = NULL;
	int rc;

	if (!v)
		return -ENOMEM;
	v->vm = vm;
	v->fd = fd;
	v->id = id;
	v->run_bytes = (size_t)vm->run_bytes;
	v->fds = 1;
	v->dup = -1;
	pthread_mutex_init(&v->lock, NULL);
	rc = fds_reserve(fd);
	if (rc)
		goto err;
	rc = v->dup = sys_dup(fd);
	if (vm->state != PRE_ON)
		goto out;
	if (rc >= 0)
		rc = sys_map_run(v->dup, v->run_bytes, &run);
	if (rc)
		goto err;
	v->run = run;
	opts.fd = v->dup;
	opts.run = v->run;
	rc = vpmu_kvm_vcpu_open(vm->kvm, &opts, &v->kvm, why, sizeof(why));
	if (rc) {
		say("vCPU %u: %s", id, *why ? why : strerror(-rc));
		goto err;
	}
	v->gp = vpmu_kvm_vcpu_guest(v->kvm)->cfg.gp;
out:
	v->next = vm->vcpus;
	vm->vcpus = v;
	fds_set(fd, FDS_VCPU, v);
	return 0;

err:
	vcpu_free(v);
	return rc;
}

int vm_create_vcpu(struct vm *vm, unsigned long id)
{
	int fd, rc = 0;

	pthread_mutex_lock(&vm->lock);
	if (vm->state == PRE_WAITING)
		vm_begin(vm);
	fd = sys_ioctl(vm_fd(vm), KVM_CREATE_VCPU, (void *)id);
	/* A refused VM's vCPUs are followed, too: its VMM has seen a PMU (cpuid.c, msrs.c). */
	if (fd >= 0)
		rc = vcpu_open(vm, fd, (unsigned int)id);
	pthread_mutex_unlock(&vm->lock);
	if (rc) {
		/* The VMM is told that there is none: a guest must not have a CPU whose PMU is not
		 * the one that CPUID shows. */
		sys_close(fd);
		return rc;
	}
	return fd;
}

bool vcpu_close(struct vcpu *v)
{
	struct vm *vm = v->vm;
	bool last;

	pthread_mutex_lock(&vm->lock);
	if (vpmu_kvm_vcpu_close(v->kvm)) {
		pthread_mutex_unlock(&vm->lock);
		return false;
	}
	for (struct vcpu **p = &vm->vcpus; *p; p = &(*p)->next) {
		if (*p != v)
			continue;
		*p = v->next;
		break;
	}
	last = vm->closed && !vm->vcpus;
	pthread_mutex_unlock(&vm->lock);
	vcpu_free(v);
	if (last)
		vm_free(vm);
	return true;
}
