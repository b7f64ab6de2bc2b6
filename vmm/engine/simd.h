/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The extensions of SSE2 that the emulator has if the host's CPU has them, and XSAVE. */
#ifndef VMM_ENGINE_SIMD_H
#define VMM_ENGINE_SIMD_H

#include <cpuid.h>
#include <stdint.h>

/* 1H ECX: SSE3, SSSE3, SSE4.1, SSE4.2 */
#define VMM_SIMD_SSE3  (1u << 0)
#define VMM_SIMD_SSSE3 (1u << 9)
#define VMM_SIMD_SSE41 (1u << 19)
#define VMM_SIMD_SSE42 (1u << 20)
/* XSAVE needs nothing of the host. AVX is not in VMM_SIMD_ALL, so no CPU shows it: XCR0 alone knows
 * its state. */
#define VMM_SIMD_XSAVE (1u << 26)
#define VMM_SIMD_AVX   (1u << 28)
#define VMM_SIMD_ALL                                                                               \
	(VMM_SIMD_SSE3 | VMM_SIMD_SSSE3 | VMM_SIMD_SSE41 | VMM_SIMD_SSE42 | VMM_SIMD_XSAVE)

/* vmm_simd_host - return those of VMM_SIMD_ALL that the emulator can have on this host. */
static inline uint32_t vmm_simd_host(void)
{
	unsigned int a, b, c, d;

	return (__get_cpuid(1, &a, &b, &c, &d) ? c & VMM_SIMD_ALL : 0) | VMM_SIMD_XSAVE;
}

#endif
