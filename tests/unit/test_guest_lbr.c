// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Branch records as guests see them: the controls' effect on the CPU, records in order, filters,
 * freezing, reset by depth, switches, and that memory for them is there only while they are used.
 */
#include <errno.h>

#include "guest_use.h"

TestSuite(guest_lbr, .fini = finish);

#define CTL   0x14ceu
#define DEPTH 0x14cfu
#define FROM  0x1500u
#define TO    0x1600u
#define INFO  0x1200u

#define SELECT	 0xc000010eu
#define EXTN	 0xc000010fu
#define AFROM(i) (0xc0010300u + 2 * (i))
#define ATO(i)	 (0xc0010301u + 2 * (i))

#define EVERY (VPMU_LBR_OS | VPMU_LBR_USR | VPMU_LBR_TYPES)
#define VALID (1ULL << 63)

static void branches(unsigned int n, uint64_t from)
{
	for (unsigned int i = 0; i < n; i++)
		branch(VPMU_EMU_USR, VPMU_LBR_JCC, from + i, from + i + 0x1000);
}

/* The CPU's control of records; 0: off. */
static uint32_t cpu_ctl(void)
{
	uint32_t ctl = b.sp[b.on].tally->lbr.ctl;

	return ctl & VPMU_LBR_EN ? ctl & ~VPMU_LBR_EN : 0;
}

static bool memory(void)
{
	return b.ctx.lbr.data[VPMU_LBR_GUEST] != NULL;
}

static int wr_ret(uint32_t msr, uint64_t val)
{
	return vpmu_guest_wrmsr(b.g, msr, val);
}

static int rd_ret(uint32_t msr)
{
	uint64_t val;

	return vpmu_guest_rdmsr(b.g, msr, &val);
}

/* ---- controls ---- */

static const struct {
	int line;
	bool amd;
	uint64_t ctl;
	uint32_t cpu;
} ctl_rows[] = {
	{__LINE__, false, 0x7f0007, EVERY},
	{__LINE__, false, 0x7f0006, 0}, /* not enabled */
	{__LINE__, false, 0x7f0001, VPMU_LBR_TYPES},
	{__LINE__, false, 0x010005, VPMU_LBR_USR | VPMU_LBR_JCC},
	{__LINE__, false, 0x200003, VPMU_LBR_OS | VPMU_LBR_RET},
	/* call-stack mode; with other filters it is undefined, here the same */
	{__LINE__, false, 0x38000d, VPMU_LBR_USR | VPMU_LBR_CALL_STACK | VPMU_LBR_CALLS},
	{__LINE__, false, 0x7f000d, VPMU_LBR_USR | VPMU_LBR_CALL_STACK | VPMU_LBR_CALLS},
	{__LINE__, false, 0x00000d, VPMU_LBR_USR | VPMU_LBR_CALL_STACK | VPMU_LBR_CALLS},
	/* AMD: bits suppress (Linux arch/x86/events/amd/lbr.c) */
	{__LINE__, true, 0x000, EVERY},
	{__LINE__, true, 0x001, EVERY & ~VPMU_LBR_OS},
	{__LINE__, true, 0x002, EVERY & ~VPMU_LBR_USR},
	{__LINE__, true, 0x004, EVERY & ~VPMU_LBR_JCC},
	{__LINE__, true, 0x008, EVERY & ~VPMU_LBR_REL_CALL},
	{__LINE__, true, 0x010, EVERY & ~VPMU_LBR_IND_CALL},
	{__LINE__, true, 0x020, EVERY & ~VPMU_LBR_RET},
	{__LINE__, true, 0x040, EVERY & ~VPMU_LBR_IND_JMP},
	{__LINE__, true, 0x080, EVERY & ~VPMU_LBR_REL_JMP},
	{__LINE__, true, 0x100, EVERY & ~VPMU_LBR_OTHER},
	{__LINE__, true, 0x1fd, VPMU_LBR_USR},
};

