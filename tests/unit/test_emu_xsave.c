// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * XSAVE on the emulator: what emu-difftest, which runs in CPL 3 with XCR0 = 7, cannot reach. Which
 * fault comes first, XCR0 and CPUID, every field of the header, what is stored byte by byte, page
 * faults that leave everything as it was, and the state of a vCPU.
 */
#include <errno.h>

#include "xsave_bed.h"

TestSuite(emu_xsave, .fini = bed_end);

Test(emu_xsave, faults)
{
	static const struct {
		const char *name;
		uint8_t b[3];
		bool memory, kernel;
	} insns[] = {
		{"xsave", {XSAVE}, 1, 0},	{"xrstor", {XRSTOR}, 1, 0},
		{"xsaveopt", {XSAVEOPT}, 1, 0}, {"xsavec", {XSAVEC}, 1, 0},
		{"xsaves", {XSAVES}, 1, 1},	{"xgetbv", {XGETBV}, 0, 0},
		{"xsetbv", {XSETBV}, 0, 1},
	};

	begin(false);
	for (size_t i = 0; i < sizeof(insns) / sizeof(insns[0]); i++)
		for (unsigned int k = 0; k < 16; k++) {
			bool off = k & 1, ts = k & 2, user = k & 4, odd = k & 8;
			int want = off			     ? 6
				   : user && insns[i].kernel ? 13
				   : !insns[i].memory	     ? NONE
				   : ts			     ? 7
				   : odd		     ? 13
							     : NONE;
			int got;

			area_fill();
			load(insns[i].b, user, AREA + (odd ? 32 : 0), 3);
			vcpu()->cr4 ^= off ? OSXSAVE : 0;
			vcpu()->cr0 |= ts ? TS : 0;
			got = outcome();
			cr_assert_eq(got, want, "%s, case %u: %d, not %d", insns[i].name, k, got,
				     want);
		}
	/* XRSTORS wants a compacted area. */
	area_fill();
	cr_assert_eq(OUTCOME(AREA, 7, XRSTORS), 13);
	*bed_u64(&b, AREA + 520) = COMPACT;
	cr_assert_eq(OUTCOME(AREA, 7, XRSTORS), NONE);
}

Test(emu_xsave, header)
{
	static const struct {
		unsigned int at;
		uint64_t value;
		bool standard, compact; /* valid */
	} rows[] = {
		{512, 0, 1, 1},	      {512, 1, 1, 1},		{512, 7, 1, 1},
		{512, 8, 0, 0},	      {512, 1ull << 9, 0, 0},	{512, 1ull << 63, 0, 0},
		{520, 0, 1, 1},	      {520, 1, 0, 0},		{520, 8, 0, 0},
		{520, COMPACT, 1, 1}, {520, COMPACT | 7, 1, 1}, {520, COMPACT | 8, 0, 0},
		{528, 1, 0, 0},	      {528, COMPACT, 0, 0},	{536, 1, 1, 0},
		{544, 1, 1, 0},	      {552, 1, 1, 0},		{560, 1, 1, 0},
		{568, 1, 1, 0},	      {568, COMPACT, 1, 0},
	};

	for (unsigned int intel = 0; intel < 2; intel++) {
		begin(intel);
		for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
			for (unsigned int mask = 0; mask < 8; mask++)
				for (unsigned int compact = 0; compact < 2; compact++) {
					/* Overwriting XCOMP_BV makes it the other format. */
					bool ok = compact && rows[i].at != 520 ? rows[i].compact
									       : rows[i].standard;

					area_fill();
					*bed_u64(&b, AREA + 520) = compact ? COMPACT | 7 : 0;
					*bed_u64(&b, AREA + rows[i].at) = rows[i].value;
					cr_assert_eq(OUTCOME(AREA, mask, XRSTOR), ok ? NONE : 13,
						     "row %zu, mask %u, compact %u", i, mask,
						     compact);
				}
		/* A component that XCOMP_BV lacks cannot be in XSTATE_BV. */
		area_fill();
		*bed_u64(&b, AREA + 512) = 2;
		*bed_u64(&b, AREA + 520) = COMPACT | 5;
		cr_assert_eq(OUTCOME(AREA, 5, XRSTOR), 13);
		/* XCR0 limits it, too. */
		*bed_u64(&b, AREA + 512) = 4;
		*bed_u64(&b, AREA + 520) = 0;
		load((const uint8_t[]){XRSTOR}, false, AREA, 1);
		vcpu()->fpu.xcr0 = 3;
		cr_assert_eq(outcome(), 13);
	}
}

