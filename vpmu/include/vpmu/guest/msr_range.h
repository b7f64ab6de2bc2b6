/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Ranges of MSRs: a register model lists the ranges that an engine must trap. Separate from
 * model.h, so that engines need nothing of the register models.
 */
#ifndef VPMU_GUEST_MSR_RANGE_H
#define VPMU_GUEST_MSR_RANGE_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* MSRs base .. base + count - 1. An array of ranges ends with a count of 0. */
struct vpmu_msr_range {
	uint32_t base;
	uint32_t count;
};

#ifdef __cplusplus
}
#endif

#endif
