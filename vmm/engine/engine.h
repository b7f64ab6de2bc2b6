/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The engine interface: an engine executes guest code. There are two, the emulator (vmm/emu/) and
 * KVM (vmm/kvm/). The interface has the shape of the KVM API and uses structures of linux/kvm.h
 * where they fit.
 *
 * Callers are vmm/vm/ (one VM and the exit loop), vmm/sched/ (when each vCPU runs), vmm/snapshot/
 * and vmm/machine/. An engine runs one vCPU until something needs its caller. It must not depend on
 * pCPU scheduling, tenants or the register models of the vPMU.
 *
 * Threads: one thread at a time uses a vCPU. Only kick() may be called from any other thread.
 * Errors: negative errno.
 */
#pragma once

#include <linux/kvm.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "vmm/engine/ram.h"
#include "vpmu/guest/msr_range.h"

struct vpmu_emu_tally;

/*
 * Capabilities of an engine, in vmm_engine_ops.can. Callers test these flags. They never compare
 * names or test an operation for NULL: no operation is NULL. Without its flag an operation does
 * nothing and returns -EOPNOTSUPP (refuse.h).
 */
enum {
	/* RDPMC exits with VMM_EXIT_RDPMC. Without: RDPMC is #GP in guests. */
	VMM_CAN_RDPMC = 1 << 0,
	/* vCPUs have local APICs with an x2APIC mode: see "Local APIC". */
	VMM_CAN_LAPIC = 1 << 1,
	/* pmi(), in VMs with local APICs (VMM_CAN_LAPIC or interrupt controllers). Elsewhere pmi()
	 * returns -EOPNOTSUPP. */
	VMM_CAN_PMI = 1 << 2,
	/* get_state() and set_state(). */
	VMM_CAN_SAVE = 1 << 3,
	/* Instructions are counted into a tally (set_tally). run() stops at vmm_run.budget and
	 * vmm_run.effort_max and for the tally's alarms, and fills in vmm_run.retired and
	 * vmm_run.effort. Without: these limits are ignored, retired and effort are 0. */
	VMM_CAN_TALLY = 1 << 4,
	/* Taken branches are recorded in the tally's branch records (vpmu/lbr_regs.h). Only
	 * together with VMM_CAN_TALLY. */
	VMM_CAN_LBR = 1 << 5,
	/* guest_tsc(). */
	VMM_CAN_GUEST_TSC = 1 << 6,
	/* Guests run faster when the host maps their RAM with huge pages. Without: huge pages would
	 * only cost memory. */
	VMM_CAN_HUGE_PAGES = 1 << 7,
	/* warm(). */
	VMM_CAN_WARM = 1 << 8,
	/* A VM can have interrupt controllers: irqchip_create(), irq_line(). See "Interrupt
	 * controllers". */
	VMM_CAN_IRQCHIP = 1 << 9,
	/* vCPUs of a VM with interrupt controllers exit when they halt, and the caller resumes
	 * them: set_waker(), expire(). See "Halted vCPUs". Without: run() itself waits in HLT, and
	 * such a VM never returns VMM_EXIT_HLT. Only together with VMM_CAN_IRQCHIP. */
	VMM_CAN_WAKE = 1 << 10,
	/* VMM_ALARM_SIGNAL ends run(). */
	VMM_CAN_ALARM_SIGNAL = 1 << 11,
	/* rdpmc_sites(). Only in engines without VMM_CAN_RDPMC. */
	VMM_CAN_RDPMC_SITES = 1 << 12
};

/*
 * With VMM_CAN_ALARM_SIGNAL: the counters of a vCPU send this signal to the thread that runs it
 * when an alarm may be due. The run() in progress, or else the thread's next one, then returns
 * VMM_EXIT_ALARM. The engine installs the handler, also for SIGIO, which the kernel sends instead
 * when it cannot queue a signal.
 */
#define VMM_ALARM_SIGNAL (SIGRTMIN + 5)

