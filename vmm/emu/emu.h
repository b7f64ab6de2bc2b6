/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The emulator: a predecoded-block interpreter for a closed list of x86-64 instructions.
 *
 * This header has the internal structures of one VM and one vCPU; code.h has those of its code.
 * Only the files of this folder and tests include it. Other folders use vmm_emu_ops
 * (vmm/engine/engine.h). docs/internals/emulator.md lists the events it models and counts, and the
 * instructions it refuses.
 *
 * Layout rule: the fields that the dispatch loop touches come first in struct emu_vcpu. A vCPU that
 * gets its time slice after a thousand others then loads few cache lines.
 */
#pragma once

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "vmm/engine/engine.h"
#include "vmm/emu/code.h"
#include "vmm/emu/effort.h"
#include "vmm/emu/fp/fpu.h"
#include "vmm/emu/irqchip/lapic.h"
#include "vpmu/emupmu.h"

/* emu_isa_list - call @fn with the Zydis mnemonic ("add", "rdmsr", ...) of every instruction of
 * the closed list, in no particular order. Stops when @fn returns non-zero and returns that.
 * Any thread. */
int emu_isa_list(int (*fn)(const char *mnemonic, void *arg), void *arg);

#define EMU_PAGE_SHIFT 12
#define EMU_PAGE_SIZE  4096ULL
#define EMU_PAGE_MASK  (~(EMU_PAGE_SIZE - 1))

#define likely(x)   __builtin_expect(!!(x), 1)
#define unlikely(x) __builtin_expect(!!(x), 0)

struct emu_vcpu;
struct emu_chip;

/* ---- memory --------------------------------------------------------------------------------
 * An entry of the software TLB. Each tag is the guest-virtual address of the page for one kind of
 * access, or EMU_TAG_NONE, which matches no access. */
struct emu_tlbe {
	uint64_t rtag; /* loads may use the entry */
	uint64_t wtag; /* stores may: the page is writable, dirty and without decoded code */
	uintptr_t add; /* host address = add + guest-virtual address */
	uint64_t ctag; /* stores may, but they must look for decoded code (emu_code_hit) */
};
#define EMU_TAG_NONE 1ULL

/* The last TLB hit of one access in translated code, with the tag for its kind of access: loads and
 * stores have separate sites. Dropping a TLB entry or a tag drops all sites. */
struct emu_site {
	uint64_t tag;
	uintptr_t add;
	int32_t credit; /* refills left until all sites get new credit */
	uint32_t pad[3];
};
#define EMU_SITE_NONE	0x800ULL /* matches no access: bit 11 of a compared address is 0 */
#define EMU_SITES	128	 /* for each kind of access in each mode */
#define EMU_SITE_CREDIT 64
/* Slots of translated code per vCPU: the translated block itself, and its successors if the branch
 * falls through and if it is taken. */
enum { EMU_SLOT_SELF, EMU_SLOT_FALL, EMU_SLOT_TAKEN, EMU_BLOCK_SLOTS };
#define EMU_SLOTS     (1000 * EMU_BLOCK_SLOTS)
#define EMU_BIG_SLOTS (12000 * EMU_BLOCK_SLOTS)
#define EMU_TLB_BITS  8
#define EMU_TLB_SIZE  (1u << EMU_TLB_BITS)
#define EMU_FILLED    32

/* One guest-physical page: bit N of mask says that the Nth 64-byte piece holds code that some vCPU
 * has decoded; gen is the number of times that such code was overwritten. */
struct emu_page {
	_Atomic uint64_t mask;
	_Atomic uint32_t gen;
};

struct emu_cpage { /* a page with code that this vCPU has decoded */
	uint32_t pfn;
	uint32_t gen; /* emu_page.gen when the code was decoded */
	struct emu_block *blocks;
};

#define EMU_JC_BITS	 10
#define EMU_JC_SIZE	 (1u << EMU_JC_BITS)
#define EMU_HASH_BITS	 8
#define EMU_HASH_SIZE	 (1u << EMU_HASH_BITS)
#define EMU_CPAGES	 256
#define EMU_ARENA_CHUNK	 16384u
#define EMU_ARENA_CHUNKS 32
/* The same for a vCPU of a VM with interrupt controllers whose code once exceeded these limits: a
 * stock kernel and its programs have more code than a freestanding guest. */
#define EMU_BIG_HASH_BITS 15
#define EMU_BIG_CPAGES	  4096
#define EMU_BIG_CHUNKS	  512

