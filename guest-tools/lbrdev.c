// SPDX-License-Identifier: GPL-2.0-or-later
/* Probing, starting and stopping branch records; see lbrdev.h. All MSRs are accessed through the
 * kernel (tool_rdmsr, tool_wrmsr). */
#include "guest-tools/lbrdev.h"
#include "guest-tools/tools.h"

/* SDM vol. 4 table 2-2 */
#define MSR_LBR_CTL   0x14ceu
#define MSR_LBR_DEPTH 0x14cfu
#define MSR_LBR_FROM  0x1500u
#define MSR_LBR_TO    0x1600u
/* APM vol. 2, 13.1.1.9 and appendix A */
#define MSR_AMD_LBR_SELECT 0xc000010eu
#define MSR_AMD_DBG_EXTN   0xc000010fu
#define MSR_AMD_LBR_FROM   0xc0010300u
#define DBG_EXTN_LBRV2EN   (1u << 6)
/* LBR_SELECT: branches that are not recorded */
#define AMD_SKIP_CPL0 (1u << 0)
#define AMD_SKIP_FAR  (1u << 8)

/* IA32_LBR_CTL */
enum {
	CTL_EN = 1u << 0,
	CTL_USR = 1u << 2,
	CTL_CALL_STACK = 1u << 3,
	CTL_JCC = 1u << 16,
	CTL_REL_JMP = 1u << 17,
	CTL_IND_JMP = 1u << 18,
	CTL_CALLS = 7u << 19, /* relative and indirect calls, returns */
};

static void lbrdev_probe_intel(struct lbr_dev *dev, char *why, size_t why_size)
{
	uint32_t r[4];

	tool_cpuid(7, 0, r);
	if (!(r[3] & 1u << 19)) {
		text_format(why, why_size, "no branch records: CPUID 7 EDX[19] (Arch LBR) is 0");
		return;
	}
	tool_cpuid(0x1c, 0, r);
	dev->depths = r[0] & 0xff;
	for (unsigned int i = 0; i < LBR_DEPTH_MAX / 8; i++) {
		if (dev->depths & 1u << i)
			dev->max = 8 * (i + 1);
	}
	if (!dev->max) {
		text_format(why, why_size, "no branch records: CPUID 1CH EAX names no depth");
		return;
	}
	dev->kind = LBR_INTEL;
	dev->filter = (r[1] & 3) == 3;
	dev->call_stack = r[1] & 4;
	dev->enable_msr = MSR_LBR_CTL;
	dev->enable = CTL_EN | CTL_USR | CTL_CALLS | CTL_JCC | CTL_REL_JMP | CTL_IND_JMP;
	dev->from = MSR_LBR_FROM;
	dev->to = MSR_LBR_TO;
	dev->stride = 1;
}

static void lbrdev_probe_amd(struct lbr_dev *dev, char *why, size_t why_size)
{
	uint32_t r[4];

	tool_cpuid(0x80000000u, 0, r);
	if (r[0] >= 0x80000022u)
		tool_cpuid(0x80000022u, 0, r);
	else
		r[0] = 0;
	if (!(r[0] & 2) || !(r[1] >> 4 & 0x3f)) {
		text_format(why, why_size,
			    "no branch records: CPUID 80000022H EAX[1] (LbrExtV2) is 0");
		return;
	}
	dev->kind = LBR_AMD;
	dev->max = r[1] >> 4 & 0x3f;
	if (dev->max > LBR_DEPTH_MAX)
		dev->max = LBR_DEPTH_MAX;
	dev->filter = true;
	dev->enable_msr = MSR_AMD_DBG_EXTN;
	dev->enable = DBG_EXTN_LBRV2EN;
	dev->from = MSR_AMD_LBR_FROM;
	dev->to = MSR_AMD_LBR_FROM + 1;
	dev->stride = 2;
}

void lbr_probe(struct lbr_dev *dev, char *why, size_t why_size)
{
	uint32_t r[4];

	*dev = (struct lbr_dev){.kind = LBR_NONE};
	tool_cpuid(0, 0, r);
	if (r[1] == 0x756e6547) { /* "Genu" */
		if (r[0] >= 0x1c)
			lbrdev_probe_intel(dev, why, why_size);
		else
			text_format(why, why_size,
				    "no branch records: CPUID ends at leaf 0x%x, before 0x1c",
				    r[0]);
	} else {
		lbrdev_probe_amd(dev, why, why_size);
	}
}

bool lbr_depth_ok(const struct lbr_dev *dev, unsigned int depth)
{
	if (!dev->depths)
		return depth == dev->max;
	return depth && depth % 8 == 0 && depth <= LBR_DEPTH_MAX &&
	       dev->depths >> (depth / 8 - 1) & 1;
}

bool lbr_clear(const struct lbr_dev *dev, unsigned int depth)
{
	bool ok = true;

	if (dev->kind == LBR_INTEL)
		return tool_wrmsr(MSR_LBR_DEPTH, depth); /* 19.1.1: a write clears all records */
	for (unsigned int i = 0; i < dev->max; i++)
		ok = tool_wrmsr(dev->from + i * dev->stride, 0) &&
		     tool_wrmsr(dev->to + i * dev->stride, 0) && ok;
	return ok;
}

bool lbr_start(const struct lbr_dev *dev, enum lbr_mode mode, unsigned int depth)
{
	if (!lbr_stop(dev) || !lbr_clear(dev, depth))
		return false;
	if (dev->kind == LBR_AMD)
		return tool_wrmsr(MSR_AMD_LBR_SELECT, AMD_SKIP_CPL0 | AMD_SKIP_FAR) &&
		       tool_wrmsr(MSR_AMD_DBG_EXTN, DBG_EXTN_LBRV2EN);
	return tool_wrmsr(
		MSR_LBR_CTL,
		CTL_EN | CTL_USR | CTL_CALLS |
			(mode == LBR_CALLS ? CTL_CALL_STACK : CTL_JCC | CTL_REL_JMP | CTL_IND_JMP));
}

bool lbr_stop(const struct lbr_dev *dev)
{
	return tool_wrmsr(dev->kind == LBR_AMD ? MSR_AMD_DBG_EXTN : MSR_LBR_CTL, 0);
}
