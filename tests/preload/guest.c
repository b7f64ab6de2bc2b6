// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The guest of tests/preload/qemu.sh: a multiboot kernel that looks for its PMU, counts, takes a
 * PMI, and is migrated. It says what it sees on the serial port; the first byte that comes from
 * there says that it goes on in another QEMU. With -append pages it only counts an event that vpmud
 * counts, before and after that byte. 32 bits, no paging, one CPU.
 */
#include <stdbool.h>
#include <stdint.h>

#define COM1	  0x3f8
#define DEBUGEXIT 0xf4 /* isa-debug-exit: QEMU's status is 2 * value + 1 */
#define LAPIC	  0xfee00000u
#define LVTPC	  0x340
#define VECTOR	  0x40u

/* Bounds of loops, in the guest's own work: a PMI that never comes is an error. */
#define WORK	   500u
#define WORK_UNITS 100000u

__attribute__((section(".multiboot"), used)) static const uint32_t multiboot[3] = {0x1badb002, 0,
										   -0x1badb002u};

volatile uint32_t pmis; /* on_pmi */

/* ---- the machine ---- */

static void outb(uint16_t port, uint8_t v)
{
	__asm__ volatile("outb %0, %1" ::"a"(v), "Nd"(port));
}

static uint8_t inb(uint16_t port)
{
	uint8_t v;

	__asm__ volatile("inb %1, %0" : "=a"(v) : "Nd"(port));
	return v;
}

static uint64_t rdmsr(uint32_t msr)
{
	uint32_t lo, hi;

	__asm__ volatile("rdmsr" : "=a"(lo), "=d"(hi) : "c"(msr));
	return (uint64_t)hi << 32 | lo;
}

static void wrmsr(uint32_t msr, uint64_t v)
{
	__asm__ volatile("wrmsr" ::"c"(msr), "a"((uint32_t)v), "d"((uint32_t)(v >> 32)) : "memory");
}

static uint64_t rdtsc(void)
{
	uint32_t lo, hi;

	__asm__ volatile("rdtsc" : "=a"(lo), "=d"(hi));
	return (uint64_t)hi << 32 | lo;
}

static void cpuid(uint32_t leaf, uint32_t r[4])
{
	__asm__ volatile("cpuid"
			 : "=a"(r[0]), "=b"(r[1]), "=c"(r[2]), "=d"(r[3])
			 : "a"(leaf), "c"(0));
}

static void put(const char *s)
{
	for (; *s; s++) {
		while (!(inb(COM1 + 5) & 0x20))
			;
		outb(COM1, (uint8_t)*s);
	}
}

static void put_hex(const char *what, uint64_t v)
{
	char text[17];

	put(what);
	for (int i = 0; i < 16; i++)
		text[i] = "0123456789abcdef"[v >> (60 - 4 * i) & 15];
	text[16] = 0;
	put(" ");
	put(text);
	put("\n");
}

static void end(const char *why)
{
	put(why);
	put("\n");
	outb(DEBUGEXIT, why[0] == 'd' ? 0 : 1); /* "done": status 1 */
	for (;;)
		__asm__ volatile("hlt");
}

static void expect(bool ok, const char *what)
{
	put(ok ? "ok: " : "WRONG: ");
	put(what);
	put("\n");
	if (!ok)
		end("wrong");
}

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

static void arm_lvtpc(void)
{
	*(volatile uint32_t *)(LAPIC + LVTPC) = VECTOR;
}

static void work(void)
{
	for (volatile uint32_t i = 0; i < WORK; i++)
		;
}

/* ---- the PMU: one counter of reference cycles, which a host without a PMU counts, too ---- */

static bool intel, v2;
static uint32_t ctr, sel;	  /* counter and control of the one that counts */
static uint32_t other, other_sel; /* of one that stands still and keeps a value */
static uint32_t status, clear;

