/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The PMU of KVM guests, for any VMM.
 *
 * The VMM keeps its own VM, vCPUs and KVM_RUN. libvpmu switches KVM's vPMU off, has the guest's PMU
 * MSRs filtered, and answers their exits with a register model (vpmu/guest/model.h); it raises PMIs
 * through the vCPU's LVTPC, and answers RDPMC of Linux kernels. What the guest counts are events of
 * the vCPU's thread, shared with every other consumer of the same account (account.h).
 *
 *	vpmu_kvm_vm_open(&vm_opts, &vm, why, sizeof(why));		before the first vCPU
 *	vpmu_kvm_vcpu_open(vm, &vcpu_opts, &v, why, sizeof(why));	for each
 *	vpmu_kvm_vcpu_cpuid(v, entries, &n, room);			before KVM_SET_CPUID2
 *	for (;;) {							on the vCPU's thread
 *		vpmu_kvm_enter(v);
 *		rc = ioctl(fd, KVM_RUN, 0);
 *		switch (vpmu_kvm_leave(v, rc < 0 ? -errno : rc)) {
 *		case VPMU_KVM_AGAIN:		continue;	KVM_RUN ends the answer
 *		case VPMU_KVM_INTERRUPTED:	EINTR for the VMM
 *		case VPMU_KVM_EXIT:		as without libvpmu
 *		}
 *	}
 *	vpmu_kvm_vcpu_close(v);
 *	vpmu_kvm_vm_close(vm);
 *
 * Threads. Each function names the threads that may call it:
 *
 *   Control   one thread at a time for a VM; not inside of any callback of vpmu_kvm_vm_opts.
 *   vCPU      the thread that runs the vCPU. It is bound to the vCPU by vpmu_kvm_enter, until
 *             vpmu_kvm_release or the thread's end. While no thread is bound, any one thread.
 *   Any       any thread, at any time between open and close.
 *
 * The library registers each calling thread with liburcu if that has not been done, and
 * unregisters it at its end. Threads that it or liburcu makes block all signals.
 *
 * A guest's exits (enter, leave) never wait for another thread of the process, except for one that
 * opens or closes a vCPU or a consumer at that moment. They allocate only when a guest starts a
 * counter with an event that is new on its thread. The work per exit is bounded; the search for
 * RDPMC is limited to VPMU_KVM_SEARCHES per VM and reset.
 *
 * Signals. Two kinds end KVM_RUN early: alarms of counters, by a real-time signal that the library
 * installs a handler for (alarm_signal), and SIGIO, which the kernel sends instead when its queue
 * is full. The first vpmu_kvm_enter of a thread unblocks them there. The handler sets bit 1 of
 * kvm_run.immediate_exit (VPMU_KVM_IMMEDIATE) at any time while the thread is bound; the VMM writes
 * 1, or 0, as without libvpmu. The library reads and clears its own bit only, atomically.
 *
 * Counts of vpmud. With vpmu_kvm_vm_opts.vpmud, what vCPUs count is read from vpmud's pages
 * (totals.h), as far as vpmud permits: no perf event of the thread, and the count that the operator
 * reads. A thread of the library talks to vpmud; an access to a PMU MSR that needs a new event
 * waits for it for at most 20 ms, and no other exit waits. Everything else is counted by events of
 * the thread, if the process may open them: what vpmud refuses, and what a page that has ended
 * leaves, until vpmud is back. Time that neither has counted is time without a counter
 * (MULTIPLEXED). Of a key that counts the host, too, an interval begins and ends when KVM_RUN last
 * returned.
 *
 * Errors are negative errno values. "why" arguments take one line of at most whylen bytes with the
 * reason; whylen may be 0. Callers zero each struct and set its @size; another size is -EINVAL.
 *
 * x86-64 hosts only; needs KVM_CAP_X86_MSR_FILTER (Linux 5.10) and interrupt controllers in the
 * kernel for PMIs. SEV-ES, SEV-SNP and TDX guests cannot have it: neither their registers nor their
 * text can be reached.
 */
