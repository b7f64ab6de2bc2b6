// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Stubs: the host's instructions that compute the guest's, see fpu.h. The assembler builds tables
 * of them, and the functions here call them for simd.c, mmx.c and x87.c. A table also has entries
 * for bytes that are no instruction: never call those.
 */
#include "vmm/emu/fp/fpu.h"

/* reg = register 0, rm = register 1. */
__asm__(".text\n"
	/* [prefix] [rex] 0F [map] opcode modrm [imm] RET, 256 of them in 8 bytes each: every
	 * opcode, or, of one opcode, every immediate byte. */
	".macro emu_rows prefix=0, map=0, opcode=-1, modrm=0xc1, rex=0\n"
	".set emu_n, 0\n"
	".rept 256\n"
	".balign 8, 0xcc\n"
	".if \\prefix\n"
	".byte \\prefix\n"
	".endif\n"
	".if \\rex\n"
	".byte \\rex\n"
	".endif\n"
	".byte 0x0f\n"
	".if \\map\n"
	".byte \\map\n"
	".endif\n"
	".if \\opcode < 0\n"
	".byte emu_n, \\modrm, 0xc3\n"
	".else\n"
	".byte \\opcode, \\modrm, emu_n, 0xc3\n"
	".endif\n"
	".set emu_n, emu_n + 1\n"
	".endr\n"
	".balign 8, 0xcc\n"
	".endm\n"
	".macro emu_wide prefix, opcode\n"
	".balign 8, 0xcc\n"
	".byte \\prefix, 0x48, 0x0f, \\opcode, 0xc1, 0xc3\n"
	".endm\n"
	".balign 64, 0xcc\n"
	".globl emu_stub_simd\n"
	"emu_stub_simd:\n"
	"emu_rows 0\n"
	"emu_rows 0x66\n"
	"emu_rows 0xf3\n"
	"emu_rows 0xf2\n"
	".globl emu_stub_wide\n"
	"emu_stub_wide:\n"
	"emu_wide 0xf3, 0x2a\n"
	"emu_wide 0xf3, 0x2c\n"
	"emu_wide 0xf3, 0x2d\n"
	"emu_wide 0xf2, 0x2a\n"
	"emu_wide 0xf2, 0x2c\n"
	"emu_wide 0xf2, 0x2d\n"
	".balign 8, 0xcc\n"
	".globl emu_stub_imm\n"
	"emu_stub_imm:\n"
	"emu_rows 0x00, 0, 0x70\n" /* the order of imm_rows */
	"emu_rows 0x66, 0, 0x70\n"
	"emu_rows 0xf3, 0, 0x70\n"
	"emu_rows 0xf2, 0, 0x70\n"
	"emu_rows 0x00, 0, 0xc2\n"
	"emu_rows 0x66, 0, 0xc2\n"
	"emu_rows 0xf3, 0, 0xc2\n"
	"emu_rows 0xf2, 0, 0xc2\n"
	"emu_rows 0x00, 0, 0xc4\n"
	"emu_rows 0x66, 0, 0xc4\n"
	"emu_rows 0x00, 0, 0xc5\n"
	"emu_rows 0x66, 0, 0xc5\n"
	"emu_rows 0x00, 0, 0xc6\n"
	"emu_rows 0x66, 0, 0xc6\n"
	".globl emu_stub_38\n"
	"emu_stub_38:\n"
	"emu_rows 0, 0x38\n"
	"emu_rows 0x66, 0x38\n"
	".globl emu_stub_3a\n"
	"emu_stub_3a:\n"
	"emu_rows 0x66, 0x3a, 0x40\n" /* the order of rows_3a */
	"emu_rows 0x66, 0x3a, 0x41\n"
	"emu_rows 0x66, 0x3a, 0x08\n"
	"emu_rows 0x66, 0x3a, 0x09\n"
	"emu_rows 0x66, 0x3a, 0x0a\n"
	"emu_rows 0x66, 0x3a, 0x0b\n"
	"emu_rows 0x66, 0x3a, 0x0c\n"
	"emu_rows 0x66, 0x3a, 0x0d\n"
	"emu_rows 0x66, 0x3a, 0x0e\n"
	"emu_rows 0x66, 0x3a, 0x0f\n"
	"emu_rows 0, 0x3a, 0x0f\n"
	"emu_rows 0x66, 0x3a, 0x14, 0xc8\n"
	"emu_rows 0x66, 0x3a, 0x15, 0xc8\n"
	"emu_rows 0x66, 0x3a, 0x16, 0xc8\n"
	"emu_rows 0x66, 0x3a, 0x16, 0xc8, 0x48\n"
	"emu_rows 0x66, 0x3a, 0x17, 0xc8\n"
	"emu_rows 0x66, 0x3a, 0x20\n"
	"emu_rows 0x66, 0x3a, 0x21\n"
	"emu_rows 0x66, 0x3a, 0x22\n"
	"emu_rows 0x66, 0x3a, 0x22, 0xc1, 0x48\n"
	"emu_rows 0x66, 0x3a, 0x42\n"
	"emu_rows 0x66, 0x3a, 0x60\n"
	"emu_rows 0x66, 0x3a, 0x61\n"
	"emu_rows 0x66, 0x3a, 0x62\n"
	"emu_rows 0x66, 0x3a, 0x63\n"
	".globl emu_stub_fma\n"
	"emu_stub_fma:\n"
	".set emu_w, 0x69\n" /* VEX.vvvv: register 2 */
	".rept 2\n"
	".set emu_n, 0x96\n"
	".rept 42\n"
	".balign 8, 0xcc\n"
	".byte 0xc4, 0xe2, emu_w, emu_n, 0xc1, 0xc3\n"
	".set emu_n, emu_n + 1\n"
	".endr\n"
	".set emu_w, emu_w + 0x80\n"
	".endr\n"
	".balign 8, 0xcc\n"
	".globl emu_stub_cmp\n"
	"emu_stub_cmp:\n"
	".set emu_w, 0xf8\n" /* VEX.vvvv: register 0 */
	".rept 4\n"
	".set emu_n, 0\n"
	".rept 32\n"
	".balign 8, 0xcc\n"
	".byte 0xc5, emu_w, 0xc2, 0xc1, emu_n, 0xc3\n"
	".set emu_n, emu_n + 1\n"
	".endr\n"
	".set emu_w, emu_w + 1\n"
	".endr\n"
	".balign 8, 0xcc\n"
	".globl emu_stub_ph2ps\n"
	"emu_stub_ph2ps:\n"
	".byte 0xc4, 0xe2, 0x79, 0x13, 0xc1, 0xc3\n"
	".balign 8, 0xcc\n"
	".globl emu_stub_ps2ph\n"
	"emu_stub_ps2ph:\n"
	".set emu_n, 0\n"
	".rept 8\n"
	".byte 0xc4, 0xe3, 0x79, 0x1d, 0xc8, emu_n, 0xc3, 0xcc\n"
	".set emu_n, emu_n + 1\n"
	".endr\n"
	".globl emu_stub_x87_reg\n"
	"emu_stub_x87_reg:\n"
	".set emu_op, 0xd8\n"
	".rept 8\n"
	".set emu_rm, 0xc0\n"
	".rept 64\n"
	".byte emu_op, emu_rm, 0xc3, 0xcc\n"
	".set emu_rm, emu_rm + 1\n"
	".endr\n"
	".set emu_op, emu_op + 1\n"
	".endr\n"
	".globl emu_stub_x87_mem\n"
	"emu_stub_x87_mem:\n"
	".set emu_op, 0xd8\n"
	".rept 8\n"
	".set emu_rm, 0x07\n" /* [rdi] */
	".rept 8\n"
	".byte emu_op, emu_rm, 0xc3, 0xcc\n"
	".set emu_rm, emu_rm + 8\n"
	".endr\n"
	".set emu_op, emu_op + 1\n"
	".endr\n"
	".globl emu_stub_x87_mem16\n"
	"emu_stub_x87_mem16:\n"
	".set emu_rm, 0x07\n"
	".rept 8\n"
	".byte 0x66, 0xd9, emu_rm, 0xc3, 0xcc, 0xcc, 0xcc, 0xcc\n"
	".set emu_rm, emu_rm + 8\n"
	".endr\n"
	".set emu_rm, 0x07\n"
	".rept 8\n"
	".byte 0x66, 0xdd, emu_rm, 0xc3, 0xcc, 0xcc, 0xcc, 0xcc\n"
	".set emu_rm, emu_rm + 8\n"
	".endr\n"
	".globl emu_stub_none\n"
	"emu_stub_none:\n"
	".byte 0xc3\n");

