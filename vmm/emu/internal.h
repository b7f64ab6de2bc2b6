/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The functions that the files of the emulator offer each other. No other folder includes
 * this header. Only the thread that runs the vCPU may call these functions, unless noted
 * otherwise. "Traps" means: the function may return non-zero (or NULL) with v->trap set; then no
 * architectural state has changed.
 */
#pragma once

#include "vmm/emu/cpu/flags.h"
#include "vmm/emu/emu.h"
#include "vmm/emu/memory.h"

/* Bits that several files use. CR0: SDM vol. 3, 2.5. CR4_WRITABLE has VME PVI TSD DE PSE PAE MCE
 * PGE PCE OSFXSR OSXMMEXCPT FSGSBASE SMEP, and emu_cr4_writable() may add OSXSAVE; the emulator
 * lacks the rest (LA57, PCID, SMAP, UMIP, keys): #GP, as on CPUs without them. EFER_AIBRSE (APM
 * vol. 2, 3.1.7) has no effect: nothing is speculated. */
#define CR0_PE	     (1ULL << 0)
#define CR0_TS	     (1ULL << 3)
#define CR0_ET	     (1ULL << 4)
#define CR0_NW	     (1ULL << 29)
#define CR0_CD	     (1ULL << 30)
#define CR0_PG	     (1ULL << 31)
#define CR0_WRITABLE 0xe005003fULL
#define CR4_PAE	     (1ULL << 5)
#define CR4_PGE	     (1ULL << 7)
#define CR4_OSFXSR   (1ULL << 9)
#define CR4_OSXSAVE  (1ULL << 18)
#define CR4_WRITABLE 0x1107ffULL
#define EFER_LME     (1ULL << 8)
#define EFER_LMA     (1ULL << 10)
#define EFER_NXE     (1ULL << 11)
#define EFER_SVME    (1ULL << 12)
#define EFER_AIBRSE  (1ULL << 21)
#define MSR_EFER     0xc0000080u
#define MSR_DEBUGCTL 0x1d9u
#define DEBUGCTL_LBR 1ULL
#define APIC_BASE_EN (1ULL << 11)
#define INSN_MAX     15u

/* Vectors. */
enum {
	EMU_DE = 0,
	EMU_DB = 1,
	EMU_NMI = 2,
	EMU_BP = 3,
	EMU_UD = 6,
	EMU_NM = 7,
	EMU_DOUBLE = 8,
	EMU_TS = 10,
	EMU_NP = 11,
	EMU_STACK = 12,
	EMU_GP = 13,
	EMU_PF_VEC = 14,
	EMU_MF = 16,
	EMU_MC = 18,
	EMU_XM = 19
};

/* Register operands. @reg of a byte register is its byte offset in the register file, so that AH
 * needs no special case. @reg of a wider register is its number. */
static inline uint64_t emu_rd(const struct emu_vcpu *v, unsigned int reg, unsigned int bytes)
{
	if (bytes == 1)
		return ((const uint8_t *)v->r)[reg];
	return bytes == 8 ? v->r[reg] : bytes == 4 ? (uint32_t)v->r[reg] : (uint16_t)v->r[reg];
}

static inline void emu_wr(struct emu_vcpu *v, unsigned int reg, unsigned int bytes, uint64_t x)
{
	if (bytes == 1)
		((uint8_t *)v->r)[reg] = (uint8_t)x;
	else if (bytes == 2)
		v->r[reg] = (v->r[reg] & ~0xffffULL) | (uint16_t)x;
	else
		v->r[reg] = bytes == 4 ? (uint32_t)x : x;
}

static inline bool emu_canonical(uint64_t a)
{
	return (uint64_t)((int64_t)(a << 16) >> 16) == a;
}

static inline bool emu_ev_conditional(uint8_t ev)
{
	return ev == EMU_EV_CONDITIONAL;
}

static inline unsigned int emu_ev_cost(uint8_t ev)
{
	return emu_ev_conditional(ev) ? EMU_COST_CONDITIONAL : ev >> EMU_EV_COST_SHIFT;
}

/* What an instruction with @ev takes off v->left. */
static inline int32_t emu_ev_step(uint8_t ev)
{
	return (1 << EMU_LEFT_SHIFT) + emu_ev_conditional(ev);
}

