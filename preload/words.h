/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The words in which a VMM carries the state of a PMU. QEMU saves the MSRs of Intel's architectural
 * PMU: 18 general counters and their selects, 3 fixed ones, four controls. It reads and writes them
 * for every guest with CPUID leaf 0AH, also on AMD. So a model's registers travel in them: Intel's
 * under their own numbers (counters at full width), AMD's in place of Intel's of the same purpose.
 *
 * QEMU 11.1 does so on Intel only. For an AMD CPU with PerfMonV2 it saves AMD's registers, and
 * keeps the i-th of CTL0, CTR0, CTL1 .. as the i-th select or counter, but sets the i-th select or
 * counter as CTLi or CTRi: the third select arrives as CTL4's, and those that are not among the
 * first ones of CPUID leaf 80000022H are lost. So it is shown as many counters as the leaf can say,
 * and each word has a mark in its upper byte that names its register, wherever it arrives. A word
 * of a state of the other kind has no mark, and is the register of its place. Of an AMD CPU without
 * PerfMonV2 it saves six pairs, without PERFCTR_CORE four of K7's: with marks, but without the word
 * below, so that such a state is refused.
 *
 * IA32_PERF_GLOBAL_OVF_CTRL and AMD's PerfCntrGlobalStatusClr have no state. Their word identifies
 * the model and the version of this table: another state is refused. Zero is a reset. It also tells
 * that a PMI is pending, and for AMD's models it has DEBUGCTL.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "vpmu/guest/model.h"

/* What CPUID leaf 0AH shows to the VMM: version 2, this many counters. */
#define WORDS_GP    18
#define WORDS_FIXED 3
#define WORDS_TAG   0x390u
#define WORDS_PMI   0x80ull /* in the tag's value: a PMI is pending */

/* What CPUID leaf 80000022H shows for AMD's models: PerfMonV2, this many counters. */
#define WORDS_AMD_GP 15
#define WORDS_VALUE  ((1ull << 56) - 1) /* without the mark */

/* words_has - returns true if the VMM's accesses to @msr are answered here: one of the words, or of
 * AMD's own numbers, which later VMMs know. */
bool words_has(uint32_t msr);

/* words_is_amd - @msr is one of AMD's own numbers of counters and selects, or one of K7's. */
bool words_is_amd(uint32_t msr);

/* words_register - the guest's register that travels in @msr; 0: none. @gp: the model's number of
 * general counters. */
uint32_t words_register(enum vpmu_guest_model model, unsigned int gp, uint32_t msr);

/* words_mark - @val of the register @msr as the VMM gets it, with a mark if AMD's. words_marked -
 * the register that the mark in the value @val of @msr names, or 0: it has none. */
uint64_t words_mark(enum vpmu_guest_model model, uint32_t msr, uint64_t val);
uint32_t words_marked(enum vpmu_guest_model model, unsigned int gp, uint32_t msr, uint64_t val);

/* words_is_tag - returns true if @msr is the one that identifies the state. words_tag - the value
 * for it. words_tag_check - 0; -EINVAL, with one line in @why: @tag is of another model or
 * version. words_tag_has_marks - the state's counters and selects are marked. */
bool words_is_tag(enum vpmu_guest_model model, uint32_t msr);
uint64_t words_tag(enum vpmu_guest_model model, unsigned int gp, uint32_t msr, uint64_t debugctl);
uint64_t words_tag_debugctl(uint64_t tag);
bool words_tag_has_marks(uint64_t tag);
int words_tag_check(enum vpmu_guest_model model, unsigned int gp, uint64_t tag, char *why,
		    size_t whylen);

/* words_is_state - only a state of this library, of whatever model, has @val for @msr: a tag, or a
 * mark, which is more than AMD's registers have bits for. */
bool words_is_state(uint32_t msr, uint64_t val);

bool words_is_intel(enum vpmu_guest_model model);

/* words_unfit - NULL; one line: a CPU whose vendor in CPUID begins with these four characters
 * cannot use @model. */
const char *words_unfit(enum vpmu_guest_model model, const char *vendor);
