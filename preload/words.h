/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The words in which a VMM carries the state of a PMU. QEMU saves the MSRs of Intel's architectural
 * PMU: 18 general counters and their selects, 3 fixed ones, four controls. It reads and writes them
 * for every guest with CPUID leaf 0AH, also on AMD. So a model's registers travel in them: Intel's
 * under their own numbers (counters at full width), AMD's in place of Intel's of the same purpose.
 *
 * IA32_PERF_GLOBAL_OVF_CTRL has no state. Its word identifies the model and the version of this
 * table: another state is refused. Zero is a reset.
 */
#ifndef PRELOAD_WORDS_H
#define PRELOAD_WORDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "vpmu/guest/model.h"

/* What CPUID leaf 0AH shows to the VMM: version 2, this many counters. */
#define WORDS_GP    18
#define WORDS_FIXED 3
#define WORDS_TAG   0x390u

/* words_has - returns true if the VMM's accesses to @msr are answered here: one of the words, or of
 * AMD's own numbers, which later VMMs know. */
bool words_has(uint32_t msr);

/* words_register - the guest's register that travels in @msr; 0: none. @gp: the model's number of
 * general counters. */
uint32_t words_register(enum vpmu_guest_model model, unsigned int gp, uint32_t msr);

/* words_tag - the value of WORDS_TAG. words_tag_check - 0; -EINVAL, with one line in @why: @tag is
 * of another model or version. */
uint64_t words_tag(enum vpmu_guest_model model, unsigned int gp);
int words_tag_check(enum vpmu_guest_model model, unsigned int gp, uint64_t tag, char *why,
		    size_t whylen);

bool words_is_intel(enum vpmu_guest_model model);

#endif