/* Parts of the area as bits: x87, MXCSR, XMM, AVX. */
static unsigned int stored(void)
{
	static const struct {
		unsigned int from, to, part;
	} parts[] = {{0, 24, 1},     {24, 32, 2},   {32, 160, 1},   {160, 416, 4},
		     {416, 512, 16}, {576, 832, 8}, {832, 1024, 16}};
	unsigned int all = 0, none = 0;

	for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++)
		for (unsigned int at = parts[i].from; at < parts[i].to; at++)
			*(b.ram[AREA + at] == 0xa5 ? &none : &all) |= parts[i].part;
	cr_assert_eq(all & none, 0, "half of a component was stored: %x, %x", all, none);
	return all;
}

Test(emu_xsave, what_is_stored)
{
	static const uint8_t insns[3][3] = {{XSAVE}, {XSAVEOPT}, {XSAVEC}};

	for (unsigned int intel = 0; intel < 2; intel++) {
		begin(intel);
		for (unsigned int k = 0; k < 3; k++)
			for (unsigned int mask = 0; mask < 8; mask++)
				for (unsigned int use = 0; use < 16; use++) {
					bool compact = k == 2;
					unsigned int used = use & mask, put, want;
					struct emu_fpu *f = &vcpu()->fpu;

					/* bit 3: MXCSR is not initial */
					if (compact && (use & 8))
						used |= mask & 2;
					used &= 7;
					put = k ? used : mask;
					want = (put & 1) | (put & 2 ? 4 : 0) | (put & 4 ? 8 : 0);
					want |= (compact ? put & 2 : mask & 6) ? 2 : 0;
					memset(b.ram + AREA, 0xa5, 1024);
					*bed_u64(&b, AREA + 512) = 0xff;
					load(insns[k], false, AREA, mask | 0xff00ull << 32 | 0xf8);
					emu_fpu_reset(f);
					f->xcr0 = 7;
					f->fx.ftw = use & 1 ? 1 : 0;
					f->fx.fcw = 0x37f;
					f->fx.xmm[15].d[3] = use & 2;
					f->ymm_high[15].d[3] = use & 4;
					f->mxcsr |= use & 8 ? 0x20 : 0;
					cr_assert_eq(outcome(), NONE);
					cr_assert_eq(stored(), want, "%u: mask %u, use %u: %x", k,
						     mask, use, stored());
					cr_assert_eq(*bed_u64(&b, AREA + 512),
						     compact ? used : (0xff & ~mask) | used);
					cr_assert_eq(*bed_u64(&b, AREA + 520),
						     compact ? COMPACT | mask : 0xa5a5a5a5a5a5a5a5);
					for (unsigned int at = 528; at < 576; at++)
						cr_assert_eq(b.ram[AREA + at], 0xa5);
				}
	}
}

/* MXCSR belongs to SSE in the compacted format, and to SSE and AVX in the standard one. */
Test(emu_xsave, mxcsr)
{
	begin(false);
	for (unsigned int k = 0; k < 256; k++) {
		unsigned int mask = k & 7, bv = k >> 3 & 7, compact = k >> 6 & 1, bad = k >> 7;
		bool loads = compact ? mask & bv & 2 : mask & 6;
		uint32_t want = loads ? 0x1fbf : compact && (mask & 2) ? 0x1f80 : 0x1f81;
		int vector;

		area_fill();
		*(uint32_t *)(b.ram + AREA + 24) = bad ? 0x10000 : 0x1fbf;
		*bed_u64(&b, AREA + 512) = bv;
		*bed_u64(&b, AREA + 520) = compact ? COMPACT | 7 : 0;
		load((const uint8_t[]){XRSTOR}, false, AREA, mask);
		vcpu()->fpu.mxcsr = 0x1f81;
		memset(vcpu()->fpu.ymm_high, 0x11, sizeof(vcpu()->fpu.ymm_high));
		vector = outcome();
		cr_assert_eq(vector, bad && loads ? 13 : NONE, "case %u", k);
		cr_assert_eq(vcpu()->fpu.mxcsr, vector == 13 ? 0x1f81 : want, "case %u", k);
		cr_assert_eq(vcpu()->fpu.ymm_high[3].b[5], vector == 13 || !(mask & 4) ? 0x11
							   : bv & 4		       ? 0xa5
										       : 0);
	}
}

