/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The functions that the files of the soft machine offer each other. No other folder includes
 * this header. Only the thread that runs the vCPU may call these functions, unless a comment says
 * otherwise. "Traps" means: the function may return non-zero (or NULL) with v->trap set; then no
 * architectural state has changed.
 */
#ifndef VMM_SOFT_INTERNAL_H
#define VMM_SOFT_INTERNAL_H

#include "vmm/emu/cpu/flags.h"
#include "vmm/emu/emu.h"

/* Vectors. */
enum {
	SOFT_DE = 0,
	SOFT_DB = 1,
	SOFT_NMI = 2,
	SOFT_BP = 3,
	SOFT_UD = 6,
	SOFT_NM = 7,
	SOFT_DOUBLE = 8,
	SOFT_TS = 10,
	SOFT_NP = 11,
	SOFT_STACK = 12,
	SOFT_GP = 13,
	SOFT_PF_VEC = 14,
	SOFT_MF = 16,
	SOFT_XM = 19
};

/* Types for accesses to guest memory: any alignment, and they may alias every other type. */
typedef struct {
	uint8_t v;
} __attribute__((packed, may_alias)) soft_u8;
typedef struct {
	uint16_t v;
} __attribute__((packed, may_alias)) soft_u16;
typedef struct {
	uint32_t v;
} __attribute__((packed, may_alias)) soft_u32;
typedef struct {
	uint64_t v;
} __attribute__((packed, may_alias)) soft_u64;

static inline uint64_t soft_get(const void *p, unsigned int bytes)
{
	switch (bytes) {
	case 1:
		return ((const soft_u8 *)p)->v;
	case 2:
		return ((const soft_u16 *)p)->v;
	case 4:
		return ((const soft_u32 *)p)->v;
	default:
		return ((const soft_u64 *)p)->v;
	}
}

static inline void soft_put(void *p, unsigned int bytes, uint64_t x)
{
	switch (bytes) {
	case 1:
		((soft_u8 *)p)->v = (uint8_t)x;
		break;
	case 2:
		((soft_u16 *)p)->v = (uint16_t)x;
		break;
	case 4:
		((soft_u32 *)p)->v = (uint32_t)x;
		break;
	default:
		((soft_u64 *)p)->v = x;
		break;
	}
}

/* Register operands. @reg of a byte register is its byte offset in the register file, so that AH
 * needs no special case. @reg of a wider register is its number. */
static inline uint64_t soft_rd(const struct soft_vcpu *v, unsigned int reg, unsigned int bytes)
{
	if (bytes == 1)
		return ((const uint8_t *)v->r)[reg];
	return bytes == 8 ? v->r[reg] : bytes == 4 ? (uint32_t)v->r[reg] : (uint16_t)v->r[reg];
}

static inline void soft_wr(struct soft_vcpu *v, unsigned int reg, unsigned int bytes, uint64_t x)
{
	if (bytes == 1)
		((uint8_t *)v->r)[reg] = (uint8_t)x;
	else if (bytes == 2)
		v->r[reg] = (v->r[reg] & ~0xffffULL) | (uint16_t)x;
	else
		v->r[reg] = bytes == 4 ? (uint32_t)x : x;
}

static inline uint64_t soft_ea(const struct soft_vcpu *v, const struct soft_op *op)
{
	return v->r[op->base] + (v->r[op->idx] << op->scale) + (uint64_t)op->disp;
}

static inline bool soft_canonical(uint64_t a)
{
	return (uint64_t)((int64_t)(a << 16) >> 16) == a;
}

static inline uint64_t soft_ev_sum(uint8_t ev)
{
	return (uint64_t)(ev >> SOFT_EV_COST_SHIFT) << SOFT_LANE_CYCLES |
	       (uint64_t)(ev & SOFT_EV_LOAD) << SOFT_LANE_LOADS |
	       (uint64_t)(ev >> 1 & 1) << SOFT_LANE_STORES |
	       (uint64_t)(ev >> 2 & 1) << SOFT_LANE_BRANCHES;
}

