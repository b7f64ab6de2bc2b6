// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * System instructions that are not about segments, MSRs or privilege changes: flags, control
 * registers, TLB maintenance, HLT; and the instructions that only fault.
 */
#include <errno.h>
#include <stdio.h>

#include <Zydis/Zydis.h>
#include <linux/kvm_para.h>

#include "vmm/emu/svm/svm.h"

#define CR3_RESERVED 0xfff0000000000000ULL
/* Translations depend on these bits of CR4: PSE, PAE, PGE, SMEP (SDM vol. 3, 4.10.4.1). */
#define CR4_PAGING (1ULL << 4 | CR4_PAE | CR4_PGE | 1ULL << 20)

int emu_sys_ud(struct emu_vcpu *v, const struct emu_op *op)
{
	return emu_ud(v);
}

/* An instruction of more than 15 bytes. */
int emu_sys_gp(struct emu_vcpu *v, const struct emu_op *op)
{
	return emu_gp(v, 0);
}

/*
 * Returns true if an instruction outside of the closed list is #UD on a vCPU that shows a whole
 * CPU: it belongs to an extension that CPUID does not show. An instruction of x86-64 itself that
 * the list lacks is #UD in programs only, so a program cannot end its VM
 * (docs/internals/emulator.md, "What runs").
 */
static bool undefined(const struct emu_vcpu *v, const ZydisDecodedInstruction *zi)
{
	if (!v->whole)
		return false;
	switch (zi->meta.isa_ext) {
	case ZYDIS_ISA_EXT_BASE:
	case ZYDIS_ISA_EXT_LONGMODE:
	case ZYDIS_ISA_EXT_X87:
	case ZYDIS_ISA_EXT_MMX:
	case ZYDIS_ISA_EXT_SSE:
	case ZYDIS_ISA_EXT_SSE2:
		return v->cpl == 3;
	default:
		return true;
	}
}

/* An instruction outside the closed list: report its name. */
int emu_sys_closed(struct emu_vcpu *v, const struct emu_op *op)
{
	const struct emu_block *b = v->cur;
	ZydisDecodedOperand zo[ZYDIS_MAX_OPERAND_COUNT];
	ZydisDecodedInstruction zi;
	uint8_t raw[16] = {0};
	char hex[3 * 16 + 1] = "", text[80] = "?";
	ZydisFormatter f;
	ZydisDecoder d;
	unsigned int first = op->len;

	if (b->pfn2 != UINT32_MAX)
		first = (unsigned int)(EMU_PAGE_SIZE - (b->pa & ~EMU_PAGE_MASK));
	for (unsigned int i = 0; i < op->len && i < 15; i++) {
		uint64_t pa =
			i < first ? b->pa + i : ((uint64_t)b->pfn2 << EMU_PAGE_SHIFT) + i - first;

		raw[i] = v->vm->ram[pa];
		snprintf(hex + 3 * i, 4, "%02x ", raw[i]);
	}
	ZydisDecoderInit(&d, ZYDIS_MACHINE_MODE_LONG_64, ZYDIS_STACK_WIDTH_64);
	ZydisFormatterInit(&f, ZYDIS_FORMATTER_STYLE_INTEL);
	if (ZYAN_SUCCESS(ZydisDecoderDecodeFull(&d, raw, op->len, &zi, zo))) {
		if (undefined(v, &zi))
			return emu_ud(v);
		ZydisFormatterFormatInstruction(&f, &zi, zo, zi.operand_count_visible, text,
						sizeof(text), b->rip, NULL);
	}
	v->rip = b->rip;
	return emu_error(v, "instruction outside the emulator's list: %s(%s)", hex, text);
}

int emu_sys_cli(struct emu_vcpu *v, const struct emu_op *op)
{
	if (v->cpl > (v->rflags & EMU_IOPL) >> 12)
		return emu_gp(v, 0);
	v->rflags &= ~EMU_IF;
	return 0;
}

int emu_sys_sti(struct emu_vcpu *v, const struct emu_op *op)
{
	if (v->cpl > (v->rflags & EMU_IOPL) >> 12)
		return emu_gp(v, 0);
	if (!(v->rflags & EMU_IF)) {
		v->sti_shadow = true;
		v->attn |= EMU_ATTN_EVENT; /* the run loop ends the shadow after one instruction */
	}
	v->rflags |= EMU_IF;
	return 0;
}

int emu_sys_hlt(struct emu_vcpu *v, const struct emu_op *op)
{
	if (v->cpl)
		return emu_gp(v, 0);
	v->run->exit = VMM_EXIT_HLT;
	v->trap = EMU_TRAP_EXIT;
	return 2;
}

int emu_sys_pause(struct emu_vcpu *v, const struct emu_op *op)
{
	bool alone = v->vm->vcpus == v && !v->vm_next;

	if (alone || !v->run->pauses || --v->run->pauses)
		return 0;
	v->run->exit = VMM_EXIT_YIELD;
	v->trap = EMU_TRAP_EXIT;
	return 2;
}

