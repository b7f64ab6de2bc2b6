/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Calls of the kernel, and faults, of the tests' own guest commands. */
#include "guest-tools/layout.h"

	.text
/* int64_t sys_exec(const void *code, size_t bytes, uint64_t va) */
	.globl sys_exec
sys_exec:
	movl	$SYS_EXEC, %eax
	syscall
	ret

/*
 * int user_try(void (*fn)(void *), void *arg, struct user_fault *fault)
 * Calls fn(arg). Returns 0 if fn returned, or 1 and *fault = {vector, error code, CR2} if it
 * faulted.
 */
	.globl user_try
user_try:
	pushq	%rbx
	pushq	%rbp
	pushq	%r12
	pushq	%r13
	pushq	%r14
	pushq	%r15
	pushq	%rdx
	movq	%rdi, %rbx
	movq	%rsi, %rbp
	movl	$1f, %edi
	movq	%rsp, %rsi
	movl	$SYS_CATCH, %eax
	syscall
	movq	%rbp, %rdi
	call	*%rbx
	xorl	%edi, %edi
	xorl	%esi, %esi
	movl	$SYS_CATCH, %eax
	syscall
	xorl	%eax, %eax
	popq	%rdx
	jmp	2f
	/* the kernel comes here with RAX, RDX, RSI = vector, error code, CR2 */
1:	popq	%rdi
	movq	%rax, (%rdi)
	movq	%rdx, 8(%rdi)
	movq	%rsi, 16(%rdi)
	movl	$1, %eax
2:	popq	%r15
	popq	%r14
	popq	%r13
	popq	%r12
	popq	%rbp
	popq	%rbx
	ret

/* Faults for the selftest. */
	.globl fault_ud, fault_de, fault_hlt, fault_rdmsr, fault_noncanonical
fault_ud:
	ud2
fault_de:
	xorl	%eax, %eax
	cltd
	divl	%eax
	ret
fault_hlt:
	hlt
	ret
fault_rdmsr:
	movl	$0xc0000080, %ecx
	rdmsr
	ret
fault_noncanonical:
	movabsq	$0x8000000000000000, %rax
	movq	(%rax), %rax
	ret

	.section .note.GNU-stack, "", @progbits
