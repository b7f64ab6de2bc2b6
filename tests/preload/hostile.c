// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * A guest that no other VM may notice (tests/integration/vpmud_hostile.sh), a multiboot kernel in
 * 64-bit mode, one CPU. It writes all MSRs, ports and registers of its local APIC, sends PMIs by
 * every mode to every kind of vector, puts RDPMC back where the VMM has replaced it, and switches
 * its PMU on and off as often as -append has it. Then its own PMU must still count and give PMIs.
 */
#include "tests/preload/guest.h"

#define RANDOM	 5000u
#define REWRITES 2000u
#define STRANGE	 200u /* RDPMC in data, more than a kernel has */

__attribute__((section(".multiboot"), used)) static const uint32_t multiboot[3] = {0x1badb002, 0,
										   -0x1badb002u};

/* ---- into 64-bit mode ---- */

/* 4 GiB mapped one to one, by pages of 2 MiB. The first one, with the hole below 1 MiB, is not
 * executable: text is what is contiguous in memory, as a kernel's is. */

__asm__(".section .bss\n .balign 4096\n"
	"pml4: .skip 4096\n pdpt: .skip 4096\n pd: .skip 16384\n stack: .skip 16384\n stack_end:\n"
	".data\n .balign 8\n gdt: .quad 0, 0x00af9a000000ffff, 0x00cf92000000ffff\n"
	"gdtr: .word 23\n .long gdt\n"
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

/* ---- interrupts and faults ---- */

/*
 * No IRET, as in guest.c. A fault goes on at fault_rip, with the stack of the function that has set
 * it. An interrupt returns by the interrupted stack, where nothing may be (-mno-red-zone).
 */
volatile uint64_t fault_rip, fault_rsp, int_rsp, nmi_rsp;
volatile uint32_t faults, others, nmis;

#define RETURN(rsp)                                                                                \
	" push %rax\n push %rcx\n mov 40(%rsp), %rax\n mov 16(%rsp), %rcx\n mov %rcx, -8(%rax)\n"  \
	" mov 32(%rsp), %rcx\n mov %rcx, -16(%rax)\n sub $16, %rax\n mov %rax, " rsp               \
	"\n pop %rcx\n pop %rax\n mov " rsp ", %rsp\n popfq\n ret\n"
#define EOI "push %rax\n mov $0xfee000b0, %eax\n movl $0, (%rax)\n pop %rax\n"

__asm__(".text\n on_fault: incl faults\n mov fault_rsp, %rsp\n sti\n jmp *fault_rip\n"
	"on_pmi: incl pmis\n" EOI RETURN("int_rsp") "on_other: incl others\n" EOI RETURN(
		"int_rsp") "on_nmi: incl nmis\n" RETURN("nmi_rsp") "on_stray: call stray\n");
void on_fault(void);
void on_pmi(void);
void on_other(void);
void on_nmi(void);
void on_stray(void);
void stray(void);

void stray(void)
{
	end("wrong: a fault where none may be");
}

/* Execute @code; faults grows if it faults. */
#define TRY(code, ...)                                                                             \
	do {                                                                                       \
		__asm__ volatile("movq $1f, fault_rip\n mov %%rsp, fault_rsp\n" code               \
				 "\n1: movq $on_stray, fault_rip" __VA_ARGS__);                    \
	} while (0)

static uint32_t apic_read(uint32_t reg)
{
	return *(volatile uint32_t *)(uintptr_t)(LAPIC + reg);
}

static void apic_write(uint32_t reg, uint32_t v)
{
	*(volatile uint32_t *)(uintptr_t)(LAPIC + reg) = v;
}

static void interrupts(void)
{
	struct {
		uint16_t limit;
		uint64_t base;
	} __attribute__((packed)) idtr = {sizeof(idt) - 1, (uintptr_t)idt};

	fault_rip = (uintptr_t)on_stray;
	/* The local APIC may deliver 16 and above; no exception is there that this guest has. */
	for (unsigned int v = 0; v < 256; v++)
		gate(v, v < 16 ? on_fault : on_other);
	gate(2, on_nmi);
	gate(VECTOR, on_pmi);
	__asm__ volatile("lidt %0" ::"m"(idtr));
	apic_write(0xf0, 0x1ff);
	outb(0x21, 0xff);
	outb(0xa1, 0xff);
	__asm__ volatile("sti");
}

/* What the hostile phases have left behind of the APIC. */
static void apic_restore(uint32_t id)
{
	apic_write(0xf0, 0x1ff);
	apic_write(0x20, id);
	apic_write(0x80, 0);
	for (uint32_t reg = 0x320; reg <= 0x370; reg += 0x10)
		apic_write(reg, 0x10000);
	apic_write(0x380, 0);
	for (unsigned int i = 0; i < 256; i++)
		apic_write(0xb0, 0);
}

/* ---- what it does ---- */

static uint64_t random(void)
{
	static uint64_t x = 88172645463325252ull;

	x ^= x << 13, x ^= x >> 7, x ^= x << 17;
	return x;
}

static void phase(const char *name)
{
	put(name);
	put("\n");
}

static void try_wrmsr(uint32_t msr, uint64_t v)
{
	TRY("wrmsr", ::"c"(msr), "a"((uint32_t)v), "d"((uint32_t)(v >> 32)) : "memory");
}

static uint64_t try_rdmsr(uint32_t msr)
{
	uint32_t lo = 0, hi = 0;

	TRY("rdmsr", : "+a"(lo), "+d"(hi) : "c"(msr) : "memory");
	return (uint64_t)hi << 32 | lo;
}

/* All MSRs that a CPU or KVM may have. Not the base of the APIC, EFER, and what KVM would write
 * into this guest's memory from now on. */
static void msrs(void)
{
	static const uint32_t ranges[][2] = {{0, 0x2000},
					     {0x40000000, 0x40000200},
					     {0x4b564d00, 0x4b564d10},
					     {0xc0000000, 0xc0000400},
					     {0xc0010000, 0xc0011200}};

	for (unsigned int i = 0; i < sizeof(ranges) / sizeof(ranges[0]); i++)
		for (uint32_t m = ranges[i][0]; m < ranges[i][1]; m++) {
			if (m == 0x1b || m == 0xc0000080)
				continue;
			try_rdmsr(m);
			try_wrmsr(m, ~0ull);
			try_wrmsr(m, 0);
		}
	put_hex("faults", faults);
	expect(faults > 10000, "MSRs: most are refused");
}

/* The registers of its own PMU, with values that they may and may not have. */
static void registers(void)
{
	static const uint32_t amd_first[] = {0xc0010000, 0xc0010200, 0xc0000300, 0x1d9},
			      intel_first[] = {0xc1, 0x186, 0x309, 0x38d, 0x4c1, 0x1d9};
	const uint32_t *first = intel ? intel_first : amd_first;
	const unsigned int n = intel ? 6 : 4;

	for (unsigned int i = 0; i < RANDOM; i++) {
		uint64_t r = random();
		uint32_t msr = first[r % n] + (r >> 8 & 15);

		try_wrmsr(msr, random() & random() & (r & 1 << 20 ? ~0ull : 0xffffffff));
		try_rdmsr(msr);
	}
	for (unsigned int k = 0; k < n; k++)
		for (unsigned int i = 0; i < 16; i++)
			try_wrmsr(first[k] + i, 0);
}

/* Ports that would end this VM: keyboard controller and port 92H, SMI, reset, isa-debug-exit, power
 * management; and where its own messages go. */
static bool ends(uint32_t port)
{
	return port == 0x64 || port == 0x92 || (port & ~1u) == 0xb2 || (port & ~7u) == 0xcf8 ||
	       (port & ~7u) == DEBUGEXIT - 4 || (port & ~7u) == COM1 || (port & ~0x3fu) == 0x600;
}

static void ports(void)
{
	for (uint32_t p = 0; p < 0x10000; p++) {
		if (ends(p))
			continue;
		__asm__ volatile("inb %w0, %%al\n mov $-1, %%eax\n outb %%al, %w0" ::"d"(p)
				 : "eax");
		if (p & 3)
			continue;
		__asm__ volatile(
			"inl %w0, %%eax\n mov $-1, %%eax\n outl %%eax, %w0\n inw %w0, %%ax" ::"d"(p)
			: "eax");
	}
	/* The one that stands for RDPMC, from where no RDPMC was. */
	for (unsigned int i = 0; i < 1000; i++)
		__asm__ volatile(
			"mov %0, %%ecx\n in $0x33, %%eax\n in $0x33, %%al\n out %%eax, $0x33" ::"r"(
				i)
			: "eax", "ecx");
}

/* Counts from -1, so that the next tick is a PMI. */
static void overflow(void)
{
	wrmsr(ctr, (1ull << 48) - 1);
	pmu_start(true);
	for (unsigned int i = 0; i < 1000 && rdmsr(ctr) >> 47; i++)
		;
	rdmsr(ctr); /* a PMI comes with the next exit at last */
	pmu_stop();
	if (v2)
		wrmsr(clear, intel ? 1ull << 34 : 1);
}

static void apic(void)
{
	static const uint32_t values[] = {0, ~0u, 0x55555555, 0xaaaaaaaa, 0x1ffff};
	const uint32_t id = apic_read(0x20);

	for (unsigned int i = 0; i < sizeof(values) / sizeof(values[0]); i++)
		for (uint32_t reg = 0; reg < 0x400; reg += 0x10) {
			apic_read(reg);
			/* An IPI to all but this CPU: there is no other one. */
			apic_write(reg, reg == 0x300 ? values[i] | 3u << 18 : values[i]);
			if (reg == 0x340)
				overflow();
		}
	apic_restore(id);
	for (uint32_t mode = 0; mode < 8; mode++)
		for (uint32_t i = 0; i < 256; i += i < 32 ? 1 : 31) {
			apic_write(LVTPC, mode << 8 | i);
			overflow();
		}
	apic_restore(id);
	apic_write(LVTPC, VECTOR);
	overflow();
	/* Off, and with another number: the PMI goes nowhere. */
	apic_write(LVTPC, VECTOR);
	apic_write(0xf0, 0xff);
	overflow();
	apic_write(0xf0, 0x1ff);
	apic_write(LVTPC, VECTOR);
	apic_write(0x20, 0x7f000000);
	overflow();
	apic_restore(id);
	put_hex("interrupts", others);
	put_hex("PMIs", pmis);
	put_hex("NMIs", nmis);
	expect(others >= 24 && pmis > 0 && nmis > 0, "PMIs by any vector, and by NMI");
}

/* As Linux' native_read_pmc. */
__asm__(".text\n read_pmc: mov %edi, %ecx\n"
	"site: rdpmc\n shl $32, %rdx\n or %rdx, %rax\n ret\n");
uint64_t read_pmc(uint32_t index);
extern volatile uint8_t site[];

static void try_read_pmc(void)
{
	TRY("call read_pmc", ::"D"(0)
	    : "rax", "rcx", "rdx", "rsi", "r8", "r9", "r10", "r11", "memory");
}

static volatile uint8_t strange[STRANGE][16];

static void rdpmc(void)
{
	static const uint8_t code[] = {0x0f, 0x33, 0x48, 0xc1, 0xe2, 0x20, 0x48,
				       0x09, 0xd0, 0x90, 0x90, 0x90, 0x90, 0x90};
	uint32_t before;
	uint64_t from, read, to;

	wrmsr(ctr, 0);
	pmu_start(false);
	put_hex("RDPMC is now", site[0]);
	expect(site[0] == 0xe5, "RDPMC has been replaced");
	if (!intel) { /* Intel's counter 0 is another one */
		from = rdmsr(ctr);
		read = read_pmc(0);
		to = rdmsr(ctr);
		put_hex("counter", from);
		put_hex("RDPMC", read);
		put_hex("counter", to);
		expect(from <= read && read <= to, "it reads the counter");
	}
	for (unsigned int i = 0; i < STRANGE; i++)
		for (unsigned int k = 0; k < sizeof(code); k++)
			strange[i][k] = code[k];
	for (unsigned int i = 0; i < REWRITES; i++) {
		site[0] = 0x0f;
		before = faults;
		try_read_pmc();
		if (faults == before && site[0] == 0x0f)
			end("wrong: RDPMC does not fault");
		if (!(i & 15)) {
			wrmsr(sel, rdmsr(sel)); /* the VMM may look again */
			try_rdmsr(ctr);
		}
		site[0] = i & 1 ? 0xe5 : (uint8_t)random();
		if (site[0] == 0xe5)
			try_read_pmc();
		/* Any index: what is no counter reads as one that is off, or faults. */
		TRY("in $0x33, %%eax", ::"c"((uint32_t)random()) : "rax", "rdx", "memory");
	}
	site[0] = 0x0f;
	pmu_stop();
	put_hex("faults", faults);
}

static void switches(uint32_t n)
{
	arm_lvtpc();
	for (unsigned int i = 0; i < n; i++) {
		if (!(i % 1000)) {
			wrmsr(ctr, (1ull << 48) - (random() & 0xffffff) - 1);
			pmu_start(i / 1000 & 1);
		}
		if (intel)
			wrmsr(0x38f, i & 1 ? 1ull << 34 : 0);
		else if (v2)
			wrmsr(0xc0000301, i & 1);
		else
			wrmsr(sel, 1ull << 32 | 0x20 | 0x100 | 3u << 16 | (i & 1) << 22);
	}
	pmu_stop();
}

/* The PMU is frozen, or all of its counters have overflowed, by what has been written. */
static void unfreeze(void)
{
	try_wrmsr(clear, 1ull << 58);
	try_wrmsr(clear, 1ull << 59);
	try_wrmsr(clear, 7ull << 32);
	try_wrmsr(clear, 0xff);
}

__attribute__((used)) void kernel(const uint32_t *info)
{
	uint32_t n = 0;

	for (const char *s = append(info); *s >= '0' && *s <= '9'; s++)
		n = 10 * n + (uint32_t)(*s - '0');
	interrupts();
	pmu_find();
	phase("phase rdpmc");
	rdpmc();
	phase("phase registers");
	registers();
	phase("phase apic");
	apic();
	phase("phase msrs");
	msrs();
	phase("phase ports");
	ports();
	interrupts();
	apic_restore(0);
	phase("phase switches");
	switches(n);
	phase("phase own");
	unfreeze();
	count();
	pmi();
	end("done");
}
