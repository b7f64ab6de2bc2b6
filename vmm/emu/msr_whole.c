// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * MSRs of vCPUs that show a whole CPU: those that CPUID and the signature promise to stock kernels.
 * Kernels read some of them at points where they cannot handle a #GP. An MSR that is neither here
 * nor in msr.c does not exist. msr.c calls this file.
 *
 * The paravirtual clock is KVM's (Documentation/virt/kvm/x86/msr.rst): kernels get the TSC
 * frequency and the time of day from it, so they need neither PIT, PM timer nor RTC.
 */
#include <string.h>
#include <time.h>

#include "vmm/emu/internal.h"
#include "vpmu/core/blob_io.h"

/* SDM vol. 4, table 2-2 */
#define MSR_PLATFORM_ID	      0x17u
#define MSR_TSC_ADJUST	      0x3bu
#define MSR_SPEC_CTRL	      0x48u
#define MSR_PRED_CMD	      0x49u
#define MSR_UCODE_REV	      0x8bu /* AMD: PATCH_LEVEL */
#define MSR_ARCH_CAPABILITIES 0x10au
#define MSR_MTRR_CAP	      0xfeu
#define MSR_MCG_CAP	      0x179u
#define MSR_MCG_STATUS	      0x17au
#define MSR_SYSENTER_CS	      0x174u
#define MSR_SYSENTER_ESP      0x175u
#define MSR_SYSENTER_EIP      0x176u
#define MSR_MTRR_DEF_TYPE     0x2ffu
#define MSR_XSS		      0xda0u
/* APM vol. 2, appendix A; linux/arch/x86/include/asm/msr-index.h */
#define MSR_SYSCFG	0xc0010010u
#define MSR_HWCR	0xc0010015u
#define MSR_NB_CFG	0xc001001fu
#define MSR_INT_PENDING 0xc0010055u
#define MSR_MMIO_CONF	0xc0010058u
#define MSR_LS_CFG	0xc0011020u
#define MSR_IC_CFG	0xc0011021u
#define MSR_DC_CFG	0xc0011022u
#define MSR_BU_CFG2	0xc001102au
#define MSR_DE_CFG	0xc0011029u
/* KVM's */
#define MSR_KVM_WALL_CLOCK  0x4b564d00u
#define MSR_KVM_SYSTEM_TIME 0x4b564d01u

/*
 * Machine-check architecture (SDM vol. 3, ch. 16; APM vol. 2, ch. 9): a modelled CPU has no errors
 * to report, so IA32_MCG_CAP has 0 banks of error registers and no other capability, such as
 * IA32_MCG_CTL. IA32_MCG_STATUS has RIPV, EIPV and MCIP.
 */
#define MCG_CAP		0ULL
#define MCG_STATUS_BITS 7ULL

/*
 * Memory types (SDM vol. 3, 12.11; APM vol. 2, 7.7): all memory is alike here. IA32_MTRRCAP has
 * neither variable nor fixed ranges nor write-combining; the default that firmware leaves in
 * IA32_MTRR_DEF_TYPE is write-back.
 */
#define MTRR_CAP	0ULL
#define MTRR_ENABLE	0x800ULL
#define MTRR_WRITE_BACK 6ULL

#define SPEC_CTRL_IBRS	  1ULL
#define PRED_CMD_IBPB	  1ULL
#define HWCR_TSC_FREQ_SEL (1ULL << 24) /* the TSC ticks at P0's frequency */
#define NB_CFG_CF8_EXT	  (1ULL << 46)
#define DE_CFG_LFENCE	  (1ULL << 1) /* LFENCE serialises */

/*
 * IA32_ARCH_CAPABILITIES: an interpreter speculates nothing and has no buffers to leak from.
 * RDCL_NO IBRS_ALL SKIP_L1DFL SSB_NO MDS_NO PSCHANGE_MC_NO TAA_NO SBDR_SSDP_NO FBSDP_NO PSDP_NO
 * BHI_NO PBRSB_NO GDS_NO RFDS_NO ITS_NO (SDM vol. 4, table 2-2; the last one is bit 62)
 */
#define ARCH_CAPABILITIES                                                                          \
	(1ULL << 0 | 1ULL << 1 | 1ULL << 3 | 1ULL << 4 | 1ULL << 5 | 1ULL << 6 | 1ULL << 8 |       \
	 1ULL << 13 | 1ULL << 14 | 1ULL << 15 | 1ULL << 20 | 1ULL << 24 | 1ULL << 26 |             \
	 1ULL << 27 | 1ULL << 62)

/* Microcode revisions as in KVM guests; there is no real one to report. */
#define UCODE_INTEL (1ULL << 32)
#define UCODE_AMD   0x01000065ULL

