// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * CPUID leaves: SDM vol. 2A, CPUID instruction; APM vol. 3, appendix E.
 */
#include <string.h>

#include "vmm/engine/ram.h"
#include "vmm/vm/cpuid.h"
#include "vpmu/guest/abi.h"

/* 1H EDX and, for the bits both have, 80000001H EDX. */
#define F_PSE  (1u << 3)
#define F_TSC  (1u << 4)
#define F_MSR  (1u << 5)
#define F_PAE  (1u << 6)
#define F_CX8  (1u << 8)
#define F_APIC (1u << 9)
#define F_PGE  (1u << 13)
#define F_CMOV (1u << 15)
/* 80000001H EDX only */
#define F_SYSCALL (1u << 11)
#define F_NX	  (1u << 20)
#define F_LM	  (1u << 29)
/* 1H ECX */
#define F_X2APIC     (1u << 21)
#define F_POPCNT     (1u << 23)
#define F_HYPERVISOR (1u << 31)
/* 80000001H ECX */
#define F_LAHF (1u << 0)

#define FEATURES_EDX (F_PSE | F_TSC | F_MSR | F_PAE | F_CX8 | F_PGE | F_CMOV)

_Static_assert(VMM_RAM_MAX + (1ULL << 30) <= 1ULL << 39, "RAM and the hole can be addressed");

/*
 * Vendor and signature (1H EAX). Guests choose the driver for the PMU by the signature, so each
 * model has the signature of a CPU with that PMU, if there is one:
 *
 *   intel-v2, -v3  406F1H  Broadwell-EP, version 3. CPUs of version 2 (Core 2) lack the raw events
 *                          D0/81, D0/82 and C4/20 that the models translate; they came with Sandy
 *                          Bridge. KVM also shows version 2 with signatures of newer CPUs.
 *   intel-v4       50654H  Skylake-SP, version 4
 *   intel-v5       806F8H  Sapphire Rapids, version 5 with architectural LBR. For Ice Lake, also
 *                          version 5, Linux expects LBR that is not architectural, and finds none.
 *   amd-k7         100F42H family 10h, the last one without PERFCTR_CORE
 *   amd-core       A00F11H Zen 3: PERFCTR_CORE without PerfMonV2
 *   amd-v2, none   A10F11H Zen 4: PerfMonV2 with LbrExtV2
 *
 * Linux probes LBR that is not architectural on Broadwell and Skylake. Its first read is #GP, and
 * Linux does without it.
 */
static const struct cpuid_identity identities[VPMU_GUEST_MODELS] = {
	[VPMU_GUEST_NONE] = {"AuthenticAMD", 0x00a10f11, 0x7},
	[VPMU_GUEST_INTEL_V2] = {"GenuineIntel", 0x000406f1, 0xa},
	[VPMU_GUEST_INTEL_V3] = {"GenuineIntel", 0x000406f1, 0xa},
	[VPMU_GUEST_INTEL_V4] = {"GenuineIntel", 0x00050654, 0xa},
	[VPMU_GUEST_INTEL_V5] = {"GenuineIntel", 0x000806f8, 0xa},
	[VPMU_GUEST_AMD_K7] = {"AuthenticAMD", 0x00100f42, 0x7},
	[VPMU_GUEST_AMD_CORE] = {"AuthenticAMD", 0x00a00f11, 0x7},
	[VPMU_GUEST_AMD_V2] = {"AuthenticAMD", 0x00a10f11, 0x7},
};

const struct cpuid_identity *cpuid_identity(enum vpmu_guest_model model)
{
	return &identities[model];
}

const char cpuid_brand[48] = "vpmu virtual CPU";

uint32_t cpuid_text(const char *text, size_t offset)
{
	uint32_t v;

	memcpy(&v, text + offset, sizeof(v));
	return v;
}

/* The table without the PMU. Returns false if there is no such leaf. regs = EAX, EBX, ECX, EDX. */
static bool base_leaf(const struct cpuid_identity *id, uint32_t leaf, unsigned int vcpu,
		      uint32_t regs[4])
{
	memset(regs, 0, 4 * sizeof(*regs));
	switch (leaf) {
	case 0:
		regs[0] = id->max_basic;
		break;
	case 1:
		regs[0] = id->signature;
		regs[1] = vcpu << 24; /* initial APIC id */
		regs[2] = F_POPCNT | F_HYPERVISOR;
		regs[3] = FEATURES_EDX;
		return true;
	case VPMU_PV_CPUID_BASE:
	case VPMU_PV_CPUID_BASE + 1:
		return true; /* the PMU's */
	case 0x80000000:
		regs[0] = 0x80000022;
		break;
	case 0x80000001:
		regs[2] = F_LAHF;
		regs[3] = F_SYSCALL | F_NX | F_LM;
		if (id->vendor[0] == 'A') {
			/* AMD repeats the signature and the 1H EDX bits here. */
			regs[0] = id->signature;
			regs[3] |= FEATURES_EDX;
		}
		return true;
	case 0x80000002:
	case 0x80000003:
	case 0x80000004:
		for (size_t i = 0; i < 4; i++)
			regs[i] = cpuid_text(cpuid_brand, (leaf - 0x80000002) * 16 + i * 4);
		return true;
	case 0x80000008:
		regs[0] = CPUID_ADDRESS_BITS;
		return true;
	case 0x7:
	case 0xa:
	case 0x1c:
	case 0x80000022:
		return true; /* the PMU's */
	default:
		return false;
	}
	/* 0H and 80000000H: the vendor, in EBX, EDX, ECX. */
	if (leaf == 0 || id->vendor[0] == 'A') {
		regs[1] = cpuid_text(id->vendor, 0);
		regs[3] = cpuid_text(id->vendor, 4);
		regs[2] = cpuid_text(id->vendor, 8);
	}
	return true;
}

size_t vmm_cpuid(const struct vpmu_guest *guest, unsigned int vcpu, bool lapic,
		 struct kvm_cpuid_entry2 *e)
{
	static const uint32_t leaves[] = {
		0,
		1,
		7,
		0xa,
		0x1c,
		VPMU_PV_CPUID_BASE,
		VPMU_PV_CPUID_BASE + 1,
		0x80000000,
		0x80000001,
		0x80000002,
		0x80000003,
		0x80000004,
		0x80000008,
		0x80000022,
	};
	const struct cpuid_identity *id = cpuid_identity(guest->cfg.model);
	size_t n = 0;

	_Static_assert(sizeof(leaves) / sizeof(leaves[0]) <= VMM_CPUID_MAX, "table size");
	for (size_t i = 0; i < sizeof(leaves) / sizeof(leaves[0]); i++) {
		uint32_t regs[4];

		if (!base_leaf(id, leaves[i], vcpu, regs))
			continue;
		if (lapic && leaves[i] == 1) {
			regs[2] |= F_X2APIC;
			regs[3] |= F_APIC;
		}
		if (lapic && leaves[i] == 0x80000001 && id->vendor[0] == 'A')
			regs[3] |= F_APIC;
		vpmu_guest_cpuid(guest, leaves[i], 0, regs);
		e[n++] = (struct kvm_cpuid_entry2){
			.function = leaves[i],
			/* 7H has sub-leaf 0 only. */
			.flags = leaves[i] == 7 ? KVM_CPUID_FLAG_SIGNIFCANT_INDEX : 0,
			.eax = regs[0],
			.ebx = regs[1],
			.ecx = regs[2],
			.edx = regs[3],
		};
	}
	return n;
}
