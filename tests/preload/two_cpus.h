/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Two CPUs in 64-bit mode, for hostile.c: the multiboot kernel's start, that of the other CPU, and
 * their interrupts and faults. kernel() and ap_main() go on.
 */
#pragma once

#include "tests/preload/guest.h"

__attribute__((section(".multiboot"), used)) static const uint32_t multiboot[3] = {0x1badb002, 0,
										   -0x1badb002u};

/* ---- into 64-bit mode ---- */

/* 4 GiB mapped one to one, by pages of 2 MiB. The first one, with the hole below 1 MiB, is not
 * executable: text is what is contiguous in memory, as a kernel's is. */

__asm__(".section .bss\n .balign 4096\n"
	"pml4: .skip 4096\n pdpt: .skip 4096\n pd: .skip 16384\n stack: .skip 16384\n stack_end:\n"
	".data\n .balign 8\n gdt: .quad 0, 0x00af9a000000ffff, 0x00cf92000000ffff,"
	" 0x00cf9a000000ffff\n"
	"gdtr: .word 31\n .long gdt\n"
	".text\n .code32\n .globl _start\n"
	"_start: mov $stack_end, %esp\n mov %ebx, %ebp\n"
	" mov $pd, %edi\n mov $0x83, %eax\n mov $2048, %ecx\n"
	"1: mov %eax, (%edi)\n add $0x200000, %eax\n add $8, %edi\n dec %ecx\n jnz 1b\n"
	" movl $0x80000000, pd + 4\n movl $pd + 3, pdpt\n movl $pd + 0x1003, pdpt + 8\n"
	" movl $pd + 0x2003, pdpt + 16\n movl $pd + 0x3003, pdpt + 24\n movl $pdpt + 3, pml4\n"
	" mov $pml4, %eax\n mov %eax, %cr3\n mov %cr4, %eax\n or $0x20, %eax\n mov %eax, %cr4\n"
	" mov $0xc0000080, %ecx\n rdmsr\n or $0x900, %eax\n wrmsr\n"
	" mov %cr0, %eax\n or $0x80000001, %eax\n mov %eax, %cr0\n"
	" lgdt gdtr\n ljmp $8, $long_mode\n"
	".code64\n long_mode: mov $16, %eax\n mov %eax, %ds\n mov %eax, %es\n mov %eax, %ss\n"
	" mov %ebp, %edi\n call kernel\n");

/* The other CPU begins in real mode, with a copy of this at 8000H, which is not executable as soon
 * as there are pages. */
#define AP_START 0x8000u
__asm__(".section .bss\n .balign 16\n .skip 16384\n ap_stack_end:\n"
	".text\n .code16\n ap_real: cli\n lgdtl %cs:(ap_gdtr - ap_real)\n"
	" mov %cr0, %eax\n or $1, %al\n mov %eax, %cr0\n ljmpl $0x18, $ap_protected\n"
	"ap_gdtr: .word 31\n .long gdt\n ap_real_end:\n"
	".code32\n ap_protected: mov $16, %eax\n mov %eax, %ds\n mov %eax, %es\n mov %eax, %ss\n"
	" mov $ap_stack_end, %esp\n mov $pml4, %eax\n mov %eax, %cr3\n"
	" mov %cr4, %eax\n or $0x20, %eax\n mov %eax, %cr4\n"
	" mov $0xc0000080, %ecx\n rdmsr\n or $0x900, %eax\n wrmsr\n"
	" mov %cr0, %eax\n or $0x80000001, %eax\n mov %eax, %cr0\n ljmp $8, $ap_long\n"
	".code64\n ap_long: call ap_main\n");
extern const uint8_t ap_real[], ap_real_end[];

/* ---- interrupts and faults ---- */

/*
 * No IRET, as in guest.c. A fault goes on at fault_rip, with the stack of the function that has set
 * it. An interrupt returns by the interrupted stack, where nothing may be (-mno-red-zone).
 */
