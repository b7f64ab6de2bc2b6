// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Intercepts of a guest's instructions (APM vol. 2, 15.9 to 15.13): which bit of the VMCB is
 * asked, in which order with the exceptions of the instruction itself, and what the exit reports
 * (15.10, 15.11 and, for decode assists, 15.33). An instruction that is not intercepted executes as
 * outside of guests, but for CR8 with V_INTR_MASKING.
 */
#include "vmm/emu/cpu/emit.h"
#include "vmm/emu/svm/svm.h"

#define CR0_MP	   (1ULL << 1)
#define CR4_TSD	   (1ULL << 2)
#define CR4_PCE	   (1ULL << 8)
#define MOV_CR	   (1ULL << 63) /* EXITINFO1: MOV, and its register in the low bits */
#define MSRPM_BITS 0x800u	/* bytes of each of its three ranges */

int svm_trap(struct emu_vcpu *v, uint64_t code, uint64_t info1, uint64_t info2, unsigned int len)
{
	struct emu_svm *s = v->svm;

	s->exit.code = code;
	s->exit.info1 = info1;
	s->exit.info2 = info2;
	s->exit.len = len;
	s->exit.bytes = false;
	v->trap = EMU_TRAP_VMEXIT;
	return 1;
}

/* Length of the system instruction in progress, which is alone in its block. */
static unsigned int intercept_len(const struct emu_vcpu *v)
{
	return (unsigned int)(v->cur->next - v->cur->rip);
}

/* ---- control and debug registers ---- */

/* A guest writes @x to CR0; @info is EXITINFO1. */
static int write_cr0(struct emu_vcpu *v, uint64_t x, uint64_t info)
{
	const struct emu_svm *s = v->svm;

	if (s->c.cr_write & 1)
		return svm_trap(v, VMEXIT_CR_WRITE, info, 0, intercept_len(v));
	if (svm_wants(v, VMEXIT_CR0_SEL_WRITE) && ((x ^ v->cr0) & ~(CR0_TS | CR0_MP)))
		return svm_trap(v, VMEXIT_CR0_SEL_WRITE, info, 0, intercept_len(v));
	return 0;
}

static int to_cr(struct emu_vcpu *v, const struct emu_op *op)
{
	unsigned int n = op->scale;

	if (v->cpl)
		return 0;
	if (n == 0)
		return write_cr0(v, v->r[op->src], MOV_CR | op->src);
	if (v->svm->c.cr_write >> n & 1)
		return svm_trap(v, VMEXIT_CR_WRITE + n, MOV_CR | op->src, 0, intercept_len(v));
	return 0;
}

static int from_cr(struct emu_vcpu *v, const struct emu_op *op)
{
	unsigned int n = op->scale;

	if (v->cpl || !(v->svm->c.cr_read >> n & 1))
		return 0;
	return svm_trap(v, VMEXIT_CR_READ + n, MOV_CR | op->dst, 0, intercept_len(v));
}

/* With V_INTR_MASKING, CR8 is V_TPR (15.21.2). */
static bool own_cr8(const struct emu_vcpu *v, const struct emu_op *op)
{
	return op->scale == 8 && (v->svm->c.int_ctl & VMCB_V_INTR_MASKING);
}

static int sys_to_cr(struct emu_vcpu *v, const struct emu_op *op)
{
	if (to_cr(v, op))
		return 1;
	if (!own_cr8(v, op) || v->cpl)
		return emu_sys_mov_to_cr(v, op);
	if (v->r[op->src] >> 4)
		return emu_gp(v, 0);
	v->svm->vtpr = (uint8_t)v->r[op->src];
	emu_recheck(v);
	return 0;
}

static int sys_from_cr(struct emu_vcpu *v, const struct emu_op *op)
{
	if (from_cr(v, op))
		return 1;
	if (!own_cr8(v, op) || v->cpl)
		return emu_sys_mov_from_cr(v, op);
	v->r[op->dst] = v->svm->vtpr;
	return 0;
}

static int sys_dr(struct emu_vcpu *v, const struct emu_op *op, bool to)
{
	const struct vmcb_control *c = &v->svm->c;
	unsigned int n = op->scale;

	if (!v->cpl && (to ? c->dr_write : c->dr_read) >> n & 1)
		return svm_trap(v, (to ? VMEXIT_DR_WRITE : VMEXIT_DR_READ) + n,
				to ? op->src : op->dst, 0, intercept_len(v));
	return op->fn(v, op);
}

/* ---- the rest ---- */