Test(guest_lbr, controls)
{
	for (unsigned int k = 0; k < sizeof(ctl_rows) / sizeof(ctl_rows[0]); k++) {
		bool amd = ctl_rows[k].amd;

		start(amd ? VPMU_GUEST_AMD_V2 : VPMU_GUEST_INTEL_V5);
		wr(amd ? SELECT : CTL, ctl_rows[k].ctl);
		if (amd) {
			cr_assert_eq(cpu_ctl(), 0u, "line %d: not enabled", ctl_rows[k].line);
			wr(EXTN, 0x40);
		}
		cr_assert_eq(cpu_ctl(), ctl_rows[k].cpu, "line %d: %x", ctl_rows[k].line,
			     cpu_ctl());
		cr_assert_eq(rd(amd ? SELECT : CTL), ctl_rows[k].ctl);
		wr(amd ? EXTN : CTL, 0);
		cr_assert_eq(cpu_ctl(), 0u);
	}
}

/* ---- records ---- */

Test(guest_lbr, intel_records)
{
	start(VPMU_GUEST_INTEL_V5);
	wr(CTL, 0x7f0007);
	branches(40, 0x400000);
	for (unsigned int i = 0; i < 32; i++) { /* the newest is 0 */
		cr_assert_eq(rd(FROM + i), 0x400000u + 39 - i);
		cr_assert_eq(rd(TO + i), 0x401000u + 39 - i);
		cr_assert_eq(rd(INFO + i), 5ULL << 56 | 77);
	}
	branches(1, 0x500000);
	cr_assert_eq(rd(FROM), 0x500000u);
	cr_assert_eq(rd(FROM + 1), 0x400000u + 39);
	wr(CTL, 0x7f0006);
	branches(5, 0x600000);
	cr_assert_eq(rd(FROM), 0x500000u, "disabled: records stay");
	wr(CTL, 0x7f0007);
	branches(1, 0x700000);
	cr_assert_eq(rd(FROM), 0x700000u);
	cr_assert_eq(rd(FROM + 1), 0x500000u);
}

/* A write of the depth clears all records, the old depth included; values beyond are #GP. */
Test(guest_lbr, depth)
{
	start(VPMU_GUEST_INTEL_V5);
	cr_assert_eq(rd(DEPTH), 32u);
	wr(CTL, 0x7f0007);
	branches(40, 0x400000);
	for (unsigned int d = 8; d <= 32; d += 8) {
		wr(DEPTH, d);
		cr_assert_eq(rd(DEPTH), d);
		for (unsigned int i = 0; i < 32; i++) {
			cr_assert_eq(rd_ret(FROM + i), i < d ? 0 : -EFAULT);
			cr_assert_eq(rd_ret(TO + i), i < d ? 0 : -EFAULT);
			cr_assert_eq(rd_ret(INFO + i), i < d ? 0 : -EFAULT);
			cr_assert_eq(wr_ret(INFO + i, 0), i < d ? 0 : -EFAULT);
			cr_assert(i >= d || !(rd(FROM + i) | rd(TO + i) | rd(INFO + i)));
		}
		branches(50, 0x400000);
		cr_assert_eq(rd(FROM), 0x400000u + 49);
		cr_assert_eq(rd(FROM + d - 1), 0x400000u + 50 - d);
		wr(DEPTH, d);
		cr_assert_eq(rd(FROM), 0u);
		cr_assert_eq(cpu_ctl(), EVERY, "recording goes on");
	}
	cr_assert_eq(wr_ret(DEPTH, 0), -EFAULT);
	cr_assert_eq(wr_ret(DEPTH, 12), -EFAULT);
	cr_assert_eq(wr_ret(DEPTH, 40), -EFAULT);
	cr_assert_eq(wr_ret(DEPTH, 8 | 1ULL << 32), -EFAULT);
}