enum vmm_exit {
	/* Exactly the budgeted number of instructions retired. VMM_CAN_TALLY. */
	VMM_EXIT_BUDGET = 1,
	/* The vCPU was kicked; or effort_max is reached (always at the same instruction). */
	VMM_EXIT_INTR,
	/* IN or OUT, described by u.io. For IN the caller stores u.io.data before the next run().
	 */
	VMM_EXIT_IO,
	/* RDMSR, described by u.msr. The caller stores data or fault before the next run(). */
	VMM_EXIT_RDMSR,
	/* WRMSR, described by u.msr. The caller stores fault before the next run(). AMD's VMRUN and
	 * #VMEXIT, which change DebugCtl, are such an exit, too. */
	VMM_EXIT_WRMSR,
	/* RDPMC, described by u.pmc. The engine has checked CR4.PCE and CPL. The caller stores data
	 * or fault before the next run(). VMM_CAN_RDPMC, or rdpmc_sites(). */
	VMM_EXIT_RDPMC,
	/* An alarm of the tally is due: see "Alarms". VMM_CAN_TALLY. Or the thread was sent
	 * VMM_ALARM_SIGNAL. */
	VMM_EXIT_ALARM,
	/* HLT retired, and no pending event wakes the vCPU. Until one does, run() executes nothing
	 * and returns VMM_EXIT_HLT again. These wake it: pmi(), interrupt() or nmi(), if the guest
	 * accepts the event; or new registers (set_regs, set_sregs). In a VM with interrupt
	 * controllers u.hlt describes the exit, which a vCPU that waits for its start-up IPI
	 * returns, too: see "Halted vCPUs". */
	VMM_EXIT_HLT,
	/* Triple fault. */
	VMM_EXIT_SHUTDOWN,
	/* The engine cannot continue. u.error.msg is one line with RIP and the reason. */
	VMM_EXIT_ERROR,
	/* The guest executed vmm_run.pauses PAUSE instructions: it waits for another vCPU of its
	 * VM, which should run. The last PAUSE has retired. VMM_CAN_WAKE. */
	VMM_EXIT_YIELD
};

/*
 * Alarms. run() stops immediately behind the instruction that, by retiring, makes an armed alarm of
 * the tally due. A repeated string instruction is one instruction; its elements' cycles may pass
 * the alarm's value by far.
 *
 * A due alarm takes precedence:
 *   - over interrupts, a kick and the end of the budget. The caller runs the vCPU again with the
 *     rest of the budget.
 *   - over a fault on fetching the next instruction. Behind a jump to an unmapped page RIP is that
 *     page's address, and the next run() delivers the page fault.
 *   - over the exit of the HLT that made the alarm due. That exit comes at the next run(), unless
 *     an interrupt that the caller raised in between wakes the vCPU.
 * Until the alarm is answered (vpmu_pcpu_overflow), run() executes nothing and returns
 * VMM_EXIT_ALARM again.
 *
 * Two things take precedence over an alarm:
 *   - the debug trap of an instruction that is single-stepped (RFLAGS.TF).
 *   - the completion of an earlier exit. Example: WRMSR exits, the caller answers, and the next
 *     run() completes the WRMSR first. The WRMSR retires and is counted then. If that makes an
 *     alarm due, run() stops immediately behind the WRMSR.
 */

/* The communication area of one vCPU. The caller of run() owns it. */
struct vmm_run {
	enum vmm_exit exit;
	uint64_t budget; /* in: instructions to retire; 0: no limit */
	/* in: return VMM_EXIT_INTR soon after this much effort; 0: the engine's own limit. "Soon"
	 * is bounded for every guest. VMM_CAN_TALLY. */
	uint64_t effort_max;
	/* in: return VMM_EXIT_YIELD after this many PAUSE instructions; 0: never. out: the number
	 * left. Ignored without VMM_CAN_WAKE and in VMs of one vCPU. */
	uint32_t pauses;
	uint64_t retired; /* out: instructions retired by this run() */
	/* out: the effort of this run(): host time estimated by a fixed table of costs, in units of
	 * one plain interpreted instruction. A translated instruction costs 1/4 unit or more.
	 * Exactly reproducible. VMM_CAN_TALLY. */
	uint64_t effort;
	union {
		struct {
			uint16_t port;
			uint8_t size; /* 1, 2 or 4 bytes */
			bool in;
			uint32_t data;
		} io;
		struct {
			uint32_t index;
			uint64_t data;
			bool fault; /* in: raise #GP instead of completing the instruction */
		} msr;
		struct {
			uint32_t index; /* ECX */
			uint64_t data;
			bool fault; /* in: as for msr */
		} pmc;
		struct {
			/* The engine calls vmm_waker.wake() when the vCPU has work. False: nothing
			 * can wake it, as in a VM without interrupt controllers. */
			bool waits;
			/* All vCPUs of the VM wait, and the first of their timers is due at this
			 * time of vmm_waker.time(): call expire() then. 0: no timer is armed. */
			uint64_t deadline;
		} hlt;
		struct {
			uint64_t rip;
			char msg[200];
		} error;
	} u;
};

