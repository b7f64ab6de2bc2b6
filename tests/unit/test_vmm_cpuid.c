// SPDX-License-Identifier: GPL-2.0-or-later
/* vmm/cpuid: a VM's CPUID must be consistent with any PMU model. */
#include <criterion/criterion.h>
#include <string.h>

#include "vmm/emu/svm/svm.h"
#include "vmm/engine/simd.h"
#include "vmm/vm/cpuid.h"
#include "vpmu/context.h"
#include "vpmu/guest/abi.h"
#include "vpmu/emupmu.h"

static const struct kvm_cpuid_entry2 *find(const struct kvm_cpuid_entry2 *e, size_t n,
					   uint32_t leaf)
{
	for (size_t i = 0; i < n; i++)
		if (e[i].function == leaf && !e[i].flags)
			return &e[i];
	cr_assert_fail("no leaf %#x", leaf);
	return NULL;
}

static void vendor_of(const struct kvm_cpuid_entry2 *e, char vendor[13])
{
	memcpy(vendor, &e->ebx, 4);
	memcpy(vendor + 4, &e->edx, 4);
	memcpy(vendor + 8, &e->ecx, 4);
	vendor[12] = 0;
}

static unsigned int family(uint32_t signature)
{
	unsigned int base = signature >> 8 & 0xf;

	return base == 0xf ? base + (signature >> 20 & 0xff) : base;
}

Test(vmm_cpuid, each_model)
{
	static const struct {
		enum vpmu_guest_model model;
		const char *vendor;
		unsigned int family, perfmon; /* version in 0AH EAX */
		bool core, v2;		      /* PERFCTR_CORE, PerfMonV2 */
	} rows[] = {
		{VPMU_GUEST_NONE, "AuthenticAMD", 0x19, 0, false, false},
		{VPMU_GUEST_INTEL_V2, "GenuineIntel", 6, 2, false, false},
		{VPMU_GUEST_INTEL_V3, "GenuineIntel", 6, 3, false, false},
		{VPMU_GUEST_INTEL_V4, "GenuineIntel", 6, 4, false, false},
		{VPMU_GUEST_INTEL_V5, "GenuineIntel", 6, 5, false, false},
		{VPMU_GUEST_AMD_K7, "AuthenticAMD", 0x10, 0, false, false},
		{VPMU_GUEST_AMD_CORE, "AuthenticAMD", 0x19, 0, true, false},
		{VPMU_GUEST_AMD_V2, "AuthenticAMD", 0x19, 0, true, true},
	};

	for (size_t k = 0; k < 2 * sizeof(rows) / sizeof(rows[0]); k++) {
		size_t i = k / 2;
		bool lapic = k % 2;
		struct kvm_cpuid_entry2 e[VMM_CPUID_MAX];
		struct vpmu_guest_cfg cfg = {.model = rows[i].model, .rdpmc = i & 1};
		const struct kvm_cpuid_entry2 *base, *one, *ext;
		struct vpmu_context ctx = {0};
		struct vpmu_emupmu pmu;
		struct vpmu_guest g = {0};
		char vendor[13];
		size_t n;

		cr_assert_eq(vpmu_emupmu_init(&pmu, NULL), 0);
		cr_assert_eq(vpmu_guest_init(&g, &cfg, &ctx, &pmu.pmu), 0);
		n = vmm_cpuid(&g, 3, lapic, e);
		cr_assert_leq(n, VMM_CPUID_MAX);
		/* Each leaf once, and none above what 0H and 80000000H announce. */
		base = find(e, n, 0);
		ext = find(e, n, 0x80000000);
		for (size_t a = 0; a < n; a++) {
			for (size_t b = 0; b < a; b++)
				cr_assert_neq(e[a].function, e[b].function);
			if (e[a].function < 0x40000000 && e[a].eax | e[a].ebx | e[a].ecx | e[a].edx)
				cr_assert_leq(e[a].function, base->eax);
			if (e[a].function >= 0x80000000)
				cr_assert_leq(e[a].function, ext->eax);
		}
		vendor_of(base, vendor);
		cr_assert_str_eq(vendor, rows[i].vendor);
		one = find(e, n, 1);
		cr_assert_eq(family(one->eax), rows[i].family);
		cr_assert_eq(one->ebx >> 24, 3); /* APIC id */
		cr_assert_eq(one->ecx >> 31, 1); /* hypervisor */
		cr_assert_eq(one->edx & (1u << 0 | 1u << 24 | 1u << 25), 0, "FPU, FXSR or SSE");
		cr_assert_eq(one->edx >> 9 & 1, lapic);
		cr_assert_eq(one->ecx >> 21 & 1, lapic, "x2APIC");
		/* AMD repeats the APIC bit; Intel reserves it there. */
		cr_assert_eq(find(e, n, 0x80000001)->edx >> 9 & 1, lapic && *rows[i].vendor == 'A');
		/* MSR, PAE, TSC, CX8; SYSCALL, NX, LM: what boots a 64-bit guest. */
		cr_assert_eq(one->edx & 0x170, 0x170);
		cr_assert_eq(find(e, n, 0x80000001)->edx & 0x20100800, 0x20100800);
		cr_assert_eq(find(e, n, 0xa)->eax & 0xff, rows[i].perfmon);
		cr_assert_eq(find(e, n, 0x80000001)->ecx >> 23 & 1, rows[i].core);
		cr_assert_eq(find(e, n, 0x80000022)->eax & 1, rows[i].v2);
		/* The paravirtual leaves. */
		cr_assert_eq(find(e, n, VPMU_PV_CPUID_BASE)->ebx, VPMU_PV_SIG_EBX);
		cr_assert_geq(find(e, n, VPMU_PV_CPUID_BASE)->eax, VPMU_PV_CPUID_BASE + 1);
		cr_assert_eq(find(e, n, VPMU_PV_CPUID_BASE + 1)->eax, VPMU_PV_VERSION);
		vpmu_guest_fini(&g);
	}
}