Test(guest_lbr, amd_records)
{
	start(VPMU_GUEST_AMD_V2);
	wr(EXTN, 0x40);
	branches(20, 0x400000);
	branch(VPMU_EMU_OS, VPMU_LBR_OTHER, 0xffffffff81000000, 0xffffffff81000100);
	/* address to bit 57, its sign above; valid, not speculative, predicted */
	cr_assert_eq(rd(AFROM(0)), 0x7fffffff81000000u);
	cr_assert_eq(rd(ATO(0)), 0x1fffffff81000100u | VALID);
	for (unsigned int i = 1; i < 16; i++) {
		cr_assert_eq(rd(AFROM(i)), 0x400000u + 20 - i);
		cr_assert_eq(rd(ATO(i)), (0x401000u + 20 - i) | VALID);
	}
	cr_assert_eq(rd_ret(0xc0010320), -ENOENT, "16 of them");
	/* as Linux clears them: each by hand, with recording off */
	wr(EXTN, 0);
	for (unsigned int i = 0; i < 16; i++) {
		cr_assert(memory());
		wr(AFROM(i), 0);
		wr(ATO(i), 0);
		cr_assert_eq(rd(AFROM(i)) | rd(ATO(i)), 0u);
	}
	cr_assert(!memory());
}

/* The guest's writes read back, and move down as the CPU goes on recording. */
Test(guest_lbr, written_by_guest)
{
	start(VPMU_GUEST_INTEL_V5);
	wr(FROM + 3, 0x1111);
	cr_assert(memory(), "a record without memory");
	wr(TO + 3, 0xffffffff80000000);
	wr(INFO + 3, ~0ULL);
	cr_assert_eq(rd(INFO + 3), 0x1f0000000000ffffu);
	cr_assert_eq(rd(FROM), 0u);
	cr_assert_eq(wr_ret(FROM + 3, 1ULL << 47), -EFAULT);
	cr_assert_eq(wr_ret(TO, 1ULL << 63), -EFAULT);
	wr(CTL, 0x7f0007);
	branches(2, 0x400000);
	cr_assert_eq(rd(FROM + 5), 0x1111u);
	cr_assert_eq(rd(TO + 5), 0xffffffff80000000u);
	cr_assert_eq(rd(FROM + 1), 0x400000u);

	start(VPMU_GUEST_AMD_V2);
	wr(AFROM(7), ~0ULL);
	wr(ATO(7), 1ULL << 57 | 1ULL << 62 | 5);
	cr_assert_eq(rd(AFROM(7)), ~0ULL);
	cr_assert_eq(rd(ATO(7)), 0x1eULL << 56 | 1ULL << 62 | 5, "%llx",
		     (unsigned long long)rd(ATO(7)));
	wr(EXTN, 0x40);
	branches(1, 0x400000);
	cr_assert_eq(rd(AFROM(8)), ~0ULL);
	cr_assert_eq(rd(ATO(8)), 0x1eULL << 56 | 1ULL << 62 | 5);
	cr_assert_eq(rd(ATO(0)) >> 63, 1u);
	cr_assert_eq(rd(ATO(1)), 0u, "never made");
}

/* ---- freezing, switching, going away ---- */

Test(guest_lbr, freeze)
{
	for (unsigned int amd = 0; amd < 2; amd++) {
		start(amd ? VPMU_GUEST_AMD_V2 : VPMU_GUEST_INTEL_V5);
		wr(0x1d9, 1 << 11);
		wr(amd ? EXTN : CTL, amd ? 0x40 : 0x7f0007);
		wr(amd ? 0xc0010200 : 0x186, INSTR | USR | EN | INT);
		wr(amd ? 0xc0010201 : 0x4c1, W48);
		branches(3, 0x400000);
		bed_exec(&b, VPMU_EMU_USR, VPMU_EMU_INSTRUCTIONS, 1);
		vpmu_pcpu_overflow(b.pcpu[0]);
		cr_assert(vpmu_guest_service(b.g));
		cr_assert_eq(cpu_ctl(), 0u);
		branches(3, 0x500000); /* the handler */
		cr_assert_eq(rd(amd ? AFROM(0) : FROM), 0x400002u);
		wr(amd ? EXTN : CTL, amd ? 0x40 : 0x7f0007);
		cr_assert_eq(cpu_ctl(), 0u, "frozen, whatever is enabled");
		wr(amd ? 0xc0000302 : 0x390, 1ULL << 58);
		cr_assert_eq(cpu_ctl(), EVERY);
		branches(1, 0x600000);
		cr_assert_eq(rd(amd ? AFROM(0) : FROM), 0x600000u);
		cr_assert_eq(rd(amd ? AFROM(1) : FROM + 1), 0x400002u);
		wr(amd ? 0xc0000303 : 0x391, 1ULL << 58);
		cr_assert_eq(cpu_ctl(), 0u, "software may freeze, too");
	}
}