static void pmu_find(void)
{
	uint32_t r[4];

	cpuid(0, r);
	intel = r[1] == 0x756e6547;
	if (intel) {
		cpuid(0xa, r);
		put_hex("leaf 0AH EAX", r[0]);
		expect((r[0] & 0xff) >= 2, "an architectural PMU");
		v2 = true;
		ctr = 0x30b; /* fixed counter 2 */
		sel = 0x38d;
		other = 0xc2;
		other_sel = 0x187;
		status = 0x38e;
		clear = 0x390;
		return;
	}
	cpuid(0x80000001, r);
	expect(r[2] >> 23 & 1, "PERFCTR_CORE");
	cpuid(0xa, r);
	expect(!r[0], "no architectural PMU besides");
	cpuid(0x80000000, r);
	if (r[0] >= 0x80000022) {
		cpuid(0x80000022, r);
		v2 = r[0] & 1;
	}
	if (v2)
		put_hex("leaf 80000022H EBX", r[1]);
	put(v2 ? "PerfMonV2\n" : "no PerfMonV2\n");
	ctr = 0xc0010201;
	sel = 0xc0010200;
	other = 0xc0010205;
	other_sel = 0xc0010204;
	status = 0xc0000300;
	clear = 0xc0000302;
}

static void pmu_start(bool interrupts_on)
{
	if (intel) {
		wrmsr(sel, interrupts_on ? 0xb00 : 0x300);
		wrmsr(0x38f, 1ull << 34);
		return;
	}
	/* event 120H, unit mask 1: user and kernel, enabled */
	wrmsr(sel,
	      1ull << 32 | 0x20 | 0x100 | 3u << 16 | 1u << 22 | (interrupts_on ? 1u << 20 : 0));
	if (v2)
		wrmsr(0xc0000301, 1);
}

static void pmu_stop(void)
{
	wrmsr(sel, 0);
}

static void count(void)
{
	uint64_t t0, c0, c1, t1;

	wrmsr(ctr, 0);
	pmu_start(false);
	t0 = rdtsc();
	c0 = rdmsr(ctr);
	for (int i = 0; i < 5; i++)
		work();
	c1 = rdmsr(ctr);
	t1 = rdtsc();
	put_hex("counted", c1 - c0);
	put_hex("of TSC", t1 - t0);
	expect(c1 > c0, "the counter counts");
	expect(c1 - c0 <= t1 - t0, "no more than the TSC");
	pmu_stop();
	c0 = rdmsr(ctr);
	work();
	expect(rdmsr(ctr) == c0, "it stands still when it is off");
}

static void pmi(void)
{
	uint32_t before;

	for (int round = 0; round < 3; round++) {
		before = pmis;
		arm_lvtpc();
		wrmsr(ctr, (1ull << 48) - 3000000);
		pmu_start(true);
		for (uint32_t i = 0; i < WORK_UNITS && pmis == before; i++)
			work();
		pmu_stop();
		expect(pmis == before + 1, "a PMI");
		expect(rdmsr(ctr) < 1ull << 47, "the counter has wrapped");
		if (v2) {
			uint64_t bit = intel ? 1ull << 34 : 1;

			expect(rdmsr(status) & bit, "the status shows it");
			wrmsr(clear, bit);
			expect(!(rdmsr(status) & bit), "the status is cleared");
		}
	}
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

/* The multiboot information has the command line, if bit 2 of its flags is set: the image's path,
 * a blank, and what -append has. */
static bool is_pages(const uint32_t *info)
{
	static const char end[] = " pages";
	const char *s = info[0] & 4 ? (const char *)info[4] : "";
	uint32_t n = 0, same = 0;

	while (s[n])
		n++;
	while (same < sizeof(end) && same <= n && s[n - same] == end[sizeof(end) - 1 - same])
		same++;
	return same == sizeof(end);
}

__attribute__((used)) void kernel(const uint32_t *info)
{
	interrupts();
	pmu_find();
	if (is_pages(info))
		pages();
	count();
	pmi();
	migrate();
	end("done");
}

__asm__(".section .bss\n .balign 16\n .skip 16384\nstack:\n"
	".section .text\n .globl _start\n_start: mov $stack, %esp\n push %ebx\n call kernel\n "
	"hlt\n");
