// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The CPUID table of VMs that boot a stock kernel: a whole CPU, unlike the small table of
 * freestanding images (cpuid.c). It shows the features of the emulator. With an engine's supported
 * table, it shows the intersection of both, and the engine's own leaves. Linux's code that reads
 * the leaves is in arch/x86/kernel/cpu.
 *
 * SDM vol. 2A, CPUID instruction; APM vol. 3, appendix E; Documentation/virt/kvm/x86/cpuid.rst.
 */
#include <linux/kvm_para.h>
#include <string.h>

#include "vmm/engine/simd.h"
#include "vmm/vm/cpuid.h"
#include "vpmu/guest/abi.h"

#define BIT(n) (1u << (n))

/* 1H ECX */
#define F1C_CX16	 BIT(13)
#define F1C_X2APIC	 BIT(21)
#define F1C_POPCNT	 BIT(23)
#define F1C_TSC_DEADLINE BIT(24)
#define F1C_HYPERVISOR	 BIT(31)
/* 1H EDX: FPU PSE TSC MSR PAE CX8 APIC PGE CMOV PAT CLFSH MMX FXSR SSE SSE2 */
#define F1D_ALL                                                                                    \
	(BIT(0) | BIT(3) | BIT(4) | BIT(5) | BIT(6) | BIT(8) | BIT(9) | BIT(13) | BIT(15) |        \
	 BIT(16) | BIT(19) | BIT(23) | BIT(24) | BIT(25) | BIT(26))
/*
 * Machine checks: MCE, MCA. The emulator's CPUs have the global registers and no banks. On KVM, KVM
 * provides the banks, and their registers would have to be in snapshots.
 */
#define F1D_MACHINE_CHECK (BIT(7) | BIT(14))
#define F1D_SEP		  BIT(11)
#define F1D_MTRR	  BIT(12)
#define F1D_HTT		  BIT(28)
/* The 1H EDX bits that AMD repeats in 80000001H EDX */
#define F81D_REPEATED                                                                              \
	(BIT(0) | BIT(3) | BIT(4) | BIT(5) | BIT(6) | BIT(8) | BIT(9) | BIT(13) | BIT(15) |        \
	 BIT(16) | BIT(23) | BIT(24))
#define F81D_ALL (BIT(11) | BIT(20) | BIT(27) | BIT(29)) /* SYSCALL NX RDTSCP LM */
/* 80000001H ECX */
#define F81C_LAHF      BIT(0)
#define F81C_CMPLEGACY BIT(1)
#define F81C_SVM       BIT(2)
#define F81C_LZCNT     BIT(5)
#define F81C_PREFETCHW BIT(8)
/* 7H.0 EBX: FSGSBASE TSC_ADJUST SMEP ERMS */
#define F7B_ALL (BIT(0) | BIT(1) | BIT(7) | BIT(9))
/* 7H.0 EDX */
#define F7D_FSRM      BIT(4)
#define F7D_SPEC_CTRL BIT(26)
#define F7D_ARCH_CAPS BIT(29)
/* 6H EAX: the APIC's timer runs in every sleep state */
#define F6A_ARAT BIT(2)
/* 80000006H ECX: an L2 cache of 512 KiB, 8-way, with lines of 64 bytes; AMD's has a field more,
 * lines per tag. Nothing models it: libraries choose their block sizes by it. */
#define F86C_L2	     (512u << 16 | 6u << 12 | 64)
#define F86C_PER_TAG (1u << 8)
/* 80000007H EDX: invariant TSC */
#define F87D_INVARIANT BIT(8)
/* 80000008H EBX: FXSAVE always stores the error pointers */
#define F88B_XSAVEERPTR BIT(2)
#define F88B_IRPERF	BIT(1) /* instructions retired, whatever the PMU does: for hosts of guests */
#define F88B_SSB_NO	BIT(26)
/* 8000000AH: SVM of the emulator (vmm/emu/svm/svm.h) */
#define SVM_REVISION 1
/* EDX: nested paging, LBR virtualization, SVM lock, NRIP save, flush by ASID, decode assists */
#define SVM_FEATURES (BIT(0) | BIT(1) | BIT(2) | BIT(3) | BIT(6) | BIT(7))
/* 80000021H: properties that every interpreter has (docs/internals/emulator.md, "Stock kernels") */
#define F821A_LFENCE   BIT(2) /* LFENCE serialises */
#define F821A_AUTOIBRS BIT(8)
#define F821A_SRSO_NO  BIT(29)
#define F821C_TSA_NO   (BIT(1) | BIT(2))

