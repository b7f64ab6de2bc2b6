// SPDX-License-Identifier: GPL-2.0-or-later
/* The state of vCPUs that show a whole CPU: extensions, MSRs, descriptors. A part of
 * test_emu_legacy. */
#include <errno.h>

#include "tests/unit/emu_bed.h"
#include "vmm/emu/emu.h"

TestSuite(emu_whole, .fini = bed_end);

BED_GUEST(guest_avx512, "vaddps %zmm0, %zmm0, %zmm0\nhlt\n");
BED_GUEST(guest_rdrand, "rdrand %eax\nhlt\n");
BED_GUEST(guest_sysenter, "sysenter\nhlt\n");
BED_GUEST(guest_outsb, "outsb\nhlt\n");

Test(emu_whole, extensions_that_cpuid_does_not_show_are_ud)
{
	static const struct {
		const uint8_t *code, *end;
		bool user;
		int vec; /* with a whole CPU; -2: an error */
	} rows[] = {
		{guest_avx512, guest_avx512_end, true, 6},
		{guest_avx512, guest_avx512_end, false, 6},
		{guest_rdrand, guest_rdrand_end, false, 6},
		{guest_sysenter, guest_sysenter_end, false, 6},
		{guest_outsb, guest_outsb_end, true, 6},
		{guest_outsb, guest_outsb_end, false, -2},
	};

	for (unsigned int i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		bed_start(&b, rows[i].code, rows[i].end, rows[i].user);
		cr_assert_eq(bed_run(&b, 10), VMM_EXIT_ERROR, "row %u", i);
		bed_start(&b, rows[i].code, rows[i].end, rows[i].user);
		bed_whole(b.v, false);
		if (rows[i].vec == -2)
			cr_assert_eq(bed_run(&b, 10), VMM_EXIT_ERROR, "row %u", i);
		else
			cr_assert_eq(bed_run_to_hlt(&b), rows[i].vec, "row %u", i);
	}
}

BED_GUEST(guest_rdmsr, "rdmsr\nhlt\n");
BED_GUEST(guest_wrmsr, "wrmsr\nhlt\n");

/* A vCPU that is about to read or write an MSR. */
static void start(bool write)
{
	if (write)
		BED_START(&b, guest_wrmsr, false);
	else
		BED_START(&b, guest_rdmsr, false);
}

