/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A static program without libc that counts itself, for guests in which it is init and the only program.
 * Then everything that the VM executes in user mode is its path, which is always the same. It opens a group
 * of instructions:u and branches:u, starts it by its third system call, loops, reads the group by the call
 * behind the loop, and prints both counts in hexadecimal. At the end it switches the machine off if it is process 1;
 * else it exits, with as many instructions. No result changes its path, so it can be single-stepped anywhere.
 */
	.set ROUNDS, 500
	.globl _start
	.text
_start:
	mov $298, %eax			/* perf_event_open(&insns, 0, -1, -1, 0) */
	mov $insns, %edi
	xor %esi, %esi
	mov $-1, %rdx
	mov $-1, %r10
	xor %r8d, %r8d
	syscall
	mov %eax, %r12d
	mov $298, %eax			/* perf_event_open(&branches, 0, -1, group, 0) */
	mov $branches, %edi
	xor %esi, %esi
	mov $-1, %rdx
	movslq %r12d, %r10
	xor %r8d, %r8d
	syscall
	mov $16, %eax			/* ioctl(group, PERF_EVENT_IOC_ENABLE, PERF_IOC_FLAG_GROUP) */
	mov %r12d, %edi
	mov $0x2400, %esi
	mov $1, %edx
	syscall

	mov $ROUNDS, %ebx
1:	call outer
	test $1, %bl
	jz 2f
	nop
2:	dec %ebx
	jnz 1b

	xor %eax, %eax			/* read(group, &counts, 24) */
	mov %r12d, %edi
	mov $counts, %esi
	mov $24, %edx
	syscall
	mov counts + 8, %rax
	mov $text_insns, %edi
	call hex
	mov counts + 16, %rax
	mov $text_branches, %edi
	call hex
	mov $1, %eax			/* write(1, text, ...) */
	mov $1, %edi
	mov $text, %esi
	mov $text_end - text, %edx
	syscall

	mov $39, %eax			/* getpid() */
	syscall
	mov $169, %ecx			/* reboot(magic, magic, LINUX_REBOOT_CMD_POWER_OFF), or exit */
	mov $60, %edx
	cmp $1, %eax
	mov %ecx, %eax
	cmovne %edx, %eax
	mov $0xfee1dead, %edi
	mov $672274793, %esi
	mov $0x4321fedc, %edx
	syscall
	ud2

outer:
	push %rbp
	mov %rsp, %rbp
	call inner
	call inner
	pop %rbp
	ret

inner:
	mov $3, %ecx
1:	dec %ecx
	jnz 1b
	ret

/* Writes %rax as 16 digits to %rdi. The path does not depend on the number. */
hex:
	mov $16, %ecx
1:	rol $4, %rax
	mov %eax, %edx
	and $15, %edx
	movzbl digits(%rdx), %edx
	mov %dl, (%rdi)
	inc %rdi
	dec %ecx
	jnz 1b
	ret

	.data
	.balign 8
	/* struct perf_event_attr, PERF_ATTR_SIZE_VER0: disabled, exclude_kernel, exclude_hv; PERF_FORMAT_GROUP */
insns:
	.long 0, 64
	.quad 1, 0, 0, 8, 1 | 1 << 5 | 1 << 6, 0, 0
branches:
	.long 0, 64
	.quad 4, 0, 0, 8, 1 << 5 | 1 << 6, 0, 0
counts:
	.quad 0, 0, 0
digits:
	.ascii "0123456789abcdef"
text:
	.ascii "sum: "
text_insns:
	.ascii "0000000000000000 "
text_branches:
	.ascii "0000000000000000\n"
text_end:

	.section .note.GNU-stack, "", @progbits
