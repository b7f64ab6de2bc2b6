/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Pseudo-random numbers that repeat with --seed: no secrets. For the modelled pCPUs, and the seeds
 * of the kernels that they run. */
#ifndef VMM_SCHED_RANDOM_H
#define VMM_SCHED_RANDOM_H

#include <stdint.h>

/* random_next - splitmix64 (Steele, Lea, Flood 2014): one word of state, any seed. */
static inline uint64_t random_next(uint64_t *state)
{
	uint64_t z = (*state += 0x9e3779b97f4a7c15ULL);

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
	return z ^ (z >> 31);
}

#endif