#ifndef VPMU_KVM_H
#define VPMU_KVM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct kvm_cpuid_entry2; /* linux/kvm.h */
struct kvm_msr_filter;
struct kvm_run;

struct vpmu_account;
struct vpmu_guest;
struct vpmu_guest_cfg;
struct vpmu_host;
struct vpmu_hostpmu;
struct vpmu_pcpu;
struct vpmu_quota;

struct vpmu_kvm_vm;   /* opaque */
struct vpmu_kvm_vcpu; /* opaque */

/* The library's bit of kvm_run.immediate_exit. A VMM must not use it. */
#define VPMU_KVM_IMMEDIATE 2

/* RDPMC instructions of one VM's kernel; the searches for them between two vpmu_kvm_vm_reset, with
 * one more every 10 seconds; and the longest text that one of them looks through, in bytes. */
#define VPMU_KVM_SITES	      64
#define VPMU_KVM_SEARCHES     16
#define VPMU_KVM_SEARCH_BYTES (64u << 20)

/* ---- a VM ---- */

enum {
	/* Find RDPMC in the running kernel and answer it: see "RDPMC". Needs @hva, Linux guests. */
	VPMU_KVM_RDPMC = 1 << 0,
	/* Hand every EINTR of KVM_RUN on, for VMMs that do not use immediate_exit (kvmtool). The
	 * VMM sees more of them than without libvpmu. */
	VPMU_KVM_HAND_ON = 1 << 1,
	/* Count cycles by the nominal clock if the host has no hardware PMU (hostpmu_perf.h). */
	VPMU_KVM_NOMINAL_CYCLES = 1 << 2,
	/* Pinned perf events (hostpmu_perf.h). */
	VPMU_KVM_PINNED = 1 << 3,
	/* The VM has no interrupt controllers in the kernel: no PMIs. Guests find overflows in the
	 * status register. */
	VPMU_KVM_NO_IRQCHIP = 1 << 4
};

struct vpmu_kvm_vm_opts {
	size_t size; /* sizeof(struct vpmu_kvm_vm_opts) */
	int fd;	     /* the VM's; borrowed until vpmu_kvm_vm_close */
	unsigned int flags;
	/* The model and its options; copied. Its policy is borrowed until vpmu_kvm_vm_close. rdpmc
	 * follows VPMU_KVM_RDPMC, and no_lbr is true: KVM does not let a guest record branches. */
	const struct vpmu_guest_cfg *guest;
	/* Where the VM's events are charged: a new account below @parent, of @host. NULL @parent:
	 * below the host's root. Both outlive the VM. */
	struct vpmu_host *host;
	struct vpmu_account *parent;
	struct vpmu_quota *quota; /* limits the VM's events (quota.h); borrowed; or NULL */
	/* The VMM's own MSR filter and KVM_MSR_EXIT_REASON_* flags; see vpmu_kvm_vm_filter and
	 * vpmu_kvm_vm_msr_exits. NULL and 0: none. */
	const struct kvm_msr_filter *filter;
	unsigned int msr_exits;
	/* General counters to leave to others on each CPU (hostpmu_perf.h); 0: the default, 2, or
	 * fewer if the guest has counters for all others. A guest that does not read the
	 * paravirtual running times counts too little while its events are multiplexed. */
	unsigned int leave_counters;
	/* The alarm signal; 0: SIGRTMIN + 5. The same for all VMs of a process. */
	int alarm_signal;
	/* With more events in use than counters, they are multiplexed at this interval, in ns; also
	 * the longest time after which a change by a control call reaches a vCPU that never exits.
	 * 0: 10 ms; with more than a few seconds PMIs can be late. It needs no right and no thread:
	 * it is a timer of the vCPU's thread while the guest or an operator counts. */
	uint64_t tick_ns;
	/*
	 * Returns the address of guest-physical @gpa in this process, and in *@left the bytes from
	 * there that are contiguous; NULL: no RAM (or RAM of another address space, as SMM's).
	 * Called on vCPU threads within leave: no lock that is held while a vCPU is stopped.
	 */
	void *(*hva)(void *arg, uint64_t gpa, uint64_t *left);
	/* The library has written @bytes of guest memory at @gpa, which KVM's dirty log does not
	 * see. On a vCPU thread, or the caller's of vpmu_kvm_rdpmc_restore. May be NULL. */
	void (*dirty)(void *arg, uint64_t gpa, uint64_t bytes);
	/* ioctl(fd, request, arg) that returns its result or -errno. NULL: the system call itself,
	 * not libc's ioctl(), which may be interposed. Any thread. */
	int (*ioctl)(int fd, unsigned long request, void *arg);
	void *arg; /* of hva and dirty */
	/* The socket of vpmud for VMMs, /run/vpmu/vcpus.sock, for vCPUs without a PMU of the VMM's
	 * (vpmu_kvm_vcpu_opts.pmu); copied. NULL: none. See "Counts of vpmud". */
	const char *vpmud;
};

