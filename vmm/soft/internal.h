/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Functions the soft machine's files offer each other. All of them belong to the thread that runs
 * the vCPU unless said otherwise. "Traps" means: returns non-zero (or NULL) with v->trap set, and
 * nothing architectural has changed.
 */
#ifndef VMM_SOFT_INTERNAL_H
#define VMM_SOFT_INTERNAL_H

#include "vmm/soft/flags.h"
#include "vmm/soft/soft.h"

/* Vectors. */
enum {
	SOFT_DE = 0,
	SOFT_DB = 1,
	SOFT_NMI = 2,
	SOFT_BP = 3,
	SOFT_UD = 6,
	SOFT_DOUBLE = 8,
	SOFT_TS = 10,
	SOFT_NP = 11,
	SOFT_STACK = 12,
	SOFT_GP = 13,
	SOFT_PF_VEC = 14
};

/* Unaligned, alias-free access to guest memory. */
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

/* Register operands: byte registers are named by their offset in the register file, so that AH is
 * like any other; wider ones by their number. */
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

/* soft_is_ram - whether guest-physical @pa is RAM. Then all of its page is. */
static inline bool soft_is_ram(const struct soft_vm *vm, uint64_t pa)
{
	return likely(pa < vm->low) || vmm_ram_holds(&vm->slots, pa, 1);
}

/* ---- mmu.c ---- */
#define SOFT_ACC_R 0u
#define SOFT_ACC_W 2u /* as in the #PF error code */
#define SOFT_ACC_U 4u
#define SOFT_ACC_X 16u
/* soft_translate - guest-virtual to guest-physical for one byte; sets A and D bits. Traps. On
 * success *perm (may be NULL) has SOFT_ACC_W when a store of this mode needs no further walk. */
int soft_translate(struct soft_vcpu *v, uint64_t va, unsigned int acc, uint64_t *pa,
		   unsigned int *perm);
/* soft_host - host address of @va, inside one page; @acc is R or W, with U for a user access.
 * Stores through it must look for code (soft_code_hit). Traps. */
uint8_t *soft_host(struct soft_vcpu *v, uint64_t va, unsigned int acc);
/* Loads and stores of 1..8 bytes in the current mode, for when the TLB does not answer. */
uint64_t soft_ld_slow(struct soft_vcpu *v, uint64_t va, unsigned int bytes);
int soft_st_slow(struct soft_vcpu *v, uint64_t va, unsigned int bytes, uint64_t x);
/* soft_rmw_slow - where to modify @bytes (up to 16) in place: guest memory, or v->bounce.buf, to
 * be followed by soft_rmw_commit. Traps (NULL). */
void *soft_rmw_slow(struct soft_vcpu *v, uint64_t va, unsigned int bytes);
void soft_rmw_commit(struct soft_vcpu *v);
/* Accesses to system structures and interrupt frames, up to 64 bytes, as supervisor or with @acc
 * SOFT_ACC_U as user; stores may hit code. */
int soft_sys_read(struct soft_vcpu *v, uint64_t va, void *buf, unsigned int bytes,
		  unsigned int acc);
int soft_sys_write(struct soft_vcpu *v, uint64_t va, const void *buf, unsigned int bytes,
		   unsigned int acc);
void soft_tlb_flush(struct soft_vcpu *v);
void soft_tlb_flush_page(struct soft_vcpu *v, uint64_t va);
/* soft_tlb_demote - no store goes to a page with decoded code by the fast path any more. */
void soft_tlb_demote(struct soft_vcpu *v);

/* ---- cache.c ---- */
static inline unsigned int soft_jc_index(uint64_t rip)
{
	return (unsigned int)(rip ^ rip >> SOFT_JC_BITS) & (SOFT_JC_SIZE - 1);
}
int soft_cache_init(struct soft_vcpu *v);
void soft_cache_fini(struct soft_vcpu *v);
/* soft_cache_reset - forget all decoded code. Not while a block executes. */
void soft_cache_reset(struct soft_vcpu *v);
/* soft_find - block at v->rip in the current mode; decodes it when there is none. Traps (fetch
 * faults). Points v->link at it. */
struct soft_block *soft_find(struct soft_vcpu *v);
/* soft_code_hit - whether a store of @bytes at host address @p, inside one page, hits decoded
 * code of any vCPU of the VM. */
bool soft_code_hit(struct soft_vm *vm, const uint8_t *p, unsigned int bytes);
/* soft_code_written - after the store: all blocks of that page are stale. */
void soft_code_written(struct soft_vm *vm, const uint8_t *p, unsigned int bytes);
/* soft_sync - take note of what other vCPUs did to decoded code. At safe points. */
void soft_sync(struct soft_vcpu *v);
/* soft_ack_code - this vCPU holds no host address and no stale fast path to a page of code. */
void soft_ack_code(struct soft_vcpu *v);
/* soft_code_mark - decoded code of @bytes at @pa (inside one page) is about to be cached. Waits
 * until no vCPU of the VM stores to that page by the fast path. */
void soft_code_mark(struct soft_vcpu *v, uint64_t pa, unsigned int bytes);

