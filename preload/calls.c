// SPDX-License-Identifier: GPL-2.0-or-later
/* What the interposed functions do, see vm.h: finds the VM or vCPU of a descriptor, and passes the
 * call on as it came if it is not one of those that concern a PMU. */
#include <errno.h>
#include <signal.h>
#include <string.h>

#include "preload/fds.h"
#include "preload/sys.h"
#include "preload/vm.h"
#include "vpmu/kvm/quick.h"

/* Linux 6.8; begins as KVM_SET_USER_MEMORY_REGION does. */
#define SET_USER_MEMORY_REGION2 _IOC(_IOC_WRITE, KVMIO, 0x49, 160)

/* The library has the filter's accesses exit, the VMM has not: to its guest they are #GP. */
static bool call_is_unasked(const struct vcpu *v)
{
	const struct kvm_run *run = v->run;

	return (run->exit_reason == KVM_EXIT_X86_RDMSR || run->exit_reason == KVM_EXIT_X86_WRMSR) &&
	       run->msr.reason == KVM_MSR_EXIT_REASON_FILTER &&
	       !(atomic_load(&v->vm->msr_exits) & KVM_MSR_EXIT_REASON_FILTER);
}

/*
 * The vCPU that this thread is bound to by vpmu_kvm_enter, and its descriptor. Until this thread is
 * bound to another one, or closes one, the object stays, whoever closes its descriptors
 * (vpmu_kvm_vcpu_close). So its KVM_RUN needs no reference of the table, which is two atomic
 * operations on each exit.
 */
static const uintptr_t call_none; /* no object's */
static __thread struct {
	int fd, tid;
	const uintptr_t *word; /* of fd in the table, while it is obj */
	uintptr_t obj;
	struct vcpu *v;
} call_self = {.word = &call_none, .obj = 1};

static void call_unbind(void)
{
	call_self.word = &call_none;
}

/* @fd is that vCPU, and no other thread has run it since. */
static inline bool call_is_bound(int fd)
{
	return call_self.fd == fd &&
	       __atomic_load_n(call_self.word, __ATOMIC_RELAXED) == call_self.obj &&
	       atomic_load_explicit(&call_self.v->tid, memory_order_relaxed) == call_self.tid;
}

static bool call_is_on(const struct vcpu *v)
{
	return v->kvm && atomic_load_explicit(&v->vm->state, memory_order_relaxed) == PRE_ON;
}

/* KVM_RUN of @v. @left: it was done already, after kvm_quick_enter, and returned @rc. */
static int call_run(struct vcpu *v, bool left, int rc)
{
	enum vpmu_kvm_next next;

	if (!call_is_on(v)) {
		if (v->kvm) /* refused while it was bound: no alarm may end its KVM_RUN */
			vpmu_kvm_release(v->kvm);
		return left ? rc : sys_ioctl(vcpu_fd(v), KVM_RUN, NULL);
	}
	memory_runs(v);
	do {
		/* An error concerns a count or a PMI, and is in the report; the guest goes on. */
		if (!left) {
			vpmu_kvm_enter(v->kvm);
			rc = sys_ioctl(vcpu_fd(v), KVM_RUN, NULL);
		}
		left = false;
		next = vpmu_kvm_leave(v->kvm, rc);
		memory_done(v);
		if (next == VPMU_KVM_EXIT && !rc && call_is_unasked(v)) {
			v->run->msr.error = 1;
			next = VPMU_KVM_AGAIN;
		}
	} while (next == VPMU_KVM_AGAIN);
	memory_runs(NULL);
	return next == VPMU_KVM_INTERRUPTED ? -EINTR : rc;
}

/* The first KVM_RUN of a thread, and each one of a vCPU that it is not bound to, or after the
 * thread has blocked signals. */
