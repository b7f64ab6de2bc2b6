// SPDX-License-Identifier: GPL-2.0-or-later
/* libFuzzer over the Intel register models, and the guest without a PMU. */
#include "fuzz_guest.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const unsigned int which[] = {M_V5,	 M_V2,	 M_V3,	    M_V4, M_V5_34,
					     M_V5_NOLBR, M_NONE, M_V2_ARCH, M_OFF};

	fuzz_guest(which, sizeof(which) / sizeof(which[0]), data, size);
	return 0;
}
