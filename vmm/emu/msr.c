// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * CPUID, the TSC, model-specific registers, RDPMC and ports. The MSRs of the local APIC are in
 * irq.c. Accesses that the engine cannot serve exit to its caller. The instruction retires when the
 * caller has answered, at the next run().
 */
#include <string.h>

#include "vmm/emu/irqchip/chip.h"
#include "vmm/emu/debug.h"
#include "vmm/emu/svm/svm.h"

/* AMD64 APM vol. 2, appendix A; SDM vol. 4. */
#define MSR_TSC		   0x10u
#define MSR_APIC_BASE	   0x1bu
#define MSR_LAST_BRANCH	   0x1dbu /* AMD: last branch and last interrupt, FROM and TO */
#define MSR_PAT		   0x277u
#define MSR_TSC_DEADLINE   0x6e0u
#define MSR_STAR	   0xc0000081u
#define MSR_LSTAR	   0xc0000082u
#define MSR_CSTAR	   0xc0000083u
#define MSR_FMASK	   0xc0000084u
#define MSR_FS_BASE	   0xc0000100u
#define MSR_GS_BASE	   0xc0000101u
#define MSR_KERNEL_GS_BASE 0xc0000102u
#define MSR_IRPERF	   0xc00000e9u
#define MSR_TSC_AUX	   0xc0000103u

#define EFER_WRITABLE	   ((1ULL << 0) | EFER_LME | EFER_NXE) /* SCE, LME, NXE */
#define APIC_BASE_RESERVED 0x2ffULL /* all but BSP (8), EXTD (10), EN (11) and the address */
#define APIC_BASE_EXTD	   (1ULL << 10)
#define CPUID_APIC	   (1u << 9)
#define CPUID_OSXSAVE	   (1u << 27)
#define CR4_TSD		   (1ULL << 2)
#define CR4_PCE		   (1ULL << 8)

#define IN_TSS_IOMAP 0x66

uint64_t emu_tsc(struct emu_vcpu *v)
{
	uint64_t unfolded = emu_unfolded(v);

	return v->tsc_offset + (v->chip ? emu_chip_now(v, unfolded) : v->cycles + unfolded);
}

static const struct kvm_cpuid_entry2 *find_leaf(const struct emu_vcpu *v, uint32_t leaf,
						uint32_t sub)
{
	for (size_t i = 0; i < v->nr_cpuid; i++) {
		const struct kvm_cpuid_entry2 *e = &v->cpuid[i];

		if (e->function == leaf &&
		    (!(e->flags & KVM_CPUID_FLAG_SIGNIFCANT_INDEX) || e->index == sub))
			return e;
	}
	return NULL;
}

/* A leaf beyond the last of its range (basic, hypervisor, extended): Intel's CPUs return the last
 * basic leaf. NULL if @leaf is inside its range. */
static const struct kvm_cpuid_entry2 *beyond(const struct emu_vcpu *v, uint32_t leaf, uint32_t sub)
{
	const struct kvm_cpuid_entry2 *basic = find_leaf(v, 0, 0), *range = basic;

	if (leaf >> 28 == 4)
		range = find_leaf(v, leaf & 0xffffff00, 0);
	else if (leaf >> 31)
		range = find_leaf(v, leaf & 0x80000000, 0);
	if (!basic || (range && leaf <= range->eax))
		return NULL;
	return find_leaf(v, basic->eax, sub);
}

const struct kvm_cpuid_entry2 *emu_cpuid(const struct emu_vcpu *v, uint32_t leaf, uint32_t sub)
{
	const struct kvm_cpuid_entry2 *e = find_leaf(v, leaf, sub);

	return e || !v->intel ? e : beyond(v, leaf, sub);
}