/* 40000001H EAX */
#define KVM_FEATURES                                                                               \
	(BIT(KVM_FEATURE_NOP_IO_DELAY) | BIT(KVM_FEATURE_CLOCKSOURCE2) |                           \
	 BIT(KVM_FEATURE_CLOCKSOURCE_STABLE_BIT))

struct table {
	const struct vpmu_guest *guest;
	const struct cpuid_identity *id;
	const struct vmm_cpuid_host *host;
	unsigned int vcpu, nr_vcpus, shift; /* shift: bits of an APIC ID below the package */
	struct kvm_cpuid_entry2 *e;
	size_t n;
};

static bool cpuid_linux_is_intel(const struct table *t)
{
	return t->id->vendor[0] == 'G';
}

/* A CPU of family 10h, which has few of the newer leaves. */
static bool is_k7(const struct table *t)
{
	return t->guest->cfg.model == VPMU_GUEST_AMD_K7;
}

static const struct kvm_cpuid_entry2 *supported(const struct vmm_cpuid_host *h, uint32_t leaf,
						uint32_t sub)
{
	for (size_t i = 0; i < h->nr_supported; i++) {
		const struct kvm_cpuid_entry2 *s = &h->supported[i];

		if (s->function == leaf &&
		    (!(s->flags & KVM_CPUID_FLAG_SIGNIFCANT_INDEX) || s->index == sub))
			return s;
	}
	return NULL;
}

/* Add a leaf; @a to @d are without the PMU's part, which is added here. */
static void cpuid_linux_add(struct table *t, uint32_t leaf, int sub, uint32_t a, uint32_t b,
			    uint32_t c, uint32_t d)
{
	uint32_t regs[4] = {a, b, c, d};

	vpmu_guest_cpuid(t->guest, leaf, sub < 0 ? 0 : (uint32_t)sub, regs);
	if (t->n < VMM_CPUID_MAX)
		t->e[t->n++] = (struct kvm_cpuid_entry2){
			.function = leaf,
			.index = sub < 0 ? 0 : (uint32_t)sub,
			.flags = sub < 0 ? 0 : KVM_CPUID_FLAG_SIGNIFCANT_INDEX,
			.eax = regs[0],
			.ebx = regs[1],
			.ecx = regs[2],
			.edx = regs[3],
		};
}

/* The features of @want that the engine has; all of them without an engine's table. */
static uint32_t common(const struct table *t, uint32_t leaf, uint32_t want, unsigned int reg)
{
	const struct kvm_cpuid_entry2 *s;
	const uint32_t *r;

	if (!t->host->supported)
		return want;
	s = supported(t->host, leaf, 0);
	if (!s)
		return 0;
	r = &s->eax;
	return want & r[reg];
}
enum { EAX, EBX, ECX, EDX };

/* CPUs of family 10h lack XSAVE. Of AVX-512 a model has what the CPU with its signature has:
 * Skylake-SP, Sapphire Rapids. On KVM no model has XSAVE: its leaf 0DH follows XCR0 only in the
 * engine. */
static uint32_t simd(const struct table *t)
{
	uint32_t host = t->host->simd;

	if (t->guest->cfg.model == VPMU_GUEST_INTEL_V4)
		host &= ~(VMM_SIMD_AVX512_ICL | VMM_SIMD_AVX512_BF16);
	else if (t->guest->cfg.model != VPMU_GUEST_INTEL_V5)
		host &= ~VMM_SIMD_ZMM;
	if (t->host->supported)
		host = (common(t, 1, VMM_SIMD_1C, ECX) | common(t, 7, VMM_SIMD_7B, EBX)) &
		       ~(VMM_SIMD_XSAVE | VMM_SIMD_YMM);
	return is_k7(t) ? host & VMM_SIMD_V2 : host;
}

static uint32_t machine_check(const struct table *t)
{
	return t->host->supported ? 0 : F1D_MACHINE_CHECK;
}

static uint32_t max_basic(const struct table *t)
{
	/* 1CH describes architectural LBR, 1FH the topology: real CPUs that have it have both. */
	if (t->guest->cfg.model == VPMU_GUEST_INTEL_V5)
		return 0x1f;
	if (cpuid_linux_is_intel(t))
		return 0x16;
	return is_k7(t) ? 0x7 : 0xd;
}

