// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The dispatch loop: executes decoded blocks until a trap, the end of the chunk or an event. run.c
 * calls emu_exec().
 *
 * It is threaded code: each op holds the address of its handler's label, and each handler ends in
 * its own indirect jump. The handlers are in exec_*.h, grouped by kind. They must keep these rules:
 * - A handler that can trap does so before it changes architectural state.
 * - A handler accesses guest memory only through a TLB entry or the slow functions of access.c.
 * - Handlers do not count events. Entering a block adds the sums of the whole block. A trap
 *   subtracts those of the instructions that did not retire (unwind).
 *
 * The locals v, op, left, acc and tlb live in registers. All other state is in the vCPU.
 */
#include <stdlib.h>

#include "vmm/emu/jit/jit.h"
#include "vmm/emu/lbr.h"
#include "vmm/emu/cpu/ops.h"

const void *emu_labels[EMU_NR_OPS];

typedef uint8_t T8;
typedef uint16_t T16;
typedef uint32_t T32;
typedef uint64_t T64;
typedef int8_t S8;
typedef int16_t S16;
typedef int32_t S32;
typedef int64_t S64;

enum { LG8 = 0, LG16 = 1, LG32 = 2, LG64 = 3 };

/* Begins a handler. */
#define OP(n) L_##n:

#define R(i)	    (v->r[i])
#define GET8(i)	    (((const uint8_t *)v->r)[i])
#define GET16(i)    ((uint16_t)R(i))
#define GET32(i)    ((uint32_t)R(i))
#define GET64(i)    (R(i))
#define PUT8(i, x)  (((uint8_t *)v->r)[i] = (uint8_t)(x))
#define PUT16(i, x) (((emu_u16 *)&R(i))->v = (uint16_t)(x))
#define PUT32(i, x) (R(i) = (uint32_t)(x))
#define PUT64(i, x) (R(i) = (x))

#define SEXT(sz, x) ((uint64_t)(int64_t)(S##sz)(x))

#define NEXT                                                                                       \
	do {                                                                                       \
		op++;                                                                              \
		goto * op->h;                                                                      \
	} while (0)
/* A handler of one statement. */
#define DO(n, ...)                                                                                 \
	OP(n)                                                                                      \
	{                                                                                          \
		__VA_ARGS__;                                                                       \
		NEXT;                                                                              \
	}
#define ALL_SIZES(m) m(8) m(16) m(32) m(64)

/* Effective addresses: base form, indexed form. */
#define EAB (R(op->base) + (uint64_t)op->disp)
#define EAX (R(op->base) + (R(op->idx) << op->scale) + (uint64_t)op->disp)

/* The TLB entry of address @a: sizeof(struct emu_tlbe) is 1 << 5. */
#define TLBE(a)                                                                                    \
	((struct emu_tlbe *)((char *)tlb +                                                         \
			     ((a) >> (EMU_PAGE_SHIFT - 5) & ((uint64_t)(EMU_TLB_SIZE - 1) << 5))))
/* The tag for which an access of sz bits at @a hits. An access that crosses a page never hits. */
#define TAG(sz, a) (((a) + (sz) / 8 - 1) & EMU_PAGE_MASK)