/* ---- the table of stock kernels ---- */

static const struct kvm_cpuid_entry2 *sub(const struct kvm_cpuid_entry2 *e, size_t n, uint32_t leaf,
					  uint32_t index)
{
	for (size_t i = 0; i < n; i++)
		if (e[i].function == leaf &&
		    (!(e[i].flags & KVM_CPUID_FLAG_SIGNIFCANT_INDEX) || e[i].index == index))
			return &e[i];
	cr_assert_fail("no leaf %#x.%u", leaf, index);
	return NULL;
}

Test(vmm_cpuid, stock_kernels)
{
	static const struct {
		enum vpmu_guest_model model;
		bool intel;
		uint32_t max_basic;
	} rows[] = {
		{VPMU_GUEST_NONE, false, 0xd},	   {VPMU_GUEST_INTEL_V2, true, 0x16},
		{VPMU_GUEST_INTEL_V3, true, 0x16}, {VPMU_GUEST_INTEL_V4, true, 0x16},
		{VPMU_GUEST_INTEL_V5, true, 0x1f}, {VPMU_GUEST_AMD_K7, false, 0x7},
		{VPMU_GUEST_AMD_CORE, false, 0xd}, {VPMU_GUEST_AMD_V2, false, 0xd},
	};
	static const struct vmm_cpuid_host host = {
		.tsc_khz = 1000000,
		.simd = VMM_SIMD_SSE3 | VMM_SIMD_SSE42 | VMM_SIMD_MOVBE | VMM_SIMD_BMI2 |
			VMM_SIMD_XSAVE | VMM_SIMD_YMM | VMM_SIMD_ZMM,
		.timer_hz = 1000000000};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct kvm_cpuid_entry2 e[VMM_CPUID_MAX];
		struct vpmu_guest_cfg cfg = {.model = rows[i].model, .rdpmc = true};
		struct vpmu_context ctx = {0};
		struct vpmu_emupmu pmu;
		struct vpmu_guest g = {0};
		uint32_t ext, shown, zmm;
		size_t n;

		cr_assert_eq(vpmu_emupmu_init(&pmu, NULL), 0);
		cr_assert_eq(vpmu_guest_init(&g, &cfg, &ctx, &pmu.pmu), 0);
		n = vmm_cpuid_linux(&g, 5, 6, &host, e);
		cr_assert_lt(n, VMM_CPUID_MAX);
		ext = sub(e, n, 0x80000000, 0)->eax;
		cr_assert_eq(sub(e, n, 0, 0)->eax, rows[i].max_basic);
		cr_assert_eq(sub(e, n, 0x80000001, 0)->ecx & 4, 0, "SVM is off by default");
		for (size_t a = 0; a < n; a++)
			cr_assert_neq(e[a].function, 0x8000000a);
		for (size_t a = 0; a < n; a++) {
			for (size_t b = 0; b < a; b++)
				cr_assert(e[a].function != e[b].function ||
					  e[a].index != e[b].index);
			if (e[a].function < 0x40000000)
				cr_assert_leq(e[a].function, rows[i].max_basic);
			if (e[a].function >= 0x80000000)
				cr_assert_leq(e[a].function, ext);
		}
		/* FPU TSC MSR PAE CX8 APIC CMOV FXSR SSE SSE2: required by a stock kernel. */
		cr_assert_eq(sub(e, n, 1, 0)->edx & 0x07008371, 0x07008371);
		/* MTRR */
		cr_assert_eq(sub(e, n, 1, 0)->edx >> 12 & 1, 1);
		cr_assert_eq(sub(e, n, 0x80000001, 0)->edx >> 12 & 1, rows[i].intel ? 0 : 1);
		/* MCE, MCA: on the emulator, whatever an engine's own table has below. */
		cr_assert_eq(sub(e, n, 1, 0)->edx & 0x4080, 0x4080);
		cr_assert_eq(sub(e, n, 0x80000001, 0)->edx & 0x4080, rows[i].intel ? 0 : 0x4080);
		/* x2APIC, TSC deadline, hypervisor; no OSXSAVE, RDRAND, MONITOR; what
		 * the host has of SSE3 to SSE4.2 */
		cr_assert_eq(sub(e, n, 1, 0)->ecx & 0x81200000, 0x81200000);
		cr_assert_eq(sub(e, n, 1, 0)->ecx & 0x48000008, 0);
		/* Family 10h has nothing of x86-64-v3. */
		shown = rows[i].model == VPMU_GUEST_AMD_K7 ? host.simd & VMM_SIMD_V2 : host.simd;
		cr_assert_eq((sub(e, n, 1, 0)->ecx & VMM_SIMD_1C) |
				     (sub(e, n, 7, 0)->ebx & VMM_SIMD_7B),
			     shown & VMM_SIMD_ALL);
		/* AVX-512 of Skylake-SP, and of Sapphire Rapids. */
		zmm = rows[i].model == VPMU_GUEST_INTEL_V4   ? VMM_SIMD_AVX512
		      : rows[i].model == VPMU_GUEST_INTEL_V5 ? VMM_SIMD_ZMM
							     : 0;
		cr_assert_eq(sub(e, n, 7, 0)->ebx & 0xd0230000, zmm == VMM_SIMD_ZMM ? 0xd0230000
								: zmm		    ? 0xd0030000
										    : 0);
		cr_assert_eq(sub(e, n, 7, 0)->ecx, zmm == VMM_SIMD_ZMM ? 0x5842 : 0);
		cr_assert_eq(sub(e, n, 7, 0)->eax, zmm == VMM_SIMD_ZMM);
		if (zmm == VMM_SIMD_ZMM)
			cr_assert_eq(sub(e, n, 7, 1)->eax, 1u << 5);
		if (zmm) {
			cr_assert_eq(sub(e, n, 0xd, 5)->ebx, 1088);
			cr_assert_eq(sub(e, n, 0xd, 6)->ebx, 1152);
			cr_assert_eq(sub(e, n, 0xd, 7)->eax, 1024);
			cr_assert_eq(sub(e, n, 0xd, 7)->ebx, 1664);
		}
		if (rows[i].max_basic >
		    7) { /* x87, SSE and AVX; Broadwell lacks XSAVEC and XSAVES */
			bool old = rows[i].model == VPMU_GUEST_INTEL_V2 ||
				   rows[i].model == VPMU_GUEST_INTEL_V3;

			cr_assert_eq(sub(e, n, 0xd, 0)->eax, zmm ? 0xe7 : 7);
			cr_assert_eq(sub(e, n, 0xd, 0)->ebx, 576);
			cr_assert_eq(sub(e, n, 0xd, 0)->ecx, zmm ? 2688 : 832);
			cr_assert_eq(sub(e, n, 0xd, 1)->eax, old ? 1 : 15);
			cr_assert_eq(sub(e, n, 0xd, 1)->ebx, old ? 0 : 576);
		}
		/* Libraries ask for the size of L2, on Intel's CPUs there, too. */
		cr_assert_eq(sub(e, n, 0x80000006, 0)->ecx,
			     rows[i].intel ? 0x02006040 : 0x02006140);
		cr_assert_eq(sub(e, n, 1, 0)->ebx >> 16 & 0xff, 6);
		cr_assert_eq(sub(e, n, 1, 0)->ebx >> 24, 5);
		cr_assert_eq(sub(e, n, 0x40000000, 0)->ebx, 0x4b4d564b, "KVMK");
		cr_assert_eq(sub(e, n, 0x40000001, 0)->eax, 1u << 1 | 1u << 3 | 1u << 24);
		cr_assert_eq(sub(e, n, VPMU_PV_CPUID_BESIDE, 0)->ebx, VPMU_PV_SIG_EBX);
		cr_assert_eq(sub(e, n, VPMU_PV_CPUID_BESIDE, 0)->eax, VPMU_PV_CPUID_BESIDE + 1);
		cr_assert_eq(sub(e, n, VPMU_PV_CPUID_BESIDE + 1, 0)->eax, VPMU_PV_VERSION);
		if (rows[i].max_basic >= 0xb) {
			cr_assert_eq(sub(e, n, 0xb, 0)->eax, 0);
			cr_assert_eq(sub(e, n, 0xb, 1)->eax, 3, "6 APIC IDs need 3 bits");
			cr_assert_eq(sub(e, n, 0xb, 1)->ebx, 6);
			cr_assert_eq(sub(e, n, 0xb, 1)->edx, 5);
		}
		if (rows[i].intel) {
			/* TSC = crystal * EBX / EAX; ARCH_CAPABILITIES is announced. */
			cr_assert_eq(sub(e, n, 0x15, 0)->ecx, 1000000000);
			cr_assert_eq(sub(e, n, 0x15, 0)->eax, sub(e, n, 0x15, 0)->ebx);
			cr_assert_eq(sub(e, n, 7, 0)->edx >> 29 & 1, 1);
		} else {
			cr_assert_eq(sub(e, n, 0x80000008, 0)->ecx, 5 | 3 << 12);
			cr_assert_eq(sub(e, n, 0x80000001, 0)->ecx >> 10 & 1, 0, "IBS");
		}
		/* An engine that lacks a feature takes it away. */
		struct kvm_cpuid_entry2 none[] = {
			{.function = 7, .ebx = VMM_SIMD_7B_512},
			{.function = 0x80000001},
			{.function = 1,
			 .ecx = VMM_SIMD_SSSE3 | VMM_SIMD_XSAVE | VMM_SIMD_AVX,
			 .edx = 0x4080}};
		struct vmm_cpuid_host poor = {
			.supported = none, .nr_supported = 3, .simd = VMM_SIMD_ALL | VMM_SIMD_ZMM};

		n = vmm_cpuid_linux(&g, 0, 1, &poor, e);
		cr_assert_eq(sub(e, n, 7, 0)->ebx, 0);
		cr_assert_eq(sub(e, n, 0x80000001, 0)->edx >> 27 & 1, 0, "RDTSCP");
		cr_assert_eq(sub(e, n, 1, 0)->edx >> 28 & 1, 0, "one vCPU has no HTT");
		cr_assert_eq(sub(e, n, 1, 0)->edx & 0x4080, 0, "machine checks");
		cr_assert_eq(sub(e, n, 1, 0)->ecx & VMM_SIMD_1C, VMM_SIMD_SSSE3);
		cr_assert_eq(sub(e, n, 0x80000001, 0)->edx & 0x4080, 0);
		cr_assert_eq(sub(e, n, 1, 0)->edx >> 12 & 1, 0, "MTRR");
		cr_assert_eq(sub(e, n, 0x80000001, 0)->edx >> 12 & 1, 0);
		vpmu_guest_fini(&g);
	}
}

