/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Workloads whose history is known at every single instruction, so that branch records can be
 * compared with it. They are written in assembly because a compiler would not keep these rules. They
 * are position independent and use general registers only, no callee-saved register and no system
 * call, so host tests run them natively, too.
 *
 * chain is a tree of calls; a random generator decides which. Only CALL and RET touch the stack, so
 * at every instruction the words between RSP and the first frame are the return addresses of all
 * live frames. There is no prologue or epilogue at which this would be untrue. Local variables are
 * on a stack of their own in the scratch memory (RSI).
 *
 * branches has 16 blocks of 64 bytes. The state of a generator (R8) selects the next block. The
 * generator can be run backwards, so RIP and R8 at any instruction give all branches taken so far
 * (flow_branches in flow.h).
 */
#include "guest-tools/flow.h"

	.text

/* Clobbers R9. The function must have a label 9 at its end. */
.macro visit id
	testq	%rdi, %rdi
	jz	9f
	decq	%rdi
	imulq	$31, %rax, %rax
	leaq	\id(%rax,%rdx), %rax
	movabsq	$FLOW_CHAIN_MUL, %r9
	imulq	%r9, %r8
	addq	$FLOW_CHAIN_ADD, %r8
.endm

/* uint64_t workload_chain(n, mem): make n visits. The stack has at most FLOW_CHAIN_DEPTH + 2 return
 * addresses, including that of this function. Returns a checksum over the functions visited and
 * their depths.
 * uint64_t chain_walk(n, mem, depth): the same with another depth. */
	.globl	workload_chain, chain_walk
	.type	workload_chain, @function
	.type	chain_walk, @function
workload_chain:
	movl	$FLOW_CHAIN_DEPTH, %edx
chain_walk:
	xorl	%eax, %eax
	movabsq	$FLOW_CHAIN_SEED, %r8
1:	testq	%rdi, %rdi
	jz	2f
	call	chain_a
	jmp	1b
2:	ret

	.type	chain_a, @function
chain_a:
	visit	1
	testq	%rdx, %rdx
	jz	9f
	decq	%rdx
	call	chain_b
	btq	$40, %r8
	jnc	1f
	call	chain_c
1:	incq	%rdx
9:	ret

	.type	chain_b, @function
chain_b:
	visit	2
	testq	%rdx, %rdx
	jz	9f
	decq	%rdx
	movq	%r8, %rcx
	shrq	$63, %rcx
1:	movq	%rcx, (%rsi)
	addq	$8, %rsi
	leaq	chain_c(%rip), %r9
	btq	$50, %r8
	jnc	2f
	leaq	chain_d(%rip), %r9
2:	call	*%r9
	subq	$8, %rsi
	movq	(%rsi), %rcx
	decq	%rcx
	jz	1b
	incq	%rdx
9:	ret

	.type	chain_c, @function
chain_c:
	visit	3
	movq	%r8, %rcx
	shrq	$60, %rcx
1:	decq	%rcx
	jns	1b
	testq	%rdx, %rdx
	jz	9f
	btq	$45, %r8
	jc	chain_d			/* a tail call: chain_d returns to our caller */
	decq	%rdx
	call	chain_a
	incq	%rdx
9:	ret

	.type	chain_d, @function
chain_d:
	visit	4
	testq	%rdx, %rdx
	jz	9f
	decq	%rdx
	call	chain_b
	btq	$55, %r8
	jnc	1f
	call	chain_a
1:	incq	%rdx
9:	ret
	.globl	chain_end
chain_end:

/* uint64_t workload_branches(n): execute n blocks and return the sum of the states. The code from
 * branch_code to branch_code_end may be copied as a whole and called at the start of the copy. */
	.p2align 6
	.globl	workload_branches, branch_code, branch_entry_jmp, branch_blocks, branch_code_end
	.type	workload_branches, @function
branch_code:
workload_branches:
	xorl	%eax, %eax
	testq	%rdi, %rdi
	jz	branch_done
	leaq	branch_blocks(%rip), %r9
	movabsq	$FLOW_BRANCH_SEED, %r8
	movq	%r8, %rcx
	shrq	$60, %rcx
	shlq	$6, %rcx
	addq	%r9, %rcx
branch_entry_jmp:
	jmp	*%rcx

	.section .rodata.flow, "a"
	.globl	branch_layout
branch_layout:
	.previous

.macro block kind
	.p2align 6
.Lblock_\@:
	imulq	$FLOW_BRANCH_MUL, %r8, %r8
	addq	%r8, %rax
	.if	\kind == 1
.Lfrom_\@:
	jmp	.Lto_\@
	ud2
.Lto_\@:
	.elseif	\kind == 2
	testq	%r9, %r9
.Lfrom_\@:
	jnz	.Lto_\@
	ud2
.Lto_\@:
	.elseif	\kind == 3
.Lfrom_\@:
	call	.Lto_\@
.Lback_\@:
	.endif
	decq	%rdi
	jz	branch_done
	movq	%r8, %rcx
	shrq	$60, %rcx
	shlq	$6, %rcx
	addq	%r9, %rcx
.Ljmp_\@:
	jmp	*%rcx
	.if	\kind == 3
.Lto_\@:
	ret
	.endif
	.pushsection .rodata.flow, "a"
	.if	\kind == 0
	.byte	0, 0, 0, 0
	.elseif	\kind == 3
	.byte	.Lfrom_\@ - .Lblock_\@, .Lto_\@ - .Lblock_\@
	.byte	.Lto_\@ - .Lblock_\@, .Lback_\@ - .Lblock_\@
	.else
	.byte	.Lfrom_\@ - .Lblock_\@, .Lto_\@ - .Lblock_\@, 0, 0
	.endif
	.byte	.Ljmp_\@ - .Lblock_\@
	.popsection
.endm

	.p2align 6
branch_blocks:
	.rept	4
	block	0
	block	1
	block	2
	block	3
	.endr
	.p2align 6
branch_done:
	ret
branch_code_end:

	.section .note.GNU-stack, "", @progbits