#define LOAD(sz, ea, x)                                                                            \
	do {                                                                                       \
		uint64_t a_ = (ea);                                                                \
		const struct emu_tlbe *e_ = TLBE(a_);                                              \
		if (likely(e_->rtag == TAG(sz, a_))) {                                             \
			(x) = ((const emu_u##sz *)(e_->add + a_))->v;                              \
		} else {                                                                           \
			(x) = (T##sz)emu_ld_slow(v, a_, (sz) / 8);                                 \
			if (unlikely(v->trap))                                                     \
				goto trap;                                                         \
		}                                                                                  \
	} while (0)

#define STORE(sz, ea, x)                                                                           \
	do {                                                                                       \
		uint64_t a_ = (ea);                                                                \
		const struct emu_tlbe *e_ = TLBE(a_);                                              \
		if (likely(e_->wtag == TAG(sz, a_)))                                               \
			((emu_u##sz *)(e_->add + a_))->v = (T##sz)(x);                             \
		else if (unlikely(emu_st_slow(v, a_, (sz) / 8, (T##sz)(x))))                       \
			goto trap;                                                                 \
	} while (0)

/* RMW sets @p to the address at which sz bits may be modified in place. RMW_END must follow it. */
#define RMW(sz, ea, p)                                                                             \
	do {                                                                                       \
		uint64_t a_ = (ea);                                                                \
		const struct emu_tlbe *e_ = TLBE(a_);                                              \
		if (likely(e_->wtag == TAG(sz, a_))) {                                             \
			(p) = (emu_u##sz *)(e_->add + a_);                                         \
		} else {                                                                           \
			(p) = emu_rmw_slow(v, a_, (sz) / 8);                                       \
			if (unlikely(!(p)))                                                        \
				goto trap;                                                         \
		}                                                                                  \
	} while (0)
#define RMW_END(p)                                                                                 \
	do {                                                                                       \
		if (unlikely((const void *)(p) == v->bounce.buf))                                  \
			emu_rmw_commit(v);                                                         \
	} while (0)

/* Continue in block blk, which must be valid in the current mapping. */
#define ENTER                                                                                      \
	do {                                                                                       \
		left -= blk->step;                                                                 \
		if (unlikely(left < 0))                                                            \
			goto chunk_end;                                                            \
		v->cur = blk;                                                                      \
		acc += blk->sum;                                                                   \
		op = blk->ops;                                                                     \
		goto * op->h;                                                                      \
	} while (0)
#define TAKEN(o)                                                                                   \
	do {                                                                                       \
		blk = (o)->taken;                                                                  \
		if (unlikely(blk->ctx != v->tctx))                                                 \
			goto relink_taken;                                                         \
		acc += EMU_TAKEN_SUM;                                                              \
		ENTER;                                                                             \
	} while (0)
#define FALL(o)                                                                                    \
	do {                                                                                       \
		blk = (o)->fall;                                                                   \
		if (unlikely(blk->ctx != v->ctx))                                                  \
			goto relink_fall;                                                          \
		ENTER;                                                                             \
	} while (0)
#define BRANCH(cond, o)                                                                            \
	do {                                                                                       \
		if (cond)                                                                          \
			TAKEN(o);                                                                  \
		FALL(o);                                                                           \
	} while (0)
/* A transfer to a non-canonical address raises #GP at the transferring instruction, before any
 * effect. */
#define TARGET(to)                                                                                 \
	do {                                                                                       \
		if (unlikely(!emu_canonical(to))) {                                                \
			emu_gp(v, 0);                                                              \
			goto trap;                                                                 \
		}                                                                                  \
	} while (0)
/* An indirect transfer. */
#define INDIRECT(to)                                                                               \
	do {                                                                                       \
		v->rip = (to);                                                                     \
		acc += EMU_TAKEN_SUM;                                                              \
		blk = v->jc[emu_jc_index(v->rip)];                                                 \
		if (unlikely(blk->rip != v->rip || blk->ctx != v->tctx))                           \
			goto indirect;                                                             \
		ENTER;                                                                             \
	} while (0)

/* Conditions, on a SUB-like state (a, b) or a sign-extended result a. */
#define CC_B(a, b)   ((a) < (b))
#define CC_AE(a, b)  ((a) >= (b))
#define CC_E(a, b)   ((a) == (b))
#define CC_NE(a, b)  ((a) != (b))
#define CC_BE(a, b)  ((a) <= (b))
#define CC_A(a, b)   ((a) > (b))
#define CC_L(a, b)   ((int64_t)(a) < (int64_t)(b))
#define CC_GE(a, b)  ((int64_t)(a) >= (int64_t)(b))
#define CC_LE(a, b)  ((int64_t)(a) <= (int64_t)(b))
#define CC_G(a, b)   ((int64_t)(a) > (int64_t)(b))
#define CC_RE(a, b)  ((a) == 0)
#define CC_RNE(a, b) ((a) != 0)
#define CC_RS(a, b)  ((int64_t)(a) < 0)
#define CC_RNS(a, b) ((int64_t)(a) >= 0)

static __attribute__((noinline)) bool emu_cc_slow(struct emu_vcpu *v, unsigned int cc)
{
	v->extra += EMU_EFFORT_FLAGS;
	return emu_cc(v, cc);
}

/* A call of a non-canonical address raises #GP and leaves RSP unchanged. Intel's CPUs first store
 * the return address; if the stack is not writable, they report that fault instead. */
static __attribute__((noinline, cold)) void emu_call_nowhere(struct emu_vcpu *v,
							     const struct emu_op *op)
{
	if (v->intel && emu_st_slow(v, v->r[EMU_RSP] - 8, 8, (uint64_t)op->imm))
		return;
	emu_gp(v, 0);
}

/* Remove the instruction of @op and all later ones of its block from the counts, and set v->rip to
 * the address of that instruction. */
static void unwind(struct emu_vcpu *v, const struct emu_op *op)
{
	const struct emu_block *b = v->cur;
	const struct emu_op *start = b->ops, *o;
	uint64_t rip = b->rip;

	for (o = b->ops + 1; o <= op; o++)
		if (o->len) {
			rip += start->len;
			start = o;
		}
	for (o = start; o < b->ops + b->nr_ops; o++)
		if (o->len) {
			v->left += emu_ev_step(o->ev);
			v->acc -= emu_ev_sum(o->ev);
		}
	v->rip = rip;
	if (v->trap == EMU_TRAP_FAULT && v->fault.canon && (op->flags & EMU_OPF_SS))
		v->fault.vec = EMU_STACK;
}

static struct label {
	const void *h;
	uint16_t code;
} by_label[EMU_NR_OPS];

static int label_cmp(const void *a, const void *b)
{
	uintptr_t x = (uintptr_t)((const struct label *)a)->h;
	uintptr_t y = (uintptr_t)((const struct label *)b)->h;

	return (x > y) - (x < y);
}

void emu_exec_init(void)
{
	emu_exec(NULL, NULL, 0);
	for (unsigned int i = 0; i < EMU_NR_OPS; i++)
		by_label[i] = (struct label){emu_labels[i], (uint16_t)i};
	qsort(by_label, EMU_NR_OPS, sizeof(by_label[0]), label_cmp);
}

unsigned int emu_opcode(const void *label)
{
	const struct label key = {label, 0};
	const struct label *l = bsearch(&key, by_label, EMU_NR_OPS, sizeof(by_label[0]), label_cmp);

	return l->code;
}

/* emu_exec(NULL, NULL, 0) fills emu_labels. */
void emu_exec(struct emu_vcpu *v, struct emu_block *blk, unsigned int from)
{
	static const void *const labels[] = {
#define X(n) &&L_##n
		EMU_OPS(X),
#undef X
	};
	const struct emu_op *op;
	struct emu_tlbe *tlb;
	int64_t left;
	uint64_t acc;

	if (unlikely(!v)) {
		for (unsigned int i = 0; i < EMU_NR_OPS; i++)
			emu_labels[i] = labels[i];
		return;
	}
	tlb = v->tlb;
	/* The block fits in the chunk, or the caller has patched a STOP into it. */
	left = v->left - blk->step;
	acc = blk->sum;
	v->cur = blk;
	for (op = blk->ops; op < blk->ops + from; op++)
		if (op->len) {
			left += emu_ev_step(op->ev);
			acc -= emu_ev_sum(op->ev);
		}
	goto * op->h;

#include "vmm/emu/cpu/exec_alu.h"
#include "vmm/emu/cpu/exec_mov.h"
#include "vmm/emu/cpu/exec_branch.h"

trap:
	v->left = left;
	v->acc = acc;
	unwind(v, op);
	emu_fold(v);
	return;

relink_taken:
	/* The link is missing or is from another mapping, or branches are recorded. */
	acc += EMU_TAKEN_SUM;
	if (v->lbr_sel) {
		emu_lbr_taken(v, v->cur->target, acc);
		if (likely(blk->ctx == v->ctx))
			ENTER;
	}
	v->link = (struct emu_block **)&(op + (op->flags & EMU_OPF_FUSED))->taken;
	v->rip = v->cur->target;
	goto find;
relink_fall:
	v->link = (struct emu_block **)&(op + (op->flags & EMU_OPF_FUSED))->fall;
	v->rip = v->cur->next;
	goto find;
indirect:
	if (v->lbr_sel) {
		emu_lbr_taken(v, v->rip, acc);
		if (likely(blk->rip == v->rip && blk->ctx == v->ctx))
			ENTER;
	}
find:
	/* Fetch nothing more at the end of the chunk: an alarm, the end of the budget or a debug
	 * trap may be due, and these come before a fault of the next fetch. */
	if (unlikely(left <= EMU_LEFT_LOW)) {
		v->link = NULL;
		goto out;
	}
	blk = emu_find(v);
	if (likely(blk && !(v->attn & (EMU_ATTN_DENSE | EMU_ATTN_SPENT))))
		ENTER;
	goto out;
chunk_end:
	left += blk->step;
	v->rip = blk->rip;
out:
	v->left = left;
	v->acc = acc;
	emu_fold(v);
}
