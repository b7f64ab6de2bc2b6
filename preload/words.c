// SPDX-License-Identifier: GPL-2.0-or-later
/* Which MSR carries which register, see words.h. */
#include <errno.h>
#include <string.h>

#include "preload/words.h"
#include "vpmu/util/fail.h"

#define TAG_MAGIC    0x5650ull /* "VP" */
#define TAG_VERSION  1ull
#define TAG_MARKED   2ull	   /* AMD's own registers, with marks */
#define TAG_DEBUGCTL 0xffff0000ull /* of AMD's models */

#define PMC0	      0x0c1u
#define A_PMC0	      0x4c1u /* the same counters at full width */
#define EVTSEL0	      0x186u
#define FIXED_CTR0    0x309u
#define GLOBAL_STATUS 0x38eu
#define GLOBAL_CTRL   0x38fu
#define DEBUGCTL      0x1d9u
#define AMD_CTL0      0xc0010200u
#define AMD_CTR0      0xc0010201u
#define AMD_STATUS    0xc0000300u
#define AMD_CTRL      0xc0000301u
#define AMD_CLEAR     0xc0000302u
#define K7_CTL0	      0xc0010000u
#define K7_CTR0	      0xc0010004u
#define K7_GP	      4

#define MARK_SHIFT 56

static const struct vpmu_msr_range words[] = {
	{PMC0, WORDS_GP},
	{EVTSEL0, WORDS_GP},
	{FIXED_CTR0, WORDS_FIXED},
	{0x38d, WORDS_TAG - 0x38d + 1}, /* FIXED_CTR_CTRL .. GLOBAL_OVF_CTRL */
	{AMD_STATUS, 4},
	{K7_CTL0, 2 * K7_GP},
	{AMD_CTL0, 32},
};

bool words_is_intel(enum vpmu_guest_model model)
{
	switch (model) {
	case VPMU_GUEST_INTEL_V2:
	case VPMU_GUEST_INTEL_V3:
	case VPMU_GUEST_INTEL_V4:
	case VPMU_GUEST_INTEL_V5:
		return true;
	default:
		return false;
	}
}

const char *words_unfit(enum vpmu_guest_model model, const char *vendor)
{
	if (words_is_intel(model))
		return strncmp(vendor, "Genu", 4) ? "its CPU is not Intel's, but the PMU is to be"
						  : NULL;
	return strncmp(vendor, "Auth", 4) && strncmp(vendor, "Hygo", 4)
		       ? "its CPU is not AMD's, but the PMU is to be"
		       : NULL;
}

bool words_has(uint32_t msr)
{
	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
		if (msr - words[i].base < words[i].count)
			return true;
	}
	return false;
}

bool words_is_amd(uint32_t msr)
{
	return msr - AMD_CTL0 < 2 * WORDS_AMD_GP || msr - K7_CTL0 < 2 * K7_GP;
}

bool words_is_tag(enum vpmu_guest_model model, uint32_t msr)
{
	return msr == WORDS_TAG || (msr == AMD_CLEAR && !words_is_intel(model));
}

uint64_t words_mark(enum vpmu_guest_model model, uint32_t msr, uint64_t val)
{
	if (words_is_intel(model) || !words_is_amd(msr))
		return val;
	return (val & WORDS_VALUE) | (uint64_t)(msr - AMD_CTL0 + 1) << MARK_SHIFT;
}

uint32_t words_marked(enum vpmu_guest_model model, unsigned int gp, uint32_t msr, uint64_t val)
{
	uint32_t i = (uint32_t)(val >> MARK_SHIFT);

	if (words_is_intel(model) ||
	    (msr - PMC0 >= WORDS_GP && msr - EVTSEL0 >= WORDS_GP && !words_is_amd(msr)))
		return 0;
	return i && i <= 2 * gp ? AMD_CTL0 + i - 1 : 0;
}

