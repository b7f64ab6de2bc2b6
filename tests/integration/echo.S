/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A guest that is typed at (vmm_console_keys.sh), as a multiboot image: it prompts, sends back each
 * byte between angle brackets, as two hexadecimal digits, and after 'x' what a terminal must not
 * get. 'q' ends it.
 */
#define COM1 0x3f8

	.code32
	.text
	.align 4
	.long 0x1badb002, 3, -(0x1badb002 + 3)

	.globl _start
_start:
	mov $stack_end, %esp
	mov $prompt, %esi
	call text
1:	mov $COM1 + 5, %edx
2:	in %dx, %al
	test $1, %al
	jz 2b
	mov $COM1, %edx
	in %dx, %al
	movzbl %al, %ebx
	mov $'<', %al
	out %al, %dx
	mov %ebx, %ecx
	shr $4, %ecx
	mov digits(%ecx), %al
	out %al, %dx
	mov %ebx, %ecx
	and $15, %ecx
	mov digits(%ecx), %al
	out %al, %dx
	mov $'>', %al
	out %al, %dx
	cmp $'q', %bl
	je 3f
	cmp $'x', %bl
	jne 1b
	mov $harm, %esi
	call text
	jmp 1b
3:	xor %eax, %eax
	mov $0xf4, %edx
	out %eax, %dx
	hlt

/* ESI: NUL-terminated. */
text:	mov $COM1, %edx
1:	mov (%esi), %al
	inc %esi
	test %al, %al
	jz 2f
	out %al, %dx
	jmp 1b
2:	ret

digits:	.ascii "0123456789abcdef"
prompt:	.asciz "ready\r\nprompt "
harm:	.asciz "\033]0;TITLE\007\033]52;c;Q0xJUA==\033\\\033[6n\033[c\033[?1049h\033[31mred\033[0m\r\n"

	.bss
	.space 1024
stack_end:
