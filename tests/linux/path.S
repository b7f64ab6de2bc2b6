/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A static program without libc whose path is always the same: loops with nested calls, for perf in
 * guests. It executes the same instructions on every CPU, and only one system call. Without arguments it
 * goes ROUNDS rounds, and each argument doubles that.
 *
 * Per round: call outer -> middle -> inner, a taken and a not-taken branch.
 */
#ifndef ROUNDS
#define ROUNDS 500
#endif
	.globl _start
	.text
_start:
	mov (%rsp), %ecx	/* argc */
	dec %ecx
	mov $ROUNDS, %ebx
	shl %cl, %ebx
	nop			/* so that no sample of tests/linux/run falls behind the last instruction */
1:	call outer
	test $1, %bl
	jz 2f
	nop
2:	dec %ebx
	jnz 1b
	mov $60, %eax		/* exit(0) */
	xor %edi, %edi
	syscall

	.type outer, @function
outer:
	push %rbp
	mov %rsp, %rbp
	call middle
	pop %rbp
	ret
	.size outer, . - outer

	.type middle, @function
middle:
	push %rbp
	mov %rsp, %rbp
	call inner
	call inner
	pop %rbp
	ret
	.size middle, . - middle

	.type inner, @function
inner:
	push %rbp
	mov %rsp, %rbp
	mov $3, %ecx
1:	dec %ecx
	jnz 1b
	pop %rbp
	ret
	.size inner, . - inner

	.section .note.GNU-stack, "", @progbits
