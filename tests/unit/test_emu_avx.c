// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * AVX on the emulator: what emu-difftest cannot reach, because Linux enables the YMM registers and
 * maps whole pages: which control register makes an instruction #UD or #NM, elements that do not
 * exist, and exceptions of one lane.
 */
#include "emu_bed.h"
#include "emu_prog.h"
#include "vmm/engine/simd.h"

TestSuite(emu_avx, .fini = bed_end);

#define ENABLE(cr4, xcr0)                                                                          \
	"mov %cr4,%rax\n or $" #cr4 ",%eax\n mov %rax,%cr4\n xor %ecx,%ecx\n xor %edx,%edx\n "     \
	"mov $" #xcr0 ",%eax\n xsetbv\n "
#define ALL ENABLE(0x40600, 7)

BED_GUEST(g_on, ALL "vpaddd %ymm1,%ymm2,%ymm3\n hlt");
BED_GUEST(g_no_xsave, "vpaddd %ymm1,%ymm2,%ymm3\n hlt");
BED_GUEST(g_no_avx, ENABLE(0x40600, 3) "vpaddd %ymm1,%ymm2,%ymm3\n hlt");
BED_GUEST(g_no_osfxsr, ENABLE(0x40000, 7) "vucomiss %xmm1,%xmm2\n vpaddd %ymm1,%ymm2,%ymm3\n hlt");
BED_GUEST(g_ts, ALL "mov %cr0,%rax\n or $8,%eax\n mov %rax,%cr0\n vpaddd %ymm1,%ymm2,%ymm3\n hlt");
BED_GUEST(g_bmi, "mov $5,%eax\n blsr %eax,%ebx\n hlt");

static void need(void)
{
	if ((vmm_simd_host() & VMM_SIMD_YMM) != VMM_SIMD_YMM)
		cr_skip_test("this host lacks AVX2, FMA or F16C");
}

/* SDM vol. 2, table 2-18: CR4.OSXSAVE and XCR0, not CR4.OSFXSR; CR0.TS. BMI needs none of them. */
Test(emu_avx, availability)
{
	need();
	cr_assert_eq(BED_VECTOR(&b, g_on, false), -1);
	cr_assert_eq(BED_RERUN(&b, g_no_xsave, false), 6);
	cr_assert_eq(BED_RERUN(&b, g_no_avx, false), 6);
	cr_assert_eq(BED_RERUN(&b, g_no_osfxsr, false), -1);
	cr_assert_eq(BED_RERUN(&b, g_ts, false), 7);
	cr_assert_eq(BED_RERUN(&b, g_bmi, false), -1);
	o->get_regs(b.v, &b.r);
	cr_assert_eq(b.r.rbx, 4);
}

BED_GUEST(g_all, ALL "vaddps %ymm1,%ymm1,%ymm1\n vpaddd %ymm1,%ymm1,%ymm1\n "
		     "vfmadd132ps %ymm1,%ymm1,%ymm1\n vcvtph2ps %xmm1,%ymm1\n hlt");

/* CPUID of a whole CPU decides which of the extensions there are. */
Test(emu_avx, cpuid)
{
	static const struct {
		uint32_t bit;
		int vector, retired;
	} rows[] = {
		{0, -1, 12},	       {VMM_SIMD_AVX, 13, 7}, /* XSETBV */
		{VMM_SIMD_AVX2, 6, 9}, {VMM_SIMD_FMA, 6, 10}, {VMM_SIMD_F16C, 6, 11},
	};

	need();
	BED_START(&b, g_all, false);
	for (unsigned int i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		const uint32_t word = VMM_SIMD_ALL & ~rows[i].bit;
		struct kvm_cpuid_entry2 e[] = {
			{.function = 0, .eax = 7},
			{.function = 1, .ecx = word & VMM_SIMD_1C, .edx = 1u << 24},
			{.function = 7, .ebx = word & VMM_SIMD_7B}};

		bed_load(&b, g_all, g_all_end, false);
		cr_assert_eq(o->set_cpuid(b.v, e, 3), 0);
		cr_assert_eq(bed_run_to_hlt(&b), rows[i].vector, "%u", i);
		cr_assert_eq(b.run.retired, rows[i].retired, "%u", i);
	}
}

