/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The guest's address space, and the system calls between its kernel (CPL0: start.S, kernel.c,
 * kernel_pmi.c) and the tools (CPL3: everything else). Both C and assembly include this file.
 *
 * The image is identity-mapped where the loader put it. Each vCPU has a slab of RAM behind the
 * image, with page tables of its own. So everything that belongs to one vCPU (kernel data, the
 * tools' variables, stack, scratch memory) has the same virtual address on every vCPU. No locks and
 * no per-vCPU indexes are needed, and a vCPU cannot touch another vCPU's memory.
 *
 *	virtual			what				access
 *	200000H..		image: kernel code, constants	supervisor
 *				tools' code, constants		user, read only
 *				tools' variables		user, this vCPU's copy
 *	400000H			struct percpu			supervisor
 *	402000H..404000H	kernel stack			supervisor
 *	405000H..406000H	stack of #DF and NMI		supervisor
 *	408000H			IDT				supervisor
 *	409000H..40C000H	executable page and its tables	supervisor (SYS_EXEC writes here)
 *	600000H..602000H	struct guest_info		user, read only
 *	604000H..608000H	stack of the tools		user
 *	800000H..		scratch memory of workloads	user
 *	10000000H..3FFFFFFFH	one page of code (SYS_EXEC)	user, read only
 *
 * Pages between these are not mapped, so a stack overflow faults.
 */
#pragma once

#define GUEST_PAGE 0x1000

#define KCPU_VA	       0x400000
#define KSTACK_VA      0x402000
#define KSTACK_PAGES   2
#define KSTACK_TOP     0x404000
#define KSTACK2_VA     0x405000
#define KSTACK2_TOP    0x406000
#define KIDT_VA	       0x408000
#define KEXEC_VA       0x409000 /* the executable page, as the kernel writes it */
#define KEXEC_PT_VA    0x40a000 /* its page table */
#define KPD_VA	       0x40b000
#define UINFO_VA       0x600000
#define UINFO_PAGES    2
#define USTACK_VA      0x604000
#define USTACK_PAGES   4
#define USTACK_TOP     0x608000
#define UMEM_VA	       0x800000
#define UMEM_MAX_PAGES 4096 /* 16 MiB: page tables are built in interpreted CPL0 on some hosts */
/* SYS_EXEC can map its page anywhere in this range, so each VM's copy can have its own address. */
#define UEXEC_MIN 0x10000000
#define UEXEC_MAX 0x3ffff000

/* Offsets of the parts of a slab, in pages. */
#define SLAB_KCPU      0
#define SLAB_KSTACK    1
#define SLAB_KSTACK2   3
#define SLAB_PML4      4
#define SLAB_PDPT      5
#define SLAB_PD	       6
#define SLAB_PT_IMG    7
#define SLAB_PT_KCPU   8
#define SLAB_PT_USER   9
#define SLAB_UINFO     10
#define SLAB_USTACK    12
#define SLAB_IDT       16
#define SLAB_EXEC      17
#define SLAB_PT_EXEC   18
#define SLAB_REST      19 /* copy of the variables, page tables of the scratch memory, scratch */
#define SLAB_MIN_PAGES 48

#define SEL_KCODE  0x08
#define SEL_KDATA  0x10
#define SEL_SYSRET 0x18 /* SYSRET takes SS from this + 8 and CS from this + 16 */
#define SEL_UDATA  0x23
#define SEL_UCODE  0x2b
#define SEL_TSS	   0x30

/* Offsets in struct percpu for start.S; kernel.c checks them. */
#define PERCPU_USER_RSP	 0
#define PERCPU_RUN_RIP	 8
#define PERCPU_RUN_MSR	 16
#define PERCPU_RUN_RSP	 24
#define PERCPU_RUN_FLAGS 32
#define PERCPU_RUN	 40
#define PERCPU_RUN_NR	 48

/* Offsets in struct guest_run, in the same way. */
#define RUN_FN	   0
#define RUN_N	   8
#define RUN_MEM	   16
#define RUN_BYTES  24
#define RUN_CALL   32
#define RUN_ENABLE 40
#define RUN_MSR	   48
#define RUN_FAULT  52
#define RUN_WRITES 56
#define RUN_NR	   64

/* Offsets in struct guest_write, in the same way. */
#define WRITE_MSR   0
#define WRITE_ON    8
#define WRITE_OFF   16
#define WRITE_BYTES 24

/*
 * System calls: number in RAX, arguments in RDI, RSI, RDX, result in RAX. A call may clobber all
 * registers that a function may clobber by the C calling convention.
 */
#define SYS_NULL  0 /* returns RDI */
#define SYS_RUN	  1 /* struct guest_run: enable, call, disable; returns the function's result */
#define SYS_EXIT  2 /* status: ends this vCPU */
#define SYS_WRITE 3 /* buffer, bytes: to the serial port */
#define SYS_PMU	  4 /* array of struct guest_op, number of them */
#define SYS_CATCH 5 /* RIP, RSP: where CPL3 continues after a fault; 0: a fault ends the vCPU */
#define SYS_PMI	  6 /* struct guest_pmi, used until the next call; 0: none */
#define SYS_EXEC  7 /* source, bytes (at most a page), address: map an executable copy there */

#ifndef __ASSEMBLER__
#include <stdint.h>

#include "vpmu/guest/abi.h"

/* Information for the tools of one vCPU. Read-only for them. */
struct guest_info {
	uint32_t vcpu;
	uint32_t nr_vcpus;
	void *mem; /* scratch memory of workloads */
	uint64_t mem_bytes;
	char args[VPMU_BOOT_ARGS_MAX + 1];
};

/* One write that starts and stops a counter, for PMUs without a global control register. */
struct guest_write {
	uint32_t msr;
	uint32_t zero;
	uint64_t on, off;
};

/*
 * SYS_RUN calls @fn in CPL3 between two sets of writes. The kernel writes @enable to MSR @msr
 * directly before the call, and 0 directly after it. If @msr is 0, it writes @on of all @writes,
 * one after the other, before the call, and @off of all, in the same order, after it. So for each
 * of them the kernel executes the same number of instructions between on and off.
 */
struct guest_run {
	uint64_t (*fn)(uint64_t n, void *mem, uint64_t mem_bytes, uint64_t (*call)(uint64_t));
	uint64_t n;
	void *mem;
	uint64_t mem_bytes;
	uint64_t (*call)(uint64_t);
	uint64_t enable;
	uint32_t msr;	/* 0: use @writes */
	uint32_t fault; /* out: 1 if a write was #GP; @fn was not called, earlier writes took effect
			 */
	const struct guest_write *writes;
	uint32_t nr_writes; /* 0: the PMU is not used */
};

/* SYS_PMU executes an array of operations that only the kernel may do. */
enum guest_op_kind { GUEST_RDMSR, GUEST_WRMSR, GUEST_RDPMC, GUEST_CPUID };

struct guest_op {
	uint32_t kind;
	uint32_t index; /* MSR, counter of RDPMC, CPUID leaf */
	uint32_t sub;	/* CPUID subleaf */
	uint32_t fault; /* out: #GP (or #UD) */
	union {
		uint64_t value;
		uint32_t regs[4]; /* EAX EBX ECX EDX */
	};
};

/* ---- PMIs (kernel_pmi.c) ----------------------------------------------------------------- */

#define GUEST_VEC_PMI	   0x30 /* fixed delivery */
#define GUEST_VEC_SPURIOUS 0x3f /* vector that the tools write to SVR */

enum guest_pmi_delivery { GUEST_PMI_NMI, GUEST_PMI_VECTOR };

/* How the handler finds and acknowledges the cause of a PMI. */
enum guest_pmi_status {
	GUEST_STATUS_NONE, /* AMD without PerfMonV2: check if the counter has wrapped */
	GUEST_STATUS_INTEL,
	GUEST_STATUS_AMD, /* PerfMonV2 */
};

/*
 * SYS_PMI: the kernel's actions at a PMI, and its results. The struct is in the tool's memory. The
 * kernel checks the addresses once and writes the last part at every PMI. If @delivery is
 * GUEST_PMI_VECTOR, external interrupts are on while a function runs by SYS_RUN.
 */
struct guest_pmi {
	uint32_t delivery; /* enum guest_pmi_delivery: written to LVTPC now and at each PMI */
	uint32_t status;   /* enum guest_pmi_status */
	/* The sampled counter. ctr 0: none; PMIs are only counted and acknowledged. */
	uint32_t
		ctl; /* MSR: the handler clears the bits @ctl_off while it runs, to stop counting */
	uint32_t ctr;	     /* MSR */
	uint32_t status_bit; /* its bit in the status register */
	uint32_t width;	     /* bits */
	uint64_t ctl_off;
	uint64_t period;
	/* Branch records: MSR of the first FROM and TO, distance to the next pair. */
	uint32_t lbr_from, lbr_to, lbr_stride, lbr_nr; /* lbr_nr 0: do not read any */
	uint32_t keep_lvtpc; /* the tool sets LVTPC itself: the handler only clears the mask bit */
	uint32_t stack_nr;   /* largest number of stack words that are copied into a sample */
	uint32_t sample_bytes; /* sizeof(struct guest_sample) + 8 * (stack_nr + 2 * lbr_nr) */
	uint64_t max;	       /* samples that fit at @buf */
	unsigned char *buf;

	/* out */
	uint64_t pmis;	  /* PMIs received */
	uint64_t samples; /* samples stored at @buf */
	uint64_t early; /* overflows acknowledged with another PMI; on AMD their PMI still comes */
	uint64_t no_cause;    /* PMIs without an overflowed counter */
	uint64_t overruns;    /* periods that ended before the previous PMI was handled */
	uint64_t status_seen; /* all status bits seen, ORed */
	uint64_t interrupts;  /* vectors that are neither an exception nor GUEST_VEC_PMI */
};

/* One sample. It is followed by uint64_t stack[stack_nr] and {from, to}[lbr_nr]. */
struct guest_sample {
	uint64_t ip, rsp, status;
	uint64_t r8, rdi; /* registers of the interrupted code */
	uint32_t cs;
	uint16_t nr_stack; /* words from RSP up to the RSP at SYS_RUN, limited to stack_nr */
	uint16_t nr_lbr;   /* records that are not zero, the newest first */
};
#endif
