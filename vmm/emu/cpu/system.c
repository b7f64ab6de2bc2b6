// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * System instructions that are not about segments, MSRs or privilege changes: flags, control
 * registers, TLB maintenance, HLT; and the instructions that only fault.
 */
#include <errno.h>
#include <stdio.h>

#include <Zydis/Zydis.h>
#include <linux/kvm_para.h>

#include "vmm/emu/internal.h"

#define CR0_PE	     (1ULL << 0)
#define CR0_ET	     (1ULL << 4)
#define CR0_TS	     (1ULL << 3)
#define CR0_NW	     (1ULL << 29)
#define CR0_CD	     (1ULL << 30)
#define CR0_PG	     (1ULL << 31)
#define CR0_WRITABLE 0xe005003fULL /* SDM vol. 3, 2.5 */
/* VME PVI TSD DE PSE PAE MCE PGE PCE OSFXSR OSXMMEXCPT FSGSBASE SMEP. The rest is features the
 * soft machine does not have (LA57, PCID, SMAP, UMIP, XSAVE, keys): #GP, as without them. */
#define CR4_WRITABLE 0x1107ffULL
#define CR4_PAE	     (1ULL << 5)
#define CR3_RESERVED 0xfff0000000000000ULL

int soft_sys_ud(struct soft_vcpu *v, const struct soft_op *op)
{
	return soft_ud(v);
}

/* More than 15 bytes. */
int soft_sys_gp(struct soft_vcpu *v, const struct soft_op *op)
{
	return soft_gp(v, 0);
}

/*
 * Whether an instruction outside of the closed list is #UD on a vCPU that shows a whole CPU: it
 * belongs to an extension that CPUID does not show. What x86-64 itself has and the list has not is
 * #UD in programs only, so that a program does not end its VM (docs/emulator.md, "What is
 * refused").
 */
static bool undefined(const struct soft_vcpu *v, const ZydisDecodedInstruction *zi)
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

/* An instruction outside the closed list: name it. */
int soft_sys_closed(struct soft_vcpu *v, const struct soft_op *op)
{
	const struct soft_block *b = v->cur;
	ZydisDecodedOperand zo[ZYDIS_MAX_OPERAND_COUNT];
	ZydisDecodedInstruction zi;
	uint8_t raw[16] = {0};
	char hex[3 * 16 + 1] = "", text[80] = "?";
	ZydisFormatter f;
	ZydisDecoder d;
	unsigned int first = op->len;

	if (b->pfn2 != UINT32_MAX)
		first = (unsigned int)(SOFT_PAGE_SIZE - (b->pa & ~SOFT_PAGE_MASK));
	for (unsigned int i = 0; i < op->len && i < 15; i++) {
		uint64_t pa =
			i < first ? b->pa + i : ((uint64_t)b->pfn2 << SOFT_PAGE_SHIFT) + i - first;

		raw[i] = v->vm->ram[pa];
		snprintf(hex + 3 * i, 4, "%02x ", raw[i]);
	}
	ZydisDecoderInit(&d, ZYDIS_MACHINE_MODE_LONG_64, ZYDIS_STACK_WIDTH_64);
	ZydisFormatterInit(&f, ZYDIS_FORMATTER_STYLE_INTEL);
	if (ZYAN_SUCCESS(ZydisDecoderDecodeFull(&d, raw, op->len, &zi, zo))) {
		if (undefined(v, &zi))
			return soft_ud(v);
		ZydisFormatterFormatInstruction(&f, &zi, zo, zi.operand_count_visible, text,
						sizeof(text), b->rip, NULL);
	}
	v->rip = b->rip;
	return soft_error(v, "instruction outside the soft machine's list: %s(%s)", hex, text);
}

int soft_sys_cli(struct soft_vcpu *v, const struct soft_op *op)
{
	if (v->cpl > (v->rflags & SOFT_IOPL) >> 12)
		return soft_gp(v, 0);
	v->rflags &= ~SOFT_IF;
	return 0;
}

int soft_sys_sti(struct soft_vcpu *v, const struct soft_op *op)
{
	if (v->cpl > (v->rflags & SOFT_IOPL) >> 12)
		return soft_gp(v, 0);
	if (!(v->rflags & SOFT_IF)) {
		v->sti_shadow = true;
		v->attn |= SOFT_ATTN_EVENT; /* the run loop ends the shadow after one instruction */
	}
	v->rflags |= SOFT_IF;
	return 0;
}

int soft_sys_hlt(struct soft_vcpu *v, const struct soft_op *op)
{
	if (v->cpl)
		return soft_gp(v, 0);
	v->run->exit = VMM_EXIT_HLT;
	v->trap = SOFT_TRAP_EXIT;
	return 2;
}

int soft_sys_pause(struct soft_vcpu *v, const struct soft_op *op)
{
	if (!v->run->pauses || --v->run->pauses)
		return 0;
	v->run->exit = VMM_EXIT_YIELD;
	v->trap = SOFT_TRAP_EXIT;
	return 2;
}

