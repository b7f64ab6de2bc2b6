/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A hypervisor for unit tests on the VM of emu_bed.h: host() is its code, whose RAX has the VMCB;
 * guest() fills that VMCB for a guest that shares the host's page tables, GDT and IDT.
 */
#ifndef TESTS_UNIT_SVM_BED_H
#define TESTS_UNIT_SVM_BED_H

#include "emu_bed.h"
#include "vmm/emu/svm/svm.h"

#define VMCB   0x100000ULL
#define IOPM   0x104000ULL
#define MSRPM  0x108000ULL
#define L2     0x220000ULL
#define L2_RSP 0x1f0000ULL
#define SVME   (1ULL << 12)

#define IF 0x200ULL

static inline struct vmcb_control *ctl(void)
{
	return (struct vmcb_control *)(b.ram + VMCB);
}

static inline struct vmcb_save *save(void)
{
	return (struct vmcb_save *)(b.ram + VMCB + VMCB_SAVE);
}

/* The host: EFER.SVME is set, RAX has the VMCB. */
static inline void host(const uint8_t *code, const uint8_t *end, uint64_t rflags)
{
	bed_load(&b, code, end, false);
	BED_SREGS(&b, s.efer |= SVME);
	BED_REGS(&b, .rax = VMCB, .rflags = 2 | rflags);
}

/* A guest in 64-bit mode at CPL 0 that shares page tables, GDT and IDT with the host. HLT and what
 * must be intercepted are. */
static inline void guest(const uint8_t *code, const uint8_t *end)
{
	const struct vmcb_seg data = {.selector = BED_SS0, .attrib = 0xc93, .limit = ~0u};

	memset(b.ram + VMCB, 0, 4096);
	ctl()->iopm = IOPM;
	ctl()->msrpm = MSRPM;
	ctl()->asid = 1;
	ctl()->icpt[0] = 1u << (VMEXIT_HLT - VMEXIT_INTR);
	ctl()->icpt[1] = 1;
	*save() = (struct vmcb_save){
		.es = data,
		.cs = {.selector = BED_CS0, .attrib = 0xa9b, .limit = ~0u},
		.ss = data,
		.ds = data,
		.gdtr = {.base = BED_GDT, .limit = 0x3f},
		.idtr = {.base = BED_IDT, .limit = 0xfff},
		.efer = SVME | 0xd01,
		.cr4 = 0x20,
		.cr3 = BED_PML4,
		.cr0 = 0x80010033,
		.dr7 = 0x400,
		.dr6 = 0xffff0ff0,
		.rflags = 2,
		.rip = L2,
		.rsp = L2_RSP,
		.rax = 0x1122334455667788,
		.g_pat = 0x0007040600070406,
	};
	bed_put(&b, L2, code, end);
}

/* The code of both. */
#define WORLDS(of_host, rflags, of_guest)                                                          \
	(host(of_host, of_host##_end, rflags), guest(of_guest, of_guest##_end))

static inline void start(void)
{
	static const uint8_t nothing[] = {0xf4};
	const struct kvm_cpuid_entry2 cpuid[] = {
		{.function = 0x80000000, .eax = 0x8000000a},
		{.function = 0x80000001, .ecx = 1u << 2},
		{.function = 0x80000008, .eax = 40},
	};

	bed_start(&b, nothing, nothing + sizeof(nothing), false);
	cr_assert_eq(o->set_cpuid(b.v, cpuid, 3), 0);
}

#endif
