// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * A vCPU of the KVM engine: KVM_RUN, what comes before it (answers, interrupts) and what ends it
 * early (kicks).
 *
 * A kick is never lost: kick() sets immediate_exit before it signals. Whatever point of run() the
 * thread is at, either KVM_RUN has yet to look at immediate_exit and returns at once, or it is in
 * the guest already and the signal takes it out, or it has returned and the next run() finds
 * immediate_exit set. run() takes it back, atomically, when it reports VMM_EXIT_INTR. A signal that
 * comes late, or from elsewhere, finds immediate_exit clear and run() goes on.
 *
 * guest_tsc() counts TSC ticks from just before to just after the KVM_RUN ioctl, without the time
 * in which the thread had no CPU (oncpu.h): the time in the guest plus the cost of the system call
 * and of KVM's own exits (page faults, CPUID). KVM offers user space nothing closer.
 */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "vmm/kvm/kvm_priv.h"

int kvm_vcpu_create(struct vmm_engine_vm *vm, unsigned int id, struct vmm_engine_vcpu **out)
{
	struct vmm_engine_vcpu *v = calloc(1, sizeof(*v));
	int rc;

	if (!v)
		return -ENOMEM;
	v->vm = vm;
	rc = v->fd = kvm_ioctl(vm->fd, KVM_CREATE_VCPU, (void *)(unsigned long)id);
	if (rc < 0)
		goto err_free;
	v->kr_bytes = vm->engine->run_bytes;
	v->kr = mmap(NULL, v->kr_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, v->fd, 0);
	if (v->kr == MAP_FAILED) {
		rc = -errno;
		goto err_close;
	}
	*out = v;
	return 0;

err_close:
	close(v->fd);
err_free:
	free(v);
	return rc;
}

void kvm_vcpu_destroy(struct vmm_engine_vcpu *v)
{
	if (!v)
		return;
	kvm_oncpu_close(&v->oncpu);
	munmap(v->kr, v->kr_bytes);
	close(v->fd);
	free(v);
}

int kvm_vcpu_set_cpuid(struct vmm_engine_vcpu *v, const struct kvm_cpuid_entry2 *e, size_t n)
{
	struct kvm_cpuid2 *table;
	int rc;

	if (n > UINT16_MAX)
		return -E2BIG;
	table = calloc(1, sizeof(*table) + n * sizeof(table->entries[0]));
	if (!table)
		return -ENOMEM;
	table->nent = (uint32_t)n;
	memcpy(table->entries, e, n * sizeof(table->entries[0]));
	rc = kvm_ioctl(v->fd, KVM_SET_CPUID2, table);
	free(table);
	return rc;
}

int kvm_vcpu_get_regs(struct vmm_engine_vcpu *v, struct kvm_regs *r)
{
	return kvm_ioctl(v->fd, KVM_GET_REGS, r);
}

int kvm_vcpu_set_regs(struct vmm_engine_vcpu *v, const struct kvm_regs *r)
{
	v->irq_ready = false; /* RFLAGS.IF may be another now */
	v->halted = false;
	return kvm_ioctl(v->fd, KVM_SET_REGS, (void *)r);
}

int kvm_vcpu_get_sregs(struct vmm_engine_vcpu *v, struct kvm_sregs *s)
{
	return kvm_ioctl(v->fd, KVM_GET_SREGS, s);
}

int kvm_vcpu_set_sregs(struct vmm_engine_vcpu *v, const struct kvm_sregs *s)
{
	v->irq_ready = false;
	v->halted = false;
	return kvm_ioctl(v->fd, KVM_SET_SREGS, (void *)s);
}

int kvm_vcpu_interrupt(struct vmm_engine_vcpu *v, uint8_t vector)
{
	if (v->irq_pending)
		return -EBUSY;
	v->irq_vector = vector;
	v->irq_pending = true;
	return 0;
}

int kvm_vcpu_nmi(struct vmm_engine_vcpu *v)
{
	struct kvm_vcpu_events events = {0};
	int rc = kvm_ioctl(v->fd, KVM_GET_VCPU_EVENTS, &events);

	if (rc)
		return rc;
	if (events.nmi.pending)
		return -EBUSY;
	rc = kvm_ioctl(v->fd, KVM_NMI, 0);
	v->nmi_queued = !rc;
	return rc;
}