static inline uint64_t emu_ev_sum(uint8_t ev)
{
	return (uint64_t)emu_ev_cost(ev) << EMU_LANE_CYCLES |
	       (uint64_t)(ev & EMU_EV_LOAD) << EMU_LANE_LOADS |
	       (uint64_t)(ev >> 1 & 1) << EMU_LANE_STORES |
	       (uint64_t)(ev >> 2 & 1) << EMU_LANE_BRANCHES;
}

static inline struct emu_vm *emu_to_vm(const struct vmm_engine_vm *vm)
{
	return (struct emu_vm *)(uintptr_t)vm;
}

static inline struct emu_vcpu *emu_to_vcpu(const struct vmm_engine_vcpu *v)
{
	return (struct emu_vcpu *)(uintptr_t)v;
}

/* ---- cache.c ---- */
static inline unsigned int emu_jc_index(uint64_t rip)
{
	return (unsigned int)(rip ^ rip >> EMU_JC_BITS) & (EMU_JC_SIZE - 1);
}

/* emu_hash_index - the index in v->hash of the chain that has the block at @pa and @rip. */
static inline unsigned int emu_hash_index(const struct emu_vcpu *v, uint64_t pa, uint64_t rip)
{
	pa ^= (rip >> 12) * 0x9e3779b9u;
	return (unsigned int)(pa ^ pa >> EMU_HASH_BITS ^ pa >> EMU_BIG_HASH_BITS) & v->hash_mask;
}
int emu_cache_init(struct emu_vcpu *v);
void emu_cache_fini(struct emu_vcpu *v);
/* emu_cache_reset - forget all decoded code. Never call it while a block executes. */
void emu_cache_reset(struct emu_vcpu *v);
/* emu_find - return the block at v->rip for the current mode, and decode it if there is none.
 * Stores the block at *v->link if v->link is set. Traps (fetch faults). */
struct emu_block *emu_find(struct emu_vcpu *v);

/* ---- decode.c, emit.c ---- */
enum emu_fclass { /* known state of the lazy flags at a point of a block */
		  EMU_FC_UNKNOWN = 0,
		  EMU_FC_SUB,	/* EMU_FK_SUB */
		  EMU_FC_LOGIC, /* EMU_FK_SUB with b = 0 */
		  EMU_FC_ADD,	/* EMU_FK_ADD */
		  EMU_FC_RES	/* a is the result; b has another meaning */
};

struct emu_code { /* a block being built */
	struct emu_op ops[EMU_BLOCK_OPS];
	uint16_t code[EMU_BLOCK_OPS]; /* enum emu_opcode of each */
	unsigned int nr_ops;
	unsigned int n; /* instructions */
	unsigned int bytes;
	uint64_t rip, next, target;
	uint64_t last;	 /* address of the last instruction */
	uint32_t branch; /* VPMU_LBR_* type of the branch at the end, or 0 */
	int32_t step;
	uint64_t sum;
	uint32_t pfn2;
	bool crosses;  /* the block's only instruction reaches into the next page */
	bool ended;    /* the last instruction itself ends the block */
	bool full;     /* no further instruction may be appended */
	bool solo;     /* the instruction must be alone in its block */
	bool alone;    /* the VM has no other vCPU: LOCK needs no host atomic */
	bool yields;   /* PAUSE counts for vmm_run.pauses */
	bool intel;    /* decode as Intel's CPUs do */
	uint32_t simd; /* VMM_SIMD_*: other instructions of these are outside the list */
	enum emu_fclass fclass;
};

/* emu_decode - decode from v->rip (at guest-physical @pa) into @c; the bytes used go to @buf.
 * Traps when the bytes cannot be fetched. */
int emu_decode(struct emu_vcpu *v, uint64_t pa, struct emu_code *c, uint8_t buf[EMU_BLOCK_BYTES]);

struct ZydisDecodedInstruction_;
struct ZydisDecodedOperand_;
/* emu_emit - append the ops of one decoded instruction at @rip. An instruction outside the
 * closed list becomes an op that ends run() with VMM_EXIT_ERROR when it is executed. */
void emu_emit(struct emu_code *c, uint64_t rip, const struct ZydisDecodedInstruction_ *zi,
	      const struct ZydisDecodedOperand_ *zo);
