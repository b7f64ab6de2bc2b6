/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The assembly part of the guest tools: entry in CPL3, one function per system call, and the
 * trampoline of measured runs. tools.h declares the functions. */
#include "guest-tools/layout.h"

	.text

/* In: RDI = struct guest_info */
	.globl user_start
user_start:
	xorl	%ebp, %ebp
	call	tools_main
	movl	%eax, %edi
	movl	$SYS_EXIT, %eax
	syscall
	ud2

/*
 * These two instructions are all that a measured run adds to the workload's counts in CPL3
 * (WORKLOAD_OVERHEAD_* in workloads.h). The kernel comes here by IRETQ, with RAX = the workload and
 * its arguments in their registers.
 */
	.globl user_call, user_call_end
user_call:
	call	*%rax
	syscall
user_call_end:
	ud2

/* uint64_t sys_null_call(uint64_t arg): the null system call of the workload "syscalls" */
	.globl sys_null_call
sys_null_call:
	movl	$SYS_NULL, %eax
	syscall
	ret

/* uint64_t sys_run(struct guest_run *run); */
	.globl sys_run
sys_run:
	movl	$SYS_RUN, %eax
	syscall
	ret

/* void sys_exit(int status) */
	.globl sys_exit
sys_exit:
	movl	$SYS_EXIT, %eax
	syscall
	ud2

/* int64_t sys_write(const char *buf, size_t bytes) */
	.globl sys_write
sys_write:
	movl	$SYS_WRITE, %eax
	syscall
	ret

/* int64_t sys_pmu(struct guest_op *ops, size_t n) */
	.globl sys_pmu
sys_pmu:
	movl	$SYS_PMU, %eax
	syscall
	ret

/* int64_t sys_pmi(struct guest_pmi *pmi) */
	.globl sys_pmi
sys_pmi:
	movl	$SYS_PMI, %eax
	syscall
	ret

	.section .note.GNU-stack, "", @progbits