struct emu_unsettled { /* see smc.c */
	struct emu_block *block;
	uint32_t epoch;
};
#define EMU_UNSETTLED 16

struct emu_chunk {
	struct emu_chunk *next;
	uint32_t used;
	_Alignas(64) uint8_t mem[];
};

/* 2 MiB of a large page that the page walker has found. A TLB miss inside them needs no walk. */
struct emu_ltlbe {
	uint64_t tag; /* 2 MiB-aligned guest-virtual address, or EMU_TAG_NONE */
	uint64_t pa;
	uint32_t perm; /* permissions combined over the whole walk, as walk() in mmu.c packs them */
	uint32_t ctx;  /* v->map_gen at the walk */
};
#define EMU_LTLB_SIZE 16

/* Where a page of code is, in the mapping and mode of @ctx. */
struct emu_itlbe {
	uint64_t page; /* guest-virtual */
	uint64_t pa;
	uint32_t ctx;
};
#define EMU_ITLB_SIZE 64

/* ---- flags: instructions leave their last result; flags.h computes flags from it on demand ----
 */
enum emu_fk {		      /* fl_kind is this times 4, plus log2 of the operand bytes */
	      EMU_FK_RAW = 0, /* a = the six flags */
	      EMU_FK_SUB,     /* a - b, both sign-extended; logic results are (result, 0) */
	      EMU_FK_ADD,     /* a = result, b = addend, sign-extended */
	      EMU_FK_SBB,     /* as SUB, with a borrow of 1 */
	      EMU_FK_ADC,     /* as ADD, with a carry of 1 */
	      EMU_FK_INC,     /* a = result sign-extended, b = CF */
	      EMU_FK_DEC,
	      EMU_FK_SHL, /* a = result sign-extended, b = CF */
	      EMU_FK_SHR  /* SHR and SAR: a = result sign-extended, b = CF */
};
#define EMU_FK_OVER 0x100u /* in fl_kind: fl_omask and fl_oval replace some of the flags */

/* Why the dispatch loop must be left (v->attn). */
#define EMU_ATTN_EVENT 1u /* an event may be deliverable */
#define EMU_ATTN_ARMED 2u /* alarms are armed: leave after system and REP string instructions */
#define EMU_ATTN_DENSE 4u /* v->density grew: the chunk's limit is out of date */
#define EMU_ATTN_SPENT 8u /* blocks were decoded until v->extra_stop */

/* Why emu_exec() or a helper stopped. */
enum emu_trap {
	EMU_TRAP_NONE = 0,
	EMU_TRAP_FAULT, /* deliver v->fault; the instruction did not retire */
	/* The store hits decoded code, or the access meets a breakpoint or a device: execute this
	 * instruction alone. */
	EMU_TRAP_SMC,
	EMU_TRAP_VMEXIT, /* leave the guest of SVM as v->svm->exit says; as for a fault */
	EMU_TRAP_EXIT,	 /* v->run->exit is filled; the instruction did not retire (yet) */
	EMU_TRAP_STOP,	 /* the chunk ended inside a block */
	EMU_TRAP_KICK,	 /* a repeated string instruction was interrupted between elements */
	EMU_TRAP_DEVICE, /* the access at v->device is outside RAM and may be to a device */
	/* A #DB follows an iteration of a repeated string instruction. */
	EMU_TRAP_STEP,
	EMU_TRAP_NEAR /* the next instruction is in a page with a breakpoint for instructions */
};

enum { EMU_ES, EMU_CS, EMU_SS, EMU_DS, EMU_FS, EMU_GS, EMU_NSEGS };

enum emu_pending_kind {
	EMU_PEND_NONE = 0,
	EMU_PEND_IN,
	EMU_PEND_OUT,
	EMU_PEND_RDMSR,
	EMU_PEND_WRMSR,
	EMU_PEND_RDPMC
};

#define EMU_SMC_LOG 16