#define PVCLOCK_ENABLE 1ULL

/* arch/x86/include/asm/pvclock-abi.h */
struct pvclock_time {
	uint32_t version, pad;
	uint64_t tsc_timestamp, system_time;
	uint32_t mul;
	int8_t shift;
	uint8_t flags, pad2[2];
};
struct pvclock_wall {
	uint32_t version, sec, nsec;
};
#define PVCLOCK_TSC_STABLE    1u
#define PVCLOCK_GUEST_STOPPED 2u

/* 1H EDX */
#define CPUID_MTRR 12
#define CPUID_MCA  14

static bool shows(const struct emu_vcpu *v, uint32_t leaf, unsigned int bit)
{
	const struct kvm_cpuid_entry2 *e = emu_cpuid(v, leaf, 0);

	return e && e->edx >> bit & 1;
}

void emu_whole_reset(struct emu_whole *w)
{
	*w = (struct emu_whole){.mtrr_def_type = MTRR_ENABLE | MTRR_WRITE_BACK};
}

/* The type is UC, WT, WP or WB; MTRRs may be enabled or disabled. */
static bool def_type_valid(uint64_t x)
{
	uint64_t type = x & ~MTRR_ENABLE;

	return !type || (type >= 4 && type <= MTRR_WRITE_BACK);
}

/* Store to guest-physical memory. Traps: #GP where there is no RAM, as the MSR is then wrong. */
static int msr_whole_store(struct emu_vcpu *v, uint64_t pa, const void *buf, unsigned int bytes)
{
	uint8_t *at = v->vm->ram + pa;

	if ((pa & EMU_PAGE_MASK) != ((pa + bytes - 1) & EMU_PAGE_MASK) || !emu_is_ram(v->vm, pa))
		return emu_gp(v, 0);
	memcpy(at, buf, bytes);
	emu_code_stored(v->vm, at, bytes);
	return 0;
}

/*
 * The TSC ticks with the VM's clock, so one description holds until the guest sets its TSC. Both
 * values come from one reading of the clock: a vCPU that runs at the same time advances it. The
 * distance between two readings would stay in this vCPU's clock permanently, and a thread that
 * moves to another vCPU would see time go back.
 */
static int pvclock_store(struct emu_vcpu *v, uint64_t msr)
{
	uint64_t tsc = emu_tsc(v);
	struct pvclock_time t = {
		.version = 2,
		.tsc_timestamp = tsc,
		.system_time = tsc - v->tsc_offset,
		.mul = 1u << 31, /* ns = (ticks << 1) * mul >> 32 */
		.shift = 1,
		.flags = PVCLOCK_TSC_STABLE,
	};

	v->extra += EMU_EFFORT_CLOCK;
	_Static_assert(VMM_TSC_HZ == 1000000000ULL, "a tick is 1 ns");
	_Static_assert(sizeof(t) == 32, "the ABI's size");
	return msr_whole_store(v, msr & ~PVCLOCK_ENABLE, &t, sizeof(t));
}

/* Set the flag; the guest clears it after notifying its watchdogs. */
void emu_whole_stopped(struct emu_vcpu *v)
{
	uint64_t pa = (v->w.pvclock & ~PVCLOCK_ENABLE) + offsetof(struct pvclock_time, flags);
	uint8_t *at;

	/* It was RAM when the guest set the MSR, but the value may come from a snapshot. */
	if (!(v->w.pvclock & PVCLOCK_ENABLE) || !emu_is_ram(v->vm, pa))
		return;
	at = v->vm->ram + pa;
	__atomic_fetch_or(at, PVCLOCK_GUEST_STOPPED, __ATOMIC_SEQ_CST);
	emu_code_stored(v->vm, at, 1);
}

/* The time of day at which the VM's clock was 0. */
static int wall_store(struct emu_vcpu *v, uint64_t pa)
{
	uint64_t born = v->vm->born_ns;
	struct pvclock_wall w = {
		.version = 2,
		.sec = (uint32_t)(born / 1000000000u),
		.nsec = (uint32_t)(born % 1000000000u),
	};

	return msr_whole_store(v, pa, &w, sizeof(w));
}

void emu_whole_set_tsc(struct emu_vcpu *v, uint64_t tsc)
{
	uint64_t by = tsc - emu_tsc(v);

	v->extra += EMU_EFFORT_CLOCK;
	/* The write adds the same to IA32_TSC_ADJUST (SDM vol. 3, 18.17.3). */
	v->tsc_offset += by;
	v->w.tsc_adjust += by;
	if (v->chip)
		emu_lapic_deadline(v, NULL);
	if (v->w.pvclock & PVCLOCK_ENABLE)
		pvclock_store(v, v->w.pvclock); /* it was RAM when the guest set the MSR */
	v->trap = EMU_TRAP_NONE;
}

