/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * AMD's virtualization (SVM) for a vCPU with SVM in its CPUID: APM vol. 2, chapter 15. The vCPU is
 * the *host*; between VMRUN and #VMEXIT it runs a *guest*, and v->guest is true. While CPUID does
 * not show SVM, v->svm is NULL, its instructions do not exist, and none of this costs anything.
 *
 * An intercept is a trap like a fault: the function that meets it fills svm->exit, sets
 * EMU_TRAP_VMEXIT and returns 1, so the instruction does not retire. run.c then calls
 * emu_svm_exit() at its top level, which stores the guest's state and loads the host's.
 *
 * Translations belong to an ASID. Each has TLBs of its own (struct svm_space), so a world switch
 * drops none unless the host asks for it or registers that they depend on have changed.
 *
 * Everything in a VMCB is the host's input and may be hostile: it is copied once, and each field is
 * checked or masked before use. The host's registers are kept here, never in guest memory.
 */
#pragma once

#include "vmm/emu/internal.h"
#include "vmm/emu/svm/vmcb.h"
#include "vmm/engine/simd.h"

/* The translations of one ASID while it does not run. */
struct svm_space {
	struct emu_tlbe (*tlbs)[EMU_TLB_SIZE];
	struct emu_ltlbe ltlb[EMU_LTLB_SIZE];
	uint64_t large_seen, code_seen, large_code_seen;
	uint16_t filled[EMU_FILLED], nr_filled;
	bool huge_seen;
	bool valid;		      /* they hold with the following registers */
	uint32_t map_gen, epoch;      /* epoch: v->epoch_seen when it last ran */
	uint64_t cr0, cr3, cr4, efer; /* and nested: */
	uint64_t ncr3;
	bool npt;
};

struct emu_svm {
	uint64_t vm_cr, hsave; /* MSRs */
	uint64_t retired;      /* instructions of earlier run()s: IRPERF (PPR, MSRC000_00E9) */
	uint64_t debugctl;     /* DebugCtl without LBR: a copy, since run()'s caller keeps it */
	bool debugctl_due;     /* a world switch has changed it: tell the caller */
	/* The rest has a meaning only while v->guest: */
	uint64_t vmcb;	       /* its guest-physical address, in RAM */
	struct vmcb_control c; /* as VMRUN read it */
	uint64_t icpt;	       /* c.icpt as one number */
	uint64_t inject;       /* EVENTINJ that is not delivered yet; or 0 */
	uint64_t outer;	       /* the event in delivery, as in EXITINTINFO; or 0 */
	uint8_t vtpr;	       /* with V_INTR_MASKING: the guest's CR8 */
	bool host_nxe;	       /* EFER.NXE for the nested page tables */
	uint64_t no_address;   /* reserved in page-table entries: emu_no_address() */
	struct {
		uint64_t code, info1, info2;
		unsigned int len; /* of the intercepted instruction; 0: NRIP is not saved */
		bool bytes;	  /* the instruction's bytes are saved */
	} exit;
	struct {
		uint64_t cr0, cr3, cr4, efer, rflags, rip, rsp, rax, pat;
		uint64_t debugctl; /* with LBR; and the record: with LBR virtualization only */
		uint64_t last[EMU_NR_LAST];
		struct kvm_segment es, cs, ss, ds;
		struct kvm_dtable gdt, idt;
		uint8_t cpl;
	} host;
	struct svm_space space[VMM_SVM_ASIDS];
	struct emu_tlbe tlbs[VMM_SVM_ASIDS - 1][2][EMU_TLB_SIZE];
};

/* ---- svm.c ---- */
/* emu_svm_show - CPUID of @v has been set. 0, or -ENOMEM. emu_svm_fini - @v is destroyed. */
int emu_svm_show(struct emu_vcpu *v);
void emu_svm_fini(struct emu_vcpu *v);
/* emu_svm_reset - leave the guest without an exit: INIT, or new system registers from outside. */
void emu_svm_reset(struct emu_vcpu *v);
/* emu_svm_rdmsr, emu_svm_wrmsr - SVM's MSRs. 0: done; 1: trapped; -1: not one of these. */
int emu_svm_rdmsr(const struct emu_vcpu *v, uint32_t msr, uint64_t *x);
int emu_svm_wrmsr(struct emu_vcpu *v, uint32_t msr, uint64_t x);
/* emu_svm_efer - return the bits of EFER that SVM adds. */
uint64_t emu_svm_efer(const struct emu_vcpu *v);