#define CPL0 1u /* #GP at another CPL comes first */
#define SVME 2u /* #UD without EFER.SVME, too: a guest always has it */
static const struct {
	uint8_t code, flags;
} rules[] = {
	[SYS_HLT] = {VMEXIT_HLT, CPL0},
	[SYS_PUSHF] = {VMEXIT_PUSHF, 0},
	[SYS_POPF] = {VMEXIT_POPF, 0},
	[SYS_INVLPG] = {VMEXIT_INVLPG, CPL0},
	[SYS_WBINVD] = {VMEXIT_WBINVD, CPL0},
	[SYS_INVD] = {VMEXIT_INVD, CPL0},
	[SYS_LGDT] = {VMEXIT_GDTR_WRITE, CPL0},
	[SYS_LIDT] = {VMEXIT_IDTR_WRITE, CPL0},
	[SYS_SGDT] = {VMEXIT_GDTR_READ, 0},
	[SYS_SIDT] = {VMEXIT_IDTR_READ, 0},
	[SYS_LLDT] = {VMEXIT_LDTR_WRITE, CPL0},
	[SYS_LTR] = {VMEXIT_TR_WRITE, CPL0},
	[SYS_VMMCALL] = {VMEXIT_VMMCALL, 0},
	[SYS_CPUID] = {VMEXIT_CPUID, 0},
	[SYS_RDTSC] = {VMEXIT_RDTSC, 0},
	[SYS_RDTSCP] = {VMEXIT_RDTSCP, 0},
	[SYS_RDPMC] = {VMEXIT_RDPMC, 0},
	[SYS_IRETQ] = {VMEXIT_IRET, 0},
	[SYS_INT] = {VMEXIT_SWINT, 0},
	[SYS_PAUSE] = {VMEXIT_PAUSE, 0},
	[SYS_RSM] = {VMEXIT_RSM, 0}, /* before its #UD */
	[SYS_XSETBV] = {VMEXIT_XSETBV, CPL0},
	[SYS_VMRUN] = {VMEXIT_VMRUN, CPL0 | SVME},
	[SYS_VMLOAD] = {VMEXIT_VMLOAD, CPL0 | SVME},
	[SYS_VMSAVE] = {VMEXIT_VMSAVE, CPL0 | SVME},
	[SYS_STGI] = {VMEXIT_STGI, CPL0 | SVME},
	[SYS_CLGI] = {VMEXIT_CLGI, CPL0 | SVME},
	[SYS_INVLPGA] = {VMEXIT_INVLPGA, CPL0 | SVME},
};

/* Intercept of instruction @which of emit_system(). Traps. */
static int svm_check(struct emu_vcpu *v, unsigned int which, const struct emu_op *op)
{
	uint64_t info = 0;

	switch (which) {
	case SYS_CLTS:
		if (v->cpl || !(v->svm->c.cr_write & 1))
			return 0;
		return svm_trap(v, VMEXIT_CR_WRITE, 0, 0, intercept_len(v));
	case SYS_INT3:
		if (!(v->svm->c.exceptions >> EMU_BP & 1))
			return 0;
		return svm_trap(v, VMEXIT_EXCP + EMU_BP, 0, 0, intercept_len(v));
	case SYS_LMSW: /* the selective intercept does not look at what it writes (15.9) */
		return v->cpl ? 0 : write_cr0(v, ~v->cr0, 0);
	case SYS_RDTSC:
	case SYS_RDTSCP:
		if (v->cpl && (v->cr4 & CR4_TSD))
			return 0;
		break;
	case SYS_RDPMC:
		if (v->cpl && !(v->cr4 & CR4_PCE))
			return 0;
		break;
	case SYS_XSETBV:
		if (!(v->cr4 & CR4_OSXSAVE))
			return 0;
		break;
	case SYS_INT:
		info = (uint64_t)op->imm & 0xff;
		break;
	case SYS_INVLPG:
		info = v->r[EMU_TEA];
		break;
	}
	if (which >= sizeof(rules) / sizeof(rules[0]) || !rules[which].code ||
	    !svm_wants(v, rules[which].code))
		return 0;
	if (rules[which].flags & CPL0 && v->cpl)
		return 0;
	return svm_trap(v, rules[which].code, info, 0, intercept_len(v));
}