Test(emu_whole, msrs_of_a_whole_cpu)
{
	static const struct {
		uint32_t msr;
		bool intel, write;
		uint64_t value;
		bool fault;
	} rows[] = {
		{0x8b, true, false, 1ULL << 32, false},
		{0x8b, false, false, 0x1000065, false},
		{0x8b, true, true, 0, false},
		{0x8b, false, true, 0, true},
		{0x48, true, true, 1, false},
		{0x48, true, true, 2, true},
		{0x49, true, true, 1, false},
		{0x49, true, true, 3, true},
		{0x10a, true, true, 0, true},
		{0x174, true, true, 0x1234, false},
		{0x175, true, true, 1ULL << 47, true},
		{0x176, true, true, 0xffff800012345678, false},
		{0x176, false, true, 1ULL << 47, false},
		/* No bank of error registers; RIPV, EIPV and MCIP. */
		{0x179, true, false, 0, false},
		{0x179, false, false, 0, false},
		{0x179, true, true, 0, true},
		{0x17a, false, false, 0, false},
		{0x17a, true, true, 7, false},
		{0x17a, false, true, 8, true},
		{0x17a, true, true, 1ULL << 63, true},
		/* MTRRs: no ranges, write-back for all. */
		{0xfe, true, false, 0, false},
		{0xfe, false, true, 0, true},
		{0x2ff, true, false, 0x806, false},
		{0x2ff, false, false, 0x806, false},
		{0x2ff, true, true, 0, false},
		{0x2ff, false, true, 0x805, false},
		{0x2ff, true, true, 0x802, true},  /* no memory type */
		{0x2ff, true, true, 0x807, true},  /* UC- is for IA32_PAT only */
		{0x2ff, false, true, 0xc06, true}, /* no fixed ranges */
		{0x2ff, false, true, 1ULL << 32, true},
		{0xc0010015, false, false, 1 << 24, false},
		{0xc0010015, false, true, 1 << 24, false},
		{0xc0010015, false, true, 0, true},
		{0xc0011029, false, false, 2, false},
		{0x4b564d01, false, true, BED_DATA | 2, true},
		{0x4b564d01, false, true, 1ULL << 40 | 1, true},
		{0x4b564d01, false, true, (BED_RAM - 16) | 1, true}, /* crosses the end */
		{0x4b564d01, false, true, BED_DATA | 1, false},
		{0x4b564d00, false, true, BED_DATA + 0x40, false},
		{0x4b564d00, true, true, 1ULL << 50, true},
	};

	for (unsigned int i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		int vec;

		start(rows[i].write);
		bed_whole(b.v, rows[i].intel);
		BED_REGS(&b, .rcx = rows[i].msr, .rax = rows[i].write ? (uint32_t)rows[i].value : 0,
			 .rdx = rows[i].write ? rows[i].value >> 32 : 0);
		vec = bed_run_to_hlt(&b);
		cr_assert_eq(vec, rows[i].fault ? 13 : -1, "row %u: vector %d", i, vec);
		if (!rows[i].write)
			cr_assert_eq((uint32_t)b.r.rax | b.r.rdx << 32, rows[i].value,
				     "row %u: 0x%llx", i, b.r.rax);
		if (rows[i].msr == 0x4b564d01 && !rows[i].fault) {
			/* 1 GHz: ns = (ticks << 1) * 2^31 / 2^32; the TSC is stable. */
			cr_assert_eq(*bed_u64(&b, BED_DATA + 24), 0x101ULL << 32 | 0x80000000u);
			cr_assert_eq(*bed_u64(&b, BED_DATA + 8), *bed_u64(&b, BED_DATA + 16));
		}
	}
}

/* Registers of machine checks and MTRRs that CPUID, IA32_MCG_CAP or IA32_MTRRCAP does not show do
 * not exist: the caller answers with #GP. */
Test(emu_whole, msrs_that_are_not_there)
{
	static const uint32_t msrs[] = {0x17b, 0x400, 0x47f, 0x200, 0x250,
					0x26f, 0x179, 0x17a, 0xfe,  0x2ff};
	struct kvm_cpuid_entry2 none = {.function = 1, .edx = 1u << 24 | 1u << 25 | 1u << 26};

	for (unsigned int i = 0; i < 2 * sizeof(msrs) / sizeof(msrs[0]); i++) {
		bool shown = i / 2 < 6;

		start(i % 2);
		if (shown)
			bed_whole(b.v, true);
		else
			cr_assert_eq(o->set_cpuid(b.v, &none, 1), 0);
		BED_REGS(&b, .rcx = msrs[i / 2]);
		cr_assert_eq(bed_run(&b, 10), i % 2 ? VMM_EXIT_WRMSR : VMM_EXIT_RDMSR, "%#x",
			     msrs[i / 2]);
		cr_assert_eq(b.run.u.msr.index, msrs[i / 2]);
	}
}

/* @b gets the state of @a, which has written an MSR, and reads @value there. */
static void is_restored(const struct bed *a, struct bed *b, uint32_t value)
{
	bed_copy(a, b);
	b->r.rax = 0;
	BED_REGS(b, .rip = BED_CODE); /* out of HLT */
	cr_assert_eq(bed_run_to_hlt(b), -1);
	cr_assert_eq(b->r.rax, value);
}

/* The guest's values are there again in a vCPU that is restored; a damaged state changes nothing.
 */