/* An MSR: its value is a member of emu_whole, or a constant for each vendor. */
#define OF_INTEL 1u
#define OF_AMD	 2u
#define OF_BOTH	 (OF_INTEL | OF_AMD)
#define VARIABLE(msr, vendors, leaf, bit, member)                                                  \
	{                                                                                          \
		msr, vendors, leaf, bit, offsetof(struct emu_whole, member), 0, 0                  \
	}
#define CONSTANT(msr, vendors, leaf, bit, intel, amd)                                              \
	{                                                                                          \
		msr, vendors, leaf, bit, SIZE_MAX, intel, amd                                      \
	}
static const struct whole_msr {
	uint32_t msr;
	uint8_t vendors;
	uint8_t leaf, bit; /* it exists if CPUID has this bit of EDX; 0: always */
	size_t member;	   /* SIZE_MAX: constant */
	uint64_t intel, amd;
} whole_msrs[] = {
	VARIABLE(MSR_TSC_ADJUST, OF_BOTH, 0, 0, tsc_adjust),
	CONSTANT(MSR_UCODE_REV, OF_BOTH, 0, 0, UCODE_INTEL, UCODE_AMD),
	VARIABLE(MSR_KVM_WALL_CLOCK, OF_BOTH, 0, 0, pvclock_wall),
	VARIABLE(MSR_KVM_SYSTEM_TIME, OF_BOTH, 0, 0, pvclock),
	CONSTANT(MSR_MTRR_CAP, OF_BOTH, 1, CPUID_MTRR, MTRR_CAP, MTRR_CAP),
	VARIABLE(MSR_MTRR_DEF_TYPE, OF_BOTH, 1, CPUID_MTRR, mtrr_def_type),
	CONSTANT(MSR_MCG_CAP, OF_BOTH, 1, CPUID_MCA, MCG_CAP, MCG_CAP),
	VARIABLE(MSR_MCG_STATUS, OF_BOTH, 1, CPUID_MCA, mcg_status),
	VARIABLE(MSR_SYSENTER_CS, OF_BOTH, 0, 0, sysenter_cs),
	VARIABLE(MSR_SYSENTER_ESP, OF_BOTH, 0, 0, sysenter_esp),
	VARIABLE(MSR_SYSENTER_EIP, OF_BOTH, 0, 0, sysenter_eip),
	CONSTANT(MSR_PLATFORM_ID, OF_INTEL, 0, 0, 0, 0),
	CONSTANT(MSR_XSS, OF_BOTH, 0, 0, 0, 0),
	VARIABLE(MSR_SPEC_CTRL, OF_INTEL, 7, 26, spec_ctrl),
	CONSTANT(MSR_ARCH_CAPABILITIES, OF_INTEL, 7, 29, ARCH_CAPABILITIES, 0),
	CONSTANT(MSR_HWCR, OF_AMD, 0, 0, 0, HWCR_TSC_FREQ_SEL),
	CONSTANT(MSR_NB_CFG, OF_AMD, 0, 0, 0, NB_CFG_CF8_EXT),
	CONSTANT(MSR_DE_CFG, OF_AMD, 0, 0, 0, DE_CFG_LFENCE),
	CONSTANT(MSR_SYSCFG, OF_AMD, 0, 0, 0, 0),
	CONSTANT(MSR_INT_PENDING, OF_AMD, 0, 0, 0, 0),
	CONSTANT(MSR_MMIO_CONF, OF_AMD, 0, 0, 0, 0),
	CONSTANT(MSR_LS_CFG, OF_AMD, 0, 0, 0, 0),
	CONSTANT(MSR_IC_CFG, OF_AMD, 0, 0, 0, 0),
	CONSTANT(MSR_DC_CFG, OF_AMD, 0, 0, 0, 0),
	CONSTANT(MSR_BU_CFG2, OF_AMD, 0, 0, 0, 0),
};

int emu_whole_rdmsr(struct emu_vcpu *v, uint32_t msr, uint64_t *x)
{
	*x = 0;
	for (size_t i = 0; i < sizeof(whole_msrs) / sizeof(whole_msrs[0]); i++) {
		const struct whole_msr *m = &whole_msrs[i];

		if (m->msr != msr)
			continue;
		if (!(m->vendors & (v->intel ? OF_INTEL : OF_AMD)) ||
		    (msr == MSR_XSS && !emu_xss_exists(v)) ||
		    (m->leaf && !shows(v, m->leaf, m->bit)))
			return -1;
		if (m->member == SIZE_MAX)
			*x = v->intel ? m->intel : m->amd;
		else
			memcpy(x, (const char *)&v->w + m->member, sizeof(*x));
		return 0;
	}
	return -1;
}