static int call_run_first(struct vcpu *v, int fd)
{
	int tid = sys_tid(), rc;

	if (!call_is_on(v))
		return call_run(v, false, 0);
	if (atomic_load_explicit(&v->tid, memory_order_relaxed) != tid)
		atomic_store(&v->tid, tid);
	if (!v->ran) {
		v->ran = true;
		if (!v->carried)
			say("vCPU %u: this VMM does not save the PMU; do not migrate this VM",
			    v->id);
	}
	call_unbind();
	kvm_alarm_unblock();
	rc = vpmu_kvm_enter(v->kvm);
	if ((rc == -EBUSY || rc == -ENOMEM) && !v->still) {
		v->still = true;
		say("vCPU %u: its counters stand still: %s", v->id,
		    rc == -EBUSY ? "another thread has run it, and may again" : strerror(-rc));
	}
	if (!rc) {
		call_self.fd = fd;
		call_self.tid = tid;
		call_self.word = fds_word(fd, FDS_VCPU, v, &call_self.obj);
		call_self.v = v;
	}
	return call_run(v, false, 0);
}

/* KVM_SET_SIGNAL_MASK: alarms must end KVM_RUN. */
static int call_signal_mask(struct vcpu *v, const struct kvm_signal_mask *m)
{
	union {
		struct kvm_signal_mask m;
		uint8_t bytes[sizeof(struct kvm_signal_mask) + _NSIG / 8];
	} less;
	const int ours[] = {kvm_alarm_signal(), SIGIO};

	if (!v->kvm || m->len != _NSIG / 8)
		return sys_ioctl(vcpu_fd(v), KVM_SET_SIGNAL_MASK, (void *)m);
	memcpy(&less, m, sizeof(less.bytes));
	for (size_t i = 0; i < 2; i++)
		less.m.sigset[(ours[i] - 1) / 8] &= (uint8_t) ~(1u << (ours[i] - 1) % 8);
	return sys_ioctl(vcpu_fd(v), KVM_SET_SIGNAL_MASK, &less);
}

static int call_vcpu(struct vcpu *v, int fd, unsigned long request, void *arg)
{
	if (request == KVM_RUN)
		return call_run_first(v, fd);
	if (!arg)
		return sys_ioctl(vcpu_fd(v), request, arg);
	switch (request) {
	case KVM_SET_CPUID:
		cpuid_set_old(v);
		break;
	case KVM_SET_CPUID2:
		return cpuid_set(v, arg);
	case KVM_GET_MSRS:
	case KVM_SET_MSRS:
		return msrs_access(v, request, arg);
	case KVM_SET_REGS:
		msrs_regs(v, arg);
		break;
	case KVM_SET_SIGNAL_MASK:
		return call_signal_mask(v, arg);
	}
	return sys_ioctl(vcpu_fd(v), request, arg);
}

/* KVM applies @f to its own vPMU only. */
static bool call_denies(const struct kvm_pmu_event_filter *f)
{
	return f->action != KVM_PMU_EVENT_DENY || f->nevents || f->fixed_counter_bitmap;
}

static int call_vm(struct vm *vm, unsigned long request, void *arg)
{
	int rc;

	switch (request) {
	case KVM_CREATE_VCPU:
		return vm_create_vcpu(vm, (unsigned long)arg);
	case KVM_CREATE_IRQCHIP:
		rc = sys_ioctl(vm_fd(vm), request, arg);
		vm->irqchip |= !rc;
		return rc;
	case KVM_CHECK_EXTENSION:
		if ((unsigned long)arg == KVM_CAP_IMMEDIATE_EXIT)
			atomic_store(&process.immediate_exit, true);
		break;
	}
	if (!arg)
		return sys_ioctl(vm_fd(vm), request, arg);
	switch (request) {
	case KVM_SET_USER_MEMORY_REGION:
	case SET_USER_MEMORY_REGION2:
		return memory_set(vm, request, arg);
	case KVM_GET_DIRTY_LOG:
		return memory_get_dirty_log(vm, arg);
	case KVM_X86_SET_MSR_FILTER:
		return vm_set_filter(vm, arg);
	case KVM_ENABLE_CAP:
		return vm_enable_cap(vm, arg);
	case KVM_MEMORY_ENCRYPT_OP:
		rc = sys_ioctl(vm_fd(vm), request, arg);
		if (!rc)
			vm_unfit(vm, "its memory is encrypted");
		return rc;
	case KVM_SET_PMU_EVENT_FILTER:
		rc = sys_ioctl(vm_fd(vm), request, arg);
		if (!rc && call_denies(arg))
			vm_unfit(vm, "the VMM filters its events; expected allow or deny of "
				     "vpmu-qemu");
		return rc;
	}
	return sys_ioctl(vm_fd(vm), request, arg);
}

