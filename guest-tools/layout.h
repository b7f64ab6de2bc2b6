/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The guest's address space and the calls between its kernel (CPL0: start.S, kernel.c) and the
 * tools (CPL3: everything else). Included by C and assembly.
 *
 * The image is identity-mapped where the loader put it. Each vCPU has a slab of RAM behind it and
 * page tables of its own in the slab, so that everything that belongs to one vCPU - its kernel
 * data, the tools' variables, stack and scratch memory - has the same virtual address on all of
 * them: no locks, no per-vCPU indexing, and a vCPU cannot touch another one's memory.
 *
 *	virtual			what				access
 *	200000H..		image: kernel code, constants	supervisor
 *				tools' code, constants		user, read only
 *				tools' variables		user, this vCPU's copy
 *	400000H			struct percpu			supervisor
 *	402000H..404000H	kernel stack			supervisor
 *	405000H..406000H	stack of #DF and NMI		supervisor
 *	600000H..602000H	struct guest_info		user, read only
 *	604000H..608000H	stack of the tools		user
 *	800000H..		scratch memory of workloads	user
 *
 * Pages between those are not mapped: they end a stack overflow.
 */
#ifndef GUEST_TOOLS_LAYOUT_H
#define GUEST_TOOLS_LAYOUT_H

#define GUEST_PAGE 0x1000

#define KCPU_VA	       0x400000
#define KSTACK_VA      0x402000
#define KSTACK_PAGES   2
#define KSTACK_TOP     0x404000
#define KSTACK2_VA     0x405000
#define KSTACK2_TOP    0x406000
#define UINFO_VA       0x600000
#define UINFO_PAGES    2
#define USTACK_VA      0x604000
#define USTACK_PAGES   4
#define USTACK_TOP     0x608000
#define UMEM_VA	       0x800000
#define UMEM_MAX_PAGES 4096 /* 16 MiB: page tables are built in interpreted CPL0 on some hosts */

/* A slab, in pages: where its parts lie before they are mapped. */
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
#define SLAB_REST      16 /* page tables of the scratch memory, copies of the variables, scratch */
#define SLAB_MIN_PAGES 48

#define SEL_KCODE  0x08
#define SEL_KDATA  0x10
#define SEL_SYSRET 0x18 /* SYSRET takes SS from this + 8 and CS from this + 16 */
#define SEL_UDATA  0x23
#define SEL_UCODE  0x2b
#define SEL_TSS	   0x30

/* struct percpu, as start.S sees it (checked in kernel.c) */
#define PERCPU_USER_RSP 0
#define PERCPU_RUN_RIP	8
#define PERCPU_RUN_MSR	16

/* struct guest_run, likewise */
#define RUN_FN	   0
#define RUN_N	   8
#define RUN_MEM	   16
#define RUN_BYTES  24
#define RUN_CALL   32
#define RUN_ENABLE 40
#define RUN_MSR	   48
#define RUN_FAULT  52

/*
 * System calls: number in RAX, arguments in RDI, RSI, RDX, result in RAX. All registers that the
 * C calling convention lets a function clobber may be clobbered.
 */
#define SYS_NULL  0 /* returns RDI */
#define SYS_RUN	  1 /* struct guest_run: enable, call, disable; returns the function's result */
#define SYS_EXIT  2 /* status: ends this vCPU */
#define SYS_WRITE 3 /* buffer, bytes: to the serial port */
#define SYS_PMU	  4 /* struct guest_op array, how many */
#define SYS_CATCH 5 /* RIP, RSP: the next fault in CPL3 goes on there; 0 = ends this vCPU */

#ifndef __ASSEMBLER__
#include <stdint.h>

#include "vpmu/guest/abi.h"

/* What a tool knows of its vCPU; read only. */
struct guest_info {
	uint32_t vcpu;
	uint32_t nr_vcpus;
	void *mem; /* scratch memory of workloads */
	uint64_t mem_bytes;
	char args[VPMU_BOOT_ARGS_MAX + 1];
};

/* SYS_RUN. One write of @enable to MSR @msr comes right before, one write of 0 right after. */
struct guest_run {
	uint64_t (*fn)(uint64_t n, void *mem, uint64_t mem_bytes, uint64_t (*call)(uint64_t));
	uint64_t n;
	void *mem;
	uint64_t mem_bytes;
	uint64_t (*call)(uint64_t);
	uint64_t enable;
	uint32_t msr;	/* 0: no PMU use */
	uint32_t fault; /* out: the write was #GP, nothing was run */
};

/* SYS_PMU: what only the kernel may do, many at once. */
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
#endif

#endif