/* ---- decode.c, emit.c ---- */
enum soft_fclass { /* what the flag state is known to be at a point of a block */
		   SOFT_FC_UNKNOWN = 0,
		   SOFT_FC_SUB,	  /* SOFT_FK_SUB */
		   SOFT_FC_LOGIC, /* SOFT_FK_SUB with b = 0 */
		   SOFT_FC_ADD,	  /* SOFT_FK_ADD */
		   SOFT_FC_RES	  /* a is the result, b something else */
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
	bool crosses; /* its only instruction reaches into the next page */
	bool ended;   /* the last instruction ends the block */
	bool full;    /* nothing more fits behind the last instruction */
	bool solo;    /* ... and must be alone in it */
	bool intel;   /* decode it as Intel's CPUs do */
	enum soft_fclass fclass;
};

/* soft_decode - decode from v->rip (at guest-physical @pa) into @c; the bytes used go to @buf.
 * Traps when the bytes cannot be fetched. */
int soft_decode(struct soft_vcpu *v, uint64_t pa, struct soft_code *c,
		uint8_t buf[SOFT_BLOCK_BYTES]);

struct ZydisDecodedInstruction_;
struct ZydisDecodedOperand_;
/* soft_emit - append the ops of one decoded instruction at @rip. An instruction outside the
 * closed list becomes one that stops the engine when it is reached. */
void soft_emit(struct soft_code *c, uint64_t rip, const struct ZydisDecodedInstruction_ *zi,
	       const struct ZydisDecodedOperand_ *zo);
/* soft_emit_fault - append an instruction of @len bytes that raises #UD, or #GP(0). */
void soft_emit_fault(struct soft_code *c, uint64_t rip, unsigned int len, bool gp);
/* soft_emit_end - close a block whose last instruction does not. */
void soft_emit_end(struct soft_code *c);

/* ---- exec.c ---- */
/* soft_exec - run from the start of @b until a trap, the end of the chunk, or v->attn. */
void soft_exec(struct soft_vcpu *v, struct soft_block *b);
/* Labels by opcode (ops.h), valid after soft_exec_init (any thread, once). */
extern const void *soft_labels[];
void soft_exec_init(void);

