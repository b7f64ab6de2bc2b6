// SPDX-License-Identifier: LGPL-2.1-or-later
/*
 * A vCPU of vpmu/kvm.h: its work before and after KVM_RUN. The guest is hostile: each access is
 * answered, or becomes the architectural fault, in bounded time; no lock is taken that another vCPU
 * holds for long.
 */
#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "vpmu/account.h"
#include "vpmu/consumer.h"
#include "vpmu/core/internal.h"
#include "vpmu/kvm/priv.h"
#include "vpmu/kvm/quick.h"
#include "vpmu/pcpu.h"
#include "vpmu/util/fail.h"

static void count(_Atomic uint64_t *n)
{
	/* One writer: a plain load and store, which a reader sees whole. */
	atomic_store_explicit(n, atomic_load_explicit(n, memory_order_relaxed) + 1,
			      memory_order_relaxed);
}

static int vcpu_where(struct vpmu_context *ctx, struct vpmu_where *out)
{
	struct vpmu_kvm_vcpu *v =
		(struct vpmu_kvm_vcpu *)((char *)ctx - offsetof(struct vpmu_kvm_vcpu, ctx));
	struct kvm_sregs sregs;
	struct kvm_regs regs;
	int rc = v->port.vm->ioctl(v->port.fd, KVM_GET_REGS, &regs);

	if (!rc)
		rc = v->port.vm->ioctl(v->port.fd, KVM_GET_SREGS, &sregs);
	if (rc)
		return rc;
	out->ip = regs.rip;
	out->cpl = sregs.cs.selector & 3; /* SDM vol. 3, 5.5 */
	return 0;
}

/* ---- life ---- */

static int vcpu_open_own(struct vpmu_kvm_vcpu *v)
{
	int rc;

	v->guest = calloc(1, sizeof(*v->guest));
	if (!v->guest)
		return -ENOMEM;
	rc = vpmu_account_create(v->vm->account, v, &v->account);
	if (rc)
		goto err_guest;
	rc = vpmu_context_init(&v->ctx, v->account, v->vm->account);
	if (rc)
		goto err_account;
	v->ctx.where = vcpu_where;
	v->ctx.quota = v->vm->opts.quota;
	rc = kvm_vcpu_perf_init(v);
	if (rc)
		goto err_context;
	rc = vpmu_guest_init(v->guest, &v->vm->cfg, &v->ctx, v->theirs ? v->theirs : &v->perf.pmu);
	if (!rc)
		return 0;
	kvm_vcpu_perf_fini(v);
err_context:
	vpmu_context_fini(&v->ctx);
err_account:
	vpmu_account_del(v->account);
err_guest:
	free(v->guest);
	return rc;
}

int vpmu_kvm_vcpu_open(struct vpmu_kvm_vm *vm, const struct vpmu_kvm_vcpu_opts *opts,
		       struct vpmu_kvm_vcpu **out, char *why, size_t whylen)
{
	struct vpmu_kvm_vcpu *v;
	int rc;

	if (opts->size != sizeof(*opts) || opts->fd < 0 || !opts->run ||
	    !opts->guest != !opts->pcpu)
		return fail(-EINVAL, why, whylen,
			    "options of the vCPU are invalid; expected size, fd, run, and both of "
			    "guest and pcpu, or neither");
	v = calloc(1, sizeof(*v));
	if (!v)
		return fail(-ENOMEM, why, whylen, "out of memory");
	kvm_thread_use();
	v->vm = vm;
	v->port.vm = &vm->port;
	v->port.fd = opts->fd;
	v->port.id = opts->id;
	v->port.kr = opts->run;
	v->theirs = opts->pmu;
	v->own = !opts->guest;
	v->guest = opts->guest;
	v->pcpu = opts->pcpu;
	rc = v->own ? vcpu_open_own(v) : 0;
	if (rc) {
		free(v);
		return fail(rc, why, whylen, "PMU of vCPU %u: %s", opts->id, strerror(-rc));
	}
	v->port.masks_pmi = vpmu_guest_is_intel(v->guest);
	atomic_fetch_add(&vm->vcpus, 1);
	*out = v;
	return 0;
}

int vpmu_kvm_vcpu_close(struct vpmu_kvm_vcpu *v)
{
	if (!v)
		return 0;
	kvm_thread_use();
	vpmu_kvm_release(v);
	if (atomic_load(&v->tid))
		return -EBUSY;
	if (v->own) {
		vpmu_guest_fini(v->guest);
		vpmu_context_fini(&v->ctx);
		vpmu_account_del(v->account);
		vpmu_rcu_free(v->guest);
		kvm_vcpu_perf_fini(v);
	}
	atomic_fetch_sub(&v->vm->vcpus, 1);
	free(v);
	return 0;
}

struct vpmu_account *vpmu_kvm_vcpu_account(struct vpmu_kvm_vcpu *v)
{
	return v->account;
}

struct vpmu_guest *vpmu_kvm_vcpu_guest(struct vpmu_kvm_vcpu *v)
{
	return v->guest;
}

/* ---- CPUID ---- */