/* soft_is_ram - whether guest-physical @pa is RAM. If it is, its whole page is RAM. */
static inline bool soft_is_ram(const struct soft_vm *vm, uint64_t pa)
{
	return likely(pa < vm->low) || vmm_ram_holds(&vm->slots, pa, 1);
}

/* ---- mmu.c ---- */
#define SOFT_ACC_R 0u
#define SOFT_ACC_W 2u /* as in the #PF error code */
#define SOFT_ACC_U 4u
#define SOFT_ACC_X 16u
/* soft_translate - find the guest-physical address of one byte at guest-virtual @va. Sets A and D
 * bits like the CPU. Traps. On success *perm (@perm may be NULL) is SOFT_ACC_W if a store in the
 * same mode needs no further walk, else 0. */
int soft_translate(struct soft_vcpu *v, uint64_t va, unsigned int acc, uint64_t *pa,
		   unsigned int *perm);
/* soft_host - host address of @va, inside one page; @acc is R or W, with U for a user access.
 * Stores through it must look for code (soft_code_hit). Traps. */
uint8_t *soft_host(struct soft_vcpu *v, uint64_t va, unsigned int acc);
/* Loads and stores of 1..8 bytes in the current mode, for accesses that miss the TLB's fast path.
 * Traps; soft_ld_slow then has v->trap set and returns 0. */
uint64_t soft_ld_slow(struct soft_vcpu *v, uint64_t va, unsigned int bytes);
int soft_st_slow(struct soft_vcpu *v, uint64_t va, unsigned int bytes, uint64_t x);
/* soft_rmw_slow - return where to modify @bytes (up to 16) in place. That is guest memory or
 * v->bounce.buf; after v->bounce.buf the caller must call soft_rmw_commit. Traps (NULL). */
void *soft_rmw_slow(struct soft_vcpu *v, uint64_t va, unsigned int bytes);
void soft_rmw_commit(struct soft_vcpu *v);
/* Loads and stores of the state of x87 or SSE, up to 512 bytes, in the current mode. Trap. */
int soft_ld_wide(struct soft_vcpu *v, uint64_t va, void *buf, unsigned int bytes);
int soft_st_wide(struct soft_vcpu *v, uint64_t va, const void *buf, unsigned int bytes);
/* Accesses of up to 512 bytes to system structures and interrupt frames. They are supervisor
 * accesses, or user accesses if @acc is SOFT_ACC_U. Stores may hit decoded code. Traps. */
int soft_sys_read(struct soft_vcpu *v, uint64_t va, void *buf, unsigned int bytes,
		  unsigned int acc);
int soft_sys_write(struct soft_vcpu *v, uint64_t va, const void *buf, unsigned int bytes,
		   unsigned int acc);
void soft_tlb_flush(struct soft_vcpu *v);
void soft_tlb_flush_page(struct soft_vcpu *v, uint64_t va);
/* soft_seen_bit - the bit of page or region number @n in the sets of soft_vcpu. */
static inline uint64_t soft_seen_bit(uint64_t n)
{
	return 1ULL << (n & 63);
}
/* soft_tlb_demote - from now on, no store takes the fast path to a page that holds decoded code. */
void soft_tlb_demote(struct soft_vcpu *v);

/* ---- cache.c ---- */
static inline unsigned int soft_jc_index(uint64_t rip)
{
	return (unsigned int)(rip ^ rip >> SOFT_JC_BITS) & (SOFT_JC_SIZE - 1);
}
int soft_cache_init(struct soft_vcpu *v);
void soft_cache_fini(struct soft_vcpu *v);
/* soft_cache_reset - forget all decoded code. Never call it while a block executes. */
void soft_cache_reset(struct soft_vcpu *v);
/* soft_find - return the block at v->rip for the current mode, and decode it if there is none.
 * Stores the block at *v->link if v->link is set. Traps (fetch faults). */
