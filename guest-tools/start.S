/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The assembly part of the guest kernel: entry of every vCPU, exception stubs, SYSCALL entry, the
 * measured run (SYS_RUN) and MSR accesses that survive #GP. layout.h has the system calls. The number
 * of instructions around a measured run is known (WORKLOAD_* in workloads.h): a change here must
 * change these constants.
 */
#include "guest-tools/layout.h"

#define MAGIC_HI 0x756d7076 /* VPMU_BOOT_MAGIC in two halves; kernel.c checks them */
#define MAGIC_LO 0x746f6f62
#define COM1 0x3f8
#define PORT_EXIT 0xf4

/* If the instruction at @fault is #GP or #UD in CPL0, execution continues at @fixup. */
.macro ex_table fault, fixup
	.pushsection .ex_table, "a"
	.quad \fault, \fixup
	.popsection
.endm

	.text

/* In: RDI = vCPU, RSI = struct vpmu_boot_info, no stack. Finds this vCPU's slab: the vCPUs share the
 * RAM behind the image evenly. */
	.globl _start
_start:
	cli
	cld
	movabsq	$(MAGIC_HI << 32 | MAGIC_LO), %rax
	cmpq	%rax, (%rsi)
	movl	$msg_magic, %ebx
	jne	early_fail
	movl	24(%rsi), %ecx		/* nr_vcpus */
	movl	$msg_vcpus, %ebx
	cmpq	%rcx, %rdi
	jae	early_fail
	movq	8(%rsi), %rax		/* mem_bytes */
	movl	$msg_memory, %ebx
	subq	$__image_end, %rax
	jb	early_fail
	xorl	%edx, %edx
	divq	%rcx
	andq	$-GUEST_PAGE, %rax
	cmpq	$(SLAB_MIN_PAGES * GUEST_PAGE), %rax
	jb	early_fail
	movq	%rax, %rcx		/* slab size */
	movq	%rdi, %rdx
	imulq	%rcx, %rdx
	addq	$__image_end, %rdx	/* slab */
	leaq	((SLAB_KSTACK + KSTACK_PAGES) * GUEST_PAGE)(%rdx), %rsp
	call	kernel_map		/* (vcpu, boot_info, slab, bytes): CR3 */
	movq	%rax, %cr3
	movl	$KSTACK_TOP, %esp
	call	kernel_init
	/* Go to the tools, with RDI = info and the stack aligned as after a call. */
	movl	$UINFO_VA, %edi
	movl	$(USTACK_TOP - 8), %esp
	movl	$user_start, %ecx
	movl	$2, %r11d
	sysretq

/* In: EBX = message. There is no stack yet. */
early_fail:
	movl	$COM1, %edx
1:	movb	(%rbx), %al
	testb	%al, %al
	jz	2f
	outb	%al, %dx
	incq	%rbx
	jmp	1b
2:	movl	$2, %eax
	movl	$PORT_EXIT, %edx
	outl	%eax, %dx
3:	hlt
	jmp	3b

	.section .rodata
msg_magic:
	.asciz "guest: no boot information at RSI; this image must be started by vpmu-vmm\n"
msg_vcpus:
	.asciz "guest: RDI names a vCPU beyond the number in the boot information\n"
msg_memory:
	.asciz "guest: too little memory: every vCPU needs 192 KiB behind the image\n"
	.text

/*
 * SYSCALL. In: RCX = return address, R11 = RFLAGS; RSP is still the caller's. The end of a measured
 * run is recognized by its return address, before anything else, so that as few instructions as
 * possible are counted between the workload's last instruction and the write that stops the counters.
 */
	.globl syscall_entry
syscall_entry:
	cmpq	$user_call_end, %rcx
	je	run_end
	testl	%eax, %eax
	jz	sys_null
	cmpl	$SYS_RUN, %eax
	je	run_begin
	movq	%rsp, KCPU_VA + PERCPU_USER_RSP
	movl	$KSTACK_TOP, %esp
	pushq	%rcx
	pushq	%r11
	movq	%rdx, %rcx
	movq	%rsi, %rdx
	movq	%rdi, %rsi
	movl	%eax, %edi
	call	kernel_syscall
	popq	%r11
	popq	%rcx
	movq	KCPU_VA + PERCPU_USER_RSP, %rsp
	sysretq

sys_null:
	movq	%rdi, %rax
	sysretq

/*
 * SYS_RUN. In: RDI = struct guest_run. Goes to user_call by IRETQ, because SYSRET would need RCX,
 * which has the function's fourth argument. The frame is built before the counters are enabled.
 */
run_begin:
	movq	%rcx, KCPU_VA + PERCPU_RUN_RIP
	movl	RUN_MSR(%rdi), %ecx
	movl	%ecx, KCPU_VA + PERCPU_RUN_MSR
	movq	%rsp, %rax
	movq	%rax, KCPU_VA + PERCPU_RUN_RSP
	movl	$KSTACK_TOP, %esp
	pushq	$SEL_UDATA
	pushq	%rax
	pushq	KCPU_VA + PERCPU_RUN_FLAGS
	pushq	$SEL_UCODE
	pushq	$user_call
	movq	RUN_FN(%rdi), %r8
	movq	RUN_BYTES(%rdi), %r9
	movq	RUN_CALL(%rdi), %r10
	movq	RUN_MEM(%rdi), %rsi
	movl	RUN_ENABLE(%rdi), %eax
	movl	RUN_ENABLE+4(%rdi), %edx
	movq	%rdi, %r11
	movq	RUN_N(%rdi), %rdi
	testl	%ecx, %ecx
	jz	4f