/* emu_emit_fault - append an instruction of @len bytes that raises #UD, or #GP(0). */
void emu_emit_fault(struct emu_code *c, uint64_t rip, unsigned int len, bool gp);
/* emu_emit_end - close a block that its last instruction does not end. */
void emu_emit_end(struct emu_code *c);

/* ---- atomic.c ---- */
/* The new value of the operand of @op, of kind op->idx as of emu_help_locked, from the old one and
 * the second operand @b. emu_atomic_finish - set the other registers and the flags afterwards. */
uint64_t emu_atomic_result(const struct emu_vcpu *v, const struct emu_op *op, uint64_t old,
			   uint64_t b);
void emu_atomic_finish(struct emu_vcpu *v, const struct emu_op *op, uint64_t old, uint64_t b);

/* ---- exec.c ---- */
/* emu_exec - run from op @from of @b until a trap, the end of the chunk, or v->attn. @from is the
 * first op of an instruction, and 0 unless the ops before it were executed last. */
void emu_exec(struct emu_vcpu *v, struct emu_block *b, unsigned int from);
/* Labels of the dispatch loop by opcode (ops.h). Call emu_exec_init once, from any thread, before
 * they are used. */
extern const void *emu_labels[];
void emu_exec_init(void);
/* emu_opcode - the opcode of a label. */
unsigned int emu_opcode(const void *label);

/* ---- engine.c ---- */
/* emu_reset - set the registers with an architectural reset value that matters; leave the
 * others. */
void emu_reset(struct emu_vcpu *v);

/* ---- run.c ---- */
/* emu_run - vmm_engine_ops.run. */
int emu_run(struct vmm_engine_vcpu *ev, struct vmm_run *run);
/* ---- warm.c ---- */
/* emu_warm - vmm_engine_ops.warm. */
void emu_warm(const struct vmm_engine_vcpu *ev, bool next);
/* emu_warm_left - translated code was left in @b: it is likely to run again. */
static inline void emu_warm_left(struct emu_vcpu *v, const struct emu_block *b)
{
	unsigned int i = (unsigned int)((uintptr_t)b >> 6 ^ (uintptr_t)b >> 10) % EMU_WARM_BLOCKS;

	if (v->warm.recent[i] == b)
		return;
	v->warm.recent[i ^ 1] = v->warm.recent[i];
	v->warm.recent_jc[i ^ 1] = v->warm.recent_jc[i];
	v->warm.recent[i] = b;
	v->warm.recent_jc[i] = (uint16_t)emu_jc_index(b->rip);
}
/* emu_warm_note - run() returns: note which memory the next one needs first. */
void emu_warm_note(struct emu_vcpu *v);
/* emu_count_one - count one instruction, with events @ev, that retired outside of emu_exec(). */
void emu_count_one(struct emu_vcpu *v, uint8_t ev, bool taken);
/* emu_fold - add the counts since the last fold to the tally, for the current mode.
 * emu_fold_before - the same without the instruction in progress, with events @ev, which counts in
 * the mode that it enters. */
void emu_fold(struct emu_vcpu *v);
void emu_fold_before(struct emu_vcpu *v, uint8_t ev);
/* emu_svm_mode - the mode of @v for HostOnly and GuestOnly: VPMU_EMU_HOSTONLY or _GUESTONLY; 0
 * without EFER.SVME. */
static inline unsigned int emu_svm_mode(const struct emu_vcpu *v)
{
	if (likely(!(v->efer & EFER_SVME)))
		return 0;
	return v->guest ? VPMU_EMU_GUESTONLY : VPMU_EMU_HOSTONLY;
}
/* emu_error - the engine cannot continue: run() will return VMM_EXIT_ERROR with this one-line
 * message. Sets v->trap and returns 1. */