struct soft_block *soft_find(struct soft_vcpu *v);
/* soft_code_hit - whether a store of @bytes at host address @p, inside one page, hits decoded
 * code of any vCPU of the VM. */
bool soft_code_hit(struct soft_vm *vm, const uint8_t *p, unsigned int bytes);
/* soft_code_written - call it after a store that hit code: all blocks of that page become stale. */
void soft_code_written(struct soft_vm *vm, const uint8_t *p, unsigned int bytes);
/* soft_sync - drop the blocks whose code was overwritten; includes soft_ack_code. Call it at safe
 * points (cache.c). */
void soft_sync(struct soft_vcpu *v);
/* soft_ack_code - remove this vCPU's fast paths to pages that hold decoded code, and tell the other
 * vCPUs so (cache.c). Call it only where the vCPU keeps no host address of guest memory. */
void soft_ack_code(struct soft_vcpu *v);

/* ---- decode.c, emit.c ---- */
enum soft_fclass { /* what the emitters know about the lazy flags at a point of a block */
		   SOFT_FC_UNKNOWN = 0,
		   SOFT_FC_SUB,	  /* SOFT_FK_SUB */
		   SOFT_FC_LOGIC, /* SOFT_FK_SUB with b = 0 */
		   SOFT_FC_ADD,	  /* SOFT_FK_ADD */
		   SOFT_FC_RES	  /* a is the result; b has another meaning */
};

struct soft_code { /* a block being built */
	struct soft_op ops[SOFT_BLOCK_OPS];
	uint16_t code[SOFT_BLOCK_OPS]; /* enum soft_opcode of each */
	unsigned int nr_ops;
	unsigned int n; /* instructions */
	unsigned int bytes;
	uint64_t rip, next, target;
	uint64_t last;	 /* address of the last instruction */
	uint32_t branch; /* VPMU_LBR_* type of the branch at the end, or 0 */
	uint64_t sum;
	uint32_t pfn2;
	bool crosses; /* the block's only instruction reaches into the next page */
	bool ended;   /* the last instruction itself ends the block */
	bool full;    /* no further instruction may be appended */
	bool solo;    /* the instruction must be alone in its block */
	bool alone;   /* the VM has no other vCPU: LOCK needs no host atomic */
	bool yields;  /* PAUSE counts for vmm_run.pauses */
	bool intel;   /* decode as Intel's CPUs do */
	enum soft_fclass fclass;
};

/* soft_decode - decode from v->rip (at guest-physical @pa) into @c; the bytes used go to @buf.
 * Traps when the bytes cannot be fetched. */
int soft_decode(struct soft_vcpu *v, uint64_t pa, struct soft_code *c,
		uint8_t buf[SOFT_BLOCK_BYTES]);

struct ZydisDecodedInstruction_;
struct ZydisDecodedOperand_;
/* soft_emit - append the ops of one decoded instruction at @rip. An instruction outside the
 * closed list becomes an op that ends run() with VMM_EXIT_ERROR when it is executed. */
void soft_emit(struct soft_code *c, uint64_t rip, const struct ZydisDecodedInstruction_ *zi,
	       const struct ZydisDecodedOperand_ *zo);
/* soft_emit_fault - append an instruction of @len bytes that raises #UD, or #GP(0). */
void soft_emit_fault(struct soft_code *c, uint64_t rip, unsigned int len, bool gp);
/* soft_emit_end - close a block whose last instruction does not end it. */
void soft_emit_end(struct soft_code *c);

/* ---- exec.c ---- */
/* soft_exec - run from op @from of @b until a trap, the end of the chunk, or v->attn. @from is the
 * first op of an instruction, and 0 unless the ops before it were executed last. */
void soft_exec(struct soft_vcpu *v, struct soft_block *b, unsigned int from);
/* Labels of the dispatch loop by opcode (ops.h). Call soft_exec_init once, from any thread, before
 * they are used. */
extern const void *soft_labels[];
void soft_exec_init(void);
/* soft_opcode - the opcode of a label. */
unsigned int soft_opcode(const void *label);

