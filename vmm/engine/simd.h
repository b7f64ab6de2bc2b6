/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The extensions of SSE2 that the emulator has if the host's CPU has them. */
#ifndef VMM_ENGINE_SIMD_H
#define VMM_ENGINE_SIMD_H

#include <cpuid.h>
#include <stdint.h>

/* 1H ECX: SSE3, SSSE3, SSE4.1, SSE4.2 */
#define VMM_SIMD_SSE3  (1u << 0)
#define VMM_SIMD_SSSE3 (1u << 9)
#define VMM_SIMD_SSE41 (1u << 19)
#define VMM_SIMD_SSE42 (1u << 20)
#define VMM_SIMD_ALL   (VMM_SIMD_SSE3 | VMM_SIMD_SSSE3 | VMM_SIMD_SSE41 | VMM_SIMD_SSE42)

/* vmm_simd_host - return those of VMM_SIMD_ALL that the host's CPU has. */
static inline uint32_t vmm_simd_host(void)
{
	unsigned int a, b, c, d;

	return __get_cpuid(1, &a, &b, &c, &d) ? c & VMM_SIMD_ALL : 0;
}

#endif
