// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The host's instructions that stand for the guest's, see fpu.h: tables that the assembler makes,
 * and the ways into them. simd.c, mmx.c and x87.c call these. A table also has entries for bytes
 * that are no instruction; nobody may call those.
 */
#include "vmm/soft/fpu.h"

/* reg = register 0, rm = register 1. */
__asm__(".text\n"
	".macro soft_simd_row prefix\n"
	".set soft_op, 0\n"
	".rept 256\n"
	".balign 8, 0xcc\n"
	".if \\prefix\n"
	".byte \\prefix\n"
	".endif\n"
	".byte 0x0f, soft_op, 0xc1, 0xc3\n"
	".set soft_op, soft_op + 1\n"
	".endr\n"
	".balign 8, 0xcc\n"
	".endm\n"
	".macro soft_imm_row prefix, opcode\n"
	".set soft_op, 0\n"
	".rept 256\n"
	".balign 8, 0xcc\n"
	".if \\prefix\n"
	".byte \\prefix\n"
	".endif\n"
	".byte 0x0f, \\opcode, 0xc1, soft_op, 0xc3\n"
	".set soft_op, soft_op + 1\n"
	".endr\n"
	".balign 8, 0xcc\n"
	".endm\n"
	".macro soft_wide prefix, opcode\n"
	".balign 8, 0xcc\n"
	".byte \\prefix, 0x48, 0x0f, \\opcode, 0xc1, 0xc3\n"
	".endm\n"
	".balign 64, 0xcc\n"
	".globl soft_stub_simd\n"
	"soft_stub_simd:\n"
	"soft_simd_row 0\n"
	"soft_simd_row 0x66\n"
	"soft_simd_row 0xf3\n"
	"soft_simd_row 0xf2\n"
	".globl soft_stub_wide\n"
	"soft_stub_wide:\n"
	"soft_wide 0xf3, 0x2a\n"
	"soft_wide 0xf3, 0x2c\n"
	"soft_wide 0xf3, 0x2d\n"
	"soft_wide 0xf2, 0x2a\n"
	"soft_wide 0xf2, 0x2c\n"
	"soft_wide 0xf2, 0x2d\n"
	".balign 8, 0xcc\n"
	".globl soft_stub_imm\n"
	"soft_stub_imm:\n"
	"soft_imm_row 0x00, 0x70\n" /* the order of imm_rows */
	"soft_imm_row 0x66, 0x70\n"
	"soft_imm_row 0xf3, 0x70\n"
	"soft_imm_row 0xf2, 0x70\n"
	"soft_imm_row 0x00, 0xc2\n"
	"soft_imm_row 0x66, 0xc2\n"
	"soft_imm_row 0xf3, 0xc2\n"
	"soft_imm_row 0xf2, 0xc2\n"
	"soft_imm_row 0x00, 0xc4\n"
	"soft_imm_row 0x66, 0xc4\n"
	"soft_imm_row 0x00, 0xc5\n"
	"soft_imm_row 0x66, 0xc5\n"
	"soft_imm_row 0x00, 0xc6\n"
	"soft_imm_row 0x66, 0xc6\n"
	".globl soft_stub_x87_reg\n"
	"soft_stub_x87_reg:\n"
	".set soft_op, 0xd8\n"
	".rept 8\n"
	".set soft_rm, 0xc0\n"
	".rept 64\n"
	".byte soft_op, soft_rm, 0xc3, 0xcc\n"
	".set soft_rm, soft_rm + 1\n"
	".endr\n"
	".set soft_op, soft_op + 1\n"
	".endr\n"
	".globl soft_stub_x87_mem\n"
	"soft_stub_x87_mem:\n"
	".set soft_op, 0xd8\n"
	".rept 8\n"
	".set soft_rm, 0x07\n" /* [rdi] */
	".rept 8\n"
	".byte soft_op, soft_rm, 0xc3, 0xcc\n"
	".set soft_rm, soft_rm + 8\n"
	".endr\n"
	".set soft_op, soft_op + 1\n"
	".endr\n"
	".globl soft_stub_x87_mem16\n"
	"soft_stub_x87_mem16:\n"
	".set soft_rm, 0x07\n"
	".rept 8\n"
	".byte 0x66, 0xd9, soft_rm, 0xc3, 0xcc, 0xcc, 0xcc, 0xcc\n"
	".set soft_rm, soft_rm + 8\n"
	".endr\n"
	".set soft_rm, 0x07\n"
	".rept 8\n"
	".byte 0x66, 0xdd, soft_rm, 0xc3, 0xcc, 0xcc, 0xcc, 0xcc\n"
	".set soft_rm, soft_rm + 8\n"
	".endr\n"
	".globl soft_stub_none\n"
	"soft_stub_none:\n"
	".byte 0xc3\n");

