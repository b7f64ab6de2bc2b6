// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The guest of tests/preload/qemu.sh: a multiboot kernel that looks for its PMU, counts, takes a
 * PMI, and is migrated. It says what it sees on the serial port; the first byte that comes from
 * there says that it goes on in another QEMU. With -append pages it only counts an event that vpmud
 * counts, before and after that byte; with -append victim it counts and takes PMIs until that byte;
 * with -append oN it does N OUTs and nothing else. 32 bits, no paging, one CPU.
 */
#include "tests/preload/guest.h"

__attribute__((section(".multiboot"), used)) static const uint32_t multiboot[3] = {0x1badb002, 0,
										   -0x1badb002u};

/* ---- interrupts: the PMI is counted, a #GP is an error ---- */

static struct {
	uint16_t off_low, selector, type, off_high;
} idt[VECTOR + 1];

/* No IRET, which a KVM that interprets CPL 0 does not know: RFLAGS and RIP are put next to each
 * other. */
__asm__("on_pmi: incl pmis\n movl $0, 0xfee000b0\n" /* EOI */
	" push %eax\n mov 4(%esp), %eax\n xchg %eax, 12(%esp)\n mov %eax, 8(%esp)\n"
	" pop %eax\n add $4, %esp\n popf\n ret\n"
	"on_gp: call gp_fault\n");
void on_pmi(void);
void on_gp(void);
void gp_fault(void);

void gp_fault(void)
{
	end("wrong: #GP");
}

static void gate(unsigned int vector, void (*handler)(void))
{
	uint32_t at = (uint32_t)handler;
	uint16_t cs;

	__asm__("mov %%cs, %0" : "=r"(cs));
	idt[vector].off_low = (uint16_t)at;
	idt[vector].selector = cs;
	idt[vector].type = 0x8e00;
	idt[vector].off_high = (uint16_t)(at >> 16);
}

static void interrupts(void)
{
	struct {
		uint16_t limit;
		uint32_t base;
	} __attribute__((packed)) idtr = {sizeof(idt) - 1, (uint32_t)idt};

	gate(VECTOR, on_pmi);
	gate(13, on_gp);
	__asm__ volatile("lidt %0" ::"m"(idtr));
	*(volatile uint32_t *)(LAPIC + 0xf0) = 0x1ff; /* the local APIC is on */
	outb(0x21, 0xff);			      /* none from the PICs */
	outb(0xa1, 0xff);
	__asm__ volatile("sti");
}

static void migrate(void)
{
	uint64_t before, after;

	wrmsr(other, 0x1234567);
	wrmsr(other_sel, 0x300c0);
	wrmsr(ctr, 0x7000000000ull);
	pmu_start(false);
	work();
	put("ready\n");
	do
		before = rdmsr(ctr);
	while (!(inb(COM1 + 5) & 1));
	inb(COM1);
	after = rdmsr(ctr);
	put_hex("before", before);
	put_hex("after", after);
	expect(before >= 0x7000000000ull, "the count goes on");
	expect(after >= before && after - before < 1ull << 40, "and never jumps");
	expect(rdmsr(other) == 0x1234567, "a counter that is off keeps its value");
	expect(rdmsr(other_sel) == 0x300c0, "and its select");
	pmu_stop();
	pmi();
}

/* Instructions, by what is on vpmud's page: they grow while the guest waits, not by what it does.
 */
static void pages(void)
{
	uint32_t first = intel ? 0xc1 : ctr;
	uint64_t last;

	wrmsr(first, 0);
	wrmsr(intel ? 0x186 : sel, 1u << 22 | 3u << 16 | 0xc0);
	if (intel || v2)
		wrmsr(intel ? 0x38f : 0xc0000301, 1);
	for (int round = 0; round < 2; round++) {
		last = rdmsr(first);
		for (uint32_t i = 0; i < 3000000 && rdmsr(first) < last + 5000; i++)
			;
		expect(rdmsr(first) >= last + 5000, "vpmud's count");
		if (round)
			continue;
		put("ready\n");
		while (!(inb(COM1 + 5) & 1))
			;
		inb(COM1);
	}
	end("done");
}

/* As long as others run beside it. */
static void victim(void)
{
	uint64_t rounds = 0;

	put("ready\n");
	do {
		count();
		pmi();
		rounds++;
	} while (!(inb(COM1 + 5) & 1));
	put_hex("rounds", rounds);
	end("done");
}

/* Exits that are QEMU's alone: for tests/bench/preload/qemu.sh. */
static void outs(const char *number)
{
	uint32_t n = 0;

	for (; *number >= '0' && *number <= '9'; number++)
		n = 10 * n + (uint32_t)(*number - '0');
	while (n--)
		outb(0x80, 0);
	end("done");
}

__attribute__((used)) void kernel(const uint32_t *info)
{
	if (append(info)[0] == 'o')
		outs(append(info) + 1);
	interrupts();
	pmu_find();
	if (append(info)[0] == 'p')
		pages();
	if (append(info)[0] == 'v')
		victim();
	count();
	pmi();
	migrate();
	end("done");
}

__asm__(".section .bss\n .balign 16\n .skip 16384\nstack:\n"
	".section .text\n .globl _start\n_start: mov $stack, %esp\n push %ebx\n call kernel\n "
	"hlt\n");