/* Leaf 0DH with the sizes for XCR0 = 1; the emulator sets those for the XCR0 of the moment. */
static void xsave_leaves(struct table *t)
{
	bool avx = simd(t) & VMM_SIMD_AVX, zmm = simd(t) & VMM_SIMD_AVX512;
	/* Broadwell has XSAVEOPT; Skylake and Zen have XSAVEC, XGETBV with ECX = 1 and XSAVES, too.
	 */
	bool old = t->guest->cfg.model == VPMU_GUEST_INTEL_V2 ||
		   t->guest->cfg.model == VPMU_GUEST_INTEL_V3;

	if (!(simd(t) & VMM_SIMD_XSAVE))
		return;
	cpuid_linux_add(t, 0xd, 0, zmm ? 0xe7 : avx ? 7 : 3, 576, zmm ? 2688 : avx ? 832 : 576, 0);
	cpuid_linux_add(t, 0xd, 1, old ? 1 : 0xf, old ? 0 : 576, 0, 0);
	if (avx)
		cpuid_linux_add(t, 0xd, 2, 256, 576, 0, 0);
	if (!zmm)
		return;
	cpuid_linux_add(t, 0xd, 5, 64, 1088, 0, 0);
	cpuid_linux_add(t, 0xd, 6, 512, 1152, 0, 0);
	cpuid_linux_add(t, 0xd, 7, 1024, 1664, 0, 0);
}

static void topology(struct table *t, uint32_t leaf)
{
	/* One package, one thread in each core: SMT level, core level, end. */
	cpuid_linux_add(t, leaf, 0, 0, 1, 1u << 8, t->vcpu);
	cpuid_linux_add(t, leaf, 1, t->shift, t->nr_vcpus, 1 | 2u << 8, t->vcpu);
	cpuid_linux_add(t, leaf, 2, 0, 0, 2, t->vcpu);
}

static void basic_leaves(struct table *t)
{
	const char *v = t->id->vendor;
	const struct vmm_simd_cpuid shown = vmm_simd_cpuid(simd(t));
	uint32_t khz = t->host->tsc_khz;

	cpuid_linux_add(t, 0, -1, max_basic(t), cpuid_text(v, 0), cpuid_text(v, 8),
			cpuid_text(v, 4));
	cpuid_linux_add(t, 1, -1, t->id->signature,
			8u << 8 | (t->nr_vcpus > 1 ? t->nr_vcpus << 16 : 0) |
				t->vcpu << 24, /* CLFLUSH: 64 */
			common(t, 1, F1C_CX16 | F1C_POPCNT, ECX) | shown.ecx_1 | F1C_X2APIC |
				F1C_TSC_DEADLINE | F1C_HYPERVISOR,
			F1D_ALL | machine_check(t) | common(t, 1, F1D_SEP | F1D_MTRR, EDX) |
				(t->nr_vcpus > 1 ? F1D_HTT : 0));
	if (max_basic(t) >= 6)
		cpuid_linux_add(t, 6, -1, F6A_ARAT, 0, 0, 0);
	cpuid_linux_add(
		t, 7, 0, shown.eax_7_1 ? 1 : 0, common(t, 7, F7B_ALL, EBX) | shown.ebx_7,
		shown.ecx_7,
		common(t, 7,
		       F7D_FSRM | (cpuid_linux_is_intel(t) ? F7D_SPEC_CTRL | F7D_ARCH_CAPS : 0),
		       EDX));
	if (shown.eax_7_1)
		cpuid_linux_add(t, 7, 1, shown.eax_7_1, 0, 0, 0);
	if (cpuid_linux_is_intel(t))
		cpuid_linux_add(t, 0xa, -1, 0, 0, 0, 0);
	if (max_basic(t) >= 0xb)
		topology(t, 0xb);
	xsave_leaves(t);
	if (cpuid_linux_is_intel(t) && khz) {
		/* The crystal is the clock of the APIC's timer: SDM vol. 3, 11.5.4. */
		uint32_t timer = t->host->timer_hz;

		if (timer && khz * 1000ULL % timer == 0)
			cpuid_linux_add(t, 0x15, -1, 1, (uint32_t)(khz * 1000ULL / timer), timer,
					0);
		cpuid_linux_add(t, 0x16, -1, khz / 1000, khz / 1000, timer / 1000000, 0);
	}
	if (max_basic(t) >= 0x1c)
		cpuid_linux_add(t, 0x1c, -1, 0, 0, 0, 0);
	if (max_basic(t) >= 0x1f)
		topology(t, 0x1f);
}

