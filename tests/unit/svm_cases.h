/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * For tests of SVM: a hypervisor of two instructions (VMRUN, HLT), guests of one instruction, and
 * how they exit.
 */
#ifndef TESTS_UNIT_SVM_CASES_H
#define TESTS_UNIT_SVM_CASES_H

#include "svm_bed.h"

#define NPT 0x110000ULL /* four tables: identity of the first 4 MiB, by 4 KiB from 2 MiB on */

/* test_emu_svm.c has the code. */
extern const uint8_t g_run[], g_run_end[], g_nop[], g_nop_end[], i_int[], i_int_end[], i_ud2[],
	i_ud2_end[];

/* Run the host until its HLT behind VMRUN. */
static inline void run(void)
{
	cr_assert_eq(bed_run_to_hlt(&b), -1, "handler at 0x%llx", b.r.rip);
	cr_assert(!vcpu()->guest);
}

static inline void expect(const char *name, uint64_t code, uint64_t info1, uint64_t rip,
			  unsigned int len)
{
	cr_expect_eq(ctl()->exit_code, code, "%s: exit 0x%lx", name, ctl()->exit_code);
	cr_expect_eq(ctl()->exit_info1, info1, "%s: info1 0x%lx", name, ctl()->exit_info1);
	cr_expect_eq(save()->rip, rip, "%s: rip 0x%lx", name, save()->rip);
	cr_expect_eq(ctl()->next_rip, len ? rip + len : 0, "%s: next rip 0x%lx", name,
		     ctl()->next_rip);
}

/* Two instructions before the one in question, so that its address is not the guest's first. */
#define CASE(name, ...) BED_GUEST(name, "mov $0x340000,%edi\n nop\n" __VA_ARGS__ "\n hlt")
#define AT		(L2 + 6)

#endif
