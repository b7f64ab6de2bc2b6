// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The guest programs of `vpmu-bench emu_mips_sse`: what C libraries and numeric programs for
 * x86-64-v1 do with SSE2. programs.c calls them. This file alone is compiled with SSE.
 */
#include <emmintrin.h>
#include <stddef.h>
#include <stdint.h>

#include "programs.h"

static uint8_t from[16384 + 64], to[16384 + 64];

/* As C libraries do it without AVX: four unaligned vectors a turn. */
static __attribute__((noinline)) void copy(uint8_t *d, const uint8_t *s, size_t n)
{
	for (; n >= 64; n -= 64, s += 64, d += 64) {
		__m128i a = _mm_loadu_si128((const __m128i *)(s + 0));
		__m128i b = _mm_loadu_si128((const __m128i *)(s + 16));
		__m128i c = _mm_loadu_si128((const __m128i *)(s + 32));
		__m128i e = _mm_loadu_si128((const __m128i *)(s + 48));

		_mm_storeu_si128((__m128i *)(d + 0), a);
		_mm_storeu_si128((__m128i *)(d + 16), b);
		_mm_storeu_si128((__m128i *)(d + 32), c);
		_mm_storeu_si128((__m128i *)(d + 48), e);
	}
	for (; n >= 8; n -= 8, s += 8, d += 8)
		_mm_storel_epi64((__m128i *)d, _mm_loadl_epi64((const __m128i *)s));
}

/* 4 KiB, aligned and not, and short pieces. */
uint64_t run_sse_memcpy(uint64_t n)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < sizeof(from); i++)
		from[i] = (uint8_t)(i * 7 + 1);
	for (; n; n--) {
		copy(to, from, 4096);
		copy(to + 4096 + 3, from + 5, 4096);
		for (size_t i = 0; i < 64; i++)
			copy(to + 9000 + i * 9, from + i * 11, 72);
		sum += to[n % 4096] + to[5000 + n % 3000] + to[9100];
	}
	return sum;
}

static __attribute__((noinline)) size_t length(const char *s)
{
	const __m128i zero = _mm_setzero_si128();
	const char *p = (const char *)((uintptr_t)s & ~(uintptr_t)15);
	unsigned int bits = (unsigned int)_mm_movemask_epi8(
		_mm_cmpeq_epi8(_mm_load_si128((const __m128i *)p), zero));

	bits = bits >> (s - p) << (s - p);
	while (!bits) {
		__m128i a, b;

		p += 16;
		a = _mm_load_si128((const __m128i *)p);
		if ((uintptr_t)p & 16) {
			bits = (unsigned int)_mm_movemask_epi8(_mm_cmpeq_epi8(a, zero));
			continue;
		}
		b = _mm_min_epu8(a, _mm_load_si128((const __m128i *)(p + 16)));
		if (!_mm_movemask_epi8(_mm_cmpeq_epi8(b, zero)))
			p += 16;
		else
			bits = (unsigned int)_mm_movemask_epi8(_mm_cmpeq_epi8(a, zero));
	}
	return (size_t)(p - s) + (size_t)__builtin_ctz(bits);
}

/* Strings of 0 to 600 bytes, at any alignment. */
uint64_t run_sse_strlen(uint64_t n)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < sizeof(from); i++)
		from[i] = (uint8_t)(i % 255 + 1);
	from[sizeof(from) - 1] = 0;
	for (; n; n--)
		for (size_t i = 0; i < 100; i++) {
			from[i * 13 + i * 6] = 0;
			sum += length((const char *)from + i * 13);
			from[i * 13 + i * 6] = 1;
		}
	return sum;
}

/* Scalar doubles: a polynomial, a root, a division, conversions. */
uint64_t run_sse_double(uint64_t n)
{
	double x = 0.5, sum = 0;

	for (; n; n--)
		for (int i = 1; i < 1000; i++) {
			double y = x * 0.75 + (double)i * 1e-3;

			y = ((y * 0.3 - 1.25) * y + 0.5) * y + 2.0;
			if (y > 3.0)
				y -= 1.5;
			sum += y / (1.0 + __builtin_sqrt(x * x));
			x = y - (double)(int)y;
		}
	return (uint64_t)(sum * 1024.0);
}

/* Vectors of floats: a compiler's code of a scaled sum. */
uint64_t run_sse_float(uint64_t n)
{
	float *a = (float *)(void *)from, *b = (float *)(void *)to;
	__m128 sum = _mm_setzero_ps();
	float out[4];

	for (int i = 0; i < 4096; i++) {
		a[i] = (float)(i % 97) * 0.25f;
		b[i] = (float)(i % 31) * 0.5f;
	}
	for (; n; n--) {
		const __m128 k = _mm_set1_ps(0.5f);

		for (int i = 0; i < 4096; i += 4) {
			__m128 x = _mm_load_ps(a + i), y = _mm_load_ps(b + i);

			sum = _mm_add_ps(sum, _mm_mul_ps(x, y));
			_mm_store_ps(b + i, _mm_add_ps(_mm_mul_ps(y, k), x));
		}
		sum = _mm_mul_ps(sum, k);
	}
	_mm_storeu_ps(out, sum);
	return (uint64_t)(out[0] + out[1] + out[2] + out[3]);
}