struct emu_vm {
	uint8_t *ram;		/* guest-physical X is at ram + X */
	uint64_t low;		/* bytes of the RAM slot at 0, which holds nearly every address */
	struct emu_page *pages; /* indexed by page number; holes between slots have entries too */
	size_t pages_bytes;	/* size of the mapping at pages */
	struct vpmu_msr_range *msrs;
	size_t nr_msrs;
	_Atomic uint32_t smc_seq; /* grows when decoded code is overwritten */
	/* The page of overwrite N (from 0) is in smc_log[N % EMU_SMC_LOG], with N + 1 above it. */
	_Atomic uint64_t smc_log[EMU_SMC_LOG];
	_Atomic uint32_t code_epoch;	/* grows when a page begins to hold decoded code */
	_Atomic uint32_t epoch_settled; /* an epoch that all running vCPUs have seen */
	pthread_mutex_t lock;		/* protects vcpus */
	pthread_mutex_t split_lock;	/* serialises locked accesses that cross a page */
	struct emu_vcpu *vcpus;
	uint64_t born_ns;      /* time of day when the VM was made, for its paravirtual clock */
	struct vmm_ram slots;  /* the ranges of RAM; see emu_is_ram() */
	struct emu_chip *chip; /* interrupt controllers (chip.h); or NULL */
};

#define EMU_JIT_PARTS	4
#define EMU_BIG_PARTS	24 /* see EMU_BIG_CHUNKS */
#define EMU_WARM_BLOCKS 16

#define EMU_CTX_NEVER (~0u) /* a value that no block's ctx ever has */
#define EMU_CTX_NEAR  2u    /* in a page with a breakpoint for instructions: debug.h */
#define EMU_CTX_GEN   2
/* From here on the next look-up drops all blocks, and generations begin anew. */
#define EMU_GEN_LIMIT (0xffffff00u >> EMU_CTX_GEN)

/* Indices of emu_vcpu.last.ip, in the order of the MSRs from 1DBH and of the fields of a VMCB. */
enum { EMU_LAST_FROM, EMU_LAST_TO, EMU_LAST_INT_FROM, EMU_LAST_INT_TO, EMU_NR_LAST };

struct emu_vcpu {
	uint64_t r[EMU_NREGS + 1];
	uint64_t fl_a, fl_b;
	uint32_t fl_omask, fl_oval; /* with EMU_FK_OVER: flags in fl_omask are as in fl_oval */
	uint32_t fl_kind;	    /* enum emu_fk * 4 + log2 of the operand bytes */
	uint32_t ctx;		    /* generation << EMU_CTX_GEN | EMU_CTX_NEAR | (CPL == 3) */
	uint32_t tctx;		    /* ctx that a taken branch's target must have: see lbr.h */
	uint32_t lbr_sel;     /* branches recorded in this mode: VPMU_LBR_* types and CALL_STACK */
	struct emu_tlbe *tlb; /* TLB of the current privilege level */
	struct emu_block *cur;
	/* Instructions left in this chunk, now and at the last fold, as EMU_LEFT_SHIFT says. */
	int64_t left, left0;
	uint64_t acc;	/* packed events that emu_fold() has not taken yet */
	uint64_t extra; /* effort beyond instructions since the vCPU was created; never reset */
	uint64_t extra_stop; /* leave the dispatch loop soon once extra reaches this */
	uint64_t rip;
	uint32_t trap; /* enum emu_trap */
	uint32_t attn; /* EMU_ATTN_*: leave the dispatch loop at the next block boundary */
	uint8_t cpl;
	bool step;   /* TF: a debug trap follows the instruction in progress */
	bool single; /* one instruction executes alone: EMU_TRAP_SMC */
	bool sti_shadow;
	bool nmi_masked;
	/* SVM (svm/svm.h): a guest runs; interrupts and NMIs wait for STGI; a virtual interrupt of
	 * the guest waits; its memory has nested page tables. */
	bool guest, gif_clear, virq, npt;
	uint64_t rflags; /* without the six arithmetic flags: emu_get_rflags() has all */

	/* events */
	struct vpmu_emu_tally *tally;
	uint64_t retired; /* instructions retired in this run() */
	uint64_t cycles;  /* all cycles of this vCPU since it was created: its modelled clock */
	uint64_t clock;	  /* vpmu_emu_clock() at the last fold */
	uint32_t lbr_ctl; /* tally->lbr.ctl at the start of run() if it has EN, else 0 */
	uint64_t extra_cycles; /* cycles since the last fold that no op's ev holds */
	/* The most cycles per instruction of any decoded block, a taken branch included. */
	uint32_t density;
	/* Added to loads and stores at the next fold. A repeated string instruction with RCX = 0
	 * accesses nothing, so it subtracts here the accesses in its ev. */
	int64_t adj_loads, adj_stores;

