/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Entries of the image of `vpmu-bench emu_mips_programs`: _start by the boot protocol of vpmu
 * (vpmu/guest/abi.h), pvh_start by PVH, which is how QEMU starts an ELF file given with -kernel. Both
 * call run_program() in 64-bit mode in CPL 0, with the RAM mapped 1:1 by 2 MiB pages, and write its
 * result to the exit port, which is isa-debug-exit in QEMU. Only the way here may differ.
 */
#define PORT_EXIT	 0xf4
#define NOTE_PHYS32_ENTRY 18 /* XEN_ELFNOTE_PHYS32_ENTRY */
#define INFO_ARGS	 16 /* vpmu_boot_info.args */
#define PVH_CMDLINE	 24 /* hvm_start_info.cmdline_paddr */

	.section .note.pvh, "a", @note
	.p2align 2
	.long	4, 8, NOTE_PHYS32_ENTRY
	.asciz	"Xen"
	.quad	pvh_start

	.text
	.globl	_start
_start:
	movq	INFO_ARGS(%rsi), %rdi
enter:
	movq	%cr0, %rax
	andl	$~0xc, %eax		/* no EM, no TS */
	movq	%rax, %cr0
	movq	%cr4, %rax
	orl	$0x600, %eax		/* OSFXSR, OSXMMEXCPT */
	movq	%rax, %cr4
	movl	$stack_end, %esp
	call	run_program
	movl	$PORT_EXIT, %edx
	outl	%eax, %dx
1:	hlt
	jmp	1b

	/* 32-bit protected mode, no paging, EBX = struct hvm_start_info. */
	.code32
pvh_start:
	cli
	cld
	movl	$pdpt + 3, pml4
	movl	$pd + 3, pdpt
	movl	$0x83, %eax
	xorl	%ecx, %ecx
1:	movl	%eax, pd(, %ecx, 8)
	addl	$0x200000, %eax
	incl	%ecx
	cmpl	$512, %ecx
	jne	1b
	lgdt	gdt_pointer
	movl	$0x20, %eax		/* CR4.PAE */
	movl	%eax, %cr4
	movl	$pml4, %eax
	movl	%eax, %cr3
	movl	$0xc0000080, %ecx	/* EFER.LME */
	rdmsr
	orl	$0x100, %eax
	wrmsr
	movl	$0x80010013, %eax	/* CR0: PG, WP, ET, MP, PE */
	movl	%eax, %cr0
	ljmp	$8, $1f
	.code64
1:	movl	$0x10, %eax
	movl	%eax, %ds
	movl	%eax, %es
	movl	%eax, %ss
	movl	%ebx, %ebx
	movq	PVH_CMDLINE(%rbx), %rdi
	jmp	enter

	.section .rodata
	.p2align 3
gdt:	.quad	0, 0x00af9b000000ffff, 0x00cf93000000ffff
gdt_pointer:
	.word	23
	.long	gdt

	.bss
	.p2align 12
pml4:	.skip	4096
pdpt:	.skip	4096
pd:	.skip	4096
	.skip	65536
stack_end:

	.section .note.GNU-stack, "", @progbits
