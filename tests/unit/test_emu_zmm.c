// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Registers of AVX-512 on the emulator: what emu-difftest, which runs in CPL 3 with all of XCR0 on
 * a vCPU of AMD's, cannot reach. Which control register makes an opmask instruction #UD or #NM;
 * XCR0, CPUID and the layouts of XSAVE as Intel's CPUs have them; the state of a vCPU.
 */
#include <errno.h>

#include "xsave_bed.h"

TestSuite(emu_zmm, .fini = bed_end);

static void need(void)
{
	if (!(vmm_simd_host() & VMM_SIMD_AVX512))
		cr_skip_test("this host lacks AVX-512");
}

#define ENABLE(cr4, xcr0)                                                                          \
	"mov %cr4,%rax\n or $" #cr4 ",%eax\n mov %rax,%cr4\n xor %ecx,%ecx\n xor %edx,%edx\n "     \
	"mov $" #xcr0 ",%eax\n xsetbv\n "
#define ALL512 ENABLE(0x40600, 0xe7)

BED_GUEST(g_kmov, ALL512 "mov $5,%eax\n kmovq %rax,%k1\n kaddw %k1,%k1,%k2\n kmovd %k2,%ebx\n hlt");
BED_GUEST(g_kmov_no_zmm, ENABLE(0x40600, 7) "kmovd %eax,%k1\n hlt");
BED_GUEST(g_kmov_no_xsave, "kmovd %eax,%k1\n hlt");
BED_GUEST(g_kmov_ts, ALL512 "mov %cr0,%rax\n or $8,%eax\n mov %rax,%cr0\n kmovd %eax,%k1\n hlt");
BED_GUEST(g_vaddps, ENABLE(0x40600, 7) "vaddps %zmm1,%zmm2,%zmm3\n hlt");
BED_GUEST(g_xsetbv, ALL512 "hlt");