int soft_sys_pushf(struct soft_vcpu *v, const struct soft_op *op)
{
	unsigned int bytes = 1u << op->base;
	uint64_t f = soft_get_rflags(v) & ~(SOFT_VM | SOFT_RF);

	if (soft_st_slow(v, v->r[SOFT_RSP] - bytes, bytes, f))
		return 1;
	v->r[SOFT_RSP] -= bytes;
	return 0;
}

int soft_sys_popf(struct soft_vcpu *v, const struct soft_op *op)
{
	unsigned int bytes = 1u << op->base;
	uint64_t now = soft_get_rflags(v), keep = SOFT_VM | SOFT_VIF | SOFT_VIP, f;

	f = soft_ld_slow(v, v->r[SOFT_RSP], bytes);
	if (v->trap)
		return 1;
	if (bytes == 2)
		keep |= ~0xffffULL;
	if (v->cpl)
		keep |= SOFT_IOPL;
	if (v->cpl > (now & SOFT_IOPL) >> 12)
		keep |= SOFT_IF;
	v->r[SOFT_RSP] += bytes;
	soft_put_rflags(v, ((now & keep) | (f & 0x3d7fd7 & ~keep)) & ~SOFT_RF);
	soft_recheck(v);
	return 0;
}

/* ---- control registers ---- */

int soft_set_cr(struct soft_vcpu *v, unsigned int cr, uint64_t x)
{
	switch (cr) {
	case 0:
		if (x >> 32 || ((x & CR0_NW) && !(x & CR0_CD)))
			return soft_gp(v, 0);
		/* Paging and protection cannot go away in 64-bit mode (SDM vol. 3, 4.1.2). */
		if (!(x & CR0_PE) || !(x & CR0_PG))
			return soft_gp(v, 0);
		v->cr0 = (x & CR0_WRITABLE) | CR0_ET;
		soft_tlb_flush(v);
		return 0;
	case 2:
		v->cr2 = x;
		return 0;
	case 3:
		if (x & CR3_RESERVED)
			return soft_gp(v, 0);
		v->cr3 = x;
		soft_tlb_flush(v);
		return 0;
	case 4:
		if ((x & ~CR4_WRITABLE) || !(x & CR4_PAE))
			return soft_gp(v, 0);
		v->cr4 = x;
		soft_tlb_flush(v);
		return 0;
	case 8:
		if (x >> 4)
			return soft_gp(v, 0);
		v->cr8 = x;
		soft_recheck(v);
		return 0;
	}
	return soft_ud(v);
}

int soft_sys_mov_to_cr(struct soft_vcpu *v, const struct soft_op *op)
{
	if (v->cpl)
		return soft_gp(v, 0);
	return soft_set_cr(v, op->scale, v->r[op->src]);
}

int soft_sys_mov_from_cr(struct soft_vcpu *v, const struct soft_op *op)
{
	uint64_t x;

	if (v->cpl)
		return soft_gp(v, 0);
	switch (op->scale) {
	case 0:
		x = v->cr0;
		break;
	case 2:
		x = v->cr2;
		break;
	case 3:
		x = v->cr3;
		break;
	case 4:
		x = v->cr4;
		break;
	case 8:
		x = v->cr8;
		break;
	default:
		return soft_ud(v);
	}
	v->r[op->dst] = x;
	return 0;
}

int soft_sys_clts(struct soft_vcpu *v, const struct soft_op *op)
{
	if (v->cpl)
		return soft_gp(v, 0);
	v->cr0 &= ~CR0_TS;
	return 0;
}

int soft_sys_invlpg(struct soft_vcpu *v, const struct soft_op *op)
{
	if (v->cpl)
		return soft_gp(v, 0);
	soft_tlb_flush_page(v, v->r[SOFT_TEA]);
	return 0;
}

/* No caches are modelled. */
int soft_sys_wbinvd(struct soft_vcpu *v, const struct soft_op *op)
{
	return v->cpl ? soft_gp(v, 0) : 0;
}

/* The machine status word: the lower half of CR0. */
int soft_help_smsw(struct soft_vcpu *v, const struct soft_op *op)
{
	soft_wr(v, op->dst, 1u << op->base, v->cr0);
	return 0;
}

/* LMSW writes PE, MP, EM and TS, but cannot clear PE (SDM vol. 2). */
int soft_sys_lmsw(struct soft_vcpu *v, const struct soft_op *op)
{
	uint64_t x;

	if (v->cpl)
		return soft_gp(v, 0);
	x = op->idx ? soft_ld_slow(v, v->r[SOFT_TEA], 2) : v->r[op->src];
	if (v->trap)
		return 1;
	return soft_set_cr(v, 0, (v->cr0 & ~0xeULL) | (x & 0xf) | (v->cr0 & CR0_PE));
}

/*
 * VMCALL and VMMCALL. A vCPU that shows KVM's signature answers as KVM does, but has no hypercall
 * (Documentation/virt/kvm/x86/hypercalls.rst, include/uapi/linux/kvm_para.h).
 */
int soft_sys_vmcall(struct soft_vcpu *v, const struct soft_op *op)
{
	if (!v->whole)
		return soft_sys_closed(v, op);
	v->r[SOFT_RAX] = v->cpl ? (uint64_t)-KVM_EPERM : (uint64_t)-KVM_ENOSYS;
	return 0;
}
