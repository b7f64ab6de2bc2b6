// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * SVM's instructions and MSRs, except VMRUN (world.c): see svm.h. The dispatch loop calls the
 * emu_sys_* functions, msr.c the MSRs, engine.c the rest.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "vmm/emu/svm/svm.h"

#define MSR_VM_CR	0xc0010114u
#define MSR_VM_HSAVE_PA 0xc0010117u
#define VM_CR_R_INIT	(1ULL << 1)
#define VM_CR_LOCK	(1ULL << 3)
#define VM_CR_SVMDIS	(1ULL << 4)
#define VM_CR_KNOWN	0x1fULL

static bool svm_shown(const struct emu_vcpu *v)
{
	const struct kvm_cpuid_entry2 *e = emu_cpuid(v, 0x80000001, 0);

	return !v->intel && e && e->ecx >> 2 & 1;
}

int emu_svm_show(struct emu_vcpu *v)
{
	bool show = svm_shown(v);

	if (show == !!v->svm)
		return 0;
	if (!show) {
		emu_svm_fini(v);
		return 0;
	}
	v->svm = calloc(1, sizeof(*v->svm));
	if (!v->svm)
		return -ENOMEM;
	emu_cache_reset(v); /* PAUSE is decoded anew */
	v->svm->space[0].tlbs = v->own_tlbs;
	for (unsigned int i = 1; i < VMM_SVM_ASIDS; i++)
		v->svm->space[i].tlbs = v->svm->tlbs[i - 1];
	return 0;
}

void emu_svm_fini(struct emu_vcpu *v)
{
	if (!v->svm)
		return;
	emu_svm_reset(v);
	v->efer &= ~EFER_SVME;
	free(v->svm);
	v->svm = NULL;
}

void emu_svm_reset(struct emu_vcpu *v)
{
	if (!v->svm)
		return;
	v->gif_clear = false;
	emu_svm_forget(v);
	if (!v->guest)
		return;
	v->guest = v->npt = v->virq = false;
	v->guest_tsc = 0;
	v->svm->inject = v->svm->outer = 0;
	v->tlbs = v->own_tlbs;
	v->tlb = v->tlbs[v->cpl == 3];
	v->nr_filled = EMU_FILLED + 1;
	emu_tlb_flush(v);
}

/* ---- MSRs ---- */

uint64_t emu_svm_efer(const struct emu_vcpu *v)
{
	return v->svm && !(v->svm->vm_cr & VM_CR_SVMDIS) ? EFER_SVME : 0;
}

int emu_svm_rdmsr(const struct emu_vcpu *v, uint32_t msr, uint64_t *x)
{
	if (msr == MSR_VM_CR)
		*x = v->svm->vm_cr;
	else if (msr == MSR_VM_HSAVE_PA)
		*x = v->svm->hsave;
	else
		return -1;
	return 0;
}

int emu_svm_wrmsr(struct emu_vcpu *v, uint32_t msr, uint64_t x)
{
	struct emu_svm *s = v->svm;
	uint64_t keep = s->vm_cr & VM_CR_LOCK ? VM_CR_LOCK | VM_CR_SVMDIS : 0;

	switch (msr) {
	case MSR_VM_CR:
		x = (x & ~keep) | (s->vm_cr & keep);
		if ((x & ~VM_CR_KNOWN) || ((x & VM_CR_SVMDIS) && (v->efer & EFER_SVME)))
			return emu_gp(v, 0);
		s->vm_cr = x;
		return 0;
	case MSR_VM_HSAVE_PA: /* never used: the host's state is kept in struct emu_svm */
		if ((x & ~EMU_PAGE_MASK) || (x & emu_no_address(v)))
			return emu_gp(v, 0);
		s->hsave = x;
		return 0;
	}
	return -1;
}

/* ---- instructions ---- */

/* Checks that all of SVM's instructions share. Traps. */
static int svm_begin(struct emu_vcpu *v, const struct emu_op *op)
{
	if (!v->svm)
		return emu_sys_closed(v, op);
	if (!(v->efer & EFER_SVME))
		return emu_ud(v);
	return v->cpl ? emu_gp(v, 0) : 0;
}

