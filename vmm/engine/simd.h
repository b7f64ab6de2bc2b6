/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The extensions of x86-64 with SSE2 that the emulator has if the host's CPU has them, XSAVE, and
 * how much of SVM it has. */
#pragma once

#include <cpuid.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* One word has all of them: each bit is where CPUID has it, in 1H ECX or in 7H EBX; but not those
 * of AVX-512. */
#define VMM_SIMD_SSE3  (1u << 0)
#define VMM_SIMD_SSSE3 (1u << 9)
#define VMM_SIMD_SSE41 (1u << 19)
#define VMM_SIMD_SSE42 (1u << 20)
#define VMM_SIMD_MOVBE (1u << 22)
#define VMM_SIMD_FMA   (1u << 12)
#define VMM_SIMD_XSAVE (1u << 26) /* needs nothing of the host */
#define VMM_SIMD_AVX   (1u << 28)
#define VMM_SIMD_F16C  (1u << 29)
#define VMM_SIMD_1C                                                                                \
	(VMM_SIMD_V2 | VMM_SIMD_MOVBE | VMM_SIMD_FMA | VMM_SIMD_XSAVE | VMM_SIMD_AVX |             \
	 VMM_SIMD_F16C)
#define VMM_SIMD_BMI1 (1u << 3)
#define VMM_SIMD_BMI2 (1u << 8)
#define VMM_SIMD_AVX2 (1u << 5)
#define VMM_SIMD_7B   (VMM_SIMD_BMI1 | VMM_SIMD_BMI2 | VMM_SIMD_AVX2)
/* AVX-512, in groups: AVX512F, DQ, CD, BW, VL; what Ice Lake adds, IFMA, VBMI, VBMI2, VNNI, BITALG,
 * VPOPCNTDQ; BF16. The second and third need the first. */
#define VMM_SIMD_AVX512	     (1u << 16)
#define VMM_SIMD_AVX512_ICL  (1u << 31)
#define VMM_SIMD_AVX512_BF16 (1u << 30)
#define VMM_SIMD_ZMM	     (VMM_SIMD_AVX512 | VMM_SIMD_AVX512_ICL | VMM_SIMD_AVX512_BF16)
/* Their bits of CPUID: 7H.0 EBX, 7H.0 ECX, 7H.1 EAX. */
#define VMM_SIMD_7B_512	 (1u << 16 | 1u << 17 | 1u << 28 | 1u << 30 | 1u << 31)
#define VMM_SIMD_7B_ICL	 (1u << 21)
#define VMM_SIMD_7C_ICL	 (1u << 1 | 1u << 6 | 1u << 11 | 1u << 12 | 1u << 14)
#define VMM_SIMD_71_BF16 (1u << 5)
/* Those of x86-64-v3. */
#define VMM_SIMD_ALL (VMM_SIMD_1C | VMM_SIMD_7B)
/* Those of x86-64-v2, which every model has. The others are of v3. */
#define VMM_SIMD_V2 (VMM_SIMD_SSE3 | VMM_SIMD_SSSE3 | VMM_SIMD_SSE41 | VMM_SIMD_SSE42)
/* Those that need the YMM registers, and so XSAVE. */
#define VMM_SIMD_YMM (VMM_SIMD_FMA | VMM_SIMD_AVX | VMM_SIMD_F16C | VMM_SIMD_AVX2)

/* The registers of CPUID that have these bits: 1H ECX, 7H.0 EBX and ECX, 7H.1 EAX. */
struct vmm_simd_cpuid {
	uint32_t ecx_1, ebx_7, ecx_7, eax_7_1;
};

/* vmm_simd_of - the word of a CPU with these registers. A group of AVX-512 counts only if it is
 * whole. */
static inline uint32_t vmm_simd_of(const struct vmm_simd_cpuid *r)
{
	uint32_t word = (r->ecx_1 & VMM_SIMD_1C) | (r->ebx_7 & VMM_SIMD_7B);

	if ((word & VMM_SIMD_YMM) != VMM_SIMD_YMM || ~r->ebx_7 & VMM_SIMD_7B_512)
		return word;
	if (!(~r->ebx_7 & VMM_SIMD_7B_ICL) && !(~r->ecx_7 & VMM_SIMD_7C_ICL))
		word |= VMM_SIMD_AVX512_ICL;
	return word | VMM_SIMD_AVX512 | (r->eax_7_1 & VMM_SIMD_71_BF16 ? VMM_SIMD_AVX512_BF16 : 0);
}

/* vmm_simd_cpuid - the bits of these registers that stand for @word; the others are 0. */
static inline struct vmm_simd_cpuid vmm_simd_cpuid(uint32_t word)
{
	bool icl = word & VMM_SIMD_AVX512_ICL;

	return (struct vmm_simd_cpuid){
		word & VMM_SIMD_1C,
		(word & VMM_SIMD_7B) | (word & VMM_SIMD_AVX512 ? VMM_SIMD_7B_512 : 0) |
			(icl ? VMM_SIMD_7B_ICL : 0),
		icl ? VMM_SIMD_7C_ICL : 0,
		word & VMM_SIMD_AVX512_BF16 ? VMM_SIMD_71_BF16 : 0,
	};
}

/* vmm_simd_host - return those of VMM_SIMD_ALL and VMM_SIMD_ZMM that the emulator can have on this
 * host. YMM and ZMM registers need its kernel, too. */
static inline uint32_t vmm_simd_host(void)
{
	unsigned int a, b, c = 0, d, xcr0 = 0;
	struct vmm_simd_cpuid r = {0};
	uint32_t all;

	if (!__get_cpuid(1, &a, &b, &c, &d))
		return VMM_SIMD_XSAVE;
	r.ecx_1 = c;
	if (__get_cpuid_count(7, 0, &a, &r.ebx_7, &r.ecx_7, &d) && a)
		__get_cpuid_count(7, 1, &r.eax_7_1, &b, &c, &d);
	all = vmm_simd_of(&r) | VMM_SIMD_XSAVE;
	if (r.ecx_1 & bit_OSXSAVE)
		__asm__("xgetbv" : "=a"(xcr0), "=d"(d) : "c"(0));
	if ((xcr0 & 6) != 6 || !(all & VMM_SIMD_AVX))
		return all & ~(VMM_SIMD_YMM | VMM_SIMD_ZMM);
	return (xcr0 & 0xe0) == 0xe0 ? all : all & ~VMM_SIMD_ZMM;
}

/* vmm_simd_lacks - return the lowest level of x86-64 that a CPU with this word does not reach, or
 * NULL. */
static inline const char *vmm_simd_lacks(uint32_t word)
{
	if (~word & VMM_SIMD_V2)
		return "x86-64-v2";
	return ~word & VMM_SIMD_ALL ? "x86-64-v3" : NULL;
}

/* What the emulator has of AMD's SVM, and CPUID shows. */
#define VMM_SVM_ASIDS 8u /* with 0, the host's: CPUID 8000000AH EBX */