/* A page fault changes nothing. Intel's CPUs report the first bad byte, AMD's another one. */
Test(emu_xsave, page_faults)
{
	const uint64_t at = BED_WIN + 0x1000 - 640;

	for (unsigned int k = 0; k < 4; k++) {
		bool intel = k & 1, store = k & 2;
		uint64_t cr2;

		begin(intel);
		*bed_u64(&b, BED_PT) = 0x310000 | 7;
		memset(b.ram + 0x310000, 0, 4096);
		*(uint32_t *)(b.ram + 0x310000 + 4096 - 640 + 24) = 0x1f80;
		b.ram[0x310000 + 4096 - 640 + 512] = 7;
		load(store ? (const uint8_t[]){XSAVE} : (const uint8_t[]){XRSTOR}, false, at, 7);
		vcpu()->fpu.fx.xmm[0].q[0] = 5;
		cr_assert_eq(outcome(), 14);
		cr2 = bed_sregs(&b).cr2;
		cr_assert_eq(cr2, intel ? BED_WIN + 0x1000 : at + 831, "%u: %lx", k, cr2);
		cr_assert_eq(vcpu()->fpu.fx.xmm[0].q[0], 5);
		for (unsigned int i = 0; i < 512; i++)
			cr_assert(!b.ram[0x310000 + 4096 - 640 + i] || i == 24 || i == 25);
	}
}

Test(emu_xsave, xcr0)
{
	begin(false);
	for (unsigned int x = 0; x < 16; x++) {
		bool ok = x < 8 && (x & 1) && (x & 6) != 4;

		cr_assert_eq(OUTCOME(0, x, XSETBV), ok ? NONE : 13, "%u", x);
		cr_assert_eq(vcpu()->fpu.xcr0, ok ? x : 7);
	}
	cr_assert_eq(OUTCOME(0, 1ull << 62 | 7, XSETBV), 13);
	for (unsigned int n = 0; n < 3; n++) { /* XCR1 is what is in use of XCR0 */
		load((const uint8_t[]){XGETBV}, true, 0, ~0ull);
		emu_fpu_reset(&vcpu()->fpu);
		vcpu()->fpu.fx.fcw = 0x37f;
		vcpu()->fpu.fx.ftw = 0;
		vcpu()->fpu.mxcsr = 0x1fa0;
		vcpu()->fpu.xcr0 = 7;
		BED_REGS(&b, .rcx = n);
		cr_assert_eq(outcome(), n < 2 ? NONE : 13);
		cr_assert_eq(b.r.rax, n == 0 ? 7 : n == 1 ? 2 : ~0u);
	}
}

static void show(uint32_t ecx, uint32_t features)
{
	const struct kvm_cpuid_entry2 e[] = {
		{.function = 0, .eax = 0xd},
		{.function = 1, .ecx = ecx, .edx = 1u << 24},
		{.function = 0xd, .index = 0, .flags = KVM_CPUID_FLAG_SIGNIFCANT_INDEX, .eax = 7},
		{.function = 0xd,
		 .index = 1,
		 .flags = KVM_CPUID_FLAG_SIGNIFCANT_INDEX,
		 .eax = features},
		{.function = 0xd,
		 .index = 2,
		 .flags = KVM_CPUID_FLAG_SIGNIFCANT_INDEX,
		 .eax = 256,
		 .ebx = 576}};

	cr_assert_eq(o->set_cpuid(b.v, e, 5), 0);
}

BED_GUEST(g_cr4, "mov %cr4,%rax\n or $0x40000,%eax\n mov %rax,%cr4\n hlt");
BED_GUEST(g_xss, "mov $0xda0,%ecx\n rdmsr\n wrmsr\n inc %eax\n wrmsr\n hlt");

