/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Freestanding guests that do what no other VM may notice (tests/nested/linux.sh hostile), one for each
 * of these: FAULT, a triple fault; SPIN, a loop with interrupts off; FLOOD, a console without end;
 * MSR, every MSR that a CPU may have is written with zeroes and with ones, and the exit status is 0.
 */
#define PORT_CONSOLE 0x3f8
#define PORT_EXIT    0xf4

	.globl _start
	.text
_start:
#if defined(FAULT)
	xor %eax, %eax
	push %rax
	push %rax
	lidt nothing(%rip)
	ud2
nothing:
	.word 0
	.quad 0
#elif defined(SPIN)
	cli
1:	jmp 1b
#elif defined(FLOOD)
	mov $PORT_CONSOLE, %edx
	mov $'f', %al
1:	out %al, %dx
	jmp 1b
#elif defined(MSR)
	mov $stack_end, %rsp
	/* A gate for #GP, whose handler goes on behind the WRMSR (0F 30). */
	lea on_fault(%rip), %rax
	mov $idt + 13 * 16, %rdi
	mov %ax, (%rdi)
	movw $8, 2(%rdi)
	movw $0x8e00, 4(%rdi)
	shr $16, %rax
	mov %ax, 6(%rdi)
	shr $16, %rax
	mov %eax, 8(%rdi)
	lidt idtr(%rip)
	mov $ranges, %rsi
1:	mov (%rsi), %ecx
	mov 4(%rsi), %ebx
	test %ebx, %ebx
	jz 3f
	/* Not the base of the local APIC: the stack would be next. */
2:	cmp $0x1b, %ecx
	je 4f
	xor %eax, %eax
	xor %edx, %edx
	cmp $0xc0000080, %ecx	/* EFER = 0 would end long mode */
	je 5f
	wrmsr
5:	mov $-1, %eax
	mov $-1, %edx
	wrmsr
4:	inc %ecx
	cmp %ebx, %ecx
	jne 2b
	add $8, %rsi
	jmp 1b
3:	xor %eax, %eax
	mov $PORT_EXIT, %edx
	out %eax, %dx
6:	hlt
	jmp 6b
on_fault:
	add $8, %rsp
	addq $2, (%rsp)
	iretq

	.data
	.balign 16
idtr:	.word 0xfff
	.quad idt
	/* From, and behind the last one. */
ranges:	.long 0, 0x2000
	.long 0x40000000, 0x40000200
	.long 0x4b564d00, 0x4b564d10
	.long 0xc0000000, 0xc0000400
	.long 0xc0010000, 0xc0011200
	.long 0, 0

	.bss
	.balign 4096
idt:	.space 4096
	.space 4096
stack_end:
#endif