_Static_assert(offsetof(struct emu_simd_io, b) == 16 && offsetof(struct emu_simd_io, gpr) == 32 &&
		       offsetof(struct emu_simd_io, flags) == 40 &&
		       offsetof(struct emu_simd_io, mm_a) == 48 &&
		       offsetof(struct emu_simd_io, mm_b) == 56 &&
		       offsetof(struct emu_simd_io, c) == 48 &&
		       offsetof(struct emu_simd_io, mxcsr) == 64 &&
		       offsetof(struct emu_simd_io, host) == 68,
	       "the assembler code knows these");
_Static_assert(sizeof(struct emu_fx) == EMU_FX_BYTES && offsetof(struct emu_fx, xmm) == 160,
	       "FXSAVE's layout");

__asm__(".text\n"
	".balign 16, 0xcc\n"
	".globl emu_simd_int\n"
	".type emu_simd_int, @function\n"
	"emu_simd_int:\n"
	"	movaps (%rdi), %xmm0\n"
	"	movaps 16(%rdi), %xmm1\n"
	"	mov 32(%rdi), %rcx\n"
	"	call *%rsi\n"
	"	movaps %xmm0, (%rdi)\n"
	"	mov %rax, 32(%rdi)\n"
	"	ret\n"
	".size emu_simd_int, . - emu_simd_int\n"
	".balign 16, 0xcc\n"
	".globl emu_simd_fp\n"
	".type emu_simd_fp, @function\n"
	"emu_simd_fp:\n"
	"	ldmxcsr 64(%rdi)\n"
	"	movaps (%rdi), %xmm0\n"
	"	movaps 16(%rdi), %xmm1\n"
	"	movaps 48(%rdi), %xmm2\n"
	"	mov 32(%rdi), %rcx\n"
	"	call *%rsi\n"
	"	lfence\n"
	"	stmxcsr 64(%rdi)\n"
	"	ldmxcsr 68(%rdi)\n"
	"	movaps %xmm0, (%rdi)\n"
	"	mov %rax, 32(%rdi)\n"
	"	pushfq\n"
	"	popq 40(%rdi)\n"
	"	ret\n"
	".size emu_simd_fp, . - emu_simd_fp\n"
	".balign 16, 0xcc\n"
	".globl emu_simd_text\n"
	".type emu_simd_text, @function\n"
	"emu_simd_text:\n"
	"	movaps (%rdi), %xmm0\n"
	"	movaps 16(%rdi), %xmm1\n"
	"	mov 48(%rdi), %rax\n"
	"	mov 56(%rdi), %rdx\n"
	"	call *%rsi\n"
	"	movaps %xmm0, (%rdi)\n"
	"	mov %rcx, 32(%rdi)\n"
	"	pushfq\n"
	"	popq 40(%rdi)\n"
	"	ret\n"
	".size emu_simd_text, . - emu_simd_text\n"
	".balign 16, 0xcc\n"
	".globl emu_simd_mm\n"
	".type emu_simd_mm, @function\n"
	"emu_simd_mm:\n"
	"	movaps (%rdi), %xmm0\n"
	"	movaps 16(%rdi), %xmm1\n"
	"	movq 48(%rdi), %mm0\n"
	"	movq 56(%rdi), %mm1\n"
	"	mov 32(%rdi), %rcx\n"
	"	call *%rsi\n"
	"	movq %mm0, 48(%rdi)\n"
	"	emms\n"
	"	movaps %xmm0, (%rdi)\n"
	"	mov %rax, 32(%rdi)\n"
	"	ret\n"
	".size emu_simd_mm, . - emu_simd_mm\n"
	".balign 16, 0xcc\n"
	".globl emu_simd_mm_fp\n"
	".type emu_simd_mm_fp, @function\n"
	"emu_simd_mm_fp:\n"
	"	ldmxcsr 64(%rdi)\n"
	"	call emu_simd_mm\n"
	"	lfence\n"
	"	stmxcsr 64(%rdi)\n"
	"	ldmxcsr 68(%rdi)\n"
	"	ret\n"
	".size emu_simd_mm_fp, . - emu_simd_mm_fp\n"
	".balign 16, 0xcc\n"
	".globl emu_x87_call\n"
	".type emu_x87_call, @function\n"
	/* FXSAVE64 does not raise pending exceptions, and FNINIT drops them. A thread has an empty
	 * x87 stack and FCW = 37FH at a call (the System V ABI), as FNINIT leaves it. */
	"emu_x87_call:\n"
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
	".size emu_x87_call, . - emu_x87_call\n");