/* A VM with svm = yes: as many ASIDs as the emulator has, and no feature that it lacks. */
Test(vmm_cpuid, svm)
{
	static const struct vmm_cpuid_host host = {.tsc_khz = 1000000, .svm = true};
	struct vpmu_guest_cfg cfg = {.model = VPMU_GUEST_AMD_V2, .rdpmc = true};
	struct kvm_cpuid_entry2 e[VMM_CPUID_MAX];
	struct vpmu_context ctx = {0};
	struct vpmu_emupmu pmu;
	struct vpmu_guest g = {0};
	size_t n;

	cr_assert_eq(vpmu_emupmu_init(&pmu, NULL), 0);
	cr_assert_eq(vpmu_guest_init(&g, &cfg, &ctx, &pmu.pmu), 0);
	n = vmm_cpuid_linux(&g, 0, 1, &host, e);
	cr_assert_lt(n, VMM_CPUID_MAX);
	cr_assert_eq(sub(e, n, 0x80000001, 0)->ecx & 4, 4);
	cr_assert_eq(sub(e, n, 0x8000000a, 0)->eax, 1);
	cr_assert_eq(sub(e, n, 0x8000000a, 0)->ebx, VMM_SVM_ASIDS);
	cr_assert_eq(sub(e, n, 0x8000000a, 0)->edx, 0xcf);
	cr_assert_eq(sub(e, n, 0x80000008, 0)->ebx & 2, 2, "IRPERF");
	vpmu_guest_fini(&g);
}