int kvm_vcpu_guest_tsc(struct vmm_engine_vcpu *v, uint64_t *ticks)
{
	atomic_store_explicit(&v->count_tsc, true, memory_order_relaxed);
	*ticks = v->tsc;
	return 0;
}

void kvm_vcpu_kick(struct vmm_engine_vcpu *v)
{
	int tid;

	__atomic_store_n(&v->kr->immediate_exit, 1, __ATOMIC_SEQ_CST);
	/* Pairs with run(): it stores tid before KVM_RUN looks at immediate_exit, so a thread
	 * that did not see immediate_exit is seen here. */
	tid = atomic_load(&v->tid);
	if (tid)
		syscall(SYS_tgkill, getpid(), tid, VMM_KVM_KICK_SIGNAL);
}

/* A kick that nobody has answered: answer it. */
static bool take_kick(struct vmm_engine_vcpu *v, struct vmm_run *run)
{
	if (!__atomic_exchange_n(&v->kr->immediate_exit, 0, __ATOMIC_SEQ_CST))
		return false;
	run->exit = VMM_EXIT_INTR;
	return true;
}

/* This thread's id; on its first call here, open it to kicks. */
static int enter_thread(void)
{
	static __thread int tid;
	sigset_t kick;

	if (!tid) {
		sigemptyset(&kick);
		sigaddset(&kick, VMM_KVM_KICK_SIGNAL);
		pthread_sigmask(SIG_UNBLOCK, &kick, NULL);
		tid = (int)syscall(SYS_gettid);
	}
	return tid;
}

/* Give a queued interrupt to the guest if it takes one now, or ask KVM to say when. */
static int inject(struct vmm_engine_vcpu *v)
{
	struct kvm_interrupt irq = {.irq = v->irq_vector};
	int rc;

	if (!v->irq_pending) {
		v->kr->request_interrupt_window = 0;
		return 0;
	}
	if (!v->irq_ready) {
		v->kr->request_interrupt_window = 1;
		return 0;
	}
	rc = kvm_ioctl(v->fd, KVM_INTERRUPT, &irq);
	if (rc)
		return rc;
	v->irq_pending = false;
	v->irq_ready = false;
	v->kr->request_interrupt_window = 0;
	return 0;
}

/* KVM_RUN once. 0 or -errno, -EINTR included. */
static int enter_guest(struct vmm_engine_vcpu *v)
{
	bool count = v->oncpu.tid;
	int rc;

	if (count)
		kvm_oncpu_enter(&v->oncpu);
	rc = kvm_ioctl(v->fd, KVM_RUN, 0);
	if (count)
		v->tsc += kvm_oncpu_leave(&v->oncpu);
	v->irq_ready = v->kr->ready_for_interrupt_injection && v->kr->if_flag;
	return rc;
}

int kvm_vcpu_run(struct vmm_engine_vcpu *v, struct vmm_run *run)
{
	int rc, tid;

	kvm_exit_complete(v, run);
	run->retired = 0;
	if (v->pending == KVM_PENDING_IO_NEXT) {
		if (!take_kick(v, run))
			kvm_exit_next_io(v, run);
		return 0;
	}

	/* Without an in-kernel irqchip, KVM leaves it to us to wait in HLT. */
	if (v->halted && !v->nmi_queued && !(v->irq_pending && v->irq_ready)) {
		if (!take_kick(v, run))
			run->exit = VMM_EXIT_HLT;
		return 0;
	}
	v->halted = false;

	tid = enter_thread();
	if (v->oncpu.tid != tid && atomic_load_explicit(&v->count_tsc, memory_order_relaxed)) {
		kvm_oncpu_close(&v->oncpu);
		kvm_oncpu_open(&v->oncpu, tid, true);
	}
	atomic_store(&v->tid, tid);
	for (;;) {
		rc = inject(v);
		if (rc)
			break;
		rc = enter_guest(v);
		if (rc == -EINTR) {
			/* Other signals of the process are not ours to report. */
			rc = 0;
			if (take_kick(v, run))
				break;
			continue;
		}
		if (rc)
			break;
		if (kvm_exit_translate(v, run) &&
		    !(run->exit == VMM_EXIT_HLT && v->irq_pending && v->irq_ready))
			break;
	}
	atomic_store(&v->tid, 0);
	v->nmi_queued = false;
	v->halted = !rc && run->exit == VMM_EXIT_HLT;
	return rc;
}