/* ---- run.c ---- */
int soft_run(struct soft_vcpu *v, struct vmm_run *run);
/* soft_fold - move what was counted since the last fold to the tally of the current mode. */
void soft_fold(struct soft_vcpu *v);
/* soft_error - the engine cannot go on: VMM_EXIT_ERROR with one line. Returns a trap. */
int soft_error(struct soft_vcpu *v, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* soft_fault - raise exception @vec. Returns a trap. */
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
/* soft_alarm_limit - of @n instructions from the start of @b, as many as can be executed without
 * passing one that makes an armed alarm due (none is yet). At least 1, or all of @b. */
int64_t soft_alarm_limit(const struct soft_vcpu *v, const struct soft_block *b, int64_t n);
/* soft_alarm_decoded - @b was decoded; @alone: a system instruction. */
void soft_alarm_decoded(struct soft_vcpu *v, const struct soft_block *b, bool alone);

/* ---- event.c ---- */
enum soft_event_kind { SOFT_EVENT_FAULT, SOFT_EVENT_TRAP, SOFT_EVENT_EXT, SOFT_EVENT_SOFT };
/* soft_deliver - deliver the fault in v->fault with v->rip as the return address; double and
 * triple faults included. 0, or a trap: SHUTDOWN or an engine error. */
int soft_deliver(struct soft_vcpu *v);
/* soft_interrupt - deliver @vec. Traps when the delivery faults. */
int soft_interrupt(struct soft_vcpu *v, uint8_t vec, enum soft_event_kind kind, bool has_err,
		   uint32_t err);
/* soft_set_cpl - folds what was counted in the old mode first. */
void soft_set_cpl(struct soft_vcpu *v, unsigned int cpl);
/* soft_recheck - IF or TF may have changed: leave the dispatch loop if something waits. */
static inline void soft_recheck(struct soft_vcpu *v)
{
	if (v->intr_pending || v->nmi_pending || (v->rflags & SOFT_TF))
		v->attn |= SOFT_ATTN_EVENT;
}
/* soft_deliverable - whether an interrupt or NMI that waits would be taken now. */
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
int soft_sys_iret(struct soft_vcpu *v, const struct soft_op *op);
int soft_sys_int(struct soft_vcpu *v, const struct soft_op *op);
int soft_sys_retf(struct soft_vcpu *v, const struct soft_op *op);

/* ---- system.c: system instructions (soft_sys_*: 0 retired, 1 trap, 2 retired and leave) ---- */
int soft_sys_ud(struct soft_vcpu *v, const struct soft_op *op);
int soft_sys_gp(struct soft_vcpu *v, const struct soft_op *op);
int soft_sys_closed(struct soft_vcpu *v, const struct soft_op *op);
int soft_sys_cli(struct soft_vcpu *v, const struct soft_op *op);
int soft_sys_sti(struct soft_vcpu *v, const struct soft_op *op);
int soft_sys_hlt(struct soft_vcpu *v, const struct soft_op *op);
int soft_sys_pushf(struct soft_vcpu *v, const struct soft_op *op);
int soft_sys_popf(struct soft_vcpu *v, const struct soft_op *op);
int soft_sys_mov_to_cr(struct soft_vcpu *v, const struct soft_op *op);
int soft_sys_mov_from_cr(struct soft_vcpu *v, const struct soft_op *op);
int soft_sys_mov_to_dr(struct soft_vcpu *v, const struct soft_op *op);
int soft_sys_mov_from_dr(struct soft_vcpu *v, const struct soft_op *op);
int soft_sys_clts(struct soft_vcpu *v, const struct soft_op *op);
int soft_sys_invlpg(struct soft_vcpu *v, const struct soft_op *op);
int soft_sys_wbinvd(struct soft_vcpu *v, const struct soft_op *op);
int soft_set_cr(struct soft_vcpu *v, unsigned int cr, uint64_t x);
/* soft_dr_valid - whether debug register 6 or 7 can hold @x: no breakpoint enabled. */
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
/* soft_read_desc - the 8-byte descriptor of @sel. Traps: #GP(sel | ext) beyond the table. */
int soft_read_desc(struct soft_vcpu *v, uint16_t sel, uint32_t ext, uint64_t *desc);
/* soft_read_cs - a present 64-bit code segment's descriptor; its DPL is not checked. Traps. */
int soft_read_cs(struct soft_vcpu *v, uint16_t sel, uint32_t ext, struct kvm_segment *out);
/* soft_read_ss - a stack segment for @cpl (null is one for CPL 0..2). Traps. */
int soft_read_ss(struct soft_vcpu *v, uint16_t sel, unsigned int cpl, struct kvm_segment *out);
/* soft_flat_seg - a flat segment as SYSCALL and SYSRET load without looking. */
void soft_flat_seg(struct kvm_segment *s, uint16_t sel, unsigned int dpl, bool code);
/* soft_tss - @bytes of the TSS at @off. Traps: #TS beyond its limit. */
int soft_tss(struct soft_vcpu *v, uint32_t off, void *buf, unsigned int bytes, uint32_t ext);

/* ---- irq.c ---- */
/* soft_lapic_on - whether the local APIC is in x2APIC mode. In every other mode it accepts nothing.
 */
bool soft_lapic_on(const struct soft_vcpu *v);
/* soft_lapic - a copy of the APIC's registers, with TPR as CR8 says. */
struct lapic soft_lapic(const struct soft_vcpu *v);
/* soft_lapic_mode - v->apic_base has a new value: an APIC that is off is reset. */
void soft_lapic_mode(struct soft_vcpu *v);
/* soft_lapic_rdmsr / soft_lapic_wrmsr - the guest accesses an MSR of 800H..8FFH. Traps: #GP. */
int soft_lapic_rdmsr(struct soft_vcpu *v, uint32_t msr, uint64_t *x);
int soft_lapic_wrmsr(struct soft_vcpu *v, uint32_t msr, uint64_t x);
/* soft_pmi - see pmi in vmm/engine/engine.h. */
void soft_pmi(struct soft_vcpu *v);
/* soft_irq_update - the APIC, or what is queued, has changed: queue what comes next. */
void soft_irq_update(struct soft_vcpu *v);
/* soft_irq_taken - the queued NMI or vector (intr_pending is clear) was taken. */
void soft_irq_taken(struct soft_vcpu *v);
/* soft_irq_settled - whether soft_irq_update would change nothing, if @l were the APIC, @nmi said
 * whether an NMI is queued and @intr whether @vector is. */
bool soft_irq_settled(const struct lapic *l, bool nmi, bool intr, uint8_t vector);

/* ---- state.c: see get_state and set_state in vmm/engine/engine.h ---- */
int soft_get_state(const struct soft_vcpu *v, void *buf, size_t *bytes);
int soft_set_state(struct soft_vcpu *v, const void *buf, size_t bytes);

/* ---- msr.c ---- */
/* soft_pat_valid - whether IA32_PAT can hold @x. */
bool soft_pat_valid(uint64_t x);
/* soft_tsc - what RDTSC reads now. */
uint64_t soft_tsc(const struct soft_vcpu *v);
int soft_sys_cpuid(struct soft_vcpu *v, const struct soft_op *op);
int soft_sys_rdtsc(struct soft_vcpu *v, const struct soft_op *op);
int soft_sys_rdmsr(struct soft_vcpu *v, const struct soft_op *op);
int soft_sys_wrmsr(struct soft_vcpu *v, const struct soft_op *op);
int soft_sys_rdpmc(struct soft_vcpu *v, const struct soft_op *op);
int soft_sys_in(struct soft_vcpu *v, const struct soft_op *op);
int soft_sys_out(struct soft_vcpu *v, const struct soft_op *op);

/* ---- arith.c, bits.c, string.c: the rarer instructions (soft_help_*: 0 done, 1 trap) ---- */
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
int soft_help_enter(struct soft_vcpu *v, const struct soft_op *op);
int soft_help_fence(struct soft_vcpu *v, const struct soft_op *op);
int soft_help_string(struct soft_vcpu *v, const struct soft_op *op);

#endif