/* ---- engine.c ---- */
/* soft_reset - give the registers the values of a reset that matter, others keep theirs. */
void soft_reset(struct soft_vcpu *v);

/* ---- run.c ---- */
int soft_run(struct soft_vcpu *v, struct vmm_run *run);
/* ---- warm.c ---- */
/* soft_warm - vmm_engine_ops.warm. */
void soft_warm(const struct soft_vcpu *v, bool next);
/* soft_warm_left - translated code was left in @b: it is likely to run again. */
static inline void soft_warm_left(struct soft_vcpu *v, const struct soft_block *b)
{
	unsigned int i = (unsigned int)((uintptr_t)b >> 6 ^ (uintptr_t)b >> 10) % SOFT_WARM_BLOCKS;

	if (v->warm.recent[i] == b)
		return;
	v->warm.recent[i ^ 1] = v->warm.recent[i];
	v->warm.recent_jc[i ^ 1] = v->warm.recent_jc[i];
	v->warm.recent[i] = b;
	v->warm.recent_jc[i] = (uint16_t)soft_jc_index(b->rip);
}
/* soft_warm_note - run() returns: note what the next one will need first. */
void soft_warm_note(struct soft_vcpu *v);
/* soft_count_one - count one instruction with the events @ev that retires outside of soft_exec().
 */
void soft_count_one(struct soft_vcpu *v, uint8_t ev, bool taken);
/* soft_fold - add what was counted since the last fold to the tally, for the current mode. */
void soft_fold(struct soft_vcpu *v);
/* soft_error - call it if the engine cannot go on: run() will return VMM_EXIT_ERROR with this one
 * line. Sets v->trap and returns 1. */