/* /dev/kvm, or anything else whose requests have KVM's type. */
static int call_other(int fd, unsigned long request, void *arg)
{
	uint32_t room = 0;
	int rc;

	if (request == KVM_GET_SUPPORTED_CPUID && atomic_load(&process.watched) && arg)
		room = ((struct kvm_cpuid2 *)arg)->nent;
	rc = sys_ioctl(fd, request, arg);
	if (request == KVM_CHECK_EXTENSION && (unsigned long)arg == KVM_CAP_IMMEDIATE_EXIT)
		atomic_store(&process.immediate_exit, true);
	else if (request == KVM_CREATE_VM && rc >= 0)
		vm_created(fd, rc, (unsigned long)arg);
	else if (request == KVM_GET_SUPPORTED_CPUID && !rc && room)
		rc = cpuid_supported(arg, room);
	return rc;
}

static __attribute__((noinline)) int call_any(int fd, unsigned long request, void *arg)
{
	int saved = errno, rc;
	void *obj;

	switch (fds_get(fd, &obj)) {
	case FDS_VCPU:
		rc = call_vcpu(obj, fd, request, arg);
		fds_put(fd);
		break;
	case FDS_VM:
		rc = call_vm(obj, request, arg);
		fds_put(fd);
		break;
	default:
		rc = call_other(fd, request, arg);
		break;
	}
	errno = rc < 0 ? -rc : saved;
	return rc < 0 ? -1 : rc;
}

static __attribute__((noinline)) int call_run_bound(struct vcpu *v, bool left, int rc)
{
	int saved = errno;

	rc = call_run(v, left, rc);
	errno = rc < 0 ? -rc : saved;
	return rc < 0 ? -1 : rc;
}

int call_ioctl(int fd, unsigned long request, void *arg)
{
	struct vcpu *v;
	int rc;

	/* Some callers pass the number as an int, whose sign is extended. */
	request = (unsigned int)request;
	if (request != KVM_RUN || !call_is_bound(fd))
		return call_any(fd, request, arg);
	v = call_self.v;
	if (!kvm_quick_enter(v->kvm))
		return call_run_bound(v, false, 0);
	rc = sys_ioctl(v->dup, KVM_RUN, NULL);
	return kvm_quick_leave(v->run, rc) ? rc : call_run_bound(v, true, rc);
}

/* Its next KVM_RUN unblocks the library's again. Until then the VMM need not expect them. */
void call_masked(void)
{
	call_unbind();
}

static _Atomic unsigned int *call_fds(enum fds_kind kind, void *obj)
{
	return kind == FDS_VM ? &((struct vm *)obj)->fds : &((struct vcpu *)obj)->fds;
}

void call_closing(int fd)
{
	enum fds_kind kind;
	bool busy = false;
	void *obj;

	kind = fds_take(fd, &obj, &busy);
	if (kind == FDS_VCPU)
		call_unbind();
	/* Not counted if a call is under way: then the object stays, whatever is closed later. */
	if (kind == FDS_NONE || busy || atomic_fetch_sub(call_fds(kind, obj), 1) > 1)
		return;
	if (kind == FDS_VM)
		vm_close(obj);
	else
		vcpu_close(obj);
}

void call_closing_range(unsigned int first, unsigned int last)
{
	for (int fd = fds_next(first); fd >= 0 && (unsigned int)fd <= last;
	     fd = fds_next((unsigned int)fd + 1))
		call_closing(fd);
}

void call_duplicated(int from, int fd)
{
	void *obj;
	enum fds_kind kind = fds_get(from, &obj);
	int rc;

	if (kind == FDS_NONE)
		return;
	rc = fds_reserve(fd);
	if (rc) {
		say("descriptor %d of a VM cannot be followed: %s", fd, strerror(-rc));
	} else {
		atomic_fetch_add(call_fds(kind, obj), 1);
		fds_set(fd, kind, obj);
	}
	fds_put(from);
}
