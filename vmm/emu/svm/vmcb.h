/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The virtual machine control block of AMD's SVM, as it lies in memory: APM vol. 2, appendix B
 * (layout) and C (exit codes). Only the files of this folder and tests include it.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct vmcb_control {
	uint16_t cr_read, cr_write, dr_read, dr_write; /* intercepts, by number */
	uint32_t exceptions;			       /* by vector */
	uint32_t icpt[2]; /* bit n of both as one number is exit code 60H + n */
	uint32_t icpt3;
	uint8_t r1[0x3c - 0x18];
	uint16_t pause_threshold, pause_count;
	uint64_t iopm, msrpm;
	uint64_t tsc_offset;
	uint32_t asid;
	uint8_t tlb_control, r2[3];
	uint32_t int_ctl, int_vector;
	uint64_t int_state;
	uint64_t exit_code, exit_info1, exit_info2;
	uint64_t exit_int_info;
	uint64_t nested_ctl;
	uint8_t r3[0xa8 - 0x98];
	uint64_t event_inj;
	uint64_t ncr3;
	uint64_t virt_ext;
	uint32_t clean, r4;
	uint64_t next_rip;
	uint8_t insn_bytes_fetched, insn_bytes[15];
};

struct vmcb_seg {
	uint16_t selector, attrib;
	uint32_t limit;
	uint64_t base;
};

#define VMCB_SAVE 0x400 /* where the state of the guest begins */

struct vmcb_save {
	struct vmcb_seg es, cs, ss, ds, fs, gs, gdtr, ldtr, idtr, tr;
	uint8_t r1[0xcb - 0xa0];
	uint8_t cpl;
	uint8_t r2[4];
	uint64_t efer;
	uint8_t r3[0x148 - 0xd8];
	uint64_t cr4, cr3, cr0, dr7, dr6, rflags, rip;
	uint8_t r4[0x1d8 - 0x180];
	uint64_t rsp;
	uint8_t r5[0x1f8 - 0x1e0];
	uint64_t rax, star, lstar, cstar, sfmask, kernel_gs_base;
	uint64_t sysenter_cs, sysenter_esp, sysenter_eip, cr2;
	uint8_t r6[0x268 - 0x248];
	uint64_t g_pat;
	uint64_t dbgctl, last[4]; /* BR_FROM, BR_TO, LASTEXCPFROM, LASTEXCPTO */
};

_Static_assert(offsetof(struct vmcb_control, iopm) == 0x40, "VMCB");
_Static_assert(offsetof(struct vmcb_control, int_ctl) == 0x60, "VMCB");
_Static_assert(offsetof(struct vmcb_control, exit_int_info) == 0x88, "VMCB");
_Static_assert(offsetof(struct vmcb_control, event_inj) == 0xa8, "VMCB");
_Static_assert(offsetof(struct vmcb_control, next_rip) == 0xc8, "VMCB");
_Static_assert(sizeof(struct vmcb_control) == 0xe0, "VMCB");
_Static_assert(offsetof(struct vmcb_save, efer) == 0xd0, "VMCB");
_Static_assert(offsetof(struct vmcb_save, cr4) == 0x148, "VMCB");
_Static_assert(offsetof(struct vmcb_save, rsp) == 0x1d8, "VMCB");
_Static_assert(offsetof(struct vmcb_save, rax) == 0x1f8, "VMCB");
_Static_assert(offsetof(struct vmcb_save, cr2) == 0x240, "VMCB");
_Static_assert(offsetof(struct vmcb_save, g_pat) == 0x268, "VMCB");
_Static_assert(offsetof(struct vmcb_save, dbgctl) == 0x270, "VMCB");

/* int_ctl */
#define VMCB_V_TPR	    0xffu
#define VMCB_V_IRQ	    (1u << 8)
#define VMCB_V_PRIO_SHIFT   16
#define VMCB_V_IGN_TPR	    (1u << 20)
#define VMCB_V_INTR_MASKING (1u << 24)
/* int_state */
#define VMCB_SHADOW 1ULL
/* nested_ctl */
#define VMCB_NP_ENABLE 1ULL
/* virt_ext */
#define VMCB_LBR_VIRT 1ULL
/* event_inj, exit_int_info */
#define VMCB_EVENT_VECTOR  0xffu
#define VMCB_EVENT_TYPE(x) ((unsigned int)((x) >> 8 & 7))
#define VMCB_EVENT_ERROR   (1ULL << 11) /* the upper half is an error code */
#define VMCB_EVENT_VALID   (1ULL << 31)
enum { VMCB_TYPE_INTR = 0, VMCB_TYPE_NMI = 2, VMCB_TYPE_EXCEPTION = 3, VMCB_TYPE_SOFT = 4 };
/* tlb_control */
enum { VMCB_FLUSH_NONE = 0, VMCB_FLUSH_ALL = 1, VMCB_FLUSH_ASID = 3, VMCB_FLUSH_LOCAL = 7 };

/* Exit codes. Those of intercepts in icpt[] are 60H plus the bit. */
#define VMEXIT_CR_READ	0x00u
#define VMEXIT_CR_WRITE 0x10u
#define VMEXIT_DR_READ	0x20u
#define VMEXIT_DR_WRITE 0x30u
#define VMEXIT_EXCP	0x40u
#define VMEXIT_NPF	0x400u
#define VMEXIT_INVALID	(~0ULL)
enum vmexit_bit { /* in icpt[] */
		  VMEXIT_INTR = 0x60,
		  VMEXIT_NMI,
		  VMEXIT_SMI,
		  VMEXIT_INIT,
		  VMEXIT_VINTR,
		  VMEXIT_CR0_SEL_WRITE,
		  VMEXIT_IDTR_READ,
		  VMEXIT_GDTR_READ,
		  VMEXIT_LDTR_READ,
		  VMEXIT_TR_READ,
		  VMEXIT_IDTR_WRITE,
		  VMEXIT_GDTR_WRITE,
		  VMEXIT_LDTR_WRITE,
		  VMEXIT_TR_WRITE,
		  VMEXIT_RDTSC,
		  VMEXIT_RDPMC,
		  VMEXIT_PUSHF,
		  VMEXIT_POPF,
		  VMEXIT_CPUID,
		  VMEXIT_RSM,
		  VMEXIT_IRET,
		  VMEXIT_SWINT,
		  VMEXIT_INVD,
		  VMEXIT_PAUSE,
		  VMEXIT_HLT,
		  VMEXIT_INVLPG,
		  VMEXIT_INVLPGA,
		  VMEXIT_IOIO,
		  VMEXIT_MSR,
		  VMEXIT_TASK_SWITCH,
		  VMEXIT_FERR_FREEZE,
		  VMEXIT_SHUTDOWN,
		  VMEXIT_VMRUN,
		  VMEXIT_VMMCALL,
		  VMEXIT_VMLOAD,
		  VMEXIT_VMSAVE,
		  VMEXIT_STGI,
		  VMEXIT_CLGI,
		  VMEXIT_SKINIT,
		  VMEXIT_RDTSCP,
		  VMEXIT_ICEBP,
		  VMEXIT_WBINVD,
		  VMEXIT_XSETBV = 0x8d
};