/*
 * Local APIC. The engine implements it. Without VMM_CAN_LAPIC guests have none: CPUID must not show
 * one, and MSRs 800H-8FFH do not exist.
 *
 * With VMM_CAN_LAPIC, each vCPU has one; its ID is the vCPU's number. The engine handles its MSRs,
 * delivers the interrupts that it accepts, wakes the vCPU from HLT, and includes it in get_state().
 * The APIC is in x2APIC mode when EN and EXTD are set in sregs.apic_base; in every other mode it is
 * as after a reset and accepts nothing.
 */

/*
 * Interrupt controllers. irqchip_create() gives a VM those of a PC: local APICs that also have an
 * xAPIC mode (registers in the page at FEE00000H), timers (one-shot, periodic, TSC deadline), IPIs,
 * INIT and start-up IPIs; and one I/O APIC of 24 pins in the page at FEC00000H, whose pins
 * irq_line() drives. Accesses to these pages do not exit. vCPU 0 begins with the caller's
 * registers; every other one waits for its start-up IPI unless the caller sets its registers
 * (set_regs).
 *
 * A VM with interrupt controllers has one clock, in ns; its TSCs tick with it, so they run at 1 GHz
 * (on KVM: the host's TSC). On the emulator it advances by 1 ns for each modelled cycle of the vCPU
 * that is ahead, and no vCPU reads less than another has read before. While all vCPUs wait, it
 * advances by vmm_waker.time(). Otherwise it stands still while a runnable vCPU is not scheduled,
 * so that a guest with little CPU time sees a slow CPU and not a hung one.
 */
#define VMM_IRQCHIP_PINS 24
#define VMM_TSC_HZ	 1000000000ULL /* VMM_CAN_WAKE, in VMs with interrupt controllers */

/*
 * Halted vCPUs (VMM_CAN_WAKE). run() of a vCPU that halts returns VMM_EXIT_HLT with u.hlt.waits.
 * The caller then does not run the vCPU until wake() is called for it. wake() may be called before
 * that run() returns, more often than needed, and for a vCPU that does not wait: then the next
 * run() returns VMM_EXIT_HLT again, or continues. A call of run() without wake() is harmless, too.
 *
 * When the last vCPU of a VM begins to wait, u.hlt.deadline is the time to call expire(). A call
 * that comes too early, or when a vCPU runs again, does nothing. While a vCPU runs, the engine
 * checks the timers of the others itself.
 */
struct vmm_waker {
	/* vCPU @id has work. Any thread, also inside run() of another vCPU of the VM; the engine
	 * holds no lock. */
	void (*wake)(void *arg, unsigned int id);
	/* The time, in ns, by which the VM's clock advances while all its vCPUs wait. Never
	 * decreases; never 0. Any thread; called under a lock of the engine. */
	uint64_t (*time)(void *arg);
	void *arg;
	/* time() is modelled and runs must be reproducible: the engine exposes no host time to the
	 * VM. */
	bool repeats;
};

struct vmm_engine;	/* per-process state of one engine */
struct vmm_engine_vm;	/* one VM */
struct vmm_engine_vcpu; /* one vCPU */

struct vmm_engine_ops {
	const char *name; /* "emulator", "kvm": for messages and reports only */
	unsigned int can; /* VMM_CAN_* */

	/* open - 0, or -errno and one line in @why: the missing requirement. */
	int (*open)(struct vmm_engine **e, char *why, size_t why_len);
	void (*close)(struct vmm_engine *e);

	/* vm_create - the slots of @ram are the VM's guest-physical memory. *ram is copied; the
	 * caller owns the host memory behind it, which must outlive the VM. A guest access to any
	 * other guest-physical address is VMM_EXIT_ERROR. -EINVAL: *ram is invalid (ram.h), or the
	 * engine cannot have RAM there. */
	int (*vm_create)(struct vmm_engine *e, const struct vmm_ram *ram,
			 struct vmm_engine_vm **vm);
	/* vm_destroy - the vCPUs must have been destroyed. */
	void (*vm_destroy)(struct vmm_engine_vm *vm);

