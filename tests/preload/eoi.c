// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The guest of tests/preload/nested.sh eoi: a multiboot kernel whose timer interrupts, self-IPIs
 * and NMIs come at any moment. Each interrupt must come once, and none while the guest has them
 * off. -append has words:
 *   pv      interrupts are ended by KVM's PV EOI, where KVM has set its bit
 *   pit     NMIs of the PIT, by LINT0
 *   pmi     NMIs of a counter of PerfMonV2 that counts ticks of the TSC, by LVTPC
 *   1234    it ends after so many timer interrupts
 *
 * QEMU's emulated SVM fails with "pv", without any NMI: an interrupt that VMRUN injects stays in
 * exception_index (helper_vmrun), and comes again, whatever RFLAGS.IF is, if the emulator returns
 * to its main loop before the next #VMEXIT. Without PV EOI the exit at the EOI mostly comes before
 * that.
 * KVM's tracepoint kvm_exit shows it as exit_int_info 0000_03xxH, the type of exceptions, with the
 * vector of an interrupt: KVM injects none like that. 64 bits, one CPU.
 */
#include <stdbool.h>
#include <stdint.h>

#include "tests/preload/machine.h"

#define TIMER 0x40u
#define IPI   0x50u
#define IF    0x200u

/* x2APIC */
#define X2APIC_EOI    0x80b
#define X2APIC_SVR    0x80f
#define X2APIC_ISR2   0x812 /* vectors 40H to 5FH */
#define X2APIC_TIMER  0x832
#define X2APIC_LVTPC  0x834
#define X2APIC_LINT0  0x835
#define X2APIC_SELF   0x83f
#define LVT_DEADLINE  (2u << 17)
#define LVT_NMI	      (4u << 8)
#define LVT_MASKED    (1u << 16)
#define TSC_DEADLINE  0x6e0
#define PV_EOI_EN     0x4b564d04
#define SILENCE_TICKS 1000000000ull /* without a timer interrupt: it is lost */

__attribute__((section(".multiboot"), used)) static const uint32_t multiboot[3] = {0x1badb002, 0,
										   -0x1badb002u};

static volatile uint32_t pv_eoi __attribute__((aligned(8)));
static volatile uint32_t off, timers, ipis, nmis, by_pv, by_write;
static volatile uint64_t last_timer;
static bool pmi;

static void put_number(const char *what, uint64_t v)
{
	char text[21], *s = text + 20;

	*s = 0;
	do
		*--s = (char)('0' + v % 10);
	while (v /= 10);
	put(what);
	put(s);
}

static void end(const char *why)
{
	__asm__ volatile("cli");
	put_number("timers ", timers);
	put_number(", IPIs ", ipis);
	put_number(", NMIs ", nmis);
	put_number(", ended by PV EOI ", by_pv);
	put_number(", by a write ", by_write);
	put("\n");
	put(why);
	put("\n");
	outb(DEBUGEXIT, why[0] == 'd' ? 0 : 1); /* "done": status 1 */
	for (;;)
		__asm__ volatile("hlt");
}

static uint32_t any(uint32_t below)
{
	static uint32_t seed = 1;

	seed = seed * 1103515245 + 12345;
	return (seed >> 8) % below;
}

static void work(uint32_t n)
{
	for (volatile uint32_t i = 0; i < n; i++)
		;
}

/* ---- interrupts ---- */

struct frame {
	uint64_t regs[9], rip, cs, rflags;
};

static void apic_eoi(void)
{
	bool was;

	__asm__ volatile("btrl $0, %0" : "+m"(pv_eoi), "=@ccc"(was));
	if (was) {
		by_pv++;
	} else {
		wrmsr(X2APIC_EOI, 0);
		by_write++;
	}
}

static void interrupt_begins(const struct frame *f)
{
	if (off || !(f->rflags & IF))
		end("wrong: an interrupt while they are off");
	off = 1;
	apic_eoi();
}

__attribute__((used)) void timer_c(const struct frame *f)
{
	interrupt_begins(f);
	timers++;
	last_timer = rdtsc();
	work(any(300));
	wrmsr(TSC_DEADLINE, rdtsc() + 40000 + any(300000));
	work(any(300));
	off = 0;
}

__attribute__((used)) void ipi_c(const struct frame *f)
{
	interrupt_begins(f);
	ipis++;
	work(any(300));
	off = 0;
}

static void expect_timer(void)
{
	/* Read before: an interrupt may come in between. */
	uint64_t last = last_timer;

	if (rdtsc() - last > SILENCE_TICKS)
		end("wrong: no timer interrupt");
}

static void pmi_arm(void)
{
	wrmsr(0xc0000302, 1);
	wrmsr(0xc0010201, (1ull << 48) - 1000000 - (nmis * 7919 & 0x7ffff));
	wrmsr(0xc0000301, 1);
}

/* Exits to user space at times, as RDPMC does, and sends an IPI at times, as irq_work does. */
__attribute__((used)) void nmi_c(void)
{
	nmis++;
	if (nmis & 1)
		inb(COM1 + 5);
	if (nmis & 2)
		wrmsr(X2APIC_SELF, IPI);
	if (pmi)
		pmi_arm();
	expect_timer();
}

