// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * A vCPU of the KVM engine: KVM_RUN, what comes before it (answers, interrupts) and what ends it
 * early (kicks).
 *
 * A kick is never lost: kick() sets immediate_exit before it signals. Wherever the thread is in
 * run(), either KVM_RUN has yet to check immediate_exit and returns at once, or it is in the guest
 * and the signal ends it, or it has returned and the next run() finds immediate_exit set. run()
 * clears it, atomically, when it reports VMM_EXIT_INTR. After a delayed signal, or one from
 * elsewhere, nothing is to be reported and run() continues. Alarms of the thread end KVM_RUN in the
 * same way, but from a signal handler: vpmu/kvm/alarm.c.
 *
 * guest_tsc() counts TSC ticks from just before to just after the KVM_RUN ioctl, without the time
 * in which the thread had no CPU (vpmu/kvm/oncpu.h): the time in the guest plus the cost of the
 * system call and of KVM's own exits (page faults, CPUID). KVM offers user space nothing closer.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "vmm/kvm/kvm_priv.h"
#include "vpmu/util/clock.h"

/* A guest that could not run for this long is notified. The emulator has the same limit. */
#define STOPPED_NS 1000000000ULL

#define IMMEDIATE_KICK 1 /* in kvm_run.immediate_exit; alarms have VPMU_KVM_IMMEDIATE */

int kvm_vcpu_create(struct vmm_engine_vm *vm, unsigned int id, struct vmm_engine_vcpu **out)
{
	struct vmm_engine_vcpu *v = calloc(1, sizeof(*v));
	int rc;

	if (!v)
		return -ENOMEM;
	v->vm = vm;
	v->id = id;
	rc = v->fd = kvm_ioctl(vm->fd, KVM_CREATE_VCPU, (void *)(unsigned long)id);
	if (rc < 0)
		goto err_free;
	v->kr_bytes = vm->engine->run_bytes;
	v->kr = mmap(NULL, v->kr_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, v->fd, 0);
	if (v->kr == MAP_FAILED) {
		rc = -errno;
		goto err_close;
	}
	v->port.vm = &vm->port;
	v->port.fd = v->fd;
	v->port.id = id;
	v->port.kr = v->kr;
	v->waits = vm->irqchip && id;
	vm->vcpus++;
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
	v->vm->vcpus--;
	kvm_oncpu_close(&v->port.oncpu);
	munmap(v->kr, v->kr_bytes);
	close(v->fd);
	free(v);
}

/* Leaf 0 EBX: "Genu" of GenuineIntel. */
static bool says_intel(const struct kvm_cpuid_entry2 *e, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (e[i].function == 0)
			return e[i].ebx == 0x756e6547;
	return false;
}

/* A vCPU begins as after power-up, with MTRRs disabled, and no firmware enables them before a stock
 * kernel. So enable them, with write-back as the default type. SDM vol. 3, 12.11. */
#define MSR_MTRR_DEF_TYPE 0x2ffu
#define MTRR_WRITE_BACK	  (0x800 | 6)

static bool shows_mtrr(const struct kvm_cpuid_entry2 *e, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (e[i].function == 1)
			return e[i].edx >> 12 & 1;
	return false;
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
	if (rc)
		return rc;
	v->port.masks_pmi = says_intel(e, n);
	return shows_mtrr(e, n) ? kvm_vcpu_set_msr(v, MSR_MTRR_DEF_TYPE, MTRR_WRITE_BACK) : 0;
}

int kvm_vcpu_get_regs(struct vmm_engine_vcpu *v, struct kvm_regs *r)
{
	return kvm_ioctl(v->fd, KVM_GET_REGS, r);
}

int kvm_vcpu_set_regs(struct vmm_engine_vcpu *v, const struct kvm_regs *r)
{
	int rc;

	v->irq_ready = false; /* RFLAGS.IF may have changed */
	v->halted = false;
	rc = kvm_ioctl(v->fd, KVM_SET_REGS, (void *)r);
	if (!rc && v->waits)
		rc = kvm_vcpu_may_run(v);
	return rc;
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
	if (v->vm->irqchip)
		return -EOPNOTSUPP; /* KVM accepts none besides its local APIC */
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
	*ticks = v->port.tsc;
	return 0;
}

void kvm_on_kick(int sig)
{
	/* Nothing to do: its arrival ends KVM_RUN; immediate_exit covers the time before. */
}

void kvm_vcpu_kick(struct vmm_engine_vcpu *v)
{
	int tid;

	/* kicked first: take_stop clears immediate_exit, then checks kicked. */
	atomic_store(&v->kicked, true);
	__atomic_fetch_or(&v->kr->immediate_exit, IMMEDIATE_KICK, __ATOMIC_SEQ_CST);
	/* Pairs with run(): it stores tid before KVM_RUN looks at immediate_exit, so a thread
	 * that did not see immediate_exit is seen here. */
	tid = atomic_load(&v->tid);
	if (tid)
		syscall(SYS_tgkill, getpid(), tid, VMM_KVM_KICK_SIGNAL);
}