int emu_svm_sys(struct emu_vcpu *v, const struct emu_op *op)
{
	if (op->fn == emu_sys_mov_to_cr)
		return sys_to_cr(v, op);
	if (op->fn == emu_sys_mov_from_cr)
		return sys_from_cr(v, op);
	if (op->fn == emu_sys_mov_to_dr || op->fn == emu_sys_mov_from_dr)
		return sys_dr(v, op, op->fn == emu_sys_mov_to_dr);
	if (svm_check(v, op->scale, op))
		return 1;
	return op->fn(v, op);
}

int emu_svm_legacy(struct emu_vcpu *v, const ZydisDecodedInstruction *zi,
		   const ZydisDecodedOperand *zo)
{
	const struct emu_isa_row *row = emu_isa_row(zi->mnemonic);
	struct emu_op op = {.idx = 1};

	if (zi->mnemonic == ZYDIS_MNEMONIC_MOV && zi->operand_count_visible == 2) {
		bool to = zo[0].type == ZYDIS_OPERAND_TYPE_REGISTER &&
			  zo[0].reg.value >= ZYDIS_REGISTER_CR0 &&
			  zo[0].reg.value <= ZYDIS_REGISTER_CR15;
		unsigned int cr = to ? 0 : 1;

		if (zo[cr].type != ZYDIS_OPERAND_TYPE_REGISTER ||
		    zo[cr].reg.value < ZYDIS_REGISTER_CR0 || zo[cr].reg.value > ZYDIS_REGISTER_CR15)
			return 0;
		op.scale = (uint8_t)(zo[cr].reg.value - ZYDIS_REGISTER_CR0);
		op.dst = op.src = (uint8_t)emu_gpr(zo[!cr].reg.value);
		return to ? to_cr(v, &op) : from_cr(v, &op);
	}
	switch (zi->mnemonic) { /* what 64-bit mode has by another name, or not at all */
	case ZYDIS_MNEMONIC_IRET:
	case ZYDIS_MNEMONIC_IRETD:
		return svm_check(v, SYS_IRETQ, &op);
	case ZYDIS_MNEMONIC_PUSHFD:
		return svm_check(v, SYS_PUSHF, &op);
	case ZYDIS_MNEMONIC_POPFD:
		return svm_check(v, SYS_POPF, &op);
	case ZYDIS_MNEMONIC_INT:
		op.imm = (int64_t)zo[0].imm.value.u;
		break;
	default:
		break;
	}
	return row && row->fn == emit_system ? svm_check(v, row->arg, &op) : 0;
}

int emu_svm_read(struct emu_vcpu *v, const struct emu_op *op, unsigned int code)
{
	if (code == VMEXIT_CR_READ ? !(v->svm->c.cr_read & 1) : !svm_wants(v, code))
		return 0;
	return svm_trap(v, code, 0, 0, op->len);
}

/* ---- MSRs and ports ---- */

/* Two bits at bit @at of the map at @map: intercepts of reads and of writes. Outside of RAM they
 * are ones. */
static unsigned int map_bits(struct emu_vcpu *v, uint64_t map, uint64_t at)
{
	uint64_t pa = (map & EMU_PAGE_MASK) + at / 8;

	if (!emu_is_ram(v->vm, pa))
		return 3;
	return v->vm->ram[pa] >> (at & 7) & 3;
}

int emu_svm_msr(struct emu_vcpu *v, uint32_t msr, bool write)
{
	static const uint32_t base[] = {0, 0xc0000000, 0xc0010000};
	unsigned int bits = 3;

	if (!svm_wants(v, VMEXIT_MSR))
		return 0;
	for (unsigned int i = 0; i < 3; i++)
		if (msr - base[i] < MSRPM_BITS * 4)
			bits = map_bits(v, v->svm->c.msrpm,
					i * MSRPM_BITS * 8ULL + (msr - base[i]) * 2ULL);
	if (!(bits >> write & 1))
		return 0;
	return svm_trap(v, VMEXIT_MSR, write, 0, intercept_len(v));
}

int emu_svm_port(struct emu_vcpu *v, uint16_t port, unsigned int bytes, bool in, uint32_t info)
{
	bool hit = false;

	if (!svm_wants(v, VMEXIT_IOIO))
		return 0;
	for (unsigned int i = 0; i < bytes; i++)
		hit |= map_bits(v, v->svm->c.iopm, port + i) & 1;
	if (!hit)
		return 0;
	/* Bit 0: IN; from bit 4 on: the operand's size, and then the address size, 64 bits. */
	return svm_trap(v, VMEXIT_IOIO,
			in | info | bytes << 4 | (emu_in_64bit(v) ? 1u << 9 : 1u << 8) |
				(uint32_t)port << 16,
			v->cur->next, intercept_len(v));
}
