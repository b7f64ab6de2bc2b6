/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Shared by the fuzzers of the register models: the first byte chooses the version (and the host:
 * one with a counter for every key, or a small one, where counts are partial), the rest is a
 * history as tests/unit/guest_play.h reads it.
 */
#ifndef TESTS_FUZZ_FUZZ_GUEST_H
#define TESTS_FUZZ_FUZZ_GUEST_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#define PLAY_FAIL(y, text)                                                                         \
	do {                                                                                       \
		fprintf(stderr, "step %u: %s\n", (y)->steps, text);                                \
		abort();                                                                           \
	} while (0)

#include "tests/unit/guest_play.h"

/* Hosts live as long as the process: making one waits for grace periods. */
static inline struct bed *fuzz_host(bool big)
{
	static struct bed beds[2];
	static bool made[2];
	struct vpmu_emupmu_opts emulator = {.gp = big ? 16 : 2, .fixed = 3};

	if (!made[0] && !made[1]) {
		urcu_memb_register_thread();
		atexit(urcu_memb_barrier); /* what waits at exit looks like a leak */
	}
	if (!made[big])
		bed_host(&beds[big], &emulator);
	made[big] = true;
	return &beds[big];
}

/* Byte 0: bits 3:0 the machine, bit 6 a guest that counts already, bit 7 the small host. */
static inline void fuzz_guest(const unsigned int *which, unsigned int nr, const uint8_t *data,
			      size_t size)
{
	struct play y = {.at = data, .end = data + size};
	unsigned int first = (unsigned int)take(&y, 1);

	y.exact = !(first & 0x80);
	y.b = fuzz_host(y.exact);
	play(&y, &machines[which[(first & 15) % nr]], first & 0x40);
}

#endif
