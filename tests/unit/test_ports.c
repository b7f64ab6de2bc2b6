// SPDX-License-Identifier: GPL-2.0-or-later
/* Random inputs for the fuzzer of ports and of addresses without RAM (tests/fuzz/fuzz_ports.c),
 * which has the guest, the host and what must hold. */
#include <criterion/criterion.h>
#include <stdint.h>

#define INPUTS	200
#define LONGEST 330

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

Test(ports, random_inputs)
{
	uint8_t data[LONGEST];
	uint64_t x = 1;

	for (unsigned int n = 0; n < INPUTS; n++) {
		for (size_t i = 0; i < LONGEST; i++) {
			x = x * 6364136223846793005ULL + 1442695040888963407ULL;
			data[i] = (uint8_t)(x >> 56);
		}
		cr_assert_eq(LLVMFuzzerTestOneInput(data, 10 + data[LONGEST - 1] * 320 / 256), 0);
	}
}
