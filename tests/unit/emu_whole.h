/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A vCPU that shows a whole CPU, for test_emu_legacy. */
#ifndef TESTS_UNIT_EMU_WHOLE_H
#define TESTS_UNIT_EMU_WHOLE_H

#include "tests/unit/emu_bed.h"
#include "vmm/emu/emu.h"

/* Leaf 1 shows FXSR: a whole CPU. */
static inline void whole(struct bed *b, bool intel)
{
	struct kvm_cpuid_entry2 e[3] = {
		{.function = 0, .eax = 7},
		{.function = 1,
		 .eax = 0xa10f11,
		 .edx = 1u << 12 | 1u << 14 | 1u << 24 | 1u << 25 | 1u << 26},
		{.function = 7,
		 .flags = KVM_CPUID_FLAG_SIGNIFCANT_INDEX,
		 .edx = 1u << 26 | 1u << 29},
	};
	const char *name = intel ? "GenuineIntel" : "AuthenticAMD";

	memcpy(&e[0].ebx, name, 4);
	memcpy(&e[0].edx, name + 4, 4);
	memcpy(&e[0].ecx, name + 8, 4);
	cr_assert_eq(o->set_cpuid(b->v, e, 3), 0);
}

#endif