Test(guest_lbr, switches_and_migration)
{
	start(VPMU_GUEST_INTEL_V5);
	wr(CTL, 0x7f0007);
	for (unsigned int i = 0; i < 64; i++) {
		branches(1, 0x400000 + 16 * i);
		if (i % 3 == 0)
			bed_leave(&b);
		if (i % 7 == 0)
			bed_unplace(&b);
		bed_enter(&b, (int)(i / 2 % 2));
		cr_assert_eq(rd(FROM), 0x400000u + 16 * i);
		cr_assert_eq(rd(FROM + (i < 31 ? i : 31)), 0x400000u + 16 * (i < 31 ? 0 : i - 31));
	}
	bed_unplace(&b);
	cr_assert_eq(rd(FROM), 0x400000u + 16 * 63, "placed nowhere");
	wr(DEPTH, 8);
	cr_assert_eq(rd(FROM), 0u);
	wr(FROM + 1, 5);
	bed_enter(&b, 1);
	branches(1, 0x500000);
	cr_assert_eq(rd(FROM), 0x500000u);
	cr_assert_eq(rd(FROM + 2), 5u);
}

Test(guest_lbr, memory_only_while_used)
{
	start(VPMU_GUEST_INTEL_V5);
	cr_assert(!memory());
	wr(CTL, 0x7f0006);
	wr(DEPTH, 16);
	wr(FROM, 0);
	cr_assert_eq(rd(FROM), 0u);
	cr_assert(!memory(), "nothing was used");
	wr(CTL, 0x7f0007);
	cr_assert(memory());
	wr(CTL, 0);
	cr_assert(!memory(), "disabled, and none was made");
	wr(CTL, 0x7f0007);
	branches(1, 0x400000);
	wr(CTL, 0);
	cr_assert(memory(), "records stay");
	wr(DEPTH, 16);
	cr_assert(!memory(), "disabled and reset");
	wr(CTL, 0x7f0007);
	branches(1, 0x400000);
	vpmu_guest_fini(b.g);
	cr_assert(!memory());
	cr_assert_eq(cpu_ctl(), 0u);
}

/* Old records of another guest's on the same CPU are not seen in this one's. */
Test(guest_lbr, begins_empty)
{
	start(VPMU_GUEST_INTEL_V5);
	for (unsigned int i = 0; i < 32; i++)
		b.sp[0].tally->lbr.e[i] = (struct vpmu_lbr_entry){0xbad, 0xbad, 0xbad};
	b.sp[0].tally->lbr.count = 32;
	wr(CTL, 0x7f0007);
	for (unsigned int i = 0; i < 32; i++)
		cr_assert_eq(rd(FROM + i) | rd(TO + i) | rd(INFO + i), 0u);
}

/* IA32_DEBUGCTL.LBR means nothing on parts with architectural LBR only. */
Test(guest_lbr, debugctl_lbr)
{
	start(VPMU_GUEST_INTEL_V5);
	wr(0x1d9, 1);
	cr_assert_eq(rd(0x1d9), 0u);
	cr_assert_eq(cpu_ctl(), 0u);
	cr_assert(!memory());
}