static void cpuid_edit(const struct vpmu_kvm_vcpu *v, struct kvm_cpuid_entry2 *e)
{
	uint32_t regs[4] = {e->eax, e->ebx, e->ecx, e->edx};

	if (e->function >> 28 == 4)
		return; /* hypervisor leaves: the VMM's */
	vpmu_guest_cpuid(v->guest, e->function,
			 e->flags & KVM_CPUID_FLAG_SIGNIFCANT_INDEX ? e->index : 0, regs);
	e->eax = regs[0];
	e->ebx = regs[1];
	e->ecx = regs[2];
	e->edx = regs[3];
}

int vpmu_kvm_vcpu_cpuid(const struct vpmu_kvm_vcpu *v, struct kvm_cpuid_entry2 *e, size_t *n,
			size_t room)
{
	/* Leaves with content of the model alone. */
	static const uint32_t leaf[VPMU_KVM_CPUID_MORE] = {0xa, 0x1c, 0x23, 0x80000022};
	struct kvm_cpuid_entry2 more[VPMU_KVM_CPUID_MORE];
	size_t add = 0;

	for (size_t k = 0; k < VPMU_KVM_CPUID_MORE; k++) {
		struct kvm_cpuid_entry2 x = {.function = leaf[k]};
		bool there = false;

		for (size_t i = 0; i < *n; i++)
			there |= e[i].function == leaf[k];
		cpuid_edit(v, &x);
		if (!there && (x.eax | x.ebx | x.ecx | x.edx))
			more[add++] = x;
	}
	if (*n + add > room)
		return -E2BIG;
	for (size_t i = 0; i < *n; i++)
		cpuid_edit(v, &e[i]);
	memcpy(e + *n, more, add * sizeof(*e));
	*n += add;
	return 0;
}

/* ---- before KVM_RUN ---- */

static int vcpu_raise(struct vpmu_kvm_vcpu *v)
{
	int rc;

	if (v->vm->opts.flags & VPMU_KVM_NO_IRQCHIP)
		return 0;
	rc = kvm_port_pmi(&v->port);
	count(rc ? &v->pmi_errors : &v->pmis);
	return rc;
}

int vpmu_kvm_enter(struct vpmu_kvm_vcpu *v)
{
	bool alarmed;
	int rc = 0;

	if (*kvm_thread_bound() != v) {
		kvm_thread_use();
		rc = kvm_vcpu_bind(v, kvm_alarm_open());
		if (rc)
			return rc;
	}
	alarmed = kvm_alarm_take(v->port.kr);
	if (alarmed) {
		count(&v->alarms);
		vpmu_pcpu_overflow(v->pcpu);
	}
	if (v->own) {
		/* May bind counters, which want ticks, and be what finds that a PMI is due. */
		vpmu_pcpu_poll(v->pcpu);
		kvm_vcpu_tick(v, alarmed);
	}
	if (vpmu_guest_pending(v->guest) && vpmu_guest_service(v->guest))
		rc = vcpu_raise(v);
	vpmu_hostpmu_perf_hold(&v->perf, false);
	/* The time is for what counts the TSC: without a counter or key nothing does. */
	v->measuring = !v->own || vpmu_pcpu_wants_tick(v->pcpu);
	if (v->measuring)
		kvm_oncpu_enter(&v->port.oncpu);
	if (v->may_rdpmc)
		kvm_port_ask_regs(&v->port);
	return rc;
}

/* Each condition is one of vpmu_kvm_enter under which it does something. */
bool kvm_quick_enter(struct vpmu_kvm_vcpu *v)
{
	const struct vpmu_pcpu *p = v->pcpu;

	if (*kvm_thread_bound() != v || kvm_alarm_pending() ||
	    load_acquire(&p->sync_req) != p->sync_ack || kvm_wants_tick(v) || v->timer_on ||
	    vpmu_guest_pending(v->guest) || v->may_rdpmc || !v->own)
		return false;
	vpmu_hostpmu_perf_hold(&v->perf, false);
	return true;
}

/* ---- after KVM_RUN ---- */

/* Linux' driver reads all selects by RDMSR when it starts (check_hw_exists): they are off. On AMD's
 * models it also does so to switch one off, which is on, and to read a counter behind that. */
static bool vcpu_driver_starts(uint32_t msr, uint64_t val)
{
	bool select =
		msr - 0x186 < 8 || msr - 0xc0010000 < 4 || (msr - 0xc0010200 < 12 && !(msr & 1));

	return select && !(val & 1 << 22);
}

/*
 * Which exits RDPMC comes after depends on the guest's driver: after some of them KVM is asked for
 * the registers, which at each exit would cost more than the two system calls of one RDPMC that
 * comes unexpectedly. An RDPMC has the bit of a read of MSR 31.
 */
static uint64_t vcpu_access(uint32_t msr, bool write)
{
	return 1ull << (msr % 32 + (write ? 32 : 0));
}

static enum vpmu_kvm_next vcpu_rdmsr(struct vpmu_kvm_vcpu *v, struct kvm_run *kr)
{
	uint64_t val = 0;