BED_GUEST(g_halves,
	  ALL "vpcmpeqd %ymm1,%ymm1,%ymm1\n vmovdqa %ymm1,%ymm2\n vmovdqa %ymm1,%ymm3\n "
	      "vmovdqa %ymm1,%ymm4\n vmovd %edi,%xmm2\n pxor %xmm3,%xmm3\n "
	      "movups %xmm4,%xmm5\n vmovdqa %ymm1,%ymm5\n vzeroupper\n vmovdqa %ymm1,%ymm6\n "
	      "hlt");

/* VEX.128 clears the upper half, an SSE instruction keeps it. */
Test(emu_avx, upper_halves)
{
	const struct emu_fpu *f;

	need();
	BED_START(&b, g_halves, false);
	f = &vcpu()->fpu;
	cr_assert_eq(bed_run(&b, 14), VMM_EXIT_BUDGET); /* up to MOVUPS */
	cr_assert_eq(f->ymm_high[1].q[1], ~0ULL);
	cr_assert_eq(f->ymm_high[2].q[0] | f->ymm_high[2].q[1] | f->fx.xmm[2].q[1], 0);
	cr_assert_eq(f->ymm_high[3].q[0], ~0ULL);
	cr_assert_eq(f->fx.xmm[3].q[0], 0);
	cr_assert_eq(bed_run_to_hlt(&b), -1);
	for (int i = 0; i < 16; i++)
		cr_assert_eq(f->ymm_high[i].q[0] | f->ymm_high[i].q[1], 0, "%d", i);
	cr_assert_eq(f->fx.xmm[6].q[1], ~0ULL);
}

#define END "0x3fffe0" /* 32 bytes before the end of RAM, behind which there is nothing */
BED_GUEST(g_masked, ALL "vpcmpeqd %xmm1,%xmm1,%xmm1\n vpmaskmovd %ymm1,%ymm1," END "+16\n "
			"vpmaskmovd " END "+16,%ymm1,%ymm2\n vpcmpeqd %ymm3,%ymm3,%ymm3\n "
			"vpmaskmovd %ymm3,%ymm3," END "+16\n hlt");

/* Elements whose mask bit is 0 are not accessed; a store that cannot be completed stores nothing.
 */
Test(emu_avx, masked_elements)
{
	need();
	BED_START(&b, g_masked, false);
	memset(b.ram + BED_RAM - 32, 0, 32);
	cr_assert_eq(bed_run(&b, 10), VMM_EXIT_BUDGET);
	cr_assert_eq(*bed_u64(&b, BED_RAM - 8), ~0ULL);
	cr_assert_eq(*bed_u64(&b, BED_RAM - 24), 0);
	cr_assert_eq(vcpu()->fpu.fx.xmm[2].q[1], ~0ULL);
	cr_assert_eq(vcpu()->fpu.ymm_high[2].q[0], 0);
	memset(b.ram + BED_RAM - 32, 0, 32);
	cr_assert_eq(bed_run_to_hlt(&b), 14);
	cr_assert_eq(*bed_u64(&b, BED_RAM - 16) | *bed_u64(&b, BED_RAM - 8), 0);
}

BED_GUEST(g_lane, ALL "movl $0x1d80,(%rdi)\n vldmxcsr (%rdi)\n vpcmpeqd %ymm1,%ymm1,%ymm1\n "
		      "vcvtdq2ps %ymm1,%ymm2\n vxorps %xmm3,%xmm3,%xmm3\n "
		      "vinsertf128 $1,%xmm3,%ymm2,%ymm4\n vdivps %ymm4,%ymm2,%ymm2\n hlt");

/* A division by 0 in lane 1: #XM, and the destination is unchanged. */
Test(emu_avx, exception_of_a_lane)
{
	need();
	cr_assert_eq(BED_VECTOR(&b, g_lane, false), 19);
	cr_assert_eq(vcpu()->fpu.mxcsr, 0x1d84);
	cr_assert_eq(vcpu()->fpu.fx.xmm[2].d[0], 0xbf800000, "-1");
}