/* Opmask instructions need XCR0 = E7H, and a CPUID that shows AVX-512. */
Test(emu_zmm, opmask)
{
	const struct {
		const uint8_t *code, *end;
		int with, without; /* AVX-512 in CPUID */
	} rows[] = {
		{g_kmov, g_kmov_end, -1, 13}, /* XSETBV */
		{g_kmov_no_zmm, g_kmov_no_zmm_end, 6, 6},
		{g_kmov_no_xsave, g_kmov_no_xsave_end, 6, 6},
		{g_kmov_ts, g_kmov_ts_end, 7, 13},
		{g_vaddps, g_vaddps_end, 6, 6},
		{g_xsetbv, g_xsetbv_end, -1, 13},
	};
	struct kvm_cpuid_entry2 e[4];

	need();
	BED_START(&b, g_kmov, false);
	for (unsigned int i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		for (unsigned int with = 0; with < 2; with++) {
			bed_load(&b, rows[i].code, rows[i].end, false);
			bed_show(e, VMM_SIMD_ALL | (with ? VMM_SIMD_AVX512 : 0));
			cr_assert_eq(o->set_cpuid(b.v, e, 4), 0);
			cr_assert_eq(bed_run_to_hlt(&b), with ? rows[i].with : rows[i].without,
				     "row %u, %u", i, with);
			o->get_regs(b.v, &b.r);
			if (i == 0 && with)
				cr_assert_eq(b.r.rbx, 10);
		}
}

BED_GUEST(g_zmm, "vpaddd %xmm1,%xmm1,%xmm2\n vmovdqa %ymm1,%ymm3\n movups %xmm1,%xmm4\n "
		 "vzeroupper\n hlt");

/* VEX instructions clear bits 511:256, SSE ones keep them; VZEROUPPER reaches ZMM0 to ZMM15. */
Test(emu_zmm, bits_511_256)
{
	struct emu_fpu *f;

	need();
	BED_START(&b, g_zmm, false);
	f = &vcpu()->fpu;
	vcpu()->cr4 |= 0x40600;
	f->xcr0 = 0xe7;
	memset(f->zmm_high, 1, sizeof(f->zmm_high));
	memset(f->zmm_hi16, 1, sizeof(f->zmm_hi16));
	cr_assert_eq(bed_run(&b, 3), VMM_EXIT_BUDGET);
	for (int i = 1; i < 5; i++)
		for (int half = 0; half < 2; half++)
			cr_assert_eq(f->zmm_high[i][half].b[15], i == 1 || i == 4, "%d", i);
	cr_assert_eq(bed_run_to_hlt(&b), -1);
	for (int i = 0; i < 16; i++)
		cr_assert_eq(f->zmm_high[i][1].b[15] | f->zmm_high[i][0].b[0], 0, "%d", i);
	cr_assert_eq(f->zmm_hi16[0][0].b[0], 1);
}

/* Of AVX-512 all three components, and only with AVX (SDM vol. 1, 13.3). */
Test(emu_zmm, xcr0_of_avx512)
{
	struct kvm_cpuid_entry2 e[4];

	need();
	begin(true);
	bed_show(e, VMM_SIMD_ALL | VMM_SIMD_AVX512);
	cr_assert_eq(o->set_cpuid(b.v, e, 4), 0);
	for (unsigned int x = 0; x < 512; x++) {
		bool ok = (x & 1) && (x & 6) != 4 && !(x & 0x118) &&
			  ((x & 0xe0) == 0 || ((x & 0xe0) == 0xe0 && (x & 6) == 6));

		cr_assert_eq(OUTCOME(0, x, XSETBV), ok ? NONE : 13, "%#x", x);
	}
}

/* Components behind the header: in the standard format where SDM vol. 1, 13.5 and CPUID of Intel's
 * CPUs have them, and AMD's without MPX; in the compacted one without holes. */
static const struct {
	unsigned int bit, bytes, intel, amd;
} zmm_parts[] = {
	{2, 256, 576, 576}, {5, 64, 1088, 832}, {6, 512, 1152, 896}, {7, 1024, 1664, 1408}};

static void *part_of(unsigned int i)
{
	struct emu_fpu *f = &vcpu()->fpu;

	return i == 0	? (void *)f->ymm_high
	       : i == 1 ? f->k
	       : i == 2 ? f->zmm_high
			: (void *)f->zmm_hi16;
}

static uint64_t part_bits(unsigned int set)
{
	uint64_t bits = 0;

	for (unsigned int i = 0; i < 4; i++)
		bits |= set >> i & 1 ? 1ull << zmm_parts[i].bit : 0;
	return bits;
}

/* Register bytes of the components in @set: @first + i; of the others 0. */
static void fill(unsigned int set, uint8_t first)
{
	for (unsigned int i = 0; i < 4; i++)
		memset(part_of(i), set >> i & 1 ? first + (int)i : 0, zmm_parts[i].bytes);
}

static void avx512_case(bool intel, bool compact, unsigned int mask, unsigned int use)
{
	uint8_t want[2752];
	unsigned int at = 576, stored = compact ? mask & use : mask;

	memset(b.ram + AREA, 0xa5, sizeof(want));
	memset(b.ram + AREA + 512, 0, 64);
	memset(want, 0xa5, sizeof(want));
	for (unsigned int i = 0; i < 4; i++) {
		at = compact ? at : intel ? zmm_parts[i].intel : zmm_parts[i].amd;
		if (stored >> i & 1)
			memset(want + at, use >> i & 1 ? 0x10 + (int)i : 0, zmm_parts[i].bytes);
		if (mask >> i & 1)
			at += zmm_parts[i].bytes;
	}
	load(compact ? (const uint8_t[]){XSAVEC} : (const uint8_t[]){XSAVE}, false, AREA,
	     part_bits(mask));
	vcpu()->fpu.xcr0 = 0xe7;
	fill(use, 0x10);
	cr_assert_eq(outcome(), NONE);
	cr_assert(!memcmp(b.ram + AREA + 576, want + 576, sizeof(want) - 576),
		  "intel %d, compact %d, mask %x, use %x", intel, compact, mask, use);
	cr_assert_eq(*bed_u64(&b, AREA + 512), part_bits(mask & use));
	cr_assert_eq(*bed_u64(&b, AREA + 520), compact ? COMPACT | part_bits(mask) : 0);
	/* XRSTOR: what was saved, zeros, and what it was not asked for. */
	*(uint32_t *)(b.ram + AREA + 24) = 0x1f80;
	load((const uint8_t[]){XRSTOR}, false, AREA, part_bits(mask));
	vcpu()->fpu.xcr0 = 0xe7;
	fill(15, 0x50);
	cr_assert_eq(outcome(), NONE);
	for (unsigned int i = 0; i < 4; i++) {
		const uint8_t *x = part_of(i);

		for (unsigned int n = 0; n < zmm_parts[i].bytes; n++)
			cr_assert_eq(x[n], !(mask >> i & 1) ? 0x50 + i
					   : use >> i & 1   ? 0x10 + i
							    : 0);
	}
}

Test(emu_zmm, components_of_avx512)
{
	for (unsigned int k = 0; k < 1024; k++) {
		if (k % 512 == 0)
			begin(k >> 9);
		avx512_case(k >> 9, k >> 8 & 1, k & 15, k >> 4 & 15);
	}
	/* XCR1 */
	load((const uint8_t[]){XGETBV}, false, 0, 0);
	vcpu()->fpu.xcr0 = 0xe7;
	fill(2 | 8, 1);
	BED_REGS(&b, .rcx = 1);
	cr_assert_eq(outcome(), NONE);
	cr_assert_eq(b.r.rax & 0xe4, 1u << 5 | 1u << 7);
}

/* The leaves are as vmm_cpuid_linux() makes them; XCR0 decides on the sizes. */
Test(emu_zmm, cpuid_of_avx512)
{
	static const uint32_t sizes[][3] = {{3, 576, 576}, {7, 832, 832}, {0xe7, 2688, 2432}};
	struct kvm_cpuid_entry2 e[4 + 6];
	uint32_t r[4];

	need();
	begin(true);
	bed_show(e, VMM_SIMD_ALL | VMM_SIMD_AVX512);
	for (uint32_t i = 0; i < 6; i++)
		e[4 + i] = (struct kvm_cpuid_entry2){.function = 0xd,
						     .index = i < 3 ? i : i + 2,
						     .flags = KVM_CPUID_FLAG_SIGNIFCANT_INDEX,
						     .eax = i == 1 ? 15 : 1};
	cr_assert_eq(o->set_cpuid(b.v, e, 10), 0);
	for (int i = 0; i < 3; i++) {
		vcpu()->fpu.xcr0 = sizes[i][0];
		cpuid(0xd, 0, r);
		cr_assert_eq(r[0], 0xe7);
		cr_assert_eq(r[1], sizes[i][1]);
		cr_assert_eq(r[2], 2688);
		cpuid(0xd, 1, r);
		cr_assert_eq(r[1], sizes[i][2]);
	}
	cpuid(0xd, 7, r);
	cr_assert_eq(r[0], 1);
	/* Without AVX-512 in the state, there is none of it in CPUID. */
	emu_show_simd(vcpu(), VMM_SIMD_ALL);
	cpuid(0xd, 7, r);
	cr_assert_eq(r[0], 0);
	vcpu()->fpu.xcr0 = 7;
	cpuid(0xd, 0, r);
	cr_assert_eq(r[0], 7);
	cr_assert_eq(r[2], 832);
	cpuid(7, 0, r);
	cr_assert_eq(r[1] & VMM_SIMD_7B_512, 0);
}

#define EFFORT(name, before, insn)                                                                 \
	BED_GUEST(name, ALL512                                                                     \
		  "mov $0x300100,%edi\n mov $1,%ecx\n xor %edx,%edx\n mov $20,%ebx\n " before      \
		  "1: .rept 100\n " insn "\n .endr\n dec %ebx\n jnz 1b\n hlt")
EFFORT(g_bytes, "mov $0x5555555555555555,%rax\n kmovq %rax,%k1\n", "vmovdqu8 %zmm0,(%rdi){%k1}");
EFFORT(g_words, "mov $0x5555,%eax\n kmovd %eax,%k1\n", "vpmovwb %ymm0,(%rdi){%k1}");
EFFORT(g_xgetbv1, "", "xgetbv");
EFFORT(g_scalef, "movl $0x1780,(%rdi)\n ldmxcsr (%rdi)\n", "vscalefps %zmm1,%zmm1,%zmm2");

/* What takes far longer than its neighbours is charged: stores of scattered elements, XGETBV of
 * the components in use, VSCALEFPS whose underflow is not masked. */
Test(emu_zmm, effort)
{
	const struct {
		const uint8_t *code, *end;
		unsigned int least; /* of one instruction */
	} rows[] = {{g_bytes, g_bytes_end, 32 * EMU_EFFORT_SIMD},
		    {g_words, g_words_end, 8 * EMU_EFFORT_SIMD},
		    {g_xgetbv1, g_xgetbv1_end, EMU_EFFORT_ZMM_STATE},
		    {g_scalef, g_scalef_end, 16 * EMU_EFFORT_EXACT}};
	struct kvm_cpuid_entry2 e[5];

	need();
	begin(true);
	bed_show(e, VMM_SIMD_ALL | VMM_SIMD_AVX512);
	e[4] = (struct kvm_cpuid_entry2){.function = 0xd, .index = 1, .eax = 15};
	for (unsigned int i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		uint64_t effort = 0;

		bed_load(&b, rows[i].code, rows[i].end, false);
		cr_assert_eq(o->set_cpuid(b.v, e, 5), 0);
		do {
			bed_run(&b, 1000000);
			effort += b.run.effort;
		} while (b.run.exit == VMM_EXIT_INTR);
		cr_assert_eq(b.run.exit, VMM_EXIT_HLT, "row %u", i);
		cr_expect_geq(effort, 2000 * rows[i].least, "row %u: %lu", i, effort);
	}
}

/* Registers of AVX-512 have a section of their own, if one of them is not 0. */
Test(emu_zmm, state_of_avx512)
{
	uint8_t old[BED_STATE], with[BED_STATE], *at;
	struct kvm_cpuid_entry2 e[4];
	size_t n, m;

	need();
	begin(true);
	bed_show(e, VMM_SIMD_ALL | VMM_SIMD_AVX512);
	cr_assert_eq(o->set_cpuid(b.v, e, 4), 0);
	vcpu()->fpu.xcr0 = 0xe7;
	n = bed_state(&b, old);
	for (unsigned int i = 1; i < 4; i++) {
		memset(part_of(i), 0, zmm_parts[i].bytes);
		((uint8_t *)part_of(i))[zmm_parts[i].bytes - 1] = 0x77;
		m = bed_state(&b, with);
		cr_assert_eq(m, n + 12 + 64 + 512 + 1024);
		cr_assert_eq(o->set_state(b.v, old, n), 0);
		cr_assert_eq(((uint8_t *)part_of(i))[zmm_parts[i].bytes - 1], 0);
		cr_assert_eq(o->set_state(b.v, with, m), 0);
		cr_assert_eq(((uint8_t *)part_of(i))[zmm_parts[i].bytes - 1], 0x77);
		cr_assert_eq(o->set_state(b.v, old, n), 0);
	}
	at = memmem(with, m, "ZMM ", 4);
	cr_assert(at);
	memset(at + 12, 0, 64 + 512 + 1024);
	cr_assert_eq(o->set_state(b.v, with, m), -EINVAL, "an empty section");
	/* A state of a vCPU that shows no AVX-512 cannot have it in XCR0. */
	emu_show_simd(vcpu(), VMM_SIMD_ALL);
	n = bed_state(&b, old);
	cr_assert_eq(o->set_state(b.v, old, n), -EINVAL);
	vcpu()->fpu.xcr0 = 7;
	n = bed_state(&b, old);
	cr_assert_eq(o->set_state(b.v, old, n), 0);
}