int soft_error(struct soft_vcpu *v, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* soft_fault - raise exception @vec. Sets v->trap and returns 1. */
int soft_fault(struct soft_vcpu *v, uint8_t vec, bool has_err, uint32_t err);
static inline int soft_gp(struct soft_vcpu *v, uint32_t err)
{
	return soft_fault(v, SOFT_GP, true, err);
}
static inline int soft_ud(struct soft_vcpu *v)
{
	return soft_fault(v, SOFT_UD, false, 0);
}

/* ---- alarm.c ---- */
/* soft_alarm_limit - return how many of @n instructions from the start of @b can be executed
 * without passing the instruction that makes an armed alarm due. No alarm may be due already. The
 * result is at least 1. */
int64_t soft_alarm_limit(const struct soft_vcpu *v, const struct soft_block *b, int64_t n);
/* soft_deadline_limit - the same for an instant that is @left modelled cycles away, not 0. Sets
 * *armed if the dispatch loop must be left behind system instructions. */
int64_t soft_deadline_limit(const struct soft_vcpu *v, const struct soft_block *b, int64_t n,
			    uint64_t left, bool *armed);
/* soft_alarm_decoded - call it when @b was decoded. @alone: @b is one system instruction. */
void soft_alarm_decoded(struct soft_vcpu *v, const struct soft_block *b, bool alone);

/* ---- event.c ---- */
enum soft_event_kind { SOFT_EVENT_FAULT, SOFT_EVENT_TRAP, SOFT_EVENT_EXT, SOFT_EVENT_SOFT };
/* soft_deliver - deliver the fault in v->fault with v->rip as the return address, and the double
 * or triple fault that may follow from it. Returns 0, or 1 with v->trap set: the caller must leave
 * run(), which returns VMM_EXIT_SHUTDOWN or VMM_EXIT_ERROR. */
int soft_deliver(struct soft_vcpu *v);
/* soft_interrupt - deliver @vec. Traps when the delivery faults. */
int soft_interrupt(struct soft_vcpu *v, uint8_t vec, enum soft_event_kind kind, bool has_err,
		   uint32_t err);
/* soft_set_cpl - change the CPL. What was counted before is first folded for the old mode. */
void soft_set_cpl(struct soft_vcpu *v, unsigned int cpl);
/* soft_recheck - call it when IF or TF may have changed: makes the dispatch loop stop if an event
 * waits or TF is set. */
static inline void soft_recheck(struct soft_vcpu *v)
{
	if (v->intr_pending || v->nmi_pending || (v->rflags & SOFT_TF))
		v->attn |= SOFT_ATTN_EVENT;
}
/* soft_deliverable - whether the vCPU would take a queued interrupt or NMI now. */
static inline bool soft_deliverable(const struct soft_vcpu *v)
{
	if (v->sti_shadow)
		return false;
	return (v->nmi_pending && !v->nmi_masked) ||
	       (v->intr_pending && (v->rflags & SOFT_IF) && v->intr_vec >> 4 > v->cr8);
}
static inline void soft_taken(struct soft_vcpu *v)
{
	v->acc += SOFT_TAKEN_SUM;
}
int soft_sys_syscall(struct soft_vcpu *v, const struct soft_op *op);
int soft_sys_sysret(struct soft_vcpu *v, const struct soft_op *op);
int soft_sys_sysenter(struct soft_vcpu *v, const struct soft_op *op);
int soft_sys_sysexit(struct soft_vcpu *v, const struct soft_op *op);
int soft_sys_iret(struct soft_vcpu *v, const struct soft_op *op);
int soft_sys_int(struct soft_vcpu *v, const struct soft_op *op);
int soft_sys_retf(struct soft_vcpu *v, const struct soft_op *op);

/* ---- system.c: system instructions ----
 * Every soft_sys_* returns 0: the instruction retires; 1: trap; 2: it retires and the dispatch
 * loop is left. */
int soft_sys_ud(struct soft_vcpu *v, const struct soft_op *op);
int soft_sys_gp(struct soft_vcpu *v, const struct soft_op *op);
int soft_sys_closed(struct soft_vcpu *v, const struct soft_op *op);
int soft_sys_cli(struct soft_vcpu *v, const struct soft_op *op);
int soft_sys_sti(struct soft_vcpu *v, const struct soft_op *op);
int soft_sys_hlt(struct soft_vcpu *v, const struct soft_op *op);
int soft_sys_pause(struct soft_vcpu *v, const struct soft_op *op);
int soft_sys_pushf(struct soft_vcpu *v, const struct soft_op *op);
int soft_sys_popf(struct soft_vcpu *v, const struct soft_op *op);
int soft_sys_mov_to_cr(struct soft_vcpu *v, const struct soft_op *op);
int soft_sys_mov_from_cr(struct soft_vcpu *v, const struct soft_op *op);
int soft_sys_mov_to_dr(struct soft_vcpu *v, const struct soft_op *op);
int soft_sys_mov_from_dr(struct soft_vcpu *v, const struct soft_op *op);
int soft_sys_clts(struct soft_vcpu *v, const struct soft_op *op);
int soft_sys_invlpg(struct soft_vcpu *v, const struct soft_op *op);
int soft_sys_wbinvd(struct soft_vcpu *v, const struct soft_op *op);
int soft_sys_lmsw(struct soft_vcpu *v, const struct soft_op *op);
int soft_help_smsw(struct soft_vcpu *v, const struct soft_op *op);
int soft_sys_vmcall(struct soft_vcpu *v, const struct soft_op *op);
int soft_set_cr(struct soft_vcpu *v, unsigned int cr, uint64_t x);
/* soft_dr_valid - whether debug register @n (6 or 7) can hold @x: debug.c. */
bool soft_dr_valid(unsigned int n, uint64_t x);

/* ---- segment.c ---- */
int soft_sys_mov_to_seg(struct soft_vcpu *v, const struct soft_op *op);
int soft_sys_pop_seg(struct soft_vcpu *v, const struct soft_op *op);
int soft_sys_lgdt(struct soft_vcpu *v, const struct soft_op *op);
int soft_sys_lidt(struct soft_vcpu *v, const struct soft_op *op);
int soft_sys_sgdt(struct soft_vcpu *v, const struct soft_op *op);
int soft_sys_sidt(struct soft_vcpu *v, const struct soft_op *op);
int soft_sys_lldt(struct soft_vcpu *v, const struct soft_op *op);
int soft_sys_ltr(struct soft_vcpu *v, const struct soft_op *op);
int soft_sys_swapgs(struct soft_vcpu *v, const struct soft_op *op);
int soft_sys_rdwr_base(struct soft_vcpu *v, const struct soft_op *op);
int soft_help_from_seg(struct soft_vcpu *v, const struct soft_op *op);
enum { SOFT_LAR, SOFT_LSL, SOFT_VERR, SOFT_VERW };
int soft_help_descriptor(struct soft_vcpu *v, const struct soft_op *op);
/* soft_read_desc - read the 8-byte descriptor of @sel. Traps: #GP(sel | ext) if @sel is beyond the
 * table's limit. */
int soft_read_desc(struct soft_vcpu *v, uint16_t sel, uint32_t ext, uint64_t *desc);
/* soft_read_cs - read the descriptor of a 64-bit code segment that is present. The caller must
 * check its DPL. Traps. */
int soft_read_cs(struct soft_vcpu *v, uint16_t sel, uint32_t ext, struct kvm_segment *out);
/* soft_read_ss - read a stack segment for @cpl. A null selector is accepted for CPL 0..2. Traps. */
int soft_read_ss(struct soft_vcpu *v, uint16_t sel, unsigned int cpl, struct kvm_segment *out);
/* soft_desc_segment - what the descriptor @d of @sel describes. Checks nothing. */
void soft_desc_segment(struct kvm_segment *s, uint16_t sel, uint64_t d);
/* soft_flat_seg - fill *s with the flat segment that SYSCALL and SYSRET load. They read no
 * descriptor. */
void soft_flat_seg(struct kvm_segment *s, uint16_t sel, unsigned int dpl, bool code);
/* soft_tss - read @bytes of the TSS at offset @off. Traps: #TS beyond the TSS limit. */
int soft_tss(struct soft_vcpu *v, uint32_t off, void *buf, unsigned int bytes, uint32_t ext);

/* ---- irq.c ---- */
/* soft_lapic_on - whether the local APIC accepts anything: in x2APIC mode; with interrupt
 * controllers also in xAPIC mode. */
bool soft_lapic_on(const struct soft_vcpu *v);
/* soft_lapic - return a copy of the APIC's registers in which TPR agrees with CR8. */
struct lapic soft_lapic(const struct soft_vcpu *v);
/* soft_lapic_mode - call it when v->apic_base has changed. Resets an APIC that accepts nothing. */
void soft_lapic_mode(struct soft_vcpu *v);
/* soft_lapic_rdmsr / soft_lapic_wrmsr - the guest accesses an MSR of 800H..8FFH. Traps: #GP. */
int soft_lapic_rdmsr(struct soft_vcpu *v, uint32_t msr, uint64_t *x);
int soft_lapic_wrmsr(struct soft_vcpu *v, uint32_t msr, uint64_t x);
/* soft_lapic_mmio_read / soft_lapic_mmio_write - the guest accesses the register at offset @reg *
 * 16 of the APIC's page, in xAPIC mode. */
uint32_t soft_lapic_mmio_read(struct soft_vcpu *v, uint32_t reg);
void soft_lapic_mmio_write(struct soft_vcpu *v, uint32_t reg, uint32_t x);
/* soft_lapic_deadline - the guest writes *@x to IA32_TSC_DEADLINE; or NULL: its TSC has changed. */
void soft_lapic_deadline(struct soft_vcpu *v, const uint64_t *x);
/* soft_pmi - see pmi in vmm/engine/engine.h. */
void soft_pmi(struct soft_vcpu *v);
/* soft_irq_update - call it when the APIC or the queued events have changed: queues the event that
 * comes next. */
void soft_irq_update(struct soft_vcpu *v);
/* soft_irq_taken - call it when the vCPU took the queued NMI, or the queued vector; the caller has
 * cleared nmi_pending or intr_pending before. */
void soft_irq_taken(struct soft_vcpu *v);
/* soft_irq_settled - whether soft_irq_update would queue nothing more in this state: the APIC is
 * @l, @nmi says whether an NMI is queued, @intr whether @vector is queued. */
bool soft_irq_settled(const struct lapic *l, bool nmi, bool intr, uint8_t vector);

/* ---- state.c: see get_state and set_state in vmm/engine/engine.h ---- */
int soft_get_state(const struct soft_vcpu *v, void *buf, size_t *bytes);
/* soft_state_out - copy @b, which ends with that, to the *bytes bytes at @buf; *bytes becomes its
 * length. -ENOSPC: it is longer. -ENOMEM. */
int soft_state_out(struct vpmu_blob *b, void *buf, size_t *bytes);
int soft_set_state(struct soft_vcpu *v, const void *buf, size_t bytes);

/* ---- msr.c ---- */
/* soft_pat_valid - whether IA32_PAT can hold @x. */
bool soft_pat_valid(uint64_t x);
/* soft_tsc - the value that RDTSC would read now. */
uint64_t soft_tsc(struct soft_vcpu *v);
/* soft_unfolded - the modelled cycles up to the instruction in progress that soft_fold() has not
 * counted yet. */
static inline uint64_t soft_unfolded(const struct soft_vcpu *v)
{
	return (v->acc >> SOFT_LANE_CYCLES & 0xffff) + v->extra_cycles;
}
int soft_sys_cpuid(struct soft_vcpu *v, const struct soft_op *op);
int soft_sys_rdtsc(struct soft_vcpu *v, const struct soft_op *op);
/* soft_cpuid - the leaf of the vCPU's table, with the vendor's rules for leaves that are not in it;
 * NULL: all zero. */
const struct kvm_cpuid_entry2 *soft_cpuid(const struct soft_vcpu *v, uint32_t leaf, uint32_t sub);
int soft_sys_rdmsr(struct soft_vcpu *v, const struct soft_op *op);
int soft_sys_wrmsr(struct soft_vcpu *v, const struct soft_op *op);
int soft_sys_rdpmc(struct soft_vcpu *v, const struct soft_op *op);
int soft_sys_in(struct soft_vcpu *v, const struct soft_op *op);
int soft_sys_out(struct soft_vcpu *v, const struct soft_op *op);

/* ---- msr_whole.c: MSRs of vCPUs that show a whole CPU (v->whole) ---- */
/* soft_whole_reset - as the firmware of a machine leaves them. */
void soft_whole_reset(struct soft_whole *w);
/* soft_whole_rdmsr / soft_whole_wrmsr - 0: done; 1: trapped; -1: not one of these MSRs. */
int soft_whole_rdmsr(struct soft_vcpu *v, uint32_t msr, uint64_t *x);
int soft_whole_wrmsr(struct soft_vcpu *v, uint32_t msr, uint64_t x);
/* soft_whole_save / soft_whole_load - the section of a vCPU's state (state.c); false: it is damaged
 * or no state of such a vCPU. */
void soft_whole_save(const struct soft_whole *w, struct vpmu_blob *b);
bool soft_whole_load(struct soft_whole *w, struct vpmu_blob_reader *all);
/* soft_whole_stopped - tell the guest by KVM's clock that its VM was stopped. No vCPU of it runs.
 */
void soft_whole_stopped(struct soft_vcpu *v);
/* soft_whole_set_tsc - the guest's TSC becomes @tsc. */
void soft_whole_set_tsc(struct soft_vcpu *v, uint64_t tsc);

/* ---- arith.c, atomic.c, string.c: the rarer instructions ----
 * Every soft_help_* returns 0: done; or 1: trap. */
int soft_help_mul(struct soft_vcpu *v, const struct soft_op *op);
int soft_help_imul1(struct soft_vcpu *v, const struct soft_op *op);
int soft_help_imul2(struct soft_vcpu *v, const struct soft_op *op);
int soft_help_imul3(struct soft_vcpu *v, const struct soft_op *op);
int soft_help_div(struct soft_vcpu *v, const struct soft_op *op);
int soft_help_idiv(struct soft_vcpu *v, const struct soft_op *op);
int soft_help_rotate(struct soft_vcpu *v, const struct soft_op *op);
int soft_help_shiftd(struct soft_vcpu *v, const struct soft_op *op);
int soft_help_extend(struct soft_vcpu *v, const struct soft_op *op);
int soft_help_cbw(struct soft_vcpu *v, const struct soft_op *op);
int soft_help_cwd(struct soft_vcpu *v, const struct soft_op *op);
int soft_help_flagop(struct soft_vcpu *v, const struct soft_op *op);
int soft_help_lahf(struct soft_vcpu *v, const struct soft_op *op);
int soft_help_sahf(struct soft_vcpu *v, const struct soft_op *op);
int soft_help_bt(struct soft_vcpu *v, const struct soft_op *op);
int soft_help_btea(struct soft_vcpu *v, const struct soft_op *op);
int soft_help_scan(struct soft_vcpu *v, const struct soft_op *op);
int soft_help_bswap16(struct soft_vcpu *v, const struct soft_op *op);
int soft_help_locked(struct soft_vcpu *v, const struct soft_op *op);
int soft_help_cmpxchg(struct soft_vcpu *v, const struct soft_op *op);
int soft_help_cmpxchgb(struct soft_vcpu *v, const struct soft_op *op);
int soft_help_xadd(struct soft_vcpu *v, const struct soft_op *op);
int soft_help_xchg(struct soft_vcpu *v, const struct soft_op *op);
int soft_help_push16(struct soft_vcpu *v, const struct soft_op *op);
int soft_help_pop16(struct soft_vcpu *v, const struct soft_op *op);
int soft_help_popm(struct soft_vcpu *v, const struct soft_op *op);
int soft_help_xlat(struct soft_vcpu *v, const struct soft_op *op);
int soft_help_enter(struct soft_vcpu *v, const struct soft_op *op);
int soft_help_fence(struct soft_vcpu *v, const struct soft_op *op);
int soft_help_string(struct soft_vcpu *v, const struct soft_op *op);

/* ---- x87.c, simd.c, mmx.c: as above ---- */
int soft_help_x87(struct soft_vcpu *v, const struct soft_op *op);
int soft_help_x87_control(struct soft_vcpu *v, const struct soft_op *op);
int soft_help_fwait(struct soft_vcpu *v, const struct soft_op *op);
int soft_help_fxsave(struct soft_vcpu *v, const struct soft_op *op);
int soft_help_fxrstor(struct soft_vcpu *v, const struct soft_op *op);
int soft_help_mxcsr(struct soft_vcpu *v, const struct soft_op *op);
int soft_help_simd(struct soft_vcpu *v, const struct soft_op *op);
int soft_help_simd_fp(struct soft_vcpu *v, const struct soft_op *op);
int soft_help_simd_gpr(struct soft_vcpu *v, const struct soft_op *op);
int soft_help_simd_count(struct soft_vcpu *v, const struct soft_op *op);
int soft_help_mmx_shift(struct soft_vcpu *v, const struct soft_op *op);
int soft_help_simd_shift(struct soft_vcpu *v, const struct soft_op *op);
int soft_help_simd_load(struct soft_vcpu *v, const struct soft_op *op);
int soft_help_simd_store(struct soft_vcpu *v, const struct soft_op *op);
int soft_help_simd_mov(struct soft_vcpu *v, const struct soft_op *op);
int soft_help_maskmov(struct soft_vcpu *v, const struct soft_op *op);
int soft_help_mmx(struct soft_vcpu *v, const struct soft_op *op);
int soft_help_mmx_mov(struct soft_vcpu *v, const struct soft_op *op);
int soft_help_emms(struct soft_vcpu *v, const struct soft_op *op);
int soft_help_clflush(struct soft_vcpu *v, const struct soft_op *op);

#endif