volatile uint64_t fault_rip, fault_rsp, int_rsp, nmi_rsp;
volatile uint32_t faults, others, nmis;
/* The other CPU's */
volatile uint64_t ap_fault_rip, ap_fault_rsp, ap_int_rsp, ap_nmi_rsp;
volatile uint32_t ap_faults, ap_others, ap_nmis, ap_pmis;

#define RETURN(rsp)                                                                                \
	" push %rax\n push %rcx\n mov 40(%rsp), %rax\n mov 16(%rsp), %rcx\n mov %rcx, -8(%rax)\n"  \
	" mov 32(%rsp), %rcx\n mov %rcx, -16(%rax)\n sub $16, %rax\n mov %rax, " rsp               \
	"\n pop %rcx\n pop %rax\n mov " rsp ", %rsp\n popfq\n ret\n"
#define EOI "push %rax\n mov $0xfee000b0, %eax\n movl $0, (%rax)\n pop %rax\n"

#define HANDLERS(cpu)                                                                              \
	".text\n " cpu "on_fault: incl " cpu "faults\n mov " cpu                                   \
	"fault_rsp, %rsp\n sti\n jmp *" cpu "fault_rip\n" cpu "on_pmi: incl " cpu "pmis\n" EOI     \
	RETURN(cpu "int_rsp") cpu "on_other: incl " cpu "others\n" EOI                             \
	RETURN(cpu "int_rsp") cpu "on_nmi: incl " cpu "nmis\n" RETURN(cpu "nmi_rsp")

__asm__(HANDLERS("") HANDLERS("ap_") "on_stray: call stray\n");
void on_fault(void);
void on_pmi(void);
void on_other(void);
void on_nmi(void);
void ap_on_fault(void);
void ap_on_pmi(void);
void ap_on_other(void);
void ap_on_nmi(void);
void on_stray(void);
void stray(void);

void stray(void)
{
	end("wrong: a fault where none may be");
}

/* Execute @code; faults grows if it faults. @cpu: "" or "ap_", the one that this runs on. */
#define TRY_ON(cpu, code, ...)                                                                     \
	do {                                                                                       \
		__asm__ volatile("movq $1f, " cpu "fault_rip\n mov %%rsp, " cpu "fault_rsp\n" code \
				 "\n1: movq $on_stray, " cpu "fault_rip" __VA_ARGS__);             \
	} while (0)
#define TRY(code, ...) TRY_ON("", code, __VA_ARGS__)

static uint32_t apic_read(uint32_t reg)
{
	return *(volatile uint32_t *)(uintptr_t)(LAPIC + reg);
}

static void apic_write(uint32_t reg, uint32_t v)
{
	*(volatile uint32_t *)(uintptr_t)(LAPIC + reg) = v;
}

static uint8_t ap_idt[sizeof(idt)];

/* The local APIC may deliver 16 and above; no exception is there that this guest has. */
static void gates(void (*fault)(void), void (*other)(void), void (*nmi)(void), void (*pmi)(void))
{
	for (unsigned int v = 0; v < 256; v++)
		gate(v, v < 16 ? fault : other);
	gate(2, nmi);
	gate(VECTOR, pmi);
}

static void interrupts_on(const void *table)
{
	struct {
		uint16_t limit;
		uint64_t base;
	} __attribute__((packed)) idtr = {sizeof(idt) - 1, (uintptr_t)table};

	__asm__ volatile("lidt %0" ::"m"(idtr));
	apic_write(0xf0, 0x1ff);
	__asm__ volatile("sti");
}

static void interrupts(void)
{
	TRY("nop", ::); /* from now on a fault is a stray one, which has a stack */
	gates(ap_on_fault, ap_on_other, ap_on_nmi, ap_on_pmi);
	for (unsigned int i = 0; i < sizeof(idt); i++)
		ap_idt[i] = ((const uint8_t *)idt)[i];
	gates(on_fault, on_other, on_nmi, on_pmi);
	outb(0x21, 0xff);
	outb(0xa1, 0xff);
	interrupts_on(idt);
}