	/* vm_trap_msrs - accesses to these MSRs exit, even if the engine implements the MSR. MSRs
	 * that it does not implement always exit. @r ends with an entry of count 0. Call it before
	 * the first vcpu_create. */
	int (*vm_trap_msrs)(struct vmm_engine_vm *vm, const struct vpmu_msr_range *r);

	/* irqchip_create - give the VM interrupt controllers. Before the first vcpu_create. -EBUSY:
	 * a vCPU exists; -EEXIST: the VM has them already; -ENOMEM. VMM_CAN_IRQCHIP. */
	int (*irqchip_create)(struct vmm_engine_vm *vm);
	/* irq_line - drive pin @gsi of the I/O APIC to @level. Any thread. -ENXIO: no interrupt
	 * controllers, or no such pin. VMM_CAN_IRQCHIP. */
	int (*irq_line)(struct vmm_engine_vm *vm, unsigned int gsi, bool level);

	/* set_waker - let time pass for the VM and wake vCPUs through *@w (copied). NULL, the
	 * initial state: the VM's clock stands still while no vCPU runs, and there are no wake()
	 * calls. Call it while no vCPU runs. On return no wake() of the former waker is in
	 * progress, if no other thread is in irq_line() or expire(). -ENXIO: no interrupt
	 * controllers. VMM_CAN_WAKE.
	 * expire - wake the vCPUs with due timers. *@next: when to call it again, as
	 * u.hlt.deadline. Any thread, while the VM exists. VMM_CAN_WAKE. */
	int (*set_waker)(struct vmm_engine_vm *vm, const struct vmm_waker *w);
	int (*expire)(struct vmm_engine_vm *vm, uint64_t *next);
	/* retire - @v will not run again, and the VM's clock does not wait for it. *@next as for
	 * expire. Call it while @v does not run. -ENXIO: no interrupt controllers. VMM_CAN_WAKE. */
	int (*retire)(struct vmm_engine_vcpu *v, uint64_t *next);

	/* rdpmc_sites - the instructions IN EAX,33H at these @n addresses (RIP, in any order) stand
	 * for RDPMC: they exit with VMM_EXIT_RDPMC. IN cannot fault, so a fault reads as 0. @rip is
	 * copied. Call it once, before the first run(). -ENOMEM. VMM_CAN_RDPMC_SITES. */
	int (*rdpmc_sites)(struct vmm_engine_vm *vm, const uint64_t *rip, size_t n);

	/* vcpu_create - no other vCPU of the VM may be running. */
	int (*vcpu_create)(struct vmm_engine_vm *vm, unsigned int id, struct vmm_engine_vcpu **v);
	void (*vcpu_destroy)(struct vmm_engine_vcpu *v);

	/* set_cpuid - set the CPUID leaves. The vendor in leaf 0 also decides whether delivering a
	 * PMI masks LVTPC (pmi), and whether the emulator behaves like an Intel or an AMD CPU
	 * (docs/internals/emulator.md, "Intel and AMD"). Call it before set_sregs, because KVM
	 * checks control register bits against it, and not while the vCPU runs. */
	int (*set_cpuid)(struct vmm_engine_vcpu *v, const struct kvm_cpuid_entry2 *e, size_t n);
	/* supported_cpuid - the upper limit for set_cpuid: *table has *n entries, valid until
	 * close(). *table is NULL: no limit, the engine supports every feature that vmm/vm/ can
	 * show. Any thread. */
	void (*supported_cpuid)(const struct vmm_engine *e, const struct kvm_cpuid_entry2 **table,
				size_t *n);
	int (*get_regs)(struct vmm_engine_vcpu *v, struct kvm_regs *r);
	int (*set_regs)(struct vmm_engine_vcpu *v, const struct kvm_regs *r);
	int (*get_sregs)(struct vmm_engine_vcpu *v, struct kvm_sregs *s);
	int (*set_sregs)(struct vmm_engine_vcpu *v, const struct kvm_sregs *s);

