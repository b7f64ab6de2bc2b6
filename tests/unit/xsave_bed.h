/* SPDX-License-Identifier: GPL-2.0-or-later */
/* One instruction of XSAVE's family on the emulator: test_emu_xsave.c, test_emu_zmm.c. */
#pragma once

#include "emu_bed.h"
#include "vmm/emu/internal.h"

#define NONE	 (-1)
#define OSXSAVE	 (1ull << 18)
#define TS	 8ull
#define AREA	 (BED_DATA + 0x40)
#define COMPACT	 (1ull << 63)
#define XSAVE	 0x0f, 0xae, 0x27
#define XRSTOR	 0x0f, 0xae, 0x2f
#define XSAVEOPT 0x0f, 0xae, 0x37
#define XSAVEC	 0x0f, 0xc7, 0x27
#define XSAVES	 0x0f, 0xc7, 0x2f
#define XRSTORS	 0x0f, 0xc7, 0x1f
#define XGETBV	 0x0f, 0x01, 0xd0
#define XSETBV	 0x0f, 0x01, 0xd1

/* Load 3 bytes of code and a HLT, with RDI = @at, the mask, ECX = 0; XCR0 = 7. */
static inline void load(const uint8_t insn[3], bool user, uint64_t at, uint64_t mask)
{
	const uint8_t code[] = {insn[0], insn[1], insn[2], 0xf4};

	bed_load(&b, code, code + sizeof(code), user);
	vcpu()->cr4 |= OSXSAVE;
	vcpu()->fpu.xcr0 = 7;
	b.r.rdi = at;
	BED_REGS(&b, .rax = (uint32_t)mask, .rdx = mask >> 32);
}

/* Execute it: the vector of its fault, or NONE. */
static inline int outcome(void)
{
	int vector = bed_run_to_hlt(&b);
	bool code = vector == 13 || vector == 14;

	if (vector >= 0 && bed_stack(&b, code) == BED_CODE + 3)
		return NONE; /* HLT in CPL 3 */
	if (vector >= 0)
		cr_assert_eq(bed_stack(&b, code), BED_CODE);
	return vector;
}

/* load() and outcome(). */
#define OUTCOME(at, mask, ...) (load((const uint8_t[]){__VA_ARGS__}, false, at, mask), outcome())

static inline void begin(bool intel)
{
	static const uint8_t hlt[] = {0xf4};

	bed_start(&b, hlt, hlt + 1, false);
	bed_intel(&b, intel);
}

static inline void area_fill(void)
{
	memset(b.ram + AREA, 0xa5, 1024);
	memset(b.ram + AREA + 512, 0, 64);
	*(uint32_t *)(b.ram + AREA + 24) = 0x1f80;
}

static inline void cpuid(uint32_t leaf, uint32_t sub, uint32_t out[4])
{
	const uint8_t insn[] = {0x0f, 0xa2, 0x90};
	uint64_t xcr0 = vcpu()->fpu.xcr0, cr4 = vcpu()->cr4;

	load(insn, false, 0, leaf);
	vcpu()->fpu.xcr0 = xcr0;
	vcpu()->cr4 = cr4;
	BED_REGS(&b, .rcx = sub);
	cr_assert_eq(bed_run_to_hlt(&b), NONE);
	out[0] = (uint32_t)b.r.rax;
	out[1] = (uint32_t)b.r.rbx;
	out[2] = (uint32_t)b.r.rcx;
	out[3] = (uint32_t)b.r.rdx;
}