_Static_assert(offsetof(struct soft_simd_io, b) == 16 && offsetof(struct soft_simd_io, gpr) == 32 &&
		       offsetof(struct soft_simd_io, flags) == 40 &&
		       offsetof(struct soft_simd_io, mm_a) == 48 &&
		       offsetof(struct soft_simd_io, mm_b) == 56 &&
		       offsetof(struct soft_simd_io, mxcsr) == 64 &&
		       offsetof(struct soft_simd_io, host) == 68,
	       "the assembler code knows these");
_Static_assert(sizeof(struct soft_fx) == SOFT_FX_BYTES && offsetof(struct soft_fx, xmm) == 160,
	       "FXSAVE's layout");

__asm__(".text\n"
	".balign 16, 0xcc\n"
	".globl soft_simd_int\n"
	".type soft_simd_int, @function\n"
	"soft_simd_int:\n"
	"	movaps (%rdi), %xmm0\n"
	"	movaps 16(%rdi), %xmm1\n"
	"	mov 32(%rdi), %rcx\n"
	"	call *%rsi\n"
	"	movaps %xmm0, (%rdi)\n"
	"	mov %rax, 32(%rdi)\n"
	"	ret\n"
	".size soft_simd_int, . - soft_simd_int\n"
	".balign 16, 0xcc\n"
	".globl soft_simd_fp\n"
	".type soft_simd_fp, @function\n"
	"soft_simd_fp:\n"
	"	stmxcsr 68(%rdi)\n"
	"	ldmxcsr 64(%rdi)\n"
	"	movaps (%rdi), %xmm0\n"
	"	movaps 16(%rdi), %xmm1\n"
	"	mov 32(%rdi), %rcx\n"
	"	call *%rsi\n"
	"	stmxcsr 64(%rdi)\n"
	"	ldmxcsr 68(%rdi)\n"
	"	movaps %xmm0, (%rdi)\n"
	"	mov %rax, 32(%rdi)\n"
	"	pushfq\n"
	"	popq 40(%rdi)\n"
	"	ret\n"
	".size soft_simd_fp, . - soft_simd_fp\n"
	".balign 16, 0xcc\n"
	".globl soft_simd_mm\n"
	".type soft_simd_mm, @function\n"
	"soft_simd_mm:\n"
	"	stmxcsr 68(%rdi)\n"
	"	ldmxcsr 64(%rdi)\n"
	"	movaps (%rdi), %xmm0\n"
	"	movaps 16(%rdi), %xmm1\n"
	"	movq 48(%rdi), %mm0\n"
	"	movq 56(%rdi), %mm1\n"
	"	mov 32(%rdi), %rcx\n"
	"	call *%rsi\n"
	"	movq %mm0, 48(%rdi)\n"
	"	emms\n"
	"	stmxcsr 64(%rdi)\n"
	"	ldmxcsr 68(%rdi)\n"
	"	movaps %xmm0, (%rdi)\n"
	"	mov %rax, 32(%rdi)\n"
	"	ret\n"
	".size soft_simd_mm, . - soft_simd_mm\n"
	".balign 16, 0xcc\n"
	".globl soft_x87_call\n"
	".type soft_x87_call, @function\n"
	/* FXSAVE64 raises nothing for exceptions that wait, and FNINIT drops them. A thread has an
	 * empty x87 stack and FCW = 37FH at a call (the System V ABI), as FNINIT leaves it. */
	"soft_x87_call:\n"
	"	sub $8, %rsp\n"
	"	stmxcsr (%rsp)\n"
	"	mov %rdi, %r8\n"
	"	mov %rsi, %rdi\n"
	"	xor %eax, %eax\n"
	"	fxrstor64 (%r8)\n"
	"	push %rcx\n"
	"	popfq\n"
	"	call *%rdx\n"
	"	pushfq\n"
	"	pop %rdx\n"
	"	fxsave64 (%r8)\n"
	"	fninit\n"
	"	ldmxcsr (%rsp)\n"
	"	add $8, %rsp\n"
	"	ret\n"
	".size soft_x87_call, . - soft_x87_call\n");

const uint8_t *soft_imm_stub(unsigned int prefix, unsigned int opcode, unsigned int imm)
{
	static const struct {
		uint8_t prefix, opcode;
	} imm_rows[] = {
		{SIMD_NP, 0x70}, {SIMD_66, 0x70}, {SIMD_F3, 0x70}, {SIMD_F2, 0x70}, {SIMD_NP, 0xc2},
		{SIMD_66, 0xc2}, {SIMD_F3, 0xc2}, {SIMD_F2, 0xc2}, {SIMD_NP, 0xc4}, {SIMD_66, 0xc4},
		{SIMD_NP, 0xc5}, {SIMD_66, 0xc5}, {SIMD_NP, 0xc6}, {SIMD_66, 0xc6},
	};

	for (unsigned int i = 0; i < sizeof(imm_rows) / sizeof(imm_rows[0]); i++)
		if (imm_rows[i].prefix == prefix && imm_rows[i].opcode == opcode)
			return soft_stub_imm + (i * 256 + (imm & 0xff)) * 8;
	return NULL;
}
