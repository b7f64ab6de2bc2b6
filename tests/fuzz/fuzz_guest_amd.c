// SPDX-License-Identifier: GPL-2.0-or-later
/* libFuzzer over the AMD register models. */
#include "fuzz_guest.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const unsigned int which[] = {M_AMD, M_K7, M_CORE, M_AMD15, M_AMD_NOLBR};

	fuzz_guest(which, sizeof(which) / sizeof(which[0]), data, size);
	return 0;
}
