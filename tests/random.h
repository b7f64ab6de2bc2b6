/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The random numbers of tests: a seed gives the same ones everywhere. */
#ifndef TESTS_RANDOM_H
#define TESTS_RANDOM_H

#include <stdint.h>

/* splitmix64 (public domain, S. Vigna): any seed is good. */
static inline uint64_t random_split(uint64_t *state)
{
	uint64_t z = *state += 0x9e3779b97f4a7c15ULL;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ULL;
	z = (z ^ z >> 27) * 0x94d049bb133111ebULL;
	return z ^ z >> 31;
}

/* xorshift64 (G. Marsaglia): cheaper; any seed but 0. */
static inline uint64_t random_shift(uint64_t *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 7;
	return *state ^= *state << 17;
}

#endif
