// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * A guest that no other VM may notice (tests/integration/vpmud_hostile.sh), a multiboot kernel in
 * 64-bit mode, two CPUs. It writes all MSRs, ports and registers of its local APIC, sends PMIs by
 * every mode to every kind of vector, puts RDPMC back where the VMM has replaced it, and switches
 * its PMU on and off as often as -append has it. Meanwhile the other CPU writes its own PMU's
 * registers and takes PMIs; both send IPIs and NMIs to each other, and the first one resets the
 * other. Then its own PMU must still count and give PMIs.
 */
#include "tests/preload/two_cpus.h"

#define RANDOM	 5000u
#define REWRITES 2000u
#define STRANGE	 200u /* RDPMC in data, more than a kernel has */
#define PARTS	 8u

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

static uint64_t random_of(uint64_t *x)
{
	*x ^= *x << 13, *x ^= *x >> 7, *x ^= *x << 17;
	return *x;
}

static uint64_t random(void)
{
	static uint64_t x = 88172645463325252ull;

	return random_of(&x);
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

static const uint32_t amd_first[] = {0xc0010000, 0xc0010200, 0xc0000300, 0x1d9},
		      intel_first[] = {0xc1, 0x186, 0x309, 0x38d, 0x4c1, 0x1d9};

static uint64_t register_value(uint64_t *x, uint64_t r)
{
	return random_of(x) & random_of(x) & (r & 1 << 20 ? ~0ull : 0xffffffff);
}

/* The PMU is frozen, or all of its counters have overflowed, by what has been written. */
static void unfreeze(void)
{
	try_wrmsr(clear, 1ull << 58);
	try_wrmsr(clear, 1ull << 59);
	try_wrmsr(clear, 7ull << 32);
	try_wrmsr(clear, 0xff);
}

/* The registers of its own PMU, with values that they may and may not have. */
static void registers(void)
{
	uint64_t x = 88172645463325252ull;
	const uint32_t *first = intel ? intel_first : amd_first;
	const unsigned int n = intel ? 6 : 4;

	for (unsigned int i = 0; i < RANDOM; i++) {
		uint64_t r = random_of(&x);
		uint32_t msr = first[r % n] + (r >> 8 & 15);

		try_wrmsr(msr, register_value(&x, r));
		try_rdmsr(msr);
	}
	for (unsigned int k = 0; k < n; k++)
		for (unsigned int i = 0; i < 16; i++)
			try_wrmsr(first[k] + i, 0);
	unfreeze();
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
			/* An IPI to the other CPU, which waits for its start; an SMI would run code
			 * that is not there. */
			apic_write(reg,
				   reg == 0x300 ? (values[i] & ~0x200u) | 3u << 18 : values[i]);
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

/* ---- the other CPU ---- */

#define ICR_NMI	  0x400u
#define ICR_INIT  0x4500u
#define ICR_START (0x4600u | AP_START >> 12)
#define IPI	  0x51u

static volatile uint32_t ap_starts, ap_switches;

static void ipi(uint32_t to, uint32_t what)
{
	apic_write(0x310, to << 24);
	apic_write(0x300, what);
}

static void ap_wrmsr(uint32_t msr, uint64_t v)
{
	TRY_ON("ap_", "wrmsr", ::"c"(msr), "a"((uint32_t)v), "d"((uint32_t)(v >> 32)) : "memory");
}

static void ap_rdmsr(uint32_t msr)
{
	TRY_ON("ap_", "rdmsr", ::"c"(msr) : "eax", "edx", "memory");
}

/* Controls of all counters, and of those that switches() has: reference cycles and instructions. */
static uint32_t global_msr(void)
{
	return intel ? 0x38f : 0xc0000301;
}

static uint64_t global_bits(void)
{
	return intel ? 1ull << 34 | 2 : 3;
}

/* From each start on, until the next one. */
__attribute__((used, noreturn)) void ap_main(void)
{
	static uint64_t x = 1181783497276652981ull;
	const uint32_t *first = intel ? intel_first : amd_first;
	const unsigned int n = intel ? 6 : 4;

	ap_fault_rip = (uintptr_t)on_stray;
	interrupts_on(ap_idt);
	ap_starts++;
	for (uint32_t i = 0;; i++) {
		uint64_t r = random_of(&x);

		if (!(i & 63)) { /* PMIs; what was written before may have frozen the PMU */
			for (unsigned int k = 0; k < n; k++)
				for (unsigned int m = 0; m < 16; m++)
					ap_wrmsr(first[k] + m, 0);
			ap_wrmsr(clear, 1ull << 59 | 7ull << 32 | 0xff);
			ap_wrmsr(clear, 7ull << 32 | 0xff);
			ap_wrmsr(clear, 0xff);
			arm_lvtpc();
			ap_wrmsr(ctr, (1ull << 48) - 1);
			ap_wrmsr(sel, intel ? 0xb00 : 1ull << 32 | 0x530120);
			ap_wrmsr(global_msr(), global_bits());
			for (unsigned int k = 0; k < 20; k++)
				ap_rdmsr(ctr);
		}
		ap_wrmsr(first[r % n] + (r >> 8 & 15), register_value(&x, r));
		ap_rdmsr(first[r % n] + (r >> 16 & 15));
		ap_wrmsr(global_msr(), i & 1 ? global_bits() : 0);
		ap_switches++;
		if (!(i & 15))
			ipi(0, i & 16 ? ICR_NMI : IPI);
	}
}

/* Reset it, whatever it does, and start it. */
static void ap_start(void)
{
	uint32_t before = ap_starts;

	for (unsigned int i = 0; i < sizeof(idt) && ap_real + i < ap_real_end; i++)
		((volatile uint8_t *)(uintptr_t)AP_START)[i] = ap_real[i];
	ipi(1, ICR_INIT);
	ipi(1, ICR_START);
	for (unsigned int i = 0; i < 5000000 && ap_starts == before; i++)
		inb(0x80);
	if (ap_starts == before)
		end("wrong: the other CPU does not start");
}

/* In turn by the control of all counters, where there is one, and by an event select. */
static void pmu_switch(bool on, bool all)
{
	if (all && v2)
		wrmsr(global_msr(), on ? global_bits() : 0);
	else
		wrmsr(intel ? 0x187 : 0xc0010202, 0x300c0 | (on ? 1u << 22 : 0));
}

static void switches(uint32_t n)
{
	uint32_t before = others, part = n / PARTS ? n / PARTS : 1;

	arm_lvtpc();
	for (unsigned int i = 0; i < n; i++) {
		if (!(i % 100))
			ipi(1, i % 1000 == 500 ? ICR_NMI : IPI);
		if (!(i % 1000)) {
			ap_start();
			wrmsr(ctr, (1ull << 48) - (random() & 0xffffff) - 1);
			pmu_start(i / 1000 & 1);
		}
		pmu_switch(i & 1, i & 2);
		if ((i + 1) % part == 0)
			put("switched\n");
	}
	ipi(1, ICR_INIT); /* the other CPU stays there */
	pmu_stop();
	put_hex("starts of the other CPU", ap_starts);
	put_hex("its switches", ap_switches);
	put_hex("its faults", ap_faults);
	put_hex("its interrupts", ap_others);
	put_hex("its PMIs", ap_pmis);
	put_hex("its NMIs", ap_nmis);
	expect(ap_starts == (n + 999) / 1000, "each start of the other CPU");
	expect(ap_faults && ap_others && ap_pmis && ap_nmis, "its faults, interrupts, PMIs, NMIs");
	expect(others > before, "interrupts by it");
}

static void others_than_switches(void)
{
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
}

__attribute__((used)) void kernel(const uint32_t *info)
{
	uint32_t n = 0;
	const char *s = append(info);
	bool all = *s != 's';

	for (s += !all; *s >= '0' && *s <= '9'; s++)
		n = 10 * n + (uint32_t)(*s - '0');
	interrupts();
	pmu_find();
	if (all)
		others_than_switches();
	phase("phase switches");
	switches(n);
	phase("phase own");
	unfreeze();
	count();
	pmi();
	end("done");
}