/*
 * vpmu_kvm_vm_open - prepare the VM with fd @opts->fd: switch KVM's vPMU off, enable MSR exits, set
 * the MSR filter, and install the alarm's handler. Call it after KVM_CREATE_VM, and before the
 * first KVM_CREATE_VCPU, since KVM refuses to switch its vPMU off later. @opts is copied. Returns
 * 0; -EINVAL: @opts; -EOPNOTSUPP: this KVM lacks something; -EBUSY: the alarm signal has a handler,
 * or KVM has a vCPU; -E2BIG: the ranges of both filters are more than KVM takes; -ENOMEM; or KVM's.
 * After an error the vPMU, MSR exits and filter of the VM may have changed. Control.
 *
 * vpmu_kvm_vm_close - end it: *@vm is freed, and its account deleted. Its vCPUs must have been
 * closed. KVM's filter stays as it is. NULL does nothing. Control.
 */
int vpmu_kvm_vm_open(const struct vpmu_kvm_vm_opts *opts, struct vpmu_kvm_vm **vm, char *why,
		     size_t whylen);
void vpmu_kvm_vm_close(struct vpmu_kvm_vm *vm);

/*
 * vpmu_kvm_vm_filter - set the MSR filter: the library's ranges first, then @theirs, with the flags
 * of @theirs. NULL: none of the VMM's. The VMM calls this instead of KVM_X86_SET_MSR_FILTER. If
 * they are too many together, ranges of the other vendor are left out, which KVM answers itself
 * then.
 * @theirs is not kept. Returns 0; -E2BIG: too many; or KVM's error. Control.
 *
 * vpmu_kvm_vm_msr_exits - enable the exits for @reasons (KVM_MSR_EXIT_REASON_*) and the library's
 * own. The VMM calls this instead of KVM_ENABLE_CAP of KVM_CAP_X86_USER_SPACE_MSR. Returns 0 or
 * KVM's error. Control.
 *
 * vpmu_kvm_vm_traps - returns true if accesses to @msr are answered by the library. Any.
 */
int vpmu_kvm_vm_filter(struct vpmu_kvm_vm *vm, const struct kvm_msr_filter *theirs);
int vpmu_kvm_vm_msr_exits(struct vpmu_kvm_vm *vm, unsigned int reasons);
bool vpmu_kvm_vm_traps(const struct vpmu_kvm_vm *vm, uint32_t msr);

/* vpmu_kvm_vm_account - returns the VM's account, the parent of its vCPUs', for consumers of the
 * VMM or operator; valid until vpmu_kvm_vm_close. Any. */
struct vpmu_account *vpmu_kvm_vm_account(struct vpmu_kvm_vm *vm);