/*
 * Report a request to stop, if there is one: an alarm of the thread, else a kick. A kick besides an
 * alarm is kept for the next run().
 */
static bool take_stop(struct vmm_engine_vcpu *v, struct vmm_run *run)
{
	if (kvm_alarm_take(v->kr)) {
		run->exit = VMM_EXIT_ALARM;
		return true;
	}
	__atomic_store_n(&v->kr->immediate_exit, 0, __ATOMIC_SEQ_CST);
	if (atomic_exchange(&v->kicked, false)) {
		/* An alarm since the first check is left for the next run(). */
		run->exit = VMM_EXIT_INTR;
		return true;
	}
	/* An alarm since the first check has lost its bit. */
	run->exit = VMM_EXIT_ALARM;
	return kvm_alarm_take(v->kr);
}

/* Inject a queued interrupt if the guest accepts one now, or request KVM's interrupt-window
 * exit. */
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

/*
 * A vCPU could not run while its VM was paused or this process was stopped, but KVM's clock
 * advanced. Notify the guest, so that its watchdogs do not report locked-up CPUs. They allow 20 s
 * and more. -EINVAL: the guest does not use KVM's clock.
 */
static void tell_stopped(struct vmm_engine_vcpu *v)
{
	uint64_t now = clock_ns(CLOCK_MONOTONIC_COARSE);

	if (v->ran_ns && now - v->ran_ns >= STOPPED_NS)
		kvm_ioctl(v->fd, KVM_KVMCLOCK_CTRL, 0);
	v->ran_ns = now;
}

/* KVM_RUN once. 0 or -errno, -EINTR included. */
static int enter_guest(struct vmm_engine_vcpu *v)
{
	bool count = v->port.oncpu.tid;
	int rc;

	if (v->vm->irqchip)
		tell_stopped(v);
	if (count)
		kvm_oncpu_enter(&v->port.oncpu);
	rc = kvm_ioctl(v->fd, KVM_RUN, 0);
	if (count)
		v->port.tsc += kvm_oncpu_leave(&v->port.oncpu);
	/* After a signal the thread may have been stopped for long before this line. */
	if (v->vm->irqchip && rc != -EINTR)
		v->ran_ns = clock_ns(CLOCK_MONOTONIC_COARSE);
	v->irq_ready = v->kr->ready_for_interrupt_injection && v->kr->if_flag;
	return rc;
}

/* Returns the thread's id; the first call in a thread unblocks the signals that end KVM_RUN. */
static int vcpu_open_signals(void)
{
	static __thread bool open;
	sigset_t kick;

	if (!open) {
		sigemptyset(&kick);
		sigaddset(&kick, VMM_KVM_KICK_SIGNAL);
		pthread_sigmask(SIG_UNBLOCK, &kick, NULL);
		open = true;
	}
	return kvm_alarm_open();
}

int kvm_vcpu_run(struct vmm_engine_vcpu *v, struct vmm_run *run)
{
	int rc, tid;

	kvm_exit_complete(v, run);
	run->retired = 0;
	if (v->pending == KVM_PENDING_IO_NEXT) {
		if (!take_stop(v, run))
			kvm_exit_next_io(v, run);
		return 0;
	}

	/* Without interrupt controllers, user space must wait in HLT. */
	if (v->halted && !v->nmi_queued && !(v->irq_pending && v->irq_ready)) {
		if (!take_stop(v, run))
			run->exit = VMM_EXIT_HLT;
		return 0;
	}
	v->halted = false;

	tid = vcpu_open_signals();
	if (v->port.oncpu.tid != tid && atomic_load_explicit(&v->count_tsc, memory_order_relaxed)) {
		kvm_oncpu_close(&v->port.oncpu);
		kvm_oncpu_open(&v->port.oncpu, tid, true);
	}
	atomic_store(&v->tid, tid);
	kvm_alarms_to(v->kr);
	for (;;) {
		rc = inject(v);
		if (rc)
			break;
		rc = enter_guest(v);
		if (rc == -EINTR || rc == -EAGAIN) {
			/* EAGAIN: a vCPU that waits for its start-up IPI was woken. Other signals
			 * of the process are not reported. */
			rc = 0;
			if (take_stop(v, run))
				break;
			continue;
		}
		if (rc)
			break;
		if (kvm_exit_translate(v, run) &&
		    !(run->exit == VMM_EXIT_HLT && v->irq_pending && v->irq_ready))
			break;
	}
	kvm_alarms_to(NULL);
	atomic_store(&v->tid, 0);
	v->nmi_queued = false;
	v->halted = !rc && run->exit == VMM_EXIT_HLT;
	return rc;
}