/* KVM's leaves, from the engine or for the emulator's clock (vmm/emu/msr_whole.c), and our own. */
static void hypervisor_leaves(struct table *t)
{
	const struct kvm_cpuid_entry2 *s = supported(t->host, KVM_CPUID_SIGNATURE, 0);
	static const char kvm[13] = "KVMKVMKVM\0\0\0";

	t->e[t->n++] = (struct kvm_cpuid_entry2){
		.function = KVM_CPUID_SIGNATURE,
		.eax = KVM_CPUID_FEATURES,
		.ebx = s ? s->ebx : cpuid_text(kvm, 0),
		.ecx = s ? s->ecx : cpuid_text(kvm, 4),
		.edx = s ? s->edx : cpuid_text(kvm, 8),
	};
	t->e[t->n++] = (struct kvm_cpuid_entry2){
		.function = KVM_CPUID_FEATURES,
		.eax = common(t, KVM_CPUID_FEATURES, KVM_FEATURES, EAX),
	};
	cpuid_linux_add(t, VPMU_PV_CPUID_BESIDE, -1, 0, 0, 0, 0);
	cpuid_linux_add(t, VPMU_PV_CPUID_BESIDE + 1, -1, 0, 0, 0, 0);
}

static void extended_leaves(struct table *t)
{
	bool amd = !cpuid_linux_is_intel(t);
	const char *v = t->id->vendor;
	uint32_t max = amd ? (is_k7(t) ? 0x80000021 : 0x80000022) : 0x80000008;

	cpuid_linux_add(t, 0x80000000, -1, max, amd ? cpuid_text(v, 0) : 0,
			amd ? cpuid_text(v, 8) : 0, amd ? cpuid_text(v, 4) : 0);
	cpuid_linux_add(
		t, 0x80000001, -1, amd ? t->id->signature : 0, 0,
		common(t, 0x80000001, F81C_LAHF | F81C_LZCNT | F81C_PREFETCHW, ECX) |
			(amd && t->nr_vcpus > 1 ? F81C_CMPLEGACY : 0) |
			(amd && t->host->svm ? F81C_SVM : 0),
		common(t, 0x80000001, F81D_ALL, EDX) |
			(amd ? F81D_REPEATED | machine_check(t) | common(t, 1, F1D_MTRR, EDX) : 0));
	for (uint32_t i = 0; i < 3; i++)
		cpuid_linux_add(t, 0x80000002 + i, -1, cpuid_text(cpuid_brand, i * 16),
				cpuid_text(cpuid_brand, i * 16 + 4),
				cpuid_text(cpuid_brand, i * 16 + 8),
				cpuid_text(cpuid_brand, i * 16 + 12));
	cpuid_linux_add(t, 0x80000006, -1, 0, 0, F86C_L2 | (amd ? F86C_PER_TAG : 0), 0);
	cpuid_linux_add(t, 0x80000007, -1, 0, 0, 0, F87D_INVARIANT);
	cpuid_linux_add(t, 0x80000008, -1, CPUID_ADDRESS_BITS,
			amd ? common(t, 0x80000008, F88B_XSAVEERPTR | F88B_SSB_NO, EBX) |
					(t->host->svm ? F88B_IRPERF : 0)
			    : 0,
			amd ? (t->nr_vcpus - 1) | t->shift << 12 : 0, 0);
	if (!amd)
		return;
	if (t->host->svm)
		cpuid_linux_add(t, 0x8000000a, -1, SVM_REVISION, VMM_SVM_ASIDS, 0, SVM_FEATURES);
	cpuid_linux_add(t, 0x80000021, -1,
			common(t, 0x80000021, F821A_LFENCE | F821A_AUTOIBRS | F821A_SRSO_NO, EAX),
			0, common(t, 0x80000021, F821C_TSA_NO, ECX), 0);
	if (!is_k7(t))
		cpuid_linux_add(t, 0x80000022, -1, 0, 0, 0, 0);
}

size_t vmm_cpuid_linux(const struct vpmu_guest *guest, unsigned int vcpu, unsigned int nr_vcpus,
		       const struct vmm_cpuid_host *host, struct kvm_cpuid_entry2 *e)
{
	struct table t = {
		.guest = guest,
		.id = cpuid_identity(guest->cfg.model),
		.host = host,
		.vcpu = vcpu,
		.nr_vcpus = nr_vcpus,
		.e = e,
	};

	while (1u << t.shift < nr_vcpus)
		t.shift++;
	basic_leaves(&t);
	hypervisor_leaves(&t);
	extended_leaves(&t);
	return t.n;
}