int emu_error(struct emu_vcpu *v, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* emu_fault - raise exception @vec. Sets v->trap and returns 1. */
int emu_fault(struct emu_vcpu *v, uint8_t vec, bool has_err, uint32_t err);
static inline int emu_gp(struct emu_vcpu *v, uint32_t err)
{
	return emu_fault(v, EMU_GP, true, err);
}
static inline int emu_ud(struct emu_vcpu *v)
{
	return emu_fault(v, EMU_UD, false, 0);
}

/* ---- alarm.c ---- */
/* emu_alarm_limit - return the number of instructions, 1..@n, that can be executed from the start
 * of @b without passing the instruction that makes an armed alarm due. No alarm may be due
 * already. */
int64_t emu_alarm_limit(const struct emu_vcpu *v, const struct emu_block *b, int64_t n);
/* emu_deadline_limit - the same for an instant that is @left modelled cycles away (not 0). Sets
 * *armed if the dispatch loop must be left after system instructions. */
int64_t emu_deadline_limit(const struct emu_vcpu *v, const struct emu_block *b, int64_t n,
			   uint64_t left, bool *armed);
/* emu_alarm_decoded - call it when @b was decoded. @alone: @b is one system instruction. */
void emu_alarm_decoded(struct emu_vcpu *v, const struct emu_block *b, bool alone);

/* ---- event.c ---- */
enum emu_event_kind { EMU_EVENT_FAULT, EMU_EVENT_TRAP, EMU_EVENT_EXT, EMU_EVENT_EMU };
/* emu_deliver - deliver the fault in v->fault with v->rip as the return address, and the double
 * or triple fault that may follow from it. Returns 0, or 1 with v->trap set: the caller must leave
 * run(), which returns VMM_EXIT_SHUTDOWN or VMM_EXIT_ERROR. */
int emu_deliver(struct emu_vcpu *v);
/* emu_interrupt - deliver @vec. Traps when the delivery faults. */
int emu_interrupt(struct emu_vcpu *v, uint8_t vec, enum emu_event_kind kind, bool has_err,
		  uint32_t err);
/* emu_set_cpl - change the CPL. Counts so far are folded first, for the old mode. */
void emu_set_cpl(struct emu_vcpu *v, unsigned int cpl);
/* emu_recheck - call it when IF or TF may have changed: makes the dispatch loop stop if an event
 * waits or TF is set. */
static inline void emu_recheck(struct emu_vcpu *v)
{
	if (v->intr_pending || v->nmi_pending || v->virq || (v->rflags & EMU_TF))
		v->attn |= EMU_ATTN_EVENT;
}
/* emu_svm_wakes - emu_deliverable() in a guest of SVM: svm/inject.c. */
bool emu_svm_wakes(const struct emu_vcpu *v);
/* emu_deliverable - returns true if the vCPU would take a queued interrupt or NMI now. */
static inline bool emu_deliverable(const struct emu_vcpu *v)
{
	if (unlikely(v->guest))
		return emu_svm_wakes(v);
	if (v->sti_shadow || v->gif_clear)
		return false;
	return (v->nmi_pending && !v->nmi_masked) ||
	       (v->intr_pending && (v->rflags & EMU_IF) && v->intr_vec >> 4 > v->cr8);
}
static inline void emu_taken(struct emu_vcpu *v)
{
	v->acc += EMU_TAKEN_SUM;
}
emu_op_fn emu_sys_syscall, emu_sys_sysret, emu_sys_sysenter, emu_sys_sysexit, emu_sys_iret,
	emu_sys_int, emu_sys_retf;

/* ---- system.c: system instructions ----
 * Every emu_sys_* returns 0: the instruction retires; 1: trap; 2: it retires and the dispatch
 * loop is left. */
emu_op_fn emu_sys_ud, emu_sys_gp, emu_sys_closed, emu_sys_cli, emu_sys_sti, emu_sys_hlt,
	emu_sys_pause, emu_sys_pushf, emu_sys_popf, emu_sys_mov_to_cr, emu_sys_mov_from_cr,
	emu_sys_mov_to_dr, emu_sys_mov_from_dr, emu_sys_clts, emu_sys_invlpg, emu_sys_wbinvd,
	emu_sys_lmsw, emu_help_smsw, emu_sys_vmcall;
/* svm/svm.c, svm/world.c */
emu_op_fn emu_sys_vmrun, emu_sys_vmload, emu_sys_vmsave, emu_sys_stgi, emu_sys_clgi,
	emu_sys_invlpga, emu_sys_absent, emu_sys_vmmcall;
/* emu_svm_sys - in a guest: execute system instruction @op, or trap. Returns as emu_sys_*. */
emu_op_fn emu_svm_sys;
int emu_set_cr(struct emu_vcpu *v, unsigned int cr, uint64_t x);
/* emu_dr_valid - returns true if debug register @n (6 or 7) can hold @x: debug.c. */
bool emu_dr_valid(unsigned int n, uint64_t x);
/* emu_dr_fixed - @x with the fixed bits of debug register @n (6 or 7). */
uint64_t emu_dr_fixed(unsigned int n, uint64_t x);

/* ---- segment.c ---- */
emu_op_fn emu_sys_mov_to_seg, emu_sys_pop_seg, emu_sys_lgdt, emu_sys_lidt, emu_sys_sgdt,
	emu_sys_sidt, emu_sys_lldt, emu_sys_ltr, emu_sys_swapgs, emu_sys_rdwr_base,
	emu_help_from_seg;
enum { EMU_LAR, EMU_LSL, EMU_VERR, EMU_VERW };
int emu_help_descriptor(struct emu_vcpu *v, const struct emu_op *op);
/* emu_read_desc - read the 8-byte descriptor of @sel. Traps: #GP(sel | ext) if @sel is beyond the
 * table's limit. */
int emu_read_desc(struct emu_vcpu *v, uint16_t sel, uint32_t ext, uint64_t *desc);
/* emu_read_cs - read the descriptor of a 64-bit code segment that is present. The caller must
 * check its DPL. Traps. */
int emu_read_cs(struct emu_vcpu *v, uint16_t sel, uint32_t ext, struct kvm_segment *out);
/* emu_read_ss - read a stack segment for @cpl. A null selector is valid for CPL 0..2. Traps. */
int emu_read_ss(struct emu_vcpu *v, uint16_t sel, unsigned int cpl, struct kvm_segment *out);
/* emu_desc_segment - decode the descriptor @d of @sel into *s. Checks nothing. */
void emu_desc_segment(struct kvm_segment *s, uint16_t sel, uint64_t d);
/* emu_flat_seg - fill *s with the flat segment that SYSCALL and SYSRET load. They read no
 * descriptor. */
void emu_flat_seg(struct kvm_segment *s, uint16_t sel, unsigned int dpl, bool code);
/* emu_tss - read @bytes of the TSS at offset @off. Traps: #TS beyond the TSS limit. */
int emu_tss(struct emu_vcpu *v, uint32_t off, void *buf, unsigned int bytes, uint32_t ext);

/* ---- irq.c ---- */
/* emu_lapic_on - returns true if the local APIC is enabled: in x2APIC mode; with interrupt
 * controllers in xAPIC mode, too. */
bool emu_lapic_on(const struct emu_vcpu *v);
/* emu_lapic - return a copy of the APIC's registers in which TPR agrees with CR8. */
struct lapic emu_lapic(const struct emu_vcpu *v);
/* emu_lapic_mode - call it when v->apic_base has changed. Resets an APIC that is now disabled. */
void emu_lapic_mode(struct emu_vcpu *v);
/* emu_lapic_rdmsr / emu_lapic_wrmsr - the guest accesses an MSR of 800H..8FFH. Traps: #GP. */
int emu_lapic_rdmsr(struct emu_vcpu *v, uint32_t msr, uint64_t *x);
int emu_lapic_wrmsr(struct emu_vcpu *v, uint32_t msr, uint64_t x);
/* emu_lapic_mmio_read / emu_lapic_mmio_write - the guest accesses the register at offset @reg *
 * 16 of the APIC's page, in xAPIC mode. */
uint32_t emu_lapic_mmio_read(struct emu_vcpu *v, uint32_t reg);
void emu_lapic_mmio_write(struct emu_vcpu *v, uint32_t reg, uint32_t x);
/* emu_lapic_deadline - the guest writes *@x to IA32_TSC_DEADLINE. @x NULL: its TSC has changed. */
void emu_lapic_deadline(struct emu_vcpu *v, const uint64_t *x);
/* emu_pmi - see pmi in vmm/engine/engine.h. */
void emu_pmi(struct emu_vcpu *v);
/* emu_irq_update - call it when the APIC or the queued events have changed: queues the next
 * event. */
void emu_irq_update(struct emu_vcpu *v);
/* emu_irq_taken - call it when the vCPU has taken the queued NMI or the queued vector, after
 * clearing nmi_pending or intr_pending. */
void emu_irq_taken(struct emu_vcpu *v);
/* emu_irq_settled - returns true if emu_irq_update would queue nothing more with APIC @l. @nmi: an
 * NMI is queued; @intr: @vector is queued. */
bool emu_irq_settled(const struct lapic *l, bool nmi, bool intr, uint8_t vector);

/* ---- state.c: see get_state and set_state in vmm/engine/engine.h ---- */
int emu_get_state(struct vmm_engine_vcpu *ev, void *buf, size_t *bytes);
int emu_set_state(struct vmm_engine_vcpu *ev, const void *buf, size_t bytes);

/* ---- msr.c ---- */
/* emu_pat_valid - returns true if IA32_PAT can hold @x. */
bool emu_pat_valid(uint64_t x);
/* emu_no_address - the bits of physical addresses that this CPU lacks. */
uint64_t emu_no_address(const struct emu_vcpu *v);
/* emu_tsc - the value that RDTSC would read now. */
uint64_t emu_tsc(struct emu_vcpu *v);
/* emu_unfolded - modelled cycles up to the instruction in progress, since the last emu_fold(). */
static inline uint64_t emu_unfolded(const struct emu_vcpu *v)
{
	return (v->acc >> EMU_LANE_CYCLES & 0xffff) + v->extra_cycles;
}
emu_op_fn emu_sys_cpuid, emu_sys_rdtsc;
/* emu_cpuid - look up a leaf in the vCPU's table, with the vendor's rules for leaves that are not
 * in it. NULL: all zero. */
const struct kvm_cpuid_entry2 *emu_cpuid(const struct emu_vcpu *v, uint32_t leaf, uint32_t sub);
/* emu_debugctl_read, emu_debugctl_written - the caller has answered RDMSR of DebugCtl with @x, or
 * taken @x. It has all bits but LBR, which is kept here on AMD's vCPUs; read returns both. */
uint64_t emu_debugctl_read(const struct emu_vcpu *v, uint64_t x);
void emu_debugctl_written(struct emu_vcpu *v, uint64_t x);
emu_op_fn emu_sys_rdmsr, emu_sys_wrmsr, emu_sys_rdpmc, emu_sys_in, emu_sys_out;

/* ---- msr_whole.c: MSRs of vCPUs that show a whole CPU (v->whole) ---- */
/* emu_whole_reset - set the values that a machine's firmware leaves. */
void emu_whole_reset(struct emu_whole *w);
/* emu_whole_rdmsr / emu_whole_wrmsr - 0: done; 1: trapped; -1: not one of these MSRs. */
int emu_whole_rdmsr(struct emu_vcpu *v, uint32_t msr, uint64_t *x);
int emu_whole_wrmsr(struct emu_vcpu *v, uint32_t msr, uint64_t x);
/* emu_whole_save / emu_whole_load - the section of a vCPU's state (state.c). Load returns false if
 * the section is damaged or no state of such a vCPU. */
void emu_whole_save(const struct emu_whole *w, struct vpmu_blob *b);
bool emu_whole_load(struct emu_whole *w, struct vpmu_blob_reader *all);
/* emu_whole_stopped - report to the guest through KVM's clock that its VM was stopped. No vCPU of
 * it may run. */
void emu_whole_stopped(struct emu_vcpu *v);
/* emu_whole_set_tsc - the guest's TSC becomes @tsc. */
void emu_whole_set_tsc(struct emu_vcpu *v, uint64_t tsc);
/* emu_show_simd - CPUID shows these of VMM_SIMD_* from now on; the host must have them. */
void emu_show_simd(struct emu_vcpu *v, uint32_t simd);

/* emu_in_64bit - returns true if the vCPU executes 64-bit code. */
static inline bool emu_in_64bit(const struct emu_vcpu *v)
{
	return (v->cr0 & (CR0_PE | CR0_PG)) == (CR0_PE | CR0_PG) && (v->cr4 & CR4_PAE) &&
	       (v->efer & EFER_LMA) && v->seg[EMU_CS].l && !v->seg[EMU_CS].db;
}

/* ---- arith.c, atomic.c, bmi.c, string.c: the rarer instructions ----
 * Every emu_help_* returns 0: done; or 1: trap. */
emu_op_fn emu_help_mul, emu_help_imul1, emu_help_imul2, emu_help_imul3, emu_help_div, emu_help_idiv,
	emu_help_rotate, emu_help_shiftd, emu_help_extend, emu_help_cbw, emu_help_cwd,
	emu_help_flagop, emu_help_lahf, emu_help_sahf, emu_help_bt, emu_help_btea, emu_help_scan,
	emu_help_bswap16, emu_help_locked, emu_help_cmpxchg, emu_help_cmpxchgb, emu_help_xadd,
	emu_help_xchg, emu_help_push16, emu_help_pop16, emu_help_popm, emu_help_xlat,
	emu_help_enter, emu_help_fence, emu_help_string, emu_help_bmi, emu_help_movbe16;

/* ---- xsave.c ---- */
/* Bits of v->xsave. */
#define EMU_XSAVE_OPT	  (1u << 0)
#define EMU_XSAVE_COMPACT (1u << 1)
#define EMU_XSAVE_INUSE	  (1u << 2) /* XGETBV with ECX = 1 */
#define EMU_XSAVE_SUPER	  (1u << 3) /* XSAVES, XRSTORS and IA32_XSS */
#define EMU_XSAVE_ALL	  15u
/* emu_xcr0_valid - the bits that XCR0 can hold on a vCPU of @simd (VMM_SIMD_*) that shows a whole
 * CPU, or does not. 0: there is no XSAVE. */
uint64_t emu_xcr0_valid(bool whole, uint32_t simd);
/* emu_xcr0_ok - returns true if XCR0 can be @x where @valid is emu_xcr0_valid(): it has x87, AVX
 * only with SSE, and AVX-512 whole and only with AVX (SDM vol. 1, 13.3). */
static inline bool emu_xcr0_ok(uint64_t x, uint64_t valid)
{
	return (x & 1) && (x & 6) != 4 && (!(x & 0xe0) || (x & EMU_XCR0_ZMM) == EMU_XCR0_ZMM) &&
	       !(x & ~(valid | 1));
}
static inline uint64_t emu_cr4_writable(const struct emu_vcpu *v)
{
	return CR4_WRITABLE | (emu_xcr0_valid(v->whole, v->simd) ? CR4_OSXSAVE : 0);
}
static inline bool emu_xss_exists(const struct emu_vcpu *v)
{
	return (v->xsave & EMU_XSAVE_SUPER) && emu_xcr0_valid(v->whole, v->simd);
}
/* emu_xsave_cpuid - @regs (EAX, EBX, ECX, EDX) of CPUID leaf 0DH, sub-leaf @sub, are as in the
 * vCPU's table: make them right for XCR0. */
void emu_xsave_cpuid(const struct emu_vcpu *v, uint32_t sub, uint32_t regs[4]);
emu_op_fn emu_help_xsave, emu_help_xrstor, emu_sys_xgetbv, emu_sys_xsetbv;

/* ---- x87.c, simd.c, mmx.c, sse4.c: as above ---- */
emu_op_fn emu_help_x87, emu_help_x87_control, emu_help_fwait, emu_help_fxsave, emu_help_fxrstor,
	emu_help_mxcsr, emu_help_simd, emu_help_simd_fp, emu_help_simd_gpr, emu_help_simd_count,
	emu_help_mmx_shift, emu_help_simd_shift, emu_help_simd_load, emu_help_simd_store,
	emu_help_simd_mov, emu_help_maskmov, emu_help_mmx, emu_help_mmx_mov, emu_help_emms,
	emu_help_clflush, emu_help_simd_extract, emu_help_pcmpstr, emu_help_blendv, emu_help_crc32;
/* avx.c, avx_perm.c, avx_mem.c, opmask.c: as above */
emu_op_fn emu_help_avx, emu_help_avx_gpr, emu_help_avx_ps2ph, emu_help_avx_load, emu_help_avx_store,
	emu_help_avx_mov, emu_help_avx_zero, emu_help_avx_perm, emu_help_avx_extract,
	emu_help_avx_bits, emu_help_avx_maskmov, emu_help_avx_gather, emu_help_opmask;
/* evex.c, evex_mem.c */
emu_op_fn emu_help_evex, emu_help_evex_gather;