/* svm_vmcb_page - the checks of VMRUN, VMLOAD, VMSAVE, and the page at RAX. NULL: trapped. */
uint8_t *svm_vmcb_page(struct emu_vcpu *v, const struct emu_op *op);
static inline uint64_t svm_canonical(uint64_t x)
{
	return (uint64_t)((int64_t)(x << 16) >> 16);
}

/* ---- world.c ---- */
/* svm_phys - host address of the page at guest-physical @pa; NULL: it is no RAM. */
uint8_t *svm_phys(struct emu_vcpu *v, uint64_t pa);
/* emu_svm_exit - #VMEXIT with svm->exit and svm->outer: the host runs from now on. */
void emu_svm_exit(struct emu_vcpu *v);
/* emu_svm_debugctl - true if DebugCtl is due: run() must return with the WRMSR that is filled in.
 * It belongs to no instruction. */
bool emu_svm_debugctl(struct emu_vcpu *v);
/* svm_debugctl_bits - the bits of DebugCtl other than LBR that this CPU has. */
uint64_t svm_debugctl_bits(const struct emu_vcpu *v);
/* emu_svm_forget - all blocks are gone, and v->map_gen begins anew. */
void emu_svm_forget(struct emu_vcpu *v);
void svm_to_vmcb(struct vmcb_seg *to, const struct kvm_segment *from, uint64_t base);
void svm_from_vmcb(struct kvm_segment *to, const struct vmcb_seg *from);
/* svm_stored - call it after a store to the page at @page, which may hold code. */
void svm_stored(struct emu_vcpu *v, const uint8_t *page);
/* svm_flush - drop the translations of @asid, which does not run. */
void svm_flush(struct emu_vcpu *v, uint32_t asid);

/* svm_wants - returns true if the VMCB intercepts what exits with @code. */
static inline bool svm_wants(const struct emu_vcpu *v, unsigned int code)
{
	return v->svm->icpt >> (code - VMEXIT_INTR) & 1;
}

/* ---- intercept.c ---- */
/* svm_trap - an exit; @len as in svm->exit. Returns 1. */
int svm_trap(struct emu_vcpu *v, uint64_t code, uint64_t info1, uint64_t info2, unsigned int len);
/* emu_svm_legacy - the intercept of an instruction of 16- or 32-bit code. Traps. */
int emu_svm_legacy(struct emu_vcpu *v, const struct ZydisDecodedInstruction_ *zi,
		   const struct ZydisDecodedOperand_ *zo);
/* emu_svm_read - a guest reads CR0 by SMSW, or LDTR or TR: @code is its exit. Traps. */
int emu_svm_read(struct emu_vcpu *v, const struct emu_op *op, unsigned int code);
/* emu_svm_msr, emu_svm_port - a guest may access this MSR, or @bytes at this port, as far as its
 * own privileges go; @info: bits of EXITINFO1 of string instructions. Traps. */
int emu_svm_msr(struct emu_vcpu *v, uint32_t msr, bool write);
int emu_svm_port(struct emu_vcpu *v, uint16_t port, unsigned int bytes, bool in, uint32_t info);

/* ---- inject.c ---- */
/* emu_svm_exception - a guest is about to get exception @vec. Returns true if that is intercepted:
 * svm->exit is filled. */
bool emu_svm_exception(struct emu_vcpu *v, uint8_t vec, bool has_err, uint32_t err);
/* emu_svm_shutdown - the same for a triple fault. */
bool emu_svm_shutdown(struct emu_vcpu *v);
/* emu_svm_event - the event that a guest is being delivered. */
void emu_svm_event(struct emu_vcpu *v, unsigned int type, uint8_t vec, bool has_err, uint32_t err);
/* emu_svm_events - before the next instruction of a guest. 0: it executes; 1: look again; 2: leave
 * run(). */
int emu_svm_events(struct emu_vcpu *v);
/* emu_svm_open - returns true if interrupts would wake a guest that halts. emu_svm_wakes() is in
 * internal.h. */
bool emu_svm_open(const struct emu_vcpu *v);

/* ---- npt.c ---- */
/* emu_svm_table - translate the address of a guest's page-table entry. Traps. */
int emu_svm_table(struct emu_vcpu *v, uint64_t *at);
/* emu_svm_page - translate *@pa, which a guest accesses; EMU_ACC_W in *@wr (NULL: not asked for) is
 * cleared if a store needs a further walk. Traps. */
int emu_svm_page(struct emu_vcpu *v, unsigned int acc, uint64_t *pa, unsigned int *wr);