/* vpmu_kvm_vm_reset - the machine is reset (not: one vCPU): another kernel will be loaded, so the
 * RDPMC sites of the old one are forgotten. No vCPU may be in KVM_RUN. Control. */
void vpmu_kvm_vm_reset(struct vpmu_kvm_vm *vm);

/* ---- a vCPU ---- */

struct vpmu_kvm_vcpu_opts {
	size_t size;	     /* sizeof(struct vpmu_kvm_vcpu_opts) */
	int fd;		     /* the vCPU's; borrowed */
	struct kvm_run *run; /* its mapping; borrowed, including the page of I/O data */
	/* The argument of KVM_CREATE_VCPU: the id of the vCPU and of its local APIC. */
	unsigned int id;
	/* The host's counters for this vCPU (hostpmu.h), used by its thread only; borrowed. NULL:
	 * perf events of that thread, without hardware PMU those that software can count. */
	struct vpmu_hostpmu *pmu;
	/* Both, or neither: a register model and the pCPU on which its context is placed, both the
	 * VMM's, which places, switches, ticks, polls and finishes them itself. Then @pmu is
	 * unused, and so are the VM's account, quota and tick_ns. */
	struct vpmu_guest *guest;
	struct vpmu_pcpu *pcpu;
};

/*
 * vpmu_kvm_vcpu_open - give the vCPU a PMU with power-up values. After KVM_CREATE_VCPU, before its
 * first KVM_RUN and KVM_SET_CPUID2. @opts is copied. Returns 0; -EINVAL: @opts, or the model's
 * configuration; -ENOMEM. Control, also while other vCPUs run.
 *
 * vpmu_kvm_vcpu_close - end it, before the fd and the mapping are closed. NULL does nothing.
 * Returns 0; -EBUSY: a living thread is bound to it (vpmu_kvm_release), and nothing has changed.
 * Control.
 */
int vpmu_kvm_vcpu_open(struct vpmu_kvm_vm *vm, const struct vpmu_kvm_vcpu_opts *opts,
		       struct vpmu_kvm_vcpu **v, char *why, size_t whylen);
int vpmu_kvm_vcpu_close(struct vpmu_kvm_vcpu *v);

/*
 * vpmu_kvm_vcpu_cpuid - edit the @*n entries @e of the VMM before KVM_SET_CPUID2: show the model's
 * PMU, and hide what no model has. Entries that are missing are appended, and *@n grows: at most
 * VPMU_KVM_CPUID_MORE; the array has room for @room. Hypervisor leaves (4000_xxxxH) stay. Returns
 * 0; -E2BIG: no room, and nothing has changed. Any.
 */
#define VPMU_KVM_CPUID_MORE 4
int vpmu_kvm_vcpu_cpuid(const struct vpmu_kvm_vcpu *v, struct kvm_cpuid_entry2 *e, size_t *n,
			size_t room);

/*
 * vpmu_kvm_enter - call it directly before each KVM_RUN, also before one that repeats an
 * interrupted one. Handles overflows since the last one, raises their PMI, and begins to measure
 * the guest's time. The first call binds the thread and opens its counters. Returns 0. -EBUSY:
 * another thread is bound; -ENOMEM: nothing was bound, and the guest may run, uncounted; or KVM's
 * error to a PMI, which is lost. vCPU.
 */
int vpmu_kvm_enter(struct vpmu_kvm_vcpu *v);

enum vpmu_kvm_next {
	/* The exit was the library's and is answered, or nothing but an alarm ended KVM_RUN: enter,
	 * and KVM_RUN again. */
	VPMU_KVM_AGAIN = 0,
	/* The exit in kvm_run, or KVM_RUN's error, is for the VMM. */
	VPMU_KVM_EXIT,
	/* KVM_RUN returned EINTR for a reason of the VMM's: bit 0 of immediate_exit is set, or a
	 * signal that is not the library's arrived. */
	VPMU_KVM_INTERRUPTED
};