Test(emu_whole, state_of_a_whole_cpu)
{
	/* Damaged ones: the bits of this byte, from the end, are not those that are saved. */
	static const struct {
		unsigned int from_end;
		uint8_t bits;
		const char *what;
	} damage[] = {{56, 2, "the lowest byte of pvclock"},
		      {17, 0x40, "SYSENTER_EIP is not canonical"},
		      {16, 8, "MCG_STATUS has a reserved bit"},
		      {8, 1, "the default type of memory is none"}};
	static uint8_t buf[BED_STATE];
	struct bed a, b;
	size_t n;

	BED_START(&a, guest_wrmsr, false);
	bed_whole(a.v, true);
	BED_REGS(&a, .rcx = 0x4b564d01, .rax = BED_DATA | 1);
	cr_assert_eq(bed_run_to_hlt(&a), -1);
	n = bed_state(&a, buf);

	BED_START(&b, guest_rdmsr, false);
	cr_assert_eq(o->set_state(b.v, buf, n), -EINVAL, "a vCPU that shows no whole CPU");
	bed_whole(b.v, true);
	cr_assert_eq(o->set_state(b.v, buf, n - 1), -EINVAL);
	for (size_t i = 0; i < sizeof(damage) / sizeof(damage[0]); i++) {
		buf[n - damage[i].from_end] ^= damage[i].bits;
		cr_assert_eq(o->set_state(b.v, buf, n), -EINVAL, "%s", damage[i].what);
		buf[n - damage[i].from_end] ^= damage[i].bits;
	}
	is_restored(&a, &b, BED_DATA | 1);
	/* The section is a header of 12 bytes and 9 numbers. Version 3 had 8. */
	buf[n - 72 - 12 + 4] = 5;
	cr_assert_eq(o->set_state(b.v, buf, n), -EINVAL);
	buf[n - 72 - 12 + 4] = 3;
	buf[n - 72 - 12 + 8] -= 8;
	cr_assert_eq(o->set_state(b.v, buf, n - 8), -EINVAL);
	bed_stop(&a);
	bed_stop(&b);
}

static void is_kept(uint32_t msr, uint32_t value)
{
	struct bed a, b;

	BED_START(&a, guest_wrmsr, false);
	bed_whole(a.v, false);
	BED_REGS(&a, .rcx = msr, .rax = value);
	cr_assert_eq(bed_run_to_hlt(&a), -1);

	BED_START(&b, guest_rdmsr, false);
	bed_whole(b.v, false);
	is_restored(&a, &b, value);
	bed_stop(&a);
	bed_stop(&b);
}

Test(emu_whole, msrs_that_are_kept)
{
	is_kept(0x17a, 5);
	is_kept(0x2ff, 0x800);
}

BED_GUEST(guest_descriptors,
	  "mov $0x10, %ecx\nlar %ecx, %eax\nsetz %bl\n"	    /* data, DPL 0 */
	  "mov $0x20, %ecx\nlsl %ecx, %edx\nsetz %bh\n"	    /* data, DPL 3 */
	  "mov $0x23, %ecx\nverw %cx\nsetz %r8b\n"	    /* writable */
	  "mov $0x2b, %ecx\nverw %cx\nsetz %r9b\n"	    /* code: not writable */
	  "verr %cx\nsetz %r10b\n"			    /* readable */
	  "xor %ecx, %ecx\nverr %cx\nsetz %r11b\n"	    /* null */
	  "mov $0x1000, %ecx\nlsl %ecx, %esi\nsetz %r12b\n" /* beyond the table */
	  "mov $0x30, %ecx\nlar %ecx, %r13d\nsetz %r14b\n"  /* TSS */
	  "smsw %r15\nhlt\n");

Test(emu_whole, descriptors_are_looked_up)
{
	cr_assert_eq(BED_VECTOR(&b, guest_descriptors, false), -1);
	cr_assert_eq(b.r.rax, 0xcf9300);
	cr_assert_eq(b.r.rdx, 0xffffffff);
	cr_assert_eq(b.r.rbx & 0xffff, 0x101);
	cr_assert_eq(b.r.r8 & 0xff, 1);
	cr_assert_eq(b.r.r9 & 0xff, 0);
	cr_assert_eq(b.r.r10 & 0xff, 1);
	cr_assert_eq(b.r.r11 & 0xff, 0);
	cr_assert_eq(b.r.r12 & 0xff, 0);
	cr_assert_eq(b.r.rsi, 0);
	cr_assert_eq(b.r.r13 & 0xff00, 0x8900);
	cr_assert_eq(b.r.r14 & 0xff, 1);
	cr_assert_eq(b.r.r15, 0x80010033);
}
