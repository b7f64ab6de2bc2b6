// SPDX-License-Identifier: GPL-2.0-or-later
/* Code under test of truth_test.c, in assembly: no compiler flag may change the counts. */
#include "tests/emu/truth_code.h"

/* System calls, to the guest's kernel. */
__asm__(".text\n.globl truth_echo\n.type truth_echo, @function\n"
	"truth_echo:\n	mov %rdi, %rax\n	ret\n");

/*
 * A function of awkward cases: strings of no, one and many elements, a conditional jump that is
 * taken into the next line, locked and string comparisons, a failing CMPXCHG, a call of the next
 * instruction, indirect jumps and calls.
 */
__asm__(".text\n.globl truth_odd\n.type truth_odd, @function\n"
	"truth_odd:\n"
	"	push %rbx\n"
	"	mov %rsi, %rbx\n"
	"	mov %rdi, %r8\n"
	"1:	mov %rbx, %rdi\n"
	"	mov %r8d, %eax\n"
	"	xor %ecx, %ecx\n"
	"	rep stosb\n"
	"	mov $1, %ecx\n"
	"	rep stosb\n"
	"	mov $100, %ecx\n"
	"	rep stosl\n"
	"	lea 8(%rbx), %rsi\n"
	"	mov %rbx, %rdi\n"
	"	mov $9, %ecx\n"
	"	repe cmpsb\n"
	"	mov $5, %ecx\n"
	"	rep lodsw\n"
	"	mov %rbx, %rdi\n"
	"	mov $64, %ecx\n"
	"	repne scasb\n"
	"	lock addq $3, (%rbx)\n"
	"	mov $1, %eax\n"
	"	lock cmpxchg %ecx, 8(%rbx)\n"
	"	xchg %rax, 16(%rbx)\n"
	"	pushq 24(%rbx)\n"
	"	popq 32(%rbx)\n"
	"	mov $3, %ecx\n"
	"2:	loop 2b\n"
	"	jrcxz 3f\n"
	"	nop\n"
	"3:	cmovz 40(%rbx), %rdx\n"
	"	setnz 48(%rbx)\n"
	"	btsq $9, 56(%rbx)\n"
	"	shll $0, 64(%rbx)\n"
	"	prefetcht0 (%rbx)\n"
	"	nopl 8(%rbx)\n"
	"	lea 8(%rbx), %rax\n"
	"	enter $32, $0\n"
	"	leave\n"
	"	call 4f\n"
	"4:	pop %rax\n"
	"	lea 5f(%rip), %rax\n"
	"	jmp *%rax\n"
	"5:	lea truth_echo(%rip), %rax\n"
	"	call *%rax\n"
	"	jmp 6f\n"
	"	nop\n"
	"6:	call truth_echo\n"
	"	dec %r8\n"
	"	jg 1b\n"
	"	pop %rbx\n"
	"	mov $17, %eax\n"
	"	ret\n");

/*
 * Locked operations on memory that others use as well: in a cache line, across two, across two
 * pages. If one of them is not atomic, the sums differ.
 */
__asm__(".text\n.globl truth_shared\n.type truth_shared, @function\n"
	"truth_shared:\n"
	"1:	lock incq (%rsi)\n"
	"	mov $3, %eax\n"
	"	lock xaddl %eax, 62(%rsi)\n"
	"	lock addq $5, 4092(%rsi)\n"
	"	mov $7, %eax\n"
	"	lock subw %ax, 127(%rsi)\n"
	"	lock btcl $1, 256(%rsi)\n"
	"	dec %rdi\n"
	"	jnz 1b\n"
	"	xor %eax, %eax\n"
	"	ret\n");