uint8_t *svm_vmcb_page(struct emu_vcpu *v, const struct emu_op *op)
{
	uint64_t pa = v->r[EMU_RAX];
	uint8_t *p;

	if (svm_begin(v, op))
		return NULL;
	p = pa & ~EMU_PAGE_MASK ? NULL : svm_phys(v, pa);
	if (!p)
		emu_gp(v, 0);
	return p;
}

int emu_sys_vmload(struct emu_vcpu *v, const struct emu_op *op)
{
	const uint8_t *p = svm_vmcb_page(v, op);
	struct vmcb_save m;

	if (!p)
		return 1;
	v->extra += EMU_EFFORT_VMLOAD;
	memcpy(&m, p + VMCB_SAVE, sizeof(m));
	svm_from_vmcb(&v->seg[EMU_FS], &m.fs);
	svm_from_vmcb(&v->seg[EMU_GS], &m.gs);
	svm_from_vmcb(&v->tr, &m.tr);
	svm_from_vmcb(&v->ldt, &m.ldtr);
	v->r[EMU_FSBASE] = v->seg[EMU_FS].base;
	v->r[EMU_GSBASE] = v->seg[EMU_GS].base;
	v->kernel_gs_base = svm_canonical(m.kernel_gs_base);
	v->star = m.star;
	v->lstar = svm_canonical(m.lstar);
	v->cstar = svm_canonical(m.cstar);
	v->fmask = (uint32_t)m.sfmask;
	v->w.sysenter_cs = (uint32_t)m.sysenter_cs;
	v->w.sysenter_esp = (uint32_t)m.sysenter_esp; /* as msr_whole.c keeps them */
	v->w.sysenter_eip = (uint32_t)m.sysenter_eip;
	return 0;
}

int emu_sys_vmsave(struct emu_vcpu *v, const struct emu_op *op)
{
	uint8_t *p = svm_vmcb_page(v, op);
	struct vmcb_save m;

	if (!p)
		return 1;
	v->extra += EMU_EFFORT_VMLOAD;
	memcpy(&m, p + VMCB_SAVE, sizeof(m));
	svm_to_vmcb(&m.fs, &v->seg[EMU_FS], v->r[EMU_FSBASE]);
	svm_to_vmcb(&m.gs, &v->seg[EMU_GS], v->r[EMU_GSBASE]);
	svm_to_vmcb(&m.tr, &v->tr, v->tr.base);
	svm_to_vmcb(&m.ldtr, &v->ldt, v->ldt.base);
	m.kernel_gs_base = v->kernel_gs_base;
	m.star = v->star;
	m.lstar = v->lstar;
	m.cstar = v->cstar;
	m.sfmask = v->fmask;
	m.sysenter_cs = v->w.sysenter_cs;
	m.sysenter_esp = v->w.sysenter_esp;
	m.sysenter_eip = v->w.sysenter_eip;
	memcpy(p + VMCB_SAVE, &m, sizeof(m));
	svm_stored(v, p);
	return 0;
}

int emu_sys_stgi(struct emu_vcpu *v, const struct emu_op *op)
{
	if (svm_begin(v, op))
		return 1;
	v->gif_clear = false;
	emu_recheck(v);
	return 0;
}

int emu_sys_clgi(struct emu_vcpu *v, const struct emu_op *op)
{
	if (svm_begin(v, op))
		return 1;
	v->gif_clear = true;
	return 0;
}

int emu_sys_invlpga(struct emu_vcpu *v, const struct emu_op *op)
{
	uint32_t asid = (uint32_t)v->r[EMU_RCX];

	if (svm_begin(v, op))
		return 1;
	if (asid >= VMM_SVM_ASIDS)
		return 0; /* no such translations */
	if (asid == (v->guest ? v->svm->c.asid : 0))
		emu_tlb_flush_page(v, v->r[EMU_RAX]);
	else
		svm_flush(v, asid);
	return 0;
}

/* CPUID does not show SKINIT: there is no TPM. */
int emu_sys_absent(struct emu_vcpu *v, const struct emu_op *op)
{
	return v->svm ? emu_ud(v) : emu_sys_closed(v, op);
}

/* A guest's VMMCALL that is not intercepted is #UD (15.18); the host's is a hypercall. */
int emu_sys_vmmcall(struct emu_vcpu *v, const struct emu_op *op)
{
	return v->guest ? emu_ud(v) : emu_sys_vmcall(v, op);
}