/*
 * vpmu_kvm_leave - call it directly after each KVM_RUN. @rc: its result, or -errno. Answers RDMSR
 * and WRMSR exits of the library's ranges and the I/O exits that stand for RDPMC; KVM completes
 * them in the next KVM_RUN, with immediate_exit, too. Until then registers that the VMM reads are
 * those from before the access, and it must not set any: an answer may be in kvm_run.s and
 * kvm_dirty_regs. An access that is #GP by the manuals becomes #GP. vCPU.
 */
enum vpmu_kvm_next vpmu_kvm_leave(struct vpmu_kvm_vcpu *v, int rc);

/*
 * vpmu_kvm_release - unbind the calling thread: its counters are closed, values stay in the guest's
 * registers, and counters that are on go on at the next vpmu_kvm_enter, on any thread. A VMM calls
 * this before the thread ends or waits for long (a paused VM); otherwise calls that wait for the
 * thread (host.h) time out and do without its latest counts. The end of a bound thread does the
 * same. Not between enter and leave. vCPU.
 */
void vpmu_kvm_release(struct vpmu_kvm_vcpu *v);

/* vpmu_kvm_vcpu_account - returns the vCPU's account; NULL with a register model of the VMM's. Any.
 */
struct vpmu_account *vpmu_kvm_vcpu_account(struct vpmu_kvm_vcpu *v);

/* ---- state ---- */

/*
 * vpmu_kvm_vcpu_reset - registers as after power-up, pending PMIs dropped. When the VMM resets the
 * vCPU, and not for INIT, which leaves a PMU as it is but for AMD's selects. vCPU.
 */
void vpmu_kvm_vcpu_reset(struct vpmu_kvm_vcpu *v);

/*
 * The PMU as MSRs, as KVM_GET_MSRS and KVM_SET_MSRS of a VMM see them. They differ from the guest's
 * accesses: counters are of full width also at Intel's C1H + i, status registers (38EH, C0000300H)
 * can be written, a written value is not counted as a denial, and no write causes a PMI.
 *
 * vpmu_kvm_vcpu_msrs - *@n: number of MSRs of this model (at most 256), the first *@n of which (as
 * the caller has set it) are stored in @msr, in an order in which they can be set; call
 * vpmu_kvm_vcpu_reset first. They include the paravirtual ones (vpmu/guest/abi.h), which carry
 * times and qualities. vCPU. vpmu_kvm_vcpu_get_msr, _set_msr - 0; -ENOENT: the model has no such
 * MSR; -EINVAL: no guest could have written the value. vCPU.
 *
 * What no MSR holds is lost on this way: a PMI that is due, and the mask of LVTPC that Intel CPUs
 * set when they deliver one. The blob has all.
 */
void vpmu_kvm_vcpu_msrs(struct vpmu_kvm_vcpu *v, uint32_t *msr, size_t *n);
int vpmu_kvm_vcpu_get_msr(struct vpmu_kvm_vcpu *v, uint32_t msr, uint64_t *val);
int vpmu_kvm_vcpu_set_msr(struct vpmu_kvm_vcpu *v, uint32_t msr, uint64_t val);

/*
 * The PMU as a blob of at most VPMU_KVM_STATE_MAX bytes, for another process or a later one of the
 * same configuration. Its format has a version; the bytes are checked, since they are untrusted.
 *
 * vpmu_kvm_vcpu_save - *@bytes: size of @buf; on return the size used, or with -ENOSPC needed.
 * -ENOMEM. vCPU, not between enter and leave.
 * vpmu_kvm_vcpu_load - -EINVAL: not such a state, with the reason; nothing has changed; -ENOMEM.
 * vCPU, not between enter and leave.
 */
#define VPMU_KVM_STATE_MAX 4096
int vpmu_kvm_vcpu_save(struct vpmu_kvm_vcpu *v, void *buf, size_t *bytes);
int vpmu_kvm_vcpu_load(struct vpmu_kvm_vcpu *v, const void *buf, size_t bytes, char *why,
		       size_t whylen);