int emu_sys_cpuid(struct emu_vcpu *v, const struct emu_op *op)
{
	const struct kvm_cpuid_entry2 *e =
		emu_cpuid(v, (uint32_t)v->r[EMU_RAX], (uint32_t)v->r[EMU_RCX]);

	uint32_t regs[4] = {0};

	v->extra += EMU_EFFORT_LEAF;
	if (e)
		memcpy(regs, &e->eax, sizeof(regs));
	if (e && e->function == 1 && (v->cr4 & CR4_OSXSAVE))
		regs[2] |= CPUID_OSXSAVE;
	if (e && e->function == 0xd)
		emu_xsave_cpuid(v, e->index, regs);
	v->r[EMU_RAX] = regs[0];
	v->r[EMU_RBX] = regs[1];
	v->r[EMU_RCX] = regs[2];
	v->r[EMU_RDX] = regs[3];
	/* 1H EDX, which AMD's CPUs repeat, has the APIC bit only while the APIC is enabled (SDM
	 * vol. 3, 11.4.3). */
	if (e && !(v->apic_base & APIC_BASE_EN) &&
	    (e->function == 1 || (e->function == 0x80000001 && !v->intel)))
		v->r[EMU_RDX] &= ~(uint64_t)CPUID_APIC;
	return 0;
}

int emu_sys_rdtsc(struct emu_vcpu *v, const struct emu_op *op)
{
	uint64_t t = emu_tsc(v) + v->guest_tsc;

	if ((v->cr4 & CR4_TSD) && v->cpl)
		return emu_gp(v, 0);
	v->r[EMU_RAX] = (uint32_t)t;
	v->r[EMU_RDX] = t >> 32;
	if (op->idx == 1)
		v->r[EMU_RCX] = (uint32_t)v->tsc_aux;
	return 0;
}

/* ---- exits ---- */

static int exit_pending(struct emu_vcpu *v, const struct emu_op *op, enum vmm_exit why,
			enum emu_pending_kind kind)
{
	v->run->exit = why;
	v->pending.kind = kind;
	v->pending.rip = v->cur->rip;
	v->pending.next = v->cur->next;
	v->pending.ev = op->ev;
	v->trap = EMU_TRAP_EXIT;
	return 1;
}

static int exit_msr(struct emu_vcpu *v, const struct emu_op *op, bool write, uint32_t msr,
		    uint64_t data)
{
	v->run->u.msr.index = msr;
	v->run->u.msr.data = data;
	v->run->u.msr.fault = false;
	return exit_pending(v, op, write ? VMM_EXIT_WRMSR : VMM_EXIT_RDMSR,
			    write ? EMU_PEND_WRMSR : EMU_PEND_RDMSR);
}

static bool trapped(const struct emu_vcpu *v, uint32_t msr)
{
	for (size_t i = 0; i < v->vm->nr_msrs; i++)
		if (msr - v->vm->msrs[i].base < v->vm->msrs[i].count)
			return true;
	return false;
}

/* The register of an MSR that is read as it was written, or NULL. */
static uint64_t *msr_plain(struct emu_vcpu *v, uint32_t msr)
{
	switch (msr) {
	case MSR_APIC_BASE:
		return &v->apic_base;
	case MSR_PAT:
		return &v->pat;
	case MSR_EFER:
		return &v->efer;
	case MSR_STAR:
		return &v->star;
	case MSR_LSTAR:
		return &v->lstar;
	case MSR_CSTAR:
		return &v->cstar;
	case MSR_FMASK:
		return &v->fmask;
	case MSR_FS_BASE:
		return &v->r[EMU_FSBASE];
	case MSR_GS_BASE:
		return &v->r[EMU_GSBASE];
	case MSR_KERNEL_GS_BASE:
		return &v->kernel_gs_base;
	case MSR_TSC_AUX:
		return &v->tsc_aux;
	default:
		return NULL;
	}
}

int emu_sys_rdmsr(struct emu_vcpu *v, const struct emu_op *op)
{
	uint32_t msr = (uint32_t)v->r[EMU_RCX];
	const uint64_t *plain = msr_plain(v, msr);
	uint64_t x = 0;
	int rc;

	if (v->cpl)
		return emu_gp(v, 0);
	if (unlikely(v->guest) && emu_svm_msr(v, msr, false))
		return 1;
	if (trapped(v, msr))
		goto out;
	switch (msr) {
	case MSR_TSC:
		x = emu_tsc(v) + v->guest_tsc;
		break;
	case MSR_IRPERF:
		if (!v->svm)
			goto out;
		emu_fold_before(v, op->ev);
		x = v->svm->retired + v->retired;
		break;
	case MSR_TSC_DEADLINE:
		if (!v->lapic.deadline)
			goto out;
		x = lapic_rd_deadline(&v->lapic);
		break;
	case LAPIC_MSR_BASE ... LAPIC_MSR_BASE + LAPIC_MSR_COUNT - 1:
		if (emu_lapic_rdmsr(v, msr, &x))
			return 1;
		break;
	case MSR_LAST_BRANCH ... MSR_LAST_BRANCH + EMU_NR_LAST - 1:
		if (v->intel)
			goto out;
		x = v->last.ip[msr - MSR_LAST_BRANCH];
		break;
	default:
		if (plain) {
			x = *plain;
			break;
		}
		if (unlikely(v->svm) && !emu_svm_rdmsr(v, msr, &x))
			break;
		if (!v->whole)
			goto out;
		rc = emu_whole_rdmsr(v, msr, &x);
		if (rc < 0)
			goto out;
		if (rc)
			return 1;
	}
	v->r[EMU_RAX] = (uint32_t)x;
	v->r[EMU_RDX] = x >> 32;
	return 0;
out:
	return exit_msr(v, op, false, msr, 0);
}