	count(&v->rdmsr);
	v->access = vcpu_access(kr->msr.index, false);
	kr->msr.error = vpmu_guest_rdmsr(v->guest, kr->msr.index, &val) != 0;
	if (v->vm->opts.flags & VPMU_KVM_RDPMC && vcpu_driver_starts(kr->msr.index, val))
		kvm_search(v, true);
	kr->msr.data = val;
	if (kr->msr.error)
		count(&v->faults);
	return VPMU_KVM_AGAIN;
}

static enum vpmu_kvm_next vcpu_wrmsr(struct vpmu_kvm_vcpu *v, struct kvm_run *kr)
{
	uint32_t msr = kr->msr.index;

	count(&v->wrmsr);
	v->access = vcpu_access(msr, true);
	/* DEBUGCTL and MISC_ENABLE are written by code that runs before the kernel's own. */
	if (v->vm->opts.flags & VPMU_KVM_RDPMC && msr != 0x1d9 && msr != 0x1a0)
		kvm_search(v, false);
	v->pages.access = true;
	kr->msr.error = vpmu_guest_wrmsr(v->guest, msr, kr->msr.data) != 0;
	v->pages.access = false;
	if (kr->msr.error)
		count(&v->faults);
	else
		kvm_port_wrote(&v->port, msr);
	kvm_vcpu_note(v);
	return VPMU_KVM_AGAIN;
}

static enum vpmu_kvm_next vcpu_io(struct vpmu_kvm_vcpu *v)
{
	uint64_t val = 0;
	uint32_t index;

	if (!(v->vm->opts.flags & VPMU_KVM_RDPMC) &&
	    !atomic_load_explicit(&v->port.vm->nr_sites, memory_order_relaxed))
		return VPMU_KVM_EXIT;
	if (v->port.kr->io.port != KVM_PORT_RDPMC)
		return VPMU_KVM_EXIT;
	if (!kvm_port_is_rdpmc(&v->port, &index)) {
		if (!(v->vm->opts.flags & VPMU_KVM_RDPMC) || !kvm_port_may_be_rdpmc(&v->port) ||
		    !kvm_search_adopt(v))
			return VPMU_KVM_EXIT;
		index = (uint32_t)v->port.rdpmc_regs.rcx;
	}
	count(&v->rdpmc);
	v->rdpmc_follows |= v->access;
	v->access = vcpu_access(31, false);
	if (vpmu_guest_rdpmc(v->guest, index, &val))
		count(&v->faults);
	kvm_port_rdpmc_complete(&v->port, val);
	return VPMU_KVM_AGAIN;
}

/* KVM_RUN returned EINTR: for an alarm alone, or for the VMM as well? */
static enum vpmu_kvm_next vcpu_interrupted(struct vpmu_kvm_vcpu *v)
{
	uint8_t old = __atomic_fetch_and(&v->port.kr->immediate_exit, (uint8_t)~VPMU_KVM_IMMEDIATE,
					 __ATOMIC_SEQ_CST);

	if (v->vm->opts.flags & VPMU_KVM_HAND_ON || old & ~VPMU_KVM_IMMEDIATE)
		return VPMU_KVM_INTERRUPTED;
	return old || kvm_alarm_pending() ? VPMU_KVM_AGAIN : VPMU_KVM_INTERRUPTED;
}

static enum vpmu_kvm_next vcpu_exit(struct vpmu_kvm_vcpu *v, struct kvm_run *kr)
{
	switch (kr->exit_reason) {
	case KVM_EXIT_X86_RDMSR:
		return vpmu_kvm_vm_traps(v->vm, kr->msr.index) ? vcpu_rdmsr(v, kr) : VPMU_KVM_EXIT;
	case KVM_EXIT_X86_WRMSR:
		return vpmu_kvm_vm_traps(v->vm, kr->msr.index) ? vcpu_wrmsr(v, kr) : VPMU_KVM_EXIT;
	case KVM_EXIT_IO:
		return vcpu_io(v);
	default:
		return VPMU_KVM_EXIT;
	}
}

enum vpmu_kvm_next vpmu_kvm_leave(struct vpmu_kvm_vcpu *v, int rc)
{
	struct kvm_run *kr = v->port.kr;
	enum vpmu_kvm_next next;

	if (v->measuring) {
		v->port.tsc += kvm_oncpu_leave(&v->port.oncpu);
		atomic_store_explicit(&v->guest_tsc, v->port.tsc, memory_order_relaxed);
		v->measuring = false;
	}
	kvm_port_take_regs(&v->port);
	vpmu_hostpmu_perf_hold(&v->perf, true); /* until the next entry */
	if (rc == -EINTR)
		return vcpu_interrupted(v);
	if (rc < 0)
		return VPMU_KVM_EXIT;
	next = vcpu_exit(v, kr);
	if (next != VPMU_KVM_AGAIN)
		v->access = 0;
	v->may_rdpmc = v->access & v->rdpmc_follows &&
		       atomic_load_explicit(&v->port.vm->nr_sites, memory_order_relaxed);
	return next;
}
