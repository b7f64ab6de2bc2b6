/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Ranges of MSRs: what a register model asks a VMM to trap, and what an engine traps. Apart from
 * model.h so that engines need not know any register model.
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