	/* run - execute until an exit. Returns 0 and sets run->exit, or -errno if the engine
	 * failed. */
	int (*run)(struct vmm_engine_vcpu *v, struct vmm_run *run);
	/* warm - @v will run soon on this thread's CPU: prefetch the data that run() reads first,
	 * without waiting. Call it first with @next false, while others run before @v, and then
	 * with @next true, when @v is next: only the second call reads *@v. @v must not run, nor be
	 * able to start. VMM_CAN_WARM. */
	void (*warm)(const struct vmm_engine_vcpu *v, bool next);
	/* kick - make the run() in progress, or else the next one, return VMM_EXIT_INTR soon. Any
	 * thread; async-signal-safe. */
	void (*kick)(struct vmm_engine_vcpu *v);

	/* interrupt, nmi - queue external interrupt @vector, or an NMI, besides those of the local
	 * APIC. The guest takes the vector when RFLAGS.IF and CR8 allow. -EBUSY: one is queued
	 * already. Call them between runs. */
	int (*interrupt)(struct vmm_engine_vcpu *v, uint8_t vector);
	int (*nmi)(struct vmm_engine_vcpu *v);

	/*
	 * pmi - the vCPU's counters raise their interrupt: it goes through LVTPC of the vCPU's
	 * local APIC and is lost if that entry is masked or the APIC is not in x2APIC mode.
	 * Delivery masks LVTPC if the vendor in CPUID is Intel (SDM vol. 3, 11.5.1). The guest gets
	 * the interrupt before its next instruction, if it accepts it. Call it between runs.
	 * VMM_CAN_PMI.
	 */
	int (*pmi)(struct vmm_engine_vcpu *v);

	/* set_tally - count into @t from now on: the counters of the pCPU that the vCPU runs on.
	 * NULL: into a private tally. Call it between runs. VMM_CAN_TALLY. */
	int (*set_tally)(struct vmm_engine_vcpu *v, struct vpmu_emu_tally *t);

	/*
	 * get_state - everything of the vCPU that kvm_regs and kvm_sregs do not hold: queued
	 * events, the local APIC, x87 and SSE, the exit that waits for its answer, MSRs, clocks.
	 * *bytes is the size of @buf; on return it is the size used, or with -ENOSPC the size
	 * needed. -ENOMEM. -EBUSY: an exit waits for its answer, and the engine cannot save that
	 * (KVM; when run() returns VMM_EXIT_INTR, all exits are complete except those of a string
	 * instruction).
	 * set_state - the reverse. Call it after set_sregs and set_regs, which reset this state. It
	 * checks every byte. -EINVAL: nothing changed; on KVM the vCPU is unusable. Call both
	 * between runs. VMM_CAN_SAVE.
	 *
	 * A restored vCPU continues as the original would have, also in another process. The caller
	 * saves and restores CPUID, the trapped MSRs, guest RAM, the tally, and the answer to the
	 * exit that waits. Example: the vCPU is saved after VMM_EXIT_RDMSR. The restoring process
	 * passes the answer in run->u to the first run() of the restored vCPU.
	 */
	int (*get_state)(struct vmm_engine_vcpu *v, void *buf, size_t *bytes);
	int (*set_state)(struct vmm_engine_vcpu *v, const void *buf, size_t bytes);

	/*
	 * get_vm_state, set_vm_state - the same for the VM's own state: the I/O APIC and the clock.
	 * Call them while no vCPU runs, no waker is set and no line changes; set it before the
	 * state of any vCPU. -ENXIO: the VM has no interrupt controllers, so no such state.
	 * VMM_CAN_SAVE with VMM_CAN_IRQCHIP.
	 */
	int (*get_vm_state)(struct vmm_engine_vm *vm, void *buf, size_t *bytes);
	int (*set_vm_state)(struct vmm_engine_vm *vm, const void *buf, size_t bytes);

	/* guest_tsc - *ticks = TSC ticks spent in the guest since the first call, without the time
	 * in which the vCPU's thread had no CPU. Never decreases. Call it on the thread that runs
	 * the vCPU, or on any other while it does not run. VMM_CAN_GUEST_TSC. */
	int (*guest_tsc)(struct vmm_engine_vcpu *v, uint64_t *ticks);
};

extern const struct vmm_engine_ops vmm_emu_ops;
extern const struct vmm_engine_ops vmm_kvm_ops;

/* vmm_emu_translate - let the emulator translate hot guest code to host code, or disable that
 * permanently (@on false). Returns NULL, or the reason why code is not translated: the host does
 * not allow executable memory, or cannot run such code. Call it before containment, which forbids
 * new executable memory, and before the first vCPU. Without a call the first open() decides. */
const char *vmm_emu_translate(bool on);
