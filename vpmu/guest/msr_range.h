/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Ranges of MSRs. A register model names the ranges that a VMM must trap, and an engine traps them.
 * This is apart from model.h so that engines need not include anything of the register models.
 */
#ifndef VPMU_GUEST_MSR_RANGE_H
#define VPMU_GUEST_MSR_RANGE_H

#include <stdint.h>

/* MSRs base .. base + count - 1. An array of ranges ends with one whose count is 0. */
struct vpmu_msr_range {
	uint32_t base;
	uint32_t count;
};

#endif
