// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Runs what glibc and gcc choose for x86-64-v3, and prints a hash of each group of results: the
 * string functions, the mathematical ones, and loops that gcc vectorises. tests/linux/simd compares
 * the lines of a guest with those of the machine that it runs on.
 */
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <wchar.h>

static uint64_t hash;

static void add(uint64_t x)
{
	hash = (hash ^ x) * 0x100000001b3u;
	hash ^= hash >> 29;
}

static void add_bytes(const void *p, size_t n)
{
	for (size_t i = 0; i < n; i++)
		add(((const uint8_t *)p)[i]);
}

static void done(const char *group)
{
	printf("simdwork: %s %016llx\n", group, (unsigned long long)hash);
	hash = 0xcbf29ce484222325;
}

static uint32_t next(void)
{
	static uint64_t x = 88172645463325252u;

	x ^= x << 13;
	x ^= x >> 7;
	x ^= x << 17;
	return (uint32_t)(x >> 16);
}

#define ROOM 4096
static char a[ROOM] __attribute__((aligned(4096))), b[ROOM] __attribute__((aligned(4096)));

static void strings(void)
{
	for (unsigned int round = 0; round < 600; round++) {
		size_t n = next() % (round % 8 ? 300 : 1800), at = next() % 70, to = next() % 70;
		char *x = a + at, *y = b + to;
		int c;

		for (size_t i = 0; i < n; i++)
			x[i] = (char)('a' + next() % (round % 3 ? 3 : 26));
		x[n] = 0;
		c = 'a' + (int)(next() % 26);
		memcpy(y, x, n + 1);
		add((uint64_t)(memcmp(x, y, n) == 0) + strlen(y));
		if (n)
			y[next() % n] ^= 1;
		add((uint64_t)(memcmp(x, y, n) > 0) + (uint64_t)(strcmp(x, y) < 0) * 2 +
		    (uint64_t)(strncmp(x, y, n / 2) == 0) * 4);
		add(strchr(x, c) ? (uint64_t)(strchr(x, c) - x) : 99999);
		add(strrchr(x, c) ? (uint64_t)(strrchr(x, c) - x) : 99999);
		add(memchr(x, c, n) ? (uint64_t)((char *)memchr(x, c, n) - x) : 99999);
		add(memrchr(x, c, n) ? (uint64_t)((char *)memrchr(x, c, n) - x) : 99999);
		add((uint64_t)((char *)rawmemchr(x, 0) - x) + strnlen(x, n / 3));
		add((uint64_t)(strchrnul(x, c) - x) + strspn(x, "abc") + strcspn(x, "xyz"));
		add(strstr(x, "abc") ? (uint64_t)(strstr(x, "abc") - x) : 99999);
		add((uint64_t)(strcasecmp(x, y) < 0));
		memmove(x + next() % 40, x, n);
		memset(y + next() % 20, c, n / 2);
		stpcpy(b + 2100, y);
		add((uint64_t)wmemcmp((wchar_t *)(void *)a, (wchar_t *)(void *)b, n / 4) & 1);
		add_bytes(a, sizeof(a) / 16);
		add_bytes(b, sizeof(b) / 16);
	}
	done("strings");
}

static void add_double(double x)
{
	uint64_t bits;

	memcpy(&bits, &x, sizeof(bits));
	add(bits);
}

static void mathematics(void)
{
	for (unsigned int i = 0; i < 3000; i++) {
		double x = (double)(int32_t)next() / 1e7, y = (double)next() / 1e9;

		add_double(sin(x) + cos(y));
		add_double(exp(x / 100));
		add_double(log(y + 1e-9));
		add_double(pow(y, x / 50));
		add_double(atan(x) + tan(y));
		add_double(fma(x, y, -x));
		add_double(floor(x) + rint(y) + trunc(x * y));
		add_double((double)(sinf((float)x) + expf((float)y)));
	}
	done("math");
}

#define V3 __attribute__((target("avx2,fma,bmi,bmi2,lzcnt,movbe,f16c"), optimize("O3"), noinline))

static float f[1024], g[1024];
static double d[1024];
static int32_t w[1024];
static uint8_t u[1024];
static int64_t q[1024];
static _Float16 h[1024];

V3 static void vectors(void)
{
	for (unsigned int round = 0; round < 30; round++) {
		for (unsigned int i = 0; i < 1024; i++) {
			w[i] = (int32_t)next();
			u[i] = (uint8_t)next();
		}
		for (unsigned int i = 0; i < 1024; i++)
			f[i] = (float)w[i] / 65536.0f;
		for (unsigned int i = 0; i < 1024; i++)
			g[i] = f[i] * f[1023 - i] + g[i];
		for (unsigned int i = 0; i < 1024; i++)
			d[i] = (double)g[i] * (double)f[i] - d[i] / 3;
		for (unsigned int i = 0; i < 1024; i++)
			h[i] = (_Float16)(f[i] / 64);
		for (unsigned int i = 0; i < 1024; i++)
			q[i] = (int64_t)w[i] * u[i] + (q[i] >> (u[i] & 63));
		for (unsigned int i = 0; i < 1024; i++) /* a gather */
			g[i] += f[u[i] * 4u];
		for (unsigned int i = 0; i < 1024; i++) /* masked stores */
			if (u[i] & 1)
				w[i] = w[i] << (u[i] & 31);
		for (unsigned int i = 0; i < 1024; i++)
			u[i] = (uint8_t)((u[i] + u[1023 - i] + 1) / 2);
		add_bytes(g, sizeof(g));
		add_bytes(d, sizeof(d));
		add_bytes(q, sizeof(q));
		add_bytes(w, sizeof(w));
		add_bytes(h, sizeof(h));
		add_bytes(u, sizeof(u));
	}
	done("vectors");
}

/* Not the builtins: gcc 14 refuses them in a function with its own options. */
static uint64_t pdep(uint64_t x, uint64_t mask)
{
	__asm__("pdep %2, %1, %0" : "=r"(x) : "r"(x), "r"(mask));
	return x;
}

static uint64_t pext(uint64_t x, uint64_t mask)
{
	__asm__("pext %2, %1, %0" : "=r"(x) : "r"(x), "r"(mask));
	return x;
}

V3 static void bits(void)
{
	for (unsigned int i = 0; i < 20000; i++) {
		uint64_t x = (uint64_t)next() << 32 | next(), y = next() | 1;

		add(pdep(x, y) ^ pext(x, ~y));
		add((x & (x - 1)) ^ (x & -x) ^ (~x & y));
		add((uint64_t)__builtin_clzll(y) + (uint64_t)__builtin_ctzll(y << 3));
		add(x << (y & 63) ^ x >> (y & 31) ^ __builtin_bswap64(x));
		add((uint64_t)((unsigned __int128)x * y >> 64));
	}
	done("bits");
}

int main(void)
{
	if (!__builtin_cpu_supports("x86-64-v3")) {
		printf("simdwork: this CPU lacks x86-64-v3\n");
		return 77;
	}
	hash = 0xcbf29ce484222325;
	strings();
	mathematics();
	vectors();
	bits();
	return 0;
}