__attribute__((used)) void gp_c(void)
{
	end("wrong: #GP");
}

#define STUB(name)                                                                                 \
	__asm__("on_" #name ": push %rax\n push %rcx\n push %rdx\n push %rsi\n push %rdi\n"        \
		" push %r8\n push %r9\n push %r10\n push %r11\n mov %rsp, %rdi\n call " #name      \
		"_c\n pop %r11\n pop %r10\n pop %r9\n pop %r8\n pop %rdi\n pop %rsi\n pop %rdx\n"  \
		" pop %rcx\n pop %rax\n iretq\n");                                                 \
	void on_##name(void)
STUB(timer);
STUB(ipi);
STUB(nmi);
STUB(gp);

/* ---- the run ---- */

static bool has(const char *line, const char *word)
{
	for (; *line; line++) {
		const char *a = line, *b = word;

		while (*b && *a == *b)
			a++, b++;
		if (!*b)
			return true;
	}
	return false;
}

static uint32_t last_number(const char *line)
{
	uint32_t n = 0;

	for (; *line; line++)
		n = *line >= '0' && *line <= '9' ? n * 10 + (uint32_t)(*line - '0') : 0;
	return n;
}

static void start_nmis(const char *words)
{
	wrmsr(X2APIC_LINT0, has(words, " pit") ? LVT_NMI : LVT_MASKED);
	outb(0x43, 0x34); /* each 0.6 ms */
	outb(0x40, 700 & 255);
	outb(0x40, 700 >> 8);
	pmi = has(words, " pmi");
	if (!pmi)
		return;
	wrmsr(X2APIC_LVTPC, LVT_NMI);
	/* event 120H, unit mask 1: user and kernel, enabled, interrupts */
	wrmsr(0xc0010200, 1ull << 32 | 0x20 | 0x100 | 3u << 16 | 1u << 22 | 1u << 20);
	pmi_arm();
}

__attribute__((used)) void kernel(const uint32_t *info)
{
	const char *words = info[0] & 4 ? (const char *)(uint64_t)info[4] : "";
	uint32_t wanted = last_number(words);
	struct {
		uint16_t limit;
		uint64_t base;
	} __attribute__((packed)) idtr = {sizeof(idt) - 1, (uint64_t)idt};

	gate(2, on_nmi);
	gate(13, on_gp);
	gate(TIMER, on_timer);
	gate(IPI, on_ipi);
	__asm__ volatile("lidt %0" ::"m"(idtr));
	outb(0x21, 0xff); /* none from the PICs */
	outb(0xa1, 0xff);
	wrmsr(0x1b, rdmsr(0x1b) | 3u << 10); /* x2APIC */
	wrmsr(X2APIC_SVR, 0x1ff);
	if (has(words, " pv"))
		wrmsr(PV_EOI_EN, (uint64_t)&pv_eoi | 1);
	last_timer = rdtsc();
	start_nmis(words);
	wrmsr(X2APIC_TIMER, LVT_DEADLINE | TIMER);
	wrmsr(TSC_DEADLINE, rdtsc() + 100000);
	while (timers < wanted) {
		__asm__ volatile("cli" ::: "memory");
		off = 1;
		work(any(1500));
		off = 0;
		if (any(8))
			__asm__ volatile("sti" ::: "memory");
		else
			__asm__ volatile("sti\n hlt" ::: "memory");
		work(any(1500));
		expect_timer();
	}
	__asm__ volatile("cli");
	end(rdmsr(X2APIC_ISR2) ? "wrong: an interrupt is still in service" : "done");
}

/* Long mode, with the first GiB mapped to itself. */
__asm__(".section .bss\n .balign 4096\n pml4: .skip 4096\n pdpt: .skip 4096\n pd: .skip 4096\n"
	" .skip 65536\nstack:\n .section .rodata\n .balign 8\n"
	"gdt: .quad 0, 0x00af9b000000ffff, 0x00cf93000000ffff\ngdtr: .word 23\n .long gdt\n"
	".section .text\n .code32\n .globl _start\n_start: mov $stack, %esp\n mov %ebx, %edi\n"
	" xor %ecx, %ecx\n1: mov %ecx, %eax\n shl $21, %eax\n or $0x83, %eax\n"
	" mov %eax, pd(, %ecx, 8)\n inc %ecx\n cmp $512, %ecx\n jb 1b\n"
	" movl $pd + 3, pdpt\n movl $pdpt + 3, pml4\n mov $pml4, %eax\n mov %eax, %cr3\n"
	" mov %cr4, %eax\n or $0x20, %eax\n mov %eax, %cr4\n"
	" mov $0xc0000080, %ecx\n rdmsr\n or $0x100, %eax\n wrmsr\n"
	" mov %cr0, %eax\n or $0x80000000, %eax\n mov %eax, %cr0\n lgdt gdtr\n ljmp $8, $2f\n"
	" .code64\n2: mov $16, %eax\n mov %eax, %ss\n mov %eax, %ds\n mov %eax, %es\n"
	" mov %edi, %edi\n call kernel\n hlt\n");