/* ---- RDPMC ----
 *
 * With KVM's vPMU off RDPMC is #GP, and KVM has no exit for it. With VPMU_KVM_RDPMC the library
 * looks for RDPMC in the kernel's text, around the RIP of a write to a PMU MSR, or of a read of a
 * select that is off, as in a driver that starts (after kexec, too), and replaces it by IN EAX,33H,
 * which has the same length and exits. It takes only instructions that many starts of decoding
 * agree on and that SHL RDX,32 follows, as in Linux' native_read_pmc(); all others, and RDPMC of
 * user space, stay #GP. IN cannot fault: what would be #GP reads as 0.
 *
 * After a migration the kernel's text holds the IN already. The library adopts one that exits: at
 * CPL 0, in 64-bit mode, with SHL RDX,32 behind it.
 */

/*
 * vpmu_kvm_rdpmc_sites - *@n: number of sites, the first *@n of which (as the caller has set it)
 * are stored in @rip, with those of kernels that kexec replaced. Any; those that are found at that
 * moment may be missing. vpmu_kvm_rdpmc_add - add the site at @rip, where the VMM has put the IN
 * itself. 0; -ENOSPC: there are VPMU_KVM_SITES. Any. vpmu_kvm_rdpmc_restore - put RDPMC back
 * wherever this process has replaced it and the IN is still there, and forget all sites: the VM
 * will go on without the library. Returns the number put back. No vCPU may be in KVM_RUN. Control.
 */
void vpmu_kvm_rdpmc_sites(const struct vpmu_kvm_vm *vm, uint64_t *rip, size_t *n);
int vpmu_kvm_rdpmc_add(struct vpmu_kvm_vm *vm, uint64_t rip);
size_t vpmu_kvm_rdpmc_restore(struct vpmu_kvm_vm *vm);

/* ---- what an operator wants to see ---- */

enum {
	/* A counter that is on stands still: the policy denies its event. */
	VPMU_KVM_DENIED = 1 << 0,
	/* The host cannot count the event of a counter that is on. */
	VPMU_KVM_UNSUPPORTED = 1 << 1,
	/* A counter that is on shares a host counter in turns: its count covers a part of the time.
	 */
	VPMU_KVM_MULTIPLEXED = 1 << 2,
	/* A counter that is on has a modelled or estimated count (value.h). */
	VPMU_KVM_ESTIMATED = 1 << 3,
	/* A counter that is on could not be started: quota, or no slot. */
	VPMU_KVM_REFUSED = 1 << 4
};

/* Totals since open. An event is an event select (general counter) or a fixed counter's number. */
struct vpmu_kvm_report {
	unsigned int degraded;	      /* flags above, as of the last exit with a PMU access */
	uint64_t denied, denied_last; /* selections of a denied event; the newest one */
	uint64_t unsupported, unsupported_last; /* starts of one that the host cannot count */
	uint64_t rdmsr, wrmsr, rdpmc;		/* accesses answered, */
	uint64_t faults;			/* of which #GP */
	uint64_t alarms, pmis, pmi_errors;	/* PMIs raised; lost by an error of KVM */
	uint64_t guest_tsc;  /* TSC ticks in KVM_RUN on a CPU, while something counts */
	unsigned int shared; /* events that are counted on vpmud's page now */
};

/* vpmu_kvm_vcpu_report - store the totals. Each is right by itself. Any. */
void vpmu_kvm_vcpu_report(const struct vpmu_kvm_vcpu *v, struct vpmu_kvm_report *out);

/* vpmu_kvm_vcpu_guest - returns the vCPU's register model (vpmu/guest/guest.h), for its owner.
 * vCPU.
 */
struct vpmu_guest *vpmu_kvm_vcpu_guest(struct vpmu_kvm_vcpu *v);

#ifdef __cplusplus
}
#endif

#endif