1:	wrmsr
2:	movq	%r8, %rax
	movq	%r9, %rdx
	movq	%r10, %rcx
	iretq
	/* #GP: back to the caller of SYS_RUN */
3:	movl	$1, RUN_FAULT(%r11)
	movq	24(%rsp), %rsp
	movq	KCPU_VA + PERCPU_RUN_RIP, %rcx
	movl	$2, %r11d
	xorl	%eax, %eax
	sysretq
	ex_table 1b, 3b
	/* The list of writes, if there is one. R9 is free until its end. */
4:	movq	%r11, KCPU_VA + PERCPU_RUN
	movl	RUN_NR(%r11), %r9d
	movl	%r9d, KCPU_VA + PERCPU_RUN_NR
	testl	%r9d, %r9d
	jz	7f
	movq	RUN_WRITES(%r11), %r11
5:	movl	WRITE_MSR(%r11), %ecx
	movl	WRITE_ON(%r11), %eax
	movl	WRITE_ON+4(%r11), %edx
6:	wrmsr
	addq	$WRITE_BYTES, %r11
	decl	%r9d
	jnz	5b
	movq	KCPU_VA + PERCPU_RUN, %r11
7:	movq	RUN_BYTES(%r11), %r9
	jmp	2b
8:	movq	KCPU_VA + PERCPU_RUN, %r11
	jmp	3b
	ex_table 6b, 8b

/* In: RAX = the workload's result. Callee-saved registers and RSP are those of the caller of
 * SYS_RUN. */
run_end:
	movq	%rax, %rdi
	movl	KCPU_VA + PERCPU_RUN_MSR, %ecx
	testl	%ecx, %ecx
	jz	2f
	xorl	%eax, %eax
	xorl	%edx, %edx
	wrmsr
1:	movq	%rdi, %rax
	movq	KCPU_VA + PERCPU_RUN_RIP, %rcx
	movl	$2, %r11d
	sysretq
	/* For each counter, as many instructions as in the loop that started the counters. */
2:	movl	KCPU_VA + PERCPU_RUN_NR, %r8d
	testl	%r8d, %r8d
	jz	1b
	movq	KCPU_VA + PERCPU_RUN, %rsi
	movq	RUN_WRITES(%rsi), %rsi
3:	movl	WRITE_MSR(%rsi), %ecx
	movl	WRITE_OFF(%rsi), %eax
	movl	WRITE_OFF+4(%rsi), %edx
	wrmsr
	addq	$WRITE_BYTES, %rsi
	decl	%r8d
	jnz	3b
	jmp	1b

/* int msr_read_safe(uint32_t msr, uint64_t *value), msr_write_safe(msr, value),
 * pmc_read_safe(index, *value): 0, or -1 for #GP. */
	.globl msr_read_safe, msr_write_safe, pmc_read_safe
msr_read_safe:
	movl	%edi, %ecx
1:	rdmsr
	jmp	read_done
	ex_table 1b, access_fault
pmc_read_safe:
	movl	%edi, %ecx
1:	rdpmc
	ex_table 1b, access_fault
read_done:
	shlq	$32, %rdx
	orq	%rdx, %rax
	movq	%rax, (%rsi)
	xorl	%eax, %eax
	ret
msr_write_safe:
	movl	%edi, %ecx
	movl	%esi, %eax
	movq	%rsi, %rdx
	shrq	$32, %rdx
1:	wrmsr
	xorl	%eax, %eax
	ret
	ex_table 1b, access_fault
access_fault:
	movl	$-1, %eax
	ret

/* One stub per vector, 16 bytes apart so that kernel.c can compute their addresses. All of them build
 * the same struct trap_frame. */
	.p2align 4
	.globl trap_stubs
trap_stubs:
	vector = 0
	.rept	256
	.p2align 4
	.if	!(vector == 8 || (vector >= 10 && vector <= 14) || vector == 17 || \
		vector == 21 || vector == 29 || vector == 30)
	pushq	$0
	.endif
	pushq	$vector
	jmp	trap_common
	vector = vector + 1
	.endr

trap_common:
	cld
	pushq	%r15
	pushq	%r14
	pushq	%r13
	pushq	%r12
	pushq	%r11
	pushq	%r10
	pushq	%r9
	pushq	%r8
	pushq	%rbp
	pushq	%rdi
	pushq	%rsi
	pushq	%rdx
	pushq	%rcx
	pushq	%rbx
	pushq	%rax
	movq	%rsp, %rdi
	call	kernel_trap
	popq	%rax
	popq	%rbx
	popq	%rcx
	popq	%rdx
	popq	%rsi
	popq	%rdi
	popq	%rbp
	popq	%r8
	popq	%r9
	popq	%r10
	popq	%r11
	popq	%r12
	popq	%r13
	popq	%r14
	popq	%r15
	addq	$16, %rsp
	iretq

	.section .note.GNU-stack, "", @progbits