/* A group of AVX-512 counts only if it is whole, and needs the one before. */
Test(vmm_cpuid, groups_of_avx512)
{
	const struct vmm_simd_cpuid all = vmm_simd_cpuid(VMM_SIMD_ALL | VMM_SIMD_ZMM);
	struct vmm_simd_cpuid r;

	cr_assert_eq(all.ebx_7 & ~VMM_SIMD_7B, 0xd0230000);
	cr_assert_eq(all.ecx_7, 0x5842);
	cr_assert_eq(all.eax_7_1, 0x20);
	cr_assert_eq(vmm_simd_of(&all), VMM_SIMD_ALL | VMM_SIMD_ZMM);
	for (uint32_t bit = 1; bit; bit <<= 1) {
		r = all;
		r.ebx_7 &= ~bit;
		cr_expect_eq(vmm_simd_of(&r) & VMM_SIMD_ZMM,
			     bit & (0xd0030000 | VMM_SIMD_AVX2) ? 0
			     : bit & 0x200000 ? VMM_SIMD_AVX512 | VMM_SIMD_AVX512_BF16
					      : VMM_SIMD_ZMM,
			     "%#x", bit);
		r = all;
		r.ecx_7 &= ~bit;
		cr_expect_eq(vmm_simd_of(&r) & VMM_SIMD_ZMM,
			     bit & 0x5842 ? VMM_SIMD_AVX512 | VMM_SIMD_AVX512_BF16 : VMM_SIMD_ZMM,
			     "%#x", bit);
	}
	r = all;
	r.eax_7_1 = 0;
	cr_expect_eq(vmm_simd_of(&r) & VMM_SIMD_ZMM, VMM_SIMD_AVX512 | VMM_SIMD_AVX512_ICL);
}

Test(vmm_cpuid, levels)
{
	cr_assert_null(vmm_simd_lacks(VMM_SIMD_ALL));
	for (uint32_t bit = 1; bit; bit <<= 1)
		if (bit & VMM_SIMD_ALL)
			cr_expect_str_eq(vmm_simd_lacks(VMM_SIMD_ALL & ~bit),
					 bit & VMM_SIMD_V2 ? "x86-64-v2" : "x86-64-v3", "%#x", bit);
	cr_assert_str_eq(vmm_simd_lacks(0), "x86-64-v2");
}