	struct {			/* translated code: jit.c */
		uint64_t sums[2];	/* acc and quarters while it runs */
		int64_t quarters;	/* effort of translated instructions beyond one unit each */
		int64_t quarters_begin; /* the same when run() began */
		struct emu_block *block; /* the block where it was left */
		uint32_t ax;		 /* the flags, on entry and exit */
		uint32_t used;		 /* bytes of code in all its parts */
		uint32_t forgot;	 /* times that its code was dropped for lack of space */
		struct emu_site (*sites)[EMU_SITES][2]; /* [user][number][store]; NULL: no code */
		struct emu_site (*sites_now)[2];	/* those of the current mode */
		uint32_t nr_sites[2];			/* accesses with a site: loads, stores */
		int64_t credit_at[2];	  /* quarters at which the sites of a mode get new credit */
		bool sites_used;	  /* a site may be filled */
		struct emu_block **slots; /* EMU_SLOTS slots, with sites; or big */
		struct emu_block **big;	  /* EMU_BIG_SLOTS slots; NULL: its code is small */
		uint32_t nr_slots;
		uint32_t at; /* end of this vCPU's code in the last of its parts */
		uint16_t parts[EMU_BIG_PARTS]; /* the parts it holds: jit_part.c */
		uint32_t sse;		       /* jit_simd.c: enum jit_sse */
		uint32_t fp_runs;
		uint8_t nr_parts;
	} jit;

	struct { /* memory that the next run() touches first: warm.c */
		const struct emu_block *block;
		const void *stack; /* host address of RSP; NULL: unknown */
		const struct emu_block *recent[EMU_WARM_BLOCKS]; /* left by translated code */
		uint16_t recent_jc[EMU_WARM_BLOCKS];		 /* their indices in jc */
	} warm;

	/* Where the last chunk stopped inside a block. If nothing has happened since, the next one
	 * goes on at op @op of @block, which avoids decoding the rest as a separate block. */
	struct {
		struct emu_block *block; /* NULL: nowhere */
		uint64_t rip;
		unsigned int op;
	} rest;

	/* read at every run() and chunk */
	struct emu_block **link; /* emu_find() stores the block it finds there; or NULL */
	struct vmm_run *run;
	struct emu_vm *vm;
	struct emu_chip *chip; /* of vm */
	_Atomic bool kicked;
	_Atomic bool running;
	_Atomic uint32_t epoch_seen;
	uint32_t smc_seen;
	bool intr_pending, nmi_pending; /* queued: by the local APIC (irq.c) or by the caller */
	uint8_t intr_vec;
	/* Generations of the mapping, of user code and of kernel code; last_gen: the newest. */
	uint32_t map_gen, kernel_gen, last_gen;
	uint32_t nr_cpages, nr_chunks, nr_unsettled;
	uint32_t hash_mask, max_cpages, max_chunks;
	struct {
		enum emu_pending_kind kind;
		uint64_t rip, next;
		uint8_t ev;
		uint8_t size;
	} pending;		    /* the exit that the caller answers before the next run() */
	struct {		    /* hardware breakpoints: debug.h; bit N is breakpoint N */
		uint8_t code, data; /* those that DR7 enables, for instructions and for data */
		uint8_t hits;	    /* hit by the instruction in progress, not in DR6 yet */
		bool near;	    /* RIP is in a page with a breakpoint for instructions */
		bool ss_shadow; /* sti_shadow comes from MOV SS, which holds off debug traps, too */
		bool quiet;	/* accesses hit no breakpoint, e.g. while an event is delivered */
	} brk;
	bool halted;	      /* HLT has retired, and no event has woken the vCPU since */
	uint64_t extra_begin; /* v->extra when run() began */
	uint64_t cr0, cr3, cr4, cr8, efer;
	struct kvm_segment seg[EMU_NSEGS], tr, ldt;
	struct kvm_dtable gdt, idt;

	/* the fault to deliver after EMU_TRAP_FAULT */
	struct {
		uint8_t vec;
		bool has_err;
		bool canon; /* the address was not canonical: #SS if the stack segment was used */
		uint32_t err;
		uint64_t cr2; /* of a #PF: becomes CR2 when it is delivered */
	} fault;
	uint64_t cr2;

	/* copy of an operand for emu_rmw_slow(): the operand crosses a page, or its page holds
	 * decoded code */
	struct {
		uint8_t buf[32];
		uint8_t *host[2];
		uint16_t n[2];
	} bounce;

	struct emu_fpu fpu;
	uint32_t host_mxcsr; /* the thread's own MXCSR during run() */