/* A whole CPU has what its table shows. */
Test(emu_xsave, cpuid)
{
	static const struct {
		uint32_t ecx, features, xcr0, bytes;
	} rows[] = {
		{0, 15, 0, 0},
		{VMM_SIMD_XSAVE, 1, 3, 576},
		{VMM_SIMD_XSAVE, 15, 3, 576},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		bool has = rows[i].xcr0, all = rows[i].features == 15;
		uint32_t r[4];

		begin(false);
		show(rows[i].ecx, rows[i].features);
		cpuid(1, 0, r);
		cr_assert_eq(r[2] >> 27 & 1, 0);
		cpuid(0xd, 0, r);
		cr_assert_eq(r[0], rows[i].xcr0);
		cr_assert_eq(r[1], rows[i].bytes);
		cr_assert_eq(r[2], rows[i].bytes);
		cpuid(0xd, 1, r);
		cr_assert_eq(r[0], has ? rows[i].features : 0);
		cr_assert_eq(r[1], has && all ? 576 : 0);
		cpuid(0xd, 2, r);
		cr_assert_eq(r[0], 0, "AVX is not shown");
		cr_assert_eq(BED_RERUN(&b, g_cr4, false), has ? NONE : 13);
		cpuid(1, 0, r);
		cr_assert_eq(r[2] >> 27 & 1, has, "OSXSAVE follows CR4");
		/* XCR0 has no AVX; each instruction needs its feature. */
		load((const uint8_t[]){XSETBV}, false, 0, 7);
		vcpu()->cr4 |= has ? 0 : OSXSAVE;
		cr_assert_eq(outcome(), 13);
		area_fill();
		load((const uint8_t[]){XSAVEOPT}, false, AREA, 7);
		vcpu()->fpu.xcr0 = 3;
		cr_assert_eq(outcome(), NONE);
		cr_assert_eq(OUTCOME(AREA, 7, XSAVEC), all ? NONE : 6);
		cr_assert_eq(OUTCOME(AREA, 7, XSAVES), all ? NONE : 6);
		load((const uint8_t[]){XRSTOR}, false, AREA, 7);
		*bed_u64(&b, AREA + 512) = 0;
		*bed_u64(&b, AREA + 520) = COMPACT;
		cr_assert_eq(outcome(), all ? NONE : 13);
		load((const uint8_t[]){XGETBV}, false, 0, 0);
		BED_REGS(&b, .rcx = 1);
		cr_assert_eq(outcome(), all ? NONE : 13);
		/* IA32_XSS exists with XSAVES, and is 0. Otherwise the VMM answers. */
		bed_load(&b, g_xss, g_xss_end, false);
		if (has && all)
			cr_assert_eq(bed_run_to_hlt(&b), 13);
		else
			cr_assert_eq(bed_run(&b, 100), VMM_EXIT_RDMSR);
		if (has && all)
			cr_assert_eq(bed_stack(&b, 1), BED_CODE + 5 + 2 + 2 + 2,
				     "the second write");
	}
	/* The size is the one of XCR0. */
	begin(false);
	show(VMM_SIMD_XSAVE, 15);
	vcpu()->simd |= VMM_SIMD_AVX;
	for (unsigned int x = 1; x < 8; x++) {
		uint32_t r[4];

		vcpu()->fpu.xcr0 = x;
		cpuid(0xd, 0, r);
		cr_assert_eq(r[0], 7);
		cr_assert_eq(r[1], x & 4 ? 832 : 576);
		cr_assert_eq(r[2], 832);
		cpuid(0xd, 1, r);
		cr_assert_eq(r[1], x & 4 ? 832 : 576);
		cpuid(0xd, 2, r);
		cr_assert_eq(r[0], 256);
	}
}

/* XCR0 and the upper halves belong to the state, in a section that only exists if they differ from
 * a reset's: an older state loads. */
Test(emu_xsave, state)
{
	uint8_t old[BED_STATE], with[BED_STATE], again[BED_STATE], *at;
	size_t n, m;

	begin(false);
	n = bed_state(&b, old);
	vcpu()->fpu.xcr0 = 7;
	vcpu()->fpu.ymm_high[15].q[1] = 0x123456789;
	m = bed_state(&b, with);
	cr_assert_eq(m, n + 12 + 8 + 256);
	cr_assert_eq(o->set_state(b.v, old, n), 0);
	cr_assert_eq(vcpu()->fpu.xcr0, 1);
	cr_assert_eq(vcpu()->fpu.ymm_high[15].q[1], 0);
	cr_assert_eq(o->set_state(b.v, with, m), 0);
	cr_assert_eq(vcpu()->fpu.xcr0, 7);
	cr_assert_eq(vcpu()->fpu.ymm_high[15].q[1], 0x123456789);
	cr_assert_eq(bed_state(&b, again), m);
	cr_assert(!memcmp(with, again, m));
	at = memmem(with, m, "XSAV", 4);
	cr_assert(at);
	for (unsigned int x = 0; x < 16; x++) {
		at[12] = (uint8_t)x;
		cr_assert_eq(o->set_state(b.v, with, m), x < 8 && (x & 1) && x != 5 ? 0 : -EINVAL,
			     "%u", x);
	}
	/* What a reset leaves has no section. */
	at[12] = 1;
	memset(at + 20, 0, 256);
	cr_assert_eq(o->set_state(b.v, with, m), -EINVAL);
	/* A whole CPU that shows no XSAVE has neither XCR0 nor CR4.OSXSAVE. */
	show(VMM_SIMD_XSAVE, 15);
	vcpu()->cr4 |= OSXSAVE;
	vcpu()->fpu.xcr0 = 3;
	n = bed_state(&b, with);
	cr_assert_eq(o->set_state(b.v, with, n), 0);
	emu_show_simd(vcpu(), 0);
	n = bed_state(&b, with);
	cr_assert_eq(o->set_state(b.v, with, n), -EINVAL);
	vcpu()->cr4 &= ~OSXSAVE;
	cr_assert_eq(o->set_state(b.v, with, n), -EINVAL, "XCR0 is 3");
	vcpu()->fpu.xcr0 = 1;
	n = bed_state(&b, with);
	cr_assert_eq(o->set_state(b.v, with, n), 0);
}