/* SYSENTER_ESP and SYSENTER_EIP: AMD's CPUs keep 32 bits (Linux, syscall_init()). */
static int set_sysenter(struct emu_vcpu *v, uint64_t *msr, uint64_t x)
{
	if (v->intel && !emu_canonical(x))
		return emu_gp(v, 0);
	*msr = v->intel ? x : (uint32_t)x;
	return 0;
}

int emu_whole_wrmsr(struct emu_vcpu *v, uint32_t msr, uint64_t x)
{
	uint64_t same;

	if (msr == MSR_PRED_CMD) { /* write-only */
		if (!v->intel || !shows(v, 7, 26))
			return -1;
		return x & ~PRED_CMD_IBPB ? emu_gp(v, 0) : 0;
	}
	if (emu_whole_rdmsr(v, msr, &same))
		return -1;
	switch (msr) {
	case MSR_TSC_ADJUST:
		emu_whole_set_tsc(v, emu_tsc(v) + x - v->w.tsc_adjust);
		return 0;
	case MSR_UCODE_REV: /* Intel: software reads the revision by writing 0, then CPUID */
		return v->intel && !x ? 0 : emu_gp(v, 0);
	case MSR_KVM_WALL_CLOCK:
		if (x & 3)
			return emu_gp(v, 0);
		if (wall_store(v, x))
			return 1;
		v->w.pvclock_wall = x;
		return 0;
	case MSR_KVM_SYSTEM_TIME:
		if (x & 2)
			return emu_gp(v, 0);
		if ((x & PVCLOCK_ENABLE) && pvclock_store(v, x))
			return 1;
		v->w.pvclock = x;
		return 0;
	case MSR_SPEC_CTRL:
		if (x & ~SPEC_CTRL_IBRS)
			return emu_gp(v, 0);
		v->w.spec_ctrl = x;
		return 0;
	case MSR_MTRR_DEF_TYPE:
		if (!def_type_valid(x))
			return emu_gp(v, 0);
		v->w.mtrr_def_type = x;
		return 0;
	case MSR_MCG_STATUS:
		if (x & ~MCG_STATUS_BITS)
			return emu_gp(v, 0);
		v->w.mcg_status = x;
		return 0;
	case MSR_SYSENTER_CS:
		v->w.sysenter_cs = (uint32_t)x; /* the rest is unused: SDM vol. 4, table 2-2 */
		return 0;
	case MSR_SYSENTER_ESP:
		return set_sysenter(v, &v->w.sysenter_esp, x);
	case MSR_SYSENTER_EIP:
		return set_sysenter(v, &v->w.sysenter_eip, x);
	case MSR_ARCH_CAPABILITIES:
	case MSR_PLATFORM_ID:
	case MSR_MTRR_CAP:
	case MSR_MCG_CAP:
		return emu_gp(v, 0); /* read-only */
	}
	/* The others are constant: a write that would change one is #GP. */
	return x == same ? 0 : emu_gp(v, 0);
}

/* ---- state ---- */

#define TAG 0x4c4f4857u /* "WHOL" */
#define FORMAT                                                                                     \
	4 /* 3 lacks MTRRs, 2 MCG_STATUS, 1 SYSENTER; snapshots of these formats are refused */

static void whole_io(struct blob_io *io, void *of)
{
	struct emu_whole *w = of;

	IO(w->tsc_adjust), IO(w->spec_ctrl), IO(w->pvclock), IO(w->pvclock_wall);
	IO(w->sysenter_cs), IO(w->sysenter_esp), IO(w->sysenter_eip);
	IO(w->mcg_status), IO(w->mtrr_def_type);
}

void emu_whole_save(const struct emu_whole *w, struct vpmu_blob *b)
{
	blob_save(b, TAG, FORMAT, whole_io, w);
}

bool emu_whole_load(struct emu_whole *w, struct vpmu_blob_reader *all)
{
	/* The clock's page was RAM when the guest set the MSR; msr_whole_store() checks again. */
	return blob_load(all, TAG, FORMAT, whole_io, w) && !(w->spec_ctrl & ~SPEC_CTRL_IBRS) &&
	       !(w->pvclock & 2) && !(w->pvclock_wall & 3) && !(w->sysenter_cs >> 32) &&
	       emu_canonical(w->sysenter_esp) && emu_canonical(w->sysenter_eip) &&
	       !(w->mcg_status & ~MCG_STATUS_BITS) && def_type_valid(w->mtrr_def_type);
}