bool emu_pat_valid(uint64_t x)
{
	for (int i = 0; i < 8; i++) {
		unsigned int type = x >> (8 * i) & 0xff;

		if (type > 7 || type == 2 || type == 3)
			return false;
	}
	return true;
}

/* Returns true if a local APIC may change its mode from @from to @to. "x2APIC but disabled" is no
 * mode. From x2APIC mode it can only be disabled, and when disabled only xAPIC mode can be enabled
 * (SDM vol. 3, 11.12.5). */
static bool apic_mode_ok(uint64_t from, uint64_t to)
{
	bool en = to & APIC_BASE_EN, extd = to & APIC_BASE_EXTD;

	if (extd && !en)
		return false;
	if ((from & APIC_BASE_EXTD) && en && !extd)
		return false;
	return (from & APIC_BASE_EN) || !extd;
}

/* SDM vol. 3, 4.1.4. */
uint64_t emu_no_address(const struct emu_vcpu *v)
{
	const struct kvm_cpuid_entry2 *e = find_leaf(v, 0x80000008, 0);
	unsigned int bits = e && e->eax & 0xff ? e->eax & 0xff : 36;

	return bits < 64 ? ~0ULL << bits : 0;
}

int emu_sys_wrmsr(struct emu_vcpu *v, const struct emu_op *op)
{
	uint32_t msr = (uint32_t)v->r[EMU_RCX];
	uint64_t x = (uint32_t)v->r[EMU_RAX] | v->r[EMU_RDX] << 32, efer = EFER_WRITABLE;
	int rc;

	if (v->cpl)
		return emu_gp(v, 0);
	if (unlikely(v->guest) && emu_svm_msr(v, msr, true))
		return 1;
	if (trapped(v, msr))
		goto out;
	switch (msr) {
	case MSR_TSC:
		emu_whole_set_tsc(v, x);
		return 0;
	case MSR_TSC_DEADLINE:
		if (!v->lapic.deadline)
			break;
		emu_lapic_deadline(v, &x);
		return 0;
	case MSR_APIC_BASE:
		if ((x & (APIC_BASE_RESERVED | emu_no_address(v))) ||
		    !apic_mode_ok(v->apic_base, x))
			return emu_gp(v, 0);
		v->apic_base = x;
		v->extra += EMU_EFFORT_APIC_MODE;
		emu_lapic_mode(v);
		return 0;
	case MSR_PAT:
		if (!emu_pat_valid(x))
			return emu_gp(v, 0);
		v->pat = x;
		return 0;
	case MSR_EFER:
		/* LME cannot change while paging is on (SDM vol. 3, 9.8.5), which is always so
		 * here. */
		if (v->whole && !v->intel)
			efer |= EFER_AIBRSE;
		efer |= emu_svm_efer(v);
		if ((x & ~(efer | EFER_LMA)) || !(x & EFER_LME))
			return emu_gp(v, 0);
		/* A guest that clears SVME keeps it: what it would then do is undefined. */
		x = (x & efer) | EFER_LMA | (v->guest ? EFER_SVME : 0);
		if ((x ^ v->efer) & EFER_SVME)
			emu_fold_before(v, op->ev);
		v->efer = x;
		v->gif_clear &= !!(v->efer & EFER_SVME);
		emu_tlb_flush(v);
		return 0;
	case MSR_STAR:
		v->star = x;
		return 0;
	case MSR_LSTAR:
	case MSR_CSTAR:
	case MSR_FS_BASE:
	case MSR_GS_BASE:
	case MSR_KERNEL_GS_BASE:
		if (!emu_canonical(x))
			return emu_gp(v, 0);
		*msr_plain(v, msr) = x;
		return 0;
	case MSR_FMASK:
		v->fmask = (uint32_t)x;
		return 0;
	case MSR_TSC_AUX:
		/* AMD's CPUs ignore the upper half. */
		if (v->intel && x >> 32)
			return emu_gp(v, 0);
		v->tsc_aux = (uint32_t)x;
		return 0;
	case LAPIC_MSR_BASE ... LAPIC_MSR_BASE + LAPIC_MSR_COUNT - 1:
		return emu_lapic_wrmsr(v, msr, x);
	case MSR_LAST_BRANCH ... MSR_LAST_BRANCH + EMU_NR_LAST - 1:
		if (v->intel)
			goto out;
		return emu_gp(v, 0); /* read-only: APM vol. 2, 13.1.1.7 */
	default:
		rc = unlikely(v->svm) ? emu_svm_wrmsr(v, msr, x) : -1;
		if (rc >= 0)
			return rc;
		rc = v->whole ? emu_whole_wrmsr(v, msr, x) : -1;
		if (rc >= 0)
			return rc;
	}
out:
	return exit_msr(v, op, true, msr, x);
}