const uint8_t *emu_imm_stub(unsigned int prefix, unsigned int opcode, unsigned int imm)
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
			return emu_stub_imm + (i * 256 + (imm & 0xff)) * 8;
	return NULL;
}

const uint8_t *emu_3a_stub(unsigned int prefix, unsigned int opcode, bool wide, unsigned int imm)
{
	static const struct {
		uint8_t opcode, prefix;
		bool wide;
	} rows_3a[] = {
		{0x40, SIMD_66, 0}, {0x41, SIMD_66, 0}, {0x08, SIMD_66, 0}, {0x09, SIMD_66, 0},
		{0x0a, SIMD_66, 0}, {0x0b, SIMD_66, 0}, {0x0c, SIMD_66, 0}, {0x0d, SIMD_66, 0},
		{0x0e, SIMD_66, 0}, {0x0f, SIMD_66, 0}, {0x0f, SIMD_NP, 0}, {0x14, SIMD_66, 0},
		{0x15, SIMD_66, 0}, {0x16, SIMD_66, 0}, {0x16, SIMD_66, 1}, {0x17, SIMD_66, 0},
		{0x20, SIMD_66, 0}, {0x21, SIMD_66, 0}, {0x22, SIMD_66, 0}, {0x22, SIMD_66, 1},
		{0x42, SIMD_66, 0}, {0x60, SIMD_66, 0}, {0x61, SIMD_66, 0}, {0x62, SIMD_66, 0},
		{0x63, SIMD_66, 0},
	};

	wide = wide && (opcode == 0x16 || opcode == 0x22);
	for (unsigned int i = 0; i < sizeof(rows_3a) / sizeof(rows_3a[0]); i++)
		if (rows_3a[i].opcode == opcode && rows_3a[i].prefix == prefix &&
		    rows_3a[i].wide == wide)
			return emu_stub_3a + (i * 256 + (imm & 0xff)) * 8;
	return NULL;
}

const uint8_t *emu_wide_stub(unsigned int prefix, unsigned int opcode)
{
	return emu_stub_wide +
	       ((prefix == SIMD_F2 ? 3u : 0) + (opcode == 0x2a ? 0 : opcode - 0x2b)) * 8;
}

bool emu_stub_is_dp(const uint8_t *stub, bool *is64, unsigned int *imm)
{
	if (stub < emu_stub_3a || stub >= emu_stub_3a + 2 * 256 * 8)
		return false;
	*is64 = stub >= emu_stub_3a + 256 * 8;
	*imm = (unsigned int)(stub - emu_stub_3a) / 8 % 256;
	return true;
}