static uint32_t words_amd(enum vpmu_guest_model model, unsigned int gp, uint32_t msr)
{
	bool v2 = model == VPMU_GUEST_AMD_V2;

	if (msr - PMC0 < gp)
		return AMD_CTR0 + 2 * (msr - PMC0);
	if (msr - EVTSEL0 < gp)
		return AMD_CTL0 + 2 * (msr - EVTSEL0);
	if (msr - AMD_CTL0 < 2 * gp)
		return msr;
	if (msr - K7_CTL0 < K7_GP)
		return AMD_CTL0 + 2 * (msr - K7_CTL0);
	if (msr - K7_CTR0 < K7_GP)
		return AMD_CTR0 + 2 * (msr - K7_CTR0);
	switch (msr) {
	case FIXED_CTR0:
		return DEBUGCTL;
	case GLOBAL_STATUS:
	case AMD_STATUS:
		return v2 ? AMD_STATUS : 0;
	case GLOBAL_CTRL:
	case AMD_CTRL:
		return v2 ? AMD_CTRL : 0;
	default:
		return 0;
	}
}

static uint32_t words_intel(unsigned int gp, uint32_t msr)
{
	if (msr - PMC0 < WORDS_GP)
		return msr - PMC0 < gp ? A_PMC0 + (msr - PMC0) : 0;
	if (msr - EVTSEL0 < WORDS_GP) {
		if (msr - EVTSEL0 < gp)
			return msr;
		/* a counter that the model lacks: spare for MSRs that QEMU does not save */
		return msr == EVTSEL0 + WORDS_GP - 1 ? DEBUGCTL : 0;
	}
	return msr == WORDS_TAG || msr >= AMD_STATUS ? 0 : msr;
}

uint32_t words_register(enum vpmu_guest_model model, unsigned int gp, uint32_t msr)
{
	if (!words_has(msr) || model == VPMU_GUEST_NONE)
		return 0;
	return words_is_intel(model) ? words_intel(gp, msr) : words_amd(model, gp, msr);
}

uint64_t words_tag(enum vpmu_guest_model model, unsigned int gp, uint32_t msr, uint64_t debugctl)
{
	uint64_t version = msr == WORDS_TAG ? TAG_VERSION : TAG_MARKED;

	if (words_is_intel(model))
		debugctl = 0; /* it has a word */
	return TAG_MAGIC << 48 | version << 32 | (debugctl << 16 & TAG_DEBUGCTL) |
	       (uint64_t)model << 8 | gp;
}

uint64_t words_tag_debugctl(uint64_t tag)
{
	return (tag & TAG_DEBUGCTL) >> 16;
}

bool words_tag_has_marks(uint64_t tag)
{
	return (tag >> 32 & 0xffff) == TAG_MARKED;
}

static bool words_tag_is_ours(uint64_t tag)
{
	return tag >> 48 == TAG_MAGIC;
}

bool words_is_state(uint32_t msr, uint64_t val)
{
	if (msr == WORDS_TAG)
		return words_tag_is_ours(val);
	return words_is_amd(msr) && val >> MARK_SHIFT;
}

int words_tag_check(enum vpmu_guest_model model, unsigned int gp, uint64_t tag, char *why,
		    size_t whylen)
{
	unsigned int version = tag >> 32 & 0xffff, other = tag >> 8 & 0xff;

	uint64_t plain = tag & ~(words_is_intel(model) ? WORDS_PMI : WORDS_PMI | TAG_DEBUGCTL);

	if (plain == words_tag(model, gp, WORDS_TAG, 0) ||
	    (!words_is_intel(model) && plain == words_tag(model, gp, AMD_CLEAR, 0)))
		return 0;
	if (!words_tag_is_ours(tag))
		return fail(-EINVAL, why, whylen, "the PMU's state is not of vpmu-preload");
	if (version != TAG_VERSION && (words_is_intel(model) || version != TAG_MARKED))
		return fail(-EINVAL, why, whylen,
			    "the PMU's state is of version %u; expected version %u%s", version,
			    (unsigned int)TAG_VERSION, words_is_intel(model) ? "" : " or 2");
	return fail(-EINVAL, why, whylen,
		    "the PMU's state is of model %s with %u counters; expected %s with %u",
		    vpmu_guest_model_name((enum vpmu_guest_model)other), (unsigned int)(tag & 0x7f),
		    vpmu_guest_model_name(model), gp);
}