	/* system state */
	uint64_t star, lstar, cstar, fmask, kernel_gs_base, apic_base, pat, tsc_aux;
	uint64_t tsc_offset;
	uint64_t guest_tsc;  /* what RDTSC adds in a guest of SVM; else 0 */
	struct emu_svm *svm; /* NULL: CPUID does not show SVM */
	struct emu_last {    /* AMD: the record of the last branch (lbr.h) */
		uint64_t ip[EMU_NR_LAST];
		bool on; /* DebugCtl.LBR */
	} last;
	uint64_t dr[8];

	struct lapic lapic;

	/* With interrupt controllers only: chip.h. */
	struct {
		/* Used by the thread that runs the vCPU: */
		uint64_t ahead;	      /* its own time is this plus cycles */
		uint64_t timer_due;   /* lapic_timer_due() */
		uint64_t stop_cycles; /* v->cycles when the next timer is due */
		bool wait_sipi;	      /* waiting for its start-up IPI */
		/* Posted by other threads: */
		_Atomic bool posted_any; /* one of the following is not 0 */
		_Atomic uint32_t posted[8], posted_level[8];
		_Atomic uint32_t signals; /* EMU_POST_* */
		_Atomic uint64_t address; /* lapic_address(); 0: the APIC is disabled */
		/* Under chip.lock; asleep is read without it: */
		_Atomic bool asleep;
		bool sleep_open;    /* interrupts would wake it */
		uint64_t sleep_due; /* when its timer wakes it, or LAPIC_NEVER */
	} plat;
	uint64_t device; /* guest-physical address, with EMU_TRAP_DEVICE */

	struct kvm_cpuid_entry2 *cpuid;
	size_t nr_cpuid;
	/* CPUID shows a whole CPU, for stock kernels (vmm/vm/cpuid_linux.c): the MSRs of
	 * msr_whole.c exist, and an x86-64 instruction that the emulator lacks raises a fault. */
	bool whole;
	struct emu_whole {
		uint64_t tsc_adjust, spec_ctrl;
		uint64_t pvclock, pvclock_wall; /* KVM's MSRs 4B564D01H and 4B564D00H */
		uint64_t sysenter_cs, sysenter_esp, sysenter_eip;
		uint64_t mcg_status, mtrr_def_type;
	} w;
	bool intel;	/* CPUID reports GenuineIntel; every other vCPU behaves like AMD's CPUs */
	bool la57;	/* in CPUID */
	uint32_t simd;	/* VMM_SIMD_*: what CPUID shows if whole, else what the host has of
			   VMM_SIMD_ALL */
	uint32_t xsave; /* EMU_XSAVE_*: CPUID.(0DH,1).EAX */
	struct vpmu_emu_tally own_tally;
	struct emu_vcpu *vm_next;
	unsigned int id;

	/* caches */
	/* For INVLPG. Since the last full flush: hashed sets of the 2 MiB regions with a large
	 * page, and whether a 1 GiB page was seen. Since map_gen grew: the pages and regions in
	 * which blocks were found. */
	uint64_t large_seen, code_seen, large_code_seen;
	bool huge_seen;
	/* Code outside of CPL 3, found since kernel_gen grew: regions of global pages in the upper
	 * half of the addresses; whether there was other code. */
	uint64_t kernel_seen;
	bool kernel_local;
	uint16_t filled[EMU_FILLED]; /* TLB entries filled since then, while they are few */
	uint16_t nr_filled;	     /* more than EMU_FILLED: any may be */
	struct emu_chunk *arena, *arena_free;
	struct emu_unsettled unsettled[EMU_UNSETTLED];
	struct emu_ltlbe ltlb[EMU_LTLB_SIZE];
	struct emu_itlbe itlb[EMU_ITLB_SIZE];
	struct emu_block *jc[EMU_JC_SIZE]; /* blocks by rip: emu_find() looks here first */
	struct emu_block **hash;	   /* all blocks by guest-physical address */
	struct emu_cpage *cpages;
	/* By page number modulo max_cpages, and by index: one more than the index of the first
	 * and the next of cpages; 0: none. */
	uint16_t *cpage_first, *cpage_next;
	void *big; /* memory of these four; NULL: they are in little */
	struct {
		struct emu_block *hash[EMU_HASH_SIZE];
		struct emu_cpage cpages[EMU_CPAGES];
		uint16_t cpage_first[EMU_CPAGES], cpage_next[EMU_CPAGES];
	} little;
	struct emu_tlbe (*tlbs)[EMU_TLB_SIZE]; /* supervisor, user: own_tlbs, or a guest's */
	struct emu_tlbe own_tlbs[2][EMU_TLB_SIZE];
};