uint64_t emu_debugctl_read(const struct emu_vcpu *v, uint64_t x)
{
	return x | (v->last.on ? DEBUGCTL_LBR : 0);
}

void emu_debugctl_written(struct emu_vcpu *v, uint64_t x)
{
	if (v->intel)
		return;
	v->last.on = x & DEBUGCTL_LBR;
	emu_lbr_update(v);
	if (v->svm)
		v->svm->debugctl = x & svm_debugctl_bits(v);
}

int emu_sys_rdpmc(struct emu_vcpu *v, const struct emu_op *op)
{
	if (v->cpl && !(v->cr4 & CR4_PCE))
		return emu_gp(v, 0);
	v->run->u.pmc.index = (uint32_t)v->r[EMU_RCX];
	v->run->u.pmc.data = 0;
	v->run->u.pmc.fault = false;
	return exit_pending(v, op, VMM_EXIT_RDPMC, EMU_PEND_RDPMC);
}

/* When CPL is greater than IOPL, the I/O bitmap of the TSS decides (SDM vol. 1, 19.5.2). */
static int port_allowed(struct emu_vcpu *v, uint16_t port, unsigned int bytes)
{
	uint16_t base, bits;

	if (v->cpl <= (v->rflags & EMU_IOPL) >> 12)
		return 0;
	if (v->tr.unusable || !v->tr.present || IN_TSS_IOMAP + 1 > v->tr.limit)
		return emu_gp(v, 0);
	if (emu_sys_read(v, v->tr.base + IN_TSS_IOMAP, &base, 2, 0))
		return 1;
	if (base + port / 8u + 1 > v->tr.limit)
		return emu_gp(v, 0);
	if (emu_sys_read(v, v->tr.base + base + port / 8u, &bits, 2, 0))
		return 1;
	return bits >> (port & 7) & ((1u << bytes) - 1) ? emu_gp(v, 0) : 0;
}

static int msr_port_io(struct emu_vcpu *v, const struct emu_op *op, bool in)
{
	uint16_t port = (uint16_t)(op->src == EMU_RDX ? (int64_t)v->r[EMU_RDX] : op->imm);
	unsigned int bytes = 1u << op->base;

	if (port_allowed(v, port, bytes))
		return 1;
	if (unlikely(v->guest) && emu_svm_port(v, port, bytes, in, 0))
		return 1;
	emu_debug_port(v, port, bytes);
	v->run->u.io.port = port;
	v->run->u.io.size = (uint8_t)bytes;
	v->run->u.io.in = in;
	v->run->u.io.data = in ? 0 : (uint32_t)emu_rd(v, 0, bytes);
	v->pending.size = (uint8_t)bytes;
	return exit_pending(v, op, VMM_EXIT_IO, in ? EMU_PEND_IN : EMU_PEND_OUT);
}

int emu_sys_in(struct emu_vcpu *v, const struct emu_op *op)
{
	return msr_port_io(v, op, true);
}

int emu_sys_out(struct emu_vcpu *v, const struct emu_op *op)
{
	return msr_port_io(v, op, false);
}