int emu_sys_pushf(struct emu_vcpu *v, const struct emu_op *op)
{
	unsigned int bytes = 1u << op->base;
	uint64_t f = emu_get_rflags(v) & ~(EMU_VM | EMU_RF);

	if (emu_st_slow(v, v->r[EMU_RSP] - bytes, bytes, f))
		return 1;
	v->r[EMU_RSP] -= bytes;
	return 0;
}

int emu_sys_popf(struct emu_vcpu *v, const struct emu_op *op)
{
	unsigned int bytes = 1u << op->base;
	uint64_t now = emu_get_rflags(v), keep = EMU_VM | EMU_VIF | EMU_VIP, f;

	f = emu_ld_slow(v, v->r[EMU_RSP], bytes);
	if (v->trap)
		return 1;
	if (bytes == 2)
		keep |= ~0xffffULL;
	if (v->cpl)
		keep |= EMU_IOPL;
	if (v->cpl > (now & EMU_IOPL) >> 12)
		keep |= EMU_IF;
	v->r[EMU_RSP] += bytes;
	emu_put_rflags(v, ((now & keep) | (f & 0x3d7fd7 & ~keep)) & ~EMU_RF);
	emu_recheck(v);
	return 0;
}

/* ---- control registers ---- */

int emu_set_cr(struct emu_vcpu *v, unsigned int cr, uint64_t x)
{
	uint64_t changed;

	switch (cr) {
	case 0:
		if (x >> 32 || ((x & CR0_NW) && !(x & CR0_CD)))
			return emu_gp(v, 0);
		/* Paging and protection cannot be turned off in 64-bit mode (SDM vol. 3, 4.1.2). */
		if (!(x & CR0_PE) || !(x & CR0_PG))
			return emu_gp(v, 0);
		v->cr0 = (x & CR0_WRITABLE) | CR0_ET;
		emu_tlb_flush(v);
		return 0;
	case 2:
		v->cr2 = x;
		return 0;
	case 3:
		if (x & CR3_RESERVED)
			return emu_gp(v, 0);
		emu_cr3_set(v, x);
		return 0;
	case 4:
		if ((x & ~emu_cr4_writable(v)) || !(x & CR4_PAE))
			return emu_gp(v, 0);
		changed = v->cr4 ^ x;
		v->cr4 = x;
		if (changed & CR4_PAGING)
			emu_tlb_flush(v);
		return 0;
	case 8:
		if (x >> 4)
			return emu_gp(v, 0);
		v->cr8 = x;
		emu_recheck(v);
		return 0;
	}
	return emu_ud(v);
}

int emu_sys_mov_to_cr(struct emu_vcpu *v, const struct emu_op *op)
{
	if (v->cpl)
		return emu_gp(v, 0);
	return emu_set_cr(v, op->scale, v->r[op->src]);
}

int emu_sys_mov_from_cr(struct emu_vcpu *v, const struct emu_op *op)
{
	const uint64_t *const cr[] = {&v->cr0, NULL, &v->cr2, &v->cr3, &v->cr4, [8] = &v->cr8};

	if (v->cpl)
		return emu_gp(v, 0);
	if (op->scale > 8 || !cr[op->scale])
		return emu_ud(v);
	v->r[op->dst] = *cr[op->scale];
	return 0;
}

int emu_sys_clts(struct emu_vcpu *v, const struct emu_op *op)
{
	if (v->cpl)
		return emu_gp(v, 0);
	v->cr0 &= ~CR0_TS;
	return 0;
}

int emu_sys_invlpg(struct emu_vcpu *v, const struct emu_op *op)
{
	if (v->cpl)
		return emu_gp(v, 0);
	emu_tlb_flush_page(v, v->r[EMU_TEA]);
	return 0;
}

/* No caches are modelled. */
int emu_sys_wbinvd(struct emu_vcpu *v, const struct emu_op *op)
{
	return v->cpl ? emu_gp(v, 0) : 0;
}

/* The machine status word: the lower half of CR0. */
int emu_help_smsw(struct emu_vcpu *v, const struct emu_op *op)
{
	if (unlikely(v->guest) && emu_svm_read(v, op, VMEXIT_CR_READ))
		return 1;
	emu_wr(v, op->dst, 1u << op->base, v->cr0);
	return 0;
}

/* LMSW writes PE, MP, EM and TS, but cannot clear PE (SDM vol. 2). */
int emu_sys_lmsw(struct emu_vcpu *v, const struct emu_op *op)
{
	uint64_t x;

	if (v->cpl)
		return emu_gp(v, 0);
	x = op->idx ? emu_ld_slow(v, v->r[EMU_TEA], 2) : v->r[op->src];
	if (v->trap)
		return 1;
	return emu_set_cr(v, 0, (v->cr0 & ~0xeULL) | (x & 0xf) | (v->cr0 & CR0_PE));
}

/*
 * VMCALL and VMMCALL. A vCPU that shows KVM's signature answers as KVM does, but has no hypercall
 * (Documentation/virt/kvm/x86/hypercalls.rst, include/uapi/linux/kvm_para.h).
 */
int emu_sys_vmcall(struct emu_vcpu *v, const struct emu_op *op)
{
	if (!v->whole)
		return emu_sys_closed(v, op);
	v->r[EMU_RAX] = v->cpl ? (uint64_t)-KVM_EPERM : (uint64_t)-KVM_ENOSYS;
	return 0;
}
